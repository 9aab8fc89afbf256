// Tests the statistics, their merging and the report with constructed events, constructed packets and real captures.

#include "captures/analysis/analysis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <random>

#include "captures/analysis/counters.hpp"
#include "captures/analysis/peek.hpp"
#include "captures/analysis/report.hpp"
#include "captures/analysis/run.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mac_control.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/transport.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using tracking::CloseReason;
using tracking::Confidence;
using tracking::Outcome;
using tracking::Service;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t origin = 1'732'163'000 * second;

Connection connection_of(std::uint64_t id, std::uint32_t a = 0x0a000002, std::uint32_t b = 0x0a000003) {
  Connection c;
  c.id = c.first_frame = id;
  c.last_frame = id + 9;
  c.wire = Wire::roce_v2;
  c.first_time = origin;
  c.last_time = origin + second;
  c.ends[0] = {PortAddress::of_ipv4(a), 0x11, true};
  c.ends[1] = {PortAddress::of_ipv4(b), 0x12, true};
  c.sent[0].packets = 4000;
  c.sent[0].wire_bytes = 4'000'000;
  c.sent[0].requests = 4000;
  c.sent[1].packets = 100;
  c.sent[1].responses = 100;
  c.sent[1].wire_bytes = 6'200;
  c.opened_frame = id;
  c.confidence = Confidence::certain;
  return c;
}

Event event_of(EventKind kind, Cause cause, std::uint64_t connection, std::uint64_t frame) {
  Event e;
  e.kind = kind;
  e.cause = cause;
  e.connection = connection;
  e.frame = e.last_frame = frame;
  e.time = origin + static_cast<std::int64_t>(frame) * 1000;
  return e;
}

Json report(const Analysis& analysis, const Input& input = {}) { return report_of(analysis, input); }
std::string text(Analysis& analysis) {
  ++analysis.wires[static_cast<std::size_t>(Wire::roce_v2)];  // constructed events have no packets
  return text_of(report_of(analysis, {}));
}

// Histogram

TEST(Histogram, QuantilesHaveTwoDigitPrecision) {
  std::mt19937_64 random(1);
  Histogram histogram, odd, even;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t value = random() >> (24 + random() % 40);
    values.push_back(value);
    histogram.add(static_cast<std::int64_t>(value));
    (i % 2 ? odd : even).add(static_cast<std::int64_t>(value));
  }
  std::sort(values.begin(), values.end());
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
  odd.merge(even);
  for (const unsigned permille : {1U, 500U, 900U, 990U, 999U, 1000U}) {
    const std::uint64_t exact = values[(values.size() * permille + 999) / 1000 - 1];
    EXPECT_GE(histogram.quantile(permille), exact);
    EXPECT_LE(static_cast<double>(histogram.quantile(permille)), static_cast<double>(exact) * 1.008 + 1);
    EXPECT_EQ(odd.quantile(permille), histogram.quantile(permille));
  }
}

TEST(Histogram, EmptyAndExtremeValues) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(500), 0U);
  histogram.add(-5);
  histogram.add(INT64_MAX);
  EXPECT_EQ(histogram.min(), 0U);
  EXPECT_EQ(histogram.quantile(1000), static_cast<std::uint64_t>(INT64_MAX));
}

// Series

TEST(Series, PartsMergeToTheCompleteSeries) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    Series whole;
    std::vector<Series> parts(1 + random() % 4);
    const int packets = static_cast<int>(random() % 200);
    const std::uint64_t span = std::uint64_t{1} << random() % 45;
    for (int i = 0; i < packets; ++i) {
      const auto time = origin + static_cast<std::int64_t>(random() % span);
      whole.at(time).packets += 1;
      parts[random() % parts.size()].at(time).packets += 1;
    }
    std::shuffle(parts.begin(), parts.end(), random);
    Series merged;
    for (const Series& part : parts) merged.merge(part);
    ASSERT_EQ(merged.step_ns(), whole.step_ns());
    ASSERT_EQ(merged.steps().size(), whole.steps().size());
    if (packets) {
      ASSERT_EQ(merged.start(), whole.start());
    }
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < whole.steps().size(); ++i) {
      ASSERT_EQ(merged.steps()[i].packets, whole.steps()[i].packets);
      sum += whole.steps()[i].packets;
    }
    EXPECT_EQ(sum, static_cast<std::uint64_t>(packets));
    EXPECT_LE(whole.steps().size(), static_cast<std::size_t>(Series::max_steps));
  }
}

