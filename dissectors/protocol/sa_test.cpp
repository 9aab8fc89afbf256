#include "dissectors/protocol/sa.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mad_testing.hpp"

namespace rdmawire {
namespace {

using namespace rdmawire::testing;

constexpr std::string_view path_record =
    "0000000000000000 fe800000000000000002c90300001895 fe800000000000000002c9020024f636 0002 0004 80012340 17 81 ffff"
    "abc5 84 83 92 00 0000 00000000";

// Returns an RMPP DATA packet of a GetTableResp. `rmpp` contains flags, segment number and payload length. The
// attribute offset and the records follow.
std::vector<std::uint8_t> table(std::string_view attribute_id, std::string_view rmpp, std::string_view offset,
                                std::vector<std::uint8_t> records) {
  return datagram(joined({from_hex("01030292 0000 0000 00000000000000bb"), from_hex(attribute_id),
                          from_hex("0000 00000000"), from_hex(rmpp), from_hex("0000000000000001"), from_hex(offset),
                          from_hex("0000 0000000000000000"), std::move(records)}));
}

TEST(Sa, PathRecord) {
  const auto bytes =
      datagram(joined({from_hex("01030281 0000 0000 00000000000000bb 0035 0000 00000000"), padded("", Rmpp::size),
                       from_hex("0000000000000001 0008 0000 000000000000340c"), from_hex(path_record)}));
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad rmpp sa pathrecord");
  EXPECT_EQ(stack.payload.length, 200U - PathRecord::size);
  EXPECT_EQ(stack.get<Sa>()->get<"sm_key">(), 1U);
  EXPECT_EQ(stack.get<Sa>()->get<"attribute_offset">(), 8);
  EXPECT_EQ(stack.get<Sa>()->get<"component_mask">(), 0x340cU);
  const auto path = *stack.get<PathRecord>();
  EXPECT_EQ(path.get<"dgid">()[15], 0x95);
  EXPECT_EQ(path.get<"sgid">()[15], 0x36);
  EXPECT_EQ(path.get<"dlid">(), 2);
  EXPECT_EQ(path.get<"slid">(), 4);
  EXPECT_EQ(path.get<"raw_traffic">(), 1);
  EXPECT_EQ(path.get<"flow_label">(), 0x00123U);
  EXPECT_EQ(path.get<"hop_limit">(), 0x40);
  EXPECT_EQ(path.get<"traffic_class">(), 0x17);
  EXPECT_EQ(path.get<"reversible">(), 1);
  EXPECT_EQ(path.get<"numb_path">(), 1);
  EXPECT_EQ(path.get<"pkey">(), 0xffff);
  EXPECT_EQ(path.get<"qos_class">(), 0xabc);
  EXPECT_EQ(path.get<"sl">(), 5);
  EXPECT_EQ(path.get<"mtu_selector">(), 2);
  EXPECT_EQ(path.get<"mtu">(), 4);
  EXPECT_EQ(path.get<"rate_selector">(), 2);
  EXPECT_EQ(path.get<"rate">(), 3);
  EXPECT_EQ(path.get<"packet_life_time_selector">(), 2);
  EXPECT_EQ(path.get<"packet_life_time">(), 18);
  EXPECT_EQ(path.get<"packet_life_time.limit">(), 1073741824U);
}

TEST(Sa, MemberNodePortAndService) {
  auto set = [](std::string_view attribute_id, std::string_view record) {
    return datagram(joined({from_hex("01030202 0000 0000 00000000000000bb"), from_hex(attribute_id),
                            from_hex("0000 00000000"), padded("", Rmpp::size + Sa::size), from_hex(record)}));
  };
  const auto member =
      set("0038",
          "ff12401bffff00000000000000000001 fe800000000000000002c90300001897 00000b1b c001 84 17 ffff 87"
          "92 60012340 21 80");
  ASSERT_EQ(layers_of(decode_transport(member)), "mad rmpp sa mcmemberrecord");
  const auto group = *decode_transport(member).get<McMemberRecord>();
  EXPECT_EQ(group.get<"mgid">()[1], 0x12);
  EXPECT_EQ(group.get<"port_gid">()[15], 0x97);
  EXPECT_EQ(group.get<"qkey">(), 0xb1bU);
  EXPECT_EQ(group.get<"mlid">(), 0xc001);
  EXPECT_EQ(group.get<"mtu">(), 4);
  EXPECT_EQ(group.get<"traffic_class">(), 0x17);
  EXPECT_EQ(group.get<"pkey">(), 0xffff);
  EXPECT_EQ(group.get<"rate">(), 7);
  EXPECT_EQ(group.get<"packet_life_time">(), 18);
  EXPECT_EQ(group.get<"sl">(), 6);
  EXPECT_EQ(group.get<"flow_label">(), 0x00123U);
  EXPECT_EQ(group.get<"hop_limit">(), 0x40);
  EXPECT_EQ(group.get<"scope">(), 2);
  EXPECT_EQ(group.get<"join_state.full_member">(), 1);
  EXPECT_EQ(group.get<"join_state.non_member">(), 0);
  EXPECT_EQ(group.get<"proxy_join">(), 1);

  const auto node = set("0011",
                        "0007 0000 01 01 01 02 0002c90300001895 0002c90300001896 0002c90300001897 0080 1003 000000a0 01"
                        "0002c9 6d6c7834");
  const auto record = *decode_transport(node).get<NodeRecord>();
  EXPECT_EQ(record.get<"lid">(), 7);
  EXPECT_EQ(record.get<"node_type">(), 1);
  EXPECT_EQ(record.get<"port_guid">(), 0x0002c90300001897U);
  EXPECT_EQ(record.get<"vendor_id">(), 0x0002c9U);
  EXPECT_EQ(record.get<"node_description">()[3], '4');

  const auto port = set("0012", "0007 02 00 0000000000000000 fe80000000000000 0012");
  EXPECT_EQ(decode_transport(port).get<PortInfoRecord>()->get<"port_num">(), 2);
  EXPECT_EQ(decode_transport(port).get<PortInfoRecord>()->get<"gid_prefix">(), 0xfe80000000000000U);
  EXPECT_EQ(decode_transport(port).get<PortInfoRecord>()->get<"lid">(), 0x12);

  const auto service = set("0031",
                           "1000000000000003 fe800000000000000002c90300001897 ffff 0000 ffffffff"
                           "000102030405060708090a0b0c0d0e0f 44415053");
  const auto offer = *decode_transport(service).get<ServiceRecord>();
  EXPECT_EQ(offer.get<"service_id">(), 0x1000000000000003U);
  EXPECT_EQ(offer.get<"service_pkey">(), 0xffff);
  EXPECT_EQ(offer.get<"service_lease">(), 0xffffffffU);
  EXPECT_EQ(offer.get<"service_key">()[15], 0x0f);
  EXPECT_EQ(offer.get<"service_name">()[0], 'D');

  const auto subscription =
      set("0003", "00000000000000000000000000000000 ffff 0000 0000 01 01 ffff 0040 000001 13 00 000004");
  const auto inform = *decode_transport(subscription).get<InformInfo>();
  EXPECT_EQ(inform.get<"lid_range_begin">(), 0xffff);
  EXPECT_EQ(inform.get<"subscribe">(), 1);
  EXPECT_EQ(inform.get<"trap_number">(), 64);
  EXPECT_EQ(inform.get<"qpn">(), 1U);
  EXPECT_EQ(inform.get<"response_time">(), 19);
  EXPECT_EQ(inform.get<"producer">(), 4U);
}

TEST(Sa, ListOfRecordsHasSeveralLayers) {
  const auto record = from_hex(path_record);
  const auto bytes = table("0035", "01 01 07 00 00000001 000000d4", "0008", joined({record, record, record}));
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad rmpp sa pathrecord pathrecord pathrecord");
  EXPECT_EQ(stack.get<Rmpp>()->get<"data2.payload_length">(), 212U);
  EXPECT_EQ(stack.get<Rmpp>()->get<"flags.first">(), 1);
  EXPECT_EQ(stack.get<Rmpp>()->get<"flags.last">(), 1);
  EXPECT_EQ(stack.payload.length, 8U);
}

TEST(Sa, AttributeOffsetPadsRecords) {
  const auto record = padded("ff12401bffff00000000000000000001", 56);
  const auto bytes = table("0038", "01 01 07 00 00000001 00000084", "0007", joined({record, record}));
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad rmpp sa mcmemberrecord mcmemberrecord");
  EXPECT_EQ(stack.layers()[5].length, 56U);
  EXPECT_EQ(Frame::of(stack).encode(), bytes);
}

TEST(Sa, OnlyCompleteRecordsOfASegmentAreDecoded) {
  const auto record = from_hex(path_record);
  const std::vector<std::uint8_t> begun(record.begin(), record.begin() + 8);
  // The payload length in the first of several segments is that of all segments.
  const auto first = table("0035", "01 01 03 00 00000001 00000200", "0008", joined({record, record, record, begun}));
  EXPECT_TRUE(decode_transport(first).findings().empty());
  EXPECT_EQ(layers_of(decode_transport(first)), "mad rmpp sa pathrecord pathrecord pathrecord");
  EXPECT_EQ(decode_transport(first).payload.length, 8U);
  // The second segment starts inside the fourth record.
  const auto second = table("0035", "01 01 01 00 00000002 00000000", "0008", joined({record, record}));
  EXPECT_TRUE(decode_transport(second).findings().empty());
  EXPECT_EQ(layers_of(decode_transport(second)), "mad rmpp sa");
  // 1600 bytes (25 records) precede the ninth segment.
  const auto ninth = table("0035", "01 01 01 00 00000009 00000000", "0008", joined({record, record}));
  EXPECT_EQ(layers_of(decode_transport(ninth)), "mad rmpp sa pathrecord pathrecord pathrecord");
}

TEST(Sa, AcknowledgementsHaveNoRecords) {
  const auto bytes = table("0035", "01 02 01 00 00000003 00000040", "0008", from_hex(path_record));
  const HeaderStack stack = decode_transport(bytes);
  EXPECT_EQ(layers_of(stack), "mad rmpp");
  EXPECT_EQ(stack.get<Rmpp>()->get<"data1.segment_number">(), 3U);
  EXPECT_EQ(stack.get<Rmpp>()->get<"data2.new_window_last">(), 64U);
  EXPECT_TRUE(stack.findings().empty());
}

TEST(Sa, InvalidLengthFieldsAreFindings) {
  struct {
    const char* name;
    std::string_view rmpp, offset;
    ParseError::Kind kind;
  } lies[] = {
      {"the last segment exceeds the segment size", "01 01 07 00 00000001 000000dd", "0008",
       ParseError::Kind::malformed},
      {"the length of all segments is all ones", "01 01 07 00 00000001 ffffffff", "0008", ParseError::Kind::malformed},
      {"too short for the SA header", "01 01 07 00 00000001 00000013", "0008", ParseError::Kind::malformed},
      {"fits in one segment, but is not the last", "01 01 03 00 00000001 00000010", "0008",
       ParseError::Kind::malformed},
      {"first, but number two", "01 01 07 00 00000002 00000054", "0008", ParseError::Kind::malformed},
      {"number one, but not first", "01 01 05 00 00000001 00000054", "0008", ParseError::Kind::malformed},
      {"number zero", "01 01 05 00 00000000 00000054", "0008", ParseError::Kind::malformed},
      {"offset shorter than the record", "01 01 07 00 00000001 000000d4", "0001", ParseError::Kind::malformed},
      {"RMPP version", "02 01 07 00 00000001 000000d4", "0008", ParseError::Kind::unknown},
      {"RMPP type", "01 05 07 00 00000001 000000d4", "0008", ParseError::Kind::unknown},
  };
  for (const auto& lie : lies) {
    const auto bytes = table("0035", lie.rmpp, lie.offset, from_hex(path_record));
    const HeaderStack stack = decode_transport(bytes);
    ASSERT_FALSE(stack.findings().empty()) << lie.name;
    EXPECT_EQ(stack.findings()[0].kind, lie.kind) << lie.name << ": " << to_string(stack.findings()[0]);
  }
}

TEST(Sa, StatusNames) {
  auto bytes = datagram(from_hex("01030281 0300 0000 00000000000000bb 0035 0000 00000000"));
  const auto mad = *decode_transport(bytes).get<Mad>();
  EXPECT_EQ(sa_status_names.find(mad.get<"status.sa">())->name, "ERR_NO_RECORDS");
  EXPECT_TRUE(info<Mad>.find("status.sa")->present_in(mad.data()));
}

TEST(Sa, ListIsBuiltFromItsRecords) {
  Frame frame = Value<Bth>() / Value<Deth>() / Value<Mad>().set<"method">(mad_method::get_table_response) /
                Value<Rmpp>().set<"type">(rmpp_type::data) / Value<Sa>() / Value<PathRecord>().set<"dlid">(1) /
                Value<PathRecord>().set<"dlid">(2);
  frame.with_icrc = false;
  const auto bytes = frame.encode();
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty()) << to_string(stack.findings()[0]);
  EXPECT_EQ(layers_of(stack), "mad rmpp sa pathrecord pathrecord");
  EXPECT_EQ(stack.get<PathRecord>()->get<"dlid">(), 2);
  EXPECT_EQ(stack.get<Sa>()->get<"attribute_offset">(), 8);
  EXPECT_EQ(stack.get<Rmpp>()->get<"data2">(), 148U);
  EXPECT_EQ(stack.get<Mad>()->get<"class">(), management_class::subnet_administration);
  EXPECT_EQ(stack.get<Mad>()->get<"class_version">(), 2);
}

}  // namespace
}  // namespace rdmawire
