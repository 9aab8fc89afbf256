#include "cli/replay_play.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "captures/analysis/findings.hpp"
#include "captures/io/output_file.hpp"
#include "captures/io/reader.hpp"
#include "cli/options/standard_streams.hpp"
#include "cli/pid_file.hpp"
#include "cli/sent_frames.hpp"
#include "cli/terminal.hpp"
#include "dissectors/output/filter_literal.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "replay/player/mapping.hpp"
#include "replay/player/targets.hpp"
#include "replay/rewrite/map_file.hpp"
#include "replay/wires/null.hpp"

namespace rdmawire::cli {
namespace replay_play {

using replay::FlowMap;
using replay::MappedConnection;
using replay::PlayerOptions;
using replay::Side;
using replay::Wire;

// Set by the signal handler. Stops the replay.
std::atomic<bool> stop = false;
void stop_running(int) { stop = true; }

/// An error before the first frame is sent.
struct Refusal {
  Exit exit;
  std::string why;
};
[[noreturn]] void refuse(Exit exit, std::string why) { throw Refusal{exit, std::move(why)}; }

constexpr std::uint64_t default_cap = 1'000'000'000;  ///< bits per second

std::string file_text(const std::string& path, std::size_t most) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(most + 1);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad()) refuse(Exit::error, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  if (text.size() > most) refuse(Exit::error, fmt::format("{} exceeds {} bytes", path, most));
  return text;
}

/// The mapped values of a connection that lack a live value: "a.address, b.qp".
std::string missing_values(const MappedConnection& c) {
  std::string text;
  auto note = [&](std::string_view end, std::string_view field, const auto& pair) {
    if (pair.captured && !pair.live) text += fmt::format("{}{}.{}", text.empty() ? "" : ", ", end, field);
  };
  for (const auto& [name, end] : {std::pair("a", Side::a), std::pair("b", Side::b)}) {
    note(name, "address", c.at(end).address);
    note(name, "mac", c.at(end).mac);
    note(name, c.service == tracking::Service::iwarp ? "port" : "qp", c.at(end).qp);
    note(name, "psn", c.at(end).psn);
    note(name, "qkey", c.at(end).qkey);
    for (const auto& region : c.at(end).regions)
      if (region.key.captured) note(name, fmt::format("key {:#x}", *region.key.captured), region.key);
  }
  return text;
}

/// True if writing to both paths would mix two outputs.
bool same_output(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  if (captures::same_file(a, b)) return true;
  std::error_code error;
  if (a != "-" && fs::exists(a, error)) return false;  // also devices such as /dev/null
  const fs::path one = fs::weakly_canonical(fs::absolute(a, error), error);
  return a == b || (!error && one == fs::weakly_canonical(fs::absolute(b, error), error));
}

class Play {
 public:
  explicit Play(const PlayOptions& options) : options_(options) {}

  Exit run() {
    try {
      return go();
    } catch (const Refusal& refusal) {
      output_.settle(true);
      report_error(refusal.why);
      return refusal.exit;
    }
  }

 private:
  Exit go() {
    expand_files();
    check_wires();
    check_outputs();
    compile_faults();
    if (!options_.save_options.empty()) {
      if (const auto written = captures::write_file(options_.save_options, options_.saved_lines); !written)
        refuse(Exit::error, written.error());
    }
    infer_mapping();
    if (!options_.write_map.empty()) write_map();
    if (options_.wires.empty() && !options_.dry_run) return output_.finish() ? Exit::success : Exit::error;
    prepare();
    open_wires();
    announce();
    replay::ReplayReport report = send();
    progress_.clear();
    if (options_.dry_run) end_preview(report);
    if (!options_.dry_run || options_.json)
      output_.text() += options_.json ? replay::to_json(report) : replay::to_text(report);
    else
      report_dry_run(report);
    const bool complete = output_.finish();
    if (!report.trouble.empty()) report_error(report.trouble);
    if (const auto& groups = report.skip(replay::Skip::group); groups.frames != 0)
      report_error(
          fmt::format("{} frames to broadcast or multicast addresses were not sent, the first is frame {}; "
                      "use --allow-multicast to send them",
                      groups.frames, groups.first_frame));
    for (const auto& rule : report.faults)
      if (rule.unused()) report_error(fmt::format("fault \"{}\" was never applied: {}", rule.text, rule.reason));
    report_options_without_effect(report);
    if (!complete || !report.trouble.empty() || report.unable() != 0) return Exit::error;
    if (all_without_mapping(report)) {
      report_error("all frames lack a mapping");
      return Exit::error;
    }
    return report.unused_fault() && !report.interrupted ? Exit::findings : Exit::success;
  }

