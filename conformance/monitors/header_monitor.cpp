#include "conformance/monitors/header_monitor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icrc_cause.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint32_t icrc_bytes = 4;
constexpr std::uint32_t management_qps = 1;
constexpr std::uint32_t mad_bytes = 256;

}  // namespace

tracking::FlowKey flow_of_packet(const tracking::FlowKey& ports, bool datagram, std::uint32_t source_qp,
                                 std::uint32_t dest_qp) {
  constexpr std::uint64_t of_datagram = 1ULL << 48;
  return ports.with(datagram ? of_datagram | std::uint64_t{source_qp} << 24 | dest_qp : std::uint64_t{dest_qp});
}

std::optional<tracking::FlowKey> flow_of(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  if (stack.transport >= stack.layers().size() || !is_base_transport(*stack.layers()[stack.transport].header))
    return {};
  const auto ports = tracking::ports_of(stack);
  if (!ports) return {};
  const View<Bth> bth(stack.bytes.data() + stack.layers()[stack.transport].offset);
  const bool datagram = opcode(bth.get<"opcode">()).transport == Transport::ud;
  const auto deth = datagram ? stack.get<Deth>() : std::nullopt;
  return flow_of_packet(*ports, datagram, deth ? static_cast<std::uint32_t>(deth->get<"src_qp">()) : 0,
                        bth.get<"dest_qp">());
}

/// The packet under evaluation.
struct HeaderMonitor::HeaderPacketContext {
  const tracking::Packet& packet;
  const HeaderStack& stack;
  const Layer& network;
  View<Bth> bth;
  const Opcode& op;
  Evaluator& evaluator;
  bool damaged = false;   // the ICRC is invalid, so fields may have been changed
  std::uint32_t end = 0;  // offset of the packet's end, after the ICRC, according to the length fields

  /// Records a pass or a violation. A violation in a damaged packet is inconclusive.
  template <class Describe>
  void check(RuleId rule, bool condition, const Describe& describe) const {
    if (condition)
      evaluator.record(rule, RuleResult::pass());
    else
      report_sender(rule, RuleResult::violation().unless(damaged, Reason::damaged), describe);
  }
  template <class Describe>
  void report_sender(RuleId rule, RuleResult result, const Describe& describe) const {
    Place place;
    place.by_flow = true;
    place.flow = flow_of(packet).value_or(tracking::FlowKey{});
    place.frame = packet.number;
    place.time = packet.time_ns;
    attach_sequence(evaluator.record(rule, result, place, describe));
  }
  /// Sets this packet as the violation's sequence. It is replaced when the connection is known.
  void attach_sequence(Violation* violation) const {
    if (!violation) return;
    SequenceEntry entry;
    entry.frame = packet.number;
    entry.time = packet.time_ns;
    entry.opcode = op.value;
    entry.ack_request = bth.get<"ack_request">();
    violation->sequence = {entry};
    evaluator.attach_sequence_later(violation);
  }
  [[nodiscard]] const std::uint8_t* at(const Layer& layer) const { return stack.bytes.data() + layer.offset; }
  [[nodiscard]] const Layer* below_bth() const {
    return stack.transport > 0 ? &stack.layers()[stack.transport - 1U] : nullptr;
  }
};

void HeaderMonitor::add(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  const auto layers = stack.layers();
  if (stack.transport >= layers.size() || !is_base_transport(*layers[stack.transport].header)) return;
  const bool is_mrc = layers[stack.transport].header == &info<MrcBth>;
  const View<Bth> bth(stack.bytes.data() + layers[stack.transport].offset);
  const Opcode& op = opcode(bth.get<"opcode">());
  static constexpr Layer no_layer{};
  HeaderPacketContext here{packet,
                           stack,
                           stack.network < layers.size() ? layers[stack.network] : no_layer,
                           bth,
                           op,
                           evaluator_,
                           !untouched_ && packet.icrc.status == CrcCheck::Status::bad,
                           tracking::declared_end(stack)};
  if (stack.wire == Wire::roce_v2) {
    if (here.network.header == &info<Ipv4>) check_ipv4(here);
    if (here.network.header == &info<Ipv6>) check_ipv6(here);
    check_udp(here);
    check_icrc(here);
  }
  // Skip opcodes for manufacturers, who may use reserved bits, and MRC, which MrcMonitor checks.
  constexpr std::uint8_t manufacturer_opcodes = 0xc0;
  if (is_mrc || op.value >= manufacturer_opcodes) return;
  check_bth(here);
  if (!op.known || op.transport == Transport::rd) return;  // the headers after the BTH are unknown
  check_extensions(here);
  check_length(here);
  check_service(here);
  if (op.operation == Operation::congestion_notification) check_cnp(here);
}

