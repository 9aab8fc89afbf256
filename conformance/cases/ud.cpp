/// Datagrams: IBTA vol 1, 9.6.1.4.1 and 10.2.5 (Q_Keys), 9.8.3 (lengths), 11.4.1.2 and 11.4.2.1 (receive completions),
/// 11.3.1 (multicast), A17.4.5 and A17.5 (RoCEv2).

#include <fmt/format.h>

#include "conformance/cases/connection_manager.hpp"
#include "conformance/cases/files.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance::ud_cases {
namespace {

constexpr std::uint32_t network_header = 40;  ///< bytes before the payload in a receive
constexpr std::uint32_t qkey = 0x11111111;

/// Checks that a datagram arrives: 40 bytes of network header with any content, and the payload.
peer::Completion receives(Bench& bench, Connected& qp, psn at, std::uint64_t wr_id, const std::string& payload) {
  bench >> qp.datagram(at, qkey, payload);
  const peer::Completion completion = qp.completes(wr_id);
  const auto found = bench.take(qp.inbox.read(wr_id * qp.options.receive_bytes + network_header, payload.size()),
                                "read the received data");
  bench.require(std::string(found.begin(), found.end()) == payload, "the payload after 40 bytes", "other bytes");
  return completion;
}

// A17.4.5.2: an IPv4 header is in the last 20 of the 40 bytes.
void ipv4_header_in_front(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.ud({.receives = 1});
  receives(bench, qp, psn(+0), 0, pattern_bytes(32));
  const auto found = bench.take(qp.inbox.read(20, 20), "read the network header");
  bench.require(found[0] == 0x45, "an IPv4 header at byte 20", fmt::format("byte {:#04x}", found[0]));
  const bool addresses = std::equal(found.begin() + 12, found.begin() + 16, qp.path.tester_address.begin() + 12) &&
                         std::equal(found.begin() + 16, found.end(), qp.path.device_address.begin() + 12);
  bench.require(addresses, "source and destination address in it", "others");
}
void ipv6_header_in_front(Bench& bench) {
  Connected& qp = bench.ud({.receives = 1, .over = Over::ipv6});
  receives(bench, qp, psn(+0), 0, pattern_bytes(32));
  const auto found = bench.take(qp.inbox.read(0, network_header), "read the network header");
  bench.require(found[0] >> 4 == 6, "an IPv6 header at byte 0", fmt::format("byte {:#04x}", found[0]));
  bench.require(std::equal(found.begin() + 8, found.begin() + 24, qp.path.tester_address.begin()),
                "the source address in it", "another");
}

// 11.4.2.1: the completion counts the 40 bytes and reports the sender.
void the_completion_tells_the_source(Bench& bench) {
  Connected& qp = bench.ud({.receives = 1});
  const peer::Completion completion = receives(bench, qp, psn(+0), 0, pattern_bytes(32));
  bench.require(completion.byte_len == network_header + 32, "72 bytes in the completion",
                fmt::format("{}", completion.byte_len));
  bench.require(completion.src_qp.value_or(0) == qp.tester_qpn, "the tester's QP as the source",
                fmt::format("{:#x}", completion.src_qp.value_or(0)));
}

// 9.6.1.4.1: an invalid Q_Key.
void wrong_qkey(Bench& bench, std::uint32_t flip) {
  Connected& qp = bench.ud({.receives = 1});
  bench >> qp.datagram(psn(+0), qkey ^ flip);
  bench << silence();
  qp.completes_nothing();
  receives(bench, qp, psn(+1), 0, pattern_bytes(32));
}
void lowest_bit(Bench& bench) { wrong_qkey(bench, 1); }
void highest_bit(Bench& bench) { wrong_qkey(bench, 0x80000000); }

void device_sends(Bench& bench, Connected& qp, const peer::AddressHandle& ah, std::uint32_t key,
                  std::uint32_t length = 8) {
  qp.post({.opcode = "send",
           .wr_id = 0,
           .sges = {qp.piece(0, length)},
           .ah = &ah,
           .remote_qpn = qp.tester_qpn,
           .remote_qkey = key});
  bench.note(fmt::format("Q_Key {:#x} in the work request", key));
}
std::uint64_t qkey_of(const Seen& seen) { return seen.stack.get<Deth>()->get<"qkey">(); }

// 10.2.5: a Q_Key with the high bit set in the work request selects the QP's own Q_Key.
void high_bit_means_own(Bench& bench) {
  Connected& qp = bench.ud();
  const peer::AddressHandle ah = qp.address_handle_of_tester();
  device_sends(bench, qp, ah, 0x80000001);
  bench << a_send(psn(+0)).where("the QP's own Q_Key", [](const Seen& seen) { return qkey_of(seen) == qkey; });
}
void without_it_the_requests(Bench& bench) {
  Connected& qp = bench.ud();
  const peer::AddressHandle ah = qp.address_handle_of_tester();
  device_sends(bench, qp, ah, 0x00001234);
  bench << a_send(psn(+0)).where("the work request's Q_Key", [](const Seen& seen) { return qkey_of(seen) == 0x1234; });
}

// An unprivileged application cannot set a privileged Q_Key: 10.2.5. A privileged one may.
void privileged_of_its_own(Bench& bench) {
  Connected& qp = bench.ud({.state = "reset"});
  nlohmann::json attributes = qp.attributes_to("init");
  attributes["qkey"] = 0x80010000;
  const nlohmann::json& hello = bench.device().peer->hello();
  const auto privileged = hello.find("privileged");
  if (privileged == hello.end()) end_case(Verdict::inconclusive, "the agent does not report whether it is privileged");
  if (*privileged == true)
    end_case(Verdict::unsupported, "the agent is privileged and may set such a Q_Key; run it without CAP_NET_RAW");
  bench.is_refused(qp.qp.modify(attributes), "a Q_Key of 0x80010000, which is a privileged one");
}

/// Sends a REQ for an unused service to the device's QP1: if QP1 receives it, its CM replies with a REJ.
void unheard_by_qp1(Bench& bench, const std::function<Stimulus(const Stimulus&)>& changed) {
  TesterCm cm(bench);
  static_cast<void>(cm.device_listens());  // checks that the device has a CM. The listener ends immediately
  bench >> changed(cm.req(cm.port()));
  cm.expect_silence(bench.patience().silence);
  bench >> cm.req(cm.port());
  cm.hears<CmRej>();
}
// 9.6.1.4.1: QP1 accepts only one Q_Key.
void wrong_qkey_to_qp1(Bench& bench) {
  unheard_by_qp1(bench, [](const Stimulus& s) { return s.with<Deth, "qkey">(0x80010001, "with Q_Key 0x80010001"); });
}
void ordinary_qkey_to_qp1(Bench& bench) {
  unheard_by_qp1(bench, [](const Stimulus& s) { return s.with<Deth, "qkey">(qkey, "with Q_Key 0x11111111"); });
}
/// A REQ truncated or extended to `bytes`. Its fields are complete.
Stimulus mad_of(const TesterCm& cm, std::size_t bytes) {
  constexpr std::size_t usual = 256;
  return cm.req(cm.port()).changed(
      [&](Frame& frame) {
        frame.payload.resize(frame.payload.size() + bytes - usual);
        frame.pad = std::vector<std::uint8_t>{};
      },
      fmt::format("{} bytes long", bytes));
}
// C13-3: a MAD has 256 bytes. The reaction to other lengths is unspecified as far as known.
void a_mad_too_short(Bench& bench) {
  TesterCm cm(bench);
  static_cast<void>(cm.device_listens());
  bench >> mad_of(cm, 252);
  end_case(Verdict::may,
           bench.all_until_silence().empty() ? "a MAD of 252 bytes is dropped" : "a MAD of 252 bytes is answered");
}
// C9-205: a MAD that does not fit into QP1's receives may be dropped. QP1 continues to work.
void a_mad_too_long(Bench& bench) {
  TesterCm cm(bench);
  static_cast<void>(cm.device_listens());
  bench >> mad_of(cm, 260);
  bench.all_until_silence();
  bench >> cm.req(cm.port());
  cm.hears<CmRej>();
}
void answers_have_256_bytes(Bench& bench) {
  TesterCm cm(bench);
  static_cast<void>(cm.device_listens());
  bench >> cm.req(cm.port());
  const Seen answer = cm.hears<CmRej>();
  constexpr std::uint64_t udp_header = 8, bth = 12, deth = 8, icrc = 4, mad_bytes = 256;
  const auto udp = answer.stack.get<Udp>();
  bench.require(udp.has_value(), "an answer over UDP", "an answer without a UDP header");
  const std::uint64_t length = udp->get<"length">();
  bench.require(length == udp_header + bth + deth + mad_bytes + icrc, "a MAD of 256 bytes",
                fmt::format("{} bytes", length - udp_header - bth - deth - icrc));
}

/// Checks that a datagram arrives after one that does not fit, whose receive may have completed in error.
void still_receives(Bench& bench, Connected& qp, psn at, const std::string& payload) {
  bench >> qp.datagram(at, qkey, payload);
  auto found = bench.take(qp.completions().poll(1, bench.answer_time()), "poll for a completion");
  if (!found.empty() && !found.front().good())
    found = bench.take(qp.completions().poll(1, bench.answer_time()), "poll for a completion");
  const bool good = !found.empty() && found.front().good();
  bench.require(good && found.front().byte_len == network_header + payload.size(), "the next datagram received",
                good ? fmt::format("{} bytes", found.front().byte_len) : "no completion with success");
}

// C9-205: a datagram that does not fit is dropped, and the QP continues to work.
void one_byte_too_many(Bench& bench) {
  Connected& qp = bench.ud({.receives = 2, .receive_bytes = network_header + 64});
  bench >> qp.datagram(psn(+0), qkey, pattern_bytes(65));
  bench << silence();
  qp.is_in("rts");
  still_receives(bench, qp, psn(+1), pattern_bytes(64));
}
void exactly_as_much(Bench& bench) {
  Connected& qp = bench.ud({.receives = 1, .receive_bytes = network_header + 64});
  receives(bench, qp, psn(+0), 0, pattern_bytes(64));
}
void above_the_mtu(Bench& bench) {
  const std::uint32_t mtu = bench.device().device->port().active_mtu;
  Connected& qp = bench.ud({.receives = 1, .receive_bytes = 8192});
  bench >> qp.datagram(psn(+0), qkey, pattern_bytes(mtu + 4));
  bench << silence();
  qp.completes_nothing();
  qp.is_in("rts");
  receives(bench, qp, psn(+1), 0, pattern_bytes(32));
}

// C10-93.1.1: the device drops a datagram above the port's MTU. This is no error.
void a_request_above_the_mtu(Bench& bench) {
  const std::uint32_t mtu = bench.device().device->port().active_mtu;
  Connected& qp = bench.ud();
  const peer::AddressHandle ah = qp.address_handle_of_tester();
  device_sends(bench, qp, ah, qkey, mtu + 1);
  bench << silence();
  const auto completions = bench.take(qp.cq.poll(1, bench.silence_time()), "poll for a completion");
  const bool error = !completions.empty() && !completions.front().good();
  bench.require(!error, "no completion in error", error ? completions.front().status : "");
}
void a_request_of_the_mtu(Bench& bench) {
  const std::uint32_t mtu = bench.device().device->port().active_mtu;
  Connected& qp = bench.ud();
  const peer::AddressHandle ah = qp.address_handle_of_tester();
  device_sends(bench, qp, ah, qkey, mtu);
  bench << a_send(psn(+0)).where("as many bytes as the MTU",
                                 [mtu](const Seen& seen) { return seen.payload.size() == mtu; });
  qp.completes(0);
}

// Table 38: UD has no First, Middle and Last opcodes.
void undefined(Bench& bench, std::uint8_t opcode) {
  Connected& qp = bench.ud({.receives = 1});
  bench >> qp.datagram(psn(+0), qkey).with<Bth, "opcode">(opcode, fmt::format("with opcode {:#04x}", opcode));
  bench << silence();
  qp.completes_nothing();
  receives(bench, qp, psn(+1), 0, pattern_bytes(8));
}
void a_first(Bench& bench) { undefined(bench, 0x60); }
void a_middle(Bench& bench) { undefined(bench, 0x61); }
void a_last(Bench& bench) { undefined(bench, 0x62); }
void a_write(Bench& bench) { undefined(bench, 0x6a); }

void no_receive(Bench& bench) {
  Connected& qp = bench.ud();
  bench >> qp.datagram(psn(+0), qkey);
  bench << silence();
  qp.post_receives(1);
  receives(bench, qp, psn(+1), 0, pattern_bytes(8));
}

void immediate_data(Bench& bench) {
  Connected& qp = bench.ud({.receives = 1});
  const std::uint8_t opcode = find_opcode(Transport::ud, Operation::send, Position::only, true)->value;
  bench >> qp.request(opcode, psn(+0), {.payload = pattern_bytes(8), .immediate = 0x12345678, .qkey = qkey});
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.imm.value_or(0) == 0x12345678, "immediate data 0x12345678",
                completion.imm ? fmt::format("{:#x}", *completion.imm) : "none");
}

