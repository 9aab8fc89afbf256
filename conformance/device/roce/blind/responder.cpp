/// Blind faults of the responder of reliable connections, and of its atomics.

#include "conformance/device/roce/responder.hpp"

#include <bit>

#include "conformance/device/roce/blind/blind_faults.hpp"
#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

using machines::InvalidRequest;
using machines::RcReaction;
using machines::RcRequest;
using machines::RequestPlace;

constexpr std::string_view responder = "RC responder", atomics = "atomics";

/// Return the number of an expected packet in its message, from 0.
std::uint32_t packet_number(const QueuePair& qp, const RcRequest& request) {
  return request.op->begins_message() ? 0 : qp.responder.state.done / qp.attributes.path_mtu;
}

bool requests_read(const RcRequest& request) { return request.op->operation == Operation::rdma_read_request; }

/// Reject a request as invalid.
void refuse(Decision& decision, InvalidRequest why) {
  decision.rc.reaction = RcReaction::nak_invalid;
  decision.rc.invalid = why;
  decision.nak = nak_code::invalid_request;
}

constexpr RoceBlindFault blind_sequence_rows[] = {
    {.name = "msn-lost-at-psn-wrap",
     .area = responder,
     .sentence = "The responder does not count a message inside which the PSN wraps.",
     .trigger = "message of two or more packets whose PSNs wrap: the MSN of its ACK is one too low",
     .add_to =
         [](Decisions& d) {
           d.responder.advance.override_with(
               [](const auto& next, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
                 const std::uint32_t before = packet_number(qp, request);
                 next(qp, request, original);
                 if (request.op->ends_message() && request.psn.value() < before) qp.responder.state.msn += -1;
               });
         }},
    {.name = "ignores-ackreq-inside-messages",
     .area = responder,
     .sentence = "The responder acknowledges only packets that end a message.",
     .trigger = "AckReq in a first or middle packet: no ACK",
     .add_to =
         [](Decisions& d) {
           d.responder.acknowledge.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const RcRequest& request) {
                 if (request.op->ends_message()) next(core, qp, request);
               });
         }},
    {.name = "nak-repeats-after-duplicate",
     .area = responder,
     .sentence = "A duplicate clears the responder's memory of the NAK that it sent for a gap.",
     .trigger = "gap, NAK, duplicate, another packet after the gap: a second NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.judge.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
                 const Decision decision = next(core, qp, packet, request);
                 if (decision.rc.reaction == RcReaction::acknowledge_again) qp.responder.state.nak_sent = false;
                 return decision;
               });
         }},
    {.name = "nak-state-survives-read",
     .area = responder,
     .sentence = "A READ that closes a gap does not end the gap for the responder.",
     .trigger = "gap, NAK, READ as the missing request, another gap directly after it: no NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.advance.override_with(
               [](const auto& next, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
                 const bool sent = qp.responder.state.nak_sent;
                 next(qp, request, original);
                 if (requests_read(request)) qp.responder.state.nak_sent = sent;
               });
         }},
    {.name = "far-gaps-are-duplicates",
     .area = responder,
     .sentence = "The responder compares PSNs with 16 bits, so that a PSN far ahead is a duplicate.",
     .trigger = "request 32,768 to 65,535 PSNs ahead: an ACK instead of a NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.judge.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
                 Decision decision = next(core, qp, packet, request);
                 const std::int32_t ahead = request.psn - qp.responder.state.window.expected;
                 if (decision.rc.reaction == RcReaction::nak_sequence && (ahead & 0x8000) != 0)
                   decision.rc.reaction = RcReaction::acknowledge_again;
                 return decision;
               });
         }},
    {.name = "packet-257-rejected",
     .area = responder,
     .sentence = "The responder counts the packets of a message with 8 bits and rejects packet 257.",
     .trigger = "message of 257 or more packets: an invalid request NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.judge.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
                 Decision decision = next(core, qp, packet, request);
                 if (decision.rc.reaction == RcReaction::execute && packet_number(qp, request) >= 256)
                   refuse(decision, InvalidRequest::sequence);
                 return decision;
               });
         }},
    {.name = "long-payload-accepted-at-mtu-256",
     .area = responder,
     .sentence = "The responder accepts WRITE Only packets with up to 512 bytes at path MTU 256.",
     .trigger = "path MTU 256, WRITE Only with 257 to 512 bytes: an ACK instead of a NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.judge.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const Packet& packet, const RcRequest& request) {
                 Decision decision = next(core, qp, packet, request);
                 const bool long_only = request.op->operation == Operation::rdma_write &&
                                        request.op->position == Position::only && !request.op->immediate &&
                                        request.payload <= 512;
                 if (qp.attributes.path_mtu == 256 && long_only && decision.rc.reaction == RcReaction::nak_invalid &&
                     decision.rc.invalid == InvalidRequest::payload)
                   decision.rc.reaction = RcReaction::execute;
                 return decision;
               });
         }},
    {.name = "pad-three-read-as-two",
     .area = responder,
     .sentence = "The receiver treats a pad count of 3 as 2 in Last packets.",
     .trigger = "message of two or more packets with length 1 modulo 4: one byte too many, or a NAK",
     .add_to =
         [](Decisions& d) {
           d.decoding.pad_of.override_with([](const auto& next, const View<Bth>& bth) {
             const std::uint32_t pad = next(bth);
             return pad == 3 && opcode(bth.get<"opcode">()).position == Position::last ? 2U : pad;
           });
         }},
};

