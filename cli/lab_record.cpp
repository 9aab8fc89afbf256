/// rdmawire lab record: what real programs say to each other, as captures.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/lab.hpp"
#include "cli/terminal.hpp"
#include "conformance/lab/recording.hpp"
#include "conformance/lab/run_directory.hpp"

namespace rdmawire::cli {
namespace {

namespace fs = std::filesystem;
using lab::LabError;
using Json = nlohmann::ordered_json;

constexpr const char* description =
    "Records what real programs say to each other between two guests: pcapng, with comments. The switch between the\n"
    "guests writes every frame down once: as it left, or as it arrived when the faults dropped it; a comment says "
    "what\n"
    "was done to it. The section's comments hold the commands, versions, fault rules and their seed.";
constexpr const char* examples = R"(Examples:
  rdmawire lab record --list
  rdmawire lab record rping -o rping.pcapng
  rdmawire lab record write --vlan 7 --mtu 9000 -o write.pcapng
  rdmawire lab record write-cm,siw nvme,siw rping,siw,ipv6 -o captures   several, in one boot, into a directory
  rdmawire lab record send --fault 'drop psn +3 try 1' --fault 'mark ce every 10' -o faults.pcapng
  rdmawire lab record read --netem 'loss 3%' -o loss.pcapng
  rdmawire lab record all -o captures

What an option says holds for all scenarios that do not say it themselves: write,siw,ipv6,vlan=7,mtu=9000,
iterations=5,size=100,netem=loss 3%,fault=drop nth 9. In the fault language a is the server and b the client.

Exit status: 0 all were recorded, 2 wrong usage, 3 one was not: its program failed, or the lab did.)";

struct Options {
  std::vector<std::string> scenarios;
  std::string output;
  bool list = false;
  bool json = false;
  std::optional<bool> siw;
  lab::RecordingPlan plan;
  unsigned vlan = 0;
  std::vector<std::string> faults;
  std::string fault_file;
  std::string kernel = "debian";
  std::string modules;
  std::string name;
  unsigned memory = 512;
  std::string accelerator = "tcg";
  double boot_timeout = 120;
  double timeout = 120;
  bool quiet = false;
};

std::string devices_of(const lab::Scenario& scenario) {
  return scenario.rxe && scenario.siw ? "rxe, siw" : scenario.siw ? "siw" : "rxe";
}

Exit list(const Options& options) {
  Output output;
  if (options.json) {
    Json all = Json::array();
    for (const lab::Scenario& scenario : lab::scenarios()) {
      Json devices = Json::array();
      if (scenario.rxe) devices.push_back("rxe");
      if (scenario.siw) devices.push_back("siw");
      all.push_back({{"name", scenario.name},
                     {"what", scenario.what},
                     {"devices", devices},
                     {"ipv6", scenario.ipv6},
                     {"iterations", scenario.iterations},
                     {"size", scenario.size},
                     {"server", scenario.server},
                     {"client", scenario.client}});
    }
    output.text() = all.dump(2) + "\n";
  } else {
    output.text() =
        fmt::format("{:<13} {:<8} {:<4} {:>5} {:>6}  {}\n", "name", "device", "IPv6", "times", "bytes", "what");
    for (const lab::Scenario& scenario : lab::scenarios())
      output.text() +=
          fmt::format("{:<13} {:<8} {:>6} {:>6}  {}\n", scenario.name, devices_of(scenario), scenario.iterations,
                      scenario.size ? std::to_string(scenario.size) : "", scenario.what);
  }
  return output.finish() ? Exit::fine : Exit::trouble;
}

lab::Result<std::vector<lab::RecordingPlan>> plans_of(const Options& options) {
  lab::RecordingPlan plan = options.plan;
  if (options.vlan) plan.vlan = options.vlan;
  if (!options.fault_file.empty()) {
    std::ifstream in(options.fault_file);
    std::stringstream text;
    text << in.rdbuf();
    if (!in) return lab::failure(LabError::Kind::usage, options.fault_file + ": it cannot be read");
    plan.faults = text.str() + "\n";
  }
  for (const std::string& rule : options.faults) plan.faults += rule + "\n";
  std::vector<lab::RecordingPlan> plans;
  for (const std::string& text : options.scenarios) {
    auto parsed = lab::parse_plan(text, plan, options.siw);
    if (!parsed) return tl::unexpected(parsed.error());
    plans.insert(plans.end(), parsed->begin(), parsed->end());
  }
  return plans;
}

// The lab, booted anew when a guest has ended.
class Bench {
 public:
  Bench(const Options& options, lab::StopDescriptor stop, bool siw) : siw_(siw), name_(options.name) {
    how_.image.kernel = options.kernel;
    how_.image.modules = options.modules;
    how_.guests.memory = options.memory;
    how_.guests.accelerator = options.accelerator;
    how_.guests.timeout = std::chrono::seconds(static_cast<std::int64_t>(options.boot_timeout));
    how_.program_timeout = std::chrono::seconds(static_cast<std::int64_t>(options.timeout));
    how_.application = "rdmawire " RDMAWIRE_VERSION;
    how_.stop = how_.image.stop = how_.guests.stop = stop;
    if (!options.quiet)
      how_.progress = how_.image.progress =
          how_.guests.progress = [](std::string_view line) { report_error("lab: " + std::string(line)); };
  }

