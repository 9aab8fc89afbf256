/// States of a queue pair and the attributes of each transition. IBTA vol 1, 10.3.1, 11.2.4.2.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

machines::QueuePairAttributes given_by(const QueuePairChange& change) {
  using enum machines::QueuePairAttribute;
  machines::QueuePairAttributes given;
  const auto add = [&](const auto& value, machines::QueuePairAttribute attribute) {
    if (value) given = given | machines::QueuePairAttributes{attribute};
  };
  add(change.current, current_state);
  add(change.access, access_flags);
  add(change.pkey_index, pkey_index);
  add(change.port, port);
  add(change.qkey, qkey);
  add(change.path, address_vector);
  add(change.path_mtu, path_mtu);
  add(change.timeout, timeout);
  add(change.retry_count, retry_count);
  add(change.rnr_retry, rnr_retry);
  add(change.rq_psn, rq_psn);
  add(change.sq_psn, sq_psn);
  add(change.max_rd_atomic, max_rd_atomic);
  add(change.max_dest_rd_atomic, max_dest_rd_atomic);
  add(change.min_rnr_timer, min_rnr_timer);
  add(change.dest_qpn, destination_qpn);
  add(change.sqd_notify, notify_drained);
  return given;
}

std::string names_of(machines::QueuePairAttributes attributes) {
  static constexpr const char* names[] = {"cur_state",     "access",
                                          "pkey_index",    "port",
                                          "qkey",          "path",
                                          "path_mtu",      "timeout",
                                          "retry_count",   "rnr_retry",
                                          "rq_psn",        "sq_psn",
                                          "max_rd_atomic", "max_dest_rd_atomic",
                                          "min_rnr_timer", "dest_qpn",
                                          "alt_path",      "path_mig_state",
                                          "sqd_notify"};
  std::string text;
  for (unsigned bit = 0; bit < std::size(names); ++bit)
    if ((attributes.bits() >> bit & 1) != 0) text += (text.empty() ? "" : ", ") + std::string(names[bit]);
  return text;
}

std::optional<Error> wrong_value(const Core& core, const QueuePairChange& change) {
  const auto wrong = [](const char* what, std::uint64_t value, std::uint64_t most) {
    return Error{EINVAL, fmt::format("modify_qp: {}: {} exceeds {}", what, value, most)};
  };
  if (change.pkey_index && *change.pkey_index >= core.port.pkeys.size())
    return wrong("pkey_index", *change.pkey_index, core.port.pkeys.size() - 1);
  if (change.port && *change.port != 1)
    return Error{EINVAL, fmt::format("modify_qp: port: {}: the device has only port 1", *change.port)};
  if (change.path_mtu && (!machines::is_path_mtu(*change.path_mtu) || *change.path_mtu > core.port.mtu))
    return Error{EINVAL, fmt::format("modify_qp: path_mtu: {}: must be 256, 512, 1024, 2048 or 4096, and at most {}",
                                     *change.path_mtu, core.port.mtu)};
  if (change.path &&
      (change.path->sgid_index >= core.port.gids.size() || core.port.gids[change.path->sgid_index].gid.is_zero()))
    return Error{EINVAL, fmt::format("modify_qp: path: the GID table has no entry {}", change.path->sgid_index)};
  for (const auto& [name, psn] :
       {std::pair{"dest_qpn", change.dest_qpn}, std::pair{"rq_psn", change.rq_psn}, std::pair{"sq_psn", change.sq_psn}})
    if (psn && *psn > Psn::mask) return wrong(name, *psn, Psn::mask);
  for (const auto& [name, count] :
       {std::pair{"max_rd_atomic", change.max_rd_atomic}, std::pair{"max_dest_rd_atomic", change.max_dest_rd_atomic}})
    if (count && *count > core.options.most_rd_atomic) return wrong(name, *count, core.options.most_rd_atomic);
  if (change.min_rnr_timer && *change.min_rnr_timer > 31) return wrong("min_rnr_timer", *change.min_rnr_timer, 31);
  if (change.timeout && *change.timeout > 31) return wrong("timeout", *change.timeout, 31);
  if (change.retry_count && *change.retry_count > 7) return wrong("retry_count", *change.retry_count, 7);
  if (change.rnr_retry && *change.rnr_retry > 7) return wrong("rnr_retry", *change.rnr_retry, 7);
  return std::nullopt;
}

