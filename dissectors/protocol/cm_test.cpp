#include "dissectors/protocol/cm.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mad_testing.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

using namespace rdmawire::testing;

// Returns a captured frame: `head`, zeros for the rest of the private data, and the ICRC.
std::vector<std::uint8_t> captured(std::string_view head, std::string_view icrc) {
  std::vector<std::uint8_t> frame = from_hex(head);
  frame.resize(Ethernet::size + Ipv4::size + Udp::size + Bth::size + Deth::size + Mad::whole, 0);
  for (const std::uint8_t byte : from_hex(icrc)) frame.push_back(byte);
  return frame;
}

// rping between two Linux hosts over rxe: the five CM messages of the connection in captures/samples/rping.pcap.
const auto request = captured(
    "525400000002 525400000003 0800 45000134eeb14000401137030a0000030a000002 d87212b701200000"
    "6400ffff0000000180000000 8001000000000001"
    "01070203 0000 0000 000000022d7c9fa0 0010 0000 00000000"
    "a09f7c2d 00000000 0000000001061c06 505400fffe000003 00000000 00000000 000011 01 000000 01 000000 a0 9d7fd1 a7"
    "ffff 37 f0 ffff ffff 00000000000000000000ffff0a000003 00000000000000000000ffff0a000002 cb842000 00 40 00 98"
    "0000 0000 00000000000000000000000000000000 00000000000000000000000000000000 00000000 00 00 00 00"
    "00 40 ec44 0000000000000000000000000a000003 0000000000000000000000000a000002",
    "4b90f0c9");
const auto reply = captured(
    "525400000003 525400000002 0800 45000134ccbe4000401158f60a0000020a000003 d87212b701200000"
    "6400ffff0000000180000000 8001000000000001"
    "01070203 0000 0000 000000022d7c9fa0 0013 0000 00000000"
    "60380aaa a09f7c2d 00000000 000011 00 000000 00 806831 00 01 01 78 e0 505400fffe000002",
    "ad1c2508");
const auto ready = captured(
    "525400000002 525400000003 0800 45000134eeb24000401137020a0000030a000002 d87212b701200000"
    "6400ffff0000000180000001 8001000000000001"
    "01070203 0000 0000 000000022d7c9fa0 0014 0000 00000000 a09f7c2d 60380aaa",
    "7715a4b4");
const auto disconnect = captured(
    "525400000002 525400000003 0800 45000134ef6740004011364d0a0000030a000002 d87212b701200000"
    "6400ffff0000000180000002 8001000000000001"
    "01070203 0000 0000 000000022d7c9fa0 0015 0000 00000000 a09f7c2d 60380aaa 000011 00",
    "b745b243");
const auto disconnected = captured(
    "525400000003 525400000002 0800 45000134cd7540004011583f0a0000020a000003 d87212b701200000"
    "6400ffff0000000180000001 8001000000000001"
    "01070203 0000 0000 000000022d7c9fa0 0016 0000 00000000 60380aaa a09f7c2d",
    "6229e1de");

constexpr std::uint32_t mad_at = Ethernet::size + Ipv4::size + Udp::size + Bth::size + Deth::size;

template <class H>
View<H> message(const HeaderStack& stack) {
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
  EXPECT_EQ(stack.get<Mad>()->template get<"class">(), management_class::communication);
  EXPECT_EQ(stack.get<Mad>()->template get<"transaction_id">(), 0x000000022d7c9fa0U);
  auto view = stack.get<H>();
  EXPECT_TRUE(view);
  return *view;
}

template <std::size_t N>
std::uint64_t low_bytes(const std::array<std::uint8_t, N>& value) {
  return load_be(value.data() + N - 8, 8);
}

