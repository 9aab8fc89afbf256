#include "conformance/monitors/mrc_monitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "conformance/monitors/header_monitor.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint32_t icrc_size = 4, sprayed_packets = 64;
constexpr std::size_t remembered_identifiers = 256;

std::int32_t as_signed(std::uint64_t value) { return static_cast<std::int16_t>(value); }
/// Exchanges the 16-bit halves of an entropy value: their order differs between the descriptions of MRC.
std::uint32_t exchanged(std::uint32_t entropy) { return entropy << 16 | entropy >> 16; }
bool is_same_path(std::uint32_t a, std::uint32_t b) { return a == b || a == exchanged(b); }

void remember(std::vector<std::uint16_t>& identifiers, std::uint16_t id) {
  if (identifiers.size() >= remembered_identifiers) identifiers.erase(identifiers.begin());
  identifiers.push_back(id);
}
/// True if a switch removed the payload and the ICRC: the frame is completely captured, but shorter than its length
/// fields indicate.
bool is_trimmed(const HeaderStack& stack) { return stack.cut && stack.wire_length == stack.bytes.size(); }
bool contains(const std::vector<std::uint16_t>& identifiers, std::uint64_t id) {
  return std::ranges::find(identifiers, static_cast<std::uint16_t>(id)) != identifiers.end();
}

}  // namespace

/// The packet under evaluation.
struct MrcMonitor::Seen {
  const tracking::Packet& packet;
  const HeaderStack& stack;
  View<MrcBth> bth;
  const MrcOpcode& op;
  tracking::FlowKey ports;
  Evaluator& evaluator;
  bool damaged = false;

  template <class H>
  [[nodiscard]] std::optional<View<H>> get() const {
    return stack.get<H>();
  }
  [[nodiscard]] std::uint32_t psn() const { return static_cast<std::uint32_t>(bth.get<"psn">()); }
  [[nodiscard]] std::uint32_t qp() const { return static_cast<std::uint32_t>(bth.get<"dest_qp">()); }
  /// Returns the entropy value: flow label and UDP source port.
  [[nodiscard]] std::uint32_t entropy() const {
    const auto udp = get<Udp>();
    const auto ip = stack.layers()[stack.network].header == &info<Ipv6> ? get<Ipv6>() : std::nullopt;
    const std::uint32_t label = ip ? static_cast<std::uint32_t>(ip->get<"flow_label">()) & 0xffff : 0;
    return label << 16 | (udp ? static_cast<std::uint32_t>(udp->get<"src_port">()) : 0);
  }
  [[nodiscard]] std::uint8_t dscp() const {
    if (const auto ip = get<Ipv6>()) return static_cast<std::uint8_t>(ip->get<"traffic_class.dscp">());
    if (const auto ip = get<Ipv4>()) return static_cast<std::uint8_t>(ip->get<"tos.dscp">());
    return 0;
  }

  template <class Describe>
  void check(RuleId rule, RuleResult result, const Describe& describe) const {
    result = result.unless(damaged, Reason::damaged);
    Place place;
    place.by_flow = true;
    place.flow = ports.with(qp());
    place.frame = packet.number;
    place.time = packet.time_ns;
    if (result.kind() != RuleResult::Kind::violation) return evaluator.record(rule, result);
    if (Violation* violation = evaluator.record(rule, result, place, describe)) {
      SequenceEntry entry;
      entry.frame = packet.number;
      entry.time = packet.time_ns;
      entry.label = op.name;
      violation->sequence = {entry};
    }
  }
  template <class Describe>
  void check(RuleId rule, bool condition, const Describe& describe) const {
    check(rule, RuleResult::of(condition), describe);
  }
};

