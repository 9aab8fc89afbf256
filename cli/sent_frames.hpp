#pragma once
/// Prints the frames that a replay sends.

#include <cstdint>
#include <string>

#include "dissectors/output/line.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "replay/player/player.hpp"

namespace rdmawire::cli {

/// Formats sent frames as `rdmawire dissect` does. The times are those of sending, relative to the first frame.
class SentFrames {
 public:
  explicit SentFrames(bool colors) : lines_({.colors = colors}) {}
  /// Appends one line.
  void append(std::string& out, const replay::SentFrame& sent) {
    packet_.number = sent.number;
    packet_.time_ns = sent.time;
    packet_.link = sent.link;
    dissector_.dissect(packet_, sent.frame, static_cast<std::uint32_t>(sent.frame.size()));
    lines_.append(out, packet_);
  }

 private:
  tracking::Dissector dissector_{tracking::DissectorOptions{}};
  output::LinePrinter lines_;
  tracking::Packet packet_;
};

}  // namespace rdmawire::cli
