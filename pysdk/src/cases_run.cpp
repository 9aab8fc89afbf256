/// Lists, adds and runs test cases, and provides the report of a run.

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <deque>
#include <map>

#include "conformance/cases/iwarp/bench.hpp"
#include "conformance/cases/remove_case.hpp"
#include "conformance/report/assessment.hpp"
#include "conformance/report/report.hpp"
#include "conformance/rules/clause_file.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/cases.hpp"
#include "pysdk/src/devices.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/interruptible.hpp"
#include "pysdk/src/values.hpp"
#include "replay/wires/descriptor.hpp"

namespace rdmawire::python {

using conformance::Case;
using conformance::CaseEnd;
using conformance::CaseResult;
using conformance::DeviceUnderTest;
using conformance::Judgment;
using conformance::Target;
using conformance::Verdict;

namespace {

/// The Python threads that run cases, with their devices.
struct Running {
  std::mutex mutex;
  std::vector<std::pair<const DeviceUnderTest*, unsigned long>> all;
};
Running& running() {
  static Running now;
  return now;
}

/// Registers this thread as running a case on a device.
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

/// A test case implemented by a Python function. Exists until the program ends.
class PythonScript final : public conformance::Script {
 public:
  PythonScript(conformance::Family family, py::object function, std::string its_variant, std::string its_problems)
      : Script(family),
        variant(std::move(its_variant)),
        problems(std::move(its_problems)),
        function_(function.release()) {}

  void run(conformance::Bench& bench) const override { play(bench, {.bench = &bench}, bench_object); }
  void run_streams(conformance::iwarp::IwarpBench& bench) const override {
    play(bench, {.streams = &bench}, stream_bench_object);
  }

  /// Returns whether `function` is a new definition of this case's function, for example in a notebook.
  [[nodiscard]] bool was(const py::object& function) const {
    const auto name = [](const py::handle& of, const char* attribute) {
      return py::getattr(of, attribute, py::none()).cast<py::object>();
    };
    const py::object qualified = name(function, "__qualname__");
    if (!py::isinstance<py::str>(qualified) || py::cast<std::string>(qualified).ends_with("<lambda>")) return false;
    return qualified.equal(name(function_, "__qualname__")) &&
           name(function, "__module__").equal(name(function_, "__module__"));
  }
  /// Replaces the function. Running cases keep the previous one.
  void become(py::object function) {
    const auto before = py::reinterpret_steal<py::object>(std::exchange(function_, function.release()));
  }

  const std::string variant, problems;

 private:
  /// Returns an error if the case is a coroutine or a generator, which would not run.
  static std::optional<CaseEnd> end_of(const py::object& result) {
    const bool is_lazy = py::hasattr(result, "__await__") || py::hasattr(result, "__anext__") ||
                         (py::hasattr(result, "__next__") && py::hasattr(result, "send"));
    if (!is_lazy) return {};
    if (py::hasattr(result, "close")) result.attr("close")();
    return CaseEnd{{Verdict::error,
                    {},
                    fmt::format("the case returned a {}; a case must be a plain function, without async and yield",
                                Py_TYPE(result.ptr())->tp_name)}};
  }

  template <class AnyBench>
  void play(AnyBench& bench, const BenchHandle& what, py::object (*object_of)(std::shared_ptr<BenchHandle>)) const {
    std::optional<CaseEnd> end;
    {
      const py::gil_scoped_acquire lock;
      const Runs runs(bench.device());
      const auto handle = std::make_shared<BenchHandle>(what);
      try {
        const auto function = py::reinterpret_borrow<py::object>(function_);  // function_ may be replaced
        end = end_of(function(object_of(handle)));
      } catch (py::error_already_set& error) {
        end = case_end_of(error);
        if (!end) end = CaseEnd{judgment_of(error)};
      } catch (const std::exception& error) {
        end = CaseEnd{{Verdict::error, {}, error.what()}};
      }
      *handle = {};
    }
    if (!end) return;
    const Judgment& judgment = end->judgment;
    const auto& steps = bench.transcript();
    const bool reported = !steps.empty() && steps.back().kind == conformance::Step::Kind::violation;
    if (!judgment.expected.empty() && !reported) bench.deviate(judgment.verdict, judgment.expected, judgment.actual);
    throw CaseEnd(*end);
  }

