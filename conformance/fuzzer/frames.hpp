#pragma once
/// Creates the frames of steps: the tester's packets with their mutations. Checksums are valid unless they are mutated.

#include <cstdint>
#include <vector>

#include "conformance/device/roce/packet.hpp"
#include "conformance/device/roce/port.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::fuzzer {

struct KnownObjects;

/// QP number of the tester, except for connections through the CM (tester_queue_pair).
inline constexpr std::uint32_t tester_qpn = 0x100;
inline constexpr std::uint32_t usual_qkey = 0x11, gsi_qkey = 0x80010000;
/// Q_Key for work requests. Its high bit is set, so the device sends the queue pair's Q_Key. IBTA vol 1, 10.2.5.
inline constexpr std::uint32_t privileged_qkey = 0x80000005;
/// Value of Step::service for QP 1, in addition to device::QpType.
inline constexpr std::int64_t gsi_service = 5;
/// Remote address and key in the device's WRITEs and READs.
inline constexpr std::uint64_t tester_address = 0x5000;
inline constexpr std::uint32_t tester_key = 0x77;

/// Return the port of the tester that is the peer of this device port.
device::Port tester_port(const device::Port& device);

/// Values of the device's state that relative fields of a packet are added to, and the address type of the QP.
struct Bases {
  Psn request{}, answer{};
  bool ipv6 = false, roce_v1 = false;  ///< address type of the connected queue pair
  std::uint32_t drawn = 0;             ///< starting PSN that the device's CM chose, minus that of the reference device
};

/// Addresses of the device. Default: those of reference_options().
struct DeviceAddresses {
  device::Gid ipv4 = device::Gid::ipv4(0x0a000001), other_ipv4 = device::Gid::ipv4(0x0a000055);
};

class FrameMaker {
 public:
  explicit FrameMaker(device::Port port, const DeviceAddresses& addresses = {})
      : port_(std::move(port)), addresses_(addresses) {}

  /// Store the frames to send for a packet step, if any, in `frames`.
  void make(const Step& step, const KnownObjects& objects, const Bases& bases,
            std::vector<std::vector<std::uint8_t>>& frames);
  /// Return the frame without mutations.
  std::vector<std::uint8_t> plain(const Step& step, const KnownObjects& objects, const Bases& bases) const;
  void clear() {
    delayed_.clear();
    before_.clear();
  }

 private:
  device::Port port_;
  DeviceAddresses addresses_;
  std::vector<std::uint8_t> delayed_;  ///< frame to send after the next one
  std::vector<std::uint8_t> before_;   ///< frame that was sent last
};

/// Apply mutations to an Ethernet frame. Returns false if the frame must not be sent. `before`: the previous frame.
bool apply(std::span<const Mutation> mutations, std::vector<std::uint8_t>& frame, Bytes before);

}  // namespace rdmawire::fuzzer
