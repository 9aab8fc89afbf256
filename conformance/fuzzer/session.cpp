#include "conformance/fuzzer/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>

#include "captures/io/output_file.hpp"
#include "conformance/fuzzer/known_divergences.hpp"
#include "conformance/fuzzer/saved.hpp"

namespace rdmawire::fuzzer {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_clean_scripts = 24;
constexpr std::uint64_t most_for_a_warning = 4;  // restarts for minimization
constexpr std::string_view warning = "WARNING", device_gone = "device gone", kernel_message = "kernel message";
constexpr std::uint64_t watched_scripts = 4;  // the monitors check one out of this number of scripts
constexpr std::chrono::seconds save_interval{1};

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::optional<Alarm> custom(const Step& step, const Outcome& outcome,
                            const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle) {
  if (!oracle) return std::nullopt;
  auto text = oracle(step, outcome);
  if (!text) return std::nullopt;
  return Alarm{.oracle = Oracle::custom, .expected = "no alarm", .actual = *text, .signature = "custom: " + *text};
}

/// Return the part of a kernel message that is equal in all runs: "WARNING at drivers/x.c:75 complete",
/// "BUG: kernel NULL pointer dereference, address: 0000000000000010".
std::string constant_part(std::string_view message) {
  const std::size_t at = message.find(" at ");
  if (message.starts_with(warning) && at != std::string_view::npos)
    return std::string(warning) + std::string(message.substr(at, message.find('+', at) - at));
  if (message.find("NULL pointer") != std::string_view::npos) return std::string(message);
  return std::string(message.substr(0, message.find(',')));
}

Alarm device_gone_alarm(const std::string& why) {
  constexpr std::string_view panicked = "panicked: ";
  const std::size_t at = why.find(panicked);
  return {.oracle = Oracle::gone,
          .expected = "the device responds",
          .actual = why,
          .signature = at == std::string::npos
                           ? std::string(device_gone)
                           : fmt::format("{}: {}", device_gone,
                                         constant_part(std::string_view(why).substr(at + panicked.size())))};
}

Alarm alarm_of_kernel(const std::vector<std::string>& complaints) {
  return {.oracle = Oracle::kernel,
          .expected = "no kernel messages",
          .actual = fmt::format("{}", fmt::join(complaints, "; ")),
          .signature = fmt::format("{}: {}", kernel_message, constant_part(complaints.front()))};
}

/// True if both signatures may have the same cause. The same crash can be reported as a lost device or as a kernel
/// message.
bool same_end(std::string_view a, std::string_view b) {
  const auto cause = [](std::string_view signature) {
    const std::size_t at = signature.find(": ");
    return at == std::string_view::npos ? std::string_view() : signature.substr(at);
  };
  return cause(a).empty() || cause(b).empty() || cause(a) == cause(b);
}

bool ends_the_device(const Alarm& alarm) { return alarm.oracle == Oracle::gone || alarm.oracle == Oracle::kernel; }
/// True if the device needs no restart after the alarm, because a kernel continues to run after a warning.
bool continues(const Alarm& alarm) {
  return alarm.oracle == Oracle::kernel && alarm.signature.find(warning) != std::string::npos;
}

/// Return the frames since the last connect step of the alarm's queue pair: an earlier queue pair may have had the same
/// number. Empty if both queue pairs were connected: monitors cannot distinguish their requests to the same tester
/// queue pair.
std::span<const Exchanged> since_connected(const Finding& finding) {
  const std::vector<Step>& steps = finding.minimal.steps;
  std::size_t from = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != StepKind::connect) continue;
    if (steps[i].at != steps.back().at) return {};
    from = i;
  }
  const auto first = std::ranges::find_if(finding.frames, [&](const Exchanged& one) { return one.step >= from; });
  return {first, finding.frames.end()};
}

