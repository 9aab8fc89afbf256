#include "pysdk/src/analysis_rows.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "captures/analysis/findings.hpp"
#include "dissectors/output/json.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/time.hpp"

namespace rdmawire::python {
namespace {

using tracking::Connection;
using tracking::Event;
using tracking::Message;
using tracking::Side;

std::string_view name_of(Side end) { return end == Side::a ? "a" : "b"; }
/// The name of the cause of events that have this NAK code.
std::string_view name_of_nak(std::size_t code) {
  return to_string(static_cast<tracking::Cause>(static_cast<std::size_t>(tracking::Cause::psn_sequence_error) + code));
}
constexpr std::size_t nak_codes = std::tuple_size_v<decltype(tracking::Sent::naks)>;

std::string_view name_of(Wire wire) { return wire == Wire::none ? "other" : output::wire_name(wire); }

/// The names of an enumeration in order. `name(i)` returns each name, and "" or "?" after the last one.
template <class NameOf>
std::shared_ptr<const Words> words_of(NameOf name, std::size_t most = 256) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < most; ++i) {
    const std::string_view word = name(i);
    if (word.empty() || word == "?") break;
    words.push_back(word);
  }
  return std::make_shared<Words>(words);
}
template <class Enumeration>
std::shared_ptr<const Words> words_of_enumeration(std::size_t most = 256) {
  return words_of([](std::size_t i) { return to_string(static_cast<Enumeration>(i)); }, most);
}

/// The possible values of text columns with a closed set of values.
struct Vocabulary {
  std::shared_ptr<const Words> ends = words_of([](std::size_t i) { return name_of(static_cast<Side>(i)); }, 2);
  std::shared_ptr<const Words> wires = words_of([](std::size_t i) { return name_of(static_cast<Wire>(i)); });
  std::shared_ptr<const Words> naks = words_of(name_of_nak, nak_codes);
  std::shared_ptr<const Words> messages = words_of_enumeration<tracking::MessageKind>();
  std::shared_ptr<const Words> outcomes = words_of_enumeration<tracking::Outcome>();
  std::shared_ptr<const Words> events = words_of_enumeration<tracking::EventKind>(tracking::event_kinds);
  std::shared_ptr<const Words> causes = words_of_enumeration<tracking::Cause>(tracking::causes);
  std::shared_ptr<const Words> severities = words_of_enumeration<tracking::Severity>();
  std::shared_ptr<const Words> certainties = words_of_enumeration<tracking::Certainty>();
  std::shared_ptr<const Words> unobserved = words_of_enumeration<tracking::Unobserved>(tracking::unobserved_values);
  std::shared_ptr<const Words> services = words_of_enumeration<tracking::Service>();
  std::shared_ptr<const Words> paired_by = words_of_enumeration<tracking::JoinedBy>();
  std::shared_ptr<const Words> confidences = words_of_enumeration<tracking::Confidence>();
  std::shared_ptr<const Words> uppers = words_of_enumeration<Upper>();
  std::shared_ptr<const Words> opcodes = [] {
    std::vector<std::string_view> words;
    for (unsigned i = 0; i < 256; ++i)
      if (const auto& row = opcode(static_cast<std::uint8_t>(i)); row.known) words.push_back(row.name);
    return std::make_shared<Words>(words);
  }();
};
const Vocabulary& vocabulary() {
  static const Vocabulary made;
  return made;
}

/// Writes the cells of a row to a Batch, or collects the descriptions of the columns (ColumnInfo). message_cells() and
/// similar functions do both with the same calls.
class Cells {
 public:
  explicit Cells(std::vector<ColumnInfo>& infos) : infos_(&infos) {}
  explicit Cells(Batch& batch) : batch_(&batch) {}

