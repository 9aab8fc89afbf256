#pragma once
/// From steps to frames: what the tester says, with its lies, and checksums that are right for them unless they are
/// part of the lie.

#include <cstdint>
#include <vector>

#include "conformance/device/roce/packet.hpp"
#include "conformance/device/roce/port.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::fuzzer {

struct KnownObjects;

/// The tester's queue pair.
inline constexpr std::uint32_t tester_qpn = 0x100;
inline constexpr std::uint32_t usual_qkey = 0x11, gsi_qkey = 0x80010000;
/// With its high bit, of a work request: the queue pair's own is sent. IBTA vol 1, 10.2.5.
inline constexpr std::uint32_t privileged_qkey = 0x80000005;
/// Step::service of queue pair 1, beside those of device::QpType.
inline constexpr std::int64_t gsi_service = 5;
/// Where the device's own WRITEs and READs go.
inline constexpr std::uint64_t tester_address = 0x5000;
inline constexpr std::uint32_t tester_key = 0x77;

/// The tester's port: beside a device of reference_options().
device::Port tester_port(const device::Port& device);

/// What a packet's numbers count from.
struct Bases {
  Psn request{}, answer{};
  bool ipv6 = false, roce_v1 = false;  ///< how the queue pair is connected
  std::uint32_t drawn = 0;  ///< a real device's CM drew a PSN for requests that is so far beyond the reference device's
};

/// Where the device is reached; those of reference_options() unless they are said.
struct DeviceAddresses {
  device::Gid ipv4 = device::Gid::ipv4(0x0a000001), other_ipv4 = device::Gid::ipv4(0x0a000055);
};

class FrameMaker {
 public:
  explicit FrameMaker(device::Port port, const DeviceAddresses& addresses = {})
      : port_(std::move(port)), addresses_(addresses) {}

  /// The frames that a packet's step sends now; empty where it sends none.
  void make(const Step& step, const KnownObjects& objects, const Bases& bases,
            std::vector<std::vector<std::uint8_t>>& frames);
  /// The frame before it is changed.
  std::vector<std::uint8_t> plain(const Step& step, const KnownObjects& objects, const Bases& bases) const;
  void clear() {
    held_.clear();
    before_.clear();
  }

 private:
  device::Port port_;
  DeviceAddresses addresses_;
  std::vector<std::uint8_t> held_;    ///< goes behind the next one
  std::vector<std::uint8_t> before_;  ///< the one that was sent last
};

/// Changes a frame of Ethernet; false: it is not to be sent. `before`: the frame that was sent last.
bool apply(std::span<const Mutation> mutations, std::vector<std::uint8_t>& frame, Bytes before);

}  // namespace rdmawire::fuzzer