TEST(Cm, CapturedRequest) {
  const HeaderStack stack = decode(request);
  const auto req = message<CmReq>(stack);
  EXPECT_EQ(req.get<"local_comm_id">(), 0xa09f7c2dU);
  EXPECT_EQ(req.get<"service_id">(), 0x0000000001061c06U);
  EXPECT_EQ(req.get<"service_id.protocol">(), ip_protocol::tcp);
  EXPECT_EQ(req.get<"service_id.port">(), 7174);
  EXPECT_EQ(req.get<"local_ca_guid">(), 0x505400fffe000003U);
  EXPECT_EQ(req.get<"local_qpn">(), 0x11U);
  EXPECT_EQ(req.get<"responder_resources">(), 1);
  EXPECT_EQ(req.get<"initiator_depth">(), 1);
  EXPECT_EQ(req.get<"remote_cm_response_timeout">(), 20);
  EXPECT_EQ(req.get<"remote_cm_response_timeout.limit">(), 4294967296U);  // 4.096 us * 2^20
  EXPECT_EQ(req.get<"transport_service_type">(), 0);
  EXPECT_EQ(req.get<"end_to_end_flow_control">(), 0);
  EXPECT_EQ(req.get<"starting_psn">(), 0x9d7fd1U);
  EXPECT_EQ(req.get<"local_cm_response_timeout">(), 20);
  EXPECT_EQ(req.get<"retry_count">(), 7);
  EXPECT_EQ(req.get<"pkey">(), 0xffff);
  EXPECT_EQ(req.get<"path_mtu">(), 3);
  EXPECT_EQ(req.get<"rdc_exists">(), 0);
  EXPECT_EQ(req.get<"rnr_retry_count">(), 7);
  EXPECT_EQ(req.get<"max_cm_retries">(), 15);
  EXPECT_EQ(req.get<"srq">(), 0);
  EXPECT_EQ(req.get<"extended_transport_type">(), 0);
  EXPECT_EQ(req.get<"primary_local_lid">(), 0xffff);
  EXPECT_EQ(req.get<"primary_local_gid.ipv4">(), 0x0a000003U);
  EXPECT_EQ(req.get<"primary_remote_gid.ipv4">(), 0x0a000002U);
  EXPECT_EQ(low_bytes(req.get<"primary_remote_gid">()), 0x0000ffff0a000002U);
  EXPECT_EQ(req.get<"primary_flow_label">(), 0xcb842U);
  EXPECT_EQ(req.get<"primary_packet_rate">(), 0);
  EXPECT_EQ(req.get<"primary_traffic_class">(), 0);
  EXPECT_EQ(req.get<"primary_hop_limit">(), 64);
  EXPECT_EQ(req.get<"primary_sl">(), 0);
  EXPECT_EQ(req.get<"primary_subnet_local">(), 0);
  EXPECT_EQ(req.get<"primary_local_ack_timeout">(), 19);
  EXPECT_EQ(req.get<"primary_local_ack_timeout.limit">(), 2147483648U);
  EXPECT_EQ(req.get<"alternate_local_lid">(), 0);
  EXPECT_FALSE(info<CmReq>.find("alternate_local_ack_timeout.limit")->present_in(req.data()));

  const auto ip = stack.get<RdmaCm>();
  ASSERT_TRUE(ip);
  EXPECT_EQ(ip->get<"major_version">(), 0);
  EXPECT_EQ(ip->get<"ip_version">(), 4);
  EXPECT_EQ(ip->get<"src_port">(), 60484);
  EXPECT_EQ(ip->get<"src.ipv4">(), 0x0a000003U);
  EXPECT_EQ(ip->get<"dst.ipv4">(), 0x0a000002U);
  EXPECT_FALSE(info<RdmaCm>.find("src.ipv6")->present_in(ip->data()));
  EXPECT_EQ(stack.payload.offset, mad_at + Mad::size + CmReq::size + RdmaCm::size);
  EXPECT_EQ(stack.payload.length, 56U);
}