  void number(std::string_view name, ColumnType type, std::uint64_t value) {
    if (Column* column = at(name, type, false)) column->add(value);
  }
  void number_if(std::string_view name, ColumnType type, bool there, std::uint64_t value) {
    if (Column* column = at(name, type, true)) there ? column->add(value) : column->add_missing();
  }
  /// Text that is one of `words`.
  void word(std::string_view name, const std::shared_ptr<const Words>& words, std::string_view value) {
    if (Column* column = at(name, ColumnType::text, false, words)) column->add_text(value);
  }
  void word_if(std::string_view name, const std::shared_ptr<const Words>& words, bool there, std::string_view value) {
    if (Column* column = at(name, ColumnType::text, true, words))
      there ? column->add_text(value) : column->add_missing();
  }
  void address(std::string_view name, const tracking::PortAddress& address) {
    if (Column* column = at(name, ColumnType::text, false))
      column->add_text({address.high, address.low, 0},
                       [&](std::string& text) { text = captures::analysis::to_text(address); });
  }
  void flag(std::string_view name, bool value) { number(name, ColumnType::boolean, value ? 1 : 0); }
  void count(std::string_view name, std::uint64_t value) { number(name, ColumnType::uint64, value); }
  /// A frame number. 0: missing.
  void frame_if(std::string_view name, std::uint64_t frame) { number_if(name, ColumnType::uint64, frame != 0, frame); }
  void time(std::string_view name, std::int64_t ns) { number(name, ColumnType::time, static_cast<std::uint64_t>(ns)); }
  void time_if(std::string_view name, std::int64_t ns) {
    number_if(name, ColumnType::time, ns != 0, static_cast<std::uint64_t>(ns));
  }
  void nanoseconds(std::string_view name, std::int64_t ns) {
    number(name, ColumnType::int64, static_cast<std::uint64_t>(ns));
  }
  void nanoseconds_if(std::string_view name, bool there, std::int64_t ns) {
    number_if(name, ColumnType::int64, there, static_cast<std::uint64_t>(ns));
  }

 private:
  Column* at(std::string_view name, ColumnType type, bool optional, const std::shared_ptr<const Words>& words = {}) {
    if (batch_) return &batch_->columns[next_++];
    infos_->push_back({std::string(name), type, optional, {}, words});
    return nullptr;
  }
  std::vector<ColumnInfo>* infos_ = nullptr;
  Batch* batch_ = nullptr;
  std::size_t next_ = 0;
};

constexpr ColumnType u8 = ColumnType::uint8, u16 = ColumnType::uint16, u32 = ColumnType::uint32,
                     u64 = ColumnType::uint64;

void message_cells(Cells& to, const Message& m) {
  const Vocabulary& v = vocabulary();
  to.count("connection", m.connection);
  to.count("message", m.number);
  to.word("end", v.ends, name_of(m.end));
  to.word("operation", v.messages, to_string(m.kind));
  to.word("outcome", v.outcomes, to_string(m.outcome));
  to.count("size", m.size);
  to.frame_if("first_frame", m.first_frame);
  to.frame_if("last_frame", m.last_frame);
  to.frame_if("first_response_frame", m.first_response_frame);
  to.frame_if("answer_frame", m.answer_frame);
  to.time_if("start", m.start);
  to.time_if("end_time", m.end_time);
  to.time_if("first_response_time", m.first_response_time);
  to.time_if("answer_time", m.answer_time);
  to.nanoseconds_if("latency_ns", m.start != 0 && m.answer_time != 0, difference(m.answer_time, m.start));
  to.number("packets", u32, m.packets);
  to.number("repeated_packets", u32, m.repeated_packets);
  to.number("first_psn", u32, m.first_psn);
  to.number("last_psn", u32, m.last_psn);
  to.number_if("remote_address", u64, m.has_remote, m.remote_address);
  to.number_if("key", u32, m.has_remote, m.key);
  to.number_if("immediate", u64, m.has_immediate, m.immediate);
  to.number_if("invalidated_key", u32, m.has_invalidate, m.invalidated_key);
  to.flag("solicited", m.solicited);
  const bool refused = m.outcome == tracking::Outcome::refused && m.nak_code < nak_codes;
  to.word_if("nak", v.naks, refused, refused ? name_of_nak(m.nak_code) : std::string_view());
}

void event_cells(Cells& to, const Event& e) {
  const Vocabulary& v = vocabulary();
  to.word("kind", v.events, to_string(e.kind));
  to.word("cause", v.causes, to_string(e.cause));
  to.word("severity", v.severities, to_string(tracking::event_rows[static_cast<std::size_t>(e.kind)].severity));
  to.word("confidence", v.certainties, to_string(e.certainty));
  to.word_if("not_observed", v.unobserved, e.unobserved != tracking::Unobserved::nothing, to_string(e.unobserved));
  to.frame_if("connection", e.connection);
  to.word("end", v.ends, name_of(e.end));
  to.frame_if("frame", e.frame);
  to.frame_if("last_frame", e.last_frame);
  to.frame_if("origin_frame", e.origin_frame);
  to.frame_if("cause_frame", e.cause_frame);
  to.time_if("time", e.time);
  to.nanoseconds("duration_ns", e.duration);
  to.count("packets", e.packets);
  to.count("bytes", e.bytes);
  to.number("psn", u32, e.psn);
  to.count("value", e.value);
  to.count("observed", e.found);
}

