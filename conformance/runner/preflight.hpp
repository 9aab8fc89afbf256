#pragma once
/// Checks the device, the path to it and the tester before a run, so that an error of the bench does not appear as a
/// violation by the device.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

/// The result of one check.
struct Finding {
  enum class Status : std::uint8_t { pass, warn, fail };
  Status status = Status::pass;
  std::string what;    ///< "path MTU"
  std::string found;   ///< "1024 bytes"
  std::string advice;  ///< corrective action. Empty on success
};
std::string_view to_string(Finding::Status status);

struct PreflightOptions {
  std::uint64_t seed = 1;
  std::int64_t listening = 300'000'000;  ///< nanoseconds for which the wire is checked for RDMA traffic of others
  std::int64_t clocks = 300'000'000;     ///< nanoseconds over which the two clocks are compared
};

/// Runs the checks in this order: agent, port, GID and P_Key tables, wire, clocks, other RDMA traffic, access rights, a
/// transfer. Releases all objects at the device.
std::vector<Finding> preflight(Target& target, const PreflightOptions& options = {});
/// The result for a target that could not be opened.
Finding unreachable(const TargetError& error);

[[nodiscard]] bool has_failure(const std::vector<Finding>& findings);
/// One line for each result, followed by the advice.
std::string text_of(const std::vector<Finding>& findings);

}  // namespace rdmawire::conformance
