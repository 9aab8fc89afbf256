#pragma once
/// Encodes and decodes the CM's management datagrams. IBTA vol 1, 13.4.3, 12.6, A11.6.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/device/roce/cm.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::device {

/// A received CM message. `body` starts after the MAD header. Fields that the message does not have are 0.
struct CmIncoming {
  std::uint16_t attribute = 0;
  std::uint64_t transaction = 0;
  std::uint32_t local_id = 0, remote_id = 0;  ///< Communication IDs of the sender and of the receiver
  Bytes body;
};

namespace cm_attribute {
inline constexpr std::uint16_t req = 0x10, mra = 0x11, rej = 0x12, rep = 0x13, rtu = 0x14, dreq = 0x15, drep = 0x16,
                               sidr_req = 0x17, sidr_rep = 0x18, lap = 0x19, apr = 0x1a;
}

/// Contents of a REQ.
struct CmRequest {
  CmPeer peer;
  std::uint64_t service_id = 0;
  bool by_ip = false;  ///< true: the private data starts with a valid RDMA-CM header
  CmEndpoint from, to;
  Gid local_gid, remote_gid;  ///< primary path: GIDs of the sender and of the receiver
  std::uint16_t local_lid = 0, remote_lid = 0;
  std::uint16_t pkey = 0;
  std::uint8_t service_type = 0;
  std::uint8_t remote_response_timeout = 0, local_response_timeout = 0;  ///< codes for the receiver and the sender
  std::uint8_t retries = 0;
  std::uint8_t hop_limit = 0, traffic_class = 0, sl = 0;
};

/// Decode a CM message. `mad`: 256 bytes of class Communication Management.
CmIncoming read_cm(Bytes mad);
CmRequest read_request(const CmIncoming& message);
CmPeer read_reply(const CmIncoming& message);

// Each of the following functions returns a complete management datagram of 256 bytes.
std::vector<std::uint8_t> request_of(const CmConnection& at, const CmSettings& settings, std::uint8_t mtu_code,
                                     bool reliable, const Gid& own);
std::vector<std::uint8_t> reply_of(const CmConnection& at, const CmSettings& settings);
/// Return an RTU or a DREP, which have the same format.
std::vector<std::uint8_t> short_of(const CmConnection& at, std::uint16_t attribute, std::uint64_t transaction);
std::vector<std::uint8_t> disconnect_of(const CmConnection& at);
std::vector<std::uint8_t> mra_of(const CmConnection& at, const CmSettings& settings);
/// Return a REJ. `rejected`: code of the rejected message: 0 REQ, 1 REP, 2 none.
std::vector<std::uint8_t> rejection_of(std::uint32_t local_id, std::uint32_t remote_id, std::uint64_t transaction,
                                       std::uint8_t rejected, std::uint8_t reason, Bytes private_data = {},
                                       Bytes additional = {});
/// Return a DREP, APR or SIDR_REP for an unknown connection or service.
std::vector<std::uint8_t> response_to_unknown(const CmIncoming& message, bool known);
/// Return QP 1's response to a Get or Set of communication management: ClassPortInfo or an error status. 13.4.8.1,
/// 13.4.7.
std::vector<std::uint8_t> class_port_info(Bytes mad, const CmSettings& settings);

/// Return the device's GUID, which is its MAC address as EUI-64.
std::uint64_t guid_of(const Mac& mac);
/// Return the code of the Local ACK Timeout of a path. The timeout is twice the packet lifetime plus the responder's CA
/// delay, rounded up. 12.7.34.
std::uint8_t ack_timeout_code(std::uint8_t packet_lifetime, std::uint8_t ack_delay);
/// Return RDMA-CM's service ID of a TCP port. A11.6.1 (clause number not verified).
constexpr std::uint64_t service_of_port(std::uint16_t port) { return 0x0000000001060000ULL | port; }

}  // namespace rdmawire::device
