#include "cli/replay_reactive.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "captures/io/output_file.hpp"
#include "cli/device_options.hpp"
#include "cli/lab.hpp"
#include "cli/replay_play.hpp"
#include "cli/terminal.hpp"
#include "conformance/runner/live_target.hpp"
#include "replay/reactive/run.hpp"

namespace rdmawire::cli {
namespace replay_live {

namespace fs = std::filesystem;
namespace reactive = replay::reactive;

std::int64_t nanoseconds_of(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

/// Sets `stop` when the descriptor becomes readable (Ctrl-C).
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

Exit failed(const std::string& message, bool usage) {
  if (usage) throw UsageError(message);
  report_error("replay: " + message);
  return Exit::error;
}

Exit show_steps(const reactive::Exchange& exchange) {
  Output output;
  output.text() += reactive::describe(exchange.connection, exchange.number) +
                   fmt::format(", emulating endpoint {}\n", exchange.side == tracking::Side::a ? "a" : "b");
  for (const std::string& step : reactive::steps_of(exchange)) output.text() += step + "\n";
  for (const std::string& note : exchange.notes) output.text() += "note: " + note + "\n";
  return output.finish() ? Exit::success : Exit::error;
}

}  // namespace replay_live

void add_reactive_options(Command& command, ReactiveOptions& options) {
  conformance::TargetOptions& target = options.target;
  command.group("Live peer");
  command.flag("--reactive", options.reactive,
               "Emulate one side of a captured connection and react to the live peer's responses.");
  const std::size_t first = command.options.size();
  add_device_options(command, target);
  command.option("--connection", "N", options.connection, "Replay the capture's Nth connection.")
      .positive()
      .by_default("the one with the most bytes");
  command.choice<std::string>("--side", "SIDE", options.side, {{"a", "a"}, {"b", "b"}}, "Emulate this endpoint.")
      .by_default("the one that sent more bytes");
  command.option("-O,--output", "FILE", options.output, "Record sent and received packets in FILE (pcap or pcapng).");
  command
      .option("--retry-after", "SECONDS", options.retry_after, "Retransmit after SECONDS seconds without a response.")
      .range(1e-9, 1e9);
  command.option("--step-timeout", "SECONDS", options.step_timeout, "Give up after SECONDS seconds without progress.")
      .range(1e-9, 1e9);
  command.option("--agent", "FILE", options.agent, "Run this agent program in the lab.")
      .by_default("rdmawire-agent next to rdmawire");
  command
      .option("--device-fault", "NAME", target.faults,
              "Inject a fault into the reference device. `rdmawire certify --fault list` lists all faults.")
      .completes(fault_names);
  for (std::size_t i = first; i < command.options.size(); ++i) command.options[i].needs("--reactive");
}

void check_reactive_options(const Given& given) {
  Command others;
  PlayOptions unused;
  add_play_options(others, unused);
  for (const Option& option : others.options)
    if (given(option.long_name())) throw UsageError(option.long_name() + " cannot be used with --reactive");
}

Exit replay_reactive(ReactiveOptions options) {
  using namespace replay_live;
  reactive::ExchangeOptions which{.connection = options.connection};
  if (!options.side.empty()) which.side = options.side == "a" ? tracking::Side::a : tracking::Side::b;
  if (options.captures.size() != 1) return failed("--reactive requires exactly one capture", true);
  const std::vector<std::string> inputs{options.captures.front(), options.faults_file};
  if (const auto checked = captures::check_output(options.output, inputs); !checked)
    return failed("--output: " + checked.error(), true);
  auto exchange = reactive::read_exchange(options.captures.front(), which);
  if (!exchange) return failed(exchange.error().message, exchange.error().usage);
  reactive::RunOptions how;
  std::string text;
  for (const std::string& line : options.faults) text += line + "\n";
  if (!options.faults_file.empty()) {
    errno = 0;
    std::ifstream in(options.faults_file);
    text.assign(std::istreambuf_iterator<char>(in), {});
    if (!in.is_open() || in.bad())
      return failed(fmt::format("cannot read {}: {}", options.faults_file, std::strerror(errno)), false);
  }
  auto faults = replay::FaultProgram::compile(text);
  if (!faults) return failed(to_string(faults.error(), text), true);
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
  if (!target) return failed(target.error().message, target.error().usage);
  if (!conformance::is_cheap(options.target.device))
    report_error(fmt::format("replay: sending frames through {} to {}{}", (*target)->wire(), (*target)->destinations(),
                             conformance::is_on_bench(options.target.device) && options.target.frames_per_second
                                 ? fmt::format("; at most {} per second", options.target.frames_per_second)
                                 : ""));

  if (const std::uint32_t mtu = (*target)->device().device->port().active_mtu;
      !iwarp && mtu != 0 && mtu < exchange->mtu) {
    which.mtu = mtu;
    exchange = reactive::read_exchange(options.captures.front(), which);
    if (!exchange) return failed(exchange.error().message, exchange.error().usage);
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
    if (const auto gone = (*target)->gone(); gone && gone->device)
      report.failure += "; the device stopped: " + gone->why;
  for (std::string& message : (*target)->complaints())
    report.notes.push_back("kernel of the device: " + std::move(message));
  Output output;
  output.text() += options.json ? json_of(report).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                                : text_of(report);
  if (!output.finish()) return Exit::error;
  if (!report.failure.empty()) return Exit::error;
  for (const std::string& rule : report.unused_faults) report_error("replay: fault was never applied: " + rule);
  if (report.interrupted) return Exit::success;
  return report.good() && report.unused_faults.empty() ? Exit::success : Exit::findings;
}

}  // namespace rdmawire::cli
