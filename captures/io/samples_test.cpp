/// Checks that all captures in captures/samples can be read and match their README.

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "captures/io/test_support.hpp"
#include "captures/io/writer.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;

const std::string samples = RDMAWIRE_SOURCE_DIR "/captures/samples/";

const std::map<std::string, std::size_t> frames_of{
    {"linlinw5-cm.pcap", 96},          {"linlinw5-rc-write.pcap", 45},
    {"linlinw5-uc-pingpong.pcap", 21}, {"nvme-over-rdma.pcap.zst", 650},
    {"rc-atomic.pcap", 156},           {"rc-pingpong-loss.pcap.gz", 1042},
    {"rc-pingpong.pcap.gz", 973},      {"rc-read-loss.pcap.zst", 3762},
    {"rc-read.pcap.gz", 940},          {"rc-send.pcap.gz", 920},
    {"rc-write-ipv6.pcap", 160},       {"rping.pcap", 379},
    {"siw-read.pcap.gz", 998},         {"siw-rping.pcap", 306},
    {"siw-send.pcap.gz", 964},         {"siw-write-loss.pcap.gz", 956},
    {"siw-write.pcap.gz", 970},        {"srq-pingpong.pcap.gz", 384},
    {"rc-write-jumbo.pcapng.zst", 63}, {"siw-nvme-ipv6.pcapng.zst", 303},
    {"two-interfaces.pcapng", 37},     {"ucmatose.pcap", 219},
    {"ud-pingpong.pcap", 125},         {"mrc.pcap", 223},
};

TEST(Samples, EachIsCompleteAndDescribed) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(samples))
    if (entry.path().extension() != ".md") found.push_back(entry.path().filename().string());
  EXPECT_EQ(found.size(), frames_of.size());
  const ByteVector readme_bytes = read_file(samples + "README.md");
  const std::string readme(readme_bytes.begin(), readme_bytes.end());
  for (const std::string& name : found) {
    ASSERT_TRUE(frames_of.contains(name)) << name;
    auto reader = Reader::open(samples + name);
    ASSERT_TRUE(reader) << to_string(reader.error());
    const Whole whole = read_all(*reader);
    EXPECT_EQ(whole.error, "");
    EXPECT_EQ(whole.packets.size(), frames_of.at(name)) << name;
    EXPECT_EQ(reader->compression(), compression_of_name(name));
    for (const Packet& packet : whole.packets) EXPECT_EQ(packet.bytes.size(), packet.wire_length) << name;
    const auto place = readme.find("`" + name + "`");
    ASSERT_NE(place, std::string::npos) << name;
    const std::string line = readme.substr(place, readme.find('\n', place) - place);
    EXPECT_NE(line.find(" " + std::to_string(frames_of.at(name)) + " "), std::string::npos)
        << "the README has a different number of frames: " << line;
  }
}

/// Creates two-interfaces.pcapng.
void make_two_interfaces(const std::string& path) {
  struct Made {
    Packet packet;
    std::string comment;
  };
  std::vector<Made> made;
  auto rping = read_all(Reader::open(samples + "rping.pcap")).packets;
  auto siw = read_all(Reader::open(samples + "siw-rping.pcap")).packets;
  ASSERT_GE(rping.size(), 20u);
  ASSERT_GE(siw.size(), 33u);
  // The times of the two captures overlap, and are not multiples of a microsecond.
  const std::int64_t shift = rping[14].time - siw[16].time + 123;
  for (std::size_t i = 0; i < 20; ++i) made.push_back({rping[i], ""});
  made[14].comment = "CM ConnectRequest: the connection begins here";
  for (std::size_t i = 16; i < 33; ++i) {
    Packet packet = siw[i];
    constexpr std::uint32_t ethernet_header = 14;
    packet.bytes.erase(packet.bytes.begin(), packet.bytes.begin() + ethernet_header);
    packet.wire_length -= ethernet_header;
    packet.time += shift;
    packet.interface = 1;
    made.push_back({packet, ""});
  }
  made.back().comment = "the last packet taken from the second capture";
  std::stable_sort(made.begin(), made.end(),
                   [](const Made& a, const Made& b) { return a.packet.time < b.packet.time; });

  Section section;
  section.application = "rdmawire";
  section.comments = {"made from rping.pcap and siw-rping.pcap"};
  auto writer = Writer::create(path, {.section = section});
  ASSERT_TRUE(writer);
  Interface eth0, tun0;
  eth0.name = "eth0";
  eth0.description = "the first machine's network port";
  eth0.snap_length = 262144;
  tun0 = eth0;
  tun0.link = LinkType::raw_ip;
  tun0.name = "tun0";
  tun0.comments = {"Ethernet headers were taken off"};
  ASSERT_EQ(writer->add_interface(eth0), 0u);
  ASSERT_EQ(writer->add_interface(tun0), 1u);
  for (const Made& m : made) {
    Record record;
    record.bytes = m.packet.bytes;
    record.time = m.packet.time;
    record.wire_length = m.packet.wire_length;
    record.interface = m.packet.interface;
    std::vector<std::string_view> comments;
    if (!m.comment.empty()) comments.push_back(m.comment);
    ASSERT_TRUE(writer->write(record, comments));
  }
  InterfaceStatistics statistics;
  statistics.start_time = made.front().packet.time;
  statistics.end_time = statistics.time = made.back().packet.time;
  statistics.received = 27;
  statistics.interface_drops = 2;
  statistics.system_drops = 5;
  ASSERT_TRUE(writer->write(0, statistics));
  statistics.received = 17;
  statistics.interface_drops = statistics.system_drops = 0;
  ASSERT_TRUE(writer->write(1, statistics));
  ASSERT_TRUE(writer->close());
}

