#include "captures/analysis/vantage/survey.hpp"

#include <algorithm>

#include "captures/io/reader.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::captures::vantage {
namespace {

/// Maximum number of flows whose other direction is stored.
constexpr std::size_t partners_kept = 1U << 18;

/// Collects the paired directions that the tracker reports.
class PairCollector final : public tracking::Sink {
 public:
  explicit PairCollector(Survey& survey) : survey_(survey) {}

  void connection(const tracking::Connection& c, tracking::CloseReason) override {
    if (c.service == tracking::Service::iwarp || c.confidence < tracking::Confidence::high ||
        c.service == tracking::Service::ud || !c.ends[0].qp_known || !c.ends[1].qp_known)
      return;
    for (const std::size_t to : {0U, 1U}) {
      const FlowKey flow{c.ends[1 - to].address, c.ends[to].address, c.ends[to].qp};
      if (survey_.partners.size() < partners_kept) survey_.partners[ordered(flow)] = c.ends[1 - to].qp;
    }
  }

 private:
  Survey& survey_;
};

}  // namespace

void Samples::settle() {
  std::sort(samples_.begin(), samples_.end(), [](const Sample& a, const Sample& b) {
    return a.identity < b.identity || (a.identity == b.identity && a.time < b.time);
  });
  std::size_t kept = 0;
  for (const Sample& sample : samples_) {
    if (kept && samples_[kept - 1].identity == sample.identity)
      samples_[kept - 1].repeated = true;
    else
      samples_[kept++] = sample;
  }
  samples_.resize(kept);
}

void Samples::thin_out() {
  settle();
  while (samples_.size() > capacity_ / 2 && level_ < 63) {
    ++level_;
    std::erase_if(samples_, [this](const Sample& sample) { return (sample.identity & mask()) != 0; });
  }
}

std::optional<Survey> survey(const std::string& file, const ReadOptions& options, IdentityBy by,
                             std::size_t samples_kept, std::string& error) {
  auto reader = Reader::open(file);
  if (!reader) {
    error = to_string(reader.error());
    return std::nullopt;
  }
  std::optional<Survey> result(std::in_place, samples_kept);
  Survey& s = *result;
  s.name = file;
  PairCollector listener(s);
  tracking::Dissector dissector({options.decode, options.filter && options.filter->uses_crcs()});
  tracking::Tracker tracker(listener);
  tracking::Packet packet;
  Observation observation;
  Record record;
  Next next = reader->next(record);
  for (; next == Next::record; next = reader->next(record)) {
    ++s.packets;
    s.bytes += record.bytes.size();
    const std::int64_t time = sane_time(record.time);
    if (s.packets == 1) s.first_time = s.last_time = time;
    s.first_time = std::min(s.first_time, time);
    s.last_time = std::max(s.last_time, time);
    packet.number = s.packets;
    packet.time_ns = record.time;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    if ((s.packets & 0xfff) == 0) {
      if (options.stops()) break;
      if (options.progress) options.progress(s.packets, reader->position(), reader->file_size(), file);
    }
    if (options.filter && !options.filter->matches(packet)) continue;
    tracker.add(packet);
    if (cut_before_icrc(packet)) ++s.cut;
    if (!observe(observation, packet, by)) continue;
    const FlowKey direction = observation.flow.with(0);
    if (observation.wire == Wire::none) {
      ++s.tcp;
    } else {
      ++s.rdma;
      if (observation.wire == Wire::iwarp && s.iwarp.size() < partners_kept) s.iwarp[ordered(observation.flow)] = true;
    }
    if (FlowSeen* flow = s.flows.at(observation.flow)) ++flow->packets;
    DirectionSeen* seen = s.directions.at(direction);
    if (!seen) continue;
    ++seen->packets;
    seen->ttl = std::max(seen->ttl, observation.ttl);
    if (seen->packets == 1) seen->index = static_cast<std::uint32_t>(s.directions.rows().size() - 1);
    s.samples.add({observation.identity, observation.time, seen->index, observation.ttl, false});
  }
  tracker.finish();
  s.samples.settle();
  s.nanoseconds = reader->nanoseconds();
  for (const Interface& interface : reader->interfaces())
    if (const auto drops = interface.statistics ? interface.statistics->drops() : std::nullopt)
      s.lost_by_capture = s.lost_by_capture.value_or(0) + *drops;
  if (next == Next::error) s.error = to_string(reader->error());
  return result;
}

}  // namespace rdmawire::captures::vantage
