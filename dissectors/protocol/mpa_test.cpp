#include "dissectors/protocol/mpa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/testing.hpp"

namespace rdmawire {
namespace {

using ::testing::ElementsAreArray;
using testing::from_hex;

std::vector<const HeaderInfo*> headers(const HeaderStack& stack) {
  std::vector<const HeaderInfo*> out;
  for (const Layer& layer : stack.layers()) out.push_back(layer.header);
  return out;
}

Frame send_frame(std::uint32_t msn, std::size_t bytes) {
  Frame frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>().set<"msn">(msn);
  frame.payload.assign(bytes, 0);
  return frame;
}

// RFC 5044, figure 5: the first FPDU of a stream with markers.
const auto figure5 =
    from_hex("00000000 002a 4143 00000000 00000000 00000001 00000000" + std::string(48, '0') + "52239983");
// RFC 5044, figure 6: an FPDU that starts at byte 0x1ec of the stream, with a marker inside.
const auto figure6 =
    from_hex("002a 4143 00000000 00000000 00000002 00000000 00000014" + std::string(48, '0') + "84925898");

// The CRCs 52 23 99 83 and 84 92 58 98 of the figures cover all preceding bytes, including markers.
TEST(MpaCrc, SampleFpdusOfTheSpecification) {
  for (const auto& [fpdu, expected] : {std::pair(figure5, 0x52239983U), std::pair(figure6, 0x84925898U)})
    EXPECT_EQ(compute_mpa_crc(Bytes(fpdu).first(fpdu.size() - mpa::crc_bytes)), expected);
}

TEST(MpaSender, WritesFigure5) {
  std::vector<std::uint8_t> stream;
  MpaSender sender({.markers = true, .crc = true});
  sender.send(stream, send_frame(1, 24));
  EXPECT_THAT(stream, ElementsAreArray(figure5));
  EXPECT_EQ(sender.position(), figure5.size());
}

TEST(MpaSender, WritesFigure6) {
  std::vector<std::uint8_t> stream;
  MpaSender sender({.markers = true, .crc = true}, 0x1ec);
  sender.send(stream, send_frame(2, 24));
  EXPECT_THAT(stream, ElementsAreArray(figure6));
}

TEST(DecodeFpdu, ReadsFigure5AfterItsMarker) {
  std::vector<std::uint8_t> bytes(figure5.size());
  bytes.resize(remove_markers(figure5, 0, bytes.data()));
  ASSERT_EQ(bytes.size(), figure5.size() - 4);
  HeaderStack stack;
  decode_fpdu(stack, bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_EQ(stack.wire, Wire::iwarp);
  EXPECT_THAT(headers(stack), ::testing::ElementsAre(&info<Fpdu>, &info<Ddp>, &info<Rdmap>, &info<DdpUntagged>));
  EXPECT_EQ(stack.get<Fpdu>()->get<"ulpdu_length">(), 0x2a);
  EXPECT_EQ(stack.get<Ddp>()->get<"last">(), 1);
  EXPECT_EQ(stack.get<Rdmap>()->get<"opcode">(), 3);
  EXPECT_EQ(stack.get<DdpUntagged>()->get<"msn">(), 1U);
  EXPECT_EQ(stack.payload.length, 24U);
  EXPECT_EQ(stack.pad.length, 0U);
  EXPECT_EQ(stack.mpa_crc.offset, 0x2cU);
  EXPECT_FALSE(stack.cut);
}

TEST(DecodeFpdu, ReadsAReadRequestOfLinuxSiw) {
  // The ULPDU of siw-read has 46 bytes, so it needs no padding. CRCs are not in use.
  const auto bytes = from_hex(
      "002e 4141 00000000 00000001 00000001 00000000 d7932900 0000558edd94a000 00004000 a9982400 000055a89b407000"
      "00000000");
  HeaderStack stack;
  decode_fpdu(stack, bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_THAT(headers(stack), ::testing::ElementsAre(&info<Fpdu>, &info<Ddp>, &info<Rdmap>, &info<DdpUntagged>,
                                                     &info<RdmapReadRequest>));
  const auto read = *stack.get<RdmapReadRequest>();
  EXPECT_EQ(read.get<"sink_stag">(), 0xd7932900U);
  EXPECT_EQ(read.get<"sink_to">(), 0x558edd94a000U);
  EXPECT_EQ(read.get<"size">(), 16384U);
  EXPECT_EQ(read.get<"src_stag">(), 0xa9982400U);
  EXPECT_EQ(read.get<"src_to">(), 0x55a89b407000U);
  EXPECT_EQ(stack.get<DdpUntagged>()->get<"qn">(), 1U);
  EXPECT_EQ(stack.payload.length, 0U);
  EXPECT_EQ(stack.mpa_crc.offset, 48U);
  EXPECT_EQ(check_mpa_crc(stack).status, CrcCheck::Status::bad);  // zero, because the connection does not use CRCs
  EXPECT_EQ(Frame::of(stack).encode(), bytes);
}

TEST(DecodeFpdu, TruncationAtEveryByteIsNotMalformed) {
  const auto bytes = Bytes(figure5).subspan(4);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    HeaderStack stack;
    decode_fpdu(stack, bytes.first(cut), static_cast<std::uint32_t>(bytes.size()));
    EXPECT_TRUE(stack.cut) << cut;
    for (const ParseError& finding : stack.findings()) EXPECT_EQ(finding.kind, ParseError::Kind::truncated) << cut;
    EXPECT_EQ(stack.mpa_crc.length, 0U);
    EXPECT_LE(stack.payload.end(), cut);
    const auto again = Frame::of(stack).encode();
    EXPECT_TRUE(std::ranges::equal(again, bytes.first(cut))) << cut;
    EXPECT_EQ(check_mpa_crc(stack).status, cut >= 2 ? CrcCheck::Status::unverifiable : CrcCheck::Status::absent);
  }
}

// The padding is part of the FPDU if all its bytes are captured, even if the CRC is truncated.
TEST(DecodeFpdu, TruncationAroundThePad) {
  Frame frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>();
  for (std::size_t payload = 1; payload <= 4; ++payload) {
    frame.payload.assign(payload, 0x5a);
    const auto bytes = frame.encode();
    const std::size_t crc_at = bytes.size() - mpa::crc_bytes, pad = crc_at - (Fpdu::size + 18 + payload);
    ASSERT_EQ(pad, mpa::pad_bytes(static_cast<std::uint32_t>(18 + payload)));
    for (std::size_t captured = crc_at - 1; captured <= bytes.size(); ++captured) {
      HeaderStack stack;
      decode_fpdu(stack, Bytes(bytes).first(captured), static_cast<std::uint32_t>(bytes.size()));
      EXPECT_EQ(stack.pad.length, captured >= crc_at ? pad : 0U) << payload << " at " << captured;
      EXPECT_EQ(stack.mpa_crc.length, captured == bytes.size() ? 4U : 0U) << payload << " at " << captured;
      EXPECT_EQ(stack.cut, captured < bytes.size()) << payload << " at " << captured;
    }
  }
}

TEST(DecodeFpdu, LengthBeyondThePacketIsAFinding) {
  auto bytes = std::vector<std::uint8_t>(figure5.begin() + 4, figure5.end());
  bytes[0] = 0xff;
  HeaderStack stack;
  decode_fpdu(stack, bytes);
  ASSERT_EQ(stack.findings().size(), 1U);
  EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
  EXPECT_EQ(stack.findings()[0].layer, &info<Fpdu>);
  // A length too short for the headers is malformed, too.
  bytes[0] = 0;
  bytes[1] = 10;
  decode_fpdu(stack, bytes);
  ASSERT_FALSE(stack.findings().empty());
  EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
  EXPECT_EQ(stack.findings()[0].layer, &info<DdpUntagged>);
}

TEST(DecodeUlpdu, ContradictionsToTheOpcodeTableAreFindings) {
  HeaderStack stack;
  std::vector<std::uint8_t> bytes;  // must outlive the stack, which refers to these bytes
  const auto kind_of = [&](std::string_view hex) {
    bytes = from_hex(hex);
    decode_ulpdu(stack, bytes);
    return stack.findings().empty() ? std::string_view("fine") : to_string(stack.findings()[0].kind);
  };
  constexpr std::string_view untagged = " 00000000 00000000 00000001 00000000", tagged = " 00000001 0000000000000000";
  EXPECT_EQ(kind_of("4143" + std::string(untagged)), "fine");
  EXPECT_EQ(kind_of("c140" + std::string(tagged)), "fine");
  EXPECT_EQ(kind_of("c143" + std::string(tagged)), "malformed");    // a Send is untagged
  EXPECT_EQ(kind_of("4140" + std::string(untagged)), "malformed");  // a Write is tagged
  EXPECT_EQ(kind_of("414c" + std::string(untagged)), "unknown");    // opcode 12
  EXPECT_EQ(kind_of("4043" + std::string(untagged)), "unknown");    // DDP version 0
  EXPECT_EQ(kind_of("4141" + std::string(untagged)), "malformed");  // a Read Request without its header
  EXPECT_EQ(kind_of("4148" + std::string(untagged) + "0001020304050607"), "fine");
  EXPECT_EQ(stack.get<RdmapImmediateData>()->get<"data">(), 0x0001020304050607U);
  EXPECT_EQ(kind_of("4148" + std::string(untagged) + "000102030405060708"), "malformed");  // one byte too many
}

TEST(DecodeUlpdu, LaterSegmentHasNoRdmapHeader) {
  // Message offset 20: the RDMAP header of the first segment is not repeated.
  const auto bytes = from_hex("4141 00000000 00000001 00000001 00000014 0102030405060708");
  HeaderStack stack;
  decode_ulpdu(stack, bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_FALSE(stack.find(info<RdmapReadRequest>));
  EXPECT_EQ(stack.payload.length, 8U);
}

TEST(RdmapOpcodes, OpcodesMatchTheFigures) {
  // RFC 5040, figure 4, and RFC 7306, figure 2: tagged flag, queue number, solicited event, invalidate STag.
  const struct {
    RdmapOperation operation;
    bool tagged;
    unsigned queue;
    bool solicited_event = false, invalidate = false;
  } rows[] = {
      {RdmapOperation::rdma_write, true, 0},
      {RdmapOperation::read_request, false, 1},
      {RdmapOperation::read_response, true, 0},
      {RdmapOperation::send, false, 0},
      {RdmapOperation::send_invalidate, false, 0, false, true},
      {RdmapOperation::send_se, false, 0, true},
      {RdmapOperation::send_se_invalidate, false, 0, true, true},
      {RdmapOperation::terminate, false, 2},
      {RdmapOperation::immediate_data, false, 0},
      {RdmapOperation::immediate_data_se, false, 0, true},
      {RdmapOperation::atomic_request, false, 1},
      {RdmapOperation::atomic_response, false, 3},
  };
  for (const auto& row : rows) {
    const RdmapOpcode& op = rdmap_opcode(row.operation);
    EXPECT_TRUE(op.known);
    EXPECT_EQ(op.value, static_cast<unsigned>(row.operation));
    EXPECT_EQ(op.tagged, row.tagged) << op.name;
    EXPECT_EQ(op.queue, row.queue) << op.name;
    EXPECT_EQ(op.solicited_event, row.solicited_event) << op.name;
    EXPECT_EQ(op.invalidate, row.invalidate) << op.name;
    EXPECT_EQ(op.header == nullptr, op.payload) << op.name;
  }
  for (unsigned reserved = 12; reserved < 16; ++reserved)
    EXPECT_FALSE(rdmap_opcode(static_cast<std::uint8_t>(reserved)).known);
  EXPECT_EQ(rdmap_opcode_names.find(6)->name, "Send with SE and Invalidate");
}

// Encoding computes unset values from the set ones.
TEST(EncodeFpdu, FillsLengthFlagsOpcodeAndQueue) {
  const struct {
    HeaderValue header;
    unsigned opcode, queue;
  } rows[] = {{Value<RdmapReadRequest>(), 1, 1},
              {Value<Terminate>(), 7, 2},
              {Value<RdmapAtomicRequest>(), 10, 1},
              {Value<RdmapAtomicResponse>(), 11, 3},
              {Value<RdmapImmediateData>(), 8, 0}};
  for (const auto& row : rows) {
    const Frame frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>() / row.header;
    const auto bytes = frame.encode();
    HeaderStack stack;
    decode_fpdu(stack, bytes);
    EXPECT_TRUE(stack.findings().empty());
    EXPECT_EQ(bytes.size() % 4, 0U);
    EXPECT_EQ(stack.get<Fpdu>()->get<"ulpdu_length">(), 18 + row.header.header().size);
    EXPECT_EQ(stack.get<Rdmap>()->get<"opcode">(), row.opcode);
    EXPECT_EQ(stack.get<Rdmap>()->get<"rv">(), 1);
    EXPECT_EQ(stack.get<DdpUntagged>()->get<"qn">(), row.queue);
    EXPECT_EQ(stack.layers().back().header, &row.header.header());
    EXPECT_EQ(check_mpa_crc(stack).status, CrcCheck::Status::good);
    Frame again = Frame::of(stack);
    EXPECT_EQ(again.encode(), bytes);
    again.forget_computed();
    EXPECT_EQ(again.encode(), bytes);
  }
}

TEST(EncodeFpdu, KeepsSetValuesEvenIfInvalid) {
  Frame frame = Value<Fpdu>().set<"ulpdu_length">(7) / Value<Ddp>().set<"last">(0).set<"dv">(3) /
                Value<Rdmap>().set<"opcode">(5) / Value<DdpUntagged>().set<"qn">(9);
  frame.payload = {1, 2, 3};
  frame.mpa_crc = 0x01020304;
  const auto expected = from_hex("0007 0345 00000000 00000009 00000001 00000000 010203 00 01020304");
  EXPECT_THAT(frame.encode(), ElementsAreArray(expected));
  std::vector<std::uint8_t> stream;
  MpaSender({.markers = false, .crc = true}).send(stream, frame);
  EXPECT_THAT(stream, ElementsAreArray(expected));
  frame.mpa_crc.reset();
  stream.clear();
  MpaSender({.markers = false, .crc = false}).send(stream, frame);
  EXPECT_EQ(stream.size(), expected.size());
  EXPECT_EQ(load_be<4>(stream.data() + stream.size() - 4), 0U);  // the field is present, although CRCs are not in use
  frame.with_mpa_crc = false;
  EXPECT_EQ(frame.encode().size(), expected.size() - 4);
}

TEST(Mpa, FrameOfLinuxSiwWithEnhancedData) {
  // siw-read's MPA reply: revision 2 with S, IRD and ORD 128.
  const auto bytes = from_hex("4d504120494420526570204672616d65 10 02 0004 00800080");
  HeaderStack stack;
  decode_mpa_frame(stack, bytes);
  EXPECT_TRUE(stack.findings().empty());
  ASSERT_EQ(stack.layers().size(), 1U);
  const auto frame = *stack.get<MpaFrame>();
  EXPECT_TRUE(MpaFrame::is_reply(frame.data()));
  EXPECT_EQ(frame.get<"markers">(), 0);
  EXPECT_EQ(frame.get<"crc">(), 0);
  EXPECT_EQ(frame.get<"enhanced">(), 1);
  EXPECT_EQ(frame.get<"revision">(), 2);
  const Parts parts = info<MpaFrame>.parts(stack.bytes_of(stack.layers()[0]));
  ASSERT_EQ(parts.count, 1U);
  EXPECT_EQ(parts.layers[0].header, &info<MpaEnhanced>);
  const View<MpaEnhanced> enhanced(bytes.data() + parts.layers[0].offset);
  EXPECT_EQ(enhanced.get<"ird">(), 128);
  EXPECT_EQ(enhanced.get<"ord">(), 128);
  EXPECT_EQ(enhanced.get<"peer_to_peer">(), 0);
  EXPECT_EQ(Frame::of(stack).encode(), bytes);
}

TEST(Mpa, ControlFlagsOfTheEnhancedData) {
  // RFC 6581, 9: A and B precede IRD, C and D precede ORD.
  const auto bytes = from_hex("ffff bffe");
  const View<MpaEnhanced> enhanced(bytes.data());
  EXPECT_EQ(enhanced.get<"peer_to_peer">(), 1);
  EXPECT_EQ(enhanced.get<"rtr_send">(), 1);
  EXPECT_EQ(enhanced.get<"ird">(), mpa::no_negotiation);
  EXPECT_EQ(enhanced.get<"rtr_write">(), 1);
  EXPECT_EQ(enhanced.get<"rtr_read">(), 0);
  EXPECT_EQ(enhanced.get<"ord">(), 0x3ffe);
}

TEST(Mpa, EncodesARequest) {
  HeaderValue request = Value<MpaFrame>().set<"crc">(1).set<"enhanced">(1);
  request.set_tail(from_hex("00010001 6162"));
  Frame frame;
  frame /= request;
  EXPECT_THAT(frame.encode(), ElementsAreArray(from_hex("4d504120494420526571204672616d65 50 02 0006 00010001 6162")));
}

TEST(Mpa, InvalidPrivateDataLengths) {
  auto bytes = from_hex("4d504120494420526570204672616d65 10 02 0003 000000");
  HeaderStack stack;
  decode_mpa_frame(stack, bytes);
  EXPECT_TRUE(stack.findings().empty());
  const Parts parts = info<MpaFrame>.parts(stack.bytes_of(stack.layers()[0]));
  EXPECT_EQ(parts.count, 0U);
  ASSERT_TRUE(parts.error);  // S is set, but the private data is too short for the enhanced data
  bytes[18] = 0xff;
  decode_mpa_frame(stack, bytes);
  ASSERT_FALSE(stack.findings().empty());
  EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) decode_mpa_frame(stack, Bytes(bytes).first(cut));
}

// RFC 5044, 7.1: private data has at most 512 bytes.
TEST(Mpa, LongestPrivateData) {
  for (const std::size_t length : {std::size_t{511}, std::size_t{512}, std::size_t{513}}) {
    HeaderValue request = Value<MpaFrame>();
    request.set_tail(std::vector<std::uint8_t>(length, 0x5a));
    Frame frame;
    frame /= request;
    const auto bytes = frame.encode();
    HeaderStack stack;
    decode_mpa_frame(stack, bytes);
    ASSERT_EQ(stack.findings().size(), length > 512 ? 1U : 0U) << length;
    if (length > 512) {
      EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
      EXPECT_EQ(stack.findings()[0].needed, 512U);
      EXPECT_EQ(stack.findings()[0].had, 513U);
    }
  }
}

TEST(Mpa, MulpduFollowsTheFormulas) {
  // RFC 5044, 4.5.
  EXPECT_EQ(mpa::mulpdu(1460, false), 1460U - 6);
  EXPECT_EQ(mpa::mulpdu(1448, true), 1448U - (6 + 4 * 3));
  EXPECT_EQ(mpa::mulpdu(1461, true), 1461U - (6 + 4 * 3 + 1));
  EXPECT_EQ(mpa::mulpdu(100, true), 128U);  // minimum
  EXPECT_EQ(mpa::mulpdu(0, false), 128U);
}

TEST(Mpa, MarkersInsertedAndRemoved) {
  std::mt19937 random(42);
  for (int round = 0; round < 500; ++round) {
    const std::uint64_t position = 512 * (random() % 3) + (random() % 2 ? 0 : 4 * (1 + random() % 127));
    MpaSender sender({.markers = true, .crc = true}, position);
    std::vector<std::uint8_t> stream, plain;
    for (int k = 0; k < 5; ++k) {
      std::vector<std::uint8_t> ulpdu(random() % (round % 9 ? 700 : 5000));
      for (auto& b : ulpdu) b = static_cast<std::uint8_t>(random());
      const std::uint64_t before = sender.position();
      ASSERT_TRUE(sender.send(stream, ulpdu));
      const std::uint32_t bytes = mpa::fpdu_bytes(static_cast<std::uint32_t>(ulpdu.size()));
      ASSERT_EQ(sender.position() - before, MarkerGrid::span(before, bytes));
      const std::size_t at = plain.size();
      plain.resize(at + bytes - 4);
      store_be(plain.data() + at, 2, ulpdu.size());
      std::copy(ulpdu.begin(), ulpdu.end(), plain.begin() + static_cast<std::ptrdiff_t>(at) + 2);
      const Bytes crc = Bytes(stream).last(4);
      plain.insert(plain.end(), crc.begin(), crc.end());
    }
    ASSERT_EQ(sender.position(), position + stream.size());
    std::vector<std::uint8_t> out(stream.size());
    out.resize(remove_markers(stream, position, out.data()));
    ASSERT_EQ(out, plain);
    // Removes the markers in place from two pieces. The boundary between them may be inside a marker.
    const std::size_t cut = random() % (stream.size() + 1);
    std::vector<std::uint8_t> pieces = stream;
    std::size_t n = remove_markers(Bytes(pieces).first(cut), position, pieces.data());
    n += remove_markers(Bytes(pieces).subspan(cut), position + cut, pieces.data() + n);
    pieces.resize(n);
    ASSERT_EQ(pieces, plain);
  }
}

TEST(MpaSender, MarkerBetweenPadAndCrcIsCovered) {
  // RFC 5044, 4.4: a marker before the CRC field belongs to the FPDU that ends after it.
  MpaSender sender({.markers = true, .crc = true}, 512 - 20);
  std::vector<std::uint8_t> stream;
  ASSERT_TRUE(
      sender.send(stream, from_hex("c140 00000001 0000000000000000 000102")));  // 2 + 17 + 1 bytes, then the marker
  ASSERT_EQ(stream.size(), 28U);
  EXPECT_EQ(load_be<4>(stream.data() + 20), 20U);
  EXPECT_EQ(load_be<4>(stream.data() + 24), compute_mpa_crc(Bytes(stream).first(24)));
  EXPECT_EQ(sender.position() % 512, 8U);
}

TEST(MpaSender, RejectsUlpduLongerThanItsLengthField) {
  std::vector<std::uint8_t> stream;
  MpaSender sender({});
  EXPECT_FALSE(sender.send(stream, std::vector<std::uint8_t>(65536)));
  EXPECT_TRUE(stream.empty());
  EXPECT_TRUE(sender.send(stream, std::vector<std::uint8_t>(65535)));
  EXPECT_EQ(stream.size(), 65544U);
}

TEST(SegmentDdp, TaggedMessageIncrementsItsOffset) {
  Frame write = Value<Ddp>() / Value<Rdmap>() / Value<DdpTagged>().set<"stag">(5).set<"to">(0xfffffffffffffff0);
  write.payload.resize(250);
  for (std::size_t i = 0; i < write.payload.size(); ++i) write.payload[i] = static_cast<std::uint8_t>(i);
  const auto segments = segment_ddp(write, 114);
  ASSERT_EQ(segments.size(), 3U);
  std::vector<std::uint8_t> joined;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto bytes = segments[i].encode();
    ASSERT_LE(bytes.size(), 114U);
    HeaderStack stack;
    decode_ulpdu(stack, bytes);
    EXPECT_TRUE(stack.findings().empty());
    EXPECT_EQ(stack.get<Ddp>()->get<"last">(), i == 2);
    EXPECT_EQ(stack.get<DdpTagged>()->get<"to">(), 0xfffffffffffffff0 + 100 * i);
    const Bytes payload = stack.bytes_of(stack.payload);
    joined.insert(joined.end(), payload.begin(), payload.end());
  }
  EXPECT_EQ(joined, write.payload);
}

TEST(SegmentDdp, UntaggedMessageKeepsItsMsn) {
  Frame send = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>().set<"opcode">(6) /
               Value<DdpUntagged>().set<"msn">(77).set<"invalidate_stag">(9);
  send.payload.resize(36);
  const auto segments = segment_ddp(send, 30);
  ASSERT_EQ(segments.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    HeaderStack stack;
    const auto bytes = segments[i].encode();
    decode_fpdu(stack, bytes);
    EXPECT_EQ(stack.get<Rdmap>()->get<"opcode">(), 6);
    EXPECT_EQ(stack.get<DdpUntagged>()->get<"msn">(), 77U);
    EXPECT_EQ(stack.get<DdpUntagged>()->get<"mo">(), 12 * i);
    EXPECT_EQ(stack.get<DdpUntagged>()->get<"invalidate_stag">(), 9U);
    EXPECT_EQ(stack.payload.length, 12U);
    EXPECT_EQ(check_mpa_crc(stack).status, CrcCheck::Status::good);
  }
}

TEST(SegmentDdp, Edges) {
  Frame send = Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>();
  EXPECT_EQ(segment_ddp(send, 18).size(), 1U);  // an empty message has one segment
  send.payload.resize(1);
  EXPECT_TRUE(segment_ddp(send, 18).empty());
  EXPECT_EQ(segment_ddp(send, 19).size(), 1U);
  const Frame read = Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>() / Value<RdmapReadRequest>();
  EXPECT_TRUE(segment_ddp(read, 45).empty());  // the RDMA Read Request header is not split
  EXPECT_EQ(segment_ddp(read, 46).size(), 1U);
  Frame nothing;
  EXPECT_TRUE(segment_ddp(nothing, 1000).empty());
}

std::vector<const HeaderInfo*> part_headers(const Parts& parts) {
  std::vector<const HeaderInfo*> out;
  for (std::size_t i = 0; i < parts.count; ++i) out.push_back(parts.layers[i].header);
  return out;
}

TEST(TerminateMessage, QuotesTheReadRequest) {
  // RDMA layer, remote protection error, base or bounds violation. M, D and R: length 46, DDP header, RDMAP header.
  const auto bytes = from_hex(
      "4147 00000000 00000002 00000001 00000000"
      "0101e000 002e 4141 00000000 00000001 00000005 00000000"
      "d7932900 0000558edd94a000 00004000 a9982400 000055a89b407000");
  HeaderStack stack;
  decode_ulpdu(stack, bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_EQ(stack.get<DdpUntagged>()->get<"msn">(), 1U);  // MSN of the Terminate message, not of the quoted segment
  const auto terminate = *stack.get<Terminate>();
  EXPECT_EQ(terminate.get<"segment_length_valid">(), 1);
  EXPECT_EQ(terminate.get<"ddp_header_included">(), 1);
  EXPECT_EQ(terminate.get<"rdma_header_included">(), 1);
  const Layer& layer = *stack.find(info<Terminate>);
  EXPECT_EQ(layer.length, bytes.size() - 18);
  const Parts parts = info<Terminate>.parts(stack.bytes_of(layer));
  EXPECT_FALSE(parts.error);
  ASSERT_THAT(part_headers(parts), ::testing::ElementsAre(&info<DdpSegmentLength>, &info<Ddp>, &info<Rdmap>,
                                                          &info<DdpUntagged>, &info<RdmapReadRequest>));
  EXPECT_EQ(View<DdpUntagged>(terminate.data() + parts.layers[3].offset).get<"msn">(), 5U);
  EXPECT_EQ(View<RdmapReadRequest>(terminate.data() + parts.layers[4].offset).get<"size">(), 16384U);
  EXPECT_EQ(Frame::of(stack).encode(), bytes);
}

TEST(TerminateMessage, QuotesTaggedHeaderAndStopsAtTruncation) {
  const auto whole = from_hex("1100 c000 0400 c140 12345678 0000000000001000");
  Parts parts = info<Terminate>.parts(whole);
  EXPECT_THAT(part_headers(parts),
              ::testing::ElementsAre(&info<DdpSegmentLength>, &info<Ddp>, &info<Rdmap>, &info<DdpTagged>));
  for (std::size_t cut = Terminate::size; cut < whole.size(); ++cut) {
    parts = info<Terminate>.parts(Bytes(whole).first(cut));
    ASSERT_TRUE(parts.error) << cut;
    EXPECT_EQ(parts.error->kind, ParseError::Kind::truncated);
  }
  const auto bare = from_hex("2002 0000");
  EXPECT_EQ(info<Terminate>.parts(bare).count, 0U);
}

// Every code of RFC 5040 figure 9, RFC 5041 7.2, RFC 5044 8 and RFC 6581 8 has a name, but only in combination with its
// own error type.
TEST(TerminateMessage, NamesLayerTypeAndCode) {
  const auto name = [](std::uint8_t layer_type, std::uint8_t code) -> std::string {
    const std::uint8_t bytes[] = {layer_type, code, 0, 0};
    std::string found;
    for (const Field& f : info<Terminate>.fields)
      if (f.name.starts_with("error_code.") && f.present_in(bytes)) {
        EXPECT_TRUE(found.empty());
        const Name* entry = f.names->find(f.load(bytes));
        found = std::string(f.name.substr(11)) + ": " + (entry ? std::string(entry->name) : "?");
      }
    return found;
  };
  EXPECT_EQ(name(0x00, 0), "");
  EXPECT_EQ(name(0x01, 0x02), "protection: Access rights violation");
  EXPECT_EQ(name(0x01, 0x04), "protection: TO wrap");
  EXPECT_EQ(name(0x02, 0x06), "operation: Unexpected OpCode");
  EXPECT_EQ(name(0x02, 0x09), "operation: STag cannot be Invalidated");
  EXPECT_EQ(name(0x01, 0x05), "protection: ?");
  EXPECT_EQ(name(0x11, 0x00), "ddp_tagged: Invalid STag");
  EXPECT_EQ(name(0x12, 0x05), "ddp_untagged: DDP Message too long for available buffer");
  EXPECT_EQ(name(0x12, 0x00), "ddp_untagged: ?");
  EXPECT_EQ(name(0x20, 0x02), "mpa: MPA CRC error");
  EXPECT_EQ(name(0x20, 0x06), "mpa: Insufficient IRD resources");
  EXPECT_EQ(name(0x20, 0x07), "mpa: No matching RTR option");
  EXPECT_EQ(name(0x30, 0x00), "");
}

TEST(Atomic, RequestAndResponse) {
  const auto request = from_hex(
      "414a 00000000 00000001 00000003 00000000"
      "00000002 0000002a 00112233 0000000000001000 0000000000000007 ffffffffffffffff 0000000000000005 "
      "00000000000000ff");
  HeaderStack stack;
  decode_ulpdu(stack, request);
  EXPECT_TRUE(stack.findings().empty());
  const auto atomic = *stack.get<RdmapAtomicRequest>();
  EXPECT_EQ(atomic_operation_names.find(atomic.get<"operation">())->name, "CmpSwap");
  EXPECT_EQ(atomic.get<"request_id">(), 42U);
  EXPECT_EQ(atomic.get<"stag">(), 0x00112233U);
  EXPECT_EQ(atomic.get<"to">(), 0x1000U);
  EXPECT_EQ(atomic.get<"add_swap_data">(), 7U);
  EXPECT_EQ(atomic.get<"add_swap_mask">(), ~0ULL);
  EXPECT_EQ(atomic.get<"compare_data">(), 5U);
  EXPECT_EQ(atomic.get<"compare_mask">(), 0xffU);
  const auto response = from_hex("414b 00000000 00000003 00000003 00000000 0000002a 0000000000000005");
  decode_ulpdu(stack, response);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_EQ(stack.get<RdmapAtomicResponse>()->get<"request_id">(), 42U);
  EXPECT_EQ(stack.get<RdmapAtomicResponse>()->get<"original">(), 5U);
}

}  // namespace
}  // namespace rdmawire