  py::handle function_;
};

/// A target whose interrupt() also interrupts Python cases.
class InterruptingTarget final : public Target {
 public:
  explicit InterruptingTarget(std::shared_ptr<Target> inner) : inner_(std::move(inner)) {}
  DeviceUnderTest& device() override { return inner_->device(); }
  [[nodiscard]] const DeviceUnderTest& device() const override { return inner_->device(); }
  [[nodiscard]] std::string details() const override { return inner_->details(); }
  [[nodiscard]] std::string known_as() const override { return inner_->known_as(); }
  std::vector<std::string> complaints() override { return inner_->complaints(); }
  [[nodiscard]] std::optional<conformance::DeviceLost> gone() const override { return inner_->gone(); }
  void interrupt() override {
    inner_->interrupt();
    interrupt_cases_on(inner_->device());
  }

 private:
  std::shared_ptr<Target> inner_;
};

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
const char* name_of(conformance::RunPolicy caution) {
  switch (caution) {
    case conformance::RunPolicy::none: return "none";
    case conformance::RunPolicy::slow: return "slow";
    case conformance::RunPolicy::dangerous: return "dangerous";
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
  raise(ErrorClass::usage, fmt::format("{}=\"{}\": expected {}", what, text, names));
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
  d["run_policy"] = name_of(which.caution);
  py::list needs;
  for (const NeedName& one : need_names)
    if (conformance::needs(which.needs, one.need)) needs.append(one.name);
  d["needs"] = py::tuple(needs);
  d["python"] = added;
  return d;
}

/// Adds a case. Returns its id.
std::string add(const std::string& rule_name, const std::string& variant, const std::string& role, std::uint32_t needs,
                const std::string& caution, const std::string& problems, py::object function) {
  const conformance::Rule* rule = conformance::find_rule(rule_name);
  if (!rule)
    raise(ErrorClass::usage,
          fmt::format("unknown rule {}; see rdmawire.conformance.rules() or rdmawire explain --rules", rule_name));
  const auto as = chosen(
      role,
      {conformance::Role::responder, conformance::Role::requester, conformance::Role::verbs, conformance::Role::wire},
      "role");
  const auto careful =
      chosen(caution, {conformance::RunPolicy::none, conformance::RunPolicy::slow, conformance::RunPolicy::dangerous},
             "run_policy");
  // A run may use the script of a removed case. The interpreter's lock protects both containers.
  static std::deque<PythonScript> scripts;
  static std::map<const Case*, PythonScript*> script_of;
  const conformance::Family family = contains(rule->services, conformance::Services::iwarp)
                                         ? conformance::Family::iwarp
                                         : conformance::Family::infiniband;
  const std::string id = std::string(rule->id) + (variant.empty() ? "" : "/") + variant;
  if (const Case* same = conformance::find_case(id)) {
    const auto found = script_of.find(same);
    if (found == script_of.end() || !found->second->was(function))
      raise(ErrorClass::usage,
            fmt::format("case {} exists already; use another variant{}", id,
                        found == script_of.end() ? "" : ", or remove it with rdmawire.conformance.remove_case()"));
    if (same->role == as && same->needs == static_cast<conformance::Need>(needs) && same->caution == careful &&
        same->possible_problems == problems) {
      found->second->become(std::move(function));
      return id;
    }
    conformance::remove_case(id);
  }
  PythonScript& script = scripts.emplace_back(family, std::move(function), variant, problems);
  const Case made{.rule = conformance::RuleId::at(static_cast<std::size_t>(rule - conformance::rules.data())),
                  .variant = script.variant,
                  .role = as,
                  .needs = static_cast<conformance::Need>(needs),
                  .run = script,
                  .caution = careful,
                  .possible_problems = script.problems};
  script_of[conformance::add_case(made)] = &script;
  return id;
}

/// Makes an eventfd readable.
void end(const replay::Descriptor& stop) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop.get(), &one, sizeof one));
}

