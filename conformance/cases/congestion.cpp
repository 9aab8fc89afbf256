/// Congestion management: IBTA vol 1, annex A17, A17.9 (CA17-44 to CA17-46, Figure 6) and CA17-29 (FECN). It is
/// optional. The behavior of a device without it is only reported.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "conformance/cases/files.hpp"
#include "dissectors/protocol/ip.hpp"

namespace rdmawire::conformance::congestion_cases {
namespace {

constexpr std::uint8_t experienced = 3;  ///< ECN field 11 (CE)

Stimulus marked(const Stimulus& stimulus) {
  return stimulus.changed(
      [](Frame& frame) {
        if (HeaderValue* ipv4 = frame.find(info<Ipv4>)) ipv4->set(*info<Ipv4>.find("tos"), experienced);
        if (HeaderValue* ipv6 = frame.find(info<Ipv6>)) ipv6->set(*info<Ipv6>.find("traffic_class"), experienced);
      },
      "marked \"congestion experienced\"");
}
/// The documented CNP behavior of the device, as `describe` reports it. Undocumented behavior is only reported.
struct Documented {
  bool paces_by_queue_pair = false;  ///< CNPs are paced for each QP
  bool nothing_on_loss = false;      ///< a loss causes no CNP
};
Documented documented(Bench& bench) {
  const auto said = bench.device().peer->call("describe", {{"device", bench.device().device->handle()}});
  if (!said) return {};
  const nlohmann::json more = said->value("congestion", nlohmann::json::object());
  return {more.value("pacing", "") == "queue_pair", !more.value("on_loss", true)};
}

bool is_cnp(const Seen& seen) { return seen.op->known && seen.op->operation == Operation::congestion_notification; }

/// Returns the CNPs that arrive until there is silence.
std::vector<Seen> cnps(Bench& bench) {
  std::vector<Seen> all = bench.all_until_silence();
  std::erase_if(all, [](const Seen& seen) { return !is_cnp(seen); });
  return all;
}
/// Returns the CNPs for ECN-marked packets. A missing CNP is a failure only if the device is known to support
/// congestion management. Otherwise it ends the case.
std::vector<Seen> notifications(Bench& bench, bool known) {
  std::vector<Seen> seen = cnps(bench);
  if (seen.empty() && known) bench.require(false, "a CNP for a marked packet", "none");
  if (seen.empty()) end_case(Verdict::may, "an ECN-marked packet causes no CNP: probably no congestion management");
  return seen;
}
/// Sends one ECN-marked packet and returns its CNP.
Seen notified(Bench& bench, Connected& qp) {
  const bool known = bench.congestion_management(true);
  bench >> marked(qp.send_only(psn(+0)));
  return notifications(bench, known).front();
}

// CA17-44: an ECN-marked packet causes a CNP to its source.
void a_mark_is_answered(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  const Seen seen = notified(bench, qp);
  bench.require(seen.dest_qp == qp.tester_qpn, "a CNP for the QP that sent the marked packet",
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

// A device may send one CNP for several marks, but no more CNPs than marks. The interval is implementation-defined.
void a_burst(Bench& bench) {
  constexpr int marks = 16;
  const bool known = bench.congestion_management(true);
  Connected& qp = bench.rc({.receives = marks + 1});
  bench >> marked(qp.send_only(psn(+0)));
  const std::size_t alone = notifications(bench, known).size();
  bench.require(alone == 1, "one CNP for one mark", fmt::format("{}", alone));
  for (int i = 1; i <= marks; ++i) bench >> marked(qp.send_only(psn(i)));
  const std::vector<Seen> seen = notifications(bench, known);
  bench.require(seen.size() <= marks, "at most one CNP for each mark", fmt::format("{}", seen.size()));
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

// Only the mark of a valid packet counts.
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

/// Returns the duration of a WRITE of the device with an acknowledgement for each packet.
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

/// Reports a change of the rate. It is a failure only with a shared clock and a device that is known to support
/// congestion management, because other traffic or a slow tester has the same effect, and no clause specifies the
/// amount or the time.
void rate(Bench& bench, bool known, bool holds, const std::string& expected, const std::string& seen) {
  if (!known || !bench.patience().upper_bounds) end_case(Verdict::may, seen);
  bench.require(holds, expected, seen);
}
std::string times(std::int64_t before, const char* when, std::int64_t then) {
  return fmt::format("64 packets took {} us initially, and {} us {}", before / 1000, then / 1000, when);
}
const ConnectOptions writer{.mtu = 256, .receives = 1, .region_bytes = 65536, .timeout = 20};

// CA17-45: a CNP reduces the rate only of its QP. Its reserved bytes are ignored: Figure 6.
void slows(Bench& bench, const std::function<Stimulus(Connected&)>& cnp) {
  const bool known = bench.congestion_management(true);
  Connected& qp = bench.rc(writer);
  Connected& other = bench.rc(writer);
  psn at(0), of_other(0);
  const std::int64_t before = time_of_write(bench, qp, 0, at);
  for (int i = 0; i < 8; ++i) bench >> cnp(qp);
  bench.pass(10'000);  // until the CNPs have arrived
  const std::int64_t behind = time_of_write(bench, qp, 1, at);
  const std::int64_t elsewhere = time_of_write(bench, other, 0, of_other);
  rate(bench, known, behind > before + before / 2 && elsewhere <= before,
       "a lower rate of the QP that the CNPs indicate, and of no other QP",
       fmt::format("{}; on another QP {} us", times(before, "after the CNPs", behind), elsewhere / 1000));
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

// A CNP for an unknown QP or with any content has no effect.
void a_cnp_for_an_unknown_qp(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.cnp().with<Bth, "dest_qp">(qp.device_qpn ^ 0x1000, "for an unknown QP");
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

// Some devices document that they send CNPs for losses. Only reported.
void a_loss_without_a_mark(Bench& bench) {
  Connected& qp = bench.rc({.receives = 2});
  bench >> qp.send_only(psn(+1));
  const std::size_t count = cnps(bench).size();
  if (documented(bench).nothing_on_loss) return bench.require(count == 0, "no CNP for a loss", "a CNP");
  end_case(Verdict::may, count ? "a loss causes a CNP" : "a loss causes no CNP");
}

// CA17-29: RoCEv2 marks packets in the IP header and does not use FECN.
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
  rate(bench, known, behind <= before, "the same rate after a packet with FECN",
       times(before, "after a packet with FECN", behind));
}

// The device's counters match the frames that the tester observed.
void counters_are_true(Bench& bench) {
  constexpr std::uint64_t marks = 4;
  bench.congestion_management(true);
  Connected& qp = bench.rc({.receives = marks});
  const auto sent = bench.counter({"np_cnp_sent"}), seen_marks = bench.counter({"np_ecn_marked_roce_packets"});
  if (!sent && !seen_marks) end_case(Verdict::unsupported, "the device has no congestion counters");
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

std::span<const Case> all() {
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
       .variant = "unknown QP",
       .role = wire,
       .run = a_cnp_for_an_unknown_qp},
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
      {.rule = "congestion.receiver.fecn.no-reaction",
       .variant = "acknowledgement",
       .role = wire,
       .run = fecn_is_ignored},
      {.rule = "congestion.receiver.fecn.no-reaction", .variant = "rate", .role = wire, .run = fecn_slows_nothing},
      {.rule = "congestion.endpoint.counters.as-the-wire", .role = wire, .run = counters_are_true},
  };
  return list;
}

}  // namespace rdmawire::conformance::congestion_cases
