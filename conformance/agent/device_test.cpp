// The client, its handles and the agent on real devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "conformance/agent/device_fixture_for_test.hpp"

namespace rdmawire::peer {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using namespace std::chrono_literals;

std::string text_of(const Octets& octets) { return {octets.begin(), octets.end()}; }

class OnADevice : public testing::DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { begin(GetParam()); }
};
/// With queue pairs that know numbers and PSNs, and datagrams.
class OnRoce : public testing::DeviceTest {
 protected:
  void SetUp() override { begin("ib"); }
};

TEST_P(OnADevice, connects_by_the_cm_and_moves_octets) {
  const auto asking = rc(), answering = rc();
  const auto listener = Listener::listen(*peer, {.address = where}).value();
  const auto caller =
      CmConnection::connect(*peer, asking, {.address = where, .port = listener.port()}, {.private_data = {'h', 'i'}})
          .value();
  auto request = listener.request(20s).value();
  EXPECT_THAT(text_of(request.request().private_data), StartsWith("hi"));
  ASSERT_TRUE(request.accept(answering, {.private_data = {'y', 'o'}}));
  const auto established = caller.wait_established(20s);
  ASSERT_TRUE(established) << established.error().message;
  EXPECT_THAT(text_of(established->private_data), StartsWith("yo"));
  ASSERT_TRUE(request.wait_established(20s));

  ASSERT_TRUE(memory.write(0, Octets{'p', 'a', 'y', 'l', 'o', 'a', 'd'}));
  ASSERT_TRUE(asking.post_send({{.opcode = "write",
                                 .wr_id = 5,
                                 .sges = {memory.piece(0, 7)},
                                 .remote_addr = memory.addr() + 100,
                                 .rkey = memory.rkey()}}));
  const auto completions = cq.poll(1, 20s).value();
  ASSERT_EQ(completions.size(), 1);
  EXPECT_EQ(completions[0].status, "success");
  EXPECT_EQ(completions[0].wr_id, 5);
  // iWARP completes a write when it has left, not when it is there: a read behind it is.
  ASSERT_TRUE(asking.post_send({{.opcode = "read",
                                 .wr_id = 6,
                                 .sges = {memory.piece(200, 7)},
                                 .remote_addr = memory.addr() + 100,
                                 .rkey = memory.rkey()}}));
  ASSERT_EQ(cq.poll(1, 20s).value().at(0).status, "success");
  EXPECT_EQ(text_of(memory.read(100, 7).value()), "payload");
  EXPECT_EQ(text_of(memory.read(200, 7).value()), "payload");

  ASSERT_TRUE(caller.disconnect());
  EXPECT_TRUE(request.wait_for("disconnected", 20s));
  EXPECT_TRUE(caller.wait_for("disconnected", 20s));
}

TEST_P(OnADevice, rejects_with_private_data) {
  const auto qp = rc();
  const auto listener = Listener::listen(*peer, {.address = where}).value();
  const auto caller = CmConnection::connect(*peer, qp, {.address = where, .port = listener.port()}).value();
  const auto request = listener.request(20s).value();
  ASSERT_TRUE(request.reject(Octets{'n', 'o'}));
  const auto rejected = caller.wait_for("rejected", 20s);
  ASSERT_TRUE(rejected) << rejected.error().message;
  EXPECT_THAT(text_of(rejected->private_data), StartsWith("no"));
  if (device.iwarp()) {
    EXPECT_EQ(rejected->name, "ECONNRESET");
  } else {
    EXPECT_EQ(rejected->reason, 28);
  }
}

TEST_P(OnADevice, a_request_that_is_let_go_of_is_rejected) {
  const auto qp = rc();
  const auto listener = Listener::listen(*peer, {.address = where}).value();
  const auto caller = CmConnection::connect(*peer, qp, {.address = where, .port = listener.port()}).value();
  { const auto request = listener.request(20s).value(); }
  EXPECT_TRUE(caller.wait_for("rejected", 20s));
}

