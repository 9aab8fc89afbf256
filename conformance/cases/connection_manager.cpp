#include "conformance/cases/connection_manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint32_t general_qkey = 0x80010000;  // 9.6.1.4.1
constexpr std::uint8_t send = 3;                    // the method of every message of the CM
constexpr std::uint64_t ip_tcp_service = 0x0000000001060000;
constexpr std::uint64_t tester_guid = 0x02000000000000c1;
constexpr std::uint16_t permissive_lid = 0xffff;
constexpr std::size_t req_private_data = 92;

std::uint8_t mtu_code(std::uint32_t bytes) {
  std::uint8_t code = 1;
  while (code < 5 && (std::uint32_t{128} << code) < bytes) ++code;
  return code;
}

std::string ip_text(const std::array<std::uint8_t, 16>& address, bool ipv4) {
  std::string text;
  if (ipv4) return fmt::format("{}.{}.{}.{}", address[12], address[13], address[14], address[15]);
  for (std::size_t i = 0; i < address.size(); i += 2)
    text += fmt::format("{}{:x}", i ? ":" : "", address[i] << 8 | address[i + 1]);
  return text;
}

Connected& without_a_connection(Bench& bench, Over over) {
  return bench.rc({.timeout = 14, .state = "reset", .over = over});
}

}  // namespace

TesterCm::TesterCm(Bench& bench, Over over)
    : qp(without_a_connection(bench, over)),
      bench_(bench),
      general_(qp),
      local_id_(1 + bench.any(0x7fffffff)),
      transaction_(std::uint64_t{bench.any(0x7fffffff)} << 32 | 1),
      port_(static_cast<std::uint16_t>(20000 + bench.any(10000))) {
  general_.transport = Transport::ud;
  general_.device_qpn = general_.tester_qpn = 1;
  bench.listen_to(general_);
}

// ---- verbs

peer::CmConnection TesterCm::device_connects(const peer::CmParameters& parameters) {
  const peer::CmAddress to{.address = ip_text(qp.path.tester_address, qp.path.is_ipv4()),
                           .port = port_,
                           .source = ip_text(qp.path.device_address, qp.path.is_ipv4())};
  return bench_.take(peer::CmConnection::connect(*bench_.device().peer, qp.qp, to, parameters),
                     fmt::format("the device connects to {} port {}", to.address, port_));
}

peer::Listener TesterCm::device_listens() {
  const peer::CmAddress at{.address = ip_text(qp.path.device_address, qp.path.is_ipv4())};
  return bench_.take(peer::Listener::listen(*bench_.device().peer, at), "the device listens");
}

// ---- messages sent by the tester

Stimulus TesterCm::message(HeaderValue header, const std::string& text) const {
  return general_.datagram(psn(+0), general_qkey, {})
      .changed(
          [&](Frame& frame) {
            frame.find(info<Deth>)->set(*info<Deth>.find("src_qp"), 1);
            frame /= Value<Mad>().set<"method">(send).set<"transaction_id">(transaction_);
            frame /= std::move(header);
          },
          text);
}

Stimulus TesterCm::req(std::uint16_t port) const {
  const Stimulus plain = message(Value<CmReq>()
                                     .set<"local_comm_id">(local_id_)
                                     .set<"service_id">(ip_tcp_service | port)
                                     .set<"local_ca_guid">(tester_guid)
                                     .set<"local_qpn">(qp.tester_qpn)
                                     .set<"responder_resources">(4)
                                     .set<"initiator_depth">(4)
                                     .set<"remote_cm_response_timeout">(18)
                                     .set<"end_to_end_flow_control">(1)
                                     .set<"starting_psn">(qp.theirs.value())
                                     .set<"local_cm_response_timeout">(18)
                                     .set<"retry_count">(7)
                                     .set<"pkey">(qp.path.pkey)
                                     .set<"path_mtu">(mtu_code(qp.mtu))
                                     .set<"rnr_retry_count">(7)
                                     .set<"max_cm_retries">(3)
                                     .set<"primary_local_lid">(permissive_lid)
                                     .set<"primary_remote_lid">(permissive_lid)
                                     .set<"primary_local_gid">(Bytes(qp.path.tester_address))
                                     .set<"primary_remote_gid">(Bytes(qp.path.device_address))
                                     .set<"primary_packet_rate">(3)
                                     .set<"primary_hop_limit">(64)
                                     .set<"primary_subnet_local">(1)
                                     .set<"primary_local_ack_timeout">(16),
                                 fmt::format("REQ to port {}", port));
  return plain.changed(
      [&](Frame& frame) {
        const auto address = [ipv4 = qp.path.is_ipv4()](std::array<std::uint8_t, 16> gid) {
          if (ipv4) std::fill_n(gid.begin(), 12, std::uint8_t{0});
          return gid;
        };
        frame /= Value<RdmaCm>()
                     .set<"ip_version">(qp.path.is_ipv4() ? 4 : 6)
                     .set<"src_port">(port_)
                     .set<"src">(Bytes(address(qp.path.tester_address)))
                     .set<"dst">(Bytes(address(qp.path.device_address)));
        frame.payload.assign(req_private_data - RdmaCm::size, 0);
      },
      {});
}

