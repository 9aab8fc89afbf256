/// READs and atomics of the requester: IBTA vol 1, 9.4.4 (READ), 9.7.5 (responses, clause numbers not verified),
/// 10.8.3.3 (fence), 11.2.4.2 (outstanding READs and atomics), 10.6.5.1 (local invalidate).

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_requester_reads_cases {
namespace {

constexpr std::uint8_t patient = 20;        ///< a timeout of 4.3 s. Earlier retransmissions have another cause
constexpr std::uint8_t short_timeout = 14;  ///< a timeout of 67 ms

/// Three packets: two full ones and the rest.
std::uint32_t requested_bytes(const Connected& qp) { return 2 * qp.mtu + 188; }

/// A READ of the device with three response packets, which has been sent.
Connected& three_packets_requested(Bench& bench, std::uint8_t timeout) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = timeout});
  qp.device_reads(0, {.length = requested_bytes(qp)});
  bench << a_read(psn(+0), requested_bytes(qp), tester_memory);
  return qp;
}
std::string part(const Connected& qp, std::size_t index) {
  return pattern_bytes(requested_bytes(qp)).substr(index * qp.mtu, qp.mtu);
}

// An ACK does not complete a READ.
void an_ack_is_no_response(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_reads(0);
  bench << a_read(psn(+0), 8, tester_memory);
  bench >> qp.ack(psn(+0), 1);
  qp.fails_or_is_asked_again(0);
}

// 9.7.5: an ACK of a request after a READ indicates that the READ's response was lost.
void the_response_was_lost(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_reads(0);
  qp.device_sends(1);
  bench << a_read(psn(+0), 8, tester_memory) << a_send(psn(+1));
  bench >> qp.ack(psn(+1), 2);
  bench << a_read(psn(+0), 8, tester_memory);
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  qp.completes(0);
  qp.holds(0, pattern_bytes(8));
}

void the_second_response_implies_loss_of_the_first(Bench& bench) {
  bench.environment().fix(Parameter::own_reads, "the case has two requests outstanding");
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_reads(0);
  qp.device_reads(1, {.offset = 64});
  bench << a_read(psn(+0), 8, tester_memory) << a_read(psn(+1), 8, tester_memory);
  bench >> qp.read_response(Position::only, psn(+1), 2, pattern_bytes(8));
  bench << a_read(psn(+0), 8, tester_memory);
}

void a_lost_atomic_response(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_adds(0);
  qp.device_sends(1);
  bench << a_fetch_add(psn(+0)) << a_send(psn(+1));
  bench >> qp.ack(psn(+1), 2);
  bench << a_fetch_add(psn(+0));
}

// The regular case: a response of three packets.
void a_whole_response(Bench& bench) {
  Connected& qp = three_packets_requested(bench, patient);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::middle, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2));
  qp.completes(0);
  qp.holds(0, pattern_bytes(requested_bytes(qp)));
  bench << silence();
}

void starts_with_a_middle(Bench& bench) {
  Connected& qp = three_packets_requested(bench, short_timeout);
  bench >> qp.read_response(Position::middle, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::middle, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2));
  qp.fails_or_is_asked_again(0);
}
void starts_with_a_last(Bench& bench) {
  Connected& qp = three_packets_requested(bench, short_timeout);
  bench >> qp.read_response(Position::last, psn(+0), 1, part(qp, 0));
  qp.fails_or_is_asked_again(0);
}
void a_first_where_a_last_belongs(Bench& bench) {
  Connected& qp = three_packets_requested(bench, short_timeout);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::middle, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::first, psn(+2), 1, part(qp, 2));
  qp.fails_or_is_asked_again(0);
}

// A response that is shorter than requested.
void short_only(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_reads(0, {.length = 64});
  bench << a_read(psn(+0), 64, tester_memory);
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(60));
  qp.fails_or_is_asked_again(0);
}
void short_last(Bench& bench) {
  Connected& qp = three_packets_requested(bench, short_timeout);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::middle, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2).substr(0, 184));
  qp.fails_or_is_asked_again(0);
}
void ends_too_early(Bench& bench) {
  Connected& qp = three_packets_requested(bench, short_timeout);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::last, psn(+1), 1, part(qp, 1));
  qp.fails_or_is_asked_again(0);
}

// A response that is longer than requested fails the READ, and no byte is written after its buffer.
void long_only(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.fill(64, pattern_bytes(64, 0x80));
  qp.device_reads(0, {.length = 64});
  bench << a_read(psn(+0), 64, tester_memory);
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(68));
  qp.fails(0);
  qp.holds(64, pattern_bytes(64, 0x80));
}
void long_last(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .timeout = short_timeout, .retry_cnt = 1});
  qp.fill(requested_bytes(qp), pattern_bytes(64, 0x80));
  qp.device_reads(0, {.length = requested_bytes(qp)});
  bench << a_read(psn(+0), requested_bytes(qp), tester_memory);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::middle, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::last, psn(+2), 1, pattern_bytes(192));
  qp.fails(0);
  qp.holds(requested_bytes(qp), pattern_bytes(64, 0x80));
}

