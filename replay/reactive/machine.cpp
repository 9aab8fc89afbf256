#include "replay/reactive/machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "replay/reactive/wording.hpp"

namespace rdmawire::replay::reactive {
namespace {

using machines::RcStep;

constexpr std::size_t most_divergences = 1000;

Operation operation_of(const Message& message) { return message.packets.front().t.op->operation; }

/// ACK syndrome with an invalid credit count. IBTA vol 1, 9.7.7.2.
constexpr std::uint8_t plain_ack = 0x1f;

}  // namespace

std::string to_string(const Divergence& divergence) {
  const auto side = [](std::uint64_t frame, const std::string& text) {
    return frame ? fmt::format("frame {}: {}", frame, text) : text;
  };
  return fmt::format("captured: {}; live: {}", side(divergence.captured_frame, divergence.captured),
                     side(divergence.live_frame, divergence.live));
}

RoceMachine::RoceMachine(const Exchange& exchange, const MemoryPlan& plan, const MachineOptions& options)
    : exchange_(exchange), plan_(plan), options_(options) {
  retries_ = {options.retries, machines::RcRetries::without_limit, options.retries, machines::RcRetries::without_limit};
  for (const Message& message : exchange_.ours.messages) {
    if (exchange_.is_unreliable()) break;
    if (message.is_read() || message.is_atomic()) {
      insist_.push_back(message.end());
      continue;
    }
    for (std::size_t i = 0; i < message.packets.size(); ++i)
      if (message.packets[i].t.ack_request) insist_.push_back(message.first + static_cast<std::uint32_t>(i) + 1);
  }
  for (const CapturedAnswer& answer : exchange_.ours.answers) {
    const bool sequence_error = Syndrome(answer.syndrome).is_nak() && !answer.refuses();
    if (!answer.cnp && !sequence_error) captured_.emplace(answer.psn, &answer);
  }
  for (const CapturedAnswer& answer : exchange_.theirs.answers) {
    if (answer.cnp) continue;
    our_answers_.emplace(answer.psn, answer);
    if (Syndrome(answer.syndrome).is_rnr_nak()) ++not_ready_[answer.psn];
  }
}

std::size_t RoceMachine::message_at(const std::vector<Message>& messages, std::uint32_t psn) const {
  const auto found = std::upper_bound(messages.begin(), messages.end(), psn,
                                      [](std::uint32_t value, const Message& one) { return value < one.end(); });
  return static_cast<std::size_t>(found - messages.begin());
}

std::uint32_t RoceMachine::insisted(std::uint32_t psn) const {
  const auto behind = std::upper_bound(insist_.begin(), insist_.end(), psn);
  return behind == insist_.begin() ? 0 : *std::prev(behind);
}

const CapturedAnswer* RoceMachine::captured_answer(std::int64_t psn) const {
  const auto found = captured_.lower_bound(psn);
  return found == captured_.end() ? nullptr : found->second;
}

bool RoceMachine::done() const {
  const bool ours = counts_.ours_done == exchange_.ours.messages.size() ||
                    (counts_.ours_begun == exchange_.ours.messages.size() &&
                     window_.oldest.value() >= insisted(cursor_) && cursor_ == exchange_.ours.psns);
  return refused_ || (ours && counts_.theirs_done == exchange_.theirs.messages.size());
}

std::string RoceMachine::waiting_for() const {
  std::string text;
  if (window_.outstanding() != 0) {
    const std::size_t index = message_at(exchange_.ours.messages, window_.oldest.value());
    const CapturedAnswer* captured = captured_answer(window_.oldest.value());
    text = fmt::format("the response to local message {} ({}, PSN +{})", index + 1,
                       words_of(exchange_.ours.messages[index]), window_.oldest.value());
    if (captured) text += fmt::format("; captured: frame {}: {}", captured->frame, words_of(*captured));
  }
  if (counts_.theirs_done < counts_.theirs_asked) {
    const Message& message = exchange_.theirs.messages[counts_.theirs_done];
    text += fmt::format("{}the peer's message {} ({}); captured: frames {} to {}", text.empty() ? "" : "; and ",
                        counts_.theirs_done + 1, words_of(message), message.first_frame, message.last_frame);
  }
  return text.empty() ? "nothing" : text;
}

void RoceMachine::diverge(Divergence divergence) {
  if (divergences_.size() == most_divergences) {
    ++left_out_;
    return;
  }
  divergences_.push_back(std::move(divergence));
}

Actions RoceMachine::start(std::int64_t now) {
  progress_at_ = asked_at_ = now;
  return finish({}, now);
}

Actions RoceMachine::on_timer(std::int64_t now) {
  const bool waits = window_.outstanding() != 0 || counts_.theirs_done < counts_.theirs_asked;
  if (failure_.empty() && !done() && now - progress_at_ >= options_.step_timeout) {
    fail(fmt::format("no progress for {} ms while waiting for {}", options_.step_timeout / 1'000'000, waiting_for()));
    const CapturedAnswer* captured = window_.outstanding() != 0 ? captured_answer(window_.oldest.value()) : nullptr;
    if (captured) diverge({false, captured->frame, 0, words_of(*captured), "silence"});
  } else if (waits && window_.outstanding() != 0 && resume_ <= now && cursor_ == window_.next.value() && !done() &&
             now - asked_at_ >= options_.retry_after) {
    if (retries_.again()) {
      const CapturedAnswer* captured = captured_answer(window_.oldest.value());
      diverge({true, captured ? captured->frame : 0, 0, captured ? words_of(*captured) : "nothing",
               fmt::format("no response for {} ms", options_.retry_after / 1'000'000)});
      gone_back_to_.reset();
      go_back(window_.oldest.value(), now);
    } else {
      fail(fmt::format("no response after {} tries while waiting for {}", options_.retries + 1, waiting_for()));
    }
  }
  return finish({}, now);
}

Actions RoceMachine::on_received(const ReceivedPacket& packet, std::int64_t now) {
  Actions actions;
  const Opcode& op = *packet.t->op;
  if (op.operation == Operation::congestion_notification) {
    ++counts_.cnps;
    const auto& answers = exchange_.ours.answers;
    const bool captured = std::any_of(answers.begin(), answers.end(), [](const auto& one) { return one.cnp; });
    if (!captured) diverge({true, 0, packet.frame, "no CNP", "CNP"});
  } else if (op.direction == Direction::response) {
    answered(packet, now);
  } else {
    asked(packet, actions, now);
  }
  return finish(std::move(actions), now);
}

Actions RoceMachine::finish(Actions actions, std::int64_t now) {
  if (failure_.empty() && !refused_) {
    post(actions, now);
    send_requests(actions, now);
    if (exchange_.is_unreliable()) {
      settle(cursor_, now);
      post(actions, now);
      acknowledged_ = expected_;
    }
    const bool all = counts_.theirs_done == exchange_.theirs.messages.size();
    if (all && acknowledged_ < expected_) acknowledge(expected_ - 1, plain_ack, 0, actions);
    if (!done()) actions.wake = progress_at_ + options_.step_timeout;
    if (window_.outstanding() != 0 && !done()) actions.wake = std::min(actions.wake, asked_at_ + options_.retry_after);
    if (resume_ > now) actions.wake = std::min(actions.wake, resume_);
  }
  for (const OutgoingPacket& next_packet : actions.outgoing) {
    counts_.again += next_packet.again;
    counts_.made += next_packet.captured_frame == 0;
  }
  return actions;
}

void RoceMachine::settle(std::uint32_t through, std::int64_t now) {
  if (through <= window_.oldest.value()) return;
  window_.oldest = Psn(through);
  cursor_ = std::max(cursor_, through);
  progress_at_ = asked_at_ = now;
  retries_ = retries_.reloaded();
  gone_back_to_.reset();
  std::size_t settled = 0;
  while (settled < outstanding_.size() && outstanding_[settled].last().value() < through) ++settled;
  for (std::size_t i = 0; i < settled; ++i) {
    const Message& message = exchange_.ours.messages[first_outstanding_ + i];
    if (!message.refused) continue;
    for (const CapturedAnswer& one : exchange_.ours.answers)
      if (one.refuses() && one.psn >= message.first && one.psn < message.end())
        diverge({false, one.frame, 0, words_of(one), fmt::format("{} is acknowledged", words_of(message))});
  }
  outstanding_.erase(outstanding_.begin(), outstanding_.begin() + static_cast<std::ptrdiff_t>(settled));
  first_outstanding_ += settled;
  counts_.ours_done += settled;
}

void RoceMachine::go_back(std::uint32_t psn, std::int64_t now) {
  ++counts_.recoveries;
  gone_back_to_ = psn;
  cursor_ = psn;
  asked_at_ = now;
  const std::size_t index = message_at(exchange_.ours.messages, psn);
  if (index < first_outstanding_ || index - first_outstanding_ >= outstanding_.size()) return;
  machines::RcOutstanding& waiting = outstanding_[index - first_outstanding_];
  if (waiting.operation == Operation::rdma_read_request) waiting.asked_from = psn - waiting.first.value();
}

void RoceMachine::take_payload(const ReceivedPacket& packet, std::size_t index) {
  machines::RcOutstanding& waiting = outstanding_[index];
  const Message& message = exchange_.ours.messages[first_outstanding_ + index];
  const auto at = static_cast<std::uint32_t>(packet.psn - waiting.first);
  waiting.answered = message.is_read() ? at + 1 : 1;
  if (!message.has_answer) return;
  const CapturedPacket& captured = message.answers[message.is_read() ? at : 0];
  if (message.is_atomic()) {
    if (packet.t->operand != message.original)
      diverge({false, captured.t.frame, packet.frame, fmt::format("the atomic finds {:#x}", message.original),
               fmt::format("it finds {:#x}", packet.t->operand)});
    return;
  }
  const Bytes was = captured.payload();
  if (std::equal(was.begin(), was.end(), packet.payload.begin(), packet.payload.end())) return;
  const auto differs = std::mismatch(was.begin(), was.end(), packet.payload.begin(), packet.payload.end());
  diverge({false, captured.t.frame, packet.frame, words_of(captured.t, at + message.first),
           fmt::format("{}, other bytes from byte {} on", words_of(*packet.t, at + message.first),
                       differs.first - was.begin())});
}

void RoceMachine::compare_answer(const ReceivedPacket& packet, const machines::RcProgress& progress) {
  const tracking::TransportPacket& t = *packet.t;
  const std::uint32_t psn = packet.psn.value();
  const CapturedAnswer* captured = captured_answer(psn);
  const auto report = [&](bool note) {
    Divergence divergence{note, captured ? captured->frame : 0, packet.frame,
                          captured ? words_of(*captured) : "nothing", words_of(t, psn)};
    if (!captured && progress.step == RcStep::wait) divergence.captured = "no RNR NAK";
    diverge(std::move(divergence));
  };
  if (progress.step == RcStep::fail) {
    const bool same = captured && captured->psn == psn && captured->syndrome == t.syndrome;
    if (!same) report(false);
    return;
  }
  if (progress.step == RcStep::go_back && !progress.implied) return report(true);
  if (progress.step == RcStep::wait) {
    const bool same = captured && captured->psn == psn && Syndrome(captured->syndrome).is_rnr_nak();
    if (!same) report(true);
    return;
  }
  if (t.op->operation != Operation::acknowledge || !Syndrome(t.syndrome).is_ack()) return;
  // The MSN counts completed messages, starting at 0. IBTA vol 1, 9.7.7.1.
  const std::size_t complete = message_at(exchange_.ours.messages, psn + 1);
  if (t.msn.value() != complete) report(false);
}

void RoceMachine::answered(const ReceivedPacket& packet, std::int64_t now) {
  const tracking::TransportPacket& t = *packet.t;
  if (refused_ || !failure_.empty()) return;
  const auto progress = machines::judge(
      outstanding_, window_,
      {.op = t.op, .psn = packet.psn, .syndrome = t.syndrome, .has_aeth = t.has_aeth, .payload = t.payload},
      exchange_.mtu);
  if (progress.step == RcStep::ignore) {
    if (window_.place(packet.psn) == machines::ResponsePlace::unsent)
      diverge({false, 0, packet.frame, "nothing",
               words_of(t, static_cast<std::uint32_t>(packet.psn.value())) + ", for a request that was not sent"});
    return;
  }
  compare_answer(packet, progress);
  if (progress.takes_payload) {
    take_payload(packet, progress.message);
    progress_at_ = asked_at_ = now;
  }
  // Only a complete READ or atomic response completes the request. A partial one acknowledges the PSNs before it.
  std::uint32_t through = progress.through.value();
  if (progress.takes_payload && outstanding_[progress.message].answered >= outstanding_[progress.message].answers())
    through = outstanding_[progress.message].last().value() + 1;
  else if (progress.takes_payload)
    through = packet.psn.value() + 1;
  settle(through, now);
  switch (progress.step) {
    case RcStep::go_back: {
      const std::uint32_t restart = progress.restart.value();
      if (gone_back_to_ == restart) return;
      if (!retries_.again()) return fail(fmt::format("too many sequence errors at PSN +{}", restart));
      return go_back(restart, now);
    }
    case RcStep::wait:
      ++counts_.rnr_waits;
      progress_at_ = now;
      resume_ = now + static_cast<std::int64_t>(Syndrome(t.syndrome).wait_ns());
      go_back(progress.restart.value(), now);
      return;
    case RcStep::fail: {
      const CapturedAnswer* captured = captured_answer(packet.psn.value());
      if (captured && captured->refuses() && captured->syndrome == t.syndrome) {
        refused_ = true;
        return;
      }
      return fail(fmt::format("the peer refused: {}", words_of(t, packet.psn.value())));
    }
    default: return;
  }
}

bool RoceMachine::may_begin(const Message& message) const {
  if (counts_.theirs_done < message.after_messages) return false;
  if (window_.oldest.value() < insisted(message.after_psn)) return false;
  const std::uint32_t reads = static_cast<std::uint32_t>(
      std::count_if(outstanding_.begin(), outstanding_.end(), [](const auto& one) { return one.needs_answer(); }));
  return !(message.is_read() || message.is_atomic()) || reads < options_.reads_at_once;
}

void RoceMachine::send_requests(Actions& actions, std::int64_t now) {
  const std::vector<Message>& messages = exchange_.ours.messages;
  while (cursor_ < exchange_.ours.psns && now >= resume_) {
    const std::size_t index = message_at(messages, cursor_);
    const Message& message = messages[index];
    const std::uint32_t skip = cursor_ - message.first;
    const bool fresh = cursor_ >= window_.next.value();
    if (fresh) {
      const std::uint32_t waits = window_.outstanding();
      if (waits >= options_.window && window_.oldest.value() < insisted(cursor_)) break;
      if (skip == 0) {
        if (!may_begin(message)) break;
        if (const auto poke = plan_.poke_of(index)) {
          // The peer's memory may change only after it has received all preceding packets.
          if (window_.oldest.value() < insisted(cursor_)) break;
          actions.pokes.push_back(*poke);
        }
        outstanding_.push_back({.first = Psn(message.first),
                                .psns = message.psns,
                                .operation = operation_of(message),
                                .length = message.length});
        ++counts_.ours_begun;
      }
      if (waits == 0) asked_at_ = now;
      progress_at_ = now;
    }
    OutgoingPacket next_packet{
        .kind = OutgoingPacket::Kind::request, .message = index, .psn = cursor_, .again = !fresh};
    if (message.is_read())
      next_packet.skip = skip;
    else
      next_packet.packet = skip;
    if (next_packet.skip == 0) next_packet.captured_frame = message.packets[next_packet.packet].t.frame;
    actions.outgoing.push_back(next_packet);
    cursor_ = message.is_read() ? message.end() : cursor_ + 1;
    if (fresh) window_.next = Psn(cursor_);
  }
}

void RoceMachine::post(Actions& actions, std::int64_t now) {
  while (counts_.theirs_asked < exchange_.theirs.messages.size() &&
         counts_.theirs_asked - counts_.theirs_done < options_.posts_at_once) {
    const Message& message = exchange_.theirs.messages[counts_.theirs_asked];
    const std::uint32_t before =
        message.after_messages == 0 ? 0 : exchange_.ours.messages[message.after_messages - 1].end();
    if (cursor_ < before || window_.oldest.value() < insisted(before)) break;
    actions.posts.push_back(counts_.theirs_asked++);
    progress_at_ = now;
  }
}

void RoceMachine::acknowledge(std::uint32_t psn, std::uint8_t syndrome, std::uint64_t captured, Actions& actions) {
  actions.outgoing.push_back({.kind = OutgoingPacket::Kind::acknowledge,
                              .psn = psn,
                              .syndrome = syndrome,
                              .msn = static_cast<std::uint32_t>(counts_.theirs_done),
                              .captured_frame = captured});
  if (Syndrome(syndrome).is_ack()) acknowledged_ = std::max(acknowledged_, psn + 1);
}

void RoceMachine::respond(std::size_t index, std::uint32_t skip, bool again, Actions& actions) {
  const Message& message = exchange_.theirs.messages[index];
  const auto msn = static_cast<std::uint32_t>(index + 1);
  for (std::uint32_t i = skip; i < message.answers.size(); ++i)
    actions.outgoing.push_back(
        {.kind = message.is_read() ? OutgoingPacket::Kind::read_response : OutgoingPacket::Kind::atomic_answer,
         .message = index,
         .packet = i,
         .psn = message.first + i,
         .skip = skip,
         .msn = msn,
         .captured_frame = skip == 0 ? message.answers[i].t.frame : 0,
         .again = again});
  acknowledged_ = std::max(acknowledged_, message.end());
}

void RoceMachine::respond_to_duplicate(const ReceivedPacket& packet, Actions& actions) {
  const std::uint32_t psn = packet.psn.value();
  const std::size_t index = message_at(exchange_.theirs.messages, psn);
  if (index >= exchange_.theirs.messages.size()) return;
  const Message& message = exchange_.theirs.messages[index];
  ++counts_.recoveries;
  if (message.is_read() || message.is_atomic()) return respond(index, psn - message.first, true, actions);
  if (expected_ > 0) {
    acknowledge(expected_ - 1, plain_ack, 0, actions);
    actions.outgoing.back().again = true;
  }
}

void RoceMachine::compare_request(const ReceivedPacket& packet, const Message& message, std::size_t index) {
  const tracking::TransportPacket& live = *packet.t;
  const CapturedPacket& captured = message.packets[std::min(index, message.packets.size() - 1)];
  const std::uint32_t psn = packet.psn.value();
  const auto report = [&](const std::string& how) {
    diverge({false, captured.t.frame, packet.frame, words_of(captured.t, psn), words_of(live, psn) + how});
  };
  if (live.op != captured.t.op || live.payload != captured.t.payload || live.length != captured.t.length)
    return report("");
  if (live.immediate != captured.t.immediate || live.solicited != captured.t.solicited ||
      live.operand != captured.t.operand || live.compare != captured.t.compare || live.key != captured.t.key ||
      live.address != captured.t.address)
    return report(", with different header fields");
  const Bytes was = captured.payload();
  if (!std::equal(was.begin(), was.end(), packet.payload.begin(), packet.payload.end()))
    report(", with different payload");
}

void RoceMachine::skip_lost(const ReceivedPacket& packet) {
  const std::vector<Message>& messages = exchange_.theirs.messages;
  const std::size_t lost = message_at(messages, expected_);
  if (lost >= messages.size()) return;
  diverge({true, messages[lost].first_frame, packet.frame, fmt::format("a request with PSN +{}", expected_),
           words_of(*packet.t, packet.psn.value())});
  ++counts_.recoveries;
  expected_ = packet.psn.value();
  while (counts_.theirs_done < messages.size() && messages[counts_.theirs_done].end() <= expected_)
    ++counts_.theirs_done;
}

void RoceMachine::asked(const ReceivedPacket& packet, Actions& actions, std::int64_t now) {
  const machines::ResponderWindow window{Psn(expected_)};
  const machines::RequestPlace place = window.place(packet.psn);
  if (exchange_.is_unreliable() && place == machines::RequestPlace::ahead) skip_lost(packet);
  switch (exchange_.is_unreliable() ? machines::RequestPlace::expected : place) {
    case machines::RequestPlace::duplicate: return respond_to_duplicate(packet, actions);
    case machines::RequestPlace::ahead:
      // One NAK per gap until the gap is closed. IBTA vol 1, 9.7.5.2.2 (clause number not verified).
      if (!nak_sent_) {
        ++counts_.recoveries;
        acknowledge(expected_, static_cast<std::uint8_t>(syndrome_kind::nak << 5 | nak_code::psn_sequence_error), 0,
                    actions);
        diverge({true, 0, packet.frame, fmt::format("a request with PSN +{}", expected_),
                 words_of(*packet.t, packet.psn.value())});
      }
      nak_sent_ = true;
      return;
    case machines::RequestPlace::expected: break;
  }
  if (exchange_.is_unreliable() && place == machines::RequestPlace::duplicate)
    return diverge({false, 0, packet.frame, "nothing", words_of(*packet.t, packet.psn.value()) + ", a duplicate"});
  const std::size_t index = message_at(exchange_.theirs.messages, expected_);
  if (index >= exchange_.theirs.messages.size()) {
    diverge({false, 0, packet.frame, "nothing", words_of(*packet.t, expected_) + ", which was not requested"});
    return;
  }
  const Message& message = exchange_.theirs.messages[index];
  nak_sent_ = false;
  const auto answers = our_answers_.equal_range(expected_);
  if (const auto wait = not_ready_.find(expected_); wait != not_ready_.end()) {
    for (auto one = answers.first; one != answers.second; ++one)
      if (Syndrome(one->second.syndrome).is_rnr_nak())
        acknowledge(expected_, one->second.syndrome, one->second.frame, actions);
    // Send each captured RNR NAK once, however often the peer retries.
    not_ready_.erase(wait);
    nak_sent_ = true;
    return;
  }
  compare_request(packet, message, expected_ - message.first);
  progress_at_ = now;
  const std::uint32_t psn = expected_;
  for (auto one = answers.first; one != answers.second; ++one)
    if (one->second.refuses()) {
      acknowledge(psn, one->second.syndrome, one->second.frame, actions);
      refused_ = true;
      return;
    }
  expected_ = message.is_read() ? message.end() : expected_ + 1;
  if (expected_ == message.end()) ++counts_.theirs_done;
  if (exchange_.is_unreliable()) return;
  if (message.is_read() || message.is_atomic()) return respond(index, 0, false, actions);
  const CapturedAnswer* captured = nullptr;
  for (auto one = answers.first; one != answers.second; ++one)
    if (Syndrome(one->second.syndrome).is_ack()) captured = &one->second;
  if (captured)
    acknowledge(psn, captured->syndrome, captured->frame, actions);
  else if (packet.t->ack_request)
    acknowledge(psn, plain_ack, 0, actions);
}

}  // namespace rdmawire::replay::reactive