TEST(Series, AcceptsAnyTime) {
  Series series;
  for (const std::int64_t time : {origin, std::int64_t{0}, INT64_MAX, INT64_MIN, std::int64_t{-1}})
    ++series.at(time).packets;
  EXPECT_LE(series.steps().size(), static_cast<std::size_t>(Series::max_steps));
}

// Bounded tables

TEST(TopN, ResultIsIndependentOfInsertionOrder) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::mt19937 random(3);
  std::shuffle(numbers.begin(), numbers.end(), random);
  TopN<int, std::less<>> one(10), other(10);
  for (std::size_t i = 0; i < numbers.size(); ++i) (i % 3 ? one : other).add(numbers[i]);
  one.merge(other);
  EXPECT_THAT(one.sorted(), ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(one.seen(), 1000U);
}

TEST(BoundedTable, CountsDroppedItems) {
  BoundedSet set(100);
  int fresh = 0;
  for (std::uint64_t i = 0; i < 150; ++i) fresh += set.insert(i * 7919);
  EXPECT_EQ(fresh, 100);
  EXPECT_EQ(set.overflow(), 50U);
  EXPECT_FALSE(set.insert(0));
}

// ---- Merging: the report is the same for every division by endpoint pairs, in any order

struct Happening {
  std::uint64_t pair = 0;
  std::function<void(Analysis&)> apply;
};

Frame roce(std::uint32_t from, std::uint32_t to, std::uint8_t opcode, std::uint32_t psn, std::uint8_t tos,
           std::uint16_t source_port) {
  return Value<Ethernet>() / Value<Ipv4>().set<"src">(from).set<"dst">(to).set<"tos">(tos) /
         Value<Udp>().set<"src_port">(source_port) /
         Value<Bth>().set<"opcode">(opcode).set<"dest_qp">(0x11).set<"psn">(psn);
}

