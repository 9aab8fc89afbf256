/// rdmawire certify: judges a device clause by clause.

#include <fmt/format.h>

#include <filesystem>
#include <random>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string device = "lab:rxe", wire, kernel = "debian", agent;
  std::vector<std::string> only;
  std::uint64_t seed = 0;
  bool list = false, verbose = false;
};

bool wanted(const conformance::Case& which, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return true;
  for (const std::string& pattern : patterns)
    if (conformance::matches(*which.rule, pattern)) return true;
  return false;
}

Exit run(const Options& options) {
  Output output;
  if (options.list) {
    for (const conformance::Case& which : conformance::cases())
      if (wanted(which, options.only))
        output.text() += fmt::format("{:<9} {}\n          {}  [{}]\n", which.rule->alias, which.id(),
                                     which.rule->sentence, conformance::clauses_of(*which.rule));
    return output.finish() ? Exit::fine : Exit::trouble;
  }
  conformance::TargetOptions target_options;
  target_options.device = options.device;
  target_options.wire = options.wire;
  target_options.kernel = options.kernel;
  std::error_code error;
  target_options.agent = options.agent.empty()
                             ? fs::read_symlink("/proc/self/exe", error).parent_path() / "rdmawire-agent"
                             : fs::path(options.agent);
  target_options.progress = [](std::string_view line) { complain(line); };
  auto target = conformance::Target::open(target_options);
  if (!target) {
    complain("certify: " + target.error().message);
    return target.error().usage ? Exit::usage : Exit::trouble;
  }
  const std::uint64_t seed = options.seed ? options.seed : std::random_device()();
  bool unexpected = false;
  for (const conformance::Case& which : conformance::cases()) {
    if (!wanted(which, options.only)) continue;
    const conformance::CaseResult result = conformance::run_case(which, (*target)->device(), seed);
    unexpected |= result.judgement.verdict != conformance::Verdict::pass;
    output.text() +=
        fmt::format("{:<16} {:<9} {}\n", to_string(result.judgement.verdict), which.rule->alias, which.id());
    if (!result.judgement.expected.empty())
      output.text() += fmt::format("    expected {}\n", result.judgement.expected);
    if (!result.judgement.actual.empty()) output.text() += fmt::format("    actual   {}\n", result.judgement.actual);
    if (options.verbose)
      for (const conformance::Step& step : result.transcript) {
        constexpr const char* marks[] = {"-->", "<--", "dev", " ok", "   ", "!!!"};
        output.text() += fmt::format("      {} {}\n", marks[static_cast<int>(step.kind)], step.text);
      }
    for (const std::string& complaint : (*target)->complaints())
      output.text() += fmt::format("    the device complains: {}\n", complaint);
  }
  output.text() += fmt::format("seed {}\n", seed);
  if (!output.finish()) return Exit::trouble;
  return unexpected ? Exit::found : Exit::fine;
}

}  // namespace

void add_certify(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("certify", "Judges a device clause by clause.");
  auto options = std::make_shared<Options>();
  command->add_option("--device", options->device, "lab:rxe, or agent:ADDRESS with --wire")->capture_default_str();
  command->add_option("--wire", options->wire, "which leads to the device: packet:eth0");
  command->add_option("--kernel", options->kernel, "of the lab: debian, newest")->capture_default_str();
  command->add_option("--agent", options->agent, "the agent's program, for the lab");
  command->add_option("--only", options->only, "rules by id or alias, with * and ?");
  command->add_option("--seed", options->seed, "of what is chosen by chance; 0: another one each time");
  command->add_flag("--list", options->list, "the cases, with their clauses");
  command->add_flag("-v,--verbose", options->verbose, "every step of each case");
  command->callback([options, &work] { work = [options] { return run(*options); }; });
}

}  // namespace rdmawire::cli