/// Evaluate the outcome of a step at the target.
std::optional<Alarm> examine(Target& target, ReferenceModel& model, const Step& step, const Outcome& actual,
                             const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle) {
  if (const auto why = target.gone()) return device_gone_alarm(*why);
  if (const auto complaints = target.complaints(); !complaints.empty()) return alarm_of_kernel(complaints);
  auto alarm = model.judge(step, actual, target.memory(), target.tolerance());
  return alarm ? alarm : custom(step, actual, oracle);
}

}  // namespace

Session::Session(std::unique_ptr<Target> target, SessionOptions options)
    : target_(std::move(target)), options_(std::move(options)) {
  id_ = random_id();
  offers_code_ = target_->trace(nullptr);
  if (!options_.corpus.empty()) load_corpus();
  report_edges();
}

void Session::report_edges() {
  statistics_.edges = answers_.count();
  if (offers_code_ && is_counted(&Feedback::code)) statistics_.code_edges = code_.count();
  if (is_counted(&Feedback::monitors)) statistics_.monitor_edges = states_.count();
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
    if (script->family != target_->family()) {
      trouble_ = fmt::format("{}: a script of {} cannot run on {}, which supports {}; use another corpus",
                             path.string(), to_string(script->family), target_->name(), to_string(target_->family()));
      return;
    }
    if (corpus_.size() < options_.most_corpus && !script->steps.empty()) corpus_.push_back(std::move(*script));
  }
  statistics_.corpus = kept_ = corpus_.size();
  if (options_.resume) load_state(options_.corpus / "session.json");
}

void Session::load_state(const fs::path& path) {
  if (!fs::exists(path)) return;
  const auto unusable = [&](const std::string& why) {
    trouble_ = fmt::format("{}: {}; remove it to start a new session", path.string(), why);
  };
  std::ifstream file(path, std::ios::binary);
  const auto json = parse_saved(std::string((std::istreambuf_iterator<char>(file)), {}));
  if (!json) return unusable(json.error());
  const auto statistics = saved_statistics(*json);
  if (!statistics) return unusable(statistics.error());
  const auto list = [&](const char* name) {
    return json->contains(name) && (*json)[name].is_array() ? (*json)[name] : nlohmann::json::array();
  };
  for (const auto& one : list("found")) {
    auto finding = saved_finding(one, target_->family());
    if (!finding) return unusable(fmt::format("finding {}: {}", findings_.size() + 1, finding.error()));
    signatures_.insert(finding->alarm.signature);
    if (findings_.size() < options_.most_findings) findings_.push_back(std::move(*finding));
  }
  resumed_findings_ = findings_.size();
  for (const auto& signature : list("signatures"))
    if (signature.is_string()) signatures_.insert(signature.get<std::string>());
  const auto number = [&](const char* name) -> std::uint64_t {
    return json->contains(name) && (*json)[name].is_number_unsigned() ? (*json)[name].get<std::uint64_t>() : 0;
  };
  const std::uint64_t corpus = statistics_.corpus;
  statistics_ = *statistics;
  statistics_.corpus = corpus;
  options_.seed = number("seed");
  if (json->contains("id") && (*json)["id"].is_string()) id_ = (*json)["id"].get<std::string>();
  next_script_ = statistics_.lives;
  kept_ = std::max<std::uint64_t>(number("kept"), kept_);
  const auto edges = [&](const char* name, EdgeMap& map) {
    for (const auto& edge : list(name))
      if (edge.is_number_unsigned()) map.add(edge.get<std::uint64_t>());
  };
  edges("edges", answers_);
  edges("monitor_edges", states_);
  if (number("code") == target_->code()) edges("code_edges", code_);
}

