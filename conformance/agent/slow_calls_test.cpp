// Other commands run while a call blocks in the kernel. The call leaves no objects.

#include "conformance/agent/slow_calls.hpp"

#include <thread>

#include "conformance/agent/fake_verbs/rdmacm.hpp"
#include "conformance/agent/testing.hpp"

namespace rdmawire::agent {
namespace {

class Held : public AgentTest {
 protected:
  void SetUp() override {
    AgentTest::SetUp();
    bench.real_time = bench.settings.threads = true;
  }
  void TearDown() override {
    fake_verbs::release_calls();
    controller.conversation().lost();
    fake_verbs::act_as_iwarp(false);
    EXPECT_EQ(fake_verbs::cm_alive(), 0U);
    AgentTest::TearDown();
  }
  template <class Condition>
  bool until(Condition condition) {
    for (int i = 0; i < 20'000 && !condition(); ++i) bench.step();
    return condition();
  }
  /// Sends a command without waiting for the response.
  void send(int id, const std::string& what, const Json& arguments) {
    Json line = {{"id", id}, {"do", what}};
    line.update(arguments);
    controller.send(line.dump());
  }
  std::optional<Json> answer(int id) {
    for (const std::string& line : controller.lines) {
      Json json = Json::parse(line);
      if (json.value("id", 0) == id) return json;
    }
    return std::nullopt;
  }
  Json wait_for(int id) {
    EXPECT_TRUE(until([&] { return answer(id).has_value(); })) << id;
    return answer(id).value_or(Json::object());
  }
  [[nodiscard]] Json address() const {
    return {{"pd", pd}, {"port", 1}, {"grh", {{"dgid", "::ffff:10.0.0.9"}, {"sgid_index", 1}}}};
  }
  bool held(unsigned count) {
    return until([&] { return fake_verbs::held_calls() == count; });
  }
  /// Starts a connection whose establishment blocks.
  Json hanging_connection(const Json& qp) {
    fake_verbs::act_as_iwarp(true);
    fake_verbs::block_calls("rdma_connect", true);
    const Json id =
        controller.result("cm_connect", {{"address", "10.0.0.2"}, {"port", 7471}, {"qp", qp["qp"]}})["cm_id"];
    EXPECT_TRUE(held(1));
    return id;
  }
};

TEST_F(Held, OtherCommandsDoNotWait) {
  begin();
  fake_verbs::block_calls("ibv_create_ah", false);
  send(900, "create_ah", address());
  ASSERT_TRUE(held(1));
  region();  // a command on the same PD does not wait
  Controller other(bench);
  other.hello();
  const Json theirs = other.result("open", {{"name", "fake0"}})["device"];
  other.result("alloc_pd", {{"device", theirs}});
  EXPECT_FALSE(answer(900));
  fake_verbs::release_calls();
  const Json made = wait_for(900);
  ASSERT_TRUE(made.contains("result")) << made;
  controller.result("destroy", {{"object", made["result"]["ah"]}});
}

TEST_F(Held, CommandsForSameQueuePairAreDeferred) {
  begin();
  const Json qp = queue_pair();
  controller.result("modify_qp",
                    {{"qp", qp["qp"]}, {"state", "init"}, {"pkey_index", 0}, {"port", 1}, {"access", Json::array()}});
  fake_verbs::block_calls("ibv_modify_qp", false);
  send(900, "modify_qp",
       {{"qp", qp["qp"]},
        {"state", "rtr"},
        {"dest_qp_num", 17},
        {"ah_attr", {{"grh", {{"dgid", "::ffff:10.0.0.9"}, {"sgid_index", 1}}}}}});
  send(901, "query_qp", {{"qp", qp["qp"]}});
  send(902, "destroy", {{"object", qp["qp"]}});
  ASSERT_TRUE(held(1));
  controller.result("ping");
  EXPECT_FALSE(answer(900) || answer(901) || answer(902));
  fake_verbs::release_calls();
  EXPECT_EQ(wait_for(900)["result"]["state"], "rtr");
  EXPECT_EQ(wait_for(901)["result"]["state"], "rtr");
  EXPECT_TRUE(wait_for(902).contains("result"));
}

TEST_F(Held, DestroyInterruptsConnectionEstablishment) {
  begin();
  const Json qp = queue_pair();
  const Json id = hanging_connection(qp);
  EXPECT_TRUE(controller.ask("destroy", {{"object", id}}).contains("result"));
  Json event;
  do {
    event = controller.event("cm");
  } while (event.value("type", "failed") != "failed");
  EXPECT_EQ(event["step"], "connect");
  EXPECT_EQ(event["name"], "ECANCELED");
  EXPECT_EQ(fake_verbs::held_calls(), 0U);
  EXPECT_EQ(fake_verbs::cm_alive(), 1U);  // the channel
  controller.result("destroy", {{"object", qp["qp"]}});
}

TEST_F(Held, ReleasedCallCompletes) {
  begin();
  const Json asking = queue_pair(), answering = queue_pair();
  controller.result("cm_listen", {{"address", "10.0.0.2"}, {"port", 7471}});
  hanging_connection(asking);
  fake_verbs::release_calls();
  Json event;
  do {
    event = controller.event("cm");
  } while (event.value("type", "connect_request") != "connect_request");
  controller.result("cm_accept", {{"cm_id", event["cm_id"]}, {"qp", answering["qp"]}});
  EXPECT_EQ(controller.event("cm")["type"], "established");
}

TEST_F(Held, ObjectInUseByCallIsDestroyedAfterIt) {
  begin();
  fake_verbs::block_calls("ibv_create_ah", false);
  send(900, "create_ah", address());
  send(901, "destroy", {{"object", pd}});
  ASSERT_TRUE(held(1));
  controller.result("ping");
  EXPECT_FALSE(answer(901));
  fake_verbs::release_calls();
  EXPECT_TRUE(wait_for(900).contains("result"));
  EXPECT_EQ(wait_for(901)["error"]["name"], "EBUSY");
}

TEST_F(Held, ResetEndsCallsWithoutResponse) {
  begin();
  hanging_connection(queue_pair());
  controller.lines.clear();
  EXPECT_EQ(controller.result("reset")["released"], 6);
  EXPECT_TRUE(controller.lines.empty()) << controller.lines.front();
  EXPECT_EQ(fake_verbs::alive(), 0U);
  // A new session can make the same call again.
  fake_verbs::release_calls();
  begin();
  controller.result("create_ah", address());
}

TEST_F(Held, LostControllerInterruptsCalls) {
  begin();
  hanging_connection(queue_pair());
  controller.conversation().lost();
  EXPECT_EQ(fake_verbs::held_calls(), 0U);
  EXPECT_EQ(fake_verbs::alive(), 0U);
  EXPECT_EQ(fake_verbs::cm_alive(), 0U);
}

TEST_F(Held, UninterruptibleCallsAreAwaited) {
  begin();
  fake_verbs::block_calls("ibv_create_ah", false);
  for (int i = 0; i < 40; ++i) send(900 + i, "create_ah", address());
  ASSERT_TRUE(held(SlowCalls::most_threads));
  std::thread letting(fake_verbs::release_calls);
  controller.conversation().lost();
  letting.join();
  EXPECT_EQ(fake_verbs::alive(), 0U);
}

TEST_F(Held, CallsBeyondThreadLimitAreQueued) {
  begin();
  fake_verbs::block_calls("ibv_create_ah", false);
  for (int i = 0; i < 40; ++i) send(900 + i, "create_ah", address());
  ASSERT_TRUE(held(SlowCalls::most_threads));
  fake_verbs::release_calls();
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(wait_for(900 + i).contains("result")) << i;
}

TEST_F(Held, LostControllerReleasesAllObjectsAtAnyTime) {
  for (int most = 0; most < 40; ++most) {
    begin();
    const Json asking = queue_pair();
    controller.result("cm_listen", {{"address", "10.0.0.2"}, {"port", 7471}});
    controller.result("cm_connect", {{"address", "10.0.0.2"}, {"port", 7471}, {"qp", asking["qp"]}});
    send(900, "create_ah", address());
    for (int step = 0; step < most; ++step) bench.loop.turn(0);
    controller.conversation().lost();
    ASSERT_EQ(fake_verbs::alive(), 0U) << most;
    ASSERT_EQ(fake_verbs::cm_alive(), 0U) << most;
    controller.lines.clear();
  }
}

}  // namespace
}  // namespace rdmawire::agent
