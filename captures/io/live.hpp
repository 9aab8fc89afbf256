#pragma once
/// Live capture with libpcap, from any device that libpcap supports, including rdmasniff.

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

/// A device from which libpcap can capture.
struct Device {
  std::string name;
  std::string description;             ///< may be empty
  std::vector<std::string> addresses;  ///< IPv4 and IPv6, as text
  bool loopback = false;
  bool up = false;
  bool running = false;
};

/// Captures packets from one device until it is stopped.
class LiveCapture {
 public:
  struct Options {
    std::uint32_t snap_length = 262144;    ///< maximum number of bytes that are kept of each packet
    bool promiscuous = true;               ///< also captures packets for other hosts
    std::string filter = {};               ///< libpcap filter expression (empty: all packets)
    std::uint32_t buffer_size = 16 << 20;  ///< size of the kernel buffer in bytes
    std::int64_t patience = 100'000'000;   ///< maximum time that next() waits, in nanoseconds
    bool immediate = false;                ///< delivers packets immediately and not in batches
  };

  /// Returns all devices that this process can see. If the permission to capture is missing, usually only open()
  /// reports it.
  static tl::expected<std::vector<Device>, CaptureError> devices();

  /// Starts capturing, with nanosecond timestamps if the device supports them. Errors are an unknown device, denied
  /// access, and Kind::filter for an invalid filter expression.
  static tl::expected<LiveCapture, CaptureError> open(const std::string& device, const Options& options);
  static tl::expected<LiveCapture, CaptureError> open(const std::string& device) { return open(device, Options{}); }

  /// Checks whether `filter` is valid for packets of link type `link`.
  static tl::expected<void, CaptureError> check_filter(const std::string& filter, LinkType link);

  LiveCapture(LiveCapture&&) noexcept;
  LiveCapture& operator=(LiveCapture&&) noexcept;
  ~LiveCapture();

  /// Returns Next::record, Next::timeout if no packet arrives within Options::patience, Next::end after stop(), or
  /// Next::error. The record's bytes are valid until the next call.
  Next next(Record& record);
  [[nodiscard]] const CaptureError& error() const;

  /// Makes next() return Next::end soon. Other threads and signal handlers may call it.
  void stop() noexcept;

  /// Returns libpcap's counters since open(): received (ps_recv), system_drops (ps_drop), interface_drops (ps_ifdrop),
  /// and delivered, the number of records that next() returned. On Linux, ps_recv is the number of packets that passed
  /// the filter, including dropped ones.
  [[nodiscard]] tl::expected<InterfaceStatistics, CaptureError> statistics();

  /// Returns a description of the device for Writer::add_interface.
  [[nodiscard]] const Interface& interface() const;
  [[nodiscard]] bool nanoseconds() const;

 private:
  struct State;
  explicit LiveCapture(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures
