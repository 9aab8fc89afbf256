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
#include "replay/rpc/process_commands.hpp"
#include "replay/wires/descriptor.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX requires the declaration

namespace rdmawire::agent {
namespace {

using replay::Descriptor;

constexpr std::size_t most_processes = 32;
constexpr std::size_t most_chunk = 16U << 10U;
/// Maximum wait for the exit of a killed process. Only a process that is blocked in the kernel needs more time.
constexpr int farewell_ms = 100;

/// Killed processes that did not exit in time. They are reaped when a later process is started or released.
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
  static constexpr Kind own_kind = Kind::process;

  Process(Session& session, pid_t pid, std::string program, Descriptor pidfd)
      : session_(&session), pid_(pid), program_(std::move(program)), pidfd_(std::move(pidfd)) {}
  ~Process() override {
    if (pid_ != 0) release();
  }

  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] Json about() const override { return {{"pid", pid_}, {"program", program_}, {"running", !ended_}}; }
  int release() override;

  /// Starts to monitor the process. The object must be in the session, because events contain its handle.
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
  std::uint64_t left_ = 0, dropped_ = 0;  // output bytes: still permitted, and dropped
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
    session_->push(rpc::ProcessEvent{
        .process = {handle()}, .type = output.name, .data = rpc::ByteVector(bytes.begin(), bytes.begin() + told)});
  }
}

Result<std::size_t> Process::feed(const std::vector<std::uint8_t>& bytes, bool last) {
  if (!in_ || input_ends_) return fail(EPIPE, "process: the standard input of process {} is closed", handle());
  if (input_.size() + bytes.size() > rpc::most_input) {
    return fail(ENOBUFS, "data: {} bytes are already waiting, because process {} does not read; at most {} can wait",
                input_.size(), handle(), rpc::most_input);
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
  // Send the remaining output before the exit event. Do not wait for the end of the pipe: other processes may still
  // have it open.
  for (Output& output : outputs_) {
    for (int chunks = 0; chunks < 64 && output.watch; ++chunks) {
      pollfd wait{output.pipe.get(), POLLIN, 0};
      if (::poll(&wait, 1, 0) <= 0) break;
      read_some(output);
    }
  }
  rpc::ProcessEvent report;
  report.process = {handle()};
  if (info.si_code == CLD_EXITED) {
    report.type = "exited";
    report.status = static_cast<std::uint32_t>(info.si_status);
  } else {
    report.type = "killed";
    report.signal = static_cast<std::uint32_t>(info.si_status);
    report.name = name_of(rpc::names::signal, static_cast<std::uint64_t>(info.si_status));
    report.core_dumped = info.si_code == CLD_DUMPED;
  }
  report.dropped = dropped_;
  session_->push(report);
}

/// Both ends of a pipe. The agent's end is nonblocking. The child's end is blocking, as programs expect.
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

Result<rpc::Run::Result> run(Session& session, const rpc::Run& request) {
  const auto& argv = request.argv;
  if (argv[0].empty()) return fail(EINVAL, "argv: contains no program");
  if (std::any_of(argv.begin(), argv.end(), holds_zero)) return fail(EINVAL, "argv: contains a zero byte");
  for (const std::string& variable : request.env) {
    if (holds_zero(variable) || variable.find('=') == std::string::npos || variable[0] == '=')
      return fail(EINVAL, "env: must be an array of strings NAME=VALUE");
  }
  if (holds_zero(request.directory)) return fail(EINVAL, "directory: contains a zero byte");
  if (!session.settings().allow_run) {
    return fail(EPERM, "running programs is not permitted; start the agent with --allow-run");
  }
  const auto running = std::count_if(session.objects().begin(), session.objects().end(),
                                     [](const auto& entry) { return entry.second->kind() == Process::own_kind; });
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
  const auto pid = spawn(argv, environment(request.env), request.directory, in->read_end.get(), out->write_end.get(),
                         err->write_end.get());
  if (!pid) return tl::unexpected(pid.error());
  Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  const int number = errno;
  auto process = std::make_unique<Process>(session, *pid, argv[0], std::move(pidfd));
  if (!process->has_end()) {
    return fail(number, "pidfd_open: {}; requires Linux 5.3", errno_text(number));
  }
  Process& added = session.objects().add(std::move(process));
  added.watch(std::move(in->write_end), std::move(out->read_end), std::move(err->read_end), request.most_output);
  if (!request.stdin_bytes.empty() || !request.stdin_open)
    static_cast<void>(added.feed(request.stdin_bytes, !request.stdin_open));
  return rpc::Run::Result{{added.handle()}, static_cast<std::uint32_t>(*pid)};
}

Result<rpc::Nothing> kill_process(Session& session, const rpc::Kill& request) {
  Process& process = session.objects().of<Process>(request.process);
  const int number = process.send_signal(static_cast<int>(request.signal.value()));
  if (number != 0) return fail(number, "process: kill({}): {}", -process.pid(), errno_text(number));
  return rpc::Nothing();
}

Result<rpc::Stdin::Result> feed(Session& session, const rpc::Stdin& request) {
  const auto waiting = session.objects().of<Process>(request.process).feed(request.data, request.close);
  if (!waiting) return tl::unexpected(waiting.error());
  return rpc::Stdin::Result{*waiting};
}

}  // namespace

std::vector<Handler> process_handlers() { return {handler(run), handler(kill_process), handler(feed)}; }

}  // namespace rdmawire::agent
