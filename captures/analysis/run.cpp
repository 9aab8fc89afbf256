#include "captures/analysis/run.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <thread>

#include "captures/analysis/peek.hpp"
#include "captures/analysis/saturating.hpp"

namespace rdmawire::captures::analysis {
namespace {

// Every share of the work hears of all addresses, so that it makes no difference how many there are.
tracking::TrackerOptions tracker_options(const RunOptions& options) {
  tracking::TrackerOptions result = options.tracker;
  result.notes_addresses = false;
  return result;
}

/// Gives what is heard to the analysis, and to whom else it concerns.
class Tee final : public tracking::Sink {
 public:
  Tee(Analysis& analysis, const RunOptions& options)
      : analysis_(analysis), also_(options.also), wanted_id_(options.connection) {}

  void message(const Connection& connection, const Message& message) override {
    if (!wants(connection.id)) return;
    analysis_.message(connection, message);
    if (also_) also_->message(connection, message);
  }
  void event(const Connection* connection, const Event& event) override {
    if (!wants(connection ? connection->id : 0)) return;
    analysis_.event(connection, event);
    if (also_) also_->event(connection, event);
  }
  void connection(const Connection& connection, tracking::Farewell farewell) override {
    if (!wants(connection.id)) return;
    if (wanted_id_) wanted = connection;
    analysis_.connection(connection, farewell);
    if (also_) also_->connection(connection, farewell);
  }
  void merged(const Connection& connection, std::uint64_t id) override {
    if (!wants(connection.id)) return;
    analysis_.merged(connection, id);
    if (also_) also_->merged(connection, id);
  }
  void packet(const Connection& connection, std::uint64_t frame, const tracking::PacketNote& note) override {
    if (also_ && wants(connection.id)) also_->packet(connection, frame, note);
  }

  std::optional<Connection> wanted;

