#pragma once
/// What happened in a case, step by step: what a report, a ladder and a capture are made of.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::conformance {

/// What the two ends of a queue pair know of each other from RTR on: what a CM would have told them.
struct Pairing {
  struct End {
    std::array<std::uint8_t, 16> address{};  ///< IPv4 is mapped
    std::uint32_t qpn = 0;
    std::uint32_t first_psn = 0;  ///< of its requests
  };
  Transport transport = Transport::rc;
  End tester, device;
  std::uint32_t mtu = 0;  ///< bytes
  // The device's: numbers and codes of verbs
  std::uint8_t timeout = 0, retry_cnt = 0, rnr_retry = 0;
  std::uint8_t reads_at_once = 0, own_reads = 0;
};

struct Step {
  enum class Kind : std::uint8_t {
    sent,      ///< a frame to the device; with iWARP bytes of the stream, whose frames are links
    received,  ///< a frame from the device; likewise
    verbs,     ///< asked of the device's verbs, and what came of it
    expected,  ///< what was waited for, and came
    note,
    deviation,  ///< what was waited for, and did not come
    link,       ///< a frame of TCP, either way: what carries the stream
  };
  Kind kind = Kind::note;
  std::int64_t time = 0;             ///< of the wire's clock
  std::string text;                  ///< one line: "NAK PSN sequence error, PSN +0"
  std::vector<std::uint8_t> frame;   ///< of sent, received and link
  std::optional<Pairing> pairing{};  ///< of verbs that connected a queue pair
};

using Transcript = std::vector<Step>;

}  // namespace rdmawire::conformance