  replay::ReplayReport send() {
    using MaybeFile = tl::expected<PidFile, std::string>;
    const MaybeFile pid_file = options_.pid_file.empty() ? MaybeFile(PidFile()) : PidFile::create(options_.pid_file);
    if (!pid_file) refuse(Exit::error, pid_file.error());
    stop = false;
    constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};
    std::array<struct sigaction, signals.size()> before{};
    struct sigaction action {};
    action.sa_handler = stop_running;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      ::sigaction(signals[i], nullptr, &before[i]);
      // nohup ignores SIGHUP.
      if (before[i].sa_handler != SIG_IGN || signals[i] != SIGHUP) ::sigaction(signals[i], &action, nullptr);
    }
    replay::ReplayReport report = replay::play(player_, wire_pointers_);
    for (auto& wire : wires_) wire->close();
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before[i], nullptr);
    return report;
  }

  void expand_files() {
    auto files = replay::expand_directories(options_.files);
    if (!files) refuse(Exit::error, files.error());
    files_ = std::move(*files);
    // All files are open at the same time.
    constexpr std::size_t usual_limit = 500;
    if (rlimit limit{}; files_.size() > usual_limit && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      limit.rlim_cur = limit.rlim_max;
      ::setrlimit(RLIMIT_NOFILE, &limit);
    }
  }

  /// True if an option depends on the connections of the captures.
  [[nodiscard]] bool needs_connections() const {
    return !options_.map.empty() || !options_.write_map.empty() || options_.split || options_.continue_psns ||
           options_.ip_step || options_.qp_step;
  }
  /// True if the captures are read before sending. Faults use the connections, but pipes can be read only once.
  [[nodiscard]] bool surveys() const {
    return needs_connections() || (!player_.faults.rules().empty() && replay::FrameSource(files_).repeatable());
  }

  static void report_option(bool without_effect, std::string_view message) {
    if (without_effect) report_error(message);
  }
  void report_options_without_effect(const replay::ReplayReport& report) const {
    if (report.read == 0) return;
    const bool vlan = options_.rewrite.vlan_priority || options_.rewrite.vlan_dei || options_.rewrite.vlan_type;
    report_option(vlan && report.tagged == 0,
                  "--vlan-priority, --vlan-dei and --vlan-type have no effect: all frames are untagged (-m "
                  "vlan:none=ID adds a tag)");
    report_option(options_.rewrite.flow_label && report.labeled == 0,
                  "--flow-label has no effect: it requires an IPv6 header or a GRH");
    report_option(options_.fcs == PlayerOptions::Fcs::remove && report.fcs == 0,
                  "--fcs remove has no effect: it requires a valid frame check sequence at the end of a frame");
  }

  [[nodiscard]] bool all_without_mapping(const replay::ReplayReport& report) const {
    const std::uint64_t unmapped =
        report.skip(replay::Skip::unmapped).frames + report.skip(replay::Skip::others).frames;
    return !options_.dry_run && report.sent == 0 && unmapped != 0 &&
           unmapped + report.skip(replay::Skip::excluded).frames == report.read;
  }

  /// Checks the number of the wires, then their kinds, before captures are read and files are created.
  void check_wires() {
    if (options_.preload && options_.loops == 0 &&
        (options_.ip_step || options_.qp_step || options_.continue_psns || !options_.faults.empty() ||
         !options_.faults_file.empty()))
      refuse(Exit::usage,
             "--preload with --loops 0 cannot be used with --ip-step, --qp-step, --continue-psns, --fault and "
             "--faults, which change the frames of each loop (limit the number of loops)");
    const std::size_t wires = options_.wires.size(), files = files_.size();
    if (wires == 0) return;
    using Lanes = PlayerOptions::Lanes;
    const bool by_filter = !options_.split_by.empty();
    if ((options_.split || by_filter) && wires != 2)
      refuse(Exit::usage, fmt::format("--split{} requires two wires, got {}", by_filter ? "-by" : "", wires));
    if (by_filter) {
      player_.lanes = Lanes::by_filter;
    } else if (wires > 1) {
      player_.lanes = options_.split || files == 1 ? Lanes::by_end : Lanes::by_file;
      if (player_.lanes == Lanes::by_file && wires != files)
        refuse(Exit::usage,
               fmt::format("{} captures and {} wires: specify one wire per capture, or --split and two wires", files,
                           wires));
      if (player_.lanes == Lanes::by_end && (wires != 2 || !needs_connections()))
        refuse(Exit::usage, fmt::format("{} wires for one capture: specify one wire, or --split and two wires", wires));
    }
    for (const std::string& name : options_.wires) {
      const auto spec = replay::WireSpec::parse(name);
      if (!spec) refuse(Exit::usage, spec.error().message);
      if (const auto known = replay::check_kind(*spec); !known) refuse(Exit::usage, known.error().message);
    }
  }

  /// Checks that no output is an input or another output, and that the captures can be read, before files are created.
  void check_outputs() {
    std::vector<std::string> inputs = files_;
    std::replace(inputs.begin(), inputs.end(), std::string("-"), std::string("/dev/stdin"));
    for (const std::string& entry : options_.map) inputs.push_back(entry);
    if (!options_.faults_file.empty()) inputs.push_back(options_.faults_file);
    std::vector<std::pair<std::string, std::string>> outputs;  // option and path
    std::size_t files = 0;
    for (const std::string& name : options_.wires) {
      const auto spec = replay::WireSpec::parse(name);
      if (!spec || spec->kind != "file" || spec->has("read")) continue;
      outputs.emplace_back("--wire", spec->address);
      ++files;
    }
    if (!options_.write_map.empty()) outputs.emplace_back("--write-map", options_.write_map);
    if (!options_.save_options.empty()) outputs.emplace_back("--save-opts", options_.save_options);
    if (!options_.pid_file.empty()) outputs.emplace_back("--pid-file", options_.pid_file);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& [option, path] = outputs[i];
      if (const auto checked = captures::check_output(path, inputs); !checked)
        refuse(Exit::usage, option + ": " + checked.error());
      for (std::size_t j = 0; j < i; ++j)
        if (same_output(outputs[j].second, path))
          refuse(Exit::usage,
                 fmt::format("{} and {} write the same file {} (choose another file)", outputs[j].first, option, path));
    }
    if (files != 0 && files != options_.wires.size())
      refuse(Exit::usage, "file wires (virtual time) and real-time wires cannot be combined");
    if (!options_.dry_run &&
        std::find(outputs.begin(), outputs.end(), std::pair<std::string, std::string>("--wire", "-")) != outputs.end())
      output_.use_standard_error();
    std::error_code error;
    for (const std::string& file : files_) {
      // A pipe can be opened only once.
      if (file == "-" || (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)))
        continue;
      if (const auto reader = captures::Reader::open(file); !reader)
        refuse(Exit::error, captures::to_string(reader.error()));
    }
  }

  /// Reads the captures before sending, if an option depends on their connections.
  void infer_mapping() {
    if (!surveys()) return refuse_connections_of_faults();
    auto mapping = replay::make_mapping(files_, options_.map, options_.unmapped);
    if (!mapping) {
      using Kind = replay::MappingError::Kind;
      const auto& [kind, message] = mapping.error();
      // The capture is damaged, which affects only rules with connections. Without them, the replay sends the frames
      // before the damage and then reports it.
      if (kind == Kind::trouble && !needs_connections() && !rule_with_connection()) return;
      if (kind == Kind::capture) refuse(Exit::usage, message);
      if (kind == Kind::assignment) refuse(Exit::usage, "--map " + message);
      refuse(Exit::error, message + (kind == Kind::incomplete ? "; use --unmapped keep or --unmapped drop" : ""));
    }
    if (player_.lanes == PlayerOptions::Lanes::by_end && mapping->map.connections.empty())
      refuse(Exit::error, "--split requires RDMA connections, which the captures lack (use --split-by EXPR)");
    for (const std::string& warning : mapping->warnings) report_error(warning);
    player_.numbers = mapping->numbers;
    if (options_.continue_psns) {
      player_.changes.psns = mapping->psns();
      player_.changes.msns = mapping->msns();
    }
    map_ = std::move(mapping->map);
    surveyed_ = true;
  }

  /// Without connections, a rule would select other frames than in a capture file.
  void refuse_connections_of_faults() const {
    if (const replay::FaultRule* rule = rule_with_connection())
      refuse(Exit::usage,
             fmt::format("fault \"{}\": connections and sides require a capture file instead of a pipe", rule->text));
  }

  /// The first rule that selects a connection, or a side of one.
  [[nodiscard]] const replay::FaultRule* rule_with_connection() const {
    using Kind = replay::FaultEndpoint::Kind;
    const auto is_side = [&](const auto& end) { return end && end->kind == Kind::side && options_.wires.size() < 2; };
    for (const replay::FaultRule& rule : player_.faults.rules())
      if (rule.connection || is_side(rule.from) || is_side(rule.to)) return &rule;
    return nullptr;
  }

  void write_map() {
    const std::string text = replay::write_flow_map(map_);
    if (options_.write_map == "-") {
      output_.text() += text;
      return;
    }
    if (const auto written = captures::write_file(options_.write_map, text); !written)
      refuse(Exit::error, written.error());
    const std::size_t mapped = mapped_connections();
    report_error(fmt::format("{}: {} connection{}; complete the live values and pass the file to --map",
                             options_.write_map, mapped, mapped == 1 ? "" : "s"));
  }

  static std::optional<output::Filter> filter(const char* option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    auto compiled = output::Filter::compile(text);
    if (!compiled) refuse(Exit::usage, fmt::format("{}:\n{}", option, output::to_string(compiled.error(), text)));
    return std::move(*compiled);
  }

  [[nodiscard]] std::size_t mapped_connections() const {
    return static_cast<std::size_t>(std::count_if(map_.connections.begin(), map_.connections.end(),
                                                  [](const MappedConnection& c) { return !c.unmapped; }));
  }

  void compile_faults() {
    std::string text;
    if (!options_.faults_file.empty())
      text = file_text(options_.faults_file, replay::FaultProgram::max_length);
    else
      for (const std::string& rule : options_.faults) text += rule + "\n";
    auto program = replay::FaultProgram::compile(text);
    if (!program)
      refuse(Exit::usage, fmt::format("{}: {}", options_.faults_file.empty() ? "--fault" : options_.faults_file,
                                      replay::to_string(program.error(), text)));
    player_.faults = std::move(*program);
    player_.fault_seed = options_.seed ? *options_.seed : std::random_device()();
  }

  void prepare() {
    player_.files = files_;
    player_.map = map_;
    player_.rewrite = options_.rewrite;
    if (options_.unmapped) player_.rewrite.unmapped = *options_.unmapped;
    if (options_.map.empty() && surveyed_) {
      // Without a map, only --split and the loop options need the connections. Other frames are sent unchanged.
      player_.rewrite.unmapped = player_.rewrite.others = replay::Unmapped::keep;
    }
    replay::Pace& pace = player_.pace;
    if (options_.speed > 0) pace.rate = options_.speed;
    if (options_.packets > 0) pace = {replay::Pace::Kind::packets, options_.packets};
    if (options_.bits > 0) pace = {replay::Pace::Kind::bits, options_.bits};
    if (options_.topspeed || options_.one_at_a_time) pace = {replay::Pace::Kind::top};
    pace.burst = options_.burst;
    if (options_.max_gap) pace.most_gap = *options_.max_gap;
    player_.spin = options_.spin;
    player_.loops = options_.loops;
    player_.pause = options_.pause;
    player_.changes.ip_step = options_.ip_step;
    player_.changes.ip_loops = options_.ip_step_loops;
    player_.changes.qp_step = options_.qp_step;
    player_.most_frames = options_.limit;
    player_.max_bytes = options_.max_bytes;
    player_.most_time = static_cast<std::int64_t>(options_.seconds * 1e9);
    player_.include = filter("--include", options_.include);
    player_.exclude = filter("--exclude", options_.exclude);
    player_.first_wire = filter("--split-by", options_.split_by);
    player_.snapped = options_.snapped;
    player_.fcs = options_.fcs;
    player_.too_long = options_.too_long;
    player_.mtu = options_.mtu;
    player_.flow_statistics = options_.flow_statistics;
    if (options_.verbose) player_.on_sent = [this](const replay::SentFrame& sent) { print(sent); };
    player_.preload = options_.preload;
    player_.dry = options_.dry_run;
    player_.stop = &stop;
    warn_of_equal_addresses();
    if (options_.one_at_a_time) player_.step = [this] { return step(); };
    if (options_.dry_run) {
      player_.on_frame = [this](const replay::PlayedFrame& frame) { preview(frame); };
      if (!options_.json) player_.on_fault = [this](const replay::FaultHit& hit) { preview(hit); };
    }
    player_.progress_every = options_.stats > 0 ? static_cast<std::int64_t>(options_.stats * 1e9) : 500'000'000;
    player_.long_gap = [this](std::int64_t nanoseconds, std::uint64_t frame) { warn_of_gap(nanoseconds, frame); };
    player_.progress = [this](const replay::PlayProgress& p) {
      if (options_.stats > 0) return print_statistics(p);
      progress_.show_line(fmt::format("{} frames sent, loop {}, {:.0f} frames/s, {:.1f} Mbit/s{}", p.sent, p.loop,
                                      p.frames_per_second, p.bits_per_second / 1e6,
                                      p.whole ? fmt::format(", {} %", p.position * 100 / p.whole) : ""));
    };
  }

  void print(const replay::SentFrame& sent) {
    if (!sent_frames_) sent_frames_.emplace(use_colors(Colors::automatic, STDOUT_FILENO));
    sent_frames_->append(output_.text(), sent);
    progress_.clear();
    // The lines of slow replays appear at once.
    constexpr std::chrono::milliseconds longest_delay(100);
    const auto now = std::chrono::steady_clock::now();
    const bool late = now - printed_ >= longest_delay;
    if (late) printed_ = now;
    if (!output_.settle(late)) stop = true;
  }

  /// With --ip-step, hosts of different loops may get the same address.
  void warn_of_equal_addresses() const {
    if (options_.ip_step == 0) return;
    // --ip-step changes the low 32 bits. Hosts with equal other bits and an equal remainder can get the same address:
    // the nearest ones are neighbors in their set.
    std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>, std::set<std::uint32_t>> hosts;
    std::uint32_t lowest = UINT32_MAX, highest = 0;
    for (const MappedConnection& c : map_.connections)
      for (const replay::MappedEnd& end : c.ends)
        if (end.address.captured) {
          const auto address = end.address.live.value_or(*end.address.captured);
          const auto low = static_cast<std::uint32_t>(address.low);
          hosts[{address.high, address.low >> 32, low % options_.ip_step}].insert(low);
          lowest = std::min(lowest, low);
          highest = std::max(highest, low);
        }
    const std::uint64_t steps = options_.loops == 0 ? ~std::uint64_t{0} : (options_.loops - 1) / options_.ip_step_loops;
    for (const auto& [key, lows] : hosts)
      for (auto a = lows.begin(); std::next(a) != lows.end(); ++a)
        if (const std::uint32_t difference = *std::next(a) - *a; difference / options_.ip_step <= steps)
          return report_error(fmt::format(
              "--ip-step {}: hosts of different loops get the same address, because addresses of hosts differ by {} "
              "(use --ip-step {})",
              options_.ip_step, difference, std::uint64_t{highest} - lowest + 1));
  }

  void warn_of_gap(std::int64_t nanoseconds, std::uint64_t frame) {
    progress_.clear();
    const std::int64_t minutes = nanoseconds / 60'000'000'000, day = 24 * 60;
    report_error(fmt::format("frame {} is due in {}, as captured (--max-gap TIME shortens gaps)", frame,
                             minutes >= 2 * day ? fmt::format("{} days", minutes / day)
                                                : fmt::format("{} h {} min", minutes / 60, minutes % 60)));
  }

  /// One line on standard error: text on a terminal, otherwise JSON.
  void print_statistics(const replay::PlayProgress& p) const {
    if (::isatty(STDERR_FILENO) && !options_.json)
      return report_error(fmt::format("{} frames and {} bytes sent, loop {}, {:.0f} frames/s, {:.3f} Mbit/s{}", p.sent,
                                      p.bytes, p.loop, p.frames_per_second, p.bits_per_second / 1e6,
                                      p.whole ? fmt::format(", {} %", p.position * 100 / p.whole) : ""));
    const nlohmann::ordered_json line{{"rdmawire", "replay progress 1"},
                                      {"sent", {{"frames", p.sent}, {"bytes", p.bytes}}},
                                      {"loop", p.loop},
                                      {"frames_per_second", p.frames_per_second},
                                      {"bits_per_second", p.bits_per_second},
                                      {"position", p.position},
                                      {"size", p.whole}};
    write_to_standard_error(line.dump() + "\n");
  }

  void open_wires() {
    if (options_.wires.empty()) {
      wires_.push_back(replay::make_null_wire());
    } else {
      for (const std::string& name : options_.wires) {
        auto spec = replay::WireSpec::parse(name);
        if (!spec) refuse(Exit::usage, spec.error().message);
        spec->only_sends = true;
        const replay::Target target = replay::judge_target(*spec);
        const bool allowed =
            std::find(options_.allowed.begin(), options_.allowed.end(), target.name) != options_.allowed.end();
        if (!options_.dry_run && target.missing)
          if (const auto wire = replay::open_wire(*spec); !wire) refuse(Exit::error, wire.error().message);
        if (!options_.dry_run && !target.safe && !allowed)
          refuse(Exit::usage,
                 fmt::format("refusing to send captured frames to {} ({}). Use --allow-target {} to permit it", name,
                             target.about, target.name));
        all_safe_ &= target.safe;
        report_error(fmt::format("{}{} ({})", options_.dry_run ? "would send to " : "sending to ", name, target.about));
        auto wire = options_.dry_run ? replay::WireResult<std::unique_ptr<Wire>>(replay::make_null_wire())
                                     : open_with_carrier(*spec);
        if (!wire)
          refuse(wire.error().kind == replay::WireError::Kind::specification ? Exit::usage : Exit::error,
                 wire.error().message);
        if (!(*wire)->capabilities().sends) refuse(Exit::usage, name + ": this wire cannot send");
        wires_.push_back(std::move(*wire));
      }
    }
    for (auto& wire : wires_) wire_pointers_.push_back(wire.get());
    player_.allow_groups = options_.allow_multicast || all_safe_;
    player_.rate_cap = options_.rate_cap.value_or(all_safe_ ? 0 : default_cap);
  }

  /// Opens a wire. Waits a limited time for the carrier of its interface.
  [[nodiscard]] replay::WireResult<std::unique_ptr<Wire>> open_with_carrier(const replay::WireSpec& spec) const {
    auto wire = replay::open_wire(spec);
    const auto waits = [&] { return !wire && wire.error().number == ENOLINK; };
    if (!waits() || options_.carrier_wait == 0) return wire;
    report_error(fmt::format("{} (waiting up to {:g} s for the carrier)", wire.error().message,
                             static_cast<double>(options_.carrier_wait) / 1e9));
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.carrier_wait);
    while (waits() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      wire = replay::open_wire(spec);
    }
    return wire;
  }

  /// Reports the destinations before the first frame is sent.
  void announce() const {
    if (options_.map.empty()) return;
    std::set<std::string> ends;
    for (const MappedConnection& c : map_.connections)
      for (const replay::MappedEnd& end : c.ends) {
        if (!end.address.captured || c.unmapped) continue;
        ends.insert(captures::analysis::to_text(end.address.live.value_or(*end.address.captured)));
      }
    constexpr std::size_t most_shown = 10;
    std::string text;
    std::size_t shown = 0;
    for (const std::string& end : ends) {
      if (shown++ == most_shown) {
        text += fmt::format(" and {} more addresses", ends.size() - most_shown);
        break;
      }
      text += (text.empty() ? "" : ", ") + end;
    }
    const std::size_t mapped = mapped_connections();
    report_error(mapped == 0 ? std::string("no RDMA connection is mapped")
                             : fmt::format("{} connection{} between {}", mapped, mapped == 1 ? "" : "s", text));
    if (!options_.dry_run) return;
    std::size_t incomplete = 0;
    for (const MappedConnection& c : map_.connections)
      if (c.unmapped)
        continue;
      else if (const std::string unknown = missing_values(c); !unknown.empty() && incomplete++ < most_shown)
        report_error(fmt::format("{}: no mapping for {}; keeping captured values", c.name, unknown));
    if (incomplete > most_shown)
      report_error(fmt::format("{} more connections without a mapping for some values", incomplete - most_shown));
  }

  bool step() {
    // A terminal shows the Enter of the user.
    write_to_standard_error(fmt::format("frame {}: press Enter to send, q and Enter to quit {}", ++asked_,
                                        ::isatty(STDIN_FILENO) == 1 ? "" : "\n"));
    char line[64];
    if (!std::fgets(line, sizeof line, stdin) || stop) return false;
    return line[0] != 'q';
  }

  /// Prepares the text or JSON about a frame. Its faults follow.
  void preview(const replay::PlayedFrame& frame) {
    flush_preview();
    previewed_ = frame.number;
    replay::FramePreview& now = preview_.emplace();
    now.frame = frame.number;
    now.loop = frame.loop;
    now.sent = !frame.frame.empty();
    now.not_sent = frame.rewritten.why;
    if (now.sent && options_.wires.size() > 1) now.wire = options_.wires[frame.lane];
    if (now.sent) now.changes = replay::differences(frame.captured, decode(frame.frame));
    unmapped_ = !options_.map.empty() && frame.rewritten.outcome == replay::Rewritten::Outcome::kept;
  }
  void preview(const replay::FaultHit& hit) {
    faults_ += fmt::format("  {} by rule {}: {}\n", hit.entry.what, hit.entry.rule + 1,
                           player_.faults.rules()[hit.entry.rule].text);
  }
  void flush_preview() {
    if (!preview_) return;
    const replay::FramePreview now = std::move(*preview_);
    preview_.reset();
    const std::string faults = std::move(faults_);
    faults_.clear();
    if (options_.json) {
      if (now.sent && now.changes.empty()) return;
      constexpr std::size_t most = 65'536;
      previews_.size() < most ? previews_.push_back(now) : void(++previews_omitted_);
      return;
    }
    std::string& out = output_.text();
    out += fmt::format("frame {}", now.frame);
    if (now.loop > 1) out += fmt::format(" (loop {})", now.loop);
    if (!now.wire.empty()) out += "  to " + now.wire;
    if (unmapped_ && now.sent) out += "  no mapping";
    if (!now.sent)
      out += "  not sent" + (now.not_sent.empty() ? "" : ": " + now.not_sent);
    else if (now.changes.empty() && faults.empty())
      out += "  as captured";
    if (now.changes.empty() && std::count(faults.begin(), faults.end(), '\n') == 1) {
      out += faults;
    } else {
      out += '\n';
      for (const replay::FieldChange& change : now.changes) out += "  " + replay::to_string(change) + "\n";
      out += faults;
    }
    if (!output_.settle()) stop = true;
  }
  void end_preview(replay::ReplayReport& report) {
    // The last frame may be one that exceeds a limit.
    if (report.ended_before != 0 && report.ended_before == previewed_) {
      preview_.reset();
      faults_.clear();
      --report.read;
    }
    flush_preview();
    report.previews = std::move(previews_);
    report.previews_omitted = previews_omitted_;
  }

  void report_dry_run(const replay::ReplayReport& report) {
    std::uint64_t skipped = 0;
    for (const auto& skip : report.skipped) skipped += skip.frames;
    std::string faults;
    if (!report.faults.empty()) {
      std::uint64_t done = 0;
      for (const auto& rule : report.faults) done += rule.count.done;
      faults = fmt::format(", faults applied {} times", done);
      if (report.chance) faults += fmt::format(" with --seed {}", report.fault_seed);
    }
    report_error(fmt::format("{} frames read, {} would be rewritten, {} would not be sent{}", report.read,
                             report.rewritten, skipped, faults));
  }

  const PlayOptions& options_;
  std::vector<std::string> files_;  ///< captures, without directories
  bool surveyed_ = false, all_safe_ = true;
  FlowMap map_;
  PlayerOptions player_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<Wire*> wire_pointers_;
  Output output_;
  Progress progress_{true};
  std::uint64_t asked_ = 0;
  std::optional<SentFrames> sent_frames_;
  std::chrono::steady_clock::time_point printed_{};
  // Dry run: the current frame, and those for JSON.
  std::optional<replay::FramePreview> preview_;
  std::string faults_;
  bool unmapped_ = false;
  std::uint64_t previewed_ = 0, previews_omitted_ = 0;
  std::vector<replay::FramePreview> previews_;
};

