#pragma once
/// Problems in a capture, worst first: affected connections, cost, usual meaning and next steps.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/analysis.hpp"

namespace rdmawire::captures::analysis {

/// Other events of the same connection that belong to a finding, such as the NAKs of a retransmission.
struct Evidence {
  std::string_view kind, cause;
  std::uint64_t count = 0, packets = 0;
};

/// A connection of a collective finding.
struct AffectedConnection {
  std::uint64_t connection = 0;
  std::string flow;
  std::uint64_t count = 0;
  std::int64_t cost_ns = 0;
};

struct Finding {
  Severity severity = Severity::info;
  std::string_view kind, cause;   ///< kind and cause of the events, or the kind of a finding about the capture
  std::uint64_t connection = 0;   ///< 0: several connections, or the capture
  std::uint64_t connections = 1;  ///< number of affected connections
  Side end = Side::a;
  std::string flow;   ///< "QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3"
  std::string title;  ///< "31 NAK recoveries: 287 packets (7.2 %), 1.90 s stalled"
  std::uint64_t count = 0, packets = 0, bytes = 0;
  std::int64_t cost_ns = 0;
  std::uint64_t first_frame = 0, last_frame = 0;  ///< 0: none
  std::int64_t first_time = 0, last_time = 0;     ///< nanoseconds since 1970 (0: none)
  std::vector<std::uint64_t> frames;              ///< frames of the earliest events, at most 10
  std::array<std::uint64_t, 3> by_certainty{};    ///< number of events by tracking::Certainty
  std::vector<tracking::Unobserved> unobserved;   ///< what the capture does not show, most frequent first
  double share = -1;                              ///< share of the sender's packets, 0 to 1 (negative: does not apply)
  std::string meaning, next;
  std::vector<std::string_view> unverified;  ///< MRC: fields on which it depends, and whose position is unverified
  std::vector<Evidence> evidence;
  std::vector<AffectedConnection> worst;  ///< for a collective finding, its worst connections, at most 5
};

/// The certainty that most events of the finding have, or the lower one.
tracking::Certainty certainty_of(const Finding& finding);

/// Properties of the input in addition to its packets.
struct InputFacts {
  std::uint64_t lost_by_capture = 0;    ///< number of packets, as recorded in the files
  std::uint64_t overlapping_files = 0;  ///< files recorded at the same time as an earlier one
};

/// All findings, worst first. If more than `collective` connections share a kind and cause, they form one finding.
std::vector<Finding> findings_of(const Analysis& analysis, const InputFacts& input = {}, std::size_t collective = 10);

/// "10.0.0.2", "fe80::1", "LID 5"
std::string to_text(const PortAddress& address);
/// "QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3", for iWARP "10.0.0.2:4321 → 10.0.0.3:18515"
std::string flow_name(const std::array<tracking::ConnectionEnd, 2>& ends, tracking::Service service, Side from);

/// "1 packet", "12 packets"
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);
/// "1.90 s", "412 µs": three digits. From one minute on, "2 min 5 s".
std::string duration_text(std::int64_t ns);

}  // namespace rdmawire::captures::analysis
