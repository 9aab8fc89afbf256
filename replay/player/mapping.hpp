#pragma once
/// The mapping for a replay: inferred from captures, completed by mapping files and assignments.

#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "replay/rewrite/learn.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay {

struct MappingError {
  enum class Kind : std::uint8_t {
    capture,     ///< the capture is standard input, which can be read only once
    assignment,  ///< an assignment is invalid
    trouble,     ///< a file cannot be read or describes other connections
    incomplete,  ///< a connection has no mapping, and unmapped frames are refused
  };
  Kind kind = Kind::trouble;
  std::string message;  ///< one sentence, without a hint for incomplete mappings
};

struct Mapping {
  Learnt learnt;  ///< all contents of the captures
  FlowMap map;
  std::vector<std::string> warnings;  ///< entries that match nothing in the captures
};

/// Reads the captures once. `entries` are mapping files and assignments (see assign()): an entry with a colon before
/// its = is an assignment unless a file with this name exists. Without a mapping file, the map is the inferred one.
tl::expected<Mapping, MappingError> make_mapping(const std::vector<std::string>& captures,
                                                 std::span<const std::string> entries, Unmapped unmapped);

}  // namespace rdmawire::replay