void sent_cells(Cells& to, const std::string& prefix, const tracking::Sent& sent) {
  const auto named = [&](std::string_view name) { return prefix + std::string(name); };
  to.count(named("packets"), sent.packets);
  to.count(named("wire_bytes"), sent.wire_bytes);
  to.count(named("payload_bytes"), sent.payload_bytes);
  to.count(named("requests"), sent.requests);
  to.count(named("responses"), sent.responses);
  for (std::size_t i = 0; i < tracking::message_kinds; ++i)
    to.number(named("messages_") + std::string(to_string(static_cast<tracking::MessageKind>(i))), u32,
              sent.messages[i]);
  to.count(named("message_bytes"), sent.message_bytes);
  to.count(named("messages_completed"), sent.messages_completed);
  to.count(named("messages_refused"), sent.messages_refused);
  to.count(named("retransmitted_packets"), sent.retransmitted_packets);
  to.count(named("retransmitted_bytes"), sent.retransmitted_bytes);
  to.number(named("recoveries"), u32, sent.rounds);
  to.number(named("lost_in_network"), u32, sent.lost_in_network);
  to.number(named("lost_in_capture"), u32, sent.lost_in_capture);
  to.number(named("out_of_order"), u32, sent.out_of_order);
  to.number(named("duplicates"), u32, sent.duplicates);
  to.number(named("acks"), u32, sent.acks);
  to.number(named("rnr_naks"), u32, sent.rnr_naks);
  for (std::size_t i = 0; i < nak_codes; ++i)
    to.number(named("naks_") + std::string(name_of_nak(i)), u32, sent.naks[i]);
  to.number(named("cnps"), u32, sent.cnps);
  to.number(named("ecn_capable"), u32, sent.ecn_capable);
  to.number(named("ecn_marked"), u32, sent.ecn_marked);
  to.number(named("crc_bad"), u32, sent.crc_bad);
  to.number(named("truncated"), u32, sent.truncated);
  to.number_if(named("request_dscp"), u8, sent.requests != 0, sent.request_dscp);
  to.number_if(named("response_dscp"), u8, sent.responses != 0, sent.response_dscp);
  to.count(named("latency_count"), sent.latency_count);
  to.nanoseconds(named("latency_sum_ns"), sent.latency_sum);
  to.nanoseconds_if(named("latency_max_ns"), sent.latency_count != 0, sent.latency_max);
}

void connection_cells(Cells& to, const Connection& c, std::uint64_t formerly) {
  const Vocabulary& v = vocabulary();
  to.count("connection", c.id);
  to.word("service", v.services, to_string(c.service));
  to.word("wire", v.wires, name_of(c.wire));
  for (const Side end : {Side::a, Side::b}) {
    const std::string prefix = std::string(name_of(end)) + "_";
    to.address(prefix + "address", c.at(end).address);
    to.number_if(prefix + "qp", u32, c.at(end).qp_known, c.at(end).qp);
  }
  to.word("paired_by", v.paired_by, to_string(c.paired_by));
  to.word("confidence", v.confidences, to_string(c.confidence));
  to.number_if("mtu", u32, c.mtu != 0, c.mtu);
  to.flag("mtu_negotiated", c.mtu_negotiated);
  to.word_if("upper", v.uppers, c.upper.protocol != Upper::unknown, to_string(c.upper.protocol));
  to.number_if("service_port", u16, c.service_port != 0, c.service_port);
  to.count("first_frame", c.first_frame);
  to.count("last_frame", c.last_frame);
  to.time("first_time", c.first_time);
  to.time("last_time", c.last_time);
  to.frame_if("opened_frame", c.opened_frame);
  to.frame_if("closed_frame", c.closed_frame);
  to.nanoseconds_if("open_ns", c.opened_frame != 0, c.open_duration);
  to.flag("replaced", c.replaced);
  sent_cells(to, "sent_a_", c.by(Side::a));
  sent_cells(to, "sent_b_", c.by(Side::b));
  to.frame_if("merged_from", formerly);
}

