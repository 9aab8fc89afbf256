// Tests detection of upper layer protocols, and traffic that must not be detected as one.

#include "dissectors/tracking/evidence.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "captures/io/reader.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ipoib.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/nvme.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/smb_direct.hpp"
#include "dissectors/protocol/srp.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "source_directory.hpp"

namespace rdmawire::tracking {
namespace {

using ByteVector = std::vector<std::uint8_t>;

constexpr std::uint32_t host = 0x0a000003, target = 0x0a000002;
constexpr std::uint32_t host_qp = 0x21, target_qp = 0x22, host_id = 0x1111, target_id = 0x2222;

/// Two hosts with RoCEv2. Their packets are dissected in order.
class Wires {
 public:
  explicit Wires(const DissectorOptions& options = {}) : dissector_(options) {}

  const Packet& see(ByteVector bytes, LinkType link = LinkType::ethernet) {
    bytes_ = std::move(bytes);
    packet_.number = ++number_;
    packet_.link = link;
    dissector_.dissect(packet_, bytes_, static_cast<std::uint32_t>(bytes_.size()));
    return packet_;
  }
  const Packet& see(const Frame& frame, LinkType link = LinkType::ethernet) { return see(frame.encode(), link); }
  [[nodiscard]] std::uint64_t seen() const { return number_; }

