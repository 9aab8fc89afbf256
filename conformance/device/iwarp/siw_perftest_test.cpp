// Interoperability tests of the endpoint and Linux's siw, in both roles: the peer is perftest in a lab guest, over a
// forwarded port.
//
// With -R, perftest creates two connections. On the first, both sides exchange parameters and memory addresses with
// Sends. The second carries the traffic. The messages were derived from captures of two perftest programs
// (captures/samples/siw-write.pcap.gz and similar captures).

#include <gmock/gmock.h>

#include <algorithm>

#include "conformance/device/iwarp/siw_for_test.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::endpoint {
namespace {

using namespace rdmawire::endpoint::testing;
using namespace std::chrono_literals;
using device::Status;
using device::WorkOpcode;
using Type = ConnectionEvent::Type;

constexpr std::uint32_t iterations = 20, bytes = 8192;

/// QP number and memory of one side, big endian. Zeros: not known yet.
struct Whereabouts {
  static constexpr std::uint32_t size = 56;
  static constexpr std::size_t queue_pair_at = 8, key_at = 16, address_at = 24;

  static Whereabouts read(Bytes message) {
    return {load_be<8>(message.data() + address_at), static_cast<std::uint32_t>(load_be<4>(message.data() + key_at))};
  }
  void write(MutableBytes message) const {
    store_be(message.data() + 4, 4, 1);  // concurrent READs
    store_be(message.data() + queue_pair_at, 4, 7);
    store_be(message.data() + key_at, 4, key);
    store_be(message.data() + address_at, 8, address);
  }

  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

/// Permit 128 outstanding READs: perftest requests as many as siw supports.
machines::MpaSettings settings() {
  machines::MpaSettings mpa = siw_settings(2, true);
  mpa.ird = mpa.ord = 128;
  return mpa;
}

/// A perftest implementation: one endpoint for control messages, one for traffic.
class Perftest {
 public:
  static constexpr std::uint64_t send_at = 0, receive_at = 64, count_at = 128, memory_at = 4096;

  explicit Perftest(std::unique_ptr<SiwPeer> first) : talk_(std::move(first)), control(*talk_) {}

  void post_receive() { control.consumer().receive(0, receive_at, Whereabouts::size); }
  /// Return the peer's next control message. Empty if none arrives or the connection is closed.
  MutableBytes receive_message() {
    // Process messages of the traffic connection during the wait.
    for (const auto until = std::chrono::steady_clock::now() + default_timeout;
         std::chrono::steady_clock::now() < until;) {
      if (control.wait_received(1ms)) {
        const auto one = control.received();
        return one ? control.consumer().at(receive_at, one->bytes) : MutableBytes();
      }
      if (control.end().ended()) return {};
      process_traffic();
    }
    return {};
  }
  /// Send the first `length` bytes of own().
  bool send_message(std::size_t length) {
    const device::Sge piece = control.consumer().piece(send_at, static_cast<std::uint32_t>(length));
    return control.sent(control.post({.opcode = WorkOpcode::send, .sges = {piece}}));
  }
  /// Process messages of the traffic connection.
  void process_traffic() {
    while (traffic && traffic->wait_received(1ms)) {
      const auto one = traffic->received();
      if (!one) return;
      EXPECT_EQ(one->bytes, bytes);
      ++messages;
      // Write the number of received messages to the sender's memory. Otherwise it stops when it has used all receives
      // that it knows of.
      std::ranges::fill(traffic->consumer().at(count_at, 4), 0);
      traffic->consumer().at(count_at, 4)[0] = static_cast<std::uint8_t>(messages);
      traffic->post({.opcode = WorkOpcode::write,
                     .sges = {traffic->consumer().piece(count_at, 4)},
                     .remote_address = remote.address,
                     .rkey = remote.key});
    }
  }
  MutableBytes own() { return control.consumer().at(send_at, Whereabouts::size); }

