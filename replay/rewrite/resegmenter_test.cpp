#include "replay/rewrite/resegmenter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/tracking/tracker.hpp"
#include "replay/faults/frames_for_test.hpp"
#include "replay/rewrite/maps_for_test.hpp"

namespace rdmawire::replay {
namespace {

using ::testing::ElementsAre;
using namespace rdmawire::replay::testing;

FlowMap map_of(std::uint32_t captured, std::uint32_t live) {
  MappedConnection c;
  c.at(Side::a).address.captured = PortAddress::of_ipv4(0x0a000002);
  c.at(Side::b).address.captured = PortAddress::of_ipv4(0x0a000003);
  c.at(Side::a).qp.captured = 0x12;
  c.at(Side::b).qp.captured = 0x11;
  c.mtu = {captured, live};
  return {{c}, {}};
}

/// A SEND of `bytes` bytes with increasing values, in packets of this MTU.
std::vector<std::vector<std::uint8_t>> send(std::size_t bytes, std::uint32_t mtu, std::uint32_t psn) {
  Frame frame = between(true) / Value<Udp>() /
                Value<Bth>().set<"opcode">(0x04).set<"psn">(psn).set<"dest_qp">(0x11).set<"ack_request">(1);
  for (std::size_t i = 0; i < bytes; ++i) frame.payload.push_back(static_cast<std::uint8_t>(i * 7));
  std::vector<std::vector<std::uint8_t>> out;
  for (const Frame& packet : segment(frame, mtu)) out.push_back(packet.encode());
  return out;
}

struct Cut {
  Resegmenter resegmenter;
  std::vector<std::vector<std::uint8_t>> frames;
  std::vector<std::string> dropped;

