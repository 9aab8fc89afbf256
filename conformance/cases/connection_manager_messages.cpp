/// Contents of CM messages: IBTA vol 1, 12.6.5 to 12.6.11 (tables of the messages, their numbers differ by release),
/// 12.10.8 (disconnection), A11 (service IDs of IP, clause numbers not verified), CA17-34 to CA17-38, A17.6.1.

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/connection_manager.hpp"
#include "conformance/cases/files.hpp"
#include "dissectors/machines/cm.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::connection_manager_messages_cases {
namespace {

namespace cm_reason = machines::cm_reason;

constexpr std::uint32_t accepted_mtu_codes = 5;  // 256 to 4096 bytes

bool same(Bytes a, const std::array<std::uint8_t, 16>& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

// 13.4.3, 9.6.1.4.1: a datagram of the class "communication management", version 2, method Send, between the two QPs 1,
// with their Q_Key.
bool is_a_send(const Seen& seen, std::uint16_t attribute) {
  const auto bth = seen.stack.get<Bth>();
  const auto deth = seen.stack.get<Deth>();
  const auto mad = seen.stack.get<Mad>();
  return bth->get<"opcode">() == 0x64 && bth->get<"dest_qp">() == 1 && deth->get<"src_qp">() == 1 &&
         deth->get<"qkey">() == 0x80010000 && mad->get<"base_version">() == 1 && mad->get<"class">() == 0x07 &&
         mad->get<"class_version">() == 2 && mad->get<"method">() == 0x03 && mad->get<"status">() == 0 &&
         mad->get<"attribute_id">() == attribute && mad->get<"attribute_modifier">() == 0;
}
void require_send(Bench& bench, const Seen& seen, std::uint16_t attribute) {
  bench.require(
      is_a_send(seen, attribute),
      fmt::format("a MAD from QP1 to QP1 of class 0x07, version 2, method 0x03, attribute {:#06x}", attribute),
      seen.text());
}

void req_names_the_service(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.device_connects();
  const Seen seen =
      cm.hears<CmReq>(fmt::format("service ID 0x000000000106{:04x}, RC, QP {:#x}", cm.port(), cm.qp.device_qpn),
                      [&](const View<CmReq>& req) {
                        return req.get<"service_id">() == (0x0000000001060000U | cm.port()) &&
                               req.get<"transport_service_type">() == 0 && req.get<"local_qpn">() == cm.qp.device_qpn;
                      });
  require_send(bench, seen, 0x0010);
  bench.take(connection.release(), "the connection given up");
}
void req_names_both_ends(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.device_connects();
  const Seen seen = cm.hears<CmReq>("GIDs of both endpoints, P_Key 0xffff", [&](const View<CmReq>& req) {
    return same(req.get<"primary_local_gid">(), cm.qp.path.device_address) &&
           same(req.get<"primary_remote_gid">(), cm.qp.path.tester_address) && req.get<"pkey">() == 0xffff &&
           req.get<"local_ca_guid">() != 0 && req.get<"local_comm_id">() != 0;
  });
  const auto ip = seen.stack.get<RdmaCm>();
  bench.require(ip && ip->get<"major_version">() == 0 && ip->get<"ip_version">() == 4 &&
                    std::equal(cm.qp.path.tester_address.begin() + 12, cm.qp.path.tester_address.end(),
                               ip->get<"dst">().begin() + 12),
                "private data that starts with the IP addresses, version 4", "other private data");
  bench.take(connection.release(), "the connection given up");
}
void req_has_requested_values(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection =
      cm.device_connects({.responder_resources = 3, .initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 6});
  cm.hears<CmReq>("3 and 2 READs at a time, retry counts 5 and 6, a path MTU", [](const View<CmReq>& req) {
    const std::uint64_t mtu = req.get<"path_mtu">();
    return req.get<"responder_resources">() == 3 && req.get<"initiator_depth">() == 2 &&
           req.get<"retry_count">() == 5 && req.get<"rnr_retry_count">() == 6 && mtu >= 1 && mtu <= accepted_mtu_codes;
  });
  bench.take(connection.release(), "the connection given up");
}
void rtu_names_the_communication(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.device_connects();
  cm.hears<CmReq>();
  bench >> cm.rep();
  const Seen seen = cm.hears<CmRtu>("the communication IDs of both", [&](const View<CmRtu>& rtu) {
    return rtu.get<"local_comm_id">() == cm.remote_id() && rtu.get<"remote_comm_id">() == cm.local_id();
  });
  require_send(bench, seen, 0x0014);
  cm.expect_event(connection, "established");
  cm.ends(connection);
}
void rep_names_the_communication(Bench& bench) {
  TesterCm cm(bench);
  const peer::Listener listener = cm.device_listens();
  bench >> cm.req(listener.port());
  peer::CmConnection connection = cm.requested(listener);
  bench.take(connection.accept(cm.qp.qp, {.responder_resources = 3, .initiator_depth = 2, .rnr_retry_count = 6}),
             "the device's application accepts");
  const Seen seen =
      cm.hears<CmRep>(fmt::format("ID {:#x}, QP {:#x}, responder resources 3, initiator depth 2, RNR retry count 6",
                                  cm.local_id(), cm.qp.device_qpn),
                      [&](const View<CmRep>& rep) {
                        return rep.get<"remote_comm_id">() == cm.local_id() && rep.get<"local_comm_id">() != 0 &&
                               rep.get<"local_qpn">() == cm.qp.device_qpn && rep.get<"responder_resources">() == 3 &&
                               rep.get<"initiator_depth">() == 2 && rep.get<"rnr_retry_count">() == 6 &&
                               rep.get<"local_ca_guid">() != 0;
                      });
  require_send(bench, seen, 0x0013);
  bench >> cm.rtu();
  cm.expect_event(connection, "established");
  cm.ends(connection);
}
// A REP belongs to the transaction of the REQ.
void rep_is_of_the_transaction(Bench& bench) {
  TesterCm cm(bench);
  const peer::Listener listener = cm.device_listens();
  const Stimulus asked = cm.req(listener.port());
  bench >> asked;
  peer::CmConnection connection = cm.requested(listener);
  bench.take(connection.accept(cm.qp.qp), "the device's application accepts");
  const Seen seen = cm.hears<CmRep>();
  Frame frame = asked.frame();
  const std::uint64_t transaction = frame.find(info<Mad>)->get(*info<Mad>.find("transaction_id"));
  bench.require(seen.stack.get<Mad>()->get<"transaction_id">() == transaction, "the transaction ID of the REQ",
                fmt::format("{:#x}", seen.stack.get<Mad>()->get<"transaction_id">()));
  bench >> cm.rtu();
  cm.expect_event(connection, "established");
  cm.ends(connection);
}

// CA17-34: RoCEv2 ignores the LID fields of a REQ.
Stimulus with_lids(const Stimulus& req, std::uint16_t lid) {
  return req.with<CmReq, "primary_local_lid">(lid, fmt::format("LIDs {:#x}", lid))
      .with<CmReq, "primary_remote_lid">(lid, {});
}
void lids_are_ignored(Bench& bench, std::uint16_t lid) {
  TesterCm cm(bench);
  const peer::Listener listener = cm.device_listens();
  bench >> with_lids(cm.req(listener.port()), lid);
  peer::CmConnection connection = cm.requested(listener);
  bench.take(connection.accept(cm.qp.qp), "the device's application accepts");
  cm.hears<CmRep>();
  bench >> cm.rtu();
  cm.expect_event(connection, "established");
  cm.ends(connection);
}
void lid_0(Bench& bench) { lids_are_ignored(bench, 0); }
void lid_of_a_port(Bench& bench) { lids_are_ignored(bench, 0x0007); }
void lid_of_a_group(Bench& bench) { lids_are_ignored(bench, 0xc001); }

// CA17-35: a REJ never has a LID reason.
void rejects(Bench& bench, TesterCm& cm, std::uint16_t reason) {
  const Seen seen =
      cm.hears<CmRej>(fmt::format("to the REQ, ID {:#x}, with a reason other than 13 and 19 (LIDs)", cm.local_id()),
                      [&](const View<CmRej>& rej) {
                        return rej.get<"remote_comm_id">() == cm.local_id() && rej.get<"message">() == 0 &&
                               rej.get<"reason">() != cm_reason::primary_lid_rejected &&
                               rej.get<"reason">() != cm_reason::alternate_lid_rejected;
                      });
  const std::uint16_t found = seen.stack.get<CmRej>()->get<"reason">();
  bench.require(found == reason, fmt::format("reason {}", reason), fmt::format("reason {}", found),
                Verdict::fail_wrong_code);
}
void no_listener(Bench& bench) {
  TesterCm cm(bench);
  static_cast<void>(cm.device_listens());  // checks that the device has a CM. The listener ends immediately
  bench >> with_lids(cm.req(cm.port()), 0x0007);
  rejects(bench, cm, cm_reason::invalid_service_id);
}
void the_application_rejects(Bench& bench) {
  TesterCm cm(bench);
  const peer::Listener listener = cm.device_listens();
  bench >> with_lids(cm.req(listener.port()), 0x0007);
  const peer::CmConnection connection = cm.requested(listener);
  bench.take(connection.reject(), "the device's application refuses");
  rejects(bench, cm, cm_reason::consumer);
}
// CA17-37: an alternate path is never rejected for its LIDs.
void an_alternate_path_of_lids(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.connected_by_device();
  bench >> cm.lap().with<CmLap, "alternate_local_lid">(7, "LIDs 7 and 9").with<CmLap, "alternate_remote_lid">(9, {});
  const std::int64_t until = bench.now() + bench.patience().answer / 4;
  while (const auto seen = bench.next(std::max<std::int64_t>(until - bench.now(), 1))) {
    const auto apr = seen->stack.get<CmApr>();
    if (apr) bench.require(apr->get<"status">() != 7, "an APR with a status other than 7, or no APR", "status 7");
  }
  cm.ends(connection);
}

// A17.6.1: the CM uses the encapsulation of the connection.
void connects_over(Bench& bench, Over over) {
  TesterCm cm(bench, over);
  peer::CmConnection connection = cm.device_connects();
  const Seen seen = cm.hears<CmReq>("of a path between both GIDs", [&](const View<CmReq>& req) {
    return same(req.get<"primary_local_gid">(), cm.qp.path.device_address) &&
           same(req.get<"primary_remote_gid">(), cm.qp.path.tester_address);
  });
  const bool v4 = seen.stack.find(info<Ipv4>) != nullptr;
  bench.require(v4 == cm.qp.path.is_ipv4() && seen.stack.find(info<Udp>) != nullptr,
                cm.qp.path.is_ipv4() ? "a REQ over IPv4" : "a REQ over IPv6", v4 ? "over IPv4" : "over IPv6");
  bench >> cm.rep();
  cm.hears<CmRtu>();
  cm.expect_event(connection, "established");
  cm.ends(connection);
}
void over_ipv4(Bench& bench) { connects_over(bench, Over::ipv4); }
void over_ipv6(Bench& bench) { connects_over(bench, Over::ipv6); }

/// Sends a SEND in each direction, with the PSNs of REQ and REP.
void carries(Bench& bench, Connected& qp) {
  qp.post_receives(1);
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.device_sends(7);
  bench << a_send(psn(+0));
  bench >> qp.ack(psn(+0), 1);
  qp.completes(7);
}
void device_requests_and_data_matches(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.connected_by_device();
  carries(bench, cm.qp);
  cm.ends(connection);
}
void tester_requests_and_data_matches(Bench& bench) {
  TesterCm cm(bench);
  peer::CmConnection connection = cm.connected_by_tester();
  carries(bench, cm.qp);
  cm.ends(connection);
}

// 12.10.8: packets after the DREP are not accepted.
void nothing_after_the_end(Bench& bench, TesterCm& cm) {
  bench >> cm.qp.send_only(psn(+1));
  bench << silence();
  bench >> cm.qp.write_only(psn(+1), cm.qp.at(0, 0, pattern_bytes(8)));
  bench << silence();
  cm.qp.holds(0, std::string(8, '\0'));
}
void tester_disconnects(Bench& bench) {
  TesterCm cm(bench);
  const peer::CmConnection connection = cm.connected_by_device();
  cm.qp.post_receives(2);
  bench >> cm.qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> cm.dreq();
  const Seen seen = cm.hears<CmDrep>("the communication IDs of both", [&](const View<CmDrep>& drep) {
    return drep.get<"local_comm_id">() == cm.remote_id() && drep.get<"remote_comm_id">() == cm.local_id();
  });
  require_send(bench, seen, 0x0016);
  cm.expect_event(connection, "disconnected");
  nothing_after_the_end(bench, cm);
}
void device_disconnects(Bench& bench) {
  TesterCm cm(bench);
  const peer::CmConnection connection = cm.connected_by_tester();
  cm.qp.post_receives(2);
  bench >> cm.qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench.take(connection.disconnect(), "the device's application disconnects");
  const Seen seen = cm.hears<CmDreq>(
      fmt::format("the communication IDs of both, QP {:#x}", cm.qp.tester_qpn), [&](const View<CmDreq>& dreq) {
        return dreq.get<"local_comm_id">() == cm.remote_id() && dreq.get<"remote_comm_id">() == cm.local_id() &&
               dreq.get<"remote_qpn">() == cm.qp.tester_qpn;
      });
  require_send(bench, seen, 0x0015);
  bench >> cm.drep();
  cm.expect_event(connection, "disconnected");
  nothing_after_the_end(bench, cm);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role verbs = Role::verbs;
  constexpr Need manager = Need::connection_manager;
  static constexpr Case list[] = {
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REQ, service",
       .role = verbs,
       .needs = manager,
       .run = req_names_the_service},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REQ, both endpoints",
       .role = verbs,
       .needs = manager,
       .run = req_names_both_ends},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REQ, requested values",
       .role = verbs,
       .needs = manager,
       .run = req_has_requested_values},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "RTU",
       .role = verbs,
       .needs = manager,
       .run = rtu_names_the_communication},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REP",
       .role = verbs,
       .needs = manager,
       .run = rep_names_the_communication},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REP, transaction",
       .role = verbs,
       .needs = manager,
       .run = rep_is_of_the_transaction},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REQ with LIDs 0",
       .role = verbs,
       .needs = manager,
       .run = lid_0},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REQ with LIDs of ports",
       .role = verbs,
       .needs = manager,
       .run = lid_of_a_port},
      {.rule = "cm.endpoint.messages.fields",
       .variant = "REQ with LIDs of groups",
       .role = verbs,
       .needs = manager,
       .run = lid_of_a_group},
      {.rule = "cm.endpoint.messages.hold-for-data",
       .variant = "the device requests",
       .role = verbs,
       .needs = manager,
       .run = device_requests_and_data_matches},
      {.rule = "cm.endpoint.messages.hold-for-data",
       .variant = "the tester requests",
       .role = verbs,
       .needs = manager,
       .run = tester_requests_and_data_matches},
      {.rule = "cm.endpoint.disconnect.nothing-accepted",
       .variant = "DREQ of the tester",
       .role = verbs,
       .needs = manager,
       .run = tester_disconnects},
      {.rule = "cm.endpoint.disconnect.nothing-accepted",
       .variant = "DREQ of the device",
       .role = verbs,
       .needs = manager,
       .run = device_disconnects},
      {.rule = "cm.endpoint.reject.no-lid-reasons",
       .variant = "no listener",
       .role = verbs,
       .needs = manager,
       .run = no_listener},
      {.rule = "cm.endpoint.reject.no-lid-reasons",
       .variant = "the application rejects",
       .role = verbs,
       .needs = manager,
       .run = the_application_rejects},
      {.rule = "cm.endpoint.reject.no-lid-reasons",
       .variant = "LAP",
       .role = verbs,
       .needs = manager,
       .run = an_alternate_path_of_lids},
      {.rule = "cm.endpoint.messages.over-the-same-network",
       .variant = "IPv4, by the CM",
       .role = verbs,
       .needs = manager,
       .run = over_ipv4},
      {.rule = "cm.endpoint.messages.over-the-same-network",
       .variant = "IPv6, by the CM",
       .role = verbs,
       .needs = manager,
       .run = over_ipv6},
  };
  return list;
}

}  // namespace rdmawire::conformance::connection_manager_messages_cases
