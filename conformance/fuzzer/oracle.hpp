#pragma once
/// Oracles detect violations: each oracle compares an outcome of a step with the outcome of the same step at a
/// conforming reference device.

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
  gone,        ///< the device ended or no longer responds
  kernel,      ///< the kernel reported a warning or an error
  protection,  ///< write-protected memory changed
  memory,      ///< memory differs from the data of valid steps
  state,       ///< the state of a queue pair, or the result of a verbs call, differs
  completion,  ///< completions or events differ
  answer,      ///< sent frames differ
  custom,      ///< oracle of the caller
};
inline constexpr std::size_t oracles = static_cast<std::size_t>(Oracle::custom) + 1;
std::string_view to_string(Oracle oracle);

/// Difference that an oracle detected.
struct Alarm {
  Oracle oracle = Oracle::answer;
  std::string expected{}, actual{};
  /// Description without numbers that differ between runs. Findings with the same signature are equal.
  std::string signature{};
};

/// Differences that two conforming devices may have.
struct Tolerance {
  bool exact = true;        ///< no differences: both are the same program
  bool memory = true;       ///< compare memory
  bool completions = true;  ///< compare completions, except time-dependent ones
  bool verbs = true;        ///< compare results of verbs calls
};

/// Return a summary of a RoCE frame, such as "RC Acknowledge, NAK PSN sequence error".
std::string summary_of(Bytes frame);

/// Return the names of different numeric fields in headers that both have: "bth.psn, aeth.msn". Empty if there are
/// none. `counts` selects the fields to compare.
std::string fields_that_differ(const HeaderStack& expected, const HeaderStack& actual,
                               bool (*counts)(const HeaderInfo& header, const Field& field));

/// Compares sent frames. Returns nothing if they are equivalent. The signature describes only the difference.
using AnswerComparison = std::optional<Alarm> (*)(const Outcome& expected, const Outcome& actual,
                                                  const Tolerance& tolerance);
/// The AnswerComparison of RoCE frames.
std::optional<Alarm> compare_roce_answers(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance);

/// Return the first alarm, or nothing. The device's memory may be empty if it was not read.
std::optional<Alarm> judge(const Step& step, const Outcome& expected, Bytes expected_memory, const Outcome& actual,
                           Bytes actual_memory, const Tolerance& tolerance,
                           AnswerComparison compare_answers = compare_roce_answers);

}  // namespace rdmawire::fuzzer
