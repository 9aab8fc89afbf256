#include "conformance/cases/history.hpp"

#include <fmt/format.h>

#include <array>

#include "conformance/rules/rules.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint32_t message_bytes = 20;
constexpr std::int32_t few = 3, many = 70;  ///< many: more than the work queues have entries

/// The histories in the order of the values of Parameter::history.
enum class Kind : std::uint8_t { fresh, messages, many_messages, duplicate, nak, rnr_nak, retransmission, reset };

/// Returns whether the frame contains a message of the device with a PSN below `first`.
bool is_message_below(const Seen& seen, psn first) {
  return seen.op->known && seen.op->direction == Direction::request && seen.op->operation == Operation::send &&
         seen.at.value < first.value;
}

/// Skips frames to other queue pairs, and retransmissions of the device's messages with PSNs below `first`. The device
/// may send them if the tester is late.
Expectation to(const Connected& qp, const Expectation& expected, psn first) {
  return {expected.text(), [qpn = qp.tester_qpn, expected, first](const Seen& seen) {
            if (seen.dest_qp != qpn) return Match::skip;
            const Match match = expected.judge(seen);
            return match == Match::no && is_message_below(seen, first) ? Match::skip : match;
          }};
}

}  // namespace

HistoryLength history_length(std::size_t history) {
  constexpr std::array<HistoryLength, 8> lengths{
      {{0, 0}, {few, few}, {many, many}, {1, 1}, {3, 0}, {1, 0}, {0, 1}, {0, 0}}};
  return lengths[history];
}

bool HistoryTraffic::possible(const ConnectOptions& options) {
  // A device with a shorter ACK timeout could use up its retries before the steps of the case.
  constexpr std::uint8_t least_timeout = 14;
  const bool is_patient = options.timeout == 0 || options.timeout >= least_timeout;
  return options.transport == Transport::rc && options.state == "rts" && !options.shared_cq && options.retry_cnt > 0 &&
         is_patient;
}

template <class Step>
void HistoryTraffic::checked(const char* rule, const Step& step) {
  try {
    step();
  } catch (CaseEnd& end) {
    Judgment& judgment = end.judgment;
    const bool deviates = judgment.verdict == Verdict::fail || judgment.verdict == Verdict::fail_wrong_code;
    if (deviates && !judgment.rule) {
      judgment.rule = find_rule(rule);
      judgment.actual += ", before the steps of the case";
    }
    throw;
  }
}

void HistoryTraffic::post_receive() {
  const peer::ReceiveRequest request{wr_id_, {memory_->piece(0, message_bytes)}};
  bench_.take(qp_.srq.handle() != 0 ? qp_.srq.post_recv({request}) : qp_.qp.post_recv({request}),
              "a receive request before the case");
}

void HistoryTraffic::tester_sends(bool repeated) {
  post_receive();
  const psn at(sent_++);
  const auto messages = static_cast<std::uint32_t>(sent_);
  const Stimulus message = qp_.send_only(at, pattern_bytes(message_bytes));
  checked("rc.responder.ack.in-order", [&] {
    bench_ >> message;
    bench_ << to(qp_, ack(at).msn(messages), psn(received_));
    qp_.completes(wr_id_++);
  });
  if (!repeated) return;
  checked("rc.responder.duplicate.newest-psn-acknowledged", [&] {
    bench_ >> message;
    bench_ << to(qp_, ack(at).msn(messages), psn(received_));
  });
}

void HistoryTraffic::device_sends(bool retransmitted) {
  const psn at(received_);
  checked("rc.requester.psn.increments", [&] {
    qp_.post({.opcode = "send", .wr_id = wr_id_, .sges = {memory_->piece(0, message_bytes)}, .flags = {"signaled"}});
    bench_ << to(qp_, a_send(at), at);
  });
  if (retransmitted) {
    checked("rc.requester.retry.begins-at-nak", [&] {
      bench_ >> qp_.nak(nak_code::psn_sequence_error, at, static_cast<std::uint32_t>(received_));
      bench_ << to(qp_, a_send(at), at);
    });
  }
  checked("rc.requester.ack.completes-up-to", [&] {
    bench_ >> qp_.ack(at, static_cast<std::uint32_t>(++received_));
    qp_.completes(wr_id_++);
  });
}

void HistoryTraffic::gap() {
  tester_sends(false);
  checked("rc.responder.psn.sequence-error", [&] {
    bench_ >> qp_.send_only(psn(sent_ + 1), pattern_bytes(message_bytes));
    bench_ << to(qp_, nak_sequence_error(psn(sent_)), psn(received_));
  });
  tester_sends(false);
  tester_sends(false);
}

