/// Decisions of the responder of a reliable connection: those of the state machine, and changes by faults.

#include <algorithm>

#include "conformance/device/roce/responder.hpp"

namespace rdmawire::device {

namespace {

using machines::InvalidRequest;
using machines::RcReaction;
using machines::RcRequest;

std::uint32_t rights_for(const RcRequest& request, const Faults& faults) {
  switch (request.op->operation) {
    case Operation::rdma_read_request: return access::remote_read;
    case Operation::compare_swap:
    case Operation::fetch_add: return access::remote_atomic;
    case Operation::flush:
      if (faults[Fault::grants_any_placement]) return 0;
      return ((request.placement & 1) != 0 ? access::flush_global : 0) |
             ((request.placement & 2) != 0 ? access::flush_persistent : 0);
    default: return access::remote_write;
  }
}

machines::RcKnowledge knowledge_of(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  machines::RcKnowledge known;
  const Opcode& op = *packet.op;
  if (machines::asks_receive(qp.responder.state, op)) {
    if (op.operation == Operation::send && !op.begins_message()) {
      known.receive_bytes = qp.responder.receive ? qp.responder.receive->bytes() : 0;
    } else {
      const auto queue = receive_queue(core, qp, packet);
      const ReceiveRequest* next = queue ? next_receive(core, qp, *queue) : nullptr;
      known.receive = next != nullptr;
      if (next) known.receive_bytes = next->bytes();
    }
  }
  if (machines::asks_access(request)) {
    const Reached reached = reach(core, qp, request);
    known.access = !reached.granted  ? machines::Access::refused
                   : !reached.exists ? machines::Access::failed
                                     : machines::Access::granted;
  }
  return known;
}

machines::RcResponderSettings settings_of(const Core& core, const QueuePair& qp) {
  machines::RcResponderSettings settings = qp.responder_settings();
  if (core.faults[Fault::ignores_queue_pair_rights])
    settings.writes = settings.reads = settings.atomics = settings.flush_global = settings.flush_persistent = true;
  if (core.faults[Fault::grants_any_placement]) settings.flush_global = settings.flush_persistent = true;
  if (core.faults[Fault::serves_atomics_at_depth_zero]) settings.reads_at_once = std::max(settings.reads_at_once, 1U);
  if (core.faults[Fault::xrc_without_atomics] && qp.transport() == Transport::xrc) settings.has_atomics = false;
  return settings;
}

/// Return the fault that accepts this wrong packet sequence.
Fault sequence_fault(const machines::MessageSequence& at, const Opcode& op) {
  if (!at.inside) return Fault::accepts_middle_first;
  if (!op.begins_message()) return Fault::accepts_mixed_operations;
  return machines::keeps_answer(op.operation) ? Fault::accepts_read_in_message : Fault::accepts_unended_message;
}

Fault length_fault(const RcRequest& request, std::uint32_t mtu) {
  if (machines::fits(*request.op, request.payload, mtu)) return Fault::truncates_long_sends;
  switch (request.op->position) {
    case Position::only: return Fault::accepts_long_only;
    case Position::last: return Fault::accepts_empty_last;
    default: return Fault::accepts_short_first;
  }
}

/// Fault: accept a request with an invalid format.
void overlook(const Core& core, const QueuePair& qp, const RcRequest& request, Decision& decision) {
  const auto pretend = [&](Fault fault) { decision.pretends = core.faults[fault]; };
  const auto execute = [&](Fault fault) {
    if (core.faults[fault]) decision.rc.reaction = RcReaction::execute;
  };
  const Operation operation = request.op->operation;
  switch (decision.rc.invalid) {
    case InvalidRequest::opcode:
      if (!request.op->known && core.faults[Fault::ignores_reserved_opcodes]) decision.rc.reaction = RcReaction::drop;
      break;
    case InvalidRequest::sequence: {
      const Fault fault = sequence_fault(qp.responder.state.sequence, *request.op);
      fault == Fault::accepts_read_in_message ? execute(fault) : pretend(fault);
      break;
    }
    case InvalidRequest::payload: {
      const Fault fault = length_fault(request, qp.attributes.path_mtu);
      fault == Fault::truncates_long_sends ? execute(fault) : pretend(fault);
      break;
    }
    case InvalidRequest::message_length: pretend(Fault::accepts_wrong_write_total); break;
    case InvalidRequest::message_too_long: pretend(Fault::accepts_giant_lengths); break;
    case InvalidRequest::atomic_write_size: pretend(Fault::accepts_any_atomic_write); break;
    case InvalidRequest::misaligned:
      execute(operation == Operation::atomic_write ? Fault::accepts_misaligned_atomic_write
                                                   : Fault::executes_misaligned_atomics);
      break;
    default: break;
  }
}

/// Return the index of the stored response whose PSNs include a duplicate.
std::optional<std::uint8_t> kept_answer(const machines::RcResponder& at, const RcRequest& request,
                                        std::uint32_t depth) {
  constexpr std::size_t places = machines::RcResponder::most_answers;
  for (std::size_t n = 0; n < depth; ++n) {
    const std::size_t i = (at.newest + places - n) % places;
    const machines::RcAnswer& kept = at.answers[i];
    const std::int32_t into = request.psn - kept.psn;
    if (kept.psns != 0 && kept.operation == request.op->operation && into >= 0 &&
        into < static_cast<std::int32_t>(kept.psns))
      return static_cast<std::uint8_t>(i);
  }
  return std::nullopt;
}

void mistake_duplicate(const Core& core, const QueuePair& qp, const RcRequest& request, Decision& decision) {
  const machines::RcResponder& at = qp.responder.state;
  const Operation operation = request.op->operation;
  RcReaction& reaction = decision.rc.reaction;
  if (core.faults[Fault::duplicates_end_early] && request.psn - at.window.expected < -(1 << 22))
    reaction = RcReaction::nak_sequence;
  if (operation == Operation::rdma_write && core.faults[Fault::executes_duplicates]) decision.repeats = true;
  if (reaction == RcReaction::answer_again) {
    if (operation == Operation::rdma_read_request && core.faults[Fault::ignores_duplicate_reads])
      reaction = RcReaction::drop;
    if (operation == Operation::flush && core.faults[Fault::ignores_duplicate_flush]) reaction = RcReaction::drop;
    if (operation == Operation::atomic_write) decision.repeats = core.faults[Fault::executes_duplicate_atomic_write];
    if (machines::is_atomic(operation))
      decision.repeats = core.faults[Fault::executes_duplicate_atomics] || core.faults[Fault::minds_duplicate_operands];
    return;
  }
  if (reaction != RcReaction::drop || !request.op->known || !machines::keeps_answer(operation)) return;
  const auto kept = kept_answer(at, request, qp.attributes.max_dest_rd_atomic);
  if (kept && operation == Operation::rdma_read_request && core.faults[Fault::replays_reads_anywhere]) {
    reaction = RcReaction::answer_again;
    decision.rc.answer = *kept;
  } else if (!kept && core.faults[Fault::acknowledges_forgotten]) {
    reaction = RcReaction::acknowledge_again;
  }
}

void mistake_expected(Core& core, QueuePair& qp, const RcRequest& request, Decision& decision) {
  RcReaction& reaction = decision.rc.reaction;
  const Operation operation = request.op->operation;
  if (reaction == RcReaction::nak_invalid) overlook(core, qp, request, decision);
  if (reaction == RcReaction::nak_access && core.faults[Fault::unknown_key_invalid_request] &&
      !core.memory.knows(request.rkey))
    decision.nak = nak_code::invalid_request;
  if (reaction == RcReaction::rnr_nak && core.faults[Fault::no_rnr_nak]) reaction = RcReaction::drop;
  if (reaction != RcReaction::execute) return;
  const bool has_reth =
      request.op->begins_message() && (operation == Operation::rdma_write || operation == Operation::rdma_read_request);
  if (has_reth && request.length == 0 && core.faults[Fault::checks_empty_access] && !core.memory.knows(request.rkey)) {
    reaction = RcReaction::nak_access;
    decision.nak = nak_code::remote_access_error;
  }
  const auto reads = std::ranges::count_if(
      qp.responder.answers, [](const Response& waiting) { return waiting.kind == Response::Kind::read; });
  if (operation == Operation::rdma_read_request && core.faults[Fault::drops_reads_beyond_depth] &&
      static_cast<std::uint32_t>(reads) >= qp.attributes.max_dest_rd_atomic)
    reaction = RcReaction::drop;
}

bool access_allows(Core& core, QueuePair& qp, const RcRequest& request) {
  const bool may = (qp.attributes.access & access::remote_write) != 0;
  const Reached reached = reach(core, qp, request);
  return may && reached.granted && reached.exists;
}

std::uint8_t nak_of(RcReaction reaction) {
  if (reaction == RcReaction::nak_access) return nak_code::remote_access_error;
  return reaction == RcReaction::nak_operational ? nak_code::remote_operational_error : nak_code::invalid_request;
}

}  // namespace

RcRequest request_of(const Packet& packet) {
  const PacketFields& from = packet.fields;
  return {.op = packet.op,
          .psn = from.psn,
          .wants_acknowledge = from.ack_request,
          .payload = static_cast<std::uint32_t>(packet.payload.size()),
          .va = from.va,
          .rkey = from.rkey,
          .length = from.length,
          .swap_or_add = from.swap_add,
          .compare = from.compare,
          .placement = from.placement,
          .selectivity = from.selectivity};
}

std::optional<std::uint32_t> receive_queue(Core& core, const QueuePair& qp, const Packet& packet) {
  if (qp.options.type != QpType::xrc_target) return qp.options.srq;
  for (const auto& [handle, srq] : core.srqs) {
    const bool own = srq.xrcd == qp.options.xrcd || core.faults[Fault::takes_any_srq];
    if (srq.number == packet.fields.xrc_srq && srq.xrcd != 0 && own) return handle;
  }
  return std::nullopt;
}

Reached reach(Core& core, QueuePair& qp, const RcRequest& request) {
  const Opcode& op = *request.op;
  const Accessor who{qp.responder.pd, qp.qpn};
  const std::uint32_t rights = rights_for(request, core.faults);
  std::uint64_t va = request.va, bytes = request.length;
  std::uint32_t rkey = request.rkey;
  if (machines::is_atomic(op.operation)) bytes = 8;
  if (op.operation == Operation::rdma_write && !op.begins_message()) {
    va = qp.responder.state.va;
    rkey = qp.responder.state.rkey;
    bytes = request.payload;
  }
  // A19.4.1.2: the range is not checked for a whole region.
  if (op.operation == Operation::flush && request.selectivity == 1 &&
      !core.faults[Fault::checks_range_of_region_flush]) {
    const bool granted = core.memory.remote(who, rkey, va, bytes, rights, true).has_value();
    return {granted, granted, {}};
  }
  const auto host = core.memory.remote(who, rkey, va, bytes, rights);
  if (!host) return {};
  const MutableBytes found = core.memory.at(*host, bytes);
  return {true, bytes == 0 || !found.empty(), found};
}

Decision decide(Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
  const machines::RcResponder& at = qp.responder.state;
  const machines::RcResponderSettings settings = settings_of(core, qp);
  Decision decision;
  decision.rc = machines::judge(at, request, settings,
                                [&](const RcRequest& asked) { return knowledge_of(core, qp, packet, asked); });
  // The announced length of the WRITE is complete before its last packet. The error is detected at the last packet.
  const std::uint64_t before = request.op->begins_message() ? 0 : at.done;
  const std::uint64_t whole = request.op->begins_message() ? request.length : at.length;
  if (decision.rc.reaction == RcReaction::nak_invalid && decision.rc.invalid == InvalidRequest::message_length &&
      !request.op->ends_message() && before + request.payload == whole)
    decision.rc.reaction = access_allows(core, qp, request) ? RcReaction::execute : RcReaction::nak_access;
  decision.nak = nak_of(decision.rc.reaction);
  if (!core.faults.any() || (request.op->known && request.op->direction != Direction::request)) return decision;
  RcReaction& reaction = decision.rc.reaction;
  switch (at.window.place(request.psn)) {
    case machines::RequestPlace::duplicate: mistake_duplicate(core, qp, request, decision); break;
    case machines::RequestPlace::expected:
      mistake_expected(core, qp, request, decision);
      if (core.faults[Fault::psn_does_not_wrap] && request.psn.value() == 0)
        reaction = at.nak_sent ? RcReaction::drop : RcReaction::nak_sequence;
      break;
    case machines::RequestPlace::ahead:
      if (core.faults[Fault::naks_every_packet]) reaction = RcReaction::nak_sequence;
      if (core.faults[Fault::naks_first_gap_alone] && qp.responder.gaps != 0) reaction = RcReaction::drop;
      break;
  }
  return decision;
}

}  // namespace rdmawire::device
