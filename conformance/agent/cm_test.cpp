/// RDMA CM connections with the fakes of librdmacm and libibverbs.

#include "conformance/agent/fake_verbs/rdmacm.hpp"
#include "conformance/agent/testing.hpp"

namespace rdmawire::agent {
namespace {

class Connecting : public AgentTest {
 protected:
  void TearDown() override {
    fake_verbs::fail_cm_call(0, 0);
    fake_verbs::act_as_iwarp(false);
    AgentTest::TearDown();
    EXPECT_EQ(fake_verbs::cm_alive(), 0U);
  }
  /// Waits for the next CM event and checks its type.
  Json told(const std::string& type) {
    Json event = controller.event("cm");
    EXPECT_EQ(event.value("type", ""), type) << event;
    return event;
  }
  Json listen(const Json& more = Json::object()) {
    Json arguments = {{"address", "10.0.0.2"}, {"port", 7471}};
    arguments.update(more);
    return controller.result("cm_listen", arguments)["cm_id"];
  }
  /// Connects until the request arrives at the listener.
  Json call(const Json& qp, const Json& more = Json::object()) {
    Json arguments = {{"address", "10.0.0.2"}, {"port", 7471}, {"qp", qp["qp"]}};
    arguments.update(more);
    const Json id = controller.result("cm_connect", arguments)["cm_id"];
    told("addr_resolved");
    told("route_resolved");
    return id;
  }
  std::string state(const Json& qp) { return controller.result("query_qp", {{"qp", qp["qp"]}})["state"]; }
};

TEST_F(Connecting, QueuePairsOfSessionAreConnected) {
  begin();
  const Json asking = queue_pair(), answering = queue_pair();
  const Json listener = listen();
  const Json caller = call(asking, {{"private_data", "6869"}});
  EXPECT_EQ(state(asking), "init");
  const Json request = told("connect_request");
  EXPECT_EQ(request["listener"], listener);
  EXPECT_EQ(request["device"], "fake0");
  EXPECT_EQ(request["private_data"], "6869");
  EXPECT_EQ(request["qp_num"], asking["qp_num"]);
  EXPECT_EQ(request["local_port"], 7471);
  controller.result("cm_accept", {{"cm_id", request["cm_id"]}, {"qp", answering["qp"]}, {"private_data", "796f"}});
  EXPECT_EQ(state(answering), "rts");

  const Json here = told("established");
  EXPECT_EQ(here["cm_id"], caller);
  EXPECT_EQ(here["private_data"], "796f");
  EXPECT_EQ(here["qp_num"], answering["qp_num"]);
  EXPECT_EQ(told("established")["cm_id"], request["cm_id"]);
  EXPECT_EQ(state(asking), "rts");
  EXPECT_EQ(controller.result("query_qp", {{"qp", asking["qp"]}})["dest_qp_num"], answering["qp_num"]);
  EXPECT_EQ(controller.result("query_qp", {{"qp", answering["qp"]}})["dest_qp_num"], asking["qp_num"]);

  controller.result("cm_disconnect", {{"cm_id", caller}});
  EXPECT_EQ(told("disconnected")["cm_id"], request["cm_id"]);
  EXPECT_EQ(told("disconnected")["cm_id"], caller);
  EXPECT_EQ(state(asking), "err");
  EXPECT_EQ(state(answering), "err");
}

TEST_F(Connecting, IwarpConnectionsAreEstablishedByTheKernel) {
  fake_verbs::act_as_iwarp(true);
  begin();
  const Json asking = queue_pair(), answering = queue_pair();
  listen();
  const Json caller = call(asking);
  const Json request = told("connect_request");
  controller.result("cm_accept", {{"cm_id", request["cm_id"]}, {"qp", answering["qp"]}, {"private_data", "796f"}});
  const Json here = told("established");
  EXPECT_EQ(here["cm_id"], caller);
  EXPECT_EQ(here["private_data"], "796f");
  told("established");
  // The agent did not change the QP state. The kernel would, if this were a real iWARP device.
  EXPECT_EQ(state(asking), "init");
}

TEST_F(Connecting, RejectContainsReason) {
  begin();
  const Json qp = queue_pair();
  listen();
  const Json caller = call(qp);
  const Json request = told("connect_request");
  controller.result("cm_reject", {{"cm_id", request["cm_id"]}, {"private_data", "6e6f"}});
  const Json rejected = told("rejected");
  EXPECT_EQ(rejected["cm_id"], caller);
  EXPECT_EQ(rejected["reason"], 28);
  EXPECT_EQ(rejected["private_data"], "6e6f");
  EXPECT_EQ(state(qp), "err");
  EXPECT_EQ(controller.error("cm_accept", {{"cm_id", request["cm_id"]}, {"qp_num", 17}}),
            "EINVAL: cm_accept: rdma_accept: Invalid argument");
}

TEST_F(Connecting, MissingListenerIsReported) {
  begin();
  call(queue_pair());
  EXPECT_EQ(told("rejected")["reason"], 8);
}

TEST_F(Connecting, MissingRouteIsReported) {
  begin();
  controller.result("cm_connect", {{"address", "192.0.2.1"}, {"port", 1}, {"qp_num", 17}});
  const Json error = told("addr_error");
  EXPECT_EQ(error["errno"], EHOSTUNREACH);
  EXPECT_EQ(error["name"], "EHOSTUNREACH");
}

TEST_F(Connecting, ControllerEstablishesConnectionItself) {
  begin();
  const Json asking = queue_pair(), answering = queue_pair();
  listen();
  const Json caller = call(asking, {{"establish", false}});
  EXPECT_EQ(controller.error("cm_establish", {{"cm_id", caller}}),
            "ENOTCONN: cm_establish: cm_id: no pending response from the peer");
  const Json request = told("connect_request");
  controller.result("cm_accept", {{"cm_id", request["cm_id"]}, {"qp", answering["qp"]}});
  EXPECT_EQ(told("connect_response")["cm_id"], caller);
  EXPECT_EQ(state(asking), "init");
  controller.result("cm_establish", {{"cm_id", caller}});
  EXPECT_EQ(state(asking), "rts");
  EXPECT_EQ(told("established")["cm_id"], request["cm_id"]);
}

TEST_F(Connecting, ExternalQueuePairNumberIsAccepted) {
  begin();
  listen();
  const Json id =
      controller.result("cm_connect", {{"address", "10.0.0.2"}, {"port", 7471}, {"qp_num", 0xabcdef}})["cm_id"];
  told("addr_resolved");
  told("route_resolved");
  const Json request = told("connect_request");
  EXPECT_EQ(request["qp_num"], 0xabcdef);
  controller.result("cm_accept", {{"cm_id", request["cm_id"]}, {"qp_num", 5}});
  EXPECT_EQ(told("established")["qp_num"], 5);
  EXPECT_EQ(told("established")["cm_id"], request["cm_id"]);
}

TEST_F(Connecting, DatagramQueuePairIsResolved) {
  begin();
  const Json asking = queue_pair({{"type", "ud"}}), answering = queue_pair({{"type", "ud"}});
  listen({{"port_space", "udp"}});
  call(asking, {{"port_space", "udp"}, {"private_data", "01"}});
  EXPECT_EQ(state(asking), "rts");
  const Json request = told("connect_request");
  EXPECT_EQ(request["private_data"], "01");
  controller.result("cm_accept", {{"cm_id", request["cm_id"]}, {"qp", answering["qp"]}});
  EXPECT_EQ(state(answering), "rts");
  Json found = told("established");
  EXPECT_EQ(found["qp_num"], answering["qp_num"]);
  EXPECT_EQ(found["qkey"], 0x01234567);
  // The reported `ah` is a valid argument of create_ah.
  Json handle = found["ah"];
  EXPECT_EQ(handle["grh"]["dgid"], "::ffff:10.0.0.2");
  handle["pd"] = pd;
  controller.result("create_ah", handle);
}

TEST_F(Connecting, MulticastGroupIsJoined) {
  begin();
  const Json qp = queue_pair({{"type", "ud"}});
  const Json id =
      controller.result("cm_join", {{"address", "239.1.2.3"}, {"source", "10.0.0.2"}, {"qp", qp["qp"]}})["cm_id"];
  told("addr_resolved");
  const Json joined = told("multicast_join");
  EXPECT_EQ(joined["qp_num"], 0xffffff);
  EXPECT_EQ(joined["ah"]["grh"]["dgid"], "ff0e::ffff:ef01:203");
  controller.result("destroy", {{"object", id}});
}

TEST_F(Connecting, InvalidArgumentsAreRejected) {
  begin();
  const Json qp = queue_pair();
  EXPECT_EQ(controller.error("cm_listen", {{"address", "nowhere"}}),
            "EINVAL: cm_listen: address: is not an IPv4 or IPv6 address");
  const Json listener = listen();
  EXPECT_EQ(controller.error("cm_listen", {{"port", 7471}}),
            "EADDRINUSE: cm_listen: rdma_bind_addr: Address already in use");
  EXPECT_EQ(controller.error("cm_connect", {{"address", "10.0.0.2"}, {"port", 1}}),
            "EINVAL: cm_connect: qp: either qp or qp_num is required");
  EXPECT_EQ(controller.error("cm_connect", {{"address", "10.0.0.2"}, {"port", 1}, {"qp", qp["qp"]}, {"qp_num", 1}}),
            "EINVAL: cm_connect: qp_num: cannot be combined with qp");
  EXPECT_EQ(controller.error("cm_accept", {{"cm_id", listener}, {"qp", qp["qp"]}}),
            "EINVAL: cm_accept: cm_id: is not a connection request");
  EXPECT_EQ(controller.error("cm_disconnect", {{"cm_id", listener}}),
            "EINVAL: cm_disconnect: cm_id: is not a connection");
  EXPECT_EQ(controller.error("cm_disconnect", {{"cm_id", qp["qp"]}}).substr(0, 6), "EINVAL");
}

TEST_F(Connecting, DestroyedQueuePairIsAnErrorEvent) {
  begin();
  const Json asking = queue_pair(), answering = queue_pair();
  listen();
  const Json caller = controller.result("cm_connect", {{"address", "10.0.0.2"}, {"port", 7471}, {"qp", asking["qp"]}});
  controller.result("destroy", {{"object", asking["qp"]}});
  told("addr_resolved");
  told("route_resolved");
  const Json failed = told("failed");
  EXPECT_EQ(failed["cm_id"], caller["cm_id"]);
  EXPECT_EQ(failed["step"], "connect");
  EXPECT_EQ(failed["name"], "ENOENT");
}

// Disconnects the controller after each possible number of turns of the loop.
TEST_F(Connecting, LostControllerReleasesAllObjectsAtAnyTime) {
  for (int most = 0; most < 40; ++most) {
    begin();
    const Json asking = queue_pair(), answering = queue_pair();
    listen();
    controller.result("cm_connect", {{"address", "10.0.0.2"}, {"port", 7471}, {"qp", asking["qp"]}});
    for (int step = 0; step < most; ++step) {
      bench.step();
      for (const std::string& line : std::exchange(controller.lines, {})) {
        const Json event = Json::parse(line);
        if (event.value("type", "") == "connect_request")
          controller.send(
              Json({{"id", 0}, {"do", "cm_accept"}, {"cm_id", event["cm_id"]}, {"qp", answering["qp"]}}).dump());
        if (event.value("type", "") == "established" && most % 2 == 0)
          controller.send(Json({{"id", 0}, {"do", "cm_disconnect"}, {"cm_id", event["cm_id"]}}).dump());
      }
    }
    controller.conversation().lost();
    ASSERT_EQ(fake_verbs::alive(), 0U) << most;
    ASSERT_EQ(fake_verbs::cm_alive(), 0U) << most;
    controller.lines.clear();
  }
}

// Another librdmacm call fails in each pass.
TEST_F(Connecting, FailedCallReleasesAllObjects) {
  unsigned calls = 0;
  for (unsigned nth = 0; nth <= calls; ++nth) {
    begin();
    const Json asking = queue_pair(), answering = queue_pair();
    fake_verbs::fail_cm_call(nth, ENOMEM);
    std::string said;
    const auto ask = [&](const std::string& what, const Json& arguments) {
      const Json answer = controller.ask(what, arguments);
      said += answer.dump();
      return answer.value("result", Json::object());
    };
    ask("cm_listen", {{"address", "10.0.0.2"}, {"port", 7471}});
    const Json caller = ask("cm_connect", {{"address", "10.0.0.2"}, {"port", 7471}, {"qp", asking["qp"]}});
    for (int step = 0; step < 40; ++step) {
      bench.step();
      for (const std::string& line : std::exchange(controller.lines, {})) {
        said += line;
        const Json event = Json::parse(line);
        if (event.value("type", "") == "connect_request")
          ask("cm_accept", {{"cm_id", event["cm_id"]}, {"qp", answering["qp"]}});
        if (event.value("type", "") == "established" && event["cm_id"] == caller.value("cm_id", Json()))
          ask("cm_disconnect", {{"cm_id", event["cm_id"]}});
      }
    }
    // Pass 0 counts the calls, and none fails.
    if (nth < 2) {
      EXPECT_NE(said.find(nth == 0 ? "disconnected" : "ENOMEM"), std::string::npos) << said;
    }
    controller.conversation().lost();
    if (nth == 0) calls = fake_verbs::cm_calls();
    fake_verbs::fail_cm_call(0, 0);
    ASSERT_EQ(fake_verbs::alive(), 0U) << nth << said;
    ASSERT_EQ(fake_verbs::cm_alive(), 0U) << nth << said;
    controller.lines.clear();
  }
  EXPECT_GT(calls, 15U);
}

}  // namespace
}  // namespace rdmawire::agent
