/// Conforming devices on a disturbed network: no monitor reports a violation, and the reported causes are true.
/// RDMAWIRE_FULL=1 runs more scenarios. RDMAWIRE_SEED selects other scenarios.

#include <gtest/gtest.h>

#include <cstdlib>

#include "conformance/attribution/score.hpp"

namespace rdmawire::attribution {
namespace {

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? std::strtoull(value, nullptr, 10) : otherwise;
}

std::uint64_t scenario_count() {
  return number_of("RDMAWIRE_SCENARIOS", number_of("RDMAWIRE_FULL", 0) != 0 ? 10'000 : 300);
}

Score score_of(unsigned most_impairments) {
  const std::uint64_t first = number_of("RDMAWIRE_SEED", 1) * 1'000'000;
  Score total;
  for (std::uint64_t i = 0; i < scenario_count(); ++i) total.add(evaluate(draw_scenario(first + i, most_impairments)));
  return total;
}

TEST(Attribution, SameScenarioHasSameTraffic) {
  const Scenario scenario = draw_scenario(7, 2);
  const Traffic x = simulate(scenario), y = simulate(scenario);
  ASSERT_EQ(x.frames.size(), y.frames.size());
  for (std::size_t i = 0; i < x.frames.size(); ++i) {
    EXPECT_EQ(x.frames[i].time, y.frames[i].time);
    EXPECT_EQ(x.frames[i].bytes, y.frames[i].bytes);
  }
}

TEST(Attribution, UndisturbedTrafficHasNoFinding) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Score score = evaluate(draw_scenario(seed, 0));
    EXPECT_TRUE(score.violations.empty()) << score.text();
    for (const LabelScore& s : score.by_label) EXPECT_EQ(s.claims, 0U) << score.text();
  }
}

TEST(Attribution, DisturbedTrafficHasNoViolation) {
  const Score score = score_of(1);
  std::printf("%s\n", score.text().c_str());
  for (const FalseViolation& v : score.examples)
    ADD_FAILURE() << v.alias << " " << v.rule << " frame " << v.frame << ": " << v.expected << " / " << v.actual
                  << "\n  " << v.scenario;
  if (number_of("RDMAWIRE_VERBOSE", 0) != 0)
    for (const std::string& line : score.wrong) std::printf("wrong: %s\n", line.c_str());
}

}  // namespace
}  // namespace rdmawire::attribution
