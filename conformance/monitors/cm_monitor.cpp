#include "conformance/monitors/cm_monitor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/monitors/connection_monitor.hpp"
#include "conformance/monitors/header_monitor.hpp"
#include "conformance/monitors/state_number.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint16_t reason_timeout = 4;  // of a REJ
constexpr std::uint16_t reason_lid = 13, reason_alternate_lid = 19;
constexpr std::uint8_t status_lid = 7;  // of an APR
constexpr std::size_t kept_rungs = 16;

}  // namespace

struct CmMonitor::Message {
  const tracking::Packet& packet;
  const tracking::CmMessage& cm;
  tracking::FlowKey ports;
  Exchange& exchange;
  bool damaged;
};

std::uint64_t CmMonitor::pair_hash(const tracking::FlowKey& ports) {
  return tracking::FlowKey{std::min(ports.from, ports.to), std::max(ports.from, ports.to), 0}.hash();
}

template <class Describe>
void CmMonitor::report(const Message& m, RuleId rule, RuleResult result, const Describe& describe) {
  Place place;
  place.connection = m.exchange.request_frame;
  place.by_flow = true;
  place.flow = flow_of(m.packet).value_or(m.ports);
  place.frame = m.packet.number;
  place.time = m.packet.time_ns;
  // Endpoint a is the sender of the REQ.
  place.end = m.cm.local_id == m.exchange.active_id ? Side::a : Side::b;
  Violation* violation = evaluator_.record(rule, result.unless(m.damaged, Reason::damaged), place, describe);
  if (violation) violation->sequence = m.exchange.entries;
}

void CmMonitor::add(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  constexpr std::uint32_t gsi = 1;
  if (stack.transport >= stack.layers().size() || stack.layers()[stack.transport].header != &info<Bth>) return;
  if (View<Bth>(stack.bytes.data() + stack.layers()[stack.transport].offset).get<"dest_qp">() != gsi) return;
  const tracking::CmMessage cm = tracking::read_cm_message(stack);
  if (!cm.kind) return;
  const auto ports = tracking::ports_of(stack);
  if (!ports) return;
  if (exchanges_.size() >= most_) {
    exchanges_.clear();
    highest_ = most_ + 1;
  }
  highest_ = std::max(highest_, exchanges_.size() + 1);
  Exchange& exchange = exchanges_[pair_hash(*ports) ^ cm.transaction_id * 0x9e3779b97f4a7c15];
  const Message m{packet, cm, *ports, exchange, packet.icrc.status == CrcCheck::Status::bad};
  const bool duplicate = packet.icrc.value != 0 && exchange.last_icrc == packet.icrc.value &&
                         packet.time_ns - exchange.last_time < limits::duplicate_ns;
  exchange.last_icrc = packet.icrc.value;
  exchange.last_time = packet.time_ns;
  if (cm.kind == &info<CmReq> && exchange.request_frame == 0) exchange.active_id = cm.local_id;
  if (exchange.entries.size() < kept_rungs) {
    SequenceEntry entry;
    entry.frame = packet.number;
    entry.time = packet.time_ns;
    entry.label = cm.kind->title;
    entry.from = cm.local_id == exchange.active_id ? Side::a : Side::b;
    entry.repeated = duplicate;
    exchange.entries.push_back(entry);
  }
  if (duplicate) return;
  if (cm.kind == &info<CmReq>) request(m);
  if (cm.kind == &info<CmRep>) reply(m);
  if (cm.kind == &info<CmRtu>) ready(m);
  if (cm.kind == &info<CmRej>) reject(m);
  if (cm.kind == &info<CmApr> && stack.wire == Wire::roce_v2) {
    const std::uint32_t status = cm.as<CmApr>().get<"status">();
    report(m, "cm.endpoint.reject.no-lid-reasons", RuleResult::of(status != status_lid), [&] {
      return Statement{"a status other than the LID status", fmt::format("status {}", status), {}};
    });
  }
  if (cm.kind == &info<CmMra> && exchange.receipt_frame == 0) exchange.receipt_frame = packet.number;
  if (cm.kind == &info<CmLap>)
    if (alternate_paths_.size() < most_) alternate_paths_.insert(pair_hash(*ports));
  state_ = state_number(m.damaged, cm.local_id == exchange.active_id, exchange.request_frame != 0,
                        exchange.reply_frame != 0, exchange.receipt_frame != 0, few(exchange.requests));
  for (const char letter : cm.kind->name) state_ = state_number(state_, letter);
}

