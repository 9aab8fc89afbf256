#pragma once
/// A packet as one line.

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

/// Writes packets as lines in columns: number, time, source → destination, what the packet does, its CRC, what is
/// remarkable, what is wrong. Remembers the first and the last time, and how wide the addresses were: columns only
/// grow.
class LinePrinter {
 public:
  explicit LinePrinter(const LineOptions& options = {});
  LinePrinter(LinePrinter&&) noexcept;
  LinePrinter& operator=(LinePrinter&&) noexcept;
  ~LinePrinter();

  /// Appends one line, with its line end.
  void append(std::string& out, const tracking::Packet& packet);

  /// The times count from here; else from the first packet that is written.
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

/// The endpoints of a packet, as a line names them: IP addresses, LIDs of native InfiniBand, GIDs, MACs, whichever
/// comes closest to the transport. Empty when there are none.
struct Endpoints {
  std::string source;
  std::string destination;
};
Endpoints endpoints_of(const HeaderStack& stack);

/// One line for one packet, whose time counts from itself.
std::string one_line(const tracking::Packet& packet, const LineOptions& options = {});

}  // namespace rdmawire::output
