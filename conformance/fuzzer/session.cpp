#include "conformance/fuzzer/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "conformance/fuzzer/rulings.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::fuzzer {

using device::QpState;
using device::QueuePair;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_corpus = 4096;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return device::Random(a * 0x9e3779b97f4a7c15ULL + b).next(); }

bool is_packet(StepKind kind) { return kind == StepKind::request || kind == StepKind::answer; }

std::optional<Alarm> custom(const Step& step, const Outcome& outcome,
                            const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle) {
  if (!oracle) return std::nullopt;
  auto text = oracle(step, outcome);
  if (!text) return std::nullopt;
  return Alarm{.oracle = Oracle::custom, .expected = "no objection", .actual = *text, .signature = "custom: " + *text};
}

Alarm alarm_of_gone(const std::string& why) {
  return {.oracle = Oracle::gone, .expected = "the device answers", .actual = why, .signature = "device gone"};
}

Alarm alarm_of_kernel(const std::vector<std::string>& complaints) {
  return {.oracle = Oracle::kernel,
          .expected = "the device's kernel says nothing",
          .actual = fmt::format("{}", fmt::join(complaints, "; ")),
          .signature = "kernel message"};
}

/// What came of a step at the target, judged.
std::optional<Alarm> examine(Target& target, const Step& step, const Outcome& expected, Bytes expected_memory,
                             const Outcome& actual,
                             const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle) {
  if (const auto why = target.gone()) return alarm_of_gone(*why);
  if (const auto complaints = target.complaints(); !complaints.empty()) return alarm_of_kernel(complaints);
  auto alarm = judge(step, expected, expected_memory, actual, target.memory(), target.tolerance());
  return alarm ? alarm : custom(step, actual, oracle);
}

}  // namespace

Session::Session(std::unique_ptr<Target> target, SessionOptions options)
    : target_(std::move(target)), options_(std::move(options)) {
  if (!options_.corpus.empty()) load_corpus();
}

void Session::load_corpus() {
  std::error_code error;
  fs::create_directories(options_.corpus, error);
  if (error) {
    trouble_ = fmt::format("{}: {}", options_.corpus.string(), error.message());
    return;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(options_.corpus, error))
    if (entry.path().extension() == ".json" && entry.path().filename() != "session.json") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    auto script = parse_script(text);
    if (!script) {
      trouble_ = fmt::format("{}: {}; remove it", path.string(), script.error());
      return;
    }
    if (corpus_.size() < most_corpus) corpus_.push_back(std::move(*script));
  }
  statistics_.corpus = corpus_.size();
  const fs::path state = options_.corpus / "session.json";
  if (!options_.resume || !fs::exists(state)) return;
  std::ifstream file(state, std::ios::binary);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  const auto number = [&](const char* name) -> std::uint64_t {
    return json.is_object() && json.contains(name) && json[name].is_number_unsigned() ? json[name].get<std::uint64_t>()
                                                                                      : 0;
  };
  if (json.is_discarded()) {
    trouble_ = fmt::format("{}: no JSON; remove it to begin anew", state.string());
    return;
  }
  options_.seed = number("seed");
  next_life_ = number("lives");
  statistics_.executions = number("executions");
  statistics_.steps = number("steps");
  statistics_.lives = next_life_;
  if (json.contains("edges") && json["edges"].is_array())
    for (const auto& edge : json["edges"])
      if (edge.is_number_unsigned()) edges_.set(edge.get<std::uint64_t>() % edges_.size());
  statistics_.edges = edges_.count();
}

void Session::save_state() {
  if (options_.corpus.empty() || trouble_) return;
  nlohmann::ordered_json json;
  json["seed"] = options_.seed;
  json["lives"] = next_life_;
  json["executions"] = statistics_.executions;
  json["steps"] = statistics_.steps;
  json["edges"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < edges_.size(); ++i)
    if (edges_[i]) json["edges"].push_back(i);
  const fs::path path = options_.corpus / "session.json";
  std::ofstream file(path, std::ios::binary);
  file << json.dump() << '\n';
  file.close();
  if (!file) trouble_ = fmt::format("{}: could not be written", path.string());
}

void Session::keep(const Script& script) {
  if (corpus_.size() >= most_corpus) return;
  corpus_.push_back(script);
  statistics_.corpus = corpus_.size();
  if (options_.corpus.empty() || trouble_) return;
  const fs::path path = options_.corpus / fmt::format("{:06}.json", corpus_.size());
  std::ofstream file(path, std::ios::binary);
  file << to_json(script).dump(1) << '\n';
  file.close();
  if (!file) trouble_ = fmt::format("{}: could not be written", path.string());
}