  lab::Result<lab::Recording> record(const lab::RecordingPlan& plan, const std::string& file) {
    for (bool again = false;; again = true) {
      if (auto up = boot(); !up) return tl::unexpected(up.error());
      auto recording = recorder_->record(plan, file);
      if (recording || !recorder_->ended()) return recording;
      // Neither the program's fault nor ours that a guest has ended.
      recorder_.reset();
      LabError error = recording.error();
      if (again) {
        error.message = "the lab's own trouble, twice: " + error.message;
        return tl::unexpected(std::move(error));
      }
      if (how_.progress) how_.progress("the lab's own trouble, trying once more: " + error.message);
    }
  }

 private:
  lab::Result<void> boot() {
    if (recorder_) return {};
    if (directory_.path().empty()) {
      auto directory = lab::RunDirectory::create(name_);
      if (!directory) return tl::unexpected(directory.error());
      directory_ = std::move(*directory);
    }
    auto recorder = lab::Recorder::boot(directory_.path(), how_, siw_);
    if (!recorder) return tl::unexpected(recorder.error());
    recorder_ = std::move(*recorder);
    if (how_.progress) how_.progress(fmt::format("two guests are up: {:.1f} s", recorder_->boot_seconds()));
    return {};
  }

  lab::RecordingOptions how_;
  bool siw_;
  std::string name_;
  lab::RunDirectory directory_;
  std::optional<lab::Recorder> recorder_;  // before the directory, which it is in
};

Exit record(const Options& options) {
  if (options.list) return list(options);
  if (options.scenarios.empty() || options.output.empty()) {
    report_error("lab record: it takes a scenario and -o FILE; --list prints the scenarios");
    return Exit::usage;
  }
  const auto plans = plans_of(options);
  if (!plans) return trouble(plans.error());
  std::error_code error;
  const bool many = plans->size() > 1 || fs::is_directory(options.output, error) || options.output.ends_with('/');
  if (many && !fs::create_directories(options.output, error) && error) {
    report_error(fmt::format("lab record: making the directory {}: {}", options.output, error.message()));
    return Exit::trouble;
  }
  bool siw = false;
  for (const lab::RecordingPlan& plan : *plans) siw |= plan.siw;
  const lab::StopDescriptor stop = catch_signals();
  Bench bench(options, stop, siw);
  Exit exit = Exit::fine;
  Json told = Json::array();
  std::map<std::string, unsigned> used;
  for (const lab::RecordingPlan& plan : *plans) {
    std::string name = name_of(plan);
    if (const unsigned before = used[name]++) name += fmt::format("-{}", before + 1);
    const std::string file = many ? (fs::path(options.output) / (name + ".pcapng")).string() : options.output;
    const auto recording = bench.record(plan, file);
    if (!recording) {
      if (recording.error().kind == LabError::Kind::stopped) return status_of_signal();
      exit = trouble(recording.error());
      if (recording.error().kind == LabError::Kind::program || recording.error().kind == LabError::Kind::timeout)
        report_error("lab: what was recorded is in " + file);
      // Without a lab nothing more can be recorded.
      if (recording.error().kind != LabError::Kind::program && recording.error().kind != LabError::Kind::timeout)
        return exit;
      continue;
    }
    for (const std::string& complaint : recording->complaints)
      report_error(fmt::format("lab: {}: a guest's kernel complains: {}", name, complaint));
    if (!options.quiet && !options.json)
      report_error(fmt::format("lab: {}: {} frames, {} faults done, {:.1f} s", file == "-" ? name : file,
                               recording->frames, recording->faults.size(), recording->seconds));
    if (options.json)
      told.push_back({{"scenario", plan.scenario->name},
                      {"name", name},
                      {"file", file},
                      {"frames", recording->frames},
                      {"seconds", recording->seconds},
                      {"server",
                       {{"command", recording->server_command},
                        {"output", recording->server_output},
                        {"netem", recording->netem[0]}}},
                      {"client",
                       {{"command", recording->client_command},
                        {"output", recording->client_output},
                        {"netem", recording->netem[1]}}},
                      {"faults", recording->faults},
                      {"complaints", recording->complaints}});
  }
  if (options.json) {
    Output output;
    output.text() = told.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    if (!output.finish()) return Exit::trouble;
  }
  return exit;
}

}  // namespace

