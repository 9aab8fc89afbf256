/// Immediate Data: RFC 7306, 6. And the reaction of a device without RFC 7306 to its opcodes.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::rdmap_immediate_cases {
namespace {

// ---- EXT-001: opcodes 8 to 11 are unexpected without RFC 7306

void refuses_opcode(IwarpBench& bench, std::uint8_t opcode) {
  bench.without_extensions();
  Connected& qp = bench.connect({.receives = 1});
  qp >> send(1).with<Rdmap, "opcode">(opcode, fmt::format("with opcode {}", opcode));
  qp << a_terminate(0, 2, 0x06) << stream_closed();
  qp.completes(0, "wr_flush_err");
}

template <std::uint8_t Opcode>
void unknown_opcode(IwarpBench& bench) {
  refuses_opcode(bench, Opcode);
}

// ---- EXT-002: opcode 8 or 9, untagged, queue 0, one segment, 8 bytes

Expectation an_immediate(RdmapOperation operation, std::uint32_t msn, std::uint64_t data) {
  return an(operation, msn)
      .where(fmt::format("untagged, on QN 0, the last segment, 8 bytes: {:#x}", data), [data](const Seen& seen) {
        return seen.get<Ddp, "tagged">() == 0U && seen.get<Ddp, "last">() == 1U &&
               seen.get<DdpUntagged, "qn">() == 0U && seen.get<DdpUntagged, "mo">() == 0U &&
               seen.ulpdu_bytes() == 18 + 8 && seen.get<RdmapImmediateData, "data">() == data;
      });
}
void device_sends_immediate(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.post({.opcode = "send_imm", .wr_id = 1, .imm = 0x01020304});
  qp << an_immediate(RdmapOperation::immediate_data, 1, 0x01020304);
  qp.completes(1);
}
void device_sends_solicited_immediate(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.post({.opcode = "send_imm", .wr_id = 1, .imm = 0xcafe, .flags = {"signaled", "solicited"}});
  qp << an_immediate(RdmapOperation::immediate_data_se, 1, 0xcafe);
}
void device_writes_with_immediate(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.fill(0, pattern_bytes(32));
  qp.post({.opcode = "write_imm",
           .wr_id = 1,
           .sges = {qp.piece(0, 32)},
           .remote_addr = tester_memory,
           .rkey = tester_stag,
           .imm = 0x77});
  qp << a_write(tester_stag, tester_memory).carrying(pattern_bytes(32));
  qp << an_immediate(RdmapOperation::immediate_data, 1, 0x77);
  qp.completes(1);
}

// ---- EXT-003: a length other than 8 bytes

void refuses_length(IwarpBench& bench, std::size_t length) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> untagged(RdmapOperation::immediate_data, 0, 1, 0, pattern_bytes(length));
  qp << any_terminate() << stream_closed();
  qp.fails_or_is_flushed(0);
}
template <std::size_t Length>
void wrong_length(IwarpBench& bench) {
  refuses_length(bench, Length);
}

// ---- EXT-004, EXT-005: Immediate Data consumes a receive, in order with Sends, after the preceding Write

void in_order_with_sends(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 3});
  qp >> send(1, pattern_bytes(5, 0x10)) >> immediate(2, 0x0102030405060708) >> send(3, pattern_bytes(6, 0x20));
  bench.require(qp.completes(0).byte_len == 5, "5 bytes", "another length");
  const peer::Completion second = qp.completes(1);
  bench.require(second.imm == 0x05060708U, "immediate data 0x05060708 in the low 32 bits",
                second.imm ? fmt::format("{:#x}", *second.imm) : "none");
  qp.completes(2);
  qp.received(2, pattern_bytes(6, 0x20));
}
void without_a_receive(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send(1) >> immediate(2, 5);
  qp.completes(0);
  qp << a_terminate(1, 2, 0x02) << stream_closed();
}
void after_a_write(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  ByteVector both = qp.fpdu(write(qp.stag(), qp.to(100), pattern_bytes(700, 0x30)));
  const ByteVector second = qp.fpdu(immediate(1, 9));
  both.insert(both.end(), second.begin(), second.end());
  qp.send_in_segments(both, 100, "an RDMA Write of 700 bytes, then Immediate Data");
  qp.completes(0);
  qp.holds(100, pattern_bytes(700, 0x30));
}

