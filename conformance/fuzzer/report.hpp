#pragma once
/// Reports of a session as text, JSON and HTML, and Python programs that reproduce findings.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// {"format": 1, "program": …, "target": …, "seed": …, "plain": …, "feedback": {…}, "statistics": {…}, "rules": {…},
/// "groups": [{"cause": …, "rules": […], "findings": [index]}], "findings": [{"oracle": …, "signature": …, "expected":
/// …, "actual": …, "rules": […], "shown": […], "like": […], "execution": …, "times": …, "reproduced": …, "minimized":
/// {"trials": …, "restarts": …, "whole": …}, "directory": …, "steps": [text], "script": {…}}]} `running`: true if the
/// session has not ended. The report then covers its completed part.
nlohmann::ordered_json to_json(const Session& session, const std::string& target, bool running = false);
/// Text for the terminal.
std::string to_text(const Session& session, const std::string& target);
/// HTML page in the style of the other reports.
std::string to_html(const Session& session, const std::string& target);
/// Return the HTML page of a report in the format of to_json(), for example a combined report of several sessions.
std::string html_of(const std::string& report, const std::string& target);
/// Return a Python program that runs the minimized script with the Python package.
std::string to_python(const Finding& finding, const std::string& target);

/// Return the directory of a finding's files below the report directory, such as "03-protected-memory-request".
std::string directory_of(const Finding& finding, std::size_t index);
/// Return an error if the directory contains the report of another session.
tl::expected<void, std::string> check_report_directory(const Session& session, const std::filesystem::path& directory);
/// Write report.json while the session has not ended. `running`: as in to_json().
tl::expected<void, std::string> write_progress(const Session& session, const std::string& target,
                                               const std::filesystem::path& directory, bool running);
/// Write the files of one finding.
tl::expected<void, std::string> write_finding(const Session& session, std::size_t index, const std::string& target,
                                              Target& device, const std::filesystem::path& directory);
/// Write report.json, report.txt and index.html, and for each finding script.json, reproduce.py and capture.pcapng.
/// Errors contain the name of the file.
tl::expected<void, std::string> write_report(const Session& session, const std::string& target, Target& device,
                                             const std::filesystem::path& directory);

}  // namespace rdmawire::fuzzer
