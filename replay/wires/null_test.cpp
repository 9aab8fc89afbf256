#include "replay/wires/null.hpp"

#include <gtest/gtest.h>

#include <array>

namespace rdmawire::replay {
namespace {

TEST(NullWire, FramesAreDiscardedAtTheirTime) {
  const auto opened = open_wire("null");
  ASSERT_TRUE(opened);
  Wire& wire = **opened;
  const std::array<std::uint8_t, 9> bytes{};
  const std::int64_t due = wire.now() + 3'000'000;
  const std::array<Outgoing, 3> frames{{{bytes, 0}, {bytes, due}, {{}, due}}};
  EXPECT_EQ(wire.send(frames).value(), 3U);
  EXPECT_GE(wire.now(), due);
  EXPECT_EQ(wire.counters().sent, 3U);
  EXPECT_EQ(wire.counters().sent_bytes, 18U);
  EXPECT_FALSE(wire.receive(0).value());
  EXPECT_EQ(wire.receive(Wire::forever).error().kind, WireError::Kind::unsupported);
  wire.close();
  EXPECT_EQ(wire.send(frames).error().kind, WireError::Kind::closed);
}

TEST(NullWire, NameHasNoAddress) {
  EXPECT_EQ(open_wire("null,link=infiniband").value()->capabilities().link, LinkType::infiniband);
  for (const char* name : {"null:x", "null:", "nulls", "null,", "null,link=x", "null,quick"}) {
    const auto wire = open_wire(name);
    ASSERT_FALSE(wire) << name;
    EXPECT_EQ(wire.error().kind, WireError::Kind::specification) << name;
  }
}

}  // namespace
}  // namespace rdmawire::replay
