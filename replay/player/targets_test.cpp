#include "replay/player/targets.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

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

/// Runs `what` in an orphaned child process of an ordinary user, and returns its result.
bool as_orphan_of_ordinary_user(const std::function<bool()>& what) {
  int results[2];
  if (pipe2(results, O_CLOEXEC) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    const pid_t parent = getpid();
    if (fork() != 0) _exit(0);
    constexpr uid_t nobody = 65534;
    while (getppid() == parent) sched_yield();
    const bool result = setresgid(nobody, nobody, nobody) == 0 && setresuid(nobody, nobody, nobody) == 0 && what();
    _exit(write(results[1], &result, 1) == 1 ? 0 : 1);
  }
  close(results[1]);
  waitpid(child, nullptr, 0);
  bool result = false;
  const bool complete = read(results[0], &result, 1) == 1;
  close(results[0]);
  return complete && result;
}

TEST(Targets, OrphanedProcessOfOrdinaryUserRecognizesPrivateNamespace) {
  std::string why_not;
  auto namespaces = testing::Namespaces::make(why_not);
  if (!namespaces) GTEST_SKIP() << why_not;
  EXPECT_TRUE(as_orphan_of_ordinary_user([] { return judge("packet:here").safe; }));
  namespaces.reset();
  EXPECT_TRUE(as_orphan_of_ordinary_user([] {
    return !judge("packet:lo").safe &&
           judge("packet:lo").about == "the loopback interface, in the host's initial network namespace";
  }));
}

}  // namespace
}  // namespace rdmawire::replay
