/// rdmawire: the program.

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/options/version.hpp"
#include "dissectors/protocol/crc.hpp"

namespace {

std::string features() {
  std::vector<std::string> names;
#if __has_include(<linux/if_xdp.h>)
  names.emplace_back("AF_XDP");
#endif
#if __has_include(<infiniband/verbs.h>)
  names.emplace_back("ibverbs");
#endif
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::string version() {
  std::vector<std::pair<std::string, std::string>> lines{{"features", features()}};
  const rdmawire::CrcKernels kernels = rdmawire::crc_kernels();
  lines.emplace_back("CRC-32", kernels.crc32);
  lines.emplace_back("CRC-32C", kernels.crc32c);
  lines.emplace_back("VCRC", kernels.vcrc);
  lines.emplace_back("ICRC mask", kernels.icrc_mask);
  return rdmawire::cli::version_text("rdmawire", RDMAWIRE_VERSION, lines);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rdmawire::cli;
  // A closed pipe is reported by write() instead.
  std::signal(SIGPIPE, SIG_IGN);

  Command root;
  root.name = "rdmawire";
  root.summary = "Capture, decode, analyze, replay and conformance-test RDMA traffic.";
  root.description = "Supports native InfiniBand, RoCEv1, RoCEv2 and iWARP.";
#ifdef RDMAWIRE_ONLY_CAPTURES
  root.subcommands = {analyze_command(), dissect_command()};
#else
  root.subcommands = {analyze_command(), capture_command()};
#ifdef RDMAWIRE_LINUX
  root.subcommands.push_back(certify_command());
#endif
  root.subcommands.push_back(check_command());
#ifdef RDMAWIRE_LINUX
  root.subcommands.push_back(devices_command());
#endif
  root.subcommands.push_back(dissect_command());
  root.subcommands.push_back(explain_command());
  root.subcommands.push_back(extract_command());
#ifdef RDMAWIRE_LINUX
  root.subcommands.push_back(lab_command());
  root.subcommands.push_back(replay_command());
#endif
#endif
  root.examples = {{"rdmawire analyze trace.pcap", "Find out why a transfer was slow."},
                   {"rdmawire check trace.pcap", "Check captured traffic against the specifications."},
                   {"rdmawire dissect trace.pcap -V --frame 214", "Show every field of one packet."}};
  root.statuses = {{"0", "success"},
                   {"1", "findings, violations or unexpected results"},
                   {"2", "usage error"},
                   {"3", "input, output or device error"}};
  root.sections = {
      {"Environment",
       "NO_COLOR disables colors. COLUMNS sets the width of the output if standard output is not a terminal."}};
  root.version = version;
  root.date = commit_date();
  return run(std::move(root), argc, argv);
}
