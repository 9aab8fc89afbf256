#include "dissectors/tracking/undecided_losses.hpp"

#include <algorithm>

#include "dissectors/protocol/modular.hpp"
#include "dissectors/tracking/requester.hpp"

namespace rdmawire::tracking {
namespace {

bool contains(const Event& loss, std::uint32_t psn) {
  const std::int32_t distance = Psn(psn) - Psn(loss.psn);
  return distance >= 0 && static_cast<std::uint64_t>(distance) < loss.packets;
}

}  // namespace

void UndecidedLosses::add_before(const Event& loss, bool response, bool numbered) {
  ++open_[response ? 1 : 0];
  add({loss, {}, false, response, numbered});
}

void UndecidedLosses::add_after(const Event& loss, bool response, bool missing_again, bool behind) {
  ++open_after_[response ? 1 : 0];
  Waiting waiting{loss, {}, true, response};
  waiting.missing_again = missing_again;
  waiting.behind = behind;
  add(std::move(waiting));
}

bool UndecidedLosses::attach(const Event& recovery) {
  if (recovery.cause != Cause::sequence_error_nak && recovery.cause != Cause::implied_nak) return false;
  Waiting* of = nullptr;
  for (Waiting& waiting : waiting_)
    if (waiting.loss.kind == EventKind::lost_in_network && waiting.response == (recovery.cause == Cause::implied_nak) &&
        (!of || waiting.loss.cause_frame == recovery.cause_frame || of->loss.cause_frame != recovery.cause_frame))
      of = &waiting;
  if (!of) return false;
  of->recoveries.push_back(recovery);
  return true;
}

bool UndecidedLosses::arrived_late(std::uint32_t psn, bool response) {
  for (std::size_t i = waiting_.size(); i-- > 0;) {
    Waiting& waiting = waiting_[i];
    if (waiting.after || waiting.response != response || waiting.refuted || !contains(waiting.loss, psn)) continue;
    if (waiting.loss.psn == psn) waiting.loss.psn = (Psn(psn) + 1).value();
    if (--waiting.loss.packets == 0) waiting.refuted = true;
    return true;
  }
  return false;
}

bool UndecidedLosses::is_missing(std::uint32_t psn) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return !waiting.after && !waiting.response && !waiting.refuted && contains(waiting.loss, psn);
  });
}

void UndecidedLosses::note_repeat(std::uint32_t psn, std::uint32_t end) {
  for (Waiting& waiting : waiting_) {
    if (!waiting.response || Psn(waiting.loss.psn) - Psn(psn) < 0 || Psn(end) - Psn(waiting.loss.psn) <= 0) continue;
    ++waiting.requested;
    if (waiting.loss.kind != EventKind::lost_in_capture) continue;
    // The requester has not received the response, either.
    waiting.loss.kind = EventKind::lost_in_network;
    waiting.loss.cause = Cause::before_capture;
    ++open_[1];
  }
}

void UndecidedLosses::note_response(std::uint32_t psn) {
  bool surplus = false;
  for (Waiting& waiting : waiting_) {
    if (waiting.after || !waiting.response || waiting.refuted || waiting.loss.psn != psn) continue;
    ++waiting.responses;
    surplus = surplus || waiting.responses > waiting.requested;
  }
  if (surplus && arrived_late(psn, true)) note_late(true);
}

void UndecidedLosses::note_recovery() {
  for (Waiting& waiting : waiting_) waiting.repeated = true;
}

bool UndecidedLosses::note_second_arrival(std::uint32_t psn, std::int64_t time) {
  for (Waiting& waiting : waiting_) {
    if (!waiting.after || waiting.response || waiting.arrived || waiting.repeated ||
        Psn(psn) - Psn(waiting.loss.psn) < 0 || time - waiting.loss.time > second_arrival_ns)
      continue;
    waiting.arrived = true;
    note_late_after(false);
    return true;
  }
  return false;
}

// Decides about one loss. If a network reorders packets, some of them arrive only after their retransmission. If few
// packets are proven to be late, the others can be lost or late.
void UndecidedLosses::settle(Waiting& waiting, const Reporter& to) {
  Sent& sender = waiting.response ? to.responder() : to.requester();
  Event& loss = waiting.loss;
  const std::size_t direction = waiting.response ? 1 : 0;
  if (waiting.refuted) {
    for (Event& recovery : waiting.recoveries) recovery.cause = Cause::reordered;
  } else if (loss.kind == EventKind::lost_in_capture) {
    if (reorders(false) || reorders(true)) {
      loss.certainty = Certainty::possible;
      loss.unobserved = Unobserved::send_order;
    }
    sender.lost_in_capture += static_cast<std::uint32_t>(loss.packets);
    to.tell(loss);
  } else if (const std::uint32_t many = waiting.numbered ? 16 : 2;
             !waiting.after && late_[direction] >= several && late_[direction] >= many * open_[direction]) {
    for (Event& recovery : waiting.recoveries) {
      recovery.cause = Cause::reordered;
      recovery.certainty = Certainty::likely;
      recovery.unobserved = Unobserved::send_order;
    }
  } else if (!waiting.after) {
    const bool some_late = late_[direction] >= several && late_[direction] * 2 >= open_[direction];
    loss.certainty = waiting.numbered ? Certainty::certain : some_late ? Certainty::possible : Certainty::likely;
    if (!waiting.numbered) loss.unobserved = Unobserved::send_order;
    sender.lost_in_network += static_cast<std::uint32_t>(loss.packets);
    to.tell(loss);
    for (Event& recovery : waiting.recoveries) {
      recovery.certainty = loss.certainty;
      recovery.unobserved = loss.unobserved;
    }
  } else {
    const std::uint32_t late = late_after_[direction], open = open_after_[direction];
    loss.unobserved = Unobserved::arrival;
    // As long as no packet is proven to be late, requests are more likely lost. Late responses leave fewer traces, but
    // they arrive before a second retransmission.
    const bool reorders = late_[0] + late_[1] + late_after_[0] + late_after_[1] >= several;
    const bool lost = late == 0 && !reorders && (!waiting.response || waiting.missing_again);
    if (late == 0) {
      loss.certainty = lost ? Certainty::likely : Certainty::possible;
      sender.lost_in_network += static_cast<std::uint32_t>(loss.packets);
      to.tell(loss);
    } else if (waiting.arrived || late * several >= open) {
      loss.kind = EventKind::out_of_order;
      loss.certainty = Certainty::likely;
      if (waiting.behind) loss.psn = (Psn(loss.psn) - 1).value();
      sender.out_of_order += static_cast<std::uint32_t>(loss.packets);
      to.tell(loss);
    }
    for (Event& recovery : waiting.recoveries) {
      const bool reordered = waiting.arrived || (late != 0 && late * several >= open);
      if (reordered) recovery.cause = Cause::reordered;
      recovery.certainty = reordered || lost ? Certainty::likely : Certainty::possible;
      recovery.unobserved = Unobserved::arrival;
    }
  }
  for (Event& recovery : waiting.recoveries) to.tell(recovery);
}

void UndecidedLosses::settle(const Reporter& to) {
  std::vector<Waiting> waiting = std::move(waiting_);
  waiting_.clear();
  for (Waiting& one : waiting) settle(one, to);
}

}  // namespace rdmawire::tracking
