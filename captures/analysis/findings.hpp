#pragma once
/// What is wrong in a capture, worst first: who suffers, how much it cost, what it usually means, where to look next.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/analysis.hpp"

namespace rdmawire::captures::analysis {

/// What else happened to the same sufferer that belongs to the same trouble: the NAKs of a retransmission.
struct Evidence {
  std::string_view kind, cause;
  std::uint64_t count = 0, packets = 0;
};

/// One of the connections that a collective finding is about.
struct AffectedConnection {
  std::uint64_t connection = 0;
  std::string who;
  std::uint64_t count = 0;
  std::int64_t cost_ns = 0;
};

struct Finding {
  Severity severity = Severity::info;
  std::string_view kind, cause;   ///< of events; or a kind of its own for what concerns the capture as a whole
  std::uint64_t connection = 0;   ///< 0: several connections, or the capture
  std::uint64_t connections = 1;  ///< how many share it
  Side end = Side::a;
  std::string who;    ///< "QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3"
  std::string title;  ///< "31 retransmission rounds, 287 packets again (7.2 %), 1.9 s lost"
  std::uint64_t count = 0, packets = 0, bytes = 0;
  std::int64_t cost_ns = 0;
  std::uint64_t first_frame = 0, last_frame = 0;  ///< 0: none
  std::int64_t first_time = 0, last_time = 0;     ///< nanoseconds since 1970; 0: none
  std::vector<std::uint64_t> frames;              ///< the first ones, at most 10
  double share = -1;                              ///< of the sender's packets, 0 to 1; negative: does not apply
  std::string meaning, next;
  std::vector<Evidence> evidence;
  std::vector<AffectedConnection> worst;  ///< of a collective finding, at most 5
};

/// What is known of the input beside its packets.
struct InputFacts {
  std::uint64_t lost_by_capture = 0;    ///< packets, as the files say
  std::uint64_t overlapping_files = 0;  ///< that were recorded while an earlier one still was
};

/// All findings, worst first. When more than `collective` connections share a kind and cause, they are one finding.
std::vector<Finding> findings_of(const Analysis& analysis, const InputFacts& input = {}, std::size_t collective = 10);

/// "10.0.0.2", "fe80::1", "LID 5"
std::string to_text(const PortAddress& address);
/// "QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3"; iWARP: "10.0.0.2:4321 → 10.0.0.3:18515"
std::string who(const std::array<tracking::ConnectionEnd, 2>& ends, tracking::Service service, Side from);

/// "1 packet", "12 packets"
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);
/// "1.9 s", "412 µs": three digits at most.
std::string duration_text(std::int64_t ns);

}  // namespace rdmawire::captures::analysis
