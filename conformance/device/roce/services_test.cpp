/// Tests of UC, UD, XRC and congestion control between two devices.

#include <gtest/gtest.h>

#include "conformance/device/roce/ends_for_test.hpp"

namespace rdmawire::device {
namespace {

using testing::End;
using testing::Line;
using testing::Pair;
using testing::Seen;

constexpr Gid gid_of(std::uint8_t number) { return Gid::ipv4(0x0a000000U | number); }

void steps(End& end, std::initializer_list<QueuePairChange> changes) {
  for (const QueuePairChange& change : changes) {
    const auto done = end.device.modify_qp(end.qp, change);
    ASSERT_TRUE(done) << done.error().message;
  }
}

struct UcPair {
  UcPair() : a(1, QpType::uc), b(2, QpType::uc), line(a.device, b.device) {
    connect(a, 2, b);
    connect(b, 1, a);
  }
  static void connect(End& end, std::uint8_t peer, const End& to) {
    end.device.port().learn(gid_of(peer), {2, 0, 0, 0, 0, peer});
    AddressVector path;
    path.sgid_index = 2;
    path.dgid = gid_of(peer);
    steps(end,
          {{.state = QpState::init, .pkey_index = 0, .port = 1, .access = access::remote_write},
           {.state = QpState::rtr, .path_mtu = 256, .path = path, .dest_qpn = to.device.qp(to.qp)->qpn, .rq_psn = 500},
           {.state = QpState::rts, .sq_psn = 500}});
  }
  End a, b;
  Line line;
};

TEST(Services, UcDropsMessagesWithLostPackets) {
  UcPair pair;
  for (std::uint64_t i = 0; i < 20; ++i) {
    pair.a.fill(i * 2048, 1500, static_cast<std::uint8_t>(i));
    ASSERT_TRUE(pair.b.device.post_recv(pair.b.qp, {.id = i, .sges = {pair.b.at(i * 2048, 2048)}}));
    SendRequest send{.id = i, .opcode = WorkOpcode::send_imm, .sges = {pair.a.at(i * 2048, 1500)}};
    send.immediate = static_cast<std::uint32_t>(i);
    ASSERT_TRUE(pair.a.device.post_send(pair.a.qp, send));
  }
  // Every 13th packet is lost: 9 of 120 packets, each in another message.
  pair.line.way = [n = 0](const Seen&) mutable {
    return ++n % 13 == 0 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{Line::delay};
  };
  pair.line.run();
  EXPECT_EQ(pair.a.poll().size(), 20U);
  const auto received = pair.b.poll();
  EXPECT_EQ(received.size(), 11U);
  std::uint64_t slot = 0;
  for (const Completion& c : received) {
    EXPECT_EQ(c.id, slot);  // a lost message leaves its receive to the next one
    EXPECT_EQ(c.bytes, 1500U);
    EXPECT_EQ(pair.b.bytes(slot * 2048, 1500), pair.a.bytes(std::uint64_t{c.immediate} * 2048, 1500));
    ++slot;
  }
  EXPECT_EQ(pair.line.seen.size(), 120U);  // no responses
}

TEST(Services, DatagramIsDeliveredWithNetworkHeader) {
  End a(1, QpType::ud), b(2, QpType::ud);
  Line line(a.device, b.device);
  for (End* end : {&a, &b})
    steps(*end, {{.state = QpState::init, .pkey_index = 0, .port = 1, .qkey = 0x11},
                 {.state = QpState::rtr},
                 {.state = QpState::rts, .sq_psn = 7}});
  a.device.port().learn(gid_of(2), {2, 0, 0, 0, 0, 2});
  AddressVector path;
  path.sgid_index = 2;
  path.dgid = gid_of(2);
  a.fill(0, 100, 9);
  ASSERT_TRUE(b.device.post_recv(b.qp, {.id = 1, .sges = {b.at(0, 200)}}));
  SendRequest send{.id = 4, .opcode = WorkOpcode::send, .sges = {a.at(0, 100)}};
  send.ah = *a.device.create_ah(a.pd, path);
  send.remote_qpn = b.device.qp(b.qp)->qpn;
  send.remote_qkey = 0x11;
  ASSERT_TRUE(a.device.post_send(a.qp, send));
  line.run();
  const auto received = b.poll();
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].bytes, 140U);
  EXPECT_EQ(received[0].source_qpn, a.device.qp(a.qp)->qpn);
  EXPECT_TRUE(received[0].is_ipv4);
  EXPECT_EQ(b.bytes(40, 100), a.bytes(0, 100));
  // The second half of the 40 bytes contains an IPv4 header from 10.0.0.1 to 10.0.0.2.
  EXPECT_EQ(b.bytes(20, 1)[0], 0x45);
  EXPECT_EQ(b.bytes(32, 8), (std::vector<std::uint8_t>{10, 0, 0, 1, 10, 0, 0, 2}));
}

