#include "replay/wires/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include "captures/io/reader.hpp"
#include "source_directory.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FileWireTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "fileXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string wire(const std::string& file) { return "file:" + (directory_ / file).string(); }

  static std::string bytes(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path directory_;
};

constexpr std::array<std::uint8_t, 3> abc{'a', 'b', 'c'};
constexpr std::array<std::uint8_t, 1> d{'d'};

TEST_F(FileWireTest, BytesAndTimesAreWrittenAsGiven) {
  const auto opened = open_wire(wire("x.pcap"));
  ASSERT_TRUE(opened) << opened.error().message;
  Wire& out = **opened;
  EXPECT_TRUE(out.capabilities().virtual_time);
  // The third time is before the second. The fourth is unspecified.
  const std::array<Outgoing, 4> frames{
      {{abc, 1'700'000'000'123'456'789}, {d, 1'700'000'001'000'000'000}, {abc, 1'699'999'999'999'999'999}, {d, 0}}};
  EXPECT_EQ(out.send(frames).value(), 4U);
  EXPECT_EQ(out.now(), 1'700'000'001'000'000'000);
  EXPECT_TRUE(out.flush(0).value());
  EXPECT_EQ(out.counters().sent, 4U);
  EXPECT_EQ(out.counters().sent_bytes, 8U);
  out.close();
  EXPECT_EQ(out.send(frames).error().kind, WireError::Kind::closed);

  const std::string file = bytes(directory_ / "x.pcap");
  ASSERT_EQ(file.size(), 24U + 4 * 16 + 8);
  EXPECT_EQ(file.substr(0, 4), "\x4d\x3c\xb2\xa1");
  // 1'700'000'000 s and 123'456'789 ns, 3 of 3 bytes.
  EXPECT_EQ(file.substr(24, 19), std::string("\x00\xf1\x53\x65\x15\xcd\x5b\x07\x03\x00\x00\x00\x03\x00\x00\x00"
                                             "abc",
                                             19));
  EXPECT_EQ(file.substr(24 + 19 + 17, 8), std::string("\xff\xf0\x53\x65\xff\xc9\x9a\x3b", 8));
  EXPECT_EQ(file.substr(24 + 19 + 17 + 19, 8), std::string("\x01\xf1\x53\x65\0\0\0\0", 8));
}

TEST_F(FileWireTest, CapturedFramesArriveAtTheirTimes) {
  const std::string sample = RDMAWIRE_SOURCE_DIR "/captures/samples/rping.pcap";
  auto reader = captures::Reader::open(sample);
  const auto in = open_wire("file:" + sample + ",read"), out = open_wire(wire("again.pcap"));
  ASSERT_TRUE(reader && in && out);
  captures::Record record;
  const std::int64_t start = (*in)->now();
  while (reader->next(record) == captures::Next::record) {
    if (reader->records() == 1) {
      EXPECT_EQ(start, record.time);
    }
    const auto early = (*in)->receive(record.time - 1);
    ASSERT_TRUE(early && !*early);
    EXPECT_EQ((*in)->now(), std::max(start, record.time - 1));
    const auto got = (*in)->receive(Wire::forever);
    ASSERT_TRUE(got && *got);
    EXPECT_EQ((*got)->time, record.time);
    ASSERT_TRUE(std::equal((*got)->frame.begin(), (*got)->frame.end(), record.bytes.begin(), record.bytes.end()));
    const Outgoing again{(*got)->frame, (*got)->time};
    ASSERT_EQ((*out)->send(std::span(&again, 1)).value(), 1U);
  }
  const auto over = (*in)->receive(Wire::forever);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind, WireError::Kind::down);
  EXPECT_THAT(over.error().message, HasSubstr("end of the capture after " + std::to_string(reader->records())));
  EXPECT_EQ((*in)->send(abc).error().kind, WireError::Kind::unsupported);
  (*out)->close();
  // Sent and received records are equal. The sample's file header may have an older version.
  auto again = captures::Reader::open(directory_ / "again.pcap");
  auto first = captures::Reader::open(sample);
  captures::Record one, other;
  while (first->next(one) == captures::Next::record) {
    ASSERT_EQ(again->next(other), captures::Next::record);
    EXPECT_EQ(one.time, other.time);
    EXPECT_TRUE(std::equal(one.bytes.begin(), one.bytes.end(), other.bytes.begin(), other.bytes.end()));
  }
  EXPECT_EQ(again->next(other), captures::Next::end);
}