 private:
  Dissector dissector_;
  Packet packet_;
  ByteVector bytes_;
  std::uint64_t number_ = 0;
};

Frame roce(std::uint32_t from, std::uint32_t to) {
  return Value<Ethernet>() / Value<Ipv4>().set<"src">(from).set<"dst">(to) / Value<Udp>();
}
Frame native(std::uint16_t from, std::uint16_t to) {
  Frame frame;
  frame /= Value<Lrh>().set<"slid">(from).set<"dlid">(to);
  return frame;
}

/// Returns a MAD to QP 1, in which `headers` follow the common header. It is padded to 256 bytes.
Frame mad(Frame frame, const std::vector<HeaderValue>& headers, ByteVector rest = {}) {
  frame /= Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1);
  frame /= Value<Deth>().set<"src_qp">(1).set<"qkey">(0x80010000);
  frame /= Value<Mad>();
  std::size_t byte_count = Mad::size;
  for (const HeaderValue& header : headers) {
    byte_count += header.bytes().size();
    frame /= header;
  }
  rest.resize(Mad::whole - byte_count);
  frame.payload = std::move(rest);
  return frame;
}

constexpr std::uint64_t ip_service(std::uint16_t port) { return 0x0000000001060000 | port; }

struct Lids {
  std::uint16_t local = 0xffff, remote = 0xffff;
};
HeaderValue request(std::uint64_t service_id, std::uint32_t qp = host_qp, std::uint32_t id = host_id, Lids lids = {}) {
  return Value<CmReq>()
      .set<"local_comm_id">(id)
      .set<"service_id">(service_id)
      .set<"local_qpn">(qp)
      .set<"starting_psn">(1000)
      .set<"primary_local_lid">(lids.local)
      .set<"primary_remote_lid">(lids.remote);
}
HeaderValue reply(std::uint32_t qp = target_qp, std::uint32_t id = target_id, std::uint32_t remote_id = host_id) {
  return Value<CmRep>()
      .set<"local_comm_id">(id)
      .set<"remote_comm_id">(remote_id)
      .set<"local_qpn">(qp)
      .set<"starting_psn">(2000)
      .set<"local_ca_guid">(0x0011223344556677);
}
HeaderValue rdma_cm() { return Value<RdmaCm>().set<"ip_version">(4); }

Frame connect_request(std::uint16_t port, ByteVector private_data = {}) {
  return mad(roce(host, target), {request(ip_service(port)), rdma_cm()}, std::move(private_data));
}
Frame connect_reply(ByteVector private_data = {}) {
  return mad(roce(target, host), {reply()}, std::move(private_data));
}

Frame send(std::uint32_t from, std::uint32_t to, std::uint32_t qp, ByteVector payload, std::uint32_t psn = 0,
           std::uint8_t opcode = 0x04) {
  Frame frame = roce(from, to);
  frame /= Value<Bth>().set<"opcode">(opcode).set<"dest_qp">(qp).set<"psn">(psn);
  frame.payload = std::move(payload);
  return frame;
}
const ByteVector sqe(64, 0), cqe(16, 0);

TEST(CmEvidence, ServiceIdIdentifiesBothDirections) {
  Wires wires;
  EXPECT_EQ(wires.see(send(host, target, target_qp, sqe)).upper.protocol, Upper::unknown);
  const Packet& asked = wires.see(connect_request(4420));
  EXPECT_EQ(asked.upper.protocol, Upper::nvme);
  EXPECT_EQ(asked.upper.frame, 2U);
  EXPECT_TRUE(asked.stack.get<NvmeCmRequest>());
  EXPECT_TRUE(wires.see(connect_reply()).stack.get<NvmeCmReply>());

  const Packet& command = wires.see(send(host, target, target_qp, sqe));
  EXPECT_EQ(command.upper.protocol, Upper::nvme);
  EXPECT_EQ(command.upper.frame, 2U);
  EXPECT_EQ(command.upper.reason, "the CM request's service ID is port 4420, NVMe over Fabrics");
  EXPECT_TRUE(command.stack.get<NvmeAdmin>());
  EXPECT_TRUE(wires.see(send(target, host, host_qp, cqe)).stack.get<NvmeCqe>());
  // The same QP numbers in the reverse direction, or of other hosts, belong to other connections.
  EXPECT_EQ(wires.see(send(host, target, host_qp, sqe)).upper.protocol, Upper::unknown);
  EXPECT_EQ(wires.see(send(host + 1, target, target_qp, sqe)).upper.protocol, Upper::unknown);
}

TEST(CmEvidence, QueueIdDistinguishesAdminFromIo) {
  Wires wires;
  wires.see(connect_request(4420, {0, 0, 3, 0, 32, 0, 31, 0}));
  wires.see(connect_reply());
  EXPECT_TRUE(wires.see(send(host, target, target_qp, sqe)).stack.get<NvmeIo>());
}

TEST(CmEvidence, OnlyFirstPacketOfMessageHasHeaders) {
  Wires wires;
  wires.see(connect_request(4420));
  wires.see(connect_reply());
  EXPECT_TRUE(wires.see(send(host, target, target_qp, ByteVector(256), 0, 0x00)).stack.get<NvmeAdmin>());
  for (std::uint8_t opcode : {0x01, 0x02}) {  // SEND Middle, Last
    const Packet& later = wires.see(send(host, target, target_qp, ByteVector(256), 1, opcode));
    EXPECT_EQ(later.upper.protocol, Upper::nvme);
    EXPECT_EQ(later.stack.payload.length, 256U);
    EXPECT_EQ(later.stack.layers().size(), 4U);
  }
}

TEST(AssumedUpper, MessagesToTheSelectedQueuePairsAreDecoded) {
  DissectorOptions options;
  options.upper_layers = {{{target_qp, target_qp}, Upper::nvme}, {{0x40, 0x4f}, Upper::iser}};
  Wires wires(options);
  const Packet& command = wires.see(send(host, target, target_qp, sqe));
  EXPECT_EQ(command.upper.protocol, Upper::nvme);
  EXPECT_EQ(command.upper.frame, 0U);
  EXPECT_TRUE(command.stack.get<NvmeIo>());
  EXPECT_TRUE(wires.see(send(target, host, target_qp, cqe)).stack.get<NvmeCqe>());
  EXPECT_EQ(wires.see(send(host, target, 0x4f, sqe)).upper.protocol, Upper::iser);
  EXPECT_EQ(wires.see(send(host, target, 0x50, sqe)).upper.protocol, Upper::unknown);
}

TEST(AssumedUpper, EvidenceTakesPrecedence) {
  DissectorOptions options;
  options.upper_layers = {{{0, 0xffffff}, Upper::iser}};
  Wires wires(options);
  wires.see(connect_request(4420));
  wires.see(connect_reply());
  EXPECT_EQ(wires.see(send(host, target, target_qp, sqe)).upper.protocol, Upper::nvme);
}

TEST(CmEvidence, UnknownPortsStayData) {
  for (std::uint16_t port : {18515, 7174, 7471, 987, 4421, 0}) {
    Wires wires;
    EXPECT_EQ(wires.see(connect_request(port)).upper.protocol, Upper::unknown) << port;
    wires.see(connect_reply());
    const Packet& packet = wires.see(send(host, target, target_qp, sqe));
    EXPECT_EQ(packet.upper.protocol, Upper::unknown) << port;
    EXPECT_EQ(packet.stack.payload.length, 64U) << port;
  }
  // A service ID that contains a UDP port of the same number identifies another service.
  Wires wires;
  EXPECT_EQ(wires.see(mad(roce(host, target), {request(0x0000000001110000 | 4420), rdma_cm()})).upper.protocol,
            Upper::unknown);
}

TEST(CmEvidence, EveryService) {
  const std::map<std::uint16_t, Upper> services{
      {445, Upper::smb_direct}, {860, Upper::iser},        {3260, Upper::iser},     {4420, Upper::nvme},
      {8009, Upper::nvme},      {5445, Upper::smb_direct}, {20049, Upper::rpc_rdma}};
  for (const auto& [port, upper] : services) {
    Wires wires;
    EXPECT_EQ(wires.see(connect_request(port)).upper.protocol, upper) << port;
    wires.see(connect_reply());
    EXPECT_EQ(wires.see(send(target, host, host_qp, sqe)).upper.protocol, upper) << port;
  }
}

TEST(CmEvidence, DisconnectEndsDetection) {
  Wires wires;
  wires.see(connect_request(4420));
  wires.see(connect_reply());
  const HeaderValue dreq =
      Value<CmDreq>().set<"local_comm_id">(target_id).set<"remote_comm_id">(host_id).set<"remote_qpn">(host_qp);
  EXPECT_EQ(wires.see(mad(roce(target, host), {dreq})).upper.protocol, Upper::nvme);
  EXPECT_EQ(wires.see(send(host, target, target_qp, sqe)).upper.protocol, Upper::unknown);
  EXPECT_EQ(wires.see(send(target, host, host_qp, cqe)).upper.protocol, Upper::unknown);
  // The retransmitted DREQ and its reply belong to that connection.
  EXPECT_EQ(wires.see(mad(roce(target, host), {dreq})).upper.protocol, Upper::nvme);
  const HeaderValue drep = Value<CmDrep>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id);
  EXPECT_EQ(wires.see(mad(roce(host, target), {drep})).upper.protocol, Upper::nvme);
}

