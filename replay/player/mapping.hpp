#pragma once
/// What takes the place of what in some captures: learnt from them, completed by mapping files and assignments.

#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "replay/rewrite/learn.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay {

struct MappingError {
  enum class Kind : std::uint8_t {
    capture,     ///< it is standard input, which is read once
    assignment,  ///< one makes no sense
    trouble,     ///< a file cannot be read, or is about other connections
    incomplete,  ///< a connection is in no mapping, and such are refused
  };
  Kind kind = Kind::trouble;
  std::string message;  ///< one sentence, without what to do about an incomplete one
};

struct Mapping {
  Learnt learnt;  ///< all that the captures hold
  FlowMap map;
  std::vector<std::string> warnings;  ///< of mapping files that name connections beside those of the captures
};

/// Reads the captures once. `entries` are mapping files and assignments (see assign()): what has a colon before its =
/// is an assignment, unless there is such a file. Without a file the map is what was learnt.
tl::expected<Mapping, MappingError> make_mapping(const std::vector<std::string>& captures,
                                                 std::span<const std::string> entries, Unmapped unmapped);

}  // namespace rdmawire::replay