void MrcMonitor::add(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.transport >= stack.layers().size()) return;
  const Layer& transport = stack.layers()[stack.transport];
  if (transport.header != &info<MrcBth> || stack.network >= stack.layers().size()) return;
  const auto ports = tracking::ports_of(stack);
  if (!ports) return;
  const View<MrcBth> bth(stack.bytes.data() + transport.offset);
  const Seen seen{packet,
                  stack,
                  bth,
                  mrc_opcode(bth.get<"opcode">()),
                  *ports,
                  evaluator_,
                  !complete_ && (packet.icrc.status == CrcCheck::Status::bad || is_trimmed(stack))};
  check_headers(seen);
  switch (seen.op.operation) {
    case MrcOperation::rdma_write: return check_write(seen);
    case MrcOperation::sack: return check_sack(seen);
    case MrcOperation::nack: return check_nack(seen);
    case MrcOperation::probe: return check_probe(seen);
    case MrcOperation::endpoint_request:
    case MrcOperation::endpoint_response: return check_endpoint(seen);
    case MrcOperation::acknowledge: break;
  }
  if (const auto aeth = seen.get<Aeth>()) {
    const bool not_ready = Syndrome(static_cast<std::uint8_t>(aeth->get<"syndrome">())).is_rnr_nak();
    seen.check("mrc.responder.ack.no-receiver-not-ready", !not_ready, [] {
      return Statement{"an ACK or a NAK", "an RNR NAK", {}};
    });
  }
}

void MrcMonitor::check_headers(const Seen& seen) {
  if (const auto udp = seen.get<Udp>()) {
    const std::uint32_t port = udp->get<"dst_port">();
    const bool transposed = port == rdmawire::mrc::transposed_port;
    Seen intact = seen;
    intact.damaged &= !transposed;  // the port is not a result of damage
    intact.check("mrc.sender.udp.destination-port", port == DecodeOptions::roce_v2_udp_port, [&] {
      return Statement{"UDP port 4791",
                       transposed ? std::string("UDP port 4971, as in two public implementations of MRC")
                                  : fmt::format("UDP port {}", port),
                       {}};
    });
  }
  const std::uint32_t reserved = seen.bth.get<"reserved">();
  seen.check("mrc.sender.bth.reserved-zero", reserved == 0, [&] {
    return Statement{"reserved bits 0 after TS", fmt::format("{:#x}", reserved), {}};
  });
  bool zero = true;
  for (std::size_t i = seen.stack.transport + 1U; i < seen.stack.layers().size(); ++i) {
    const Layer& layer = seen.stack.layers()[i];
    if (layer.header == &info<Aeth>) continue;  // rules of RoCE
    for (const Field& field : layer.header->fields) {
      if (!field.is_reserved()) continue;
      const std::uint64_t found = field.load(seen.stack.bytes.data() + layer.offset);
      if (found == 0) continue;
      zero = false;
      seen.check("mrc.sender.headers.reserved-zero", false, [&] {
        return Statement{
            fmt::format("reserved bits 0 in the {}", layer.header->title), fmt::format("{:#x}", found), {}};
      });
    }
  }
  if (zero) seen.check("mrc.sender.headers.reserved-zero", true, [] { return Statement{}; });

  const std::uint32_t end = tracking::declared_end(seen.stack);
  const Layer& last = seen.stack.layers().back();
  const std::uint32_t headers = last.offset + last.length;
  if (seen.op.payload && end >= headers + icrc_size) {
    const std::uint32_t bytes = end - headers - icrc_size;
    seen.check("mrc.sender.pad.to-multiple-of-four", bytes % 4 == 0, [&] {
      const std::uint32_t pad = seen.bth.get<"pad">();
      return Statement{"payload and pad with a multiple of 4 bytes",
                       fmt::format("{} bytes of payload and {} of pad", bytes - std::min(bytes, pad), pad),
                       {}};
    });
  }
  if (seen.op.operation == MrcOperation::rdma_write)
    seen.check("mrc.sender.bth.solicited-with-immediate", !seen.bth.get<"se">() || seen.op.immediate, [] {
      return Statement{"SE 0 in a packet without Immediate",
                       "SE 1. If the sender means M, it writes SE and M in the other order than IBTA",
                       {}};
    });
  if (const auto tseth = seen.get<Tseth>()) {
    const std::uint32_t format = tseth->get<"format">();
    seen.check("mrc.requester.tseth.format", format == 1, [&] {
      return Statement{"format 1", fmt::format("format {}", format), {}};
    });
  }
}

