#include "cli/replay_reactive.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <atomic>
#include <filesystem>
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
  complain("replay: " + message);
  return usage ? Exit::usage : Exit::trouble;
}

Exit show_steps(const reactive::Exchange& exchange) {
  Output output;
  output.text() += reactive::describe(exchange.connection, exchange.number) +
                   fmt::format(", end {} is played\n", exchange.side == tracking::End::a ? "a" : "b");
  for (const std::string& step : reactive::steps_of(exchange)) output.text() += step + "\n";
  for (const std::string& note : exchange.notes) output.text() += "note: " + note + "\n";
  return output.finish() ? Exit::fine : Exit::trouble;
}

}  // namespace

void add_reactive_options(CLI::App& command, ReactiveOptions& options) {
  conformance::TargetOptions& target = options.target;
  command.add_option("--device", target.device,
                     "of --reactive: reference, lab:rxe, lab:siw, or agent:ADDRESS with --wire");
  command
      .add_option("--connection", options.connection,
                  "of --reactive: the capture's n-th; else the one with most octets")
      ->check(CLI::PositiveNumber);
  command.add_option("--side", options.side, "of --reactive: which end is played, a (sent the first frame) or b")
      ->check(CLI::IsMember({"a", "b"}));
  command.add_option("--retry-after", options.retry_after, "of --reactive: seconds without an answer, then again")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--step-timeout", options.step_timeout, "of --reactive: seconds without progress, then the end")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command.add_option("--agent", options.agent, "of --reactive: the agent's program, for the lab");
  command.add_option("--kernel", target.kernel, "of the lab: debian, newest")->capture_default_str();
  command.add_option("--secret-file", target.secret_file, "that the agent was started with");
  command.add_option("--device-fault", target.faults, "break the reference device on purpose; several");
}

Exit replay_reactive(ReactiveOptions options) {
  reactive::ExchangeOptions which{.connection = options.connection};
  if (!options.side.empty()) which.side = options.side == "a" ? tracking::End::a : tracking::End::b;
  const auto exchange = reactive::read_exchange(options.capture, which);
  if (!exchange) return complained(exchange.error().message, exchange.error().usage);
  reactive::RunOptions how;
  auto faults = replay::FaultProgram::compile(options.faults);
  if (!faults) return complained(to_string(faults.error(), options.faults), true);
  how.faults = std::move(*faults);
  if (options.dry_run) return show_steps(*exchange);

  const bool iwarp = exchange->connection.service == tracking::Service::iwarp;
  std::error_code error;
  options.target.agent = options.agent.empty()
                             ? fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent"
                             : fs::path(options.agent);
  options.target.family = iwarp ? conformance::Family::iwarp : conformance::Family::infiniband;
  options.target.seed = options.seed;
  options.target.progress = [](std::string_view line) { complain(line); };
  options.target.stop = catch_signals();
  auto target = conformance::Target::open(options.target);
  if (!target) return complained(target.error().message, target.error().usage);
  if (!conformance::is_cheap(options.target.device))
    complain(fmt::format("replay: frames go over {} to {}{}", (*target)->wire(), (*target)->destinations(),
                         conformance::is_on_bench(options.target.device) && options.target.frames_per_second
                             ? fmt::format("; at most {} a second", options.target.frames_per_second)
                             : ""));

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
