#pragma once
/// Explains the kinds of events that the tracker reports.

#include <string>
#include <string_view>

namespace rdmawire::output {

/// Returns all kinds with severity, meaning and causes, or only the kind `name` ("rnr_nak", "rnr nak"). Returns an
/// empty text if the name is unknown.
std::string explain_events(std::string_view name = {}, bool colors = false);
/// Returns JSON objects, one per line: {"kind":"event","id","severity","meaning","causes"}. `name` as above.
std::string explain_events_json(std::string_view name = {});

}  // namespace rdmawire::output
