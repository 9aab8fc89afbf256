#include "captures/analysis/archive.hpp"

#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace rdmawire::captures::analysis {
namespace {

constexpr std::string_view magic = "rdmawire analysis " RDMAWIRE_VERSION " ";

/// Returns a header that identifies the build: its version and the sizes of the serialized structures.
std::string layout() {
  std::string text(magic);
  for (const std::size_t size : {sizeof(Analysis), sizeof(Connection), sizeof(Event), sizeof(ConnectionEvents),
                                 sizeof(Group), sizeof(TalkerRow), sizeof(RegionRow), sizeof(Series::Step),
                                 sizeof(PauseRow), sizeof(tracking::MrcFlow), sizeof(tracking::MrcPath)})
    text += std::to_string(size) + " ";
  return text += "\n";
}

/// Numbers, arrays and structures without pointers are copied as bytes.
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_same_v<T, Connection> &&
                !std::is_same_v<T, std::string_view>;

/// Both archive classes have the functions `raw` (copies bytes), `count` (copies a number of items) and `sentence`.
class Saver {
 public:
  static constexpr bool loads = false;
  void raw(void* from, std::size_t bytes) { out_.append(static_cast<const char*>(from), bytes); }
  std::size_t count(std::size_t here, std::size_t /*min_bytes*/) {
    auto number = static_cast<std::uint64_t>(here);
    raw(&number, sizeof number);
    return here;
  }
  void sentence(std::string_view& text) {
    count(text.size(), 1);
    out_.append(text);
  }
  std::string out_;
};

/// Thrown to end loading. load() catches it.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Loader {
 public:
  static constexpr bool loads = true;
  explicit Loader(Bytes bytes) : left_(bytes) {}
  void raw(void* to, std::size_t bytes) {
    if (bytes > left_.size()) throw Unreadable("unexpected end of data");
    std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
  }
  /// Limits the number of items according to the remaining bytes, so that damaged data cannot cause large allocations.
  std::size_t count(std::size_t /*here*/, std::size_t min_bytes) {
    std::uint64_t number = 0;
    raw(&number, sizeof number);
    if (number > left_.size() / std::max<std::size_t>(min_bytes, 1)) throw Unreadable("a count exceeds the data size");
    return static_cast<std::size_t>(number);
  }
  void sentence(std::string_view& text) {
    std::string words(count(0, 1), '\0');
    raw(words.data(), words.size());
    text = *sentences_->insert(std::move(words)).first;
  }
  [[nodiscard]] bool at_end() const { return left_.empty(); }
  using Sentences = std::set<std::string, std::less<>>;
  std::shared_ptr<Sentences> sentences_ = std::make_shared<Sentences>();

 private:
  Bytes left_;
};

}  // namespace

