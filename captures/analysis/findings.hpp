#pragma once
/// Problems in a capture, worst first: affected connections, cost, usual meaning and next steps.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "captures/analysis/analysis.hpp"

namespace rdmawire::captures::analysis {

/// Other events of the same connection that belong to a finding, such as the NAKs that caused a retransmission.
struct Evidence {
  std::string_view kind, cause;
  std::uint64_t count = 0, packets = 0;
};

/// A connection in a collective finding.
struct AffectedConnection {
  std::uint64_t connection = 0;
  std::string flow;
  std::uint64_t count = 0;
  std::int64_t cost_ns = 0;
};

struct Finding {
  Severity severity = Severity::info;
  std::string_view kind, cause;   ///< kind and cause of the events, or the kind of a finding about the capture
  std::uint64_t connection = 0;   ///< Connection::id (0: several connections, or the capture)
  std::uint64_t connections = 1;  ///< number of affected connections
  Side end = Side::a;
  std::string flow;   ///< affected flow: "QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3"
  std::string title;  ///< summary: "31 NAK recoveries: 287 packets (7.2 %), 1.90 s stalled"
  std::uint64_t count = 0, packets = 0, bytes = 0;
  std::int64_t cost_ns = 0;
  std::uint64_t first_frame = 0, last_frame = 0;  ///< first and last frame (0: none)
  std::int64_t first_time = 0, last_time = 0;     ///< nanoseconds since 1970 (0: none)
  std::vector<std::uint64_t> frames;              ///< frames of the earliest events, at most 10
  std::array<std::uint64_t, 3> by_certainty{};    ///< number of events by tracking::Certainty
  std::vector<tracking::Unobserved> unobserved;   ///< facts that the capture does not show, most frequent first
  double share = -1;  ///< ratio of affected packets to packets of the sender, 0 to 1 (negative: does not apply)
  std::string meaning, next;
  std::vector<std::string_view> unverified;  ///< MRC: fields that the finding uses, and whose position is not verified
  std::vector<Evidence> evidence;
  std::vector<AffectedConnection> worst;  ///< collective finding: its worst connections, at most 5
};

/// Returns the certainty that most events of the finding have. If two are equally frequent, returns the lower one.
tracking::Certainty certainty_of(const Finding& finding);

/// Properties of the input that are not in its packets.
struct InputFacts {
  std::uint64_t lost_by_capture = 0;    ///< number of packets that the capture lost, according to its files
  std::uint64_t overlapping_files = 0;  ///< number of files that were recorded at the same time as an earlier one
};

/// Returns all findings, worst first. If the same kind and cause affects more than `collective` connections, they form
/// one finding.
std::vector<Finding> findings_of(const Analysis& analysis, const InputFacts& input = {}, std::size_t collective = 10);

/// Returns the address as text: "10.0.0.2", "fe80::1" or "LID 5".
std::string to_text(const PortAddress& address);
/// Returns the name of a flow: "QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3", or for iWARP "10.0.0.2:4321 → 10.0.0.3:18515".
std::string flow_name(const std::array<tracking::ConnectionEnd, 2>& ends, tracking::Service service, Side from);

/// Returns a number with its unit: "1 packet", "12 packets".
std::string counted(std::uint64_t count, std::string_view one, std::string_view many);
/// Returns a duration with three digits, such as "1.90 s" or "412 µs". Durations of a minute and more have the form "2
/// min 5 s".
std::string duration_text(std::int64_t ns);

}  // namespace rdmawire::captures::analysis