// Any PSN is accepted.
void any_psn(Bench& bench) {
  Connected& qp = bench.ud({.receives = 4});
  std::uint64_t wr_id = 0;
  for (const std::int32_t at : {+100, +3, +3, -5000000}) receives(bench, qp, psn(at), wr_id++, pattern_bytes(8));
}

/// 239.1.2.3, as GID and as Ethernet address.
constexpr std::uint32_t group = 0xef010203;
constexpr const char* group_gid = "::ffff:239.1.2.3";
Stimulus to_group(const Connected& qp, std::uint32_t qpn, const std::string& payload) {
  return qp.datagram(psn(+0), qkey, payload)
      .with<Ethernet, "dst">(0x01005e010203, "to a group's MAC")
      .with<Ipv4, "dst">(group, "to 239.1.2.3")
      .with<Bth, "dest_qp">(qpn, fmt::format("to QP {:#x}", qpn));
}
/// Attaches a QP to the group for the lifetime of this object. An attached QP cannot be destroyed.
class Attached {
 public:
  Attached(Bench& bench, const Connected& qp)
      : peer_(*bench.device().peer), membership_({{"qp", qp.qp.handle()}, {"gid", group_gid}}) {
    bench.take(peer_.call("attach_multicast", membership_), "the QP attached to 239.1.2.3");
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() { static_cast<void>(peer_.call("detach_multicast", membership_)); }

 private:
  peer::Peer& peer_;
  const nlohmann::json membership_;
};

/// Checks that two QPs of a group receive a datagram. Ends the case if the port does not receive the group's frames.
void reaches(Bench& bench, Connected& one, Connected& other) {
  bench >> to_group(one, 0xffffff, pattern_bytes(32));
  const auto first = bench.take(one.cq.poll(1, bench.silence_time()), "poll for a completion");
  const auto second = bench.take(other.cq.poll(1, bench.silence_time()), "poll for a completion");
  if (first.empty() && second.empty())
    end_case(Verdict::inconclusive,
             "no datagram to the group arrives: the port may not be a member, because attaching a QP does not join it");
  bench.require(!first.empty() && !second.empty(), "a copy for each of the two QPs", "only one copy");
}
// 11.3.1: each QP of the group receives one copy.
void one_copy_each(Bench& bench) {
  Connected& one = bench.ud({.receives = 2});
  Connected& other = bench.ud({.receives = 2});
  Connected& none = bench.ud({.receives = 1});
  const Attached first(bench, one), second(bench, other);
  reaches(bench, one, other);
  one.completes_nothing();
  other.completes_nothing();
  none.completes_nothing();
}
void to_an_ordinary_queue_pair(Bench& bench) {
  Connected& one = bench.ud({.receives = 2});
  Connected& other = bench.ud({.receives = 2});
  const Attached first(bench, one), second(bench, other);
  reaches(bench, one, other);
  bench >> to_group(one, one.device_qpn, pattern_bytes(32));
  bench << silence();
  one.completes_nothing();
}
void unicast_to_the_multicast_queue_pair(Bench& bench) {
  Connected& qp = bench.ud({.receives = 1});
  const Attached membership(bench, qp);
  bench >> qp.datagram(psn(+0), qkey).with<Bth, "dest_qp">(0xffffff, "to QP 0xffffff");
  bench << silence();
  qp.completes_nothing();
}

// o10-2.2.3: the QP must be detached first.
void destroy_while_attached(Bench& bench) {
  Connected& qp = bench.ud();
  const Attached membership(bench, qp);
  const auto destroyed = bench.device().peer->call("destroy", {{"object", qp.qp.handle()}});
  bench.is_refused(destroyed, "destroying a QP that is attached to a group");
  bench.take(bench.device().peer->call("detach_multicast", {{"qp", qp.qp.handle()}, {"gid", group_gid}}),
             "the QP detached");
}

/// The same datagram in RoCEv1: a GRH instead of IP and UDP.
Stimulus as_roce_v1(const Connected& qp, const Stimulus& stimulus) {
  return stimulus.changed(
      [&qp](Frame& frame) {
        std::vector<HeaderValue> layers;
        for (HeaderValue& layer : frame.layers) {
          if (&layer.header() == &info<Ipv4> || &layer.header() == &info<Ipv6>)
            layers.push_back(Value<Grh>()
                                 .set<"hop_limit">(64)
                                 .set<"sgid">(Bytes(qp.path.tester_address))
                                 .set<"dgid">(Bytes(qp.path.device_address)));
          else if (&layer.header() != &info<Udp>)
            layers.push_back(layer);
        }
        frame.layers = std::move(layers);
      },
      "in RoCEv1");
}
bool has_roce_v1(Bench& bench) {
  for (const peer::Gid& gid : bench.device().device->port().gids)
    if (gid.type == "roce_v1") return true;
  return false;
}
void both_versions(Bench& bench) {
  if (!has_roce_v1(bench)) end_case(Verdict::unsupported, "the port has no GID of RoCEv1");
  Connected& qp = bench.ud({.receives = 2});
  bench >> as_roce_v1(qp, qp.datagram(psn(+0), qkey));
  qp.completes(0);
  receives(bench, qp, psn(+1), 1, pattern_bytes(8));
}
void other_version_to_a_connection(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> as_roce_v1(qp, qp.send_only(psn(+0)));
  bench << silence();
  qp.completes_nothing();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
}

}  // namespace