/// Parses a number with an optional unit k, M or G. Returns nullopt if `text` is invalid.
std::optional<double> parse_rate(const std::string& text) {
  std::size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const std::string unit = text.substr(end);
  const double scale = unit.empty() ? 1 : unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "G" ? 1e9 : 0;
  if (scale == 0 || !(value >= 0) || value * scale > 1e15) return std::nullopt;
  return value * scale;
}

/// `zero`: the remedy for a rate of 0. Empty: 0 is valid.
Option& add_rate(Command& command, const std::string& names, std::function<void(double)> set, std::string zero,
                 std::string help) {
  return command.parsed(
      names, "RATE",
      [set = std::move(set), zero = std::move(zero)](const std::string& text) {
        const auto rate = parse_rate(text);
        if (!rate) return "expected a rate such as 1000, 100k, 10M or 2.5G, got \"" + text + "\"";
        if (*rate == 0 && !zero.empty()) return "expected a rate above 0; " + zero;
        set(*rate);
        return std::string();
      },
      std::move(help));
}

constexpr std::uint64_t longest_duration = 1'000'000'000'000'000'000;  ///< nanoseconds, 31 years

template <class Value>  // std::int64_t, or an optional of it
Option& add_duration(Command& command, const std::string& names, Value& value, std::string help) {
  return command.parsed(
      names, "TIME",
      [&value](const std::string& text) {
        const auto nanoseconds = output::parse_duration(text);
        if (!nanoseconds || *nanoseconds > longest_duration)
          return "expected a duration such as 10ms, 1.5s or 200us, got \"" + text + "\"";
        value = static_cast<std::int64_t>(*nanoseconds);
        return std::string();
      },
      std::move(help));
}

}  // namespace replay_play