MrcMonitor::Flow& MrcMonitor::flow_of_writes(const Seen& seen) {
  const tracking::FlowKey key = seen.ports.with(seen.qp() & 0xffff);
  if (entries_ > most_entries) drop_flows();
  const auto found = flows_.find(key);
  if (found != flows_.end() && found->second.dest_qp == seen.qp()) return found->second;
  if (found == flows_.end() && flows_.size() >= most_flows_) drop_flows();
  Flow& flow = flows_[key];
  reset(flow, seen.qp());
  return flow;
}

void MrcMonitor::reset(Flow& flow, std::uint32_t qp) {
  entries_ -= flow.sent.allocated();
  flow = Flow{};
  flow.dest_qp = qp;
}

void MrcMonitor::drop_flows() {
  dropped_ += flows_.size();
  dropped_entries_ += entries_;
  flows_.clear();
  entries_ = 0;
}

/// Returns the WRITEs that a SACK or NACK responds to. Descriptions of MRC differ in which of its two QP numbers is the
/// responder's.
MrcMonitor::Flow* MrcMonitor::flow_of_feedback(const Seen& seen, std::uint32_t first_qp, std::uint32_t second_qp) {
  const auto find = [&](std::uint32_t qp) {
    const auto found = flows_.find(seen.ports.reversed(qp));
    return found == flows_.end() ? nullptr : &found->second;
  };
  Flow* const first = find(first_qp);
  Flow* const second = find(second_qp);
  if (first && second && first != second) return nullptr;
  return first ? first : second;
}

void MrcMonitor::check_write(const Seen& seen) {
  const auto meth = seen.get<Meth>();
  const auto reth = seen.get<Reth>();
  const bool trimmed = is_trimmed(seen.stack);
  if (!meth || !reth || (seen.damaged && !trimmed)) return;
  Flow& flow = flow_of_writes(seen);
  const std::uint32_t end = tracking::declared_end(seen.stack), psn = seen.psn();
  const Layer& last = seen.stack.layers().back();
  const std::uint32_t less = last.offset + last.length + static_cast<std::uint32_t>(seen.bth.get<"pad">()) + icrc_size;
  Sent now;
  now.known = true;
  now.frame = seen.packet.number;
  now.psn = psn;
  now.opcode = seen.op.value;
  now.msn = meth->get<"msn">();
  now.rqmsn = meth->get<"rqmsn">();
  now.address = reth->get<"va">();
  now.key = reth->get<"rkey">();
  now.payload = end > less ? end - less : 0;
  now.entropy = {seen.entropy(), seen.entropy()};
  if (const auto tseth = seen.get<Tseth>()) {
    now.stamped = true;
    const std::uint16_t stamp = tseth->get<"timestamp">();
    now.timestamp = {stamp, stamp};
  }
  now.transmissions = 1;
  now.flagged = seen.bth.get<"rtx">();
  now.unprotected = trimmed && !complete_;
  flow.frame = now.frame;
  // The DSCP of trimmed and retransmitted packets may be different.
  if (!trimmed && !now.flagged) flow.dscp = seen.dscp();
  check_spray(seen, flow, now.entropy[0]);

  if (Sent* const before = flow.sent.find(psn)) {
    // Skip a packet that the network or the capture duplicated.
    if (before->entropy[0] == now.entropy[0] && before->timestamp[0] == now.timestamp[0] && now.stamped) return;
    check_retransmission(seen, flow, *before, now);
    before->flagged |= now.flagged;
    before->entropy = {now.entropy[0], before->entropy[0]};
    before->timestamp = {now.timestamp[0], before->timestamp[0]};
    before->rejected = false;
    ++before->transmissions;
    return;
  }
  // Store only entropy value and timestamp of a trimmed packet, because its other fields can be damaged.
  const Psn number(psn);
  const bool near = std::abs(number - flow.highest) < static_cast<std::int32_t>(remembered);
  if (now.unprotected && !(flow.started && near)) return;
  // A PSN far from the window belongs to another connection with the same QP number.
  if (flow.started && !near) {
    reset(flow, seen.qp());
    flow.dscp = seen.dscp();
  }
  if (!flow.started || number - flow.highest > 0) flow.highest = number;
  flow.started = true;
  entries_ -= flow.sent.allocated();
  flow.sent.add(now);
  entries_ += flow.sent.allocated();
  if (const Sent* const earlier = flow.sent.find((number - 1).value())) check_neighbors(seen, *earlier, now);
  if (const Sent* const later = flow.sent.find((number + 1).value())) check_neighbors(seen, now, *later);

  // The RQMSN counts WRITEs with Immediate. Between two of them, it grows by at least 1, and at most by as much as the
  // MSN.
  if (!seen.op.immediate || now.unprotected) return;
  if (flow.immediate_seen) {
    const std::uint16_t messages = static_cast<std::uint16_t>(now.msn - flow.immediate_msn);
    const std::uint16_t counted = static_cast<std::uint16_t>(now.rqmsn - flow.immediate_rqmsn);
    constexpr std::uint16_t half = 0x8000;
    const bool forward = messages != 0 && messages < half;
    if (forward)
      seen.check("mrc.requester.meth.rqmsn-of-immediate", counted >= 1 && counted <= messages, [&] {
        return Statement{fmt::format("RQMSN {} to {}", static_cast<std::uint16_t>(flow.immediate_rqmsn + 1),
                                     static_cast<std::uint16_t>(flow.immediate_rqmsn + messages)),
                         fmt::format("RQMSN {}", now.rqmsn),
                         {}};
      });
    if (!forward) return;
  }
  flow.immediate_seen = true;
  flow.immediate_msn = now.msn;
  flow.immediate_rqmsn = now.rqmsn;
}