/// Fields of a packet, stored until its connection is known.
struct Seen {
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  std::uint32_t psn = 0, bytes = 0;
  std::uint8_t opcode = 0;
  bool bth = false;
};

void packet_cells(Cells& to, std::uint64_t frame, const Seen& seen, const tracking::PacketNote& note) {
  const Vocabulary& v = vocabulary();
  const bool known = seen.frame == frame, bth = known && seen.bth;
  to.count("frame", frame);
  to.number_if("time", ColumnType::time, known, static_cast<std::uint64_t>(seen.time));
  to.count("connection", note.connection);
  to.word("end", v.ends, name_of(note.end));
  to.word_if("operation", v.opcodes, bth && opcode(seen.opcode).known, opcode(seen.opcode).name);
  to.number_if("psn", u32, bth, seen.psn);
  to.number_if("bytes", u32, known, seen.bytes);
  to.number("relative_psn", u32, note.relative_psn);
  to.frame_if("message", note.message);
  to.word_if("requester", v.ends, note.message != 0, name_of(note.requester));
  to.frame_if("related_frame", note.related_frame);
  to.nanoseconds_if("related_delay_ns", note.related_frame != 0, note.related_delay);
  to.number("outstanding", u32, note.outstanding);
  to.flag("retransmitted", note.again);
}

enum class Kind : std::uint8_t { messages, events, connections, packets };
constexpr std::array<std::string_view, 4> kind_names = {"messages", "events", "connections", "packets"};

std::vector<ColumnInfo> infos_of(Kind kind) {
  std::vector<ColumnInfo> infos;
  Cells cells(infos);
  switch (kind) {
    case Kind::messages: message_cells(cells, {}); break;
    case Kind::events: event_cells(cells, {}); break;
    case Kind::connections: connection_cells(cells, {}, 0); break;
    case Kind::packets: packet_cells(cells, 0, {}, {}); break;
  }
  return infos;
}

/// Converts tracking results into rows. Derived classes store the rows.
class RowSink : public tracking::Sink {
 public:
  explicit RowSink(Kind kind) : kind_(kind) {
    if (kind == Kind::packets) seen_.resize(packets_waiting);
  }
  /// Adds this sink to the options of an analysis.
  void listen(captures::analysis::RunOptions& options) {
    options.also = this;
    if (kind_ != Kind::packets) return;
    options.tracker.packets = true;
    options.on_packet = [this](const tracking::Packet& packet) { see(packet); };
  }

  void message(const Connection& /*connection*/, const Message& message) override {
    if (kind_ == Kind::messages) write([&](Cells& to) { message_cells(to, message); });
  }
  void event(const Connection* /*connection*/, const Event& event) override {
    if (kind_ == Kind::events) write([&](Cells& to) { event_cells(to, event); });
  }
  void connection(const Connection& connection, tracking::CloseReason /*farewell*/) override {
    if (kind_ != Kind::connections) return;
    const auto half = formerly_.find(connection.id);
    const std::uint64_t id = half == formerly_.end() ? 0 : half->second;
    if (half != formerly_.end()) formerly_.erase(half);
    write([&](Cells& to) { connection_cells(to, connection, id); });
  }
  void merged(const Connection& connection, std::uint64_t id) override {
    if (kind_ == Kind::connections) formerly_[connection.id] = id;
  }
  void packet(const Connection& /*connection*/, std::uint64_t frame, const tracking::PacketNote& note) override {
    write([&](Cells& to) { packet_cells(to, frame, seen_[frame % seen_.size()], note); });
  }

 protected:
  ~RowSink() = default;
  /// Returns the batch for the next row, or null if no more rows are wanted.
  virtual Batch* begin_row() = 0;
  virtual void end_row() {}

 private:
  /// Maximum distance in packets between a packet that waits for its connection and the newest packet.
  static constexpr std::size_t packets_waiting = 1U << 17;

