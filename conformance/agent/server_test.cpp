/// Endpoints: sockets, and a pseudo terminal as serial channel.

#include "conformance/agent/server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "conformance/agent/testing.hpp"

namespace rdmawire::agent {
namespace {

/// The controller's end of a channel.
class Peer {
 public:
  explicit Peer(int descriptor) : descriptor_(descriptor) {
    ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { close(); }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  /// Uses TLS with this key.
  void secure(const peer::Key& key) {
    tls.emplace(peer::TlsContext::make(peer::TlsContext::Side::controller, {key}).value());
    flush();
  }
  /// Sends the pending TLS records.
  void flush() { static_cast<void>(put(tls->take_output())); }
  /// Returns the number of sent bytes. With TLS, requires an established connection.
  std::size_t send(const std::string& line) {
    if (!tls) return put(line);
    tls->send(line);
    flush();
    return line.size();
  }
  std::size_t put(const std::string& line) {
    const ssize_t sent = ::write(descriptor_, line.data(), line.size());
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }
  /// Receives available data. Returns false at the end of the stream.
  bool receive() {
    char bytes[65536];
    for (;;) {
      const ssize_t got = ::read(descriptor_, bytes, sizeof bytes);
      if (got == 0) return false;
      if (got < 0) return errno == EAGAIN;
      if (tls) {
        static_cast<void>(tls->receive({bytes, static_cast<std::size_t>(got)}, text));
        flush();
      } else {
        text.append(bytes, static_cast<std::size_t>(got));
      }
    }
  }
  std::string text;
  std::optional<peer::TlsChannel> tls;

 private:
  int descriptor_;
};

class Serving : public testing::Test {
 protected:
  void SetUp() override {
    fake_verbs::reset();
    std::signal(SIGPIPE, SIG_IGN);  // the agent program does the same
    settings.log = [this](std::string line) { log.push_back(std::move(line)); };
    directory = testing::TempDir() + "agent_server_test." + std::to_string(::getpid());
    std::filesystem::create_directories(directory);
  }
  void TearDown() override {
    server.reset();
    EXPECT_EQ(fake_verbs::alive(), 0U);
    fake_verbs::reset();
    std::filesystem::remove_all(directory);
  }
  void start(Server::Bounds bounds = {}) { server.emplace(loop, settings, bounds); }
  static peer::Key key(std::string id, std::uint8_t fill) {
    peer::Key made;
    made.id = std::move(id);
    made.bytes.fill(fill);
    return made;
  }
  void use_keys(std::vector<peer::Key> keys) {
    settings.tls = peer::TlsContext::make(peer::TlsContext::Side::agent, std::move(keys)).value();
  }
  bool secured(Peer& peer, const peer::Key& with) {
    peer.secure(with);
    return until([&] { return !peer.receive() || peer.tls->established() || !peer.tls->error().empty(); }) &&
           peer.tls->established();
  }

  int connect_tcp(const std::string& endpoint) {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return descriptor;
  }
  static int connect_unix(const std::string& path) {
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return descriptor;
  }
  /// Runs the loop until the condition is true. Returns false if it is not true within 10 s.
  template <class Condition>
  bool until(Condition condition) {
    for (const Loop::Time end = Loop::monotonic() + 10'000 * Loop::millisecond; Loop::monotonic() < end;) {
      if (condition()) return true;
      loop.turn(5 * Loop::millisecond);
    }
    return false;
  }
  bool says(Peer& peer, const std::string& what) {
    return until([&] {
      peer.receive();
      return peer.text.find(what) != std::string::npos;
    });
  }
  static constexpr const char* hello = "{\"id\":1,\"do\":\"hello\",\"protocol\":1}\n";
  static constexpr const char* open = "{\"id\":2,\"do\":\"open\",\"name\":\"fake0\"}\n";