void Session::save_state() {
  if (options_.corpus.empty() || trouble_) return;
  nlohmann::ordered_json json = saved(statistics_);
  json["id"] = id_;
  json["seed"] = options_.seed;
  json["lives"] = next_script_;
  json["kept"] = kept_;
  json["edges"] = answers_.all();
  json["code"] = target_->code();
  json["code_edges"] = code_.all();
  json["monitor_edges"] = states_.all();
  json["signatures"] = signatures_;  // includes those of findings that were only counted
  json["found"] = nlohmann::ordered_json::array();
  for (const Finding& finding : findings_) json["found"].push_back(saved(finding));
  // Replace the file in one operation, so that it is complete even if the process is killed.
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (auto written = captures::write_file((options_.corpus / "session.json").string(), text); !written)
    trouble_ = written.error();
}

void Session::keep(const Script& script) {
  if (options_.most_corpus == 0) return;
  const bool full = corpus_.size() >= options_.most_corpus;
  const std::size_t place = full ? kept_ % options_.most_corpus : corpus_.size();
  ++kept_;
  if (full)
    corpus_[place] = script;
  else
    corpus_.push_back(script);
  statistics_.corpus = corpus_.size();
  if (options_.corpus.empty() || trouble_) return;
  const fs::path path = options_.corpus / fmt::format("{:06}.json", place + 1);
  if (auto written = captures::write_file(path.string(), to_json(script).dump(1) + "\n"); !written)
    trouble_ = written.error();
}

/// Save the results of the finished script.
void Session::finish_script() {
  if (watched_) {
    const std::uint64_t before = states_.count();
    view_.end();
    novel_ |= options_.feedback.monitors && states_.count() != before;
  }
  if (novel_) keep(script_);
  novel_ = false;
  if (!alarmed_ && !script_.steps.empty()) {
    if (clean_scripts_.size() == max_clean_scripts) clean_scripts_.pop_front();
    clean_scripts_.push_back(std::move(script_));
  }
  alarmed_ = false;
}

