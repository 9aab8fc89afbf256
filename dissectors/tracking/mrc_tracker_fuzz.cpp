// Fuzzes the MRC tracker with packets of a few QPs, each described by 12 bytes. Checks that the counters are
// consistent, and that findings are sentences.

#include <cstdlib>

#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/mrc_packet_for_fuzz.hpp"
#include "dissectors/tracking/mrc_tracker.hpp"

using namespace rdmawire;

namespace {

using tracking::testing::mrc_described;
using tracking::testing::mrc_packet_of;

void require(bool condition) {
  if (!condition) std::abort();
}

class Reports final : public tracking::Sink {
 public:
  void mrc_flow(const tracking::MrcFlow& flow, tracking::CloseReason /*reason*/) override { flows.push_back(flow); }
  std::vector<tracking::MrcFlow> flows;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tracking::Dissector dissector;
  // A quarter of the inputs use a small limit, which evicts flows.
  Reports reports;
  tracking::MrcTracker tracker(&reports, size != 0 && data[0] >> 6 == 3 ? 4000 : tracking::MrcTracker::default_memory);
  tracking::Packet packet;
  packet.link = LinkType::raw_ip;
  for (; size >= mrc_described; data += mrc_described, size -= mrc_described) {
    const std::vector<std::uint8_t> bytes = mrc_packet_of(data);
    ++packet.number;
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    tracker.add(packet);
  }
  require(tracker.evicted() == reports.flows.size());
  tracker.finish();
  require(tracker.memory() == 0 && tracker.flows().empty());
  for (const tracking::MrcFlow& flow : reports.flows) {
    std::uint64_t packets = 0, retransmissions = 0;
    for (const tracking::MrcPath& path : flow.paths) {
      packets += path.packets;
      retransmissions += path.retransmissions;
      require(path.trimmed <= path.packets && path.state_frame <= packet.number);
    }
    require(packets == flow.packets && retransmissions == flow.retransmissions.count);
    require(flow.first_frame != 0 && flow.first_frame <= flow.last_frame && flow.last_frame <= packet.number);
    require(flow.completed_messages <= flow.messages && flow.paths.size() <= tracking::MrcTracker::most_paths);
    for (const tracking::MrcFinding& finding : tracking::findings_of(flow))
      require(finding.title.size() > 10 && finding.seen.first_frame <= finding.seen.last_frame);
  }
  return 0;
}
