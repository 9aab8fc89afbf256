#pragma once
/// The implementation conformance statement (ICS) of a device: its declared capabilities and limits, and extra
/// information for testing (IXIT): the values that a run needs. The terms are those of ISO/IEC 9646.

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

/// A capability that a device can declare.
struct Capability {
  std::string_view name;      ///< "shared_receive_queues"
  Need need = Need::nothing;  ///< of the cases that test it. nothing: their rules and variants name it
  bool roce = true, iwarp = false;
};
std::span<const Capability> capabilities();
/// Returns whether a case tests the capability.
bool tests(const Case& which, const Capability& capability);

/// Values for the options of `rdmawire certify`. The command line overrides them.
struct Ixit {
  std::optional<std::string> device{}, wire{}, credentials{};
  std::vector<std::string> allow{};
  std::optional<bool> congestion_management{}, multicast{}, slow{}, dangerous{};
  std::optional<double> case_timeout{};  ///< seconds
  std::optional<std::uint32_t> frames_per_second{}, max_device_losses{};
};

/// A file with an ICS and an IXIT, see docs/reference/ics.md.
struct Ics {
  Family family = Family::infiniband;
  std::map<std::string, bool, std::less<>> capabilities{};     ///< a missing entry makes no statement
  std::map<std::string, std::uint64_t, std::less<>> limits{};  ///< by the names of ibv_device_attr
  Ixit ixit{};

  /// Fails for a contradiction, and for an unknown member. The error contains `name`, line and member.
  static tl::expected<Ics, std::string> parse(const std::string& text, const std::string& name);
  static tl::expected<Ics, std::string> read(const std::filesystem::path& path);
  [[nodiscard]] std::optional<bool> claims(std::string_view capability) const;
};

/// The capabilities and limits that a device reports.
struct ReportedCapabilities {
  Family family = Family::infiniband;
  std::map<std::string, bool, std::less<>> capabilities{};  ///< without an entry: verbs cannot query it
  std::map<std::string, std::uint64_t, std::less<>> limits{};
};
ReportedCapabilities query_capabilities(Target& target);

/// A template that is filled with the queried values. A value that cannot be queried is null, which the reader of the
/// template replaces. `options`: the device, for the IXIT.
nlohmann::ordered_json ics_template(Target& target, const TargetOptions& options);

/// The comparison of one statement with the device.
struct IcsFinding {
  enum class Status : std::uint8_t {
    pass,        ///< declared, and passed cases or the device confirm it
    fail,        ///< declared, but the device does not have it, or cases fail
    unclaimed,   ///< declared as absent, or with a lower limit, but the device has it
    absent,      ///< declared as absent
    not_tested,  ///< declared, but untested by cases and queries
  } status = Status::pass;
  std::string member;             ///< "capabilities.xrc"
  std::string claimed, reported;  ///< "true", "16". `reported` is empty if verbs cannot query it
  std::size_t passed = 0, failed = 0, unsupported = 0, other = 0;  ///< cases that need the capability
};
std::string_view to_string(IcsFinding::Status status);

/// Changes the verdict of a case that is unsupported because a declared capability is missing: it is a fail.
void apply(const Ics& ics, const ReportedCapabilities& reported, CaseResult& result);
/// Compares each statement with the device and with the results, to which apply() was applied.
std::vector<IcsFinding> check_ics(const Ics& ics, const ReportedCapabilities& reported,
                                  std::span<const CaseResult> results);
/// The failures, unclaimed and untested statements, one line each.
std::string text_of(std::span<const IcsFinding> findings);
nlohmann::ordered_json to_json(std::span<const IcsFinding> findings);

}  // namespace rdmawire::conformance
