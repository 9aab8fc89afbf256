#pragma once
/// A controller in the same process, without a socket, for tests. Its clock advances only when there is no other event.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "conformance/agent/conversation.hpp"
#include "conformance/agent/fake_verbs/fake_verbs.hpp"

namespace rdmawire::agent {

/// Event loop, time and settings, shared by the controllers of a test.
struct Bench {
  Bench() { settings.threads = false; }
  Loop::Time time = 0;
  bool real_time = false;  ///< use the system clock, required for threads
  Loop loop{[this] { return real_time ? Loop::monotonic() : time; }};
  Settings settings;

  /// Runs one turn of the loop. Advances the clock by one millisecond if there was no event.
  void step() {
    if (loop.turn(real_time ? Loop::millisecond : 0) == 0) time += Loop::millisecond;
  }
};

class Controller {
 public:
  explicit Controller(Bench& bench)
      : bench_(&bench),
        conversation_(bench.loop, bench.settings, [this](std::string line) { lines.push_back(std::move(line)); }) {}

  /// Passes a line to the agent.
  void send(const std::string& line) { conversation_.receive(line + "\n"); }

  /// Sends a request, waits for the response, and returns it with its `id`.
  Json ask(const std::string& what, const Json& arguments = Json::object()) {
    const int id = ++last_id_;
    Json line = {{"id", id}, {"do", what}};
    line.update(arguments);
    send(line.dump());
    for (int i = 0; i < 100'000; ++i) {
      if (auto answer = take_answer(id)) return *answer;
      bench_->step();
    }
    ADD_FAILURE() << what << " got no response";
    return {};
  }
  /// Sends a request and returns the result. An error fails the test.
  Json result(const std::string& what, const Json& arguments = Json::object()) {
    Json answer = ask(what, arguments);
    EXPECT_TRUE(answer.contains("result")) << what << " " << arguments << ": " << answer;
    return answer.value("result", Json::object());
  }
  /// Sends a request and returns name and message of its error, separated by a colon.
  std::string error(const std::string& what, const Json& arguments = Json::object()) {
    const Json answer = ask(what, arguments);
    if (!answer.contains("error")) return "no error: " + answer.dump();
    return answer["error"]["name"].get<std::string>() + ": " + answer["error"]["message"].get<std::string>();
  }
  std::string hello() { return result("hello", {{"protocol", 1}}).dump(); }

  /// Waits for an event of this kind.
  Json event(const std::string& kind) {
    for (int i = 0; i < 20'000; ++i) {
      for (auto at = lines.begin(); at != lines.end(); ++at) {
        Json json = Json::parse(*at);
        if (!json.contains("event") || json["event"] != kind) continue;
        lines.erase(at);
        return json;
      }
      bench_->step();
    }
    ADD_FAILURE() << "no event " << kind;
    return {};
  }

  Conversation& conversation() { return conversation_; }

  std::vector<std::string> lines;  ///< received lines, not yet processed

 private:
  std::optional<Json> take_answer(int id) {
    for (auto at = lines.begin(); at != lines.end(); ++at) {
      Json json = Json::parse(*at);
      if (!json.contains("id") || json["id"] != id) continue;
      lines.erase(at);
      return json;
    }
    return std::nullopt;
  }

  Bench* bench_;
  int last_id_ = 0;
  Conversation conversation_;
};

/// A test with a fake device. Checks that all objects are released at the end.
class AgentTest : public testing::Test {
 protected:
  void SetUp() override { fake_verbs::reset(); }
  void TearDown() override {
    controller.conversation().lost();
    EXPECT_EQ(fake_verbs::alive(), 0U);
    fake_verbs::reset();
  }

  /// Starts a session with a device, a PD and a CQ.
  void begin() {
    controller.hello();
    device = controller.result("open", {{"name", "fake0"}})["device"];
    pd = controller.result("alloc_pd", {{"device", device}})["pd"];
    cq = controller.result("create_cq", {{"device", device}, {"cqe", 64}})["cq"];
  }
  Json region(const Json& access = {"local_write", "remote_write", "remote_read", "remote_atomic"}, int length = 4096) {
    return controller.result("register", {{"pd", pd}, {"length", length}, {"access", access}});
  }
  Json queue_pair(const Json& more = Json::object()) {
    Json arguments = {{"type", "rc"}, {"pd", pd}, {"send_cq", cq}, {"recv_cq", cq}};
    arguments.update(more);
    return controller.result("create_qp", arguments);
  }
  void bring_up(const Json& qp, const Json& peer) {
    controller.result(
        "modify_qp",
        {{"qp", qp["qp"]}, {"state", "init"}, {"pkey_index", 0}, {"port", 1}, {"access", {"remote_write"}}});
    controller.result(
        "modify_qp",
        {{"qp", qp["qp"]}, {"state", "rtr"}, {"dest_qp_num", peer["qp_num"]}, {"path_mtu", 1024}, {"rq_psn", 7}});
    controller.result("modify_qp",
                      {{"qp", qp["qp"]}, {"state", "rts"}, {"sq_psn", 7}, {"timeout", 14}, {"retry_cnt", 7}});
  }
  Json post(const Json& qp, Json request) {
    request["flags"] = request.value("flags", Json{"signaled"});
    return controller.ask("post_send", {{"qp", qp["qp"]}, {"requests", Json::array({request})}});
  }
  Json poll(int least = 1) {
    return controller.result("poll", {{"cq", cq}, {"min", least}, {"timeout_ms", 20}})["completions"];
  }

  Bench bench;
  Controller controller{bench};
  Json device, pd, cq;
};

}  // namespace rdmawire::agent
