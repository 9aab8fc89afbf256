#include "dissectors/tracking/mpa_connections.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/testing.hpp"
#include "source_directory.hpp"

namespace rdmawire::tracking {
namespace {

using testing::Record;
using ByteVector = std::vector<std::uint8_t>;
using Status = CrcCheck::Status;
using ::testing::Contains;
using ::testing::Not;

// A copy of a PDU, which outlives the packet.
struct Seen {
  ByteVector bytes;  // without markers
  Status crc;
  bool reassembled;
  Range in_frame;
  std::uint16_t markers;
};

// A client 10.0.0.3:40000 and a server 10.0.0.2:4210. Records the output of the dissector.
class Talk {
 public:
  Dissector dissector;
  Packet packet;
  std::vector<Seen> seen;
  std::vector<std::string_view> notes;
  std::uint32_t client_next, server_next;
  std::uint16_t client_port = 40000;

  explicit Talk(std::uint32_t client_isn = 5000, std::uint32_t server_isn = 900000)
      : client_next(client_isn), server_next(server_isn) {}

  struct Flags {
    bool syn = false, ack = true, rst = false, fin = false;
  };
  void raw(bool from_client, std::uint32_t seq, Bytes data, Flags flags, std::size_t snap = SIZE_MAX) {
    Frame frame = Value<Ipv4>()
                      .set<"src">(from_client ? 0x0a000003 : 0x0a000002)
                      .set<"dst">(from_client ? 0x0a000002 : 0x0a000003) /
                  Value<Tcp>()
                      .set<"src_port">(from_client ? client_port : 4210)
                      .set<"dst_port">(from_client ? 4210 : client_port)
                      .set<"seq">(seq)
                      .set<"ack_number">(from_client ? server_next : client_next)
                      .set<"ack">(flags.ack)
                      .set<"syn">(flags.syn)
                      .set<"rst">(flags.rst)
                      .set<"fin">(flags.fin);
    frame.payload.assign(data.begin(), data.end());
    bytes_ = frame.encode();
    const auto wire = static_cast<std::uint32_t>(bytes_.size());
    bytes_.resize(std::min(snap, bytes_.size()));
    packet.link = LinkType::raw_ip;
    ++packet.number;
    dissector.dissect(packet, bytes_, wire);
    notes.assign(packet.notes.begin(), packet.notes.end());
    for (const Pdu& pdu : packet.pdus) {
      EXPECT_NE(pdu.connection, nullptr);
      EXPECT_LE(pdu.in_frame.end(), bytes_.size());
      seen.push_back({{pdu.stack.bytes.begin(), pdu.stack.bytes.end()},
                      pdu.crc.status,
                      pdu.reassembled,
                      pdu.in_frame,
                      pdu.markers});
    }
  }
  void open() {
    raw(true, client_next++, {}, {.syn = true, .ack = false});
    raw(false, server_next++, {}, {.syn = true});
    raw(true, client_next, {}, {});
  }
  void client(Bytes data) {
    raw(true, client_next, data, {});
    client_next += static_cast<std::uint32_t>(data.size());
  }
  void server(Bytes data) {
    raw(false, server_next, data, {});
    server_next += static_cast<std::uint32_t>(data.size());
  }
  static ByteVector mpa(bool request, bool markers, bool crc, bool reject = false) {
    Value<MpaFrame> frame;
    const std::string_view key = request ? mpa::request_key : mpa::reply_key;
    frame.set<"key">(Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()));
    frame.set<"markers">(markers).set<"crc">(crc).set<"reject">(reject);
    HeaderValue value = frame;
    value.set_tail(ByteVector{'h', 'i', '!'});
    Frame out;
    out /= value;
    return out.encode();
  }
  // Performs the MPA negotiation. `markers`: the server requests markers in the client's stream.
  void establish(bool markers, bool crc) {
    open();
    client(mpa(true, false, crc));
    server(mpa(false, markers, false));
    seen.clear();
  }

 private:
  ByteVector bytes_;
};

// A stream of random FPDUs, and each FPDU without its markers.
struct Stream {
  ByteVector bytes;
  std::vector<ByteVector> fpdus;
  std::vector<std::size_t> ends;

  Stream(std::mt19937& random, int count, std::size_t longest, bool markers, bool crc = true) {
    MpaSender sender({.markers = markers, .crc = crc});
    std::uint32_t msn = 0;
    for (int i = 0; i < count; ++i) {
      Frame frame;
      if (random() % 2)
        frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() /
                Value<DdpTagged>().set<"stag">(random()).set<"to">(1000U * static_cast<unsigned>(i) + 1001);
      else
        frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>().set<"msn">(++msn);
      frame.payload.resize(random() % longest);
      for (auto& b : frame.payload) b = static_cast<std::uint8_t>(random());
      const std::uint64_t from = bytes.size();
      sender.send(bytes, frame);
      ByteVector plain(bytes.size() - from);
      plain.resize(markers ? remove_markers(Bytes(bytes).subspan(from), from, plain.data()) : plain.size());
      if (!markers) plain.assign(bytes.begin() + static_cast<std::ptrdiff_t>(from), bytes.end());
      fpdus.push_back(plain);
      ends.push_back(bytes.size());
    }
  }
  [[nodiscard]] Bytes piece(std::size_t from, std::size_t to) const { return Bytes(bytes).subspan(from, to - from); }
};

std::vector<std::pair<std::size_t, std::size_t>> random_pieces(std::mt19937& random, std::size_t size,
                                                               std::size_t longest) {
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  for (std::size_t at = 0; at < size;) {
    const std::size_t n = std::min<std::size_t>(size - at, random() % 4 ? 1 + random() % longest : 1);
    pieces.push_back({at, at + n});
    at += n;
  }
  return pieces;
}

void expect_all_good(const std::vector<Seen>& seen, const std::vector<ByteVector>& fpdus) {
  ASSERT_EQ(seen.size(), fpdus.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i].bytes, fpdus[i]) << i;
    ASSERT_EQ(seen[i].crc, Status::good) << i;
  }
}

