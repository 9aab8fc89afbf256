#include "conformance/runner/preflight.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace rdmawire::conformance {
namespace {

using Status = Finding::Status;

const Finding* named(const std::vector<Finding>& findings, const std::string& what) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.what == what; });
  return found == findings.end() ? nullptr : &*found;
}

TEST(Preflight, ReferenceDevicePassesAndKeepsNoObjects) {
  const auto target = Target::open({});
  ASSERT_TRUE(target);
  const auto objects = [&] { return (*target)->device().peer->call("ping")->value("objects", 0); };
  const int before = objects();
  const auto findings = preflight(**target);
  EXPECT_FALSE(has_failure(findings)) << text_of(findings);
  for (const char* what : {"agent's protocol", "link", "link layer", "path MTU", "GID", "P_Key table", "wire", "clocks",
                           "quiet", "agent's rights", "transfer"})
    ASSERT_NE(named(findings, what), nullptr) << what;
  EXPECT_EQ(named(findings, "path MTU")->found, "4096 bytes");
  EXPECT_EQ(named(findings, "GID")->status, Status::pass);
  EXPECT_EQ(named(findings, "P_Key table")->found, "0xffff, 0x8005");
  EXPECT_THAT(named(findings, "wire")->found, testing::HasSubstr("02:00:00:00:00:01, 10.0.0.1"));
  EXPECT_EQ(objects(), before);
}

// Errors that also occur on a real test bench.
TEST(Preflight, WrongAddressFailsWithAdvice) {
  const auto target = Target::open({});
  ASSERT_TRUE(target);
  // The tester sends to another address.
  (*target)->device().path.device_address[15] ^= 1;
  const auto findings = preflight(**target);
  const Finding* transfer = named(findings, "transfer");
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(transfer->status, Status::fail);
  EXPECT_NE(transfer->advice, "");
  EXPECT_TRUE(has_failure(findings));
  EXPECT_THAT(text_of(findings), testing::HasSubstr("\nfail  transfer  "));
}

TEST(Preflight, LostAgentFailsChecks) {
  const auto target = Target::open({});
  ASSERT_TRUE(target);
  (*target)->interrupt();
  const auto findings = preflight(**target);
  EXPECT_EQ(named(findings, "port")->status, Status::fail);
  EXPECT_EQ(named(findings, "agent's rights")->status, Status::fail);
  EXPECT_EQ(named(findings, "quiet")->status, Status::fail);
}

}  // namespace
}  // namespace rdmawire::conformance
