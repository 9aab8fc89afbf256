/// rdmawire explain: what a header, field, opcode, syndrome or code means.

#include <memory>

#include "cli/command.hpp"

namespace rdmawire::cli {

void add_explain(CLI::App& app, Work& work) {
  CLI::App* sub = app.add_subcommand("explain", "Says what a header, field, opcode, syndrome or code means.");
  sub->callback([&work] { work = [] { return Exit::fine; }; });
}

}  // namespace rdmawire::cli
