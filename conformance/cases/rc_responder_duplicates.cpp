/// Duplicate requests: IBTA vol 1, 9.7.5.1.4 (clause number not verified), 9.4.4 (READ), 9.4.5 (atomics), C9-105,
/// C9-110.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/path_mtu.hpp"

namespace rdmawire::conformance::rc_responder_duplicates_cases {
namespace {

// A duplicate SEND or WRITE is acknowledged without being executed again. C9-105
void duplicate_send(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.send_only(psn(+0), pattern_bytes(8, 1));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.send_only(psn(+0), pattern_bytes(8, 50));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  qp.completes_nothing();
  qp.received(0, pattern_bytes(8, 1));
}

void duplicate_write(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(16)));
  bench << ack(psn(+0)).msn(1);
  qp.fill(0, pattern_bytes(16, 90));
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(16)));
  bench << ack(psn(+0)).msn(1);
  qp.holds(0, pattern_bytes(16, 90));
}

void duplicate_middle(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets, .receives = 1});
  bench >> qp.send_first(psn(+0), pattern_bytes(qp.mtu, 1)) >> qp.send_middle(psn(+1), pattern_bytes(qp.mtu, 2));
  bench << acknowledged(psn(+1)).msn(0);
  bench >> qp.send_middle(psn(+1), pattern_bytes(qp.mtu, 77));
  bench << ack(psn(+1)).msn(0);
  bench >> qp.send_last(psn(+2), pattern_bytes(4, 3));
  bench << ack(psn(+2)).msn(1);
  qp.completes(0);
  qp.received(0, pattern_bytes(qp.mtu, 1) + pattern_bytes(qp.mtu, 2) + pattern_bytes(4, 3));
}

// The ACK of a duplicate has the newest executed PSN, not that of the duplicate. C9-105
void newest_is_acknowledged(Bench& bench) {
  Connected& qp = bench.rc();
  for (int i = 0; i < 3; ++i) bench >> qp.write_only(psn(i), qp.at(0, 0, pattern_bytes(8)));
  bench << acknowledged(psn(+2)).msn(3);
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)));
  bench << ack(psn(+2)).msn(3);
}

// The newest request is a READ, which its response acknowledges: the ACK has the PSN of the WRITE before it.
void newest_is_no_read(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)));
  bench << ack(psn(+0)).msn(1);
  bench >> qp.read(psn(+1), qp.at(0, 8));
  bench << read_response(Position::only, psn(+1)).msn(2);
  bench >> qp.write_only(psn(+0), qp.at(0, 0, pattern_bytes(8)));
  bench << ack(psn(+0)).msn(2);
}

// A duplicate READ is executed again and answered completely. 9.4.4
void duplicate_read(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  qp.fill(0, pattern_bytes(2 * qp.mtu));
  for (int again = 0; again < 2; ++again) {
    bench >> qp.read(psn(+0), qp.at(0, 2 * qp.mtu));
    bench << read_response(Position::first, psn(+0)).carrying(pattern_bytes(2 * qp.mtu).substr(0, qp.mtu))
          << read_response(Position::last, psn(+1)).carrying(pattern_bytes(2 * qp.mtu).substr(qp.mtu)) << silence();
  }
}

void duplicate_read_after_a_send(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  qp.fill(0, pattern_bytes(8));
  bench >> qp.read(psn(+0), qp.at(0, 8)) >> qp.send_only(psn(+1));
  bench << read_response(Position::only, psn(+0)) << ack(psn(+1)).msn(2);
  bench >> qp.read(psn(+0), qp.at(0, 8));
  bench << read_response(Position::only, psn(+0)).carrying(pattern_bytes(8)) << silence();
}

