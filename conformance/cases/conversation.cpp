#include "conformance/cases/conversation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::conformance {

void Conversation::drain(std::int64_t silence) {
  kept_.clear();
  constexpr std::size_t most = 65'536;
  try {
    for (std::size_t left = most; left > 0 && next(silence); --left) kept_.clear();
  } catch (const CaseEnd&) {
    // A failed wire delivers no further frames.
  }
}

Conversation& Conversation::operator>>(const Stimulus& stimulus) {
  const std::vector<std::uint8_t> bytes = stimulus.bytes();
  record(Step::Kind::sent, stimulus.text(), bytes);
  icmp_error_.clear();
  const std::int64_t until = wire_.now() + patience().answer;
  for (;;) {
    const auto sent = wire_.send(bytes);
    if (sent) return *this;
    if (sent.error().kind == replay::WireError::Kind::forbidden) end_case(Verdict::unsupported, sent.error().message);
    if (sent.error().kind != replay::WireError::Kind::full || wire_.now() >= until)
      end_case(Verdict::error, fmt::format("the tester could not send: {}", sent.error().message));
  }
}

void Conversation::inspect(const HeaderStack& stack, std::int64_t time) {
  FrameReport report = check_.check(stack, queue_pairs_, earlier_);
  if (report.kind == FrameReport::Kind::icmp_error) {
    record_at(time, Step::Kind::received, report.text, stack.bytes);
    icmp_error_ = std::move(report.text);
  }
  if (report.kind == FrameReport::Kind::other && !report.violations.empty())
    record_at(time, Step::Kind::received, "a frame that is no valid RoCE packet", stack.bytes);
  for (WireViolation& violation : report.violations) {
    // A case that receives the packets to all QPs does not miss this one.
    violation.lost = violation.lost && !(to_all_ && report.kind == FrameReport::Kind::packet);
    violates(std::move(violation));
  }
}

// Returns nullopt if the frame is not addressed to a QP of the tester.
std::optional<Seen> Conversation::read(const replay::Received& received) {
  if (received.own) return std::nullopt;
  Seen seen;
  seen.bytes.assign(received.frame.begin(), received.frame.end());
  seen.stack = decode(seen.bytes);
  seen.time = received.time;
  inspect(seen.stack, seen.time);
  const auto bth = seen.stack.get<Bth>();
  if (!bth) return std::nullopt;
  seen.op = &opcode(bth->get<"opcode">());
  seen.dest_qp = bth->get<"dest_qp">();
  const auto ours = std::find_if(queue_pairs_.begin(), queue_pairs_.end(),
                                 [&](const TesterQueuePair& qp) { return qp.tester_qpn == seen.dest_qp; });
  if (ours == queue_pairs_.end() && !to_all_) return std::nullopt;
  const bool response = seen.op->known && seen.op->direction == Direction::response;
  const Psn first = ours == queue_pairs_.end() ? Psn(0) : response ? ours->ours : ours->theirs;
  seen.at = psn(Psn(bth->get<"psn">()) - first);
  if (const auto aeth = seen.stack.get<Aeth>()) {
    seen.has_aeth = true;
    seen.syndrome = aeth->get<"syndrome">();
    const std::uint32_t before = ours == queue_pairs_.end() ? 0 : ours->device_msn;
    seen.msn = (static_cast<std::uint32_t>(aeth->get<"msn">()) - before) & 0xffffffU;
  }
  const Bytes payload = seen.stack.bytes_of(seen.stack.payload);
  seen.payload.assign(payload.begin(), payload.end());
  return seen;
}

std::optional<Seen> Conversation::next(std::int64_t for_ns) {
  if (!kept_.empty()) {
    Seen seen = std::move(kept_.front());
    kept_.pop_front();
    return seen;
  }
  const std::int64_t until = wire_.now() + (for_ns ? for_ns : patience().answer);
  for (;;) {
    const auto received = wire_.receive(until);
    if (!received) end_case(Verdict::error, fmt::format("the tester's wire failed: {}", received.error().message));
    if (!*received) return std::nullopt;
    auto seen = read(**received);
    if (!seen) continue;
    record_at(seen->time, Step::Kind::received, seen->text(), seen->bytes);
    return seen;
  }
}

std::string Conversation::nothing() const { return icmp_error_.empty() ? "nothing" : icmp_error_; }

Seen Conversation::wait(const Expectation& expectation) {
  for (;;) {
    std::optional<Seen> seen = next();
    if (!seen) deviate(Verdict::fail, expectation.text(), nothing());
    switch (expectation.judge(*seen)) {
      case Match::yes: record(Step::Kind::expected, expectation.text()); return std::move(*seen);
      case Match::skip: break;
      case Match::wrong_code: deviate(Verdict::fail_wrong_code, expectation.text(), seen->text());
      case Match::no: deviate(Verdict::fail, expectation.text(), seen->text());
    }
  }
}

Conversation& Conversation::operator<<(const Silence& silence) {
  if (const auto seen = next(silence.nanoseconds ? silence.nanoseconds : patience().silence))
    deviate(Verdict::fail, "silence", seen->text());
  if (!icmp_error_.empty()) deviate(Verdict::fail, "silence", icmp_error_);
  record(Step::Kind::expected, "silence");
  return *this;
}

std::vector<Seen> Conversation::all_until_silence(std::size_t most) {
  std::vector<Seen> all;
  while (all.size() < most) {
    auto seen = next(patience().silence);
    if (!seen) break;
    all.push_back(std::move(*seen));
  }
  return all;
}

void Conversation::pass(std::int64_t nanoseconds) {
  const std::int64_t until = wire_.now() + nanoseconds;
  std::deque<Seen> came = std::move(kept_);
  kept_.clear();
  while (wire_.now() < until) {
    auto seen = next(until - wire_.now());
    if (!seen) break;
    came.push_back(std::move(*seen));
  }
  kept_ = std::move(came);
}

}  // namespace rdmawire::conformance
