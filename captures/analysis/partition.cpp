#include "captures/analysis/partition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "captures/analysis/peek.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/time.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::captures::analysis {
namespace {

/// Kind of an item of a batch. The bytes of a frame follow its item.
enum class Item : std::uint64_t {
  frame,      ///< a frame of this shard
  text,       ///< a frame of another shard, with text that all shards need
  addresses,  ///< the addresses of a frame of any shard, when they first occur in the portion
  arrival,    ///< number of RDMA payload bytes that arrive at a receiver of this shard
};
struct FrameItem {
  Item item = Item::frame;
  std::uint64_t number = 0;
  std::int64_t time = 0;
  std::uint32_t wire_length = 0, bytes = 0;
  std::uint64_t link = 0;
};
struct PairItem {
  Item item = Item::addresses;
  std::uint64_t number = 0;  ///< frame number
  PortAddress from, to;
  std::int64_t time = 0;
  std::uint64_t payload = 0;
};

template <class T>
void append(std::string& batch, const T& item) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  batch.append(reinterpret_cast<const char*>(&item), sizeof item);
}

template <class T>
bool take(Bytes& left, T& item) {
  if (left.size() < sizeof item) return false;
  std::memcpy(&item, left.data(), sizeof item);
  left = left.subspan(sizeof item);
  return true;
}

void append(std::string& batch, Item item, const Record& record, std::uint64_t number) {
  append(batch, FrameItem{item, number, record.time, record.wire_length, record.captured_length(),
                          static_cast<std::uint64_t>(record.link)});
  batch.append(reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size());
}

/// An item of a batch. If it is a frame, it contains the record.
struct Taken {
  Item item = Item::frame;
  std::uint64_t number = 0;
  PairItem pair;
  Record record;
};
/// Removes the first item from `left`. Returns false if it is malformed or missing.
bool take(Bytes& left, Taken& taken) {
  Bytes ahead = left;
  if (!take(ahead, taken.item)) return false;
  if (taken.item == Item::addresses || taken.item == Item::arrival) {
    if (!take(left, taken.pair)) return false;
    taken.number = taken.pair.number;
    taken.pair.time = bounded_time(taken.pair.time);
    return true;
  }
  FrameItem frame;
  if ((taken.item != Item::frame && taken.item != Item::text) || !take(left, frame) || frame.bytes > left.size())
    return false;
  taken.number = frame.number;
  taken.record = {};
  taken.record.bytes = left.first(frame.bytes);
  taken.record.time = bounded_time(frame.time);
  taken.record.wire_length = frame.wire_length;
  taken.record.link = static_cast<LinkType>(frame.link);
  left = left.subspan(frame.bytes);
  return true;
}

tl::unexpected<std::string> broken(std::size_t place, std::size_t all) {
  return tl::unexpected(fmt::format(
      "malformed batch of frames at byte {} of {}: use the same rdmawire build in all processes", place, all));
}

/// Returns the frame number of the first item. If the item is malformed, returns the lowest number, so that take() is
/// called next and rejects it.
std::uint64_t frame_of_next(Bytes batch) {
  struct {
    Item item;
    std::uint64_t number;
  } begin{};
  static_assert(offsetof(FrameItem, number) == offsetof(decltype(begin), number) &&
                offsetof(PairItem, number) == offsetof(decltype(begin), number));
  return take(batch, begin) ? begin.number : 0;
}
bool is_later(Bytes a, Bytes b) { return frame_of_next(a) > frame_of_next(b); }

}  // namespace

tl::expected<Survey, std::string> survey(const std::string& file) {
  auto reader = Reader::open(file);
  if (!reader) return tl::unexpected(to_string(reader.error()));
  Survey result;
  result.facts.name = file;
  Record record;
  Next next = Next::end;
  while ((next = reader->next(record)) == Next::record) {
    if (result.facts.packets++ == 0) result.start_time = record.time;
    result.facts.bytes += record.bytes.size();
    result.first_time = std::min(result.first_time, record.time);
    result.last_time = std::max(result.last_time, record.time);
  }
  result.facts.first_frame = result.facts.packets != 0;
  note_end(*reader, next, result.facts);
  return result;
}

