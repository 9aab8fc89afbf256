// Tests the fields that are read from packets. The frames are literals, or frames_for_test.hpp builds them.

#include "dissectors/tracking/transport_packet.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/captures_for_test.hpp"
#include "dissectors/tracking/frames_for_test.hpp"

namespace rdmawire::tracking {
namespace {

using namespace testing;
using ByteVector = std::vector<std::uint8_t>;

/// Reads a packet of which `bytes` are captured. On the wire, it had `extra` more bytes.
std::optional<TransportPacket> read(const ByteVector& bytes, LinkType link = LinkType::raw_ip,
                                    std::uint32_t extra = 0) {
  Packet packet;
  packet.number = 7;
  packet.time_ns = 99;
  packet.link = link;
  Dissector().dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()) + extra);
  TransportPacket t;
  if (!read_transport_packet(packet, t)) return std::nullopt;
  return t;
}

ByteVector written(const RdmaFrame& frame) {
  ByteVector bytes(RdmaFrame::most);
  bytes.resize(frame.write(bytes.data()));
  return bytes;
}
TransportPacket taken(const RdmaFrame& frame) { return read(written(frame)).value(); }

// A NAK with a valid ICRC from Linux 6.1.
TEST(TransportPacket, LiteralAcknowledgement) {
  const auto t = read(rdmawire::testing::from_hex(
                          "525400000003525400000002 0800 45000030739140004011b3270a0000020a000003 c12112b7001c0000"
                          "1100ffff0000001100185779 60000000 65f72c6f"),
                      LinkType::ethernet);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->frame, 7U);
  EXPECT_EQ(t->time, 99);
  EXPECT_EQ(t->from, PortAddress::of_ipv4(0x0a000002));
  EXPECT_EQ(t->to, PortAddress::of_ipv4(0x0a000003));
  EXPECT_EQ(t->wire, Wire::roce_v2);
  EXPECT_TRUE(t->is_response());
  EXPECT_EQ(t->dest_qp, 0x11U);
  EXPECT_EQ(t->psn.value(), 0x185779U);
  EXPECT_TRUE(t->has_aeth);
  EXPECT_EQ(t->syndrome, 0x60);
  EXPECT_EQ(t->source_port, 0xc121);
  EXPECT_EQ(t->identification, 0x7391);
  EXPECT_EQ(t->pkey, 0xffff);
  EXPECT_EQ(t->payload, 0U);
  EXPECT_EQ(t->wire_bytes, 62U);
  EXPECT_NE(t->icrc, 0U);
  EXPECT_FALSE(t->crc_bad || t->truncated || t->ack_request || t->solicited);
}

TEST(TransportPacket, DamagedPacket) {
  const auto t = read(rdmawire::testing::from_hex(
                          "525400000003525400000002 0800 45000030739140004011b3270a0000020a000003 c12112b7001c0000"
                          "1100ffff0000001100185778 60000000 65f72c6f"),
                      LinkType::ethernet);
  ASSERT_TRUE(t);
  EXPECT_TRUE(t->crc_bad);
}