 private:
  [[nodiscard]] bool wants(std::uint64_t id) const { return wanted_id_ == 0 || id == wanted_id_; }
  Analysis& analysis_;
  tracking::Sink* also_;
  std::uint64_t wanted_id_;
};

struct OpenFile {
  std::string name;
  bool seekable = false;
  std::int64_t first_time = INT64_MAX;
  std::optional<Reader> reader;  ///< of what cannot be opened twice, with its first record taken
  Record first;
  Next first_next = Next::end;
};

bool is_regular(const std::string& name) {
  struct stat status {};
  return name != "-" && ::stat(name.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::vector<OpenFile> open_files(const RunOptions& options, std::vector<std::string>& troubles) {
  std::vector<OpenFile> files;
  for (const std::string& name : options.files) {
    auto reader = Reader::open(name);
    if (!reader) {
      troubles.push_back(to_string(reader.error()));
      continue;
    }
    OpenFile file;
    file.name = name;
    file.seekable = is_regular(name);
    file.reader = std::move(*reader);
    file.first_next = file.reader->next(file.first);
    if (file.first_next == Next::record) file.first_time = file.first.time;
    files.push_back(std::move(file));
    if (files.back().seekable) files.back().reader.reset();  // thousands of files are not held open at once
  }
  std::stable_sort(files.begin(), files.end(),
                   [](const OpenFile& a, const OpenFile& b) { return a.first_time < b.first_time; });
  return files;
}

class Window {
 public:
  Window(const RunOptions& options, std::int64_t origin) : from_(options.from), to_(options.to) {
    for (Boundary* boundary : {&from_, &to_})
      if (boundary->kind == Boundary::Kind::relative) {
        boundary->kind = Boundary::Kind::absolute;
        boundary->value =
            std::max<std::int64_t>(origin, 0) > INT64_MAX - boundary->value ? INT64_MAX : boundary->value + origin;
      }
  }
  [[nodiscard]] bool has(std::int64_t time, std::uint64_t frame) const {
    const auto value = [&](const Boundary& b) {
      return b.kind == Boundary::Kind::frame ? static_cast<std::int64_t>(frame) : time;
    };
    return (from_.kind == Boundary::Kind::none || value(from_) >= from_.value) &&
           (to_.kind == Boundary::Kind::none || value(to_) <= to_.value);
  }

 private:
  Boundary from_, to_;
};

/// Finds files that were recorded at the same time. At the border of two pieces of one capture some packets may stand
/// in the wrong order; here it is half of a file and more.
class Overlaps {
 public:
  void packet(std::int64_t time) {
    first_ = std::min(first_, time);
    last_ = std::max(last_, time);
  }
  /// Whether the file whose packets were told overlaps an earlier one. Files come in the order of their first packets.
  bool end_of_file() {
    if (first_ > last_) return false;  // it has no packet
    bool overlaps = false;
    if (latest_first_ <= latest_last_) {
      const std::int64_t shared = difference(std::min(latest_last_, last_), std::max(latest_first_, first_));
      const std::int64_t shorter = std::min(difference(latest_last_, latest_first_), difference(last_, first_));
      overlaps = shared > 0 && shared >= shorter / 2;
    }
    if (latest_first_ > latest_last_ || last_ > latest_last_) {
      latest_first_ = first_;
      latest_last_ = last_;
    }
    first_ = INT64_MAX;
    last_ = INT64_MIN;
    return overlaps;
  }

 private:
  std::int64_t first_ = INT64_MAX, last_ = INT64_MIN;
  std::int64_t latest_first_ = INT64_MAX, latest_last_ = INT64_MIN;  ///< of the file that lasted longest so far
};

/// Reads all files for one share. `input` and `troubles` are filled by the first share only.
void walk(const RunOptions& options, std::vector<OpenFile>& files, Pipeline& pipeline, const Window& window,
          bool first_share, Input& input, std::vector<std::string>& troubles) {
  std::uint64_t frame = 0;
  Overlaps overlaps;
  for (OpenFile& file : files) {
    Input::File facts{file.name, 0, 0, frame + 1, std::nullopt, {}};
    std::optional<Reader> own;
    Record record;
    Next next = Next::end;
    Reader* reader = nullptr;
    if (file.seekable) {
      auto opened = Reader::open(file.name);
      if (!opened) {
        if (first_share) troubles.push_back(to_string(opened.error()));
        continue;
      }
      own = std::move(*opened);
      reader = &*own;
      next = reader->next(record);
    } else {
      reader = &*file.reader;
      record = file.first;
      next = file.first_next;
    }
    const bool stays = reader->stable();
    while (next == Next::record) {
      ++frame;
      ++facts.packets;
      facts.octets += record.bytes.size();
      overlaps.packet(record.time);
      if (window.has(record.time, frame)) pipeline.add(record, frame, stays);
      if ((frame & 0xfff) == 0) {
        if (options.stop && options.stop->load(std::memory_order_relaxed)) return pipeline.drain();
        if (first_share && options.progress)
          options.progress(frame, reader->position(), reader->file_size(), reader->name());
      }
      next = reader->next(record);
    }
    pipeline.drain();
    if (!first_share) continue;
    if (facts.packets == 0) facts.first_frame = 0;
    input.overlapping_files += overlaps.end_of_file();
    for (const Interface& interface : reader->interfaces())
      if (const auto drops = interface.statistics ? interface.statistics->drops() : std::nullopt)
        facts.lost_by_capture = facts.lost_by_capture.value_or(0) + *drops;
    if (next == Next::error) {
      facts.trouble = to_string(reader->error());
      troubles.push_back(facts.trouble);
    }
    input.files.push_back(std::move(facts));
  }
}

bool read_number(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// "12.5" to nanoseconds.
std::optional<std::int64_t> read_seconds(std::string_view text) {
  const std::size_t dot = text.find('.');
  std::int64_t whole = 0, fraction = 0;
  if (!read_number(text.substr(0, dot), whole) || whole < 0 || whole > INT64_MAX / 1'000'000'000 - 1) return {};
  if (dot != std::string_view::npos) {
    std::string digits(text.substr(dot + 1));
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return {};
    digits.resize(9, '0');
    if (!read_number(digits, fraction)) return {};
  }
  return whole * 1'000'000'000 + fraction;
}

}  // namespace

std::optional<Boundary> Boundary::parse(std::string_view text) {
  constexpr std::string_view frame = "frame:";
  Boundary boundary;
  if (text.starts_with(frame)) {
    boundary.kind = Kind::frame;
    if (!read_number(text.substr(frame.size()), boundary.value) || boundary.value < 1) return {};
    return boundary;
  }
  if (text.size() > 10 && text[4] == '-' && text[7] == '-') {
    // 2026-11-21T07:53:37.1, the T being a blank or a T
    std::int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0;
    if (text.back() == 'Z') text.remove_suffix(1);
    if (text.size() < 19 || text[13] != ':' || text[16] != ':' || (text[10] != 'T' && text[10] != ' ')) return {};
    const auto seconds = read_seconds(text.substr(17));
    if (!read_number(text.substr(0, 4), year) || !read_number(text.substr(5, 2), month) ||
        !read_number(text.substr(8, 2), day) || !read_number(text.substr(11, 2), hour) ||
        !read_number(text.substr(14, 2), minute) || !seconds)
      return {};
    const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                           std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    if (!date.ok() || hour > 23 || minute > 59 || year > 2200) return {};
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    boundary.kind = Kind::absolute;
    boundary.value = (days * 86400 + hour * 3600 + minute * 60) * 1'000'000'000 + *seconds;
    return boundary;
  }
  const auto ns = read_seconds(text);
  if (!ns) return {};
  constexpr std::int64_t epoch_from = 100'000'000LL * 1'000'000'000;  // in 1973: no capture lasts that long
  boundary.kind = *ns >= epoch_from ? Kind::absolute : Kind::relative;
  boundary.value = *ns;
  return boundary;
}

namespace {

/// A record that waits to be dissected.
struct Coming {
  Bytes bytes;
  std::int64_t time = 0;
  std::uint64_t frame = 0;
  std::uint32_t wire_length = 0;
  LinkType link = LinkType::ethernet;
  bool mine = false;
  Peek seen;
  bool fetches = false;  // the next two are set
  tracking::Tracker::Ahead ahead;
  std::uint64_t queue_pair_id = 0;
};
constexpr std::size_t coming_records = 24;  // in three steps

}  // namespace

struct Pipeline::State {
  State(const RunOptions& run_options, unsigned this_share, unsigned all_shares)
      : options(run_options),
        share(this_share),
        shares(all_shares),
        division(all_shares),
        analysis(run_options.analysis),
        tee(analysis, run_options),
        dissector(run_options.dissector),
        tracker(tee, tracker_options(run_options)) {}

  const RunOptions& options;
  unsigned share, shares;
  Division division;
  Analysis analysis;
  Tee tee;
  tracking::Dissector dissector;
  tracking::Tracker tracker;
  tracking::Subnet subnet{analysis.management};
  tracking::Packet packet;
  std::optional<std::pair<PortAddress, PortAddress>> only;
  std::array<Coming, coming_records> coming;  // a ring
  std::size_t came = 0, went = 0;
  std::array<std::uint64_t, 4> recent{};  // hashes of flows

  void take(const Coming& record);
};

Pipeline::Pipeline(const RunOptions& options, unsigned share, unsigned shares)
    : state_(std::make_unique<State>(options, share, shares)) {}
Pipeline::~Pipeline() = default;

void Pipeline::add(const Record& record, std::uint64_t frame, bool stays) {
  State& s = *state_;
  const Peek seen = peek(record.bytes, record.link, record.wire_length, s.options.dissector.decode.extra_roce_v2_port);
  const bool mine = s.division.next(seen, record.bytes, record.link) == s.share;
  // Incast is a receiver's matter, whichever senders it has: divided by receiver.
  const bool counts =
      seen.payload && !s.options.filter && !s.only && (s.shares == 1 || seen.receiver_hash() % s.shares == s.share);
  if (counts) s.analysis.incast.add(seen.from, seen.to, record.time, seen.payload);
  if (seen.known) s.tracker.note_addresses(seen.from, seen.to);
  if (!mine && !seen.text) return;
  if (!stays || !s.tracker.worth_fetching()) {
    drain();
    s.take({record.bytes, record.time, frame, record.wire_length, record.link, mine, seen, false, {}, 0});
    return;
  }
  Coming& newest = s.coming[s.came++ % s.coming.size()];
  newest = {record.bytes, record.time, frame, record.wire_length, record.link, mine, seen, false, {}, 0};
  if (seen.bth) {
    const FlowKey ports{seen.from, seen.to, 0};
    newest.ahead = {ports.with(seen.dest_qp).hash(), opcode(seen.opcode).direction == Direction::response};
    // What one of the last packets belonged to is in the cache: most traffic comes in bursts.
    newest.fetches = std::find(s.recent.begin(), s.recent.end(), newest.ahead.hash) == s.recent.end();
    if (newest.fetches) {
      s.recent[s.came % s.recent.size()] = newest.ahead.hash;
      newest.queue_pair_id = Analysis::queue_pair_id(ports, seen.dest_qp);
      s.tracker.fetch_slot(newest.ahead);
      s.analysis.fetch_slot(newest.queue_pair_id);
    }
  }
  constexpr std::size_t step = coming_records / 3;
  if (s.came - s.went > step)
    if (const Coming& packet = s.coming[(s.came - 1 - step) % s.coming.size()]; packet.fetches) {
      s.tracker.fetch_connection(packet.ahead);
      s.analysis.fetch_row(packet.queue_pair_id);
    }
  if (s.came - s.went > 2 * step)
    if (const Coming& packet = s.coming[(s.came - 1 - 2 * step) % s.coming.size()]; packet.fetches)
      s.tracker.fetch_requests(packet.ahead);
  if (s.came - s.went == s.coming.size()) s.take(s.coming[s.went++ % s.coming.size()]);
}

void Pipeline::drain() {
  State& s = *state_;
  while (s.went != s.came) s.take(s.coming[s.went++ % s.coming.size()]);
}

void Pipeline::State::take(const Coming& record) {
  packet.number = record.frame;
  packet.time_ns = record.time;
  packet.link = record.link;
  dissector.dissect(packet, record.bytes, record.wire_length);
  if (options.filter) {
    if (!options.filter->matches(packet)) return;
    if (record.seen.payload) analysis.incast.add(record.seen.from, record.seen.to, record.time, record.seen.payload);
  }
  bool narrowed_out = !record.mine;
  if (only && record.mine) {
    const auto ports = tracking::ports_of(packet.stack);
    narrowed_out = !ports || !((ports->from == only->first && ports->to == only->second) ||
                               (ports->to == only->first && ports->from == only->second));
  }
  if (!narrowed_out) {
    analysis.add(packet);
    if (packet.stack.wire == Wire::infiniband) subnet.add(packet);
    if (options.on_packet) options.on_packet(packet);
  }
  tracker.add(packet);
}

void Pipeline::finish() {
  drain();
  state_->tracker.finish();
  state_->subnet.finish();
}
Analysis& Pipeline::analysis() { return state_->analysis; }
std::uint64_t Pipeline::evicted_packets() const {
  const std::uint64_t all = state_->tracker.evicted();
  return all - std::min(all, state_->analysis.evicted_connections);
}
std::uint64_t Pipeline::memory() const { return state_->tracker.memory(); }
const std::optional<Connection>& Pipeline::wanted() const { return state_->tee.wanted; }
void Pipeline::narrow_to(const PortAddress& one, const PortAddress& other) { state_->only.emplace(one, other); }

RunResult run(const RunOptions& options) {
  RunResult result{Analysis(options.analysis), {}, {}, 0};
  std::vector<OpenFile> files = open_files(options, result.troubles);
  const bool seekable = std::all_of(files.begin(), files.end(), [](const OpenFile& file) { return file.seekable; });
  const Window window(options, files.empty() ? 0 : files.front().first_time);
  result.input.connection = options.connection;
  if (options.filter) result.input.filter = options.filter->text();

  std::optional<std::pair<PortAddress, PortAddress>> only;
  if (options.connection) {
    if (!seekable) {
      result.troubles.emplace_back("--connection needs files that can be read twice, not a stream");
      return result;
    }
    // Which packets are its own is known when it is known who it is.
    RunOptions first_pass = options;
    first_pass.also = nullptr;
    first_pass.on_packet = nullptr;
    Pipeline pipeline(first_pass);
    Input ignored;
    std::vector<std::string> unheard;
    walk(first_pass, files, pipeline, window, false, ignored, unheard);
    pipeline.finish();
    if (!pipeline.wanted()) {
      result.troubles.push_back(fmt::format(
          "there is no connection {}: connections are named by the number of their first frame", options.connection));
      return result;
    }
    only.emplace(pipeline.wanted()->ends[0].address, pipeline.wanted()->ends[1].address);
  }

  const unsigned shares = seekable && !options.filter && !only ? std::max(1U, options.threads) : 1;
  std::vector<std::unique_ptr<Pipeline>> pipelines;
  for (unsigned share = 0; share < shares; ++share) {
    pipelines.push_back(std::make_unique<Pipeline>(options, share, shares));
    if (only) pipelines.back()->narrow_to(only->first, only->second);
  }
  std::vector<std::thread> threads;
  std::vector<Input> unused(shares);
  const auto work = [&](unsigned share) {
    walk(options, files, *pipelines[share], window, share == 0, share == 0 ? result.input : unused[share],
         result.troubles);
    pipelines[share]->finish();
  };
  for (unsigned share = 1; share < shares; ++share) threads.emplace_back(work, share);
  work(0);
  for (std::thread& thread : threads) thread.join();
  result.analysis = std::move(pipelines[0]->analysis());
  for (unsigned share = 1; share < shares; ++share) result.analysis.merge(pipelines[share]->analysis());
  for (const auto& pipeline : pipelines) {
    result.input.evicted_packets += pipeline->evicted_packets();
    result.tracker_memory += pipeline->memory();
  }
  return result;
}

}  // namespace rdmawire::captures::analysis