tl::expected<ShardPlan, std::string> divide(const Portion& portion, unsigned shards, std::uint16_t extra_roce_port,
                                            bool filtered) {
  auto reader = Reader::open(portion.file);
  if (!reader) return tl::unexpected(to_string(reader.error()));
  ShardPlan result{std::vector<std::string>(std::max(shards, 1U)), {}};
  std::vector<std::string>& batches = result.batches;
  tracking::Packet packet;  // only its headers are used
  DecodeOptions decoding;
  decoding.extra_roce_v2_port = extra_roce_port;
  const Window window(portion.begin, portion.end);
  // The limit is that of the tracker, which also keeps the first addresses.
  BoundedSet addresses(tracking::AddressBook::capacity);
  const auto fresh = [&](const PortAddress& address) { return addresses.insert(FlowKey{address, {}, 0}.hash()); };
  Record record;
  std::uint64_t number = 0;
  while (number < portion.to && reader->next(record) == Next::record) {
    if (++number < portion.from) continue;
    const std::uint64_t frame = portion.frames_before + number;
    if (!window.has(record.time, frame)) continue;
    const Peek seen = peek(record.bytes, record.link, record.wire_length, extra_roce_port);
    if (seen.known) {
      // fresh() must be called for both, so there is no short-circuit evaluation.
      const bool from = fresh(seen.from), to = fresh(seen.to);
      if (from || to)
        for (std::string& batch : batches) append(batch, PairItem{Item::addresses, frame, seen.from, seen.to, 0, 0});
    }
    if (seen.payload && !filtered)
      append(batches[seen.receiver_hash() % batches.size()],
             PairItem{Item::arrival, frame, seen.from, seen.to, record.time, seen.payload});
    if (!filtered && (seen.bth || !seen.known)) {
      packet.number = frame;
      packet.time_ns = record.time;
      decode(packet.stack, record.bytes, record.link, record.wire_length, decoding);
      if (tracking::has_transport(packet)) result.last = {frame, record.time};
    }
    const auto pair = endpoint_pair(seen, record.bytes, record.link);
    const std::size_t mine = pair ? *pair % batches.size() : 0;
    for (std::size_t shard = 0; shard < batches.size(); ++shard) {
      if (shard == mine || (seen.text && !filtered))
        append(batches[shard], shard == mine ? Item::frame : Item::text, record, frame);
    }
  }
  if (number < portion.to && portion.to != UINT64_MAX)
    return tl::unexpected(
        fmt::format("{}: the file had at least {} packets when it was surveyed and now has {}: do not modify captures "
                    "during the analysis",
                    portion.file, portion.to, number));
  return result;
}

ShardFilter::ShardFilter(const RunOptions& options, unsigned shard, unsigned shards)
    : options_(options), shard_(shard), batches_(std::max(shards, 1U)), dissector_(options.dissector) {}

tl::expected<void, std::string> ShardFilter::add(Bytes batch) {
  const std::size_t all = batch.size();
  for (Taken taken; !batch.empty();) {
    if (!take(batch, taken)) return broken(all - batch.size(), all);
    if (taken.item != Item::frame) continue;
    const Record& record = taken.record;
    packet_.number = taken.number;
    packet_.time_ns = record.time;
    packet_.link = record.link;
    dissector_.dissect(packet_, record.bytes, record.wire_length);
    if (options_.filter && !options_.filter->matches(packet_)) continue;
    if (tracking::has_transport(packet_)) last_ = {taken.number, record.time};
    const Peek seen = peek(record.bytes, record.link, record.wire_length, options_.dissector.decode.extra_roce_v2_port);
    if (seen.payload)
      append(batches_[seen.receiver_hash() % batches_.size()],
             PairItem{Item::arrival, taken.number, seen.from, seen.to, record.time, seen.payload});
    if (!seen.text) continue;
    for (std::size_t shard = 0; shard < batches_.size(); ++shard)
      if (shard != shard_) append(batches_[shard], Item::text, record, taken.number);
  }
  return {};
}

ShardTracker::ShardTracker(const RunOptions& options) : options_(within_memory(options)), pipeline_(options_) {}

void ShardTracker::add_filtered(std::span<const Bytes> filtered) {
  for (const Bytes& batch : filtered)
    if (!batch.empty()) filtered_.push_back(batch);
  std::make_heap(filtered_.begin(), filtered_.end(), is_later);
}

tl::expected<void, std::string> ShardTracker::add_filtered_until(std::uint64_t frame) {
  while (!filtered_.empty() && frame_of_next(filtered_.front()) < frame) {
    std::pop_heap(filtered_.begin(), filtered_.end(), is_later);
    Taken taken;
    const std::size_t all = filtered_.back().size();
    if (!take(filtered_.back(), taken) || (taken.item != Item::arrival && taken.item != Item::text)) {
      filtered_.pop_back();
      return broken(0, all);
    }
    if (taken.item == Item::arrival)
      pipeline_.note_arrival(taken.pair.from, taken.pair.to, taken.pair.time, taken.pair.payload);
    else
      pipeline_.take(taken.record, taken.number, false);
    if (filtered_.back().empty())
      filtered_.pop_back();
    else
      std::push_heap(filtered_.begin(), filtered_.end(), is_later);
  }
  return {};
}

tl::expected<void, std::string> ShardTracker::add(Bytes batch) {
  const std::size_t all = batch.size();
  tl::expected<void, std::string> result;
  for (Taken taken; !batch.empty() && result;) {
    if (!take(batch, taken)) {
      result = broken(all - batch.size(), all);
      break;
    }
    result = add_filtered_until(taken.number);
    if (taken.item == Item::addresses)
      pipeline_.note_addresses(taken.pair.from, taken.pair.to);
    else if (taken.item == Item::arrival)
      pipeline_.note_arrival(taken.pair.from, taken.pair.to, taken.pair.time, taken.pair.payload);
    else
      pipeline_.take(taken.record, taken.number, taken.item == Item::frame);
  }
  pipeline_.drain();
  return result;
}

Analysis ShardTracker::finish(const tracking::Moment& last) {
  static_cast<void>(add_filtered_until(UINT64_MAX));
  pipeline_.finish(last);
  return std::move(pipeline_.analysis());
}

}  // namespace rdmawire::captures::analysis
