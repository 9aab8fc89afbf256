// Tests of upper layer protocols, which the connection specifies. Messages are literal bytes.

#include "dissectors/protocol/upper.hpp"

#include <gtest/gtest.h>

#include <random>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/iser.hpp"
#include "dissectors/protocol/nvme.hpp"
#include "dissectors/protocol/rpc_rdma.hpp"
#include "dissectors/protocol/smb_direct.hpp"
#include "dissectors/protocol/srp.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire {
namespace {

using testing::from_hex;

constexpr UpperContext context_of(Upper upper, bool to_listener = true, bool first = false) {
  return {upper, to_listener, first, true};
}

/// Decodes a message as `stack.payload` of a stack without layers.
class Read {
 public:
  Read(std::vector<std::uint8_t> bytes, const UpperContext& context, Extent extent = Extent::whole)
      : bytes_(std::move(bytes)) {
    stack_.reset(bytes_, static_cast<std::uint32_t>(bytes_.size()));
    stack_.payload = {0, static_cast<std::uint32_t>(bytes_.size())};
    decode_upper(stack_, context, extent);
  }
  Read(std::string_view hex, const UpperContext& context, Extent extent = Extent::whole)
      : Read(from_hex(hex), context, extent) {}

  [[nodiscard]] std::vector<std::string_view> layers() const {
    std::vector<std::string_view> names;
    for (const Layer& layer : stack_.layers()) names.push_back(layer.header->name);
    return names;
  }
  [[nodiscard]] const HeaderStack& stack() const { return stack_; }
  template <class H, FixedString Name>
  [[nodiscard]] auto get() const {
    return stack_.get<H>()->template get<Name>();
  }