TEST_F(OnRoce, connects_by_hand_with_numbers) {
  const auto one = rc(), other = rc();
  ASSERT_TRUE(one.connect({.qp_num = other.qp_num(), .address = where, .psn = 200, .own_psn = 100}));
  ASSERT_TRUE(other.connect({.qp_num = one.qp_num(), .address = where, .psn = 100, .own_psn = 200}));
  EXPECT_EQ(one.state().value(), "rts");
  ASSERT_TRUE(other.post_recv({{.wr_id = 9, .sges = {memory.piece(512, 64)}}}));
  ASSERT_TRUE(memory.fill("counter", 0));
  ASSERT_TRUE(one.post_send({{.opcode = "send_imm", .wr_id = 1, .sges = {memory.piece(16, 4)}, .imm = 77},
                             {.opcode = "fetch_add",
                              .wr_id = 2,
                              .sges = {memory.piece(1024, 8)},
                              .remote_addr = memory.addr() + 1032,
                              .rkey = memory.rkey(),
                              .add = 1}}));
  const auto completions = cq.poll(3, 20s).value();
  EXPECT_EQ(completions.size(), 3);
  for (const Completion& completion : completions) {
    EXPECT_TRUE(completion.good()) << completion.status;
    if (completion.opcode == "recv") {
      EXPECT_EQ(completion.imm, 77);
      EXPECT_EQ(completion.wr_id, 9);
      EXPECT_EQ(completion.byte_len, 4);
    }
  }
  EXPECT_THAT(memory.read(512, 4).value(), ElementsAre(16, 17, 18, 19));
  EXPECT_THAT(memory.read(1032, 2).value(), ElementsAre(9, 9));  // 8, and one more
  EXPECT_THAT(memory.read(1024, 2).value(), ElementsAre(8, 9));
}

TEST_F(OnRoce, a_wrong_key_is_refused_by_the_other_end) {
  const auto one = rc(), other = rc();
  ASSERT_TRUE(one.connect({.qp_num = other.qp_num(), .address = where}));
  ASSERT_TRUE(other.connect({.qp_num = one.qp_num(), .address = where}));
  ASSERT_TRUE(one.post_send(
      {{.opcode = "write", .sges = {memory.piece(0, 4)}, .remote_addr = memory.addr(), .rkey = memory.rkey() ^ 1}}));
  EXPECT_EQ(cq.poll(1, 20s).value().at(0).status, "rem_access_err");
  EXPECT_EQ(one.state().value(), "err");
}

TEST_F(OnRoce, sends_datagrams_where_the_cm_leads) {
  const auto asking = pd.queue_pair({.type = "ud", .send_cq = &cq}).value();
  const auto answering = pd.queue_pair({.type = "ud", .send_cq = &cq}).value();
  const auto listener = Listener::listen(*peer, {.address = where, .port_space = "udp"}).value();
  const auto caller =
      CmConnection::connect(*peer, asking, {.address = where, .port = listener.port(), .port_space = "udp"}).value();
  auto request = listener.request(20s).value();
  ASSERT_TRUE(request.accept(answering));
  const auto found = caller.wait_established(20s);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->qp_num, answering.qp_num());
  const auto way = pd.address_handle_of(found->body.at("ah"));
  ASSERT_TRUE(way) << way.error().message;
  ASSERT_TRUE(answering.post_recv({{.wr_id = 3, .sges = {memory.piece(0, 64 + 40)}}}));
  ASSERT_TRUE(memory.write(1000, Octets{'d', 'a', 't', 'a'}));
  ASSERT_TRUE(asking.post_send({{.sges = {memory.piece(1000, 4)},
                                 .ah = &*way,
                                 .remote_qpn = *found->qp_num,
                                 .remote_qkey = found->body.at("qkey").get<std::uint32_t>()}}));
  const auto completions = cq.poll(2, 20s).value();
  ASSERT_EQ(completions.size(), 2);
  EXPECT_TRUE(completions[0].good() && completions[1].good());
  EXPECT_EQ(text_of(memory.read(40, 4).value()), "data");  // behind the GRH
}

INSTANTIATE_TEST_SUITE_P(Transports, OnADevice, ::testing::Values("ib", "iwarp"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace rdmawire::peer
