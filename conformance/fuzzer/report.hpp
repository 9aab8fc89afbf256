#pragma once
/// What a session found, for people, programs, and to be run again.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// {"format": 1, "program": …, "target": …, "seed": …, "statistics": {…}, "findings": [{"oracle": …, "signature": …,
/// "expected": …, "actual": …, "rules": […], "shown": […], "like": […], "execution": …, "times": …, "reproduced": …,
/// "minimized": {"trials": …, "restarts": …, "whole": …}, "directory": …, "steps": [text], "script": {…}}]}
nlohmann::ordered_json to_json(const Session& session, const std::string& target);
/// For the terminal.
std::string to_text(const Session& session, const std::string& target);
/// One page, in the form of the house's other reports.
std::string to_html(const Session& session, const std::string& target);
/// A program that runs the script by the Python package.
std::string to_python(const Finding& finding, const std::string& target);

/// "03-protected-memory-request": where a finding's files are, below the report's directory.
std::string directory_of(const Finding& finding, std::size_t index);
/// report.json, report.txt, index.html, and for each finding its script.json, reproduce.py and capture.pcapng. An
/// error: what could not be written.
tl::expected<void, std::string> write_report(const Session& session, const std::string& target, Target& device,
                                             const std::filesystem::path& directory);

}  // namespace rdmawire::fuzzer