TEST(MpaConnections, FramesAndFpdusInTheirPackets) {
  std::mt19937 random(1);
  const Stream stream(random, 3, 100, false);
  Talk talk;
  talk.open();
  talk.client(Talk::mpa(true, false, true));
  ASSERT_EQ(talk.seen.size(), 1U);
  EXPECT_FALSE(talk.seen[0].reassembled);
  ASSERT_TRUE(talk.packet.pdus[0].stack.get<MpaFrame>());
  talk.server(Talk::mpa(false, false, false));
  const MpaConnection& known = *talk.packet.pdus.at(0).connection;
  EXPECT_TRUE(known.roles_known);
  EXPECT_EQ(known.responder.port, 4210);
  EXPECT_EQ(known.listener, known.responder);
  EXPECT_EQ(known.initiator.port, 40000);
  EXPECT_EQ(known.responder.last & 0xff, 2U);
  EXPECT_EQ(known.request_private_data, (ByteVector{'h', 'i', '!'}));
  EXPECT_EQ(known.crc, MpaModes::Use::on);  // CRCs are in use if one side requests them
  EXPECT_FALSE(talk.packet.pdus[0].from_initiator);
  talk.seen.clear();

  talk.client(stream.bytes);
  expect_all_good(talk.seen, stream.fpdus);
  EXPECT_EQ(talk.seen[0].in_frame.offset, 40U);
  EXPECT_EQ(talk.seen[1].in_frame.offset, 40U + stream.ends[0]);
  EXPECT_FALSE(talk.seen[2].reassembled);
  EXPECT_TRUE(talk.packet.pdus[0].from_initiator);
}

TEST(MpaConnections, AnySegmentationGivesTheSamePdus) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const bool markers = round % 2;
    const Stream stream(random, 12, round % 3 ? 300 : 3000, markers);
    Talk talk(static_cast<std::uint32_t>(random()));  // sequence numbers wrap in some iterations
    if (round % 5 == 0) talk.client_next = 0xfffffc00;
    talk.establish(markers, true);
    for (const auto& [from, to] : random_pieces(random, stream.bytes.size(), round % 7 ? 400 : 1))
      talk.client(stream.piece(from, to));
    expect_all_good(talk.seen, stream.fpdus);
  }
}

TEST(MpaConnections, ByteByByteFromTheStart) {
  std::mt19937 random(3);
  const Stream stream(random, 4, 700, true);
  Talk talk;
  talk.open();
  const auto each = [](const ByteVector& bytes, auto send) {
    for (const std::uint8_t& b : bytes) send(Bytes(&b, 1));
  };
  each(Talk::mpa(true, false, true), [&](Bytes b) { talk.client(b); });
  each(Talk::mpa(false, true, true), [&](Bytes b) { talk.server(b); });
  ASSERT_EQ(talk.seen.size(), 2U);
  talk.seen.clear();
  each(stream.bytes, [&](Bytes b) { talk.client(b); });
  expect_all_good(talk.seen, stream.fpdus);
  EXPECT_TRUE(talk.seen[0].reassembled);
  EXPECT_EQ(talk.seen[0].in_frame.length, 1U);
}

TEST(MpaConnections, ReorderedDuplicateOverlappingSegmentsGiveTheSamePdus) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const bool markers = round % 2;
    const Stream stream(random, 12, 800, markers);
    Talk talk(static_cast<std::uint32_t>(random()));
    talk.establish(markers, true);
    auto pieces = random_pieces(random, stream.bytes.size(), 500);
    const std::size_t whole = pieces.size();
    for (std::size_t i = 0; i < whole; ++i) {
      const std::size_t from = random() % stream.bytes.size();
      pieces.push_back({from, std::min(stream.bytes.size(), from + 1 + random() % 600)});
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (const auto& [from, to] : pieces)
      talk.raw(true, talk.client_next + static_cast<std::uint32_t>(from), stream.piece(from, to), {});
    expect_all_good(talk.seen, stream.fpdus);
  }
}

