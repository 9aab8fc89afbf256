#pragma once
/// Shared by rdmawire lab and its subcommand record.

#include <string_view>

#include "cli/command.hpp"
#include "conformance/lab/error.hpp"

namespace rdmawire::cli {

/// Installs handlers for SIGINT, SIGTERM and SIGHUP that make the returned descriptor readable.
lab::StopDescriptor catch_signals();
/// The exit status after such a signal: 128 plus its number.
Exit status_of_signal();
/// Reports an error. `briefly`: only its first line, if the console messages were already reported.
Exit report_lab_error(const lab::LabError& error, bool briefly = false);

Command lab_record_command();

}  // namespace rdmawire::cli