// Skips packets with a bad ICRC: whether its cause is determined depends on the number of earlier ones, and so on the
// order.
bool HeaderTally::add(const tracking::Packet& packet) {
  if (packet.icrc.status == CrcCheck::Status::bad) return false;
  const std::uint64_t violations = counted_.omitted();
  headers_.add(packet);
  if (counted_.omitted() == violations) return true;
  withdraws_.add(packet);
  return false;
}

void HeaderTally::add_to(std::array<ResultCounters, rules.size()>& counters) const {
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const ResultCounters &counted = counted_.counters()[i], &withdrawn = withdrawn_.counters()[i];
    counters[i].passed += counted.passed - withdrawn.passed;
    counters[i].violated += counted.violated - withdrawn.violated;
    for (std::size_t reason = 0; reason < counted.inconclusive_by_reason.size(); ++reason)
      counters[i].inconclusive_by_reason[reason] +=
          counted.inconclusive_by_reason[reason] - withdrawn.inconclusive_by_reason[reason];
  }
}

// Compares the IP length with the UDP length: both datagrams must end at the same byte. A shorter frame is truncated. A
// longer frame has Ethernet padding or a frame check sequence.
void HeaderMonitor::check_total(const HeaderPacketContext& here, RuleId rule, const char* name, std::uint32_t length,
                                std::uint32_t counted_from) {
  const Layer* udp = here.below_bth();
  if (!udp || udp->header != &info<Udp>) return;
  const std::uint32_t on_wire = here.stack.wire_length - here.network.offset - counted_from;
  if (length > on_wire) {
    evaluator_.record(rule, RuleResult::inconclusive(Reason::truncated));
    return;
  }
  const std::uint32_t by_udp = udp->offset - here.network.offset - counted_from +
                               static_cast<std::uint32_t>(View<Udp>(here.at(*udp)).get<"length">());
  // If the lengths differ, the one that matches the end of the frame is right.
  here.check(rule, length == by_udp || by_udp != on_wire, [&] {
    return Statement{fmt::format("{} {}, up to the end of the UDP datagram and of the frame", name, by_udp),
                     fmt::format("{} {}", name, length),
                     {}};
  });
}

void HeaderMonitor::check_ipv4(const HeaderPacketContext& here) {
  const View<Ipv4> ip(here.at(here.network));
  const std::uint32_t words = ip.get<"header_length">();
  here.check("roce.sender.ipv4.no-options", words == 5, [&] {
    return Statement{"IHL 5", fmt::format("IHL {}", words), {}};
  });
  check_total(here, "roce.sender.ipv4.total-length", "Total Length", ip.get<"total_length">(), 0);
  const bool df = ip.get<"df">(), mf = ip.get<"mf">();
  const std::uint32_t offset = ip.get<"fragment_offset">();
  here.check("roce.sender.ipv4.never-a-fragment", df && !mf && offset == 0, [&] {
    return Statement{
        "DF 1, MF 0, fragment offset 0", fmt::format("DF {:d}, MF {:d}, fragment offset {}", df, mf, offset), {}};
  });
  evaluator_.record("roce.sender.ip.protocol-is-udp", RuleResult::pass());
  const Bytes header = here.stack.bytes_of(here.network);
  if (header.size() == std::size_t{words} * 4)
    check_sum(here, "roce.sender.ipv4.header-checksum", "header checksum", ip.get<"checksum">(),
              internet_checksum(header) == 0);
}