// A duplicate READ of a part returns only that part. 9.4.4. The response may start with a First or continue with a
// Middle packet.
void part_of_a_read(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  const std::string memory = pattern_bytes(3 * qp.mtu);
  qp.fill(0, memory);
  bench >> qp.read(psn(+0), qp.at(0, 3 * qp.mtu));
  bench << read_response(Position::first, psn(+0)) << read_response(Position::middle, psn(+1))
        << read_response(Position::last, psn(+2));
  bench >> qp.read(psn(+1), qp.at(qp.mtu, 2 * qp.mtu));
  bench << Expectation("READ response with PSN +1, First or Middle", [&](const Seen& seen) {
    for (const Position position : {Position::first, Position::middle})
      if (read_response(position, psn(+1)).carrying(memory.substr(qp.mtu, qp.mtu)).judge(seen) == Match::yes)
        return Match::yes;
    return Match::no;
  });
  bench << read_response(Position::last, psn(+2)).carrying(memory.substr(2 * qp.mtu)) << silence();
}

void end_of_a_read(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  const std::string memory = pattern_bytes(2 * qp.mtu);
  qp.fill(0, memory);
  bench >> qp.read(psn(+0), qp.at(0, 2 * qp.mtu));
  bench << read_response(Position::first, psn(+0)) << read_response(Position::last, psn(+1));
  bench >> qp.read(psn(+1), qp.at(qp.mtu, qp.mtu));
  bench << Expectation("READ response with PSN +1, Last or Only", [&](const Seen& seen) {
    for (const Position position : {Position::last, Position::only})
      if (read_response(position, psn(+1)).carrying(memory.substr(qp.mtu)).judge(seen) == Match::yes) return Match::yes;
    return Match::no;
  });
  bench << silence();
}

// A retransmitted READ leaves a partially received message unchanged. 9.7.4
void read_repeated_inside_a_message(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  bench >> qp.read(psn(+0), qp.at(4096, 8));
  bench << read_response(Position::only, psn(+0)).msn(1);
  bench >> qp.write_first(psn(+1), qp.at(0, 3 * qp.mtu, pattern_bytes(qp.mtu, 1)));
  bench << ack(psn(+1)).msn(1);
  bench >> qp.read(psn(+0), qp.at(4096, 8));
  bench << read_response(Position::only, psn(+0));
  bench >> qp.write_middle(psn(+2), pattern_bytes(qp.mtu, 2)) >> qp.write_last(psn(+3), pattern_bytes(qp.mtu, 3));
  bench << acknowledged(psn(+3)).msn(2);
  qp.holds(0, pattern_bytes(qp.mtu, 1) + pattern_bytes(qp.mtu, 2) + pattern_bytes(qp.mtu, 3));
}

void atomic_repeated_inside_a_message(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  bench >> qp.fetch_add(psn(+0), {.va = qp.region.addr() + 4096, .rkey = qp.region.rkey(), .swap_or_add = 1});
  bench << atomic_acknowledge(psn(+0), 0);
  bench >> qp.write_first(psn(+1), qp.at(0, 2 * qp.mtu, pattern_bytes(qp.mtu, 1)));
  bench << ack(psn(+1)).msn(1);
  bench >> qp.fetch_add(psn(+0), {.va = qp.region.addr() + 4096, .rkey = qp.region.rkey(), .swap_or_add = 1});
  bench << atomic_acknowledge(psn(+0), 0);
  bench >> qp.write_last(psn(+2), pattern_bytes(qp.mtu, 2));
  bench << ack(psn(+2)).msn(2);
  qp.holds(0, pattern_bytes(qp.mtu, 1) + pattern_bytes(qp.mtu, 2));
}

