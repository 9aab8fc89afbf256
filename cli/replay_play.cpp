#include "cli/replay_play.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <memory>
#include <random>
#include <set>

#include "captures/analysis/findings.hpp"
#include "cli/terminal.hpp"
#include "dissectors/output/filter_literal.hpp"
#include "dissectors/protocol/decode.hpp"
#include "replay/player/mapping.hpp"
#include "replay/player/targets.hpp"
#include "replay/rewrite/map_file.hpp"
#include "replay/wires/null.hpp"

namespace rdmawire::cli {
namespace {

using replay::FlowMap;
using replay::Learnt;
using replay::MappedConnection;
using replay::PlayerOptions;
using replay::Side;
using replay::Wire;

// What a signal ends.
std::atomic<bool> stop = false;
void stop_running(int) { stop = true; }

/// An error of the command line or of what it names: nothing was sent.
struct Refusal {
  Exit exit;
  std::string why;
};
[[noreturn]] void refuse(Exit exit, std::string why) { throw Refusal{exit, std::move(why)}; }

constexpr std::uint64_t usual_cap = 1'000'000'000;

std::string file_text(const std::string& path, std::size_t most) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(most + 1);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad()) refuse(Exit::trouble, path + ": it cannot be read");
  if (text.size() > most) refuse(Exit::trouble, fmt::format("{}: it has more than {} bytes", path, most));
  return text;
}

