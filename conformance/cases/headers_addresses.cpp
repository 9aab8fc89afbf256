/// Source and destination addresses: IBTA vol 1, 9.6.1.2.3, A17.4.4.2, CA17-41, C9-42 (P_Keys of QP1).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::conformance::headers_addresses_cases {
namespace {

std::uint32_t ipv4_of(const std::array<std::uint8_t, 16>& gid) {
  return static_cast<std::uint32_t>(load_be<4>(gid.data() + 12));
}

// The device ignores requests from a source other than the connection's peer. 9.6.1.2.3
void forged_source(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ipv4, "src">(ipv4_of(qp.path.tester_address) ^ 1, "from another address"));
}
void forged_write(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)))
               .with<Ipv4, "src">(ipv4_of(qp.path.tester_address) ^ 1, "from another address"));
  qp.holds(0, std::string(8, '\0'));
}
void forged_ipv6_source(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1, .over = Over::ipv6});
  TesterQueuePair forger = qp;
  forger.path.tester_address[15] ^= 1;
  qp.drops(forger.send_only(psn(+0)));
}

// A destination outside the GID table. CA17-41
void foreign_destination(Bench& bench) {
  bench.environment().fix(Parameter::network, "the rule is about IPv4 headers");
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(qp.send_only(psn(+0)).with<Ipv4, "dst">(ipv4_of(qp.path.device_address) ^ 0x60, "to another address"));
}
// A destination in the GID table that the QP does not use.
void another_entry(Bench& bench) {
  bench.environment().fix(Parameter::network, "the other entry is that of the IPv6 address");
  Connected& qp = bench.rc({.receives = 1});
  TesterQueuePair other = qp;
  other.path = bench.way(Over::ipv6).path;
  qp.drops(other.send_only(psn(+0)));
}

// A packet to QP1 is accepted with any P_Key of the port's table. Evidence: the device's CM replies with a DREP to a
// DREQ for an unknown connection. IBTA vol 1, 12.7.8 (clause number not verified)
void management_datagram(Bench& bench) {
  constexpr std::uint8_t ud_send_only = 0x64;
  constexpr std::uint32_t qp1 = 1, qp1_qkey = 0x80010000;
  const auto port = bench.take(bench.device().peer->call("port", {{"device", bench.device().device->handle()}}),
                               "the port's P_Key table");
  TesterQueuePair end;
  end.transport = Transport::ud;
  end.path = bench.way(Over::ipv4).path;
  end.device_qpn = end.tester_qpn = qp1;
  bench.listen_to(end);
  // Version 1, class 7 (CM) version 2, method Send, attribute DREQ, then both communication IDs.
  std::string mad(256, '\0');
  constexpr unsigned char header[] = {1, 7, 2, 3};
  std::copy(std::begin(header), std::end(header), mad.begin());
  mad[17] = 0x15;
  for (int i = 0; i < 8; ++i) mad[static_cast<std::size_t>(8 + i)] = static_cast<char>(bench.any(256));
  for (int i = 0; i < 8; ++i) mad[static_cast<std::size_t>(24 + i)] = static_cast<char>(bench.any(256));
  std::int32_t at = 0;
  for (const std::uint16_t pkey : port.value("pkeys", std::vector<std::uint16_t>{})) {
    if ((pkey & 0x7fff) == 0) continue;
    end.path.pkey = pkey;
    ++mad[15];  // another transaction
    bench >> end.request(ud_send_only, psn(at++), {.payload = mad})
                 .with<Deth, "qkey">(qp1_qkey, "")
                 .with<Deth, "src_qp">(qp1, "")
                 .with<Bth, "ack_request">(0, fmt::format("a DREQ to QP1 with P_Key {:#06x}", pkey));
    bench << Expectation("a management datagram to QP1: DREP", [](const Seen& seen) {
      return seen.op->value == ud_send_only && seen.bytes.size() > 100 ? Match::yes : Match::no;
    });
  }
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "roce.receiver.ip.foreign-source-dropped", .variant = "SEND", .run = forged_source},
      {.rule = "roce.receiver.ip.foreign-source-dropped", .variant = "WRITE", .run = forged_write},
      {.rule = "roce.receiver.ip.foreign-source-dropped", .variant = "IPv6", .run = forged_ipv6_source},
      {.rule = "roce.receiver.ip.foreign-destination-dropped", .variant = "unknown", .run = foreign_destination},
      {.rule = "roce.receiver.ip.foreign-destination-dropped", .variant = "another entry", .run = another_entry},
      {.rule = "bth.receiver.pkey.any-of-table-on-qp1",
       .needs = Need::connection_manager,
       .run = management_datagram,
       .possible_problems = "only a CM replies; a device without a CM is silent"},
  };
  return list;
}

}  // namespace rdmawire::conformance::headers_addresses_cases
