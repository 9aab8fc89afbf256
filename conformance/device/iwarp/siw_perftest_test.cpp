// The endpoint and Linux's siw, in both roles: perftest in a guest of the lab is the other side, over a forwarded port.
//
// With -R perftest makes two connections. On the first the two sides tell each other by Sends, in turn, what they are
// and where their memory is; the second carries the traffic. What is said was read off captures of two of them
// (captures/samples/siw-write.pcap.gz and its sisters).

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

/// Where a queue pair and its memory are, all of it big endian. All zeros: before they are.
struct Whereabouts {
  static constexpr std::uint32_t size = 56;
  static constexpr std::size_t queue_pair_at = 8, key_at = 16, address_at = 24;

  static Whereabouts read(Bytes message) {
    return {load_be<8>(message.data() + address_at), static_cast<std::uint32_t>(load_be<4>(message.data() + key_at))};
  }
  void write(MutableBytes message) const {
    store_be(message.data() + 4, 4, 1);  // READs at once
    store_be(message.data() + queue_pair_at, 4, 7);
    store_be(message.data() + key_at, 4, key);
    store_be(message.data() + address_at, 8, address);
  }

  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

/// perftest asks for as many READs at once as siw has.
machines::MpaSettings settings() {
  machines::MpaSettings mpa = siw_settings(2, true);
  mpa.ird = mpa.ord = 128;
  return mpa;
}

/// A side of perftest: one end that says things, one that carries traffic.
class Perftest {
 public:
  static constexpr std::uint64_t said_at = 0, heard_at = 64, count_at = 128, memory_at = 4096;

  explicit Perftest(std::unique_ptr<SiwPeer> first) : talk_(std::move(first)), talk(*talk_) {}

  void listen_up() { talk.consumer().receive(0, heard_at, Whereabouts::size); }
  /// The other side's next message; nothing: none came, or the connection is over.
  MutableBytes hear() {
    // The traffic goes on meanwhile.
    for (const auto until = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < until;) {
      if (talk.hears(1ms)) {
        const auto one = talk.received();
        return one ? talk.consumer().at(heard_at, one->bytes) : MutableBytes();
      }
      if (talk.end().ended()) return {};
      carry();
    }
    return {};
  }
  /// What stands in own().
  bool say(std::size_t length) {
    const device::Sge piece = talk.consumer().piece(said_at, static_cast<std::uint32_t>(length));
    return talk.sent(talk.post({.opcode = WorkOpcode::send, .sges = {piece}}));
  }
  /// Lets the second connection live.
  void carry() {
    while (traffic && traffic->hears(1ms)) {
      const auto one = traffic->received();
      if (!one) return;
      EXPECT_EQ(one->bytes, bytes);
      ++messages;
      // A sender stops when the receiver's queue could be empty: how much came is written into its memory.
      std::ranges::fill(traffic->consumer().at(count_at, 4), 0);
      traffic->consumer().at(count_at, 4)[0] = static_cast<std::uint8_t>(messages);
      traffic->post({.opcode = WorkOpcode::write,
                     .sges = {traffic->consumer().piece(count_at, 4)},
                     .remote_address = theirs.address,
                     .rkey = theirs.key});
    }
  }
  MutableBytes own() { return talk.consumer().at(said_at, Whereabouts::size); }

  /// Says what stands in own(), and hears the same kind of thing.
  MutableBytes exchange(std::size_t length) {
    listen_up();
    if (!say(length)) return {};
    const MutableBytes heard = hear();
    EXPECT_EQ(heard.size(), length);
    return heard;
  }
  /// Where our memory is, in own().
  void tell_memory() { Whereabouts{traffic->consumer().buffer + memory_at, traffic->consumer().stag}.write(own()); }

 private:
  std::unique_ptr<SiwPeer> talk_;

