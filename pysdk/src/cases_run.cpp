/// Cases listed, added and run, and what is left of a run.

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <map>
#include <random>
#include <thread>

#include "conformance/report/journal.hpp"
#include "conformance/report/report.hpp"
#include "conformance/runner/certify.hpp"
#include "conformance/runner/expected.hpp"
#include "pysdk/src/aside.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/cases.hpp"
#include "pysdk/src/devices.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/values.hpp"
#include "replay/wires/descriptor.hpp"

namespace rdmawire::python {

using conformance::Case;
using conformance::CaseEnd;
using conformance::CaseResult;
using conformance::DeviceUnderTest;
using conformance::Judgement;
using conformance::Target;
using conformance::Verdict;

namespace {

/// The threads of the interpreter in which cases run now, with their devices.
struct Running {
  std::mutex mutex;
  std::vector<std::pair<const DeviceUnderTest*, unsigned long>> all;
};
Running& running() {
  static Running now;
  return now;
}

/// For as long as it lives: this thread runs a case on that device.
class Runs {
 public:
  explicit Runs(const DeviceUnderTest& device) : entry_(&device, PyThread_get_thread_ident()) {
    const std::lock_guard lock(running().mutex);
    running().all.push_back(entry_);
  }
  ~Runs() {
    const std::lock_guard lock(running().mutex);
    std::erase(running().all, entry_);
  }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

 private:
  std::pair<const DeviceUnderTest*, unsigned long> entry_;
};

/// A case that is a function of Python's. Lives as long as the program.
class PythonScript final : public conformance::Script {
 public:
  PythonScript(py::object function, std::string its_variant, std::string its_problems)
      : variant(std::move(its_variant)), problems(std::move(its_problems)), function_(function.release()) {}

  void run(conformance::Bench& bench) const override {
    std::optional<CaseEnd> end;
    {
      const py::gil_scoped_acquire lock;
      const Runs runs(bench.device());
      const auto handle = std::make_shared<BenchHandle>(BenchHandle{&bench});
      try {
        function_(bench_object(handle));
      } catch (py::error_already_set& error) {
        end = case_end_of(error);
        if (!end) end = CaseEnd{judgement_of(error)};
      } catch (const std::exception& error) {
        end = CaseEnd{{Verdict::error, {}, error.what()}};
      }
      handle->bench = nullptr;
    }
    if (!end) return;
    const Judgement& judgement = end->judgement;
    const auto& steps = bench.transcript();
    const bool told = !steps.empty() && steps.back().kind == conformance::Step::Kind::deviation;
    if (!judgement.expected.empty() && !told) bench.deviate(judgement.verdict, judgement.expected, judgement.actual);
    throw CaseEnd(*end);
  }

  const std::string variant, problems;

 private:
  py::handle function_;
};

/// A target whose interruption reaches Python, too.
class InterruptingTarget final : public Target {
 public:
  explicit InterruptingTarget(std::unique_ptr<Target> inner) : inner_(std::move(inner)) {}
  DeviceUnderTest& device() override { return inner_->device(); }
  [[nodiscard]] const DeviceUnderTest& device() const override { return inner_->device(); }
  [[nodiscard]] std::string details() const override { return inner_->details(); }
  [[nodiscard]] std::string known_as() const override { return inner_->known_as(); }
  std::vector<std::string> complaints() override { return inner_->complaints(); }
  [[nodiscard]] std::optional<conformance::Gone> gone() const override { return inner_->gone(); }
  void interrupt() override {
    inner_->interrupt();
    interrupt_cases_on(inner_->device());
  }