std::vector<Happening> happenings(std::mt19937_64& random, std::vector<std::vector<std::uint8_t>>& store) {
  std::vector<Happening> all;
  std::uint64_t frame = 1;
  const unsigned pairs = 1 + random() % 12;
  for (std::uint64_t pair = 0; pair < pairs; ++pair) {
    // Pairs share addresses, so that endpoints and regions must be merged.
    const auto a = static_cast<std::uint32_t>(0x0a000000 + pair % 4),
               b = static_cast<std::uint32_t>(0x0a000100 + pair / 4);
    for (unsigned n = random() % 3 + 1; n-- > 0;) {
      Connection c = connection_of(frame++, a, b);
      c.sent[0].wire_bytes = random() % 5 * 1000;
      c.sent[1].response_dscp = random() % 2 * 26;
      c.opened_frame = random() % 2 ? c.id : 0;
      if (random() % 5 == 0) c.sent[1] = {};
      for (unsigned i = random() % 20; i-- > 0;) {
        Message m;
        m.connection = c.id;
        m.end = random() % 2 ? Side::a : Side::b;
        m.kind = static_cast<MessageKind>(random() % tracking::message_kinds);
        m.outcome = static_cast<Outcome>(random() % 5);
        m.size = random() >> random() % 64;
        m.has_remote = random() % 2;
        m.key = random() % 3;
        m.remote_address = random() >> 8;
        m.first_frame = frame++;
        m.start = origin + static_cast<std::int64_t>(random() % second);
        m.answer_time = m.start + static_cast<std::int64_t>(random() % 100'000);
        m.first_response_time = m.start + static_cast<std::int64_t>(random() % 1000);
        all.push_back({pair, [c, m](Analysis& analysis) { analysis.message(c, m); }});
      }
      for (unsigned i = random() % 40; i-- > 0;) {
        const auto kind = static_cast<EventKind>(random() % tracking::event_kinds);
        const auto causes = tracking::event_rows[static_cast<std::size_t>(kind)].causes;
        Event e = event_of(kind, causes.empty() ? Cause::none : causes[random() % causes.size()], c.id, frame++);
        e.end = random() % 2 ? Side::a : Side::b;
        e.duration = static_cast<std::int64_t>(random() % 5000);
        e.packets = random() % 9;
        all.push_back({pair, [c, e](Analysis& analysis) { analysis.event(&c, e); }});
      }
      all.push_back({pair, [c](Analysis& analysis) { analysis.connection(c, CloseReason::ended); }});
    }
    for (unsigned i = random() % 30; i-- > 0;) {
      const bool forth = random() % 2;
      store.push_back(roce(forth ? a : b, forth ? b : a, random() % 2 ? 0x0a : 0x11, static_cast<std::uint32_t>(i),
                           static_cast<std::uint8_t>(random()), static_cast<std::uint16_t>(0xc000 + random() % 8))
                          .encode());
      const auto number = frame++;
      const auto* const bytes = &store.back();
      const auto time = origin + static_cast<std::int64_t>(random() % (10 * second));
      all.push_back({pair, [bytes, number, time](Analysis& analysis) {
                       tracking::Packet packet;
                       packet.number = number;
                       packet.time_ns = time;
                       decode(packet.stack, *bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes->size()));
                       packet.icrc = check_icrc(packet.stack);
                       analysis.add(packet);
                     }});
    }
  }
  return all;
}

TEST(Merge, AnyPartitionByPairsEqualsSingleAnalysis) {
  for (unsigned seed = 1; seed <= 120; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<std::uint8_t>> store;
    store.reserve(1000);
    const auto all = happenings(random, store);
    Analysis whole;
    std::vector<Analysis> parts(1 + random() % 5);
    std::vector<std::size_t> part_of(16);
    for (std::size_t& part : part_of) part = random() % parts.size();
    for (const Happening& happening : all) {
      happening.apply(whole);
      happening.apply(parts[part_of[happening.pair]]);
    }
    std::shuffle(parts.begin(), parts.end(), random);
    Analysis merged;
    for (const Analysis& part : parts) merged.merge(part);
    ASSERT_TRUE(report(merged).dump() == report(whole).dump())
        << "seed " << seed << ": " << Json::diff(report(merged), report(whole)).dump().substr(0, 1000);
  }
}

// Findings

TEST(Findings, ContainConnectionCostFramesAndNextStep) {
  Analysis analysis;
  const Connection c = connection_of(7);
  for (int i = 0; i < 31; ++i) {
    Event e =
        event_of(EventKind::retransmission, Cause::sequence_error_nak, c.id, 214 + 100 * static_cast<std::uint64_t>(i));
    e.last_frame = e.frame + 10;
    e.packets = i ? 9 : 17;
    e.bytes = 9 * 1024;
    e.duration = 61'290'322;
    analysis.event(&c, e);
    analysis.event(&c, event_of(EventKind::nak, Cause::psn_sequence_error, c.id, 213));
  }
  analysis.connection(c, CloseReason::ended);
  const Json finding = report(analysis).at("findings").at(0);
  EXPECT_EQ(finding.at("flow"), "QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3");
  EXPECT_EQ(finding.at("title"), "31 NAK recoveries: 287 packets (7.2 %), 1.90 s stalled");
  EXPECT_EQ(finding.at("severity"), "warning");
  EXPECT_EQ(finding.at("first_frame"), 214);
  EXPECT_EQ(finding.at("last_frame"), 3224);
  EXPECT_EQ(finding.at("frames").size(), 10U);
  EXPECT_EQ(finding.at("evidence").at(0).at("count"), 31);
  EXPECT_THAT(finding.at("next").get<std::string>(), HasSubstr("out_of_sequence"));
  EXPECT_EQ(report(analysis).at("findings").size(), 1U) << "the NAKs belong to the recoveries";
}