 public:
  SiwPeer& talk;
  std::unique_ptr<SiwPeer> traffic;
  Whereabouts theirs;
  std::uint32_t messages = 0;  ///< that came over the second connection
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

TEST_P(SiwPerftest, in_the_guest_as_client_finds_in_us_its_server) {
  auto listener = TcpListener::listen("127.0.0.1").value();
  auto argv = command(listener.port());
  argv.emplace_back("10.0.2.2");
  auto program = start(argv);
  auto stream = listener.accept(patience);
  ASSERT_TRUE(stream) << stream.error().message;
  Perftest us(std::make_unique<SiwPeer>(std::move(*stream), settings()));
  ASSERT_TRUE(us.talk.end().await(steady_now()));
  ASSERT_EQ(us.talk.event()->type, Type::request);
  us.listen_up();
  ASSERT_TRUE(us.talk.end().accept({}));
  ASSERT_EQ(us.talk.event()->type, Type::established);
  for (MutableBytes said = us.hear(); !said.empty(); said = us.hear()) {
    // What it says suits us, but for where its memory is.
    std::ranges::copy(said, us.own().begin());
    const bool of_memory = said.size() == Whereabouts::size;
    if (of_memory && us.traffic) {
      us.theirs = Whereabouts::read(said);
      us.tell_memory();
    }
    us.listen_up();
    ASSERT_TRUE(us.say(said.size()));
    if (!of_memory || us.traffic) continue;
    // Now it makes the second connection.
    auto second = listener.accept(patience);
    ASSERT_TRUE(second) << second.error().message;
    us.traffic = std::make_unique<SiwPeer>(std::move(*second), settings());
    std::ranges::fill(us.traffic->consumer().at(Perftest::memory_at, bytes), 0xa5);
    ASSERT_TRUE(us.traffic->end().await(steady_now()));
    ASSERT_EQ(us.traffic->event()->type, Type::request);
    post_receives(*us.traffic);
    ASSERT_TRUE(us.traffic->end().accept({}));
    ASSERT_EQ(us.traffic->event()->type, Type::established);
  }
  expect_success(program);
  ASSERT_TRUE(us.traffic);
  EXPECT_EQ(us.messages, sends() ? iterations : 0);
  const std::string untouched(bytes, '\xa5');
  const bool written = us.traffic->consumer().text(Perftest::memory_at, bytes) != untouched;
  EXPECT_EQ(written, GetParam().opcode != WorkOpcode::read);
  EXPECT_EQ(us.talk.worst, Status::success);
}

TEST_P(SiwPerftest, in_the_guest_as_server_finds_in_us_its_client) {
  const auto port = guest().tcp_ports().at(0);
  auto program = start(command(port.guest));
  auto first = connected<SiwPeer>(port.host, settings());
  ASSERT_TRUE(first);
  Perftest us(std::move(first));
  // Its version, the path MTU, an inline size, and what nobody knows the name of: as one perftest says it to another.
  constexpr std::string_view version = "6.06";
  std::ranges::copy(version, us.own().begin());
  us.listen_up();
  ASSERT_TRUE(us.say(16));
  (void)nudge(us.talk);
  ASSERT_EQ(us.hear().size(), 16U);
  store_be(us.own().data(), 4, 4096);
  ASSERT_FALSE(us.exchange(4).empty());
  store_be(us.own().data(), 4, 64);
  ASSERT_FALSE(us.exchange(4).empty());
  store_be(us.own().data(), 2, 0x3300);
  ASSERT_FALSE(us.exchange(2).empty());
  std::ranges::fill(us.own(), 0);
  ASSERT_FALSE(us.exchange(Whereabouts::size).empty());
  us.traffic = connected<SiwPeer>(port.host, settings());
  ASSERT_TRUE(us.traffic);
  SiwPeer& traffic = *us.traffic;
  std::ranges::fill(traffic.consumer().at(Perftest::memory_at, bytes), 0xa5);
  ASSERT_FALSE(us.exchange(Whereabouts::size).empty());
  for (int i = 0; i < (sends() ? 4 : 3); ++i) {
    us.tell_memory();
    const MutableBytes heard = us.exchange(Whereabouts::size);
    ASSERT_FALSE(heard.empty());
    us.theirs = Whereabouts::read(heard);
  }
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    device::SendRequest request{.opcode = GetParam().opcode,
                                .sges = {traffic.consumer().piece(Perftest::memory_at, bytes)}};
    if (!sends()) {
      request.remote_address = us.theirs.address;
      request.rkey = us.theirs.key;
    }
    last = traffic.post(std::move(request));
  }
  ASSERT_TRUE(traffic.sent(last));
  us.tell_memory();
  ASSERT_FALSE(us.exchange(Whereabouts::size).empty());
  std::ranges::fill(us.own(), 0);
  for (int figure = 0; !sends() && figure < 5; ++figure) ASSERT_FALSE(us.exchange(8).empty());
  if (!sends()) {
    us.tell_memory();
    ASSERT_FALSE(us.exchange(Whereabouts::size).empty());
  }
  traffic.end().disconnect();
  us.talk.end().disconnect();
  (void)traffic.until([&] { return traffic.end().ended(); });
  (void)us.talk.until([&] { return us.talk.end().ended(); });
  expect_success(program);
  std::string expected(bytes, '\xa5');
  if (sends()) expected.replace(0, 4, std::string{static_cast<char>(iterations), 0, 0, 0});  // how much it has received
  const bool as_it_was = traffic.consumer().text(Perftest::memory_at, bytes) == expected;
  EXPECT_EQ(as_it_was, GetParam().opcode != WorkOpcode::read);
  EXPECT_EQ(traffic.worst, Status::success);
  EXPECT_EQ(us.talk.worst, Status::success);
}

INSTANTIATE_TEST_SUITE_P(Siw, SiwPerftest,
                         ::testing::Values(Program{"ib_write_bw", WorkOpcode::write},
                                           Program{"ib_read_bw", WorkOpcode::read},
                                           Program{"ib_send_bw", WorkOpcode::send}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace rdmawire::endpoint