TEST(Cm, CapturedReply) {
  const HeaderStack stack = decode(reply);
  const auto rep = message<CmRep>(stack);
  EXPECT_EQ(rep.get<"local_comm_id">(), 0x60380aaaU);
  EXPECT_EQ(rep.get<"remote_comm_id">(), 0xa09f7c2dU);
  EXPECT_EQ(rep.get<"local_qpn">(), 0x11U);
  EXPECT_EQ(rep.get<"starting_psn">(), 0x806831U);
  EXPECT_EQ(rep.get<"responder_resources">(), 1);
  EXPECT_EQ(rep.get<"initiator_depth">(), 1);
  EXPECT_EQ(rep.get<"target_ack_delay">(), 15);
  EXPECT_EQ(rep.get<"target_ack_delay.limit">(), 134217728U);
  EXPECT_EQ(rep.get<"failover_accepted">(), 0);
  EXPECT_EQ(rep.get<"end_to_end_flow_control">(), 0);
  EXPECT_EQ(rep.get<"rnr_retry_count">(), 7);
  EXPECT_EQ(rep.get<"srq">(), 0);
  EXPECT_EQ(rep.get<"local_ca_guid">(), 0x505400fffe000002U);
  EXPECT_EQ(stack.payload.length, 196U);
}

TEST(Cm, CapturedReadyToUse) {
  const HeaderStack stack = decode(ready);
  const auto rtu = message<CmRtu>(stack);
  EXPECT_EQ(rtu.get<"local_comm_id">(), 0xa09f7c2dU);
  EXPECT_EQ(rtu.get<"remote_comm_id">(), 0x60380aaaU);
  EXPECT_EQ(stack.payload.length, 224U);
}

TEST(Cm, CapturedDisconnect) {
  const HeaderStack asks = decode(disconnect), answers = decode(disconnected);
  const auto dreq = message<CmDreq>(asks);
  EXPECT_EQ(dreq.get<"local_comm_id">(), 0xa09f7c2dU);
  EXPECT_EQ(dreq.get<"remote_comm_id">(), 0x60380aaaU);
  EXPECT_EQ(dreq.get<"remote_qpn">(), 0x11U);
  EXPECT_EQ(asks.payload.length, 220U);
  const auto drep = message<CmDrep>(answers);
  EXPECT_EQ(drep.get<"local_comm_id">(), 0x60380aaaU);
  EXPECT_EQ(drep.get<"remote_comm_id">(), 0xa09f7c2dU);
}

// Returns the lower layers of the messages in that capture. rxe sets AckReq, although UD packets are not acknowledged.
Frame below(std::uint32_t src, std::uint32_t dst, std::uint16_t identification, std::uint32_t psn) {
  const std::uint64_t macs[] = {0, 0, 0x525400000002, 0x525400000003};
  Frame frame = Value<Ethernet>().set<"dst">(macs[dst & 3]).set<"src">(macs[src & 3]) /
                Value<Ipv4>().set<"src">(src).set<"dst">(dst).set<"identification">(identification).set<"df">(1);
  frame /= Value<Udp>().set<"src_port">(55410);
  frame /= Value<Bth>().set<"ack_request">(1).set<"psn">(psn);
  frame /= Value<Deth>();
  return frame;
}

TEST(Cm, RequestBuiltFromValuesEqualsCapture) {
  const auto gid = [](std::uint8_t host) {
    return from_hex(host == 3 ? "00000000000000000000ffff0a000003" : "00000000000000000000ffff0a000002");
  };
  Frame frame = below(0x0a000003, 0x0a000002, 0xeeb1, 0);
  frame /= Value<Mad>().set<"transaction_id">(0x000000022d7c9fa0);
  frame /= Value<CmReq>()
               .set<"local_comm_id">(0xa09f7c2d)
               .set<"service_id">(0x0000000001061c06)
               .set<"local_ca_guid">(0x505400fffe000003)
               .set<"local_qpn">(0x11)
               .set<"responder_resources">(1)
               .set<"initiator_depth">(1)
               .set<"remote_cm_response_timeout">(20)
               .set<"starting_psn">(0x9d7fd1)
               .set<"local_cm_response_timeout">(20)
               .set<"retry_count">(7)
               .set<"pkey">(0xffff)
               .set<"path_mtu">(3)
               .set<"rnr_retry_count">(7)
               .set<"max_cm_retries">(15)
               .set<"primary_local_lid">(0xffff)
               .set<"primary_remote_lid">(0xffff)
               .set<"primary_local_gid">(gid(3))
               .set<"primary_remote_gid">(gid(2))
               .set<"primary_flow_label">(0xcb842)
               .set<"primary_hop_limit">(64)
               .set<"primary_local_ack_timeout">(19);
  frame /= Value<RdmaCm>().set<"src_port">(60484).set<"src.ipv4">(0x0a000003).set<"dst.ipv4">(0x0a000002);
  EXPECT_EQ(frame.encode(), request);
}

