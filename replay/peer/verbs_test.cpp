#include "replay/peer/verbs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "replay/peer/connection_manager.hpp"
#include "replay/peer/stub_testing.hpp"
#include "replay/rpc/message.hpp"

namespace rdmawire::peer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Played;
using testing::Stub;
using namespace std::chrono_literals;

/// Scripted responses for creating an RC QP.
class Making {
 public:
  explicit Making(Stub& stub) : stub_(&stub) {}

  void expect(const std::string& what, const std::string& result) {
    ++id_;
    stub_->expect(fmt::format(R"({{"id":{},{}}})", id_, what), fmt::format(R"({{"id":{},"result":{}}})", id_, result));
  }
  void device() {
    expect(R"("do":"devices")", R"({"devices":[{"name":"rxe0"},{"name":"siw0"}]})");
    expect(R"("do":"open","name":"rxe0")", R"({"device":1})");
    expect(
        R"("do":"describe","device":1)",
        R"({"transport":"ib","limits":{"max_qp":1048560},"ports":[{"port":1,"state":"active","link_layer":"ethernet",)"
        R"("netdev":"eth0","active_mtu":1024,"max_mtu":4096,"lid":0,"gids":[)"
        R"({"index":0,"gid":"fe80::5054:ff:fe12:3456","type":"roce_v2","netdev":"eth0"},)"
        R"({"index":1,"gid":"::ffff:10.0.0.2","type":"roce_v1","netdev":"eth0"},)"
        R"({"index":2,"gid":"::ffff:10.0.0.2","type":"roce_v2","netdev":"eth0"},)"
        R"({"index":3,"gid":"2001:db8::2","type":"roce_v2","netdev":"eth0"}]}]})");
  }
  void domain() { expect(R"("do":"alloc_pd","device":1)", R"({"pd":2})"); }
  void queue() { expect(R"("do":"create_cq","cqe":16,"device":1)", R"({"cq":3,"cqe":31})"); }
  void pair() {
    expect(R"("do":"create_qp","max_recv_sge":1,"max_recv_wr":16,"max_send_sge":1,"max_send_wr":16,)"
           R"("pd":2,"recv_cq":3,"send_cq":3,"type":"rc")",
           R"({"qp":4,"qp_num":17})");
  }
  void all() {
    device();
    domain();
    queue();
    pair();
  }
  void released(int object) { expect(fmt::format(R"("do":"destroy","object":{})", object), "{}"); }

 private:
  Stub* stub_;
  int id_ = 0;
};

PeerResult<Peer> connect(Played& agent) {
  Options options;
  options.heartbeat = 0ms;
  options.timeout = 60s;
  return Peer::over(agent.stream(), options);
}

TEST(Handles, AreReleasedInDependencyOrder) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making making(stub);
    making.all();
    // Destructors run from the device to the QP, but the agent receives the releases in dependency order.
    for (const int object : {4, 2, 3, 1}) making.released(object);
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  {
    QueuePair qp;
    ProtectionDomain pd;
    CompletionQueue cq;
    Device device = Device::open(*peer).value();
    pd = device.protection_domain().value();
    cq = device.completion_queue(16).value();
    qp = pd.queue_pair({.send_cq = &cq}).value();
    EXPECT_EQ(qp.qp_num(), 17);
    EXPECT_EQ(cq.entries(), 31);
  }
  peer->close();
  EXPECT_EQ(peer->unattended().count, 0);
}

TEST(Handles, ReleaseErrorsAreCollected) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making making(stub);
    making.device();
    making.domain();
    stub.expect(R"({"id":5,"do":"destroy","object":2})",
                R"({"id":5,"error":{"errno":16,"name":"EBUSY","message":"destroy: 2 is used"}})");
    stub.expect(R"({"id":6,"do":"destroy","object":2})",
                R"({"id":6,"error":{"errno":16,"name":"EBUSY","message":"destroy: 2 is used"}})");
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  {
    auto pd = Device::open(*peer).value().protection_domain().value();
    EXPECT_EQ(pd.release().error().name, "EBUSY");
    EXPECT_TRUE(pd);
  }
  peer->close();
  EXPECT_EQ(peer->unattended().count, 1);
  EXPECT_EQ(peer->unattended().first->message, "destroy: 2 is used");
}

