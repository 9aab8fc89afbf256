#include "conformance/runner/transfer.hpp"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "conformance/cases/bench.hpp"
#include "conformance/cases/iwarp/bench.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"

namespace rdmawire::conformance {
namespace {

/// Ends the transfer because the device violates this rule.
[[noreturn]] void violates(RuleId rule, std::string expected, std::string actual) {
  throw CaseEnd{{Verdict::fail, std::move(expected), std::move(actual), &*rule}};
}

/// Ends the transfer if a frame of the device reaches no receiver. Other invalid frames are part of each case's
/// verdict.
void check_frames(const CaseRecorder& recorder) {
  for (const WireViolation& violation : recorder.wire_violations())
    if (violation.lost) violates(violation.rule, violation.expected, violation.actual);
}

// ---- RoCE

const std::string payload = pattern_bytes(16);

/// Computes the ICRC as a receiver does that does not mask the reserved byte of the BTH: over its value, 0.
void cover_reserved_byte(std::vector<std::uint8_t>& frame) {
  HeaderStack stack = decode(frame);
  if (stack.icrc.length == 0) return;
  // The CRC is linear: a change of this byte from 0xff to 0 changes the ICRC by a value that depends only on the number
  // of following bytes.
  const std::uint32_t at = stack.layers()[stack.transport].offset + 4;
  const std::vector<std::uint8_t> zeros(stack.icrc.offset - at, 0);
  std::vector<std::uint8_t> ones = zeros;
  ones.front() = 0xff;
  const std::uint32_t change = crc32(zeros) ^ crc32(ones);
  store_le(frame.data() + stack.icrc.offset, 4, load_le(frame.data() + stack.icrc.offset, 4) ^ change);
}

/// Valid frames that a violating receiver drops, changed into those that it accepts.
struct Probe {
  RuleId rule;
  std::string_view expected;
  std::string_view actual;
  Stimulus (*changed)(const Stimulus&);
};
const Probe probes[] = {
    {"bth.receiver.icrc.reserved-byte-masked", "a SEND executed whose ICRC masks the reserved byte of the BTH",
     "it was dropped, and a SEND executed whose ICRC covers this byte",
     [](const Stimulus& s) { return s.damaged(cover_reserved_byte, "with the reserved byte of the BTH in its ICRC"); }},
    {"bth.receiver.migration.either-accepted", "a SEND executed with MigReq 1",
     "it was dropped, and a SEND executed with MigReq 0",
     [](const Stimulus& s) { return s.with<Bth, "migreq">(0, "with MigReq 0"); }},
};

void transfer_of_infiniband(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.send_only(psn(+0), payload);
  std::optional<Seen> answer = bench.next();
  check_frames(bench);
  if (!answer) {
    const auto completion = bench.take(qp.completions().poll(1, bench.silence_time()), "poll for a completion");
    if (!completion.empty() && completion.front().good())
      violates("rc.responder.ack.in-order", "ACK, PSN +0", "nothing, although the SEND was executed");
    for (const Probe& probe : probes) {
      bench >> probe.changed(qp.send_only(psn(+0), payload));
      if (!(answer = bench.next())) continue;
      if (ack(psn(+0)).judge(*answer) == Match::yes)
        violates(probe.rule, std::string(probe.expected), std::string(probe.actual));
      break;
    }
    bench.deviate(Verdict::error, "acknowledged through PSN +0", "nothing");
  }
  if (acknowledged(psn(+0)).judge(*answer) != Match::yes)
    violates("rc.responder.ack.in-order", "ACK, PSN +0", answer->text());
  qp.completes(0);
  qp.received(0, payload);
}

// ---- iWARP

void transfer_of_iwarp(iwarp::IwarpBench& bench, const iwarp::ConnectOptions& options = {.receives = 1}) {
  iwarp::Connected& qp = bench.connect(options);
  qp >> iwarp::send(1, payload);
  qp.completes(0);
  qp.received(0, payload);
}

bool works(DeviceUnderTest& device, std::uint64_t seed, const iwarp::ConnectOptions& options) {
  iwarp::IwarpBench bench(device, seed);
  try {
    transfer_of_iwarp(bench, options);
    return true;
  } catch (const CaseEnd&) {
    return false;
  }
}

/// Runs a transfer. Returns how it ended.
template <class AnyBench>
Judgment attempt(DeviceUnderTest& device, std::uint64_t seed, const std::function<void(AnyBench&)>& transfer) {
  AnyBench bench(device, seed);
  try {
    transfer(bench);
    return {};
  } catch (const CaseEnd& end) {
    try {
      if (!end.judgment.rule) check_frames(bench);
    } catch (const CaseEnd& frames) {
      return frames.judgment;
    }
    return end.judgment;
  }
}

}  // namespace

std::string text_of_violation(const Judgment& judgment) {
  const Rule& rule = *judgment.rule;
  return fmt::format("{}{}{} ({}): expected {}; got {}", rule.alias, rule.alias.empty() ? "" : " ", rule.id,
                     clauses_of(rule), judgment.expected, judgment.actual);
}

Judgment sanity(DeviceUnderTest& device, std::uint64_t seed) {
  Judgment judgment;
  if (device.is_iwarp()) {
    judgment = attempt<iwarp::IwarpBench>(device, seed, [](iwarp::IwarpBench& bench) { transfer_of_iwarp(bench); });
    // The transfer uses revision 1, which every responder has to accept.
    if (judgment.verdict != Verdict::pass && !judgment.rule &&
        works(device, seed, {.enhanced = iwarp::Enhanced{}, .receives = 1}))
      return {Verdict::fail, "a request of revision 1 accepted", "it was refused, and one of revision 2 accepted",
              find_rule("mpa.responder.revision.one-accepted")};
  } else {
    judgment = attempt<Bench>(device, seed, transfer_of_infiniband);
  }
  if (judgment.verdict == Verdict::pass || judgment.rule) return judgment;
  judgment.verdict = Verdict::error;
  judgment.actual = "the transfer that checks the bench failed: " + judgment.actual;
  return judgment;
}

}  // namespace rdmawire::conformance
