#pragma once
/// Flow maps as text: the mapping file (JSON) and single assignments of the command line. docs/replay.md describes
/// both.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay {

/// Bytes of a mapping file that are read.
inline constexpr std::size_t most_map_bytes = 64 << 20;

/// Reads a mapping file's text. An error is one sentence that begins with the place: "line 7, column 12: …" where it is
/// no JSON, else a JSON pointer (RFC 6901): "/connections/0/a/qp/live: 16777216 is more than 16777215".
tl::expected<FlowMap, std::string> read_flow_map(std::string_view text);

/// Writes a mapping file; read_flow_map() gives the same map again. Values that are not known stand there as null, to
/// be filled in.
std::string write_flow_map(const FlowMap& map);

/// Changes the map by one assignment, KIND:CAPTURED=LIVE: "qp:0x11=0x777", "ip:10.0.0.2=192.168.1.2",
/// "psn:10.0.0.2/0x12=77". An error is one sentence.
tl::expected<void, std::string> assign(FlowMap& map, std::string_view text);
/// The kinds of assignments with an example each, one a line.
std::string assignments_help();

}  // namespace rdmawire::replay