void MrcMonitor::check_retransmission(const Seen& seen, Flow&, Sent& before, const Sent& now) {
  // The packet without RTX may be the first transmission, captured after the retransmission.
  if (now.flagged || !before.flagged)
    seen.check("mrc.requester.retransmission.flagged", now.flagged, [&] {
      return Statement{"RTX 1", fmt::format("RTX 0; frame {} has the same PSN", before.frame), {before.frame}};
    });
  const bool same = now.opcode == before.opcode && now.msn == before.msn && now.address == before.address &&
                    now.payload == before.payload && now.key == before.key;
  seen.check("mrc.requester.retransmission.unchanged", RuleResult::of(same).unless(before.unprotected, Reason::damaged),
             [&] {
               const auto text = [](const Sent& s) {
                 return fmt::format("{}, MSN {}, address {:#x}, R_Key {:#x}, {} bytes", mrc_opcode(s.opcode).name,
                                    s.msn, s.address, s.key, s.payload);
               };
               return Statement{text(before), text(now), {before.frame}};
             });
  if (before.rejected && now.flagged)
    // The capture may lack another retransmission, to which the rule applied.
    seen.check(
        "mrc.requester.retransmission.other-entropy",
        RuleResult::of(!is_same_path(now.entropy[0], before.rejected_entropy)).unless(!complete_, Reason::capture_lost),
        [&] {
          return Statement{"another entropy value than that of the NACK",
                           fmt::format("entropy value {:#010x}", now.entropy[0]),
                           {before.frame}};
        });
}