TEST(Cm, ReplyBuiltFromValuesEqualsCapture) {
  Frame frame = below(0x0a000002, 0x0a000003, 0xccbe, 0);
  frame /= Value<Mad>().set<"transaction_id">(0x000000022d7c9fa0);
  frame /= Value<CmRep>()
               .set<"local_comm_id">(0x60380aaa)
               .set<"remote_comm_id">(0xa09f7c2d)
               .set<"local_qpn">(0x11)
               .set<"starting_psn">(0x806831)
               .set<"responder_resources">(1)
               .set<"initiator_depth">(1)
               .set<"target_ack_delay">(15)
               .set<"rnr_retry_count">(7)
               .set<"local_ca_guid">(0x505400fffe000002);
  EXPECT_EQ(frame.encode(), reply);
}

TEST(Cm, DisconnectBuiltFromValuesEqualsCapture) {
  Frame frame = below(0x0a000003, 0x0a000002, 0xef67, 2);
  frame /= Value<Mad>().set<"transaction_id">(0x000000022d7c9fa0);
  frame /= Value<CmDreq>().set<"local_comm_id">(0xa09f7c2d).set<"remote_comm_id">(0x60380aaa).set<"remote_qpn">(0x11);
  EXPECT_EQ(frame.encode(), disconnect);
}

TEST(Cm, EncodedFramesOfTheConnectionEqualCapture) {
  for (const auto* bytes : {&request, &reply, &ready, &disconnect, &disconnected}) {
    Frame frame = Frame::of(decode(*bytes));
    EXPECT_EQ(frame.encode(), *bytes);
    frame.forget_computed();
    EXPECT_EQ(frame.encode(), *bytes);
  }
}

// Returns a CM message that is not in a capture, from the BTH on. `contents` are the bytes after the MAD header.
std::vector<std::uint8_t> cm(std::string_view attribute_id, std::string_view contents) {
  return datagram(joined({from_hex("01070203 0000 0000 000000022d7c9fa0"), from_hex(attribute_id),
                          from_hex("0000 00000000"), from_hex(contents)}));
}
constexpr std::string_view reject = "60380aaa a09f7c2d 40 08 001c 0102030405060708";

