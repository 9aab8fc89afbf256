#pragma once
/// Merges the evidence packages of the shards of a campaign into one package.

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/report/assessment.hpp"
#include "conformance/report/package.hpp"

namespace rdmawire::conformance {

struct MergeOptions {
  std::filesystem::path directory;              ///< of the merged package
  std::vector<std::filesystem::path> packages;  ///< of the shards, in any order
  /// Accept devices with other addresses, hosts and names, if vendor, part, hardware version and firmware are equal.
  bool several_benches = false;
  bool overwrite = false;                    ///< replace the report of another run in `directory`
  std::filesystem::path sign{};              ///< Ed25519 private key (PEM) for the manifest. Empty: not signed
  const SignatureKey* public_key = nullptr;  ///< verifies the signatures of the shards. nullptr: not verified
};

/// Merges packages. The results are those of a run without shards. Fails for a modified, unfinished, partial or invalid
/// package, for a missing or repeated shard, for a case in two shards, and for shards with different setups.
tl::expected<std::shared_ptr<Assessment>, std::string> merge_packages(const MergeOptions& options);

/// The parts of report.json that the journal does not contain.
struct ReportRemainder {
  std::string date;
  std::vector<BasicViolation> basic;
  std::vector<Finding> preflight;
  ReportedCapabilities reported;   ///< only of the statements of the ICS
  CombinationCounts combinations;  ///< 0 without a strength
};
/// Parses report.json. The error contains `name`.
tl::expected<ReportRemainder, std::string> parse_report_remainder(const std::string& text, const std::string& name);

}  // namespace rdmawire::conformance