/// Options of a run in addition to those of Assessment.
struct RunOptions {
  conformance::AssessmentOptions how;
  std::shared_ptr<SharedDevice> opened;  ///< an open device. null: the device is opened by name
  py::object on_result;
};

/// Runs an assessment in its own thread and calls `on_result` with each result.
class Run final : public conformance::AssessmentListener {
 public:
  explicit Run(RunOptions options) : options_(std::move(options)) {}

  std::shared_ptr<conformance::Assessment> go() {
    run_interruptible([this] { work(); }, [this] { stop(); });
    if (callback_error_) throw py::error_already_set(*callback_error_);
    if (made_) {
      if (!(*made_)->troubles.empty()) raise(ErrorClass::usage, fmt::format("{}", fmt::join((*made_)->troubles, "\n")));
      return *made_;
    }
    const conformance::AssessmentError& error = made_.error();
    if (error.kind == conformance::AssessmentError::Kind::device) raise(conformance::TargetError{false, error.message});
    if (error.kind != conformance::AssessmentError::Kind::bench) raise(ErrorClass::usage, error.message);
    py::dict attributes;
    attributes["kind"] = "unreachable";
    raise(ErrorClass::device, error.message, attributes);
  }

  void begins(std::span<const Case* const> /*cases*/, const conformance::Report& /*report*/) override {
    if (options_.opened) using_ = options_.opened->exclusive();
  }
  void took(const CaseResult& result, bool /*earlier*/) override {
    if (using_) using_.unlock();  // on_result may use the device
    ask(result);
    if (using_.mutex()) using_.lock();
  }
  void ended() override { using_ = {}; }

 private:
  void stop() const { end(stop_); }

  void work() {
    options_.how.target.stop = stop_.get();
    options_.how.open =
        [](const conformance::TargetOptions& how) -> tl::expected<std::unique_ptr<Target>, conformance::TargetError> {
      auto opened = Target::open(how);
      if (!opened) return opened;
      return std::make_unique<InterruptingTarget>(std::move(*opened));
    };
    if (options_.opened) {
      auto open = options_.opened->target();
      if (!open)
        return static_cast<void>(made_ = tl::unexpected(conformance::AssessmentError{
                                     conformance::AssessmentError::Kind::device, "the device was closed"}));
      options_.how.given = std::make_unique<InterruptingTarget>(std::move(open));
    }
    made_ = conformance::Assessment::run(std::move(options_.how), *this);
  }

