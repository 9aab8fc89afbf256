#pragma once
/// The tester's communication manager, as far as a fuzzer needs one: messages at queue pair 1, by their tables. What
/// each side knows of a connection stands in KnownObjects; what is wrong in a message, in its step.

#include <cstdint>
#include <vector>

#include "conformance/device/addresses.hpp"
#include "conformance/fuzzer/script.hpp"

namespace rdmawire::fuzzer {

/// The CM's messages have these attributes, from REQ to APR. IBTA vol 1, 12.6.2, number unverified.
inline constexpr std::int64_t first_cm_message = 0x10, last_cm_message = 0x1a;
/// Where the device's consumer listens, and where the tester would.
inline constexpr std::uint16_t cm_port = 7000;

/// What both ends call a connection.
struct KnownConnection {
  std::uint32_t tester_id = 0;  ///< the tester's Local Communication ID, of the last connection in that place
  std::uint32_t device_id = 0;  ///< the device's; 0: not known
  friend bool operator==(const KnownConnection&, const KnownConnection&) = default;
};

/// The management datagram of a step of kind `cm`, from the tester's address to the device's.
std::vector<std::uint8_t> cm_datagram(const Step& step, const KnownConnection& known, const device::Gid& from,
                                      const device::Gid& to);

}  // namespace rdmawire::fuzzer
