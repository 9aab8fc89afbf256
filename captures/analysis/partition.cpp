#include "captures/analysis/partition.hpp"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>

#include "captures/analysis/peek.hpp"

namespace rdmawire::captures::analysis {
namespace {

/// What a parcel consists of: one of these, and behind a frame its octets.
enum class Item : std::uint64_t {
  frame,      ///< of this share
  text,       ///< another share's, whose text concerns this one
  addresses,  ///< of a frame of any share, the first time that the portion has them
  arrival,    ///< RDMA payload for a receiver of this share
};
struct FrameItem {
  Item item = Item::frame;
  std::uint64_t number = 0;
  std::int64_t time = 0;
  std::uint32_t wire_length = 0, octets = 0;
  std::uint64_t link = 0;
};
struct PairItem {
  Item item = Item::addresses;
  PortAddress from, to;
  std::int64_t time = 0;
  std::uint64_t payload = 0;
};

template <class T>
void append(std::string& parcel, const T& item) {
  static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
  parcel.append(reinterpret_cast<const char*>(&item), sizeof item);
}

template <class T>
bool take(Bytes& left, T& item) {
  if (left.size() < sizeof item) return false;
  std::memcpy(&item, left.data(), sizeof item);
  left = left.subspan(sizeof item);
  return true;
}

}  // namespace

tl::expected<Survey, std::string> survey(const std::string& file) {
  auto reader = Reader::open(file);
  if (!reader) return tl::unexpected(to_string(reader.error()));
  Survey result;
  result.facts.name = file;
  Record record;
  Next next = Next::end;
  while ((next = reader->next(record)) == Next::record) {
    if (result.facts.packets++ == 0) result.begins = record.time;
    result.facts.octets += record.bytes.size();
    result.first_time = std::min(result.first_time, record.time);
    result.last_time = std::max(result.last_time, record.time);
  }
  result.facts.first_frame = result.facts.packets != 0;
  note_end(*reader, next, result.facts);
  return result;
}

tl::expected<std::vector<std::string>, std::string> divide(const Portion& portion, unsigned shares,
                                                           std::uint16_t extra_roce_port) {
  auto reader = Reader::open(portion.file);
  if (!reader) return tl::unexpected(to_string(reader.error()));
  std::vector<std::string> parcels(std::max(shares, 1U));
  const Window window(portion.begin, portion.end);
  // As a tracker would: the first addresses, and no more than it keeps.
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
      // Each is asked: one that is not new must not hide the other.
      const bool from = fresh(seen.from), to = fresh(seen.to);
      if (from || to)
        for (std::string& parcel : parcels) append(parcel, PairItem{Item::addresses, seen.from, seen.to, 0, 0});
    }
    if (seen.payload)
      append(parcels[seen.receiver_hash() % parcels.size()],
             PairItem{Item::arrival, seen.from, seen.to, record.time, seen.payload});
    const auto pair = endpoint_pair(seen, record.bytes, record.link);
    const std::size_t mine = pair ? *pair % parcels.size() : 0;
    for (std::size_t share = 0; share < parcels.size(); ++share) {
      if (share != mine && !seen.text) continue;
      append(parcels[share], FrameItem{share == mine ? Item::frame : Item::text, frame, record.time, record.wire_length,
                                       record.captured_length(), static_cast<std::uint64_t>(record.link)});
      parcels[share].append(reinterpret_cast<const char*>(record.bytes.data()), record.bytes.size());
    }
  }
  if (number < portion.to && portion.to != UINT64_MAX)
    return tl::unexpected(
        fmt::format("{}: it had {} packets or more when it was surveyed, and now ends after {}: do "
                    "not change captures while they are analysed",
                    portion.file, portion.to, number));
  return parcels;
}

ShareTracker::ShareTracker(const RunOptions& options) : options_(options), pipeline_(options_) {}

tl::expected<void, std::string> ShareTracker::add(Bytes parcel) {
  const std::size_t all = parcel.size();
  while (!parcel.empty()) {
    const std::size_t place = all - parcel.size();
    const auto broken = [&] {
      pipeline_.drain();
      return tl::unexpected(
          fmt::format("a parcel of frames is broken at octet {} of {}: was it made by another build "
                      "of rdmawire?",
                      place, all));
    };
    Item item{};
    Bytes ahead = parcel;
    if (!take(ahead, item)) return broken();
    if (item == Item::addresses || item == Item::arrival) {
      PairItem pair;
      if (!take(parcel, pair)) return broken();
      if (item == Item::addresses)
        pipeline_.note_addresses(pair.from, pair.to);
      else
        pipeline_.note_arrival(pair.from, pair.to, pair.time, pair.payload);
      continue;
    }
    FrameItem frame;
    if ((item != Item::frame && item != Item::text) || !take(parcel, frame) || frame.octets > parcel.size())
      return broken();
    Record record;
    record.bytes = parcel.first(frame.octets);
    record.time = frame.time;
    record.wire_length = frame.wire_length;
    record.link = static_cast<LinkType>(frame.link);
    parcel = parcel.subspan(frame.octets);
    pipeline_.take(record, frame.number, item == Item::frame);
  }
  pipeline_.drain();
  return {};
}

Analysis ShareTracker::finish() {
  pipeline_.finish();
  return std::move(pipeline_.analysis());
}

}  // namespace rdmawire::captures::analysis