TEST(CmEvidence, RejectEndsDetectionAndHasReason) {
  Wires wires;
  wires.see(connect_request(4420));
  wires.see(connect_reply());
  const HeaderValue rej = Value<CmRej>().set<"remote_comm_id">(host_id).set<"reason">(28);
  const Packet& packet = wires.see(mad(roce(target, host), {rej}, {0, 0, 6, 0}));
  ASSERT_TRUE(packet.stack.get<NvmeCmReject>());
  EXPECT_EQ(packet.stack.get<NvmeCmReject>()->get<"status">(), 6);
  EXPECT_EQ(wires.see(send(host, target, target_qp, sqe)).upper.protocol, Upper::unknown);
}

TEST(CmEvidence, ReusedQueuePairWithAnotherProtocol) {
  Wires wires;
  wires.see(connect_request(4420));
  wires.see(connect_reply());
  wires.see(connect_request(18515));
  wires.see(connect_reply());
  EXPECT_EQ(wires.see(send(host, target, target_qp, sqe)).upper.protocol, Upper::unknown);
  EXPECT_EQ(wires.see(send(target, host, host_qp, cqe)).upper.protocol, Upper::unknown);
}

TEST(CmEvidence, SmbDirectNegotiationAtTheStartingPsn) {
  Wires wires;
  wires.see(connect_request(445));
  wires.see(connect_reply());
  // The client's first PSN is the one in the REP.
  EXPECT_TRUE(wires.see(send(host, target, target_qp, ByteVector(20), 2000)).stack.get<SmbDirectNegotiateRequest>());
  EXPECT_TRUE(wires.see(send(target, host, host_qp, ByteVector(32), 1000)).stack.get<SmbDirectNegotiateResponse>());
  EXPECT_TRUE(wires.see(send(host, target, target_qp, ByteVector(24), 2001)).stack.get<SmbDirectData>());
  EXPECT_TRUE(wires.see(send(host, target, target_qp, ByteVector(20), 2000)).stack.get<SmbDirectNegotiateRequest>());
}

