#include "dissectors/protocol/user_headers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/registry.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

using ::testing::HasSubstr;
using Counts = UserField::Counts;

constexpr std::uint8_t send_only = 4, send_only_immediate = 5;

UserHeader::Predecessor after_bth(std::uint8_t opcode) { return {&info<Bth>, {{info<Bth>.find("opcode"), opcode}}}; }
UserHeader::Predecessor after_udp(std::uint16_t port) { return {&info<Udp>, {{info<Udp>.find("dst_port"), port}}}; }

/// Returns a header with a variable part and a payload length, which is defined once per process.
const HeaderInfo& storage() {
  static const HeaderInfo* const header =
      define_header({.name = "storage",
                     .type_name = "Storage",
                     .title = "Storage request",
                     .fields = {{.name = "op", .width = 4, .names = {{1, "PUT"}, {2, "GET"}}},
                                {.name = "flags", .width = 4, .display = Display::hexadecimal},
                                {.name = "key_length", .width = 8, .counts = Counts::tail},
                                {.name = "size", .width = 16, .counts = Counts::payload}},
                     .tail = "key",
                     .after = {after_bth(send_only), after_bth(send_only_immediate)}})
          .value();
  return *header;
}

Frame frame_with(HeaderValue header, std::uint8_t opcode = send_only) {
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"dst">(0x0a000002) / Value<Udp>() /
                Value<Bth>().set<"opcode">(opcode).set<"dest_qp">(17);
  if (opcode == send_only_immediate) frame /= Value<ImmDt>();
  frame /= std::move(header);
  frame.payload = {'d', 'a', 't', 'a', '!'};
  return frame;
}

HeaderValue put(std::string_view key) {
  HeaderValue value(storage());
  value.set(*storage().find("op"), 1);
  value.set_tail({reinterpret_cast<const std::uint8_t*>(key.data()), key.size()});
  return value;
}

TEST(UserHeaders, AreInTheRegistry) {
  const HeaderInfo& header = storage();
  EXPECT_EQ(find_header("storage"), &header);
  EXPECT_EQ(find_field("storage.op").field, header.find("op"));
  EXPECT_EQ(type_name(header), "Storage");
  EXPECT_EQ(header.size, 4U);
  EXPECT_THAT(all_headers(), ::testing::Contains(&header));
}

TEST(UserHeaders, EncodeAndDecodeRoundTrip) {
  for (const std::uint8_t opcode : {send_only, send_only_immediate}) {
    const std::vector<std::uint8_t> bytes = frame_with(put("alpha"), opcode).encode();
    HeaderStack stack = decode(bytes);
    const Range before = stack.payload;
    decode_user_headers(stack);
    ASSERT_EQ(stack.layers().back().header, &storage());
    const Bytes header = stack.bytes_of(stack.layers().back());
    EXPECT_EQ(std::vector<std::uint8_t>(header.begin(), header.end()),
              (std::vector<std::uint8_t>{0x10, 5, 0, 5, 'a', 'l', 'p', 'h', 'a'}));
    EXPECT_EQ(stack.payload.length, 5U);
    EXPECT_EQ(stack.payload.end(), before.end());
    EXPECT_TRUE(stack.findings().empty());
    EXPECT_EQ(Frame::of(stack).encode(), bytes);
  }
}

// The sum of the header's size and its length field exceeds 64 bits.
TEST(UserHeaders, LengthFieldOf64BitsBeyondThePacketIsMalformed) {
  static const HeaderInfo* const wide = define_header({.name = "wide_length",
                                                       .type_name = "WideLength",
                                                       .fields = {{.name = "n", .width = 64, .counts = Counts::tail}},
                                                       .tail = "rest",
                                                       .after = {after_udp(7001)}})
                                            .value();
  for (const std::uint64_t length :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 32, std::uint64_t{9}}) {
    Frame frame = Value<Ethernet>() / Value<Ipv4>() / Value<Udp>().set<"dst_port">(7001);
    frame.payload.assign(16, 0);
    store_be(frame.payload.data(), 8, length);
    const std::vector<std::uint8_t> bytes = frame.encode();
    HeaderStack stack = decode(bytes);
    decode_user_headers(stack);
    EXPECT_EQ(stack.layers().back().header, &info<Udp>) << length;
    ASSERT_EQ(stack.findings().size(), 1U);
    EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
    EXPECT_EQ(stack.findings()[0].layer, wide);
  }
}

TEST(UserHeaders, DisabledHeaderIsPayload) {
  const std::vector<std::uint8_t> bytes = frame_with(put("alpha")).encode();
  for (const bool decoded : {false, true}) {
    set_decoded(storage(), decoded);
    HeaderStack stack = decode(bytes);
    decode_user_headers(stack);
    EXPECT_EQ(stack.layers().back().header, decoded ? &storage() : &info<Bth>);
  }
}

TEST(UserHeaders, OtherOpcodeHasPayload) {
  const std::vector<std::uint8_t> bytes = frame_with(put("alpha"), 0x0a).encode();  // RC RDMA WRITE Only without RETH
  HeaderStack stack = decode(bytes);
  decode_user_headers(stack);
  EXPECT_NE(stack.layers().back().header, &storage());
}

