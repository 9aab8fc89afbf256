#include "dissectors/protocol/pm.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mad_testing.hpp"

namespace rdmawire {
namespace {

using namespace rdmawire::testing;

std::vector<std::uint8_t> answer(std::string_view attribute_id, std::string_view attribute) {
  return datagram(joined({from_hex("01040181 0000 0000 00000000000000cc"), from_hex(attribute_id),
                          from_hex("0000 00000000"), padded("", Pm::size), from_hex(attribute)}));
}

TEST(Pm, PortCounters) {
  const auto bytes = answer("0012",
                            "00 02 ffff 0102 03 04 0506 0708 090a 0b0c 0d 0e 01 fa 0f10 1112 00000100 00000200 00000003"
                            "00000004 00000005");
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad pm portcounters");
  const auto c = *stack.get<PortCounters>();
  EXPECT_EQ(c.get<"port_select">(), 2);
  EXPECT_EQ(c.get<"counter_select">(), 0xffff);
  EXPECT_EQ(c.get<"symbol_error_counter">(), 0x0102);
  EXPECT_EQ(c.get<"link_error_recovery_counter">(), 3);
  EXPECT_EQ(c.get<"link_downed_counter">(), 4);
  EXPECT_EQ(c.get<"rcv_errors">(), 0x0506);
  EXPECT_EQ(c.get<"rcv_remote_physical_errors">(), 0x0708);
  EXPECT_EQ(c.get<"rcv_switch_relay_errors">(), 0x090a);
  EXPECT_EQ(c.get<"xmit_discards">(), 0x0b0c);
  EXPECT_EQ(c.get<"xmit_constraint_errors">(), 0x0d);
  EXPECT_EQ(c.get<"rcv_constraint_errors">(), 0x0e);
  EXPECT_EQ(c.get<"counter_select2">(), 1);
  EXPECT_EQ(c.get<"local_link_integrity_errors">(), 15);
  EXPECT_EQ(c.get<"excessive_buffer_overrun_errors">(), 10);
  EXPECT_EQ(c.get<"qp1_dropped">(), 0x0f10);
  EXPECT_EQ(c.get<"vl15_dropped">(), 0x1112);
  EXPECT_EQ(c.get<"xmit_data">(), 0x100U);
  EXPECT_EQ(c.get<"xmit_data.bytes">(), 0x400U);
  EXPECT_EQ(c.get<"rcv_data.bytes">(), 0x800U);
  EXPECT_EQ(c.get<"xmit_pkts">(), 3U);
  EXPECT_EQ(c.get<"rcv_pkts">(), 4U);
  EXPECT_EQ(c.get<"xmit_wait">(), 5U);
  EXPECT_EQ(stack.payload.length, 192U - PortCounters::size);
}

TEST(Pm, PortCountersExtended) {
  const auto bytes = answer("001d",
                            "00 01 00ff 00000000 0000000100000000 0000000200000000 0000000000000003 0000000000000004"
                            "0000000000000005 0000000000000006 0000000000000007 0000000000000008");
  const HeaderStack stack = decode_transport(bytes);
  EXPECT_EQ(layers_of(stack), "mad pm portcountersext");
  const auto c = *stack.get<PortCountersExtended>();
  EXPECT_EQ(c.get<"port_select">(), 1);
  EXPECT_EQ(c.get<"xmit_data.bytes">(), 0x400000000U);
  EXPECT_EQ(c.get<"rcv_data">(), 0x200000000U);
  EXPECT_EQ(c.get<"xmit_pkts">(), 3U);
  EXPECT_EQ(c.get<"rcv_pkts">(), 4U);
  EXPECT_EQ(c.get<"unicast_xmit_pkts">(), 5U);
  EXPECT_EQ(c.get<"unicast_rcv_pkts">(), 6U);
  EXPECT_EQ(c.get<"multicast_xmit_pkts">(), 7U);
  EXPECT_EQ(c.get<"multicast_rcv_pkts">(), 8U);
}

TEST(Pm, ClassPortInfo) {
  const auto bytes =
      answer("0001",
             "01 01 0300 00000032 fe800000000000000000000000000001 17 5abcde 0007 ffff 00 000001 80010000"
             "fe800000000000000000000000000002 18 600001 0008 8001 40 000002 80010001");
  const auto c = *decode_transport(bytes).get<ClassPortInfo>();
  EXPECT_EQ(c.get<"capability_mask">(), 0x300);
  EXPECT_EQ(c.get<"capability_mask2">(), 1U);
  EXPECT_EQ(c.get<"response_time">(), 18);
  EXPECT_EQ(c.get<"response_time.limit">(), 1073741824U);
  EXPECT_EQ(c.get<"redirect_gid">()[15], 1);
  EXPECT_EQ(c.get<"redirect_tc">(), 0x17);
  EXPECT_EQ(c.get<"redirect_sl">(), 5);
  EXPECT_EQ(c.get<"redirect_fl">(), 0xabcdeU);
  EXPECT_EQ(c.get<"redirect_lid">(), 7);
  EXPECT_EQ(c.get<"redirect_qp">(), 1U);
  EXPECT_EQ(c.get<"redirect_qkey">(), 0x80010000U);
  EXPECT_EQ(c.get<"trap_gid">()[15], 2);
  EXPECT_EQ(c.get<"trap_sl">(), 6);
  EXPECT_EQ(c.get<"trap_fl">(), 1U);
  EXPECT_EQ(c.get<"trap_lid">(), 8);
  EXPECT_EQ(c.get<"trap_pkey">(), 0x8001);
  EXPECT_EQ(c.get<"trap_hop_limit">(), 64);
  EXPECT_EQ(c.get<"trap_qp">(), 2U);
  EXPECT_EQ(c.get<"trap_qkey">(), 0x80010001U);
}

TEST(Pm, OtherAttributesStayPayload) {
  const auto bytes = answer("0036", "00 01 ffff");
  const HeaderStack stack = decode_transport(bytes);
  EXPECT_EQ(layers_of(stack), "mad pm");
  EXPECT_EQ(pm_attribute_names.find(stack.get<Mad>()->get<"attribute_id.pm">())->name, "PortXmitDataSL");
  EXPECT_EQ(stack.payload.length, 192U);
}

}  // namespace
}  // namespace rdmawire
