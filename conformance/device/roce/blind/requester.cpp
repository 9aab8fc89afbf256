/// Blind faults of the requester of reliable connections.

#include "conformance/device/roce/requester.hpp"

#include <algorithm>
#include <bit>

#include "conformance/device/roce/blind/blind_faults.hpp"

namespace rdmawire::device {

namespace {

using machines::RcProgress;
using machines::RcResponse;
using machines::RcStep;

constexpr std::string_view requester = "RC requester";

bool has_several_packets(const SendWork& work) {
  const auto wire = wire_operation(work.request.opcode);
  return wire && (wire->operation == Operation::send || wire->operation == Operation::rdma_write);
}

constexpr RoceBlindFault blind_retry_rows[] = {
    {.name = "rnr-retries-not-restored",
     .area = requester,
     .sentence = "Progress does not restore the RNR retry counter.",
     .trigger = "rnr_retry 1 to 6, RNR NAK and ACK, repeated until the counter is used up: an early error",
     .add_to =
         [](Decisions& d) {
           d.requester.reload_retries.override_with([](const auto& next, Requester& at) {
             const std::uint8_t left = at.retries.rnr_left;
             next(at);
             at.retries.rnr_left = left;
           });
         }},
    {.name = "retries-restored-only-when-idle",
     .area = requester,
     .sentence = "Progress restores the retry counters only if no request is outstanding afterwards.",
     .trigger = "timeouts with partial ACKs between them: an early retry error",
     .add_to =
         [](Decisions& d) {
           d.requester.reload_retries.override_with([](const auto& next, Requester& at) {
             if (at.window.outstanding() == 0) next(at);
           });
         }},
    {.name = "rnr-code-zero-waits-10-us",
     .area = requester,
     .sentence = "The requester waits 10 us after an RNR NAK with timer code 0 (655.36 ms).",
     .trigger = "RNR NAK with timer code 0: the retry is too early",
     .add_to =
         [](Decisions& d) {
           d.requester.rnr_wait.override_with([](const auto& next, Syndrome syndrome) {
             return next(syndrome.code() == 0 ? Syndrome::rnr_nak(1) : syndrome);
           });
         }},
    {.name = "timeout-code-one-is-none",
     .area = requester,
     .sentence = "A local ACK timeout with code 1 disables the timer.",
     .trigger = "timeout code 1 and a lost request: no retransmission",
     .add_to =
         [](Decisions& d) {
           d.requester.transport_timeout.override_with([](const auto& next, const QueuePair& qp) {
             return qp.attributes.timeout == 1 ? std::int64_t{0} : next(qp);
           });
         }},
    {.name = "retry-requests-no-acknowledgement",
     .area = requester,
     .sentence = "The retransmission of a message of three or more packets has no AckReq.",
     .trigger = "loss of the last packet of a message of three packets: AckReq of the retransmission",
     .add_to =
         [](Decisions& d) {
           d.requester.requests_acknowledgement.override_with(
               [](const auto& next, const QueuePair& qp, const Opcode& op) {
                 const Requester& at = qp.requester;
                 const bool retried = at.at < at.queue.size() && at.queue[at.at].psns >= 3 &&
                                      is_retransmission(at, at.queue[at.at], at.packet);
                 return !retried && next(qp, op);
               });
         }},
    {.name = "retry-restarts-wrapped-message",
     .area = requester,
     .sentence = "A recovery after a PSN wrap starts with the first packet of the message.",
     .trigger = "message whose PSNs wrap inside it, NAK for a PSN after the wrap: acknowledged PSNs are retransmitted",
     .add_to =
         [](Decisions& d) {
           d.requester.go_back.override_with([](const auto& next, Requester& at, Psn psn) {
             next(at, psn);
             if (at.at >= at.queue.size()) return;
             const SendWork& work = at.queue[at.at];
             if (has_several_packets(work) && at.packet != 0 && psn.value() < work.first.value()) at.packet = 0;
           });
         }},
    {.name = "rnr-restarts-message",
     .area = requester,
     .sentence = "The requester retransmits the complete message after an RNR NAK.",
     .trigger = "RNR NAK for the last packet of a WRITE with Immediate of two or more packets: the PSN of the retry",
     .add_to =
         [](Decisions& d) {
           d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
             RcProgress progress = next(qp, response);
             const Requester& at = qp.requester;
             if (progress.step != RcStep::wait) return progress;
             if (const std::size_t i = index_of(at, progress.restart); i < at.queue.size())
               progress.restart = at.queue[i].first;
             return progress;
           });
         }},
    {.name = "read-retry-steps-back",
     .area = requester,
     .sentence = "A retry of a READ requests the last received packet a second time if three or more have arrived.",
     .trigger = "READ of five packets, loss of the fourth response: the PSN and address of the retry",
     .add_to =
         [](Decisions& d) {
           d.requester.next_packet.override_with([](const auto& next, const Requester& at, const SendWork& work) {
             const std::uint32_t packet = next(at, work);
             const bool read = work.request.opcode == WorkOpcode::read;
             return read && work.answered >= 3 && packet == work.answered ? packet - 1 : packet;
           });
         }},
    {.name = "partial-ack-completes-message",
     .area = requester,
     .sentence = "An ACK of the second to last packet completes a message of three or more packets.",
     .trigger = "message of three packets, ACK of the second, loss of the third: an early completion, no retry",
     .add_to =
         [](Decisions& d) {
           d.requester.judge_response.override_with([](const auto& next, QueuePair& qp, const RcResponse& response) {
             RcProgress progress = next(qp, response);
             const Requester& at = qp.requester;
             const std::size_t i = index_of(at, response.psn);
             if (progress.step != RcStep::progress || progress.takes_payload || i >= at.queue.size()) return progress;
             const Psn last = outstanding_of(at.queue[i]).last();
             if (has_several_packets(at.queue[i]) && at.queue[i].psns >= 3 && progress.through == last)
               progress.through = last + 1;
             return progress;
           });
         }},
};