TEST(Samples, TwoInterfacesEqualsWriterOutput) {
  const TemporaryDirectory directory;
  const std::string path = std::getenv("RDMAWIRE_UPDATE_SAMPLES") != nullptr ? samples + "two-interfaces.pcapng"
                                                                             : directory.file("x.pcapng");
  make_two_interfaces(path);
  EXPECT_EQ(read_file(path), read_file(samples + "two-interfaces.pcapng"));
}
TEST(Samples, TwoInterfacesHasPcapngFeatures) {
  auto reader = Reader::open(samples + "two-interfaces.pcapng");
  ASSERT_TRUE(reader) << to_string(reader.error());
  EXPECT_THAT(reader->sections()[0].comments, ElementsAre("made from rping.pcap and siw-rping.pcap"));
  const Whole whole = read_all(*reader);
  EXPECT_EQ(whole.error, "");
  EXPECT_TRUE(reader->nanoseconds());
  ASSERT_EQ(reader->interfaces().size(), 2u);
  EXPECT_EQ(reader->interfaces()[0].statistics->drops(), 7u);
  EXPECT_EQ(reader->interfaces()[1].statistics->drops(), 0u);
  std::size_t raw = 0, comments = 0;
  for (const Packet& packet : whole.packets) {
    raw += packet.link == LinkType::raw_ip ? 1 : 0;
    comments += packet.comments.size();
    if (packet.link == LinkType::raw_ip && packet.bytes[0] >> 4 != 4)
      ADD_FAILURE() << "not IPv4: frame " << packet.number;
  }
  EXPECT_EQ(raw, 17u);
  EXPECT_EQ(comments, 2u);
}

/// Every sample must be unchanged after conversion to every supported format and compression.
TEST(Samples, RoundTripThroughEveryFormat) {
  const TemporaryDirectory directory;
  for (const auto& [name, frames] : frames_of) {
    if (name == "rc-read-loss.pcap.zst") continue;  // skipped, because it is large and has no additional features
    for (const char* ending : {"x.pcap", "x.pcapng", "x.pcapng.zst"}) {
      // pcap does not support several interfaces and link types.
      if (name.find(".pcapng") != std::string::npos && std::string(ending) == "x.pcap") continue;
      const std::string path = directory.file(ending);
      auto reader = Reader::open(samples + name);
      ASSERT_TRUE(reader);
      auto writer = Writer::create(path);
      ASSERT_TRUE(writer);
      Record record;
      std::vector<Packet> expected;
      std::size_t described = 0;
      while (reader->next(record) == Next::record) {
        while (described <= record.interface) ASSERT_TRUE(writer->add_interface(reader->interfaces()[described++]));
        ASSERT_TRUE(writer->write(record));
        expected.push_back(copy(record));
      }
      ASSERT_TRUE(writer->close());
      Whole converted = read_all(Reader::open(path));
      EXPECT_EQ(converted.error, "");
      ASSERT_EQ(converted.packets.size(), frames);
      for (std::size_t i = 0; i < frames; ++i) converted.packets[i].position = expected[i].position;
      EXPECT_EQ(converted.packets, expected) << name << " through " << ending;
    }
  }
}

}  // namespace
}  // namespace rdmawire::captures
