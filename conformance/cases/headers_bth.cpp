/// Checks of the BTH at the receiver: IBTA vol 1, 9.6.1, 9.2.11, 7.8.1, C9-6, C9-43, CA17-33. 17.2.8 (MigReq).

#include <fmt/format.h>

#include <functional>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance::headers_bth_cases {
namespace {

const std::string payload = pattern_bytes(16);

void accepted(Bench& bench, const std::function<Stimulus(const Stimulus&)>& change) {
  Connected& qp = bench.rc({.receives = 1});
  qp.accepts(change(qp.send_only(psn(+0), payload)), payload);
}
void dropped(Bench& bench, const std::function<Stimulus(const Stimulus&)>& change) {
  Connected& qp = bench.rc({.receives = 1});
  qp.drops(change(qp.send_only(psn(+0), payload)));
}

// FECN, BECN and the adjacent bits count as ones in the ICRC, regardless of their values. 7.8.1
void all_of_the_byte(Bench& bench) {
  accepted(bench, [](const Stimulus& s) {
    return s.with<Bth, "fecn">(1, "").with<Bth, "becn">(1, "").with<Bth, "reserved">(0x3f, "FECN, BECN, reserved set");
  });
}
void congestion_bits(Bench& bench) {
  accepted(bench,
           [](const Stimulus& s) { return s.with<Bth, "fecn">(1, "").with<Bth, "becn">(1, "FECN and BECN set"); });
}

// Reserved bits are ignored. C9-6
void reserved_of_fecn(Bench& bench) {
  accepted(bench, [](const Stimulus& s) { return s.with<Bth, "reserved">(0x3f, "six reserved bits set"); });
}
void reserved_of_ack_request(Bench& bench) {
  accepted(bench, [](const Stimulus& s) { return s.with<Bth, "reserved2">(0x7f, "seven reserved bits set"); });
}
void becn(Bench& bench) {
  accepted(bench, [](const Stimulus& s) { return s.with<Bth, "becn">(1, "BECN set"); });
}

// MigReq may have either value while no alternate path is loaded. 17.2.8
void migreq_0(Bench& bench) {
  accepted(bench, [](const Stimulus& s) { return s.with<Bth, "migreq">(0, "with MigReq 0"); });
}
void migreq_1(Bench& bench) {
  accepted(bench, [](const Stimulus& s) { return s.with<Bth, "migreq">(1, "with MigReq 1"); });
}

// Another version of the transport header. 9.6.1
void version_1(Bench& bench) {
  dropped(bench, [](const Stimulus& s) { return s.with<Bth, "tver">(1, "with TVer 1"); });
}
void version_15(Bench& bench) {
  dropped(bench, [](const Stimulus& s) { return s.with<Bth, "tver">(15, "with TVer 15"); });
}

// QP 0, or an unused QP number. CA17-33, 9.6.1. A response would have no destination, so any response fails.
void queue_pair_0(Bench& bench) {
  bench.listen_to_all();
  dropped(bench, [](const Stimulus& s) { return s.with<Bth, "dest_qp">(0, "to QP 0"); });
}
void unused_qpn(Bench& bench) {
  bench.listen_to_all();
  dropped(bench, [](const Stimulus& s) { return s.with<Bth, "dest_qp">(0xabcdef, "to QP 0xabcdef"); });
}
void multicast_queue_pair(Bench& bench) {
  bench.listen_to_all();
  dropped(bench, [](const Stimulus& s) { return s.with<Bth, "dest_qp">(0xffffff, "to QP 0xffffff"); });
}
// A QP that was destroyed.
void destroyed_queue_pair(Bench& bench) {
  Connected& gone = bench.rc({.receives = 1});
  bench.take(gone.qp.release(), "the QP destroyed");
  bench.listen_to_all();
  bench >> gone.send_only(psn(+0));
  bench << silence();
}

// Another partition, and two limited members of one partition. C9-43. A limited and a full member may communicate.
void another_partition(Bench& bench) {
  dropped(bench, [](const Stimulus& s) { return s.with<Bth, "pkey">(0x8123, "with P_Key 0x8123"); });
}
void partition_0(Bench& bench) {
  dropped(bench, [](const Stimulus& s) { return s.with<Bth, "pkey">(0x8000, "with the invalid P_Key 0x8000"); });
}
void limited_member(Bench& bench) {
  const auto& port = bench.take(bench.device().peer->call("port", {{"device", bench.device().device->handle()}}),
                                "the port's P_Key table");
  const auto pkeys = port.value("pkeys", std::vector<std::uint16_t>{});
  if (pkeys.empty() || pkeys.front() != 0xffff)
    end_case(Verdict::inconclusive, "the port's first P_Key is not that of a full member of the default partition");
  accepted(bench, [](const Stimulus& s) { return s.with<Bth, "pkey">(0x7fff, "with P_Key 0x7fff, limited member"); });
}
void counted(Bench& bench) {
  const auto count = [&] {
    return bench
        .take(bench.device().peer->call("port", {{"device", bench.device().device->handle()}}), "the port's attributes")
        .value("bad_pkey_counter", std::uint64_t{0});
  };
  const std::uint64_t before = count();
  another_partition(bench);
  const std::uint64_t after = count();
  bench.require(after == before + 1, "the counter of wrong P_Keys one higher", fmt::format("{} more", after - before));
}

// An opcode of another service. 9.6.1
void opcode_of(Bench& bench, std::uint8_t opcode, std::string_view words) {
  dropped(bench, [&](const Stimulus& s) { return s.with<Bth, "opcode">(opcode, words); });
}
void uc_to_rc(Bench& bench) { opcode_of(bench, 0x24, "as UC SEND Only"); }
void ud_to_rc(Bench& bench) { opcode_of(bench, 0x64, "as UD SEND Only"); }
void rd_to_rc(Bench& bench) { opcode_of(bench, 0x44, "as RD SEND Only"); }
void xrc_to_rc(Bench& bench) { opcode_of(bench, 0xa4, "as XRC SEND Only"); }
void vendors_to_rc(Bench& bench) { opcode_of(bench, 0xc4, "with a vendor-specific opcode"); }
void rc_to_uc(Bench& bench) {
  Connected& qp = bench.uc({.receives = 1});
  bench >> qp.send_only(psn(+0), payload).with<Bth, "opcode">(0x04, "as RC SEND Only");
  bench << silence();
  qp.completes_nothing();
  bench >> qp.send_only(psn(+0), payload);
  qp.completes(0);
}

// Pad bytes may have any value and are not delivered.
void padded(Bench& bench, std::size_t length) {
  Connected& qp = bench.rc({.receives = 1});
  const std::string odd = pattern_bytes(length);
  bench >> qp.send_only(psn(+0), odd)
               .changed([&](Frame& frame) { frame.pad = std::vector<std::uint8_t>((4 - length % 4) % 4, 0xee); },
                        "with pad bytes 0xEE");
  bench << ack(psn(+0)).msn(1);
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.byte_len == length, fmt::format("byte_len {}", length),
                fmt::format("byte_len {}", completion.byte_len));
  qp.received(0, odd + std::string(4, '\0'));
}
void one_pad_byte(Bench& bench) { padded(bench, 7); }
void two_pad_bytes(Bench& bench) { padded(bench, 6); }
void three_pad_bytes(Bench& bench) { padded(bench, 5); }
void three_pad_bytes_in_a_write(Bench& bench) {
  Connected& qp = bench.rc();
  qp.fill(0, std::string(8, '\x44'));
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(5)))
               .changed([](Frame& frame) { frame.pad = std::vector<std::uint8_t>(3, 0xee); }, "with pad bytes 0xEE");
  bench << ack(psn(+0)).msn(1);
  qp.holds(0, pattern_bytes(5) + std::string(3, '\x44'));
}