void HistoryTraffic::not_ready() {
  checked("rc.responder.rnr.no-receive", [&] {
    bench_ >> qp_.send_only(psn(sent_), pattern_bytes(message_bytes));
    bench_ << to(qp_, rnr_nak(psn(sent_)), psn(received_));
  });
  bench_.pass(static_cast<std::int64_t>(rnr_timer_ns(qp_.options.min_rnr_timer)));
  tester_sends(false);
}

void HistoryTraffic::error_and_reset() {
  tester_sends(false);
  device_sends(false);
  checked("rc.responder.opcode.begins-in-the-middle", [&] {
    bench_ >> qp_.send_middle(psn(sent_), pattern_bytes(qp_.mtu));
    bench_ << to(qp_, nak_invalid_request(psn(sent_)), psn(received_));
    qp_.is_in("err");
  });
  const auto is_about_it = [handle = qp_.qp.handle()](const peer::Event& event) {
    return event.name == "async" && event.body.value("qp", std::uint64_t{0}) == handle;
  };
  while (bench_.next_event(bench_.device().virtual_time() ? 0 : bench_.patience().silence, is_about_it)) {
    // The case observes only its own events.
  }
  qp_.modify({{"state", "reset"}});
  qp_.bring_to(qp_.options.state);
  sent_ = received_ = 0;
}

void HistoryTraffic::discard_retransmissions() {
  if (bench_.device().virtual_time()) return;
  constexpr std::int64_t a_moment = 1'000'000;
  while (const auto seen = bench_.next(a_moment))
    bench_.require(seen->dest_qp != qp_.tester_qpn || is_message_below(*seen, psn(received_)),
                   "no further packet before the steps of the case", seen->text());
}

void HistoryTraffic::run(std::size_t history) {
  bench_.note(fmt::format("before the case: {}", info_of(Parameter::history).values[history]));
  memory_ = &bench_.history_memory_.emplace_back(
      bench_.take(bench_.domain().region(message_bytes, {"local_write"}), "memory for the traffic before the case"));
  const auto exchange = [&](std::int32_t messages) {
    for (std::int32_t i = 0; i < messages; ++i) {
      tester_sends(false);
      device_sends(false);
    }
  };
  switch (static_cast<Kind>(history)) {
    case Kind::fresh: break;
    case Kind::messages: exchange(few); break;
    case Kind::many_messages: exchange(many); break;
    case Kind::duplicate:
      tester_sends(true);
      device_sends(false);
      break;
    case Kind::nak: gap(); break;
    case Kind::rnr_nak: not_ready(); break;
    case Kind::retransmission: device_sends(true); break;
    case Kind::reset: error_and_reset(); break;
  }
  discard_retransmissions();
  qp_.ours = qp_.ours + sent_;
  qp_.theirs = qp_.theirs + received_;
  qp_.device_msn = static_cast<std::uint32_t>(sent_);
  qp_.tester_msn = static_cast<std::uint32_t>(received_);
  bench_.listen_to(qp_);
  bench_.note("the steps of the case begin");
}

// ---- other connections

void Bench::make_others() {
  if (std::exchange(others_made_, true)) return;
  struct Others {
    std::size_t count;
    bool busy;
  };
  constexpr std::array<Others, 5> choices{{{0, false}, {1, false}, {1, true}, {3, false}, {3, true}}};
  const Others chosen = choices[environment().take(Parameter::other_qps)];
  others_busy_ = chosen.busy;
  for (std::size_t i = 0; i < chosen.count; ++i) {
    ConnectOptions options;
    options.receives = 4;
    options.timeout = 20;
    Connected& other = make(options);
    constexpr std::uint32_t psns = 1U << 24;
    other.ours = Psn(any(psns));
    other.theirs = Psn(any(psns));
    listen_to(other);
    other.bring_to("rts");
    other.post_receives(options.receives);
    others_.push_back(&other);
  }
  others_transfer();
}

void Bench::others_transfer() {
  if (!others_busy_) return;
  const psn at(transferred_);
  const auto number = static_cast<std::uint32_t>(transferred_++);
  for (Connected* other : others_) {
    other->post_receives(1);
    *this >> other->send_only(at, pattern_bytes(message_bytes));
    *this << to(*other, ack(at).msn(number + 1), psn(at));
    other->completes(number);
    other->device_sends(number, {.length = message_bytes});
    *this << to(*other, a_send(at), at);
    *this >> other->ack(at, number + 1);
    other->completes(number);
  }
}

void Bench::finish() {
  if (others_.empty() || !others_busy_) return;
  note("after the case: messages of the other queue pairs");
  others_transfer();
}

void Bench::restart(Connected& qp) {
  qp.device_msn = qp.tester_msn = 0;
  listen_to(qp);
}

}  // namespace rdmawire::conformance
