#include "dissectors/output/tree.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "dissectors/output/frames_for_test.hpp"
#include "dissectors/output/line.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::output {
namespace {

using testing::nak_frame;
using testing::OnePacket;

TEST(Tree, FieldWithConflictingSourcesIsUnverified) {
  std::string out;
  append_tree(out, OnePacket("525400000003525400000002 86dd 600000000028 11 40 20010db8000000000000000000000001 "
                             "20010db8000000000000000000000002 c00112b700280000 de00ffff0000001120000000"
                             "00000000 00070000 11112222 00050001 00000000")
                       .packet);
  const auto line_with = [&](std::string_view name) {
    const std::size_t at = out.find(name);
    return at == std::string::npos ? std::string() : out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_NE(line_with(" rtx ").find("(unverified)"), std::string::npos) << out;
  EXPECT_EQ(line_with(" probe_id ").find("(unverified)"), std::string::npos) << out;
  EXPECT_NE(line_with(" probe_id ").find("7"), std::string::npos) << out;
}

TEST(Tree, FrameWithEveryField) {
  std::string out;
  append_tree(out, OnePacket(nak_frame).packet);
  EXPECT_EQ(out, R"(Frame 7  2026-11-21 07:53:38.500000000 UTC  62 bytes  ethernet  roce_v2
    0  eth  Ethernet II  14 bytes
         dst                    52:54:00:00:00:03     destination address
         src                    52:54:00:00:00:02     source address
         type                   0x0800                IPv4
   14  ip  Internet Protocol, version 4  20 bytes
         version                4
         header_length          5                     length of the header in units of 4 bytes
           bytes                20                    length of the header in bytes
         tos                    0x00                  type of service
           dscp                 0                     differentiated services code point
           ecn                  0                     Not-ECT: the sender does not support ECN
         total_length           48                    length of the datagram, including this header, in bytes
         identification         0x7391                identifies the fragments of a datagram
         df                     1                     do not fragment
         mf                     0                     more fragments follow
         fragment_offset        0                     offset of the fragment in units of 8 bytes
         ttl                    64                    hops left
         protocol               17                    UDP
         checksum               0xb327                checksum of this header
         src                    10.0.0.2              source address
         dst                    10.0.0.3              destination address
   34  udp  User Datagram Protocol  8 bytes
         src_port               49441                 source port (RoCEv2 senders vary it so that flows take different paths)
         dst_port               4791                  destination port (4791 is RoCEv2)
         length                 28                    length of header and data in bytes
         checksum               0x0000                checksum (0: none, as in RoCEv2)
   42  bth  Base Transport Header  12 bytes
         opcode                 17                    RC Acknowledge
         se                     0                     solicited event: generated at the receiver when the message completes
         migreq                 0                     path migration state (1: migrated)
         pad                    0                     bytes of padding after the payload
         tver                   0                     transport header version: 0
         pkey                   0xffff                partition key
           full                 1                     full member of the partition
         fecn                   0                     forward congestion notification: a switch detected congestion
         becn                   0                     backward congestion notification: the receiver saw FECN
         dest_qp                0x000011              destination queue pair
         ack_request            0                     the sender requests an acknowledgement
         psn                    1595257               packet sequence number, modulo 2^24
   54  aeth  ACK ETH  4 bytes
         syndrome               0x60                  ACK, RNR NAK or NAK, with its code
           kind                 3                     NAK: the request was rejected or packets are missing
           nak_code             0                     PSN sequence error: a packet is missing (the NAK contains the expected PSN, from which the requester retransmits)
         msn                    0                     message sequence number: number of messages that the responder has completed
   58  icrc                     0x65f72c6f            good
)");
}

TEST(Tree, ReservedBitsAndBadCrcsAreShown) {
  std::string hex(nak_frame);
  hex.replace(hex.find("1100ffff00000011"), 16, "1100ffff05000011");
  std::string out;
  append_tree(out, OnePacket(hex).packet);
  EXPECT_NE(out.find("reserved               0x05                  reserved"), std::string::npos) << out;

  hex = nak_frame;
  hex.replace(hex.find("185779"), 6, "185778");
  out.clear();
  append_tree(out, OnePacket(hex).packet);
  EXPECT_NE(out.find("icrc                     0x65f72c6f            bad: computed value is 0x"), std::string::npos)
      << out;
}

TEST(Tree, ChangedSourcePortIsFound) {
  std::string hex(nak_frame);
  hex.replace(hex.find("c12112b7"), 4, "c122");
  std::string out;
  append_tree(out, OnePacket(hex).packet);
  EXPECT_NE(out.find("the ICRC is valid with UDP source port 49441"), std::string::npos) << out;
}

TEST(Tree, OtherCausesOfABadIcrcAreShown) {
  const auto tree_with = [](std::size_t byte, std::string_view digits) {
    std::string hex(nak_frame);
    std::erase(hex, ' ');
    hex.replace(byte * 2, digits.size(), digits);
    std::string out;
    append_tree(out, OnePacket(hex).packet);
    return out;
  };
  EXPECT_NE(tree_with(18, "ffff").find("the ICRC is valid with IP identification 0x"), std::string::npos);
  EXPECT_NE(tree_with(29, "77").find("the ICRC is valid with source address 10.0.0.2: "), std::string::npos);
  EXPECT_NE(tree_with(58, "00000000").find("the ICRC is zero: it was not computed"), std::string::npos)
      << tree_with(58, "00000000");
  EXPECT_EQ(tree_with(0, "").find("the ICRC"), std::string::npos);
}

TEST(Tree, OptionsAreIndentedBelowTheirHeader) {
  // A SYN with MSS 1460 and a window scale, then a SYN whose option has an invalid length.
  std::string out;
  append_tree(out, OnePacket("525400000003525400000002 0800 450000300000400040060000 0a0000020a000003"
                             "80021c06 00000001 00000000 7002faf0 00000000 020405b4 01 0303 06")
                       .packet);
  EXPECT_NE(out.find("\n     54  tcp_mss  TCP maximum segment size  4 bytes\n"), std::string::npos) << out;
  EXPECT_NE(out.find("           mss                    1460"), std::string::npos) << out;
  EXPECT_NE(out.find("\n     59  tcp_wscale"), std::string::npos) << out;

  out.clear();
  append_tree(out, OnePacket("525400000003525400000002 0800 450000300000400040060000 0a0000020a000003"
                             "80021c06 00000001 00000000 7002faf0 00000000 02ff05b4 01030306")
                       .packet);
  EXPECT_NE(out.find("! malformed: tcp_option at offset 54"), std::string::npos) << out;
}

TEST(Tree, CommentsCannotControlTheTerminal) {
  const std::string_view comments[] = {"seen \033[2Jtwice\n"};
  std::string out;
  append_tree(out, OnePacket(nak_frame).packet, {.file = "a.pcap", .comments = comments});
  EXPECT_EQ(out.find('\033'), std::string::npos);
  EXPECT_NE(out.find("comment  seen \\x1b[2Jtwice\\n"), std::string::npos) << out;
  EXPECT_NE(out.find("Frame 7 of a.pcap"), std::string::npos);
}

TEST(Hexdump, LayersAndFieldsAreMarked) {
  std::string out;
  append_hexdump(out, OnePacket(nak_frame).packet);
  EXPECT_EQ(out,
            "0000 │52 54 00 00 00 03·52 54  00 00 00 02·08 00│45·00  RT....RT......E.  eth ip\n"
            "0010 ·00 30·73 91·40 00·40·11 ·b3 27·0a 00 00 02·0a 00  .0s.@.@..'......\n"
            "0020  00 03│c1 21·12 b7·00 1c ·00 00│11·00·ff ff·00·00  ...!............  udp bth\n"
            "0030  00 11·00·18 57 79│60·00  00 00│65 f7 2c 6f        ....Wy`...e.,o    aeth icrc\n");
}

/// A packet that starts with an FPDU. Frames in Python can be such packets.
struct OneFpdu {
  std::vector<std::uint8_t> bytes;
  tracking::Packet packet;

  explicit OneFpdu(std::optional<std::uint32_t> crc = {}) {
    Frame frame;
    frame /= HeaderValue(info<Fpdu>);
    frame /= HeaderValue(info<Ddp>);
    frame.layers.back().set(*info<Ddp>.find("tagged"), 1);
    frame /= HeaderValue(info<Rdmap>);
    frame /= HeaderValue(info<DdpTagged>);
    frame.payload = {'d', 'a', 't', 'a', '!'};
    frame.mpa_crc = crc;
    bytes = frame.encode();
    decode_fpdu(packet.stack, bytes);
    packet.link = LinkType{0xfff0};
  }
  OneFpdu(const OneFpdu&) = delete;
  OneFpdu& operator=(const OneFpdu&) = delete;
};

TEST(Fpdu, CrcIsShownAndLinkIsNamed) {
  const OneFpdu sound, wrong(1);
  std::string tree, bad, hexdump;
  append_tree(tree, sound.packet);
  append_tree(bad, wrong.packet);
  append_hexdump(hexdump, wrong.packet);
  EXPECT_NE(tree.find("28 bytes  fpdu  iwarp\n"), std::string::npos) << tree;
  EXPECT_NE(tree.find("   24  crc  "), std::string::npos) << tree;
  EXPECT_NE(tree.find("  good\n"), std::string::npos) << tree;
  EXPECT_NE(bad.find("0x00000001            bad: computed value is 0x"), std::string::npos) << bad;
  EXPECT_NE(hexdump.find("│00 00 00 01 "), std::string::npos) << hexdump;
  EXPECT_NE(hexdump.find("pad crc"), std::string::npos) << hexdump;
  EXPECT_NE(one_line(sound.packet).find("CRC good"), std::string::npos) << one_line(sound.packet);
  EXPECT_NE(one_line(wrong.packet).find("CRC bad"), std::string::npos) << one_line(wrong.packet);
}

}  // namespace
}  // namespace rdmawire::output
