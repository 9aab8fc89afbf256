#pragma once
/// Looks at a device, the way to it and the tester before anything is judged: what is wrong with a bench must not look
/// like a deviation of the device.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

/// One thing that was looked at.
struct Finding {
  enum class Status : std::uint8_t { pass, warn, fail };
  Status status = Status::pass;
  std::string what;    ///< "path MTU"
  std::string found;   ///< "1024 bytes"
  std::string advice;  ///< what to do; empty when it passes
};
std::string_view to_string(Finding::Status status);

struct PreflightOptions {
  std::uint64_t seed = 1;
  std::int64_t listening = 300'000'000;  ///< nanoseconds for which the wire has to be quiet; ours asks nothing then
  std::int64_t clocks = 300'000'000;     ///< nanoseconds over which the two clocks are compared
};

/// In the order in which they were looked at: the agent, the device and its port, tables, clocks, the wire, rights, a
/// transfer. Nothing is left behind at the device.
std::vector<Finding> preflight(Target& target, const PreflightOptions& options = {});
/// Of a target that could not be opened.
Finding unreachable(const TargetError& error);

[[nodiscard]] bool has_failure(const std::vector<Finding>& findings);
/// A line each, with what to do below.
std::string text_of(const std::vector<Finding>& findings);

}  // namespace rdmawire::conformance
