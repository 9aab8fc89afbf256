#pragma once
/// The steps of a case, the source of reports, sequence diagrams and captures.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::conformance {

/// Parameters that both endpoints of a QP know from RTR on, as exchanged by a CM.
struct Pairing {
  struct End {
    std::array<std::uint8_t, 16> address{};  ///< IPv4 is mapped
    std::uint32_t qpn = 0;
    std::uint32_t first_psn = 0;  ///< first PSN of its requests
  };
  Transport transport = Transport::rc;
  End tester, device;
  std::uint32_t mtu = 0;  ///< bytes
  // Parameters of the device: numbers and codes of verbs
  std::uint8_t timeout = 0, retry_cnt = 0, rnr_retry = 0;
  std::uint8_t reads_at_once = 0, own_reads = 0;
};

struct Step {
  enum class Kind : std::uint8_t {
    sent,      ///< a frame to the device. iWARP: bytes of the stream, whose frames have kind link
    received,  ///< a frame from the device. iWARP: as for sent
    verbs,     ///< a verb of the device and its result
    expected,  ///< an expectation that was met
    note,
    violation,  ///< the expectation was not met
    link,       ///< a TCP frame in either direction
  };
  Kind kind = Kind::note;
  std::int64_t time = 0;             ///< on the wire's clock
  std::string text;                  ///< one line: "NAK PSN sequence error, PSN +0"
  std::vector<std::uint8_t> frame;   ///< for sent, received and link
  std::optional<Pairing> pairing{};  ///< for verbs that connect a QP
};

using Transcript = std::vector<Step>;

}  // namespace rdmawire::conformance
