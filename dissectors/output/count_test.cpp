#include "dissectors/output/count.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace rdmawire::output {
namespace {

std::vector<std::uint8_t> roce(std::uint8_t opcode_value, std::size_t payload) {
  Frame frame =
      Value<Ethernet>() / Value<Ipv4>() / Value<Udp>() / Value<Bth>().set<"opcode">(opcode_value).set<"dest_qp">(17);
  for (const HeaderInfo* header : opcode(opcode_value).extension_headers()) frame /= HeaderValue(*header);
  frame.payload.resize(payload);
  return frame.encode();
}

TEST(Count, TreeSumsAndOperations) {
  Count count;
  tracking::Dissector dissector;
  tracking::Packet packet;
  std::uint64_t total_bytes = 0;
  auto add = [&](std::vector<std::uint8_t> bytes, std::int64_t time) {
    packet.time_ns = time;
    total_bytes += bytes.size();
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    count.add(packet);
  };
  for (int i = 0; i < 3; ++i) add(roce(0x04, 100), 1'000'000'000 + i);
  add(roce(0x11, 0), 2'500'000'000);
  auto damaged = roce(0x04, 100);
  damaged[80] ^= 1;
  add(damaged, 2'500'000'001);
  add({1, 2, 3}, 3'000'000'000);

  const auto json = nlohmann::json::parse(count.json());
  EXPECT_EQ(json["packets"], 6);
  EXPECT_EQ(json["bytes"], total_bytes);
  EXPECT_EQ(json["first"], "1.000000000");
  EXPECT_EQ(json["last"], "3.000000000");
  EXPECT_EQ(json["icrc"]["good"], 4);
  EXPECT_EQ(json["icrc"]["bad"], 1);
  EXPECT_EQ(json["findings"]["malformed"], 1);
  const Count::Node root = count.packets_by_protocol();
  ASSERT_EQ(root.children.size(), 2U);
  const Count::Node& bth = root.children[0].children[0].children[0].children[0];
  EXPECT_EQ(bth.name, "bth");
  EXPECT_EQ(bth.packets, 5U);
  ASSERT_EQ(bth.children.size(), 2U);
  EXPECT_EQ(bth.children[0].name, "RC SEND Only");
  EXPECT_EQ(bth.children[0].packets, 4U);
  EXPECT_EQ(bth.children[1].name, "RC Acknowledge");
  EXPECT_TRUE(bth.children[1].children.empty()) << "the opcode implies the AETH";
  EXPECT_EQ(root.children[1].name, "not decoded");
  EXPECT_NE(count.text(false).find("4 good"), std::string::npos);
  EXPECT_EQ(count.text(false).find('\033'), std::string::npos);
}

TEST(Count, CaptureLossIsReported) {
  Count count;
  EXPECT_TRUE(nlohmann::json::parse(count.json())["lost"].is_null()) << "unknown differs from zero";
  count.add_lost("eth0", 0);
  EXPECT_EQ(count.text(false).find("lost"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(count.json())["lost"], 0);
  count.add_lost("eth1", 7);
  count.add_lost("", 2);
  EXPECT_NE(count.text(false).find("the capture lost 9 packets: 7 at eth1\n"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(count.json())["lost"], 9);
}

TEST(Count, TimesBefore1970) {
  Count count;
  tracking::Packet packet;
  for (const std::int64_t time : {-5'000'000'000, -3'000'000'000}) {
    packet.time_ns = time;
    count.add(packet);
  }
  EXPECT_EQ(nlohmann::json::parse(count.json())["last"], "-3.000000000");
  EXPECT_NE(count.text(false).find(" in 2 s from 1969-12-31 23:59:55"), std::string::npos) << count.text(false);
}

TEST(Count, MaliciousStacksDoNotGrowTheTable) {
  Count count;
  tracking::Packet packet;
  std::mt19937 random(1);
  std::uint64_t packets = 0;
  for (int i = 0; i < 20000; ++i) {
    // Random stacks of VLAN tags, extension headers and opcodes have many more combinations than the table has rows.
    Frame frame;
    frame /= Value<Ethernet>();
    for (unsigned n = random() % 6; n > 0; --n) frame /= Value<Vlan>();
    frame /= Value<Ipv6>();
    for (unsigned n = random() % 6; n > 0; --n) frame /= Value<Ipv6Extension>();
    frame /= Value<Udp>();
    frame /= Value<Bth>().set<"opcode">(random());
    const auto bytes = frame.encode();
    decode(packet.stack, bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()));
    count.add(packet);
    ++packets;
  }
  const Count::Node root = count.packets_by_protocol();
  EXPECT_EQ(root.packets, packets);
  std::uint64_t sum = 0;
  for (const Count::Node& node : root.children) sum += node.packets;
  EXPECT_EQ(sum, packets);
}

}  // namespace
}  // namespace rdmawire::output
