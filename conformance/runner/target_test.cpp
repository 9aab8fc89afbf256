#include "conformance/runner/target.hpp"

#include <gtest/gtest.h>

#include "conformance/cases/bench.hpp"

namespace rdmawire::conformance {
namespace {

/// The device's answer to a SEND, from its Ethernet type on; of a connection over that way.
std::vector<std::uint8_t> answer(DeviceUnderTest& device, Over over, std::size_t octets) {
  Bench bench(device, 1);
  Connected& qp = bench.rc({.receives = 1, .over = over});
  bench >> qp.send_only(psn(+0));
  const Seen seen = bench.wait(ack(psn(+0)).msn(1));
  return {seen.bytes.begin() + 12, seen.bytes.begin() + 12 + static_cast<std::ptrdiff_t>(octets)};
}

TEST(ReferenceTarget, IsReachedEachWay) {
  const auto target = Target::open({.device = "reference"});
  ASSERT_TRUE(target);
  DeviceUnderTest& device = (*target)->device();
  using Octets = std::vector<std::uint8_t>;
  EXPECT_EQ(answer(device, Over::ipv4, 3), (Octets{0x08, 0x00, 0x45}));
  EXPECT_EQ(answer(device, Over::ipv6, 3), (Octets{0x86, 0xdd, 0x60}));
  EXPECT_EQ(answer(device, Over::vlan, 7), (Octets{0x81, 0x00, 0x00, 0x07, 0x08, 0x00, 0x45}));
  EXPECT_EQ(answer(device, Over::roce_v1, 3), (Octets{0x89, 0x15, 0x60}));
}

TEST(ReferenceTarget, SaysWhichFaultThereIsNot) {
  const auto target = Target::open({.device = "reference", .faults = {"none-of-these"}});
  ASSERT_FALSE(target);
  EXPECT_TRUE(target.error().usage);
  EXPECT_EQ(target.error().message, "there is no fault \"none-of-these\"");
}

}  // namespace
}  // namespace rdmawire::conformance
