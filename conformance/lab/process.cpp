#include "conformance/lab/process.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <sstream>
#include <thread>

namespace rdmawire::lab {
namespace {

// PR_SET_PDEATHSIG kills a child when the thread that forked it ends. Therefore one thread, which runs until this
// process ends, forks all children.
class Launcher {
 public:
  static Launcher& instance() {
    // Never destroyed, because its thread runs until the process ends. A forked child has no such thread and creates
    // its own.
    static std::mutex mutex;
    static Launcher* launcher = nullptr;
    static pid_t owner = 0;
    const std::lock_guard lock(mutex);
    if (owner != ::getpid()) launcher = new Launcher;
    owner = ::getpid();
    return *launcher;
  }

  template <class Function>
  pid_t launch(const Function& fork_and_exec) {
    std::unique_lock lock(mutex_);
    Order order{[&] { return fork_and_exec(); }, 0, 0, false};
    orders_.push_back(&order);
    changed_.notify_all();
    changed_.wait(lock, [&] { return order.done; });
    errno = order.error;
    return order.result;
  }

 private:
  struct Order {
    std::function<pid_t()> work;
    pid_t result;
    int error;
    bool done;
  };

  Launcher() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are handled by the existing threads
    std::thread([this] { run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !orders_.empty(); });
      Order* order = orders_.front();
      orders_.pop_front();
      order->result = order->work();
      order->error = errno;
      order->done = true;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Order*> orders_;
};

// Prepares the child and executes the program. Between fork and exec, only async-signal-safe calls are allowed.
[[noreturn]] void become(const char* path, char* const* argv, char* const* environment, const char* directory,
                         const std::pair<int, int>* descriptors, std::size_t count, pid_t parent, int report) {
  const auto fail = [report] {
    const int number = errno;
    static_cast<void>(!::write(report, &number, sizeof number));
    ::_exit(127);
  };
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) fail();
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < 32; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (*directory != '\0' && ::chdir(directory) != 0) fail();
  // Duplicate the descriptors to high numbers first. Otherwise dup2() could overwrite one that is still needed.
  int moved[32];
  int last = 2;
  for (std::size_t i = 0; i < count; ++i) {
    moved[i] = ::fcntl(descriptors[i].first, F_DUPFD_CLOEXEC, 100);
    if (moved[i] < 0) fail();
    if (descriptors[i].second > last) last = descriptors[i].second;
  }
  const int kept = ::fcntl(report, F_DUPFD_CLOEXEC, 100);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int number = 0; number <= last; ++number) {
    int from = number <= 2 ? nothing : -1;
    for (std::size_t i = 0; i < count; ++i)
      if (descriptors[i].second == number) from = moved[i];
    if (from >= 0 && from != number) ::dup2(from, number);
    if (from == number) ::fcntl(number, F_SETFD, 0);
    if (from < 0) ::close(number);
  }
  ::syscall(SYS_close_range, static_cast<unsigned>(last + 1), ~0U, CLOSE_RANGE_CLOEXEC);
  ::execve(path, argv, environment);
  const int number = errno;
  static_cast<void>(!::write(kept, &number, sizeof number));
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::reset() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Result<Process> Process::start(const Options& options) {
  const std::filesystem::path path = find_program(options.argv.at(0));
  if (path.empty()) return failure(LabError::Kind::missing, options.argv[0] + ": program not found");
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    bool replaced = false;
    for (const auto& [name, value] : options.environment)
      replaced = replaced || (text.substr(0, name.size()) == name && text.substr(name.size(), 1) == "=");
    if (!replaced) variables.emplace_back(text);
  }
  for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
  auto argv = pointers(arguments);
  auto environment = pointers(variables);
  if (options.descriptors.size() > 32)
    return failure(LabError::Kind::system, "too many descriptors for a child process");

  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure("start " + options.argv[0] + ": pipe");
  Descriptor reading(ends[0]), writing(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = Launcher::instance().launch([&] {
    const pid_t id = ::fork();
    if (id == 0)
      become(path.c_str(), argv.data(), environment.data(), options.directory.c_str(), options.descriptors.data(),
             options.descriptors.size(), parent, writing.get());
    return id;
  });
  if (child < 0) return system_failure("start " + options.argv[0] + ": fork");
  Process process;
  process.id_ = child;
  process.handle_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  writing.reset();
  int number = 0;
  ssize_t got;
  do got = ::read(reading.get(), &number, sizeof number);
  while (got < 0 && errno == EINTR);
  if (got > 0) {
    errno = number;
    auto error = system_failure("starting " + path.string());
    process.kill();
    return error;
  }
  if (!process.handle_) return system_failure("start " + path.string() + ": pidfd_open");
  return process;
}

Process::Process(Process&& other) noexcept
    : id_(std::exchange(other.id_, -1)), handle_(std::move(other.handle_)), status_(other.status_) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    kill();
    id_ = std::exchange(other.id_, -1);
    handle_ = std::move(other.handle_);
    status_ = other.status_;
  }
  return *this;
}

std::optional<int> Process::status() {
  if (id_ > 0 && !status_) {
    int status = 0;
    if (::waitpid(id_, &status, WNOHANG) == id_) status_ = status;
  }
  return status_;
}

void Process::kill() {
  if (id_ <= 0) return;
  // Kill the group even if the child has exited: it may have other members.
  ::kill(-id_, SIGKILL);
  if (!status_) {
    ::kill(id_, SIGKILL);
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
    status_ = status;
  }
  id_ = -1;
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return "killed by signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
  }
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

std::filesystem::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::stringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::filesystem::path candidate = std::filesystem::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error) && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

}  // namespace rdmawire::lab
