#include "conformance/fuzzer/oracle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "conformance/fuzzer/connections.hpp"
#include "conformance/fuzzer/layout.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::fuzzer {

namespace {

constexpr std::array<std::string_view, oracles> oracle_names = {
    "device gone", "kernel message", "protected memory", "memory", "state", "completion", "answer", "custom"};

bool is_writable(std::uint64_t offset) {
  return std::ranges::any_of(layout::writable,
                             [&](layout::Range range) { return offset >= range.offset && offset < range.end(); });
}

std::string_view name_of_place(std::uint64_t offset) {
  constexpr std::pair<std::string_view, layout::Range> places[] = {
      {"everything", layout::everything}, {"read_only", layout::read_only}, {"write_only", layout::write_only},
      {"closed", layout::closed},         {"foreign", layout::foreign},     {"fast", layout::fast},
      {"receives", layout::receives},     {"local", layout::local}};
  for (const auto& [name, range] : places)
    if (offset >= range.offset && offset < range.end()) return name;
  return "no region";
}

std::string bytes_at(Bytes memory, std::size_t offset) {
  std::string text;
  for (std::size_t i = offset; i < std::min(offset + 8, memory.size()); ++i) text += fmt::format("{:02x}", memory[i]);
  return text;
}

/// Report the first difference in write-protected memory. If there is none, report the first one in other memory.
std::optional<Alarm> compare_memory(Bytes expected, Bytes actual) {
  if (actual.size() != expected.size() || std::memcmp(actual.data(), expected.data(), actual.size()) == 0)
    return std::nullopt;
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    if (!first) first = i;
    if (is_writable(i)) continue;
    first = i;
    break;
  }
  const std::string_view place = name_of_place(*first);
  const bool open = is_writable(*first);
  Alarm alarm{.oracle = open ? Oracle::memory : Oracle::protection};
  alarm.expected = fmt::format("{}: bytes {} at {:#x}", place, bytes_at(expected, *first), *first);
  alarm.actual = fmt::format("bytes {}", bytes_at(actual, *first));
  alarm.signature = fmt::format("{} changed", place);
  return alarm;
}

/// Frame fields that must be equal for all devices.
struct FrameSummary {
  int opcode = -1;
  std::uint32_t psn = 0, qpn = 0;
  int syndrome = -1;
};

FrameSummary summarize(Bytes frame) {
  const HeaderStack stack = decode(frame);
  FrameSummary summary;
  if (const auto bth = stack.get<Bth>()) {
    summary.opcode = bth->get<"opcode">();
    summary.psn = bth->get<"psn">();
    summary.qpn = bth->get<"dest_qp">();
  }
  if (const auto aeth = stack.get<Aeth>()) summary.syndrome = aeth->get<"syndrome">();
  return summary;
}

std::string_view result_name(int result) { return result == 0 ? "done" : "refused"; }

/// Return the names of the fields in which two RoCE frames differ. Computed fields outside the BTH are ignored, because
/// they depend on other fields.
std::string difference(Bytes expected, Bytes actual) {
  const std::string names = fields_that_differ(
      decode(expected), decode(actual),
      [](const HeaderInfo& header, const Field& field) { return !field.is_computed || &header == &info<Bth>; });
  return !names.empty() ? names : expected.size() == actual.size() ? "payload" : "length";
}

std::optional<Alarm> compare_frames_exactly(const Outcome& expected, const Outcome& actual) {
  const auto same = std::ranges::mismatch(expected.frames, actual.frames);
  const bool ended = same.in1 == expected.frames.end(), other_ended = same.in2 == actual.frames.end();
  if (ended && other_ended) return std::nullopt;
  Alarm alarm{.oracle = Oracle::answer};
  alarm.expected = ended ? "silence" : summary_of(*same.in1);
  alarm.actual = other_ended ? "silence" : summary_of(*same.in2);
  alarm.signature = fmt::format("{} instead of {}", alarm.actual, alarm.expected);
  if (ended || other_ended) return alarm;
  const FrameSummary a = summarize(*same.in1), b = summarize(*same.in2);
  if (alarm.expected == alarm.actual) alarm.signature = alarm.expected + ": " + difference(*same.in1, *same.in2);
  alarm.expected += fmt::format(", psn {}", a.psn);
  alarm.actual += fmt::format(", psn {}; {} differ", b.psn, difference(*same.in1, *same.in2));
  return alarm;
}

