#pragma once
/// The kinds of events that tracking tells of, explained from their table.

#include <string>
#include <string_view>

namespace rdmawire::output {

/// Every kind with its severity, meaning and causes; or, given a name ("rnr_nak", "rnr nak"), that one. Empty: no kind
/// is called so.
std::string explain_events(std::string_view name = {}, bool colors = false);
/// The same as JSON objects, one a line: {"kind":"event","id","severity","meaning","causes"}.
std::string explain_events_json(std::string_view name = {});

}  // namespace rdmawire::output