TEST(Findings, TextWithoutProblemsListsTheChecks) {
  Analysis analysis;
  const Connection c = connection_of(1);
  for (const EventKind kind : {EventKind::opened, EventKind::closed})
    analysis.event(&c, event_of(kind, Cause::none, 1, 1));
  Event stall = event_of(EventKind::stall, Cause::nothing_outstanding, 1, 5);
  stall.duration = second;
  analysis.event(&c, stall);
  analysis.connection(c, CloseReason::ended);
  EXPECT_TRUE(report(analysis).at("findings").empty());
  EXPECT_THAT(text(analysis), HasSubstr("No problems found"));
  EXPECT_THAT(text(analysis), HasSubstr("Checked: loss"));
}

TEST(Findings, CaptureLossIsNotNetworkLoss) {
  Analysis analysis;
  const Connection c = connection_of(1);
  analysis.event(&c, event_of(EventKind::lost_in_capture, Cause::none, 1, 5));
  const Json finding = report(analysis).at("findings").at(0);
  EXPECT_EQ(finding.at("severity"), "info");
  EXPECT_THAT(finding.at("meaning").get<std::string>(), HasSubstr("the network delivered"));
  EXPECT_THAT(text(analysis), HasSubstr("No problems found"));
}

TEST(Findings, EcnMarksAndCnpsAreOneFinding) {
  Analysis analysis;
  const Connection c = connection_of(1);
  for (std::uint64_t i = 0; i < 40; ++i) {
    Event marked = event_of(EventKind::ecn_marked, Cause::none, 1, 10 + i);
    analysis.event(&c, marked);
    analysis.event(&c, event_of(EventKind::cnp, i % 2 ? Cause::rate_fell : Cause::rate_unchanged, 1, 100 + i));
  }
  const Json findings = report(analysis).at("findings");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].at("count"), 80);
  EXPECT_EQ(findings[0].at("evidence").size(), 3U);
}

TEST(Findings, ManyConnectionsWithOneCauseAreOneFinding) {
  Analysis analysis;
  for (std::uint64_t id = 1; id <= 40; ++id) {
    const Connection c = connection_of(id);
    Event e = event_of(EventKind::retransmission, Cause::timeout, id, 1000 + id);
    e.duration = static_cast<std::int64_t>(id) * 1'000'000;
    analysis.event(&c, e);
  }
  const Json findings = report(analysis).at("findings");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].at("connections"), 40);
  EXPECT_TRUE(findings[0].at("connection").is_null());
  EXPECT_EQ(findings[0].at("worst").at(0).at("connection"), 40);
  EXPECT_EQ(findings[0].at("first_frame"), 1001);
}

TEST(Findings, WorstIsFirst) {
  Analysis analysis;
  const Connection one = connection_of(1), two = connection_of(2), three = connection_of(3);
  Event cheap = event_of(EventKind::retransmission, Cause::timeout, 1, 10), dear = cheap;
  dear.connection = 2;
  dear.duration = second;
  analysis.event(&one, cheap);
  analysis.event(&two, dear);
  analysis.event(&three, event_of(EventKind::nak, Cause::remote_access_error, 3, 50));
  const Json findings = report(analysis).at("findings");
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].at("severity"), "error");
  EXPECT_EQ(findings[1].at("connection"), 2);
  EXPECT_EQ(findings[2].at("connection"), 1);
}

