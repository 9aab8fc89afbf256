#include "conformance/coverage/exceptions.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace rdmawire::conformance {
namespace {

constexpr std::array monitors{
    UndetectingMonitor{
        "roce.sender.ip.protocol-is-udp",
        "A packet of another IP protocol is not recognized as RoCE, but the tester recognizes it by its QP."},
    UndetectingMonitor{"roce.sender.udp.source-port-dynamic", "The rule permits every port."},
    UndetectingMonitor{
        "rc.responder.ack.coalesced",
        "An ACK of a smaller PSN is also valid, and only the tester knows which requests were executed."},
    UndetectingMonitor{"rc.responder.psn.wraps", "A violation appears as one of RSP-009, a NAK without a gap."},
    UndetectingMonitor{"rc.responder.access.unknown-rkey", "Packets do not show which keys are valid."},
    UndetectingMonitor{"rc.responder.credits.encoding", "Packets do not show the number of posted receives."},
    UndetectingMonitor{"rc.responder.rnr.no-receive", "Packets do not show whether a receive is posted."},
    UndetectingMonitor{"rc.requester.ack-request.on-last",
                       "Another transmission of the packet, lost or captured later, may have AckReq set."},
    UndetectingMonitor{"ud.receiver.psn.unchecked", "Packets do not show whether a datagram is received."},
    UndetectingMonitor{"xrc.responder.operations.as-reliable-connection",
                       "A violation is reported under the rule of RC that it breaks."},
    UndetectingMonitor{"congestion.notification-point.cnp.on-loss", "The rule permits a CNP and its absence."},
    UndetectingMonitor{"mpa.responder.reject.reply", "Packets do not show whether the application rejects."},
    UndetectingMonitor{"mpa.endpoint.crc.asked-by-default",
                       "Packets do not show whether an administrator disabled CRCs."},
    UndetectingMonitor{"fpdu.tester.stream.begins-in-the-middle", "It is a rule for the tester."},
    UndetectingMonitor{"ddp.endpoint.order.as-submitted", "Packets do not show the order of submission."},
    UndetectingMonitor{
        "rdmap.endpoint.write.format",
        "A wrong buffer model or opcode is reported under DDP-001, and delivery is not visible in packets."},
    UndetectingMonitor{"rdmap.receiver.send.zero-length", "Packets do not show the delivery to the application."},
};

constexpr std::string_view in_every_case = "The tester checks every packet in every case: cases/frame_check.hpp.";

constexpr std::array rules_without_case{
    WithoutCase{"roce.sender.ipv4.header-checksum", in_every_case},
    WithoutCase{"roce.sender.udp.checksum-right-if-set", in_every_case},
    WithoutCase{"bth.sender.version.zero", in_every_case},
    WithoutCase{"bth.sender.headers.reserved-zero", in_every_case},
    WithoutCase{
        "fpdu.sender.markers.across-wrap",
        "The tester cannot choose the device's first TCP sequence number. The monitor's tests have such streams."},
};

constexpr std::string_view only_without_transfer =
    "Only faults that prevent every transfer make it fail. A fault of its rule is missing.";

constexpr std::array cases_without_own_fault{
    UndetectingCase{"bth.receiver.icrc.reserved-byte-masked/all bits", "minds-reserved-bits", ""},
    UndetectingCase{"roce.receiver.ip.foreign-destination-dropped/another entry", "short-total-length",
                    "The source address is also foreign, which is another reason to drop the packet."},
    UndetectingCase{"rc.requester.retry.same-operands/atomic", "restarts-behind-nak", ""},
    UndetectingCase{"rc.responder.psn.half-window/ahead", "nak-has-received-psn", ""},
    UndetectingCase{"rc.responder.msn.once-a-message/READ", "msn-late-in-read-response", ""},
    UndetectingCase{"rc.responder.order.behind-read/READ after a WRITE", "short-total-length", only_without_transfer},
    UndetectingCase{"rc.responder.duplicate.newest-psn-acknowledged/after a READ", "msn-late-in-read-response", ""},
    UndetectingCase{"rc.responder.duplicate.open-message-undisturbed/atomic", "extension-headers-reversed", ""},
    UndetectingCase{"rc.responder.duplicate.read-within-first/end of the address space", "short-total-length",
                    only_without_transfer},
    UndetectingCase{"rc.responder.duplicate.atomic-other-operands/address", "extension-headers-reversed", ""},
    UndetectingCase{"rc.responder.duplicate.earlier-read-first/both retransmitted", "answers-newest-first", ""},
    UndetectingCase{"rc.responder.nak.opcode-acknowledge/READ", "unknown-key-invalid-request", ""},
    UndetectingCase{"rc.responder.receive.kept-on-nak-and-duplicate/RNR NAK", "no-rnr-nak", ""},
    UndetectingCase{"rc.responder.receive.write-with-immediate/no bytes", "checks-empty-access", ""},
    UndetectingCase{"rc.responder.state.error-uses-one-receive/ERR requested", "forgets-to-flush", ""},
    UndetectingCase{"rc.requester.length.maximum/2^31", "",
                    "No fault of the reference devices limits messages to less than 2^31 bytes."},
    UndetectingCase{"rc.requester.read.duplicate-ignored/no repetition", "read-takes-one-psn", ""},
    UndetectingCase{"rc.requester.read.duplicate-ignored/response of the preceding READ", "short-total-length",
                    only_without_transfer},
    UndetectingCase{"rc.requester.retry.go-back-n/last packet lost", "restarts-behind-nak", ""},
    UndetectingCase{"rc.requester.retry.psn-wraps/packet after the wrap lost", "restarts-behind-nak", ""},
    UndetectingCase{"uc.responder.psn.gap-in-message/Last", "acknowledges-uc", ""},
    UndetectingCase{"uc.responder.psn.gap-in-message/WRITE", "acknowledges-uc", ""},
    UndetectingCase{"uc.responder.access.zero-length-unchecked/WRITE", "acknowledges-uc", ""},
    UndetectingCase{"ud.receiver.delivery.network-header-first/IPv6", "only-ipv4", ""},
    UndetectingCase{"ud.receiver.length.receive-too-small/equal to the receive", "icrc-reserved-unmasked",
                    only_without_transfer},
    UndetectingCase{"ud.endpoint.mad.bytes/252 bytes to the device", "",
                    "No clause determines the reaction to a short MAD, so the case only reports it."},
    UndetectingCase{"ud.receiver.multicast.malformed-dropped/unicast to 0xffffff", "",
                    "No fault of the reference devices delivers a unicast packet to a multicast group."},
    UndetectingCase{"xrc.responder.order.responses-by-psn/each acknowledged", "msn-counts-packets", ""},
    UndetectingCase{"xrc.responder.receive.other-domain/nonexistent SRQ", "no-rnr-nak", ""},
    UndetectingCase{"xrc.responder.receive.other-domain/any SRQ of the domain", "xrc-target-as-sender",
                    only_without_transfer},
    UndetectingCase{"xrc.verbs.capability.absent-means-dropped", "short-total-length", only_without_transfer},
    UndetectingCase{"congestion.reaction-point.cnp.strange-ignored/unknown QP", "short-total-length",
                    only_without_transfer},
    UndetectingCase{"congestion.reaction-point.cnp.strange-ignored/reserved bytes", "short-total-length",
                    only_without_transfer},
    UndetectingCase{"congestion.receiver.fecn.no-reaction/acknowledgement", "minds-reserved-bits", ""},
    UndetectingCase{"qp.sender.state.quiet-after-error/ERR", "answers-in-error", ""},
    UndetectingCase{"qp.sender.state.quiet-after-error/RESET", "",
                    "No fault of the reference devices sends a packet of a QP in RESET."},
    UndetectingCase{"cm.endpoint.reject.no-lid-reasons/LAP", "short-mads", ""},
    UndetectingCase{"cm.endpoint.messages.over-the-same-network/IPv4, by the CM", "short-mads", ""},
    UndetectingCase{"cm.active-side.reject.remote-id/no MRA", "short-mads", ""},
    UndetectingCase{"mpa.endpoint.crc.used-if-either-asks/generated, device's reply", "refuses-revision-1",
                    only_without_transfer},
    UndetectingCase{"mpa.endpoint.crc.used-if-either-asks/checked, device's reply", "ignores-crc", ""},
    UndetectingCase{"mpa.endpoint.crc.used-if-either-asks/generated, device's request", "sends-markers-unasked",
                    only_without_transfer},
    UndetectingCase{"mpa.endpoint.crc.used-if-either-asks/checked, device's request", "ignores-crc", ""},
    UndetectingCase{"mpa.sender.markers.inserted-if-asked/initiator", "no-first-marker", ""},
    UndetectingCase{"mpa.responder.enhanced.answered-enhanced/rejected", "rejects-by-closing", ""},
    UndetectingCase{"mpa.responder.depth.within-request/14 bits", "replies-unenhanced", ""},
    UndetectingCase{"mpa.responder.depth.all-ones/the local ORD stays", "exceeds-ord", ""},
    UndetectingCase{"mpa.responder.depth.all-ones/the local IRD stays", "answers-newest-first", ""},
    UndetectingCase{"fpdu.receiver.stream.any-segmentation/thirty in one segment", "refuses-revision-1",
                    only_without_transfer},
    UndetectingCase{"fpdu.receiver.length.shorter-than-header/RDMA Read Request", "refuses-revision-1",
                    only_without_transfer},
    UndetectingCase{"fpdu.sender.length.within-mulpdu/EMSS 100", "two-ulpdus-an-fpdu", ""},
    UndetectingCase{"fpdu.receiver.markers.mismatch/the two low bits", "delivers-writes", ""},
    UndetectingCase{"fpdu.receiver.markers.mismatch/RESERVED", "delivers-writes", ""},
    UndetectingCase{"fpdu.sender.markers.one-direction/both", "no-first-marker", ""},
    UndetectingCase{"fpdu.sender.markers.one-direction/neither", "refuses-revision-1", only_without_transfer},
    UndetectingCase{"fpdu.sender.markers.one-direction/both, initiator", "no-first-marker", ""},
    UndetectingCase{"fpdu.sender.markers.one-direction/neither, initiator", "sends-markers-unasked",
                    only_without_transfer},
    UndetectingCase{"ddp.data-sink.length.buffer-too-small/equal to the buffer", "refuses-revision-1",
                    only_without_transfer},
    UndetectingCase{"ddp.data-sink.length.zero-delivered/at the start", "drops-empty-sends", ""},
    UndetectingCase{"ddp.data-sink.length.zero-delivered/last segment", "refuses-revision-1", only_without_transfer},
    UndetectingCase{"ddp.data-sink.message.interleaved/a Send in an RDMA Write", "delivers-writes", ""},
    UndetectingCase{"ddp.data-sink.access.other-stream/stream of the same protection domain", "delivers-writes", ""},
    UndetectingCase{"ddp.data-sink.access.other-stream/window", "delivers-writes", ""},
    UndetectingCase{"ddp.data-sink.access.bounds/to both bounds", "delivers-writes", ""},
    UndetectingCase{"ddp.endpoint.order.as-submitted/delivered", "drops-empty-sends", ""},
    UndetectingCase{"ddp.data-sink.error.later-dropped/Send with the error", "silent-invalid-stag", ""},
    UndetectingCase{"ddp.data-sink.error.later-dropped/RDMA Read Request with the error", "silent-invalid-queue", ""},
    UndetectingCase{"ddp.data-sink.close.inside-message/between messages", "forgets-to-flush", ""},
    UndetectingCase{"rdmap.endpoint.write.format/sent", "refuses-revision-1", only_without_transfer},
    UndetectingCase{"rdmap.receiver.reserved.ignored/Invalidate STag", "refuses-revision-1", only_without_transfer},
    UndetectingCase{"rdmap.receiver.send.zero-length/sent", "empty-message-twice", ""},
    UndetectingCase{"rdmap.responder.read.zero-length/after a Read of 8 bytes", "response-to-source", ""},
    UndetectingCase{"rdmap.responder.order.read-after-write/several segments", "two-ulpdus-an-fpdu", ""},
    UndetectingCase{"rdmap.responder.order.write-after-read", "",
                    "The RFC permits both results, so the case only reports the result."},
    UndetectingCase{"rdmap.requester.response.where-it-says/too short", "delivers-writes", ""},
    UndetectingCase{"rdmap.receiver.invalidate.associated/region, an RDMA Write before it", "delivers-writes", ""},
    UndetectingCase{"rdmap.responder.access.invalidated/deregistered, RDMA Write", "silent-invalid-stag", ""},
    UndetectingCase{"rdmap.responder.access.invalidated/deregistered, RDMA Read", "unspecified-read-errors", ""},
    UndetectingCase{"terminate.sender.protection.headers/Send with Invalidate", "silent-invalidate-error", ""},
    UndetectingCase{"terminate.receiver.message.malformed/QN 0", "silent-invalid-queue", ""},
    UndetectingCase{"terminate.receiver.message.malformed/MSN 2", "refuses-revision-1", only_without_transfer},
    UndetectingCase{"terminate.receiver.message.malformed/MO 4", "refuses-revision-1", only_without_transfer},
    UndetectingCase{"terminate.receiver.message.buffer-guaranteed/two posted", "forgets-to-flush", ""},
    UndetectingCase{"rdmap.receiver.immediate.after-write/from the tester", "needs-whole-fpdus", ""},
    UndetectingCase{"rdmap.endpoint.extension.version/Invalidate STag ignored", "response-to-source", ""},
    UndetectingCase{"rdmap.endpoint.atomic.shares-read-depth/order", "two-ulpdus-an-fpdu", ""},
    UndetectingCase{"ud.receiver.length.receive-too-small/a MAD of 260 bytes", "short-mads", ""},
    UndetectingCase{"mpa.receiver.enhanced.too-short/no bytes, in the reply", "",
                    "No fault of the reference devices accepts an enhanced reply without its data."},
};

constexpr std::array silent_monitors{
    MonitorWithoutFault{"roce.tester.icrc.cut-off-inconclusive", "It is a rule for the tester."},
    MonitorWithoutFault{"uc.requester.completion.when-sent",
                        "The fault of this rule changes only completions, which packets do not show."},
    MonitorWithoutFault{
        "fpdu.sender.markers.across-wrap",
        "The tester cannot choose the device's first TCP sequence number. The monitor's tests have such streams."},
};

}  // namespace