TEST(SrpEvidence, ServiceIdAnnouncedByTarget) {
  constexpr std::uint64_t service_id = 0x0002c90300a1b2c3;
  ByteVector entries(40, 0);  // reserved bytes. Names of 40 bytes and service IDs follow
  const std::string_view name = "SRP.T10:0002C90300A1B2C3";
  entries.insert(entries.end(), name.begin(), name.end());
  entries.resize(80);
  for (int shift = 56; shift >= 0; shift -= 8) entries.push_back(static_cast<std::uint8_t>(service_id >> shift));
  ByteVector login(64, 0);
  login[19] = 64;

  Wires wires;
  EXPECT_EQ(wires.see(mad(native(7, 8), {request(service_id, host_qp, host_id, {7, 8})}, login), LinkType::infiniband)
                .upper.protocol,
            Upper::unknown);
  Frame announced = mad(native(8, 7), {}, entries);
  announced.find(info<Mad>)->set(*info<Mad>.find("class"), 0x06);
  announced.find(info<Mad>)->set(*info<Mad>.find("method"), 0x81);
  announced.find(info<Mad>)->set(*info<Mad>.find("attribute_id"), 0x12);
  wires.see(announced, LinkType::infiniband);
  const Packet& packet =
      wires.see(mad(native(7, 8), {request(service_id, host_qp, host_id + 1, {7, 8})}, login), LinkType::infiniband);
  EXPECT_EQ(packet.upper.protocol, Upper::srp);
  EXPECT_EQ(packet.upper.frame, 2U);
  EXPECT_TRUE(packet.stack.get<SrpLoginRequest>());
}

TEST(SrpEvidence, LoginsInBothDirectionsToTheTargetsGuid) {
  ByteVector login(64, 0), accept(52, 0);
  login[19] = 64;
  accept[0] = srp_type::login_response;
  login[15] = accept[15] = 9;  // tag of the login
  const auto outcome = [&](std::uint64_t service_id, const ByteVector& answer) {
    Wires wires;
    wires.see(mad(native(7, 8), {request(service_id, host_qp, host_id, {7, 8})}, login), LinkType::infiniband);
    wires.see(mad(native(8, 7), {reply()}, answer), LinkType::infiniband);
    Frame command = native(7, 8);
    command /= Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(target_qp);
    command.payload = ByteVector(48, 0);
    command.payload[0] = srp_type::command;
    const Packet& packet = wires.see(command, LinkType::infiniband);
    return packet.upper.protocol == Upper::srp && packet.stack.get<SrpCommand>();
  };
  EXPECT_TRUE(outcome(0x0011223344556677, accept));
  EXPECT_FALSE(outcome(0x0011223344556678, accept));
  EXPECT_FALSE(outcome(0x0011223344556677, ByteVector(52, 0)));
  accept[15] = 8;
  EXPECT_FALSE(outcome(0x0011223344556677, accept));
}

constexpr std::uint32_t ipoib_qkey = 0x0b1b;

