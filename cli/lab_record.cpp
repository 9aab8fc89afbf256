/// rdmawire lab record: records the traffic of RDMA programs between two guests.

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
namespace recording {

namespace fs = std::filesystem;
using lab::LabError;
using Json = nlohmann::ordered_json;

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
  return output.finish() ? Exit::success : Exit::error;
}

lab::Result<std::vector<lab::RecordingPlan>> plans_of(const Options& options) {
  lab::RecordingPlan plan = options.plan;
  if (options.vlan) plan.vlan = options.vlan;
  if (!options.fault_file.empty()) {
    std::ifstream in(options.fault_file);
    std::stringstream text;
    text << in.rdbuf();
    if (!in) return lab::failure(LabError::Kind::usage, "cannot read " + options.fault_file);
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

// A lab that is rebooted once if a guest stops.
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
    for (bool retried = false;; retried = true) {
      if (auto up = boot(); !up) return tl::unexpected(up.error());
      auto recording = recorder_->record(plan, file);
      if (recording || !recorder_->ended()) return recording;
      recorder_.reset();
      LabError error = recording.error();
      if (retried) {
        error.message = "lab failure (retried once): " + error.message;
        return tl::unexpected(std::move(error));
      }
      if (how_.progress) how_.progress("lab failure, retrying: " + error.message);
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
    if (how_.progress) how_.progress(fmt::format("two guests are running: {:.1f} s", recorder_->boot_seconds()));
    return {};
  }

  lab::RecordingOptions how_;
  bool siw_;
  std::string name_;
  lab::RunDirectory directory_;
  std::optional<lab::Recorder> recorder_;  // destroyed before its directory
};

Exit record(const Options& options) {
  if (options.list) return list(options);
  if (options.scenarios.empty()) throw UsageError("missing argument SCENARIO; --list prints the scenarios");
  if (options.output.empty()) throw UsageError("missing option --output");
  const auto plans = plans_of(options);
  if (!plans) return report_lab_error(plans.error());
  std::error_code error;
  const bool many = plans->size() > 1 || fs::is_directory(options.output, error) || options.output.ends_with('/');
  if (many && !fs::create_directories(options.output, error) && error) {
    report_error(fmt::format("lab record: cannot create the directory {}: {}", options.output, error.message()));
    return Exit::error;
  }
  bool siw = false;
  for (const lab::RecordingPlan& plan : *plans) siw |= plan.siw;
  const lab::StopDescriptor stop = catch_signals();
  Bench bench(options, stop, siw);
  Exit exit = Exit::success;
  Json recorded = Json::array();
  std::map<std::string, unsigned> used;
  for (const lab::RecordingPlan& plan : *plans) {
    std::string name = name_of(plan);
    if (const unsigned before = used[name]++) name += fmt::format("-{}", before + 1);
    const std::string file = many ? (fs::path(options.output) / (name + ".pcapng")).string() : options.output;
    const auto recording = bench.record(plan, file);
    if (!recording) {
      if (recording.error().kind == LabError::Kind::stopped) return status_of_signal();
      exit = report_lab_error(recording.error());
      if (recording.error().kind == LabError::Kind::program || recording.error().kind == LabError::Kind::timeout)
        report_error("lab: the recorded part is in " + file);
      // Other errors also affect the remaining scenarios.
      if (recording.error().kind != LabError::Kind::program && recording.error().kind != LabError::Kind::timeout)
        return exit;
      continue;
    }
    for (const std::string& message : recording->complaints)
      report_error(fmt::format("lab: {}: kernel message of a guest: {}", name, message));
    if (!options.quiet && !options.json)
      report_error(fmt::format("lab: {}: {} frames, {} faults injected, {:.1f} s", file == "-" ? name : file,
                               recording->frames, recording->faults.size(), recording->seconds));
    if (options.json)
      recorded.push_back({{"scenario", plan.scenario->name},
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
                          {"kernel_messages", recording->complaints}});
  }
  if (options.json) {
    Output output;
    output.text() = recorded.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    if (!output.finish()) return Exit::error;
  }
  return exit;
}

std::vector<std::string> scenario_names() {
  std::vector<std::string> names{"all"};
  for (const lab::Scenario& scenario : lab::scenarios()) names.emplace_back(scenario.name);
  return names;
}

}  // namespace recording

