#include "conformance/lab/scenario.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace rdmawire::lab {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RecordingPlan plan_of(std::string_view text) {
  auto plans = parse_plan(text, {});
  EXPECT_TRUE(plans) << plans.error().message;
  return plans ? plans->front() : RecordingPlan{};
}
std::string client_of(const RecordingPlan& plan) {
  return command_for(plan.scenario->client, plan, {"10.77.0.1", "10.77.0.2", "192.0.2.1", "rxe0", "3"});
}

TEST(Scenario, PlaceholdersAreReplaced) {
  EXPECT_EQ(client_of(plan_of("rping")), "rping -c -V -a 10.77.0.1 -C 10 -S 4000");
  EXPECT_EQ(client_of(plan_of("rc-pingpong,mtu=9000,iterations=3,size=77")),
            "ibv_rc_pingpong -d rxe0 -g 3 -m 4096 -n 3 -s 77 10.77.0.1");
  EXPECT_EQ(client_of(plan_of("atomic,ipv6")),
            "ib_atomic_bw -n 20 -u 16 -F -p 18515 -d rxe0 --ipv6 -A FETCH_AND_ADD -x 3 192.0.2.1");
  EXPECT_EQ(client_of(plan_of("atomic")),
            "ib_atomic_bw -n 20 -u 16 -F -p 18515 -d rxe0 -A FETCH_AND_ADD -x 3 192.0.2.1");
}

TEST(Scenario, AllPlaceholdersAreReplaced) {
  std::set<std::string_view> names;
  for (const Scenario& scenario : scenarios()) {
    EXPECT_TRUE(names.insert(scenario.name).second) << scenario.name << " is duplicated";
    EXPECT_TRUE(scenario.rxe || scenario.siw) << scenario.name;
    EXPECT_THAT(std::string(scenario.what), Not(HasSubstr("\n")));
    RecordingPlan plan;
    plan.scenario = &scenario;
    const Places places{"10.77.0.1", "10.77.0.2", "192.0.2.1", "rxe0", "1"};
    for (const std::string_view words : {scenario.server, scenario.client}) {
      const std::string command = command_for(words, plan, places);
      EXPECT_THAT(command, Not(HasSubstr("{"))) << scenario.name;
      EXPECT_THAT(command, Not(HasSubstr("  "))) << scenario.name;
    }
  }
}

TEST(Scenario, PlanContainsOptionsAndDefaults) {
  RecordingPlan defaults;
  defaults.netem = "loss 1%";
  const auto plans = parse_plan("rping,siw,ipv6,vlan=7,mtu=9000,iterations=5,size=100,fault=drop nth 3", defaults);
  ASSERT_TRUE(plans);
  ASSERT_EQ(plans->size(), 1U);
  const RecordingPlan& plan = plans->front();
  EXPECT_TRUE(plan.siw);
  EXPECT_TRUE(plan.ipv6);
  EXPECT_EQ(plan.vlan, 7U);
  EXPECT_EQ(plan.netem, "loss 1%");
  EXPECT_EQ(plan.faults, "drop nth 3\n");
  EXPECT_EQ(name_of(plan), "rping-siw-ipv6-vlan7-mtu9000-n5-s100-faults-netem");
  EXPECT_EQ(name_of(plan_of("nvme")), "nvme-rxe");
}

TEST(Scenario, AllSelectsEverySupportedCombination) {
  std::size_t expected = 0, over_siw = 0;
  for (const Scenario& scenario : scenarios()) {
    expected += scenario.rxe + scenario.siw;
    over_siw += scenario.siw;
  }
  EXPECT_EQ(parse_plan("all", {})->size(), expected);
  EXPECT_EQ(parse_plan("all", {}, true)->size(), over_siw);
  const auto over_ipv6 = parse_plan("all,siw,ipv6", {}, false);
  ASSERT_TRUE(over_ipv6);
  EXPECT_LT(over_ipv6->size(), over_siw);
  for (const RecordingPlan& plan : *over_ipv6) EXPECT_TRUE(plan.siw && plan.scenario->ipv6) << plan.scenario->name;
}

TEST(Scenario, InvalidPlansAreRejected) {
  const auto error = [](std::string_view text) {
    const auto plans = parse_plan(text, {});
    return plans ? "fine" : plans.error().message;
  };
  EXPECT_THAT(error("ring"), HasSubstr("unknown scenario \"ring\"; expected all, rping, "));
  EXPECT_THAT(error("atomic,siw"), HasSubstr("atomic is not supported with siw: iWARP requires"));
  EXPECT_THAT(error("rping,ipv4"), HasSubstr("rping,ipv4: unknown option ipv4; expected rxe, siw, ipv6, vlan=ID"));
  EXPECT_THAT(error("rping,,ipv6"), HasSubstr("unknown option"));
  EXPECT_THAT(error("rping,vlan=4095"), HasSubstr("vlan must be a number from 1 to 4094, not \"4095\""));
  EXPECT_THAT(error("rping,mtu=1280x"), HasSubstr("mtu must be a number from 576 to 9000"));
  EXPECT_THAT(error("rping,ipv6,mtu=1000"), HasSubstr("IPv6 requires an MTU of at least 1280 bytes"));
  EXPECT_THAT(error("read-cm,ipv6"), HasSubstr("read-cm does not support IPv6"));
  EXPECT_THAT(error("rping,fault=dorp nth 1"), HasSubstr("did you mean drop?"));
}

}  // namespace
}  // namespace rdmawire::lab