// ---- EXT-018: version 1 and an Invalidate STag of 0, which the receiver ignores

void device_sends_version_1(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.post({.opcode = "send_imm", .wr_id = 1, .imm = 1});
  qp << an(RdmapOperation::immediate_data).where("RV 1, Invalidate STag 0", [](const Seen& seen) {
    return seen.get<Rdmap, "rv">() == 1U && seen.get<DdpUntagged, "invalidate_stag">() == 0U;
  });
}
void device_requests_with_version_1(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.post({.opcode = "fetch_add",
           .wr_id = 1,
           .sges = {qp.piece(0, 8)},
           .remote_addr = tester_memory,
           .rkey = tester_stag,
           .add = 5});
  qp << an(RdmapOperation::atomic_request).where("RV 1, Invalidate STag 0", [](const Seen& seen) {
    return seen.get<Rdmap, "rv">() == 1U && seen.get<DdpUntagged, "invalidate_stag">() == 0U;
  });
}
void invalidate_stag_is_not_looked_at(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> immediate(1, 5).with<DdpUntagged, "invalidate_stag">(qp.stag(), "with the region's STag to invalidate");
  qp.completes(0);
  qp >> write(qp.stag(), qp.to(), pattern_bytes(8)) >>
      read_request(1, {.size = 8, .source_stag = qp.stag(), .source_to = qp.to()});
  qp << a_read_response(0x5157, 0x1000).carrying(pattern_bytes(8));
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "rdmap.receiver.extension.unsupported", .variant = "Immediate Data", .run = unknown_opcode<8>},
      {.rule = "rdmap.receiver.extension.unsupported", .variant = "Immediate Data with SE", .run = unknown_opcode<9>},
      {.rule = "rdmap.receiver.extension.unsupported", .variant = "Atomic Request", .run = unknown_opcode<10>},
      {.rule = "rdmap.receiver.extension.unsupported", .variant = "Atomic Response", .run = unknown_opcode<11>},
      {.rule = "rdmap.sender.immediate.format",
       .role = Role::requester,
       .needs = Need::atomics,
       .run = device_sends_immediate},
      {.rule = "rdmap.sender.immediate.format",
       .variant = "solicited",
       .role = Role::requester,
       .needs = Need::atomics,
       .run = device_sends_solicited_immediate},
      {.rule = "rdmap.receiver.immediate.length", .variant = "7 bytes", .needs = Need::atomics, .run = wrong_length<7>},
      {.rule = "rdmap.receiver.immediate.length", .variant = "9 bytes", .needs = Need::atomics, .run = wrong_length<9>},
      {.rule = "rdmap.receiver.immediate.length", .variant = "none", .needs = Need::atomics, .run = wrong_length<0>},
      {.rule = "rdmap.receiver.immediate.takes-buffer",
       .variant = "between Sends",
       .needs = Need::atomics,
       .run = in_order_with_sends},
      {.rule = "rdmap.receiver.immediate.takes-buffer",
       .variant = "none left",
       .needs = Need::atomics,
       .run = without_a_receive},
      {.rule = "rdmap.receiver.immediate.after-write",
       .variant = "from the tester",
       .needs = Need::atomics,
       .run = after_a_write},
      {.rule = "rdmap.receiver.immediate.after-write",
       .variant = "from the device",
       .role = Role::requester,
       .needs = Need::atomics,
       .run = device_writes_with_immediate},
      {.rule = "rdmap.endpoint.extension.version",
       .variant = "Immediate Data",
       .role = Role::requester,
       .needs = Need::atomics,
       .run = device_sends_version_1},
      {.rule = "rdmap.endpoint.extension.version",
       .variant = "Atomic Request",
       .role = Role::requester,
       .needs = Need::atomics,
       .run = device_requests_with_version_1},
      {.rule = "rdmap.endpoint.extension.version",
       .variant = "Invalidate STag ignored",
       .needs = Need::atomics,
       .run = invalidate_stag_is_not_looked_at},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::rdmap_immediate_cases
