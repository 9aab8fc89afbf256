#pragma once
/// Encodes and decodes the tester's CM messages. Their identifiers come from KnownObjects, and their mutations from the
/// step.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "conformance/device/roce/addresses.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::fuzzer {

/// Attributes of CM messages, from REQ to APR. IBTA vol 1, 12.6.2 (clause number not verified).
inline constexpr std::int64_t first_cm_message = 0x10, last_cm_message = 0x1a;
/// Port of the device's listener, and of the tester's listener.
inline constexpr std::uint16_t cm_port = 7000;

/// Identifiers of a connection.
struct KnownConnection {
  /// Timeout codes (4.096 us * 2^code) for the next message of the peer. The long timeout is for devices in real time,
  /// which would otherwise give up.
  static constexpr std::uint8_t usual = 12, patient = 20;

  std::uint32_t tester_id = 0;  ///< Local Communication ID of the tester's last connection in this slot
  std::uint32_t device_id = 0;  ///< ID of the device. 0: unknown
  bool fresh_queue_pairs =
      false;  ///< use a new tester QP number for each connection, because kernels remember previous ones
  std::uint8_t timeout = usual;
  friend bool operator==(const KnownConnection&, const KnownConnection&) = default;
};

/// Return the tester's QP number for the slot `at`. `id`: the tester's connection ID, if each connection has its own QP
/// number, otherwise 0.
std::uint32_t tester_queue_pair(std::uint32_t id, std::size_t at);

/// Return the management datagram of a step of kind `cm`, sent by the tester to the device.
std::vector<std::uint8_t> cm_datagram(const Step& step, const KnownConnection& known, const device::Gid& from,
                                      const device::Gid& to);

/// Contents of a CM message. Fields that the message does not have are 0.
struct CmMessage {
  std::uint16_t attribute = 0;
  std::uint32_t local_id = 0, remote_id = 0, local_qpn = 0, starting_psn = 0;
  std::uint8_t path_mtu = 0;
};
/// Return the CM message of the frame, if it contains one.
std::optional<CmMessage> cm_message_in(Bytes frame);
/// Return the attributes of the mandatory CM messages in these frames, in order. MRA and APR are omitted: MRA is
/// optional (IBTA vol 1, 12.6.6, clause number not verified), and APR requires alternate paths, which Linux lacks for
/// RoCE.
std::vector<std::uint16_t> messages_among(std::span<const std::vector<std::uint8_t>> frames);

}  // namespace rdmawire::fuzzer
