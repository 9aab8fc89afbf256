#include "conformance/lab/console.hpp"

#include <gmock/gmock.h>

namespace rdmawire::lab {
namespace {

using Kind = KernelReport::Kind;

ConsoleWatch watched(std::string_view text, std::size_t piece = std::string_view::npos) {
  ConsoleWatch watch;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) watch.take(text.substr(0, piece));
  return watch;
}

constexpr std::string_view panic =
    "[    3.103000] sysrq: Trigger a crash\r\n"
    "[    3.104000] Kernel panic - not syncing: sysrq triggered crash\r\n"
    "[    3.105000] CPU: 0 PID: 142 Comm: sh Not tainted 6.1.0-56-amd64 #1\r\n"
    "[    3.106000] Call Trace:\r\n";

TEST(ConsoleWatch, PanicIsReportedWithItsLines) {
  const ConsoleWatch watch = watched(panic);
  ASSERT_EQ(watch.complaints().size(), 1U);
  EXPECT_TRUE(watch.panicked());
  EXPECT_EQ(watch.complaints()[0].kind, Kind::panic);
  EXPECT_EQ(watch.complaints()[0].what, "Kernel panic - not syncing: sysrq triggered crash");
  EXPECT_EQ(watch.complaints()[0].lines.size(), 3U);
  EXPECT_EQ(watch.complaints()[0].lines[2], "[    3.106000] Call Trace:");
}

TEST(ConsoleWatch, ResultDoesNotDependOnInputSplit) {
  for (std::size_t piece = 1; piece < 40; ++piece) {
    const ConsoleWatch watch = watched(panic, piece);
    ASSERT_EQ(watch.complaints().size(), 1U) << piece;
    EXPECT_EQ(watch.complaints()[0].lines, watched(panic).complaints()[0].lines) << piece;
  }
}

TEST(ConsoleWatch, OopsAndItsPanicAreOneReport) {
  const ConsoleWatch watch = watched(
      "[    9.1] BUG: kernel NULL pointer dereference, address: 0000000000000010\n"
      "[    9.1] #PF: supervisor read access in kernel mode\n"
      "[    9.1] Oops: 0000 [#1] PREEMPT SMP NOPTI\n"
      "[    9.1] RIP: 0010:rxe_responder+0x12/0x20 [rdma_rxe]\n"
      "[    9.2] ---[ end trace 0000000000000000 ]---\n"
      "[    9.2] Kernel panic - not syncing: Fatal exception in interrupt\n"
      "[    9.3] ---[ end Kernel panic - not syncing: Fatal exception in interrupt ]---\n");
  ASSERT_EQ(watch.complaints().size(), 1U);
  EXPECT_EQ(watch.count(), 1U);
  EXPECT_EQ(watch.complaints()[0].kind, Kind::panic);
  EXPECT_EQ(watch.complaints()[0].what, "BUG: kernel NULL pointer dereference, address: 0000000000000010");
  EXPECT_EQ(watch.complaints()[0].lines.size(), 7U);
}

TEST(ConsoleWatch, WarningEndsWithItsTrace) {
  const ConsoleWatch watch = watched(
      "[    5.0] ------------[ cut here ]------------\n"
      "[    5.0] WARNING: CPU: 0 PID: 99 at drivers/infiniband/sw/siw/siw_cm.c:1 siw_accept+0x1/0x2 [siw]\n"
      "[    5.0] Modules linked in: siw\n"
      "[    5.0] ---[ end trace 0000000000000000 ]---\n"
      "[    6.0] eth0: something else\n"
      "[    7.0] ------------[ cut here ]------------\n"
      "[    7.0] WARNING: CPU: 0 PID: 99 at net/core/dev.c:2\n");
  ASSERT_EQ(watch.complaints().size(), 2U);
  EXPECT_EQ(watch.complaints()[0].kind, Kind::warning);
  EXPECT_EQ(watch.complaints()[0].lines.size(), 3U);
  EXPECT_FALSE(watch.panicked());
}

TEST(ConsoleWatch, KindIsDetected) {
  const auto kind = [](std::string line) { return watched(line + "\n").complaints().at(0).kind; };
  EXPECT_EQ(kind("[   30.0] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [ib_send_bw:200]"), Kind::hang);
  EXPECT_EQ(kind("[  240.0] INFO: task kworker/0:1:17 blocked for more than 120 seconds."), Kind::hang);
  EXPECT_EQ(kind("[   60.0] rcu: INFO: rcu_preempt self-detected stall on CPU"), Kind::hang);
  EXPECT_EQ(kind("[   10.0] ib_write_bw invoked oom-killer: gfp_mask=0xcc0"), Kind::out_of_memory);
  EXPECT_EQ(kind("[   10.0] Out of memory: Killed process 201 (ib_write_bw)"), Kind::out_of_memory);
  EXPECT_EQ(kind("[   10.0][  T201] general protection fault, probably for non-canonical address"), Kind::oops);
  EXPECT_EQ(kind("[   10.0] kernel BUG at net/core/skbuff.c:200!"), Kind::oops);
  EXPECT_EQ(kind("[   10.0] BUG: KASAN: use-after-free in rxe_completer"), Kind::sanitizer);
}

TEST(ConsoleWatch, OutputOfProgramsIsIgnored) {
  EXPECT_TRUE(watched("login: no BUG: here, and no Kernel panic - not syncing either\n").complaints().empty());
  EXPECT_TRUE(watched("[    1.0] rdma_rxe: loaded\n[    1.0] Call Trace:\n").complaints().empty());
}

TEST(ConsoleWatch, MemoryIsBounded) {
  ConsoleWatch watch;
  const std::string flood(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) watch.take(flood);
  watch.take("\n");
  EXPECT_EQ(watch.last_lines().back().size(), 1024U);
  for (int i = 0; i < 10'000; ++i) watch.take("WARNING: again\n---[ end trace 0 ]---\n");
  EXPECT_EQ(watch.complaints().size(), 100U);
  EXPECT_EQ(watch.count(), 10'000U);
}

}  // namespace
}  // namespace rdmawire::lab
