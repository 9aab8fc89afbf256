#include "replay/player/targets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/wires/namespaces_for_test.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;

Target judge(std::string_view wire) { return judge_target(WireSpec::parse(wire).value()); }

TEST(Targets, FilesSocketsAndNullAreSafe) {
  for (const char* wire : {"null", "file:/tmp/x.pcapng", "unix:/run/lab/eth0"}) {
    EXPECT_TRUE(judge(wire).safe) << wire;
    EXPECT_EQ(judge(wire).name, "") << wire;
  }
}

TEST(Targets, UnknownTargetsAreUnsafe) {
  EXPECT_FALSE(judge("verbs:mlx5_0").safe);
  EXPECT_EQ(judge("verbs:mlx5_0").name, "mlx5_0");
  EXPECT_FALSE(judge("packet:no-such-interface").safe);
}

TEST(Targets, VethIsSafeOnlyInPrivateNamespace) {
  EXPECT_FALSE(judge("packet:lo").safe);
  EXPECT_EQ(judge("packet:lo").about, "the loopback interface, in the host's initial network namespace");
  std::string why_not;
  const auto namespaces = testing::Namespaces::make(why_not);
  if (!namespaces) GTEST_SKIP() << why_not;
  EXPECT_TRUE(judge("packet:here").safe);
  EXPECT_EQ(judge("packet:here").about, "veth in a private network namespace");
}

}  // namespace
}  // namespace rdmawire::replay