void MrcMonitor::check_neighbors(const Seen& seen, const Sent& before, const Sent& after) {
  if (before.unprotected || after.unprotected) return;
  const MrcOpcode &a = mrc_opcode(before.opcode), &b = mrc_opcode(after.opcode);
  const bool ended = a.position == Position::last || a.position == Position::only;
  const bool begins = b.position == Position::first || b.position == Position::only;
  const std::vector<std::uint64_t> related{before.frame == seen.packet.number ? after.frame : before.frame};
  seen.check("mrc.requester.opcode.sequence", ended == begins, [&] {
    return Statement{ended ? "First or Only after the end of a message" : "Middle or Last inside a message",
                     fmt::format("{} (PSN {}) after {}", b.name, after.psn, a.name), related};
  });
  if (ended != begins) return;
  if (ended) {
    const auto next = static_cast<std::uint16_t>(before.msn + 1);
    seen.check("mrc.requester.meth.msn-increments", after.msn == next, [&] {
      return Statement{fmt::format("MSN {}", next), fmt::format("MSN {}", after.msn), related};
    });
    return;
  }
  seen.check("mrc.requester.meth.one-msn-in-message", after.msn == before.msn, [&] {
    return Statement{fmt::format("MSN {} of the packet before it", before.msn), fmt::format("MSN {}", after.msn),
                     related};
  });
  seen.check("mrc.requester.meth.one-rqmsn-in-message", after.rqmsn == before.rqmsn, [&] {
    return Statement{fmt::format("RQMSN {} of the packet before it", before.rqmsn),
                     fmt::format("RQMSN {}", after.rqmsn), related};
  });
  seen.check("mrc.requester.reth.one-key-in-message", after.key == before.key, [&] {
    return Statement{fmt::format("R_Key {:#x} of the packet before it", before.key),
                     fmt::format("R_Key {:#x}", after.key), related};
  });
  // The payload length is unknown if a switch trimmed the packet and corrected its length fields.
  if (before.payload == 0) return;
  const std::uint64_t next = before.address + before.payload;
  seen.check("mrc.requester.reth.address-advances", after.address == next, [&] {
    return Statement{fmt::format("address {:#x}", next), fmt::format("address {:#x}", after.address), related};
  });
  if (after.payload == 0) return;
  const bool fits = b.position == Position::last ? after.payload <= before.payload : after.payload == before.payload;
  seen.check("mrc.requester.payload.equal-size", fits, [&] {
    return Statement{fmt::format("{} bytes{}", before.payload, b.position == Position::last ? " at most" : ""),
                     fmt::format("{} bytes", after.payload), related};
  });
}

void MrcMonitor::check_spray(const Seen& seen, Flow& flow, std::uint32_t entropy) {
  if (flow.packets == 0) flow.first_entropy = entropy;
  ++flow.packets;
  flow.sprayed |= entropy != flow.first_entropy;
  if (flow.packets < sprayed_packets) return;
  const bool sprayed = flow.sprayed;
  seen.check("mrc.requester.spray.several-entropies", sprayed, [&] {
    return Statement{
        fmt::format("several entropy values in {} WRITEs", sprayed_packets), fmt::format("only {:#010x}", entropy), {}};
  });
  flow.packets = 0;
  flow.sprayed = false;
}

void MrcMonitor::check_class(const Seen& seen, const Flow& flow) {
  if (!flow.started) return;
  const std::uint8_t dscp = seen.dscp();
  // A hop may have changed either DSCP.
  seen.check("mrc.sender.control.other-dscp",
             RuleResult::of(dscp != flow.dscp).unless(!complete_, Reason::modified_in_transit), [&] {
               return Statement{fmt::format("another DSCP than {} of the WRITEs", flow.dscp),
                                fmt::format("DSCP {}", dscp),
                                {flow.frame}};
             });
}

