// Fuzzes the monitor of MRC with packets of a few QPs. Checks that each violation has a statement, that the counters
// are consistent, that the tables are within their limits, and that a trimmed packet violates no rule, unless the
// capture is complete.

#include <cstdlib>

#include "conformance/monitors/mrc_monitor.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/mrc_packet_for_fuzz.hpp"
#include "dissectors/tracking/transport_packet.hpp"

using namespace rdmawire;

namespace {

using tracking::testing::mrc_described;
using tracking::testing::mrc_packet_of;

void require(bool condition) {
  if (!condition) std::abort();
}

std::uint64_t violations_of(const conformance::Evaluator& evaluator) {
  std::uint64_t all = 0;
  for (const auto& counts : evaluator.counters()) all += counts.violated;
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  conformance::RuleSet rules;
  conformance::Evaluator evaluator(rules, 64);
  // Some inputs exceed the limit of QPs.
  const bool complete = (data[0] & 1) != 0;
  conformance::MrcMonitor monitor(evaluator, complete, data[0] & 2 ? 2 : 64);
  tracking::Dissector dissector;
  tracking::Packet packet;
  packet.link = LinkType::raw_ip;
  for (++data, --size; size >= mrc_described; data += mrc_described, size -= mrc_described) {
    const std::vector<std::uint8_t> bytes = mrc_packet_of(data);
    ++packet.number;
    packet.time_ns += data[11];
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    const std::uint64_t before = violations_of(evaluator);
    monitor.add(packet);
    if (!complete && tracking::is_trimmed(packet.stack)) require(violations_of(evaluator) == before);
  }
  std::uint64_t reported = evaluator.omitted();
  for (const auto& violation : evaluator.violations()) {
    reported += violation.count;
    require(!violation.statement.expected.empty() && !violation.statement.actual.empty());
    require(violation.place.frame != 0 && violation.place.frame <= violation.last_frame);
    require(violation.last_frame <= packet.number);
  }
  require(reported == violations_of(evaluator));
  std::vector<tracking::Level> levels;
  monitor.append_levels(levels);
  require(levels.size() == 3 && levels[1].highest <= levels[1].limit + packet.number);
  return 0;
}
