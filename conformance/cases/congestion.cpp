/// Congestion management: IBTA vol 1, annex A17, A17.9 (CA17-44 to CA17-46, Figure 6) and CA17-29 (FECN). What a device
/// without it does is optional, and reported.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "conformance/cases/files.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint8_t experienced = 3;  ///< the ECN field's mark

Stimulus marked(const Stimulus& stimulus) {
  return stimulus.changed(
      [](Frame& frame) {
        if (HeaderValue* ipv4 = frame.find(info<Ipv4>)) ipv4->set(*info<Ipv4>.find("tos"), experienced);
        if (HeaderValue* ipv6 = frame.find(info<Ipv6>)) ipv6->set(*info<Ipv6>.find("traffic_class"), experienced);
      },
      "marked \"congestion experienced\"");
}
/// What the device's maker documents of its notifications, as `describe` gives it. What is not said is nobody's
/// promise, and only reported.
struct Documented {
  bool paces_by_queue_pair = false;  ///< each queue pair's marks are answered by themselves
  bool nothing_on_loss = false;      ///< a loss draws no CNP
};
Documented documented(Bench& bench) {
  const auto said = bench.device().peer->call("describe", {{"device", bench.device().device->handle()}});
  if (!said) return {};
  const nlohmann::json more = said->value("congestion", nlohmann::json::object());
  return {more.value("pacing", "") == "queue_pair", !more.value("on_loss", true)};
}

bool is_cnp(const Seen& seen) { return seen.op->known && seen.op->operation == Operation::congestion_notification; }

/// CNPs among what comes until there is silence.
std::vector<Seen> cnps(Bench& bench) {
  std::vector<Seen> all = bench.all_until_silence();
  std::erase_if(all, [](const Seen& seen) { return !is_cnp(seen); });
  return all;
}
/// The CNPs that marks draw. Congestion management is optional: only of a device that is known to have it they are
/// missed, else the case ends.
std::vector<Seen> notifications(Bench& bench, bool known) {
  std::vector<Seen> seen = cnps(bench);
  if (seen.empty() && known) bench.require(false, "a CNP for a marked packet", "none");
  if (seen.empty()) end_case(Verdict::may, "a marked packet draws no CNP: no congestion management, as it seems");
  return seen;
}
/// One marked packet, and the CNP that it draws.
Seen notified(Bench& bench, Connected& qp) {
  const bool known = bench.congestion_management(true);
  bench >> marked(qp.send_only(psn(+0)));
  return notifications(bench, known).front();
}

// CA17-44: a marked packet draws a CNP to its source.
void a_mark_is_answered(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  const Seen seen = notified(bench, qp);
  bench.require(seen.dest_qp == qp.tester_qpn, "a CNP for the queue pair that sent the mark",
                fmt::format("for {:#x}", seen.dest_qp));
}

// Figure 6.
void format_of_cnp(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  const Seen seen = notified(bench, qp);
  const auto bth = *seen.stack.get<Bth>();
  bench.require(bth.get<"opcode">() == 0x81 && bth.get<"psn">() == 0 && bth.get<"se">() == 0,
                "opcode 0x81, PSN 0, no solicited event", seen.text());
  bench.require(bth.get<"migreq">() == 0, "M 0", "M 1");
  bench.require(bth.get<"pkey">() == qp.path.pkey, "the marked packet's P_Key",
                fmt::format("{:#x}", bth.get<"pkey">()));
  const auto reserved = seen.stack.get<Cnp>();
  bench.require(reserved && reserved->get<"reserved">() == 0 && reserved->get<"reserved2">() == 0,
                "16 reserved bytes of 0", "others");
}