void add_play_options(Command& command, PlayOptions& o) {
  using namespace replay_play;
  using replay::CrcPolicy;
  using replay::Unmapped;
  const std::vector<std::string> paces{"--speed", "--pps", "--bps", "--topspeed", "--one-at-a-time"};
  const auto other_paces = [&paces](const std::string& own) {
    std::vector<std::string> others;
    for (const std::string& name : paces)
      if (name != own) others.push_back(name);
    return others;
  };
  const std::string use_topspeed = "use --topspeed to send as fast as the wire accepts frames";
  command.group("Timing");
  command.option("-x,--speed", "N", o.speed, "Replay N times as fast as captured.")
      .positive()
      .by_default("1")
      .excludes(other_paces("--speed"));
  add_rate(
      command, "-p,--pps", [&o](double v) { o.packets = v; }, use_topspeed, "Send RATE frames per second.")
      .excludes(other_paces("--pps"));
  add_rate(
      command, "--bps", [&o](double v) { o.bits = v; }, use_topspeed, "Send RATE bits per second, for example 2.5G.")
      .excludes(other_paces("--bps"));
  command.flag("-t,--topspeed", o.topspeed, "Send as fast as the wire accepts frames.")
      .excludes(other_paces("--topspeed"));
  command.flag("-o,--one-at-a-time", o.one_at_a_time, "Send each frame when Enter is pressed.")
      .excludes(other_paces("--one-at-a-time"));
  command.option("--burst", "N", o.burst, "Send N frames together.").range(1, 1 << 20).needs("--pps");
  add_duration(command, "--max-gap", o.max_gap,
               "Limit the captured time between two frames to TIME. 0s removes all gaps.");
  add_duration(command, "--spin", o.spin,
               "Busy-wait for the last TIME before a frame is due. Longer times are more precise and use more CPU.")
      .by_default("100us");
  command
      .option("--stats", "SECONDS", o.stats,
              "Print statistics to standard error every SECONDS seconds: text on a terminal, otherwise JSON lines.")
      .range(1e-9, 1e9);
  command.flag("--flow-stats", o.flow_statistics, "Report the frames, bytes and rates of each flow.");
  command.flag("-v,--verbose", o.verbose, "Print a line for each frame that is sent (see rdmawire dissect).")
      .excludes({"--json"});
  command.option("--pid-file", "FILE", o.pid_file, "Write the process ID to FILE while frames are sent.");
  command.option("--save-opts", "FILE", o.save_options,
                 "Write the options of this command line to FILE, for the argument @FILE.");
  command.flag("-K,--preload", o.preload, "Read and rewrite all frames before sending the first one.");

  command.group("Loops");
  command.option("-l,--loops", "N", o.loops, "Replay the captures N times. 0 repeats until Ctrl-C.");
  add_duration(command, "--pause", o.pause, "Wait TIME between loops, for example 10ms.");
  command.flag("--continue-psns", o.continue_psns, "Continue the PSNs and MSNs of the previous loop.").needs("--loops");
  command.option("--ip-step", "N", o.ip_step, "Add N to all IP addresses in each loop.").needs("--loops");
  command.option("--ip-step-loops", "N", o.ip_step_loops, "Apply --ip-step only in every Nth loop.")
      .positive()
      .needs("--ip-step");
  command.option("--qp-step", "N", o.qp_step, "Add N to all QP numbers in each loop.")
      .range(0, 0xffffff)
      .needs("--loops");

  command.group("Selection");
  command.option("--include", "EXPR", o.include, "Send only frames that match EXPR (see docs/reference/filters.md).");
  command.option("--exclude", "EXPR", o.exclude, "Do not send frames that match EXPR.");
  command.flag("--split", o.split,
               "Send the frames of endpoints a to the first wire, and those of endpoints b to the second. Endpoint a "
               "sent the first frame or requested the connection.");
  command
      .option("--split-by", "EXPR", o.split_by,
              "Send frames that match EXPR to the first wire and all others to the second.")
      .excludes({"--split"});
  command.option("-L,--limit", "N", o.limit, "Stop after N frames.").positive();
  command.size("--max-bytes", o.max_bytes, "Stop before the total exceeds SIZE bytes, for example 10M.")
      .range(1, 1LL << 50);
  command.option("--seconds", "SECONDS", o.seconds, "Stop after SECONDS seconds.").range(1e-9, 1e9);

  command.group("Rewriting");
  command
      .option("-m,--map", "MAP", o.map,
              "Rewrite addresses, QP numbers, PSNs and keys: a mapping file, or assignments such as qp:0x11=0x777.")
      .completes(Completion::file);
  command.option(
      "--write-map", "FILE", o.write_map,
      "Write a mapping file of the capture, to be completed with live values. \"-\" writes to standard output.");
  command
      .choice<Unmapped>(
          "--unmapped", "ACTION", o.unmapped,
          {{"refuse", Unmapped::refuse}, {"keep", Unmapped::keep}, {"drop", Unmapped::drop}},
          "Handle frames of RDMA connections that the mapping files lack. Without a mapping file: of connections "
          "that all assignments leave unchanged.")
      .by_default("refuse with a mapping file, otherwise keep")
      .needs("--map");
  command.choice<Unmapped>("--others", "ACTION", o.rewrite.others,
                           {{"drop", Unmapped::drop}, {"keep", Unmapped::keep}, {"refuse", Unmapped::refuse}},
                           "Handle frames of other protocols between hosts without a mapping.");
  command.choice<CrcPolicy>("--crc", "MODE", o.rewrite.crc,
                            {{"follow", CrcPolicy::follow, "keep valid valid and invalid invalid"},
                             {"recompute", CrcPolicy::recompute, "make all valid"},
                             {"keep", CrcPolicy::keep, "as captured"}},
                            "Set how checksums and CRCs are handled.");
  using Fcs = PlayerOptions::Fcs;
  command.choice<Fcs>("--fcs", "ACTION", o.fcs,
                      {{"recompute", Fcs::recompute, "if the frame changes"},
                       {"remove", Fcs::remove, "because the device adds one"},
                       {"keep", Fcs::keep, "as captured"}},
                      "Handle valid Ethernet frame check sequences at the end of captured frames.");
  command.parsed(
      "--icrc-mask", "BITS",
      [&o](const std::string& text) {
        const auto value = output::parse_number(text);
        if (!value || *value > 0xffffffff) return "expected a 32-bit number, got \"" + text + "\"";
        o.rewrite.icrc_mask = static_cast<std::uint32_t>(*value);
        return std::string();
      },
      "Invert these bits of all ICRCs and MPA CRCs, for example 0x1.");
  command.parsed(
      "--hop-limit", "N",
      [&o](const std::string& text) {
        const bool step = text.starts_with('+') || text.starts_with('-');
        const auto value = output::parse_number(text.substr(step ? 1 : 0));
        if (!value || *value > 255) return "expected N, +N or -N from 0 to 255, got \"" + text + "\"";
        if (step)
          o.rewrite.hop_limit_step = static_cast<std::int16_t>(text[0] == '-' ? -static_cast<int>(*value) : *value);
        else
          o.rewrite.hop_limit = static_cast<std::uint8_t>(*value);
        return std::string();
      },
      "Set the TTL or hop limit of all frames. +N and -N change it.");
  command.option("--dscp", "N", o.rewrite.dscp, "Set the DSCP of all frames.").range(0, 63);
  command.option("--vlan-priority", "N", o.rewrite.vlan_priority, "Set the priority of all outermost VLAN tags.")
      .range(0, 7);
  command
      .option("--vlan-dei", "N", o.rewrite.vlan_dei,
              "Set the drop eligible indicator (CFI) of all outermost VLAN tags.")
      .range(0, 1);
  command.choice<std::uint16_t>("--vlan-type", "TYPE", o.rewrite.vlan_type,
                                {{"802.1q", ethertype::vlan}, {"802.1ad", ethertype::provider_vlan}},
                                "Set the type of all outermost VLAN tags.");
  command.option("--flow-label", "N", o.rewrite.flow_label, "Set the flow label of all IPv6 and RoCEv1 frames.")
      .range(0, 0xfffff);

  command.group("Safety");
  command.choice<PlayerOptions::Snapped>(
      "--truncated", "ACTION", o.snapped,
      {{"skip", PlayerOptions::Snapped::skip, "and report as an error"},
       {"pad", PlayerOptions::Snapped::pad, "with zeros and a valid ICRC"},
       {"shorten", PlayerOptions::Snapped::shorten, "with the lengths and checksums of a shorter frame"},
       {"send", PlayerOptions::Snapped::send, "the captured bytes"}},
      "Handle frames truncated by the capture.");
  using TooLong = PlayerOptions::TooLong;
  command.choice<TooLong>("--too-long", "ACTION", o.too_long,
                          {{"skip", TooLong::skip, "and report as an error"},
                           {"truncate", TooLong::truncate, "the bytes"},
                           {"shorten", TooLong::shorten, "with the lengths and checksums of a shorter frame"},
                           {"fragment", TooLong::fragment, "IP packets"}},
                          "Handle frames that exceed the wire's maximum length or --mtu.");
  command.option("--mtu", "BYTES", o.mtu, "Limit frames to BYTES, without Ethernet header and VLAN tags.")
      .range(68, 65'535);
  add_duration(command, "--carrier-wait", o.carrier_wait, "Wait up to TIME for the carrier of an interface.")
      .by_default("5s");
  command.flag("--allow-multicast", o.allow_multicast, "Send frames to broadcast and multicast addresses.");
  command.option("--allow-target", "NAME", o.allowed, "Allow sending to the interface or device NAME.");
  add_rate(
      command, "--rate-cap", [&o](double v) { o.rate_cap = static_cast<std::uint64_t>(v); }, "",
      "Limit the rate to RATE bits per second in any 10 ms. 0 removes the limit.")
      .by_default("1G if --allow-target is required, else no limit");
}

Exit play(const PlayOptions& options) { return replay_play::Play(options).run(); }

}  // namespace rdmawire::cli
