#pragma once
/// Reads JSON files that users write. Error messages name line and member.

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rdmawire::conformance {

/// Reads a file. Fails if it is unreadable, empty or larger than 1 GiB.
tl::expected<std::string, std::string> text_of_file(const std::filesystem::path& path);

/// Parses JSON. Fails if an object contains a member twice. The error of invalid JSON contains the line. Errors do not
/// contain the name of the file.
tl::expected<nlohmann::json, std::string> parse_json(const std::string& text);

/// Returns the error if `json` is not an object with "format": 1, otherwise an empty string. `text`: the text of
/// `json`.
std::string wrong_format(const nlohmann::json& json, std::string_view text);

/// Returns the line of a member as "line 7". `members` is its path: {"cases", "RSP-009"} is the member RSP-009 of the
/// member "cases". If the path is incomplete in the text, the line is that of its last existing member.
std::string line_of(std::string_view text, std::initializer_list<std::string_view> members);

/// Returns whether the text is a day of the calendar in the form YYYY-MM-DD.
bool is_date(std::string_view text);

}  // namespace rdmawire::conformance