Stimulus TesterCm::rep() const {
  return message(Value<CmRep>()
                     .set<"local_comm_id">(local_id_)
                     .set<"remote_comm_id">(remote_id_)
                     .set<"local_qpn">(qp.tester_qpn)
                     .set<"starting_psn">(qp.theirs.value())
                     .set<"responder_resources">(4)
                     .set<"initiator_depth">(4)
                     .set<"target_ack_delay">(12)
                     .set<"end_to_end_flow_control">(1)
                     .set<"rnr_retry_count">(7)
                     .set<"local_ca_guid">(tester_guid),
                 "REP");
}
Stimulus TesterCm::rtu() const {
  return message(Value<CmRtu>().set<"local_comm_id">(local_id_).set<"remote_comm_id">(remote_id_), "RTU");
}
Stimulus TesterCm::mra(std::uint8_t of, std::uint8_t code) const {
  return message(Value<CmMra>()
                     .set<"local_comm_id">(local_id_)
                     .set<"remote_comm_id">(remote_id_)
                     .set<"message">(of)
                     .set<"service_timeout">(code),
                 fmt::format("MRA, {:.0f} ms", static_cast<double>(cm_time(code)) / 1e6));
}
Stimulus TesterCm::dreq() const {
  return message(Value<CmDreq>()
                     .set<"local_comm_id">(local_id_)
                     .set<"remote_comm_id">(remote_id_)
                     .set<"remote_qpn">(qp.device_qpn),
                 "DREQ");
}
Stimulus TesterCm::drep() const {
  return message(Value<CmDrep>().set<"local_comm_id">(local_id_).set<"remote_comm_id">(remote_id_), "DREP");
}
Stimulus TesterCm::lap() const {
  return message(Value<CmLap>()
                     .set<"local_comm_id">(local_id_)
                     .set<"remote_comm_id">(remote_id_)
                     .set<"remote_qpn">(qp.device_qpn)
                     .set<"remote_cm_response_timeout">(18)
                     .set<"alternate_local_gid">(Bytes(qp.path.tester_address))
                     .set<"alternate_remote_gid">(Bytes(qp.path.device_address))
                     .set<"alternate_hop_limit">(64)
                     .set<"alternate_packet_rate">(3)
                     .set<"alternate_local_ack_timeout">(16),
                 "LAP");
}

// ---- messages received from the device

// Other messages may belong to an earlier connection whose close the tester did not await.
bool TesterCm::is_ours(const Seen& seen) const {
  if (seen.dest_qp != 1) return true;
  if (const auto req = seen.stack.get<CmReq>()) return (req->get<"service_id">() & 0xffff) == port_;
  const auto of = [&](const auto& header) {
    if (!header) return false;
    const std::uint32_t receiver = header->template get<"remote_comm_id">();
    const std::uint32_t sender = header->template get<"local_comm_id">();
    return receiver == local_id_ || (receiver == 0 && sender == remote_id_);
  };
  return of(seen.stack.get<CmRep>()) || of(seen.stack.get<CmRtu>()) || of(seen.stack.get<CmMra>()) ||
         of(seen.stack.get<CmRej>()) || of(seen.stack.get<CmDreq>()) || of(seen.stack.get<CmDrep>()) ||
         of(seen.stack.get<CmLap>()) || of(seen.stack.get<CmApr>());
}

Seen TesterCm::hears(const HeaderInfo& kind, const std::string& where, const std::function<bool(const Seen&)>& holds) {
  const std::string text = std::string(kind.title) + (where.empty() ? "" : ", " + where);
  const Seen seen = bench_.wait(Expectation(text, [&](const Seen& came) {
    if (!is_ours(came) || (came.stack.find(info<CmMra>) != nullptr && &kind != &info<CmMra>)) return Match::skip;
    return came.stack.find(kind) != nullptr && holds(came) ? Match::yes : Match::no;
  }));
  take_over(seen);
  return seen;
}

void TesterCm::expect_silence(std::int64_t for_ns) {
  const std::int64_t until = bench_.now() + for_ns;
  while (bench_.now() < until) {
    const auto seen = bench_.next(until - bench_.now());
    if (!seen) break;
    const bool free = !is_ours(*seen) || seen->stack.find(info<CmMra>) != nullptr;
    if (!free) bench_.require(false, "no message of the connection", seen->text());
  }
  bench_.note(fmt::format("no message of the connection for {:.1f} s", static_cast<double>(for_ns) / 1e9));
}

void TesterCm::learn(std::uint32_t starting_psn, std::uint32_t device_qpn) {
  if (qp.device_qpn != device_qpn)
    bench_.require(false, fmt::format("QP {:#x}", qp.device_qpn), fmt::format("{:#x}", device_qpn));
  qp.ours = Psn(starting_psn);
  bench_.listen_to(qp);
}

void TesterCm::take_over(const Seen& seen) {
  if (const auto req = seen.stack.get<CmReq>()) {
    remote_id_ = req->get<"local_comm_id">();
    transaction_ = seen.stack.get<Mad>()->get<"transaction_id">();
    learn(req->get<"starting_psn">(), req->get<"local_qpn">());
  } else if (const auto rep = seen.stack.get<CmRep>()) {
    remote_id_ = rep->get<"local_comm_id">();
    learn(rep->get<"starting_psn">(), rep->get<"local_qpn">());
  }
}

// ---- complete exchanges

peer::CmConnection TesterCm::connected_by_device() {
  peer::CmConnection connection = device_connects();
  hears<CmReq>();
  bench_ >> rep();
  hears<CmRtu>();
  expect_event(connection, "established");
  return connection;
}

peer::CmConnection TesterCm::connected_by_tester() {
  listener_ = device_listens();
  bench_ >> req(listener_.port());
  peer::CmConnection connection = requested(listener_);
  bench_.take(connection.accept(qp.qp), "the device's application accepts");
  hears<CmRep>();
  bench_ >> rtu();
  expect_event(connection, "established");
  return connection;
}

void TesterCm::ends(peer::CmConnection& connection) {
  bench_.take(connection.disconnect(), "the device's application disconnects");
  hears<CmDreq>();
  bench_ >> drep();
  expect_event(connection, "disconnected");
  bench_.take(connection.release(), "the connection released");
}

}  // namespace rdmawire::conformance