TEST(Cm, Reject) {
  const auto bytes = cm("0012", reject);
  const HeaderStack stack = decode_transport(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(layers_of(stack), "mad cmrej");
  const auto rej = *stack.get<CmRej>();
  EXPECT_EQ(rej.get<"local_comm_id">(), 0x60380aaaU);
  EXPECT_EQ(rej.get<"remote_comm_id">(), 0xa09f7c2dU);
  EXPECT_EQ(cm_rej_message_names.find(rej.get<"message">())->name, "REP");
  EXPECT_EQ(rej.get<"info_length">(), 4);
  EXPECT_EQ(cm_rej_reason_names.find(rej.get<"reason">())->name, "Consumer Reject");
  EXPECT_EQ(rej.get<"ari">()[7], 8);
  EXPECT_EQ(stack.payload.length, 148U);
}

TEST(Cm, RejectBuiltFromValues) {
  Frame frame = Value<Bth>() / Value<Deth>() / Value<Mad>().set<"transaction_id">(0x000000022d7c9fa0) /
                Value<CmRej>()
                    .set<"local_comm_id">(0x60380aaa)
                    .set<"remote_comm_id">(0xa09f7c2d)
                    .set<"message">(1)
                    .set<"info_length">(4)
                    .set<"reason">(28)
                    .set<"ari">(from_hex("0102030405060708"));
  frame.with_icrc = false;
  EXPECT_EQ(frame.encode(), cm("0012", reject));
}

// Each reason from 1 to 35 has a name, except 34, which is not assigned.
TEST(Cm, RejectReasonsAreComplete) {
  for (unsigned reason = 1; reason <= 35; ++reason) {
    const Name* name = cm_rej_reason_names.find(reason);
    ASSERT_EQ(name != nullptr, reason != 34) << reason;
    EXPECT_TRUE(!name || !name->meaning.empty()) << reason;
  }
}

TEST(Cm, MessageReceiptAcknowledgement) {
  const auto bytes = cm("0011", "60380aaa a09f7c2d 80 98");
  const HeaderStack stack = decode_transport(bytes);
  const auto mra = *stack.get<CmMra>();
  EXPECT_EQ(mra.get<"remote_comm_id">(), 0xa09f7c2dU);
  EXPECT_EQ(cm_mra_message_names.find(mra.get<"message">())->name, "LAP");
  EXPECT_EQ(mra.get<"service_timeout">(), 19);
  EXPECT_EQ(mra.get<"service_timeout.limit">(), 2147483648U);
  EXPECT_EQ(stack.payload.length, 222U);
}

TEST(Cm, AlternatePath) {
  const auto asks = cm("0019",
                       "60380aaa a09f7c2d 00000000 000012 a8 00000000 0007 0009 fe800000000000000000000000000001"
                       "fe800000000000000000000000000002 abcde0 17 40 03 58 98");
  const HeaderStack stack = decode_transport(asks);
  ASSERT_EQ(layers_of(stack), "mad cmlap");
  const auto lap = *stack.get<CmLap>();
  EXPECT_EQ(lap.get<"remote_qpn">(), 0x12U);
  EXPECT_EQ(lap.get<"remote_cm_response_timeout">(), 21);
  EXPECT_EQ(lap.get<"alternate_local_lid">(), 7);
  EXPECT_EQ(lap.get<"alternate_remote_lid">(), 9);
  EXPECT_EQ(lap.get<"alternate_local_gid">()[15], 1);
  EXPECT_EQ(lap.get<"alternate_remote_gid">()[15], 2);
  EXPECT_EQ(lap.get<"alternate_flow_label">(), 0xabcdeU);
  EXPECT_EQ(lap.get<"alternate_traffic_class">(), 0x17);
  EXPECT_EQ(lap.get<"alternate_hop_limit">(), 64);
  EXPECT_EQ(rate_names.find(lap.get<"alternate_packet_rate">())->name, "10 Gb/s");
  EXPECT_EQ(lap.get<"alternate_sl">(), 5);
  EXPECT_EQ(lap.get<"alternate_subnet_local">(), 1);
  EXPECT_EQ(lap.get<"alternate_local_ack_timeout">(), 19);
  EXPECT_EQ(stack.payload.length, 168U);

  const auto answers = cm("001a", "60380aaa a09f7c2d 02 07 0000 0009");
  const HeaderStack answer = decode_transport(answers);
  const auto apr = *answer.get<CmApr>();
  EXPECT_EQ(apr.get<"info_length">(), 2);
  EXPECT_EQ(cm_ap_status_names.find(apr.get<"status">())->name, "LID rejected");
  EXPECT_EQ(apr.get<"info">()[1], 9);
  EXPECT_EQ(answer.payload.length, 148U);
}

// An IPv4 address is in the last four bytes of its field.
TEST(Cm, IpVersionFollowsFromTheAddresses) {
  constexpr std::size_t source = 4, destination = 20;
  for (const auto& [byte, version] : {std::pair{source + 12, 4},
                                      {destination + 15, 4},
                                      {source, 6},
                                      {source + 7, 6},
                                      {source + 8, 6},
                                      {source + 11, 6},
                                      {destination, 6},
                                      {destination + 7, 6},
                                      {destination + 8, 6},
                                      {destination + 11, 6}}) {
    HeaderValue addresses = Value<RdmaCm>();
    addresses.mutable_bytes()[byte] = 1;
    Frame frame = Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1) / Value<Deth>() / Value<Mad>() /
                  Value<CmReq>().set<"service_id">(0x0000000001061c06) / addresses;
    const auto bytes = frame.encode();
    EXPECT_EQ(decode_transport(bytes).get<RdmaCm>()->get<"ip_version">(), version) << byte;
  }
}

