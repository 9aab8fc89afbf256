#pragma once
/// Flow maps as text: mapping files (JSON) and command line assignments. Described in docs/how-to/replay-a-capture.md.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay {

/// Maximum size of a mapping file in bytes.
inline constexpr std::size_t most_map_bytes = 64 << 20;

/// Parses the text of a mapping file. An error starts with its position: "line 7, column 12: …" for invalid JSON,
/// otherwise a JSON pointer (RFC 6901): "/connections/0/a/qp/live: 16777216 is more than 16777215".
tl::expected<FlowMap, std::string> read_flow_map(std::string_view text);

/// Writes a mapping file that read_flow_map() converts back to the same map. Unknown values are null, to be completed
/// by the user.
std::string write_flow_map(const FlowMap& map);

/// Applies one assignment KIND:CAPTURED=LIVE to the map: "qp:0x11=0x777", "ip:10.0.0.2=192.168.1.2",
/// "psn:10.0.0.2/0x12=77".
tl::expected<void, std::string> assign(FlowMap& map, std::string_view text);
/// All kinds of assignments with one example per line.
std::string assignments_help();

}  // namespace rdmawire::replay