std::string reason_of(const UndetectingCase& one) {
  if (one.fault.empty()) return std::string(one.reason);
  return fmt::format("Fails under `{}`, a fault of another rule.{}{}", one.fault, one.reason.empty() ? "" : " ",
                     one.reason);
}

std::span<const UndetectingCase> undetecting_cases() { return cases_without_own_fault; }

std::span<const WithoutCase> without_case() { return rules_without_case; }

std::span<const NotPassed> not_passed() {
  static const std::vector<NotPassed> all{
      {"rc.responder.read.too-many", Verdict::may, "A responder may reject the READ or execute it."},
      {"rc.requester.read.gap-asked-again/before the timeout", Verdict::may,
       "A requester may also wait for its timeout."},
      {"ud.endpoint.mad.bytes/252 bytes to the device", Verdict::may,
       "No clause determines the reaction to a short MAD."},
      {"congestion.notification-point.pacing.interval", Verdict::may, "The interval is implementation-defined."},
      {"rdmap.responder.order.write-after-read", Verdict::may,
       "A Read may return the data of a later Write: the RFC does not order them."},
  };
  return all;
}

std::span<const MonitorWithoutFault> monitors_without_fault() { return silent_monitors; }

std::span<const UndetectingMonitor> undetecting_monitors() { return monitors; }

}  // namespace rdmawire::conformance
