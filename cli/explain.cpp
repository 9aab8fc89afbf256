/// rdmawire explain: the meaning of headers, fields, codes and conformance rules.

#include "dissectors/output/explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "captures/io/output_file.hpp"
#include "cli/clause_option.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "conformance/rules/clause_file.hpp"
#include "conformance/rules/explain_rules.hpp"
#include "conformance/rules/explanation.hpp"

namespace rdmawire::cli {
namespace explain {

struct Options {
  std::vector<std::string> words;
  std::string clauses, write_clauses;
  Colors colors = Colors::automatic;
  bool json = false;
  bool reference = false;
  bool rules = false;
};

/// Writes the clauses without a number to a new file, with the numbers of the file that is in use.
Exit write_clauses(const std::string& file, const std::string& known) {
  std::error_code error;
  if (std::filesystem::exists(file, error))
    throw UsageError(fmt::format("--write-clauses: {} exists already; specify a new file", file));
  conformance::ClauseNumbers numbers;
  if (!known.empty()) {
    auto read = conformance::read_clause_file(known);
    if (!read) throw UsageError(read.error());
    numbers = std::move(*read);
  }
  const auto written = captures::write_file(file, clause_file_template(numbers).dump(1) + "\n");
  if (!written) {
    report_error("explain: " + written.error());
    return Exit::error;
  }
  const conformance::ClauseNumberCounts counts = conformance::count_clause_numbers();
  report_error(fmt::format("explain: {} contains {} clauses without a number, and {} with one", file, counts.missing,
                           counts.supplied));
  return Exit::success;
}

Exit run(const Options& options) {
  Output output;
  std::string& out = output.text();
  const bool colors = use_colors(options.colors, STDOUT_FILENO);
  // The pages of the documentation must not contain numbers of a file.
  const std::string clauses = options.reference || options.rules ? std::string() : use_clauses(options.clauses);
  if (!options.write_clauses.empty()) return write_clauses(options.write_clauses, clauses);
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
      std::string message = fmt::format("unknown name \"{}\"", query);
      const std::vector<std::string> names = conformance::nearest_explained(query);
      if (!names.empty()) message += fmt::format("; did you mean: {}?", fmt::join(names, ", "));
      throw UsageError(message);
    }
  }
  return output.finish() ? Exit::success : Exit::error;
}

}  // namespace explain

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const conformance::Rule& rule : conformance::rules) {
    names.emplace_back(rule.alias);
    names.emplace_back(rule.id);
  }
  return names;
}

Command explain_command() {
  const auto options = std::make_shared<explain::Options>();
  Command command;
  command.name = "explain";
  command.summary = "Explain a header, field, opcode, syndrome, code, event or conformance rule.";
  command.description =
      "Prints the meaning and the section of the specification. Without ID, lists the names that can be explained. "
      "Names of Wireshark's fields are accepted.";
  command
      .argument("ID", options->words,
                "Name or value to explain: bth.psn, RC RDMA WRITE Only, syndrome 0x60, rnr 14, events, RSP-009, a "
                "rule pattern such as 'UC-*'.")
      .repeats()
      .completes(rule_names);
  command.flag("--json", options->json, "Print one JSON object for each match of the ID (NDJSON).");
  command.flag("--reference", options->reference, "Print the page docs/reference/headers.md.").hide();
  command.flag("--rules", options->rules, "Print the page docs/reference/rules.md.").hide();
  add_clauses_option(command, options->clauses);
  command
      .option("--write-clauses", "FILE", options->write_clauses,
              "Write the clauses of the InfiniBand specification whose numbers are not verified to FILE, as a template "
              "for --clauses. Numbers of --clauses are kept.")
      .completes(Completion::file);
  add_color_option(command, options->colors);
  command.examples = {{"rdmawire explain bth", "Draw a header."},
                      {"rdmawire explain syndrome 0x60", "Explain an AETH syndrome."},
                      {"rdmawire explain RSP-009", "Explain a conformance rule."}};
  command.statuses = {{"0", "success"},
                      {"2", "usage error, or an unknown name (similar names are shown)"},
                      {"3", "the output could not be written"}};
  command.run = [options](const Given&) { return explain::run(*options); };
  return command;
}

}  // namespace rdmawire::cli