  Loop loop;
  Settings settings;
  std::vector<std::string> log;
  std::string directory;
  std::optional<Server> server;
};

TEST_F(Serving, TcpAndUnixEndpointsWorkConcurrently) {
  start();
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp) << tcp.error().message;
  EXPECT_EQ(tcp->at(0).find("tcp:127.0.0.1:"), 0U);
  EXPECT_NE(tcp->at(0), "tcp:127.0.0.1:0");
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  struct stat what {};
  ASSERT_EQ(::stat(path.c_str(), &what), 0);
  EXPECT_EQ(what.st_mode & 0777U, 0600U);
  Peer one(connect_tcp(tcp->at(0))), two(connect_unix(path));
  one.send(hello);
  two.send(hello);
  one.send(open);
  EXPECT_TRUE(says(one, R"({"id":2,"result":{"device":1,)"));
  two.send(R"({"id":3,"do":"objects"})"
           "\n");
  EXPECT_TRUE(says(two, R"({"id":3,"result":{"objects":[]}})"));
  server.reset();
  EXPECT_NE(::stat(path.c_str(), &what), 0) << "the socket file was not removed";
  EXPECT_FALSE(one.receive());
}

TEST_F(Serving, InvalidEndpointsAreRejected) {
  start();
  const auto error = [&](const std::string& endpoint) {
    const auto taken = server->listen(endpoint);
    return taken ? "none" : std::string(errno_name(taken.error().number)) + ": " + taken.error().message;
  };
  EXPECT_EQ(error("udp:1"), "EINVAL: udp:1: invalid endpoint; expected tcp:HOST:PORT, unix:PATH or serial:PATH");
  EXPECT_EQ(error("tcp:1"), "EINVAL: tcp:1: invalid endpoint; expected tcp:HOST:PORT, unix:PATH or serial:PATH");
  EXPECT_EQ(error("tcp:127.0.0.1:http").find("EINVAL: tcp:127.0.0.1:http: "), 0U);
  EXPECT_EQ(error("unix:" + directory), "EADDRINUSE: listen on unix:" + directory + ": Address already in use");
  EXPECT_EQ(error("unix:" + directory + std::string(200, 'x')).find("ENAMETOOLONG: "), 0U);
  EXPECT_EQ(error("serial:" + directory + "/none"),
            "ENOENT: open serial:" + directory + "/none: No such file or directory");
  const std::string credentials_needed = "is reachable from other hosts and requires --credentials";
  EXPECT_EQ(error("tcp:0.0.0.0:0"), "EACCES: tcp:0.0.0.0:0: tcp:0.0.0.0:0 " + credentials_needed);
  EXPECT_EQ(error("tcp:[::]:0"), "EACCES: tcp:[::]:0: tcp:[::]:0 " + credentials_needed);
  EXPECT_EQ(error("tcp:192.0.2.1:0"), "EACCES: tcp:192.0.2.1:0: tcp:192.0.2.1:0 " + credentials_needed);
  use_keys({key("a", 1)});
  EXPECT_EQ(error("tcp:0.0.0.0:0"), "none");
}

TEST_F(Serving, StaleUnixSocketIsReplaced) {
  const std::string path = directory + "/agent";
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(left);
  start();
  ASSERT_TRUE(server->listen("unix:" + path));
  Server second(loop, settings);
  EXPECT_EQ(second.listen("unix:" + path).error().number, EADDRINUSE);
  Peer peer(connect_unix(path));
  peer.send(hello);
  EXPECT_TRUE(says(peer, "\"protocol\":1"));
}

TEST_F(Serving, LostControllerReleasesItsObjects) {
  start();
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  const std::string story = std::string(hello) + open +
                            "{\"id\":3,\"do\":\"alloc_pd\",\"device\":1}\n"
                            "{\"id\":4,\"do\":\"register\",\"pd\":2,\"length\":4096}\n"
                            "{\"id\":5,\"do\":\"create_cq\",\"device\":1,\"cqe\":4}\n"
                            "{\"id\":6,\"do\":\"poll\",\"cq\":4,\"timeout_ms\":60000}\n";
  for (std::size_t cut = 0; cut <= story.size(); cut += 7) {
    Peer peer(connect_unix(path));
    peer.send(story.substr(0, cut));
    ASSERT_TRUE(until([&] { return server->connections() == 1; }));
    if (cut > 200) {
      ASSERT_TRUE(until([&] { return fake_verbs::alive() > 0; }));
    }
    peer.close();
    ASSERT_TRUE(until([&] { return server->connections() == 0; })) << cut;
    ASSERT_EQ(fake_verbs::alive(), 0U) << cut;
  }
}

TEST_F(Serving, ControllerThatDoesNotReadIsDisconnected) {
  Server::Bounds bounds;
  bounds.enough_unread = 1U << 20U;
  bounds.unread_time = 50 * Loop::millisecond;
  start(bounds);
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  Peer peer(connect_unix(path));
  peer.send(std::string(hello) + open +
            "{\"id\":3,\"do\":\"alloc_pd\",\"device\":1}\n"
            "{\"id\":4,\"do\":\"register\",\"pd\":2,\"length\":1000000}\n");
  std::string reads;
  for (int i = 0; i < 100; ++i) reads += "{\"id\":5,\"do\":\"read\",\"mr\":3}\n";
  peer.send(reads);
  ASSERT_TRUE(until([&] { return server->connections() == 1; }));
  EXPECT_TRUE(until([&] { return server->connections() == 0; }));
  EXPECT_EQ(fake_verbs::alive(), 0U);
}

TEST_F(Serving, UnreadEventsAreLimited) {
  Server::Bounds bounds;
  bounds.most_unread = 1U << 20U;
  start(bounds);
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  Peer peer(connect_unix(path));
  peer.send(std::string(hello) + open);
  ASSERT_TRUE(says(peer, "\"device\":1"));
  EXPECT_TRUE(until([&] {
    if (server->connections() == 0) return true;
    for (int i = 0; i < 1000 && fake_verbs::alive() > 0; ++i) fake_verbs::raise_port_event(IBV_EVENT_PORT_ERR);
    return false;
  }));
}

TEST_F(Serving, SlowReaderReceivesAllResponses) {
  start();
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  Peer peer(connect_unix(path));
  peer.send(std::string(hello) + open +
            "{\"id\":3,\"do\":\"alloc_pd\",\"device\":1}\n"
            "{\"id\":4,\"do\":\"register\",\"pd\":2,\"length\":1000000}\n");
  std::string reads;
  for (int i = 0; i < 20; ++i) reads += fmt::format("{{\"id\":{},\"do\":\"read\",\"mr\":3}}\n", 100 + i);
  peer.send(reads);
  EXPECT_TRUE(until([&] {
    peer.receive();
    return peer.text.size() > 20 * 2'000'000;
  }));
  EXPECT_NE(peer.text.find("{\"id\":119,\"result\":{\"bytes\":"), std::string::npos);
}

TEST_F(Serving, NewConnectionReplacesOldestUnauthenticatedOne) {
  Server::Bounds bounds;
  bounds.most_strangers = 2;
  bounds.stranger_time = 100 * Loop::millisecond;
  start(bounds);
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  Peer one(connect_unix(path)), two(connect_unix(path)), three(connect_unix(path));
  EXPECT_TRUE(until([&] { return !one.receive(); }));
  EXPECT_TRUE(two.receive());
  three.send(hello);
  EXPECT_TRUE(says(three, R"({"id":1,"result":)"));
  // The time limit applies only to connections without a session.
  EXPECT_TRUE(until([&] { return server->connections() == 1; }));
  EXPECT_FALSE(two.receive());
  EXPECT_TRUE(three.receive());
}

TEST_F(Serving, AddressWithMostUnauthenticatedConnectionsLosesOne) {
  Server::Bounds bounds;
  bounds.most_strangers = 3;
  start(bounds);
  const std::string path = directory + "/agent";
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp && server->listen("unix:" + path));
  Peer slow(connect_unix(path));
  ASSERT_TRUE(until([&] { return server->connections() == 1; }));
  std::vector<std::unique_ptr<Peer>> flood;
  for (int i = 0; i < 20; ++i) {
    flood.push_back(std::make_unique<Peer>(connect_tcp(tcp->at(0))));
    loop.turn(1000 * Loop::millisecond);
    loop.turn(0);
  }
  EXPECT_EQ(server->connections(), 3U);
  slow.send(hello);
  EXPECT_TRUE(says(slow, R"({"id":1,"result":)"));
}

TEST_F(Serving, SessionsAreNotReplaced) {
  Server::Bounds bounds;
  bounds.most_connections = 2;
  start(bounds);
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  Peer one(connect_unix(path)), two(connect_unix(path));
  one.send(hello);
  two.send(hello);
  ASSERT_TRUE(says(one, "result") && says(two, "result"));
  Peer three(connect_unix(path));
  EXPECT_TRUE(says(three, "\"EUSERS\""));
  EXPECT_TRUE(one.receive() && two.receive());
}

TEST_F(Serving, TlsProtectsTcpAndNotUnixSockets) {
  use_keys({key("old", 1), key("new", 2)});
  start();
  const std::string path = directory + "/agent";
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp && server->listen("unix:" + path));
  Peer old_key(connect_tcp(tcp->at(0))), new_key(connect_tcp(tcp->at(0))), plain(connect_unix(path));
  ASSERT_TRUE(secured(old_key, key("old", 1)) && secured(new_key, key("new", 2)));
  plain.send(hello);
  old_key.send(hello);
  EXPECT_TRUE(says(plain, R"({"id":1,"result":)"));
  EXPECT_TRUE(says(old_key, R"({"id":1,"result":)"));
  const std::string open_and_register = std::string(hello) + open +
                                        "{\"id\":3,\"do\":\"alloc_pd\",\"device\":1}\n"
                                        "{\"id\":4,\"do\":\"register\",\"pd\":2,\"length\":1000000}\n"
                                        "{\"id\":5,\"do\":\"read\",\"mr\":3}\n";
  new_key.send(open_and_register);
  EXPECT_TRUE(until([&] {
    new_key.receive();
    return new_key.text.size() > 2'000'000;
  }));
  EXPECT_EQ(log.size(), 0U);
}

