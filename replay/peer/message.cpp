#include "replay/peer/message.hpp"

#include <fmt/format.h>

#include <limits>

#include "dissectors/output/printable.hpp"

namespace rdmawire::peer {

using nlohmann::json;

LineBuffer::State LineBuffer::append(std::string_view bytes) {
  if (begin_ > 0) {
    bytes_.erase(0, begin_);
    searched_ -= begin_;
    begin_ = 0;
  }
  // Only the last, incomplete line can exceed the limit.
  bytes_ += bytes;
  const std::size_t last_end = bytes_.rfind('\n');
  const std::size_t open = bytes_.size() - (last_end == std::string::npos ? 0 : last_end + 1);
  return open > most_line_bytes ? State::overlong : State::ok;
}

std::optional<std::string_view> LineBuffer::next() {
  const std::size_t end = bytes_.find('\n', searched_);
  if (end == std::string::npos) {
    searched_ = bytes_.size();
    return std::nullopt;
  }
  std::string_view line(bytes_.data() + begin_, end - begin_);
  begin_ = searched_ = end + 1;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

namespace {

/// A short, printable excerpt of a line for an error message.
std::string excerpt(std::string_view line) {
  constexpr std::size_t most = 60;
  std::string text;
  for (const char c : line.substr(0, most)) text += c >= ' ' && c <= '~' ? c : '.';
  return line.size() > most ? text + "..." : text;
}

PeerResult<json> refused(PeerError error) { return tl::unexpected(std::move(error)); }

tl::expected<PeerError, std::string> parse_error(const json& error) {
  if (!error.is_object()) return tl::unexpected(std::string("\"error\" is not an object"));
  const auto number = error.find("errno"), name = error.find("name"), message = error.find("message");
  if (number == error.end() || !number->is_number_integer())
    return tl::unexpected(std::string("\"error\" has no \"errno\""));
  if (name == error.end() || !name->is_string()) return tl::unexpected(std::string("\"error\" has no \"name\""));
  if (message == error.end() || !message->is_string())
    return tl::unexpected(std::string("\"error\" has no \"message\""));
  const auto value = number->get<std::int64_t>();
  if (value < 0 || value > std::numeric_limits<int>::max())
    return tl::unexpected(std::string("\"errno\" is not a valid error number"));
  return PeerError{PeerError::Kind::refused, static_cast<int>(value), output::printable(name->get<std::string>()),
                   output::printable(message->get<std::string>())};
}

}  // namespace

tl::expected<Message, std::string> parse_message(std::string_view line) {
  const auto wrong = [&](std::string_view why) { return tl::unexpected(fmt::format("{}: {}", why, excerpt(line))); };
  bool deep = false;
  json value = json::parse(
      line,
      [&](int depth, json::parse_event_t, json&) {
        deep |= depth > most_depth;
        return !deep;
      },
      false);
  if (deep) return wrong(fmt::format("nested more than {} levels deep", most_depth));
  if (value.is_discarded()) return wrong("invalid JSON");
  if (!value.is_object()) return wrong("not a JSON object");

  if (const auto event = value.find("event"); event != value.end()) {
    if (!event->is_string()) return wrong("\"event\" is not a string");
    std::string name = event->get<std::string>();
    return Event{std::move(name), std::move(value)};
  }
  const auto id = value.find("id");
  if (id == value.end()) return wrong("missing \"id\" or \"event\"");
  if (!id->is_number() && !id->is_string() && !id->is_null()) return wrong("\"id\" is not a number or string");
  const auto result = value.find("result"), error = value.find("error");
  if ((result == value.end()) == (error == value.end())) return wrong("expected either \"result\" or \"error\"");
  if (error == value.end()) return Answer{std::move(*id), std::move(*result)};
  auto read = parse_error(*error);
  if (!read) return wrong(read.error());
  return Answer{std::move(*id), refused(std::move(*read))};
}

}  // namespace rdmawire::peer