// A device may answer several marks by one CNP, never by more CNPs than marks. The interval is its own choice.
void a_burst(Bench& bench) {
  constexpr int marks = 16;
  const bool known = bench.congestion_management(true);
  Connected& qp = bench.rc({.receives = marks + 1});
  bench >> marked(qp.send_only(psn(+0)));
  const std::size_t alone = notifications(bench, known).size();
  bench.require(alone == 1, "one CNP for one mark", fmt::format("{}", alone));
  for (int i = 1; i <= marks; ++i) bench >> marked(qp.send_only(psn(i)));
  const std::vector<Seen> seen = notifications(bench, known);
  bench.require(seen.size() <= marks, "as many CNPs as marks at most", fmt::format("{}", seen.size()));
  const std::int64_t span = seen.back().time - seen.front().time;
  end_case(Verdict::may, fmt::format("{} CNPs for {} marks within {} us", seen.size(), marks, span / 1000));
}
void two_queue_pairs(Bench& bench) {
  const bool known = bench.congestion_management(true);
  Connected& one = bench.rc({.receives = 1});
  Connected& other = bench.rc({.receives = 1});
  bench >> marked(one.send_only(psn(+0))) >> marked(other.send_only(psn(+0)));
  const std::vector<Seen> seen = notifications(bench, known);
  const auto of = [&](const Connected& qp) {
    return std::count_if(seen.begin(), seen.end(), [&](const Seen& cnp) { return cnp.dest_qp == qp.tester_qpn; });
  };
  if (documented(bench).paces_by_queue_pair)
    return bench.require(of(one) > 0 && of(other) > 0, "a CNP for each of the two queue pairs",
                         fmt::format("{} and {}", of(one), of(other)));
  end_case(Verdict::may, fmt::format("{} and {} CNPs for the two queue pairs", of(one), of(other)));
}

// Only a valid packet's mark counts.
void an_invalid_mark(Bench& bench, const std::function<Stimulus(Connected&)>& invalid) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> invalid(qp);
  bench.require(cnps(bench).empty(), "no CNP", "a CNP");
}
void a_mark_with_a_wrong_icrc(Bench& bench) {
  an_invalid_mark(bench, [](Connected& qp) {
    return marked(qp.send_only(psn(+0))).damaged([](auto& bytes) { bytes.back() ^= 1; }, "with a wrong ICRC");
  });
}
void a_mark_with_a_wrong_pkey(Bench& bench) {
  an_invalid_mark(bench, [](Connected& qp) {
    return marked(qp.send_only(psn(+0))).with<Bth, "pkey">(0x8123, "with P_Key 0x8123");
  });
}
void a_mark_of_a_duplicate(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  bench >> marked(qp.send_only(psn(+0)));
  bench.require(cnps(bench).empty(), "no CNP", "a CNP");
}
void a_mark_on_a_cnp(Bench& bench) {
  Connected& qp = bench.rc();
  bench >> marked(qp.cnp());
  bench.require(cnps(bench).empty(), "no CNP", "a CNP");
}

/// The device's requests: how long a WRITE of so many bytes takes, each acknowledged.
std::int64_t time_of_write(Bench& bench, Connected& qp, std::uint64_t wr_id, psn& at) {
  constexpr std::int32_t packets = 64;
  qp.device_writes(wr_id, {.length = packets * 256});
  std::int64_t begin = 0, end = 0;
  for (std::int32_t i = 0; i < packets; ++i) {
    const auto seen = bench.next();
    if (!seen) bench.require(false, "the next packet of a WRITE", "nothing");
    if (i == 0) begin = seen->time;
    end = seen->time;
    if (i % 16 == 15) bench >> qp.ack(at + i, static_cast<std::uint32_t>(wr_id) + (i == packets - 1 ? 1 : 0));
  }
  at = at + packets;
  qp.completes(wr_id);
  return end - begin;
}