std::optional<std::string> Session::begin_life() {
  if (novel_) keep(script_);
  novel_ = false;
  over_ = false;
  const std::uint64_t life = next_life_++;
  ++statistics_.lives;
  const std::uint64_t seed = mix(options_.seed, life);
  WalkOptions walk = target_->walk();
  walk_ = std::make_unique<Walk>(seed, walk);
  planned_.clear();
  script_ = {.seed = seed & 0xffffffff};
  if (!options_.plain && !corpus_.empty() && walk_->chance().one_in(6)) {
    const Script& old = walk_->chance().of(corpus_);
    script_.seed = old.seed;
    const std::size_t count = 1 + walk_->chance().below(std::min<std::size_t>(old.steps.size(), 24));
    planned_.assign(old.steps.begin(), old.steps.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::reverse(planned_);
  }
  shadow_ = std::make_unique<World>(script_.seed);
  if (!maker_) maker_ = std::make_unique<FrameMaker>(tester_port(shadow_->port()));
  maker_->clear();
  return target_->start(script_.seed);
}

Step Session::plain_step() {
  Chance& chance = walk_->chance();
  if (script_.steps.empty())
    return {.kind = StepKind::connect,
            .psn = 1000,
            .own_psn = 2000,
            .length = 1024,
            .state = 3,
            .rights = 0x30e,
            .depth = 4,
            .count = 4,
            .retries = 2};
  // A packet that would be good at the beginning of the connection, with octets behind Ethernet's header changed.
  static const std::vector<std::int64_t> known = [] {
    std::vector<std::int64_t> all;
    for (const Opcode& op : opcodes)
      if (op.known && op.transport == Transport::rc) all.push_back(op.value);
    return all;
  }();
  Step step{.kind = StepKind::request, .opcode = chance.of(known), .payload = 8, .length = 8, .flags = 1};
  const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
  if (!op.payload) step.payload = 0;
  const QueuePair* qp = shadow_->queue_pair(0);
  if (qp) step.psn = Psn(1000) - bases_of(qp).request;
  const auto frame = maker_->plain(step, shadow_->objects(), bases_of(qp));
  const HeaderStack stack = decode(frame);
  const auto layers = stack.layers();
  for (std::uint64_t i = 0, count = 1 + chance.below(4); i < count; ++i) {
    const Layer& layer = layers[1 + chance.below(layers.size() - 1)];
    const Field& field = chance.of(layer.header->fields);
    if (!field.is_number()) continue;
    step.mutations.push_back({.kind = Mutation::Kind::set,
                              .header = layer.header,
                              .field = &field,
                              .value = static_cast<std::int64_t>(chance.any())});
  }
  if (chance.one_in(2)) step.mutations.push_back({.kind = Mutation::Kind::stale_icrc});
  step.mutated = true;
  return step;
}

/// Where the connection stood, what was said, what was answered: a number for each.
void Session::note_edge(const Step& step, const QueuePair* qp) {
  std::uint64_t state = 0;
  if (qp) {
    const auto& sequence =
        qp->options.type == device::QpType::uc ? qp->responder.uc.sequence : qp->responder.state.sequence;
    state = static_cast<std::uint64_t>(qp->options.type) | static_cast<std::uint64_t>(qp->state) << 3 |
            static_cast<std::uint64_t>(sequence.inside) << 6 |
            (sequence.inside ? static_cast<std::uint64_t>(sequence.operation) << 7 : 0) |
            static_cast<std::uint64_t>(qp->responder.state.nak_sent) << 11 |
            static_cast<std::uint64_t>(qp->receives.empty()) << 12 |
            std::min<std::uint64_t>(qp->requester.queue.size(), 3) << 13 |
            std::min<std::uint64_t>(qp->requester.window.outstanding(), 2) << 15 |
            static_cast<std::uint64_t>(qp->requester.rnr_until > shadow_->now()) << 17;
  }
  std::uint64_t what = static_cast<std::uint64_t>(step.kind) << 8;
  if (is_packet(step.kind) || step.kind == StepKind::post) what |= static_cast<std::uint64_t>(step.opcode) & 0xff;
  if (!step.mutations.empty()) {
    const Mutation& first = step.mutations.front();
    what |= (static_cast<std::uint64_t>(first.kind) + 1) << 16;
    if (first.field) what |= static_cast<std::uint64_t>(first.field->bit) << 24;
  }
  std::uint64_t answer = actual_.frames.size() > 2 ? 3 : actual_.frames.size();
  for (std::size_t i = 0; i < std::min<std::size_t>(actual_.frames.size(), 2); ++i) {
    const HeaderStack stack = decode(actual_.frames[i]);
    if (const auto bth = stack.get<Bth>()) answer = answer * 257 + bth->get<"opcode">();
    if (const auto aeth = stack.get<Aeth>()) {
      const std::uint64_t syndrome = aeth->get<"syndrome">();
      answer = answer * 257 + ((syndrome >> 5) == 0 ? 0 : syndrome);
    }
  }
  for (const auto& completion : actual_.completions)
    answer = answer * 31 + static_cast<std::uint64_t>(completion.status);
  const std::uint64_t edge = mix(mix(state, what), answer) % edges_.size();
  if (edges_[edge]) return;
  edges_.set(edge);
  ++statistics_.edges;
  novel_ = true;
}

void Session::found(Alarm alarm) {
  over_ = true;
  ++statistics_.alarms;
  for (Finding& known : findings_)
    if (known.alarm.signature == alarm.signature) {
      ++known.times;
      return;
    }
  if (!signatures_.insert(alarm.signature).second) return;
  ++statistics_.findings;
  if (findings_.size() >= options_.most_findings) return;
  Finding finding{.alarm = std::move(alarm), .script = script_, .minimal = script_};
  finding.seed = options_.seed;
  finding.execution = statistics_.executions;
  if (options_.minimise) {
    finding.minimal = minimise(script_, finding.alarm.signature, *target_, options_.oracle);
    const Replayed again = replay(finding.minimal, *target_, true, options_.oracle);
    finding.rules = broken_rules(again.frames);
    finding.reproduced = again.alarm && again.alarm->signature == finding.alarm.signature;
    if (finding.reproduced) finding.alarm = *again.alarm;
  }
  findings_.push_back(std::move(finding));
}

std::optional<std::string> Session::one_step() {
  Step step;
  bool fresh = planned_.empty();
  if (!fresh) {
    step = std::move(planned_.back());
    planned_.pop_back();
  } else {
    step = options_.plain ? plain_step() : walk_->next(*shadow_, *maker_);
    if (step.mutated && options_.mutator)
      if (auto changed = options_.mutator(step)) {
        step = std::move(*changed);
        step.mutated = true;
      }
  }
  const QueuePair* qp = shadow_->queue_pair(step.at);
  const Bases bases = bases_of(qp);
  frames_.clear();
  const KnownObjects objects = shadow_->objects();
  if (is_packet(step.kind)) maker_->make(step, objects, bases, frames_);
  walk_->said(step, bases);
  shadow_->perform(step, frames_, expected_);
  target_->perform({step, bases, frames_, objects, expected_, shadow_->memory()}, actual_);
  ++statistics_.steps;
  ++statistics_.by_kind[static_cast<std::size_t>(step.kind)];
  if (step.mutated && fresh) ++statistics_.executions;
  if (step.kind == StepKind::connect) ++statistics_.connections;
  script_.steps.push_back(std::move(step));
  const Step& made = script_.steps.back();
  if (auto alarm = examine(*target_, made, expected_, shadow_->memory(), actual_, options_.oracle)) {
    const bool gone = alarm->oracle == Oracle::gone || alarm->oracle == Oracle::kernel;
    if (gone) {
      ++statistics_.restarts;
      if (auto lost = target_->revive()) {
        options_.minimise = false;
        found(std::move(*alarm));
        return lost;
      }
    }
    found(std::move(*alarm));
    return std::nullopt;
  }
  note_edge(made, shadow_->queue_pair(made.at));
  if (script_.steps.size() >= target_->life()) over_ = true;
  return std::nullopt;
}

std::optional<std::string> Session::run(const Budget& budget, const std::function<bool(const Statistics&)>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const double before = statistics_.seconds;
  const std::uint64_t last = statistics_.executions + budget.executions;
  std::optional<std::string> lost;
  auto asked = began;
  for (std::uint64_t i = 0;; ++i) {
    if (budget.executions != 0 && statistics_.executions >= last) break;
    if (options_.stop_at_first && !findings_.empty()) break;
    if (i % 64 == 0 || !target_->tolerance().exact) {
      const auto now = Clock::now();
      statistics_.seconds = before + std::chrono::duration<double>(now - began).count();
      if (budget.seconds > 0 && statistics_.seconds - before >= budget.seconds) break;
      if (now - asked > std::chrono::milliseconds(100) && stop) {
        asked = now;
        if (stop(statistics_)) break;
      }
    }
    if (over_) {
      lost = begin_life();
      if (lost && target_->gone()) {
        ++statistics_.restarts;
        lost = target_->revive();
        if (!lost) {
          over_ = true;
          continue;
        }
      }
      if (lost) break;
    }
    lost = one_step();
    if (lost) break;
  }
  statistics_.seconds = before + std::chrono::duration<double>(Clock::now() - began).count();
  save_state();
  return lost;
}

Replayed replay(const Script& script, Target& target, bool with_frames,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle) {
  Replayed replayed;
  World shadow(script.seed);
  FrameMaker maker(tester_port(shadow.port()));
  if (const auto why = target.start(script.seed)) {
    replayed.alarm = alarm_of_gone(*why);
    return replayed;
  }
  Outcome expected, actual;
  std::vector<std::vector<std::uint8_t>> frames;
  for (std::size_t i = 0; i < script.steps.size(); ++i) {
    const Step& step = script.steps[i];
    const Bases bases = bases_of(shadow.queue_pair(step.at));
    frames.clear();
    const KnownObjects objects = shadow.objects();
    if (is_packet(step.kind)) maker.make(step, objects, bases, frames);
    const std::int64_t time = shadow.now();
    shadow.perform(step, frames, expected);
    target.perform({step, bases, frames, objects, expected, shadow.memory()}, actual);
    if (with_frames) {
      for (const auto& frame : frames) replayed.frames.push_back({true, i, time, frame});
      for (const auto& frame : actual.frames) replayed.frames.push_back({false, i, time + 1000, frame});
    }
    replayed.step = i;
    replayed.alarm = examine(target, step, expected, shadow.memory(), actual, oracle);
    if (replayed.alarm) break;
  }
  return replayed;
}

Script minimise(Script script, const std::string& signature, Target& target,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle) {
  using Clock = std::chrono::steady_clock;
  std::size_t left = target.affordable_runs();
  const auto ends = Clock::now() + std::chrono::duration<double>(target.affordable_seconds());
  // Whether a candidate alarms in the same way; then it becomes the script, without what comes behind the alarm.
  const auto takes = [&](Script candidate) {
    if (left > 0 && Clock::now() > ends) left = 0;
    if (left == 0) return false;
    --left;
    const Replayed again = replay(candidate, target, false, oracle);
    if (again.alarm && (again.alarm->oracle == Oracle::gone || again.alarm->oracle == Oracle::kernel))
      if (target.revive()) left = 0;
    if (!again.alarm || again.alarm->signature != signature) return false;
    candidate.steps.resize(again.step + 1);
    script = std::move(candidate);
    return true;
  };
  for (std::size_t chunk = std::max<std::size_t>(script.steps.size() / 2, 1);; chunk /= 2) {
    bool removed = true;
    while (removed && left > 0) {
      removed = false;
      for (std::size_t at = 0; at < script.steps.size();) {
        Script candidate = script;
        const auto from = candidate.steps.begin() + static_cast<std::ptrdiff_t>(at);
        const std::size_t count = std::min(chunk, candidate.steps.size() - at);
        candidate.steps.erase(from, from + static_cast<std::ptrdiff_t>(count));
        if (!candidate.steps.empty() && takes(std::move(candidate)))
          removed = true;
        else
          at += chunk;
      }
      if (chunk > 1) break;
    }
    if (chunk <= 1) break;
  }
  for (std::size_t at = 0; at < script.steps.size(); ++at) {
    for (std::size_t i = script.steps[at].mutations.size(); i-- > 0;) {
      Script candidate = script;
      candidate.steps[at].mutations.erase(candidate.steps[at].mutations.begin() + static_cast<std::ptrdiff_t>(i));
      takes(std::move(candidate));
      if (at >= script.steps.size()) return script;
      i = std::min(i, script.steps[at].mutations.size());
    }
    for (const StepMember& member : step_members) {
      if (at >= script.steps.size()) return script;
      if (script.steps[at].*(member.member) == 0) continue;
      Script candidate = script;
      candidate.steps[at].*(member.member) = 0;
      takes(std::move(candidate));
    }
  }
  return script;
}

}  // namespace rdmawire::fuzzer
