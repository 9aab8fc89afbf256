#include "replay/peer/peer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/un.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "replay/peer/credentials.hpp"
#include "replay/peer/stub_testing.hpp"
#include "replay/peer/tls.hpp"

namespace rdmawire::peer {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::Played;
using testing::Stub;
using namespace std::chrono_literals;

/// Options without heartbeats.
Options quiet() {
  Options options;
  options.heartbeat = 0ms;
  return options;
}

bool readable(int descriptor, int milliseconds = 0) {
  pollfd wait{descriptor, POLLIN, 0};
  return ::poll(&wait, 1, milliseconds) == 1;
}

/// A file that only its owner can access, for the duration of a test.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& content) {
    std::string name = (std::filesystem::temp_directory_path() / "rdmawire-key-XXXXXX").string();
    const Descriptor file(::mkstemp(name.data()));
    path = name;
    std::ofstream(path) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path;
};

/// The agent's side of TLS in front of a scripted agent.
class SecureAgent {
 public:
  SecureAgent(const std::string& keys, std::function<void(Stub&)> script) : played_(std::move(script)) {
    auto context = TlsContext::make(TlsContext::Side::agent, parse_keys(keys).value());
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    controller_ = Descriptor(ends[0]);
    relay_ = std::thread([this, outside = ends[1], context = *context] {
      relay(Descriptor(outside), played_.stream(), TlsChannel(context));
    });
  }
  ~SecureAgent() {
    controller_ = Descriptor();
    relay_.join();
  }
  SecureAgent(const SecureAgent&) = delete;
  SecureAgent& operator=(const SecureAgent&) = delete;

  Descriptor stream() { return std::move(controller_); }
  std::string error;             ///< TLS error. Read it after the end of the connection
  std::string seen_by_observer;  ///< bytes that the controller sent

