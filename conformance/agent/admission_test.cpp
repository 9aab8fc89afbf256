#include "conformance/agent/admission.hpp"

#include <gtest/gtest.h>

namespace rdmawire::agent {
namespace {

constexpr Loop::Time second = 1000 * Loop::millisecond;

/// Returns how often an address can fail until `end` if it starts each attempt as early as possible.
int attempts_until(Admission& admission, const std::string& address, Loop::Time end) {
  int attempts = 0;
  for (Loop::Time now = 0; now <= end; now = std::max(now, admission.next_attempt(address, now))) {
    if (admission.next_attempt(address, now) > end) break;
    admission.start(address, now);
    admission.fail(address, now);
    ++attempts;
  }
  return attempts;
}

TEST(Admission, FailuresOfAnAddressDelayItsNextAttempts) {
  Admission admission;
  // Three attempts have no delay. The next ones are delayed by 1 s, 2 s, and then 4 s each.
  EXPECT_EQ(attempts_until(admission, "192.0.2.1", 3600 * second), 3 + 2 + (3600 - 3) / 4);
  EXPECT_EQ(admission.next_attempt("192.0.2.2", 5 * second), 5 * second);
}

TEST(Admission, AttemptsInProgressAreSpacedAsWell) {
  Admission admission;
  for (int i = 0; i < 3; ++i) admission.fail("192.0.2.1", 0);
  EXPECT_EQ(admission.next_attempt("192.0.2.1", second), second);
  admission.start("192.0.2.1", second);
  EXPECT_EQ(admission.next_attempt("192.0.2.1", second), 2 * second);
}

TEST(Admission, SuccessForgetsFailures) {
  Admission admission;
  for (int i = 0; i < 100; ++i) admission.fail("192.0.2.1", 0);
  EXPECT_EQ(admission.next_attempt("192.0.2.1", 0), 4 * second);
  admission.succeed("192.0.2.1");
  EXPECT_EQ(admission.next_attempt("192.0.2.1", 0), 0);
}

TEST(Admission, FailuresAreForgottenAfterTenMinutes) {
  Admission admission;
  for (int i = 0; i < 100; ++i) admission.fail("192.0.2.1", 0);
  admission.fail("192.0.2.1", 601 * second);
  EXPECT_EQ(admission.next_attempt("192.0.2.1", 601 * second), 601 * second);
}

TEST(Admission, NumberOfRememberedAddressesIsLimited) {
  Admission admission;
  for (int i = 0; i < 4; ++i) admission.fail("192.0.2.1", i);
  for (int i = 0; i < 2000; ++i) admission.fail(std::to_string(i), second + i);
  EXPECT_EQ(admission.addresses(), 1024U);
  EXPECT_EQ(admission.next_attempt("192.0.2.1", 2 * second), 2 * second) << "the earliest failure was not forgotten";
}

}  // namespace
}  // namespace rdmawire::agent
