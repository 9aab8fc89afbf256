#include "dissectors/output/line.hpp"

#include <gtest/gtest.h>

#include "dissectors/output/frames_for_test.hpp"
#include "dissectors/output/summary_format.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::output {
namespace {

using testing::nak_frame;
using testing::OnePacket;
using testing::read_request_frame;

// Returns the part of the line after number, time and addresses.
std::string essence(const tracking::Packet& packet) {
  const std::string line = one_line(packet);
  const std::size_t arrow = line.find("→ ");
  return line.substr(line.find("  ", arrow) + 2);
}

TEST(Line, CompleteLines) {
  EXPECT_EQ(
      one_line(OnePacket(nak_frame).packet),
      "     7    0.000000000  10.0.0.2 → 10.0.0.3  RC Acknowledge               qp 0x11     psn 1595257           "
      "NAK PSN sequence error  msn 0  ICRC good\n");
  EXPECT_EQ(
      one_line(OnePacket(read_request_frame).packet),
      "     7    0.000000000  10.0.0.2 → 10.0.0.3  RC RDMA READ Request         qp 0x11     psn 10321873          "
      "va 0x55b324a0a470  rkey 0x50e  len 4000  AckReq  ICRC good\n");
}

TEST(Line, TimeStyles) {
  OnePacket one(nak_frame);
  EXPECT_TRUE(
      one_line(one.packet, {.time = TimeStyle::absolute}).starts_with("     7  2026-11-21 07:53:38.500000000  "));
  EXPECT_TRUE(one_line(one.packet, {.time = TimeStyle::epoch}).starts_with("     7  1795247618.500000000  "));

  OnePacket next(read_request_frame);
  next.packet.time_ns = one.packet.time_ns + 250;
  LinePrinter relative, delta({.time = TimeStyle::delta});
  relative.set_origin(one.packet.time_ns - 1'000'000'000);
  std::string a, b;
  for (const tracking::Packet* packet : {&one.packet, &next.packet, &next.packet}) {
    relative.append(a, *packet);
    delta.append(b, *packet);
  }
  EXPECT_NE(a.find("   1.000000000  "), std::string::npos) << a;
  EXPECT_NE(a.find("   1.000000250  "), std::string::npos) << a;
  EXPECT_NE(b.find("   0.000000250  "), std::string::npos) << b;
  EXPECT_TRUE(b.ends_with(b.substr(b.rfind("     7    0.000000000"))));
}

TEST(Line, EveryAcknowledgementShowsItsMeaning) {
  struct {
    const char* aeth;
    const char* text;
  } rows[] = {{"1f000005", "ACK  msn 5  ICRC"},
              {"0a000005", "ACK  msn 5  credits 32  ICRC"},
              {"2e000005", "RNR NAK wait 1.28 ms  msn 5  ICRC"},
              {"62000005", "NAK remote access error  msn 5  ICRC"},
              {"6f000005", "NAK NAK code 15  msn 5  ICRC"}};
  for (const auto& row : rows) {
    std::string frame(nak_frame);
    frame.replace(frame.find("60000000"), 8, row.aeth);
    EXPECT_NE(essence(OnePacket(frame).packet).find(row.text), std::string::npos) << essence(OnePacket(frame).packet);
  }
}

TEST(Line, BadCrcAndTruncatedPacketAreShown) {
  std::string bad(nak_frame);
  bad.replace(bad.find("65f72c6f"), 8, "65f72c6e");
  EXPECT_TRUE(essence(OnePacket(bad).packet).ends_with("  ICRC bad\n"));

  const std::string cut(nak_frame.substr(0, nak_frame.size() - 4 - 9 - 8));
  const std::string line = essence(OnePacket(cut, LinkType::ethernet, 12).packet);
  EXPECT_NE(line.find("! truncated: "), std::string::npos) << line;
}

TEST(Line, CongestionMarksAreShown) {
  std::string frame(read_request_frame);
  frame.replace(frame.find("4500003c"), 8, "4503003c");
  frame.replace(frame.find("0c00ffff00000011"), 16, "0c80ffffc0000011");
  EXPECT_NE(essence(OnePacket(frame).packet).find("len 4000  CE  FECN  BECN  SE  AckReq"), std::string::npos)
      << essence(OnePacket(frame).packet);
}

TEST(Line, TunnelIsNamedBeforeItsContents) {
  const std::string mirrored =
      "525400000005525400000004 0800 45000062000000004011a3a20a0000040a000005 "
      "000012b5004e0000 0800000000000700 " +
      std::string(nak_frame);
  EXPECT_TRUE(essence(OnePacket(mirrored).packet).starts_with("VXLAN 7 · RC Acknowledge"))
      << essence(OnePacket(mirrored).packet);
}

TEST(Line, ColorsOnlyIfRequested) {
  const OnePacket one(nak_frame);
  EXPECT_EQ(one_line(one.packet).find('\033'), std::string::npos);
  std::string colored = one_line(one.packet, {.colors = true});
  EXPECT_NE(colored.find(std::string(escape_of(TextStyle::bad)) + "RC Acknowledge"), std::string::npos) << colored;
  // Without its escape sequences, the colored line equals the plain one.
  for (std::size_t at; (at = colored.find('\033')) != std::string::npos;)
    colored.erase(at, colored.find('m', at) - at + 1);
  EXPECT_EQ(colored, one_line(one.packet));
}

TEST(Line, ColumnsFitTheLongestAddress) {
  OnePacket shorter(nak_frame);
  std::string hex(nak_frame);
  hex.replace(hex.find("0a0000020a000003"), 16, "c0a8647bc0a86464");
  OnePacket longer(hex);
  LinePrinter printer;
  std::string out;
  printer.append(out, longer.packet);
  printer.append(out, shorter.packet);
  const std::size_t second = out.find('\n') + 1;
  EXPECT_EQ(out.find("RC Ack"), out.find("RC Ack", second) - second);
}

TEST(Line, EndpointsAreClosestToTheTransport) {
  const Endpoints ends = endpoints_of(OnePacket(nak_frame).packet.stack);
  EXPECT_EQ(ends.source, "10.0.0.2");
  EXPECT_EQ(ends.destination, "10.0.0.3");
  const std::string ethernet_only(nak_frame.substr(0, 25));
  EXPECT_EQ(endpoints_of(OnePacket(ethernet_only + "88b5").packet.stack).destination, "52:54:00:00:00:03");
  EXPECT_EQ(endpoints_of(OnePacket("00").packet.stack).source, "");
}

TEST(SummaryFormat, ConditionsGroupsAndWidths) {
  std::string out;
  const auto write = [&](const SummaryFormat& g, std::string_view hex) {
    out.clear();
    Page page(out, false);
    const auto bytes = rdmawire::testing::from_hex(hex);
    SummaryPlan(g).write(page, bytes.data());
    return out;
  };
  EXPECT_EQ(write(summary_format<Aeth>("{msn:4}|[{syndrome.nak_code}]"), "60000007"), "7   |PSN sequence error");
  EXPECT_EQ(write(summary_format<Aeth>("{msn}[ never {syndrome.wait}]"), "60000007"), "7");
  EXPECT_EQ(write(summary_format<Aeth>("{syndrome.kind=3?nak}{msn?some}"), "60000000"), "nak");
  EXPECT_EQ(write(summary_format<Aeth>("[?msn:msn {msn}][!syndrome.wait: no wait]"), "60000000"), " no wait");
  EXPECT_EQ(write(summary_format<Bth>("{opcode}"), "1e0000000000000000000000"), "BTH opcode 30");
}

}  // namespace
}  // namespace rdmawire::output