TEST(TransportPacket, EachHeader) {
  const TransportPacket write = taken({.opcode = rc::write_immediate,
                                       .qp = 0xabcdef,
                                       .psn = 0xfffffe,
                                       .payload = 9,
                                       .ack_request = true,
                                       .solicited = true,
                                       .address = 0x1122334455667788,
                                       .key = 0x99aabbcc,
                                       .length = 9,
                                       .immediate = 0xdeadbeef,
                                       .traffic_class = 0x6b});
  EXPECT_EQ(write.op, &opcode(rc::write_immediate));
  EXPECT_EQ(write.dest_qp, 0xabcdefU);
  EXPECT_EQ(write.psn.value(), 0xfffffeU);
  EXPECT_TRUE(write.has_reth && write.ack_request && write.solicited);
  EXPECT_EQ(write.address, 0x1122334455667788U);
  EXPECT_EQ(write.key, 0x99aabbccU);
  EXPECT_EQ(write.length, 9U);
  EXPECT_EQ(write.immediate, 0xdeadbeefU);
  EXPECT_EQ(write.payload, 9U) << "without three bytes of padding";
  EXPECT_EQ(write.traffic_class, 0x6b);
  EXPECT_FALSE(write.has_aeth || write.has_atomic || write.is_response());

  const TransportPacket swap =
      taken({.opcode = rc::compare_swap, .address = 0x40, .key = 5, .swap = 0x0102030405060708, .compare = 0x1112});
  EXPECT_TRUE(swap.has_atomic);
  EXPECT_EQ(swap.address, 0x40U);
  EXPECT_EQ(swap.key, 5U);
  EXPECT_EQ(swap.operand, 0x0102030405060708U);
  EXPECT_EQ(swap.compare, 0x1112U);
  EXPECT_EQ(swap.payload, 0U);

  const TransportPacket answer =
      taken({.opcode = rc::atomic_acknowledge, .syndrome = 0x05, .msn = 0xfedcba, .swap = 0x8877});
  EXPECT_TRUE(answer.has_aeth && answer.is_response());
  EXPECT_EQ(answer.msn.value(), 0xfedcbaU);
  EXPECT_EQ(answer.syndrome, 5);
  EXPECT_EQ(answer.operand, 0x8877U);

  const TransportPacket invalidate = taken({.opcode = rc::send_invalidate, .payload = 4, .immediate = 0x1234});
  EXPECT_EQ(invalidate.invalidated_key, 0x1234U);
  EXPECT_EQ(invalidate.immediate, 0U);
  EXPECT_EQ(invalidate.payload, 4U);

  const TransportPacket datagram =
      taken({.opcode = ud + rc::send, .payload = 1, .source_qp = 0x77, .qkey = 0x80010000});
  EXPECT_EQ(datagram.op->transport, Transport::ud);
  EXPECT_EQ(datagram.source_qp, 0x77U);
  EXPECT_EQ(datagram.qkey, 0x80010000U);
  EXPECT_EQ(datagram.payload, 1U);

  const TransportPacket shared = taken({.opcode = xrc + rc::send, .payload = 8});
  EXPECT_EQ(shared.op->transport, Transport::xrc);
  EXPECT_EQ(shared.payload, 8U);

  const TransportPacket notification = taken({.opcode = congestion_notification});
  EXPECT_EQ(notification.op->operation, Operation::congestion_notification);
  EXPECT_EQ(notification.payload, 0U);
}

// The payload length follows from the lower layers, even if the capture truncated the packet.
TEST(TransportPacket, TruncatedCapture) {
  const ByteVector whole = written({.opcode = rc::write, .payload = 1000, .length = 1000});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto t = read(ByteVector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), LinkType::raw_ip,
                        static_cast<std::uint32_t>(whole.size() - size));
    if (size < RdmaFrame::headers) {
      EXPECT_FALSE(t) << size;
      continue;
    }
    ASSERT_TRUE(t) << size;
    EXPECT_EQ(t->payload, 1000U) << size;
    EXPECT_EQ(t->has_reth, size >= RdmaFrame::headers + 16) << size;
    EXPECT_FALSE(t->truncated || t->crc_bad) << size;
    EXPECT_EQ(t->icrc, 0U) << size;
    EXPECT_EQ(t->wire_bytes, whole.size());
  }
}

// The packet is captured completely, but shorter than the length fields of its headers indicate.
TEST(TransportPacket, Truncated) {
  ByteVector bytes = written({.opcode = rc::write, .payload = 1000, .length = 1000});
  bytes.resize(500);
  const auto t = read(bytes);
  ASSERT_TRUE(t);
  EXPECT_TRUE(t->truncated);
  EXPECT_EQ(t->payload, 1000U);
}

TEST(TransportPacket, InvalidLengthFields) {
  ByteVector bytes = written({.opcode = rc::write, .payload = 100, .length = 100});
  store_be(bytes.data() + 2, 2, 30);  // a length below that of the headers
  const auto shorter = read(bytes);
  EXPECT_TRUE(!shorter || shorter->payload == 0);
  Frame frame = Value<Ipv4>().set<"total_length">(0) / Value<Udp>() / Value<Bth>().set<"opcode">(4);
  const auto empty = read(frame.encode());
  EXPECT_TRUE(!empty || empty->payload == 0);
}

ByteVector gid(std::uint8_t last) {
  ByteVector bytes(16);
  bytes[0] = 0xfe;
  bytes[1] = 0x80;
  bytes[15] = last;
  return bytes;
}

Frame over(Frame lower, std::uint32_t payload) {
  lower /= Value<Bth>().set<"opcode">(rc::send).set<"dest_qp">(0x21).set<"psn">(5);
  lower.payload.resize(payload);
  return lower;
}