// Checks a checksum. A capture on the sending host contains packets before the adapter writes checksums. Therefore a
// wrong one is a violation only if the capture shows packets as sent (`untouched_`).
void HeaderMonitor::check_sum(const HeaderPacketContext& here, RuleId rule, std::string_view name, std::uint32_t value,
                              bool right) {
  const RuleResult wrong =
      RuleResult::violation().unless(here.damaged, Reason::damaged).unless(!untouched_, Reason::modified_in_transit);
  if (right) return void(evaluator_.record(rule, RuleResult::pass()));
  here.report_sender(rule, wrong, [&] {
    return Statement{fmt::format("a {} that matches the bytes", name), fmt::format("{:#06x}", value), {}};
  });
}

void HeaderMonitor::check_ipv6(const HeaderPacketContext& here) {
  const View<Ipv6> ip(here.at(here.network));
  check_total(here, "roce.sender.ipv6.payload-length", "Payload Length", ip.get<"payload_length">(), Ipv6::size);
  evaluator_.record("roce.sender.ip.protocol-is-udp", RuleResult::pass());
}

void HeaderMonitor::check_udp(const HeaderPacketContext& here) {
  const Layer* layer = here.below_bth();
  if (!layer || layer->header != &info<Udp>) return;
  const View<Udp> udp(here.at(*layer));
  const std::uint32_t port = udp.get<"dst_port">();
  here.check("roce.sender.udp.destination-port", port == DecodeOptions::roce_v2_udp_port, [&] {
    return Statement{"UDP destination port 4791", fmt::format("port {}", port), {}};
  });
  const std::uint32_t length = udp.get<"length">(), wanted = here.end - layer->offset;
  const bool ip_is_wrong = layer->offset + length == here.stack.wire_length && here.end < here.stack.wire_length;
  here.check("roce.sender.udp.length", length == wanted || ip_is_wrong, [&] {
    return Statement{fmt::format("UDP Length {}, up to the end of the IP datagram including the ICRC", wanted),
                     fmt::format("UDP Length {}", length),
                     {}};
  });
  const std::uint32_t checksum = udp.get<"checksum">();
  here.check("roce.sender.udp.checksum-zero", checksum == 0, [&] {
    return Statement{"UDP checksum 0", fmt::format("{:#06x}", checksum), {}};
  });
  // The checksum can only be checked if the length is right and all bytes that it counts are captured.
  const RuleId right = "roce.sender.udp.checksum-right-if-set";
  if (checksum == 0) return void(evaluator_.record(right, RuleResult::pass()));
  if (length < Udp::size || length != wanted || layer->offset + length > here.stack.bytes.size())
    return void(evaluator_.record(right, RuleResult::inconclusive(Reason::truncated)));
  const bool v4 = here.network.header == &info<Ipv4>;
  const std::uint32_t addresses = here.network.offset + (v4 ? 12U : 8U), bytes = v4 ? 8U : 32U;
  std::uint32_t pseudo = ip_protocol::udp + length;
  for (std::uint32_t at = 0; at < bytes; at += 2)
    pseudo += static_cast<std::uint32_t>(load_be<2>(here.stack.bytes.data() + addresses + at));
  check_sum(here, right, "UDP checksum", checksum,
            internet_checksum(here.stack.bytes.subspan(layer->offset, length), pseudo) == 0);
}

