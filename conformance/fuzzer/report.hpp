#pragma once
/// Reports of a session for people and programs, and scripts for reproduction.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "conformance/fuzzer/session.hpp"

namespace rdmawire::fuzzer {

/// {"format": 1, "program": …, "target": …, "seed": …, "plain": …, "feedback": {…}, "statistics": {…}, "rules": {…},
/// "groups": [{"cause": …, "rules": […], "findings": [index]}], "findings": [{"oracle": …, "signature": …, "expected":
/// …, "actual": …, "rules": […], "shown": […], "like": […], "execution": …, "times": …, "reproduced": …, "minimized":
/// {"trials": …, "restarts": …, "whole": …}, "directory": …, "steps": [text], "script": {…}}]} `running`: the session
/// continues, and the report covers its completed part.
nlohmann::ordered_json to_json(const Session& session, const std::string& target, bool running = false);
/// Text for the terminal.
std::string to_text(const Session& session, const std::string& target);
/// HTML page in the style of the other reports.
std::string to_html(const Session& session, const std::string& target);
/// Return the page of a report in the JSON format of to_json(), for example of several sessions together.
std::string html_of(const std::string& report, const std::string& target);
/// Python program that runs the script with the Python package.
std::string to_python(const Finding& finding, const std::string& target);

/// Return the directory of a finding's files below the report directory, such as "03-protected-memory-request".
std::string directory_of(const Finding& finding, std::size_t index);
/// Return an error if the directory contains the report of another session.
tl::expected<void, std::string> check_report_directory(const Session& session, const std::filesystem::path& directory);
/// Write report.json between the runs of a session, or during one.
tl::expected<void, std::string> write_progress(const Session& session, const std::string& target,
                                               const std::filesystem::path& directory, bool running);
/// Write the files of one finding.
tl::expected<void, std::string> write_finding(const Session& session, std::size_t index, const std::string& target,
                                              Target& device, const std::filesystem::path& directory);
/// Write report.json, report.txt, index.html, and for each finding script.json, reproduce.py and capture.pcapng. The
/// error names the file.
tl::expected<void, std::string> write_report(const Session& session, const std::string& target, Target& device,
                                             const std::filesystem::path& directory);

}  // namespace rdmawire::fuzzer