// If CRCs are in use, every FPDU that is completely captured must be found, and no other data may count as a valid
// FPDU.
TEST(MpaConnections, CaptureLossAffectsOnlyTheLostFpdus) {
  std::mt19937 random(5);
  for (int round = 0; round < 80; ++round) {
    const bool markers = round % 2;
    const Stream stream(random, 40, round % 3 ? 200 : 1500, markers);
    Talk talk(static_cast<std::uint32_t>(random()));
    talk.establish(markers, true);
    const std::uint32_t base = talk.client_next;
    std::vector<bool> have(stream.bytes.size());
    for (const auto& [from, to] : random_pieces(random, stream.bytes.size(), 1400)) {
      const bool last = to == stream.bytes.size();
      const bool lost = random() % 6 == 0 && !last;
      if (!lost) {
        talk.raw(true, base + static_cast<std::uint32_t>(from), stream.piece(from, to), {});
        std::fill(have.begin() + static_cast<std::ptrdiff_t>(from), have.begin() + static_cast<std::ptrdiff_t>(to),
                  true);
      }
      talk.client_next = base + static_cast<std::uint32_t>(to);
      talk.raw(false, talk.server_next, {}, {});  // the receiver has received all bytes
    }
    std::vector<ByteVector> expected;
    for (std::size_t i = 0; i < stream.fpdus.size(); ++i) {
      const std::size_t from = i ? stream.ends[i - 1] : 0;
      if (std::all_of(have.begin() + static_cast<std::ptrdiff_t>(from),
                      have.begin() + static_cast<std::ptrdiff_t>(stream.ends[i]), [](bool b) { return b; }))
        expected.push_back(stream.fpdus[i]);
    }
    std::vector<Seen> good;
    for (const Seen& s : talk.seen) {
      ASSERT_NE(s.crc, Status::bad) << round;
      if (s.crc == Status::good) good.push_back(s);
    }
    SCOPED_TRACE(round);
    expect_all_good(good, expected);
  }
}

TEST(MpaConnections, FoundInTheMiddleByCrc) {
  std::mt19937 random(6);
  for (int round = 0; round < 60; ++round) {
    const bool markers = round % 2;
    const Stream stream(random, 30, round % 3 ? 200 : 1500, markers);
    Talk talk(static_cast<std::uint32_t>(random()));
    // The capture starts in the middle of the stream.
    const std::size_t begin = random() % (stream.bytes.size() / 2);
    talk.client_next += static_cast<std::uint32_t>(begin);
    for (const auto& [from, to] : random_pieces(random, stream.bytes.size() - begin, 1400))
      talk.client(stream.piece(begin + from, begin + to));
    std::vector<ByteVector> expected;
    for (std::size_t i = 1; i < stream.fpdus.size(); ++i)
      if (stream.ends[i - 1] >= begin) expected.push_back(stream.fpdus[i]);
    SCOPED_TRACE(round);
    expect_all_good(talk.seen, expected);
    EXPECT_FALSE(talk.packet.pdus.at(0).connection->roles_known);
    EXPECT_EQ(talk.packet.pdus.at(0).connection->crc, MpaModes::Use::on);
  }
}

/// FPDUs without valid CRCs. `tagged`: segments of one buffer, else Sends. `consecutive`: their offsets or MSNs
/// continue.
ByteVector fpdus_without_crcs(int count, bool markers, bool tagged, bool consecutive) {
  constexpr std::uint32_t payload = 300;
  MpaSender sender({.markers = markers, .crc = false});
  ByteVector bytes;
  for (int i = 1; i <= count; ++i) {
    const auto number = static_cast<std::uint32_t>(consecutive ? i : i * i * 7);
    Frame frame = tagged ? Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() /
                               Value<DdpTagged>().set<"stag">(0x1234).set<"to">(std::uint64_t{number} * payload)
                         : Value<Fpdu>() / Value<Ddp>().set<"last">(true) /
                               Value<Rdmap>().set<"opcode">(static_cast<std::uint8_t>(RdmapOperation::send)) /
                               Value<DdpUntagged>().set<"msn">(number);
    frame.payload.resize(payload, 0x55);
    sender.send(bytes, frame);
  }
  return bytes;
}

TEST(MpaConnections, FoundInTheMiddleByConsecutiveNumbers) {
  for (const bool markers : {false, true})
    for (const bool tagged : {false, true}) {
      SCOPED_TRACE(tagged * 2 + markers);
      const ByteVector bytes = fpdus_without_crcs(30, markers, tagged, true);
      Talk talk;
      constexpr std::size_t begin = 1000, segment = 700;
      talk.client_next += begin;
      for (std::size_t at = begin; at < bytes.size(); at += segment)
        talk.client(Bytes(bytes).subspan(at, std::min(segment, bytes.size() - at)));
      EXPECT_GE(talk.seen.size(), 24U);
      for (const Seen& one : talk.seen) {
        EXPECT_EQ(one.bytes.size(), mpa::fpdu_bytes(300 + (tagged ? 14 : 18)));
        EXPECT_NE(one.crc, Status::bad);
      }
    }
}