void HeaderMonitor::check_icrc(const HeaderPacketContext& here) {
  const RuleId rule = here.op.known && here.op.operation == Operation::flush ? RuleId("rc.endpoint.icrc.flush")
                      : here.network.header == &info<Ipv4>                   ? RuleId("roce.sender.icrc.over-ipv4")
                                                                             : RuleId("roce.sender.icrc.over-ipv6");
  const CrcCheck& crc = here.packet.icrc;
  switch (crc.status) {
    case CrcCheck::Status::good: evaluator_.record(rule, RuleResult::pass()); return;
    case CrcCheck::Status::bad: break;
    case CrcCheck::Status::unverifiable:
      // The rule is about rdmawire itself: it must not report the ICRC rule as passed for a truncated packet.
      evaluator_.record("roce.tester.icrc.cut-off-inconclusive", RuleResult::pass());
      evaluator_.record(rule, RuleResult::inconclusive(Reason::truncated));
      return;
    case CrcCheck::Status::absent: return;
  }
  if (!evaluator_.wants(rule)) return;
  const IcrcCause cause = explanations_ < explained ? explain_icrc(here.stack) : IcrcCause{};
  ++explanations_;
  // Only a sender can make these two errors. Others may be caused by a hop, or by a capture on the sending host, which
  // contains packets before the adapter writes the ICRC.
  const bool senders =
      untouched_ || cause.kind == IcrcCause::Kind::not_masked || cause.kind == IcrcCause::Kind::byte_order;
  here.report_sender(rule, RuleResult::violation().unless(!senders, Reason::modified_in_transit), [&] {
    return Statement{
        fmt::format("ICRC {:#010x}", crc.computed), fmt::format("{:#010x}: {}", crc.value, describe(cause)), {}};
  });
}

void HeaderMonitor::check_bth(const HeaderPacketContext& here) {
  const std::uint32_t six = here.bth.get<"reserved">(), seven = here.bth.get<"reserved2">();
  const bool fecn = here.bth.get<"fecn">(), becn = here.bth.get<"becn">();
  // FECN and BECN are not reserved in native InfiniBand, and BECN is not reserved in a CNP.
  const bool roce = here.stack.wire != Wire::infiniband;
  const bool notification = here.op.known && here.op.operation == Operation::congestion_notification;
  const bool clear = six == 0 && seven == 0 && (!roce || (!fecn && (!becn || notification)));
  const std::uint32_t version = here.bth.get<"tver">();
  here.check("bth.sender.version.zero", version == 0, [&] {
    return Statement{"TVer 0", fmt::format("TVer {}", version), {}};
  });
  // The ICRC does not cover the byte of FECN, BECN and reserved6, so a hop can change it unnoticed.
  const bool unprotected = roce && seven == 0 && !untouched_;
  if (!clear && unprotected) {
    evaluator_.record("bth.sender.reserved.zero", RuleResult::inconclusive(Reason::modified_in_transit));
    return;
  }
  here.check("bth.sender.reserved.zero", clear, [&] {
    return Statement{"reserved bits 0",
                     fmt::format("FECN {:d}, BECN {:d}, reserved6 {:#x}, reserved7 {:#x}", fecn, becn, six, seven),
                     {}};
  });
}

// The reserved bytes of a CNP have a rule of their own.
void HeaderMonitor::check_extensions(const HeaderPacketContext& here) {
  const auto expected = here.op.extension_headers();
  for (const Layer& layer : here.stack.layers()) {
    if (layer.header == &info<Cnp> || std::ranges::find(expected, layer.header) == expected.end()) continue;
    for (const Field& field : layer.header->fields) {
      if (!field.is_reserved()) continue;
      const std::uint64_t found = field.load(here.at(layer));
      here.check("bth.sender.headers.reserved-zero", found == 0, [&] {
        return Statement{
            fmt::format("reserved bits 0 in the {}", layer.header->title), fmt::format("{:#x}", found), {}};
      });
    }
  }
}

void HeaderMonitor::check_length(const HeaderPacketContext& here) {
  const HeaderStack& stack = here.stack;
  const std::uint32_t payload_at = stack.layers()[stack.transport].offset + Bth::size + here.op.header_bytes;
  const std::uint32_t pad = here.bth.get<"pad">();
  const std::uint32_t end = here.end;
  if (end == 0) return;
  const bool room = payload_at + pad + icrc_bytes <= end;
  const bool too_much = room && !here.op.payload && end != payload_at + icrc_bytes;
  here.check("bth.sender.headers.as-opcode-says", room && !too_much, [&] {
    const std::uint32_t have = end - (stack.layers()[stack.transport].offset + Bth::size);
    return Statement{fmt::format("{} bytes of extension headers{} and an ICRC after the BTH of {}",
                                 here.op.header_bytes, here.op.payload ? ", payload" : "", here.op.name),
                     fmt::format("{} bytes in total, including {} pad bytes", have, pad),
                     {}};
  });
  if (!room) return;
  const std::uint32_t bytes = end - icrc_bytes - payload_at;
  const bool fills = bytes % 4 == 0 && (here.op.payload || pad == 0) && !(bytes == pad && pad != 0);
  here.check("bth.sender.pad.to-multiple-of-four", fills, [&] {
    return Statement{"payload and pad with a multiple of 4 bytes, and no pad without payload",
                     fmt::format("{} bytes of payload and {} of pad", bytes - pad, pad),
                     {}};
  });
}