TEST(Handles, MayOutliveTheirSession) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making making(stub);
    making.device();
    stub.hang_up();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  auto device = Device::open(*peer).value();
  EXPECT_EQ(device.protection_domain().error().kind, PeerError::Kind::lost);
  const Device taken = std::move(device);
  EXPECT_EQ(device.protection_domain().error().message, "alloc_pd: empty handle (moved from or released)");
}

TEST(Device, ReportsItsAddresses) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making(stub).device();
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  const auto device = Device::open(*peer).value();
  EXPECT_EQ(device.name(), "rxe0");
  EXPECT_FALSE(device.iwarp());
  EXPECT_EQ(device.gid().index, 2);
  EXPECT_EQ(device.address(), "10.0.0.2");
  EXPECT_THAT(device.mac(), ElementsAre(0x52, 0x54, 0x00, 0x12, 0x34, 0x56));
  EXPECT_EQ(device.limit("max_qp"), 1048560);
  EXPECT_EQ(device.limit("max_of_nothing"), 0);
  EXPECT_EQ(device.port().netdev, "eth0");
}

TEST(Device, MissingDeviceIsReportedWithReason) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making(stub).expect(R"("do":"devices")", R"({"devices":[],"reason":"load ib_uverbs"})");
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(to_string(Device::open(*peer).error()), "open: the agent has no RDMA device: load ib_uverbs (ENODEV)");
}

TEST(Device, IncompleteResponseIsAnError) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making making(stub);
    making.device();
    making.expect(R"("do":"alloc_pd","device":1)", R"({"PD":2})");
    making.expect(R"("do":"create_cq","cqe":16,"device":1)", R"(["cq",3])");
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  const auto device = Device::open(*peer).value();
  EXPECT_EQ(device.protection_domain().error().message, R"(alloc_pd: the agent's response has no valid "pd")");
  EXPECT_EQ(device.completion_queue(16).error().number, EPROTO);
}

