#include "conformance/monitors/evaluator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "conformance/monitors/monitored.hpp"
#include "conformance/monitors/watched_for_test.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

constexpr RuleId rule = "rc.responder.psn.sequence-error";

TEST(Evaluator, CountsEveryResult) {
  Evaluator evaluator;
  evaluator.record(rule, RuleResult::pass());
  evaluator.record(rule, RuleResult::inconclusive(Reason::truncated));
  evaluator.record(rule, RuleResult::inconclusive(Reason::truncated));
  evaluator.record(rule, RuleResult::violation(), Place{7, Side::b, false, {}, 12, 0, 0}, [] {
    return Statement{"x", "y", {}};
  });
  const ResultCounters& counts = evaluator.counters()[rule.index()];
  EXPECT_EQ(counts.passed, 1U);
  EXPECT_EQ(counts.violated, 1U);
  EXPECT_EQ(counts.inconclusive(), 2U);
  EXPECT_EQ(counts.inconclusive_by_reason[static_cast<std::size_t>(Reason::truncated)], 2U);
  EXPECT_EQ(counts.evaluated(), 4U);
}

TEST(Evaluator, GroupsViolationsByRuleEndpointAndConnection) {
  Evaluator evaluator;
  int calls = 0;
  const auto describe = [&] {
    ++calls;
    return Statement{"x", "y", {}};
  };
  for (const std::uint64_t frame : {12U, 15U, 19U})
    evaluator.record(rule, RuleResult::violation(), Place{7, Side::b, false, {}, frame, 0, 0}, describe);
  evaluator.record(rule, RuleResult::violation(), Place{7, Side::a, false, {}, 20, 0, 0}, describe);
  evaluator.record(rule, RuleResult::violation(), Place{8, Side::b, false, {}, 21, 0, 0}, describe);
  EXPECT_EQ(calls, 3);
  ASSERT_EQ(evaluator.violations().size(), 3U);
  EXPECT_EQ(evaluator.violations()[0].count, 3U);
  EXPECT_EQ(evaluator.violations()[0].place.frame, 12U);
  EXPECT_EQ(evaluator.violations()[0].last_frame, 19U);
}

TEST(Evaluator, DoubtMakesOnlyViolationsInconclusive) {
  EXPECT_EQ(RuleResult::violation().unless(true, Reason::truncated).kind(), RuleResult::Kind::inconclusive);
  EXPECT_EQ(RuleResult::violation().unless(false, Reason::truncated).kind(), RuleResult::Kind::violation);
  EXPECT_EQ(RuleResult::pass().unless(true, Reason::truncated).kind(), RuleResult::Kind::pass);
}

TEST(EvaluatedPacket, ConcernsRulesOfCheckedActors) {
  constexpr RuleId of_requester = "rc.requester.psn.increments", of_responder = "rc.responder.psn.sequence-error",
                   of_receiver = "ud.receiver.psn.unchecked", of_sender = "roce.sender.udp.length";
  for (const Side from : {Side::a, Side::b})
    for (const bool response : {false, true}) {
      const Side requester = response ? tracking::other(from) : from, responder = tracking::other(requester);
      for (const Side checked : {Side::a, Side::b}) {
        EvaluatedPacket packet{{checked == Side::a, checked == Side::b}, from, response};
        EXPECT_EQ(packet.concerns(of_requester), checked == requester) << response;
        EXPECT_EQ(packet.concerns(of_responder), checked == responder) << response;
        EXPECT_EQ(packet.concerns(of_receiver), checked == responder) << response;
        EXPECT_EQ(packet.concerns(of_sender), checked == from) << response;
      }
    }
}

TEST(RuleSet, ChoosesAndExcludesByPattern) {
  RuleSet set;
  EXPECT_EQ(set.choose({"rc.responder.*", "!RSP-009"}), "");
  EXPECT_TRUE(set.has("rc.responder.ack.in-order"));
  EXPECT_FALSE(set.has(rule));
  EXPECT_FALSE(set.has("rc.requester.psn.increments"));
  RuleSet all_but;
  EXPECT_EQ(all_but.choose({"!HDR-*"}), "");
  EXPECT_TRUE(all_but.has(rule));
  EXPECT_FALSE(all_but.has("roce.sender.udp.length"));
  EXPECT_EQ(RuleSet().choose({"RSP-999"}), "RSP-999");
}

/// Returns the concatenated sources of the monitors.
std::string sources() {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(RDMAWIRE_SOURCE_DIR "/conformance/monitors")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".cpp") || name.ends_with("_test.cpp") || name.ends_with("_fuzz.cpp")) continue;
    std::ifstream file(entry.path());
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

std::multiset<std::string> matches_of(const std::string& text, const std::string& pattern) {
  const std::regex id(pattern);
  std::multiset<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), id), end; match != end; ++match) found.insert((*match)[1]);
  return found;
}

const std::string an_id =
    R"re("((?:roce|rc|bth|uc|ud|xrc|congestion|cm|qp|mpa|fpdu|ddp|rdmap|terminate|mrc)(?:\.[a-z0-9-]+){2,})")re";

// The list contains exactly the rules in the sources of the monitors.
TEST(Monitored, ListMatchesSources) {
  const auto all = matches_of(sources(), an_id);
  std::set<std::string> listed;
  for (const RuleId which : monitored) listed.insert(std::string(which->id));
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()), listed);
}

// The list contains exactly the rules that the sources record only as pass or inconclusive.
TEST(Monitored, PassOnlyListMatchesSources) {
  const std::string text = sources();
  const auto all = matches_of(text, an_id);
  auto harmless = matches_of(text, R"re(\bpass\()re" + an_id + R"re(\))re");
  harmless.merge(matches_of(text, R"re(\brecord\(\s*)re" + an_id + R"re(,\s*RuleResult::pass\(\)\))re"));
  harmless.merge(matches_of(text, R"re(\b(?:record|rule)\(\s*)re" + an_id +
                                      R"re(,[^;]*\? RuleResult::pass\(\)\s*: RuleResult::inconclusive\()re"));
  harmless.merge(matches_of(text, R"re(\brecord\(\s*)re" + an_id + R"re(,\s*RuleResult::inconclusive\()re"));
  std::set<std::string> found, listed;
  for (const std::string& id : harmless)
    if (harmless.count(id) == all.count(id)) found.insert(id);
  for (const RuleId which : only_seen_kept) listed.insert(std::string(which->id));
  EXPECT_EQ(found, listed);
}

/// Every rule of mode passive or both has a monitor.
TEST(Monitored, EveryPassiveRuleHasAMonitor) {
  std::vector<std::string> left;
  for (std::size_t i = 0; i < rules.size(); ++i)
    if ((rules[i].mode == Mode::passive || rules[i].mode == Mode::both) && !is_monitored(RuleId::at(i)))
      left.emplace_back(rules[i].alias.empty() ? rules[i].id : rules[i].alias);
  EXPECT_THAT(left, ::testing::IsEmpty());
}

}  // namespace
}  // namespace rdmawire::conformance