 private:
  void relay(const Descriptor& outside, const Descriptor& inside, TlsChannel tls) {
    const auto write = [](const Descriptor& to, std::string_view bytes) {
      while (!bytes.empty()) {
        const ssize_t put = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (put <= 0) return;
        bytes.remove_prefix(static_cast<std::size_t>(put));
      }
    };
    for (;;) {
      std::array<pollfd, 2> wait = {{{outside.get(), POLLIN, 0}, {inside.get(), POLLIN, 0}}};
      if (::poll(wait.data(), wait.size(), 60'000) <= 0) return;
      std::array<char, 65536> bytes{};
      const bool from_controller = wait[0].revents != 0;
      const ssize_t got = ::read(from_controller ? outside.get() : inside.get(), bytes.data(), bytes.size());
      if (got <= 0) return;
      const std::string_view received(bytes.data(), static_cast<std::size_t>(got));
      std::string text;
      bool valid = true;
      if (from_controller) {
        seen_by_observer += received;
        valid = tls.receive(received, text);
        write(inside, text);
      } else {
        tls.send(received);
      }
      write(outside, tls.take_output());
      if (!valid) {
        error = tls.error();
        return;
      }
    }
  }

  Played played_;
  Descriptor controller_;
  std::thread relay_;
};

const std::string right_key = "test " + std::string(64, '1') + "\n", wrong_key = "test " + std::string(64, '2') + "\n";

TEST(Peer, ExchangesHelloRequestsAndBye) {
  Played agent([](Stub& stub) {
    stub.say(fmt::format(R"({{"id":{},"result":{{"protocol":1,"agent":"rdmawire-agent 0.1.0","host":"guest"}}}})",
                         stub.hello("certify")));
    stub.expect(R"({"id":1,"do":"list_devices"})", R"({"id":1,"result":["rxe0"]})");
    stub.expect(R"({"id":2,"do":"alloc_pd","device":7})",
                R"({"id":2,"error":{"errno":2,"name":"ENOENT","message":"alloc_pd: device: no object 7"}})");
    stub.expect(R"({"id":3,"do":"bye"})", R"({"id":3,"result":{}})");
  });
  Options options = quiet();
  options.controller = "certify";
  auto peer = Peer::over(agent.stream(), options);
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->hello().at("host"), "guest");
  EXPECT_EQ(peer->call("list_devices").value(), json({"rxe0"}));
  const auto refused = peer->call("alloc_pd", {{"device", 7}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, PeerError::Kind::refused);
  EXPECT_EQ(refused.error().number, ENOENT);
  EXPECT_EQ(to_string(refused.error()), "alloc_pd: device: no object 7 (ENOENT)");
}

TEST(Peer, SkipsMessagesOfPreviousSession) {
  Played agent([](Stub& stub) {
    const std::string id = stub.hello();
    stub.send_bytes("0,\"result\":{}}\n{\"id\":4,\"result\":{}}\n{\"event\":\"async\",\"type\":\"port_active\"}\n");
    stub.say(R"({"id":null,"error":{"errno":74,"name":"EBADMSG","message":"no JSON"}})");
    stub.say(fmt::format(R"({{"id":{},"result":{{"protocol":1}}}})", id));
    stub.farewell();
  });
  auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_TRUE(peer->call("anything"));
  EXPECT_FALSE(peer->next_event(0ms).value());
}

TEST(Peer, ExchangesRequestsOverTls) {
  const TemporaryFile key(right_key);
  const std::string much(1'000'000, 'm');
  SecureAgent agent(right_key, [&](Stub& stub) {
    stub.greet();
    stub.expect(R"({"id":1,"do":"write","data":")" + much + R"("})", R"({"id":1,"result":{"data":")" + much + R"("}})");
    stub.farewell();
  });
  Options options = quiet();
  options.credentials = key.path;
  {
    auto peer = Peer::over(agent.stream(), options);
    ASSERT_TRUE(peer) << peer.error().message;
    EXPECT_EQ(peer->call("write", {{"data", much}}).value().at("data"), much);
  }
  EXPECT_EQ(agent.seen_by_observer.find("hello"), std::string::npos);
  EXPECT_EQ(agent.seen_by_observer.find("mmmm"), std::string::npos);
}

TEST(Peer, WrongKeyIsReported) {
  const TemporaryFile key(wrong_key);
  Options options = quiet();
  options.credentials = key.path;
  SecureAgent agent(right_key, [](Stub& stub) { EXPECT_EQ(stub.next(), std::nullopt); });
  const auto peer = Peer::over(agent.stream(), options);
  ASSERT_FALSE(peer);
  EXPECT_EQ(to_string(peer.error()),
            "the agent rejected the key with the ID test: its credentials do not contain the same key (EACCES)");
}

TEST(Peer, UnsuitableKeyFilesAreReported) {
  const auto connect = [](const std::string& file) {
    Played agent([](Stub& stub) { EXPECT_EQ(stub.next(), std::nullopt); });
    Options options = quiet();
    options.credentials = file;
    const auto peer = Peer::over(agent.stream(), options);
    return peer ? "connected" : to_string(peer.error());
  };
  EXPECT_EQ(connect("/nowhere/key"), "credentials: /nowhere/key: No such file or directory (EINVAL)");
  const TemporaryFile several(right_key + "other " + std::string(64, '3') + "\n");
  EXPECT_EQ(connect(several.path),
            "credentials: " + several.path + ": contains 2 keys; a controller uses one (EINVAL)");
  const TemporaryFile old("a shared secret of an earlier version\n");
  EXPECT_EQ(connect(old.path),
            "credentials: " + old.path + ": line 1: expected a key ID, a space, and 64 hexadecimal digits (EINVAL)");
}

TEST(Peer, AgentsWithoutTlsAreReported) {
  const TemporaryFile key(right_key);
  Options options = quiet();
  options.credentials = key.path;
  const auto error_of = [&](const std::string& line) {
    Played agent([&](Stub& stub) { stub.say(line); });
    const auto peer = Peer::over(agent.stream(), options);
    return peer ? "connected" : to_string(peer.error());
  };
  EXPECT_EQ(error_of(R"({"id":null,"error":{"errno":71,"name":"EPROTO","message":"no TLS"}})"),
            "the agent uses no TLS; start it with --credentials (EACCES)");
  EXPECT_EQ(error_of("SSH-2.0-OpenSSH_9.2"), "the agent uses no TLS; start it with --credentials (EACCES)");
  EXPECT_EQ(error_of(R"({"id":null,"error":{"errno":87,"name":"EUSERS","message":"the limit is reached"}})"),
            "the limit is reached (EACCES)");
}

TEST(Peer, SilentAgentEndsTheTlsHandshakeAtTheTimeout) {
  const TemporaryFile key(right_key);
  Options options = quiet();
  options.credentials = key.path;
  options.timeout = 50ms;
  std::promise<void> over;
  Played agent([&](Stub&) { over.get_future().wait(); });
  const auto peer = Peer::over(agent.stream(), options);
  over.set_value();
  ASSERT_FALSE(peer);
  EXPECT_EQ(to_string(peer.error()), "TLS: no response within 50 ms (ETIMEDOUT)");
}

TEST(Peer, ReasonOfAnAgentThatDisconnectsIsReported) {
  Played agent([](Stub& stub) {
    stub.hello();
    stub.say(R"({"id":null,"error":{"errno":13,"name":"EACCES","message":"the agent requires TLS"}})");
  });
  const auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_FALSE(peer);
  EXPECT_EQ(to_string(peer.error()), "the agent requires TLS (EACCES)");
}

TEST(Peer, OtherProtocolVersionIsAnError) {
  Played agent([](Stub& stub) {
    stub.say(fmt::format(R"({{"id":{},"result":{{"protocol":2}}}})", stub.hello()));
    stub.farewell();
  });
  const auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_FALSE(peer);
  EXPECT_EQ(peer.error().number, EPROTONOSUPPORT);
}

TEST(Peer, CollectsResponsesInAnyOrder) {
  Played agent([](Stub& stub) {
    stub.greet();
    stub.expect(R"({"id":1,"do":"poll","timeout_ms":1000})");
    stub.expect(R"({"id":2,"do":"query"})", R"({"id":2,"result":"second"})");
    stub.say(R"({"id":1,"result":"first"})");
    stub.farewell();
  });
  auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_TRUE(peer) << peer.error().message;
  const auto waiting = peer->send("poll", {{"timeout_ms", 1000}});
  ASSERT_TRUE(waiting);
  EXPECT_EQ(peer->collect(*waiting, 0ms).error().kind, PeerError::Kind::timeout);
  EXPECT_EQ(peer->call("query").value(), "second");
  EXPECT_TRUE(readable(peer->descriptor(), 5000));
  EXPECT_EQ(peer->collect(*waiting, 5s).value(), "first");
  EXPECT_FALSE(readable(peer->descriptor()));
  EXPECT_EQ(peer->collect(*waiting, 0ms).error().kind, PeerError::Kind::usage);
}

TEST(Peer, LateResponseIsDiscarded) {
  std::promise<void> gave_up;
  Played agent([&](Stub& stub) {
    stub.greet();
    stub.expect(R"({"id":1,"do":"slow"})");
    gave_up.get_future().wait();
    stub.say(R"({"id":1,"result":"late"})");
    stub.expect(R"({"id":2,"do":"next"})", R"({"id":2,"result":"in time"})");
    stub.farewell();
  });
  auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_TRUE(peer) << peer.error().message;
  const auto slow = peer->call("slow", nullptr, 20ms);
  gave_up.set_value();
  ASSERT_FALSE(slow);
  EXPECT_EQ(slow.error().kind, PeerError::Kind::timeout);
  EXPECT_THAT(slow.error().message, HasSubstr("slow: no response from the agent within "));
  EXPECT_EQ(peer->call("next").value(), "in time");
}

TEST(Peer, EventsAreQueuedUntilFetched) {
  Played agent([](Stub& stub) {
    stub.greet();
    stub.say(R"({"event":"async","type":"port_error"})");
    stub.say(R"({"event":"cm","type":"established"})");
    stub.say(R"({"event":"async","type":"port_active"})");
    stub.farewell();
  });
  auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_TRUE(peer) << peer.error().message;
  ASSERT_TRUE(peer->call("wait for all events"));
  EXPECT_TRUE(readable(peer->descriptor()));
  const auto of_cm = peer->next_event(5s, [](const Event& event) { return event.name == "cm"; });
  ASSERT_TRUE(of_cm.value());
  EXPECT_EQ((*of_cm)->body.at("type"), "established");
  EXPECT_EQ(peer->next_event(0ms).value()->body.at("type"), "port_error");
  EXPECT_EQ(peer->next_event(0ms).value()->body.at("type"), "port_active");
  EXPECT_FALSE(peer->next_event(10ms).value());
  EXPECT_FALSE(readable(peer->descriptor()));
}

TEST(Peer, OldestEventsAreDroppedAtLimit) {
  Played agent([](Stub& stub) {
    stub.greet();
    for (int i = 0; i < 10; ++i) stub.say(fmt::format(R"({{"event":"async","number":{}}})", i));
    stub.farewell();
  });
  Options options = quiet();
  options.most_events = 3;
  auto peer = Peer::over(agent.stream(), options);
  ASSERT_TRUE(peer) << peer.error().message;
  ASSERT_TRUE(peer->call("wait for all events"));
  EXPECT_EQ(peer->next_event(0ms).value()->body.at("number"), 7);
  EXPECT_EQ(peer->dropped_events(), 7);
}

TEST(Peer, LostConnectionEndsAllWaits) {
  Played agent([](Stub& stub) {
    stub.greet();
    stub.expect(R"({"id":1,"do":"sent"})");
    stub.expect(R"({"id":2,"do":"called"})");
    stub.say(R"({"event":"last","words":true})");
    stub.hang_up();
  });
  auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_TRUE(peer) << peer.error().message;
  const auto sent = peer->send("sent");
  ASSERT_TRUE(sent);
  const auto called = peer->call("called", nullptr, 1h);
  ASSERT_FALSE(called);
  EXPECT_EQ(called.error().kind, PeerError::Kind::lost);
  EXPECT_EQ(called.error().message, "called: the agent closed the connection");
  EXPECT_EQ(peer->collect(*sent, 1h).error().kind, PeerError::Kind::lost);
  EXPECT_TRUE(readable(peer->descriptor()));
  EXPECT_TRUE(peer->next_event(1h).value());  // received before the end
  EXPECT_EQ(peer->next_event(1h).error().number, ECONNRESET);
  EXPECT_EQ(peer->call("again").error().kind, PeerError::Kind::lost);
}

/// Returns the error of a session after the agent has sent `bytes`.
std::string after(const std::string& bytes) {
  Played agent([&](Stub& stub) {
    stub.greet();
    stub.expect(R"({"id":1,"do":"query"})");
    stub.send_bytes(bytes);
    while (stub.next()) {
    }
  });
  auto peer = Peer::over(agent.stream(), quiet());
  if (!peer) return to_string(peer.error());
  const auto answer = peer->call("query", nullptr, 60s);
  return answer ? answer->dump() : to_string(answer.error());
}

TEST(Peer, ProtocolViolationEndsSession) {
  const std::string broken = "query: protocol violation by the agent: ";
  EXPECT_EQ(after("garbage\n"), broken + "invalid JSON: garbage (EPROTO)");
  EXPECT_EQ(after("{\"id\":99,\"result\":{}}\n"), broken + "response to unknown id 99 (EPROTO)");
  EXPECT_EQ(after("{\"id\":\"1\",\"result\":{}}\n"), broken + "response to unknown id \"1\" (EPROTO)");
  EXPECT_EQ(after("{\"id\":null,\"error\":{\"errno\":74,\"name\":\"EBADMSG\",\"message\":\"not a JSON object\"}}\n"),
            broken + "it could not parse a request: not a JSON object (EBADMSG) (EPROTO)");
  EXPECT_EQ(after("{\"event\":\"ended\",\"why\":\"no line received for 15000 ms\"}\n"),
            "query: the agent ended the session: no line received for 15000 ms (ECONNRESET)");
  EXPECT_EQ(after(std::string(most_line_bytes + 70'000, 'x')), broken + "line of more than 4194304 bytes (EPROTO)");
}

TEST(Peer, InvalidRequestsAreNotSent) {
  Played agent([](Stub& stub) {
    stub.greet();
    stub.expect(R"({"id":1,"do":"fine"})", R"({"id":1,"result":null})");
    stub.farewell();
  });
  auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(peer->call("list", json::array()).error().number, EINVAL);
  EXPECT_EQ(peer->call("named", {{"id", 1}}).error().message, "named: \"id\" and \"do\" are reserved argument names");
  EXPECT_EQ(peer->call("text", {{"name", "\xff"}}).error().number, EILSEQ);
  EXPECT_EQ(peer->call("long", {{"data", std::string(most_line_bytes, '0')}}).error().number, EMSGSIZE);
  EXPECT_TRUE(peer->call("fine"));
}

TEST(Peer, LongLinesAreSentInBothDirectionsConcurrently) {
  const std::string much(3 << 20, 'a');
  Played agent([&](Stub& stub) {
    stub.greet();
    // The agent sends before it reads, so a client must read and write concurrently.
    stub.say(R"({"event":"long","data":")" + much + "\"}");
    stub.expect(R"({"id":1,"do":"write","data":")" + much + "\"}", R"({"id":1,"result":{}})");
    stub.farewell();
  });
  auto peer = Peer::over(agent.stream(), quiet());
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_TRUE(peer->call("write", {{"data", much}}, 30s));
  EXPECT_EQ(peer->next_event(0ms).value()->body.at("data").get_ref<const std::string&>().size(), much.size());
}

TEST(Peer, HeartbeatsAreSentWhileIdle) {
  std::promise<void> beaten;
  Played agent([&](Stub& stub) {
    stub.greet(R"(,"heartbeat_ms":15000)");
    stub.expect(R"({"id":1,"do":"ping"})", R"({"id":1,"result":{}})");
    stub.expect(R"({"id":2,"do":"ping"})", R"({"id":2,"result":{}})");
    beaten.set_value();
    stub.farewell();
  });
  Options options;
  options.heartbeat = 10ms;
  const auto peer = Peer::over(agent.stream(), options);
  ASSERT_TRUE(peer) << peer.error().message;
  EXPECT_EQ(beaten.get_future().wait_for(5s), std::future_status::ready);
}

TEST(Peer, SilentAgentIsLost) {
  Played agent([](Stub& stub) {
    stub.greet(R"(,"heartbeat_ms":50)");
    while (stub.next()) {
    }
  });
  Options options;
  options.heartbeat = 10ms;
  options.silence = 50ms;
  auto peer = Peer::over(agent.stream(), options);
  ASSERT_TRUE(peer) << peer.error().message;
  const auto answer = peer->call("query", nullptr, 1h);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, PeerError::Kind::lost);
  EXPECT_THAT(answer.error().message, HasSubstr("query: the agent is silent: no data for "));
}

TEST(Peer, MissingHelloResponseIsAnError) {
  Played agent([](Stub& stub) {
    while (stub.next()) {
    }
  });
  Options options = quiet();
  options.timeout = 20ms;
  const auto peer = Peer::over(agent.stream(), options);
  ASSERT_FALSE(peer);
  EXPECT_EQ(to_string(peer.error()), "hello: no response within 20 ms (ETIMEDOUT)");
}

TEST(Peer, ConnectErrorsContainAddress) {
  const auto failed = [](const std::string& address) {
    const auto peer = Peer::connect(address, quiet());
    return peer ? "connected" : to_string(peer.error());
  };
  EXPECT_EQ(failed("unix:/nowhere/agent"),
            "connect unix:/nowhere/agent: no agent responds: No such file or directory (ENOENT)");
  EXPECT_EQ(failed("serial:/nowhere/tty"), "connect serial:/nowhere/tty: open: No such file or directory (ENOENT)");
  EXPECT_THAT(failed("tcp:127.0.0.1:1"), HasSubstr("no agent responds: Connection refused (ECONNREFUSED)"));
  EXPECT_THAT(failed("tcp:localhost"), HasSubstr("missing host or port"));
  EXPECT_EQ(failed("tcp:192.0.2.1:18515"),
            "connect tcp:192.0.2.1:18515: an agent on another host requires credentials (rdmawire-agent "
            "--make-credentials) (EACCES)");
  Options options = quiet();
  options.credentials = "/nowhere/key";
  EXPECT_EQ(to_string(Peer::connect("unix:/nowhere/agent", options).error()),
            "connect unix:/nowhere/agent: only tcp: uses credentials (EINVAL)");
  EXPECT_THAT(failed("localhost:1234"), HasSubstr("expected tcp:HOST:PORT, unix:PATH or serial:PATH (EINVAL)"));
  EXPECT_THAT(failed("unix:" + std::string(200, 'x')), HasSubstr("exceeds 107 bytes"));

  const std::string path = (std::filesystem::temp_directory_path() / fmt::format("rdmawire-{}", ::getpid())).string();
  const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  std::thread agent([&] {
    Stub stub{Descriptor(::accept(listener.get(), nullptr, nullptr))};
    stub.greet();
    stub.farewell();
  });
  EXPECT_EQ(failed("unix:" + path), "connected");
  agent.join();
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace rdmawire::peer
