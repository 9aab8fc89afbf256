/// What the monitors of `rdmawire check` say of endpoints with faults, and of endpoints without, from the TCP segments
/// that they send.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "conformance/endpoint/fault_table.hpp"
#include "conformance/endpoint/script_parts_for_test.hpp"
#include "conformance/monitors/monitored.hpp"
#include "conformance/monitors/streamed_for_test.hpp"

namespace rdmawire::endpoint {
namespace {

using conformance::Violation;
using conformance::testing::Streamed;
using tracking::End;

/// Each connection of a script as a capture of its own. Who sends first has connected.
class Captured final : public testing::Wire {
 public:
  void connection() override { end(); }
  void segment(bool dut, Bytes octets) override {
    begin(dut);
    // TCP's own segments: what the other one sends in one go may be more than one takes.
    for (Bytes rest = octets; !rest.empty();) {
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
    for (const Violation& v : stream_->monitors.judge().violations())
      if (v.count != 0) accused.emplace(v.of().alias, v.statement.expected + "; " + v.statement.actual);
    for (std::size_t i = 0; i < conformance::rules.size(); ++i)
      if (stream_->monitors.judge().tallies()[i].holds != 0) held.insert(std::string(conformance::rules[i].alias));
    stream_.reset();
  }
  std::map<std::string, std::string> accused;  ///< by alias: what is said
  std::set<std::string> held;

 private:
  void begin(bool dut) {
    if (stream_) return;
    dut_first_ = dut;
    Streamed::Options options;
    // What is made by hand is wrong on purpose.
    options.judges[0] = dut;
    options.judges[1] = !dut;
    stream_ = std::make_unique<Streamed>(options);
  }
  [[nodiscard]] End of(bool dut) const { return dut == dut_first_ ? End::a : End::b; }
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

/// Faults that show in octets, whose rule has a monitor that accuses, and that it does not see, each for a reason.
const std::map<std::string_view, std::string_view> unseen{
    {"solicited-as-plain", "which kind of Send its consumer asked for it alone knows"},
};
/// What else a fault makes of what is sent, and that it is accused of.
const std::map<std::string_view, std::set<std::string>> related{
    // An enhanced request that was taken for a plain one, for whatever reason.
    {"accepts-any-revision", {"MPA-024"}},
    {"takes-enhanced-for-plain", {"MPA-024"}},
    // Where it asks for markers itself the other direction alone may have them.
    {"sends-markers-unasked", {"FPD-020"}},
    // In place of the Terminate.
    {"ignores-missing-rtr", {"MPA-033"}},
    // MULPDU is MPA's and DDP's.
    {"long-ulpdus", {"DDP-010"}},
    {"segments-beyond-mulpdu", {"FPD-011"}},
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

TEST(EndpointMonitors, EachFaultIsAccusedOfWhatItBreaks) {
  for (const FaultRow& row : fault_rows) {
    const Captured faulty = played(row.fault);
    const conformance::Rule* rule = conformance::find_rule(row.check);
    ASSERT_NE(rule, nullptr) << row.check;
    const auto id = conformance::RuleId::at(static_cast<std::size_t>(rule - conformance::rules.data()));
    const bool accuses = conformance::is_monitored(id) && !conformance::is_only_seen_kept(id);
    const bool found = faulty.accused.contains(std::string(row.check));
    const bool expected = row.shows == FaultShows::octets && accuses && !unseen.contains(row.name);
    EXPECT_EQ(found, expected) << row.check << " " << row.name;
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
