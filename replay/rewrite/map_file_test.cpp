#include "replay/rewrite/map_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "replay/rewrite/maps_for_test.hpp"
#include "source_directory.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;
using tracking::testing::sample;

std::string error_of(std::string_view text) {
  const auto map = read_flow_map(text);
  return map ? "no error" : map.error();
}

constexpr std::string_view small = R"({
  "rdmawire": "flow map 1",
  "connections": [{
    "name": "the one",
    "service": "rc",
    "a": {"address": {"captured": "10.0.0.2", "live": "192.168.1.2"}, "mac": "02:00:00:00:00:aa",
          "qp": {"captured": "0x12", "live": 1911}, "psn": {"captured": 1000, "live": 5}},
    "b": {"address": {"captured": "10.0.0.3"}, "qp": {"captured": "0x11", "live": null},
          "regions": [{"key": {"captured": "0x1234", "live": "0xabcd"}, "base": {"captured": 4096, "live": 8192},
                       "length": 100}]},
    "vlan": {"captured": "none", "live": 7}
  }]
})";

TEST(MapFile, ReadsCapturedAndLiveValues) {
  const auto map = read_flow_map(small);
  ASSERT_TRUE(map) << map.error();
  ASSERT_EQ(map->connections.size(), 1U);
  const MappedConnection& c = map->connections[0];
  EXPECT_EQ(c.name, "the one");
  EXPECT_EQ(c.at(Side::a).address.live, PortAddress::of_ipv4(0xc0a80102));
  EXPECT_EQ(c.at(Side::a).mac.live, 0x0200000000aaU);
  EXPECT_FALSE(c.at(Side::a).mac.captured) << "a plain value is the live value";
  EXPECT_EQ(c.at(Side::a).qp.live, 1911U);
  EXPECT_EQ(c.at(Side::a).psn.offset(), 5U - 1000U);
  EXPECT_FALSE(c.at(Side::b).qp.live);
  ASSERT_EQ(c.at(Side::b).regions.size(), 1U);
  EXPECT_EQ(c.at(Side::b).regions[0].base.live, 8192U);
  EXPECT_EQ(c.vlan.id.captured, MappedVlan::untagged);
  EXPECT_EQ(c.vlan.id.live, 7);
}

/// Replaces each live value that is null in a written map by a valid value.
std::string completed(std::string text) {
  std::size_t at = 0;
  const std::string null = "\"live\": null";
  while ((at = text.find(null, at)) != std::string::npos) {
    const std::size_t open = text.rfind('{', at);
    const std::size_t quote = text.rfind("\": ", open);
    const std::string field = text.substr(text.rfind('"', quote - 1) + 1, quote - text.rfind('"', quote - 1) - 1);
    const bool v4 = text.substr(open, at - open).find('.') != std::string::npos;
    const bool lid = text.substr(open, at - open).find("LID") != std::string::npos;
    const std::string live = field == "address" ? (lid  ? "\"LID 9\""
                                                   : v4 ? "\"192.0.2.1\""
                                                        : "\"fd00::1\"")
                             : field == "mac"   ? "\"02:00:00:00:00:01\""
                             : field == "mtu"   ? "512"
                                                : "5";
    text.replace(at, null.size(), "\"live\": " + live);
  }
  return text;
}

TEST(MapFile, AllOfferedFieldsAreAccepted) {
  std::size_t maps = 0;
  for (const auto& file : std::filesystem::directory_iterator(RDMAWIRE_SOURCE_DIR "/captures/samples")) {
    const std::string name = file.path().filename().string();
    if (name.find(".pcap") == std::string::npos) continue;
    const std::string text = write_flow_map(testing::learn(file.path().string()).map);
    maps += text.find("\"live\"") != std::string::npos;
    const auto map = read_flow_map(completed(text));
    EXPECT_TRUE(map) << name << ": " << (map ? "" : map.error());
    EXPECT_EQ(write_flow_map(map.value_or(FlowMap{})).find("null}"), std::string::npos) << name;
  }
  EXPECT_GT(maps, 10U);

  MappedConnection half;  // no request of endpoint a, and a packet size that is no path MTU
  half.at(Side::a).address.captured = half.at(Side::b).address.captured = PortAddress::of_ipv4(1);
  half.at(Side::b).qp.captured = 5;
  half.mtu.captured = 1000;
  const auto map = read_flow_map(completed(write_flow_map({{half}, {}})));
  EXPECT_TRUE(map) << map.error();
}