constexpr RoceBlindFault blind_response_rows[] = {
    {.name = "keeps-power-of-two-of-responses",
     .area = responder,
     .sentence = "The responder keeps the largest power of two of responses below max_dest_rd_atomic.",
     .trigger = "max_dest_rd_atomic 3, 5, 6 or 7, as many READs, duplicate of the oldest: no response",
     .add_to =
         [](Decisions& d) {
           d.responder.settings.override_with([](const auto& next, const QueuePair& qp) {
             machines::RcResponderSettings settings = next(qp);
             settings.reads_at_once = std::bit_floor(settings.reads_at_once);
             return settings;
           });
         }},
    {.name = "replays-reads-to-the-end",
     .area = responder,
     .sentence = "The responder answers a retry of the middle of a READ with everything up to the end of the READ.",
     .trigger = "duplicate READ request for packets in the middle, without the last: too many response packets",
     .add_to =
         [](Decisions& d) {
           d.responder.replayed_part.override_with(
               [](const auto& next, const RcRequest& request, const machines::RcAnswer& kept) {
                 RcRequest part = next(request, kept);
                 if (requests_read(request) && request.psn != kept.psn)
                   part.length = kept.length - static_cast<std::uint32_t>(request.va - kept.va);
                 return part;
               });
         }},
    {.name = "duplicate-ack-covers-read",
     .area = responder,
     .sentence = "The responder acknowledges a duplicate with the newest PSN, even if it belongs to a READ.",
     .trigger = "WRITE, READ, duplicate of the WRITE: the ACK has the PSN of the READ",
     .add_to =
         [](Decisions& d) {
           d.responder.duplicate_psn.override_with(
               [](const auto& /*next*/, const Responder& at, const RcRequest& /*request*/) {
                 return at.state.window.expected - 1;
               });
         }},
    {.name = "exact-reads-end-with-middle",
     .area = responder,
     .sentence = "The last packet of a READ response is a Middle packet if it is full.",
     .trigger = "READ of exactly 2, 3, … path MTUs: the last opcode is READ Response Middle",
     .add_to =
         [](Decisions& d) {
           d.responder.next_of_read.override_with([](const auto& next, Core& core, QueuePair& qp, Response& response) {
             const bool full = response.left == qp.attributes.path_mtu && response.psn != response.request;
             std::optional<OutgoingPacket> packet = next(core, qp, response);
             if (packet && full)
               packet->fields.opcode =
                   find_opcode(qp.transport(), Operation::rdma_read_response, Position::middle)->value;
             return packet;
           });
         }},
    {.name = "reads-use-2048-at-mtu-4096",
     .area = responder,
     .sentence = "The packets of READ responses have at most 2,048 bytes at path MTU 4096.",
     .trigger = "path MTU 4096, READ of more than 2,048 bytes: too many and too short packets",
     .add_to =
         [](Decisions& d) {
           d.responder.read_response_mtu.override_with(
               [](const auto& next, const QueuePair& qp, const Response& response) {
                 return std::min(next(qp, response), 2048U);
               });
         }},
    {.name = "msn-of-8-bits",
     .area = responder,
     .sentence = "The responder sends only the low 8 bits of the MSN in acknowledgements.",
     .trigger = "256 or more messages on a queue pair: the MSN of the ACK wraps to 0",
     .add_to =
         [](Decisions& d) {
           d.responder.send_acknowledgement.override_with(
               [](const auto& next, Core& core, QueuePair& qp, Response response) {
                 response.msn = Msn(response.msn.value() & 0xff);
                 next(core, qp, std::move(response));
               });
         }},
    {.name = "empty-read-not-counted",
     .area = responder,
     .sentence = "The responder does not count a READ of 0 bytes as a message.",
     .trigger = "READ of 0 bytes: the MSN of its response and of later ACKs is one too low",
     .add_to =
         [](Decisions& d) {
           d.responder.advance.override_with(
               [](const auto& next, QueuePair& qp, const RcRequest& request, std::uint64_t original) {
                 next(qp, request, original);
                 if (requests_read(request) && request.length == 0) qp.responder.state.msn += -1;
               });
         }},
    {.name = "credits-rounded-up",
     .area = responder,
     .sentence = "The responder rounds the number of posted receives up to the next credit code.",
     .trigger = "5, 7, 9, … posted receives: the ACK promises more credits than receives",
     .add_to =
         [](Decisions& d) {
           d.responder.credits.override_with([](const auto& next, const Core& core, QueuePair& qp) {
             const std::uint8_t code = next(core, qp);
             const bool exact = code >= 30 || credits_of_code(code) == qp.receives.size();
             return static_cast<std::uint8_t>(exact ? code : code + 1);
           });
         }},
};

