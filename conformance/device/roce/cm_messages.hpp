#pragma once
/// Management datagrams of the communication manager, byte by byte. IBTA vol 1, 13.4.3, 12.6; A11.6.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/device/roce/cm.hpp"
#include "conformance/device/roce/faults.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device {

/// A CM message that arrived; `body` begins behind the MAD header. What the message does not have is 0.
struct CmIncoming {
  std::uint16_t attribute = 0;
  std::uint64_t transaction = 0;
  std::uint32_t local_id = 0, remote_id = 0;  ///< the sender's and the receiver's
  Bytes body;
};

namespace cm_attribute {
inline constexpr std::uint16_t req = 0x10, mra = 0x11, rej = 0x12, rep = 0x13, rtu = 0x14, dreq = 0x15, drep = 0x16,
                               sidr_req = 0x17, sidr_rep = 0x18, lap = 0x19, apr = 0x1a;
}

/// A connection as a REQ asks for it.
struct CmRequest {
  CmPeer peer;
  std::uint64_t service_id = 0;
  bool by_ip = false;  ///< RDMA-CM's header stands before the private data, and is one
  CmEndpoint from, to;
  Gid local_gid, remote_gid;  ///< of the primary path: the sender's and ours
  std::uint16_t local_lid = 0, remote_lid = 0;
  std::uint16_t pkey = 0;
  std::uint8_t service_type = 0;
  std::uint8_t remote_response_timeout = 0, local_response_timeout = 0;  ///< codes: ours and the sender's
  std::uint8_t retries = 0;
  std::uint8_t hop_limit = 0, traffic_class = 0, sl = 0;
};

/// `mad`: 256 bytes of class Communication Management.
CmIncoming read_cm(Bytes mad);
CmRequest read_request(const CmIncoming& message);
CmPeer read_reply(const CmIncoming& message);

// Whole management datagrams, of 256 bytes.
std::vector<std::uint8_t> request_of(const CmConnection& at, const CmSettings& settings, std::uint8_t mtu_code,
                                     bool reliable, const Gid& own);
std::vector<std::uint8_t> reply_of(const CmConnection& at, const CmSettings& settings, const Faults& faults);
/// RTU and DREP, which are alike.
std::vector<std::uint8_t> short_of(const CmConnection& at, std::uint16_t attribute, std::uint64_t transaction);
std::vector<std::uint8_t> disconnect_of(const CmConnection& at);
std::vector<std::uint8_t> receipt_of(const CmConnection& at, const CmSettings& settings);
/// `rejected`: 0 a REQ, 1 a REP, 2 no message.
std::vector<std::uint8_t> rejection_of(std::uint32_t local_id, std::uint32_t remote_id, std::uint64_t transaction,
                                       std::uint8_t rejected, std::uint8_t reason, Bytes private_data = {},
                                       Bytes additional = {});
/// DREP, APR or SIDR_REP for something that nobody knows.
std::vector<std::uint8_t> answer_to_stranger(const CmIncoming& message, bool known);
/// What QP1 says to a Get or Set of communication management: its ClassPortInfo, or why not. 13.4.8.1, 13.4.7.
std::vector<std::uint8_t> class_port_info(Bytes mad, const CmSettings& settings);

/// The GUID of the device: its MAC address as EUI-64.
std::uint64_t guid_of(const Mac& mac);
/// The Local ACK Timeout of a path: twice the packet's lifetime and the delay of the channel adapter that answers,
/// rounded up to a code. 12.7.34.
std::uint8_t ack_timeout_code(std::uint8_t packet_lifetime, std::uint8_t ack_delay);
/// RDMA-CM's service ID of a TCP port. A11.6.1 (number unverified).
constexpr std::uint64_t service_of_port(std::uint16_t port) { return 0x0000000001060000ULL | port; }

}  // namespace rdmawire::device