/// What of a connection is mapped without a live value, in words.
std::string not_known(const MappedConnection& c) {
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
    learn();
    if (!options_.write_map.empty()) write_map();
    if (options_.wires.empty() && !options_.dry_run) return output_.finish() ? Exit::fine : Exit::trouble;
    prepare();
    open_wires();
    announce();

    stop = false;
    struct sigaction action {};
    struct sigaction before[2]{};
    action.sa_handler = stop_running;
    ::sigaction(SIGINT, &action, &before[0]);
    ::sigaction(SIGTERM, &action, &before[1]);
    const replay::ReplayReport report = replay::play(player_, wire_pointers_);
    for (auto& wire : wires_) wire->close();
    ::sigaction(SIGINT, &before[0], nullptr);
    ::sigaction(SIGTERM, &before[1], nullptr);
    progress_.clear();
    if (!options_.dry_run || options_.json)
      output_.text() += options_.json ? replay::to_json(report) : replay::to_text(report);
    else
      tell_dry(report);
    const bool whole = output_.finish();
    if (!report.trouble.empty()) report_error(report.trouble);
    return whole && report.trouble.empty() && report.unable() == 0 ? Exit::fine : Exit::trouble;
  }

  /// The captures are read once before anything is sent where what they hold decides something.
  void learn() {
    const bool needed = !options_.map.empty() || !options_.write_map.empty() || options_.split ||
                        options_.continue_psns || options_.ip_step || options_.qp_step;
    if (!needed) return;
    auto mapping = replay::make_mapping(options_.files, options_.map, options_.rewrite.unmapped);
    if (!mapping) {
      using Kind = replay::MappingError::Kind;
      const auto& [kind, message] = mapping.error();
      if (kind == Kind::capture) refuse(Exit::usage, message);
      if (kind == Kind::assignment) refuse(Exit::usage, "--map " + message);
      refuse(Exit::trouble,
             message + (kind == Kind::incomplete ? "; --unmapped keep or --unmapped drop says what to do" : ""));
    }
    learnt_ = std::move(mapping->learnt);
    map_ = std::move(mapping->map);
    for (const std::string& warning : mapping->warnings) report_error(warning);
    surveyed_ = true;
  }

  void write_map() {
    const std::string text = replay::write_flow_map(map_);
    if (options_.write_map == "-") {
      output_.text() += text;
      return;
    }
    std::ofstream out(options_.write_map, std::ios::binary);
    out << text;
    out.close();
    if (!out) refuse(Exit::trouble, options_.write_map + ": it cannot be written");
    report_error(fmt::format("{}: {} connection{}; fill in what is live, and give it to --map", options_.write_map,
                             map_.connections.size(), map_.connections.size() == 1 ? "" : "s"));
  }

  static std::optional<output::Filter> filter(const char* option, const std::string& text) {
    if (text.empty()) return std::nullopt;
    auto compiled = output::Filter::compile(text);
    if (!compiled) refuse(Exit::usage, fmt::format("{}:\n{}", option, output::to_string(compiled.error(), text)));
    return std::move(*compiled);
  }

  void faults() {
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
    player_.files = options_.files;
    player_.map = map_;
    player_.rewrite = options_.rewrite;
    if (options_.map.empty() && surveyed_) {
      // Only sides or loops are asked for: nothing is in the way of what has no connection.
      player_.rewrite.unmapped = player_.rewrite.others = replay::Unmapped::keep;
    }
    replay::Pace& pace = player_.pace;
    if (options_.speed > 0) pace.rate = options_.speed;
    if (options_.packets > 0) pace = {replay::Pace::Kind::packets, options_.packets};
    if (options_.bits > 0) pace = {replay::Pace::Kind::bits, options_.bits};
    if (options_.top || options_.one_at_a_time) pace = {replay::Pace::Kind::top};
    pace.burst = options_.burst;
    if (options_.max_gap > 0) pace.most_gap = options_.max_gap;
    player_.spin = options_.spin;
    player_.loops = options_.loops;
    player_.pause = options_.pause;
    if (options_.continue_psns) player_.changes.psns = learnt_.psns;
    player_.changes.ip_step = options_.ip_step;
    player_.changes.qp_step = options_.qp_step;
    player_.most_frames = options_.limit;
    player_.max_bytes = options_.bytes;
    player_.most_time = static_cast<std::int64_t>(options_.seconds * 1e9);
    player_.include = filter("--include", options_.include);
    player_.exclude = filter("--exclude", options_.exclude);
    player_.snapped = options_.snapped;
    player_.truncate = options_.truncate;
    player_.preload = options_.preload;
    player_.dry = options_.dry_run;
    player_.stop = &stop;
    faults();
    if (options_.one_at_a_time) player_.step = [this] { return step(); };
    if (options_.dry_run && !options_.json)
      player_.on_frame = [this](const replay::PlayedFrame& frame) { show(frame); };
    player_.progress_every = 500'000'000;
    player_.progress = [this](const replay::PlayProgress& p) {
      progress_.tell(fmt::format("{} frames sent, loop {}, {:.0f} frames/s, {:.1f} Mbit/s{}", p.sent, p.loop,
                                 p.frames_per_second, p.bits_per_second / 1e6,
                                 p.whole ? fmt::format(", {} %", p.position * 100 / p.whole) : ""));
    };
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
          if (const auto wire = replay::open_wire(*spec); !wire) refuse(Exit::trouble, wire.error().message);
        if (!options_.dry_run && !target.safe && !allowed)
          refuse(Exit::usage, fmt::format("{} ({}): frames that others made are sent there only with --allow-target {}",
                                          name, target.about, target.name));
        all_safe_ &= target.safe;
        report_error(fmt::format("{}{} ({})", options_.dry_run ? "would send to " : "to ", name, target.about));
        auto wire = options_.dry_run ? replay::WireResult<std::unique_ptr<Wire>>(replay::make_null_wire())
                                     : replay::open_wire(*spec);
        if (!wire)
          refuse(wire.error().kind == replay::WireError::Kind::specification ? Exit::usage : Exit::trouble,
                 wire.error().message);
        if (!(*wire)->capabilities().sends) refuse(Exit::usage, name + ": this wire sends nothing");
        wires_.push_back(std::move(*wire));
      }
    }
    for (auto& wire : wires_) wire_pointers_.push_back(wire.get());
    player_.allow_groups = options_.allow_multicast || all_safe_to_groups();
    player_.rate_cap = options_.rate_cap.value_or(all_safe_ ? 0 : usual_cap);
    if (wires_.size() > 1)
      player_.lanes =
          options_.split || options_.files.size() == 1 ? PlayerOptions::Lanes::by_end : PlayerOptions::Lanes::by_file;
    if (wires_.size() > 1 && player_.lanes == PlayerOptions::Lanes::by_file && wires_.size() != options_.files.size())
      refuse(Exit::usage, fmt::format("{} captures and {} wires: as many of each, or --split over two",
                                      options_.files.size(), wires_.size()));
    if (player_.lanes == PlayerOptions::Lanes::by_end && wires_.size() != 2)
      refuse(Exit::usage, "the two sides of connections need two wires");
    if (player_.lanes == PlayerOptions::Lanes::by_end && !surveyed_)
      refuse(Exit::usage, "two wires for one capture: --split sends each side to its own");
  }
  /// A file has no group that could hear it.
  [[nodiscard]] bool all_safe_to_groups() const {
    return std::all_of(wires_.begin(), wires_.end(),
                       [](const auto& wire) { return wire->capabilities().virtual_time || wire->name() == "null"; });
  }

  /// Who will be sent frames, before the first one is.
  void announce() const {
    if (options_.map.empty()) return;
    std::set<std::string> ends;
    for (const MappedConnection& c : map_.connections)
      for (const replay::MappedEnd& end : c.ends) {
        if (!end.address.captured) continue;
        ends.insert(captures::analysis::to_text(end.address.live.value_or(*end.address.captured)));
      }
    std::string text;
    for (const std::string& end : ends) text += (text.empty() ? "" : ", ") + end;
    report_error(fmt::format("{} connection{}, between {}", map_.connections.size(),
                             map_.connections.size() == 1 ? "" : "s", text));
    if (!options_.dry_run) return;
    for (const MappedConnection& c : map_.connections)
      if (const std::string unknown = not_known(c); !unknown.empty())
        report_error(fmt::format("{}: not known live, and so as captured: {}", c.name, unknown));
  }

  bool step() {
    fmt::print(stderr, "frame {}: Enter sends it, q and Enter ends ", ++asked_);
    std::fflush(stderr);
    char line[64];
    if (!std::fgets(line, sizeof line, stdin) || stop) return false;
    return line[0] != 'q';
  }

  void show(const replay::PlayedFrame& frame) {
    std::string& out = output_.text();
    out += fmt::format("frame {}", frame.number);
    if (frame.loop > 1) out += fmt::format(" (loop {})", frame.loop);
    if (frame.frame.empty()) {
      out += "  not sent";
      if (!frame.rewritten.why.empty()) out += ": " + frame.rewritten.why;
      out += '\n';
    } else {
      const auto changes = replay::differences(frame.captured, decode(frame.frame));
      if (frame.rewritten.outcome == replay::Rewritten::Outcome::kept) out += "  in no mapping";
      out += changes.empty() ? "  as captured\n" : "\n";
      for (const replay::FieldChange& change : changes) out += "  " + replay::to_string(change) + "\n";
    }
    if (!output_.settle()) stop = true;
  }

  void tell_dry(const replay::ReplayReport& report) {
    std::uint64_t skipped = 0;
    for (const auto& skip : report.skipped) skipped += skip.frames;
    report_error(fmt::format("{} frames read, {} would be rewritten, {} would not be sent", report.read,
                             report.rewritten, skipped));
  }

  const PlayOptions& options_;
  Learnt learnt_;
  bool surveyed_ = false, all_safe_ = true;
  FlowMap map_;
  PlayerOptions player_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<Wire*> wire_pointers_;
  Output output_;
  Progress progress_{true};
  std::uint64_t asked_ = 0;
};

