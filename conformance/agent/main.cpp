/// rdmawire-agent: executes verbs commands of a controller on the host of a device under test. See
/// docs/reference/agent-protocol.md.

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/command.hpp"
#include "cli/options/standard_streams.hpp"
#include "cli/options/version.hpp"
#include "conformance/agent/server.hpp"
#include "replay/peer/credentials.hpp"
#include "replay/rpc/protocol.hpp"

namespace {

using namespace rdmawire::agent;
using namespace rdmawire::cli;
namespace peer = rdmawire::peer;

/// Eventfd that becomes readable when a signal stops the agent.
int stop_event = -1;
extern "C" void on_signal(int) {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_event, &one, sizeof one));
}

constexpr std::string_view program = "rdmawire-agent";

void report(const std::string& message) { write_to_standard_error(fmt::format("{}: {}\n", program, message)); }

Exit print(const std::string& text) { return write_to_standard_output(program, text) ? Exit::success : Exit::error; }

Exit failed(const std::string& message) {
  report(message);
  return Exit::error;
}

struct Options {
  std::vector<std::string> endpoints;
  std::string credentials;
  std::string new_credentials;  ///< directory
  bool commands = false, schema = false;
  std::uint64_t memory = 256;  ///< MiB
  Settings settings;
};

Exit make_credentials(const std::string& directory) {
  const auto made = peer::make_credentials(directory);
  if (!made) return failed("--make-credentials: " + made.error());
  std::string text = fmt::format("created key {}\n", made->key_id);
  if (made->earlier_keys > 0)
    text += fmt::format("{} earlier keys remain valid until you delete their lines in {}\n", made->earlier_keys,
                        made->agent_file);
  text += fmt::format("agent:       rdmawire-agent --listen tcp:0.0.0.0:18515 --credentials {}\n", made->agent_file);
  text += fmt::format("controller:  copy {} there, readable only by you, and specify it with --credentials\n",
                      made->controller_file);
  return print(text);
}

Exit serve(Options& options) {
  Settings& settings = options.settings;
  settings.most_memory = options.memory << 20U;
  if (!options.credentials.empty()) {
    auto keys = peer::read_keys(options.credentials);
    if (!keys) return failed("--credentials: " + keys.error());
    auto tls = peer::TlsContext::make(peer::TlsContext::Side::agent, std::move(*keys));
    if (!tls) return failed("--credentials: " + tls.error());
    settings.tls = std::move(*tls);
  }
  settings.log = report;

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
    // Ignore errors of standard output: the agent works without it.
    for (const std::string& name : *names) print(fmt::format("listening at {}\n", name));
  }
  loop.run();
  return Exit::success;
}

}  // namespace

int main(int argc, char** argv) {
  // The host's configuration of OpenSSL may name modules that a static program cannot load.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  Options options;
  options.settings.version = RDMAWIRE_VERSION;
  rdmawire::cli::Command command;
  command.name = "rdmawire-agent";
  command.summary = "Execute verbs commands of a controller on the host of a device under test.";
  command.description =
      "Runs until SIGTERM, SIGINT or SIGHUP. The protocol is described in docs/reference/agent-protocol.md.";
  command.usage = {"--listen ENDPOINT [OPTIONS]", "--make-credentials DIR", "--commands", "--schema"};
  command.option("--listen", "ENDPOINT", options.endpoints, "Listen on tcp:HOST:PORT, unix:PATH or serial:PATH.");
  command.option(
      "--credentials", "FILE", options.credentials,
      "Protect TCP with TLS 1.3, and accept controllers that have a key in FILE. Mandatory for TCP addresses other "
      "than loopback.");
  command.option("--make-credentials", "DIR", options.new_credentials,
                 "Create a key in the files agent.keys and controller.key of DIR, and exit.");
  command.flag("--allow-run", options.settings.allow_run, "Allow controllers to run programs on this host.");
  command.option("--memory", "MIB", options.memory, "Limit the memory regions of each session to MIB MiB.")
      .range(1, 1 << 20);
  command.flag("--commands", options.commands, "Print the messages of the protocol in Markdown.");
  command.flag("--schema", options.schema, "Print the messages of the protocol as a JSON schema.");
  command.examples = {
      {"rdmawire-agent --make-credentials /etc/rdmawire", "Create what agent and controllers need."},
      {"rdmawire-agent --listen tcp:0.0.0.0:18515 --credentials /etc/rdmawire/agent.keys",
       "Serve controllers on other hosts."},
      {"rdmawire-agent --listen serial:/dev/virtio-ports/rdmawire", "Serve the host of a virtual machine."}};
  command.statuses = {{"0", "stopped by a signal"}, {"2", "usage error"}, {"3", "error of an endpoint or a file"}};
  command.version = [] { return version_text("rdmawire-agent", RDMAWIRE_VERSION, {{"features", "ibverbs, rdmacm"}}); };
  command.date = commit_date();
  command.run = [&options](const Given&) {
    if (options.commands) return print(rdmawire::rpc::reference());
    if (options.schema) return print(rdmawire::rpc::json_schema());
    if (!options.new_credentials.empty()) {
      if (!options.endpoints.empty()) throw UsageError("--make-credentials and --listen exclude each other");
      return make_credentials(options.new_credentials);
    }
    if (options.endpoints.empty()) throw UsageError("missing option --listen");
    if (!options.credentials.empty() &&
        std::ranges::none_of(options.endpoints, [](const std::string& one) { return one.starts_with("tcp:"); }))
      throw UsageError("--credentials requires an endpoint tcp:HOST:PORT");
    return serve(options);
  };
  return run(std::move(command), argc, argv);
}