  void ask(const CaseResult& result) {
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
  std::unique_lock<std::mutex> using_;  ///< lock of an open device
  replay::Descriptor stop_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  tl::expected<std::shared_ptr<conformance::Assessment>, conformance::AssessmentError> made_;
  std::optional<py::error_already_set> callback_error_;
};

void set(conformance::AssessmentOptions& options, const std::string& name, const py::handle& value) {
  const auto to = [&](auto& member) { member = py::cast<std::decay_t<decltype(member)>>(value); };
  const auto path = [&](std::filesystem::path& member) { member = py::cast<std::string>(value); };
  if (name == "seed") return to(options.seed);
  if (name == "jobs") return to(options.jobs);
  if (name == "repeat") return to(options.repeat);
  if (name == "max_device_losses") return to(options.most_losses);
  if (name == "case_timeout") return to(options.case_timeout);
  if (name == "timeout") return to(options.timeout);
  if (name == "strict") return to(options.strict);
  if (name == "known") return to(options.known);
  if (name == "all_cases") return to(options.all_cases);
  if (name == "overwrite") return to(options.overwrite);
  if (name == "report") return path(options.report);
  if (name == "resume") return path(options.resume);
  if (name == "expected") return path(options.expected);
  if (name == "baseline") return path(options.baseline);
  if (name == "waivers") return path(options.waivers);
  if (name == "patterns") return to(options.patterns);
  if (name == "shard") return to(options.shard);
  if (name == "strength") return to(options.strength);
  if (name == "budget") return to(options.budget);
  if (name == "row") {
    auto row = conformance::parse_row(py::cast<std::string>(value));
    if (!row) raise(ErrorClass::usage, "certify: row: " + row.error());
    options.row = std::move(*row);
    return;
  }
  raise(ErrorClass::usage, "certify: unknown option " + name);
}

/// Selects the cases of the shard that the options name.
void select_shard(conformance::AssessmentOptions& options) {
  if (options.shard.empty()) return;
  const auto shard = conformance::parse_shard(options.shard);
  if (!shard) raise(ErrorClass::usage, "shard: " + shard.error());
  const std::size_t all = options.cases.size();
  options.cases = conformance::shard_of(options.cases, shard->index, shard->count);
  if (options.cases.empty())
    raise(ErrorClass::usage, fmt::format("shard {} contains no case; the selection has only {}", options.shard, all));
  if (shard->count > 1)
    options.all_cases = false;
  else
    options.shard.clear();
}

/// Reads a conformance statement, and uses its IXIT for the options that the caller did not specify.
void use_ics(RunOptions& options, const std::string& file, const py::dict& target, const py::dict& run) {
  auto ics = conformance::Ics::read(file);
  if (!ics) raise(ErrorClass::usage, ics.error());
  conformance::apply_ixit(ics->ixit, options.how, [&](const std::string& option) {
    static const std::map<std::string, std::string> other_names{{"--rate", "frames_per_second"},
                                                                {"--allow-multicast", "multicast"}};
    const auto other = other_names.find(option);
    std::string name = other == other_names.end() ? option.substr(2) : other->second;
    std::replace(name.begin(), name.end(), '-', '_');
    // The options of an open device are fixed.
    const bool of_device = name != "case_timeout" && name != "max_device_losses";
    return (options.opened && of_device) || target.contains(name) || run.contains(name);
  });
  if (options.how.target.device.starts_with("lab:") && options.how.target.agent.empty())
    options.how.target.agent =
        py::cast<std::string>(py::str(py::module_::import("rdmawire.conformance").attr("agent_program")()));
  options.how.ics_file = file;
  options.how.ics = std::move(*ics);
}

/// Uses the clause numbers of a file for all later texts of the process.
void use_clauses(conformance::AssessmentOptions& options, const std::string& file) {
  auto numbers = conformance::read_clause_file(file);
  if (!numbers) raise(ErrorClass::usage, numbers.error());
  conformance::use_clause_numbers(std::move(*numbers));
  options.clauses = file;
}

std::vector<const Case*> find_cases(const std::vector<std::string>& ids) {
  std::vector<const Case*> found;
  for (const std::string& id : ids) {
    const Case* which = conformance::find_case(id);
    if (!which) raise(ErrorClass::usage, "unknown case " + id);
    found.push_back(which);
  }
  if (found.empty()) raise(ErrorClass::usage, "no case matches; see rdmawire.conformance.cases()");
  return found;
}

}  // namespace