TEST(Findings, EveryKindExceptNotesHasAdvice) {
  for (const tracking::EventRow& row : tracking::event_rows) {
    if (row.severity == Severity::note) continue;
    std::vector<Cause> causes(row.causes.begin(), row.causes.end());
    causes.push_back(Cause::none);
    for (const Cause cause : causes) {
      if (cause == Cause::nothing_outstanding) continue;
      Analysis analysis;
      const Connection c = connection_of(1);
      analysis.event(&c, event_of(row.kind, cause, 1, 5));
      const auto findings = findings_of(analysis);
      ASSERT_EQ(findings.size(), 1U) << row.name << " " << to_string(cause);
      EXPECT_GT(findings[0].meaning.size(), 20U) << row.name;
      EXPECT_GT(findings[0].next.size(), 10U) << row.name;
    }
  }
}

TEST(Findings, CaptureWideFindings) {
  Analysis analysis;
  Connection c = connection_of(1);
  c.sent[1] = {};
  c.sent[0].retransmitted_packets = 3;
  analysis.connection(c, CloseReason::evicted);
  Input input;
  input.files.push_back({"x.pcap", 10, 1000, 1, 5, {}});
  const Json whole = report(analysis, input);
  std::vector<std::string> kinds;
  for (const Json& finding : whole.at("findings")) kinds.push_back(finding.at("kind"));
  EXPECT_THAT(kinds, ::testing::UnorderedElementsAre("capture_lost", "one_way", "inexact"));
  EXPECT_FALSE(report(analysis, input).at("input").at("exact").get<bool>());
}

TEST(Findings, ShortConnectionAtCaptureEndIsNotOneWay) {
  Analysis analysis;
  Connection c = connection_of(1);
  c.sent[1] = {};
  c.opened_frame = 0;
  c.last_time = c.first_time + 100'000;
  analysis.connection(c, CloseReason::ended);
  EXPECT_TRUE(findings_of(analysis).empty());
}

TEST(Findings, IwarpTextsDoNotMentionRoce) {
  for (const EventKind kind : {EventKind::unanswered, EventKind::msn_jump, EventKind::unsolicited_response,
                               EventKind::duplicate, EventKind::out_of_order, EventKind::rejected}) {
    Analysis analysis;
    Connection c = connection_of(1);
    c.service = Service::iwarp;
    analysis.event(&c, event_of(kind, Cause::none, 1, 5));
    const auto findings = findings_of(analysis);
    ASSERT_EQ(findings.size(), 1U);
    for (const char* foreign : {"RoCE", "4791", "QP", "GID", "responder's MSN", "duplicate_request"}) {
      EXPECT_THAT(findings[0].meaning, Not(HasSubstr(foreign)));
      EXPECT_THAT(findings[0].next, Not(HasSubstr(foreign)));
    }
  }
}

TEST(Findings, CapturedTwiceIsOneFindingAndFirst) {
  Analysis analysis;
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Connection c = connection_of(id);
    c.sent[0].requests = 4000;
    c.sent[0].duplicates = 2000;
    Event copies = event_of(EventKind::duplicate, Cause::none, id, id + 5);
    copies.packets = 2000;
    copies.duration = second;
    analysis.event(&c, copies);
    analysis.event(&c, event_of(EventKind::nak, Cause::remote_access_error, id, id + 9));
    analysis.connection(c, CloseReason::ended);
  }
  const auto findings = findings_of(analysis);
  ASSERT_EQ(findings.size(), 4U);
  EXPECT_EQ(findings[0].kind, "captured_twice");
  EXPECT_EQ(findings[0].title, "most packets are captured twice: 6000 duplicates, 12000 packets");
  EXPECT_EQ(findings[0].first_frame, 6U);
  EXPECT_EQ(findings[0].cost_ns, 0);
  EXPECT_EQ(findings[1].kind, "nak");
}

