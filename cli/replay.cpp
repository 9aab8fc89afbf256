/// rdmawire replay: sends captured traffic to wires or to a live device.

#include <memory>
#include <sstream>

#include "cli/device_options.hpp"
#include "cli/replay_play.hpp"
#include "cli/replay_reactive.hpp"
#include "replay/rewrite/map_file.hpp"

namespace rdmawire::cli {

Command replay_command() {
  const auto options = std::make_shared<PlayOptions>();
  const auto live = std::make_shared<ReactiveOptions>();
  Command command;
  command.name = "replay";
  command.summary = "Replay captures unchanged, rewritten for a live peer, or with injected faults.";
  command.description =
      "Reads pcap and pcapng files, also compressed. Multiple captures are replayed in timestamp order. With "
      "--reactive, "
      "emulates one side of a connection against a live peer.";
  command.usage = {"--wire WIRE [OPTIONS] FILE...", "--write-map FILE [OPTIONS] FILE...", "--reactive [OPTIONS] FILE"};
  command.argument("FILE", options->files, "Capture files, and directories of captures. \"-\" reads standard input.")
      .repeats()
      .must_be_given();
  command.group("Sending");
  command
      .option("-w,--wire", "WIRE", options->wires,
              "Send to this wire: packet:IFACE, file:PATH, null or another kind (see docs/reference/wires.md).")
      .completes(wire_names);
  command.flag("-n,--dry-run", options->dry_run, "Print the changes to each frame instead of sending it.");
  command.flag("--json", options->json, "Print the report as JSON (see docs/reference/schemas/replay.schema.json).");
  command.group("Faults");
  command.option("--fault", "RULE", options->faults,
                 "Inject faults, for example 'drop psn +5 try 1' (see docs/reference/fault-language.md).");
  command.option("--faults", "FILE", options->faults_file, "Read fault rules from FILE.").excludes({"--fault"});
  command.option("--seed", "N", options->seed, "Set the random seed of the faults.")
      .by_default("random, shown in the report");
  add_play_options(command, *options);
  add_reactive_options(command, *live);
  std::string assignments = replay::assignments_help();
  for (std::size_t at = 0; at < assignments.size(); ++at) {
    assignments.insert(at, "  ");
    at = std::min(assignments.find('\n', at), assignments.size());
  }
  while (assignments.ends_with('\n')) assignments.pop_back();
  command.sections = {{"Assignments of --map", assignments}};
  command.examples = {{"rdmawire replay trace.pcap --wire packet:veth0", "Send the frames as captured."},
                      {"rdmawire replay trace.pcap -m ip:10.0.0.2=192.168.1.2 -m qp:0x11=0x777 --dry-run",
                       "Show how frames would be rewritten."},
                      {"rdmawire replay trace.pcap --reactive --device lab:rxe",
                       "Emulate one side of a connection against a live rxe device."}};
  // docs/reference/tcpreplay.md contains all of them.
  command.foreign_options = {
      {"-i", "use --wire packet:IFACE"},
      {"-I", "use a second --wire packet:IFACE and --split"},
      {"--intf1", "use --wire packet:IFACE"},
      {"--intf2", "use a second --wire packet:IFACE and --split"},
      {"-c", "use --split or --split-by EXPR"},
      {"--cachefile", "use --split or --split-by EXPR"},
      {"--preload-pcap", "use --preload"},
      {"--loop", "use --loops N"},
      {"--loopdelay-ms", "use --pause 5ms"},
      {"--unique-ip", "use --ip-step N"},
      {"--unique-ip-loops", "use --ip-step-loops N"},
      {"--duration", "use --seconds N"},
      {"--multiplier", "use --speed N"},
      {"-M", "use --bps 10M"},
      {"--mbps", "use --bps 10M"},
      {"--oneatatime", "use --one-at-a-time"},
      {"--pps-multi", "use --burst N"},
      {"--maxsleep", "use --max-gap TIME"},
      {"--pid", "use --pid-file FILE"},
      {"--listnics", "use rdmawire devices"},
      {"--load-opts", "use @FILE"},
      {"-A", "use --verbose, or rdmawire dissect for all fields"},
      {"--decode", "use --verbose, or rdmawire dissect for all fields"},
      {"--portmap", "use -m port:80=8080"},
      {"-r", "use -m port:80=8080"},
      {"--pnat", "use -m ip:10.0.0.0/8=172.16.0.0/12"},
      {"-N", "use -m ip:10.0.0.0/8=172.16.0.0/12"},
      {"--srcipmap", "use -m src-ip:10.0.0.0/8=172.16.0.0/12"},
      {"--dstipmap", "use -m dst-ip:10.0.0.0/8=172.16.0.0/12"},
      {"-S", "use -m src-ip:10.0.0.0/8=172.16.0.0/12"},
      {"-D", "use -m dst-ip:10.0.0.0/8=172.16.0.0/12"},
      {"-e", "use -m ip:10.0.0.2=192.168.1.2 for each host"},
      {"--endpoints", "use -m ip:10.0.0.2=192.168.1.2 for each host"},
      {"--tcp-sequence", "use -m psn:10.0.0.2/7174=1000"},
      {"-C", "use --crc recompute"},
      {"--fixcsum", "use --crc recompute"},
      {"--mtu-trunc", "use --mtu N --too-long shorten"},
      {"-E", "use --fcs remove"},
      {"--efcs", "use --fcs remove"},
      {"--ttl", "use --hop-limit N"},
      {"--tos", "use --dscp N and --fault 'mark ce'"},
      {"--tclass", "use --dscp N and --fault 'mark ce'"},
      {"--flowlabel", "use --flow-label N"},
      {"-F", "use --truncated pad or --truncated shorten"},
      {"--fixlen", "use --truncated pad or --truncated shorten"},
      {"--fuzz-seed", "use --fault 'corrupt payload random bits 3 probability 1%' --seed N"},
      {"--fuzz-factor", "use --fault 'corrupt payload random bits 3 probability 1%' --seed N"},
      {"--fragroute", "use --mtu N --too-long fragment, or --fault RULE"},
      {"--enet-vlan-cfi", "use --vlan-dei N"},
      {"--no-flow-stats", "not needed: --flow-stats enables them"},
      {"--dlt", "not needed: frames of other link types become Ethernet frames"},
      {"--enet-dmac", "use -m mac:10.0.0.2=52:54:00:12:34:56"},
      {"--enet-smac", "use -m mac:10.0.0.2=52:54:00:12:34:56"},
      {"--enet-vlan", "use -m vlan:none=7, and -m vlan:7=none to remove it"},
      {"--enet-vlan-tag", "use -m vlan:none=7"},
      {"--enet-vlan-pri", "use --vlan-priority N"},
      {"--enet-vlan-proto", "use --vlan-type 802.1ad"},
      {"--skip-soft-errors", "use --unmapped drop"},
      {"-a", "use --split"},
      {"--auto", "use --split"},
      {"--cidr", "use --split-by 'ip.src == 10.0.0.0/8'"},
      {"--regex", "use --split-by 'ip.src in {10.0.0.2, 10.1.0.0/16}'"},
  };
  command.statuses = {{"0", "success"},
                      {"1",
                       "a fault rule without probability was never applied, or the live peer did not behave as "
                       "captured (--reactive)"},
                      {"2", "usage error"},
                      {"3", "error of a capture, mapping, wire or device, or frames could not be sent"}};
  command.run = [options, live](const Given& given) {
    if (given("--reactive")) {
      check_reactive_options(given);
      if (given("--wire") && !live->target.device.starts_with("agent:"))
        throw UsageError("--wire with --reactive requires --device agent:ADDRESS");
      live->captures = options->files;
      if (!options->wires.empty()) live->target.wire = options->wires.front();
      live->faults = options->faults;
      live->faults_file = options->faults_file;
      live->seed = options->seed.value_or(live->seed);
      live->dry_run = options->dry_run;
      live->json = options->json;
      return replay_reactive(*live);
    }
    if (!given("--wire") && !given("--dry-run") && !given("--write-map"))
      throw UsageError("one of --wire, --dry-run and --write-map is required");
    if (!options->save_options.empty()) {
      // Without itself, so that replaying with the file does not write it again.
      const std::string own = "--save-opts ";
      std::string lines = "# Options of rdmawire replay. Use: rdmawire replay @FILE CAPTURE\n";
      std::istringstream given_lines(given.lines());
      for (std::string line; std::getline(given_lines, line);)
        if (!line.starts_with(own)) lines += line + "\n";
      options->saved_lines = std::move(lines);
    }
    return play(*options);
  };
  return command;
}

}  // namespace rdmawire::cli
