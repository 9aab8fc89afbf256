#include "dissectors/output/json.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "captures/io/reader.hpp"
#include "dissectors/output/frames_for_test.hpp"
#include "dissectors/output/line.hpp"
#include "dissectors/output/tree.hpp"
#include "dissectors/protocol/registry.hpp"
#include "source_directory.hpp"

namespace rdmawire::output {
namespace {

using nlohmann::json;
using testing::nak_frame;
using testing::OnePacket;

std::string line_of(const tracking::Packet& packet, const PacketContext& context = {}) {
  std::string out;
  JsonWriter().append(out, packet, context);
  return out;
}

TEST(Json, LiteralFrame) {
  EXPECT_EQ(
      line_of(OnePacket(nak_frame).packet),
      R"({"frame":7,"time":"1795247618.500000000","length":62,"captured":62,"link":"ethernet","wire":"roce_v2","layers":[)"
      R"({"protocol":"eth","offset":0,"length":14,"fields":{"dst":"52:54:00:00:00:03","src":"52:54:00:00:00:02",)"
      R"("type":2048,"type_name":"IPv4"}},)"
      R"({"protocol":"ip","offset":14,"length":20,"fields":{"version":4,"header_length":5,"header_length.bytes":20,"tos":0,"tos.dscp":0,)"
      R"("tos.ecn":0,"tos.ecn_name":"Not-ECT","total_length":48,"identification":29585,"df":1,"mf":0,)"
      R"("fragment_offset":0,"ttl":64,"protocol":17,"protocol_name":"UDP","checksum":45863,"src":"10.0.0.2",)"
      R"("dst":"10.0.0.3"}},)"
      R"({"protocol":"udp","offset":34,"length":8,"fields":{"src_port":49441,"dst_port":4791,"length":28,"checksum":0}},)"
      R"({"protocol":"bth","offset":42,"length":12,"fields":{"opcode":17,"opcode_name":"RC Acknowledge","se":0,)"
      R"("migreq":0,"pad":0,"tver":0,"pkey":65535,"pkey.full":1,"fecn":0,"becn":0,"dest_qp":17,"ack_request":0,)"
      R"("psn":1595257}},)"
      R"({"protocol":"aeth","offset":54,"length":4,"fields":{"syndrome":96,"syndrome.kind":3,"syndrome.kind_name":"NAK",)"
      R"("syndrome.nak_code":0,"syndrome.nak_code_name":"PSN sequence error","msn":0}}],)"
      R"("icrc":{"value":"0x65f72c6f","status":"good"}})"
      "\n");
}

/// An MRC endpoint response.
constexpr std::string_view mrc_response_frame =
    "525400000003525400000002 86dd 60000000 003c 11 40 20010db8000000000000000000000001 "
    "20010db8000000000000000000000002 "
    "c00112b7003c0000 d900ffff0000000200000007 0000000000000000 0000000000000000 0000000000000000 00000000 0005 0000 "
    "00000000 00000000";

TEST(Json, FieldsWithConflictingSourcesAreListed) {
  const json packet = json::parse(line_of(OnePacket(mrc_response_frame).packet));
  EXPECT_EQ(packet["layers"][3]["protocol"], "mrc");
  EXPECT_EQ(packet["layers"][3]["unverified"], json({"se", "migreq", "r", "rtx"}));
  EXPECT_EQ(packet["layers"][4]["unverified"],
            json({"operation_bits", "operation_bits.first", "operation_bits.second"}));
  EXPECT_FALSE(packet["layers"][1].contains("unverified"));
}

TEST(Json, StatusOfCrcs) {
  std::string bad(nak_frame);
  bad.replace(bad.find("65f72c6f"), 8, "00000000");
  EXPECT_EQ(json::parse(line_of(OnePacket(bad).packet))["icrc"],
            (json{{"value", "0x00000000"}, {"computed", "0x65f72c6f"}, {"status", "bad"}}));
  const std::string cut(nak_frame.substr(0, nak_frame.size() - 2));
  EXPECT_EQ(json::parse(line_of(OnePacket(cut, LinkType::ethernet, 1).packet))["icrc"],
            (json{{"status", "unverifiable"}}));
}

TEST(Json, FindingsHavePositionAndLengths) {
  const std::string cut(nak_frame.substr(0, nak_frame.size() - 4 - 9 - 8));
  const json line = json::parse(line_of(OnePacket(cut, LinkType::ethernet, 10).packet));
  ASSERT_FALSE(line["findings"].empty()) << line;
  const json& finding = line["findings"].back();
  EXPECT_EQ(finding["kind"], "truncated");
  EXPECT_EQ(finding["layer"], "bth");
  EXPECT_EQ(finding["offset"], 42);
  EXPECT_EQ(finding["needed"], 12);
  EXPECT_EQ(finding["had"], 10);
}

TEST(Json, TextIsAlwaysUtf8) {
  const auto text = [](std::string_view in) {
    std::string out;
    append_json_string(out, in);
    return out;
  };
  EXPECT_EQ(text("a\"b\\c\n\x01"), R"("a\"b\\c\u000a\u0001")");
  EXPECT_EQ(text("µ→𝄞"), "\"µ→𝄞\"");
  for (std::string_view wrong : {"\xff", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x86"})
    EXPECT_TRUE(json::parse(text(wrong)).get<std::string>().starts_with("\xef\xbf\xbd"));
  const std::string_view comments[] = {"gr\xfc\xdf\x65"};
  EXPECT_EQ(json::parse(line_of(OnePacket(nak_frame).packet, {.file = "x", .comments = comments}))["comments"].size(),
            1U);
}

// Every output format accepts every header with any bytes, and the JSON output is valid.
TEST(OutputFormats, EveryHeaderWithRandomBytes) {
  std::mt19937 random(20261121);
  JsonWriter writer;
  LinePrinter lines;
  for (const HeaderInfo* header : all_headers()) {
    for (int round = 0; round < 50; ++round) {
      const std::uint32_t length =
          header->size + (header->tail.empty() ? 0 : static_cast<std::uint32_t>(random() % 60));
      std::vector<std::uint8_t> bytes(length + 8);
      // The first rounds use all zeros and all ones, which are extreme values for enumerations and conditions.
      for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(round == 0 ? 0 : round == 1 ? 0xff : random());
      tracking::Packet packet;
      packet.stack.reset(bytes, static_cast<std::uint32_t>(bytes.size()));
      ASSERT_TRUE(packet.stack.push(*header, 4, length));
      packet.stack.payload = {4 + length, 4};
      packet.icrc = {CrcCheck::Status::bad, 1, 2};

      std::string out;
      writer.append(out, packet);
      const json line = json::parse(out, nullptr, false);
      ASSERT_FALSE(line.is_discarded()) << header->name << ": " << out;
      EXPECT_EQ(line["layers"][0]["protocol"], header->name);
      const json& fields = line["layers"][0]["fields"];
      for (const Field& field : header->fields) {
        if (field.is_reserved()) continue;
        ASSERT_EQ(fields.contains(field.name), field.present_in(bytes.data() + 4)) << header->name << "." << field.name;
        if (!fields.contains(field.name) || !fields[field.name].is_number()) continue;
        EXPECT_EQ(fields[field.name].get<std::uint64_t>(), field.value(bytes.data() + 4));
      }
      out.clear();
      lines.append(out, packet);
      EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
      append_tree(out, packet);
      append_hexdump(out, packet);
      for (char c : out) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << header->name;
    }
  }
}

// Field names, their "_name" keys and the name of the variable part must be distinct, because they are keys of one
// object.
TEST(Json, NoDuplicateKeys) {
  for (const HeaderInfo* header : all_headers()) {
    std::set<std::string> keys;
    for (const Field& field : header->fields) {
      EXPECT_TRUE(keys.insert(std::string(field.name)).second) << header->name << "." << field.name;
      if (!field.names) continue;
      EXPECT_TRUE(keys.insert(std::string(field.name) + "_name").second) << header->name << "." << field.name;
    }
    EXPECT_FALSE(keys.contains(std::string(header->tail))) << header->name;
  }
}

TEST(Json, EveryPacketOfTheSamples) {
  const std::filesystem::path samples = std::filesystem::path(RDMAWIRE_SOURCE_DIR) / "captures/samples";
  std::uint64_t packets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(samples)) {
    if (entry.path().string().find(".pcap") == std::string::npos) continue;
    auto reader = captures::Reader::open(entry.path().string());
    ASSERT_TRUE(reader) << entry.path();
    tracking::Dissector dissector;
    tracking::Packet packet;
    captures::Record record;
    JsonWriter writer;
    std::string out;
    while (reader->next(record) == captures::Next::record) {
      packet.number = record.number;
      packet.time_ns = record.time;
      packet.link = record.link;
      dissector.dissect(packet, record.bytes, record.wire_length);
      out.clear();
      writer.append(out, packet);
      ASSERT_EQ(out.find('\n'), out.size() - 1);
      const json line = json::parse(out, nullptr, false);
      ASSERT_FALSE(line.is_discarded()) << entry.path() << " frame " << record.number << ": " << out;
      for (const char* key : {"frame", "time", "length", "captured", "link", "layers"})
        ASSERT_TRUE(line.contains(key)) << key;
      ASSERT_EQ(line["frame"], record.number);
      ASSERT_EQ(line["captured"], record.bytes.size());
      ASSERT_EQ(line["layers"].size(), packet.stack.layers().size());
      ++packets;
    }
  }
  EXPECT_GT(packets, 1000U);
}

}  // namespace
}  // namespace rdmawire::output
