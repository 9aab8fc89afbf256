/// run, kill, stdin: run programs on the device's host, if the agent permits it (`--allow-run`).

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>

#include "conformance/agent/commands.hpp"
#include "replay/wires/descriptor.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX requires the declaration

namespace rdmawire::agent {
namespace {

using replay::Descriptor;

constexpr std::size_t most_processes = 32;
constexpr std::size_t most_arguments = 1024;
constexpr std::size_t most_chunk = 16U << 10U;
constexpr std::size_t most_input = 1U << 20U;
constexpr std::uint64_t most_output = 1U << 30U;
constexpr std::uint64_t usual_output = 4U << 20U;
/// Maximum wait for a killed process. Only a process blocked in the kernel takes longer.
constexpr int farewell_ms = 100;

// clang-format off
constexpr Name signal_table[] = {
    {"hup", SIGHUP}, {"int", SIGINT}, {"quit", SIGQUIT}, {"abrt", SIGABRT}, {"kill", SIGKILL}, {"usr1", SIGUSR1},
    {"segv", SIGSEGV}, {"usr2", SIGUSR2}, {"pipe", SIGPIPE}, {"alrm", SIGALRM}, {"term", SIGTERM}, {"cont", SIGCONT},
    {"stop", SIGSTOP}, {"ill", SIGILL}, {"fpe", SIGFPE}, {"bus", SIGBUS}, {"trap", SIGTRAP}, {"sys", SIGSYS},
    {"xcpu", SIGXCPU}, {"xfsz", SIGXFSZ},
};
// clang-format on

/// Killed processes that did not exit in time. Checked again whenever a process is started or released.
std::vector<pid_t>& lingering() {
  static std::vector<pid_t> pids;
  return pids;
}
void reap_lingering() {
  std::erase_if(lingering(), [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
}

/// A program, running or exited. It is not reaped before release, so that its process ID and process group ID are not
/// reused.
class Process final : public Object {
 public:
  static constexpr std::string_view name = "process";

  Process(Session& session, pid_t pid, std::string program, Descriptor pidfd)
      : session_(&session), pid_(pid), program_(std::move(program)), pidfd_(std::move(pidfd)) {}
  ~Process() override {
    if (pid_ != 0) release();
  }

  [[nodiscard]] std::string_view kind() const override { return name; }
  [[nodiscard]] Json about() const override { return {{"pid", pid_}, {"program", program_}, {"running", !ended_}}; }
  int release() override;

  /// Starts to monitor the process. The object must have its handle.
  void watch(Descriptor in, Descriptor out, Descriptor err, std::uint64_t limit);
  Result<std::size_t> feed(const std::vector<std::uint8_t>& bytes, bool last);
  int send_signal(int number) { return kill(-pid_, number) == 0 ? 0 : errno; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool has_end() const { return static_cast<bool>(pidfd_); }

 private:
  struct Output {
    const char* name;
    Descriptor pipe;
    Loop::Watch watch;
  };
  void read_some(Output& output);
  void write_some();
  void close_input();
  void note_end();

  Session* session_;
  pid_t pid_;
  std::string program_;
  Descriptor pidfd_;
  Loop::Watch end_watch_;
  bool ended_ = false;
  std::array<Output, 2> outputs_{Output{"stdout", Descriptor(), {}}, Output{"stderr", Descriptor(), {}}};
  std::uint64_t left_ = 0, dropped_ = 0;  // output bytes: remaining until the limit, and dropped
  Descriptor in_;
  Loop::Watch in_watch_;
  std::string input_;
  bool input_ends_ = false;
};

int Process::release() {
  end_watch_.stop();
  in_watch_.stop();
  for (Output& output : outputs_) output.watch.stop();
  kill(-pid_, SIGKILL);
  pollfd wait{pidfd_.get(), POLLIN, 0};
  if (!ended_) ::poll(&wait, 1, farewell_ms);
  reap_lingering();
  if (waitpid(pid_, nullptr, WNOHANG) == 0) lingering().push_back(pid_);
  pid_ = 0;
  return 0;
}

void Process::watch(Descriptor in, Descriptor out, Descriptor err, std::uint64_t limit) {
  left_ = limit;
  in_ = std::move(in);
  outputs_[0].pipe = std::move(out);
  outputs_[1].pipe = std::move(err);
  for (Output& output : outputs_) {
    output.watch =
        session_->loop().add_descriptor(output.pipe.get(), POLLIN, [this, &output](short) { read_some(output); });
  }
  in_watch_ = session_->loop().add_descriptor(in_.get(), 0, [this](short) { write_some(); });
  end_watch_ = session_->loop().add_descriptor(pidfd_.get(), POLLIN, [this](short) { note_end(); });
}

void Process::read_some(Output& output) {
  std::array<std::uint8_t, most_chunk> bytes;
  const ssize_t got = ::read(output.pipe.get(), bytes.data(), bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    output.watch.stop();
    return;
  }
  const auto told = std::min<std::uint64_t>(left_, static_cast<std::uint64_t>(got));
  left_ -= told;
  dropped_ += static_cast<std::uint64_t>(got) - told;
  if (told > 0) {
    session_->push({{"event", "process"},
                    {"process", handle()},
                    {"type", output.name},
                    {"data", to_hex(bytes.data(), static_cast<std::size_t>(told))}});
  }
}

Result<std::size_t> Process::feed(const std::vector<std::uint8_t>& bytes, bool last) {
  if (!in_ || input_ends_) return fail(EPIPE, "process: the standard input of process {} is closed", handle());
  if (input_.size() + bytes.size() > most_input) {
    return fail(ENOBUFS, "data: {} bytes are already waiting, because process {} does not read; at most {} can wait",
                input_.size(), handle(), most_input);
  }
  input_.append(bytes.begin(), bytes.end());
  input_ends_ = last;
  write_some();
  return input_.size();
}

void Process::write_some() {
  while (!input_.empty()) {
    const ssize_t put = ::write(in_.get(), input_.data(), input_.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      in_watch_.set_events(POLLOUT);
      return;
    }
    if (put < 0) return close_input();
    input_.erase(0, static_cast<std::size_t>(put));
  }
  in_watch_.set_events(0);
  if (input_ends_) close_input();
}

void Process::close_input() {
  in_watch_.stop();
  in_ = Descriptor();
  input_.clear();
}

void Process::note_end() {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
  end_watch_.stop();
  ended_ = true;
  close_input();
  // Output precedes the end of the process. Only the current content of the pipe is read. Other processes may still
  // have it open.
  for (Output& output : outputs_) {
    for (int chunks = 0; chunks < 64 && output.watch; ++chunks) {
      pollfd wait{output.pipe.get(), POLLIN, 0};
      if (::poll(&wait, 1, 0) <= 0) break;
      read_some(output);
    }
  }
  Json event = {{"event", "process"}, {"process", handle()}};
  if (info.si_code == CLD_EXITED) {
    event["type"] = "exited";
    event["status"] = info.si_status;
  } else {
    event["type"] = "killed";
    event["signal"] = info.si_status;
    event["name"] = name_of(signal_table, static_cast<std::uint64_t>(info.si_status));
    event["core_dumped"] = info.si_code == CLD_DUMPED;
  }
  event["dropped"] = dropped_;
  session_->push(event);
}

/// Both ends of a pipe. The child's end is blocking, as programs expect.
struct Pipe {
  Descriptor read_end, write_end;
};
Result<Pipe> make_pipe(bool we_read) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(errno, "pipe2: {}", errno_text(errno));
  fcntl(ends[we_read ? 0 : 1], F_SETFL, O_NONBLOCK);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

/// The environment of the agent, replaced or extended by `more` ("NAME=VALUE").
std::vector<std::string> environment(const std::vector<std::string>& more) {
  std::vector<std::string> all;
  const auto name = [](std::string_view variable) { return variable.substr(0, variable.find('=')); };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool replaced =
        std::any_of(more.begin(), more.end(), [&](const std::string& other) { return name(other) == name(*variable); });
    if (!replaced) all.emplace_back(*variable);
  }
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Result<pid_t> spawn(std::vector<std::string> argv, std::vector<std::string> variables, const std::string& directory,
                    int in, int out, int err) {
  struct Actions {
    posix_spawn_file_actions_t value;
    Actions() { posix_spawn_file_actions_init(&value); }
    ~Actions() { posix_spawn_file_actions_destroy(&value); }
  } actions;
  struct Attributes {
    posix_spawnattr_t value;
    Attributes() { posix_spawnattr_init(&value); }
    ~Attributes() { posix_spawnattr_destroy(&value); }
  } attributes;
  posix_spawn_file_actions_adddup2(&actions.value, in, 0);
  posix_spawn_file_actions_adddup2(&actions.value, out, 1);
  posix_spawn_file_actions_adddup2(&actions.value, err, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions.value, 3);
  if (!directory.empty()) posix_spawn_file_actions_addchdir_np(&actions.value, directory.c_str());
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes.value, &none);
  posix_spawnattr_setsigdefault(&attributes.value, &all);
  posix_spawnattr_setpgroup(&attributes.value, 0);
  posix_spawnattr_setflags(&attributes.value, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int number = posix_spawnp(&pid, argv[0].c_str(), &actions.value, &attributes.value, pointers(argv).data(),
                                  pointers(variables).data());
  if (number != 0) {
    const std::string in_directory = directory.empty() ? "" : " in " + directory;
    return fail(number, "argv: cannot run {}{}: {}", argv[0], in_directory, errno_text(number));
  }
  return pid;
}

bool holds_zero(const std::string& text) { return text.find('\0') != std::string::npos; }

Result<Json> run(Session& session, Arguments& arguments) {
  auto argv = arguments.texts("argv", most_arguments);
  const auto variables = arguments.texts("env", most_arguments);
  const auto directory = arguments.text_or("directory", "");
  const bool has_input = arguments.has("stdin");
  const auto input = has_input ? arguments.bytes("stdin", most_input) : std::vector<std::uint8_t>();
  const bool open = arguments.boolean_or("stdin_open", false);
  const auto limit = arguments.number_or<std::uint64_t>("most_output", usual_output, {0, most_output});
  if (argv.empty() || argv[0].empty()) arguments.report_error("argv", EINVAL, "contains no program");
  if (std::any_of(argv.begin(), argv.end(), holds_zero)) arguments.report_error("argv", EINVAL, "contains a zero byte");
  for (const std::string& variable : variables) {
    if (holds_zero(variable) || variable.find('=') == std::string::npos || variable[0] == '=')
      arguments.report_error("env", EINVAL, "must be an array of strings NAME=VALUE");
  }
  if (holds_zero(directory)) arguments.report_error("directory", EINVAL, "contains a zero byte");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (!session.settings().allow_run) {
    return fail(EPERM, "running programs is not permitted; start the agent with --allow-run");
  }
  const auto running = std::count_if(session.objects().begin(), session.objects().end(),
                                     [](const auto& entry) { return entry.second->kind() == Process::name; });
  if (static_cast<std::size_t>(running) >= most_processes) {
    return fail(EAGAIN, "the limit of {} processes is reached; destroy exited ones", most_processes);
  }

  auto in = make_pipe(false);
  if (!in) return tl::unexpected(in.error());
  auto out = make_pipe(true);
  if (!out) return tl::unexpected(out.error());
  auto err = make_pipe(true);
  if (!err) return tl::unexpected(err.error());
  reap_lingering();
  const std::string program = argv[0];
  const auto pid = spawn(std::move(argv), environment(variables), directory, in->read_end.get(), out->write_end.get(),
                         err->write_end.get());
  if (!pid) return tl::unexpected(pid.error());
  Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  const int number = errno;
  auto process = std::make_unique<Process>(session, *pid, program, std::move(pidfd));
  if (!process->has_end()) {
    return fail(number, "pidfd_open: {}; requires Linux 5.3", errno_text(number));
  }
  Process& added = session.objects().add(std::move(process));
  added.watch(std::move(in->write_end), std::move(out->read_end), std::move(err->read_end), limit);
  if (!input.empty() || !open) static_cast<void>(added.feed(input, !open));
  return Json{{"process", added.handle()}, {"pid", *pid}};
}

Result<Json> kill_process(Session&, Arguments& arguments) {
  auto* process = arguments.object<Process>("process");
  const auto signal = arguments.maybe_choice("signal", signal_table);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  const int number = process->send_signal(static_cast<int>(signal.value_or(SIGTERM)));
  if (number != 0) return fail(number, "process: kill({}): {}", -process->pid(), errno_text(number));
  return Json::object();
}

Result<Json> feed(Session&, Arguments& arguments) {
  auto* process = arguments.object<Process>("process");
  const auto bytes = arguments.has("data") ? arguments.bytes("data", most_input) : std::vector<std::uint8_t>();
  const bool last = arguments.boolean_or("close", false);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  const auto waiting = process->feed(bytes, last);
  if (!waiting) return tl::unexpected(waiting.error());
  return Json{{"waiting", *waiting}};
}

}  // namespace

std::span<const Command> process_commands() {
  static const Command all[] = {
      {"run",
       "Starts a program. EPERM unless the agent was started with `--allow-run`. It has its own process group, "
       "which is killed when the handle is destroyed or the session ends. Its output and its end are reported as "
       "events "
       "`process`: `{\"type\":\"stdout\",\"data\":…}`, or type `stderr`, then `{\"type\":\"exited\",\"status\":…}` or "
       "`{\"type\":\"killed\",\"signal\":…,\"name\":…,\"core_dumped\":…}`, both with `dropped`: output bytes "
       "after "
       "`most_output`. A session has at most 32 processes, including exited ones.",
       {{"argv", "list of texts: the program, searched in PATH, and its arguments"},
        {"env", "optional list of texts `NAME=VALUE`, which replace or extend the agent's environment"},
        {"directory", "optional text: working directory"},
        {"stdin", "optional bytes, at most 1 MiB: its standard input"},
        {"stdin_open", "optional boolean: keep standard input open for `stdin` (default false)"},
        {"most_output",
         "optional number, at most 2^30: limit for the reported output bytes of both streams together (default 2^22)"}},
       {{"process", "handle"}, {"pid", "its process ID and process group ID"}},
       R"({"argv":["rping","-s","-C","1"]})",
       R"({"process":5,"pid":212})",
       &run},
      {"kill",
       "Sends a signal to the process group.",
       {{"process", "handle"},
        {"signal", "optional name: term (default), kill, int, hup, quit, usr1, usr2, stop, cont, …"}},
       {},
       R"({"process":5,"signal":"kill"})",
       "{}",
       &kill_process},
      {"stdin",
       "Sends more input to a process. ENOBUFS: more than 1 MiB is waiting. EPIPE: closed by the controller or the "
       "process.",
       {{"process", "handle"}, {"data", "optional bytes"}, {"close", "optional boolean: close the standard input"}},
       {{"waiting", "unread bytes"}},
       R"({"process":5,"data":"68690a","close":true})",
       R"({"waiting":0})",
       &feed},
  };
  return all;
}

}  // namespace rdmawire::agent
