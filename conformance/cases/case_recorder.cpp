#include "conformance/cases/case_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rdmawire::conformance {

void end_case(Verdict verdict, std::string reason) { throw CaseEnd{{verdict, {}, std::move(reason)}}; }

void CaseRecorder::record_at(std::int64_t time, Step::Kind kind, std::string text, Bytes frame) {
  transcript_.push_back({kind, time, std::move(text), {frame.begin(), frame.end()}});
}

void CaseRecorder::record(const Pairing& pairing) {
  record(Step::Kind::verbs, fmt::format("QP {:#x} of the device is connected to {:#x} of the tester",
                                        pairing.device.qpn, pairing.tester.qpn));
  transcript_.back().pairing = pairing;
}

void CaseRecorder::deviate(Verdict verdict, const std::string& expected, const std::string& actual) {
  record(Step::Kind::violation, fmt::format("expected {}; got {}", expected, actual));
  throw CaseEnd{{verdict, expected, actual}};
}

void CaseRecorder::deviates(Verdict verdict, const std::string& expected, const std::string& actual) {
  record(Step::Kind::violation, fmt::format("expected {}; got {}", expected, actual));
  if (!deviation_) deviation_ = Judgment{verdict, expected, actual};
}

void CaseRecorder::violates(WireViolation violation) {
  const auto known = std::ranges::find(wire_violations_, violation.rule, &WireViolation::rule);
  if (known != wire_violations_.end()) {
    known->count += violation.count;
    known->lost |= violation.lost;
    return;
  }
  record(Step::Kind::violation,
         fmt::format("{}: expected {}; got {}", violation.rule->id, violation.expected, violation.actual));
  wire_violations_.push_back(std::move(violation));
}

void CaseRecorder::require(bool holds, const std::string& expected, const std::string& actual, Verdict otherwise) {
  if (!holds) deviate(otherwise, expected, actual);
  record(Step::Kind::expected, expected);
}

}  // namespace rdmawire::conformance
