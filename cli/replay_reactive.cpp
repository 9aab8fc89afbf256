#include "cli/replay_reactive.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "cli/lab.hpp"
#include "cli/terminal.hpp"
#include "conformance/runner/live_target.hpp"
#include "replay/reactive/run.hpp"

namespace rdmawire::cli {
namespace {

namespace fs = std::filesystem;
namespace reactive = replay::reactive;

std::int64_t nanoseconds_of(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

/// Watches the descriptor that ctrl-C makes readable: whoever waits for the device or its wire comes back.
class Watcher {
 public:
  Watcher(int descriptor, std::atomic<bool>& stop) {
    thread_ = std::thread([this, descriptor, &stop] {
      while (!ends_) {
        pollfd waiting{descriptor, POLLIN, 0};
        constexpr int slice = 100;
        if (descriptor >= 0 ? ::poll(&waiting, 1, slice) > 0 : (::poll(nullptr, 0, slice), false)) {
          stop = true;
          return;
        }
      }
    });
  }
  ~Watcher() {
    ends_ = true;
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

Exit complained(const std::string& message, bool usage) {
  report_error("replay: " + message);
  return usage ? Exit::usage : Exit::trouble;
}

Exit show_steps(const reactive::Exchange& exchange) {
  Output output;
  output.text() += reactive::describe(exchange.connection, exchange.number) +
                   fmt::format(", end {} is played\n", exchange.side == tracking::Side::a ? "a" : "b");
  for (const std::string& step : reactive::steps_of(exchange)) output.text() += step + "\n";
  for (const std::string& note : exchange.notes) output.text() += "note: " + note + "\n";
  return output.finish() ? Exit::fine : Exit::trouble;
}

}  // namespace

CLI::Option* add_reactive_options(CLI::App& command, ReactiveOptions& options) {
  conformance::TargetOptions& target = options.target;
  std::vector<CLI::Option*> own{
      command.add_flag("--reactive", options.reactive,
                       "play one side of a connection, and wait for what the live peer says"),
      command.add_option("--device", target.device, "reference, lab:rxe, lab:siw, or agent:ADDRESS with --wire")
          ->capture_default_str(),
      command.add_option("--connection", options.connection, "the capture's n-th; else the one with most bytes")
          ->check(CLI::PositiveNumber),
      command.add_option("--side", options.side, "the end that is played: a, b; else the one that sent more")
          ->check(CLI::IsMember({"a", "b"}))
          ->type_name("END"),
      command.add_option("-O,--output", options.output, "record what was sent and received there: pcap, pcapng")
          ->type_name("FILE"),
      command.add_option("--retry-after", options.retry_after, "seconds without an answer, then it is sent again")
          ->capture_default_str()
          ->check(CLI::PositiveNumber),
      command.add_option("--step-timeout", options.step_timeout, "seconds without any progress, then it is given up")
          ->capture_default_str()
          ->check(CLI::PositiveNumber),
      command.add_option("--allow", target.allowed, "the address of a real device that may be sent frames; several")
          ->allow_extra_args(false)
          ->type_name("ADDRESS"),
      command.add_option("--rate", target.frames_per_second, "frames a second to a real device, at most; 0: no cap")
          ->capture_default_str()
          ->type_name("PPS"),
      command.add_option("--secret-file", target.secret_file, "that the agent was started with"),
      command.add_option("--agent", options.agent, "the agent's program, for the lab"),
      command.add_option("--kernel", target.kernel, "of the lab: debian, newest")->capture_default_str(),
      command.add_option("--device-fault", target.faults, "break the reference device on purpose; several")
          ->allow_extra_args(false)
          ->type_name("NAME")};
  for (CLI::Option* option : own) option->group("A live peer");
  for (CLI::Option* option : own)
    if (option != own.front()) option->needs(own.front());
  return own.front();
}

void check_reactive_options(const CLI::App& command) {
  constexpr std::array shared{"files", "wire", "fault", "faults", "seed", "dry-run", "json", "help"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->empty() || option->get_group() == "A live peer") continue;
    const std::string name = option->get_lnames().empty() ? option->get_name() : option->get_lnames().front();
    if (std::find(shared.begin(), shared.end(), name) == shared.end())
      throw CLI::ValidationError("--reactive", option->get_name() + " has no meaning with it");
  }
}

Exit replay_reactive(ReactiveOptions options) {
  reactive::ExchangeOptions which{.connection = options.connection};
  if (!options.side.empty()) which.side = options.side == "a" ? tracking::Side::a : tracking::Side::b;
  if (options.captures.size() != 1) return complained("--reactive plays one capture", true);
  auto exchange = reactive::read_exchange(options.captures.front(), which);
  if (!exchange) return complained(exchange.error().message, exchange.error().usage);
  reactive::RunOptions how;
  std::string text;
  for (const std::string& line : options.faults) text += line + "\n";
  if (!options.faults_file.empty()) {
    std::ifstream in(options.faults_file);
    text.assign(std::istreambuf_iterator<char>(in), {});
    if (!in.is_open() || in.bad()) return complained(options.faults_file + ": it cannot be read", false);
  }
  auto faults = replay::FaultProgram::compile(text);
  if (!faults) return complained(to_string(faults.error(), text), true);
  how.faults = std::move(*faults);
  if (options.dry_run) return show_steps(*exchange);

  const bool iwarp = exchange->connection.service == tracking::Service::iwarp;
  std::error_code error;
  options.target.agent = options.agent.empty()
                             ? fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent"
                             : fs::path(options.agent);
  options.target.family = iwarp ? conformance::Family::iwarp : conformance::Family::infiniband;
  options.target.seed = options.seed;
  options.target.progress = [](std::string_view line) { report_error(line); };
  options.target.stop = catch_signals();
  auto target = conformance::Target::open(options.target);
  if (!target) return complained(target.error().message, target.error().usage);
  if (!conformance::is_cheap(options.target.device))
    report_error(fmt::format("replay: frames go over {} to {}{}", (*target)->wire(), (*target)->destinations(),
                             conformance::is_on_bench(options.target.device) && options.target.frames_per_second
                                 ? fmt::format("; at most {} a second", options.target.frames_per_second)
                                 : ""));

  if (const std::uint32_t mtu = (*target)->device().device->port().active_mtu;
      !iwarp && mtu != 0 && mtu < exchange->mtu) {
    which.mtu = mtu;
    exchange = reactive::read_exchange(options.captures.front(), which);
    if (!exchange) return complained(exchange.error().message, exchange.error().usage);
  }
  std::atomic<bool> stop = false;
  how.machine.retry_after = nanoseconds_of(options.retry_after);
  how.machine.step_timeout = nanoseconds_of(options.step_timeout);
  how.seed = options.seed;
  how.output = options.output;
  how.stop = &stop;
  reactive::Report report;
  {
    const Watcher watcher(options.target.stop, stop);
    report = reactive::play(*exchange, conformance::live_device(**target), how);
  }
  if (!report.failure.empty())
    if (const auto gone = (*target)->gone(); gone && gone->device) report.failure += "; the device ended: " + gone->why;
  for (std::string& complaint : (*target)->complaints())
    report.notes.push_back("the device's kernel: " + std::move(complaint));
  Output output;
  output.text() += options.json ? json_of(report).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                                : text_of(report);
  if (!output.finish()) return Exit::trouble;
  if (!report.failure.empty()) return Exit::trouble;
  return report.good() || report.interrupted ? Exit::fine : Exit::found;
}

}  // namespace rdmawire::cli