void MrcMonitor::check_sack(const Seen& seen) {
  const auto seth = seen.get<Seth>();
  if (!seth) return;
  const std::uint32_t cack = seth->get<"cack_psn">(), psn = seen.psn();
  seen.check("mrc.responder.sack.psn-of-cumulative", psn == cack, [&] {
    return Statement{fmt::format("PSN {}, the cack_psn", cack), fmt::format("PSN {}", psn), {}};
  });
  const std::uint32_t state = seth->get<"path_state">();
  seen.check("mrc.responder.sack.path-state", state != 3, [&] {
    return Statement{"M 0, 1 or 2", fmt::format("M {}", state), {}};
  });
  const std::uint32_t type = seth->get<"cc_type">();
  seen.check("mrc.responder.sack.congestion-type", type == 0, [&] {
    return Statement{"type 0", fmt::format("type {}", type), {}};
  });
  if (seen.damaged) return;
  Flow* const flow = flow_of_feedback(seen, seth->get<"spdcid">(), seth->get<"dpdcid">());
  if (!flow || !flow->started) return;
  check_class(seen, *flow);

  if (seth->get<"probe_response">()) {
    const std::uint64_t id = seth->get<"ack_psn_offset">();
    const bool known = contains(flow->probes, id);
    if (flow->probed || complete_)
      seen.check("mrc.responder.sack.probe-identifier", RuleResult::of(known).unless(!complete_, Reason::capture_lost),
                 [&] {
                   return Statement{"the identifier of a probe", fmt::format("{}", id), {}};
                 });
    return;
  }
  Psn highest(cack);
  Psn one = highest + as_signed(seth->get<"sack_offset">());
  for (std::uint64_t bits = seth->get<"bitmap">(); bits; bits >>= 1, ++one)
    if (bits & 1 && one - highest > 0) highest = one;
  // The SACK may acknowledge a packet that the capture lacks.
  seen.check("mrc.responder.sack.only-sent",
             RuleResult::of(highest - flow->highest <= 0).unless(!complete_, Reason::capture_lost), [&] {
               return Statement{fmt::format("at most PSN {}, the latest that was sent", flow->highest.value()),
                                fmt::format("PSN {}", highest.value()),
                                {flow->frame}};
             });
  const std::uint32_t acknowledged = (Psn(cack) + as_signed(seth->get<"ack_psn_offset">())).value();
  const Sent* const sent = flow->sent.find(acknowledged);
  const std::uint32_t entropy = seth->get<"entropy">();
  if (!sent) {
    evaluator_.record("mrc.responder.sack.entropy-reflected", RuleResult::inconclusive(Reason::capture_lost));
    return;
  }
  const bool reflected = is_same_path(entropy, sent->entropy[0]) || is_same_path(entropy, sent->entropy[1]);
  // The capture may lack the acknowledged transmission.
  seen.check("mrc.responder.sack.entropy-reflected", RuleResult::of(reflected).unless(!complete_, Reason::capture_lost),
             [&] {
               return Statement{fmt::format("{:#010x}, the entropy value of PSN {}", sent->entropy[0], acknowledged),
                                fmt::format("{:#010x}", entropy),
                                {sent->frame}};
             });
  const auto cc = seen.get<CcState>();
  if (!sent->stamped || !cc) return;
  const std::uint16_t stamp = cc->get<"timestamp">();
  seen.check("mrc.responder.sack.timestamp-reflected",
             RuleResult::of(stamp == sent->timestamp[0] || stamp == sent->timestamp[1])
                 .unless(!complete_, Reason::capture_lost),
             [&] {
               return Statement{fmt::format("{}, the timestamp of PSN {}", sent->timestamp[0], acknowledged),
                                fmt::format("{}", stamp),
                                {sent->frame}};
             });
}

