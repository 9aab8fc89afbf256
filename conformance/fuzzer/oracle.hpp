#pragma once
/// Oracles detect violations: they compare a device's outcome of a step with the outcome of the same step at the
/// reference device.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conformance/fuzzer/outcome.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::fuzzer {

/// Sorted by severity. If a step causes several alarms, the first oracle reports it.
enum class Oracle : std::uint8_t {
  gone,        ///< the device crashed or no longer responds
  kernel,      ///< the kernel reported a warning or an error
  protection,  ///< write-protected memory changed
  memory,      ///< memory differs from the data of valid steps
  state,       ///< the state of a queue pair, or the result of a verbs call, differs
  completion,  ///< completions or events differ
  answer,      ///< sent frames differ
  custom,      ///< user-defined oracle
};
inline constexpr std::size_t oracles = static_cast<std::size_t>(Oracle::custom) + 1;
std::string_view to_string(Oracle oracle);

/// Difference that an oracle detected.
struct Alarm {
  Oracle oracle = Oracle::answer;
  std::string expected{}, actual{};
  /// Description of the difference, without numbers that vary between runs. Findings with equal signatures are the
  /// same.
  std::string signature{};
};

/// Determines which differences are permitted.
struct Tolerance {
  bool exact = true;        ///< permit none, because both devices are the same program. false: as between two devices
  bool memory = true;       ///< compare memory
  bool completions = true;  ///< compare completions, except time-dependent ones
  bool verbs = true;        ///< compare results of verbs calls
};

/// Return a summary of a RoCE frame, such as "RC Acknowledge, NAK PSN sequence error".
std::string summary_of(Bytes frame);

/// Return the names of numeric fields that differ, in headers that both frames have: "bth.psn, aeth.msn". `counts`
/// selects the fields to compare.
std::string fields_that_differ(const HeaderStack& expected, const HeaderStack& actual,
                               bool (*counts)(const HeaderInfo& header, const Field& field));

/// Compares the frames that the devices sent. Returns nothing if they are equivalent. The alarm's signature describes
/// only the difference.
using AnswerComparison = std::optional<Alarm> (*)(const Outcome& expected, const Outcome& actual,
                                                  const Tolerance& tolerance);
/// The AnswerComparison of RoCE frames.
std::optional<Alarm> compare_roce_answers(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance);

/// Return the first alarm, or nothing. The device's memory may be empty if it was not read.
std::optional<Alarm> judge(const Step& step, const Outcome& expected, Bytes expected_memory, const Outcome& actual,
                           Bytes actual_memory, const Tolerance& tolerance,
                           AnswerComparison compare_answers = compare_roce_answers);

}  // namespace rdmawire::fuzzer