TEST(MpaConnections, DamagedFirstFpduDoesNotHideCrcsOfLaterOnes) {
  ByteVector bytes;
  std::vector<std::size_t> ends;
  MpaSender sender({.markers = false, .crc = true});
  for (std::uint32_t msn = 1; msn <= 8; ++msn) {
    Frame frame = Value<Fpdu>() / Value<Ddp>().set<"last">(true) /
                  Value<Rdmap>().set<"opcode">(static_cast<std::uint8_t>(RdmapOperation::send)) /
                  Value<DdpUntagged>().set<"msn">(msn);
    frame.payload.resize(300, 0x55);
    sender.send(bytes, frame);
    ends.push_back(bytes.size());
  }
  bytes[ends[0] - 20] ^= 1;
  bytes[ends[5] - 20] ^= 1;
  Talk talk;
  talk.client(Bytes(bytes).first(ends[3]));
  talk.client(Bytes(bytes).subspan(ends[3]));
  const auto bad =
      std::count_if(talk.seen.begin(), talk.seen.end(), [](const Seen& one) { return one.crc == Status::bad; });
  EXPECT_EQ(bad, 1);
  EXPECT_EQ(talk.seen.size(), 7U);
  EXPECT_EQ(talk.packet.pdus.at(0).connection->crc, MpaModes::Use::on);
}

TEST(MpaConnections, PlausibleHeadersWithoutConsecutiveNumbersAreIgnored) {
  for (const bool tagged : {false, true}) {
    Talk talk;
    talk.client(fpdus_without_crcs(30, false, tagged, false));
    EXPECT_TRUE(talk.seen.empty());
  }
}

TEST(MpaConnections, AssumedPortNeedsNoEvidence) {
  Talk talk;
  DissectorOptions options;
  options.iwarp_ports = {{4200, 4210}};
  talk.dissector = Dissector(options);
  const ByteVector bytes = fpdus_without_crcs(2, false, false, false);
  talk.server(Bytes(bytes).first(bytes.size() / 2));
  ASSERT_NE(talk.packet.tcp.connection, nullptr);
  EXPECT_EQ(talk.seen.size(), 1U);
  talk.client(Talk::mpa(true, false, true));
  EXPECT_TRUE(talk.packet.tcp.connection->request_seen);
}

TEST(MpaConnections, DataThatResembleAMarkerDoNotSetTheGrid) {
  // The low word of the tagged offset is 12 bytes after the start of the FPDU. It contains 12, so it looks like a
  // marker.
  MpaSender sender({.markers = true, .crc = true}, 300);
  ByteVector bytes;
  std::vector<std::size_t> ends;
  for (const std::uint64_t to : {12, 7, 8}) {
    Frame frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpTagged>().set<"to">(to);
    frame.payload.resize(400, 0x55);
    sender.send(bytes, frame);
    ends.push_back(bytes.size());
  }
  Talk talk;
  talk.client(bytes);
  ASSERT_EQ(talk.packet.pdus.size(), 2U);
  EXPECT_EQ(talk.packet.pdus[0].stack.get<DdpTagged>()->get<"to">(), 7U);
  EXPECT_EQ(talk.packet.pdus[1].stack.get<DdpTagged>()->get<"to">(), 8U);
  EXPECT_EQ(talk.seen[0].bytes.size(), mpa::fpdu_bytes(14 + 400));
}

TEST(MpaConnections, OtherTcpIsIgnored) {
  std::mt19937 random(7);
  Talk begun, middle;
  begun.open();
  for (int i = 0; i < 1500; ++i) {
    ByteVector bytes(1 + random() % 1448);
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random() % 4 ? random() : 0x41);
    begun.client(bytes);
    middle.client(bytes);
    middle.server(bytes);
  }
  EXPECT_TRUE(begun.seen.empty());
  EXPECT_TRUE(middle.seen.empty());
  EXPECT_TRUE(middle.notes.empty());
  EXPECT_LT(middle.dissector.tcp().buffered(), 64U << 10);
}

TEST(MpaConnections, StreamingModeBeforeMpa) {
  std::mt19937 random(8);
  const Stream stream(random, 3, 100, false);
  Talk talk;
  talk.open();
  talk.client(ByteVector(48, 'L'));  // the iSCSI login precedes the MPA request of iSER
  talk.server(ByteVector(48, 'R'));
  EXPECT_TRUE(talk.seen.empty());
  talk.client(Talk::mpa(true, false, true));
  talk.server(Talk::mpa(false, false, true));
  ASSERT_EQ(talk.seen.size(), 2U);
  talk.seen.clear();
  talk.client(stream.bytes);
  expect_all_good(talk.seen, stream.fpdus);
}

TEST(MpaConnections, ChangedBytesMakeTheCrcBad) {
  std::mt19937 random(9);
  for (const bool markers : {false, true}) {
    const Stream stream(random, 8, 600, markers);
    for (int round = 0; round < 40; ++round) {
      // Any byte of the fourth FPDU, except its length, which determines where the next FPDU starts.
      const std::size_t from = stream.ends[2], to = stream.ends[3];
      const std::size_t at = from + 8 + random() % (to - from - 8);
      Stream changed = stream;
      changed.bytes[at] ^= static_cast<std::uint8_t>(1U << random() % 8);
      Talk talk;
      talk.establish(markers, true);
      for (std::size_t i = 0; i < stream.ends.size(); ++i)
        talk.client(changed.piece(i ? stream.ends[i - 1] : 0, stream.ends[i]));
      ASSERT_EQ(talk.seen.size(), stream.fpdus.size());
      for (std::size_t i = 0; i < talk.seen.size(); ++i)
        ASSERT_EQ(talk.seen[i].crc, i == 3 ? Status::bad : Status::good) << i << " byte " << at - from;
    }
  }
}