template <class T>
void set(T& to, const std::optional<T>& from) {
  if (from) to = *from;
}

void apply(QueuePairAttributes& to, const QueuePairChange& from) {
  set(to.pkey_index, from.pkey_index);
  set(to.port, from.port);
  set(to.access, from.access);
  set(to.qkey, from.qkey);
  set(to.path_mtu, from.path_mtu);
  set(to.path, from.path);
  set(to.dest_qpn, from.dest_qpn);
  set(to.rq_psn, from.rq_psn);
  set(to.sq_psn, from.sq_psn);
  set(to.max_rd_atomic, from.max_rd_atomic);
  set(to.max_dest_rd_atomic, from.max_dest_rd_atomic);
  set(to.min_rnr_timer, from.min_rnr_timer);
  set(to.timeout, from.timeout);
  set(to.retry_count, from.retry_count);
  set(to.rnr_retry, from.rnr_retry);
}

}  // namespace

void enter_error(Core& core, QueuePair& qp) {
  if (qp.state == QpState::err) return;
  qp.state = QpState::err;
  // Move the queues first because a completion can re-enter this function.
  std::deque<SendWork> sends = std::move(qp.requester.queue);
  std::deque<ReceiveRequest> receives = std::move(qp.receives);
  std::optional<ReceiveRequest> open = std::move(qp.responder.receive);
  const std::uint32_t open_srq = qp.responder.receive_srq;
  qp.requester.queue.clear();
  qp.receives.clear();
  qp.responder.receive.reset();
  qp.responder.answers.clear();
  qp.requester.ack_deadline = never;
  const QueuePairDecisions& decisions = core.decisions.queue_pairs;
  decisions.flush_sends(core, qp, std::move(sends));
  qp.responder.receive_srq = open_srq;
  if (open) complete_receive(core, qp, *open, {.status = Status::flushed, .opcode = CompletionOpcode::receive}, false);
  decisions.flush_receives(core, qp, receives);
  if (decisions.reports_last_wqe(qp) && !qp.last_wqe_reported) {
    qp.last_wqe_reported = true;
    core.event(EventType::last_wqe_reached, qp.handle);
  }
}

void enter_send_error(Core& core, QueuePair& qp) {
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
  qp.state = QpState::sqe;
  std::deque<SendWork> sends = std::move(qp.requester.queue);
  const Psn next = qp.requester.window.next;
  qp.requester = {};
  qp.requester.window = {next, next};
  for (const SendWork& work : sends) complete_send(core, qp, work.request, Status::flushed, 0);
}

void check_drained(Core& core, QueuePair& qp) {
  Requester& at = qp.requester;
  if (qp.state != QpState::sqd || at.drained_reported) return;
  if (std::ranges::any_of(at.queue, [](const SendWork& work) { return work.started; })) return;
  at.drained_reported = true;
  if (core.decisions.queue_pairs.reports_drained(at)) core.event(EventType::sq_drained, qp.handle);
}

