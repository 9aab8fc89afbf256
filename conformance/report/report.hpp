#pragma once
/// What is left of a run: for people, for machines, and as evidence.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

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

  [[nodiscard]] std::map<Verdict, std::size_t> counts() const;
  /// What monitors saw in all cases: how often each rule held, was broken, or nothing could be said.
  [[nodiscard]] Observation observed() const;
};

/// A case in the words of a terminal: its verdict, and what was expected and seen where it deviates. `steps`: the whole
/// conversation, as a ladder.
std::string text_of(const CaseResult& result, bool steps);
/// How many cases ended how, one line; another one of what monitors saw.
std::string summary(const Report& report);

/// docs/certify.md describes the keys.
nlohmann::ordered_json to_json(const Report& report);
/// As JUnit's XML is read by CI systems: a suite a group of rules, a failure for what deviates, skipped for what the
/// device lacks or nothing can be said of.
std::string to_junit(const Report& report);

/// Writes report.json, junit.xml and, in `captures`, a pcapng a case with what was said at each frame. The directory is
/// made. The error says what could not be written and why.
tl::expected<void, std::string> write(const Report& report, const std::filesystem::path& directory);

}  // namespace rdmawire::conformance