 private:
  std::unique_ptr<Target> inner_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[11];
  std::strftime(text, sizeof text, "%Y-%m-%d", ::gmtime_r(&now, &parts));
  return text;
}

std::vector<const Case*> all_cases() {
  std::vector<const Case*> all;
  for (const Case& one : conformance::cases()) all.push_back(&one);
  const auto added = conformance::added_cases();
  all.insert(all.end(), added.begin(), added.end());
  return all;
}

struct NeedName {
  conformance::Need need;
  const char* name;
};
constexpr NeedName need_names[] = {
    {conformance::Need::uc, "uc"},
    {conformance::Need::ud, "ud"},
    {conformance::Need::xrc, "xrc"},
    {conformance::Need::atomics, "atomics"},
    {conformance::Need::shared_receive_queues, "shared_receive_queues"},
    {conformance::Need::memory_windows, "memory_windows"},
    {conformance::Need::flush, "flush"},
    {conformance::Need::atomic_write, "atomic_write"},
    {conformance::Need::connection_manager, "connection_manager"},
    {conformance::Need::multicast, "multicast"},
    {conformance::Need::roce_v1, "roce_v1"},
};

const char* name_of(conformance::Role role) {
  switch (role) {
    case conformance::Role::responder: return "responder";
    case conformance::Role::requester: return "requester";
    case conformance::Role::verbs: return "verbs";
    case conformance::Role::wire: return "wire";
  }
  return "responder";
}
const char* name_of(conformance::Caution caution) {
  switch (caution) {
    case conformance::Caution::none: return "none";
    case conformance::Caution::slow: return "slow";
    case conformance::Caution::dangerous: return "dangerous";
  }
  return "none";
}

template <class Choice>
Choice chosen(const std::string& text, std::initializer_list<Choice> all, const char* what) {
  std::string names;
  for (const Choice one : all) {
    if (name_of(one) == text) return one;
    names += std::string(names.empty() ? "" : ", ") + name_of(one);
  }
  raise(ErrorClass::usage, fmt::format("{}=\"{}\": there are {}", what, text, names));
}

py::dict dict_of(const Case& which, bool added) {
  py::dict d;
  d["id"] = which.id();
  d["rule"] = std::string(which.rule->id);
  d["alias"] = std::string(which.rule->alias);
  d["level"] = std::string(to_string(which.rule->level));
  d["sentence"] = std::string(which.rule->sentence);
  d["clauses"] = clauses_of(*which.rule);
  d["variant"] = std::string(which.variant);
  d["role"] = name_of(which.role);
  d["family"] = which.family() == conformance::Family::iwarp ? "iwarp" : "roce";
  d["caution"] = name_of(which.caution);
  py::list needs;
  for (const NeedName& one : need_names)
    if (conformance::needs(which.needs, one.need)) needs.append(one.name);
  d["needs"] = py::tuple(needs);
  d["python"] = added;
  return d;
}

void add(const std::string& rule_name, const std::string& variant, const std::string& role, std::uint32_t needs,
         const std::string& caution, const std::string& problems, py::object function) {
  const conformance::Rule* rule = conformance::find_rule(rule_name);
  if (!rule)
    raise(ErrorClass::usage,
          fmt::format("there is no rule {}; rdmawire explain --rules lists them, and rdmawire.conformance.rules()",
                      rule_name));
  const auto as = chosen(
      role,
      {conformance::Role::responder, conformance::Role::requester, conformance::Role::verbs, conformance::Role::wire},
      "role");
  const auto careful = chosen(
      caution, {conformance::Caution::none, conformance::Caution::slow, conformance::Caution::dangerous}, "caution");
  // For ever, as cases are.
  static std::mutex mutex;
  static std::deque<PythonScript> scripts;
  const std::lock_guard lock(mutex);
  PythonScript& script = scripts.emplace_back(std::move(function), variant, problems);
  Case made{.rule = conformance::RuleId::at(static_cast<std::size_t>(rule - conformance::rules.data())),
            .variant = script.variant,
            .role = as,
            .needs = static_cast<conformance::Need>(needs),
            .run = script,
            .caution = careful,
            .possible_problems = script.problems};
  if (!conformance::add_case(made))
    raise(ErrorClass::usage,
          fmt::format("there is a case {} already; another variant=\"…\" tells them apart", made.id()));
}

/// A run that is over, with all that its report needs.
struct Ran {
  conformance::ExpectedResults expected;
  conformance::Report report;
  std::size_t abandoned = 0;
  bool news = false;
  std::vector<std::string> unexpected;  ///< ids of cases
};

struct RunOptions {
  conformance::TargetOptions target;
  std::vector<const Case*> which;
  std::uint64_t seed = 0;
  unsigned jobs = 0, repeat = 1, losses = 5;
  double case_timeout = 60, timeout = 0;
  bool strict = false, known = true, whole = false;
  std::string report, expected, baseline;
  py::object on_result;
};

/// Runs in a thread of its own; errors are sentences with their class.
class Run {
 public:
  explicit Run(RunOptions options) : options_(std::move(options)) {}