// A retransmitted READ with another range or key returns no data from outside the original READ: the original data, a
// NAK, or no response. 9.4.4
void nothing_but(Bench& bench, Connected& qp, const Operands& operands) {
  const std::string first = pattern_bytes(64, 0x20);
  qp.fill(0, first);
  bench >> qp.read(psn(+0), qp.at(0, 64));
  bench << read_response(Position::only, psn(+0)).carrying(first);
  bench >> qp.read(psn(+0), operands);
  for (const Seen& seen : bench.all_until_silence()) {
    const std::string got(seen.payload.begin(), seen.payload.end());
    bench.require(first.starts_with(got), "no byte that the first READ did not return",
                  fmt::format("{}, starting with {:#04x}", seen.text(), seen.payload.empty() ? 0 : seen.payload[0]));
    if (nak_remote_access(psn(+0)).judge(seen) == Match::yes) return qp.is_in("err");
  }
  bench >> qp.write_only(psn(+1), qp.at(0, 0, pattern_bytes(8)));  // the device continues to work
  bench << acknowledged(psn(+1));
}

void read_repeated_beyond_the_range(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  qp.fill(64, pattern_bytes(64, 0xa0));
  nothing_but(bench, qp, qp.at(64, 64));
}

void read_repeated_longer(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  qp.fill(64, pattern_bytes(64, 0xa0));
  nothing_but(bench, qp, qp.at(0, 128));
}

void read_repeated_with_another_key(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  const std::string secret = pattern_bytes(64, 0xa0);
  const peer::Region other = bench.region(4096, {"local_write", "remote_read"});
  bench.take(other.write(0, Bytes(reinterpret_cast<const std::uint8_t*>(secret.data()), secret.size())), "a secret");
  nothing_but(bench, qp, Bench::of(other, 0, 64));
}

// The address wraps around, so that a simple range check passes although the data is outside the region.
void read_repeated_wrapping(Bench& bench) {
  Connected& qp = bench.rc({.mtu = small_packets});
  Operands operands = qp.at(0, 64);
  operands.va = ~std::uint64_t{0} - 31;
  nothing_but(bench, qp, operands);
}

Operands word(const Connected& qp, std::uint64_t swap_or_add, std::uint64_t compare = 0) {
  return {.va = qp.region.addr(), .rkey = qp.region.rkey(), .swap_or_add = swap_or_add, .compare = compare};
}

// A duplicate atomic is answered with the saved value without being executed again. 9.4.5
void duplicate_fetch_add(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), word(qp, 5));
  bench << atomic_acknowledge(psn(+0), 0).msn(1);
  bench >> qp.fetch_add(psn(+0), word(qp, 5));
  bench << atomic_acknowledge(psn(+0), 0).msn(1);
  bench >> qp.fetch_add(psn(+1), word(qp, 0));
  bench << atomic_acknowledge(psn(+1), 5).msn(2);
}

void duplicate_compare_swap(Bench& bench) {
  Connected& qp = bench.rc();
  for (int again = 0; again < 2; ++again) {
    bench >> qp.compare_swap(psn(+0), word(qp, 9, 0));
    bench << atomic_acknowledge(psn(+0), 0).msn(1);
  }
  bench >> qp.fetch_add(psn(+1), word(qp, 0));
  bench << atomic_acknowledge(psn(+1), 9).msn(2);
}

// The older of two atomics is retransmitted: each has its own saved value.
void older_of_two_atomics(Bench& bench) {
  bench.environment().fix(Parameter::reads_at_once, "the case has two requests outstanding");
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), word(qp, 5)) >> qp.fetch_add(psn(+1), word(qp, 7));
  bench << atomic_acknowledge(psn(+0), 0) << atomic_acknowledge(psn(+1), 5);
  bench >> qp.fetch_add(psn(+0), word(qp, 5)) >> qp.fetch_add(psn(+1), word(qp, 7));
  bench << atomic_acknowledge(psn(+0), 0) << atomic_acknowledge(psn(+1), 5);
  bench >> qp.fetch_add(psn(+2), word(qp, 0));
  bench << atomic_acknowledge(psn(+2), 12).msn(3);
}