void HeaderMonitor::check_service(const HeaderPacketContext& here) {
  const bool ack_request = here.bth.get<"ack_request">();
  const auto clear = [&](RuleId rule) {
    here.check(rule, !ack_request, [&] { return Statement{"AckReq 0", "AckReq 1", {}}; });
  };
  if (here.op.transport == Transport::uc || here.op.transport == Transport::ud)
    clear("bth.sender.ack-request.clear-if-unacknowledged");
  if (here.op.transport == Transport::ud) {
    clear("ud.sender.ack-request.clear");
    evaluator_.record("ud.receiver.psn.unchecked", RuleResult::pass());
    const std::uint32_t qp = here.bth.get<"dest_qp">();
    const Layer* deth = here.stack.find(info<Deth>);
    if (qp <= management_qps && deth && !here.stack.fragment) {
      const std::uint32_t at = here.stack.layers()[here.stack.transport].offset + Bth::size + here.op.header_bytes;
      const std::uint32_t behind = at + static_cast<std::uint32_t>(here.bth.get<"pad">()) + icrc_bytes;
      const std::uint32_t bytes = here.end > behind ? here.end - behind : 0;
      here.check("ud.endpoint.mad.bytes", bytes == mad_bytes, [&] {
        return Statement{"256 bytes", fmt::format("{} bytes", bytes), {}};
      });
    }
  } else if (here.op.transport == Transport::xrc && here.op.direction == Direction::request) {
    const bool there = here.stack.find(info<Xrceth>) != nullptr;
    if (there || !here.stack.cut)
      here.check("xrc.requester.headers.xrceth", there, [&] {
        return Statement{"an XRCETH", "the packet ends before it", {}};
      });
  }
}

void HeaderMonitor::check_cnp(const HeaderPacketContext& here) {
  const Layer* body = here.stack.find(info<Cnp>);
  if (!body) {
    evaluator_.record("congestion.notification-point.cnp.format", RuleResult::inconclusive(Reason::truncated));
    return;
  }
  const Bytes reserved = here.stack.bytes_of(*body);
  const bool zero = std::all_of(reserved.begin(), reserved.end(), [](std::uint8_t byte) { return byte == 0; });
  const std::uint32_t psn = here.bth.get<"psn">();
  const bool solicited = here.bth.get<"se">(), migrated = here.bth.get<"migreq">();
  here.check("congestion.notification-point.cnp.format", zero && psn == 0 && !solicited && !migrated, [&] {
    return Statement{"PSN 0, no solicited event, M 0, 16 reserved bytes of 0",
                     fmt::format("PSN {}, solicited event {:d}, M {:d}, reserved bytes {}", psn, solicited, migrated,
                                 zero ? "0" : "not 0"),
                     {}};
  });
  std::uint32_t traffic_class = 0;
  if (here.network.header == &info<Ipv4>)
    traffic_class = View<Ipv4>(here.at(here.network)).get<"tos">();
  else if (here.network.header == &info<Ipv6>)
    traffic_class = View<Ipv6>(here.at(here.network)).get<"traffic_class">();
  else
    return;
  // Check only the ECN field: the configured DSCP is internal to the device.
  here.report_sender("congestion.notification-point.cnp.network-headers",
                     RuleResult::of((traffic_class & 3U) == 0).unless(!untouched_, Reason::modified_in_transit), [&] {
                       return Statement{"an ECN field of 00", fmt::format("{:02b}", traffic_class & 3U), {}};
                     });
}

}  // namespace rdmawire::conformance
