#pragma once
/// Formats a packet as one line.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dissectors/output/value.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

struct LineOptions {
  TimeStyle time = TimeStyle::relative;
  bool colors = false;
};

/// Writes packets as lines with columns: number, time, source → destination, summary, CRC, PDUs, upper layer, notes,
/// findings. Remembers the first and the last time, and the column widths, which only grow.
class LinePrinter {
 public:
  explicit LinePrinter(const LineOptions& options = {});
  LinePrinter(LinePrinter&&) noexcept;
  LinePrinter& operator=(LinePrinter&&) noexcept;
  ~LinePrinter();

  /// Appends one line with a newline.
  void append(std::string& out, const tracking::Packet& packet);

  /// Sets the origin of relative times. The default is the time of the first packet written.
  void set_origin(std::int64_t time_ns);

 private:
  struct Plans;
  LineOptions options_;
  std::unique_ptr<Plans> plans_;
  std::optional<std::int64_t> origin_;
  std::optional<std::int64_t> previous_;
  std::size_t source_width_ = 8;
  std::size_t destination_width_ = 8;
};

/// The endpoints of a packet as a line shows them: LIDs in native InfiniBand, otherwise the IP addresses, GIDs or MACs
/// that are closest to the transport. Empty if there are none.
struct Endpoints {
  std::string source;
  std::string destination;
};
Endpoints endpoints_of(const HeaderStack& stack);

/// Formats a single packet as a line. Its relative time is 0.
std::string one_line(const tracking::Packet& packet, const LineOptions& options = {});

}  // namespace rdmawire::output