constexpr RoceBlindFault blind_request_rows[] = {
    {.name = "read-depth-rounded-up",
     .area = requester,
     .sentence = "The requester rounds max_rd_atomic up to a power of two.",
     .trigger = "max_rd_atomic 3, 5, 6 or 7 and more READs: too many outstanding READs",
     .add_to =
         [](Decisions& d) {
           d.requester.most_outstanding.override_with(
               [](const auto& next, const QueuePair& qp) { return std::bit_ceil(next(qp)); });
         }},
    {.name = "unaligned-element-loses-byte",
     .area = requester,
     .sentence = "The first byte of a scatter/gather element is sent as 0 if it is not at a multiple of four in the "
                 "message.",
     .trigger = "SEND or WRITE with two elements, the first of which has 1 to 3 bytes modulo 4: wrong payload",
     .add_to =
         [](Decisions& d) {
           d.requester.read_payload.override_with([](const auto& next, Core& core, const QueuePair& qp,
                                                     const SendWork& work, std::uint32_t packet,
                                                     std::vector<std::uint8_t>& to) {
             const std::size_t start = to.size();
             const Status status = next(core, qp, work, packet, to);
             const std::uint64_t from = std::uint64_t{packet} * qp.attributes.path_mtu;
             std::uint64_t boundary = 0;
             for (const Sge& sge : work.request.sges) {
               if (boundary % 4 != 0 && boundary >= from && start + (boundary - from) < to.size())
                 to[start + (boundary - from)] = 0;
               boundary += sge.length;
             }
             return status;
           });
         }},
    {.name = "read-tail-lost",
     .area = requester,
     .sentence = "READs of several packets store only a multiple of four bytes.",
     .trigger = "READ of two or more packets with pad 1 to 3: wrong bytes in memory",
     .add_to =
         [](Decisions& d) {
           d.requester.take_payload.override_with(
               [](const auto& next, Core& core, QueuePair& qp, SendWork& work, const Packet& packet) {
                 Packet shorter = packet;
                 if (packet.op->operation == Operation::rdma_read_response && packet.op->position == Position::last)
                   shorter.payload = packet.payload.first(packet.payload.size() & ~std::size_t{3});
                 return next(core, qp, work, shorter);
               });
         }},
    {.name = "fence-ignores-atomics",
     .area = requester,
     .sentence = "A fenced request waits for READs, but not for atomics.",
     .trigger = "atomic without response, fenced WRITE: the WRITE is sent too early",
     .add_to =
         [](Decisions& d) {
           d.requester.waits_at_fence.override_with(
               [](const auto& next, const Requester& at, const SendRequest& request) {
                 if (is_local(request.opcode) || !next(at, request)) return next(at, request);
                 return std::ranges::any_of(at.queue, [](const SendWork& work) {
                   return work.started && waits_for_answer(work) &&
                          !machines::is_atomic(wire_operation(work.request.opcode)->operation);
                 });
               });
         }},
    {.name = "credits-limit-writes",
     .area = requester,
     .sentence = "The credits of the responder also limit WRITEs and READs, which use no receive.",
     .trigger = "ACK with 0 credits, then several WRITEs: only one is sent",
     .add_to =
         [](Decisions& d) {
           d.requester.has_credit.override_with(
               [](const auto& next, const Requester& at, const WireOperation& /*operation*/) {
                 return next(at, {.operation = Operation::send});
               });
         }},
    {.name = "exact-read-takes-another-psn",
     .area = requester,
     .sentence = "A READ of 2, 3, … path MTUs takes one PSN too many.",
     .trigger = "READ of exactly two path MTUs: the PSN of the next request, and the READ fails",
     .add_to =
         [](Decisions& d) {
           d.requester.psns_of.override_with(
               [](const auto& next, const Core& core, const QueuePair& qp, Operation operation, std::uint32_t bytes) {
                 const std::uint32_t psns = next(core, qp, operation, bytes), mtu = qp.attributes.path_mtu;
                 const bool exact = operation == Operation::rdma_read_request && bytes >= 2 * mtu && bytes % mtu == 0;
                 return psns + (exact ? 1 : 0);
               });
         }},
    {.name = "solicited-lost-in-last-with-immediate",
     .area = requester,
     .sentence = "SEND Last with Immediate packets have no solicited event bit.",
     .trigger = "solicited SEND with Immediate of two or more packets: the bit of the last packet",
     .add_to =
         [](Decisions& d) {
           d.encoding.base_header.override_with([](const auto& next, const PacketFields& from) {
             const Opcode& op = opcode(from.opcode);
             PacketFields fields = from;
             if (op.operation == Operation::send && op.position == Position::last && op.immediate)
               fields.solicited = false;
             return next(fields);
           });
         }},
    {.name = "inline-data-restarts",
     .area = requester,
     .sentence = "Each packet of an inline message has the bytes of the first packet.",
     .trigger = "inline SEND or WRITE that exceeds the path MTU: wrong payload from the second packet on",
     .add_to =
         [](Decisions& d) {
           d.requester.read_payload.override_with([](const auto& next, Core& core, const QueuePair& qp,
                                                     const SendWork& work, std::uint32_t packet,
                                                     std::vector<std::uint8_t>& to) {
             if (!work.request.is_inline || packet == 0) return next(core, qp, work, packet, to);
             const std::uint64_t mtu = qp.attributes.path_mtu, from = packet * mtu;
             return gather(core.memory, qp.options.pd, work.request, 0, std::min(mtu, work.length - from), to);
           });
         }},
};

}  // namespace

std::span<const RoceBlindFault> requester_blind_faults() {
  static const std::vector<RoceBlindFault> rows = [] {
    std::vector<RoceBlindFault> all(std::begin(blind_retry_rows), std::end(blind_retry_rows));
    all.insert(all.end(), std::begin(blind_request_rows), std::end(blind_request_rows));
    return all;
  }();
  return rows;
}

}  // namespace rdmawire::device