std::optional<std::string> Session::start_script() {
  finish_script();
  over_ = false;
  const std::uint64_t number = next_script_++;
  ++statistics_.lives;
  const std::uint64_t seed = mix(options_.seed, number);
  chance_ = Rng(seed);
  planned_.clear();
  script_ = {.family = target_->family(), .seed = seed & 0xffffffff};
  if (!options_.plain && !corpus_.empty() && chance_.one_in(6)) {
    const Script& old = chance_.of(corpus_);
    script_.seed = old.seed;
    const std::size_t count = 1 + chance_.below(std::min<std::size_t>(old.steps.size(), 24));
    planned_.assign(old.steps.begin(), old.steps.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::reverse(planned_);
  }
  model_ = target_->create_model(script_.seed, chance_);
  // The monitors double the time of a script at an in-process device, so they check only some. Their time is
  // negligible at other devices.
  watched_ = is_counted(&Feedback::monitors) && (!target_->tolerance().exact || number % watched_scripts == 0);
  if (watched_) view_.begin(states_);
  target_->trace(is_counted(&Feedback::code) ? &code_ : nullptr);
  return target_->start(script_.seed);
}

/// Perform a step at both devices. Returns true if it reached a new edge.
bool Session::perform(const Step& step) {
  const std::uint64_t code = code_.count(), states = states_.count();
  model_->perform(step);
  target_->perform(step, *model_, actual_);
  const bool answer = answers_.add(model_->edge(step, actual_));
  if (watched_) {
    frames_.clear();
    model_->exchanged(script_.steps.size(), actual_, frames_);
    view_.add(frames_);
  }
  const Feedback& of = options_.feedback;
  report_edges();
  return (of.answers && answer) || (of.code && code_.count() != code) || (of.monitors && states_.count() != states);
}

void Session::found(Alarm alarm) {
  over_ = alarmed_ = true;
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
  if (options_.minimize) {
    target_->trace(nullptr);
    Minimized minimized = minimize(script_, finding.alarm.signature, *target_, options_.oracle, left() / 2);
    finding.minimal = std::move(minimized.script);
    finding.reproduced = minimized.shown.alarm.has_value();
    finding.trials = minimized.trials;
    finding.restarts = minimized.restarts;
    finding.whole = minimized.whole && finding.reproduced;
    finding.frames = std::move(minimized.shown.frames);
    statistics_.restarts += minimized.restarts;
    if (finding.reproduced && finding.alarm.signature == minimized.shown.alarm->signature)
      finding.alarm = std::move(*minimized.shown.alarm);
    finding.shown = broken_rules(since_connected(finding));
    std::set<std::string> rules(finding.shown.begin(), finding.shown.end());
    for (const FaultyReference& way : broken_likewise(finding, clean_scripts_, *target_)) {
      finding.like.emplace_back(way.name);
      rules.insert(way.rules.begin(), way.rules.end());
    }
    finding.rules.assign(rules.begin(), rules.end());
  }
  findings_.push_back(std::move(finding));
  save_state();
  if (options_.recorded) options_.recorded(findings_.size() - 1);
}

/// Return the seconds until the end of the run.
double Session::left() const {
  if (!deadline_) return std::numeric_limits<double>::infinity();
  return std::max(std::chrono::duration<double>(*deadline_ - std::chrono::steady_clock::now()).count(), 0.0);
}

std::optional<std::string> Session::one_step() {
  Step step;
  bool fresh = planned_.empty();
  if (!fresh) {
    step = std::move(planned_.back());
    planned_.pop_back();
  } else {
    step = options_.plain ? model_->plain() : model_->next();
    if (step.mutated && options_.mutator)
      if (auto changed = options_.mutator(step)) {
        step = std::move(*changed);
        step.mutated = true;
      }
  }
  const bool novel = perform(step);
  ++statistics_.steps;
  ++statistics_.by_kind[static_cast<std::size_t>(step.kind)];
  if (step.mutated && fresh) ++statistics_.executions;
  if (step.kind == StepKind::connect) ++statistics_.connections;
  script_.steps.push_back(std::move(step));
  const Step& made = script_.steps.back();
  if (auto alarm = examine(*target_, *model_, made, actual_, options_.oracle)) {
    return revive_and_record(std::move(*alarm));
  }
  novel_ |= novel;
  if (script_.steps.size() < target_->steps_per_execution() && !target_->diverged()) return std::nullopt;
  over_ = true;
  target_->finish();
  if (const auto why = target_->gone()) return revive_and_record(device_gone_alarm(*why));
  return std::nullopt;
}

/// Restart the device if the alarm ended it, and record the finding. Returns the error if the device cannot be
/// restarted.
std::optional<std::string> Session::revive_and_record(Alarm alarm) {
  if (ends_the_device(alarm) && !continues(alarm)) {
    ++statistics_.restarts;
    if (auto lost = target_->revive()) {
      options_.minimize = false;
      found(std::move(alarm));
      return lost;
    }
  }
  found(std::move(alarm));
  return std::nullopt;
}

std::optional<std::string> Session::run(const Budget& budget, const std::function<bool(const Statistics&)>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const double before = statistics_.seconds;
  const std::uint64_t last = statistics_.executions + budget.executions;
  std::optional<std::string> lost;
  auto last_stop_check = began, last_save = began;
  deadline_.reset();
  if (budget.seconds > 0)
    deadline_ = began + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(budget.seconds));
  for (std::uint64_t i = 0;; ++i) {
    if (budget.executions != 0 && statistics_.executions >= last) break;
    if (options_.stop_at_first && findings_.size() > resumed_findings_) break;
    if (i % 64 == 0 || !target_->tolerance().exact) {
      const auto now = Clock::now();
      statistics_.seconds = before + std::chrono::duration<double>(now - began).count();
      if (budget.seconds > 0 && statistics_.seconds - before >= budget.seconds) break;
      if (now - last_save > save_interval) {
        save_state();
        last_save = now;
      }
      if (now - last_stop_check > std::chrono::milliseconds(100) && stop) {
        last_stop_check = now;
        if (stop(statistics_)) break;
      }
    }
    if (over_) {
      lost = start_script();
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

std::vector<std::uint64_t> Session::edges_of(const Script& script) {
  EdgeMap answers, code, states;
  std::vector<Exchanged> frames;
  Outcome actual;
  MonitorView view;
  Rng chance(script.seed);
  over_ = true;
  const std::unique_ptr<ReferenceModel> model = target_->create_model(script.seed, chance);
  target_->trace(is_counted(&Feedback::code) ? &code : nullptr);
  if (!target_->start(script.seed)) {
    view.begin(states);
    for (std::size_t i = 0; i < script.steps.size() && !target_->gone(); ++i) {
      model->perform(script.steps[i]);
      target_->perform(script.steps[i], *model, actual);
      answers.add(model->edge(script.steps[i], actual));
      frames.clear();
      model->exchanged(i, actual, frames);
      view.add(frames);
    }
    view.end();
    target_->finish();
  }
  target_->trace(nullptr);
  if (target_->gone()) static_cast<void>(target_->revive());
  std::vector<std::uint64_t> edges = answers.all();
  std::uint64_t kind = 0;
  for (const EdgeMap* map : {&code, &states}) {
    kind += EdgeMap::places;
    for (const std::uint64_t edge : map->all()) edges.push_back(kind + edge);
  }
  return edges;
}

Replayed replay(const Script& script, Target& target, bool with_frames,
                const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle) {
  Replayed replayed;
  Rng chance(script.seed);
  const std::unique_ptr<ReferenceModel> model = target.create_model(script.seed, chance);
  if (const auto why = target.start(script.seed)) {
    replayed.alarm = device_gone_alarm(*why);
    return replayed;
  }
  Outcome actual;
  for (std::size_t i = 0; i < script.steps.size(); ++i) {
    const Step& step = script.steps[i];
    model->perform(step);
    target.perform(step, *model, actual);
    if (with_frames) model->exchanged(i, actual, replayed.frames);
    replayed.step = i;
    replayed.alarm = examine(target, *model, step, actual, oracle);
    if (replayed.alarm) return replayed;
  }
  target.finish();
  if (const auto why = target.gone()) replayed.alarm = device_gone_alarm(*why);
  return replayed;
}

namespace {

/// Minimizer of one script.
class Cutting {
 public:
  Cutting(Script script, const std::string& signature, Target& target,
          const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle, double seconds)
      : signature_(signature), target_(target), oracle_(oracle), allowance_(target.allowance()), seconds_(seconds) {
    result_.script = std::move(script);
    deadly_ = signature_.starts_with(device_gone) || signature_.starts_with(kernel_message);
    warns_ = deadly_ && signature_.find(warning) != std::string::npos;
  }

  Minimized run() {
    if (warns_) {  // the kernel may report the warning only once, so restart it
      ++result_.restarts;
      lost_ = target_.revive().has_value();
    }
    if (deadly_) {
      begin_with_the_end();
    } else {
      accept(result_.script);  // Remove the steps after the alarm. A script without alarm is kept.
      if (!result_.shown.alarm) return std::move(result_);
    }
    leave_steps_out();
    leave_numbers_out();
    if (!result_.shown.alarm) accept(result_.script);
    return std::move(result_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool spent() const {
    const double most = result_.restarts > 0 ? allowance_.restart_seconds : allowance_.seconds;
    // The kernel may report a warning only once, so each trial requires a restart.
    const std::uint64_t restarts = warns_ ? std::min(allowance_.restarts, most_for_a_warning) : allowance_.restarts;
    return lost_ || result_.trials >= allowance_.trials || result_.restarts >= restarts ||
           std::chrono::duration<double>(Clock::now() - began_).count() >= std::min(most, seconds_);
  }

  /// Try a candidate. If it causes the same alarm, it replaces the script, without the steps after the alarm. Returns
  /// whether it did.
  bool accept(Script candidate) {
    if (spent()) {
      result_.whole = false;
      return false;
    }
    ++result_.trials;
    Replayed replayed = replay(candidate, target_, true, oracle_);
    const bool ended = replayed.alarm && ends_the_device(*replayed.alarm);
    if (ended) {
      ++result_.restarts;
      lost_ = target_.revive().has_value();
    }
    const bool same_alarm =
        replayed.alarm && (replayed.alarm->signature == signature_ ||
                           (deadly_ && !warns_ && ended && same_end(replayed.alarm->signature, signature_)));
    if (!same_alarm) return false;
    candidate.steps.resize(replayed.step + 1);
    result_.script = std::move(candidate);
    result_.shown = std::move(replayed);
    return true;
  }

  /// Try the last connect step of the queue pair that the last step uses, followed by only the last 1, 2, 4, ... steps.
  void begin_with_the_end() {
    const std::vector<Step> steps = result_.script.steps;
    const auto connection = std::find_if(steps.rbegin(), steps.rend(), [&](const Step& step) {
      return step.kind == StepKind::connect && step.at == steps.back().at;
    });
    if (connection == steps.rend()) return;
    const auto first = static_cast<std::size_t>(steps.rend() - connection);  // index after the connection
    for (std::size_t last = 1; first + last < steps.size(); last *= 2) {
      Script candidate{.seed = result_.script.seed, .steps = {*connection}};
      candidate.steps.insert(candidate.steps.end(), steps.end() - static_cast<std::ptrdiff_t>(last), steps.end());
      if (accept(std::move(candidate)) || spent()) return;
    }
  }

  void leave_steps_out() {
    for (std::size_t chunk = std::max<std::size_t>(result_.script.steps.size() / 2, 1);; chunk /= 2) {
      bool removed = true;
      while (removed && !spent()) {
        removed = false;
        for (std::size_t at = 0; at < result_.script.steps.size();) {
          Script candidate = result_.script;
          const auto from = candidate.steps.begin() + static_cast<std::ptrdiff_t>(at);
          const std::size_t count = std::min(chunk, candidate.steps.size() - at);
          candidate.steps.erase(from, from + static_cast<std::ptrdiff_t>(count));
          if (!candidate.steps.empty() && accept(std::move(candidate)))
            removed = true;
          else
            at += chunk;
        }
        if (chunk > 1) break;
      }
      if (chunk <= 1) break;
    }
  }

  void leave_numbers_out() {
    for (std::size_t at = 0; at < result_.script.steps.size(); ++at) {
      for (std::size_t i = result_.script.steps[at].mutations.size(); i-- > 0;) {
        Script candidate = result_.script;
        candidate.steps[at].mutations.erase(candidate.steps[at].mutations.begin() + static_cast<std::ptrdiff_t>(i));
        accept(std::move(candidate));
        if (at >= result_.script.steps.size()) return;
        i = std::min(i, result_.script.steps[at].mutations.size());
      }
      for (const StepMember& member : step_members) {
        if (at >= result_.script.steps.size()) return;
        if (result_.script.steps[at].*(member.member) == 0) continue;
        Script candidate = result_.script;
        candidate.steps[at].*(member.member) = 0;
        accept(std::move(candidate));
      }
    }
  }

  const std::string& signature_;
  Target& target_;
  const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle_;
  MinimizeLimits allowance_;
  double seconds_;
  Clock::time_point began_ = Clock::now();
  bool deadly_ = false;  ///< the alarm ends the device
  bool warns_ = false;   ///< the alarm is a kernel warning, which may be reported only once
  bool lost_ = false;    ///< the device could not be restarted
  Minimized result_;
};

}  // namespace

Minimized minimize(Script script, const std::string& signature, Target& target,
                   const std::function<std::optional<std::string>(const Step&, const Outcome&)>& oracle,
                   double seconds) {
  return Cutting(std::move(script), signature, target, oracle, seconds).run();
}

}  // namespace rdmawire::fuzzer