  std::shared_ptr<Ran> go() {
    do_aside([this] { work(); }, [this] { stop(); });
    if (callback_error_) throw py::error_already_set(*callback_error_);
    if (usage_) raise(ErrorClass::usage, *usage_);
    if (target_error_) raise(*target_error_);
    if (trouble_) {
      py::dict attributes;
      attributes["kind"] = "unreachable";
      raise(ErrorClass::device, *trouble_, attributes);
    }
    return ran_;
  }

 private:
  void stop() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(stop_.get(), &one, sizeof one));
  }

  void work() {
    auto ran = std::make_shared<Ran>();
    conformance::Report& report = ran->report;
    report.expected = &ran->expected;
    report.date = today();
    report.strict = options_.strict;
    report.seed = options_.seed ? options_.seed : std::random_device()();
    if (!options_.expected.empty()) {
      auto read = conformance::ExpectedResults::read(options_.expected);
      if (!read) return static_cast<void>(usage_ = read.error());
      ran->expected = std::move(*read);
    }
    options_.target.seed = report.seed;
    options_.target.stop = stop_.get();
    options_.target.family = options_.which.front()->family();
    auto target = open(options_.target);
    if (!target) return static_cast<void>(target_error_ = std::move(target.error()));
    const bool cheap = conformance::is_cheap(options_.target.device);
    if (!cheap) {
      const conformance::Family family = (*target)->device().family();
      std::erase_if(options_.which, [&](const Case* one) { return one->family() != family; });
      if (options_.which.empty())
        return static_cast<void>(usage_ =
                                     fmt::format("{} is a device of {}, and none of the cases that were asked for is",
                                                 options_.target.device, to_string(family)));
    }
    report.device = (*target)->device().name;
    report.details = (*target)->details();
    if (const std::string known = (*target)->known_as(); options_.known && !known.empty())
      if (const auto results = conformance::ExpectedResults::of_device(known)) ran->expected.add_below(*results);
    if (conformance::is_on_bench(options_.target.device)) {
      report.preflight = conformance::preflight(**target, {.listening = 100'000'000, .clocks = 100'000'000});
      if (conformance::has_failure(report.preflight))
        return static_cast<void>(trouble_ = conformance::text_of(report.preflight));
    }
    std::optional<conformance::Journal> journal;
    if (!options_.report.empty()) {
      auto begun =
          conformance::Journal::begin(options_.report, {report.device, report.details, report.seed, options_.repeat});
      if (!begun) return static_cast<void>(usage_ = begun.error());
      journal.emplace(std::move(*begun));
    }
    conformance::CertifyOptions how;
    how.seed = report.seed;
    how.open = [&](conformance::Family family) {
      conformance::TargetOptions wanted = options_.target;
      wanted.family = family;
      return open(wanted);
    };
    how.fresh = cheap;
    how.jobs = options_.jobs ? options_.jobs : cheap ? std::max(1U, std::thread::hardware_concurrency()) : 1;
    how.repeat = options_.repeat;
    how.case_timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options_.case_timeout * 1000));
    how.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options_.timeout * 1000));
    how.most_losses = options_.losses;
    how.stop = stop_.get();
    how.on_end = [&](const CaseResult& result) {
      if (journal) journal->append(result);
      tell(result);
    };
    conformance::Certification all = conformance::certify(options_.which, how, std::move(*target));
    report.results = std::move(all.results);
    report.partial = std::move(all.partial);
    ran->abandoned = all.abandoned;
    for (const CaseResult& result : report.results) {
      report.nanoseconds += result.nanoseconds;
      if (!ran->expected.expects(result, report.date, report.strict)) ran->unexpected.push_back(result.of->id());
    }
    if (!options_.baseline.empty()) {
      auto changes = conformance::compare(options_.baseline, report.results);
      if (!changes) return static_cast<void>(usage_ = changes.error());
      if (!options_.whole)
        std::erase_if(*changes, [](const auto& one) { return one.kind == conformance::Change::Kind::gone; });
      report.changes = std::move(*changes);
    }
    if (journal && !journal->error().empty()) return static_cast<void>(usage_ = journal->error());
    if (!options_.report.empty())
      if (const auto written = conformance::write(report, options_.report); !written)
        return static_cast<void>(usage_ = written.error());
    ran_ = std::move(ran);
  }

  static tl::expected<std::unique_ptr<Target>, conformance::TargetError> open(const conformance::TargetOptions& how) {
    auto opened = Target::open(how);
    if (!opened) return opened;
    return std::make_unique<InterruptingTarget>(std::move(*opened));
  }

  void tell(const CaseResult& result) {
    const py::gil_scoped_acquire lock;
    if (options_.on_result.is_none() || callback_error_) return;
    try {
      options_.on_result(from_json(to_json(result)));
    } catch (py::error_already_set& error) {
      callback_error_.emplace(std::move(error));
      stop();
    }
  }

  RunOptions options_;
  replay::Descriptor stop_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::shared_ptr<Ran> ran_;
  std::optional<std::string> usage_, trouble_;
  std::optional<conformance::TargetError> target_error_;
  std::optional<py::error_already_set> callback_error_;
};

