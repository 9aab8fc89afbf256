/// Protocol layer: lines, ids, hello, sessions.

#include "conformance/agent/conversation.hpp"

#include "conformance/agent/testing.hpp"

namespace rdmawire::agent {
namespace {

using Conversing = AgentTest;

TEST_F(Conversing, HelloReturnsIdentification) {
  const Json hello = controller.result("hello", {{"protocol", 1}, {"controller", "test"}});
  EXPECT_EQ(hello["protocol"], 1);
  EXPECT_EQ(hello["agent"], "rdmawire-agent 0");
  EXPECT_TRUE(hello["privileged"].is_boolean());
}

TEST_F(Conversing, ResponsesHaveDocumentedForm) {
  controller.hello();
  controller.send(R"({"id":"a","do":"reset"})");
  ASSERT_EQ(controller.lines.size(), 1U);
  EXPECT_EQ(controller.lines[0], R"({"id":"a","result":{"released":0}})");
}

TEST_F(Conversing, CommandsRequireHello) {
  EXPECT_EQ(controller.error("ping"), "EPROTO: ping: requires hello");
  EXPECT_EQ(controller.error("hello", {{"protocol", 2}}),
            "EPROTONOSUPPORT: hello: protocol: the agent supports version 1, not 2");
  EXPECT_EQ(controller.error("ping"), "EPROTO: ping: requires hello");
  EXPECT_EQ(controller.error("hello"), "EINVAL: hello: protocol: missing required argument");
  EXPECT_EQ(controller.error("hello", {{"protocol", 1}, {"heart", 1}}),
            "EINVAL: hello: \"heart\": unknown argument; expected protocol, controller, heartbeat_ms");
}

TEST_F(Conversing, MalformedLinesAreAnsweredWithoutId) {
  controller.hello();
  const auto answer = [&](const std::string& line) {
    controller.lines.clear();
    controller.send(line);
    return controller.lines.empty() ? "" : controller.lines[0];
  };
  const std::string begin = R"({"id":null,"error":{"errno":74,"name":"EBADMSG","message":")";
  EXPECT_EQ(answer("what?"), begin + R"(the line is not valid JSON"}})");
  EXPECT_EQ(answer("[1]"), begin + R"(the line is not a JSON object"}})");
  EXPECT_EQ(answer("{\"id\":1,\"do\":\"\xff\"}"), begin + R"(the line is not valid JSON"}})");
  EXPECT_EQ(answer(R"({"do":"ping"})"), begin + R"(missing \"id\", a number or a string of at most 256 bytes"}})");
  EXPECT_EQ(answer(R"({"id":[1],"do":"ping"})"),
            begin + R"(missing \"id\", a number or a string of at most 256 bytes"}})");
  EXPECT_EQ(answer(std::string(100'000, '[')), begin + R"(the line is nested more than 16 levels deep"}})");
  EXPECT_EQ(answer(R"({"id":7})"),
            R"({"id":7,"error":{"errno":74,"name":"EBADMSG","message":"missing \"do\", the name of a command"}})");
  EXPECT_EQ(answer(R"({"id":7,"do":"dance"})"),
            R"({"id":7,"error":{"errno":38,"name":"ENOSYS","message":"do: unknown command \"dance\""}})");
  EXPECT_EQ(answer(""), "");
  EXPECT_EQ(answer("\r"), "");
  // The session continues.
  EXPECT_EQ(controller.result("ping")["objects"], 0);
}

TEST_F(Conversing, LinesAreReassembled) {
  controller.hello();
  for (const char c : std::string("{\"id\":1,\"do\":\"reset\"}\r\n{\"id\":2,"))
    controller.conversation().receive({&c, 1});
  controller.conversation().receive("\"do\":\"reset\"}\n{\"id\":3,\"do\":\"reset\"}\n");
  ASSERT_EQ(controller.lines.size(), 3U);
  EXPECT_EQ(controller.lines[2], R"({"id":3,"result":{"released":0}})");
}

