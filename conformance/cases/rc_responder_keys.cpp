/// R_Keys, rights and bounds: IBTA vol 1, 9.7.4.1.5, 9.3.3.2, 9.7.5.2.4, Table 63, C9-88, C9-222.1.1.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_responder_keys_cases {
namespace {

constexpr std::uint32_t unused_key = 0xdeadbe00;

Operands wrong_key(const Connected& qp, std::uint32_t length, std::string payload = {}) {
  Operands operands = qp.at(0, length, std::move(payload));
  operands.rkey = unused_key;
  return operands;
}

constexpr std::uint8_t write_only_with_immediate = 0x0b;

// A zero-length request is valid regardless of the R_Key. C9-88
void empty_read(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.read(psn(+0), wrong_key(qp, 0));
  bench << read_response(Position::only, psn(+0)).carrying("").msn(1);
}
void empty_write(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.write_only(psn(+0), wrong_key(qp, 0));
  bench << ack(psn(+0)).msn(1);
}
void empty_write_with_immediate(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  Operands operands = wrong_key(qp, 0);
  operands.immediate = 0x11223344;
  bench >> qp.request(write_only_with_immediate, psn(+0), operands);
  bench << ack(psn(+0)).msn(1);
  const peer::Completion completion = qp.completes(0);
  bench.require(completion.imm == 0x11223344U, "the immediate data 0x11223344",
                completion.imm ? fmt::format("{:#x}", *completion.imm) : "none");
}
void empty_write_without_rights(Bench& bench) {
  Connected& qp = bench.rc({.region_access = {"local_write"}});
  bench >> qp.write_only(psn(+0), qp.at(0));
  bench << ack(psn(+0)).msn(1);
}

// An unused key: NAK (remote access error), and the Error state.
void read_with_unused_key(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.read(psn(+0), wrong_key(qp, 8));
  qp.refuses(nak_remote_access(psn(+0)));
}
void write_with_unused_key(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.write_only(psn(+0), wrong_key(qp, 8, pattern_bytes(8)));
  qp.refuses(nak_remote_access(psn(+0)));
}
void atomic_with_unused_key(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), wrong_key(qp, 0));
  qp.refuses(nak_remote_access(psn(+0)));
}
// The key of a deregistered region.
void read_with_a_stale_key(Bench& bench) {
  Connected& qp = bench.rc();
  peer::Region gone = bench.region(4096, {"local_write", "remote_read"});
  const Operands operands = Bench::of(gone, 0, 8);
  bench.take(gone.release(), "the region deregistered");
  bench >> qp.read(psn(+0), operands);
  qp.refuses(nak_remote_access(psn(+0)));
}
// The key of the region with another lowest byte.
void read_with_a_neighbors_key(Bench& bench) {
  Connected& qp = bench.rc();
  Operands operands = qp.at(0, 8);
  operands.rkey ^= 1;
  bench >> qp.read(psn(+0), operands);
  qp.refuses(nak_remote_access(psn(+0)));
}

// A range that exceeds the region: NAK (remote access error), and the whole region is unchanged. 9.7.4.1.5
void write_beyond_the_end(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> qp.write_only(psn(+0), qp.at(4089, 0, pattern_bytes(8)));
  qp.refuses(nak_remote_access(psn(+0)));
  qp.holds(4089, std::string(7, '\0'));
}
void write_to_the_end(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> qp.write_only(psn(+0), qp.at(4088, 0, pattern_bytes(8)));
  bench << ack(psn(+0)).msn(1);
  qp.holds(4088, pattern_bytes(8));
}
void write_before_the_begin(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> qp.write_only(psn(+0), qp.at(~std::uint64_t{0}, 0, pattern_bytes(8)));
  qp.refuses(nak_remote_access(psn(+0)));
  qp.holds(0, std::string(7, '\0'));
}
void read_beyond_the_end(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> qp.read(psn(+0), qp.at(4089, 8));
  qp.refuses(nak_remote_access(psn(+0)));
}
void write_announces_beyond_the_end(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .region_bytes = 4096});
  bench >> qp.write_first(psn(+0), qp.at(4096 - qp.mtu, qp.mtu + 1, pattern_bytes(qp.mtu)));
  qp.refuses(nak_remote_access(psn(+0)));
  qp.holds(4096 - qp.mtu, std::string(qp.mtu, '\0'));
}
void write_over_the_address_space(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  Operands operands = qp.at(0, 0, pattern_bytes(16));
  operands.va = ~std::uint64_t{0} - 7;
  bench >> qp.write_only(psn(+0), operands);
  qp.refuses(nak_remote_access(psn(+0)));
}
// The range starts 2 GiB before the region and ends in it.
void read_wraps_into_the_region(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  Operands operands = qp.at(0, 0x80000000);
  operands.va = qp.region.addr() - 0x80000000ULL + 8;
  bench >> qp.read(psn(+0), operands);
  qp.refuses(nak_remote_access(psn(+0)));
}
void atomic_beyond_the_end(Bench& bench) {
  Connected& qp = bench.rc({.region_bytes = 4096});
  bench >> qp.fetch_add(psn(+0), qp.at(4096));
  qp.refuses(nak_remote_access(psn(+0)));
}

