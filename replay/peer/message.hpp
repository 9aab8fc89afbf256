#pragma once
/// What an agent says, from bytes to values: docs/agent.md, "Framing".

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "replay/peer/error.hpp"

namespace rdmawire::peer {

/// A line is at most so long, its end not counted.
inline constexpr std::size_t most_line_bytes = std::size_t{4} << 20;
/// Objects and lists within each other. More is refused: a value so deep has no meaning here.
inline constexpr int most_depth = 32;

/// Bytes as they come, whole lines out. Its memory is bounded by the longest line.
class LineBuffer {
 public:
  enum class State : std::uint8_t { ok, overlong };

  /// Takes bytes until a line is too long: that cannot be recomputed, and nothing after it is taken.
  State append(std::string_view bytes);
  /// The next whole line without its end ("\n" or "\r\n"), until the next call. Nothing: more bytes are needed.
  std::optional<std::string_view> next();

 private:
  std::string bytes_;
  std::size_t begin_ = 0;     // of what next() has not given
  std::size_t searched_ = 0;  // no line ends before
};

/// The answer to what had this id: a result or an error.
struct Answer {
  nlohmann::json id;  ///< a number, a text, or null: the agent could not read what was asked
  PeerResult<nlohmann::json> result;
};

/// What the agent says unasked.
struct Event {
  std::string name;     ///< "async", "cm", ...
  nlohmann::json body;  ///< the whole object, "event" included
};

using Message = std::variant<Answer, Event>;

/// One line. An error says what is wrong with it.
tl::expected<Message, std::string> parse_message(std::string_view line);

/// Bytes as the protocol writes them: two hexadecimal digits each.
std::string to_hex(std::string_view bytes);
/// Nothing when it is no such text. Capital digits are read, too.
std::optional<std::string> from_hex(std::string_view text);

}  // namespace rdmawire::peer
