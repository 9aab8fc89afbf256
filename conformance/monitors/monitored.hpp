#pragma once
/// Which rules a monitor judges, and what every report of a check says of itself.

#include <algorithm>
#include <array>
#include <string_view>

#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// In the order of `rules`. A test holds it against the monitors' sources.
inline constexpr auto monitored = std::to_array<RuleId>({
    "roce.sender.ipv4.no-options",
    "roce.sender.ip.ecn-clear-without-management",
    "roce.sender.ipv4.total-length",
    "roce.sender.ipv4.never-a-fragment",
    "roce.sender.ip.protocol-is-udp",
    "roce.sender.ipv6.payload-length",
    "roce.sender.udp.source-port-constant",
    "roce.sender.udp.destination-port",
    "roce.sender.udp.length",
    "roce.sender.udp.checksum-zero",
    "roce.sender.icrc.over-ipv4",
    "roce.sender.icrc.over-ipv6",
    "rc.endpoint.icrc.flush",
    "bth.sender.reserved.zero",
    "bth.sender.pad.to-multiple-of-four",
    "bth.sender.headers.as-opcode-says",
    "bth.sender.migration.state-constant",
    "roce.tester.icrc.cut-off-inconclusive",
    "roce.sender.ip.ecn-never-marked",
    "roce.sender.udp.source-port-dynamic",
    "rc.responder.ack.in-order",
    "rc.responder.ack.coalesced",
    "rc.responder.ack.asked-for-once",
    "rc.responder.msn.starts-at-zero",
    "rc.responder.msn.once-a-message",
    "rc.responder.msn.in-read-response",
    "rc.responder.msn.unchanged-by-duplicate",
    "rc.responder.order.responses-by-psn",
    "rc.responder.psn.sequence-error",
    "rc.responder.psn.sequence-error-again",
    "rc.responder.psn.wraps",
    "rc.responder.duplicate.not-executed-again",
    "rc.responder.duplicate.newest-psn-acknowledged",
    "rc.responder.duplicate.read-replayed",
    "rc.responder.duplicate.read-part-replayed",
    "rc.responder.duplicate.atomic-saved-result",
    "rc.responder.opcode.begins-in-the-middle",
    "rc.responder.opcode.message-not-ended",
    "rc.responder.opcode.operations-mixed",
    "rc.responder.opcode.read-inside-message",
    "rc.responder.length.first-or-middle",
    "rc.responder.length.only",
    "rc.responder.length.last",
    "rc.responder.length.write-total",
    "rc.responder.access.unknown-rkey",
    "rc.responder.atomic.result",
    "rc.responder.rnr.no-receive",
    "rc.responder.rnr.then-executed-once",
    "rc.responder.credits.encoding",
    "rc.responder.read.aeth-on-first-and-last",
    "rc.responder.read.response-packets",
    "rc.responder.order.behind-read",
    "rc.responder.nak.opcode-acknowledge",
    "rc.responder.atomic-write.executed",
    "rc.responder.atomic-write.duplicate",
    "rc.responder.flush.answered",
    "rc.requester.psn.increments",
    "rc.requester.psn.read-takes-responses",
    "rc.requester.ack.completes-up-to",
    "rc.requester.ack-request.on-last",
    "bth.sender.ack-request.clear-if-unacknowledged",
    "rc.requester.order.as-posted",
    "rc.requester.length.packets-filled",
    "rc.requester.read.implied-nak",
    "rc.requester.retry.begins-at-nak",
    "rc.requester.retry.go-back-n",
    "rc.requester.retry.once-for-a-loss",
    "rc.requester.timeout.window",
    "rc.requester.timeout.retry-count",
    "rc.requester.rnr.timer-kept",
    "rc.requester.rnr.retry-count",
    "rc.requester.read.at-most-outstanding",
    "rc.requester.read.rest-asked-again",
    "rc.requester.read.gap-asked-again",
    "rc.requester.retry.identical",
    "rc.requester.retry.same-operands",
    "rc.requester.retry.psn-wraps",
    "rc.requester.credits.kept",
    "uc.responder.response.none",
    "uc.requester.completion.when-sent",
    "uc.requester.psn.increments",
    "ud.receiver.psn.unchecked",
    "ud.sender.ack-request.clear",
    "ud.endpoint.mad.octets",
    "xrc.requester.headers.xrceth",
    "xrc.responder.order.responses-by-psn",
    "xrc.responder.operations.as-reliable-connection",
    "congestion.notification-point.cnp.answers-mark",
    "congestion.notification-point.cnp.format",
    "congestion.notification-point.cnp.network-headers",
    "congestion.notification-point.pacing.interval",
    "congestion.notification-point.cnp.on-loss",
    "qp.sender.state.quiet-after-error",
    "qp.endpoint.reset.fresh-start",
    "cm.endpoint.messages.fields",
    "cm.endpoint.messages.hold-for-data",
    "cm.endpoint.disconnect.nothing-accepted",
    "cm.active-side.request.retries",
    "cm.endpoint.timeout.as-announced",
    "cm.active-side.reject.remote-id",
    "cm.endpoint.reject.no-lid-reasons",
    "cm.endpoint.messages.over-the-same-network",
});

/// Of these, what a capture can show to be kept and never to be broken: a conforming device explains whatever is seen,
/// or the packet is none of RoCE to who looks. Breaking them is for cases to find. A test holds it likewise.
inline constexpr auto only_seen_kept = std::to_array<RuleId>({
    "roce.sender.ip.protocol-is-udp",
    "roce.sender.udp.source-port-dynamic",
    "rc.responder.ack.coalesced",
    "rc.responder.psn.wraps",
    "rc.responder.access.unknown-rkey",
    "rc.responder.credits.encoding",
    "rc.responder.rnr.no-receive",
    "rc.requester.ack-request.on-last",
    "ud.receiver.psn.unchecked",
    "xrc.responder.operations.as-reliable-connection",
    "congestion.notification-point.cnp.on-loss",
});

constexpr bool is_only_seen_kept(RuleId rule) {
  return std::find(only_seen_kept.begin(), only_seen_kept.end(), rule) != only_seen_kept.end();
}

constexpr bool is_monitored(RuleId rule) {
  return std::find(monitored.begin(), monitored.end(), rule) != monitored.end();
}

inline constexpr std::string_view notice =
    "Deviations are from the specification as we read it, and only as far as these packets show. This is no "
    "certification, by the IBTA, the UNH-IOL or anybody.";

}  // namespace rdmawire::conformance