void CmMonitor::request(const Message& m) {
  const auto req = m.cm.as<CmReq>();
  Exchange& exchange = m.exchange;
  if (exchange.request_frame == 0) {
    exchange.request_frame = m.packet.number;
    exchange.most_requests = 1 + static_cast<std::uint32_t>(req.get<"max_cm_retries">());
  }
  if (req.get<"alternate_local_lid">() != 0) alternate_paths_.insert(pair_hash(m.ports));
  ++exchange.requests;
  const bool same = m.cm.local_id == exchange.active_id;
  report(m, "cm.active-side.request.retries", RuleResult::of(same && exchange.requests <= exchange.most_requests), [&] {
    if (!same)
      return Statement{
          fmt::format("communication ID {:#x}, as in frame {}", exchange.active_id, exchange.request_frame),
          fmt::format("communication ID {:#x} in the same transaction", m.cm.local_id),
          {exchange.request_frame}};
    return Statement{fmt::format("at most {} REQs: Max CM Retries + 1", exchange.most_requests),
                     fmt::format("sent {} times", exchange.requests),
                     {exchange.request_frame}};
  });
  check_network(m);
  const std::uint32_t mtu = req.get<"path_mtu">(), qp = req.get<"local_qpn">();
  constexpr std::uint32_t largest_mtu_code = 5;
  const bool legal = mtu >= 1 && mtu <= largest_mtu_code && qp > 1 && m.cm.local_id != 0;
  report(m, "cm.endpoint.messages.fields", RuleResult::of(legal), [&] {
    return Statement{"path MTU code 1 to 5, a QP number above 1 and a nonzero communication ID",
                     fmt::format("path MTU code {}, QP {:#x}, communication ID {:#x}", mtu, qp, m.cm.local_id),
                     {}};
  });
}

// Checks that the message uses IPv4 or IPv6, as the GIDs in the REQ's path do. Only for RoCEv2.
void CmMonitor::check_network(const Message& m) {
  const HeaderStack& stack = m.packet.stack;
  if (stack.wire != Wire::roce_v2 || stack.network >= stack.layers().size()) return;
  const bool by_ipv4 = stack.layers()[stack.network].header == &info<Ipv4>;
  constexpr std::size_t gid_at = 56;  // the requester's GID in the primary path of the REQ
  const std::uint8_t* gid = m.cm.header + gid_at;
  const bool mapped = load_be<8>(gid) == 0 && load_be<4>(gid + 8) == 0xffff;
  report(m, "cm.endpoint.messages.over-the-same-network", RuleResult::of(by_ipv4 == mapped), [&] {
    return Statement{mapped ? "RoCEv2 over IPv4, like the path's GIDs" : "RoCEv2 over IPv6, like the path's GIDs",
                     by_ipv4 ? "RoCEv2 over IPv4" : "RoCEv2 over IPv6",
                     {}};
  });
}

void CmMonitor::reply(const Message& m) {
  Exchange& exchange = m.exchange;
  const auto rep = m.cm.as<CmRep>();
  if (exchange.reply_frame == 0) exchange.passive_id = m.cm.local_id;
  if (exchange.request_frame == 0) {
    evaluator_.record("cm.endpoint.messages.fields", RuleResult::inconclusive(Reason::start_not_seen));
    if (exchange.reply_frame == 0) exchange.reply_frame = m.packet.number;
    return;
  }
  const std::uint32_t qp = rep.get<"local_qpn">();
  const bool legal = m.cm.remote_id == exchange.active_id && m.cm.local_id == exchange.passive_id && qp > 1;
  report(m, "cm.endpoint.messages.fields", RuleResult::of(legal), [&] {
    return Statement{
        fmt::format("remote communication ID {:#x} (of the REQ), local communication ID {:#x} and a QP number above 1",
                    exchange.active_id, exchange.passive_id),
        fmt::format("remote communication ID {:#x}, local communication ID {:#x}, QP {:#x}", m.cm.remote_id,
                    m.cm.local_id, qp),
        {exchange.request_frame}};
  });
  if (exchange.reply_frame == 0) exchange.reply_frame = m.packet.number;
}

void CmMonitor::ready(const Message& m) {
  const Exchange& exchange = m.exchange;
  if (exchange.request_frame == 0 || exchange.reply_frame == 0) {
    evaluator_.record("cm.endpoint.messages.fields", RuleResult::inconclusive(Reason::start_not_seen));
    return;
  }
  const bool legal = m.cm.local_id == exchange.active_id && m.cm.remote_id == exchange.passive_id;
  report(m, "cm.endpoint.messages.fields", RuleResult::of(legal), [&] {
    return Statement{
        fmt::format("the communication IDs {:#x} and {:#x} of REQ and REP", exchange.active_id, exchange.passive_id),
        fmt::format("{:#x} and {:#x}", m.cm.local_id, m.cm.remote_id),
        {exchange.request_frame, exchange.reply_frame}};
  });
}

// Checks a REJ. If its reason is a timeout, and its sender has received an MRA, it must contain the peer's
// communication ID.
void CmMonitor::reject(const Message& m) {
  const std::uint32_t reason = m.cm.as<CmRej>().get<"reason">();
  if (m.packet.stack.wire == Wire::roce_v2)
    report(m, "cm.endpoint.reject.no-lid-reasons",
           RuleResult::of(reason != reason_lid && reason != reason_alternate_lid), [&] {
             return Statement{"a reason other than the LID reasons", fmt::format("reason {}", reason), {}};
           });
  if (reason != reason_timeout) return;
  const Exchange& exchange = m.exchange;
  const std::uint64_t known = exchange.receipt_frame;
  const bool broken = m.cm.remote_id == 0 && known != 0;
  report(m, "cm.active-side.reject.remote-id",
         RuleResult::of(!broken).unless(!trust_.covers(m.ports.from), Reason::maybe_lost_downstream), [&] {
           return Statement{fmt::format("the peer's communication ID from the MRA of frame {}", known),
                            "remote communication ID 0",
                            {known}};
         });
}

}  // namespace rdmawire::conformance
