#include "dissectors/tracking/tcp_stream.hpp"

#include <gtest/gtest.h>

#include <random>

namespace rdmawire::tracking {
namespace {

using Arrival = TcpStream::Arrival;

// Records the output as text. '?' is a lost byte.
struct Recorder final : TcpStream::Sink {
  std::vector<std::uint8_t> got;
  std::uint64_t at = 0;
  void bytes(std::uint64_t offset, Bytes bytes, bool) override {
    if (at == 0) at = offset;
    EXPECT_EQ(offset, at);
    got.insert(got.end(), bytes.begin(), bytes.end());
    at = offset + bytes.size();
  }
  void gap(std::uint64_t from, std::uint64_t to) override {
    if (at == 0) at = from;
    EXPECT_EQ(from, at);
    EXPECT_LT(from, to);
    got.insert(got.end(), to - from, '?');
    at = to;
  }
  [[nodiscard]] std::string text() const { return {got.begin(), got.end()}; }
};

struct Stream {
  TcpStream tcp;
  Recorder out;
  std::uint32_t first;
  explicit Stream(std::uint32_t seq = 1000) : first(seq) { tcp.start(seq); }
  Arrival segment(std::uint32_t offset, std::string_view text, std::uint32_t length = 0) {
    const Bytes bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    return tcp.accept(first + offset, std::max(length, static_cast<std::uint32_t>(text.size())), bytes, true, out);
  }
};

TEST(TcpStream, OrdersSegments) {
  Stream s;
  EXPECT_EQ(s.segment(0, "abc"), Arrival::in_order);
  EXPECT_EQ(s.segment(6, "ghi"), Arrival::ahead);
  EXPECT_EQ(s.segment(3, "def"), Arrival::fills_gap);
  EXPECT_EQ(s.out.text(), "abcdefghi");
  EXPECT_EQ(s.tcp.buffered(), 0U);
}

TEST(TcpStream, FirstBytesWinWhereSegmentsOverlap) {
  Stream s;
  s.segment(4, "EF");
  s.segment(3, "xxxxx");
  s.segment(2, "yyyyyyyyyy");
  s.segment(0, "ab");
  EXPECT_EQ(s.out.text(), "abyxEFxxyyyy");
}

TEST(TcpStream, RetransmissionAndKeepAliveAddNoBytes) {
  Stream s;
  s.segment(0, "abcd");
  EXPECT_EQ(s.segment(0, "abcd"), Arrival::retransmission);
  EXPECT_EQ(s.segment(3, "d"), Arrival::keep_alive);
  EXPECT_EQ(s.segment(3, ""), Arrival::keep_alive);
  EXPECT_EQ(s.segment(4, ""), Arrival::empty);
  EXPECT_EQ(s.segment(2, "cdef"), Arrival::in_order);
  EXPECT_EQ(s.out.text(), "abcdef");
}

TEST(TcpStream, SequenceNumbersWrap) {
  Stream s(0xfffffffe);
  s.segment(0, "abcd");
  s.segment(8, "ij");
  s.segment(4, "efgh");
  EXPECT_EQ(s.out.text(), "abcdefghij");
  EXPECT_TRUE(s.tcp.began_at(0xfffffffe));
}

TEST(TcpStream, AcknowledgedBytesAreNotAwaited) {
  Stream s;
  s.segment(0, "ab");
  s.segment(5, "fg");
  EXPECT_EQ(s.out.text(), "ab");
  s.tcp.acknowledged(1000 + 7);
  EXPECT_EQ(s.segment(7, "hi"), Arrival::ahead);
  EXPECT_EQ(s.out.text(), "ab???fghi");
}

TEST(TcpStream, AcknowledgementInsideTheGapDoesNotCloseIt) {
  Stream s;
  s.segment(0, "ab");
  s.segment(5, "fg");
  s.tcp.acknowledged(1000 + 3);
  s.segment(7, "h");
  EXPECT_EQ(s.out.text(), "ab");
  s.segment(2, "cde");
  EXPECT_EQ(s.out.text(), "abcdefgh");
}

TEST(TcpStream, TruncatedSegmentLeavesAGap) {
  Stream s;
  s.segment(0, "ab", 5);
  s.segment(5, "fg");
  EXPECT_EQ(s.out.text(), "ab???fg");
}

TEST(TcpStream, BufferIsBounded) {
  Stream s;
  s.segment(0, "a");
  const std::string bytes(1000, 'x');
  for (std::uint32_t i = 0; i < 5000; ++i) {
    s.segment(10 + i * 1001, bytes);  // there is a hole before each segment
    ASSERT_LE(s.tcp.buffered(), TcpStream::max_buffered + 2000);
  }
  for (std::uint32_t i = 0; i < 100000; ++i) {
    s.segment(10'000'000 + 2 * i, "y");
    ASSERT_LE(s.tcp.buffered(), TcpStream::max_buffered + 2000);
  }
}

TEST(TcpStream, AnyOrderAndOverlapGivesTheStream) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string all(1 + random() % 400, ' ');
    for (char& c : all) c = static_cast<char>('a' + random() % 26);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pieces;  // from, to
    const auto size = static_cast<std::uint32_t>(all.size());
    for (std::uint32_t at = 0; at < size;) {
      const std::uint32_t n = std::min<std::uint32_t>(size - at, random() % 3 ? 1 + random() % 40 : 1);
      pieces.push_back({at, at + n});
      at += n;
    }
    const std::size_t whole = pieces.size();
    for (std::size_t i = 0; i < whole / 2; ++i) {
      const std::uint32_t from = random() % size;
      pieces.push_back({from, from + 1 + random() % (size - from)});
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    Stream s(static_cast<std::uint32_t>(random()));
    for (const auto& [from, to] : pieces) s.segment(from, std::string_view(all).substr(from, to - from));
    ASSERT_EQ(s.out.text(), all);
    ASSERT_EQ(s.tcp.buffered(), 0U);
  }
}

TEST(TcpStream, ResetValidity) {
  Stream s(0xfffffff0);
  s.segment(0, "abcdefghijklmnopqrst");
  s.tcp.acknowledged(s.first + 8);
  for (const std::uint32_t offset : {8U, 9U, 20U, 28U}) EXPECT_TRUE(s.tcp.in_window(s.first + offset, 20)) << offset;
  for (const std::uint32_t offset : {0U, 7U, 29U, 1U << 30, 1U << 31})
    EXPECT_FALSE(s.tcp.in_window(s.first + offset, 20)) << offset;
  EXPECT_TRUE(s.tcp.in_window(s.first + 20, 0)) << "sent into a window that has closed since";
  EXPECT_TRUE(TcpStream().in_window(7, 0)) << "stream not started";
}

}  // namespace
}  // namespace rdmawire::tracking