/// What the rate did. A clock of ours and a device that is known to have congestion management make it judged; else it
/// is reported: how much and when, no clause says, and other traffic or a slow tester look alike.
void rate(Bench& bench, bool known, bool holds, const std::string& expected, const std::string& seen) {
  if (!known || !bench.patience().upper_bounds) end_case(Verdict::may, seen);
  bench.require(holds, expected, seen);
}
std::string times(std::int64_t before, const char* when, std::int64_t then) {
  return fmt::format("64 packets took {} us at first, and {} us {}", before / 1000, then / 1000, when);
}
const ConnectOptions writer{.mtu = 256, .receives = 1, .region_bytes = 65536, .timeout = 20};

// CA17-45: a CNP slows down that queue pair, and no other. Its reserved bytes mean nothing: Figure 6.
void slows(Bench& bench, const std::function<Stimulus(Connected&)>& cnp) {
  const bool known = bench.congestion_management(true);
  Connected& qp = bench.rc(writer);
  Connected& other = bench.rc(writer);
  psn at(0), of_other(0);
  const std::int64_t before = time_of_write(bench, qp, 0, at);
  for (int i = 0; i < 8; ++i) bench >> cnp(qp);
  bench.pass(10'000);  // until they are there
  const std::int64_t behind = time_of_write(bench, qp, 1, at);
  const std::int64_t elsewhere = time_of_write(bench, other, 0, of_other);
  rate(bench, known, behind > before + before / 2 && elsewhere <= before,
       "a lower rate of the queue pair that the CNPs are for, and of no other",
       fmt::format("{}; on another queue pair {} us", times(before, "behind the CNPs", behind), elsewhere / 1000));
}
void a_cnp_slows(Bench& bench) {
  slows(bench, [](Connected& qp) { return qp.cnp(); });
}
// CA17-46
void the_rate_recovers(Bench& bench) {
  const bool known = bench.congestion_management(true);
  Connected& qp = bench.rc(writer);
  psn at(0);
  for (int i = 0; i < 8; ++i) bench >> qp.cnp();
  bench.pass(10'000);
  const std::int64_t slow = time_of_write(bench, qp, 0, at);
  bench.pass(100'000'000);
  const std::int64_t later = time_of_write(bench, qp, 1, at);
  rate(bench, known, later < slow, "a higher rate after 100 ms without CNPs",
       times(slow, "100 ms after the last CNP", later));
}

// Whatever a CNP holds, and whoever it is for: nothing breaks.
void a_cnp_for_nobody(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.cnp().with<Bth, "dest_qp">(qp.device_qpn ^ 0x1000, "for an unknown queue pair");
  bench << silence();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
}
Stimulus with_reserved_bytes(Connected& qp) {
  return qp.cnp().with<Cnp, "reserved">(0x0123456789abcdef, "reserved bytes not 0");
}
void a_cnp_with_reserved_bytes(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> with_reserved_bytes(qp);
  bench << silence();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
}
void a_cnp_with_reserved_bytes_slows(Bench& bench) { slows(bench, with_reserved_bytes); }

// Some devices send CNPs for losses, and document it: reported.
void a_loss_without_a_mark(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.send_only(psn(+1));
  const std::size_t count = cnps(bench).size();
  if (documented(bench).nothing_on_loss) return bench.require(count == 0, "no CNP for a loss", "a CNP");
  end_case(Verdict::may, count ? "a loss draws a CNP" : "a loss draws no CNP");
}

// CA17-29: RoCEv2 marks in the IP header; FECN means nothing.
void fecn_is_ignored(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.send_only(psn(+0)).with<Bth, "fecn">(1, "with FECN");
  bench << ack(psn(+0)).msn(1).where("BECN 0", [](const Seen& seen) {
    return seen.stack.get<Bth>()->get<"becn">() == 0;
  }) << silence();
}
void fecn_slows_nothing(Bench& bench) {
  const bool known = bench.congestion_management(true);
  Connected& qp = bench.rc(writer);
  psn at(0);
  const std::int64_t before = time_of_write(bench, qp, 0, at);
  bench >> qp.send_only(psn(+0)).with<Bth, "fecn">(1, "with FECN");
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
  const std::int64_t behind = time_of_write(bench, qp, 1, at);
  rate(bench, known, behind <= before, "the same rate behind a packet with FECN",
       times(before, "behind a packet with FECN", behind));
}

// What the device counts is what the tester saw.
void counters_are_true(Bench& bench) {
  constexpr std::uint64_t marks = 4;
  bench.congestion_management(true);
  Connected& qp = bench.rc({.receives = marks});
  const auto sent = bench.counter({"np_cnp_sent"}), seen_marks = bench.counter({"np_ecn_marked_roce_packets"});
  if (!sent && !seen_marks) end_case(Verdict::unsupported, "the device has no counters of congestion");
  for (std::uint64_t i = 0; i < marks; ++i) bench >> marked(qp.send_only(psn(static_cast<std::int32_t>(i))));
  const std::size_t on_the_wire = cnps(bench).size();
  if (sent) {
    const std::uint64_t counted = bench.counter({"np_cnp_sent"}).value_or(0) - *sent;
    bench.require(counted == on_the_wire, fmt::format("{} CNPs counted", on_the_wire), fmt::format("{}", counted));
  }
  if (seen_marks) {
    const std::uint64_t counted = bench.counter({"np_ecn_marked_roce_packets"}).value_or(0) - *seen_marks;
    bench.require(counted == marks, fmt::format("{} marks counted", marks), fmt::format("{}", counted));
  }
}

}  // namespace

std::span<const Case> congestion_cases() {
  constexpr Role wire = Role::wire;
  static constexpr Case list[] = {
      {.rule = "congestion.notification-point.cnp.answers-mark", .role = wire, .run = a_mark_is_answered},
      {.rule = "congestion.notification-point.cnp.format", .role = wire, .run = format_of_cnp},
      {.rule = "congestion.notification-point.pacing.interval", .role = wire, .run = a_burst},
      {.rule = "congestion.notification-point.pacing.scope", .role = wire, .run = two_queue_pairs},
      {.rule = "congestion.notification-point.cnp.valid-packets-alone",
       .variant = "wrong ICRC",
       .role = wire,
       .run = a_mark_with_a_wrong_icrc},
      {.rule = "congestion.notification-point.cnp.valid-packets-alone",
       .variant = "wrong P_Key",
       .role = wire,
       .run = a_mark_with_a_wrong_pkey},
      {.rule = "congestion.notification-point.cnp.valid-packets-alone",
       .variant = "duplicate",
       .role = wire,
       .run = a_mark_of_a_duplicate},
      {.rule = "congestion.notification-point.cnp.never-for-cnp", .role = wire, .run = a_mark_on_a_cnp},
      {.rule = "congestion.reaction-point.rate.falls", .role = wire, .run = a_cnp_slows},
      {.rule = "congestion.reaction-point.cnp.strange-ignored",
       .variant = "unknown queue pair",
       .role = wire,
       .run = a_cnp_for_nobody},
      {.rule = "congestion.reaction-point.cnp.strange-ignored",
       .variant = "reserved bytes",
       .role = wire,
       .run = a_cnp_with_reserved_bytes},
      {.rule = "congestion.reaction-point.cnp.strange-ignored",
       .variant = "reserved bytes, and the rate",
       .role = wire,
       .run = a_cnp_with_reserved_bytes_slows},
      {.rule = "congestion.reaction-point.rate.recovers", .role = wire, .run = the_rate_recovers},
      {.rule = "congestion.notification-point.cnp.on-loss", .role = wire, .run = a_loss_without_a_mark},
      {.rule = "congestion.receiver.fecn.no-reaction", .variant = "answer", .role = wire, .run = fecn_is_ignored},
      {.rule = "congestion.receiver.fecn.no-reaction", .variant = "rate", .role = wire, .run = fecn_slows_nothing},
      {.rule = "congestion.endpoint.counters.as-the-wire", .role = wire, .run = counters_are_true},
  };
  return list;
}

}  // namespace rdmawire::conformance
