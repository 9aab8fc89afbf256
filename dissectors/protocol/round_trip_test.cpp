// Encodes random values of every header, decodes them, and expects the same values.

#include <gtest/gtest.h>

#include <random>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/registry.hpp"

namespace rdmawire {
namespace {

class EveryHeader : public testing::TestWithParam<const HeaderInfo*> {};

TEST_P(EveryHeader, RandomValuesRoundTrip) {
  const HeaderInfo& header = *GetParam();
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 1000; ++round) {
    // Every byte is 0xa5 initially, so that bits that no field writes are detected.
    HeaderValue value(header);
    std::fill(value.mutable_bytes().begin(), value.mutable_bytes().end(), std::uint8_t{0xa5});
    std::vector<std::vector<std::uint8_t>> wide(header.fields.size());
    std::vector<std::uint64_t> numbers(header.fields.size());
    for (std::size_t i = 0; i < header.fields.size(); ++i) {
      const Field& f = header.fields[i];
      if (f.is_part()) continue;
      if (f.is_number()) {
        numbers[i] = random() & low_mask(f.width);
        value.set(f, numbers[i]);
      } else {
        for (unsigned k = 0; k < f.width / 8U; ++k) wide[i].push_back(static_cast<std::uint8_t>(random()));
        value.set(f, wide[i]);
      }
    }
    auto parsed = HeaderValue::parse(header, value.bytes());
    ASSERT_TRUE(parsed);
    for (std::size_t i = 0; i < header.fields.size(); ++i) {
      const Field& f = header.fields[i];
      if (f.is_part()) continue;
      if (f.is_number())
        ASSERT_EQ(parsed->get(f), numbers[i]) << f.name;
      else
        ASSERT_TRUE(std::ranges::equal(f.bytes(parsed->bytes().data()), wide[i])) << f.name;
    }
  }
}

TEST_P(EveryHeader, WritingOneFieldKeepsTheOthers) {
  const HeaderInfo& header = *GetParam();
  for (const Field& f : header.fields) {
    if (!f.is_number()) continue;
    for (std::uint8_t background : {std::uint8_t{0}, std::uint8_t{0xff}}) {
      HeaderValue value(header);
      std::fill(value.mutable_bytes().begin(), value.mutable_bytes().end(), background);
      value.set(f, background ? 0 : low_mask(f.width));
      unsigned changed = 0;
      for (std::uint8_t b : value.bytes())
        changed += static_cast<unsigned>(std::popcount<std::uint8_t>(b ^ background));
      EXPECT_EQ(changed, f.width) << f.name;
    }
  }
}

TEST_P(EveryHeader, OneByteTooFewIsAnErrorWithLayerAndLengths) {
  const HeaderInfo& header = *GetParam();
  const std::vector<std::uint8_t> bytes(header.size - 1);
  auto parsed = HeaderValue::parse(header, bytes);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().kind, ParseError::Kind::truncated);
  EXPECT_EQ(parsed.error().layer, &header);
  EXPECT_EQ(parsed.error().needed, header.size);
  EXPECT_EQ(parsed.error().had, header.size - 1);
}

INSTANTIATE_TEST_SUITE_P(All, EveryHeader, testing::ValuesIn(all_headers().begin(), all_headers().end()),
                         [](const auto& i) { return std::string(i.param->name); });

TEST(Registry, NamesAreUniqueAndFound) {
  for (const HeaderInfo* header : all_headers()) {
    EXPECT_EQ(find_header(header->name), header) << header->name;
    for (const Field& f : header->fields) {
      const FieldRef found = find_field(std::string(header->name) + "." + std::string(f.name));
      EXPECT_EQ(found.field, &f);
    }
  }
}

// HeaderValue has a limited number of bits, one per field, that record which fields are set.
TEST(Registry, FieldCountIsWithinTheLimitOfValue) {
  for (const HeaderInfo* header : all_headers()) EXPECT_LE(header->fields.size(), HeaderValue::max_fields);
}

TEST(Registry, EveryFieldHasAMeaning) {
  for (const HeaderInfo* header : all_headers())
    for (const Field& f : header->fields) EXPECT_FALSE(f.meaning.empty()) << header->name << "." << f.name;
}

TEST(Value, TypedFieldsMatchTheTable) {
  Value<Bth> bth;
  bth.set<"opcode">(0x0a).set<"psn">(0xabcdef).set<"dest_qp">(0x123456).set<"pad">(3);
  std::array<std::uint8_t, Bth::size> out;
  out.fill(0xa5);
  bth.emit(out);
  const std::array<std::uint8_t, Bth::size> expected{0x0a, 0x30, 0, 0, 0, 0x12, 0x34, 0x56, 0, 0xab, 0xcd, 0xef};
  EXPECT_EQ(out, expected);
  auto parsed = Value<Bth>::parse(out);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->get<"psn">(), 0xabcdefU);
  EXPECT_EQ(parsed->get<"dest_qp">(), 0x123456U);
  EXPECT_EQ(*parsed, bth);
}

TEST(Registry, NamesOfTypesAndConstants) {
  EXPECT_EQ(type_name(info<Bth>), "BTH");
  EXPECT_EQ(type_name(info<RdmapReadRequest>), "RDMAPReadRequest");
  EXPECT_EQ(constant_name(rdmap_opcode_names, *rdmap_opcode_names.find(6)), "SEND_WITH_SE_AND_INVALIDATE");
  EXPECT_EQ(constant_name(arp_operation_names, *arp_operation_names.find(3)), "RARP_REQUEST");
}

}  // namespace
}  // namespace rdmawire