TEST(MpaConnections, ChangedLengthAffectsOneFpdu) {
  std::mt19937 random(90);
  for (const bool markers : {false, true})
    for (int round = 0; round < 40; ++round) {
      Stream stream(random, 30, 300, markers);
      const std::size_t from = stream.ends[8] + (markers && stream.ends[8] % 512 == 0 ? 4 : 0);
      stream.bytes[from + round % 2] ^= static_cast<std::uint8_t>(1U << (2 + random() % 6));
      Talk talk;
      talk.establish(markers, true);
      // The gap exceeds the maximum length of 64 KiB.
      for (std::size_t begin = 0; begin < stream.bytes.size(); begin += 1400)
        talk.client(stream.piece(begin, std::min(stream.bytes.size(), begin + 1400)));
      Stream rest(random, 80, 1500, false);
      for (std::size_t begin = 0; begin < rest.bytes.size() && !markers; begin += 1400)
        talk.client(rest.piece(begin, std::min(rest.bytes.size(), begin + 1400)));
      std::vector<Seen> good;
      for (const Seen& s : talk.seen)
        if (s.crc == Status::good) good.push_back(s);
      if (markers && good.size() < 29) continue;  // the search waits for bytes after the end of this stream
      std::vector<ByteVector> expected = stream.fpdus;
      expected.erase(expected.begin() + 9);
      if (!markers) expected.insert(expected.end(), rest.fpdus.begin(), rest.fpdus.end());
      SCOPED_TRACE(round);
      expect_all_good(good, expected);
    }
}

TEST(MpaConnections, WrongMarkerPointerIsReported) {
  MpaSender sender({.markers = true, .crc = false});
  ByteVector bytes;
  Frame frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>();
  frame.payload.resize(600);
  sender.send(bytes, frame);
  bytes[512 + 3] ^= 0x10;
  Talk talk;
  talk.establish(true, false);
  talk.client(bytes);
  ASSERT_EQ(talk.packet.pdus.size(), 1U);
  EXPECT_TRUE(talk.packet.pdus[0].wrong_marker);
  EXPECT_EQ(talk.packet.pdus[0].markers, 2);
  EXPECT_THAT(talk.notes, Contains("an MPA marker does not point to the start of its FPDU"));
}

TEST(MpaConnections, KeepAliveAndRetransmissionAddNoPdus) {
  std::mt19937 random(10);
  const Stream stream(random, 2, 100, false);
  Talk talk;
  talk.establish(false, true);
  talk.client(stream.piece(0, stream.ends[0]));
  talk.raw(true, talk.client_next - 1, stream.piece(stream.ends[0] - 1, stream.ends[0]), {});
  EXPECT_THAT(talk.notes, Contains("TCP keep-alive"));
  talk.raw(true, talk.client_next - 1, {}, {});
  EXPECT_THAT(talk.notes, Contains("TCP keep-alive"));
  talk.raw(true, talk.client_next - 8, stream.piece(stream.ends[0] - 8, stream.ends[0]), {});
  EXPECT_THAT(talk.notes, Contains("TCP retransmission"));
  talk.client(stream.piece(stream.ends[0], stream.ends[1]));
  EXPECT_TRUE(talk.notes.empty());
  expect_all_good(talk.seen, stream.fpdus);
}

TEST(MpaConnections, TruncatedPacketsAreUnverifiable) {
  std::mt19937 random(11);
  Stream stream(random, 6, 900, false);
  Talk talk;
  talk.establish(false, true);
  for (std::size_t i = 0; i < stream.ends.size(); ++i) {
    const Bytes fpdu = stream.piece(i ? stream.ends[i - 1] : 0, stream.ends[i]);
    talk.raw(true, talk.client_next, fpdu, {}, 40 + 20);
    talk.client_next += static_cast<std::uint32_t>(fpdu.size());
    if (fpdu.size() <= 20) continue;
    ASSERT_EQ(talk.packet.pdus.size(), 1U) << i;
    EXPECT_EQ(talk.packet.pdus[0].crc.status, Status::unverifiable);
    EXPECT_TRUE(talk.packet.pdus[0].stack.cut);
    EXPECT_EQ(talk.packet.pdus[0].stack.wire_length, fpdu.size());
    EXPECT_TRUE(talk.packet.pdus[0].stack.find(info<Rdmap>));
  }
}

TEST(MpaConnections, ReusedPortIsANewConnection) {
  std::mt19937 random(12);
  const Stream first(random, 3, 100, true), second(random, 3, 100, false);
  Talk talk;
  talk.establish(true, true);
  talk.client(first.bytes);
  expect_all_good(talk.seen, first.fpdus);
  const std::uint64_t id = talk.packet.pdus.at(0).connection->id;
  talk.client_next = 77;
  talk.server_next = 88;
  talk.establish(false, true);
  talk.client(second.bytes);
  expect_all_good(talk.seen, second.fpdus);
  EXPECT_EQ(talk.packet.pdus.at(0).connection->id, id + 1);
  // The stream cannot continue after a reset.
  talk.raw(true, talk.client_next, {}, {.rst = true});
  talk.seen.clear();
  talk.client(second.bytes);
  EXPECT_TRUE(talk.seen.empty());
}

