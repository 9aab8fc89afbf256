/// What the monitors of `rdmawire check` say of endpoints with faults, and of endpoints without, from the TCP segments
/// that they send.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

#include "conformance/device/iwarp/fault_notes.hpp"
#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/iwarp/script_parts_for_test.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/monitors/streamed_for_test.hpp"

namespace rdmawire::endpoint {
namespace {

using conformance::Violation;
using conformance::testing::Streamed;
using tracking::Side;

/// Each connection of a script as a capture of its own. Who sends first has connected.
class Captured final : public testing::Wire {
 public:
  void connection() override { end(); }
  void segment(bool dut, Bytes bytes) override {
    begin(dut);
    // TCP's own segments: what the other one sends in one go may be more than one takes.
    for (Bytes rest = bytes; !rest.empty();) {
      const Bytes piece = rest.first(std::min<std::size_t>(rest.size(), 1460));
      stream_->sends(of(dut), piece);
      rest = rest.subspan(piece.size());
    }
  }
  void fin(bool dut) override {
    if (stream_) stream_->fin(of(dut));
  }
  void reset(bool dut) override {
    if (stream_) stream_->reset(of(dut));
  }
  void end() {
    if (!stream_) return;
    stream_->finish();
    for (const Violation& v : stream_->monitors.evaluator().violations())
      if (v.count != 0) accused.emplace(v.of().alias, v.statement.expected + "; " + v.statement.actual);
    for (std::size_t i = 0; i < conformance::rules.size(); ++i)
      if (stream_->monitors.evaluator().counters()[i].passed != 0)
        held.insert(std::string(conformance::rules[i].alias));
    recorded.push_back(std::move(stream_->frames));
    stream_.reset();
  }
  std::vector<std::vector<conformance::testing::ByteVector>> recorded;  ///< frames, by connection
  std::map<std::string, std::string> accused;                           ///< by alias: what is said
  std::set<std::string> held;
  bool judges_both = false;