 private:
  std::vector<std::uint8_t> bytes_;
  HeaderStack stack_;
};

using Names = std::vector<std::string_view>;

// Frame 18 of a capture of nvme-cli: Connect for the admin queue.
constexpr std::string_view nvme_connect_frame =
    "52540000000252540000000308004500006c5bd640004011caa60a0000030a000002dc7a12b7005800000400ffff00000011802fff6d"
    "7f40000001000000000000000000000000000000000000000058291b078bffff000400480300004f000000001f0000000000000000000000"
    "0000000000000000d47fa868";
// Frame 22 of the same capture: the response, a SEND with Invalidate.
constexpr std::string_view nvme_response_frame =
    "5254000000035254000000020800450000401a35400040110c740a0000020a000003dc7a12b7002c00001700ffff0000001180fe0213"
    "0000034801000000000000000100000000000000265eb257";

TEST(Nvme, ConnectAfterTheBth) {
  const auto bytes = from_hex(nvme_connect_frame);
  HeaderStack stack = decode(bytes);
  ASSERT_EQ(stack.payload.length, 64U);
  decode_upper(stack, context_of(Upper::nvme), Extent::whole);
  ASSERT_TRUE(stack.findings().empty()) << to_string(stack.findings()[0]);
  const auto command = stack.get<NvmeFabrics>();
  const auto connect = stack.get<NvmeConnect>();
  ASSERT_TRUE(command && connect);
  EXPECT_EQ(command->get<"type">(), nvme::fabrics_type::connect);
  EXPECT_EQ(command->get<"command_id">(), 0);
  EXPECT_EQ(command->get<"sgl1.address">(), 0xffff8b071b295800U);
  EXPECT_EQ(command->get<"sgl1.keyed_length">(), 1024U);
  EXPECT_EQ(command->get<"sgl1.key">(), 0x348U);
  EXPECT_EQ(command->get<"sgl1.type">(), 4);
  EXPECT_EQ(command->get<"sgl1.subtype">(), 15);
  EXPECT_EQ(connect->get<"queue_id">(), 0);
  EXPECT_EQ(connect->get<"queue_size">(), 31);
  EXPECT_EQ(stack.payload.length, 0U);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
}

TEST(Nvme, ResponseAfterTheIeth) {
  const auto bytes = from_hex(nvme_response_frame);
  HeaderStack stack = decode(bytes);
  decode_upper(stack, context_of(Upper::nvme, false), Extent::whole);
  const auto cqe = stack.get<NvmeCqe>();
  ASSERT_TRUE(cqe);
  EXPECT_EQ(cqe->get<"result">(), 1U);  // the result of Connect is the controller ID
  EXPECT_EQ(cqe->get<"sq_head">(), 1);
  EXPECT_EQ(cqe->get<"status">(), 0);
  EXPECT_EQ(cqe->get<"status.code">(), 0U);
}

TEST(Nvme, StatusPartsMatchTheFigure) {
  // Command Specific, Connect Invalid Parameters, do not retry: phase 0, code 0x82, type 1, DNR.
  const Read read("0000000000000000 0000 0000 0700 0483", context_of(Upper::nvme, false));
  EXPECT_EQ((read.get<NvmeCqe, "command_id">()), 7);
  EXPECT_EQ((read.get<NvmeCqe, "status.code">()), 0x82U);
  EXPECT_EQ((read.get<NvmeCqe, "status.type">()), 1);
  EXPECT_EQ((read.get<NvmeCqe, "status.do_not_retry">()), 1);
  EXPECT_EQ((read.get<NvmeCqe, "status.more">()), 0);
  const Field& specific = *info<NvmeCqe>.find("status.specific");
  EXPECT_EQ(specific.names->find(specific.value(read.stack().bytes.data()))->name, "Connect Invalid Parameters");
  EXPECT_FALSE(info<NvmeCqe>.find("status.generic")->present_in(read.stack().bytes.data()));
}

TEST(Nvme, OpcodesDependOnTheQueueType) {
  std::vector<std::uint8_t> sqe(64, 0);
  sqe[0] = 2;
  UpperContext context = context_of(Upper::nvme);
  EXPECT_EQ(Read(sqe, context).layers(), (Names{"nvme_admin", "nvme_dwords"}));
  context.admin_queue = false;
  EXPECT_EQ(Read(sqe, context).layers(), (Names{"nvme_io", "nvme_range"}));
  sqe[0] = 0;
  EXPECT_EQ(Read(sqe, context).layers(), (Names{"nvme_io", "nvme_dwords"}));
}

TEST(Nvme, ConnectDataInTheCapsule) {
  auto bytes = from_hex(nvme_connect_frame.substr(2 * 54, 2 * 64));
  bytes.resize(64 + 1024, 0);
  bytes[64] = 0xaa;
  std::copy_n("nqn.x", 5, bytes.begin() + 64 + 256);
  const Read read(bytes, context_of(Upper::nvme));
  EXPECT_EQ(read.layers(), (Names{"nvme_fabrics", "nvme_connect", "nvme_connect_data"}));
  EXPECT_EQ((read.get<NvmeConnectData, "subsystem_nqn">())[4], 'x');
  EXPECT_EQ(read.stack().payload.length, 0U);
}

TEST(Nvme, ShortCapsuleIsAFindingOnlyIfComplete) {
  const Read whole(std::vector<std::uint8_t>(63), context_of(Upper::nvme));
  ASSERT_EQ(whole.stack().findings().size(), 1U);
  EXPECT_EQ(whole.stack().findings()[0].kind, ParseError::Kind::malformed);
  EXPECT_EQ(whole.stack().findings()[0].needed, 64U);
  EXPECT_EQ(whole.stack().findings()[0].had, 63U);
  EXPECT_EQ(whole.stack().payload.length, 63U);
  EXPECT_TRUE(
      Read(std::vector<std::uint8_t>(63), context_of(Upper::nvme), Extent::beginning).stack().findings().empty());
}

constexpr std::string_view ipoib_arp =
    "08060000 0020080014040001 80000405fe800000000000000011223344556677 0a000122"
    "0000000000000000000000000000000000000000 0a00003a";

TEST(IpoibTest, ArpHasAddressesOfTwentyBytes) {
  const Read read(ipoib_arp, context_of(Upper::ipoib));
  EXPECT_EQ(read.layers(), (Names{"ipoib", "arp", "arp_infiniband"}));
  EXPECT_EQ((read.get<Arp, "operation">()), 1);
  EXPECT_EQ((read.get<ArpInfiniband, "sender_qp">()), 0x405U);
  EXPECT_EQ((read.get<ArpInfiniband, "sender_flags.rc">()), 1);
  EXPECT_EQ((read.get<ArpInfiniband, "target_protocol">()), 0x0a00003aU);
}

TEST(IpoibTest, InnerDatagramKeepsThePacketsRanges) {
  // A SEND over RoCEv2 contains an IPv4 and UDP datagram to RoCEv2's port. The datagram must not become the packet's
  // network, transport or ICRC.
  Frame inside = Value<Ipv4>().set<"src">(1).set<"dst">(2) / Value<Udp>();
  inside /= Value<Bth>().set<"opcode">(0x04);
  inside.payload = {1, 2, 3, 4};
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(3).set<"dst">(4);
  frame /= Value<Udp>();
  frame /= Value<Bth>().set<"opcode">(0x04);
  frame.payload = from_hex("08000000");
  for (std::uint8_t b : inside.encode()) frame.payload.push_back(b);
  const auto bytes = frame.encode();
  HeaderStack stack = decode(bytes);
  const HeaderStack before = stack;
  decode_upper(stack, context_of(Upper::ipoib), Extent::whole);
  EXPECT_GT(stack.layers().size(), before.layers().size());
  EXPECT_EQ(stack.network, before.network);
  EXPECT_EQ(stack.transport, before.transport);
  EXPECT_EQ(stack.icrc.offset, before.icrc.offset);
  EXPECT_EQ(stack.payload.end(), before.payload.end());
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
  // The frame encodes to the same bytes, also with recomputed lengths and CRCs.
  Frame again = Frame::of(stack);
  EXPECT_EQ(again.encode(), bytes);
  again.icrc.reset();
  EXPECT_EQ(again.encode(), bytes);
}

TEST(IpoibTest, InnerLengthsAreComputedWithoutPadAndIcrc) {
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(3).set<"dst">(4);
  frame /= Value<Udp>();
  frame /= Value<Bth>().set<"opcode">(0x04);
  frame /= Value<Ipoib>();
  frame /= Value<Ipv4>().set<"src">(1).set<"dst">(2);
  frame /= Value<Udp>().set<"dst_port">(7);
  frame.payload = {1, 2, 3, 4, 5};
  const auto bytes = frame.encode();
  HeaderStack stack = decode(bytes);
  EXPECT_EQ(stack.pad.length, 3U);
  EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
  decode_upper(stack, context_of(Upper::ipoib), Extent::whole);
  ASSERT_TRUE(stack.findings().empty()) << to_string(stack.findings()[0]);
  EXPECT_EQ(stack.get<Ipoib>()->get<"type">(), 0x0800);
  EXPECT_EQ(stack.get<Ipv4>()->get<"total_length">(), 20 + 8 + 5);
  EXPECT_EQ(stack.get<Udp>()->get<"length">(), 8 + 5);
  EXPECT_EQ(stack.payload.length, 5U);
}

TEST(IpoibTest, FirstPacketOfALongDatagramIsNotTruncated) {
  // An IPv4 packet of 2000 bytes. The first packet of connected mode contains the 4-byte IPoIB header and its first 252
  // bytes.
  auto bytes = from_hex("08000000 4500 07d0 0000 0000 4001 0000 0a000001 0a000002");
  bytes.resize(256, 0x55);
  const Read first(bytes, context_of(Upper::ipoib), Extent::beginning);
  EXPECT_EQ(first.layers(), (Names{"ipoib", "ip", "icmp"}));
  EXPECT_TRUE(first.stack().findings().empty());
  EXPECT_FALSE(first.stack().cut);
}

TEST(IpoibTest, InvalidEtherTypeStaysPayload) {
  const Read read("0001000000000000", context_of(Upper::ipoib));
  EXPECT_TRUE(read.layers().empty());
  EXPECT_TRUE(read.stack().findings().empty());
}

TEST(IpoibTest, GroupsBySignature) {
  EXPECT_TRUE(is_ipoib_group(from_hex("ff12401bffff000000000000ffffffff").data()));
  EXPECT_TRUE(is_ipoib_group(from_hex("ff15601bffff000000000001ff001895").data()));
  EXPECT_FALSE(is_ipoib_group(from_hex("ff124001ffff000000000000e0000001").data()));  // a multicast group of RDMA-CM
  EXPECT_FALSE(is_ipoib_group(from_hex("fe80401bffff000000000000ffffffff").data()));
}

// One read segment, a write chunk of two segments, no reply chunk, then an NFS call.
constexpr std::string_view rpc_call_with_chunks =
    "deadbeef 00000001 00000020 00000000"
    "00000001 00000080 00001234 00001000 00000000deadbeef 00000000"
    "00000001 00000002 0000000a 00000100 0000000000001000 0000000b 00000200 0000000000002000 00000000"
    "00000000"
    "deadbeef 00000000 00000002 000186a3 00000004 00000001 0011223344556677";

TEST(RpcRdmaTest, ChunkListsAreCountedAndTheCallIsNamed) {
  const Read read(rpc_call_with_chunks, context_of(Upper::rpc_rdma));
  ASSERT_EQ(read.layers(), (Names{"rpcordma", "rpc_call"}));
  EXPECT_EQ((read.get<RpcRdma, "credits">()), 32U);
  EXPECT_EQ((read.get<RpcCall, "program">()), 100003U);
  EXPECT_EQ(read.stack().payload.length, 8U);
  const Layer& layer = read.stack().layers()[0];
  const Parts parts = info<RpcRdma>.parts(read.stack().bytes_of(layer));
  EXPECT_FALSE(parts.error);
  Names names;
  for (std::size_t i = 0; i < parts.count; ++i) names.push_back(parts.layers[i].header->name);
  EXPECT_EQ(names, (Names{"rpcordma_read", "rpcordma_end", "rpcordma_chunk", "rpcordma_segment", "rpcordma_segment",
                          "rpcordma_end", "rpcordma_end"}));
  const View<RpcRdmaRead> segment(read.stack().bytes.data() + parts.layers[0].offset);
  EXPECT_EQ(segment.get<"position">(), 0x80U);
  EXPECT_EQ(segment.get<"handle">(), 0x1234U);
}

TEST(RpcRdmaTest, ReplyAndErrors) {
  EXPECT_EQ(Read("deadbeef 00000001 00000020 00000000 00000000 00000000 00000000 deadbeef 00000001 00000000",
                 context_of(Upper::rpc_rdma, false))
                .layers(),
            (Names{"rpcordma", "rpc_reply"}));
  const Read error("deadbeef 00000001 00000020 00000004 00000001 00000001 00000001", context_of(Upper::rpc_rdma));
  EXPECT_EQ(error.layers(), (Names{"rpcordma"}));
  EXPECT_EQ(error.stack().payload.length, 0U);
  EXPECT_TRUE(error.stack().findings().empty());
  // The first four words of version 2 are the same, but the rest differs.
  const Read next("deadbeef 00000002 00000020 00000000 ffffffff", context_of(Upper::rpc_rdma));
  ASSERT_EQ(next.stack().findings().size(), 1U);
  EXPECT_EQ(next.stack().findings()[0].kind, ParseError::Kind::unknown);
}

TEST(RpcRdmaTest, InvalidCountsEndWithTheMessage) {
  const Read lie("deadbeef 00000001 00000020 00000001 00000000 00000001 ffffffff 0000000a",
                 context_of(Upper::rpc_rdma));
  ASSERT_EQ(lie.stack().findings().size(), 1U);
  EXPECT_EQ(lie.stack().findings()[0].kind, ParseError::Kind::malformed);
  EXPECT_EQ(lie.layers(), (Names{"rpcordma"}));
  EXPECT_EQ(lie.stack().payload.length, 16U);
  const Read junk("deadbeef 00000001 00000020 00000001 00000007", context_of(Upper::rpc_rdma));
  ASSERT_EQ(junk.stack().findings().size(), 1U);
}

TEST(IserTest, ControlPduAndIscsi) {
  std::string hex =
      "18000000 00001234 0000000000005678 00000000 0000000000000000"
      "01a10000 00000000 0001000000000000 10000001";
  const Read read(hex + std::string(56, '0'), context_of(Upper::iser));
  ASSERT_EQ(read.layers(), (Names{"iser", "iscsi"}));
  EXPECT_EQ((read.get<Iser, "write_stag_valid">()), 1);
  EXPECT_EQ((read.get<Iser, "read_stag_valid">()), 0);
  EXPECT_EQ((read.get<Iser, "write_stag">()), 0x1234U);
  EXPECT_EQ((read.get<Iscsi, "opcode">()), 1);
  EXPECT_EQ((read.get<Iscsi, "final">()), 1);
  EXPECT_EQ((read.get<Iscsi, "task_tag">()), 0x10000001U);
  EXPECT_EQ(Read("20110010" + std::string(48, '0'), context_of(Upper::iser)).layers(), (Names{"iser_hello"}));
  EXPECT_EQ(Read("70110010" + std::string(48, '0'), context_of(Upper::iser)).stack().findings().size(), 1U);
}

TEST(SrpTest, InformationUnitTypes) {
  const auto unit = [](std::uint8_t type, std::size_t byte_count) {
    std::vector<std::uint8_t> bytes(byte_count);
    bytes[0] = type;
    return Read(bytes, context_of(Upper::srp)).layers();
  };
  EXPECT_EQ(unit(0x00, 64), (Names{"srp_login_req"}));
  EXPECT_EQ(unit(0x01, 48), (Names{"srp_tsk_mgmt"}));
  EXPECT_EQ(unit(0x02, 68), (Names{"srp_cmd"}));
  EXPECT_EQ(unit(0x03, 16), (Names{"srp"}));
  EXPECT_EQ(unit(0x41, 16), (Names{"srp"}));
  EXPECT_EQ(unit(0x42, 16), (Names{"srp"}));
  EXPECT_EQ(unit(0x80, 16), (Names{"srp_t_logout"}));
  EXPECT_EQ(unit(0x81, 16), (Names{"srp_cred_req"}));
  EXPECT_EQ(unit(0x82, 36), (Names{"srp_aer_req"}));
  EXPECT_EQ(unit(0xc0, 52), (Names{"srp_login_rsp"}));
  EXPECT_EQ(unit(0xc1, 36), (Names{"srp_rsp"}));
  EXPECT_EQ(unit(0xc2, 32), (Names{"srp_login_rej"}));
  EXPECT_TRUE(unit(0x77, 64).empty());
}

TEST(SrpTest, Command) {
  const Read read(
      "02 00 000000 10 02 00 0000000000000009 00000000 0001000000000000 00 02 00 04 28000000000000000800 000000000000 "
      "ffffffff",
      context_of(Upper::srp));
  EXPECT_EQ((read.get<SrpCommand, "data_out_format">()), 1);
  EXPECT_EQ((read.get<SrpCommand, "data_out_count">()), 2);
  EXPECT_EQ((read.get<SrpCommand, "tag">()), 9U);
  EXPECT_EQ((read.get<SrpCommand, "task_attribute">()), 2);
  EXPECT_EQ((read.get<SrpCommand, "additional_cdb_length">()), 1);
  EXPECT_EQ((read.get<SrpCommand, "cdb">())[0], 0x28);
  EXPECT_EQ(read.stack().payload.length, 4U);
}

TEST(SmbDirect, NegotiationThenData) {
  const Read request("0001 0001 0000 ff00 54050000 00200000 00001000", context_of(Upper::smb_direct, true, true));
  EXPECT_EQ((request.get<SmbDirectNegotiateRequest, "max_version">()), 0x100);
  EXPECT_EQ((request.get<SmbDirectNegotiateRequest, "credits_requested">()), 255);
  EXPECT_EQ((request.get<SmbDirectNegotiateRequest, "max_fragmented_size">()), 0x100000U);
  const Read response("0001 0001 0001 0000 ff00 0a00 00000000 00008000 54050000 00200000 00001000",
                      context_of(Upper::smb_direct, false, true));
  EXPECT_EQ((response.get<SmbDirectNegotiateResponse, "version">()), 0x100);
  EXPECT_EQ((response.get<SmbDirectNegotiateResponse, "credits_granted">()), 10);
  const Read data("ff00 0100 0100 0000 00000000 18000000 04000000 00000000 fe534d42", context_of(Upper::smb_direct));
  EXPECT_EQ((data.get<SmbDirectData, "flags.response_requested">()), 1);
  EXPECT_EQ(data.stack().layers()[0].length, 24U);
  EXPECT_EQ(data.stack().payload.length, 4U);
  // Invalid lengths.
  EXPECT_EQ(Read("ff00 0100 0000 0000 00000000 18000000 05000000 00000000 fe534d42", context_of(Upper::smb_direct))
                .stack()
                .findings()
                .size(),
            1U);
  EXPECT_EQ(Read("ff00 0100 0000 0000 00000000 04000000 04000000 00000000 fe534d42", context_of(Upper::smb_direct))
                .stack()
                .findings()
                .size(),
            1U);
  EXPECT_EQ(Read("ff00 0100 0000 0000 00000000 ffffffff ffffffff 00000000 fe534d42", context_of(Upper::smb_direct))
                .stack()
                .layers()[0]
                .length,
            20U);
}

TEST(PrivateDataTest, PrivateDataFormats) {
  const auto read = [](std::string_view hex, Upper upper, PrivateData message, bool ip = true) {
    auto bytes = from_hex(hex);
    bytes.resize(92, 0);
    HeaderStack stack;
    stack.reset(bytes, 92);
    stack.payload = {0, 92};
    decode_private_data(stack, context_of(upper), message, ip);
    return stack.layers().empty() ? std::string_view() : stack.layers()[0].header->name;
  };
  EXPECT_EQ(read("0000 0000 2000 1f00", Upper::nvme, PrivateData::request), "nvme_cm_request");
  EXPECT_EQ(read("0000 2000", Upper::nvme, PrivateData::reply), "nvme_cm_reply");
  EXPECT_EQ(read("0000 0600", Upper::nvme, PrivateData::reject), "nvme_cm_reject");
  EXPECT_EQ(read("00000404 0000fff4", Upper::ipoib, PrivateData::request), "ipoib_cm");
  EXPECT_EQ(read("f6ab0e18 01 00 03 03", Upper::rpc_rdma, PrivateData::request), "rpcordma_private");
  EXPECT_EQ(read("00000000", Upper::rpc_rdma, PrivateData::request), "");
  EXPECT_EQ(read("c0000000", Upper::iser, PrivateData::reply), "iser_cm");
  EXPECT_EQ(read("00", Upper::srp, PrivateData::request, false), "srp_login_req");
  EXPECT_EQ(read("00", Upper::srp, PrivateData::request, true), "srp_login_req_rdma");
  EXPECT_EQ(read("c0", Upper::srp, PrivateData::reply), "srp_login_rsp");
  EXPECT_EQ(read("c2", Upper::srp, PrivateData::reject), "srp_login_rej");
  EXPECT_EQ(read("00", Upper::srp, PrivateData::reject), "");
  EXPECT_EQ(read("00", Upper::unknown, PrivateData::request), "");
}

/// Checks that the layers are in order and inside the bytes, that the payload follows them, and that the findings'
/// layers are inside the bytes.
void expect_sound(const HeaderStack& stack) {
  std::uint32_t end = 0;
  for (const Layer& layer : stack.layers()) {
    ASSERT_GE(layer.offset, end);
    ASSERT_GE(layer.length, layer.header->size);
    end = layer.offset + layer.length;
    ASSERT_LE(end, stack.bytes.size());
    if (!layer.header->parts) continue;
    const Parts parts = layer.header->parts(stack.bytes_of(layer));
    for (std::size_t i = 0; i < parts.count; ++i)
      ASSERT_LE(parts.layers[i].offset + parts.layers[i].length, layer.length);
  }
  ASSERT_LE(end, stack.payload.offset);
  ASSERT_LE(stack.payload.end(), stack.bytes.size());
}

constexpr Upper all_uppers[] = {Upper::unknown, Upper::ipoib, Upper::nvme,      Upper::rpc_rdma,
                                Upper::iser,    Upper::srp,   Upper::smb_direct};

TEST(BadMessages, TruncatedAtEveryByte) {
  const std::vector<std::pair<std::vector<std::uint8_t>, UpperContext>> messages{
      {from_hex(nvme_connect_frame.substr(2 * 54, 2 * 64)), context_of(Upper::nvme)},
      {from_hex(ipoib_arp), context_of(Upper::ipoib)},
      {from_hex(rpc_call_with_chunks), context_of(Upper::rpc_rdma)},
      {std::vector<std::uint8_t>(76, 0x11), context_of(Upper::iser)},
      {std::vector<std::uint8_t>(64, 0x02), context_of(Upper::srp)},
      {from_hex("ff00 0100 0100 0000 00000000 18000000 04000000 00000000 fe534d42"), context_of(Upper::smb_direct)},
      {std::vector<std::uint8_t>(32, 0x01), context_of(Upper::smb_direct, false, true)},
  };
  for (const auto& [bytes, context] : messages)
    for (std::size_t n = 0; n <= bytes.size(); ++n)
      for (Extent extent : {Extent::whole, Extent::beginning}) {
        const Read read(std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)),
                        context, extent);
        expect_sound(read.stack());
        ASSERT_EQ(read.stack().payload.end(), n);
      }
}

TEST(BadMessages, RandomBytesWithEveryProtocol) {
  std::mt19937_64 random(20260102);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::uint8_t> bytes(random() % 300);
    // Small numbers produce long lists and lengths.
    for (auto& b : bytes) b = static_cast<std::uint8_t>(random() % 3 ? random() % 3 : random());
    const std::uint64_t bits = random();
    for (Upper upper : all_uppers) {
      const UpperContext context{upper, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      expect_sound(Read(bytes, context, bits & 8 ? Extent::whole : Extent::beginning).stack());
      HeaderStack stack;
      stack.reset(bytes, static_cast<std::uint32_t>(bytes.size()));
      stack.payload = {0, static_cast<std::uint32_t>(bytes.size())};
      decode_private_data(stack, context, static_cast<PrivateData>((bits >> 4 & 3) % 3), (bits & 32) != 0);
      expect_sound(stack);
      EXPECT_TRUE(stack.findings().empty());
    }
  }
}

}  // namespace
}  // namespace rdmawire