/// An option whose value is a number with a unit that multiplies it: 10G, 2.5M, 100k.
void add_rate(CLI::App& app, const std::string& option, const std::string& description,
              std::function<void(double)> set) {
  app.add_option_function<std::string>(
         option,
         [set](const std::string& text) {
           std::size_t end = 0;
           double value = 0;
           try {
             value = std::stod(text, &end);
           } catch (const std::exception&) {
             end = 0;
           }
           const std::string unit = end ? text.substr(end) : "x";
           const double scale = unit.empty() ? 1 : unit == "k" ? 1e3 : unit == "M" ? 1e6 : unit == "G" ? 1e9 : 0;
           if (end == 0 || scale == 0 || !(value >= 0) || value * scale > 1e15)
             throw CLI::ValidationError(text + " is no rate: a number, k, M or G behind it: 2.5G");
           set(value * scale);
         },
         description)
      ->type_name("RATE");
}
void add_duration(CLI::App& app, const std::string& option, std::int64_t& value, const std::string& description) {
  app.add_option_function<std::string>(
         option,
         [&value](const std::string& text) {
           const auto nanoseconds = output::parse_duration(text);
           if (!nanoseconds || *nanoseconds > std::uint64_t{1} << 62)
             throw CLI::ValidationError(text + " is no duration: 10ms, 1.5s, 200us");
           value = static_cast<std::int64_t>(*nanoseconds);
         },
         description)
      ->type_name("TIME");
}

}  // namespace

