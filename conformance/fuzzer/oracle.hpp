#pragma once
/// What tells that a device left the specification: each oracle looks at what came of a step, beside what came of it at
/// a sound reference device that was told the same.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "conformance/fuzzer/outcome.hpp"
#include "conformance/fuzzer/script.hpp"
#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire::fuzzer {

/// In the order of their weight: a step that alarms several is told of by the first.
enum class Oracle : std::uint8_t {
  gone,        ///< the device ended, or does not answer any more
  kernel,      ///< its kernel complained
  protection,  ///< memory changed that nobody may write
  memory,      ///< memory does not hold what legal steps wrote
  state,       ///< a queue pair is in a state that the specification does not allow, or verbs are answered otherwise
  completion,  ///< its consumer is told something else
  answer,      ///< what it sends differs from what the reference device sends
  custom,      ///< the caller's own
};
inline constexpr std::size_t oracles = static_cast<std::size_t>(Oracle::custom) + 1;
std::string_view to_string(Oracle oracle);

/// What an oracle found.
struct Alarm {
  Oracle oracle = Oracle::answer;
  std::string expected{}, actual{};
  /// The same without numbers that differ from run to run: findings with the same one are one.
  std::string signature{};
};

/// What may differ between two devices that both keep to the specification.
struct Tolerance {
  bool exact = true;        ///< nothing may: both are the same program
  bool memory = true;       ///< memory is read and compared
  bool completions = true;  ///< completions are compared, but for what depends on times
  bool verbs = true;        ///< results of verbs are compared
};

/// "RC Acknowledge, NAK PSN sequence error", of a frame of RoCE.
std::string summary_of(Bytes frame);

/// Names of the numbers in which headers that both have differ: "bth.psn, aeth.msn"; empty: none do. `counts` says of a
/// field whether it is compared.
std::string fields_that_differ(const HeaderStack& expected, const HeaderStack& actual,
                               bool (*counts)(const HeaderInfo& header, const Field& field));

/// What was sent, judged: nothing, or what differs. The signature is that of the difference alone.
using AnswerJudge = std::optional<Alarm> (*)(const Outcome& expected, const Outcome& actual,
                                             const Tolerance& tolerance);
/// Of frames of RoCE.
std::optional<Alarm> judge_roce_answers(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance);

/// The first alarm, or nothing. `memory` of both; that of the device may be empty: it was not read.
std::optional<Alarm> judge(const Step& step, const Outcome& expected, Bytes expected_memory, const Outcome& actual,
                           Bytes actual_memory, const Tolerance& tolerance,
                           AnswerJudge judge_answers = judge_roce_answers);

}  // namespace rdmawire::fuzzer
