#pragma once
/// The environment of a case: the parameters that its clause does not determine, such as the path MTU, the first PSNs,
/// other queue pairs, and earlier traffic of the connection.
///
/// The bench creates connections and regions with the values of the environment. A case keeps a parameter at another
/// value if it sets the option explicitly, or if it calls Environment::fix() with a reason. A row contains one value
/// for each parameter of the family. Index 0 is the default value, so the row of zeros is the default row.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/cases/device_under_test.hpp"
#include "conformance/cases/parameters.hpp"

namespace rdmawire::conformance {

enum class Parameter : std::uint8_t {
  // RoCE
  path_mtu,
  tester_psn,  ///< PSN of the first request of the tester in the case
  device_psn,  ///< PSN of the first request of the device in the case
  history,     ///< traffic of the connection before the case
  network,
  udp_source_port,
  traffic_class,
  reads_at_once,  ///< max_dest_rd_atomic of the device
  own_reads,      ///< max_rd_atomic of the device
  receive_sges,
  send_sges,
  // iWARP
  markers,         ///< in the device's stream
  segments,        ///< TCP segments of the tester's FPDUs
  mss,             ///< of the device's TCP segments
  private_data,    ///< bytes in the tester's MPA frame
  stream_history,  ///< messages of the stream before the case
  // Both families
  other_qps,  ///< other connections of the device
  region,     ///< position of the region among the regions of the device
  send_queue,
};
inline constexpr std::size_t parameter_count = static_cast<std::size_t>(Parameter::send_queue) + 1;

struct ParameterInfo {
  Parameter parameter;
  std::string_view name;                 ///< "path MTU"
  std::vector<std::string_view> values;  ///< "1024", "256", … The default first
  bool roce = false, iwarp = false;      ///< the families
  std::string_view sentence;             ///< the effect of the parameter
};
/// All parameters in the order of Parameter.
std::span<const ParameterInfo> all_parameters();
inline const ParameterInfo& info_of(Parameter parameter) {
  return all_parameters()[static_cast<std::size_t>(parameter)];
}
/// The row of default values. Rows have one element for each Parameter. Those of the other family are 0.
inline ParameterRow default_row() { return ParameterRow(parameter_count, 0); }

/// The values that a device supports.
class EnvironmentLimits {
 public:
  EnvironmentLimits() = default;
  explicit EnvironmentLimits(const DeviceUnderTest& device);
  [[nodiscard]] bool allows(Parameter parameter, std::size_t value) const;
  /// Returns whether the device supports each value of a row.
  [[nodiscard]] bool allows(const ParameterRow& row) const;

  friend auto operator<=>(const EnvironmentLimits&, const EnvironmentLimits&) = default;

 private:
  bool iwarp_ = false;
  std::uint32_t mtu_ = 4096;
  bool ipv6_ = true, vlan_ = true;
  std::uint64_t reads_at_once_ = 255, own_reads_ = 255, sges_ = 255;
};

/// How a case uses a parameter.
enum class ParameterUse : std::uint8_t {
  none,   ///< the parameter has no effect on the case
  free,   ///< the value of the row is used
  fixed,  ///< the case determines the value
};

class Environment {
 public:
  Environment() : row_(default_row()) {}
  explicit Environment(ParameterRow row) : row_(std::move(row)) {}

  /// Returns the value of the row for a parameter, or 0 if the case fixes it. Records the use.
  std::size_t take(Parameter parameter);
  /// Keeps a parameter at its default value, for a reason that the report contains. Call it before connections exist.
  void fix(Parameter parameter, std::string_view reason);
  /// Records that the case sets the option explicitly. A free use by another connection takes precedence.
  void set_by_case(Parameter parameter);

  [[nodiscard]] const ParameterRow& row() const { return row_; }
  [[nodiscard]] ParameterUse use(Parameter parameter) const { return uses_[static_cast<std::size_t>(parameter)]; }
  /// The reason of a fixed parameter.
  [[nodiscard]] const std::string& reason(Parameter parameter) const {
    return reasons_[static_cast<std::size_t>(parameter)];
  }

 private:
  ParameterRow row_;
  std::array<ParameterUse, parameter_count> uses_{};
  std::array<bool, parameter_count> declared_{};
  std::array<std::string, parameter_count> reasons_{};
};

/// An option of a connection. A case that does not set it leaves it to the environment.
template <class T>
class Option {
 public:
  // Cases set options by designated initializers.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Option(T value) : value_(value), set_(true) {}
  /// An option that is not set, with its default value.
  static constexpr Option usual(T value) {
    Option option(value);
    option.set_ = false;
    return option;
  }
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator T() const { return value_; }
  [[nodiscard]] constexpr T value() const { return value_; }
  [[nodiscard]] constexpr bool is_set() const { return set_; }
  /// Uses the value of the environment at this index of `values`, unless the case sets the option.
  template <std::size_t N>
  void resolve(Environment& environment, Parameter parameter, const std::array<T, N>& values) {
    if (set_) return environment.set_by_case(parameter);
    value_ = values[environment.take(parameter)];
  }

 private:
  T value_;
  bool set_;
};

/// Selects the parameters that the rows vary: bit n for the n-th Parameter.
using ParameterSet = std::uint32_t;
/// The parameters that a case uses and does not fix.
ParameterSet free_parameters(const Environment& environment);

/// Returns rows that contain each possible combination of `strength` values of the free parameters. The default row is
/// the first one. Deterministic by seed. Strength 0: only the default row. Thread-safe.
std::vector<ParameterRow> environment_rows(ParameterSet free, const EnvironmentLimits& limits, unsigned strength,
                                           std::uint64_t seed);
/// The combinations of `strength` values of the free parameters, and those in the rows.
CombinationCounts environment_combinations(ParameterSet free, const EnvironmentLimits& limits, unsigned strength,
                                           const std::vector<ParameterRow>& rows);

/// "path MTU=256,history=NAK": the values other than defaults. Empty: the default row.
std::string text_of_row(const ParameterRow& row);
/// Parses the text of a row. The error lists the names or values that are allowed.
tl::expected<ParameterRow, std::string> parse_row(std::string_view text);

}  // namespace rdmawire::conformance
