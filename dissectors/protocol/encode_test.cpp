#include "dissectors/protocol/encode.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/field_overflow.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"

namespace rdmawire {
namespace {

using ::testing::ElementsAre;

HeaderValue ipv4() { return Value<Ipv4>().set<"src">(0x0a000002).set<"dst">(0x0a000003); }
HeaderValue bth(std::uint8_t value) { return Value<Bth>().set<"opcode">(value).set<"dest_qp">(0x11).set<"psn">(7); }

std::vector<std::uint8_t> counting(std::size_t byte_count) {
  std::vector<std::uint8_t> bytes(byte_count);
  for (std::size_t i = 0; i < byte_count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  return bytes;
}

// Returns the one's complement sum over the pseudo header and the datagram of the `n`-th layer, a UDP header. It is 0
// if the checksum is valid.
std::uint16_t udp_rest(const HeaderStack& stack, std::size_t n) {
  const Layer& ip = stack.layers()[n - 1];
  const Layer& udp = stack.layers()[n];
  const auto length = static_cast<std::uint32_t>(load_be<2>(stack.bytes.data() + udp.offset + 4));
  std::uint32_t sum = length + ip_protocol::udp;
  for (std::uint32_t at = ip.offset + 12; at < ip.offset + 20; at += 2)
    sum += static_cast<std::uint32_t>(load_be<2>(stack.bytes.data() + at));
  return internet_checksum(stack.bytes.subspan(udp.offset, length), sum);
}

// The ICRC of the mirrored packet is part of the tunnel's payload.
TEST(Encode, TunnelChecksumCoversTheInnerIcrc) {
  Frame frame = Value<Ethernet>() / ipv4() / Value<Udp>().set<"src_port">(1) / Value<Vxlan>() / Value<Ethernet>() /
                ipv4() / Value<Udp>() / bth(0x04);
  frame.payload = {1, 2, 3, 4};
  const auto bytes = frame.encode();
  const HeaderStack stack = decode(bytes);
  ASSERT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
  EXPECT_EQ(udp_rest(stack, 2), 0U);
}

// Even with more options than IPv4 allows, encoding keeps the values that the caller set, and stays inside the buffer.
TEST(Encode, OptionsExceedTheHeaderLength) {
  for (const std::size_t byte_count : {41U, 200U, 4000U}) {
    HeaderValue ip = ipv4();
    ip.set_tail(counting(byte_count));
    ip.set(*info<Ipv4>.find("header_length"), 15);
    Frame frame = Value<Ethernet>() / ip / Value<Udp>() / bth(0x04);
    frame.payload = {1, 2, 3, 4};
    const auto bytes = frame.encode();
    ASSERT_EQ(bytes.size(), 14 + 20 + byte_count + 8 + 12 + 4 + 4);
    EXPECT_EQ(Bytes(bytes).subspan(34, byte_count).back(), counting(byte_count).back());
    ip.set_tail(std::vector<std::uint8_t>(byte_count, 1));
    EXPECT_EQ(Ipv4::parts(ip.bytes()).count, Parts::capacity);
  }
}

// The header length counts words. Unless it is set, encoding pads the last word of the options with zeros, which mean
// "end of options".
TEST(Encode, OptionsArePaddedToWords) {
  HeaderValue ip = ipv4();
  ip.set_tail(std::vector<std::uint8_t>{0x94, 4, 0, 0, 1});
  HeaderValue tcp = Value<Tcp>();
  tcp.set_tail(std::vector<std::uint8_t>{3, 3, 7});
  Frame frame = Value<Ethernet>() / ip / tcp;
  frame.payload = {9};
  const auto bytes = frame.encode();
  const HeaderStack stack = decode(bytes);
  ASSERT_TRUE(stack.findings().empty());
  EXPECT_EQ(stack.find(info<Ipv4>)->length, 28U);
  EXPECT_EQ(stack.find(info<Tcp>)->length, 24U);
  EXPECT_EQ(stack.payload.length, 1U);
  frame.layers[1].set(*info<Ipv4>.find("header_length"), 6);
  frame.layers[2].set(*info<Tcp>.find("data_offset"), 5);
  EXPECT_EQ(frame.encode().size(), bytes.size() - 3 - 1);
  HeaderValue extension = Value<Ipv6Extension>();
  extension.set_tail(std::vector<std::uint8_t>{1});
  Frame six = Value<Ethernet>() / Value<Ipv6>() / extension / Value<Udp>() / bth(0x04);
  EXPECT_TRUE(decode(six.encode()).get<Bth>());
}

TEST(Encode, ExplicitIcrcIsKeptWithManyLayers) {
  Frame frame;
  frame /= Value<Ethernet>();
  for (int i = 0; i < 30; ++i) frame /= Value<Vlan>();
  frame /= ipv4();
  frame /= Value<Udp>();
  frame /= bth(0x04);
  frame.icrc = 0xdeadbeef;
  const auto bytes = frame.encode();
  EXPECT_EQ(load_be<4>(bytes.data() + bytes.size() - 4), 0xdeadbeefU);
}

TEST(Encode, HeadersContainTheNumberOfTheNextHeader) {
  Frame raw;
  raw /= Value<Lrh>();
  raw /= Value<Rwh>();
  raw /= ipv4();
  raw /= Value<Udp>().set<"dst_port">(9);
  raw.payload = {1, 2, 3, 4};
  EXPECT_TRUE(decode(raw.encode(), LinkType::infiniband).get<Udp>());

  Frame cooked;
  cooked /= Value<LinuxSll>();
  cooked /= ipv4();
  cooked /= Value<Udp>();
  cooked /= bth(0x04);
  EXPECT_TRUE(decode(cooked.encode(), LinkType::linux_sll).get<Bth>());

  Frame cooked2;
  cooked2 /= Value<LinuxSll2>();
  cooked2 /= Value<Grh>();
  cooked2 /= bth(0x04);
  EXPECT_TRUE(decode(cooked2.encode(), LinkType::linux_sll2).get<Bth>());

  Frame ah = Value<Ethernet>() / Value<Ipv6>() / Value<Ipv6Authentication>() / Value<Udp>() / bth(0x04);
  EXPECT_TRUE(decode(ah.encode()).get<Bth>());

  HeaderValue sequence = Value<Gre>();
  sequence.set_tail(std::vector<std::uint8_t>(4, 0));
  Frame mirrored =
      Value<Ethernet>() / ipv4() / sequence / Value<Erspan2>() / Value<Ethernet>() / ipv4() / Value<Udp>() / bth(0x04);
  const auto two = mirrored.encode();
  ASSERT_TRUE(decode(two).get<Erspan2>());
  EXPECT_EQ(decode(two).get<Erspan2>()->get<"version">(), 1U);
  HeaderValue platform = Value<Erspan3>();
  platform.set_tail(std::vector<std::uint8_t>(8, 0));
  mirrored =
      Value<Ethernet>() / ipv4() / Value<Gre>() / platform / Value<Ethernet>() / ipv4() / Value<Udp>() / bth(0x04);
  const auto three = mirrored.encode();
  ASSERT_TRUE(decode(three).get<Erspan3>());
  EXPECT_EQ(decode(three).get<Erspan3>()->get<"version">(), 2U);
  EXPECT_TRUE(decode(three).get<Bth>());
}

// If a length exceeds its field, its low bits are encoded.
TEST(Encode, OversizedLengthsKeepTheLowBits) {
  Frame frame = Value<Ethernet>() / ipv4() / Value<Udp>() / bth(0x04);
  frame.payload.assign(70000, 0);
  const auto bytes = frame.encode();
  ASSERT_EQ(bytes.size(), 14U + 20 + 8 + 12 + 70000 + 4);
  EXPECT_EQ(load_be<2>(bytes.data() + 16), (bytes.size() - 14) & 0xffff);
  EXPECT_EQ(load_be<2>(bytes.data() + 38), (bytes.size() - 34) & 0xffff);
}

TEST(Encode, UnusualFramesAreDefined) {
  EXPECT_TRUE(Frame().encode().empty());
  Frame payload;
  payload.payload = {1, 2, 3};
  EXPECT_THAT(payload.encode(), ElementsAre(1, 2, 3));
  // If a BTH has no lower layers, it is encoded as in RoCEv1 after the network header.
  Frame alone;
  alone /= bth(0x04);
  alone.payload = {1};
  EXPECT_EQ(alone.encode().size(), 12U + 1 + 3 + 4);
  // The second BTH belongs to the payload of the first one.
  Frame two;
  two /= bth(0x04);
  two /= bth(0x04);
  const auto bytes = two.encode();
  EXPECT_EQ(bytes.size(), 12U + 12 + 4);
  EXPECT_TRUE(segment(Frame(), 1024).empty());
}

struct Sent {
  std::string name;
  std::uint32_t psn, bytes;
  bool solicited, acknowledge;
  friend bool operator==(const Sent&, const Sent&) = default;
  friend void PrintTo(const Sent& s, std::ostream* out) {
    *out << s.name << " psn " << s.psn << " bytes " << s.bytes << (s.solicited ? " SE" : "")
         << (s.acknowledge ? " A" : "");
  }
};
// Encodes the packets, decodes them, and reassembles the message.
std::vector<Sent> sent(const std::vector<Frame>& packets, std::vector<std::uint8_t>* message = nullptr) {
  std::vector<Sent> all;
  for (const Frame& packet : packets) {
    const auto bytes = packet.encode();
    const HeaderStack stack = decode(bytes);
    EXPECT_TRUE(stack.findings().empty());
    EXPECT_EQ(check_icrc(stack).status, CrcCheck::Status::good);
    const auto header = *stack.get<Bth>();
    const Opcode& op = opcode(header.get<"opcode">());
    EXPECT_EQ(stack.layers().size(), 4U + op.header_count) << op.name;
    all.push_back({std::string(op.name), header.get<"psn">(), stack.payload.length, header.get<"se">() != 0,
                   header.get<"ack_request">() != 0});
    const Bytes payload = stack.bytes_of(stack.payload);
    if (message) message->insert(message->end(), payload.begin(), payload.end());
  }
  return all;
}

TEST(Segment, WriteWithImmediate) {
  Frame whole = Value<Ethernet>() / ipv4() / Value<Udp>();
  whole /= Value<Bth>().set<"opcode">(0x0b).set<"psn">(0xfffffe).set<"se">(1).set<"ack_request">(1);
  whole /= Value<Reth>().set<"va">(0x1000).set<"rkey">(5);
  whole /= Value<ImmDt>().set<"data">(9);
  whole.payload = counting(4 * 256 + 3);
  const auto packets = segment(whole, 256);
  std::vector<std::uint8_t> message;
  // The last packet completes the operation, so only it has SE and AckReq.
  EXPECT_THAT(sent(packets, &message), ElementsAre(Sent{"RC RDMA WRITE First", 0xfffffe, 256, false, false},
                                                   Sent{"RC RDMA WRITE Middle", 0xffffff, 256, false, false},
                                                   Sent{"RC RDMA WRITE Middle", 0, 256, false, false},
                                                   Sent{"RC RDMA WRITE Middle", 1, 256, false, false},
                                                   Sent{"RC RDMA WRITE Last with Immediate", 2, 3, true, true}));
  EXPECT_EQ(message, whole.payload);
  const auto first = packets.front().encode();
  EXPECT_EQ(decode(first).get<Reth>()->get<"length">(), 4U * 256 + 3);
}

TEST(Segment, EmptyToSinglePacketMessages) {
  Frame whole = Value<Ethernet>() / ipv4() / Value<Udp>() / bth(0x04);
  EXPECT_THAT(sent(segment(whole, 256)), ElementsAre(Sent{"RC SEND Only", 7, 0, false, false}));
  whole.payload = counting(256);
  EXPECT_THAT(sent(segment(whole, 256)), ElementsAre(Sent{"RC SEND Only", 7, 256, false, false}));
  whole.payload = counting(257);
  EXPECT_THAT(sent(segment(whole, 256)),
              ElementsAre(Sent{"RC SEND First", 7, 256, false, false}, Sent{"RC SEND Last", 8, 1, false, false}));
  EXPECT_TRUE(segment(whole, 255).empty());
  EXPECT_TRUE(segment(whole, 8192).empty());
}

TEST(Segment, EveryOperation) {
  auto names = [](std::uint8_t value, std::size_t byte_count) {
    Frame whole = Value<Ethernet>() / ipv4() / Value<Udp>() / bth(value);
    for (const HeaderInfo* header : opcode(value).extension_headers()) whole /= HeaderValue(*header);
    whole.payload = counting(byte_count);
    std::vector<std::string> all;
    for (const Sent& s : sent(segment(whole, 256))) all.push_back(s.name);
    return all;
  };
  EXPECT_THAT(names(0x17, 300), ElementsAre("RC SEND First", "RC SEND Last with Invalidate"));
  EXPECT_THAT(names(0x10, 600),
              ElementsAre("RC RDMA READ Response First", "RC RDMA READ Response Middle", "RC RDMA READ Response Last"));
  EXPECT_THAT(names(0x25, 300), ElementsAre("UC SEND First", "UC SEND Last with Immediate"));
  EXPECT_THAT(names(0xaa, 300), ElementsAre("XRC RDMA WRITE First", "XRC RDMA WRITE Last"));
  EXPECT_THAT(names(0x64, 256), ElementsAre("UD SEND Only"));
  EXPECT_THAT(names(0x64, 257), ElementsAre());  // a datagram is one packet
  EXPECT_THAT(names(0x11, 10), ElementsAre());   // an Acknowledge has no payload
  EXPECT_THAT(names(0x1d, 300), ElementsAre());  // ATOMIC WRITE is one packet of 8 bytes
}

// Headers of upper layers are the first bytes of the message.
TEST(Segment, UpperLayerHeadersStartTheMessage) {
  Frame whole = Value<Ethernet>() / ipv4() / Value<Udp>() / bth(0x04) / Value<Ethernet>().set<"type">(0x1234);
  whole.payload = counting(300);
  std::vector<std::uint8_t> message;
  EXPECT_THAT(sent(segment(whole, 256), &message),
              ElementsAre(Sent{"RC SEND First", 7, 256, false, false}, Sent{"RC SEND Last", 8, 58, false, false}));
  ASSERT_EQ(message.size(), 314U);
  EXPECT_EQ(load_be<2>(message.data() + 12), 0x1234U);
  EXPECT_TRUE(std::equal(whole.payload.begin(), whole.payload.end(), message.begin() + 14));
}

TEST(EncodeStrictly, OverflowingComputedValueIsReported) {
  const auto said = [](const Frame& frame) {
    const auto packet = encode_strictly(frame);
    return packet ? std::string() : to_string(packet.error());
  };
  Frame large = Value<Ethernet>() / ipv4() / Value<Udp>() / bth(4);
  large.payload.resize(65535 - 20 - 8 - 12 - 4 - 3);
  EXPECT_EQ(said(large), "");
  EXPECT_EQ(encode_strictly(large).value(), large.encode());
  large.payload.resize(70000);
  EXPECT_EQ(said(large),
            "ip.total_length is 16 bits wide: 70044, as computed, does not fit; set it explicitly or reduce the frame");
  // Encoding keeps set values, and reports the next overflow.
  large.find(info<Ipv4>)->set(*info<Ipv4>.find("total_length"), 99);
  EXPECT_THAT(said(large), ::testing::StartsWith("udp.length is 16 bits wide: 70024"));
  large.find(info<Udp>)->set(*info<Udp>.find("length"), 99);
  EXPECT_EQ(said(large), "");

  Frame options = Value<Ethernet>() / ipv4();
  options.layers.back().set_tail(std::vector<std::uint8_t>(100));
  EXPECT_THAT(said(options), ::testing::StartsWith("ip.header_length is 4 bits wide: 30"));
  Frame native = Value<Lrh>() / bth(4);
  native.payload.resize(9000);
  EXPECT_THAT(said(native), ::testing::StartsWith("lrh.length is 11 bits wide: "));
  // encode() writes the low bits, also after encode_strictly().
  EXPECT_FALSE(native.encode().empty());
  Frame fpdu = HeaderValue(info<Fpdu>) / HeaderValue(info<Ddp>);
  fpdu.payload.resize(70000);
  EXPECT_THAT(said(fpdu), ::testing::StartsWith("fpdu.ulpdu_length is 16 bits wide: "));
}

}  // namespace
}  // namespace rdmawire
