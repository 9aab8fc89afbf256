/// The command: its subcommands, each in a file of its own.

#include <csignal>
#include <string>

#include "cli/command.hpp"

namespace {

/// What is asked for is missing: the subcommand, or an argument of one.
rdmawire::cli::Exit complain_about_command(CLI::App& app, const CLI::RequiredError& error, int argc, char** argv) {
  if (app.get_subcommands().empty()) {
    std::string names;
    for (const CLI::App* sub : app.get_subcommands({})) names += (names.empty() ? "" : ", ") + sub->get_name();
    std::string what = "which command?";
    if (argc > 1) what = std::string("there is no command \"") + argv[1] + "\";";
    rdmawire::cli::report_error(what + " there are " + names);
  } else {
    static_cast<void>(app.exit(error));
  }
  return rdmawire::cli::Exit::usage;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rdmawire::cli;
  // A reader that goes away shows as an error of writing, which ends the work quietly.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app("RDMA on the wire: native InfiniBand, RoCEv1, RoCEv2 and iWARP, decoded and explained.", "rdmawire");
  app.set_version_flag("--version", "rdmawire " RDMAWIRE_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return std::string("rdmawire: ") + error.what() + "\nrdmawire --help and rdmawire COMMAND --help tell more.\n";
  });
  app.footer(
      "rdmawire COMMAND --help tells more, with examples.\n"
      "Exit status: 0 fine, 1 found what was looked for, 2 wrong usage, 3 trouble with input or device.");

  Work work;
  add_analyze(app, work);
  add_dissect(app, work);
#ifndef RDMAWIRE_ONLY_CAPTURES
  add_check(app, work);
#ifdef RDMAWIRE_LINUX
  add_devices(app, work);
#endif
  add_dissect(app, work);
  add_capture(app, work);
#ifdef RDMAWIRE_LINUX
  add_certify(app, work);
#endif
  add_explain(app, work);
  add_extract(app, work);
#ifdef RDMAWIRE_LINUX
  add_lab(app, work);
  add_replay(app, work);
#endif

  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    return static_cast<int>(complain_about_command(app, error, argc, argv));
  } catch (const CLI::ParseError& error) {
    return static_cast<int>(app.exit(error) == 0 ? Exit::fine : Exit::usage);
  }
  return static_cast<int>(work());
}
