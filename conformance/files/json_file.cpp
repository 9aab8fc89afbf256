#include "conformance/files/json_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace rdmawire::conformance {
namespace {

using Json = nlohmann::json;

/// Returns the line of an offset in the text: "line 7".
std::string line_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  return fmt::format("line {}", 1 + std::count(before.begin(), before.end(), '\n'));
}

/// Returns the offset of the next member with this name, or npos.
std::size_t find_member(std::string_view text, std::string_view name, std::size_t from) {
  const std::string quoted = Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = text.find(quoted, from); at != std::string_view::npos; at = text.find(quoted, at + 1)) {
    const std::size_t after = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (after != std::string_view::npos && text[after] == ':') return at;
  }
  return std::string_view::npos;
}

}  // namespace

tl::expected<std::string, std::string> text_of_file(const std::filesystem::path& path) {
  constexpr std::uintmax_t most = std::uintmax_t{1} << 30;
  const auto failed = [&](std::string_view why) {
    return tl::unexpected(fmt::format("{}: could not be read: {}", path.string(), why));
  };
  std::error_code error;
  if (const std::uintmax_t size = std::filesystem::file_size(path, error); !error && size > most)
    return failed("the file is larger than 1 GiB");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  constexpr std::size_t piece = std::size_t{1} << 16;
  // The check above does not cover devices and pipes: their size is unknown.
  while (file && text.size() <= most) {
    const std::size_t before = text.size();
    text.resize(before + piece);
    file.read(text.data() + before, piece);
    text.resize(before + static_cast<std::size_t>(file.gcount()));
  }
  if (text.size() > most) return failed("the file is larger than 1 GiB");
  if (file.bad() || text.empty())
    return failed(errno ? std::strerror(errno) : "the file is empty or not a regular file");
  return text;
}

tl::expected<Json, std::string> parse_json(const std::string& text) {
  // nlohmann::json keeps only the last of several members with the same name. The others would be ignored silently.
  std::vector<std::set<std::string>> open;  // names of the members of each object that has not ended
  std::string twice;
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && twice.empty()) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open.back().insert(name).second) twice = parsed.dump(-1, ' ', true, Json::error_handler_t::replace);
    }
    return true;
  };
  try {
    Json json = Json::parse(text, check);
    if (!twice.empty()) return tl::unexpected(fmt::format("the member {} occurs twice in one object", twice));
    return json;
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: REASON"
    const std::string what = error.what();
    const std::size_t colon = what.find(": ");
    return tl::unexpected(fmt::format("{}: invalid JSON: {}", line_at(text, error.byte ? error.byte - 1 : 0),
                                      colon == std::string::npos ? what : what.substr(colon + 2)));
  } catch (const Json::out_of_range& error) {
    // "[json.exception.out_of_range.406] number overflow parsing '1e999'", without a position
    const std::string_view what = error.what();
    const std::size_t end = what.find("] ");
    return tl::unexpected(fmt::format("invalid JSON: {}", end == std::string_view::npos ? what : what.substr(end + 2)));
  }
}

std::string wrong_format(const Json& json, std::string_view text) {
  if (!json.is_object()) return "must be an object";
  const auto format = json.find("format");
  if (format == json.end()) return "missing \"format\": 1";
  if (*format != 1) return fmt::format("{}: \"format\" must be 1", line_of(text, {"format"}));
  return {};
}

std::string line_of(std::string_view text, std::initializer_list<std::string_view> members) {
  std::size_t at = 0;
  for (const std::string_view member : members) {
    const std::size_t found = find_member(text, member, at);
    if (found == std::string_view::npos) break;
    at = found;
  }
  return line_at(text, at);
}

bool is_date(std::string_view text) {
  const auto number = [&](std::size_t from, std::size_t digits, auto& value) {
    const char* end = text.data() + from + digits;
    const auto read = std::from_chars(text.data() + from, end, value);
    return read.ec == std::errc() && read.ptr == end;
  };
  unsigned year = 0, month = 0, day = 0;
  if (text.size() != 10 || text[4] != '-' || text[7] != '-' || !number(0, 4, year) || !number(5, 2, month) ||
      !number(8, 2, day))
    return false;
  return std::chrono::year_month_day(std::chrono::year(static_cast<int>(year)), std::chrono::month(month),
                                     std::chrono::day(day))
      .ok();
}

}  // namespace rdmawire::conformance
