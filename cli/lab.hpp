#pragma once
/// What the parts of `rdmawire lab` share.

#include <string_view>

#include "cli/command.hpp"
#include "conformance/lab/error.hpp"

namespace rdmawire::cli {

/// ctrl-C, SIGTERM and SIGHUP make this readable from now on, instead of ending us.
lab::StopDescriptor catch_signals();
/// The status of a command that such a signal ended, as shells say it.
Exit status_of_signal();
/// Says what went wrong; `briefly`: its first line, because the console's lines behind it were told already.
Exit trouble(const lab::LabError& error, bool briefly = false);

/// `rdmawire lab record`
void add_lab_record(CLI::App& lab, Work& work);

}  // namespace rdmawire::cli