  template <class Write>
  void write(Write cells_of) {
    Batch* const batch = begin_row();
    if (!batch) return;
    Cells cells(*batch);
    cells_of(cells);
    end_row();
  }
  void see(const tracking::Packet& packet) {
    Seen one{packet.number, packet.time_ns, 0, packet.stack.wire_length, 0, false};
    if (const auto header = packet.stack.get<Bth>()) {
      one.bth = true;
      one.psn = header->get<"psn">();
      one.opcode = header->get<"opcode">();
    }
    seen_[packet.number % seen_.size()] = one;
  }

  Kind kind_;
  std::unordered_map<std::uint64_t, std::uint64_t> formerly_;
  std::vector<Seen> seen_;  ///< ring buffer, indexed by frame
};

/// Rows of an analysis that runs in its own thread. The thread waits until a reader provides a batch, and writes the
/// row into it, so at most one unread row is kept.
class AnalysisRows final : public Rows {
 public:
  AnalysisRows(std::shared_ptr<const AnalysisRequest> request, Kind kind)
      : state_(std::make_unique<State>(std::move(request), kind)) {}
  AnalysisRows(const AnalysisRows&) = delete;
  AnalysisRows& operator=(const AnalysisRows&) = delete;

  ~AnalysisRows() override {
    if (process_ != ::getpid()) {
      // After fork() the thread belongs to the parent process. Its state cannot be joined or released here.
      static_cast<void>(state_.release());
      return;
    }
    {
      const std::scoped_lock lock(state_->mutex);
      state_->abandoned = true;
      state_->stop = true;
    }
    state_->changed.notify_all();
    if (state_->thread.joinable()) state_->thread.join();
  }

  tl::expected<void, std::string> read(Batch& batch, std::size_t most, std::size_t bytes) override {
    if (process_ != ::getpid())
      return tl::unexpected(std::string("the rows are read by the parent process; start a new iteration after fork()"));
    State& s = *state_;
    std::unique_lock lock(s.mutex);
    if (ended_) return {};
    s.batch = &batch;
    s.until_rows = most > SIZE_MAX - batch.rows() ? SIZE_MAX : batch.rows() + most;
    s.until_bytes = bytes > SIZE_MAX - batch.memory() ? SIZE_MAX : batch.memory() + bytes;
    const std::size_t before = batch.rows();
    if (!s.thread.joinable()) s.thread = std::thread([&s] { s.run(); });
    s.changed.notify_all();
    while (s.batch && !s.ended) {
      s.changed.wait_for(lock, std::chrono::milliseconds(100));
      if (!keep_going || !s.batch || s.ended) continue;
      lock.unlock();  // released here, because keep_going() waits for the interpreter's lock
      const bool goes_on = keep_going();
      lock.lock();
      if (!goes_on) {
        s.abandoned = s.stop = ended_ = true;
        s.batch = nullptr;
        s.changed.notify_all();
        return {};
      }
    }
    s.batch = nullptr;
    if (batch.rows() != before || !s.ended) return {};
    ended_ = true;
    if (s.read_errors.empty()) return {};
    return tl::unexpected(fmt::format("{}", fmt::join(s.read_errors, "\n")));
  }

 private:
  struct State final : RowSink {
    State(std::shared_ptr<const AnalysisRequest> what, Kind kind) : RowSink(kind), request(std::move(what)) {}

    void run() {
      captures::analysis::RunOptions options = request->run;
      options.threads = 1;  // one thread: the order of rows is then reproducible
      options.stop = &stop;
      listen(options);
      std::vector<std::string> found;
      try {
        found = captures::analysis::run(options).errors;
      } catch (const std::exception& error) {
        found.emplace_back(error.what());
      }
      const std::scoped_lock lock(mutex);
      read_errors = std::move(found);
      ended = true;
      changed.notify_all();
    }
    Batch* begin_row() override {
      writing = std::unique_lock(mutex);
      changed.wait(writing, [&] { return batch || abandoned; });
      if (!abandoned) return batch;
      writing.unlock();
      return nullptr;
    }
    void end_row() override {
      const std::size_t rows = batch->rows();
      if (rows >= until_rows || (rows % 256 == 0 && batch->memory() >= until_bytes)) {
        batch = nullptr;
        changed.notify_all();
      }
      writing.unlock();
    }