constexpr RoceBlindFault blind_receive_rows[] = {
    {.name = "rnr-nak-of-write-names-first-packet",
     .area = responder,
     .sentence = "The RNR NAK of a WRITE with Immediate has the PSN of its first packet.",
     .trigger = "WRITE with Immediate of two or more packets without a posted receive: PSN of the RNR NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.report_not_ready.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const RcRequest& request) {
                 RcRequest first = request;
                 first.psn = request.psn - std::int64_t{packet_number(qp, request)};
                 next(core, qp, first);
               });
         }},
    {.name = "rnr-code-zero-sent-as-one",
     .area = responder,
     .sentence = "The responder sends RNR timer code 1 (10 us) for code 0 (655.36 ms).",
     .trigger = "min_rnr_timer 0 and no posted receive: the code of the RNR NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.rnr_timer.override_with(
               [](const auto& next, const QueuePair& qp) { return std::max(next(qp), 1U); });
         }},
    {.name = "nak-after-second-rnr",
     .area = responder,
     .sentence = "The responder reports packets that follow the second RNR NAK for a request as a gap.",
     .trigger = "two RNR NAKs for one PSN, then a packet after it: a sequence error NAK",
     .add_to =
         [](Decisions& d) {
           d.responder.report_not_ready.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const RcRequest& request) {
                 const bool again = qp.responder.state.nak_sent;
                 next(core, qp, request);
                 qp.responder.state.nak_sent = !again;
               });
         }},
    {.name = "late-overrun-flushes-receive",
     .area = responder,
     .sentence = "A SEND that exceeds its receive after two packets completes the receive as flushed.",
     .trigger = "SEND whose third or later packet exceeds the receive: the status is not a length error",
     .add_to =
         [](Decisions& d) {
           d.responder.complete_rejected.override_with(
               [](const auto& next, Core& core, QueuePair& qp, const ReceiveRequest& request, Status status) {
                 const bool late = qp.responder.written >= 2ULL * qp.attributes.path_mtu;
                 next(core, qp, request, status == Status::local_length && late ? Status::flushed : status);
               });
         }},
    {.name = "byte-count-of-16-bits",
     .area = responder,
     .sentence = "The completion of a receive has only the low 16 bits of the message length.",
     .trigger = "SEND of 65,536 or more bytes: the byte count of the completion",
     .add_to =
         [](Decisions& d) {
           d.responder.receive_completion.override_with(
               [](const auto& next, const QueuePair& qp, const Packet& packet, std::uint64_t bytes) {
                 return next(qp, packet, bytes & 0xffff);
               });
         }},
    {.name = "write-immediate-counts-last-packet",
     .area = responder,
     .sentence = "The completion of a WRITE with Immediate counts only the bytes of its last packet.",
     .trigger = "WRITE with Immediate of two or more packets: the byte count of the completion",
     .add_to =
         [](Decisions& d) {
           d.responder.receive_completion.override_with(
               [](const auto& next, const QueuePair& qp, const Packet& packet, std::uint64_t bytes) {
                 const bool write = packet.op->operation == Operation::rdma_write;
                 return next(qp, packet, write ? packet.payload.size() : bytes);
               });
         }},
    {.name = "solicited-only-in-single-packets",
     .area = responder,
     .sentence = "The responder ignores the solicited event bit of Last packets.",
     .trigger = "solicited SEND of two or more packets, CQ armed for solicited events: no notification",
     .add_to =
         [](Decisions& d) {
           d.responder.is_solicited.override_with([](const auto& next, const Packet& packet) {
             return packet.op->position == Position::only && next(packet);
           });
         }},
};