Frame datagram(std::uint16_t from, std::uint32_t from_qp, std::uint16_t to, std::uint32_t to_qp,
               std::uint32_t qkey = ipoib_qkey, bool multicast = false) {
  Frame frame = native(from, to);
  if (multicast) {
    const ByteVector group{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    frame /= Value<Grh>().set<"dgid">(group);
  }
  frame /= Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(to_qp);
  frame /= Value<Deth>().set<"src_qp">(from_qp).set<"qkey">(qkey);
  frame.payload = {0x08, 0x06, 0, 0, 0, 32, 8, 0, 20, 4, 0, 1};
  frame.payload.resize(4 + 8 + 48);
  return frame;
}
bool is_ipoib(const Packet& packet) { return packet.upper.protocol == Upper::ipoib && packet.stack.get<Ipoib>(); }

TEST(IpoibEvidence, SpreadsFromMulticastGroup) {
  Wires wires;
  const auto see = [&](const Frame& frame) { return is_ipoib(wires.see(frame, LinkType::infiniband)); };
  EXPECT_FALSE(see(datagram(4, 0x405, 1, 0x404)));
  EXPECT_TRUE(see(datagram(4, 0x405, 0xc000, 0xffffff, ipoib_qkey, true)));
  EXPECT_TRUE(see(datagram(1, 0x404, 4, 0x405)));  // the destination is the sender of the broadcast
  EXPECT_TRUE(see(datagram(9, 0x999, 1, 0x404)));  // the destination is the peer of that QP
  EXPECT_FALSE(see(datagram(9, 0x999, 1, 0x404, 0x11111111)));
  EXPECT_FALSE(see(datagram(9, 0x777, 8, 0x405)));  // another host has the same QP number
}

TEST(IpoibEvidence, QKeyOfJoinedGroup) {
  Wires wires;
  ByteVector record(32, 0);  // space for RMPP and the SA's header
  const ByteVector group{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
  record.insert(record.end(), group.begin(), group.end());
  record.resize(record.size() + 16);
  for (std::uint8_t b : {0, 0, 0x0b, 0x1b, 0xc0, 0, 0, 0, 0xff, 0xff}) record.push_back(b);
  Frame joined = mad(native(1, 4), {}, record);
  joined.find(info<Mad>)->set(*info<Mad>.find("class"), 0x03);
  joined.find(info<Mad>)->set(*info<Mad>.find("method"), 0x81);
  joined.find(info<Mad>)->set(*info<Mad>.find("attribute_id"), 0x38);
  wires.see(joined, LinkType::infiniband);
  EXPECT_TRUE(is_ipoib(wires.see(datagram(2, 0x48, 4, 0x405), LinkType::infiniband)));
  EXPECT_FALSE(is_ipoib(wires.see(datagram(2, 0x48, 4, 0x406, 0x11111111), LinkType::infiniband)));
}

TEST(IpoibEvidence, ConnectedModeByServiceId) {
  Wires wires;
  wires.see(mad(native(4, 1), {request(0x1000000000000404, host_qp, host_id, {4, 1})}), LinkType::infiniband);
  wires.see(mad(native(1, 4), {reply()}), LinkType::infiniband);
  Frame packet = native(4, 1);
  packet /= Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(target_qp);
  packet.payload = ByteVector{0x08, 0x00, 0, 0, 0x45};
  EXPECT_TRUE(is_ipoib(wires.see(packet, LinkType::infiniband)));
  // The service ID contains the number of the UD QP.
  EXPECT_TRUE(is_ipoib(wires.see(datagram(4, 0x405, 1, 0x404), LinkType::infiniband)));
}

/// Sends iWARP packets, which contain the PDUs of their streams.
class Streams {
 public:
  explicit Streams(std::vector<AssumedUpper> assumed = {}) { evidence_.assume(std::move(assumed)); }

  const Packet& see(std::uint16_t from, std::uint16_t to, const Frame& pdu, bool back = false) {
    Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(back ? target : host).set<"dst">(back ? host : target);
    frame /= Value<Tcp>().set<"src_port">(from).set<"dst_port">(to);
    bytes_ = frame.encode();
    pdu_ = pdu.encode();
    packet_.number++;
    packet_.upper = {};
    decode(packet_.stack, bytes_, LinkType::ethernet, static_cast<std::uint32_t>(bytes_.size()));
    packet_.pdus.resize(1);
    if (&pdu.layers[0].header() == &info<MpaFrame>)
      decode_mpa_frame(packet_.pdus[0].stack, pdu_);
    else
      decode_fpdu(packet_.pdus[0].stack, pdu_);
    evidence_.apply(packet_);
    return packet_;
  }

 private:
  Evidence evidence_;
  Packet packet_;
  ByteVector bytes_, pdu_;
};

Frame mpa_request(ByteVector private_data = {}) {
  HeaderValue mpa = Value<MpaFrame>().set<"revision">(1);
  const std::string_view key = mpa::request_key;
  mpa.set(*info<MpaFrame>.find("key"), Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()));
  mpa.set_tail(private_data);
  Frame frame;
  frame /= mpa;
  return frame;
}
Frame fpdu(ByteVector payload, std::uint32_t msn, std::uint32_t mo = 0, bool last = true, std::uint8_t opcode = 3) {
  Frame frame =
      Value<Fpdu>() / Value<Ddp>().set<"last">(last).set<"dv">(1) / Value<Rdmap>().set<"rv">(1).set<"opcode">(opcode);
  frame /= Value<DdpUntagged>().set<"msn">(msn).set<"mo">(mo);
  frame.payload = std::move(payload);
  return frame;
}

TEST(IwarpEvidence, PortOfTheMpaRequest) {
  Streams streams;
  const Packet& asked = streams.see(40000, 5445, mpa_request());
  EXPECT_EQ(asked.upper.protocol, Upper::smb_direct);
  EXPECT_EQ(asked.upper.reason, "the MPA request went to port 5445, SMB Direct");
  const Packet& first = streams.see(40000, 5445, fpdu(ByteVector(20), 1));
  EXPECT_EQ(first.upper.frame, 1U);
  ASSERT_TRUE(first.pdus[0].stack.findings().empty()) << to_string(first.pdus[0].stack.findings()[0]);
  EXPECT_TRUE(first.pdus[0].stack.get<SmbDirectNegotiateRequest>());
  EXPECT_TRUE(streams.see(5445, 40000, fpdu(ByteVector(32), 1), true).pdus[0].stack.get<SmbDirectNegotiateResponse>());
  EXPECT_TRUE(streams.see(5445, 40000, fpdu(ByteVector(24), 2), true).pdus[0].stack.get<SmbDirectData>());
  // SMB Direct headers are decoded only in the first segment of a Send.
  EXPECT_TRUE(streams.see(40000, 5445, fpdu(ByteVector(24), 2, 0, false)).pdus[0].stack.get<SmbDirectData>());
  EXPECT_FALSE(streams.see(40000, 5445, fpdu(ByteVector(24), 2, 24)).pdus[0].stack.get<SmbDirectData>());
  const Packet& read = streams.see(40000, 5445, fpdu(ByteVector(28), 1, 0, true, 1));
  EXPECT_EQ(read.upper.protocol, Upper::smb_direct);
  EXPECT_FALSE(read.pdus[0].stack.get<SmbDirectData>());
}

TEST(IwarpEvidence, PortsOfInitiatorsAreIgnored) {
  Streams streams;
  streams.see(5445, 7174, mpa_request());
  EXPECT_EQ(streams.see(5445, 7174, fpdu(ByteVector(64), 1)).upper.protocol, Upper::unknown);
  EXPECT_EQ(streams.see(7174, 5445, fpdu(ByteVector(64), 1), true).upper.protocol, Upper::unknown);
  EXPECT_EQ(streams.see(40000, 18515, mpa_request()).upper.protocol, Upper::unknown);
  EXPECT_EQ(streams.see(40000, 18515, fpdu(ByteVector(64), 1)).upper.protocol, Upper::unknown);
  EXPECT_EQ(streams.see(40000, 445, mpa_request()).upper.protocol, Upper::unknown);
  // The capture does not contain the start of the connection, and both ports belong to services.
  EXPECT_EQ(streams.see(5445, 3260, fpdu(ByteVector(76), 9)).upper.protocol, Upper::unknown);
}

TEST(IwarpEvidence, SelectedPortNeedsNoStart) {
  Streams streams({{{9000, 9000}, Upper::nvme}});
  EXPECT_TRUE(streams.see(40000, 9000, fpdu(sqe, 9)).pdus[0].stack.get<NvmeIo>());
  EXPECT_TRUE(streams.see(9000, 40000, fpdu(cqe, 9), true).pdus[0].stack.get<NvmeCqe>());
  EXPECT_EQ(streams.see(40000, 9001, fpdu(sqe, 9)).upper.protocol, Upper::unknown);
}

TEST(IwarpEvidence, ConnectionWithoutCapturedStart) {
  Streams streams;
  const Packet& packet = streams.see(4420, 40000, fpdu(ByteVector(16), 9), true);
  EXPECT_EQ(packet.upper.reason, "one endpoint of the iWARP connection has port 4420, NVMe over Fabrics");
  EXPECT_TRUE(packet.pdus[0].stack.get<NvmeCqe>());
  EXPECT_TRUE(streams.see(40000, 4420, fpdu(sqe, 9)).pdus[0].stack.get<NvmeIo>());
  streams.see(40001, 4420, mpa_request({0, 0, 0, 0, 32, 0, 31, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                        0, 0, 0, 0, 0,  0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(streams.see(40001, 4420, fpdu(sqe, 1)).pdus[0].stack.get<NvmeAdmin>());
}

TEST(Memory, StaysBoundedWithAMillionConnections) {
  constexpr std::uint32_t bound = 1000;
  Evidence evidence(bound);
  Packet packet;
  std::mt19937_64 random(20260103);
  ByteVector asked = connect_request(4420).encode(), answered = connect_reply().encode();
  const auto put = [](ByteVector& bytes, std::size_t at, unsigned byte_count, std::uint64_t value) {
    store_be(bytes.data() + at, byte_count, value);
  };
  const auto offset = [](const ByteVector& bytes, const HeaderInfo& header, std::string_view field) {
    const HeaderStack stack = decode(bytes);
    return stack.find(header)->offset + header.find(field)->bit / 8U;
  };
  const auto id_at = offset(asked, info<CmReq>, "local_comm_id"), qp_at = offset(asked, info<CmReq>, "local_qpn");
  const auto remote_at = offset(answered, info<CmRep>, "remote_comm_id"),
             answer_qp_at = offset(answered, info<CmRep>, "local_qpn");
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    const std::uint64_t id = random();
    put(asked, id_at, 4, id);
    put(asked, qp_at, 3, id >> 32);
    put(answered, remote_at, 4, id);
    put(answered, answer_qp_at, 3, id >> 40);
    for (ByteVector* bytes : {&asked, &answered}) {
      packet.number = i;
      packet.upper = {};
      decode(packet.stack, *bytes, LinkType::ethernet, static_cast<std::uint32_t>(bytes->size()));
      evidence.apply(packet);
      ASSERT_EQ(packet.upper.protocol, Upper::nvme);
    }
  }
  EXPECT_LE(evidence.known(), bound);
  EXPECT_GT(evidence.evicted(), 2'900'000U);
}

TEST(LruTableTest, EvictsLeastRecentlyUsed) {
  LruTable<NumberKey, int> table(3);
  for (int i = 0; i < 3; ++i) table.put({static_cast<std::uint64_t>(i)}, i);
  EXPECT_TRUE(table.find({0}));
  table.put({3}, 3);
  EXPECT_FALSE(table.find({1}));
  EXPECT_EQ(*table.find({0}), 0);
  EXPECT_EQ(table.evicted(), 1U);
  table.erase({0});
  table.erase({0});
  EXPECT_EQ(table.size(), 2U);
}

TEST(LruTableTest, MatchesSimpleListOnRandomOperations) {
  constexpr std::size_t bound = 50;
  LruTable<NumberKey, std::uint64_t> table(bound);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> plain;  // the last one is the most recently used
  std::mt19937_64 random(20260104);
  for (std::uint64_t step = 0; step < 100'000; ++step) {
    const std::uint64_t key = random() % 80;
    const auto at = std::find_if(plain.begin(), plain.end(), [&](const auto& entry) { return entry.first == key; });
    switch (random() % 3) {
      case 0: {
        const std::uint64_t* found = table.find({key});
        ASSERT_EQ(found != nullptr, at != plain.end());
        if (!found) break;
        ASSERT_EQ(*found, at->second);
        std::rotate(at, at + 1, plain.end());
        break;
      }
      case 1:
        table.put({key}, step);
        if (at != plain.end()) plain.erase(at);
        if (plain.size() == bound) plain.erase(plain.begin());
        plain.emplace_back(key, step);
        break;
      default:
        table.erase({key});
        if (at != plain.end()) plain.erase(at);
    }
    ASSERT_EQ(table.size(), plain.size());
  }
}

/// Numbers of headers and packets by upper layer protocol.
struct Summary {
  std::map<std::string_view, int> layers;
  std::map<Upper, int> packets;
  int findings = 0;
};
Summary summary_of(const std::filesystem::path& path) {
  Summary summary;
  auto reader = captures::Reader::open(path.string());
  if (!reader) {
    ADD_FAILURE() << path << " cannot be opened";
    return summary;
  }
  Dissector dissector;
  Packet packet;
  captures::Record record;
  while (reader->next(record) == captures::Next::record) {
    packet.number = record.number;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    summary.packets[packet.upper.protocol]++;
    summary.findings += static_cast<int>(packet.stack.findings().size());
    for (const Layer& layer : packet.stack.layers()) summary.layers[layer.header->name]++;
    // The frame, encoded again with the added layers, must equal the captured bytes.
    const auto again = Frame::of(packet.stack).encode();
    EXPECT_TRUE(std::equal(again.begin(), again.end(), record.bytes.begin(), record.bytes.end()))
        << path << " frame " << record.number;
  }
  return summary;
}

const std::filesystem::path samples = std::filesystem::path(RDMAWIRE_SOURCE_DIR) / "captures" / "samples";

TEST(Captures, NvmeHeadersAreCompletelyDecoded) {
  Summary nvme = summary_of(samples / "nvme-over-rdma.pcap.zst");
  EXPECT_EQ(nvme.findings, 0);
  EXPECT_EQ(nvme.layers["nvme_cm_request"], 3);
  EXPECT_EQ(nvme.layers["nvme_cm_reply"], 3);
  // Three queues have three Connects. Every command has a response.
  EXPECT_EQ(nvme.layers["nvme_connect"], 3);
  // The controller reads the data of two Connects with RDMA. The third capsule contains its data, partly in the next
  // packet.
  EXPECT_EQ(nvme.layers["nvme_connect_data"], 2);
  EXPECT_EQ(nvme.layers["nvme_range"], 19);
  const int commands = nvme.layers["nvme_fabrics"] + nvme.layers["nvme_admin"] + nvme.layers["nvme_io"];
  EXPECT_EQ(commands, 61);
  // The last Asynchronous Event Requests have no completion when the host disconnects.
  EXPECT_EQ(nvme.layers["nvme_cqe"], 59);
}

TEST(Captures, OtherTrafficIsNotDetected) {
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(samples)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".pcap") == std::string::npos || name.find("nvme") != std::string::npos) continue;
    const Summary summary = summary_of(entry.path());
    EXPECT_EQ(summary.packets.size(), 1U) << name;
    EXPECT_TRUE(summary.packets.contains(Upper::unknown)) << name;
    ++read;
  }
  EXPECT_GE(read, 15);
}