Command lab_record_command() {
  const auto options = std::make_shared<recording::Options>();
  Command command;
  command.name = "record";
  command.summary = "Record the traffic of RDMA programs between two guests.";
  command.description =
      "Writes pcapng files with comments. The switch between the guests records each frame once: as sent, or as "
      "received "
      "if a fault dropped it. A comment describes each injected fault. The comments of the file contain the commands, "
      "versions, fault rules and seed.";
  command.usage = {"--output FILE [OPTIONS] SCENARIO...", "--list"};
  command
      .argument(
          "SCENARIO", options->scenarios,
          "Scenario with optional settings, for example write,siw,ipv6,vlan=7,mtu=9000,iterations=5,size=100. \"all\" "
          "records every scenario with every device. Settings override the options.")
      .repeats()
      .completes(recording::scenario_names);
  command.group("Output");
  command.option("-o,--output", "FILE", options->output,
                 "Write the capture to FILE. Multiple scenarios require a directory. \"-\" writes to standard output.");
  command.flag("--list", options->list, "List the scenarios.");
  command.flag("--json", options->json,
               "Print the results and the programs' output as JSON. With --list, print the list.");
  command.flag("-q,--quiet", options->quiet, "Suppress progress messages.");
  command.group("Traffic");
  command
      .choice<bool>("--device", "DEVICE", options->siw, {{"rxe", false, "RoCEv2"}, {"siw", true, "iWARP"}},
                    "Set the RDMA device of the guests.")
      .by_default("rxe if the scenario supports it");
  command.flag("--ipv6", options->plan.ipv6, "Use IPv6.");
  command.option("--vlan", "ID", options->vlan, "Use this VLAN.").range(1, 4094);
  command
      .option("--mtu", "BYTES", options->plan.mtu,
              "Set the MTU of the guest ports in bytes. 9000 enables jumbo frames.")
      .range(576, 9000);
  command.option("--iterations", "N", options->plan.iterations, "Set the number of iterations of the programs.")
      .range(1, 100'000);
  command.option("--size", "BYTES", options->plan.size, "Set the message size of the programs in bytes.")
      .range(1, 1 << 20);
  command.group("Faults");
  command.option(
      "--fault", "RULE", options->faults,
      "Inject faults in the switch (see docs/reference/fault-language.md). Endpoint a is the server and b the client.");
  command.option("--faults", "FILE", options->fault_file, "Read fault rules from FILE.");
  command.option("--seed", "N", options->plan.seed, "Set the random seed of the faults.");
  command.option(
      "--netem", "SPEC", options->plan.netem,
      "Apply a tc-netem impairment to guest egress, for example \"loss 3%\". Prefix with server: or client: to "
      "apply it to one guest.");
  command.group("Guest system");
  command
      .option("--kernel", "KERNEL", options->kernel,
              "Boot this kernel: debian (the kernel of the Debian release), newest (Debian's newest kernel), or the "
              "path of a bzImage or vmlinux (requires --modules).")
      .completes([] {
        return std::vector<std::string>{"debian", "newest"};
      });
  command.option("--modules", "DIR", options->modules, "Use the kernel modules in DIR (lib/modules/RELEASE).");
  command.option("--memory", "MIB", options->memory, "Set the memory of each guest in MiB.").range(256, 65536);
  command
      .option("--accel", "NAME", options->accelerator,
              "Set the QEMU accelerator: tcg (works everywhere) or kvm (requires /dev/kvm).")
      .completes([] {
        return std::vector<std::string>{"tcg", "kvm"};
      });
  command.option("--name", "NAME", options->name, "Set the name of the lab. Multiple labs can run in parallel.");
  command
      .option("--boot-timeout", "SECONDS", options->boot_timeout,
              "Set the boot timeout in seconds. A failed boot is retried once.")
      .positive();
  command.option("--timeout", "SECONDS", options->timeout, "Set the timeout of each program in seconds.").positive();
  command.examples = {
      {"rdmawire lab record write --vlan 7 --mtu 9000 -o write.pcapng",
       "Record RDMA WRITEs on a VLAN with jumbo frames."},
      {"rdmawire lab record write-cm,siw nvme,siw rping,siw,ipv6 -o captures", "Record three scenarios in one boot."},
      {"rdmawire lab record send --fault 'drop psn +3 try 1' --fault 'mark ce every 10' -o faults.pcapng",
       "Record SENDs with injected faults."}};
  command.statuses = {{"0", "all scenarios were recorded"}, {"2", "usage error"}, {"3", "a program or the lab failed"}};
  command.run = [options](const Given&) { return recording::record(*options); };
  return command;
}

}  // namespace rdmawire::cli
