/// rdmawire replay: captured traffic, aimed at a live device.

#include <memory>

#include "cli/replay_play.hpp"
#include "cli/replay_reactive.hpp"
#include "replay/rewrite/map_file.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* description =
    "Plays captured traffic: as it was, or rewritten for a live peer, with faults if wished.\n"
    "Reads pcap and pcapng, plain or compressed; several captures are played in order of time.";
constexpr const char* examples = R"(Examples:
  rdmawire replay x.pcap --wire packet:veth0                    as captured
  rdmawire replay x.pcap --wire file:y.pcapng --speed 10        to a file, ten times as fast
  rdmawire replay x.pcap --wire packet:veth0 --top --loops 0    until ctrl-C
  rdmawire replay x.pcap --write-map x.json                     a mapping file, to be filled in
  rdmawire replay x.pcap --map x.json --dry-run                 each rewrite as a difference
  rdmawire replay x.pcap --map x.json --wire packet:veth0
  rdmawire replay x.pcap -m ip:10.0.0.2=192.168.1.2 -m qp:0x11=0x777 --dry-run
  rdmawire replay x.pcap --wire packet:veth0 --fault 'drop psn +5 try 1'
  rdmawire replay x.pcap --split --wire packet:client --wire packet:server
  rdmawire replay x.pcap --reactive --device lab:rxe            one side of a connection, against a live rxe
  rdmawire replay x.pcap --reactive --dry-run                   the steps that it would take

Interfaces and devices outside a network namespace of their own need --allow-target.

Exit status: 0 fine, 1 --reactive: the live peer did otherwise than captured, 2 wrong usage, 3 a capture, a mapping, a
wire or a device gave trouble, or frames could not be sent.

Assignments of --map:
)";

}  // namespace

void add_replay(CLI::App& app, Work& work) {
  auto options = std::make_shared<PlayOptions>();
  CLI::App* sub = app.add_subcommand("replay", description);
  sub->footer(examples + replay::assignments_help());
  sub->add_option("files", options->files, "captures; - is standard input")->required()->type_name("FILE…");
  CLI::Option* wires =
      sub->add_option("-w,--wire", options->wires, "where to: packet:veth0, file:x.pcapng, null (docs/wires.md)")
          ->allow_extra_args(false)
          ->type_name("WIRE");
  auto* fault = sub->add_option("--fault", options->faults, "what is to happen to frames (docs/faults.md)")
                    ->allow_extra_args(false)
                    ->type_name("RULE");
  sub->add_option("--faults", options->faults_file, "the same, from a file")->excludes(fault)->type_name("FILE");
  sub->add_option("--seed", options->seed, "of faults by chance; printed when it was not given")->type_name("N");
  CLI::Option* dry = sub->add_flag("-n,--dry-run", options->dry_run, "send nothing; show each rewrite as a difference");
  sub->add_flag("--json", options->json, "the report as JSON (docs/replay.schema.json)");
  add_play_options(*sub, *options);
  auto live = std::make_shared<ReactiveOptions>();
  CLI::Option* reactive = add_reactive_options(*sub, *live);
  sub->callback([=, &work] {
    if (!reactive->empty()) {
      check_reactive_options(*sub);
      live->captures = options->files;
      if (!options->wires.empty()) live->target.wire = options->wires.front();
      live->faults = options->faults;
      live->faults_file = options->faults_file;
      live->seed = options->seed.value_or(live->seed);
      live->dry_run = options->dry_run;
      live->json = options->json;
      work = [live] { return replay_reactive(*live); };
      return;
    }
    if (wires->empty() && dry->empty() && options->write_map.empty()) throw CLI::RequiredError("--wire");
    work = [options] { return play(*options); };
  });
}

}  // namespace rdmawire::cli