/// Visits all members of an analysis. The order is the same for saving and loading.
struct Archived {
  template <class A, Plain T>
  static void each(A& archive, T& value) {
    archive.raw(&value, sizeof value);
  }
  // The reason for the detected protocol is a string literal. Its address is valid only in the process that saves it.
  template <class A>
  static void each(A& archive, Connection& connection) {
    static_assert(std::is_trivially_copyable_v<Connection>);
    Connection plain = connection;
    plain.upper.reason = {};
    archive.raw(&plain, sizeof plain);
    plain.upper.reason = connection.upper.reason;
    archive.sentence(plain.upper.reason);
    connection = plain;
  }
  template <class A, class T>
  static void each(A& archive, std::vector<T>& values) {
    if constexpr (Plain<T>) {
      values.resize(archive.count(values.size(), sizeof(T)));
      if (!values.empty()) archive.raw(values.data(), values.size() * sizeof(T));
    } else {
      values.resize(archive.count(values.size(), 1));
      for (T& value : values) each(archive, value);
    }
  }
  template <class A>
  static void each(A& archive, Histogram& histogram) {
    each(archive, histogram.counts_);
    all(archive, histogram.count_, histogram.min_, histogram.max_);
  }
  template <class A>
  static void each(A& archive, Series& series) {
    all(archive, series.step_, series.first_, series.steps_);
    if constexpr (A::loads) {
      // Both limits bound the time of a merge.
      if (series.step_ < Series::finest || series.steps_.size() > static_cast<std::size_t>(Series::max_steps))
        throw Unreadable("the series has an invalid step or length");
      series.current_ = SIZE_MAX;
    }
  }
  template <class A, class Key, class Row>
  static void each(A& archive, BoundedTable<Key, Row>& table) {
    all(archive, table.capacity_, table.overflow_);
    const std::size_t rows = archive.count(table.rows_.size(), sizeof(Key));
    if constexpr (A::loads) {
      if (rows > table.capacity_) throw Unreadable("a table exceeds its capacity");
      table.rows_.clear();
      table.slots_.clear();
      for (std::size_t i = 0; i < rows; ++i) {
        Key key{};
        Row row{};
        all(archive, key, row);
        if (Row* place = table.at(key)) *place = row;
      }
    } else {
      for (auto& [key, row] : table.rows_) all(archive, const_cast<Key&>(key), row);
    }
  }
  template <class A>
  static void each(A& archive, BoundedSet& set) {
    each(archive, set.table_);
  }
  template <class A, class Item, class Less>
  static void each(A& archive, TopN<Item, Less>& foremost) {
    std::uint64_t capacity = foremost.capacity_;
    all(archive, capacity, foremost.seen_, foremost.items_, foremost.worst_, foremost.bounded_);
    foremost.capacity_ = static_cast<std::size_t>(capacity);
    if constexpr (A::loads)
      if (foremost.capacity_ < foremost.items_.size() / 2) throw Unreadable("a list exceeds its capacity");
  }
  template <class A>
  static void each(A& archive, Incast& incast) {
    all(archive, incast.window_, incast.receivers_, incast.rows_, incast.merged_overflow_);
    if constexpr (A::loads) {
      if (incast.window_ < 1) throw Unreadable("the incast window is not positive");
      for (auto& [key, row] : incast.receivers_.rows_)
        row.senders = std::min(row.senders, static_cast<std::uint32_t>(Incast::most_senders));
    }
  }
  template <class A>
  static void each(A& archive, tracking::MrcFlow& flow) {
    all(archive, flow.from, flow.to, flow.dest_qp, flow.from_qp, flow.from_qp_known, flow.paths_limited,
        flow.first_frame, flow.last_frame, flow.first_time, flow.last_time, flow.packets, flow.payload_bytes,
        flow.retransmissions, flow.trimmed, flow.marked, flow.missing, flow.sacks, flow.acknowledgements,
        flow.unmatched_entropy, flow.selective, flow.congested_sacks, flow.bad_sacks, flow.silent, flow.probes,
        flow.probe_responses, flow.messages, flow.completed_messages, flow.reordering, flow.late,
        flow.endpoint_operations, flow.nacks, flow.paths);
  }
  template <class A>
  static void each(A& archive, MrcFlows& flows) {
    all(archive, flows.most_paths_, flows.dropped_, flows.dropped_bytes_, flows.dropped_frame_, flows.flows_);
    if constexpr (A::loads) {
      flows.paths_ = 0;
      for (tracking::MrcFlow& flow : flows.flows_) {
        flows.paths_ += MrcFlows::weight(flow);
        for (tracking::MrcPath& path : flow.paths) path.state = std::min(path.state, tracking::MrcPathState::failed);
      }
    }
  }
  template <class A>
  static void each(A& archive, ManagementRecords& management) {
    all(archive, management.memberships, management.paths, management.counters, management.left_out);
  }
  template <class A>
  static void each(A& archive, ConnectionEvents& affected) {
    all(archive, affected.ends, affected.packets, affected.service, affected.groups);
    if constexpr (A::loads)
      for (Group& group : affected.groups)
        group.frame_count = std::min(group.frame_count, static_cast<std::uint8_t>(Group::most_frames));
  }
  template <class A, class Map>
  static void map(A& archive, Map& values) {
    const std::size_t count = archive.count(values.size(), sizeof(typename Map::key_type));
    if constexpr (A::loads) {
      values.clear();
      for (std::size_t i = 0; i < count; ++i) {
        typename Map::key_type key{};
        typename Map::mapped_type value{};
        all(archive, key, value);
        values.emplace(key, std::move(value));
      }
    } else {
      for (auto& [key, value] : values) all(archive, const_cast<typename Map::key_type&>(key), value);
    }
  }
  template <class A>
  static void each(A& archive, Analysis& a) {
    all(archive, a.options_, a.packets, a.bytes, a.first_time, a.last_time, a.wires, a.classes, a.crcs_checked,
        a.crcs_bad, a.truncated_packets, a.series);
    map(archive, a.pauses);
    all(archive, a.management, a.skipped_pauses, a.messages, a.message_bytes, a.operations, a.partial_messages,
        a.first_partial, a.unacknowledged, a.events, a.retransmitted_packets, a.retransmissions, a.naks, a.rnr_naks,
        a.rate_fell, a.rate_unchanged, a.ce_to_cnp, a.connections, a.evicted_connections, a.opened_before, a.one_way,
        a.two_way, a.other_class, a.duplicable, a.duplicates, a.low_confidence, a.mrc_flows, a.evicted_mrc_flows, a.mrc,
        a.incast, a.talkers_, a.flow_queue_pairs_, a.flow_ports_, a.regions_, a.queue_pairs_, a.crc_causes_);
    for (auto& histogram : a.latencies_) {
      bool there = histogram != nullptr;
      each(archive, there);
      if (!there) continue;
      if (!histogram) histogram = std::make_unique<Histogram>();
      each(archive, *histogram);
    }
    each(archive, a.connection_rows_);
    for (auto& kind : a.events_) each(archive, kind);
    map(archive, a.affected_);
    all(archive, a.skipped_affected_, a.groups_);
    if constexpr (A::loads) a.sentences_.push_back(archive.sentences_);
  }
  template <class A, class... T>
  static void all(A& archive, T&... values) {
    (each(archive, values), ...);
  }
};

std::string save(const Analysis& analysis) {
  Saver saver;
  saver.out_ = layout();
  // Loading uses the same function, so it requires a mutable analysis. Saving does not change the analysis.
  Archived::each(saver, const_cast<Analysis&>(analysis));
  return std::move(saver.out_);
}

tl::expected<Analysis, std::string> load(Bytes bytes) {
  const std::string expected = layout();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(expected))
    return tl::unexpected(std::string(text.starts_with("rdmawire analysis ")
                                          ? "the analysis was saved by a different rdmawire build: use the same build "
                                            "in all processes"
                                          : "not a saved analysis"));
  try {
    Loader loader(bytes.subspan(expected.size()));
    Analysis analysis;
    Archived::each(loader, analysis);
    if (!loader.at_end()) throw Unreadable("trailing bytes");
    return analysis;
  } catch (const Unreadable& why) {
    return tl::unexpected(std::string("cannot load the saved analysis: ") + why.what());
  }
}

}  // namespace rdmawire::captures::analysis
