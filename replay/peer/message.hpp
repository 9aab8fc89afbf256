#pragma once
/// Parses messages of an agent: docs/reference/agent-protocol.md, "Framing".

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "replay/peer/error.hpp"

namespace rdmawire::peer {

/// Maximum length of a line without its end.
inline constexpr std::size_t most_line_bytes = std::size_t{4} << 20;
/// Maximum nesting depth of objects and arrays.
inline constexpr int most_depth = 32;

/// Splits received bytes into lines. Memory is bounded by the longest line.
class LineBuffer {
 public:
  enum class State : std::uint8_t { ok, overlong };

  /// Appends bytes. After an overlong line, no more bytes are accepted.
  State append(std::string_view bytes);
  /// Returns the next line without its end ("
  /// " or "\r
  /// "), valid until the next call. nullopt: incomplete.
  std::optional<std::string_view> next();

 private:
  std::string bytes_;
  std::size_t begin_ = 0;     // start of the bytes that next() has not returned
  std::size_t searched_ = 0;  // no line ends before this position
};

/// Response to the request with this id: a result or an error.
struct Answer {
  nlohmann::json id;  ///< number or string. null: the agent could not parse the request
  PeerResult<nlohmann::json> result;
};

/// An unsolicited message of the agent.
struct Event {
  std::string name;     ///< "async", "cm", ...
  nlohmann::json body;  ///< the complete object, including "event"
};

using Message = std::variant<Answer, Event>;

/// Parses one line.
tl::expected<Message, std::string> parse_message(std::string_view line);

}  // namespace rdmawire::peer
