/// The C++ part of rdmawire.fuzz: sessions, findings, scripts.

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <exception>
#include <mutex>

#include "conformance/fuzzer/fault_category.hpp"
#include "conformance/fuzzer/groups.hpp"
#include "conformance/fuzzer/known_divergences.hpp"
#include "conformance/fuzzer/open.hpp"
#include "conformance/fuzzer/report.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/errors.hpp"

namespace rdmawire::python {

namespace {

std::unique_ptr<fuzzer::Target> open(const std::string& target, const std::string& wire, const std::string& kernel,
                                     const std::string& agent, const std::vector<std::string>& allow,
                                     const std::string& credentials, bool restarts) {
  tl::expected<std::unique_ptr<fuzzer::Target>, fuzzer::OpenError> opened;
  {
    const py::gil_scoped_release others_run;
    opened = fuzzer::open_target({.name = target,
                                  .wire = wire,
                                  .kernel = kernel,
                                  .agent = agent,
                                  .allowed = allow,
                                  .credentials = credentials,
                                  .restarts = restarts});
  }
  if (!opened) raise(opened.error().usage ? ErrorClass::usage : ErrorClass::device, opened.error().message);
  return std::move(*opened);
}

fuzzer::Script script_of(const std::string& text) {
  auto script = fuzzer::parse_script(text);
  if (!script) raise(ErrorClass::usage, script.error());
  return std::move(*script);
}

fuzzer::Step step_of(const std::string& text, fuzzer::Family family) {
  auto step = fuzzer::parse_step(text, family);
  if (!step) raise(ErrorClass::usage, "a mutator must return one step or None: " + step.error());
  return std::move(*step);
}

fuzzer::Feedback feedback_of(const std::vector<std::string>& kinds) {
  fuzzer::Feedback feedback{.answers = false, .code = false, .monitors = false};
  for (const std::string& kind : kinds) {
    if (kind == "answers")
      feedback.answers = true;
    else if (kind == "code")
      feedback.code = true;
    else if (kind == "monitors")
      feedback.monitors = true;
    else
      raise(ErrorClass::usage, "feedback=\"" + kind + "\": expected answers, code or monitors");
  }
  return feedback;
}

py::dict dict_of(const fuzzer::Alarm& alarm) {
  py::dict dict;
  dict["oracle"] = std::string(to_string(alarm.oracle));
  dict["expected"] = alarm.expected;
  dict["actual"] = alarm.actual;
  dict["signature"] = alarm.signature;
  return dict;
}

py::dict dict_of(const fuzzer::Statistics& s) {
  py::dict dict;
  dict["executions"] = s.executions;
  dict["steps"] = s.steps;
  dict["scripts"] = s.lives;
  dict["connections"] = s.connections;
  dict["edges"] = s.edges;
  dict["code_edges"] = s.code_edges;
  dict["monitor_edges"] = s.monitor_edges;
  dict["corpus"] = s.corpus;
  dict["findings"] = s.findings;
  dict["alarms"] = s.alarms;
  dict["restarts"] = s.restarts;
  dict["seconds"] = s.seconds;
  return dict;
}

py::dict dict_of(const fuzzer::Finding& finding, std::size_t index) {
  py::dict dict = dict_of(finding.alarm);
  dict["script"] = to_json(finding.minimal).dump();
  dict["found"] = to_json(finding.script).dump();
  py::list steps;
  for (const fuzzer::Step& step : finding.minimal.steps) steps.append(text_of(step));
  dict["steps"] = steps;
  dict["rules"] = finding.rules;
  dict["shown"] = finding.shown;
  dict["like"] = finding.like;
  dict["reproduced"] = finding.reproduced;
  dict["trials"] = finding.trials;
  dict["restarts"] = finding.restarts;
  dict["whole"] = finding.whole;
  dict["execution"] = finding.execution;
  dict["times"] = finding.times;
  dict["directory"] = fuzzer::directory_of(finding, index);
  return dict;
}

/// A session, and the exceptions of its Python callbacks.
class FuzzSession {
 public:
  FuzzSession(const std::string& target, std::uint64_t seed, bool plain, bool minimize, std::size_t max_findings,
              bool stop_at_first, const std::string& corpus, bool resume, const std::vector<std::string>& feedback,
              bool count_all, py::object mutator, py::object oracle, const std::string& wire, const std::string& kernel,
              const std::string& agent, const std::vector<std::string>& allow, const std::string& credentials,
              std::string report)
      : name_(target), report_(std::move(report)), mutator_(std::move(mutator)), oracle_(std::move(oracle)) {
    fuzzer::SessionOptions options{.seed = seed,
                                   .plain = plain,
                                   .feedback = feedback_of(feedback),
                                   .count_all = count_all,
                                   .minimize = minimize,
                                   .most_findings = max_findings,
                                   .stop_at_first = stop_at_first,
                                   .corpus = corpus,
                                   .resume = resume};
    if (!mutator_.is_none()) options.mutator = [this](const fuzzer::Step& step) { return mutated(step); };
    if (!oracle_.is_none())
      options.oracle = [this](const fuzzer::Step& step, const fuzzer::Outcome& outcome) {
        return checked(step, outcome);
      };
    options.recorded = [this](std::size_t index) {
      refresh();
      if (report_.empty()) return;
      note(write_finding(*session_, index, name_, session_->target(), report_));
      note(write_progress(*session_, name_, report_, true));
    };
    session_ = std::make_unique<fuzzer::Session>(open(target, wire, kernel, agent, allow, credentials, true), options);
    if (session_->trouble()) raise(ErrorClass::base, *session_->trouble());
    refresh();
    if (report_.empty()) return;
    if (auto free = check_report_directory(*session_, report_); !free) raise(ErrorClass::usage, free.error());
    if (auto written = write_progress(*session_, name_, report_, false); !written)
      raise(ErrorClass::base, written.error());
  }

