#include "captures/analysis/workers.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "captures/analysis/capture_scan.hpp"

namespace rdmawire::captures::analysis {
namespace {

TEST(Workers, CallTheWorkOncePerThread) {
  std::atomic<int> calls = 0;
  work_together(4, [&] { ++calls; });
  EXPECT_EQ(calls, 4);
  work_together(0, [&] { ++calls; });
  EXPECT_EQ(calls, 5);  // all calls are on this thread
}
TEST(Workers, NumberOfThreadsIsLimited) {
  std::atomic<std::size_t> calls = 0;
  work_together(1'000'000'000, [&] { ++calls; });
  EXPECT_EQ(calls, most_workers);
  EXPECT_EQ(CaptureScan::shards(0), 1u);
  EXPECT_EQ(CaptureScan::shards(7), 7u);
  EXPECT_EQ(CaptureScan::shards(4'000'000'000), most_workers);
}
TEST(Workers, RethrowsExceptionAfterAllCallsReturned) {
  std::atomic<int> calls = 0;
  const auto work = [&] {
    if (++calls == 2) throw std::runtime_error("failure");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  EXPECT_THROW(work_together(4, work), std::runtime_error);
  EXPECT_EQ(calls, 4);
}
TEST(Workers, UsesFewerThreadsIfThreadCreationFails) {
  pthread_attr_t usual, huge;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);  // makes thread creation fail
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  std::vector<unsigned> done;
  CaptureScan::divide(5, [&](unsigned shard) { done.push_back(shard); });
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  EXPECT_EQ(done, (std::vector<unsigned>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace rdmawire::captures::analysis