TEST(MapFile, NetworksAndPortsRoundTrip) {
  FlowMap map;
  for (const char* text : {"ip:10.0.0.0/8=172.16.0.0/12", "ip:fd00::/64=fd01::/48", "port:80=8080", "port:1000-2000=7",
                           "src-ip:10.0.0.0/8=172.16.0.0/12", "dst-ip:10.0.0.2=10.0.0.9", "dst-ip:fd00::1=fd00::2"})
    ASSERT_TRUE(assign(map, text)) << text;
  ASSERT_EQ(map.prefixes.size(), 2U);
  ASSERT_EQ(map.ports.size(), 2U);
  ASSERT_EQ(map.source_prefixes.size(), 1U);
  ASSERT_EQ(map.destination_prefixes.size(), 2U);
  EXPECT_THAT(assign(map, "src-ip:10.0.0.1=fd00::1").error(), HasSubstr("both IPv4 or both IPv6"));
  const std::string text = write_flow_map(map);
  const auto read = read_flow_map(text);
  ASSERT_TRUE(read) << read.error() << text;
  EXPECT_EQ(*read, map);
  EXPECT_THAT(error_of(R"({"rdmawire": "flow map 1", "prefixes": [{"captured": "10.0.0.0/8"}]})"),
              HasSubstr("/prefixes/0/live: expected a string"));
  EXPECT_THAT(error_of(R"({"rdmawire": "flow map 1", "ports": [{"captured": "x", "live": 80}]})"),
              HasSubstr("/ports/0: expected a port"));
}

TEST(MapFile, WrittenMapRoundTrips) {
  for (const char* name : {"rping.pcap", "ud-pingpong.pcap", "siw-rping.pcap", "rc-write-jumbo.pcapng.zst"}) {
    Learnt learnt = testing::learn(sample(name));
    const std::string as_template = write_flow_map(learnt.map);
    EXPECT_THAT(as_template, HasSubstr("\"live\": null"));
    ASSERT_TRUE(read_flow_map(as_template)) << read_flow_map(as_template).error();
    EXPECT_EQ(*read_flow_map(as_template), learnt.map) << as_template;
    testing::invent_live(learnt.map, 3);
    learnt.map.hosts.push_back({{PortAddress::of_ipv4(1), PortAddress::of_ipv4(2)}, {std::nullopt, 0x020000000001}});
    const std::string text = write_flow_map(learnt.map);
    ASSERT_TRUE(read_flow_map(text)) << read_flow_map(text).error() << text;
    EXPECT_EQ(*read_flow_map(text), learnt.map) << text;
  }
}

TEST(MapFile, ErrorContainsPosition) {
  EXPECT_THAT(error_of("{\n  \"rdmawire\": \"flow map 1\",\n  oops\n}"), HasSubstr("line 3, column 3"));
  EXPECT_EQ(error_of("{}"), "/rdmawire: must be \"flow map 1\", the format of the file");
  EXPECT_EQ(error_of("[]"), "/: expected an object, not []");
  auto with = [](std::string_view what, std::string_view instead) {
    std::string text(small);
    text.replace(text.find(what), what.size(), instead);
    return error_of(text);
  };
  EXPECT_EQ(with("1911", "16777216"), "/connections/0/a/qp/live: 16777216 is more than 16777215");
  EXPECT_EQ(with("\"name\"", "\"nmae\""), "/connections/0/nmae: unknown member; did you mean \"name\"?");
  EXPECT_EQ(with("192.168.1.2", "fd00::2"),
            "/connections/0/a/address: captured and live address must be both IPv4 or both IPv6");
  EXPECT_EQ(with("02:00:00:00:00:aa", "02:00"),
            "/connections/0/a/mac: expected a MAC address (\"52:54:00:00:00:02\"), not \"02:00\"");
  EXPECT_THAT(with("\"captured\": 1000, ", ""),
              HasSubstr("/connections/0/a/psn: a live number requires the captured one"));
  EXPECT_THAT(with("\"service\": \"rc\"", "\"service\": \"rcx\""),
              HasSubstr("/connections/0/service: expected rc, uc"));
  EXPECT_THAT(with("{\"captured\": \"10.0.0.3\"}", "null"),
              HasSubstr("/connections/0/b/address: missing captured address"));
  EXPECT_THAT(error_of(std::string(1000, '[')), HasSubstr("line 1, column"));
  EXPECT_EQ(error_of(std::string(1000, '[') + std::string(1000, ']')), "nested more than 16 levels deep");
}

TEST(MapFile, KeepsVlansOfAllFrames) {
  FlowMap map;
  map.vlans = {MappedVlan{{MappedVlan::untagged, 7}}, MappedVlan{{8, MappedVlan::untagged}},
               MappedVlan{{std::nullopt, 9}}};
  const auto read = read_flow_map(write_flow_map(map));
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(*read, map);
}