TEST_F(Serving, PeerWithoutKeyReceivesNoInformation) {
  use_keys({key("a", 1)});
  start();
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp);
  Peer plain(connect_tcp(tcp->at(0)));
  plain.send(hello);
  ASSERT_TRUE(until([&] { return !plain.receive(); }));
  EXPECT_EQ(plain.text, R"({"id":null,"error":{"errno":13,"name":"EACCES","message":"the agent requires TLS; specify )"
                        R"(the credentials"}})"
                        "\n");
  Peer wrong(connect_tcp(tcp->at(0)));
  EXPECT_FALSE(secured(wrong, key("a", 2)));
  ASSERT_TRUE(until([&] { return server->connections() == 0; }));
  EXPECT_EQ(wrong.text, "");
}

TEST_F(Serving, ReasonsOfRejectionAreLoggedOncePerSecond) {
  use_keys({key("a", 1)});
  start();
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp);
  for (int i = 0; i < 3; ++i) {
    Peer peer(connect_tcp(tcp->at(0)));
    EXPECT_FALSE(secured(peer, key(i == 0 ? "unknown" : "a", 2)));
    ASSERT_TRUE(until([&] { return server->connections() == 0; }));
  }
  ASSERT_EQ(log.size(), 1U);
  EXPECT_EQ(log[0].find("tcp:127.0.0.1:"), 0U);
  EXPECT_NE(log[0].find(": rejected: unknown key ID unknown"), std::string::npos) << log[0];
  for (const Loop::Time end = loop.now() + 1000 * Loop::millisecond; loop.now() < end;) loop.turn(Loop::millisecond);
  Peer plain(connect_tcp(tcp->at(0)));
  plain.send(hello);
  // The fourth attempt of this address is delayed.
  ASSERT_TRUE(until([&] { return log.size() == 2; }));
  EXPECT_NE(log[1].find("the controller uses no TLS; specify its credentials (2 other rejected connections"),
            std::string::npos)
      << log[1];
}

