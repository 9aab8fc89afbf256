/// rdmawire explain: what a header, field, opcode, syndrome, code or rule means.

#include "dissectors/faces/explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/rules/explain_rules.hpp"
#include "dissectors/faces/explain_events.hpp"

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
  Colours colours = Colours::automatic;
  bool json = false;
  bool reference = false;
  bool rules = false;
};

/// The rules that `query` plainly asks for: by "rules", "rules PATTERN", an id, an alias, or a pattern with * or ?.
std::vector<const conformance::Rule*> find_rules(const std::string& query) {
  constexpr std::string_view word = "rules ";
  if (query == "rules") return conformance::select_rules("*");
  if (query.starts_with(word)) return conformance::select_rules(std::string_view(query).substr(word.size()));
  if (const conformance::Rule* rule = conformance::find_rule(query)) return {rule};
  if (query.find_first_of("*?") != std::string::npos) return conformance::select_rules(query);
  return {};
}

std::string rules_text(const std::vector<const conformance::Rule*>& rules, const Options& options, bool colours) {
  if (rules.empty()) return {};
  if (!options.json) return rules.size() == 1 ? explain_rule(*rules.front(), colours) : list_rules(rules, colours);
  std::string out;
  for (const conformance::Rule* rule : rules) out += rule_json(*rule) + "\n";
  return out;
}

/// What `query` may have meant: rules first where it looks like one.
std::vector<std::string> nearest(const std::string& query) {
  std::vector<std::string> names;
  for (const std::string_view rule : conformance::nearest_rules(query)) names.emplace_back(rule);
  if (names.empty()) names = faces::nearest_topics(query);
  return names;
}

/// Headers, fields, values and events called so; empty: none.
std::string meanings(const std::string& query, const Options& options, bool colours) {
  std::string out;
  const bool all_events = query == "events";
  const std::string_view event = all_events ? std::string_view() : std::string_view(query);
  const std::string events = options.json ? faces::explain_events_json(event) : faces::explain_events(event, colours);
  const std::vector<faces::Topic> topics = all_events ? std::vector<faces::Topic>() : faces::find_topics(query);
  for (std::size_t i = 0; i < topics.size(); ++i) {
    if (options.json) {
      out += faces::explain_json(topics[i]) + "\n";
      continue;
    }
    if (i) out += '\n';
    out += faces::explain(topics[i], colours);
  }
  if (!events.empty() && !topics.empty() && !options.json) out += '\n';
  return out + events;
}

Exit run(const Options& options) {
  Output output;
  std::string& out = output.text();
  const bool colours = use_colours(options.colours, STDOUT_FILENO);
  if (options.reference) {
    out = faces::reference_page();
  } else if (options.rules) {
    out = conformance::rules_page();
  } else if (options.words.empty()) {
    out = options.json ? faces::list_topics_json() + "\n"
                       : faces::list_topics(colours) + "\nConformance rules: rdmawire explain rules\n";
  } else {
    const std::string query = fmt::format("{}", fmt::join(options.words, " "));
    out = rules_text(find_rules(query), options, colours);
    if (out.empty()) out = meanings(query, options, colours);
    // "rc.responder" and "C9-148" may be parts of rules where they are nothing else.
    if (out.empty()) out = rules_text(conformance::select_rules(query), options, colours);
    if (out.empty()) {
      std::string message = fmt::format("explain: nothing is called \"{}\"", query);
      const std::vector<std::string> names = nearest(query);
      if (!names.empty()) message += fmt::format("; nearest: {}", fmt::join(names, ", "));
      complain(message);
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
  add_colour_option(*sub, options->colours);
  sub->callback([options, &work] { work = [options] { return run(*options); }; });
}

}  // namespace rdmawire::cli