// Every packet contains the QP number and the P_Key of the connection: a response, and a request of the device.
void each_names(Bench& bench, std::uint64_t (*field)(const View<Bth>&), std::uint64_t (*expected)(const Connected&)) {
  Connected& qp = bench.rc({.receives = 1});
  bench.listen_to_all();
  bench >> qp.send_only(psn(+0), payload);
  const auto response = bench.next();
  qp.device_sends(1);
  const auto request = bench.next();
  for (const auto* seen : {&response, &request}) {
    bench.require(seen->has_value(), "a response and a request", "nothing");
    const std::uint64_t found = field(*(*seen)->stack.get<Bth>());
    bench.require(found == expected(qp), fmt::format("{:#x}", expected(qp)),
                  fmt::format("{:#x} in {}", found, (*seen)->text()));
  }
  bench >> qp.ack(psn(+0), 1);
  qp.completes(0);
}
void destination_qp(Bench& bench) {
  each_names(
      bench, [](const View<Bth>& bth) { return std::uint64_t{bth.get<"dest_qp">()}; },
      [](const Connected& qp) { return std::uint64_t{qp.tester_qpn}; });
}
void partition_key(Bench& bench) {
  each_names(
      bench, [](const View<Bth>& bth) { return std::uint64_t{bth.get<"pkey">()}; },
      [](const Connected& qp) { return std::uint64_t{qp.path.pkey}; });
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "bth.receiver.icrc.reserved-byte-masked", .variant = "all bits", .run = all_of_the_byte},
      {.rule = "bth.receiver.icrc.reserved-byte-masked", .variant = "FECN and BECN", .run = congestion_bits},
      {.rule = "bth.receiver.qpn.zero-dropped", .run = queue_pair_0},
      {.rule = "bth.receiver.qpn.unknown-dropped", .variant = "unused", .run = unused_qpn},
      {.rule = "bth.receiver.qpn.unknown-dropped", .variant = "multicast QPN", .run = multicast_queue_pair},
      {.rule = "bth.receiver.qpn.unknown-dropped", .variant = "destroyed", .run = destroyed_queue_pair},
      {.rule = "bth.receiver.version.unknown-dropped", .variant = "1", .run = version_1},
      {.rule = "bth.receiver.version.unknown-dropped", .variant = "15", .run = version_15},
      {.rule = "bth.receiver.pkey.mismatch-dropped", .variant = "another partition", .run = another_partition},
      {.rule = "bth.receiver.pkey.mismatch-dropped", .variant = "invalid", .run = partition_0},
      {.rule = "bth.receiver.pkey.mismatch-dropped", .variant = "limited member accepted", .run = limited_member},
      {.rule = "bth.receiver.pkey.mismatch-dropped", .variant = "counted", .run = counted},
      {.rule = "bth.receiver.opcode.other-service-dropped", .variant = "UC to RC", .run = uc_to_rc},
      {.rule = "bth.receiver.opcode.other-service-dropped", .variant = "UD to RC", .run = ud_to_rc},
      {.rule = "bth.receiver.opcode.other-service-dropped", .variant = "RD to RC", .run = rd_to_rc},
      {.rule = "bth.receiver.opcode.other-service-dropped", .variant = "XRC to RC", .run = xrc_to_rc},
      {.rule = "bth.receiver.opcode.other-service-dropped", .variant = "vendor's to RC", .run = vendors_to_rc},
      {.rule = "bth.receiver.opcode.other-service-dropped", .variant = "RC to UC", .needs = Need::uc, .run = rc_to_uc},
      {.rule = "bth.receiver.reserved.ignored", .variant = "next to BECN", .run = reserved_of_fecn},
      {.rule = "bth.receiver.reserved.ignored", .variant = "next to AckReq", .run = reserved_of_ack_request},
      {.rule = "bth.receiver.reserved.ignored", .variant = "BECN", .run = becn},
      {.rule = "bth.receiver.pad.not-delivered", .variant = "1 byte", .run = one_pad_byte},
      {.rule = "bth.receiver.pad.not-delivered", .variant = "2 bytes", .run = two_pad_bytes},
      {.rule = "bth.receiver.pad.not-delivered", .variant = "3 bytes", .run = three_pad_bytes},
      {.rule = "bth.receiver.pad.not-delivered", .variant = "WRITE", .run = three_pad_bytes_in_a_write},
      {.rule = "bth.receiver.migration.either-accepted", .variant = "0", .run = migreq_0},
      {.rule = "bth.receiver.migration.either-accepted", .variant = "1", .run = migreq_1},
      {.rule = "bth.sender.qpn.of-connection", .run = destination_qp},
      {.rule = "bth.sender.pkey.of-queue-pair", .run = partition_key},
  };
  return list;
}

}  // namespace rdmawire::conformance::headers_bth_cases