    std::shared_ptr<const AnalysisRequest> request;
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::unique_lock<std::mutex> writing;  ///< locked by the analyzing thread while it writes a row
    std::condition_variable changed;
    Batch* batch = nullptr;  ///< destination of rows. null: no reader waits
    std::size_t until_rows = 0, until_bytes = 0;
    bool ended = false, abandoned = false;
    std::vector<std::string> read_errors;
    std::thread thread;
  };

  std::unique_ptr<State> state_;
  pid_t process_ = ::getpid();
  bool ended_ = false;
};

class AnalysisTable final : public TableSource {
 public:
  AnalysisTable(std::shared_ptr<const AnalysisRequest> request, Kind kind)
      : request_(std::move(request)), kind_(kind), infos_(infos_of(kind)) {}
  [[nodiscard]] const std::vector<ColumnInfo>& columns() const override { return infos_; }
  tl::expected<std::unique_ptr<Rows>, std::string> begin() override {
    if (const auto stream = request_->stream())
      return tl::unexpected(*stream + " is a stream and was read already; save it to a file first");
    return std::make_unique<AnalysisRows>(request_, kind_);
  }

 private:
  std::shared_ptr<const AnalysisRequest> request_;
  Kind kind_;
  std::vector<ColumnInfo> infos_;
};

/// Rows that are already in memory.
class ReadyRows final : public Rows {
 public:
  explicit ReadyRows(std::shared_ptr<Batch> batch) : batch_(std::move(batch)) {}
  tl::expected<void, std::string> read(Batch& batch, std::size_t /*most*/, std::size_t /*bytes*/) override {
    if (batch_) batch = std::move(*batch_);
    batch_.reset();
    return {};
  }

 private:
  std::shared_ptr<Batch> batch_;
};
class ReadyTable final : public TableSource {
 public:
  ReadyTable(std::vector<ColumnInfo> infos, Batch batch)
      : infos_(std::move(infos)), batch_(std::make_shared<Batch>(std::move(batch))) {}
  [[nodiscard]] const std::vector<ColumnInfo>& columns() const override { return infos_; }
  tl::expected<std::unique_ptr<Rows>, std::string> begin() override {
    if (!batch_) return tl::unexpected(std::string("the rows of a shard can be read only once"));
    return std::make_unique<ReadyRows>(std::move(batch_));
  }

 private:
  std::vector<ColumnInfo> infos_;
  std::shared_ptr<Batch> batch_;
};

class RowsOfShard final : public ShardRows {
 public:
  RowsOfShard(const AnalysisRequest& request, Kind kind)
      : filter_(request.filter), infos_(infos_of(kind)), sink_(kind, infos_), tracker_([&] {
          captures::analysis::RunOptions options = request.run;
          sink_.listen(options);
          return options;
        }()) {}
  captures::analysis::ShardTracker& tracker() override { return tracker_; }
  std::shared_ptr<TableSource> table() override { return std::make_shared<ReadyTable>(infos_, std::move(sink_.batch)); }

 private:
  struct Collector final : RowSink {
    Collector(Kind kind, const std::vector<ColumnInfo>& infos) : RowSink(kind), batch(infos) {}
    Batch* begin_row() override { return &batch; }
    Batch batch;
  };
  std::shared_ptr<const output::Filter> filter_;
  std::vector<ColumnInfo> infos_;
  Collector sink_;
  captures::analysis::ShardTracker tracker_;
};

std::optional<Kind> kind_of(const std::string& name) {
  for (std::size_t i = 0; i < kind_names.size(); ++i)
    if (name == kind_names[i]) return static_cast<Kind>(i);
  return std::nullopt;
}
std::string no_such_kind(const std::string& name) {
  return fmt::format("unknown table {}; expected {}", name, fmt::join(kind_names, ", "));
}

}  // namespace

tl::expected<std::shared_ptr<TableSource>, std::string> analysis_table(std::shared_ptr<const AnalysisRequest> request,
                                                                       const std::string& kind) {
  const auto which = kind_of(kind);
  if (!which) return tl::unexpected(no_such_kind(kind));
  return std::make_shared<AnalysisTable>(std::move(request), *which);
}

tl::expected<std::unique_ptr<ShardRows>, std::string> ShardRows::of(const AnalysisRequest& request,
                                                                    const std::string& kind) {
  const auto which = kind_of(kind);
  if (!which) return tl::unexpected(no_such_kind(kind));
  return std::make_unique<RowsOfShard>(request, *which);
}

}  // namespace rdmawire::python