void other_value(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), word(qp, 5));
  bench << atomic_acknowledge(psn(+0), 0);
  bench >> qp.fetch_add(psn(+0), word(qp, 1000));
  bench << atomic_acknowledge(psn(+0), 0);
  bench >> qp.fetch_add(psn(+1), word(qp, 0));
  bench << atomic_acknowledge(psn(+1), 5);
}

void other_address(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> qp.fetch_add(psn(+0), word(qp, 5));
  bench << atomic_acknowledge(psn(+0), 0);
  Operands elsewhere = word(qp, 5);
  elsewhere.va += 64;
  bench >> qp.fetch_add(psn(+0), elsewhere);
  bench << atomic_acknowledge(psn(+0), 0);
  qp.holds(64, std::string(8, '\0'));
}

// The responder keeps as many results of READs and atomics as the QP permits to be outstanding (max_dest_rd_atomic). It
// silently drops an older duplicate: responder error class D.
void too_old_atomic(Bench& bench) {
  Connected& qp = bench.rc({.reads_at_once = 1});
  for (int i = 0; i < 3; ++i) {
    bench >> qp.fetch_add(psn(i), word(qp, 1));
    bench << atomic_acknowledge(psn(i), static_cast<std::uint64_t>(i));
  }
  bench >> qp.fetch_add(psn(+0), word(qp, 1));
  bench << silence();
  bench >> qp.fetch_add(psn(+3), word(qp, 0));
  bench << atomic_acknowledge(psn(+3), 3);
}

void too_old_read(Bench& bench) {
  Connected& qp = bench.rc({.reads_at_once = 1});
  for (int i = 0; i < 3; ++i) {
    bench >> qp.read(psn(i), qp.at(0, 8));
    bench << read_response(Position::only, psn(i));
  }
  bench >> qp.read(psn(+0), qp.at(0, 8));
  bench << silence();
  bench >> qp.read(psn(+3), qp.at(0, 8));
  bench << read_response(Position::only, psn(+3));
}

// A retransmitted earlier READ stops the response of a later one, and the duplicates are answered in PSN order.
// C9-110
void earlier_read_first(Bench& bench) {
  bench.environment().fix(Parameter::reads_at_once, "the case has two requests outstanding");
  constexpr std::int32_t packets = 64;
  constexpr std::uint32_t mtu = 256;
  Connected& qp = bench.rc({.mtu = mtu, .region_bytes = packets * mtu});
  bench >> qp.read(psn(+0), qp.at(0, 8)) >> qp.read(psn(+1), qp.at(0, packets * mtu));
  bench >> qp.read(psn(+0), qp.at(0, 8)) >> qp.read(psn(+1), qp.at(0, packets * mtu));
  const std::vector<Seen> all = bench.all_until_silence();
  // The last response with +0 starts the repeated responses: from there, PSNs are consecutive to the end.
  std::size_t again = 0;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].at == psn(+0)) again = i;
  bench.require(again != 0, "a second response to the earlier READ", "one response");
  for (std::size_t i = again; i < all.size(); ++i)
    bench.require(all[i].at.value == static_cast<std::int32_t>(i - again),
                  "PSNs in order after the second response to the earlier READ", all[i].text());
  bench.require(all.size() - again == packets + 1, "both READs answered completely",
                fmt::format("{} packets", all.size() - again));
}