TEST(Cm, ServiceIdResolution) {
  const auto asks = cm("0017",
                       "00000005 ffff 0000 0000000001111c06"
                       "00 60 c000 20010db8000000000000000000000001 20010db8000000000000000000000002 aabb");
  const HeaderStack stack = decode_transport(asks);
  ASSERT_EQ(layers_of(stack), "mad cmsidrreq rdmacm");
  const auto req = *stack.get<CmSidrReq>();
  EXPECT_EQ(req.get<"request_id">(), 5U);
  EXPECT_EQ(req.get<"pkey">(), 0xffff);
  EXPECT_EQ(req.get<"service_id.protocol">(), ip_protocol::udp);
  EXPECT_EQ(req.get<"service_id.port">(), 7174);
  const auto ip = *stack.get<RdmaCm>();
  EXPECT_EQ(ip.get<"ip_version">(), 6);
  EXPECT_EQ(ip.get<"src.ipv6">()[15], 1);
  EXPECT_EQ(ip.get<"dst.ipv6">()[15], 2);
  EXPECT_TRUE(info<RdmaCm>.find("src.ipv6")->present_in(ip.data()));
  EXPECT_FALSE(info<RdmaCm>.find("src.ipv4")->present_in(ip.data()));
  EXPECT_EQ(stack.payload.length, 216U - RdmaCm::size);

  const auto answers = cm("0018", "00000005 00 00 0000 000044 00 0000000001111c06 01234567");
  const HeaderStack answer = decode_transport(answers);
  const auto rep = *answer.get<CmSidrRep>();
  EXPECT_EQ(rep.get<"status">(), 0);
  EXPECT_EQ(rep.get<"qpn">(), 0x44U);
  EXPECT_EQ(rep.get<"service_id.port">(), 7174);
  EXPECT_EQ(rep.get<"qkey">(), 0x01234567U);
  EXPECT_EQ(answer.payload.length, 136U);
}

// A service ID of another range, or an unknown IP version, does not imply an RDMA-CM header.
TEST(Cm, PrivateDataIsNotGuessed) {
  const auto sdp = cm("0017", "00000005 ffff 0000 0000000000011c06 00 40 c000");
  EXPECT_EQ(layers_of(decode_transport(sdp)), "mad cmsidrreq");
  const auto odd = cm("0017", "00000005 ffff 0000 0000000001061c06 00 50 c000");
  EXPECT_EQ(layers_of(decode_transport(odd)), "mad cmsidrreq");
  EXPECT_EQ(decode_transport(odd).payload.length, 216U);
}

TEST(Cm, AdditionalInformationLengthTooLarge) {
  for (const auto& bytes : {cm("0012", "00000001 00000002 00 92 001c"), cm("001a", "00000001 00000002 49 00"),
                            cm("0018", "00000005 04 49")}) {
    const HeaderStack stack = decode_transport(bytes);
    ASSERT_EQ(stack.findings().size(), 1U);
    EXPECT_EQ(stack.findings()[0].kind, ParseError::Kind::malformed);
    EXPECT_EQ(stack.findings()[0].offset, datagram_at + Mad::size);
  }
}

}  // namespace
}  // namespace rdmawire