TEST_F(Serving, TlsWithoutCredentialsIsRejectedInPlainText) {
  start();
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp);
  Peer peer(connect_tcp(tcp->at(0)));
  EXPECT_FALSE(secured(peer, key("a", 1)));
  EXPECT_EQ(peer.tls->error(), "the agent uses no TLS; start it with --credentials");
  ASSERT_TRUE(until([&] { return log.size() == 1; }));
  EXPECT_NE(log[0].find("the controller uses TLS, but the agent was started without --credentials"), std::string::npos);
}

TEST_F(Serving, BytesBeforeAuthenticationAreLimited) {
  use_keys({key("a", 1)});
  Server::Bounds bounds;
  bounds.most_handshake = 1000;
  start(bounds);
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp);
  Peer peer(connect_tcp(tcp->at(0)));
  // The start of a valid record, which never ends.
  peer.put(std::string("\x16\x03\x01\x40\x00\x01", 6) + std::string(2000, '\0'));
  ASSERT_TRUE(until([&] { return !peer.receive(); }));
  EXPECT_NE(log.at(0).find("rejected: "), std::string::npos);
}

TEST_F(Serving, AttemptsOfAnAddressWaitAfterFailures) {
  use_keys({key("a", 1)});
  Server::Bounds bounds;
  bounds.admission.first_delay = bounds.admission.longest_delay = 3000 * Loop::millisecond;
  start(bounds);
  const auto tcp = server->listen("tcp:127.0.0.1:0");
  ASSERT_TRUE(tcp);
  for (int i = 0; i < 3; ++i) {
    Peer wrong(connect_tcp(tcp->at(0)));
    EXPECT_FALSE(secured(wrong, key("a", 2)));
  }
  const Loop::Time begin = loop.now();
  Peer early(connect_tcp(tcp->at(0)));
  ASSERT_TRUE(until([&] { return server->connections() == 1; }));
  Peer late(connect_tcp(tcp->at(0)));
  early.secure(key("a", 2));
  // The newest waiting connection is accepted first.
  EXPECT_TRUE(secured(late, key("a", 1)));
  EXPECT_GE(loop.now() - begin, 1000 * Loop::millisecond);
  // A successful authentication ends the delays, so the other connection continues immediately.
  const Loop::Time success = loop.now();
  EXPECT_TRUE(until([&] { return !early.receive() || !early.tls->error().empty(); }));
  EXPECT_LT(loop.now() - success, 2900 * Loop::millisecond);
}