 private:
  void begin(bool dut) {
    if (stream_) return;
    dut_first_ = dut;
    Streamed::Options options;
    // What is made by hand is wrong on purpose.
    options.checks[0] = dut || judges_both;
    options.checks[1] = !dut || judges_both;
    stream_ = std::make_unique<Streamed>(options);
  }
  [[nodiscard]] Side of(bool dut) const { return dut == dut_first_ ? Side::a : Side::b; }
  std::unique_ptr<Streamed> stream_;
  bool dut_first_ = true;
};

Captured played(std::optional<Fault> fault) {
  Captured captured;
  testing::Trace trace;
  trace.wire = &captured;
  testing::play_exchanges(fault, trace);
  testing::play_setup(fault, trace);
  testing::play_wrongs(fault, trace);
  captured.end();
  return captured;
}

/// What else a fault makes of what is sent, and that it is accused of.
const std::map<std::string_view, std::set<std::string>> related{
    // An enhanced request that was taken for a plain one, for whatever reason.
    {"accepts-any-revision", {"MPA-024"}},
    {"takes-enhanced-for-plain", {"MPA-024"}},
    // Where it asks for markers itself the other direction alone may have them.
    {"sends-markers-unasked", {"FPD-020"}},
    // In place of the Terminate.
    {"ignores-missing-rtr", {"MPA-033"}},
    // A response that ends with its first segment is shorter than what was asked for.
    {"last-flag-everywhere", {"RDM-004"}},
    // MULPDU is MPA's and DDP's.
    {"long-ulpdus", {"DDP-010"}},
    {"segments-beyond-mulpdu", {"FPD-011"}},
    // A response that an error ends half-way says that it is whole.
    {"last-flag-everywhere", {"RDM-004"}},
    // Its Terminate's MSN too.
    {"msn-from-zero", {"RDM-005"}},
    // The messages of RFC 7306 too.
    {"sends-version-0", {"EXT-018"}},
    // Without header bits, and where the turned triple is defined as well, it reads as another error.
    {"terminate-as-little-endian", {"TRM-008", "TRM-009"}},
    // A tagged header of zeros reads as an untagged one, which is longer.
    {"terminate-quotes-zeros", {"TRM-003"}},
    // Figure 10 has no Read Request for an atomic either.
    {"atomic-error-quotes", {"TRM-004"}},
};

TEST(EndpointMonitors, CleanEndpointsAreAccusedOfNothing) {
  const Captured clean = played(std::nullopt);
  EXPECT_THAT(clean.accused, ::testing::IsEmpty());
  std::vector<std::string_view> never;
  for (const conformance::RuleId rule : conformance::monitored)
    if (rule->services == conformance::Services::iwarp && !clean.held.contains(std::string(rule->alias)))
      never.push_back(rule->alias);
  // A wrap of sequence numbers and a capture without its beginning are the monitors' own tests' matter.
  EXPECT_THAT(never, ::testing::ElementsAre("FPD-019", "FPD-022"));
}

/// How two ends are set up, by six bits: markers and CRCs as each end wants them, both models of set-up.
constexpr unsigned all_wishes = 64;

/// Two endpoints without a fault: every operation in both directions, an error, and the end.
Captured talk(unsigned wishes) {
  using device::WorkOpcode;
  const auto wish = [&](unsigned bit) { return (wishes >> bit & 1) != 0; };
  auto of_a = testing::script_settings(wish(4) ? 2 : 1), of_b = of_a;
  of_a.markers = wish(0);
  of_b.markers = wish(1);
  of_a.crc = wish(2);
  of_b.crc = wish(3);
  of_a.peer_to_peer = wish(4) && wish(5);
  testing::Consumer a(of_a, {.seed = 1}), b(of_b, {.seed = 2});
  testing::StreamLink link(*a.end, *b.end);
  Captured captured;
  captured.judges_both = true;
  link.heard = [&](int from, Bytes segment, bool fin, bool reset) {
    if (fin) return captured.fin(from == 0);
    if (reset) return captured.reset(from == 0);
    captured.segment(from == 0, segment);
  };
  (void)b.end->await(0);
  (void)a.end->connect({}, 0);
  link.run();
  (void)b.end->accept({});
  link.run();
  for (std::uint64_t id = 100; id < 110; ++id) {
    a.receive(id, 40'000, 8000);
    b.receive(id, 50'000, 8000);
  }
  for (testing::Consumer* from : {&a, &b}) {
    testing::Consumer& to = from == &a ? b : a;
    const auto post = [&](WorkOpcode opcode, std::uint32_t bytes) {
      device::SendRequest request{.id = 1, .opcode = opcode, .sges = {from->piece(0, bytes)}};
      request.remote_address = to.buffer + 1000;
      request.rkey = to.stag;
      (void)from->end->post_send(request);
    };
    for (const std::uint32_t bytes : {0U, 1U, 480U, 2001U}) post(WorkOpcode::send, bytes);
    link.run();
    for (int i = 0; i < 4; ++i) post(WorkOpcode::read, 3000);
    post(WorkOpcode::read, 0);
    for (int i = 0; i < 3; ++i) post(WorkOpcode::fetch_add, 8);
    post(WorkOpcode::write_imm, 5000);
    link.run();
  }
  // One more is an error, and draws a Terminate.
  (void)a.end->post_send(
      {.id = 9, .opcode = WorkOpcode::write, .sges = {a.piece(0, 10)}, .remote_address = 0, .rkey = 1});
  link.run_until(link.now + 20'000'000'000);
  captured.end();
  return captured;
}

TEST(EndpointMonitors, AllWaysOfSettingUpAreAccusedOfNothing) {
  for (unsigned wishes = 0; wishes < all_wishes; ++wishes) {
    SCOPED_TRACE(wishes);
    const auto wish = [&](unsigned bit) { return (wishes >> bit & 1) != 0; };
    const Captured captured = talk(wishes);
    EXPECT_THAT(captured.accused, ::testing::IsEmpty());
    EXPECT_TRUE(captured.held.contains("TRM-005")) << "the Terminate and what it quotes";
    EXPECT_EQ(captured.held.contains("FPD-015"), wish(0) || wish(1));
    EXPECT_EQ(captured.held.contains("FPD-003"), wish(2) || wish(3));
    EXPECT_EQ(captured.held.contains("MPA-033"), wish(4) && wish(5));
  }
}

/// What the monitors say of frames, of which the capture has so many bytes.
std::vector<std::string> accused_of(const std::vector<conformance::testing::ByteVector>& frames, std::size_t captured) {
  conformance::Monitors monitors;
  tracking::TrackerOptions options;
  options.transport = true;
  tracking::Tracker tracker(monitors, options);
  tracking::Dissector dissector;
  tracking::Packet packet;
  packet.link = LinkType::raw_ip;
  for (const auto& frame : frames) {
    ++packet.number;
    packet.time_ns += 1'000'000;
    dissector.dissect(packet, Bytes(frame).first(std::min(captured, frame.size())),
                      static_cast<std::uint32_t>(frame.size()));
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  std::vector<std::string> all;
  for (const Violation& v : monitors.evaluator().violations())
    if (v.count != 0)
      all.push_back(
          fmt::format("{} frame {}: {}; {}", v.of().alias, v.place.frame, v.statement.expected, v.statement.actual));
  return all;
}

// What a network and a capture do to TCP, and nobody is to be blamed for.
TEST(EndpointMonitors, WhatACaptureLacksIsNobodysFault) {
  std::mt19937 random(20);
  const auto chance = [&](unsigned of_1000) { return random() % 1000 < of_1000; };
  for (unsigned wishes = 0; wishes < all_wishes; ++wishes) {
    const Captured captured = talk(wishes);
    ASSERT_EQ(captured.recorded.size(), 1U);
    const auto& whole = captured.recorded[0];
    for (int round = 0; round < 40; ++round) {
      SCOPED_TRACE(fmt::format("wishes {}, round {}", wishes, round));
      const unsigned kinds = random();
      const unsigned lost = kinds & 1 ? random() % 300 : 0, twice = kinds & 2 ? random() % 200 : 0,
                     swapped = kinds & 4 ? random() % 300 : 0;
      const std::size_t from = kinds & 8 ? random() % whole.size() : 0;
      const bool one_way = (kinds & 0x30) == 0x30, other_way = kinds & 0x40;
      std::vector<conformance::testing::ByteVector> frames;
      for (std::size_t i = from; i < whole.size(); ++i) {
        if (chance(lost) || (one_way && (whole[i][15] == 1) == other_way)) continue;
        frames.push_back(whole[i]);
        if (chance(twice)) frames.push_back(whole[i]);
        if (chance(twice)) frames.push_back(whole[i - random() % std::min<std::size_t>(i + 1, 12)]);
      }
      for (std::size_t i = 1; i < frames.size(); ++i)
        if (chance(swapped)) std::swap(frames[i], frames[i - 1 - random() % std::min<std::size_t>(i, 3)]);
      EXPECT_THAT(accused_of(frames, kinds & 0x80 ? 60 + random() % 200 : 65536), ::testing::IsEmpty());
      if (HasFailure()) return;
    }
  }
}

TEST(EndpointMonitors, EachFaultIsAccusedOfWhatItBreaks) {
  for (const FaultRow& row : fault_rows) {
    const Captured faulty = played(row.fault);
    const conformance::Rule* rule = conformance::find_rule(row.check);
    ASSERT_NE(rule, nullptr) << row.check;
    const auto id = conformance::RuleId::at(static_cast<std::size_t>(rule - conformance::rules.data()));
    const bool accuses = conformance::is_monitored(id) && !conformance::only_positive(id);
    const bool found = faulty.accused.contains(std::string(row.check));
    const bool shows = row.shows == FaultShows::bytes && accuses;
    const bool has_reason = !unseen_because(row.fault).empty();
    EXPECT_TRUE(found == shows || (!found && has_reason)) << row.check << " " << row.name;
    std::set<std::string> others;
    for (const auto& [alias, text] : faulty.accused)
      if (alias != row.check) others.insert(alias);
    const auto known = related.find(row.name);
    EXPECT_EQ(others, known == related.end() ? std::set<std::string>() : known->second)
        << row.check << " " << row.name << [&] {
             std::string all;
             for (const auto& [alias, text] : faulty.accused) all += "\n  " + alias + ": " + text;
             return all;
           }();
  }
}

}  // namespace
}  // namespace rdmawire::endpoint
