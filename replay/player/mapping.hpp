#pragma once
/// The mapping for a replay: inferred from captures, completed by mapping files and assignments.

#include <array>
#include <cstdint>
#include <optional>
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
    assignment,  ///< an assignment is invalid, or matches nothing in the captures
    trouble,     ///< a file cannot be read or describes other connections
    incomplete,  ///< a connection has no mapping, and unmapped frames are refused
  };
  Kind kind = Kind::trouble;
  std::string message;  ///< one sentence, without a hint for incomplete mappings
};

struct Mapping {
  Learnt learnt;  ///< all contents of the captures
  FlowMap map;    ///< also contains the connections without a mapping
  /// By index in `map.connections`: number of the connection in the captures, from 1. 0: not in the captures.
  std::vector<std::uint32_t> numbers;
  std::vector<std::string> warnings;  ///< connections of mapping files that are not in the captures

  /// The numbers of PSNs and MSNs in the captures, by index in `map.connections`.
  [[nodiscard]] std::vector<std::array<std::uint32_t, 2>> psns() const { return by_index(learnt.psns); }
  [[nodiscard]] std::vector<std::array<std::uint32_t, 2>> msns() const { return by_index(learnt.msns); }

 private:
  [[nodiscard]] std::vector<std::array<std::uint32_t, 2>> by_index(
      const std::vector<std::array<std::uint32_t, 2>>& values) const;
};

/// Reads the captures once. `entries` are mapping files and assignments (see assign()): an entry with a colon before
/// its = is an assignment unless a file with this name exists. Without a mapping file, the map is the inferred one.
///
/// Mapped are the connections of the mapping files. Without mapping files, all connections are mapped. If also
/// `unmapped` is set and an assignment changes a connection, only the changed connections are mapped. With
/// Unmapped::refuse (the default with mapping files), any other connection is an error.
tl::expected<Mapping, MappingError> make_mapping(const std::vector<std::string>& captures,
                                                 std::span<const std::string> entries,
                                                 std::optional<Unmapped> unmapped);

}  // namespace rdmawire::replay