// A response of another operation.
void atomic_acknowledge_for_a_read(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_reads(0);
  bench << a_read(psn(+0), 8, tester_memory);
  bench >> qp.atomic_acknowledge(psn(+0), 1, 42);
  qp.fails_or_is_asked_again(0);
}
void read_response_for_a_send(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  qp.fails_or_is_asked_again(0);
}
void read_response_for_an_atomic(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_adds(0);
  bench << a_fetch_add(psn(+0));
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  qp.fails_or_is_asked_again(0);
}
void atomic_acknowledge_for_a_send(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_sends(0);
  bench << a_send(psn(+0));
  bench >> qp.atomic_acknowledge(psn(+0), 1, 42);
  qp.fails_or_is_asked_again(0);
}
void ack_for_an_atomic(Bench& bench) {
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_adds(0);
  bench << a_fetch_add(psn(+0));
  bench >> qp.ack(psn(+0), 1);
  qp.fails_or_is_asked_again(0);
}
void reserved_syndrome_of_a_read_response(Bench& bench) {
  constexpr std::uint8_t read_response_only = 0x10;
  Connected& qp = bench.rc({.timeout = short_timeout, .retry_cnt = 1});
  qp.device_reads(0);
  bench << a_read(psn(+0), 8, tester_memory);
  bench >> qp.response(read_response_only, psn(+0), 0x40, 1, pattern_bytes(8));
  qp.fails_or_is_asked_again(0);
}

// 11.2.4.2: at most max_rd_atomic outstanding READs and atomics.
void one_read_at_a_time(Bench& bench) {
  Connected& qp = bench.rc({.own_reads = 1, .timeout = patient});
  qp.device_reads(0);
  qp.device_reads(1, {.offset = 64});
  bench << a_read(psn(+0), 8, tester_memory) << silence();
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  bench << a_read(psn(+1), 8, tester_memory);
  bench >> qp.read_response(Position::only, psn(+1), 2, pattern_bytes(8, 9));
  qp.completes(0);
  qp.completes(1);
  qp.holds(64, pattern_bytes(8, 9));
}
void reads_and_atomics_count_together(Bench& bench) {
  Connected& qp = bench.rc({.own_reads = 2, .timeout = patient});
  qp.device_reads(0);
  qp.device_adds(1, {.offset = 64});
  qp.device_reads(2, {.offset = 128});
  bench << a_read(psn(+0), 8, tester_memory) << a_fetch_add(psn(+1)) << silence();
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  bench << a_read(psn(+2), 8, tester_memory) << silence();
}

// 10.8.3.3: only a fence delays a request until the earlier READs and atomics are answered.
void fence_after_a_read(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_reads(0);
  qp.device_sends(1, {.flags = {"signaled", "fence"}});
  bench << a_read(psn(+0), 8, tester_memory) << silence();
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  bench << a_send(psn(+1));
}
void fence_after_an_atomic(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_adds(0);
  qp.device_writes(1, {.flags = {"signaled", "fence"}});
  bench << a_fetch_add(psn(+0)) << silence();
  bench >> qp.atomic_acknowledge(psn(+0), 1, 42);
  bench << a_write(psn(+1));
}
void without_a_fence_nothing_waits(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_reads(0);
  qp.device_sends(1);
  bench << a_read(psn(+0), 8, tester_memory) << a_send(psn(+1));
}

// 9.4.4: received data is kept, and the rest is requested with its PSN, address and length.
void the_rest_is_requested(Bench& bench) {
  Connected& qp = three_packets_requested(bench, 16);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0));
  bench << a_read(psn(+1), requested_bytes(qp) - qp.mtu, tester_memory + qp.mtu);
  bench >> qp.read_response(Position::first, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2));
  qp.completes(0);
  qp.holds(0, pattern_bytes(requested_bytes(qp)));
}
void the_last_packet_is_requested(Bench& bench) {
  Connected& qp = three_packets_requested(bench, 16);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::middle, psn(+1), 1, part(qp, 1));
  bench << a_read(psn(+2), requested_bytes(qp) - 2 * qp.mtu, tester_memory + 2 * qp.mtu);
  bench >> qp.read_response(Position::only, psn(+2), 1, part(qp, 2));
  qp.completes(0);
  qp.holds(0, pattern_bytes(requested_bytes(qp)));
}

