#include "conformance/coverage/exceptions.hpp"

#include <array>
#include <vector>

namespace rdmawire::conformance {
namespace {

constexpr std::array monitors{
    UndetectingMonitor{
        "roce.sender.ip.protocol-is-udp",
        "A packet of another IP protocol is not recognized as RoCE; the tester recognizes it by its QP."},
    UndetectingMonitor{"roce.sender.udp.source-port-dynamic", "The rule permits every port."},
    UndetectingMonitor{"rc.responder.ack.coalesced",
                       "An ACK of a smaller PSN is also valid, and acknowledges less; only the tester knows what was "
                       "executed."},
    UndetectingMonitor{"rc.responder.psn.wraps", "A violation appears as one of RSP-009, a NAK without a gap."},
    UndetectingMonitor{"rc.responder.access.unknown-rkey", "Packets do not show which keys are valid."},
    UndetectingMonitor{"rc.responder.credits.encoding", "Packets do not show the number of posted receives."},
    UndetectingMonitor{"rc.responder.rnr.no-receive", "Packets do not show whether a receive is posted."},
    UndetectingMonitor{"rc.requester.ack-request.on-last",
                       "A retransmission of the last packet that was lost or is captured later may have AckReq set."},
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
        "The tester cannot choose the device's first TCP sequence number; the monitor's tests have such streams."},
};

}  // namespace

std::span<const WithoutCase> without_case() { return rules_without_case; }

std::span<const NotPassed> not_passed() {
  static const std::vector<NotPassed> all{
      {"rc.responder.read.too-many", Verdict::may, "A responder may reject the READ or execute it."},
      {"rc.requester.read.gap-asked-again/at once", Verdict::may, "A requester may also wait for its timeout."},
      {"ud.endpoint.mad.bytes/252 bytes to it", Verdict::may, "No clause determines the reaction to a short MAD."},
      {"congestion.notification-point.pacing.interval", Verdict::may, "The interval is implementation-defined."},
      {"rdmap.responder.order.write-after-read", Verdict::may,
       "A Read may return the data of a later Write: the RFC does not order them."},
  };
  return all;
}

std::span<const UndetectingMonitor> undetecting_monitors() { return monitors; }

}  // namespace rdmawire::conformance