TEST(UserHeaders, TooLongVariablePartIsAFinding) {
  HeaderValue value = put("alpha");
  value.set(*storage().find("key_length"), 200);
  const std::vector<std::uint8_t> bytes = frame_with(value).encode();
  HeaderStack stack = decode(bytes);
  decode_user_headers(stack);
  EXPECT_EQ(stack.layers().back().header, &info<Bth>);
  ASSERT_EQ(stack.findings().size(), 1U);
  EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
  EXPECT_EQ(stack.findings()[0].needed, 204U);
  EXPECT_EQ(Frame::of(stack).encode(), bytes);
}

TEST(UserHeaders, TruncatedCaptureIsAFinding) {
  const std::vector<std::uint8_t> bytes = frame_with(put("alpha")).encode();
  constexpr std::size_t captured = Ethernet::size + Ipv4::size + Udp::size + Bth::size + 2;
  HeaderStack stack;
  decode(stack, Bytes(bytes).first(captured), LinkType::ethernet, static_cast<std::uint32_t>(bytes.size()));
  decode_user_headers(stack);
  ASSERT_FALSE(stack.findings().empty());
  EXPECT_EQ(stack.findings().back().kind, ParseError::Kind::truncated);
  EXPECT_EQ(stack.findings().back().layer, &storage());
}

TEST(UserHeaders, HeadersFollowEachOtherAndSetTheSelectingFields) {
  const HeaderInfo& outer = *define_header({.name = "outer",
                                            .type_name = "Outer",
                                            .fields = {{.name = "next", .width = 8}},
                                            .after = {after_udp(7777)}})
                                 .value();
  const HeaderInfo& inner = *define_header({.name = "inner",
                                            .type_name = "Inner",
                                            .fields = {{.name = "value", .width = 32}},
                                            .after = {{&outer, {{outer.find("next"), 9}}}}})
                                 .value();
  Frame frame = Value<Ethernet>() / Value<Ipv4>() / Value<Udp>() / HeaderValue(outer);
  frame /= HeaderValue(inner);
  const std::vector<std::uint8_t> bytes = frame.encode();
  HeaderStack stack = decode(bytes);
  EXPECT_EQ(stack.get<Udp>()->get<"dst_port">(), 7777);
  decode_user_headers(stack);
  ASSERT_GE(stack.layers().size(), 5U);
  EXPECT_EQ(stack.layers()[3].header, &outer);
  EXPECT_EQ(stack.layers()[4].header, &inner);
  EXPECT_EQ(stack.bytes[stack.layers()[3].offset], 9);
}

TEST(UserHeaders, InvalidDefinitionsAreRejected) {
  const auto error = [](std::vector<UserField> fields, std::string name = "wrong", std::string tail = {}) {
    UserHeader header{.name = std::move(name),
                      .type_name = "Wrong",
                      .fields = std::move(fields),
                      .tail = std::move(tail),
                      .after = {after_udp(1)}};
    const auto made = define_header(std::move(header));
    return made ? std::string() : made.error();
  };
  EXPECT_THAT(error({{.name = "x", .width = 7}}), HasSubstr("a whole number of bytes, got 7 bits"));
  EXPECT_THAT(error({}), HasSubstr("got 0 bits"));
  EXPECT_THAT(error({{.name = "x", .width = 8}}, "bth"), HasSubstr("header bth: the name is in use"));
  EXPECT_THAT(error({{.name = "X", .width = 8}}), HasSubstr("expected a name of lower-case letters"));
  EXPECT_THAT(error({{.name = "x", .width = 8}, {.name = "x", .width = 8}}), HasSubstr("the name x occurs twice"));
  EXPECT_THAT(error({{.name = "x", .width = 72}}), HasSubstr("at most 64 bits"));
  EXPECT_THAT(error({{.name = "x", .width = 4}, {.name = "y", .width = 64}, {.name = "z", .width = 4}}),
              HasSubstr("field y: a number has at most 64 bits"));
  EXPECT_THAT(error({{.name = "x", .width = 40, .display = Display::ipv4}}), HasSubstr("has 32 bits, not 40"));
  EXPECT_THAT(error({{.name = "x", .width = 4}, {.name = "y", .width = 12, .display = Display::bytes}}),
              HasSubstr("whole bytes at a byte boundary"));
  EXPECT_THAT(error({{.name = "x", .width = 4, .names = {{16, "SIXTEEN"}}}, {.name = "y", .width = 4}}),
              HasSubstr("expected names of values from 0 to 15, got 16"));
  EXPECT_THAT(error({{.name = "x", .width = 8}}, "wrong", "rest"),
              HasSubstr("one field that counts the variable part"));
  EXPECT_THAT(error({{.name = "x", .width = 16384, .display = Display::bytes}}), HasSubstr("at most 1024 bytes"));
  EXPECT_EQ(find_header("wrong"), nullptr);
}

}  // namespace
}  // namespace rdmawire
