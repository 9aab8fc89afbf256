#pragma once
/// What is left of a run: for people, for machines, and as evidence.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/runner/expected.hpp"
#include "conformance/runner/preflight.hpp"
#include "conformance/runner/run.hpp"

namespace rdmawire::conformance {

/// Said in every report, whatever its form.
inline constexpr std::string_view disclaimer =
    "Clauses are named as we read them. This is no certification by IBTA, UNH-IOL or any other body.";

/// One run of cases against one device.
struct Report {
  std::string device;   ///< "lab:rxe"
  std::string details;  ///< what the device and its host say of themselves: "Linux 6.1.0-30-amd64, rxe0"
  std::uint64_t seed = 0;
  std::int64_t nanoseconds = 0;
  std::vector<CaseResult> results;
  std::string partial = {};             ///< why not all cases ran that were asked for; empty: they did
  std::vector<Finding> preflight = {};  ///< what was looked at before, if anything was
  std::vector<Change> changes = {};     ///< since an earlier run, if one was named
  std::string date = {};                ///< YYYY-MM-DD on which it ran; empty: not told
  /// What is known of the device's results; nullptr: nothing. Not owned.
  const ExpectedResults* expected = nullptr;
  bool strict = false;  ///< deviations from what a device only should do are unexpected, too

  [[nodiscard]] std::map<Verdict, std::size_t> counts() const;
  /// What monitors saw in all cases: how often each rule held, was broken, or nothing could be said.
  [[nodiscard]] Observation observed() const;
  /// The rules with a monitor that are of a family of its cases.
  [[nodiscard]] std::vector<RuleId> watched() const;
};

/// A case in the words of a terminal: its verdict, and what was expected and seen where it deviates. `steps`: the whole
/// conversation, as a ladder.
std::string text_of(const CaseResult& result, bool steps);
/// "of 3 runs 2 pass, 1 fail"
std::string attempts_of(const CaseResult& result);
/// How many cases ended how, one line; another one of what monitors saw, and one where not all ran.
std::string summary(const Report& report);

/// docs/certify.md describes the keys, docs/certify.schema.json their form.
nlohmann::ordered_json to_json(const Report& report);
/// One of its cases, without what is known of it. Of its steps the first 1000 and the last 200.
nlohmann::ordered_json to_json(const CaseResult& result);
/// The same back; nothing when it is none, or its case does not exist.
std::optional<CaseResult> result_of(const nlohmann::json& json);
/// Steps as they stand there.
nlohmann::ordered_json steps_json(const Transcript& transcript);
/// At most so many of the first and of the last steps; a note stands for those between.
Transcript abridged(const Transcript& all, std::size_t first, std::size_t last);
/// As JUnit's XML is read by CI systems: a suite a group of rules, a failure for what deviates, skipped for what the
/// device lacks or nothing can be said of.
std::string to_junit(const Report& report);

/// One page that needs nothing else: the whole report, with the frames and their headers. `captures`: where those of
/// the cases are, from the page; empty: nowhere. Its size is bounded: of a case the first 400 steps, of a frame the
/// first 256 bytes.
std::string to_html(const Report& report, std::string_view captures);
/// A case's id, as the name of the file of its capture.
std::string capture_name(const CaseResult& result);

/// Writes text to a file. The error says which, and why it could not be written.
tl::expected<void, std::string> write_text(const std::filesystem::path& path, const std::string& text);
/// Writes a pcapng of the case's frames, with what was said at each, to its place in `directory`/captures, which is
/// made.
tl::expected<void, std::string> write_capture(const CaseResult& result, const std::filesystem::path& directory);
/// Writes report.json, junit.xml and index.html, which takes the captures to be there. The directory is made. The error
/// says what could not be written and why.
tl::expected<void, std::string> write(const Report& report, const std::filesystem::path& directory);

}  // namespace rdmawire::conformance
