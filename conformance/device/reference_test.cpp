/// The reference device, driven as a tester drives any: verbs by the agent's client, frames over a wire. What it
/// answers is compared octet by octet.

#include "conformance/device/reference.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"
#include "replay/peer/queue_pair.hpp"
#include "replay/peer/verbs.hpp"

namespace rdmawire::device {
namespace {

using rdmawire::testing::from_hex;
using namespace std::chrono_literals;

/// The tester at 10.0.0.9, 02:00:00:00:00:09, with queue pair 0x22, PSNs from 100; the device's begin at 200.
class ReferenceDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = Reference::start();
    ASSERT_TRUE(started);
    reference = std::move(*started);
    reference->learn(Gid::ipv4(0x0a000009), {2, 0, 0, 0, 0, 9});
    device.emplace(take(peer::Device::open(reference->peer())));
    pd.emplace(take(device->protection_domain()));
    cq.emplace(take(device->completion_queue(64)));
    memory.emplace(take(pd->region(4096, {"local_write", "remote_write", "remote_read", "remote_atomic"})));
    peer::QueuePairOptions options;
    options.send_cq = &*cq;
    qp.emplace(take(pd->queue_pair(options)));
    peer::Connection connection;
    connection.qp_num = 0x22;
    connection.address = "10.0.0.9";
    connection.psn = 100;
    connection.own_psn = 200;
    ASSERT_TRUE(qp->connect(connection));
  }
  template <class T>
  static T take(peer::PeerResult<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }
  Frame request(std::uint8_t opcode, std::uint32_t psn) const {
    return Value<Ethernet>().set<"dst">(0x020000000001).set<"src">(0x020000000009) /
           Value<Ipv4>().set<"df">(1).set<"src">(0x0a000009).set<"dst">(0x0a000001) / Value<Udp>() /
           Value<Bth>().set<"opcode">(opcode).set<"dest_qp">(qp->qp_num()).set<"psn">(psn).set<"ack_request">(1);
  }
  /// From the BTH on, without the ICRC, as hexadecimal digits; empty: nothing came for 100 ms of the device's time.
  std::string next() {
    const auto frame = reference->wire().receive(reference->wire().now() + 100'000'000);
    if (!frame || !*frame) return {};
    constexpr std::size_t before = 14 + 20 + 8;
    return to_hex((*frame)->frame.subspan(before, (*frame)->frame.size() - before - 4));
  }
  void post_send() {
    peer::SendRequest request;
    request.wr_id = 3;
    request.sges = {memory->piece(0, 4)};
    ASSERT_TRUE(qp->post_send({request}));
  }
  void send(const Frame& frame) { ASSERT_TRUE(reference->wire().send(frame.encode())); }

  std::unique_ptr<Reference> reference;
  std::optional<peer::Device> device;
  std::optional<peer::ProtectionDomain> pd;
  std::optional<peer::CompletionQueue> cq;
  std::optional<peer::Region> memory;
  std::optional<peer::QueuePair> qp;
};

TEST_F(ReferenceDevice, AnswersASend) {
  ASSERT_TRUE(qp->post_recv({{.wr_id = 5, .sges = {memory->piece(64, 64)}}}));
  Frame frame = request(0x04, 100);
  frame.payload = {'h', 'e', 'l', 'l', 'o'};
  send(frame);
  // Acknowledge, migrated, default partition, to 0x22, PSN 100; ACK without a receive left, MSN 1.
  EXPECT_EQ(next(), "1140ffff000000220000006400000001");
  const auto done = take(cq->poll(1, 0ms));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 5U);
  EXPECT_EQ(done[0].byte_len, 5U);
  EXPECT_EQ(take(memory->read(64, 5)), (std::vector<std::uint8_t>{'h', 'e', 'l', 'l', 'o'}));
}

TEST_F(ReferenceDevice, RefusesAnUnknownKey) {
  send(request(0x0c, 100) /
       Value<Reth>().set<"va">(memory->addr()).set<"rkey">(memory->rkey() ^ 0x100).set<"length">(8));
  EXPECT_EQ(next(), "1140ffff000000220000006462000000");
  EXPECT_EQ(take(qp->state()), "err");
  EXPECT_EQ(next(), "");
}

TEST_F(ReferenceDevice, AsksForWhatIsMissingOnce) {
  ASSERT_TRUE(qp->post_recv({{.wr_id = 1, .sges = {memory->piece(0, 64)}}}));
  send(request(0x04, 101));
  send(request(0x04, 102));
  EXPECT_EQ(next(), "1140ffff000000220000006460000000");
  EXPECT_EQ(next(), "");
  send(request(0x04, 100));
  EXPECT_EQ(next(), "1140ffff000000220000006400000001");
}

TEST_F(ReferenceDevice, SaysThatItIsNotReady) {
  send(request(0x04, 100));
  EXPECT_EQ(next(), "1140ffff00000022000000642c000000");  // min_rnr_timer 12
  EXPECT_EQ(next(), "");
}

TEST_F(ReferenceDevice, AnswersAReadAndSaysItAgain) {
  ASSERT_TRUE(memory->write(0, std::vector<std::uint8_t>{1, 2, 3, 4, 5}));
  const Frame read =
      request(0x0c, 100) / Value<Reth>().set<"va">(memory->addr()).set<"rkey">(memory->rkey()).set<"length">(5);
  send(read);
  const std::string answer = next();
  // READ response only, three octets of pad; credits: none, MSN 1.
  EXPECT_EQ(answer,
            "1070ffff000000220000006400000001"
            "0102030405000000");
  send(read);
  EXPECT_EQ(next(), answer);
}

TEST_F(ReferenceDevice, SendsAndWaitsAndSendsAgain) {
  ASSERT_TRUE(memory->write(0, std::vector<std::uint8_t>{1, 2, 3, 4}));
  post_send();
  const std::string sent = "0440ffff00000022800000c801020304";
  EXPECT_EQ(next(), sent);
  const std::int64_t first = reference->wire().now();
  EXPECT_EQ(next(), "");  // timeout 14: 67.1 ms, and it waits twice that
  EXPECT_EQ(next(), sent);
  EXPECT_GE(reference->wire().now() - first, 67'108'864);
  EXPECT_LE(reference->wire().now() - first, 4 * 67'108'864);
  EXPECT_TRUE(take(cq->poll(1, 0ms)).empty());
  send(request(0x11, 200) / Value<Aeth>().set<"syndrome">(0x1f).set<"msn">(1));
  const auto done = take(cq->poll(1, 10ms));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 3U);
  EXPECT_EQ(done[0].status, "success");
}

TEST_F(ReferenceDevice, GivesUpInVirtualTime) {
  post_send();
  const auto done = take(cq->poll(1, 60s));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, "retry_exc_err");
  int sent = 0;
  while (!next().empty()) ++sent;
  EXPECT_EQ(sent, 8);  // once, and seven times again
}

}  // namespace
}  // namespace rdmawire::device