  py::dict run(std::uint64_t executions, double seconds, const py::object& progress) {
    const Busy busy(*this);
    std::optional<std::string> lost;
    raised_ = nullptr;
    auto last_written = std::chrono::steady_clock::now();
    {
      const py::gil_scoped_release others_run;
      lost = session_->run({executions, seconds}, [&](const fuzzer::Statistics& statistics) {
        if (raised_) return true;
        refresh();
        if (const auto now = std::chrono::steady_clock::now();
            !report_.empty() && now - last_written > std::chrono::seconds(1)) {
          note(write_progress(*session_, name_, report_, true));
          last_written = now;
        }
        const py::gil_scoped_acquire ours;
        try {
          if (PyErr_CheckSignals() != 0) throw py::error_already_set();
          if (!progress.is_none()) progress(dict_of(statistics));
        } catch (...) {
          raised_ = std::current_exception();
        }
        return raised_ != nullptr;
      });
    }
    refresh();
    if (!report_.empty()) note(write_progress(*session_, name_, report_, false));
    if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
    if (lost) raise(ErrorClass::device, *lost);
    if (report_error_) raise(ErrorClass::base, *std::exchange(report_error_, std::nullopt));
    if (session_->trouble()) raise(ErrorClass::base, *session_->trouble());
    return dict_of(session_->statistics());
  }
  /// Counters at the last update while the session runs.
  py::dict statistics() {
    const std::lock_guard lock(mutex_);
    return dict_of(statistics_);
  }
  /// Findings at the last update while the session runs.
  py::list findings() {
    const std::vector<fuzzer::Finding> known = recent_findings();
    py::list all;
    for (std::size_t i = 0; i < known.size(); ++i) all.append(dict_of(known[i], i));
    return all;
  }
  /// Groups of findings(): cause, rules, indexes.
  py::list groups() {
    py::list all;
    for (const fuzzer::FindingGroup& group : fuzzer::groups_of(recent_findings()))
      all.append(py::make_tuple(group.cause, group.rules, group.findings));
    return all;
  }
  std::vector<std::uint64_t> edges_of(const std::string& text) {
    const Busy busy(*this);
    const fuzzer::Script script = script_of(text);
    if (script.family != session_->target().family())
      raise(ErrorClass::usage, "the script is for " + std::string(to_string(script.family)));
    const py::gil_scoped_release others_run;
    return session_->edges_of(script);
  }
  std::string text() {
    const Busy busy(*this);
    return to_text(*session_, name_);
  }
  std::string json() {
    const Busy busy(*this);
    return to_json(*session_, name_).dump();
  }
  std::string html() {
    const Busy busy(*this);
    return to_html(*session_, name_);
  }
  std::string python(std::size_t index) {
    const Busy busy(*this);
    if (index >= session_->findings().size()) throw py::index_error("finding index out of range");
    return to_python(session_->findings()[index], name_);
  }
  void write(const std::string& directory) {
    const Busy busy(*this);
    raised_ = nullptr;
    tl::expected<void, std::string> written;
    {
      const py::gil_scoped_release others_run;
      written = write_report(*session_, name_, session_->target(), directory);
    }
    if (!written)
      raise(check_report_directory(*session_, directory) ? ErrorClass::base : ErrorClass::usage, written.error());
  }
  [[nodiscard]] bool offers_code() const { return session_->offers_code(); }
  [[nodiscard]] std::uint64_t seed() const { return session_->options().seed; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  /// Rejects calls of other threads and of callbacks while the session runs.
  class Busy {
   public:
    explicit Busy(FuzzSession& session) : session_(session) {
      if (session_.busy_) raise(ErrorClass::usage, "the session is running; wait until the call has returned");
      session_.busy_ = true;
    }
    ~Busy() { session_.busy_ = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    FuzzSession& session_;
  };

  /// Copy the results for other threads, which cannot read the session while it runs.
  void refresh() {
    const std::lock_guard lock(mutex_);
    statistics_ = session_->statistics();
    const std::vector<fuzzer::Finding>& found = session_->findings();
    for (std::size_t i = 0; i < findings_.size(); ++i) findings_[i].times = found[i].times;
    findings_.insert(findings_.end(), found.begin() + static_cast<std::ptrdiff_t>(findings_.size()), found.end());
  }
  std::vector<fuzzer::Finding> recent_findings() {
    const std::lock_guard lock(mutex_);
    return findings_;
  }
  /// Keep the first error of the report directory. run() raises it at its end.
  void note(const tl::expected<void, std::string>& written) {
    if (!written && !report_error_) report_error_ = written.error();
  }

  std::optional<fuzzer::Step> mutated(const fuzzer::Step& step) {
    if (raised_) return std::nullopt;
    const py::gil_scoped_acquire ours;
    try {
      const py::object changed = mutator_(to_json(step).dump());
      if (changed.is_none()) return std::nullopt;
      return step_of(changed.cast<std::string>(), session_->target().family());
    } catch (...) {
      raised_ = std::current_exception();
      return std::nullopt;
    }
  }
  std::optional<std::string> checked(const fuzzer::Step& step, const fuzzer::Outcome& outcome) {
    if (raised_) return std::nullopt;
    const py::gil_scoped_acquire ours;
    try {
      py::list frames;
      for (const auto& frame : outcome.frames) frames.append(to_bytes(frame));
      py::list states;
      for (const machines::QueuePairState state : outcome.states) states.append(machines::to_string(state));
      const py::object error = oracle_(to_json(step).dump(), frames, states);
      if (error.is_none()) return std::nullopt;
      return error.cast<std::string>();
    } catch (...) {
      raised_ = std::current_exception();
      return std::nullopt;
    }
  }

  std::string name_;
  std::string report_;
  std::optional<std::string> report_error_;
  std::mutex mutex_;  ///< of the copies
  fuzzer::Statistics statistics_;
  std::vector<fuzzer::Finding> findings_;
  py::object mutator_, oracle_;
  std::unique_ptr<fuzzer::Session> session_;
  std::exception_ptr raised_;
  bool busy_ = false;
};

py::dict replay(const std::string& text, const std::string& target, const std::string& wire, const std::string& kernel,
                const std::string& agent, const std::vector<std::string>& allow, const std::string& credentials) {
  const fuzzer::Script script = script_of(text);
  const auto device = open(target, wire, kernel, agent, allow, credentials, false);
  if (script.family != device->family())
    raise(ErrorClass::usage, "the script is for " + std::string(to_string(script.family)) + ", and " + target + " is " +
                                 std::string(to_string(device->family())));
  fuzzer::Replayed replayed;
  {
    const py::gil_scoped_release others_run;
    replayed = fuzzer::replay(script, *device, true);
  }
  py::dict dict;
  dict["alarm"] = replayed.alarm ? py::object(dict_of(*replayed.alarm)) : py::none();
  dict["step"] = replayed.step;
  py::list frames;
  for (const auto& one : replayed.frames)
    frames.append(py::make_tuple(one.sent, one.step, one.time, to_bytes(one.frame)));
  dict["frames"] = frames;
  return dict;
}

py::dict dict_of(std::string_view name, std::string_view sentence, fuzzer::Family family,
                 std::optional<fuzzer::FaultCategory> concern) {
  py::dict dict;
  dict["name"] = std::string(name);
  dict["sentence"] = std::string(sentence);
  dict["family"] = std::string(to_string(family));
  dict["concern"] = concern ? py::object(py::str(std::string(to_string(*concern)))) : py::none();
  dict["out_of_reach"] = py::none();
  return dict;
}

py::list faults() {
  py::list all;
  for (const device::FaultRow& row : device::fault_rows) {
    const auto concern = fuzzer::concern_of(row);
    const auto beyond = fuzzer::out_of_reach();
    const auto why = std::find_if(beyond.begin(), beyond.end(), [&](const auto& one) { return one.fault == row.name; });
    py::dict dict = dict_of(row.name, row.sentence, fuzzer::Family::roce, concern);
    py::list rules;
    for (const std::string_view rule : row.broken()) rules.append(std::string(rule));
    dict["rules"] = rules;
    if (why != beyond.end()) dict["out_of_reach"] = std::string(why->why);
    all.append(dict);
  }
  for (const endpoint::FaultRow& row : endpoint::fault_rows) {
    py::dict dict = dict_of(row.name, row.sentence, fuzzer::Family::iwarp, fuzzer::concern_of(row));
    py::list rules;
    if (const conformance::Rule* rule = conformance::find_rule(row.check)) rules.append(std::string(rule->id));
    dict["rules"] = rules;
    all.append(dict);
  }
  return all;
}

/// Frames are tuples: sent to the device, step, nanoseconds, bytes.
std::vector<std::string> broken_rules(
    const std::vector<std::tuple<bool, std::size_t, std::int64_t, py::bytes>>& frames) {
  std::vector<fuzzer::Exchanged> exchanged;
  for (const auto& [sent, step, time, data] : frames) {
    const std::string_view view = data;
    exchanged.push_back({sent, step, time, {view.begin(), view.end()}});
  }
  const py::gil_scoped_release others_run;
  return fuzzer::broken_rules(exchanged);
}

py::list texts_of(const std::string& text) {
  py::list steps;
  for (const fuzzer::Step& step : script_of(text).steps) steps.append(text_of(step));
  return steps;
}

}  // namespace

void bind_fuzz(py::module_& module) {
  py::module_ fuzz = module.def_submodule("fuzz", "The C++ part of rdmawire.fuzz.");
  py::class_<FuzzSession>(fuzz, "Session")
      .def(py::init<const std::string&, std::uint64_t, bool, bool, std::size_t, bool, const std::string&, bool,
                    const std::vector<std::string>&, bool, py::object, py::object, const std::string&,
                    const std::string&, const std::string&, const std::vector<std::string>&, const std::string&,
                    const std::string&>(),
           py::arg("target"), py::kw_only(), py::arg("seed"), py::arg("plain"), py::arg("minimize"),
           py::arg("max_findings"), py::arg("stop_at_first"), py::arg("corpus"), py::arg("resume"), py::arg("feedback"),
           py::arg("count_all"), py::arg("mutator"), py::arg("oracle"), py::arg("wire"), py::arg("kernel"),
           py::arg("agent"), py::arg("allow"), py::arg("credentials"), py::arg("report"))
      .def("run", &FuzzSession::run, py::arg("executions"), py::arg("seconds"), py::arg("progress"))
      .def("statistics", &FuzzSession::statistics)
      .def("findings", &FuzzSession::findings)
      .def("groups", &FuzzSession::groups)
      .def("edges_of", &FuzzSession::edges_of, py::arg("script"))
      .def("text", &FuzzSession::text)
      .def("json", &FuzzSession::json)
      .def("html", &FuzzSession::html)
      .def("python", &FuzzSession::python, py::arg("index"))
      .def("write", &FuzzSession::write, py::arg("directory"))
      .def_property_readonly("offers_code", &FuzzSession::offers_code)
      .def_property_readonly("seed", &FuzzSession::seed)
      .def_property_readonly("name", &FuzzSession::name);
  fuzz.def("replay", &replay, py::arg("script"), py::arg("target"), py::arg("wire"), py::arg("kernel"),
           py::arg("agent"), py::arg("allow"), py::arg("credentials"));
  fuzz.def("faults", &faults);
  fuzz.def("broken_rules", &broken_rules, py::arg("frames"));
  fuzz.def("texts_of", &texts_of, py::arg("script"));
  fuzz.def("html_of", &fuzzer::html_of, py::arg("report"), py::arg("target"));
}

}  // namespace rdmawire::python