TEST_F(Conversing, OverlongLineIsSkipped) {
  controller.hello();
  controller.conversation().receive("{\"id\":1,\"do\":\"ping\",\"x\":\"");
  const std::string part(1 << 20, 'x');
  for (int i = 0; i < 20; ++i) {
    controller.conversation().receive(part);
    EXPECT_LE(controller.conversation().waiting(), most_line + part.size());
  }
  controller.conversation().receive("\"}\n");
  ASSERT_EQ(controller.lines.size(), 1U);
  EXPECT_EQ(
      controller.lines[0],
      R"({"id":null,"error":{"errno":90,"name":"EMSGSIZE","message":"the line exceeds 4194304 bytes; the rest is skipped"}})");
  EXPECT_EQ(controller.result("reset")["released"], 0);
}

TEST_F(Conversing, LongestLineIsAccepted) {
  controller.hello();
  std::string line = R"({"id":1,"do":"destroy","object":1,"x":")";
  line += std::string(most_line - line.size() - 2, 'x') + "\"}";
  ASSERT_EQ(line.size(), most_line);
  controller.send(line);
  ASSERT_EQ(controller.lines.size(), 1U);
  EXPECT_NE(controller.lines[0].find("unknown argument"), std::string::npos);
}

TEST_F(Conversing, EverySessionEndReleasesObjects) {
  for (const std::string how : {"bye", "hello", "reset", "lost"}) {
    begin();
    region();
    queue_pair();
    EXPECT_EQ(fake_verbs::alive(), 5U);
    if (how == "bye") {
      EXPECT_EQ(controller.result("bye")["released"], 5);
    }
    if (how == "reset") {
      EXPECT_EQ(controller.result("reset")["released"], 5);
    }
    if (how == "hello") controller.hello();
    if (how == "lost") controller.conversation().lost();
    EXPECT_EQ(fake_verbs::alive(), 0U) << how;
    if (how == "bye" || how == "lost") {
      EXPECT_EQ(controller.error("ping"), "EPROTO: ping: requires hello");
    }
  }
}

TEST_F(Conversing, HandlesAreNotReused) {
  begin();
  const Json first = region();
  controller.result("destroy", {{"object", first["mr"]}});
  EXPECT_GT(region()["mr"].get<int>(), first["mr"].get<int>());
  controller.result("reset");
  EXPECT_GT(controller.result("open", {{"name", "fake0"}})["device"].get<int>(), first["mr"].get<int>());
}

TEST_F(Conversing, SessionsAreIsolated) {
  Controller other(bench);
  other.hello();
  begin();
  EXPECT_EQ(other.error("alloc_pd", {{"device", device}}), "ENOENT: alloc_pd: device: no object 1");
  const Json own = other.result("open", {{"name", "fake0"}});
  EXPECT_EQ(own["device"], 1);
  EXPECT_EQ(other.result("objects")["objects"].size(), 1U);
  EXPECT_EQ(controller.result("objects")["objects"].size(), 3U);
  other.result("bye");
  EXPECT_EQ(controller.result("objects")["objects"].size(), 3U);
}

TEST_F(Conversing, MissingHeartbeatEndsSession) {
  controller.result("hello", {{"protocol", 1}, {"heartbeat_ms", 100}});
  controller.result("open", {{"name", "fake0"}});
  for (int i = 0; i < 5; ++i) {
    bench.time += 60 * Loop::millisecond;
    bench.step();
    EXPECT_EQ(controller.result("ping")["objects"], 1);
  }
  bench.time += 101 * Loop::millisecond;
  EXPECT_EQ(controller.event("ended")["why"], "no line received for 100 ms");
  EXPECT_EQ(fake_verbs::alive(), 0U);
  EXPECT_EQ(controller.error("ping"), "EPROTO: ping: requires hello");
}

TEST_F(Conversing, WaitingCommandsEndWithTheirSession) {
  begin();
  controller.send(R"({"id":"w","do":"poll","cq":3,"timeout_ms":50})");
  controller.hello();
  for (int i = 0; i < 500; ++i) bench.step();
  for (const std::string& line : controller.lines) EXPECT_EQ(line.find("\"w\""), std::string::npos) << line;
}

TEST_F(Conversing, WaitingCommandsAreLimited) {
  begin();
  for (int i = 0; i < 1100; ++i) controller.send(R"({"id":"w","do":"poll","cq":3,"timeout_ms":50000})");
  EXPECT_EQ(controller.lines.size(), 1100 - Session::most_waits);
  EXPECT_NE(controller.lines[0].find("EAGAIN"), std::string::npos);
}

}  // namespace
}  // namespace rdmawire::agent
