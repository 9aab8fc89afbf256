// The client, its handles and the agent on real devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>

#include "conformance/agent/device_fixture_for_test.hpp"
#include "conformance/lab/sockets.hpp"

namespace rdmawire::peer {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using namespace std::chrono_literals;

std::string text_of(const ByteVector& bytes) { return {bytes.begin(), bytes.end()}; }

class OnADevice : public testing::DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { begin(GetParam()); }
};
/// Tests that require QP numbers, PSNs or datagrams, which iWARP does not have.
class OnRoce : public testing::DeviceTest {
 protected:
  void SetUp() override { begin("ib"); }
};

TEST_P(OnADevice, CmConnectionTransfersData) {
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

  ASSERT_TRUE(memory.write(0, ByteVector{'p', 'a', 'y', 'l', 'o', 'a', 'd'}));
  ASSERT_TRUE(asking.post_send({{.opcode = "write",
                                 .wr_id = 5,
                                 .sges = {memory.piece(0, 7)},
                                 .remote_addr = memory.addr() + 100,
                                 .rkey = memory.rkey()}}));
  const auto completions = cq.poll(1, 20s).value();
  ASSERT_EQ(completions.size(), 1);
  EXPECT_EQ(completions[0].status, "success");
  EXPECT_EQ(completions[0].wr_id, 5);
  // iWARP completes a WRITE when it is sent. The completion of a following READ implies that the data has arrived.
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

TEST_P(OnADevice, RejectDeliversPrivateData) {
  const auto qp = rc();
  const auto listener = Listener::listen(*peer, {.address = where}).value();
  const auto caller = CmConnection::connect(*peer, qp, {.address = where, .port = listener.port()}).value();
  const auto request = listener.request(20s).value();
  ASSERT_TRUE(request.reject(ByteVector{'n', 'o'}));
  const auto rejected = caller.wait_for("rejected", 20s);
  ASSERT_TRUE(rejected) << rejected.error().message;
  EXPECT_THAT(text_of(rejected->private_data), StartsWith("no"));
  if (device.iwarp()) {
    EXPECT_EQ(rejected->name, "ECONNRESET");
  } else {
    EXPECT_EQ(rejected->reason, 28);
  }
}

TEST_P(OnADevice, ReleasedRequestIsRejected) {
  const auto qp = rc();
  const auto listener = Listener::listen(*peer, {.address = where}).value();
  const auto caller = CmConnection::connect(*peer, qp, {.address = where, .port = listener.port()}).value();
  { const auto request = listener.request(20s).value(); }
  EXPECT_TRUE(caller.wait_for("rejected", 20s));
}

/// Returns the kernel's object counts: "0: rxe0: pd 2 cq 1 qp 1 cm_id 0 mr 1 ctx 1".
std::string resources(lab::Guest& guest) { return guest.run({"rdma", "resource", "show"}).value().output; }

TEST_P(OnADevice, LostControllerReleasesKernelObjects) {
  if (guest == nullptr) GTEST_SKIP() << "requires a lab guest";
  const std::string before = resources(*guest);
  ASSERT_THAT(before, ::testing::HasSubstr(device.name() + ": pd "));
  {
    const auto other = lab::connect_to_guest(guest->agents().at(1).substr(5)).value();
    const std::string questions = R"({"id":1,"do":"hello","protocol":1})"
                                  "\n{\"id\":2,\"do\":\"open\",\"name\":\"" +
                                  device.name() +
                                  "\"}\n"
                                  R"({"id":3,"do":"alloc_pd","device":1})"
                                  "\n"
                                  R"({"id":4,"do":"create_cq","device":1,"cqe":8})"
                                  "\n"
                                  R"({"id":5,"do":"register","pd":2,"length":4096,"access":["local_write"]})"
                                  "\n"
                                  R"({"id":6,"do":"create_qp","type":"rc","pd":2,"send_cq":3,"recv_cq":3})"
                                  "\n"
                                  R"({"id":7,"do":"cm_listen","address":")" +
                                  where +
                                  "\",\"port\":7490}\n"
                                  R"({"id":8,"do":"cm_connect","qp":5,"port":7490,"address":")" +
                                  where + "\"}\n";
    ASSERT_EQ(::send(other.get(), questions.data(), questions.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(questions.size()));
    // The controller disconnects while a connection request is pending.
    const timeval limit{20, 0};
    ::setsockopt(other.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::string said;
    char bytes[4096];
    while (said.find("connect_request") == std::string::npos) {
      const ssize_t got = ::recv(other.get(), bytes, sizeof bytes, 0);
      ASSERT_GT(got, 0) << said;
      said.append(bytes, static_cast<std::size_t>(got));
    }
    EXPECT_NE(resources(*guest), before);
  }
  std::string after;
  for (int i = 0; i < 100 && after != before; ++i) after = resources(*guest);
  EXPECT_EQ(after, before);
}

TEST_F(OnRoce, ManualConnectionTransfersData) {
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
  EXPECT_THAT(memory.read(1032, 2).value(), ElementsAre(9, 9));  // the value 8 plus 1
  EXPECT_THAT(memory.read(1024, 2).value(), ElementsAre(8, 9));
}

TEST_F(OnRoce, WrongKeyIsRejectedByPeer) {
  const auto one = rc(), other = rc();
  ASSERT_TRUE(one.connect({.qp_num = other.qp_num(), .address = where}));
  ASSERT_TRUE(other.connect({.qp_num = one.qp_num(), .address = where}));
  ASSERT_TRUE(one.post_send(
      {{.opcode = "write", .sges = {memory.piece(0, 4)}, .remote_addr = memory.addr(), .rkey = memory.rkey() ^ 1}}));
  EXPECT_EQ(cq.poll(1, 20s).value().at(0).status, "rem_access_err");
  EXPECT_EQ(one.state().value(), "err");
}

TEST_F(OnRoce, DatagramsUseAddressFromCm) {
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
  const auto way = pd.address_handle_of(found->ah.value());
  ASSERT_TRUE(way) << way.error().message;
  ASSERT_TRUE(answering.post_recv({{.wr_id = 3, .sges = {memory.piece(0, 64 + 40)}}}));
  ASSERT_TRUE(memory.write(1000, ByteVector{'d', 'a', 't', 'a'}));
  ASSERT_TRUE(asking.post_send({{.sges = {memory.piece(1000, 4)},
                                 .ah = &*way,
                                 .remote_qpn = *found->qp_num,
                                 .remote_qkey = found->body.at("qkey").get<std::uint32_t>()}}));
  const auto completions = cq.poll(2, 20s).value();
  ASSERT_EQ(completions.size(), 2);
  EXPECT_TRUE(completions[0].good() && completions[1].good());
  EXPECT_EQ(text_of(memory.read(40, 4).value()), "data");  // after the GRH
}

INSTANTIATE_TEST_SUITE_P(Transports, OnADevice, ::testing::Values("ib", "iwarp"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace rdmawire::peer