Judgment judgment_of(const py::error_already_set& error) {
  try {
    const py::tuple parts =
        py::module_::import("rdmawire.conformance")
            .attr("_judgment")(error.type(), error.value(), error.trace() ? error.trace() : py::object(py::none()));
    const auto text = [&](int index) { return py::cast<std::string>(parts[index]); };
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

namespace {

void bind_report(py::module_& module) {
  using Ran = conformance::Assessment;
  py::class_<Ran, std::shared_ptr<Ran>>(module, "_Ran", "A finished run of cases.")
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
            raise(ErrorClass::usage, "case " + id + " did not run");
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
      .def_property_readonly("unexpected",
                             [](const Ran& self) {
                               std::vector<std::string> ids;
                               for (const Case* one : self.unexpected) ids.push_back(one->id());
                               return ids;
                             })
      .def_property_readonly("is_unexpected", &Ran::is_unexpected)
      .def_property_readonly("abandoned", [](const Ran& self) { return self.abandoned; });
}

void bind_catalog(py::module_& module) {
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
          if (conformance::is_chosen(*one, patterns)) ids.push_back(one->id());
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
             py::arg("run_policy"), py::arg("problems"), py::arg("function"));
  module.def(
      "_remove_case", [](const std::string& id) { return conformance::remove_case(id); }, py::arg("id"));
}

void bind_preflight(py::module_& module) {
  module.def(
      "_preflight",
      [](const py::object& given, const py::dict& target) {
        std::vector<conformance::Finding> findings;
        std::optional<conformance::TargetError> refused;
        const replay::Descriptor stop{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        if (py::isinstance<SharedDevice>(given)) {
          const auto device = py::cast<std::shared_ptr<SharedDevice>>(given);
          const auto opened = device->use();
          static_cast<void>(device->wire());  // creates the wire
          if (!target.empty()) raise(ErrorClass::usage, "options are not allowed for an open device");
          run_interruptible(
              [&] {
                const auto lock = device->exclusive();
                findings = conformance::preflight(*opened);
              },
              [] {});
        } else {
          auto options = target_options(py::cast<std::string>(given), target);
          options.stop = stop.get();
          run_interruptible(
              [&] {
                const auto opened = Target::open(options);
                if (opened)
                  findings = conformance::preflight(**opened);
                else if (opened.error().usage)
                  refused = opened.error();
                else
                  findings.push_back(conformance::unreachable(opened.error()));
              },
              [&] { end(stop); });
        }
        if (refused) raise(*refused);
        py::list all;
        for (const conformance::Finding& one : findings)
          all.append(py::make_tuple(std::string(to_string(one.status)), one.what, one.found, one.advice));
        return all;
      },
      py::arg("device"), py::arg("target"));
}

void bind_certify(py::module_& module) {
  module.def(
      "_certify",
      [](const std::vector<std::string>& ids, const py::object& given, const py::dict& target, const py::dict& run,
         const py::object& on_result) {
        RunOptions options;
        options.how.cases = find_cases(ids);
        if (py::isinstance<SharedDevice>(given)) {
          options.opened = py::cast<std::shared_ptr<SharedDevice>>(given);
          options.how.target.device = options.opened->use()->device().name;
          static_cast<void>(options.opened->wire());  // creates the wire
          if (!target.empty()) raise(ErrorClass::usage, "options are not allowed for an open device");
        } else {
          options.how.target = target_options(py::cast<std::string>(given), target);
        }
        options.on_result = on_result;
        for (const auto& [key, value] : run) {
          const auto name = py::cast<std::string>(key);
          if (name == "ics" || name == "clauses" || name == "device") continue;
          try {
            set(options.how, name, value);
          } catch (const py::cast_error&) {
            raise(ErrorClass::usage, fmt::format("{}={}: invalid value", name, std::string(py::str(py::repr(value)))));
          }
        }
        select_shard(options.how);
        if (run.contains("ics")) use_ics(options, py::cast<std::string>(run["ics"]), target, run);
        // Read last, because it changes the clause numbers of the process, and errors in the other files end the run.
        if (run.contains("clauses")) use_clauses(options.how, py::cast<std::string>(run["clauses"]));
        return Run(std::move(options)).go();
      },
      py::arg("ids"), py::arg("device"), py::arg("target"), py::arg("run"), py::arg("on_result"));
}

}  // namespace

void bind_cases_run(py::module_& module) {
  bind_report(module);
  bind_catalog(module);
  bind_preflight(module);
  bind_certify(module);
}

}  // namespace rdmawire::python