/// Compare NAKs and responses to READs and atomics, which must be equal. ACKs are not compared, because they may be
/// coalesced.
std::optional<Alarm> compare_frames(const Outcome& expected, const Outcome& actual) {
  struct Notable {
    FrameSummary summary;
    std::string text;
  };
  const auto notable = [](const Outcome& outcome) {
    std::vector<Notable> all;
    for (const auto& frame : outcome.frames) {
      FrameSummary summary = summarize(frame);
      for (const Outcome::Drawn& one : outcome.drawn)
        if (one.qpn == summary.qpn) summary.psn = (summary.psn - one.beyond) & 0xffffff;
      const Opcode& op = opcode(static_cast<std::uint8_t>(summary.opcode));
      if (summary.opcode < 0 || !op.known || op.direction != Direction::response) continue;
      const bool ack =
          op.operation == Operation::acknowledge && Syndrome(static_cast<std::uint8_t>(summary.syndrome)).is_ack();
      if (!ack) all.push_back({summary, summary_of(frame)});
    }
    return all;
  };
  const auto a = notable(expected), b = notable(actual);
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const bool same = i < a.size() && i < b.size() && a[i].text == b[i].text && a[i].summary.psn == b[i].summary.psn;
    if (same) continue;
    Alarm alarm{.oracle = Oracle::answer};
    alarm.expected = i < a.size() ? fmt::format("{}, psn {}", a[i].text, a[i].summary.psn) : "silence or an ACK";
    alarm.actual = i < b.size() ? fmt::format("{}, psn {}", b[i].text, b[i].summary.psn) : "silence or an ACK";
    alarm.signature = fmt::format("{} instead of {}", i < b.size() ? b[i].text : "silence or ACK",
                                  i < a.size() ? a[i].text : "silence or ACK");
    return alarm;
  }
  return std::nullopt;
}

/// Compare CM messages: all mandatory ones must be present. Additional ones may be retransmissions.
std::optional<Alarm> compare_messages(const Outcome& expected, const Outcome& actual) {
  const auto due = messages_among(expected.frames);
  if (due.empty()) return std::nullopt;
  const auto came = messages_among(actual.frames);
  const auto name = [](std::uint16_t attribute) {
    const Name* known = cm_attribute_names.find(attribute);
    return known ? std::string(known->name) : fmt::format("attribute {:#06x}", attribute);
  };
  for (const std::uint16_t one : due) {
    if (std::ranges::find(came, one) != came.end()) continue;
    Alarm alarm{.oracle = Oracle::answer, .expected = "CM message " + name(one)};
    alarm.actual = came.empty() ? "no CM message" : "CM message " + name(came.front());
    alarm.signature = fmt::format("{} instead of {}", alarm.actual, alarm.expected);
    return alarm;
  }
  return std::nullopt;
}

/// Return the outcome without flushed completions, whose time is implementation-defined.
Outcome without_flushed(const Outcome& outcome) {
  Outcome left = outcome;
  std::erase_if(left.completions, [](const device::Completion& c) { return c.status == device::Status::flushed; });
  return left;
}

std::optional<Alarm> compare_completions(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance) {
  const auto text = [](const device::Completion& c) {
    return fmt::format("completion of {}, status {}, opcode {}, {} bytes", c.id, static_cast<int>(c.status),
                       static_cast<int>(c.opcode), c.bytes);
  };
  const std::size_t count = std::max(expected.completions.size(), actual.completions.size());
  for (std::size_t i = 0; i < count; ++i) {
    const bool there = i < expected.completions.size(), here = i < actual.completions.size();
    if (there && here) {
      const device::Completion &a = expected.completions[i], &b = actual.completions[i];
      const bool good = a.status == device::Status::success;
      const bool received = a.opcode >= device::CompletionOpcode::receive;
      // The byte count of send completions, except READs, is undefined.
      const bool counted = received || a.opcode == device::CompletionOpcode::read;
      const bool same_bytes = !counted || a.bytes == b.bytes;
      const bool same_immediate =
          !received || (a.has_immediate == b.has_immediate && (!a.has_immediate || a.immediate == b.immediate));
      const bool same = a.id == b.id && good == (b.status == device::Status::success) &&
                        (!good || (a.opcode == b.opcode && same_bytes && same_immediate));
      if (tolerance.exact ? a == b : same) continue;
    }
    const auto kind = [&](const Outcome& of) {
      return i < of.completions.size() ? fmt::format("status {}", static_cast<int>(of.completions[i].status))
                                       : std::string("none");
    };
    Alarm alarm{.oracle = Oracle::completion};
    alarm.expected = there ? text(expected.completions[i]) : "no completion";
    alarm.actual = here ? text(actual.completions[i]) : "no completion";
    alarm.signature = fmt::format("completion {} instead of {}", kind(actual), kind(expected));
    return alarm;
  }
  if (!tolerance.exact) return std::nullopt;
  if (expected.events != actual.events || expected.notified != actual.notified)
    return Alarm{
        .oracle = Oracle::completion,
        .expected = fmt::format("{} asynchronous events, {} notifications", expected.events.size(), expected.notified),
        .actual = fmt::format("{} and {}", actual.events.size(), actual.notified),
        .signature = "events"};
  if (const auto same = std::ranges::mismatch(expected.connection_events, actual.connection_events);
      same.in1 != expected.connection_events.end() || same.in2 != actual.connection_events.end()) {
    const auto event = [](const auto at, const auto end) { return at == end ? std::string("nothing") : *at; };
    const std::string due = event(same.in1, expected.connection_events.end()),
                      came = event(same.in2, actual.connection_events.end());
    return Alarm{.oracle = Oracle::completion,
                 .expected = "event of the CM: " + due,
                 .actual = came,
                 .signature = fmt::format("CM event {} instead of {}", came.substr(0, came.find(':')),
                                          due.substr(0, due.find(':')))};
  }
  if (expected.receives != actual.receives)
    return Alarm{.oracle = Oracle::completion,
                 .expected = fmt::format("{} receive requests posted", expected.receives[0]),
                 .actual = fmt::format("{}", actual.receives[0]),
                 .signature = "receives"};
  return std::nullopt;
}