TEST_F(FileWireTest, LinkTypeAndFormatAreConfigurable) {
  auto out = open_wire(wire("x.pcapng.gz") + ",link=infiniband");
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ((*out)->capabilities().link, LinkType::infiniband);
  ASSERT_TRUE((*out)->send(abc));
  (*out)->close();
  const auto in = open_wire(wire("x.pcapng.gz") + ",read");
  ASSERT_TRUE(in);
  EXPECT_EQ((*in)->capabilities().link, LinkType::infiniband);
  EXPECT_EQ((*in)->receive(0).value()->frame.size(), 3U);
  EXPECT_EQ(open_wire(wire("y.pcap") + ",link=197").value()->capabilities().link, LinkType::erf);
}

TEST_F(FileWireTest, SecondLinkTypeInFileIsAnError) {
  const auto in = open_wire("file:" RDMAWIRE_SOURCE_DIR "/captures/samples/two-interfaces.pcapng,read");
  ASSERT_TRUE(in);
  std::optional<WireError> error;
  while (!error)
    if (const auto got = (*in)->receive(Wire::forever); !got) error = got.error();
  EXPECT_EQ(error->kind, WireError::Kind::unsupported);
  EXPECT_THAT(error->message, HasSubstr("has link type raw_ip, the preceding frames have ethernet"));
}

TEST_F(FileWireTest, InvalidSpecificationsAreRejected) {
  EXPECT_EQ(open_wire(wire("no/x.pcap")).error().kind, WireError::Kind::system);
  const auto missing = open_wire(wire("none.pcap") + ",read");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, WireError::Kind::missing);
  EXPECT_THAT(missing.error().message, HasSubstr("none.pcap"));
  EXPECT_THAT(open_wire(wire("x") + ",link=token").error().message, HasSubstr("expected ethernet, infiniband"));
  EXPECT_THAT(open_wire(wire("x") + ",link=ethernet,read").error().message, HasSubstr("specifies its link type"));
  const auto out = open_wire(wire("x.pcap"));
  const Outgoing early{abc, -1};
  EXPECT_EQ((*out)->send(std::span(&early, 1)).error().kind, WireError::Kind::frame);
  EXPECT_EQ((*out)->receive(Wire::forever).error().kind, WireError::Kind::unsupported);
  EXPECT_EQ((*out)->counters().sent, 0U);
}

// A file size limit simulates a full disk.
TEST_F(FileWireTest, FramesNotWrittenToDiskAreNotCounted) {
  const auto out = open_wire(wire("x.pcap"));
  ASSERT_TRUE(out);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{24 + 10 * (16 + 100) + 7, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<std::uint8_t> frame(100, 7);
  const std::vector<Outgoing> frames(50, Outgoing{frame, 5});
  EXPECT_EQ((*out)->send(frames).value(), 50U);
  const auto flushed = (*out)->flush(Wire::forever);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(flushed);
  EXPECT_THAT(flushed.error().message, HasSubstr("stopped after 10 packets"));
  EXPECT_EQ((*out)->counters().sent, 10U);
  EXPECT_EQ((*out)->counters().sent_bytes, 1000U);
  EXPECT_EQ(fs::file_size(directory_ / "x.pcap"), 24U + 10 * 116);
}

}  // namespace
}  // namespace rdmawire::replay