// A region of another protection domain. C10-56
void in_another_domain(Bench& bench, const std::function<Stimulus(Connected&, const peer::Region&)>& use) {
  Connected& qp = bench.rc();
  const peer::Region foreign = bench.region(4096, {"local_write", "remote_write", "remote_read", "remote_atomic"}, 1);
  bench >> use(qp, foreign);
  qp.refuses(nak_remote_access(psn(+0)));
}
void read_another_domain(Bench& bench) {
  in_another_domain(bench, [](Connected& qp, const peer::Region& r) { return qp.read(psn(+0), Bench::of(r, 0, 8)); });
}
void write_another_domain(Bench& bench) {
  in_another_domain(bench, [](Connected& qp, const peer::Region& r) {
    return qp.write_only(psn(+0), Bench::of(r, 0, 0, pattern_bytes(8)));
  });
}
void atomic_another_domain(Bench& bench) {
  in_another_domain(bench, [](Connected& qp, const peer::Region& r) { return qp.fetch_add(psn(+0), Bench::of(r, 0)); });
}

// The region does not permit the operation. C10-57
void region_without(Bench& bench, const peer::Names& rights, const std::function<Stimulus(Connected&)>& use) {
  Connected& qp = bench.rc({.region_access = rights});
  bench >> use(qp);
  qp.refuses(nak_remote_access(psn(+0)));
}
Stimulus reads(Connected& qp) { return qp.read(psn(+0), qp.at(0, 8)); }
Stimulus writes(Connected& qp) { return qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8))); }
Stimulus adds(Connected& qp) { return qp.fetch_add(psn(+0), qp.at(0)); }
void region_without_read(Bench& bench) {
  region_without(bench, {"local_write", "remote_write", "remote_atomic"}, reads);
}
void region_without_write(Bench& bench) { region_without(bench, {"local_write", "remote_read"}, writes); }
void region_without_atomic(Bench& bench) {
  region_without(bench, {"local_write", "remote_write", "remote_read"}, adds);
}

// The QP does not permit the operation.
void queue_pair_without(Bench& bench, const peer::Names& rights, const std::function<Stimulus(Connected&)>& use) {
  Connected& qp = bench.rc({.access = rights});
  bench >> use(qp);
  qp.refuses(nak_invalid_request(psn(+0)));
}
void queue_pair_without_read(Bench& bench) { queue_pair_without(bench, {"remote_write", "remote_atomic"}, reads); }
void queue_pair_without_write(Bench& bench) { queue_pair_without(bench, {"remote_read", "remote_atomic"}, writes); }
void queue_pair_without_atomic(Bench& bench) { queue_pair_without(bench, {"remote_write", "remote_read"}, adds); }

// Each class C error causes its NAK also for requests that consume no receive. None is posted here. Table 63
void nak_without_receive(Bench& bench, const std::function<Stimulus(Connected&)>& use, const Expectation& expected) {
  Connected& qp = bench.rc();
  bench >> use(qp);
  bench << expected << silence();
}
void write_too_long_without_receive(Bench& bench) {
  nak_without_receive(
      bench, [](Connected& qp) { return qp.write_only(psn(+0), qp.at(0, 9, pattern_bytes(8))); },
      nak_invalid_request(psn(+0)));
}
void read_key_without_receive(Bench& bench) {
  nak_without_receive(
      bench, [](Connected& qp) { return qp.read(psn(+0), wrong_key(qp, 8)); }, nak_remote_access(psn(+0)));
}
void write_key_without_receive(Bench& bench) {
  nak_without_receive(
      bench, [](Connected& qp) { return qp.write_only(psn(+0), wrong_key(qp, 8, pattern_bytes(8))); },
      nak_remote_access(psn(+0)));
}
void atomic_misaligned_without_receive(Bench& bench) {
  nak_without_receive(
      bench, [](Connected& qp) { return qp.fetch_add(psn(+0), qp.at(4)); }, nak_invalid_request(psn(+0)));
}

// The NAK of a READ or atomic has the opcode Acknowledge, which nak_…() checks.
void nak_of_a_read(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.read(psn(+0), wrong_key(qp, 8));
  bench << nak_remote_access(psn(+0)) << silence();
}
void nak_of_an_atomic(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), wrong_key(qp, 0));
  bench << nak_remote_access(psn(+0)) << silence();
}

// A type 2 window is usable only on its own QP. o10-37.2.43, C10-77
constexpr std::uint64_t window_bytes = 4096;
Operands in_window(const Connected& qp, std::uint32_t rkey) {
  Operands operands = qp.at(0, 8);
  operands.rkey = rkey;
  return operands;
}
const ConnectOptions with_windows{.region_access = {"local_write", "remote_write", "remote_read", "mw_bind"},
                                  .access = {"remote_write", "remote_read", "mw_bind"}};
