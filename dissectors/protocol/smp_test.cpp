#include "dissectors/protocol/smp.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mad_testing.hpp"

namespace rdmawire {
namespace {

using namespace rdmawire::testing;

// Returns a LID-routed GetResp of an attribute.
std::vector<std::uint8_t> answer(std::string_view attribute_id, std::string_view attribute) {
  return datagram(joined({from_hex("01010181 0000 0000 00000000000000aa"), from_hex(attribute_id),
                          from_hex("0000 00000001"), padded("1122334455667788", SmpLid::size), from_hex(attribute)}));
}

TEST(Smp, NodeInfoAlongADirectedRoute) {
  const auto bytes = datagram(
      joined({from_hex("01810181 8000 0203 1111111122222222 0011 0000 00000000"),
              padded("a1a2a3a4a5a6a7a8 ffff 0007", SmpDirected::size),
              padded("01 01 02 24 0002c90300001895 0002c90300001896 0002c90300001897 0008 bd36 000000a0 05 0002c9", 64),
              padded("00 01 13 02", 64), padded("00 04 05 06", 64)}));
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad smpdr nodeinfo smppath");
  EXPECT_EQ(stack.payload.length, 0U);

  const auto mad = *stack.get<Mad>();
  EXPECT_EQ(mad.get<"status">(), 0x8000);
  EXPECT_EQ(mad.get<"status.direction">(), 1);
  EXPECT_EQ(mad.get<"class_specific.hop_pointer">(), 2);
  EXPECT_EQ(mad.get<"class_specific.hop_count">(), 3);
  EXPECT_TRUE(info<Mad>.find("status.direction")->present_in(mad.data()));
  EXPECT_FALSE(info<Mad>.find("status.sa")->present_in(mad.data()));
  EXPECT_EQ(sm_attribute_names.find(mad.get<"attribute_id.sm">())->name, "NodeInfo");

  const auto smp = *stack.get<SmpDirected>();
  EXPECT_EQ(smp.get<"mkey">(), 0xa1a2a3a4a5a6a7a8U);
  EXPECT_EQ(smp.get<"dr_slid">(), 0xffff);
  EXPECT_EQ(smp.get<"dr_dlid">(), 7);

  const auto node = *stack.get<NodeInfo>();
  EXPECT_EQ(node.get<"base_version">(), 1);
  EXPECT_EQ(node.get<"class_version">(), 1);
  EXPECT_EQ(node.get<"node_type">(), 2);
  EXPECT_EQ(node.get<"num_ports">(), 36);
  EXPECT_EQ(node.get<"system_image_guid">(), 0x0002c90300001895U);
  EXPECT_EQ(node.get<"node_guid">(), 0x0002c90300001896U);
  EXPECT_EQ(node.get<"port_guid">(), 0x0002c90300001897U);
  EXPECT_EQ(node.get<"partition_cap">(), 8);
  EXPECT_EQ(node.get<"device_id">(), 0xbd36);
  EXPECT_EQ(node.get<"revision">(), 0xa0U);
  EXPECT_EQ(node.get<"local_port_num">(), 5);
  EXPECT_EQ(node.get<"vendor_id">(), 0x0002c9U);

  const auto path = *stack.get<SmpPath>();
  EXPECT_EQ(path.get<"initial">()[2], 0x13);
  EXPECT_EQ(path.get<"return">()[3], 0x06);
}

TEST(Smp, PortInfoIsComplete) {
  const auto bytes = answer("0015",
                            "0102030405060708 fe80000000000000 0012 0001 0251086a 0003 000f"
                            "01 03 07 02 74 52 c2 41 45 40 07 08 09 24 ad 5f"
                            "0004 0005 0006 20 b2 11 fa 0009 00 00000c 0430 12 07");
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad smp portinfo");
  EXPECT_EQ(stack.get<SmpLid>()->get<"mkey">(), 0x1122334455667788U);
  EXPECT_EQ(stack.payload.length, 128U);
  const auto port = *stack.get<PortInfo>();
  EXPECT_EQ(port.get<"mkey">(), 0x0102030405060708U);
  EXPECT_EQ(port.get<"gid_prefix">(), 0xfe80000000000000U);
  EXPECT_EQ(port.get<"lid">(), 0x12);
  EXPECT_EQ(port.get<"master_sm_lid">(), 1);
  EXPECT_EQ(port.get<"capability_mask">(), 0x0251086aU);
  // The set bits of the mask, counted from the least significant: 1, 3, 5, 6, 11, 16, 20, 22, 25.
  EXPECT_EQ(port.get<"capability_mask.sm">(), 1);
  EXPECT_EQ(port.get<"capability_mask.notice">(), 0);
  EXPECT_EQ(port.get<"capability_mask.trap">(), 1);
  EXPECT_EQ(port.get<"capability_mask.automatic_migration">(), 1);
  EXPECT_EQ(port.get<"capability_mask.sl_mapping">(), 1);
  EXPECT_EQ(port.get<"capability_mask.system_image_guid">(), 1);
  EXPECT_EQ(port.get<"capability_mask.communication_management">(), 1);
  EXPECT_EQ(port.get<"capability_mask.vendor_class">(), 1);
  EXPECT_EQ(port.get<"capability_mask.capability_mask_notice">(), 1);
  EXPECT_EQ(port.get<"capability_mask.client_reregistration">(), 1);
  EXPECT_EQ(port.get<"capability_mask.hierarchy_info">(), 0);
  EXPECT_EQ(port.get<"diag_code">(), 3);
  EXPECT_EQ(port.get<"mkey_lease_period">(), 15);
  EXPECT_EQ(port.get<"local_port_num">(), 1);
  EXPECT_EQ(port.get<"link_width_enabled">(), 3);
  EXPECT_EQ(port.get<"link_width_supported">(), 7);
  EXPECT_EQ(port.get<"link_width_active">(), 2);
  EXPECT_EQ(port.get<"link_speed_supported">(), 7);
  EXPECT_EQ(port.get<"port_state">(), 4);
  EXPECT_EQ(port.get<"port_physical_state">(), 5);
  EXPECT_EQ(port.get<"link_down_default_state">(), 2);
  EXPECT_EQ(port.get<"mkey_protect_bits">(), 3);
  EXPECT_EQ(port.get<"lmc">(), 2);
  EXPECT_EQ(port.get<"link_speed_active">(), 4);
  EXPECT_EQ(port.get<"link_speed_enabled">(), 1);
  EXPECT_EQ(port.get<"neighbor_mtu">(), 4);
  EXPECT_EQ(port.get<"master_sm_sl">(), 5);
  EXPECT_EQ(port.get<"vl_cap">(), 4);
  EXPECT_EQ(port.get<"init_type">(), 0);
  EXPECT_EQ(port.get<"vl_high_limit">(), 7);
  EXPECT_EQ(port.get<"vl_arbitration_high_cap">(), 8);
  EXPECT_EQ(port.get<"vl_arbitration_low_cap">(), 9);
  EXPECT_EQ(port.get<"init_type_reply">(), 2);
  EXPECT_EQ(port.get<"mtu_cap">(), 4);
  EXPECT_EQ(port.get<"vl_stall_count">(), 5);
  EXPECT_EQ(port.get<"hoq_life">(), 13);
  EXPECT_EQ(port.get<"operational_vls">(), 5);
  EXPECT_EQ(port.get<"partition_enforcement_inbound">(), 1);
  EXPECT_EQ(port.get<"filter_raw_outbound">(), 1);
  EXPECT_EQ(port.get<"mkey_violations">(), 4);
  EXPECT_EQ(port.get<"pkey_violations">(), 5);
  EXPECT_EQ(port.get<"qkey_violations">(), 6);
  EXPECT_EQ(port.get<"guid_cap">(), 32);
  EXPECT_EQ(port.get<"client_reregister">(), 1);
  EXPECT_EQ(port.get<"multicast_pkey_trap_suppression">(), 1);
  EXPECT_EQ(port.get<"subnet_timeout">(), 18);
  EXPECT_EQ(port.get<"subnet_timeout.limit">(), 1073741824U);
  EXPECT_EQ(port.get<"response_time">(), 17);
  EXPECT_EQ(port.get<"local_phy_errors">(), 15);
  EXPECT_EQ(port.get<"overrun_errors">(), 10);
  EXPECT_EQ(port.get<"max_credit_hint">(), 9);
  EXPECT_EQ(port.get<"link_round_trip_latency">(), 12U);
  EXPECT_EQ(port.get<"capability_mask2">(), 0x0430);
  EXPECT_EQ(port.get<"capability_mask2.ndr">(), 1);
  EXPECT_EQ(port.get<"capability_mask2.hdr">(), 1);
  EXPECT_EQ(port.get<"capability_mask2.link_width_2x">(), 1);
  EXPECT_EQ(port.get<"capability_mask2.set_node_description">(), 0);
  EXPECT_EQ(port.get<"link_speed_ext_active">(), 1);
  EXPECT_EQ(port.get<"link_speed_ext_supported">(), 2);
  EXPECT_EQ(port.get<"link_speed_ext_enabled">(), 7);
}

TEST(Smp, OtherAttributes) {
  const auto description = answer("0010", "6d6c78345f30");  // "mlx4_0"
  EXPECT_EQ(layers_of(decode_transport(description)), "mad smp nodedescription");
  EXPECT_EQ(decode_transport(description).get<NodeDescription>()->get<"text">()[3], '4');

  const auto a_switch = answer("0012", "c000 0000 0400 0023 01 02 03 94 0010 0008 f8 00 c01f");
  const auto view = *decode_transport(a_switch).get<SwitchInfo>();
  EXPECT_EQ(view.get<"linear_fdb_cap">(), 0xc000);
  EXPECT_EQ(view.get<"multicast_fdb_cap">(), 0x400);
  EXPECT_EQ(view.get<"linear_fdb_top">(), 0x23);
  EXPECT_EQ(view.get<"default_multicast_not_primary_port">(), 3);
  EXPECT_EQ(view.get<"life_time_value">(), 18);
  EXPECT_EQ(view.get<"port_state_change">(), 1);
  EXPECT_EQ(view.get<"optimized_sl_to_vl">(), 0);
  EXPECT_EQ(view.get<"lids_per_port">(), 16);
  EXPECT_EQ(view.get<"partition_enforcement_cap">(), 8);
  EXPECT_EQ(view.get<"enhanced_port0">(), 1);
  EXPECT_EQ(view.get<"multicast_fdb_top">(), 0xc01f);

  const auto guids = answer("0014", "0002c90300001895 0000000000000000 0002c90300001897");
  EXPECT_EQ(decode_transport(guids).get<GuidInfo>()->get<"guid2">(), 0x0002c90300001897U);

  const auto pkeys = answer("0016", "ffff 8001 7fff");
  EXPECT_EQ(decode_transport(pkeys).get<PKeyTable>()->get<"pkey1">(), 0x8001);
  EXPECT_EQ(decode_transport(pkeys).get<PKeyTable>()->get<"pkey2">(), 0x7fff);

  const auto sm = answer("0020", "0002c90300001897 0000000000000001 00000012 e3");
  EXPECT_EQ(decode_transport(sm).get<SmInfo>()->get<"act_count">(), 0x12U);
  EXPECT_EQ(decode_transport(sm).get<SmInfo>()->get<"priority">(), 14);
  EXPECT_EQ(decode_transport(sm).get<SmInfo>()->get<"state">(), 3);
}

TEST(Smp, AttributeWithoutDecodedFields) {
  const auto bytes = answer("0019", "01020304");
  const HeaderStack stack = decode_transport(bytes);
  EXPECT_EQ(layers_of(stack), "mad smp smpdata");
  EXPECT_EQ(sm_attribute_names.find(stack.get<Mad>()->get<"attribute_id">())->name, "LinearForwardingTable");
  EXPECT_EQ(stack.get<SmpData>()->get<"data">()[3], 4);
}

TEST(Smp, TrapDetails) {
  auto trap = [](std::string_view notice) {
    return datagram(joined({from_hex("01010105 0000 0000 00000000000000aa 0002 0000 00000000"),
                            padded("", SmpLid::size), from_hex(notice)}));
  };
  const auto has = [](const View<Notice>& notice, std::string_view name) {
    return info<Notice>.find(name)->present_in(notice.data());
  };
  const auto state_change = trap("81 000002 0080 0009 8003 000b");
  const auto change = *decode_transport(state_change).get<Notice>();
  EXPECT_EQ(change.get<"is_generic">(), 1);
  EXPECT_EQ(change.get<"type">(), 1);
  EXPECT_EQ(change.get<"producer.type">(), 2U);
  EXPECT_EQ(change.get<"trap_number.event">(), 128);
  EXPECT_EQ(change.get<"issuer_lid">(), 9);
  EXPECT_EQ(change.get<"toggle">(), 1);
  EXPECT_EQ(change.get<"count">(), 3);
  EXPECT_EQ(change.get<"details.switch_lid">(), 11);
  EXPECT_TRUE(has(change, "details.switch_lid"));
  EXPECT_FALSE(has(change, "details.gid"));

  const auto in_service = trap("83 000004 0040 0001 0000 000000000000 fe800000000000000002c90300001897");
  const auto gid = *decode_transport(in_service).get<Notice>();
  EXPECT_TRUE(has(gid, "details.gid"));
  EXPECT_EQ(gid.get<"details.gid">()[15], 0x97);

  const auto bad_key = trap(
      "82 000001 0101 0001 0000 0000 0004 0005 00008001 30000011 00000012"
      "fe800000000000000000000000000004 fe800000000000000000000000000005");
  const auto key = *decode_transport(bad_key).get<Notice>();
  EXPECT_TRUE(has(key, "details.key"));
  EXPECT_EQ(key.get<"details.lid1">(), 4);
  EXPECT_EQ(key.get<"details.lid2">(), 5);
  EXPECT_EQ(key.get<"details.key">(), 0x8001U);
  EXPECT_EQ(key.get<"details.sl">(), 3);
  EXPECT_EQ(key.get<"details.qp1">(), 0x11U);
  EXPECT_EQ(key.get<"details.qp2">(), 0x12U);
  EXPECT_EQ(key.get<"details.gid1">()[15], 4);
  EXPECT_EQ(key.get<"details.gid2">()[15], 5);

  const auto bad_mkey = trap("82 000001 0100 0001 0000 0000 0004 ffff 02 00 0015 00000001 00000000000000ee 00 c2 0305");
  const auto mkey = *decode_transport(bad_mkey).get<Notice>();
  EXPECT_EQ(mkey.get<"details.dr_slid">(), 0xffff);
  EXPECT_EQ(mkey.get<"details.method">(), 2);
  EXPECT_EQ(mkey.get<"details.attribute_id">(), 0x15);
  EXPECT_EQ(mkey.get<"details.attribute_modifier">(), 1U);
  EXPECT_EQ(mkey.get<"details.mkey">(), 0xeeU);
  EXPECT_EQ(mkey.get<"details.dr_notice">(), 1);
  EXPECT_EQ(mkey.get<"details.dr_path_truncated">(), 1);
  EXPECT_EQ(mkey.get<"details.dr_hop_count">(), 2);
  EXPECT_EQ(mkey.get<"details.dr_return_path">()[1], 5);

  const auto vendor = trap("01 0002c9 0101 0001 0000");
  EXPECT_FALSE(has(*decode_transport(vendor).get<Notice>(), "details.key"));
  EXPECT_FALSE(has(*decode_transport(vendor).get<Notice>(), "producer.type"));
}

TEST(Smp, ClassMethodAndAttributeFollowFromHeaders) {
  Frame frame = Value<Bth>() / Value<Deth>() / Value<Mad>() / Value<SmpDirected>().set<"dr_slid">(0xffff) /
                Value<NodeInfo>() / Value<SmpPath>();
  frame.with_icrc = false;
  const auto bytes = frame.encode();
  EXPECT_EQ(bytes.size(), datagram_at + 256U);
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad smpdr nodeinfo smppath");
  EXPECT_EQ(stack.get<Mad>()->get<"class">(), 0x81);
  EXPECT_EQ(stack.get<Mad>()->get<"class_version">(), 1);
  EXPECT_EQ(stack.get<Mad>()->get<"method">(), mad_method::get);
  EXPECT_EQ(stack.get<Mad>()->get<"attribute_id">(), 0x11);
  EXPECT_EQ(stack.get<Bth>()->get<"opcode">(), 0x64);
  EXPECT_EQ(stack.get<Bth>()->get<"dest_qp">(), 0U);
  EXPECT_EQ(stack.get<Deth>()->get<"qkey">(), 0U);
}

}  // namespace
}  // namespace rdmawire
