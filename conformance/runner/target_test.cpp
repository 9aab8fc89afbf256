#include "conformance/runner/target.hpp"

#include <gtest/gtest.h>

#include "conformance/cases/bench.hpp"
#include "replay/peer/connection_manager.hpp"

namespace rdmawire::conformance {
namespace {

/// The device's response to a SEND over the given encapsulation, from the Ethernet type on.
std::vector<std::uint8_t> answer(DeviceUnderTest& device, Over over, std::size_t bytes) {
  Bench bench(device, 1);
  Connected& qp = bench.rc({.receives = 1, .over = over});
  bench >> qp.send_only(psn(+0));
  const Seen seen = bench.wait(ack(psn(+0)).msn(1));
  return {seen.bytes.begin() + 12, seen.bytes.begin() + 12 + static_cast<std::ptrdiff_t>(bytes)};
}

TEST(ReferenceTarget, RespondsOverEachEncapsulation) {
  const auto target = Target::open({.device = "reference"});
  ASSERT_TRUE(target);
  DeviceUnderTest& device = (*target)->device();
  using ByteVector = std::vector<std::uint8_t>;
  EXPECT_EQ(answer(device, Over::ipv4, 3), (ByteVector{0x08, 0x00, 0x45}));
  EXPECT_EQ(answer(device, Over::ipv6, 3), (ByteVector{0x86, 0xdd, 0x60}));
  EXPECT_EQ(answer(device, Over::vlan, 7), (ByteVector{0x81, 0x00, 0x00, 0x07, 0x08, 0x00, 0x45}));
  EXPECT_EQ(answer(device, Over::roce_v1, 3), (ByteVector{0x89, 0x15, 0x60}));
}

TEST(ReferenceTarget, UnknownFaultIsRejected) {
  const auto target = Target::open({.device = "reference", .faults = {"none-of-these"}});
  ASSERT_FALSE(target);
  EXPECT_TRUE(target.error().usage);
  EXPECT_EQ(target.error().message, "unknown fault \"none-of-these\"");
}

TEST(LabTarget, MissingAgentIsReportedBeforeTheLabIsPrepared) {
  TargetOptions options{.device = "lab:rxe", .agent = "/no/such/agent"};
  std::size_t steps = 0;
  options.progress = [&](std::string_view) { ++steps; };
  const auto target = Target::open(options);
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().message,
            "lab: no agent program /no/such/agent: No such file or directory; install rdmawire-agent next to rdmawire, "
            "or name it with --agent");
  EXPECT_EQ(steps, 0U);
}

TEST(ReferenceEndpointTarget, RespondsOverTcp) {
  const auto target = Target::open({.family = Family::iwarp, .faults = {"sends-reserved-setup-bits"}});
  ASSERT_TRUE(target) << target.error().message;
  DeviceUnderTest& device = (*target)->device();
  EXPECT_TRUE(device.is_iwarp());
  EXPECT_TRUE(device.virtual_time());
  EXPECT_EQ(device.wire, nullptr);
  EXPECT_EQ((*target)->destinations(), "10.0.0.1");
  EXPECT_FALSE((*target)->gone());
  MpaWishes wishes;
  wishes.crc = false;
  wishes.revision = 1;
  device.wish(wishes);
  const auto pd = device.device->protection_domain().value();
  const auto cq = device.device->completion_queue(4).value();
  const auto qp = pd.queue_pair({.send_cq = &cq}).value();
  ASSERT_TRUE(device.tcp->listen(4000, {}));
  const auto cm = peer::CmConnection::connect(*device.peer, qp, {.address = "10.0.0.200", .port = 4000}).value();
  const auto stream = device.tcp->accept(4000, device.now() + 1'000'000).value();
  ASSERT_TRUE(stream);
  const auto request = stream->receive(device.now() + 1'000'000).value();
  ASSERT_TRUE(request);
  ASSERT_EQ(request->bytes.size(), 20U);
  EXPECT_EQ(request->bytes[16], 0x05);  // without C, with the fault's reserved bits
  EXPECT_EQ(request->bytes[17], 1);
  (*target)->interrupt();
  EXPECT_FALSE(stream->receive(device.now() + 1'000'000));
  EXPECT_TRUE((*target)->gone());
}

TEST(ReferenceEndpointTarget, UnknownFaultIsRejected) {
  const auto target = Target::open({.family = Family::iwarp, .faults = {"no-such-fault"}});
  ASSERT_FALSE(target);
  EXPECT_TRUE(target.error().usage);
}

}  // namespace
}  // namespace rdmawire::conformance