// A duplicate response packet is ignored.
void the_first_packet_twice(Bench& bench) {
  Connected& qp = three_packets_requested(bench, patient);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::first, psn(+0), 1, pattern_bytes(qp.mtu, 0x77)) >>
      qp.read_response(Position::middle, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2));
  qp.completes(0);
  qp.holds(0, pattern_bytes(requested_bytes(qp)));
}
void a_whole_response_twice(Bench& bench) {
  Connected& qp = bench.rc({.timeout = patient});
  qp.device_reads(0);
  bench << a_read(psn(+0), 8, tester_memory);
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  qp.completes(0);
  qp.device_reads(1, {.offset = 64});
  bench << a_read(psn(+1), 8, tester_memory);
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8, 0x77));
  qp.completes_nothing();
  bench >> qp.read_response(Position::only, psn(+1), 2, pattern_bytes(8, 9));
  qp.completes(1);
  qp.holds(0, pattern_bytes(8));
  qp.holds(64, pattern_bytes(8, 9));
}

// Missing packets in the middle are requested from the gap on, at the timeout at the latest.
void the_middle_is_missing(Bench& bench) {
  Connected& qp = three_packets_requested(bench, short_timeout);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2));
  bench << a_read(psn(+1), requested_bytes(qp) - qp.mtu, tester_memory + qp.mtu);
  bench >> qp.read_response(Position::first, psn(+1), 1, part(qp, 1)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2));
  qp.completes(0);
  qp.holds(0, pattern_bytes(requested_bytes(qp)));
}
void the_first_is_missing(Bench& bench) {
  Connected& qp = three_packets_requested(bench, short_timeout);
  bench >> qp.read_response(Position::middle, psn(+1), 1, part(qp, 1));
  bench << a_read(psn(+0), requested_bytes(qp), tester_memory);
}
// The gap is an implied NAK, so the requester may retry before the timeout.
void the_gap_is_an_implied_nak(Bench& bench) {
  Connected& qp = three_packets_requested(bench, 18);
  const std::int64_t before = bench.now();
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.read_response(Position::last, psn(+2), 1, part(qp, 2));
  const Seen again = bench.wait(a_read(psn(+1), requested_bytes(qp) - qp.mtu, tester_memory + qp.mtu));
  const bool at_once = again.time - before < std::int64_t{4096} << 17;
  end_case(Verdict::may, at_once ? "retries immediately" : "retries at the local ACK timeout");
}

// 9.9.2.2: the responder reports an error in the middle of its response.
void an_error_between_responses(Bench& bench) {
  Connected& qp = three_packets_requested(bench, patient);
  bench >> qp.read_response(Position::first, psn(+0), 1, part(qp, 0)) >>
      qp.nak(nak_code::remote_access_error, psn(+1), 1);
  qp.completes(0, "rem_access_err");
  qp.is_in("err");
  bench << silence();
}