TEST(Findings, SomeDuplicatesAreFindingsOfTheirConnections) {
  Analysis analysis;
  Connection c = connection_of(1);
  c.sent[0].duplicates = 1000;
  Event copies = event_of(EventKind::duplicate, Cause::none, 1, 5);
  copies.packets = 1000;
  analysis.event(&c, copies);
  analysis.connection(c, CloseReason::ended);
  const auto findings = findings_of(analysis);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].title, "1000 duplicate packets");
}

// Memory limits

TEST(Limits, ConnectionsBeyondTheLimitAreCountedTogether) {
  AnalysisOptions options;
  options.affected = 100;
  options.connections = 10;
  Analysis analysis(options);
  for (std::uint64_t id = 1; id <= 1000; ++id) {
    const Connection c = connection_of(id);
    analysis.event(&c, event_of(EventKind::crc_bad, Cause::unknown, id, id));
    analysis.connection(c, CloseReason::ended);
  }
  EXPECT_LE(analysis.affected().size(), 101U);
  EXPECT_EQ(analysis.kept_connections().size(), 10U);
  EXPECT_EQ(analysis.connections, 1000U);
  EXPECT_GT(analysis.overflow(), 0U);
  EXPECT_EQ(report(analysis).at("summary").at("events").at("crc_bad"), 1000);
}

TEST(Limits, ExtremeTimesAreAccepted) {
  Analysis analysis;
  const Connection c = connection_of(1);
  for (const std::int64_t time : {INT64_MIN, INT64_MAX, std::int64_t{0}}) {
    Event e = event_of(EventKind::retransmission, Cause::timeout, 1, 5);
    e.time = time;
    e.duration = INT64_MAX;
    analysis.event(&c, e);
    Message m;
    m.kind = MessageKind::write;
    m.has_remote = true;
    m.remote_address = m.size = UINT64_MAX;
    m.start = time;
    m.answer_time = time / -2;
    analysis.message(c, m);
    tracking::Packet packet;
    packet.time_ns = time;
    packet.stack.reset({}, 0);
    analysis.add(packet);
  }
  EXPECT_EQ(report(analysis).at("findings").at(0).at("cost_ns"), INT64_MAX);
  EXPECT_EQ(report(analysis).at("summary").at("duration_ns"), INT64_MAX);
  EXPECT_FALSE(text(analysis).empty());
}

// Packets without tracking

TEST(Packets, PauseFramesByPriority) {
  Analysis analysis;
  tracking::Packet packet;
  std::vector<std::uint8_t> bytes;
  const auto see = [&](const Frame& frame, std::int64_t time) {
    bytes = frame.encode();
    ++packet.number;
    packet.time_ns = origin + time;
    decode(packet.stack, bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()));
    analysis.add(packet);
  };
  const auto pfc = [](std::uint64_t quanta) {
    return Value<Ethernet>().set<"src">(0x525400000002) / Value<MacControl>() /
           Value<PriorityPause>().set<"enabled">(1 << 3).set<"quanta3">(quanta);
  };
  see(pfc(0xffff), 0);
  see(pfc(0), 7000);
  see(Value<Ethernet>().set<"src">(0x525400000003) / Value<MacControl>() / Value<Pause>().set<"quanta">(100), 8000);
  EXPECT_EQ(bytes[12], 0x88);
  EXPECT_EQ(bytes[13], 0x08);
  EXPECT_EQ(bytes[15], 0x01);
  const Json pauses = report(analysis).at("pauses");
  ASSERT_EQ(pauses.size(), 2U);
  EXPECT_EQ(pauses[0].at("source"), "52:54:00:00:00:02");
  EXPECT_EQ(pauses[0].at("priority"), 3);
  EXPECT_EQ(pauses[0].at("frames"), 2);
  EXPECT_EQ(pauses[0].at("quanta"), 0xffff);
  EXPECT_EQ(pauses[0].at("pause_ns"), 7000);
  EXPECT_TRUE(pauses[1].at("priority").is_null());
  EXPECT_TRUE(pauses[1].at("pause_ns").is_null());
}

