#include "dissectors/protocol/mad.hpp"

#include <gtest/gtest.h>

#include <random>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mad_testing.hpp"
#include "dissectors/protocol/registry.hpp"

namespace rdmawire {
namespace {

using namespace rdmawire::testing;

// Returns one datagram of each class. The bytes of the attributes ascend.
std::vector<std::vector<std::uint8_t>> one_of_each() {
  std::vector<std::vector<std::uint8_t>> all;
  const auto add = [&](std::string_view begin) {
    auto mad = from_hex(begin);
    for (std::size_t i = mad.size(); i < Mad::whole; ++i) mad.push_back(static_cast<std::uint8_t>(i));
    all.push_back(datagram(mad));
  };
  add("01010181 0000 0000 0000000000000001 0015 0000 00000000");
  add("01810181 8000 0203 0000000000000001 0011 0000 00000000");
  add("01010105 0000 0000 0000000000000001 0002 0000 00000000");
  add("01030281 0000 0000 0000000000000001 0035 0000 00000000 01000000");
  add("01030292 0000 0000 0000000000000001 0038 0000 00000000 01010700 00000001 000000d4 0000000000000000 0007");
  add("01040181 0000 0000 0000000000000001 0012 0000 00000000");
  for (unsigned id = 0x10; id <= 0x1a; ++id) {
    add("01070203 0000 0000 0000000000000001 0010 0000 00000000 00000000 00000000 0000000001061c06");
    all.back()[datagram_at + 17] = static_cast<std::uint8_t>(id);
  }
  add("01300103 0000 0000 0000000000000001 0010 0000 00000000 01000000");
  return all;
}

void expect_inside(const HeaderStack& stack) {
  std::size_t end = 0;
  for (const Layer& layer : stack.layers()) {
    ASSERT_EQ(layer.offset, end);
    ASSERT_GE(layer.length, layer.header->size);
    end = layer.offset + layer.length;
  }
  ASSERT_LE(end, stack.bytes.size());
  ASSERT_LE(stack.payload.end(), stack.bytes.size());
  ASSERT_TRUE(stack.payload.offset == 0 || stack.payload.offset == end);
}

TEST(Mad, CommonHeader) {
  const auto bytes = datagram(from_hex("01210181 0c1f 1234 0102030405060708 0016 0000 a1a2a3a4"));
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad");
  EXPECT_EQ(stack.payload.length, 232U);
  const auto mad = *stack.get<Mad>();
  EXPECT_EQ(mad.get<"base_version">(), 1);
  EXPECT_EQ(management_class_names.find(mad.get<"class">())->name, "CongMgt");
  EXPECT_EQ(mad.get<"class_version">(), 1);
  EXPECT_EQ(mad_method_names.find(mad.get<"method">())->name, "GetResp");
  EXPECT_EQ(mad.get<"method.response">(), 1);
  EXPECT_EQ(mad.get<"status">(), 0x0c1f);
  EXPECT_EQ(mad_status_names.find(mad.get<"status.invalid">())->name, "invalid field");
  EXPECT_EQ(mad.get<"status.redirect">(), 1);
  EXPECT_EQ(mad.get<"status.busy">(), 1);
  EXPECT_EQ(mad.get<"class_specific">(), 0x1234);
  EXPECT_EQ(mad.get<"transaction_id">(), 0x0102030405060708U);
  EXPECT_EQ(cc_attribute_names.find(mad.get<"attribute_id.cc">())->name, "CACongestionSetting");
  EXPECT_TRUE(info<Mad>.find("attribute_id.cc")->present_in(mad.data()));
  EXPECT_FALSE(info<Mad>.find("attribute_id.cm")->present_in(mad.data()));
  EXPECT_EQ(mad.get<"attribute_modifier">(), 0xa1a2a3a4U);
}

TEST(Mad, TimesArePowersOfTwo) {
  EXPECT_EQ(exponential_time_ns(0), 4096U);
  EXPECT_EQ(exponential_time_ns(31), 8796093022208U);
  EXPECT_EQ(exponential_time_ns(51), 1ULL << 63);
  EXPECT_EQ(exponential_time_ns(52), ~0ULL);  // PathRecord's time code has six bits
  EXPECT_EQ(exponential_time_ns(63), ~0ULL);
}

TEST(Mad, UnknownPartsStayPayload) {
  struct {
    const char* what;
    std::string_view begin;
    std::string_view layers;
    bool finding;
  } rows[] = {
      {"an unassigned class", "01ff0101 0000 0000 0000000000000001 0011", "mad", false},
      {"another base version", "80010181 0000 0000 0000000000000001 0011", "mad", true},
      {"another class version", "01070103 0000 0000 0000000000000001 0010", "mad", true},
      {"an unassigned attribute of CM", "01070203 0000 0000 0000000000000001 0099", "mad", false},
      {"a method without such an attribute", "01070281 0000 0000 0000000000000001 0010", "mad", false},
      {"a vendor's class", "01320103 0000 0000 0000000000000001 0010", "mad rmpp vendormad", false},
      {"a vendor's class without OUI", "01090103 0000 0000 0000000000000001 0010", "mad", false},
      {"device administration", "01100103 0000 0000 0000000000000001 0010", "mad rmpp", false},
      {"device management", "01060101 0000 0000 0000000000000001 0010", "mad", false},
  };
  for (const auto& row : rows) {
    const auto bytes = datagram(from_hex(row.begin));
    const HeaderStack stack = decode_transport(bytes);
    EXPECT_EQ(layers_of(stack), row.layers) << row.what;
    EXPECT_EQ(!stack.findings().empty(), row.finding) << row.what;
    for (const ParseError& finding : stack.findings()) EXPECT_EQ(finding.kind, ParseError::Kind::unknown) << row.what;
    EXPECT_EQ(stack.payload.end(), bytes.size()) << row.what;
  }
}

TEST(Mad, OtherSizesAreFindings) {
  for (const std::size_t size : {24UL, 164UL, 255UL, 257UL, 2048UL}) {
    auto bytes = datagram(from_hex("01070203 0000 0000 0000000000000001 0010"), size);
    bytes.resize(datagram_at + size);
    const HeaderStack stack = decode_transport(bytes);
    ASSERT_FALSE(stack.findings().empty()) << size;
    EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
    EXPECT_EQ(stack.findings()[0].had, size);
    expect_inside(stack);
  }
}

TEST(Mad, TruncationAtEveryByteIsNotMalformed) {
  for (const auto& bytes : one_of_each())
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      // Tests a datagram after an LRH and an RWH (raw InfiniBand). The LRH's length field contains the length of the
      // packet.
      const auto lrh = from_hex("0002 0001 0000 0002");
      std::vector<std::uint8_t> packet = joined({lrh, bytes, from_hex("00000000 0000")});
      store_be(packet.data() + 4, 2, (packet.size() - 2) / 4);
      HeaderStack stack;
      decode(stack, Bytes(packet).first(n + lrh.size()), LinkType::infiniband,
             static_cast<std::uint32_t>(packet.size()));
      EXPECT_TRUE(stack.cut);
      for (const ParseError& finding : stack.findings())
        EXPECT_EQ(finding.kind, ParseError::Kind::truncated) << n << " " << to_string(finding);
      expect_inside(stack);
      ASSERT_FALSE(HasFailure()) << n;
      EXPECT_EQ(Frame::of(stack).encode().size(), n + lrh.size());
    }
}

TEST(Mad, LengthFieldsTooShortAreMalformed) {
  for (const auto& bytes : one_of_each())
    for (std::size_t n = datagram_at; n < bytes.size(); ++n) {
      const std::vector<std::uint8_t> packet(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      const HeaderStack stack = decode_transport(packet);
      ASSERT_FALSE(stack.findings().empty()) << n;
      for (const ParseError& finding : stack.findings()) EXPECT_EQ(finding.kind, ParseError::Kind::malformed) << n;
      expect_inside(stack);
      EXPECT_EQ(Frame::of(stack).encode(), packet) << n;
    }
}

TEST(Mad, RandomBytes) {
  std::mt19937 random(7);
  const auto seeds = one_of_each();
  std::size_t deepest = 0;
  for (int round = 0; round < 200000; ++round) {
    auto bytes = seeds[random() % seeds.size()];
    // Most rounds keep the common header intact, so that the following headers are decoded.
    for (std::size_t i = datagram_at + Mad::size; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(random());
    if (round % 3 == 0) bytes[datagram_at + random() % Mad::size] = static_cast<std::uint8_t>(random());
    // Half of the rounds have a valid RMPP header, which sometimes has a wrong flag or number.
    if (round % 2) {
      const auto rmpp = from_hex("01010700 00000001 000000d4 0000000000000000 0008");
      std::copy(rmpp.begin(), rmpp.end(), bytes.begin() + datagram_at + Mad::size);
      if (round % 5 == 0) bytes[datagram_at + Mad::size + random() % rmpp.size()] = static_cast<std::uint8_t>(random());
    }
    if (round % 7 == 0) bytes.resize(datagram_at + random() % 300);
    const HeaderStack stack = decode_transport(bytes);
    expect_inside(stack);
    ASSERT_FALSE(HasFailure()) << round;
    deepest = std::max(deepest, stack.layers().size());
    // A datagram without a finding is complete, and each header is determined by the preceding one.
    if (!stack.findings().empty()) continue;
    ASSERT_EQ(bytes.size(), datagram_at + Mad::whole);
    ASSERT_EQ(stack.get<Mad>()->get<"base_version">(), 1);
    const HeaderInfo* attribute = mad_attribute(
        stack.get<Mad>()->get<"class">(), stack.get<Mad>()->get<"attribute_id">(), stack.get<Mad>()->get<"method">());
    for (const Layer& layer : stack.layers().subspan(3)) {
      const std::string_view name = layer.header->name;
      const bool frame_of_class = name == "smp" || name == "smpdr" || name == "smpdata" || name == "smppath" ||
                                  name == "rmpp" || name == "sa" || name == "pm" || name == "vendormad" ||
                                  name == "rdmacm";
      ASSERT_TRUE(frame_of_class || layer.header == attribute) << name;
    }
    if (round % 100 != 0) continue;
    ASSERT_EQ(Frame::of(stack).encode(), bytes);
  }
  EXPECT_GE(deepest, 8U);  // some packets contain lists of records
}

TEST(Mad, EncodingComputesUnsetValuesAndKeepsSetOnes) {
  Frame frame = Value<Bth>().set<"dest_qp">(1).set<"opcode">(0x64) / Value<Deth>().set<"qkey">(5) /
                Value<Mad>().set<"class">(0x99).set<"base_version">(7) / HeaderValue(*find_header("cmrtu"));
  frame.with_icrc = false;
  frame.payload = {1, 2, 3};
  const auto bytes = frame.encode();
  EXPECT_EQ(bytes.size(), datagram_at + 256U);
  const View<Mad> mad(bytes.data() + datagram_at);
  EXPECT_EQ(mad.get<"class">(), 0x99);
  EXPECT_EQ(mad.get<"base_version">(), 7);
  EXPECT_EQ(mad.get<"attribute_id">(), 0x14);
  EXPECT_EQ(View<Deth>(bytes.data() + Bth::size).get<"qkey">(), 5U);
  EXPECT_EQ(bytes[datagram_at + 34], 3);
  // Encoding keeps padding that the caller set.
  frame.pad.emplace();
  EXPECT_EQ(frame.encode().size(), datagram_at + 24U + 8U + 3U);
}

TEST(Registry, EnumerationsAscendWithoutRepetition) {
  for (const Names* names : all_names()) {
    EXPECT_FALSE(names->title.empty());
    EXPECT_FALSE(names->section.empty()) << names->title;
    for (std::size_t i = 0; i < names->entries.size(); ++i) {
      EXPECT_FALSE(names->entries[i].name.empty()) << names->title;
      EXPECT_TRUE(i == 0 || names->entries[i - 1].value < names->entries[i].value)
          << names->title << " " << names->entries[i].name;
    }
  }
}

}  // namespace
}  // namespace rdmawire