void window_of_the_queue_pair(Bench& bench) {
  Connected& qp = bench.rc(with_windows);
  qp.fill(0, pattern_bytes(8));
  const std::uint32_t rkey = bench.bound_window(qp, 0, window_bytes, {"remote_read"});
  bench >> qp.read(psn(+0), in_window(qp, rkey));
  bench << read_response(Position::only, psn(+0)).carrying(pattern_bytes(8));
}
void window_of_another_queue_pair(Bench& bench) {
  Connected& qp = bench.rc(with_windows);
  Connected& other = bench.rc();
  const std::uint32_t rkey = bench.bound_window(qp, 0, window_bytes, {"remote_read"});
  bench >> other.read(psn(+0), in_window(qp, rkey));
  other.refuses(nak_remote_access(psn(+0)));
}
void window_without_the_right(Bench& bench) {
  Connected& qp = bench.rc(with_windows);
  const std::uint32_t rkey = bench.bound_window(qp, 0, window_bytes, {"remote_write"});
  bench >> qp.read(psn(+0), in_window(qp, rkey));
  qp.refuses(nak_remote_access(psn(+0)));
}
void beyond_the_window(Bench& bench) {
  Connected& qp = bench.rc(with_windows);
  const std::uint32_t rkey = bench.bound_window(qp, 0, 7, {"remote_read"});
  bench >> qp.read(psn(+0), in_window(qp, rkey));
  qp.refuses(nak_remote_access(psn(+0)));
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.access.zero-length-unchecked", .variant = "READ", .run = empty_read},
      {.rule = "rc.responder.access.zero-length-unchecked", .variant = "WRITE", .run = empty_write},
      {.rule = "rc.responder.access.zero-length-unchecked",
       .variant = "WRITE with immediate",
       .run = empty_write_with_immediate},
      {.rule = "rc.responder.access.zero-length-unchecked",
       .variant = "region without rights",
       .run = empty_write_without_rights},
      {.rule = "rc.responder.access.unknown-rkey", .variant = "READ", .run = read_with_unused_key},
      {.rule = "rc.responder.access.unknown-rkey", .variant = "WRITE", .run = write_with_unused_key},
      {.rule = "rc.responder.access.unknown-rkey",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = atomic_with_unused_key},
      {.rule = "rc.responder.access.unknown-rkey", .variant = "deregistered region", .run = read_with_a_stale_key},
      {.rule = "rc.responder.access.unknown-rkey", .variant = "another lowest byte", .run = read_with_a_neighbors_key},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "WRITE that ends one byte after",
       .run = write_beyond_the_end},
      {.rule = "rc.responder.access.out-of-bounds", .variant = "WRITE up to the end", .run = write_to_the_end},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "WRITE that starts one byte before",
       .run = write_before_the_begin},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "READ that ends one byte after",
       .run = read_beyond_the_end},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "length of a WRITE First",
       .run = write_announces_beyond_the_end},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "across the end of the address space",
       .run = write_over_the_address_space},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "long READ that starts before the region",
       .run = read_wraps_into_the_region},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = atomic_beyond_the_end},
      {.rule = "rc.responder.access.other-domain", .variant = "READ", .run = read_another_domain},
      {.rule = "rc.responder.access.other-domain", .variant = "WRITE", .run = write_another_domain},
      {.rule = "rc.responder.access.other-domain",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = atomic_another_domain},
      {.rule = "rc.responder.access.region-rights", .variant = "READ", .run = region_without_read},
      {.rule = "rc.responder.access.region-rights", .variant = "WRITE", .run = region_without_write},
      {.rule = "rc.responder.access.region-rights",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = region_without_atomic},
      {.rule = "rc.responder.access.queue-pair-rights", .variant = "READ", .run = queue_pair_without_read},
      {.rule = "rc.responder.access.queue-pair-rights", .variant = "WRITE", .run = queue_pair_without_write},
      {.rule = "rc.responder.access.queue-pair-rights",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = queue_pair_without_atomic},
      {.rule = "rc.responder.nak.sent-without-receive",
       .variant = "WRITE's length",
       .run = write_too_long_without_receive},
      {.rule = "rc.responder.nak.sent-without-receive", .variant = "READ's key", .run = read_key_without_receive},
      {.rule = "rc.responder.nak.sent-without-receive", .variant = "WRITE's key", .run = write_key_without_receive},
      {.rule = "rc.responder.nak.sent-without-receive",
       .variant = "atomic's address",
       .needs = Need::atomics,
       .run = atomic_misaligned_without_receive},
      {.rule = "rc.responder.nak.opcode-acknowledge", .variant = "READ", .run = nak_of_a_read},
      {.rule = "rc.responder.nak.opcode-acknowledge",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = nak_of_an_atomic},
      {.rule = "rc.responder.access.window-elsewhere",
       .variant = "its own QP",
       .needs = Need::memory_windows,
       .run = window_of_the_queue_pair},
      {.rule = "rc.responder.access.window-elsewhere",
       .variant = "another QP",
       .needs = Need::memory_windows,
       .run = window_of_another_queue_pair},
      {.rule = "rc.responder.access.region-rights",
       .variant = "a window without READ",
       .needs = Need::memory_windows,
       .run = window_without_the_right},
      {.rule = "rc.responder.access.out-of-bounds",
       .variant = "beyond a window",
       .needs = Need::memory_windows,
       .run = beyond_the_window},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_keys_cases
