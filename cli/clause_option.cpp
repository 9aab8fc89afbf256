#include "cli/clause_option.hpp"

#include <cstdlib>
#include <utility>

#include "conformance/rules/clause_file.hpp"

namespace rdmawire::cli {

void add_clauses_option(Command& command, std::string& file) {
  command
      .option("--clauses", "FILE", file,
              "Read clause numbers of the InfiniBand specification from FILE (JSON, see rdmawire explain "
              "--write-clauses).")
      .by_default("$RDMAWIRE_CLAUSES")
      .completes(Completion::file);
}

std::string use_clauses(const std::string& file) {
  std::string name = file;
  if (const char* environment = std::getenv("RDMAWIRE_CLAUSES"); name.empty() && environment) name = environment;
  if (name.empty()) return name;
  auto numbers = conformance::read_clause_file(name);
  if (!numbers) throw UsageError((file.empty() ? "the environment variable RDMAWIRE_CLAUSES: " : "") + numbers.error());
  conformance::use_clause_numbers(std::move(*numbers));
  return name;
}

}  // namespace rdmawire::cli
