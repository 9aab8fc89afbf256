/// rdmawire-agent: executes verbs commands of a controller on the host of a device under test. See
/// docs/reference/agent-protocol.md.

#include <fcntl.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/options/command.hpp"
#include "cli/options/version.hpp"
#include "conformance/agent/commands.hpp"
#include "conformance/agent/server.hpp"

namespace {

using namespace rdmawire::agent;
using namespace rdmawire::cli;

constexpr std::size_t min_secret_size = 16;  ///< bytes

/// The eventfd that signals make readable.
int stop_event = -1;
extern "C" void on_signal(int) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_event, &one, sizeof one));
}

/// The contents of a file without trailing white space.
Result<std::string> read_secret(const std::string& path) {
  struct stat what {};
  if (::stat(path.c_str(), &what) != 0) return fail(errno, "{}: {}", path, errno_text(errno));
  if ((what.st_mode & 077) != 0) {
    return fail(EPERM, "{}: other users can access this file (mode {:o}); use chmod 600", path, what.st_mode & 0777U);
  }
  std::ifstream file(path, std::ios::binary);
  std::string secret{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open()) return fail(EACCES, "cannot read {}", path);
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.size() < min_secret_size) {
    return fail(EINVAL, "{}: expected a secret of at least {} bytes, got {}", path, min_secret_size, secret.size());
  }
  return secret;
}

Exit failed(const std::string& message) {
  fmt::print(stderr, "rdmawire-agent: {}\n", message);
  return Exit::error;
}

struct Options {
  std::vector<std::string> endpoints;
  std::string secret_file;
  bool commands = false;
  std::uint64_t memory = 256;  ///< MiB
  Settings settings;
};

Exit serve(Options& options) {
  Settings& settings = options.settings;
  settings.most_memory = options.memory << 20U;
  if (sodium_init() < 0) return failed("cannot initialize libsodium");
  if (!options.secret_file.empty()) {
    auto secret = read_secret(options.secret_file);
    if (!secret) return failed("--secret-file: " + secret.error().message);
    settings.secret = std::move(*secret);
  }

  std::signal(SIGPIPE, SIG_IGN);
  stop_event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (stop_event < 0) return failed("eventfd: " + errno_text(errno));
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaction(signal, &action, nullptr);

  Loop loop;
  const auto end = loop.add_descriptor(stop_event, POLLIN, [&](short) { loop.stop(); });
  Server server(loop, settings);
  for (const std::string& endpoint : options.endpoints) {
    auto names = server.listen(endpoint);
    if (!names) return failed(names.error().message);
    for (const std::string& name : *names) fmt::print("listening at {}\n", name);
  }
  std::fflush(stdout);
  loop.run();
  return Exit::success;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.settings.version = RDMAWIRE_VERSION;
  rdmawire::cli::Command command;
  command.name = "rdmawire-agent";
  command.summary = "Execute verbs commands of a controller on the host of a device under test.";
  command.description = "Runs until SIGTERM or SIGINT. The protocol is described in docs/reference/agent-protocol.md.";
  command.usage = {"--listen ENDPOINT [OPTIONS]", "--commands"};
  command.option("--listen", "ENDPOINT", options.endpoints, "Listen at tcp:HOST:PORT, unix:PATH or serial:PATH.");
  command.option(
      "--secret-file", "FILE", options.secret_file,
      "Require controllers to authenticate with the shared secret in FILE. Mandatory for TCP addresses other "
      "than loopback.");
  command.flag("--allow-run", options.settings.allow_run, "Allow controllers to run programs on this host.");
  command.option("--memory", "MIB", options.memory, "Limit the memory regions of each session to MIB MiB.")
      .range(1, 1 << 20);
  command.flag("--commands", options.commands, "Print the commands of the protocol in Markdown.");
  command.examples = {
      {"rdmawire-agent --listen tcp:127.0.0.1:18515", "Serve controllers on this host."},
      {"rdmawire-agent --listen tcp:0.0.0.0:18515 --secret-file /etc/rdmawire.secret",
       "Serve controllers on other hosts."},
      {"rdmawire-agent --listen serial:/dev/virtio-ports/rdmawire", "Serve the host of a virtual machine."}};
  command.statuses = {{"0", "stopped by a signal"}, {"2", "usage error"}, {"3", "error of an endpoint or a file"}};
  command.version = [] { return version_text("rdmawire-agent", RDMAWIRE_VERSION, {{"features", "ibverbs, rdmacm"}}); };
  command.date = commit_date();
  command.run = [&options](const Given&) {
    if (options.commands) {
      fmt::print("{}", reference());
      return Exit::success;
    }
    if (options.endpoints.empty()) throw UsageError("missing option --listen");
    return serve(options);
  };
  return run(std::move(command), argc, argv);
}