// 10.6.5.1: a fenced local invalidate waits for all earlier requests. The key stays valid until then.
void local_invalidate_waits(Bench& bench) {
  Connected& qp =
      bench.rc({.region_access = {"local_write", "remote_write", "remote_read", "mw_bind"}, .timeout = patient});
  qp.fill(0, pattern_bytes(64));
  const peer::MemoryWindow window = bench.take(bench.domain().memory_window(2), "a memory window of type 2");
  const std::uint32_t key = (window.rkey() & ~0xffU) | 0x5a;
  qp.post({.opcode = "bind_mw",
           .wr_id = 0,
           .more = {{"mw", window.handle()},
                    {"mr", qp.region.handle()},
                    {"new_rkey", key},
                    {"length", 64},
                    {"access", {"remote_read"}}}});
  qp.completes(0);
  qp.device_reads(1, {.offset = 128});
  qp.post({.opcode = "local_inv", .wr_id = 2, .invalidate_rkey = key, .flags = {"signaled", "fence"}});
  bench << a_read(psn(+0), 8, tester_memory);
  bench >> qp.read(psn(+0), {.va = qp.region.addr(), .rkey = key, .length = 8});
  bench << read_response(Position::only, psn(+0)).carrying(pattern_bytes(8));
  bench >> qp.read_response(Position::only, psn(+0), 1, pattern_bytes(8));
  qp.completes(1);
  qp.completes(2);
  bench >> qp.read(psn(+1), {.va = qp.region.addr(), .rkey = key, .length = 8});
  bench << nak_remote_access(psn(+1));
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case list[] = {
      {.rule = "rc.requester.read.not-completed-by-ack",
       .variant = "READ",
       .role = requester,
       .run = an_ack_is_no_response},
      {.rule = "rc.requester.read.not-completed-by-ack",
       .variant = "atomic",
       .role = requester,
       .needs = Need::atomics,
       .run = ack_for_an_atomic},
      {.rule = "rc.requester.read.implied-nak",
       .variant = "ACK of a SEND",
       .role = requester,
       .run = the_response_was_lost},
      {.rule = "rc.requester.read.implied-nak",
       .variant = "response to the next READ",
       .role = requester,
       .run = the_second_response_implies_loss_of_the_first},
      {.rule = "rc.requester.read.implied-nak",
       .variant = "atomic",
       .role = requester,
       .needs = Need::atomics,
       .run = a_lost_atomic_response},
      {.rule = "rc.requester.read.begins-in-the-middle",
       .variant = "Middle",
       .role = requester,
       .run = starts_with_a_middle},
      {.rule = "rc.requester.read.begins-in-the-middle",
       .variant = "Last",
       .role = requester,
       .run = starts_with_a_last},
      {.rule = "rc.requester.read.begins-in-the-middle",
       .variant = "First as the last packet",
       .role = requester,
       .run = a_first_where_a_last_belongs},
      {.rule = "rc.requester.read.response-short", .variant = "Only", .role = requester, .run = short_only},
      {.rule = "rc.requester.read.response-short", .variant = "Last", .role = requester, .run = short_last},
      {.rule = "rc.requester.read.response-short",
       .variant = "one packet missing",
       .role = requester,
       .run = ends_too_early},
      {.rule = "rc.requester.read.response-long", .variant = "Only", .role = requester, .run = long_only},
      {.rule = "rc.requester.read.response-long", .variant = "Last", .role = requester, .run = long_last},
      {.rule = "rc.requester.response.wrong-kind",
       .variant = "Atomic Acknowledge for a READ",
       .role = requester,
       .run = atomic_acknowledge_for_a_read},
      {.rule = "rc.requester.response.wrong-kind",
       .variant = "READ response for a SEND",
       .role = requester,
       .run = read_response_for_a_send},
      {.rule = "rc.requester.response.wrong-kind",
       .variant = "READ response for an atomic",
       .role = requester,
       .needs = Need::atomics,
       .run = read_response_for_an_atomic},
      {.rule = "rc.requester.response.wrong-kind",
       .variant = "Atomic Acknowledge for a SEND",
       .role = requester,
       .run = atomic_acknowledge_for_a_send},
      {.rule = "rc.requester.response.reserved-syndrome",
       .variant = "READ response",
       .role = requester,
       .run = reserved_syndrome_of_a_read_response},
      {.rule = "rc.requester.read.at-most-outstanding", .variant = "one", .role = requester, .run = one_read_at_a_time},
      {.rule = "rc.requester.read.at-most-outstanding",
       .variant = "two, READs and atomics",
       .role = requester,
       .needs = Need::atomics,
       .run = reads_and_atomics_count_together},
      {.rule = "rc.requester.order.fence", .variant = "after a READ", .role = requester, .run = fence_after_a_read},
      {.rule = "rc.requester.order.fence",
       .variant = "after an atomic",
       .role = requester,
       .needs = Need::atomics,
       .run = fence_after_an_atomic},
      {.rule = "rc.requester.order.fence",
       .variant = "none requested",
       .role = requester,
       .run = without_a_fence_nothing_waits},
      {.rule = "rc.requester.order.local-invalidate",
       .role = requester,
       .needs = Need::memory_windows,
       .run = local_invalidate_waits},
      {.rule = "rc.requester.read.rest-asked-again",
       .variant = "two packets lost",
       .role = requester,
       .run = the_rest_is_requested},
      {.rule = "rc.requester.read.rest-asked-again",
       .variant = "last packet lost",
       .role = requester,
       .run = the_last_packet_is_requested},
      {.rule = "rc.requester.read.duplicate-ignored",
       .variant = "no repetition",
       .role = requester,
       .run = a_whole_response},
      {.rule = "rc.requester.read.duplicate-ignored",
       .variant = "First",
       .role = requester,
       .run = the_first_packet_twice},
      {.rule = "rc.requester.read.duplicate-ignored",
       .variant = "response of the preceding READ",
       .role = requester,
       .run = a_whole_response_twice},
      {.rule = "rc.requester.read.gap-asked-again",
       .variant = "Middle",
       .role = requester,
       .run = the_middle_is_missing},
      {.rule = "rc.requester.read.gap-asked-again", .variant = "First", .role = requester, .run = the_first_is_missing},
      {.rule = "rc.requester.read.gap-asked-again",
       .variant = "before the timeout",
       .role = requester,
       .run = the_gap_is_an_implied_nak},
      {.rule = "rc.requester.read.error-between-responses", .role = requester, .run = an_error_between_responses},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_requester_reads_cases