TEST(Services, XrcSendUsesSpecifiedSharedReceiveQueue) {
  End a(1, QpType::xrc_initiator), b(2);
  Line line(a.device, b.device);
  const auto xrcd = *b.device.open_xrcd();
  const auto srq = *b.device.create_srq(b.pd, 8, 1, 0, xrcd, b.cq);
  b.qp = *b.device.create_qp({.type = QpType::xrc_target, .xrcd = xrcd});
  ASSERT_TRUE(b.device.post_srq_recv(srq, {.id = 33, .sges = {b.at(0, 4096)}}));
  const auto connect = [](End& end, std::uint8_t peer, const End& to, bool sends) {
    end.device.port().learn(gid_of(peer), {2, 0, 0, 0, 0, peer});
    AddressVector path;
    path.sgid_index = 2;
    path.dgid = gid_of(peer);
    QueuePairChange rtr{
        .state = QpState::rtr, .path_mtu = 1024, .path = path, .dest_qpn = to.device.qp(to.qp)->qpn, .rq_psn = 9};
    QueuePairChange rts{.state = QpState::rts, .sq_psn = 9, .timeout = 8};
    if (sends) {
      rts.retry_count = rts.rnr_retry = 7;
      rts.max_rd_atomic = 4;
    } else {
      rtr.max_dest_rd_atomic = 4;
      rtr.min_rnr_timer = 1;
    }
    steps(end, {{.state = QpState::init, .pkey_index = 0, .port = 1, .access = access::remote_write}, rtr, rts});
  };
  connect(a, 2, b, true);
  connect(b, 1, a, false);
  a.fill(0, 3000, 4);
  SendRequest send{.id = 5, .opcode = WorkOpcode::send, .sges = {a.at(0, 3000)}};
  send.xrc_srq = b.device.srq(srq)->number;
  ASSERT_TRUE(a.device.post_send(a.qp, send));
  line.run();
  const auto sent = a.poll(), received = b.poll();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].status, Status::success);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].id, 33U);
  EXPECT_EQ(received[0].bytes, 3000U);
  EXPECT_EQ(b.bytes(0, 3000), a.bytes(0, 3000));
}

TEST(Services, CongestionMarksReduceRate) {
  // Returns the time of a transfer, with or without a switch that marks every packet.
  const auto lasts = [](bool marks) {
    Pair pair;
    SendRequest write = pair.a.request(WorkOpcode::write, 1, pair.a.at(0, 200'000), pair.b, 0);
    EXPECT_TRUE(pair.a.device.post_send(pair.a.qp, write));
    std::int64_t last = 0;
    pair.line.way = [&](const Seen& seen) {
      last = seen.time;
      return std::vector<std::int64_t>{Line::delay};
    };
    if (marks)
      pair.line.mark = [](std::vector<std::uint8_t>& frame) {
        if ((frame[15] & 3) == 2) {
          frame[15] |= 3;  // change ECT to CE and adjust the IPv4 checksum
          store_be(frame.data() + 24, 2, load_be<2>(frame.data() + 24) - 1);
        }
      };
    pair.line.run();
    EXPECT_EQ(pair.a.poll().size(), 1U);
    EXPECT_EQ(pair.a.device.counters().cnps_handled != 0, marks);
    EXPECT_EQ(pair.b.device.counters().cnps_sent, pair.a.device.counters().cnps_handled);
    return last;
  };
  EXPECT_GT(2 * lasts(true), 3 * lasts(false));
}

}  // namespace
}  // namespace rdmawire::device
