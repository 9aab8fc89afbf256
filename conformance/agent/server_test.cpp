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
  /// Returns the number of sent bytes.
  std::size_t send(const std::string& line) {
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
      text.append(bytes, static_cast<std::size_t>(got));
    }
  }
  std::string text;

 private:
  int descriptor_;
};

class Serving : public testing::Test {
 protected:
  void SetUp() override {
    fake_verbs::reset();
    std::signal(SIGPIPE, SIG_IGN);  // as in the program
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
  /// Runs the loop until the condition is true. Returns false after a limit.
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
  const std::string secret_needed = "is reachable from other hosts and requires a secret (--secret-file)";
  EXPECT_EQ(error("tcp:0.0.0.0:0"), "EACCES: tcp:0.0.0.0:0: tcp:0.0.0.0:0 " + secret_needed);
  EXPECT_EQ(error("tcp:[::]:0"), "EACCES: tcp:[::]:0: tcp:[::]:0 " + secret_needed);
  EXPECT_EQ(error("tcp:192.0.2.1:0"), "EACCES: tcp:192.0.2.1:0: tcp:192.0.2.1:0 " + secret_needed);
  settings.secret = "0123456789abcdef";
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

TEST_F(Serving, UnauthenticatedConnectionsAreLimited) {
  settings.secret = "0123456789abcdef";
  Server::Bounds bounds;
  bounds.most_strangers = 2;
  bounds.stranger_time = 100 * Loop::millisecond;
  start(bounds);
  const std::string path = directory + "/agent";
  ASSERT_TRUE(server->listen("unix:" + path));
  Peer one(connect_unix(path)), two(connect_unix(path)), three(connect_unix(path));
  EXPECT_TRUE(says(three, "\"EUSERS\""));
  EXPECT_TRUE(until([&] { return server->connections() == 0; }));
  EXPECT_FALSE(one.receive());
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
  // Another controller, after an incomplete line of the previous one.
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
  // The server neither busy-waits nor ends.
  int turns = 0;
  for (const Loop::Time end = Loop::monotonic() + 200 * Loop::millisecond; Loop::monotonic() < end; ++turns) {
    loop.turn(20 * Loop::millisecond);
  }
  EXPECT_LT(turns, 40);
}

}  // namespace
}  // namespace rdmawire::agent
