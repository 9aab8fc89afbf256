#pragma once
/// Explains the kinds of events of the tracker.

#include <string>
#include <string_view>

namespace rdmawire::output {

/// Returns all kinds with severity, meaning and causes, or only `name` ("rnr_nak", "rnr nak"). Empty if the name is
/// unknown.
std::string explain_events(std::string_view name = {}, bool colors = false);
/// Returns the same as JSON objects, one per line: {"kind":"event","id","severity","meaning","causes"}.
std::string explain_events_json(std::string_view name = {});

}  // namespace rdmawire::output