void add_play_options(CLI::App& app, PlayOptions& o) {
  using replay::CrcPolicy;
  using replay::Unmapped;
  const char* timing = "Timing (as captured unless said otherwise)";
  auto group = [](const char* name, auto... option) { (option->group(name), ...); };
  std::vector<CLI::Option*> paces;
  auto* speed = app.add_option("-x,--speed", o.speed, "so many times as fast")->check(check_positive)->type_name("N");
  add_rate(app, "-p,--pps", "frames a second", [&o](double v) { o.packets = v; });
  add_rate(app, "--bps", "bits a second, of frames: 2.5G", [&o](double v) { o.bits = v; });
  auto* top = app.add_flag("-t,--top", o.top, "as fast as the wire takes them");
  auto* one = app.add_flag("-o,--one-at-a-time", o.one_at_a_time, "each frame when Enter is pressed");
  auto* pps = app.get_option("--pps");
  auto* bps = app.get_option("--bps");
  paces = {speed, pps, bps, top, one};
  for (CLI::Option* a : paces)
    for (CLI::Option* b : paces)
      if (a != b) a->excludes(b);
  auto* burst = app.add_option("--burst", o.burst, "with --pps: so many leave together")
                    ->check(CLI::Range(1, 1 << 20))
                    ->needs(pps)
                    ->type_name("N");
  add_duration(app, "--max-gap", o.max_gap, "wait no longer than this between two frames");
  add_duration(app, "--spin", o.spin, "stay awake so long before a frame's time: more exact, and busy (100us)");
  auto* preload = app.add_flag("-K,--preload", o.preload, "read and rewrite everything before the first frame leaves");
  group(timing, speed, pps, bps, top, one, burst, app.get_option("--max-gap"), app.get_option("--spin"), preload);

  auto* loops = app.add_option("-l,--loops", o.loops, "play so often; 0: until stopped")->type_name("N");
  add_duration(app, "--pause", o.pause, "between loops");
  auto* psns = app.add_flag("--continue-psns", o.continue_psns, "each loop's PSNs go on where the last one's ended");
  auto* ip_step = app.add_option("--ip-step", o.ip_step, "each loop's addresses are higher by so much")->type_name("N");
  auto* qp_step = app.add_option("--qp-step", o.qp_step, "each loop's queue pair numbers, likewise")->type_name("N");
  group("Loops", loops, app.get_option("--pause"), psns, ip_step, qp_step);

  auto* limit =
      app.add_option("-L,--limit", o.limit, "stop after so many frames")->check(check_positive)->type_name("N");
  auto* bytes = app.add_option("--bytes", o.bytes, "stop before more bytes than these: 10M")
                    ->transform(CLI::AsSizeValue(false))
                    ->type_name("SIZE");
  auto* seconds = app.add_option("--seconds", o.seconds, "stop after so long")->check(check_positive)->type_name("S");
  auto* include = app.add_option("--include", o.include, "only these frames (docs/filters.md)")->type_name("FILTER");
  auto* exclude = app.add_option("--exclude", o.exclude, "not these")->type_name("FILTER");
  auto* split = app.add_flag("--split", o.split, "what clients sent to the first wire, servers to the second");
  group("Which frames", limit, bytes, seconds, include, exclude, split);

  auto* map = app.add_option("-m,--map", o.map,
                             "what takes the place of what: a mapping file, or assignments such as qp:0x11=0x777")
                  ->allow_extra_args(false)
                  ->type_name("MAP");
  auto* write = app.add_option("--write-map", o.write_map,
                               "write a mapping file to fill in, from the capture (- is standard output)")
                    ->type_name("OUT");
  auto* unmapped = add_choice(app, "--unmapped", o.rewrite.unmapped,
                              {{"refuse", Unmapped::refuse}, {"keep", Unmapped::keep}, {"drop", Unmapped::drop}},
                              "frames of RDMA connections that are in no mapping");
  auto* others = add_choice(app, "--others", o.rewrite.others,
                            {{"drop", Unmapped::drop}, {"keep", Unmapped::keep}, {"refuse", Unmapped::refuse}},
                            "with a mapping, frames of other protocols between hosts that are not in it");
  auto* crc =
      add_choice(app, "--crc", o.rewrite.crc,
                 {{"follow", CrcPolicy::follow}, {"recompute", CrcPolicy::recompute}, {"keep", CrcPolicy::keep}},
                 "checksums: right ones stay right and wrong ones wrong, all right, as captured");
  auto* mask = app.add_option_function<std::string>(
                      "--icrc-mask",
                      [&o](const std::string& text) {
                        const auto value = output::parse_number(text);
                        if (!value || *value > 0xffffffff)
                          throw CLI::ValidationError(text + " is no number of 32 bits");
                        o.rewrite.icrc_mask = static_cast<std::uint32_t>(*value);
                      },
                      "make ICRCs and MPA CRCs wrong by these bits: 0x1")
                   ->type_name("BITS");
  auto* hop = app.add_option("--hop-limit", o.rewrite.hop_limit, "TTL or hop limit of all frames")->type_name("N");
  auto* dscp = app.add_option("--dscp", o.rewrite.dscp, "DSCP of all frames")->check(CLI::Range(0, 63))->type_name("N");
  auto* label = app.add_option("--flow-label", o.rewrite.flow_label, "flow label of all frames of IPv6 and RoCEv1")
                    ->check(CLI::Range(0, 0xfffff))
                    ->type_name("N");
  group("Rewriting", map, write, unmapped, others, crc, mask, hop, dscp, label);

  auto* snapped = add_choice(app, "--snapped", o.snapped,
                             {{"refuse", PlayerOptions::Snapped::refuse},
                              {"pad", PlayerOptions::Snapped::pad},
                              {"send", PlayerOptions::Snapped::send}},
                             "frames that the capture cut");
  auto* too_long = add_choice(app, "--too-long", o.truncate, {{"refuse", false}, {"truncate", true}},
                              "frames longer than the wire takes");
  auto* groups =
      app.add_flag("--allow-multicast", o.allow_multicast, "send frames to broadcast and multicast addresses");
  auto* targets = app.add_option("--allow-target", o.allowed, "an interface or device that may be sent frames, by name")
                      ->allow_extra_args(false)
                      ->type_name("NAME");
  add_rate(app, "--rate-cap", "never more bits a second than this; 0: no cap (1G where --allow-target was needed)",
           [&o](double v) { o.rate_cap = static_cast<std::uint64_t>(v); });
  group("Safety", snapped, too_long, groups, targets, app.get_option("--rate-cap"));
}

Exit play(const PlayOptions& options) { return Play(options).run(); }

}  // namespace rdmawire::cli
