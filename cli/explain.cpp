/// rdmawire explain: what a header, field, opcode, syndrome, code or rule means.

#include "dissectors/output/explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/rules/explain_rules.hpp"
#include "conformance/rules/explanation.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* description =
    "Says what a header, field, opcode, syndrome, reason, code or conformance rule means, and where it is specified.\n"
    "Without ID: what can be explained.";
constexpr const char* examples = R"(Examples:
  rdmawire explain bth                  a header, drawn
  rdmawire explain bth.psn              a field; Wireshark's names work too
  rdmawire explain RC RDMA WRITE Only   an opcode; also: 0x0a, opcode 10
  rdmawire explain syndrome 0x60        what all of an AETH's syndrome says
  rdmawire explain rnr 14               an RNR NAK's timer
  rdmawire explain nak.sequence-error   a value by its name
  rdmawire explain events               the kinds of events that analyze tells of
  rdmawire explain RSP-009              a rule, by its number or its id
  rdmawire explain rules                all rules; rc.responder, '*.psn.*' or 'UC-*' some of them

Exit status: 0 fine, 2 nothing is called so (the nearest names are shown).)";

struct Options {
  std::vector<std::string> words;
  Colors colors = Colors::automatic;
  bool json = false;
  bool reference = false;
  bool rules = false;
};

Exit run(const Options& options) {
  Output output;
  std::string& out = output.text();
  const bool colors = use_colors(options.colors, STDOUT_FILENO);
  if (options.reference) {
    out = output::reference_page();
  } else if (options.rules) {
    out = conformance::rules_page();
  } else if (options.words.empty()) {
    out = options.json ? output::list_topics_json() + "\n"
                       : output::list_topics(colors) + "\nConformance rules: rdmawire explain rules\n";
  } else {
    const std::string query = fmt::format("{}", fmt::join(options.words, " "));
    out = conformance::explanation(query, options.json, colors);
    if (out.empty()) {
      std::string message = fmt::format("explain: nothing is called \"{}\"", query);
      const std::vector<std::string> names = conformance::nearest_explained(query);
      if (!names.empty()) message += fmt::format("; nearest: {}", fmt::join(names, ", "));
      report_error(message);
      return Exit::usage;
    }
  }
  return output.finish() ? Exit::fine : Exit::trouble;
}

}  // namespace

void add_explain(CLI::App& app, Work& work) {
  const auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("explain", description);
  sub->footer(examples);
  sub->add_option("ID", options->words, "what to explain")->type_name("");
  sub->add_flag("--json", options->json, "one JSON object a meaning (NDJSON)");
  sub->add_flag("--reference", options->reference, "the page docs/reference.md")->group("");
  sub->add_flag("--rules", options->rules, "the page docs/rules.md")->group("");
  add_color_option(*sub, options->colors);
  sub->callback([options, &work] { work = [options] { return run(*options); }; });
}

}  // namespace rdmawire::cli