TEST(Incast, CountsDistinctSendersOfAWindow) {
  Incast incast(10'000);
  const auto host = [](std::uint32_t n) { return PortAddress::of_ipv4(0x0a000000 + n); };
  for (std::uint32_t sender = 1; sender <= 7; ++sender)
    for (int twice = 0; twice < 2; ++twice) incast.add(host(sender), host(99), origin + sender * 1000, 1000);
  incast.add(host(1), host(99), origin + 50'000, 1000);
  incast.add(host(2), host(98), origin, 1000);
  const auto rows = incast.rows();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].senders, 7U);
  EXPECT_EQ(rows[0].bytes, 14'000U);
  EXPECT_EQ(rows[0].receiver, host(99));
}

// Host counters

TEST(Counters, ParsesAllFormats) {
  const auto text = parse_counters("link mlx5_0/1 out_of_sequence 31 np_cnp_sent 5\nlink mlx5_1/1 out_of_sequence 2\n");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->at("out_of_sequence"), 33U);
  const auto json = parse_counters(R"([{"ifindex":3,"ifname":"mlx5_0","port":1,"out_of_sequence":31}])");
  ASSERT_TRUE(json);
  EXPECT_EQ(*json, (Counters{{"out_of_sequence", 31}}));
  const auto ethtool = parse_counters("NIC statistics:\n     rx_prio3_pause: 12\n     rx_bytes: 99\n");
  ASSERT_TRUE(ethtool);
  EXPECT_EQ(ethtool->at("rx_prio3_pause"), 12U);
  EXPECT_EQ(ethtool->size(), 2U);
  EXPECT_EQ(parse_counters("out_of_sequence 31\npacket_seq_err 4\n")->size(), 2U);
  EXPECT_FALSE(parse_counters(""));
  EXPECT_FALSE(parse_counters("{\"a\":"));
  EXPECT_FALSE(parse_counters("text without numbers"));
}

TEST(Counters, AreComparedWithTheCapture) {
  Analysis analysis;
  const Connection c = connection_of(1);
  for (std::uint64_t i = 0; i < 31; ++i)
    analysis.event(&c, event_of(EventKind::nak, Cause::psn_sequence_error, 1, 5 + i));
  const auto rows = differences_of({{"out_of_sequence", 100}, {"same", 4}},
                                   {{"out_of_sequence", 131}, {"packet_seq_err", 40}, {"same", 4}}, analysis);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].difference, 31);
  EXPECT_EQ(rows[0].says, "the host counted 31 out_of_sequence, the capture has 31 sequence-error NAKs: they agree");
  EXPECT_THAT(rows[1].says, HasSubstr("the capture missed some"));
}

// Start and end of the analyzed range