/// A pseudo terminal. Its master is the controller's end.
class SerialChannel : public Serving {
 protected:
  int open_master() {
    const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
    EXPECT_EQ(::grantpt(master), 0);
    EXPECT_EQ(::unlockpt(master), 0);
    return master;
  }
};

TEST_F(SerialChannel, NewHelloReplacesSession) {
  start();
  const int master = open_master();
  ASSERT_TRUE(server->listen(std::string("serial:") + ::ptsname(master)));
  Peer peer(master);
  peer.send(std::string(hello) + open);
  ASSERT_TRUE(says(peer, "\"device\":1"));
  EXPECT_EQ(fake_verbs::alive(), 1U);
  // A new controller starts a session after an incomplete line of the previous one.
  peer.send("{\"id\":9,\"do\":\"pi");
  peer.text.clear();
  peer.send("\n{\"id\":\"again\",\"do\":\"hello\",\"protocol\":1}\n");
  EXPECT_TRUE(says(peer, R"({"id":"again","result":)"));
  EXPECT_EQ(fake_verbs::alive(), 0U);
}

TEST_F(SerialChannel, ClosedPeerIsPolledAtIntervals) {
  start();
  const int master = open_master();
  ASSERT_TRUE(server->listen(std::string("serial:") + ::ptsname(master)));
  {
    Peer peer(master);
    peer.send(std::string(hello) + open);
    ASSERT_TRUE(says(peer, "\"device\":1"));
  }
  ASSERT_TRUE(until([&] { return fake_verbs::alive() == 0; }))
      << "objects of a disconnected controller were not released";
  // The server keeps running and does not busy-wait.
  int turns = 0;
  for (const Loop::Time end = Loop::monotonic() + 200 * Loop::millisecond; Loop::monotonic() < end; ++turns) {
    loop.turn(20 * Loop::millisecond);
  }
  EXPECT_LT(turns, 40);
}

}  // namespace
}  // namespace rdmawire::agent