void set(RunOptions& options, const std::string& name, const py::handle& value) {
  const auto to = [&](auto& member) { member = py::cast<std::decay_t<decltype(member)>>(value); };
  if (name == "seed") return to(options.seed);
  if (name == "jobs") return to(options.jobs);
  if (name == "repeat") return to(options.repeat);
  if (name == "losses") return to(options.losses);
  if (name == "case_timeout") return to(options.case_timeout);
  if (name == "timeout") return to(options.timeout);
  if (name == "strict") return to(options.strict);
  if (name == "known") return to(options.known);
  if (name == "whole") return to(options.whole);
  if (name == "report") return to(options.report);
  if (name == "expected") return to(options.expected);
  if (name == "baseline") return to(options.baseline);
  raise(ErrorClass::usage, "certify has no option " + name);
}

std::vector<const Case*> find_cases(const std::vector<std::string>& ids) {
  std::vector<const Case*> found;
  for (const std::string& id : ids) {
    const Case* which = conformance::find_case(id);
    if (!which) raise(ErrorClass::usage, "there is no case " + id);
    found.push_back(which);
  }
  if (found.empty()) raise(ErrorClass::usage, "no case has such a name; rdmawire.conformance.cases() gives them all");
  return found;
}

}  // namespace

Judgement judgement_of(const py::error_already_set& error) {
  try {
    const py::tuple told =
        py::module_::import("rdmawire.conformance")
            .attr("_judgement")(error.type(), error.value(), error.trace() ? error.trace() : py::object(py::none()));
    const auto text = [&](int index) { return py::cast<std::string>(told[index]); };
    return {text(0) == "fail" ? Verdict::fail : Verdict::error, text(1), text(2)};
  } catch (const std::exception& worse) {
    return {Verdict::error, {}, worse.what()};
  }
}

void interrupt_cases_on(const DeviceUnderTest& device) {
  const py::gil_scoped_acquire lock;
  const std::lock_guard guard(running().mutex);
  for (const auto& [of, thread] : running().all)
    if (of == &device) PyThreadState_SetAsyncExc(thread, PyExc_SystemExit);
}

