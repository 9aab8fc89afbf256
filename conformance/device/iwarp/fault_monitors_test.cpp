/// Tests that the monitors of `rdmawire check` detect faults in the TCP segments of endpoints, and report no violation
/// for conforming endpoints.

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

/// Passes each connection of a script to the monitors as a separate capture. The first sender is the active TCP
/// endpoint.
class Captured final : public testing::Wire {
 public:
  void connection() override { end(); }
  void segment(bool dut, Bytes bytes) override {
    begin(dut);
    // Split the data into TCP segments.
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
      if (v.count != 0) violations.emplace(v.of().alias, v.statement.expected + "; " + v.statement.actual);
    for (std::size_t i = 0; i < conformance::rules.size(); ++i)
      if (stream_->monitors.evaluator().counters()[i].passed != 0)
        passed.insert(std::string(conformance::rules[i].alias));
    recorded.push_back(std::move(stream_->frames));
    stream_.reset();
  }
  std::vector<std::vector<conformance::testing::ByteVector>> recorded;  ///< frames by connection
  std::map<std::string, std::string> violations;                        ///< reported violations by alias
  std::set<std::string> passed;
  bool checks_both = false;

 private:
  void begin(bool dut) {
    if (stream_) return;
    dut_first_ = dut;
    Streamed::Options options;
    // Do not check the tester, whose bytes are intentionally invalid.
    options.checks[0] = dut || checks_both;
    options.checks[1] = !dut || checks_both;
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
  testing::play_errors(fault, trace);
  captured.end();
  return captured;
}

/// Aliases of further rules that a fault violates, by name of the fault.
const std::map<std::string_view, std::set<std::string>> related{
    // The device treats an enhanced request as unenhanced.
    {"accepts-any-revision", {"MPA-024"}},
    {"takes-enhanced-for-plain", {"MPA-024"}},
    // The device requested markers, but its peer did not. So only the peer may send them.
    {"sends-markers-unasked", {"FPD-020"}},
    // The device continues instead of sending the Terminate.
    {"ignores-missing-rtr", {"MPA-033"}},
    // A response that ends with its first segment is shorter than requested.
    {"last-flag-everywhere", {"RDM-004"}},
    // MPA and DDP share the MULPDU.
    {"long-ulpdus", {"DDP-010"}},
    {"segments-beyond-mulpdu", {"FPD-011"}},
    // A response that is interrupted by an error appears to be complete.
    {"last-flag-everywhere", {"RDM-004"}},
    // The MSN of the Terminate is also wrong.
    {"msn-from-zero", {"RDM-005"}},
    // The messages of RFC 7306 are also affected.
    {"sends-version-0", {"EXT-018"}},
    // The monitor reads M, D and R as 0, and swaps layer and type, which may give another defined error.
    {"terminate-as-little-endian", {"TRM-008", "TRM-009"}},
    // The monitor reads zeros instead of a tagged header as an untagged header, which is longer.
    {"terminate-quotes-zeros", {"TRM-003"}},
    // An atomic has no Read Request Header to quote. RFC 5040, figure 10.
    {"atomic-error-quotes", {"TRM-004"}},
    // The device sends as many requests as the right reply would have permitted.
    {"replies-lower-ord", {"EXT-015", "RDM-018"}},
    // The Terminate has an MSN of its own queue, but is on another queue.
    {"terminates-anywhere", {"DDP-009"}},
};

TEST(EndpointMonitors, NoViolationsForConformingEndpoints) {
  const Captured clean = played(std::nullopt);
  EXPECT_THAT(clean.violations, ::testing::IsEmpty());
  std::vector<std::string_view> never;
  for (const conformance::RuleId rule : conformance::monitored)
    if (rule->services == conformance::Services::iwarp && !clean.passed.contains(std::string(rule->alias)))
      never.push_back(rule->alias);
  // Tests of the monitors cover wrapping sequence numbers and captures without the start of a stream.
  EXPECT_THAT(never, ::testing::ElementsAre("FPD-019", "FPD-022"));
}

/// Number of combinations of six flags: markers and CRCs of each endpoint, enhanced negotiation, peer-to-peer model.
constexpr unsigned option_combinations = 64;

/// Run two endpoints without faults: all operations in both directions, an error, and the close.
Captured talk(unsigned option_bits) {
  using device::WorkOpcode;
  const auto option = [&](unsigned bit) { return (option_bits >> bit & 1) != 0; };
  auto of_a = testing::script_settings(option(4) ? 2 : 1), of_b = of_a;
  of_a.markers = option(0);
  of_b.markers = option(1);
  of_a.crc = option(2);
  of_b.crc = option(3);
  of_a.peer_to_peer = option(4) && option(5);
  testing::Consumer a(of_a, {.seed = 1}), b(of_b, {.seed = 2});
  testing::StreamLink link(*a.end, *b.end);
  Captured captured;
  captured.checks_both = true;
  link.observer = [&](int from, Bytes segment, bool fin, bool reset) {
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
  // The last request causes an error and a Terminate.
  (void)a.end->post_send(
      {.id = 9, .opcode = WorkOpcode::write, .sges = {a.piece(0, 10)}, .remote_address = 0, .rkey = 1});
  link.run_until(link.now + 20'000'000'000);
  captured.end();
  return captured;
}

TEST(EndpointMonitors, NoViolationsForAllNegotiatedParameters) {
  for (unsigned option_bits = 0; option_bits < option_combinations; ++option_bits) {
    SCOPED_TRACE(option_bits);
    const auto option = [&](unsigned bit) { return (option_bits >> bit & 1) != 0; };
    const Captured captured = talk(option_bits);
    EXPECT_THAT(captured.violations, ::testing::IsEmpty());
    EXPECT_TRUE(captured.passed.contains("TRM-005")) << "the Terminate and its quoted headers";
    EXPECT_EQ(captured.passed.contains("FPD-015"), option(0) || option(1));
    EXPECT_EQ(captured.passed.contains("FPD-003"), option(2) || option(3));
    EXPECT_EQ(captured.passed.contains("MPA-033"), option(4) && option(5));
  }
}

/// Return the violations in a capture of these frames that is truncated to `captured` bytes per frame.
std::vector<std::string> violations_of(const std::vector<conformance::testing::ByteVector>& frames,
                                       std::size_t captured) {
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

// Loss, duplication, reordering and truncation are not violations.
TEST(EndpointMonitors, NoViolationsForIncompleteCaptures) {
  std::mt19937 random(20);
  const auto chance = [&](unsigned of_1000) { return random() % 1000 < of_1000; };
  for (unsigned option_bits = 0; option_bits < option_combinations; ++option_bits) {
    const Captured captured = talk(option_bits);
    ASSERT_EQ(captured.recorded.size(), 1U);
    const auto& whole = captured.recorded[0];
    for (int round = 0; round < 40; ++round) {
      SCOPED_TRACE(fmt::format("options {}, iteration {}", option_bits, round));
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
      EXPECT_THAT(violations_of(frames, kinds & 0x80 ? 60 + random() % 200 : 65536), ::testing::IsEmpty());
      if (HasFailure()) return;
    }
  }
}

TEST(EndpointMonitors, EachFaultViolatesItsRule) {
  for (const FaultRow& row : fault_rows) {
    const Captured faulty = played(row.fault);
    const conformance::Rule* rule = conformance::find_rule(row.check);
    ASSERT_NE(rule, nullptr) << row.check;
    const auto id = conformance::RuleId::at(static_cast<std::size_t>(rule - conformance::rules.data()));
    const bool accuses = conformance::is_monitored(id) && !conformance::only_positive(id);
    const bool found = faulty.violations.contains(std::string(row.check));
    const bool shows = row.shows == FaultShows::bytes && accuses;
    const bool has_reason = !unseen_because(row.fault).empty();
    EXPECT_TRUE(found == shows || (!found && has_reason)) << row.check << " " << row.name;
    std::set<std::string> others;
    for (const auto& [alias, text] : faulty.violations)
      if (alias != row.check) others.insert(alias);
    const auto known = related.find(row.name);
    EXPECT_EQ(others, known == related.end() ? std::set<std::string>() : known->second)
        << row.check << " " << row.name << [&] {
             std::string all;
             for (const auto& [alias, text] : faulty.violations) all += "\n  " + alias + ": " + text;
             return all;
           }();
  }
}

}  // namespace
}  // namespace rdmawire::endpoint