  /// Send the content of own() and return the peer's next message.
  MutableBytes exchange(std::size_t length) {
    post_receive();
    if (!send_message(length)) return {};
    const MutableBytes message = receive_message();
    EXPECT_EQ(message.size(), length);
    return message;
  }
  /// Write the location of the local memory to own().
  void advertise_memory() {
    Whereabouts{traffic->consumer().buffer + memory_at, traffic->consumer().stag}.write(own());
  }

 private:
  std::unique_ptr<SiwPeer> talk_;

 public:
  SiwPeer& control;
  std::unique_ptr<SiwPeer> traffic;
  Whereabouts remote;
  std::uint32_t messages = 0;  ///< received on the traffic connection
};

struct Program {
  const char* name;
  WorkOpcode opcode;
};
class SiwPerftest : public Siw, public ::testing::WithParamInterface<Program> {
 protected:
  static std::vector<std::string> command(std::uint16_t port) {
    return {GetParam().name,
            "-R",
            "-F",
            "-n",
            std::to_string(iterations),
            "-s",
            std::to_string(bytes),
            "-p",
            std::to_string(port),
            "-d",
            guest().ports().at(0).devices.at(0)};
  }
  static bool sends() { return GetParam().opcode == WorkOpcode::send; }
  static void post_receives(SiwPeer& end) {
    for (std::uint32_t i = 0; sends() && i < iterations; ++i) end.consumer().receive(i, Perftest::memory_at, bytes);
  }
};

TEST_P(SiwPerftest, ClientInGuestCompletesWithEndpointAsServer) {
  auto listener = TcpListener::listen("127.0.0.1").value();
  auto argv = command(listener.port());
  argv.emplace_back("10.0.2.2");
  auto program = start(argv);
  auto stream = listener.accept(default_timeout);
  ASSERT_TRUE(stream) << stream.error().message;
  Perftest endpoint(std::make_unique<SiwPeer>(std::move(*stream), settings()));
  ASSERT_TRUE(endpoint.control.end().await(steady_now()));
  ASSERT_EQ(endpoint.control.event()->type, Type::request);
  endpoint.post_receive();
  ASSERT_TRUE(endpoint.control.end().accept({}));
  ASSERT_EQ(endpoint.control.event()->type, Type::established);
  for (MutableBytes message = endpoint.receive_message(); !message.empty(); message = endpoint.receive_message()) {
    // Echo the peer's parameters, except for the location of the memory.
    std::ranges::copy(message, endpoint.own().begin());
    const bool of_memory = message.size() == Whereabouts::size;
    if (of_memory && endpoint.traffic) {
      endpoint.remote = Whereabouts::read(message);
      endpoint.advertise_memory();
    }
    endpoint.post_receive();
    ASSERT_TRUE(endpoint.send_message(message.size()));
    if (!of_memory || endpoint.traffic) continue;
    // After the first parameters, the program opens the second connection.
    auto second = listener.accept(default_timeout);
    ASSERT_TRUE(second) << second.error().message;
    endpoint.traffic = std::make_unique<SiwPeer>(std::move(*second), settings());
    std::ranges::fill(endpoint.traffic->consumer().at(Perftest::memory_at, bytes), 0xa5);
    ASSERT_TRUE(endpoint.traffic->end().await(steady_now()));
    ASSERT_EQ(endpoint.traffic->event()->type, Type::request);
    post_receives(*endpoint.traffic);
    ASSERT_TRUE(endpoint.traffic->end().accept({}));
    ASSERT_EQ(endpoint.traffic->event()->type, Type::established);
  }
  expect_success(program);
  ASSERT_TRUE(endpoint.traffic);
  EXPECT_EQ(endpoint.messages, sends() ? iterations : 0);
  const std::string untouched(bytes, '\xa5');
  const bool written = endpoint.traffic->consumer().text(Perftest::memory_at, bytes) != untouched;
  EXPECT_EQ(written, GetParam().opcode != WorkOpcode::read);
  EXPECT_EQ(endpoint.control.worst, Status::success);
}

TEST_P(SiwPerftest, ServerInGuestCompletesWithEndpointAsClient) {
  const auto port = guest().tcp_ports().at(0);
  auto program = start(command(port.guest));
  auto first = connected<SiwPeer>(port.host, settings());
  ASSERT_TRUE(first);
  Perftest endpoint(std::move(first));
  // Send version, path MTU, inline size and an undocumented value, as perftest does.
  constexpr std::string_view version = "6.06";
  std::ranges::copy(version, endpoint.own().begin());
  endpoint.post_receive();
  ASSERT_TRUE(endpoint.send_message(16));
  (void)nudge(endpoint.control);
  ASSERT_EQ(endpoint.receive_message().size(), 16U);
  store_be(endpoint.own().data(), 4, 4096);
  ASSERT_FALSE(endpoint.exchange(4).empty());
  store_be(endpoint.own().data(), 4, 64);
  ASSERT_FALSE(endpoint.exchange(4).empty());
  store_be(endpoint.own().data(), 2, 0x3300);
  ASSERT_FALSE(endpoint.exchange(2).empty());
  std::ranges::fill(endpoint.own(), 0);
  ASSERT_FALSE(endpoint.exchange(Whereabouts::size).empty());
  endpoint.traffic = connected<SiwPeer>(port.host, settings());
  ASSERT_TRUE(endpoint.traffic);
  SiwPeer& traffic = *endpoint.traffic;
  std::ranges::fill(traffic.consumer().at(Perftest::memory_at, bytes), 0xa5);
  ASSERT_FALSE(endpoint.exchange(Whereabouts::size).empty());
  for (int i = 0; i < (sends() ? 4 : 3); ++i) {
    endpoint.advertise_memory();
    const MutableBytes message = endpoint.exchange(Whereabouts::size);
    ASSERT_FALSE(message.empty());
    endpoint.remote = Whereabouts::read(message);
  }
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    device::SendRequest request{.opcode = GetParam().opcode,
                                .sges = {traffic.consumer().piece(Perftest::memory_at, bytes)}};
    if (!sends()) {
      request.remote_address = endpoint.remote.address;
      request.rkey = endpoint.remote.key;
    }
    last = traffic.post(std::move(request));
  }
  ASSERT_TRUE(traffic.sent(last));
  endpoint.advertise_memory();
  ASSERT_FALSE(endpoint.exchange(Whereabouts::size).empty());
  std::ranges::fill(endpoint.own(), 0);
  for (int figure = 0; !sends() && figure < 5; ++figure) ASSERT_FALSE(endpoint.exchange(8).empty());
  if (!sends()) {
    endpoint.advertise_memory();
    ASSERT_FALSE(endpoint.exchange(Whereabouts::size).empty());
  }
  traffic.end().disconnect();
  endpoint.control.end().disconnect();
  (void)traffic.until([&] { return traffic.end().ended(); });
  (void)endpoint.control.until([&] { return endpoint.control.end().ended(); });
  expect_success(program);
  std::string expected(bytes, '\xa5');
  if (sends())
    expected.replace(0, 4, std::string{static_cast<char>(iterations), 0, 0, 0});  // number of received messages
  const bool as_it_was = traffic.consumer().text(Perftest::memory_at, bytes) == expected;
  EXPECT_EQ(as_it_was, GetParam().opcode != WorkOpcode::read);
  EXPECT_EQ(traffic.worst, Status::success);
  EXPECT_EQ(endpoint.control.worst, Status::success);
}

INSTANTIATE_TEST_SUITE_P(Siw, SiwPerftest,
                         ::testing::Values(Program{"ib_write_bw", WorkOpcode::write},
                                           Program{"ib_read_bw", WorkOpcode::read},
                                           Program{"ib_send_bw", WorkOpcode::send}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace rdmawire::endpoint
