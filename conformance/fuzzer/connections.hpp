#pragma once
/// The tester's communication manager, as far as a fuzzer needs one: messages at queue pair 1, by their tables. What
/// each side knows of a connection stands in KnownObjects; what is wrong in a message, in its step.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "conformance/device/roce/addresses.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::fuzzer {

/// The CM's messages have these attributes, from REQ to APR. IBTA vol 1, 12.6.2, number unverified.
inline constexpr std::int64_t first_cm_message = 0x10, last_cm_message = 0x1a;
/// Where the device's consumer listens, and where the tester would.
inline constexpr std::uint16_t cm_port = 7000;

/// What both ends call a connection.
struct KnownConnection {
  /// Codes of 4.096 µs times a power of two: how long a side waits for the other's next message. A device in real time
  /// is not to give up while the tester thinks.
  static constexpr std::uint8_t usual = 12, patient = 20;

  std::uint32_t tester_id = 0;     ///< the tester's Local Communication ID, of the last connection in that place
  std::uint32_t device_id = 0;     ///< the device's; 0: not known
  bool fresh_queue_pairs = false;  ///< the tester has another one for each connection: kernels remember the last ones
  std::uint8_t timeout = usual;
  friend bool operator==(const KnownConnection&, const KnownConnection&) = default;
};

/// The tester's queue pair in that place; of the connection with that id, where each has another one.
std::uint32_t tester_queue_pair(std::uint32_t id, std::size_t at);

/// The management datagram of a step of kind `cm`, from the tester's address to the device's.
std::vector<std::uint8_t> cm_datagram(const Step& step, const KnownConnection& known, const device::Gid& from,
                                      const device::Gid& to);

/// What a message of the CM's in a frame says of its connection. What it has no field for is 0.
struct CmMessage {
  std::uint16_t attribute = 0;
  std::uint32_t local_id = 0, remote_id = 0, local_qpn = 0, starting_psn = 0;
  std::uint8_t path_mtu = 0;
};
/// Nothing: there is none in it.
std::optional<CmMessage> cm_message_in(Bytes frame);
/// The attributes of those in these frames that a device owes, in order: no MRA, which is up to who needs time (IBTA
/// vol 1, 12.6.6, number unverified), and no APR, since it may have no alternate paths: Linux has none with RoCE.
std::vector<std::uint16_t> messages_among(std::span<const std::vector<std::uint8_t>> frames);

}  // namespace rdmawire::fuzzer