/// Creates an RC QP, then runs `use` with it. The agent runs `asked`.
template <class Use>
void with_queue_pair(const std::function<void(Making&)>& asked, Use use) {
  Played agent([&](Stub& stub) {
    stub.greet();
    Making making(stub);
    making.all();
    asked(making);
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  const auto device = Device::open(*peer).value();
  const auto pd = device.protection_domain().value();
  const auto cq = device.completion_queue(16).value();
  const auto qp = pd.queue_pair({.send_cq = &cq}).value();
  use(*peer, pd, cq, qp);
}

TEST(QueuePair, ConnectsInThreeSteps) {
  with_queue_pair(
      [](Making& making) {
        making.expect(
            R"("do":"modify_qp","access":["remote_write","remote_read","remote_atomic"],"pkey_index":0,"port":1,"qp":4,)"
            R"("state":"init")",
            R"({"state":"init"})");
        making.expect(
            R"("do":"modify_qp","ah_attr":{"grh":{"dgid":"::ffff:10.0.0.1","sgid_index":2},"port":1},"dest_qp_num":99,"max_dest_rd_atomic":1,)"
            R"("min_rnr_timer":12,"path_mtu":1024,"qp":4,"rq_psn":100,"state":"rtr")",
            R"({"state":"rtr"})");
        making.expect(
            R"("do":"modify_qp","max_rd_atomic":1,"qp":4,"retry_cnt":7,"rnr_retry":7,"sq_psn":200,"state":"rts",)"
            R"("timeout":14)",
            R"({"state":"rts"})");
        making.expect(R"("do":"query_qp","qp":4)", R"({"state":"rts","type":"rc"})");
      },
      [](Peer&, const ProtectionDomain&, const CompletionQueue&, const QueuePair& qp) {
        ASSERT_TRUE(qp.connect({.qp_num = 99, .address = "10.0.0.1", .psn = 100, .own_psn = 200}));
        EXPECT_EQ(qp.state().value(), "rts");
      });
}

TEST(QueuePair, StopsAtFirstRejectedStep) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making(stub).all();
    stub.next();
    stub.say(R"({"id":7,"error":{"errno":22,"name":"EINVAL","message":"modify_qp: ibv_modify_qp: Invalid argument"}})");
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  const auto device = Device::open(*peer).value();
  const auto pd = device.protection_domain().value();
  const auto cq = device.completion_queue(16).value();
  const auto qp = pd.queue_pair({.send_cq = &cq}).value();
  EXPECT_EQ(qp.connect({.address = "10.0.0.1"}).error().message, "modify_qp: ibv_modify_qp: Invalid argument");
}

TEST(QueuePair, PostsMembersOfItsOpcode) {
  with_queue_pair(
      [](Making& making) {
        making.expect(R"("do":"register","access":["local_write","remote_write"],"length":64,"pd":2)",
                      R"({"mr":5,"addr":4096,"length":64,"lkey":7,"rkey":8})");
        making.expect(
            R"("do":"post_send","qp":4,"requests":[)"
            R"({"flags":["signaled"],"imm":77,"opcode":"write_imm","remote_addr":1000,"rkey":9,"sges":[{"length":8,"mr":5,)"
            R"("offset":16}],"wr_id":1},)"
            R"({"flags":["signaled","inline"],"opcode":"send","sges":[{"addr":1,"length":2,"lkey":3}],"wr_id":2},)"
            R"({"add":5,"opcode":"fetch_add","remote_addr":1008,"rkey":9,"wr_id":3}])",
            R"({"posted":3})");
        making.expect(R"("do":"post_recv","qp":4,"requests":[{"sges":[{"length":64,"mr":5}],"wr_id":11}])",
                      R"({"posted":1})");
        making.expect(
            R"("do":"poll","cq":3,"max":2,"min":2,"timeout_ms":1000)",
            R"({"completions":[{"wr_id":1,"status":"success","status_number":0,"vendor_err":0,"qp_num":17,)"
            R"("opcode":"write","byte_len":8,"flags":[]},{"wr_id":2,"status":"rem_access_err","status_number":10,)"
            R"("vendor_err":136,"qp_num":17}]})");
      },
      [](Peer&, const ProtectionDomain& pd, const CompletionQueue& cq, const QueuePair& qp) {
        const auto memory = pd.region(64, {"local_write", "remote_write"}).value();
        EXPECT_EQ(memory.rkey(), 8);
        ASSERT_TRUE(qp.post_send({
            {.opcode = "write_imm",
             .wr_id = 1,
             .sges = {memory.piece(16, 8)},
             .remote_addr = 1000,
             .rkey = 9,
             .imm = 77},
            {.opcode = "send",
             .wr_id = 2,
             .sges = {{.addr = 1, .length = 2, .lkey = 3}},
             .flags = {"signaled", "inline"}},
            {.opcode = "fetch_add", .wr_id = 3, .remote_addr = 1008, .rkey = 9, .add = 5, .flags = {}},
        }));
        ASSERT_TRUE(qp.post_recv({{.wr_id = 11, .sges = {memory.piece(0, 64)}}}));
        const auto completions = cq.poll(2, 1s).value();
        ASSERT_EQ(completions.size(), 2);
        EXPECT_TRUE(completions[0].good());
        EXPECT_EQ(completions[0].opcode, "write");
        EXPECT_EQ(completions[1].status, "rem_access_err");
        EXPECT_EQ(completions[1].vendor_err, 136);
      });
}

TEST(Region, LongTransfersAreSplitIntoLines) {
  const std::string much(1'900'000, 'a');
  with_queue_pair(
      [&](Making& making) {
        making.expect(R"("do":"register","access":["local_write"],"length":2000000,"pd":2)",
                      R"({"mr":5,"addr":0,"length":2000000,"lkey":7,"rkey":8})");
        making.expect(
            R"("do":"write","bytes":")" + rpc::to_hex(ByteVector(much.begin(), much.end())) + R"(","mr":5,"offset":10)",
            R"({"length":1900000})");
        making.expect(R"("do":"write","bytes":"6161","mr":5,"offset":1900010)", R"({"length":2})");
        making.expect(R"("do":"read","length":1900000,"mr":5)",
                      R"({"bytes":")" + rpc::to_hex(ByteVector(much.begin(), much.end())) + "\"}");
        making.expect(R"("do":"read","length":1,"mr":5,"offset":1900000)", R"({"bytes":"62"})");
        making.expect(R"("do":"checksum","length":100,"mr":5,"offset":3)", R"({"crc32":3735928559,"length":100})");
        making.expect(R"("do":"fill","mr":5,"pattern":"counter","value":1)", R"({"length":2000000})");
        making.expect(R"("do":"read","length":4,"mr":5)", R"({"bytes":"0102"})");
      },
      [](Peer&, const ProtectionDomain& pd, const CompletionQueue&, const QueuePair&) {
        const auto memory = pd.region(2'000'000).value();
        ASSERT_TRUE(memory.write(10, ByteVector(1'900'002, 'a')));
        const ByteVector read = memory.read(0, 1'900'001).value();
        EXPECT_EQ(read.size(), 1'900'001);
        EXPECT_EQ(read.back(), 'b');
        EXPECT_EQ(memory.checksum(3, 100).value(), 0xdeadbeef);
        ASSERT_TRUE(memory.fill("counter", 1));
        EXPECT_EQ(memory.read(0, 4).error().number, EPROTO);  // fewer than requested
      });
}

