#pragma once
/// Live capture through libpcap: any of its devices, rdmasniff's included.

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
    std::uint32_t snap_length = 262144;    ///< bytes kept of a packet
    bool promiscuous = true;               ///< packets for others too
    std::string filter = {};               ///< in libpcap's language; empty: everything
    std::uint32_t buffer_size = 16 << 20;  ///< bytes that the kernel may hold for us
    std::int64_t patience = 100'000'000;   ///< nanoseconds that next() waits at most
    bool immediate = false;                ///< hand packets over at once instead of in bunches
  };

  /// All devices this process may see. Not being permitted to capture usually shows when opening, not here.
  static tl::expected<std::vector<Device>, CaptureError> devices();

  /// Begins capturing, with nanoseconds where the device has them. An error: no such device, not permitted, or
  /// Kind::filter with what is wrong in the expression.
  static tl::expected<LiveCapture, CaptureError> open(const std::string& device, const Options& options);
  static tl::expected<LiveCapture, CaptureError> open(const std::string& device) { return open(device, Options{}); }

  /// Whether `filter` is an expression that can be compiled for packets of `link`; the error says what is wrong.
  static tl::expected<void, CaptureError> check_filter(const std::string& filter, LinkType link);

  LiveCapture(LiveCapture&&) noexcept;
  LiveCapture& operator=(LiveCapture&&) noexcept;
  ~LiveCapture();

  /// Next::record, Next::timeout when nothing arrived within Options::patience, Next::end after stop(), or Next::error.
  /// The record's bytes are valid until the next call.
  Next next(Record& record);
  [[nodiscard]] const CaptureError& error() const;

  /// Makes next() return Next::end soon. May be called from another thread and from a signal handler.
  void stop() noexcept;

  /// libpcap's counters since open(): received (ps_recv), system_drops (ps_drop), interface_drops (ps_ifdrop), and
  /// delivered, the records that next() gave. On Linux ps_recv counts what passed the filter, drops included.
  [[nodiscard]] tl::expected<InterfaceStatistics, CaptureError> statistics();

  /// What Writer::add_interface wants to know.
  [[nodiscard]] const Interface& interface() const;
  [[nodiscard]] bool nanoseconds() const;

 private:
  struct State;
  explicit LiveCapture(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::captures