// Only the earlier READ is retransmitted during a very long response: it does not wait for the end of the response.
void earlier_read_between_responses(Bench& bench) {
  bench.environment().fix(Parameter::reads_at_once, "the case has two requests outstanding");
  constexpr std::int32_t packets = 4096;
  constexpr std::uint32_t mtu = 256;
  Connected& qp = bench.rc({.mtu = mtu, .region_bytes = packets * mtu});
  bench >> qp.read(psn(+0), qp.at(0, 8)) >> qp.read(psn(+1), qp.at(0, packets * mtu));
  bench << read_response(Position::only, psn(+0)) << read_response(Position::first, psn(+1));
  bench >> qp.read(psn(+0), qp.at(0, 8));
  for (bool later_ended = false;;) {
    const auto seen = bench.next();
    bench.require(seen.has_value(), "a second response to the earlier READ", "no response");
    if (seen->at == psn(+0)) {
      // Only a shared clock distinguishes a slow device from packets queued in the network.
      bench.require(!later_ended, "the earlier READ before the end of the later one", "after it",
                    bench.patience().upper_bounds ? Verdict::fail : Verdict::inconclusive);
      return;
    }
    later_ended |= seen->at == psn(packets);
  }
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case list[] = {
      {.rule = "rc.responder.duplicate.not-executed-again", .variant = "SEND", .run = duplicate_send},
      {.rule = "rc.responder.duplicate.not-executed-again", .variant = "WRITE", .run = duplicate_write},
      {.rule = "rc.responder.duplicate.not-executed-again", .variant = "a Middle", .run = duplicate_middle},
      {.rule = "rc.responder.duplicate.newest-psn-acknowledged", .variant = "WRITEs", .run = newest_is_acknowledged},
      {.rule = "rc.responder.duplicate.newest-psn-acknowledged", .variant = "after a READ", .run = newest_is_no_read},
      {.rule = "rc.responder.duplicate.read-replayed", .variant = "newest request", .run = duplicate_read},
      {.rule = "rc.responder.duplicate.read-replayed", .variant = "after a SEND", .run = duplicate_read_after_a_send},
      {.rule = "rc.responder.duplicate.read-part-replayed", .variant = "two of three packets", .run = part_of_a_read},
      {.rule = "rc.responder.duplicate.read-part-replayed", .variant = "last packet", .run = end_of_a_read},
      {.rule = "rc.responder.duplicate.open-message-undisturbed",
       .variant = "READ",
       .run = read_repeated_inside_a_message},
      {.rule = "rc.responder.duplicate.open-message-undisturbed",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = atomic_repeated_inside_a_message},
      {.rule = "rc.responder.duplicate.read-within-first",
       .variant = "other range",
       .run = read_repeated_beyond_the_range},
      {.rule = "rc.responder.duplicate.read-within-first", .variant = "longer", .run = read_repeated_longer},
      {.rule = "rc.responder.duplicate.read-within-first",
       .variant = "other region",
       .run = read_repeated_with_another_key},
      {.rule = "rc.responder.duplicate.read-within-first",
       .variant = "end of the address space",
       .run = read_repeated_wrapping},
      {.rule = "rc.responder.duplicate.atomic-saved-result",
       .variant = "FetchAdd",
       .needs = Need::atomics,
       .run = duplicate_fetch_add},
      {.rule = "rc.responder.duplicate.atomic-saved-result",
       .variant = "CmpSwap",
       .needs = Need::atomics,
       .run = duplicate_compare_swap},
      {.rule = "rc.responder.duplicate.atomic-saved-result",
       .variant = "older of two",
       .needs = Need::atomics,
       .run = older_of_two_atomics},
      {.rule = "rc.responder.duplicate.atomic-other-operands",
       .variant = "value",
       .needs = Need::atomics,
       .run = other_value},
      {.rule = "rc.responder.duplicate.atomic-other-operands",
       .variant = "address",
       .needs = Need::atomics,
       .run = other_address},
      {.rule = "rc.responder.duplicate.too-old-dropped",
       .variant = "atomic",
       .needs = Need::atomics,
       .run = too_old_atomic},
      {.rule = "rc.responder.duplicate.too-old-dropped", .variant = "READ", .run = too_old_read},
      {.rule = "rc.responder.duplicate.earlier-read-first", .variant = "both retransmitted", .run = earlier_read_first},
      {.rule = "rc.responder.duplicate.earlier-read-first",
       .variant = "during the response to a later READ",
       .run = earlier_read_between_responses},
  };
  return list;
}

}  // namespace rdmawire::conformance::rc_responder_duplicates_cases
