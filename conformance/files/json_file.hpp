#pragma once
/// JSON files that users write: reading, and messages that name line and member.

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

/// Returns why a file is not an object of format 1. Empty: it is. `text`: the text of `json`.
std::string wrong_format(const nlohmann::json& json, std::string_view text);

/// "line 7", the position of a member: {"cases", "RSP-009"} is the member RSP-009 of the member "cases". The line of
/// the last member that exists.
std::string line_of(std::string_view text, std::initializer_list<std::string_view> members);

/// Returns whether the text is a day of the calendar in the form YYYY-MM-DD.
bool is_date(std::string_view text);

}  // namespace rdmawire::conformance