// RFC 9293, 3.10.7.4
TEST(MpaConnections, ResetOutsideOfTheWindowIsIgnored) {
  std::mt19937 random(20);
  const Stream stream(random, 6, 100, false);
  Talk talk;
  talk.establish(false, true);
  const std::uint32_t begins = talk.client_next;
  talk.client(stream.piece(0, stream.ends[1]));
  talk.raw(false, talk.server_next, {}, {});  // acknowledges that segment
  for (const std::uint32_t seq :
       {begins, talk.client_next - 1, talk.client_next + 1000000, talk.client_next ^ 1U << 31}) {
    talk.raw(true, seq, {}, {.rst = true});
    EXPECT_FALSE(talk.packet.tcp.reset);
    EXPECT_THAT(talk.notes, Contains("TCP reset outside of the window: ignored"));
  }
  talk.client(stream.piece(stream.ends[1], stream.ends[4]));
  ASSERT_EQ(talk.seen.size(), 5U);
  talk.raw(true, talk.client_next, {}, {.rst = true});
  EXPECT_TRUE(talk.packet.tcp.reset);
  talk.client(stream.piece(stream.ends[4], stream.ends[5]));
  EXPECT_EQ(talk.seen.size(), 5U);
}

TEST(MpaConnections, SegmentsHaveTheirStreamOffsets) {
  std::mt19937 random(21);
  const Stream stream(random, 2, 100, false);
  Talk talk;
  talk.open();
  EXPECT_EQ(talk.packet.tcp.connection, nullptr);
  const std::uint32_t begins = talk.client_next;
  talk.client(Talk::mpa(true, false, true));
  ASSERT_NE(talk.packet.tcp.connection, nullptr);
  EXPECT_TRUE(talk.packet.tcp.from_initiator);
  EXPECT_EQ(static_cast<std::uint32_t>(talk.packet.tcp.offset), begins);
  EXPECT_EQ(talk.packet.tcp.length, 23U);
  EXPECT_EQ(talk.packet.pdus.at(0).stream_offset, talk.packet.tcp.offset);
  EXPECT_EQ(talk.packet.pdus.at(0).stream_end, talk.packet.tcp.offset + 23);
  const std::uint64_t end = talk.packet.pdus.at(0).stream_end;
  talk.server(Talk::mpa(false, false, true));
  EXPECT_FALSE(talk.packet.tcp.from_initiator);
  EXPECT_TRUE(talk.packet.tcp.has_acknowledged);
  EXPECT_EQ(talk.packet.tcp.acknowledged, end);
  talk.client(stream.bytes);
  EXPECT_EQ(talk.packet.pdus.at(1).stream_offset, end + stream.ends[0]);
  talk.raw(true, talk.client_next, {}, {.fin = true});
  EXPECT_TRUE(talk.packet.tcp.fin);
  EXPECT_EQ(talk.packet.tcp.length, 0U);
}

TEST(MpaConnections, RetransmittedSynIsIgnored) {
  std::mt19937 random(13);
  const Stream stream(random, 3, 100, false);
  Talk talk(5000, 6000);
  talk.establish(false, true);
  talk.raw(true, 5000, {}, {.syn = true, .ack = false});
  talk.raw(false, 6000, {}, {.syn = true});
  talk.client(stream.bytes);
  expect_all_good(talk.seen, stream.fpdus);
}

// The capture contains only one direction. The reply that requested the markers is in the other direction.
TEST(MpaConnections, MarkersAreDetectedFromOneDirection) {
  std::mt19937 random(140);
  for (int round = 0; round < 20; ++round) {
    const bool markers = round % 2, crc = round % 4 < 2;
    const Stream stream(random, 20, 400, markers, crc);
    Talk talk;
    talk.client(Talk::mpa(true, false, crc));
    talk.seen.clear();
    for (const auto& [from, to] : random_pieces(random, stream.bytes.size(), 1400)) talk.client(stream.piece(from, to));
    ASSERT_EQ(talk.seen.size(), stream.fpdus.size()) << round;
    for (std::size_t i = 0; i < stream.fpdus.size(); ++i) {
      ASSERT_EQ(talk.seen[i].bytes, stream.fpdus[i]) << round;
      ASSERT_EQ(talk.seen[i].crc, crc ? Status::good : Status::absent) << round;
    }
    EXPECT_EQ(talk.packet.pdus.at(0).connection->markers_to_responder,
              markers ? MpaModes::Use::on : MpaModes::Use::off);
    EXPECT_EQ(talk.packet.pdus.at(0).connection->listener.port, 4210);
  }
}

TEST(MpaConnections, PassiveTcpSideCanBeTheMpaInitiator) {
  Talk talk;
  talk.open();
  talk.server(Talk::mpa(true, false, true));
  talk.client(Talk::mpa(false, false, true));
  const MpaConnection& known = *talk.packet.pdus.at(0).connection;
  EXPECT_EQ(known.initiator.port, 4210);
  EXPECT_EQ(known.responder.port, 40000);
  EXPECT_EQ(known.listener.port, 4210);
}

