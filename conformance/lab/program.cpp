/// Runs programs in the guest. Each program uses a slot of four channels: control (command and exit status) and the
/// three standard streams.

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "conformance/lab/guest.hpp"
#include "conformance/lab/process.hpp"
#include "conformance/lab/sockets.hpp"

namespace rdmawire::lab {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Kind = LabError::Kind;

constexpr std::size_t longest_command = 64 * 1024;
constexpr int closing_look = 10;  // milliseconds

// Quotes a word for the shell. Any bytes are allowed.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Escapes newlines and backslashes, and appends a newline. The guest decodes the line with printf's %b.
std::string in_one_line(const std::string& command) {
  std::string out;
  for (const char c : command)
    out += c == '\\' ? std::string("\\\\") : c == '\n' ? std::string("\\n") : std::string(1, c);
  return out + '\n';
}

class Run {
 public:
  Run(const fs::path& guest, const RunOptions& options) : guest_(guest), options_(options) {}

  Result<RunResult> operator()(const std::vector<std::string>& argv) {
    std::string command;
    for (const std::string& word : argv) command += (command.empty() ? "" : " ") + quoted(word);
    command = in_one_line(command);
    if (argv.empty() || command.size() > longest_command)
      return failure(Kind::usage, "a command for the guest must have at least one word and at most 64 kB");
    if (options_.timeout.count() > 0) deadline_ = Clock::now() + options_.timeout;
    if (auto opened = open(); !opened) return tl::unexpected(opened.error());
    if (auto written = write_all(control_in_.get(), command); !written) return tl::unexpected(written.error());
    auto result = follow(argv[0]);
    if (!result) abort();
    return result;
  }

 private:
  Result<void> open() {
    for (int slot = 0;; ++slot) {
      const std::string base = (guest_ / fmt::format("run.{}", slot)).string();
      Descriptor lock(::open((base + ".lock").c_str(), O_RDWR | O_CLOEXEC));
      if (!lock) {
        if (errno != ENOENT) return system_failure("open " + base + ".lock");
        if (slot == 0) return failure(Kind::guest, "no guest is running in " + guest_.string());
        return failure(Kind::busy, fmt::format("the limit of {} concurrent commands in the guest is reached", slot));
      }
      if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
      lock_ = std::move(lock);
      control_in_ = Descriptor(::open((base + ".control.in").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      control_out_ = Descriptor(::open((base + ".control.out").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
      if (!control_in_ || !control_out_) return system_failure("open " + base + ".control (the guest may have ended)");
      // Discard output of an earlier command.
      for (char buffer[512]; ::read(control_out_.get(), buffer, sizeof buffer) > 0;) continue;
      for (const auto& [name, to] : {std::pair{".out", &out_}, std::pair{".err", &err_}}) {
        auto socket = connect_to_guest(base + name);
        if (!socket) return tl::unexpected(socket.error());
        *to = std::move(*socket);
      }
      if (options_.input >= 0) {
        auto socket = connect_to_guest(base + ".in");
        if (!socket) return tl::unexpected(socket.error());
        in_ = std::move(*socket);
      }
      return {};
    }
  }

  Result<void> write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor, text.data(), text.size());
      if (written > 0)
        text.remove_prefix(static_cast<std::size_t>(written));
      else if (errno == EAGAIN) {
        pollfd waiting[] = {{descriptor, POLLOUT, 0}, {options_.stop, POLLIN, 0}};
        if (::poll(waiting, 2, 5000) == 0) return failure(Kind::timeout, "the guest accepts no command");
        if (waiting[1].revents != 0) return failure(Kind::stopped, "stopped");
      } else if (errno != EINTR) {
        return system_failure("send to the guest");
      }
    }
    return {};
  }

  int milliseconds_left() const {
    if (deadline_ == Clock::time_point::max()) return -1;
    return static_cast<int>(std::max<std::int64_t>(
        0, std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count()));
  }

  Result<RunResult> follow(const std::string& name) {
    RunResult result;
    std::string answers, to_guest;
    bool input_ended = !in_;
    while (true) {
      // The end of the input is signaled by closing the connection, which would discard unsent data. So check
      // periodically whether all data was sent.
      const bool closing = input_ended && in_;
      if (closing && to_guest.empty() && unsent(in_.get()) == 0) in_.reset();
      pollfd waiting[] = {{control_out_.get(), POLLIN, 0},
                          {out_.get(), POLLIN, 0},
                          {err_.get(), POLLIN, 0},
                          {!input_ended && to_guest.empty() ? options_.input : -1, POLLIN, 0},
                          {to_guest.empty() ? -1 : in_.get(), POLLOUT, 0},
                          {options_.stop, POLLIN, 0}};
      int patience = milliseconds_left();
      if (in_ && input_ended && (patience < 0 || patience > closing_look)) patience = closing_look;
      const int ready = ::poll(waiting, std::size(waiting), patience);
      if (ready < 0 && errno != EINTR) return system_failure("wait for " + name);
      if (ready < 0 || (ready == 0 && milliseconds_left() != 0)) continue;
      if (ready == 0)
        return failure(Kind::timeout, fmt::format("{} did not end within {} s", name,
                                                  static_cast<double>(options_.timeout.count()) / 1000));
      if (waiting[5].revents != 0) return failure(Kind::stopped, "stopped");
      if (waiting[1].revents != 0 && !pass(out_.get(), options_.output, result.output)) return lost(name);
      if (waiting[2].revents != 0 && !pass(err_.get(), options_.error, result.error)) return lost(name);
      if (waiting[3].revents != 0) {
        char buffer[4096];
        const ssize_t got = ::read(options_.input, buffer, sizeof buffer);
        if (got > 0) to_guest.assign(buffer, static_cast<std::size_t>(got));
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) input_ended = true;
      }
      if (waiting[4].revents != 0) {
        const ssize_t sent = ::send(in_.get(), to_guest.data(), to_guest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) to_guest.erase(0, static_cast<std::size_t>(sent));
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
          to_guest.clear();
          input_ended = true;
          in_.reset();
        }
      }
      if (waiting[0].revents != 0) {
        char buffer[512];
        const ssize_t got = ::read(control_out_.get(), buffer, sizeof buffer);
        if (got == 0) return lost(name);
        if (got > 0) answers.append(buffer, static_cast<std::size_t>(got));
        for (std::size_t end; (end = answers.find('\n')) != std::string::npos; answers.erase(0, end + 1)) {
          const std::string line = answers.substr(0, end);
          if (line.rfind("started ", 0) == 0) process_ = line.substr(8);
          if (line.rfind("exited ", 0) != 0) continue;
          std::from_chars(line.data() + 7, line.data() + line.size(), result.status);
          // All output has arrived, because the guest's writes wait for the host. Read what the sockets still contain.
          while (drain(out_.get(), options_.output, result.output)) continue;
          while (drain(err_.get(), options_.error, result.error)) continue;
          return result;
        }
      }
    }
  }

