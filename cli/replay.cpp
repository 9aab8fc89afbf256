/// rdmawire replay: captured traffic, aimed at a live device.

#include <memory>

#include "cli/replay_reactive.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* examples = R"(Examples:
  rdmawire replay rc.pcap --reactive --device lab:rxe              one side of the largest connection against a live rxe
  rdmawire replay rc.pcap --reactive --dry-run                     the steps that it would take
  rdmawire replay rc.pcap --reactive --device reference --side b --fault "drop psn +5 try 1 from a" -o out.pcapng

Exit status: 0 played and answered as captured, 1 otherwise than captured, 3 not played to its end.)";

}  // namespace

void add_replay(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("replay", "Plays captured traffic against a live device.");
  auto options = std::make_shared<ReactiveOptions>();
  auto reactive = std::make_shared<bool>(false);
  command->add_option("CAPTURE", options->capture, "pcap or pcapng")->required();
  command->add_flag("--reactive", *reactive, "play one side of a connection, and wait for what the live peer says")
      ->required();
  command->add_option("--wire", options->target.wire, "which leads to the device: packet:eth1");
  command->add_option("--allow", options->target.allowed, "the address of a real device that may be sent frames")
      ->allow_extra_args(false)
      ->type_name("ADDRESS");
  command->add_option("--fault", options->faults, "what is to happen to frames: docs/faults.md");
  command->add_option("--seed", options->seed, "of live numbers, and of faults by chance")->capture_default_str();
  command->add_option("-o,--output", options->output, "record what was sent and received there: pcap, pcapng");
  command->add_flag("--dry-run", options->dry_run, "tell the steps, and send nothing");
  command->add_flag("--json", options->json, "the report as JSON");
  add_reactive_options(*command, *options);
  command->footer(examples);
  command->callback([options, &work] { work = [options] { return replay_reactive(*options); }; });
}

}  // namespace rdmawire::cli
