#include "captures/io/compression.hpp"

#include <gmock/gmock.h>

#include "captures/io/test_support.hpp"
#include "captures/io/writer.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
using ::testing::HasSubstr;

/// Returns a pcap file with `count` packets of `size` random bytes, which cannot be compressed.
ByteVector capture_of(std::size_t count, std::size_t size) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x.pcap");
  auto writer = Writer::create(path);
  EXPECT_TRUE(writer);
  EXPECT_TRUE(writer->add_interface({}));
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    ByteVector bytes(size);
    for (auto& b : bytes) b = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    Record record;
    record.bytes = bytes;
    record.wire_length = static_cast<std::uint32_t>(size);
    record.time = 1'000'000'000 + static_cast<std::int64_t>(i);
    EXPECT_TRUE(writer->write(record));
  }
  EXPECT_TRUE(writer->close());
  return read_file(path);
}

/// Returns `capture` as one gzip member or zstd frame.
ByteVector compressed(const ByteVector& capture, Compression compression) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x");
  auto reader = Reader::from_memory(capture);
  EXPECT_TRUE(reader);
  auto writer = Writer::create(path, {.format = Format::pcap, .compression = compression});
  EXPECT_TRUE(writer);
  EXPECT_TRUE(writer->add_interface(reader->interfaces()[0]));
  Record record;
  while (reader->next(record) == Next::record) EXPECT_TRUE(writer->write(record));
  EXPECT_TRUE(writer->close());
  return read_file(path);
}

class Compressed : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(Both, Compressed, ::testing::Values(Compression::gzip, Compression::zstd),
                         [](const auto& instance) { return std::string(to_string(instance.param)); });

TEST_P(Compressed, HasTheSameRecords) {
  const ByteVector plain = capture_of(3000, 700);
  const Whole expected = read_all(Reader::from_memory(plain));
  ASSERT_EQ(expected.packets.size(), 3000u);
  const ByteVector packed = compressed(plain, GetParam());
  ASSERT_EQ(detect_compression(packed), GetParam());
  auto reader = Reader::from_memory(packed);
  ASSERT_TRUE(reader) << to_string(reader.error());
  EXPECT_EQ(reader->compression(), GetParam());
  EXPECT_FALSE(reader->stable());
  const Whole whole = read_all(*reader);
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.packets, expected.packets);
}

TEST_P(Compressed, ConcatenatedFramesAreOneCapture) {
  const ByteVector plain = capture_of(10, 100);
  const TemporaryDirectory directory;
  const char* const tool = GetParam() == Compression::gzip ? "gzip -c" : "zstd -qc";
  if (!installed(GetParam() == Compression::gzip ? "gzip" : "zstd")) GTEST_SKIP() << "skipped: needs " << tool;
  // The capture is split within a record header, so that no gzip member or zstd frame is a complete capture.
  write_file(directory.file("a"), ByteVector(plain.begin(), plain.begin() + 500));
  write_file(directory.file("b"), ByteVector(plain.begin() + 500, plain.end()));
  const std::string packed = directory.file("x");
  const std::string t(tool);
  output_of("(" + t + " <" + quoted(directory.file("a")) + "; " + t + " <" + quoted(directory.file("b")) + ") >" +
            quoted(packed));
  const Whole whole = read_all(Reader::open(packed));
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.packets, read_all(Reader::from_memory(plain)).packets);
}

TEST_P(Compressed, PcapngRoundTrip) {
  const TemporaryDirectory directory;
  const std::string path = directory.file(GetParam() == Compression::gzip ? "x.pcapng.gz" : "x.pcapng.zst");
  {
    auto writer = Writer::create(path);
    ASSERT_TRUE(writer);
    EXPECT_EQ(writer->format(), Format::pcapng);
    ASSERT_TRUE(writer->add_interface({}));
    const ByteVector bytes = hex("0102030405");
    Record record;
    record.bytes = bytes;
    const std::vector<std::string_view> comments{"in a compressed file"};
    ASSERT_TRUE(writer->write(record, comments));
    ASSERT_TRUE(writer->close());
  }
  EXPECT_EQ(detect_compression(read_file(path)), GetParam());
  const Whole whole = read_all(Reader::open(path));
  EXPECT_EQ(whole.error, "");
  ASSERT_EQ(whole.packets.size(), 1u);
  EXPECT_EQ(whole.packets[0].comments.at(0), "in a compressed file");
}