TEST(ConnectionManager, RequestsWaitsAndAccepts) {
  Played agent([](Stub& stub) {
    stub.greet();
    Making making(stub);
    making.all();
    making.expect(R"("do":"cm_listen","port":7471)", R"({"cm_id":6,"port":7471})");
    making.expect(R"("do":"cm_connect","address":"10.0.0.2","port":7471,"port_space":"tcp",)"
                  R"("private_data":"6869","qp":4)",
                  R"({"cm_id":7})");
    stub.say(R"({"event":"cm","cm_id":7,"type":"addr_resolved"})");
    stub.say(R"({"event":"cm","cm_id":8,"type":"connect_request","listener":6,"private_data":"6869","qp_num":17})");
    making.expect(R"("do":"cm_reject","cm_id":8,"private_data":"6e6f")", "{}");
    stub.say(R"({"event":"cm","cm_id":7,"type":"rejected","reason":28,"private_data":"6e6f"})");
    making.released(8);
    making.expect(R"("do":"cm_disconnect","cm_id":7)", "{}");
    stub.farewell();
  });
  auto peer = connect(agent);
  ASSERT_TRUE(peer) << peer.error().message;
  const auto device = Device::open(*peer).value();
  const auto pd = device.protection_domain().value();
  const auto cq = device.completion_queue(16).value();
  const auto qp = pd.queue_pair({.send_cq = &cq}).value();
  const auto listener = Listener::listen(*peer, {.port = 7471}).value();
  const auto caller =
      CmConnection::connect(*peer, qp, {.address = "10.0.0.2", .port = 7471}, {.private_data = {'h', 'i'}}).value();
  {
    const auto request = listener.request(5s).value();
    EXPECT_THAT(request.request().private_data, ElementsAre('h', 'i'));
    ASSERT_TRUE(request.reject(ByteVector{'n', 'o'}));
    const auto established = caller.wait_established(5s);
    ASSERT_FALSE(established);
    EXPECT_EQ(established.error().message, "expected CM event established, received rejected, reason 28");
  }
  ASSERT_TRUE(caller.disconnect());
  EXPECT_EQ(caller.next_event(0ms).error().kind, PeerError::Kind::timeout);
}

}  // namespace
}  // namespace rdmawire::peer
