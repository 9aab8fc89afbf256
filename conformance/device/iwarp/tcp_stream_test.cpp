// Tests of two endpoints on local TCP connections.

#include "conformance/device/iwarp/tcp_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "conformance/device/iwarp/stream_link_for_test.hpp"

namespace rdmawire::endpoint {
namespace {

using namespace std::chrono_literals;
using device::WorkOpcode;
using testing::Consumer;
using Type = ConnectionEvent::Type;

/// Both sides of one connection, processed alternately.
struct Connected {
  explicit Connected(const machines::MpaSettings& mpa)
      : listener(*TcpListener::listen("127.0.0.1")),
        stream_a(*TcpStream::connect("127.0.0.1", listener.port())),
        stream_b(*listener.accept(5s)),
        a(mpa, {.seed = 1}, stream_a.emss()),
        b(mpa, {.seed = 2}, stream_b.emss()) {}

  TcpListener listener;
  TcpStream stream_a, stream_b;
  Consumer a, b;
  TcpDriver drive_a{*a.end, stream_a}, drive_b{*b.end, stream_b};

  bool until(const std::function<bool()>& done) {
    const std::int64_t limit = steady_now() + 20'000'000'000;
    while (!done()) {
      if (steady_now() > limit) return false;
      (void)drive_a.step(1ms);
      (void)drive_b.step(1ms);
    }
    return true;
  }
  std::optional<ConnectionEvent> event(Consumer& of) {
    std::optional<ConnectionEvent> found;
    (void)until([&] { return (found = of.end->next_event()).has_value(); });
    return found;
  }
};

TEST(TcpStream, ConnectsTwoEndpoints) {
  for (const bool markers : {false, true}) {
    machines::MpaSettings mpa;
    mpa.markers = markers;
    mpa.ird = mpa.ord = 4;
    Connected on(mpa);
    ASSERT_TRUE(on.b.end->await(steady_now()));
    ASSERT_TRUE(on.a.end->connect({}, steady_now()));
    ASSERT_EQ(on.event(on.b)->type, Type::request);
    ASSERT_TRUE(on.b.end->accept({}));
    ASSERT_EQ(on.event(on.a)->type, Type::established);
    ASSERT_EQ(on.event(on.b)->type, Type::established);

    // Send more data than the socket buffers can store, in both directions.
    constexpr std::uint32_t piece = 32 << 10, rounds = 200;
    on.a.fill(0, std::string(piece, 'x'));
    on.b.receive(7, 0, 16);
    for (std::uint32_t i = 0; i < rounds; ++i) {
      device::SendRequest write{.id = i, .opcode = WorkOpcode::write, .sges = {on.a.piece(0, piece)}};
      device::SendRequest read{.id = 1000 + i, .opcode = WorkOpcode::read, .sges = {on.a.piece(piece, piece)}};
      write.remote_address = read.remote_address = on.b.buffer + piece;
      write.rkey = read.rkey = on.b.stag;
      ASSERT_TRUE(on.a.end->post_send(write));
      ASSERT_TRUE(on.a.end->post_send(read));
    }
    ASSERT_TRUE(on.a.end->post_send({.id = 5000, .opcode = WorkOpcode::send, .sges = {on.a.piece(0, 5)}}));
    std::vector<device::Completion> completions;
    ASSERT_TRUE(on.until([&] {
      for (const auto& one : on.a.poll()) completions.push_back(one);
      return completions.size() == 2 * rounds + 1;
    }));
    for (const auto& one : completions) EXPECT_EQ(one.status, device::Status::success);
    EXPECT_TRUE(on.a.text(piece, piece) == std::string(piece, 'x'));
    std::vector<device::Completion> received;
    ASSERT_TRUE(on.until([&] { return !(received = on.b.poll()).empty(); }));
    EXPECT_EQ(received[0].bytes, 5U);

    on.a.end->disconnect();
    ASSERT_EQ(on.event(on.b)->type, Type::peer_closed);
    ASSERT_EQ(on.event(on.b)->type, Type::disconnected);
    ASSERT_EQ(on.event(on.a)->type, Type::disconnected);
  }
}

TEST(TcpStream, ResetFailsConnection) {
  Connected on({});
  ASSERT_TRUE(on.b.end->await(steady_now()));
  on.stream_a.reset();
  EXPECT_EQ(on.event(on.b)->type, Type::failed);
}

TEST(TcpStream, InvalidAddressTimeoutAndUsedPortAreErrors) {
  EXPECT_EQ(TcpStream::connect("not an address", 1).error().number, EINVAL);
  TcpListener listener = *TcpListener::listen("127.0.0.1");
  EXPECT_EQ(listener.accept(1ms).error().number, ETIMEDOUT);
  const std::uint16_t port = listener.port();
  EXPECT_EQ(TcpListener::listen("127.0.0.1", port).error().number, EADDRINUSE);
}

}  // namespace
}  // namespace rdmawire::endpoint