std::optional<Alarm> compare_states(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance) {
  for (std::size_t i = 0; i < expected.states.size(); ++i) {
    if (expected.states[i] == actual.states[i]) continue;
    Alarm alarm{.oracle = Oracle::state};
    alarm.expected = fmt::format("queue pair {} in state {}", i, machines::to_string(expected.states[i]));
    alarm.actual = fmt::format("in state {}", machines::to_string(actual.states[i]));
    alarm.signature =
        fmt::format("{} instead of {}", machines::to_string(actual.states[i]), machines::to_string(expected.states[i]));
    return alarm;
  }
  if (!tolerance.verbs) return std::nullopt;
  for (std::size_t i = 0; i < std::max(expected.results.size(), actual.results.size()); ++i) {
    const int a = i < expected.results.size() ? expected.results[i] : 0;
    const int b = i < actual.results.size() ? actual.results[i] : 0;
    if (tolerance.exact ? a == b : (a == 0) == (b == 0)) continue;
    return Alarm{.oracle = Oracle::state,
                 .expected = fmt::format("verbs: {} (error {})", result_name(a), a),
                 .actual = fmt::format("{} (error {})", result_name(b), b),
                 .signature = fmt::format("verbs {} instead of {}", result_name(b), result_name(a))};
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Oracle oracle) { return oracle_names[static_cast<std::size_t>(oracle)]; }

std::string fields_that_differ(const HeaderStack& expected, const HeaderStack& actual,
                               bool (*counts)(const HeaderInfo& header, const Field& field)) {
  std::string names;
  for (const Layer& layer : expected.layers()) {
    const Layer* other = actual.find(*layer.header);
    if (!other) continue;
    for (const Field& field : layer.header->fields) {
      if (!field.is_number() || field.is_part() || !counts(*layer.header, field)) continue;
      if (field.load(expected.bytes_of(layer).data()) == field.load(actual.bytes_of(*other).data())) continue;
      names += fmt::format("{}{}.{}", names.empty() ? "" : ", ", layer.header->name, field.name);
    }
  }
  return names;
}

std::string summary_of(Bytes frame) {
  const FrameSummary summary = summarize(frame);
  if (summary.opcode < 0) return "frame without BTH";
  const Opcode& op = opcode(static_cast<std::uint8_t>(summary.opcode));
  std::string text = op.known ? std::string(op.name) : fmt::format("opcode {:#04x}", summary.opcode);
  if (summary.syndrome < 0) return text;
  return fmt::format("{}, {}", text, to_string(Syndrome(static_cast<std::uint8_t>(summary.syndrome))));
}

std::optional<Alarm> compare_roce_answers(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance) {
  if (tolerance.exact) return compare_frames_exactly(expected, actual);
  auto alarm = compare_frames(expected, actual);
  return alarm ? alarm : compare_messages(expected, actual);
}

std::optional<Alarm> judge(const Step& step, const Outcome& expected, Bytes expected_memory, const Outcome& actual,
                           Bytes actual_memory, const Tolerance& tolerance, AnswerComparison compare_answers) {
  std::optional<Alarm> alarm;
  if (tolerance.memory && !actual_memory.empty()) alarm = compare_memory(expected_memory, actual_memory);
  const bool rest = !actual.unjudged;
  if (rest && !alarm) alarm = compare_states(expected, actual, tolerance);
  if (rest && !alarm && tolerance.completions)
    alarm = tolerance.exact ? compare_completions(expected, actual, tolerance)
                            : compare_completions(without_flushed(expected), without_flushed(actual), tolerance);
  if (rest && !alarm) alarm = compare_answers(expected, actual, tolerance);
  if (alarm)
    alarm->signature = fmt::format("{}: {}: {}", to_string(alarm->oracle), to_string(step.kind), alarm->signature);
  return alarm;
}

}  // namespace rdmawire::fuzzer