TEST(MpaConnections, RejectedConnectionHasNoFpdus) {
  std::mt19937 random(14);
  const Stream stream(random, 3, 100, false);
  Talk talk;
  talk.open();
  talk.client(Talk::mpa(true, false, true));
  talk.server(Talk::mpa(false, false, true, true));
  EXPECT_TRUE(talk.packet.pdus.at(0).connection->rejected);
  EXPECT_THAT(talk.notes, Contains("the MPA reply rejects the connection"));
  talk.seen.clear();
  talk.client(stream.bytes);
  EXPECT_TRUE(talk.seen.empty());
}

TEST(MpaConnections, WithoutCrcsTheValueIsReportedUnchecked) {
  std::mt19937 random(15);
  Stream stream(random, 3, 100, false, false);
  stream.bytes[stream.ends[0] - 1] = 7;
  Talk talk;
  talk.establish(false, false);
  talk.client(stream.bytes);
  ASSERT_EQ(talk.packet.pdus.size(), 3U);
  EXPECT_EQ(talk.packet.pdus[0].crc.status, Status::absent);
  EXPECT_EQ(talk.packet.pdus[0].crc.value, 7U);
  EXPECT_EQ(talk.packet.pdus[1].crc.value, 0U);
}

TEST(MpaConnections, MemoryIsBoundedAndEvictionCounted) {
  Packet packet;
  MpaConnections connections({.connections = 100, .bytes = 1U << 20});
  std::mt19937 random(16);
  packet.link = LinkType::raw_ip;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    Frame frame =
        Value<Ipv4>().set<"src">(0x0a000000 + i % 300).set<"dst">(0x0b000001) /
        Value<Tcp>().set<"src_port">(1000 + i % 7).set<"dst_port">(80).set<"seq">(1 + (i / 300) * 5000).set<"ack">(1);
    frame.payload.resize(1400);
    for (auto& b : frame.payload) b = static_cast<std::uint8_t>(random());
    // An FPDU whose length field contains 64 KiB.
    const std::uint8_t lie[] = {0xff, 0xff, 0xc1, 0x40};
    std::copy(std::begin(lie), std::end(lie), frame.payload.begin());
    const ByteVector bytes = frame.encode();
    packet.pdus.clear();
    decode(packet.stack, bytes, packet.link, static_cast<std::uint32_t>(bytes.size()));
    connections.follow(packet, true);
    ASSERT_LE(connections.size(), 100U);
    ASSERT_LE(connections.buffered(), (1U << 20) + (512U << 10));
  }
  EXPECT_GT(connections.evicted(), 100U);
}

// Numbers of a capture's PDUs by kind.
struct Counts {
  std::map<int, int> opcodes;
  std::map<std::string_view, int> crcs, notes;
  int frames = 0, fpdus = 0, reassembled = 0, markers = 0, wrong_markers = 0, findings = 0;
};

Counts count(const std::vector<Record>& records) {
  Counts counts;
  Dissector dissector;
  Packet packet;
  for (const Record& record : records) {
    ++packet.number;
    dissector.dissect(packet, record.bytes, record.wire_length);
    for (std::string_view note : packet.notes) ++counts.notes[note];
    for (const Pdu& pdu : packet.pdus) {
      counts.findings += static_cast<int>(pdu.stack.findings().size());
      counts.reassembled += pdu.reassembled;
      EXPECT_TRUE(std::ranges::equal(Frame::of(pdu.stack).encode(), pdu.stack.bytes)) << packet.number;
      if (pdu.stack.find(info<MpaFrame>)) {
        ++counts.frames;
        continue;
      }
      ++counts.fpdus;
      ++counts.crcs[to_string(pdu.crc.status)];
      counts.markers += pdu.markers;
      counts.wrong_markers += pdu.wrong_marker;
      if (auto rdmap = pdu.stack.get<Rdmap>()) ++counts.opcodes[rdmap->get<"opcode">()];
    }
  }
  return counts;
}

struct Expected {
  const char* shared;
  int frames;
  std::map<int, int> opcodes;  // numbers by opcode, as counted by tshark 4.0, except for the capture with loss
  const char* crc;
  int markers;
};

class Captures : public ::testing::TestWithParam<Expected> {};

TEST_P(Captures, EveryPduIsFound) {
  const Expected& expected = GetParam();
  const auto records = testing::read_pcap(testing::shared_capture(expected.shared));
  if (records.empty()) GTEST_SKIP() << "skipped: needs " << expected.shared << " of the shared captures";
  const Counts counts = count(records);
  int fpdus = 0;
  for (const auto& [opcode, n] : expected.opcodes) fpdus += n;
  EXPECT_EQ(counts.frames, expected.frames);
  EXPECT_EQ(counts.fpdus, fpdus);
  EXPECT_EQ(counts.opcodes, expected.opcodes);
  EXPECT_EQ(counts.findings, 0);
  EXPECT_EQ(counts.markers, expected.markers);
  EXPECT_EQ(counts.wrong_markers, 0);
  std::map<std::string_view, int> crcs;
  if (fpdus) crcs[expected.crc] = fpdus;
  EXPECT_EQ(counts.crcs, crcs);
}