TEST_P(Compressed, CorruptStreamYieldsPrecedingRecordsAndError) {
  const ByteVector plain = capture_of(4000, 700);  // 2.8 MB, which are many blocks
  const Whole expected = read_all(Reader::from_memory(plain));
  ByteVector packed = compressed(plain, GetParam());
  for (std::size_t i = packed.size() / 2; i < packed.size() / 2 + 64; ++i) packed[i] ^= 0xff;
  const Whole whole = read_all(Reader::from_memory(packed, "x"));
  EXPECT_EQ(whole.kind, CaptureError::Kind::compression) << whole.error;
  EXPECT_THAT(whole.error,
              HasSubstr(std::string("the ") + std::string(to_string(GetParam())) + " stream is corrupt near byte "));
  EXPECT_THAT(whole.error, HasSubstr("stopped after " + std::to_string(whole.packets.size()) + " packets"));
  // Random bytes are stored uncompressed, so only the checksum at the end detects the error.
  EXPECT_GT(whole.packets.size(), 1000u);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(whole.packets[i], expected.packets[i]);
}

TEST_P(Compressed, TruncationAtAnyByteIsReported) {
  const ByteVector plain = capture_of(5, 40);
  const ByteVector packed = compressed(plain, GetParam());
  for (std::size_t length = 4; length < packed.size(); ++length) {
    const ByteVector cut(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(length));
    const Whole whole = read_all(Reader::from_memory(cut, "x"));
    ASSERT_EQ(whole.kind, CaptureError::Kind::compression) << length << ": " << whole.error;
    ASSERT_THAT(whole.error,
                HasSubstr("stream is truncated at byte " + std::to_string(length) + " of the compressed file"));
    ASSERT_LE(whole.packets.size(), 5u);
  }
}

TEST(Gzip, ZerosAfterTheLastMemberArePadding) {
  const ByteVector plain = capture_of(5, 40);
  const ByteVector packed = compressed(plain, Compression::gzip);
  EXPECT_EQ(read_all(Reader::from_memory(packed + ByteVector(1000))).error, "");
  const Whole garbage = read_all(Reader::from_memory(packed + hex("0102030405060708"), "x"));
  EXPECT_EQ(garbage.packets.size(), 5u);
  EXPECT_THAT(garbage.error, HasSubstr("the gzip stream is corrupt near byte"));
}
TEST(Gzip, EmptyContentIsAnError) {
  const ByteVector nothing = hex("1f8b0800 00000000 0003 0300 00000000 00000000");
  EXPECT_EQ(read_all(Reader::from_memory(nothing, "x")).error, "x: is empty after decompression");
}
TEST(Zstd, SkippableFrameBeforeTheData) {
  const ByteVector packed = compressed(capture_of(5, 40), Compression::zstd);
  const Whole whole = read_all(Reader::from_memory(hex("502a4d18 04000000 01020304") + packed));
  EXPECT_EQ(whole.error, "");
  EXPECT_EQ(whole.packets.size(), 5u);
}
TEST(Zstd, HugeWindowIsRejected) {
  // A frame header without the single segment flag. The window descriptor is 0xf8: 2^41 bytes.
  const Whole whole = read_all(Reader::from_memory(hex("28b52ffd 00 f8 010000"), "x"));
  EXPECT_EQ(whole.kind, CaptureError::Kind::compression);
  EXPECT_THAT(whole.error, HasSubstr("Frame requires too much memory"));
}
TEST(Compression, ByName) {
  EXPECT_EQ(compression_of_name("a.pcap.gz"), Compression::gzip);
  EXPECT_EQ(compression_of_name("a.zst"), Compression::zstd);
  EXPECT_EQ(compression_of_name("a.pcapng"), Compression::none);
}

}  // namespace
}  // namespace rdmawire::captures
