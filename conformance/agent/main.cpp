/// rdmawire-agent: executes verbs commands of a controller on the host of a device under test. docs/agent.md.

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

/// eventfd that the signal handler writes.
int ending = -1;
extern "C" void on_signal(int) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_event, &one, sizeof one));
}

/// Reads a file without trailing white space.
Result<std::string> read_secret(const std::string& path) {
  struct stat what {};
  if (::stat(path.c_str(), &what) != 0) return fail(errno, "{}: {}", path, errno_text(errno));
  if ((what.st_mode & 077) != 0) {
    return fail(EPERM, "{}: accessible to other users (mode {:o}); run chmod 600", path, what.st_mode & 0777U);
  }
  std::ifstream file(path, std::ios::binary);
  std::string secret{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open()) return fail(EACCES, "{}: cannot read the file", path);
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.size() < least_secret) {
    return fail(EINVAL, "{}: the secret must have at least {} bytes, not {}", path, least_secret, secret.size());
  }
  return secret;
}

Exit failed(const std::string& message) {
  fmt::print(stderr, "rdmawire-agent: {}\n", message);
  return Exit::error;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Execute verbs commands of a controller on the host of an RDMA device under test.", "rdmawire-agent");
  app.set_version_flag("--version", "rdmawire-agent " RDMAWIRE_VERSION);
  app.get_formatter()->column_width(28);
  std::vector<std::string> endpoints;
  std::string secret_file;
  bool commands = false;
  std::uint64_t memory = 256;  ///< MiB
  Settings settings;
  settings.version = RDMAWIRE_VERSION;
  app.add_option("--listen", endpoints, "Listen on tcp:HOST:PORT, unix:PATH or serial:PATH. May be repeated.")
      ->type_name("ENDPOINT");
  app.add_option(
         "--secret-file", secret_file,
         "Require controllers to authenticate with the secret in FILE. Mandatory except for loopback addresses.")
      ->type_name("FILE");
  app.add_flag("--allow-run", settings.allow_run, "Allow controllers to run programs on this host.");
  app.add_option("--memory", memory, "Limit the memory regions of a session, in MiB [default: 256].")
      ->type_name("MIB")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--commands", document, "Print the commands in Markdown and exit.");
  app.footer(
      "rdmawire-agent --listen tcp:127.0.0.1:18515\n"
      "rdmawire-agent --listen tcp:0.0.0.0:18515 --secret-file /etc/rdmawire.secret\n"
      "rdmawire-agent --listen serial:/dev/virtio-ports/rdmawire\n"
      "SIGTERM or SIGINT ends the agent. Exit status: 0 ended by a signal, 2 usage error, 3 error of an endpoint or "
      "file.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (document) {
    fmt::print("{}", reference());
    return 0;
  }
  if (endpoints.empty()) {
    fmt::print(stderr, "rdmawire-agent: missing --listen; use --help for usage\n");
    return 2;
  }
  settings.most_memory = memory << 20U;
  if (sodium_init() < 0) return report_error("cannot initialize libsodium");
  if (!secret_file.empty()) {
    auto secret = read_secret(secret_file);
    if (!secret) return report_error("--secret-file: " + secret.error().message);
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
  for (const std::string& endpoint : endpoints) {
    auto taken = server.listen(endpoint);
    if (!taken) return report_error(taken.error().message);
    for (const std::string& name : *taken) fmt::print("listening on {}\n", name);
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
  command.description = "Runs until SIGTERM or SIGINT. The protocol is described in docs/agent.md.";
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