void MrcMonitor::check_nack(const Seen& seen) {
  const auto neth = seen.get<Neth>();
  if (!neth) return;
  const std::uint32_t rejected = neth->get<"nack_psn">(), psn = seen.psn();
  seen.check("mrc.responder.nack.psn-of-rejected", psn == rejected, [&] {
    return Statement{fmt::format("PSN {}, the nack_psn", rejected), fmt::format("PSN {}", psn), {}};
  });
  const std::uint32_t reason = neth->get<"reason">();
  seen.check("mrc.responder.nack.known-reason", nack_reason_names.find(reason) != nullptr, [&] {
    return Statement{"a defined reason", fmt::format("reason {:#04x}", reason), {}};
  });
  const std::uint32_t type = neth->get<"cc_type">();
  seen.check("mrc.responder.nack.congestion-type", type == 2, [&] {
    return Statement{"type 2", fmt::format("type {}", type), {}};
  });
  if (seen.damaged) return;
  Flow* const flow = flow_of_feedback(seen, neth->get<"spdcid">(), neth->get<"dpdcid">());
  if (!flow) return;
  check_class(seen, *flow);
  Sent* const sent = flow->sent.find(rejected);
  const std::uint32_t entropy = neth->get<"entropy">();
  if (!sent) {
    evaluator_.record("mrc.responder.nack.entropy-reflected", RuleResult::inconclusive(Reason::capture_lost));
    return;
  }
  sent->rejected = true;
  sent->rejected_entropy = entropy;
  const bool reflected = is_same_path(entropy, sent->entropy[0]) || is_same_path(entropy, sent->entropy[1]);
  seen.check("mrc.responder.nack.entropy-reflected", RuleResult::of(reflected).unless(!complete_, Reason::capture_lost),
             [&] {
               return Statement{fmt::format("{:#010x}, the entropy value of PSN {}", sent->entropy[0], rejected),
                                fmt::format("{:#010x}", entropy),
                                {sent->frame}};
             });
  if (!sent->stamped) return;
  const std::uint16_t stamp = neth->get<"timestamp">();
  seen.check("mrc.responder.nack.timestamp-reflected",
             RuleResult::of(stamp == sent->timestamp[0] || stamp == sent->timestamp[1])
                 .unless(!complete_, Reason::capture_lost),
             [&] {
               return Statement{fmt::format("{}, the timestamp of PSN {}", sent->timestamp[0], rejected),
                                fmt::format("{}", stamp),
                                {sent->frame}};
             });
}

void MrcMonitor::check_probe(const Seen& seen) {
  const auto peth = seen.get<Peth>();
  if (!peth) return;
  const std::uint32_t psn = seen.psn();
  seen.check("mrc.requester.probe.psn-zero", psn == 0, [&] {
    return Statement{"PSN 0", fmt::format("PSN {}", psn), {}};
  });
  if (seen.damaged) return;
  const auto found = flows_.find(seen.ports.with(seen.qp() & 0xffff));
  if (found == flows_.end()) return;
  found->second.probed = true;
  remember(found->second.probes, static_cast<std::uint16_t>(peth->get<"probe_id">()));
}

void MrcMonitor::check_endpoint(const Seen& seen) {
  const std::uint32_t qp = seen.qp(), psn = seen.psn();
  seen.check("mrc.endpoint.operation.qp-two", qp == rdmawire::mrc::endpoint_qp, [&] {
    return Statement{"QP 2", fmt::format("QP {:#x}", qp), {}};
  });
  seen.check("mrc.endpoint.request.identifier-bits", psn <= 0xffff, [&] {
    return Statement{"an identifier of 16 bits", fmt::format("PSN {:#x}", psn), {}};
  });
  const auto identifier = static_cast<std::uint16_t>(psn);
  if (seen.op.operation == MrcOperation::endpoint_request) {
    if (const auto erth = seen.get<Erth>()) {
      const std::uint32_t operation = erth->get<"operation">();
      seen.check("mrc.endpoint.request.known-operation", operation <= 1, [&] {
        return Statement{"operation 0 or 1", fmt::format("operation {}", operation), {}};
      });
    }
    if (seen.damaged) return;
    if (requests_.size() >= requests && !requests_.contains(seen.ports)) {
      dropped_requests_ += requests_.size();
      requests_.clear();
    }
    remember(requests_[seen.ports], identifier);
    return;
  }
  if (seen.damaged) return;
  const auto asked = requests_.find(seen.ports.reversed(0));
  const bool known = asked != requests_.end() && contains(asked->second, identifier);
  seen.check("mrc.endpoint.response.identifier-reflected",
             RuleResult::of(known).unless(!complete_, Reason::capture_lost), [&] {
               return Statement{"the identifier of a request", fmt::format("{}", identifier), {}};
             });
}

}  // namespace rdmawire::conformance