std::span<const Case> all() {
  constexpr Need manager = Need::ud | Need::connection_manager;
  static constexpr Case list[] = {
      {.rule = "ud.receiver.delivery.network-header-first",
       .variant = "IPv4",
       .needs = Need::ud,
       .run = ipv4_header_in_front},
      {.rule = "ud.receiver.delivery.network-header-first",
       .variant = "IPv6",
       .needs = Need::ud,
       .run = ipv6_header_in_front},
      {.rule = "ud.receiver.completion.of-receive", .needs = Need::ud, .run = the_completion_tells_the_source},
      {.rule = "ud.receiver.qkey.mismatch-dropped", .variant = "lowest bit", .needs = Need::ud, .run = lowest_bit},
      {.rule = "ud.receiver.qkey.mismatch-dropped", .variant = "highest bit", .needs = Need::ud, .run = highest_bit},
      {.rule = "ud.sender.qkey.own-if-privileged",
       .variant = "high bit",
       .role = Role::requester,
       .needs = Need::ud,
       .run = high_bit_means_own},
      {.rule = "ud.sender.qkey.own-if-privileged",
       .variant = "no high bit",
       .role = Role::requester,
       .needs = Need::ud,
       .run = without_it_the_requests},
      {.rule = "ud.verbs.qkey.privileged-restricted",
       .role = Role::verbs,
       .needs = Need::ud,
       .run = privileged_of_its_own,
       .possible_problems = "the system permits it if the administrator enabled privileged Q_Keys for all users"},
      {.rule = "ud.receiver.qkey.of-qp1",
       .variant = "another privileged Q_Key",
       .needs = manager,
       .run = wrong_qkey_to_qp1},
      {.rule = "ud.receiver.qkey.of-qp1",
       .variant = "unprivileged Q_Key",
       .needs = manager,
       .run = ordinary_qkey_to_qp1},
      {.rule = "ud.receiver.length.receive-too-small",
       .variant = "by one byte",
       .needs = Need::ud,
       .run = one_byte_too_many},
      {.rule = "ud.receiver.length.receive-too-small",
       .variant = "equal to the receive",
       .needs = Need::ud,
       .run = exactly_as_much},
      {.rule = "ud.receiver.length.receive-too-small",
       .variant = "a MAD of 260 bytes",
       .needs = manager,
       .run = a_mad_too_long,
       .caution = RunPolicy::dangerous},
      {.rule = "ud.sender.length.above-mtu",
       .variant = "one byte above the MTU",
       .role = Role::requester,
       .needs = Need::ud,
       .run = a_request_above_the_mtu},
      {.rule = "ud.sender.length.above-mtu",
       .variant = "equal to the MTU",
       .role = Role::requester,
       .needs = Need::ud,
       .run = a_request_of_the_mtu},
      {.rule = "ud.receiver.opcode.undefined-dropped", .variant = "First", .needs = Need::ud, .run = a_first},
      {.rule = "ud.receiver.opcode.undefined-dropped", .variant = "Middle", .needs = Need::ud, .run = a_middle},
      {.rule = "ud.receiver.opcode.undefined-dropped", .variant = "Last", .needs = Need::ud, .run = a_last},
      {.rule = "ud.receiver.opcode.undefined-dropped", .variant = "WRITE", .needs = Need::ud, .run = a_write},
      {.rule = "ud.receiver.receive.none-posted", .needs = Need::ud, .run = no_receive},
      {.rule = "ud.receiver.completion.immediate-data", .needs = Need::ud, .run = immediate_data},
      {.rule = "ud.receiver.psn.unchecked", .needs = Need::ud, .run = any_psn},
      {.rule = "ud.endpoint.mad.bytes",
       .variant = "sent by the device",
       .needs = manager,
       .run = answers_have_256_bytes},
      {.rule = "ud.endpoint.mad.bytes", .variant = "252 bytes to the device", .needs = manager, .run = a_mad_too_short},
      {.rule = "ud.receiver.multicast.one-copy-each", .needs = Need::ud | Need::multicast, .run = one_copy_each},
      {.rule = "ud.receiver.multicast.malformed-dropped",
       .variant = "to a unicast QP",
       .needs = Need::ud | Need::multicast,
       .run = to_an_ordinary_queue_pair},
      {.rule = "ud.receiver.multicast.malformed-dropped",
       .variant = "unicast to 0xffffff",
       .needs = Need::ud | Need::multicast,
       .run = unicast_to_the_multicast_queue_pair},
      {.rule = "ud.verbs.multicast.attached-not-destroyed",
       .role = Role::verbs,
       .needs = Need::ud | Need::multicast,
       .run = destroy_while_attached},
      {.rule = "roce.receiver.version.both-to-datagrams", .needs = Need::ud | Need::roce_v1, .run = both_versions},
      {.rule = "roce.receiver.version.other-to-connected-dropped", .run = other_version_to_a_connection},
      {.rule = "ud.receiver.length.above-mtu-dropped", .needs = Need::ud, .run = above_the_mtu},
  };
  return list;
}

}  // namespace rdmawire::conformance::ud_cases
