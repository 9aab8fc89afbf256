/// rdmawire-agent: does with verbs what a controller asks, beside a device under test. docs/agent.md.

#include <fcntl.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/server.hpp"

namespace {

using namespace rdmawire::agent;

constexpr std::size_t least_secret = 16;

/// Where a signal says that it is time to end.
int ending = -1;
extern "C" void on_signal(int) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(ending, &one, sizeof one));
}

/// The bytes of a file without white space at its end.
Result<std::string> read_secret(const std::string& path) {
  struct stat what {};
  if (::stat(path.c_str(), &what) != 0) return fail(errno, "{}: {}", path, errno_text(errno));
  if ((what.st_mode & 077) != 0) {
    return fail(EPERM, "{}: others may read or write it (mode {:o}); chmod 600 makes it a secret", path,
                what.st_mode & 0777U);
  }
  std::ifstream file(path, std::ios::binary);
  std::string secret{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open()) return fail(EACCES, "{}: cannot be read", path);
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.size() < least_secret) {
    return fail(EINVAL, "{}: a secret has at least {} bytes, not {}", path, least_secret, secret.size());
  }
  return secret;
}

int report_error(const std::string& what) {
  fmt::print(stderr, "rdmawire-agent: {}\n", what);
  return 3;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs beside an RDMA device under test and does with verbs what a controller asks.", "rdmawire-agent");
  app.set_version_flag("--version", "rdmawire-agent " RDMAWIRE_VERSION);
  app.get_formatter()->column_width(28);
  std::vector<std::string> endpoints;
  std::string secret_file;
  bool document = false;
  std::uint64_t memory = 256;
  Settings settings;
  settings.version = RDMAWIRE_VERSION;
  app.add_option("--listen", endpoints, "tcp:HOST:PORT, unix:PATH or serial:PATH; may be repeated")
      ->type_name("ENDPOINT");
  app.add_option("--secret-file", secret_file,
                 "controllers must prove that they know what this file holds; needed beyond loopback")
      ->type_name("FILE");
  app.add_flag("--allow-run", settings.allow_run, "controllers may run programs here");
  app.add_option("--memory", memory, "MiB of memory regions that a session may have (256)")
      ->type_name("MIB")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--commands", document, "prints what controllers can ask, in Markdown");
  app.footer(
      "rdmawire-agent --listen tcp:127.0.0.1:18515\n"
      "rdmawire-agent --listen tcp:0.0.0.0:18515 --secret-file /etc/rdmawire.secret\n"
      "rdmawire-agent --listen serial:/dev/virtio-ports/rdmawire\n"
      "Ends with SIGTERM or SIGINT. Exit status: 0 ended by a signal, 2 wrong usage, 3 trouble with an endpoint or "
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
    fmt::print(stderr, "rdmawire-agent: where should it listen? --listen says that; --help tells more\n");
    return 2;
  }
  settings.most_memory = memory << 20U;
  if (sodium_init() < 0) return report_error("libsodium could not be set up");
  if (!secret_file.empty()) {
    auto secret = read_secret(secret_file);
    if (!secret) return report_error("--secret-file: " + secret.error().message);
    settings.secret = std::move(*secret);
  }

  std::signal(SIGPIPE, SIG_IGN);
  ending = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (ending < 0) return report_error("eventfd: " + errno_text(errno));
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaction(signal, &action, nullptr);

  Loop loop;
  const auto end = loop.add_descriptor(ending, POLLIN, [&](short) { loop.stop(); });
  Server server(loop, settings);
  for (const std::string& endpoint : endpoints) {
    auto taken = server.listen(endpoint);
    if (!taken) return report_error(taken.error().message);
    for (const std::string& name : *taken) fmt::print("listening at {}\n", name);
  }
  std::fflush(stdout);
  loop.run();
  return 0;
}