#define REALJIMMY "public/realjimmy__sample-captures__iwarp_"
INSTANTIATE_TEST_SUITE_P(
    Real, Captures,
    ::testing::Values(
        Expected{"linux-siwread.pcap", 4, {{1, 50}, {2, 600}, {3, 32}}, "absent", 0},
        Expected{"linux-siwrping.pcap", 2, {{0, 60}, {1, 20}, {2, 60}, {3, 80}}, "absent", 0},
        Expected{"linux-siwsend.pcap", 4, {{0, 4}, {3, 622}}, "absent", 0},
        Expected{"linux-siwwrite.pcap", 4, {{0, 600}, {3, 32}}, "absent", 0},
        // The same transfer with loss. tshark misses five of the 600 segments, in which retransmissions fill gaps.
        Expected{"linux-siwwrite-loss.pcap", 4, {{0, 600}, {3, 32}}, "absent", 0},
        Expected{REALJIMMY "connect_C00_M00.pcap", 2, {}, "", 0},
        Expected{REALJIMMY "connect_C00_M00_reject.pcap", 2, {}, "", 0},
        Expected{REALJIMMY "connect_C11_M00.pcap", 2, {}, "", 0},
        Expected{REALJIMMY "connect_C11_M11.pcap", 2, {}, "", 0},
        Expected{REALJIMMY "rdma_read.pcap", 2, {{0, 1}, {1, 1}, {2, 1}, {3, 3}}, "absent", 0},
        Expected{REALJIMMY "send_recv_snd_recv.pcap", 2, {{3, 2}}, "absent", 0},
        Expected{REALJIMMY "send_recv_snd_recv_crc.pcap", 2, {{3, 2}}, "good", 0},
        Expected{REALJIMMY "send_recv_snd_recv_mrkr.pcap", 2, {{3, 2}}, "absent", 2}),
    [](const auto& i) {
      std::string name = std::string(i.param.shared)
                             .substr(std::string_view(i.param.shared).find("siw") == std::string::npos
                                         ? std::string_view(REALJIMMY).size()
                                         : 6);
      name.resize(name.find('.'));
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

TEST(RealCaptures, SampleInTheRepository) {
  const auto records = testing::read_pcap(RDMAWIRE_SOURCE_DIR "/captures/samples/siw-rping.pcap");
  const Counts counts = count(records);
  EXPECT_EQ(counts.frames, 2);
  EXPECT_EQ(counts.opcodes, (std::map<int, int>{{0, 60}, {1, 20}, {2, 60}, {3, 80}}));
  EXPECT_EQ(counts.findings, 0);
}

TEST(RealCaptures, ChangedByteMakesTheCrcBad) {
  auto records = testing::read_pcap(testing::shared_capture(REALJIMMY "send_recv_snd_recv_crc.pcap"));
  if (records.empty()) GTEST_SKIP() << "skipped: needs iwarp_send_recv_snd_recv_crc.pcap of the shared captures";
  const std::vector<Record> original = records;
  std::size_t fpdus = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    HeaderStack stack;
    decode(stack, records[i].bytes, LinkType::ethernet, records[i].wire_length);
    if (stack.payload.length != 40) continue;  // the two Sends
    ++fpdus;
    for (std::uint32_t k = 2; k < stack.payload.length; ++k) {
      records[i].bytes[stack.payload.offset + k] ^= 0x20;
      EXPECT_EQ(count(records).crcs["bad"], 1) << "byte " << k;
      records[i].bytes = original[i].bytes;
    }
  }
  EXPECT_EQ(fpdus, 2U);
}

TEST(RealCaptures, WithoutCrcsLossAffectsOnlyTheLostFpdus) {
  const auto records = testing::read_pcap(testing::shared_capture("linux-siwwrite.pcap"));
  if (records.empty()) GTEST_SKIP() << "skipped: needs linux-siwwrite.pcap of the shared captures";
  std::mt19937 random(17);
  for (int round = 0; round < 20; ++round) {
    std::vector<Record> kept;
    int lost = 0;
    for (std::size_t i = 0; i < records.size(); ++i) {
      // Each segment contains one FPDU, except at the start and at the end.
      const bool data = records[i].bytes.size() > 1000 && i + 60 < records.size();
      if (data && random() % 12 == 0)
        ++lost;
      else
        kept.push_back(records[i]);
    }
    const Counts counts = count(kept);
    EXPECT_EQ(counts.fpdus, 632 - lost);
    EXPECT_EQ(counts.findings, 0);
  }
}

TEST(RealCaptures, StartInTheMiddleWithoutCrcsIsRecognized) {
  auto records = testing::read_pcap(testing::shared_capture("linux-siwwrite.pcap"));
  if (records.empty()) GTEST_SKIP() << "skipped: needs linux-siwwrite.pcap of the shared captures";
  const int whole = count(records).fpdus, before = count({records.begin(), records.begin() + 100}).fpdus;
  records.erase(records.begin(), records.begin() + 100);
  const Counts counts = count(records);
  // Two FPDUs of each direction are evidence.
  EXPECT_LE(counts.fpdus, whole - before);
  EXPECT_GE(counts.fpdus, whole - before - 4);
  EXPECT_EQ(counts.findings, 0);
}

}  // namespace
}  // namespace rdmawire::tracking