std::filesystem::path shared_captures() {
  const char* given = std::getenv("RDMAWIRE_SHARED");
  return (given ? std::filesystem::path(given) : std::filesystem::path(RDMAWIRE_SOURCE_DIR) / ".." / "shared") /
         "captures";
}

TEST(Captures, IpoibInNativeInfiniband) {
  const auto path = shared_captures() / "public" / "realjimmy__sample-captures__infiniband.pcap";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "skipped: needs " << path;
  Summary summary = summary_of(path);
  EXPECT_EQ(summary.findings, 0);
  EXPECT_EQ(summary.layers["ipoib"], 17);
  EXPECT_EQ(summary.layers["arp_infiniband"], 2);
  EXPECT_EQ(summary.layers["ipoib_cm"], 6);
}

TEST(Captures, PublicCaptures) {
  const auto folder = shared_captures() / "public";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "skipped: needs " << folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    Summary summary = summary_of(entry.path());
    const bool nvme = name.find("nvme") != std::string::npos;
    const bool ipoib = name.find("infiniband.pcap") != std::string::npos || name.find("__ib2") != std::string::npos;
    for (const auto& [upper, packets] : summary.packets) {
      if (upper == Upper::unknown) continue;
      EXPECT_TRUE((nvme && upper == Upper::nvme) || (ipoib && upper == Upper::ipoib))
          << name << ": " << packets << " packets of " << to_string(upper);
    }
    EXPECT_GE(summary.packets.size(), nvme || ipoib ? 2U : 1U) << name;
  }
}

}  // namespace
}  // namespace rdmawire::tracking