  tl::unexpected<LabError> lost(const std::string& name) {
    return failure(Kind::guest, "the guest ended while " + name + " was running");
  }

  // Reads available output once, and stores or forwards it. Returns false at the end of the stream or after an error.
  static bool pass(int from, int to, std::string& kept) {
    char buffer[16384];
    const ssize_t got = ::recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    keep(to, kept, {buffer, static_cast<std::size_t>(got)});
    return got != 0;
  }

  static bool drain(int from, int to, std::string& kept) {
    char buffer[16384];
    const ssize_t got = ::recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) keep(to, kept, {buffer, static_cast<std::size_t>(got)});
    return got > 0;
  }

  static void keep(int to, std::string& kept, std::string_view text) {
    if (to < 0) {
      kept += text.substr(0, RunResult::max_bytes - std::min(RunResult::max_bytes, kept.size()));
      return;
    }
    while (!text.empty()) {
      const ssize_t written = ::write(to, text.data(), text.size());
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
      if (written < 0 && errno == EAGAIN) {
        pollfd waiting{to, POLLOUT, 0};
        ::poll(&waiting, 1, 100);
      } else if (written < 0 && errno != EINTR) {
        return;  // the caller's reader has closed its end
      }
    }
  }

  static int unsent(int socket) {
    int bytes = 0;
    return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
  }

  // Kill the program, so that its output does not reach the next command.
  void abort() {
    if (process_.empty()) return;
    const Descriptor signals(::open((guest_ / "signals.in").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    const std::string order = "KILL " + process_ + "\n";
    if (!signals || ::write(signals.get(), order.data(), order.size()) < 0) return;
    const auto end = Clock::now() + std::chrono::seconds(2);
    std::string answers;
    while (Clock::now() < end && answers.find("exited") == std::string::npos) {
      pollfd waiting[] = {{control_out_.get(), POLLIN, 0}, {out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}};
      if (::poll(waiting, 3, 100) < 0) return;
      char buffer[4096];
      for (const Descriptor* stream : {&out_, &err_})
        if (::recv(stream->get(), buffer, sizeof buffer, MSG_DONTWAIT) == 0) return;
      const ssize_t got = ::read(control_out_.get(), buffer, sizeof buffer);
      if (got > 0) answers.append(buffer, static_cast<std::size_t>(got));
    }
  }

  const fs::path& guest_;
  const RunOptions& options_;
  Clock::time_point deadline_ = Clock::time_point::max();
  Descriptor lock_, control_in_, control_out_, in_, out_, err_;
  std::string process_;
};

}  // namespace

Result<RunResult> run_in_guest(const fs::path& guest, const std::vector<std::string>& argv, const RunOptions& options) {
  return Run(guest, options)(argv);
}

}  // namespace rdmawire::lab