  explicit Cut(std::uint32_t captured, std::uint32_t live) : resegmenter(map_of(captured, live)) {}
  void take(const std::vector<std::uint8_t>& frame, Side from) {
    auto result = resegmenter.take(decode(frame), {0, from});
    EXPECT_NE(result.outcome, Resegmenter::Result::Outcome::untouched);
    if (!result.why.empty()) dropped.emplace_back(result.why);
    for (auto& made : result.frames) {
      EXPECT_EQ(check_icrc(decode(made)).status, CrcCheck::Status::good);
      frames.push_back(std::move(made));
    }
  }
  [[nodiscard]] std::vector<std::uint32_t> psns() const {
    std::vector<std::uint32_t> all;
    for (const auto& frame : frames) all.push_back(decode(frame).get<Bth>()->get<"psn">());
    return all;
  }
  [[nodiscard]] std::vector<std::string> opcodes() const {
    std::vector<std::string> all;
    for (const auto& frame : frames) all.emplace_back(opcode(decode(frame).get<Bth>()->get<"opcode">()).name);
    return all;
  }
};

class AnyMtu : public ::testing::TestWithParam<std::tuple<std::uint32_t, std::uint32_t, std::size_t>> {};

TEST_P(AnyMtu, ResegmentedMessageEqualsMessageSentAtThatMtu) {
  const auto [captured, live, bytes] = GetParam();
  Cut cut(captured, live);
  for (const auto& frame : send(bytes, captured, 0xfffffe)) cut.take(frame, Side::a);
  const auto wanted = send(bytes, live, 0xfffffe);
  ASSERT_EQ(cut.frames.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(cut.frames[i], wanted[i]) << "packet " << i;
  EXPECT_TRUE(cut.dropped.empty());
}
INSTANTIATE_TEST_SUITE_P(Sizes, AnyMtu,
                         ::testing::Combine(::testing::Values(256U, 1024U, 4096U), ::testing::Values(512U, 2048U),
                                            ::testing::Values(std::size_t{0}, std::size_t{1}, std::size_t{512},
                                                              std::size_t{513}, std::size_t{4096},
                                                              std::size_t{10'001})));

TEST(Resegmenter, NextMessageFollowsLastPsn) {
  Cut cut(1024, 256);
  for (const auto& frame : send(2048, 1024, 100)) cut.take(frame, Side::a);
  for (const auto& frame : send(10, 1024, 102)) cut.take(frame, Side::a);
  EXPECT_THAT(cut.psns(), ElementsAre(100, 101, 102, 103, 104, 105, 106, 107, 108));
  EXPECT_THAT(cut.opcodes(),
              ElementsAre("RC SEND First", "RC SEND Middle", "RC SEND Middle", "RC SEND Middle", "RC SEND Middle",
                          "RC SEND Middle", "RC SEND Middle", "RC SEND Last", "RC SEND Only"));
}

TEST(Resegmenter, AcknowledgementCoversSameBytes) {
  Cut cut(1024, 256);
  for (const auto& frame : send(3000, 1024, 100)) cut.take(frame, Side::a);  // 3 packets become 12
  cut.frames.clear();
  cut.take(answer(100), Side::b);
  cut.take(answer(102), Side::b);
  auto nak = answer(101);
  const HeaderStack stack = decode(nak);
  nak[stack.find(info<Aeth>)->offset] = 0x60;
  cut.take(nak, Side::b);
  EXPECT_THAT(cut.psns(), ElementsAre(103, 111, 104)) << "1024 bytes are 4 packets; the NAK requests byte 1024";
}

TEST(Resegmenter, AcknowledgementOfPartialLivePacketIsRoundedDown) {
  Cut cut(256, 1024);
  for (const auto& frame : send(2048, 256, 100)) cut.take(frame, Side::a);
  cut.frames.clear();
  cut.take(answer(104), Side::b);  // 1280 bytes: covers one packet of 1024
  cut.take(answer(101), Side::b);
  EXPECT_THAT(cut.psns(), ElementsAre(100, 99));
}

TEST(Resegmenter, ReadUsesOnePsnPerResponsePacket) {
  Cut cut(1024, 512);
  const auto read = [](std::uint32_t psn, std::uint32_t length) {
    return (between(true) / Value<Udp>() /
            Value<Bth>().set<"opcode">(op::read_request).set<"psn">(psn).set<"dest_qp">(0x11) /
            Value<Reth>().set<"length">(length))
        .encode();
  };
  cut.take(read(100, 2048), Side::a);  // 2 packets become 4
  cut.take(read(102, 100), Side::a);
  Frame response = between(false) / Value<Udp>() /
                   Value<Bth>().set<"opcode">(op::read_only).set<"psn">(100).set<"dest_qp">(0x12) /
                   Value<Aeth>().set<"msn">(1);
  response.payload.assign(2048, 0x5a);
  for (const Frame& packet : segment(response, 1024)) cut.take(packet.encode(), Side::b);
  EXPECT_THAT(cut.psns(), ElementsAre(100, 104, 100, 101, 102, 103));
  EXPECT_THAT(cut.opcodes(), ElementsAre("RC RDMA READ Request", "RC RDMA READ Request", "RC RDMA READ Response First",
                                         "RC RDMA READ Response Middle", "RC RDMA READ Response Middle",
                                         "RC RDMA READ Response Last"));
}

TEST(Resegmenter, CapturedRetransmissionIsDropped) {
  Cut cut(1024, 256);
  const auto message = send(2048, 1024, 100);
  cut.take(message[0], Side::a);
  cut.take(message[0], Side::a);
  cut.take(message[1], Side::a);
  EXPECT_EQ(cut.frames.size(), 8U);
  ASSERT_EQ(cut.dropped.size(), 1U);
  EXPECT_THAT(cut.dropped[0], ::testing::HasSubstr("captured retransmission"));
}

TEST(Resegmenter, MessageWithoutFirstPacketIsDropped) {
  Cut cut(1024, 256);
  cut.take(send(2048, 1024, 100)[1], Side::a);
  ASSERT_EQ(cut.dropped.size(), 1U);
  EXPECT_TRUE(cut.frames.empty());
}

TEST(Resegmenter, OtherConnectionsAreUntouched) {
  EXPECT_FALSE(Resegmenter(map_of(1024, 1024)).needed());
  Resegmenter resegmenter(map_of(1024, 256));
  EXPECT_TRUE(resegmenter.needed());
  EXPECT_EQ(resegmenter.take(decode(request(5)), {7, Side::a}).outcome, Resegmenter::Result::Outcome::untouched);
}

// The tracker finds the same completed messages in a real capture at another MTU.
struct Messages final : tracking::Sink {
  void message(const tracking::Connection&, const tracking::Message& m) override {
    bytes += m.size;
    ++count;
    completed += m.outcome == tracking::Outcome::completed;
  }
  std::uint64_t bytes = 0, count = 0, completed = 0;
};

TEST(Resegmenter, RealConnectionHasSameMessagesAtAnyMtu) {
  const std::string path = tracking::testing::sample("rping.pcap");
  Messages before;
  {
    tracking::Tracker tracker(before);
    tracking::testing::dissect_capture(path, [&](const tracking::Packet& packet) { tracker.add(packet); });
    tracker.finish();
  }
  RewriteOptions keep;
  keep.others = Unmapped::keep;
  for (const std::uint32_t mtu : {256U, 512U, 2048U, 4096U}) {
    FlowMap map = learn(path).map;
    map.connections[0].mtu.live = mtu;
    const Rewriter rewriter(map, keep);
    Resegmenter resegmenter(map);
    Messages after;
    tracking::Tracker tracker(after);
    tracking::Dissector dissector;
    tracking::Packet packet;
    std::uint64_t largest = 0;
    tracking::testing::dissect_capture(path, [&](const tracking::Packet& captured) {
      Resegmenter::Result result;
      if (const auto place = rewriter.find(captured.stack, captured.number))
        result = resegmenter.take(captured.stack, *place);
      EXPECT_EQ(result.why, "") << captured.number;
      if (result.outcome == Resegmenter::Result::Outcome::untouched)
        result.frames.emplace_back(captured.stack.bytes.begin(), captured.stack.bytes.end());
      for (const auto& cut : result.frames) {
        // CM messages contain the path MTU.
        std::vector<std::uint8_t> frame(cut.size() + Rewriter::growth);
        frame.resize(rewriter.rewrite(decode(cut), frame, captured.number).frame.size());
        ++packet.number;
        packet.time_ns = captured.time_ns;
        packet.link = captured.link;
        dissector.dissect(packet, frame, static_cast<std::uint32_t>(frame.size()));
        largest = std::max<std::uint64_t>(largest, packet.stack.payload.length);
        tracker.add(packet);
      }
    });
    tracker.finish();
    EXPECT_EQ(after.count, before.count) << mtu;
    EXPECT_EQ(after.completed, before.completed) << mtu;
    EXPECT_EQ(after.bytes, before.bytes) << mtu;
    EXPECT_LE(largest, std::max(mtu, 1024U)) << "TCP segments are unchanged";
  }
}

}  // namespace
}  // namespace rdmawire::replay
