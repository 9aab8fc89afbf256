/// Tests of the reference device through the agent client and a wire, as a tester uses a device. Responses are compared
/// byte by byte.

#include "conformance/device/roce/reference.hpp"

#include <gtest/gtest.h>

#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/testing.hpp"
#include "dissectors/protocol/transport.hpp"
#include "replay/peer/connection_manager.hpp"
#include "replay/peer/queue_pair.hpp"
#include "replay/peer/verbs.hpp"

namespace rdmawire::device {
namespace {

using rdmawire::testing::from_hex;
using namespace std::chrono_literals;

/// The tester has 10.0.0.9, 02:00:00:00:00:09, QP 0x22 and PSNs from 100. The device's PSNs start at 200.
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
  /// Return the next frame from the BTH to the ICRC, exclusive, in hexadecimal. Empty if none arrives within 100 ms of
  /// virtual time.
  std::string next() {
    const auto frame = reference->wire().receive(reference->wire().now() + 100'000'000);
    if (!frame || !*frame) return {};
    constexpr std::size_t before = 14 + 20 + 8;
    const Bytes bytes = (*frame)->frame.subspan(before, (*frame)->frame.size() - before - 4);
    return rpc::to_hex(bytes.data(), bytes.size());
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

TEST_F(ReferenceDevice, AcknowledgesSend) {
  ASSERT_TRUE(qp->post_recv({{.wr_id = 5, .sges = {memory->piece(64, 64)}}}));
  Frame frame = request(0x04, 100);
  frame.payload = {'h', 'e', 'l', 'l', 'o'};
  send(frame);
  // BTH: Acknowledge, MigReq, default partition, to QP 0x22, PSN 100. AETH: ACK without credits, MSN 1.
  EXPECT_EQ(next(), "1140ffff000000220000006400000001");
  const auto done = take(cq->poll(1, 0ms));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 5U);
  EXPECT_EQ(done[0].byte_len, 5U);
  EXPECT_EQ(take(memory->read(64, 5)), (std::vector<std::uint8_t>{'h', 'e', 'l', 'l', 'o'}));
}

TEST_F(ReferenceDevice, UnknownKeyGetsAccessErrorNak) {
  send(request(0x0c, 100) /
       Value<Reth>().set<"va">(memory->addr()).set<"rkey">(memory->rkey() ^ 0x100).set<"length">(8));
  EXPECT_EQ(next(), "1140ffff000000220000006462000000");
  EXPECT_EQ(take(qp->state()), "err");
  EXPECT_EQ(next(), "");
}

TEST_F(ReferenceDevice, PsnGapGetsOneSequenceErrorNak) {
  ASSERT_TRUE(qp->post_recv({{.wr_id = 1, .sges = {memory->piece(0, 64)}}}));
  send(request(0x04, 101));
  send(request(0x04, 102));
  EXPECT_EQ(next(), "1140ffff000000220000006460000000");
  EXPECT_EQ(next(), "");
  send(request(0x04, 100));
  EXPECT_EQ(next(), "1140ffff000000220000006400000001");
}

TEST_F(ReferenceDevice, SendWithoutReceiveGetsRnrNak) {
  send(request(0x04, 100));
  EXPECT_EQ(next(), "1140ffff00000022000000642c000000");  // min_rnr_timer 12
  EXPECT_EQ(next(), "");
}

TEST_F(ReferenceDevice, DuplicateReadGetsSameResponse) {
  ASSERT_TRUE(memory->write(0, std::vector<std::uint8_t>{1, 2, 3, 4, 5}));
  const Frame read =
      request(0x0c, 100) / Value<Reth>().set<"va">(memory->addr()).set<"rkey">(memory->rkey()).set<"length">(5);
  send(read);
  const std::string answer = next();
  // READ response only, three pad bytes. No credits, MSN 1.
  EXPECT_EQ(answer,
            "1070ffff000000220000006400000001"
            "0102030405000000");
  send(read);
  EXPECT_EQ(next(), answer);
}

TEST_F(ReferenceDevice, RequesterRetransmitsAfterTimeout) {
  ASSERT_TRUE(memory->write(0, std::vector<std::uint8_t>{1, 2, 3, 4}));
  post_send();
  const std::string sent = "0440ffff00000022800000c801020304";
  EXPECT_EQ(next(), sent);
  const std::int64_t first = reference->wire().now();
  EXPECT_EQ(next(), "");  // timeout 14: 67.1 ms, and the device waits twice that time
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

TEST_F(ReferenceDevice, RequesterFailsAfterRetryCount) {
  post_send();
  const auto done = take(cq->poll(1, 60s));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, "retry_exc_err");
  int sent = 0;
  while (!next().empty()) ++sent;
  EXPECT_EQ(sent, 8);  // one transmission and seven retries
}

// The tester connects through the CM.
TEST_F(ReferenceDevice, AcceptsConnectionAndDisconnects) {
  const auto listener = take(peer::Listener::listen(reference->peer(), {.address = "10.0.0.1", .port = 7471}));
  EXPECT_EQ(listener.port(), 7471);
  auto fresh = take(pd->queue_pair({.send_cq = &*cq}));
  // Send a MAD of 256 bytes from the tester's QP 1.
  const auto send_mad = [&](std::uint16_t attribute, const HeaderValue& body, const std::string& private_data = {}) {
    Frame frame = Value<Ethernet>().set<"dst">(0x020000000001).set<"src">(0x020000000009) /
                  Value<Ipv4>().set<"df">(1).set<"src">(0x0a000009).set<"dst">(0x0a000001) / Value<Udp>() /
                  Value<Bth>().set<"opcode">(0x64).set<"pkey">(0xffff).set<"dest_qp">(1) /
                  Value<Deth>().set<"qkey">(0x80010000).set<"src_qp">(1);
    const auto header = Value<Mad>()
                            .set<"base_version">(1)
                            .set<"class">(7)
                            .set<"class_version">(2)
                            .set<"method">(3)
                            .set<"transaction_id">(0x1234)
                            .set<"attribute_id">(attribute);
    frame.payload.assign(header.bytes().begin(), header.bytes().end());
    frame.payload.insert(frame.payload.end(), body.bytes().begin(), body.bytes().end());
    for (const std::uint8_t byte : from_hex(private_data)) frame.payload.push_back(byte);
    frame.payload.resize(256);
    send(frame);
  };
  const Gid own = Gid::ipv4(0x0a000009), its = Gid::ipv4(0x0a000001);
  send_mad(0x10,
           Value<CmReq>()
               .set<"local_comm_id">(0x11)
               .set<"service_id">(0x0000000001061d2f)
               .set<"local_qpn">(0x22)
               .set<"starting_psn">(200)
               .set<"responder_resources">(2)
               .set<"initiator_depth">(1)
               .set<"local_cm_response_timeout">(14)
               .set<"retry_count">(3)
               .set<"rnr_retry_count">(6)
               .set<"path_mtu">(3)
               .set<"max_cm_retries">(2)
               .set<"primary_local_gid">(Bytes(own.bytes))
               .set<"primary_remote_gid">(Bytes(its.bytes))
               .set<"primary_hop_limit">(64)
               .set<"primary_local_ack_timeout">(12),
           // RDMA-CM header: version 4, port 1000, both addresses. Then "hi".
           "0040 03e8 000000000000000000000000 0a000009 000000000000000000000000 0a000001 6869");
  EXPECT_EQ(next(), "");
  // Pending events arrive with the response to the next command.
  ASSERT_TRUE(reference->peer().call("ping"));
  auto connection = take(listener.request(100ms));
  EXPECT_EQ(connection.request().private_data.at(1), 'i');
  EXPECT_EQ(connection.request().body.value("remote_port", 0), 1000);
  EXPECT_EQ(connection.request().body.value("remote_address", ""), "10.0.0.9");
  ASSERT_TRUE(connection.accept(fresh, {.private_data = {'y', 'o'}}));
  EXPECT_EQ(take(fresh.state()), "rts");
  const std::string reply = next();
  // BTH and DETH to QP 1. A REP of the same transaction to 0x11, for the new queue pair.
  EXPECT_EQ(reply.substr(0, 16), "6440ffff00000001");
  EXPECT_EQ(reply.substr(24, 16), "8001000000000001");
  EXPECT_EQ(reply.substr(40, 48), "010702030000000000000000000012340013000000000000");
  EXPECT_EQ(reply.substr(96, 8), "00000011");
  EXPECT_EQ(reply.substr(112, 6), fmt::format("{:06x}", fresh.qp_num()));
  const std::uint32_t id = static_cast<std::uint32_t>(std::stoul(reply.substr(88, 8), nullptr, 16));
  const std::uint32_t psn = static_cast<std::uint32_t>(std::stoul(reply.substr(128, 6), nullptr, 16));
  send_mad(0x14, Value<CmRtu>().set<"local_comm_id">(0x11).set<"remote_comm_id">(id));
  EXPECT_EQ(next(), "");
  ASSERT_TRUE(reference->peer().call("ping"));
  EXPECT_TRUE(connection.wait_established(100ms));

  // The queue pair uses the negotiated parameters.
  const auto attributes = take(fresh.query());
  EXPECT_EQ(attributes.value("dest_qp_num", 0U), 0x22U);
  EXPECT_EQ(attributes.value("sq_psn", 0U), 200U);
  EXPECT_EQ(attributes.value("rq_psn", 0U), psn);
  EXPECT_EQ(attributes.value("path_mtu", 0U), 1024U);
  EXPECT_EQ(attributes.value("max_dest_rd_atomic", 0U), 1U);
  EXPECT_EQ(attributes.value("max_rd_atomic", 0U), 2U);
  EXPECT_EQ(attributes.value("timeout", 0U), 12U);
  EXPECT_EQ(attributes.value("retry_cnt", 0U), 3U);
  EXPECT_EQ(attributes.value("rnr_retry", 0U), 6U);

  send_mad(0x15,
           Value<CmDreq>().set<"local_comm_id">(0x11).set<"remote_comm_id">(id).set<"remote_qpn">(fresh.qp_num()));
  EXPECT_EQ(next().substr(72, 4), "0016");  // DREP
  EXPECT_EQ(take(fresh.state()), "err");
  EXPECT_TRUE(connection.wait_for("disconnected", 100ms));
}

// The device connects and the tester does not respond.
TEST_F(ReferenceDevice, ConnectSendsRequest) {
  auto fresh = take(pd->queue_pair({.send_cq = &*cq}));
  const auto connection =
      take(peer::CmConnection::connect(reference->peer(), fresh, {.address = "10.0.0.9", .port = 7471}));
  EXPECT_EQ(take(connection.next_event(100ms)).type, "addr_resolved");
  EXPECT_EQ(take(connection.next_event(100ms)).type, "route_resolved");
  EXPECT_EQ(take(fresh.state()), "init");
  const std::string request = next();
  EXPECT_EQ(request.substr(72, 4), "0010");  // REQ
  // Service ID: TCP port 7471 of RDMA-CM.
  EXPECT_EQ(request.substr(104, 16), "0000000001061d2f");
  // RDMA-CM header: version 4, port and both addresses.
  EXPECT_EQ(request.substr(368, 4), "0040");
  EXPECT_EQ(request.substr(376 + 24, 8), "0a000001");
  EXPECT_EQ(request.substr(376 + 56, 8), "0a000009");
  EXPECT_TRUE(connection.disconnect().error().message.find("invalid connection state") != std::string::npos);
  EXPECT_FALSE(peer::CmConnection::connect(reference->peer(), fresh,
                                           {.address = "10.0.0.9", .port = 7471, .port_space = "udp"}));
}

}  // namespace
}  // namespace rdmawire::device
