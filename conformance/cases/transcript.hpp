#pragma once
/// What happened in a case, step by step: what a report, a ladder and a capture are made of.

#include <cstdint>
#include <string>
#include <vector>

namespace rdmawire::conformance {

struct Step {
  enum class Kind : std::uint8_t {
    sent,      ///< a frame to the device
    received,  ///< a frame from the device
    verbs,     ///< asked of the device's verbs, and what came of it
    expected,  ///< what was waited for, and came
    note,
    deviation,  ///< what was waited for, and did not come
  };
  Kind kind = Kind::note;
  std::int64_t time = 0;            ///< of the wire's clock
  std::string text;                 ///< one line: "NAK PSN sequence error, PSN +0"
  std::vector<std::uint8_t> frame;  ///< of sent and received
};

using Transcript = std::vector<Step>;

}  // namespace rdmawire::conformance