FlowMap learnt_rping() { return testing::learn(sample("rping.pcap")).map; }

TEST(MapAssignment, SetsLiveValuesOfCapturedConnections) {
  FlowMap map = learnt_rping();
  for (const char* text : {"ip:10.0.0.3=192.168.1.3", "mac:10.0.0.3=02:00:00:00:00:03", "qp:10.0.0.2/0x11=0x777",
                           "psn:10.0.0.3/0x11=77", "rkey:0x4bc=0x999@0x1000", "pkey:0xffff=0x8001", "vlan:none=7",
                           "mtu:1024=4096", "source-port:10.0.0.3=50000"}) {
    const auto done = assign(map, text);
    EXPECT_TRUE(done) << done.error();
  }
  const MappedConnection& c = map.connections[0];
  EXPECT_EQ(c.at(Side::a).address.live, PortAddress::of_ipv4(0xc0a80103));
  EXPECT_EQ(c.at(Side::a).mac.live, 0x020000000003U);
  EXPECT_FALSE(c.at(Side::a).qp.live);
  EXPECT_EQ(c.at(Side::b).qp.live, 0x777U);
  EXPECT_EQ(c.at(Side::a).psn.live, 77U);
  EXPECT_EQ(c.at(Side::a).regions[0].key.live, 0x999U);
  EXPECT_EQ(c.at(Side::a).regions[0].base.live, 0x1000U);
  EXPECT_EQ(c.pkey.live, 0x8001);
  ASSERT_EQ(map.vlans.size(), 1U) << "of all frames";
  EXPECT_EQ(map.vlans[0].id, (Mapped<std::uint16_t>{MappedVlan::untagged, 7}));
  EXPECT_EQ(c.mtu.live, 4096U);
  EXPECT_EQ(c.at(Side::a).source_port.live, 50'000);
  ASSERT_EQ(map.hosts.size(), 1U) << "also for ARP and ping of the host";
}

TEST(MapAssignment, UnknownCapturedValueIsAnError) {
  FlowMap map = learnt_rping();
  auto error = [&](std::string_view text) {
    const auto done = assign(map, text);
    return done ? "no error" : done.error();
  };
  EXPECT_EQ(error("qp:0x12=0x777"), "qp:0x12=0x777: the capture contains no such endpoint of a connection");
  EXPECT_EQ(error("rkey:0x1=0x2"), "rkey:0x1=0x2: the capture contains no such key");
  EXPECT_EQ(error("qp:0x11=0x1000000"), "qp:0x11=0x1000000: expected a number up to 16777215 on the right");
  for (const char* id : {"4096", "5000", "x", ""})
    EXPECT_EQ(error(std::string("vlan:none=") + id),
              std::string("vlan:none=") + id + ": expected a number up to 4095 or none on the right");
  EXPECT_EQ(error("vlan:none=7"), "no error");
  EXPECT_EQ(error("vlan:none=8"), "vlan:none=8: another assignment changes the same VLAN");
  EXPECT_EQ(error("vlan:4096=7"), "vlan:4096=7: expected a number up to 4095, none or * on the left");
  EXPECT_EQ(error("qp"), "qp: expected KIND:CAPTURED=LIVE, for example qp:0x11=0x777");
  EXPECT_EQ(error("ip:10.0.0.2=fd00::1"), "ip:10.0.0.2=fd00::1: the addresses must be both IPv4 or both IPv6");
  EXPECT_EQ(error("mtu:1024=1000"), "mtu:1024=1000: expected a path MTU on the right (256, 512, 1024, 2048, 4096)");
  EXPECT_EQ(error("qkey:10.0.0.9=1"), "qkey:10.0.0.9=1: the capture contains no such endpoint of a connection");
  EXPECT_THAT(error("psm:1=2"), HasSubstr("did you mean psn?"));
  EXPECT_THAT(error("xyzzy:1=2"), HasSubstr("unknown kind of assignment; expected ip, mac, port, qp"));
  EXPECT_THAT(error("ip:10.0.0.0/8=fd00::/8"), HasSubstr("both IPv4 or both IPv6"));
  EXPECT_THAT(error("ip:10.0.0.0/33=10.0.0.0/8"), HasSubstr("expected networks"));
  EXPECT_THAT(error("ip:10.0.0.0/8=10.0.0.1"), HasSubstr("expected networks"));
  EXPECT_THAT(error("port:80-70=5"), HasSubstr("expected a port or a range"));
  EXPECT_THAT(error("port:80=65536"), HasSubstr("expected a port or a range"));
}

}  // namespace
}  // namespace rdmawire::replay