void bind_cases_run(py::module_& module) {
  py::class_<Ran, std::shared_ptr<Ran>>(module, "_Ran", "A run of cases that is over.")
      .def("json", [](const Ran& self) { return from_json(to_json(self.report)); })
      .def("json_text",
           [](const Ran& self) {
             return to_json(self.report).dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
           })
      .def("summary", [](const Ran& self) { return conformance::summary(self.report); })
      .def(
          "text",
          [](const Ran& self, const std::string& id, bool steps) {
            for (const CaseResult& result : self.report.results)
              if (result.of->id() == id) return conformance::text_of(result, steps);
            raise(ErrorClass::usage, "the case " + id + " did not run");
          },
          py::arg("id"), py::arg("steps"))
      .def("junit", [](const Ran& self) { return conformance::to_junit(self.report); })
      .def("html", [](const Ran& self) { return conformance::to_html(self.report, ""); })
      .def(
          "write",
          [](const Ran& self, const std::string& directory) {
            const auto failed = [](const std::string& why) { raise(ErrorClass::base, why); };
            for (const CaseResult& result : self.report.results)
              if (const auto written = conformance::write_capture(result, directory); !written) failed(written.error());
            if (const auto written = conformance::write(self.report, directory); !written) failed(written.error());
          },
          py::arg("directory"))
      .def_property_readonly("unexpected", [](const Ran& self) { return self.unexpected; })
      .def_property_readonly("abandoned", [](const Ran& self) { return self.abandoned; });
  module.def("_cases", [] {
    const auto added = conformance::added_cases();
    py::list all;
    for (const Case* one : all_cases())
      all.append(dict_of(*one, std::find(added.begin(), added.end(), one) != added.end()));
    return all;
  });
  module.def(
      "_matching",
      [](const std::vector<std::string>& patterns) {
        std::vector<std::string> ids;
        for (const Case* one : all_cases())
          if (patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
                return conformance::matches(*one->rule, pattern) || one->id() == pattern;
              }))
            ids.push_back(one->id());
        return ids;
      },
      py::arg("patterns"));
  module.def("_rules", [] {
    py::list all;
    for (const conformance::Rule& rule : conformance::rules) {
      py::dict d;
      d["id"] = std::string(rule.id);
      d["alias"] = std::string(rule.alias);
      d["level"] = std::string(to_string(rule.level));
      d["sentence"] = std::string(rule.sentence);
      d["clauses"] = clauses_of(rule);
      all.append(d);
    }
    return all;
  });
  module.def("_needs", [] {
    py::dict all;
    for (const NeedName& one : need_names) all[one.name] = static_cast<std::uint32_t>(one.need);
    return all;
  });
  module.def("_add_case", &add, py::arg("rule"), py::arg("variant"), py::arg("role"), py::arg("needs"),
             py::arg("caution"), py::arg("problems"), py::arg("function"));
  module.def(
      "_certify",
      [](const std::vector<std::string>& ids, const std::string& device, const py::dict& target, const py::dict& run,
         const py::object& on_result) {
        RunOptions options;
        options.which = find_cases(ids);
        options.target = target_options(device, target);
        options.on_result = on_result;
        for (const auto& [key, value] : run) {
          const auto name = py::cast<std::string>(key);
          try {
            set(options, name, value);
          } catch (const py::cast_error&) {
            raise(ErrorClass::usage,
                  fmt::format("{}={}: this value cannot be taken", name, std::string(py::str(py::repr(value)))));
          }
        }
        if (options.repeat == 0) raise(ErrorClass::usage, "repeat: each case is run at least once");
        if (options.jobs > 1 && conformance::is_on_bench(device))
          raise(ErrorClass::usage, "jobs: there is one device on the bench, and one tester for it");
        return Run(std::move(options)).go();
      },
      py::arg("ids"), py::arg("device"), py::arg("target"), py::arg("run"), py::arg("on_result"));
}

}  // namespace rdmawire::python