constexpr RoceBlindFault blind_atomic_rows[] = {
    {.name = "atomic-replay-of-newest",
     .area = atomics,
     .sentence = "The responder answers a duplicate of an older atomic with the result of the newest atomic.",
     .trigger = "two atomics with different results, duplicate of the first: its original value",
     .add_to =
         [](Decisions& d) {
           d.responder.apply_duplicate.override_with([](const auto& next, Core& core, QueuePair& qp,
                                                        const Packet& packet, const RcRequest& request,
                                                        machines::RcAnswer* kept) {
             next(core, qp, packet, request, kept);
             const machines::RcResponder& at = qp.responder.state;
             const machines::RcAnswer& newest = at.answers[at.newest];
             if (kept && machines::is_atomic(kept->operation) && machines::is_atomic(newest.operation))
               kept->original = newest.original;
           });
         }},
    {.name = "compare-of-32-bits",
     .area = atomics,
     .sentence = "Compare and Swap compares only the low 32 bits.",
     .trigger = "CmpSwap whose compare value differs only in the high half: memory changes",
     .add_to =
         [](Decisions& d) {
           d.responder.operate.override_with([](const auto& next, MutableBytes bytes, const RcRequest& request) {
             RcRequest changed = request;
             const std::uint64_t original = load_le(bytes.data(), 8);
             if (((original ^ request.compare) & 0xffffffff) == 0) changed.compare = original;
             return next(bytes, changed);
           });
         }},
    {.name = "add-without-carry-at-bit-32",
     .area = atomics,
     .sentence = "Fetch and Add adds the two halves without the carry between them.",
     .trigger = "FetchAdd with a carry out of bit 31: the value in memory",
     .add_to =
         [](Decisions& d) {
           d.responder.operate.override_with([](const auto& next, MutableBytes bytes, const RcRequest& request) {
             constexpr std::uint64_t low = 0xffffffff;
             RcRequest changed = request;
             const std::uint64_t original = load_le(bytes.data(), 8), sum = original + request.swap_or_add;
             const std::uint64_t high = (original & ~low) + (request.swap_or_add & ~low);
             changed.swap_or_add = (high | (sum & low)) - original;
             return next(bytes, changed);
           });
         }},
    {.name = "atomic-at-region-end-refused",
     .area = atomics,
     .sentence = "The responder refuses an atomic on the last eight bytes of a region.",
     .trigger = "atomic on the last eight bytes of a region: an access error NAK",
     .add_to =
         [](Decisions& d) {
           d.memory.judge_access.override_with(
               [](const auto& next, const machines::MemoryObject* object, const machines::RemoteAccess& access) {
                 machines::RemoteAccess longer = access;
                 if (contains_any(access.needed, machines::MemoryRights::remote_atomic)) ++longer.length;
                 return next(object, longer);
               });
         }},
    {.name = "failed-swap-replayed-as-success",
     .area = atomics,
     .sentence = "The duplicate of a Compare and Swap that changed nothing returns the compare value.",
     .trigger = "CmpSwap with an unequal value, duplicate of it: its original value",
     .add_to =
         [](Decisions& d) {
           d.responder.apply_duplicate.override_with([](const auto& next, Core& core, QueuePair& qp,
                                                        const Packet& packet, const RcRequest& request,
                                                        machines::RcAnswer* kept) {
             next(core, qp, packet, request, kept);
             if (kept && kept->operation == Operation::compare_swap) kept->original = request.compare;
           });
         }},
    {.name = "fetch-add-needs-write-right",
     .area = atomics,
     .sentence = "Fetch and Add needs the remote write right of the region instead of the remote atomic right.",
     .trigger = "FetchAdd on a region with remote write and without remote atomic: memory changes",
     .add_to =
         [](Decisions& d) {
           d.responder.rights_for.override_with([](const auto& next, const RcRequest& request) {
             return request.op->operation == Operation::fetch_add ? access::remote_write : next(request);
           });
         }},
};

}  // namespace

std::span<const RoceBlindFault> responder_blind_faults() {
  static const std::vector<RoceBlindFault> rows = [] {
    std::vector<RoceBlindFault> all;
    for (const std::span<const RoceBlindFault> part :
         {std::span<const RoceBlindFault>(blind_sequence_rows), std::span<const RoceBlindFault>(blind_response_rows),
          std::span<const RoceBlindFault>(blind_receive_rows), std::span<const RoceBlindFault>(blind_atomic_rows)})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

}  // namespace rdmawire::device