TEST(TransportPacket, Ipv6) {
  const auto t = read(over(Value<Ipv6>().set<"src">(gid(1)).set<"dst">(gid(2)).set<"traffic_class">(0x12) /
                               Value<Udp>().set<"src_port">(0xd000),
                           33)
                          .encode());
  ASSERT_TRUE(t);
  EXPECT_EQ(t->from, (PortAddress{0xfe80000000000000, 1}));
  EXPECT_EQ(t->to, (PortAddress{0xfe80000000000000, 2}));
  EXPECT_EQ(t->wire, Wire::roce_v2);
  EXPECT_EQ(t->traffic_class, 0x12);
  EXPECT_EQ(t->source_port, 0xd000);
  EXPECT_EQ(t->identification, 0);
  EXPECT_EQ(t->payload, 33U);
}

TEST(TransportPacket, RoceV1) {
  const auto t = read(
      over(Value<Ethernet>() / Value<Grh>().set<"sgid">(gid(1)).set<"dgid">(gid(2)).set<"traffic_class">(0x34), 256)
          .encode(),
      LinkType::ethernet);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->wire, Wire::roce_v1);
  EXPECT_EQ(t->from, (PortAddress{0xfe80000000000000, 1}));
  EXPECT_EQ(t->traffic_class, 0x34);
  EXPECT_EQ(t->source_port, 0);
  EXPECT_EQ(t->payload, 256U);
}

TEST(TransportPacket, NativeInfiniBand) {
  Frame local;
  local /= Value<Lrh>().set<"slid">(3).set<"dlid">(9);
  const auto t = read(over(local, 77).encode(), LinkType::infiniband);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->wire, Wire::infiniband);
  EXPECT_EQ(t->from, PortAddress::of_lid(3));
  EXPECT_EQ(t->to, PortAddress::of_lid(9));
  EXPECT_EQ(t->payload, 77U);
  EXPECT_EQ(t->source_port, 0);

  Frame global;
  global /= Value<Lrh>().set<"slid">(3).set<"dlid">(9);
  global /= Value<Grh>().set<"sgid">(gid(1)).set<"dgid">(gid(2)).set<"traffic_class">(0x56);
  const auto g = read(over(global, 77).encode(), LinkType::infiniband);
  ASSERT_TRUE(g);
  EXPECT_EQ(g->from, PortAddress::of_lid(3)) << "every packet has LIDs, only some have a GRH";
  EXPECT_EQ(g->traffic_class, 0x56);
  EXPECT_EQ(g->payload, 77U);
}

TEST(TransportPacket, OtherPacketsAreRejected) {
  EXPECT_FALSE(read(ByteVector{}));
  EXPECT_FALSE(read((Value<Ipv4>() / Value<Tcp>()).encode()));
  Frame other = Value<Ipv4>() / Value<Udp>().set<"dst_port">(53);
  other.payload.resize(40);
  EXPECT_FALSE(read(other.encode()));
}

// Every packet with a BTH in the samples must be accepted. Its headers and its payload must fit into the wire length.
TEST(TransportPacket, RealCaptures) {
  for (const char* name : {"rc-send.pcap.gz", "rc-read.pcap.gz", "rc-atomic.pcap", "rc-write-ipv6.pcap",
                           "ud-pingpong.pcap", "linlinw5-rc-write.pcap", "nvme-over-rdma.pcap.zst", "ucmatose.pcap"}) {
    std::uint64_t transport = 0, bths = 0;
    dissect_capture(sample(name), [&](const Packet& packet) {
      TransportPacket read;
      const TransportPacket* const t = read_transport_packet(packet, read) ? &read : nullptr;
      bths += packet.stack.find(info<Bth>) != nullptr;
      if (!t) return;
      ++transport;
      EXPECT_LT(t->payload, t->wire_bytes) << name << " frame " << packet.number;
      EXPECT_FALSE(t->truncated || t->crc_bad) << name << " frame " << packet.number;
      if (!packet.stack.cut && packet.stack.payload.length != 0 && packet.upper.protocol == Upper::unknown &&
          packet.stack.layers().back().header != &info<Bth>) {
        EXPECT_GE(t->payload, packet.stack.payload.length) << name << " frame " << packet.number;
      }
    });
    EXPECT_GT(transport, 0U) << name;
    EXPECT_EQ(transport, bths) << name;
  }
}

}  // namespace
}  // namespace rdmawire::tracking
