/// The faults of the reference endpoints of MRC.

#include "conformance/device/mrc/exchange.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::mrc {

const std::vector<Fault> faults{
    {"wrong-port", "mrc.sender.udp.destination-port", "The sender uses UDP port 4971.",
     [](Outgoing& out) { out.set<Udp>("dst_port", rdmawire::mrc::transposed_port); }},
    {"bth-reserved-bit", "mrc.sender.bth.reserved-zero", "The sender sets a reserved bit of the BTH.",
     [](Outgoing& out) { out.set<MrcBth>("reserved", 1); }},
    {"seth-reserved-bit", "mrc.sender.headers.reserved-zero", "The responder sets a reserved bit of the SETH.",
     [](Outgoing& out) { out.set<Seth>("reserved2", 1); }},
    {"unpadded-write", "mrc.sender.pad.to-multiple-of-four", "The requester does not pad the payload.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::rdma_write) {
         out.frame.pad.emplace();
         out.set<MrcBth>("pad", 0);
       }
     }},
    {"se-and-m-exchanged", "mrc.sender.bth.solicited-with-immediate", "The requester sets SE instead of M.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::rdma_write) out.set<MrcBth>("se", 1);
     }},
    {"control-in-data-class", "mrc.sender.control.other-dscp", "The responder sends SACKs with the DSCP of data.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::sack) out.set<Ipv6>("traffic_class.dscp", 4);
     }},
    {"tseth-format-zero", "mrc.requester.tseth.format", "The requester sends a TSETH with format 0.",
     [](Outgoing& out) { out.set<Tseth>("format", 0); }},
    {"middle-as-last", "mrc.requester.opcode.sequence", "The requester sends Last instead of Middle.",
     [](Outgoing& out) {
       if (out.get<MrcBth>("opcode") == 0xc7) out.set<MrcBth>("opcode", 0xc8);
     }},
    {"msn-counts-packets", "mrc.requester.meth.one-msn-in-message",
     "The requester increments the MSN with each packet.",
     [](Outgoing& out) {
       if (out.frame.find(info<Meth>)) out.set<Meth>("msn", out.psn & 0xffff);
     }},
    {"msn-by-two", "mrc.requester.meth.msn-increments", "The requester increments the MSN by two.",
     [](Outgoing& out) {
       if (out.frame.find(info<Meth>)) out.set<Meth>("msn", 2 * out.get<Meth>("msn"));
     }},
    {"rqmsn-in-last-packet", "mrc.requester.meth.one-rqmsn-in-message",
     "The requester sets the RQMSN only in the packet with Immediate.",
     [](Outgoing& out) {
       if (!out.frame.find(info<ImmDt>)) out.set<Meth>("rqmsn", 0);
     }},
    {"constant-rqmsn", "mrc.requester.meth.rqmsn-of-immediate", "The requester does not increment the RQMSN.",
     [](Outgoing& out) {
       if (out.get<Meth>("rqmsn") != 0) out.set<Meth>("rqmsn", 1);
     }},
    {"constant-address", "mrc.requester.reth.address-advances",
     "The requester sets the address of the whole message in each packet.",
     [](Outgoing& out) {
       if (out.frame.find(info<Reth>)) out.set<Reth>("va", out.get<Reth>("va") & ~std::uint64_t{0xffff});
     }},
    {"key-in-first-packet", "mrc.requester.reth.one-key-in-message",
     "The requester sets the R_Key only in First and Only packets.",
     [](Outgoing& out) {
       if (const auto op = out.get<MrcBth>("opcode"); op >= 0xc7 && op <= 0xc9) out.set<Reth>("rkey", 0);
     }},
    {"short-middle", "mrc.requester.payload.equal-size", "The requester shortens Middle packets.",
     [](Outgoing& out) {
       if (out.get<MrcBth>("opcode") == 0xc7) out.frame.payload.resize(128);
     }},
    {"no-rtx", "mrc.requester.retransmission.flagged", "The requester does not set RTX.",
     [](Outgoing& out) { out.set<MrcBth>("rtx", 0); }},
    {"retransmission-as-only", "mrc.requester.retransmission.unchanged",
     "The requester retransmits each packet as a message of its own.",
     [](Outgoing& out) {
       if (out.retransmission && !out.frame.find(info<ImmDt>)) out.set<MrcBth>("opcode", 0xca);
     }},
    {"retransmission-on-same-path", "mrc.requester.retransmission.other-entropy",
     "The requester retransmits with the same entropy value.",
     [](Outgoing& out) {
       if (out.retransmission) out.send_on(out.previous);
     }},
    {"single-path", "mrc.requester.spray.several-entropies", "The requester sends all packets with one entropy value.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::rdma_write) out.send_on({7, 0xc007});
     }},
    {"probe-takes-psn", "mrc.requester.probe.psn-zero", "The requester numbers probes in the PSN field.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::probe) out.set<MrcBth>("psn", 1 + out.number);
     }},
    {"sack-own-psn", "mrc.responder.sack.psn-of-cumulative", "The responder numbers SACKs in the PSN field.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::sack) out.set<MrcBth>("psn", out.number);
     }},
    {"reserved-path-state", "mrc.responder.sack.path-state", "The responder sets M to 3.",
     [](Outgoing& out) {
       if (out.get<Seth>("path_state") != 0) out.set<Seth>("path_state", 3);
     }},
    {"sack-congestion-type", "mrc.responder.sack.congestion-type",
     "The responder sends a SACK with the congestion type of a NACK.",
     [](Outgoing& out) { out.set<Seth>("cc_type", 2); }},
    {"sack-own-entropy", "mrc.responder.sack.entropy-reflected",
     "The responder returns its own entropy value in a SACK.",
     [](Outgoing& out) {
       if (out.get<Seth>("probe_response") == 0) out.set<Seth>("entropy", 0x2000d000);
     }},
    {"sack-own-timestamp", "mrc.responder.sack.timestamp-reflected", "The responder returns its own time in a SACK.",
     [](Outgoing& out) { out.set<CcState>("timestamp", 0xfff0); }},
    {"bitmap-of-ones", "mrc.responder.sack.only-sent", "The responder sets all bits of the bitmap.",
     [](Outgoing& out) { out.set<Seth>("bitmap", ~std::uint64_t{0}); }},
    {"probe-identifier-lost", "mrc.responder.sack.probe-identifier",
     "The responder does not return the identifier of a probe.",
     [](Outgoing& out) {
       if (out.get<Seth>("probe_response") != 0) out.set<Seth>("ack_psn_offset", 0x7777);
     }},
    {"nack-own-psn", "mrc.responder.nack.psn-of-rejected", "The responder numbers NACKs in the PSN field.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::nack) out.set<MrcBth>("psn", out.number);
     }},
    {"undefined-reason", "mrc.responder.nack.known-reason", "The responder sends a NACK with an undefined reason.",
     [](Outgoing& out) { out.set<Neth>("reason", 0x42); }},
    {"nack-congestion-type", "mrc.responder.nack.congestion-type",
     "The responder sends a NACK with the congestion type of a SACK.",
     [](Outgoing& out) { out.set<Neth>("cc_type", 0); }},
    {"nack-own-entropy", "mrc.responder.nack.entropy-reflected",
     "The responder returns its own entropy value in a NACK.",
     [](Outgoing& out) { out.set<Neth>("entropy", 0x2000d000); }},
    {"nack-own-timestamp", "mrc.responder.nack.timestamp-reflected", "The responder returns its own time in a NACK.",
     [](Outgoing& out) { out.set<Neth>("timestamp", 0xfff0); }},
    {"rnr-nak", "mrc.responder.ack.no-receiver-not-ready", "The responder sends an RNR NAK.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::acknowledge && out.number == 2) out.set<Aeth>("syndrome", 0x20);
     }},
    {"endpoint-operation-to-qp", "mrc.endpoint.operation.qp-two",
     "The endpoint sends an endpoint request to the QP of the WRITEs.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::endpoint_request) out.set<MrcBth>("dest_qp", 0x22);
     }},
    {"identifier-of-24-bits", "mrc.endpoint.request.identifier-bits", "The endpoint uses identifiers of 24 bits.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::endpoint_request) out.set<MrcBth>("psn", 0x10000 | out.get<MrcBth>("psn"));
     }},
    {"undefined-operation", "mrc.endpoint.request.known-operation", "The endpoint requests an undefined operation.",
     [](Outgoing& out) { out.set<Erth>("operation", 3); }},
    {"own-identifier", "mrc.endpoint.response.identifier-reflected", "The endpoint returns its own identifier.",
     [](Outgoing& out) {
       if (out.operation == MrcOperation::endpoint_response) out.set<MrcBth>("psn", 0x900 + out.number);
     }},
};

}  // namespace rdmawire::conformance::mrc
