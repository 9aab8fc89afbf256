#pragma once
/// Live capture with libpcap, from any of its devices including rdmasniff.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "captures/io/error.hpp"
#include "captures/io/reader.hpp"
#include "captures/io/record.hpp"

namespace rdmawire::captures {

/// A device that libpcap can capture from.
struct Device {
  std::string name;
  std::string description;             ///< may be empty
  std::vector<std::string> addresses;  ///< IPv4 and IPv6, as text
  bool loopback = false;
  bool up = false;
  bool running = false;
};

/// Captures packets from one device until stopped.
class LiveCapture {
 public:
  struct Options {
    std::uint32_t snap_length = 262144;    ///< maximum bytes kept per packet
    bool promiscuous = true;               ///< capture packets for other hosts too
    std::string filter = {};               ///< libpcap filter expression (empty: all packets)
    std::uint32_t buffer_size = 16 << 20;  ///< kernel buffer, bytes
    std::int64_t patience = 100'000'000;   ///< maximum time that next() waits, nanoseconds
    bool immediate = false;                ///< deliver packets immediately instead of in batches
  };

  /// Returns all devices visible to this process. Missing permission to capture is usually reported only by open().
  static tl::expected<std::vector<Device>, CaptureError> devices();

  /// Starts capturing, with nanosecond timestamps if the device supports them. Errors: unknown device, access denied,
  /// or Kind::filter for an invalid filter expression.
  static tl::expected<LiveCapture, CaptureError> open(const std::string& device, const Options& options);
  static tl::expected<LiveCapture, CaptureError> open(const std::string& device) { return open(device, Options{}); }

  /// Checks whether `filter` compiles for packets of `link`.
  static tl::expected<void, CaptureError> check_filter(const std::string& filter, LinkType link);

  LiveCapture(LiveCapture&&) noexcept;
  LiveCapture& operator=(LiveCapture&&) noexcept;
  ~LiveCapture();

  /// Returns Next::record, Next::timeout after Options::patience without a packet, Next::end after stop(), or
  /// Next::error. The record's bytes are valid until the next call.
  Next next(Record& record);
  [[nodiscard]] const CaptureError& error() const;

  /// Makes next() return Next::end soon. Safe in other threads and in signal handlers.
  void stop() noexcept;

  /// libpcap's counters since open(): received (ps_recv), system_drops (ps_drop), interface_drops (ps_ifdrop), and
  /// delivered (records that next() returned). On Linux ps_recv counts packets that passed the filter, including drops.
  [[nodiscard]] tl::expected<InterfaceStatistics, CaptureError> statistics();

  /// Description of the device for Writer::add_interface.
  [[nodiscard]] const Interface& interface() const;
  [[nodiscard]] bool nanoseconds() const;

 private:
  struct State;
  explicit LiveCapture(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures
