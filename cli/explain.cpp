/// rdmawire explain: what a header, field, opcode, syndrome or code means.

#include "dissectors/faces/explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "dissectors/faces/explain_events.hpp"

namespace rdmawire::cli {
namespace {

constexpr const char* description =
    "Says what a header, field, opcode, syndrome, reason or code means, and where it is specified.\n"
    "Without ID: what can be explained.";
constexpr const char* examples = R"(Examples:
  rdmawire explain bth                  a header, drawn
  rdmawire explain bth.psn              a field; Wireshark's names work too
  rdmawire explain RC RDMA WRITE Only   an opcode; also: 0x0a, opcode 10
  rdmawire explain syndrome 0x60        what all of an AETH's syndrome says
  rdmawire explain rnr 14               an RNR NAK's timer
  rdmawire explain nak.sequence-error   a value by its name
  rdmawire explain events               the kinds of events that analyze tells of

Exit status: 0 fine, 2 nothing is called so (the nearest names are shown).)";

struct Options {
  std::vector<std::string> words;
  Colours colours = Colours::automatic;
  bool json = false;
  bool reference = false;
};

Exit run(const Options& options) {
  Output output;
  std::string& out = output.text();
  const bool colours = use_colours(options.colours, STDOUT_FILENO);
  if (options.reference) {
    out = faces::reference_page();
  } else if (options.words.empty()) {
    out = options.json ? faces::list_topics_json() + "\n" : faces::list_topics(colours);
  } else {
    const std::string query = fmt::format("{}", fmt::join(options.words, " "));
    const bool all_events = query == "events";
    const std::string_view event = all_events ? std::string_view() : std::string_view(query);
    const std::string events = options.json ? faces::explain_events_json(event) : faces::explain_events(event, colours);
    const std::vector<faces::Topic> topics = all_events ? std::vector<faces::Topic>() : faces::find_topics(query);
    if (topics.empty() && events.empty()) {
      std::string message = fmt::format("explain: nothing is called \"{}\"", query);
      const auto nearest = faces::nearest_topics(query);
      if (!nearest.empty()) message += fmt::format("; nearest: {}", fmt::join(nearest, ", "));
      complain(message);
      return Exit::usage;
    }
    for (std::size_t i = 0; i < topics.size(); ++i) {
      if (options.json) {
        out += faces::explain_json(topics[i]) + "\n";
        continue;
      }
      if (i) out += '\n';
      out += faces::explain(topics[i], colours);
    }
    if (!events.empty() && !topics.empty() && !options.json) out += '\n';
    out += events;
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
  add_colour_option(*sub, options->colours);
  sub->callback([options, &work] { work = [options] { return run(*options); }; });
}

}  // namespace rdmawire::cli