Result<void> modify(Core& core, QueuePair& qp, const QueuePairChange& change) {
  const QpState from = qp.state, to = change.state.value_or(from);
  const auto refuse = [](std::string message) { return tl::unexpected(Error{EINVAL, std::move(message)}); };
  const auto name = [](QpState state) { return machines::to_string(state); };
  if (change.current && *change.current != from)
    return refuse(
        fmt::format("modify_qp: cur_state: {} differs from the current state {}", name(*change.current), name(from)));
  const QueuePairDecisions& decisions = core.decisions.queue_pairs;
  const machines::ModifyDecision decision = decisions.judge_modify(qp, to, given_by(change));
  if (change.qkey && !decisions.may_set_qkey(qp, *change.qkey))
    return tl::unexpected(Error{EPERM, fmt::format("modify_qp: qkey: 0x{:x} is privileged", *change.qkey)});
  switch (decision.answer) {
    case machines::ModifyAnswer::done: break;
    case machines::ModifyAnswer::illegal_transition:
      return refuse(fmt::format("modify_qp: state: invalid transition from {} to {}", name(from), name(to)));
    case machines::ModifyAnswer::attribute_missing:
      return refuse(fmt::format("modify_qp: {}: required for the transition from {} to {}",
                                names_of(decision.attributes), name(from), name(to)));
    case machines::ModifyAnswer::attribute_refused:
      return refuse(fmt::format("modify_qp: {}: not allowed for the transition from {} to {}",
                                names_of(decision.attributes), name(from), name(to)));
  }
  if (to != QpState::reset && to != QpState::err) {
    if (auto error = wrong_value(core, change)) return tl::unexpected(std::move(*error));
    apply(qp.attributes, change);
  }
  if (to == QpState::err) {
    enter_error(core, qp);
    return {};
  }
  qp.state = to;
  if (to == QpState::reset) decisions.reset(qp);
  if (from == QpState::init && to == QpState::rtr) decisions.begin_receiving(qp);
  if (from == QpState::rtr && to == QpState::rts) decisions.begin_sending(qp);
  if (from != QpState::sqd && to == QpState::sqd) {
    qp.requester.draining = change.sqd_notify.value_or(false);
    qp.requester.drained_reported = false;
    check_drained(core, qp);
  }
  if (to == QpState::rts) qp.requester.draining = false;
  return {};
}

namespace conforming {

machines::ModifyDecision judge_modify(const QueuePair& qp, QpState to, machines::QueuePairAttributes given) {
  return machines::judge_modify(qp.options.type, qp.state, to, given);
}

bool may_set_qkey(const QueuePair& qp, std::uint32_t qkey) {
  return (qkey & 0x80000000U) == 0 || qp.options.privileged;
}

void reset(QueuePair& qp) {
  qp.attributes = {};
  qp.requester = {};
  qp.responder = {};
  qp.receives.clear();
  qp.rate = {};
  qp.notification = {};
  qp.next_send = 0;
  qp.last_wqe_reported = qp.established_reported = false;
}

void begin_receiving(QueuePair& qp) {
  const Psn psn(qp.attributes.rq_psn);
  qp.responder = {};
  qp.responder.state = machines::RcResponder::expecting(psn);
  qp.responder.uc = machines::UcResponder::expecting(psn);
}

void begin_sending(QueuePair& qp) {
  const QueuePairAttributes& with = qp.attributes;
  const Psn psn(with.sq_psn);
  qp.requester = {};
  qp.requester.window = {psn, psn};
  qp.requester.highest_sent = psn;
  qp.requester.retries = {with.retry_count, with.rnr_retry, with.retry_count, with.rnr_retry};
}

void flush_sends(Core& core, QueuePair& qp, std::deque<SendWork> sends) {
  for (const SendWork& work : sends) complete_send(core, qp, work.request, Status::flushed, 0);
}

void flush_receives(Core& core, QueuePair& qp, const std::deque<ReceiveRequest>& receives) {
  for (const ReceiveRequest& request : receives)
    complete_receive(core, qp, request, {.status = Status::flushed, .opcode = CompletionOpcode::receive}, false);
}

bool reports_last_wqe(const QueuePair& qp) { return qp.options.srq != 0 || qp.options.type == QpType::xrc_target; }

bool reports_drained(const Requester& at) { return at.draining; }

}  // namespace conforming

}  // namespace rdmawire::device