void add_lab_record(CLI::App& lab, Work& work) {
  CLI::App* sub = lab.add_subcommand("record", description);
  sub->footer(examples);
  const auto options = std::make_shared<Options>();
  sub->add_option("scenario", options->scenarios, "NAME[,OPTION]…; all: every one, over every device that it can")
      ->type_name("SCENARIO");
  sub->add_option("-o,--output", options->output, "the capture; of several scenarios the directory; -: standard output")
      ->type_name("FILE");
  sub->add_flag("--list", options->list, "print the scenarios");
  sub->add_flag("--json", options->json, "what was recorded, with the programs' output; with --list the table");
  sub->add_option_function<std::string>(
         "--device", [options](const std::string& word) { options->siw = word == "siw"; },
         "rxe (RoCEv2) or siw (iWARP)")
      ->check(CLI::IsMember({"rxe", "siw"}))
      ->type_name("WORD");
  sub->add_flag("--ipv6", options->plan.ipv6, "the programs speak over IPv6");
  sub->add_option("--vlan", options->vlan, "they speak on this VLAN")->check(CLI::Range(1, 4094))->type_name("ID");
  sub->add_option("--mtu", options->plan.mtu, "of the ports; 9000: jumbo frames")
      ->check(CLI::Range(576, 9000))
      ->type_name("BYTES");
  sub->add_option("--iterations", options->plan.iterations, "of the programs")
      ->check(CLI::Range(1, 100'000))
      ->type_name("N");
  sub->add_option("--size", options->plan.size, "of their messages")->check(CLI::Range(1, 1 << 20))->type_name("BYTES");
  sub->add_option("--fault", options->faults, "a rule of the fault language for the switch (may be repeated)")
      ->allow_extra_args(false)
      ->type_name("RULE");
  sub->add_option("--faults", options->fault_file, "a file with such rules")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  sub->add_option("--seed", options->plan.seed, "for what the rules leave to chance")->type_name("N");
  sub->add_option("--netem", options->plan.netem,
                  "what tc's netem does to what leaves the guests: \"loss 3%\"; only one of them with server: or "
                  "client: before it")
      ->type_name("WORDS");
  sub->add_option("--kernel", options->kernel, "debian (the default), newest, or a bzImage of yours")
      ->type_name("KERNEL");
  sub->add_option("--modules", options->modules, "with a kernel of yours: its lib/modules/RELEASE")->type_name("DIR");
  sub->add_option("--name", options->name, "of the lab; several can be up at once")->type_name("NAME");
  sub->add_option("--memory", options->memory, "of a guest, in MiB")->check(CLI::Range(256, 65536))->type_name("MIB");
  sub->add_option("--accel", options->accelerator, "qemu's accelerator: tcg (anywhere), kvm (where /dev/kvm is usable)")
      ->type_name("NAME");
  sub->add_option("--boot-timeout", options->boot_timeout, "for one boot; it is tried twice")
      ->check(check_positive)
      ->type_name("S");
  sub->add_option("--timeout", options->timeout, "for each program")->check(check_positive)->type_name("S");
  sub->add_flag("-q,--quiet", options->quiet, "say nothing of what is being done");
  sub->callback([=, &work] { work = [options] { return record(*options); }; });
}

}  // namespace rdmawire::cli