TEST(Boundary, ParsesAllFormats) {
  using Kind = Boundary::Kind;
  const auto is = [](std::string_view given, Kind kind, std::int64_t value) {
    const auto b = Boundary::parse(given);
    return b && b->kind == kind && b->value == value;
  };
  EXPECT_TRUE(is("12.5", Kind::relative, 12'500'000'000));
  EXPECT_TRUE(is("0", Kind::relative, 0));
  EXPECT_TRUE(is("1732163000.5", Kind::absolute, origin + second / 2));
  EXPECT_TRUE(is("2024-11-21T04:23:20", Kind::absolute, origin));
  EXPECT_TRUE(is("2024-11-21 04:23:20.5Z", Kind::absolute, origin + second / 2));
  EXPECT_TRUE(is("frame:214", Kind::frame, 214));
  for (const char* wrong :
       {"", "x", "-1", "1.", "1.x", "frame:0", "frame:", "2024-13-01T00:00:00", "99999999999999999999"})
    EXPECT_FALSE(Boundary::parse(wrong)) << wrong;
}

// Real captures

std::vector<std::string> samples() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(RDMAWIRE_SOURCE_DIR "/captures/samples"))
    if (entry.path().filename() != "README.md") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Peek, AddressesEqualThoseOfDecoding) {
  std::uint64_t known = 0, rdma = 0;
  for (const std::string& file : samples()) {
    auto reader = Reader::open(file);
    ASSERT_TRUE(reader);
    Record record;
    while (reader->next(record) == Next::record) {
      const HeaderStack stack = decode(record.bytes, record.link);
      const auto ports = tracking::ports_of(stack);
      const Peek seen = peek(record.bytes, record.link, record.wire_length);
      for (std::size_t cut = 0; cut < std::min<std::size_t>(record.bytes.size(), 60); ++cut)
        static_cast<void>(peek(record.bytes.first(cut), record.link, record.wire_length));
      if (stack.wire != Wire::none && stack.wire != Wire::infiniband) {
        ++rdma;
        EXPECT_TRUE(seen.known);
      }
      if (!seen.known) continue;
      ++known;
      ASSERT_TRUE(ports);
      EXPECT_EQ(seen.from, ports->from);
      EXPECT_EQ(seen.to, ports->to);
      // Decoding excludes known upper-layer headers from the payload.
      if (stack.wire == Wire::roce_v2 && seen.payload && stack.get<Bth>()->get<"dest_qp">() > 1 && !stack.cut) {
        EXPECT_EQ(seen.payload, stack.payload.length) << file << " frame " << record.number;
      }
    }
  }
  EXPECT_GT(rdma, 1000U);
  EXPECT_GE(known, rdma);
}

TEST(Run, ResultIsIndependentOfThreads) {
  RunOptions options;
  options.files = samples();
  std::string one;
  for (const unsigned threads : {1U, 2U, 3U}) {
    options.threads = threads;
    options.parallel_from = 0;
    // All samples, compressed or not, support repeated reading.
    const RunResult result = run(options);
    EXPECT_TRUE(result.errors.empty());
    const std::string json = report_of(result.analysis, result.input).dump();
    if (threads == 1)
      one = json;
    else
      EXPECT_TRUE(json == one) << threads << " threads: "
                               << Json::diff(Json::parse(json), Json::parse(one)).dump().substr(0, 1000);
  }
  const Json report = Json::parse(one);
  EXPECT_GT(report.at("summary").at("packets").get<int>(), 10'000);
  EXPECT_EQ(report.at("input").at("files").size(), options.files.size());
}

TEST(Run, AnalyzesOneConnectionOnly) {
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/srq-pingpong.pcap.gz"};
  const Json all = report_of(run(options).analysis, {});
  ASSERT_GT(all.at("connections").size(), 1U);
  options.connection = all.at("connections").at(0).at("connection");
  const RunResult result = run(options);
  const Json one = report_of(result.analysis, result.input);
  ASSERT_EQ(one.at("connections").size(), 1U);
  EXPECT_EQ(one.at("connections").at(0).dump(), all.at("connections").at(0).dump());
  options.connection = 999'999;
  EXPECT_THAT(run(options).errors.at(0), HasSubstr("no connection 999999"));
}

TEST(Text, FitsItsWidth) {
  RunOptions options;
  options.files = {RDMAWIRE_SOURCE_DIR "/captures/samples/rc-pingpong-loss.pcap.gz"};
  const RunResult result = run(options);
  const Json report = report_of(result.analysis, result.input);
  for (const std::size_t width : {80U, 100U, 200U}) {
    const std::string page = text_of(report, {.width = width});
    std::size_t from = 0;
    for (std::size_t end; (end = page.find('\n', from)) != std::string::npos; from = end + 1) {
      const std::string line = page.substr(from, end - from);
      if (line.find(".pcap") != std::string::npos) continue;
      EXPECT_LE(output::columns(line), width) << line;
    }
    EXPECT_THAT(page, Not(HasSubstr("\033")));
  }
}

}  // namespace
}  // namespace rdmawire::captures::analysis
