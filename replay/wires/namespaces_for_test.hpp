#pragma once
/// Two network namespaces connected by a veth pair, for tests. No frame leaves this host.

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace rdmawire::replay::testing {

/// During its lifetime, this thread is in a namespace with the interface "here". The peer interface "there" is in
/// another namespace. Both are up and have no address.
class Namespaces {
 public:
  /// Returns null and sets `why_not` if a requirement is missing.
  static std::unique_ptr<Namespaces> make(std::string& why_not) {
    std::unique_ptr<Namespaces> made(new Namespaces());
    made->home_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (made->home_ < 0 || unshare(CLONE_NEWNET) != 0) {
      why_not = std::string("requires root for network namespaces: ") + std::strerror(errno);
      return nullptr;
    }
    made->moved_ = true;
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) return nullptr;
    made->child_ = fork();
    if (made->child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const char answer = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
      if (write(ready[1], &answer, 1) != 1) _exit(1);
      for (;;) pause();
    }
    char answer = 'n';
    const bool replied = read(ready[0], &answer, 1) == 1;
    close(ready[0]);
    close(ready[1]);
    const std::string child = std::to_string(made->child_);
    if (!replied || answer != 'y' || !made->run("ip link add here type veth peer name there netns " + child) ||
        !made->run("sysctl -qw net.ipv6.conf.here.disable_ipv6=1; ip link set here up") ||
        !made->run_there("sysctl -qw net.ipv6.conf.there.accept_dad=0; ip link set lo up; ip link set there up") ||
        !made->run(until_up("here"))) {
      why_not = "requires veth interfaces and the commands ip, nsenter and sysctl";
      return nullptr;
    }
    return made;
  }
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;
  ~Namespaces() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    if (moved_ && setns(home_, CLONE_NEWNET) != 0) std::abort();
    if (home_ >= 0) close(home_);
  }

  /// Runs a shell command in this namespace (or with run_there() in the other one) and returns whether it succeeds.
  [[nodiscard]] bool run(const std::string& command) const {
    return std::system(("exec 2>/dev/null >/dev/null; " + command).c_str()) == 0;  // NOLINT(cert-env33-c)
  }
  [[nodiscard]] bool run_there(const std::string& command) const {
    return run("nsenter -t " + std::to_string(child_) + " -n sh -c '" + command + "'");
  }
  /// Shell command that waits until the interface has a carrier. The kernel reports the carrier with a delay.
  static std::string until_up(const std::string& interface) {
    return "n=0; until ip -o link show dev " + interface +
           " | grep -q \"state UP\"; do n=$((n+1)); [ $n -lt 2000 ] || exit 1; done";
  }

 private:
  Namespaces() = default;
  int home_ = -1;
  bool moved_ = false;
  pid_t child_ = -1;
};

}  // namespace rdmawire::replay::testing
