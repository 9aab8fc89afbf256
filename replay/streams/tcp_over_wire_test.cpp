// Tests against the kernel's TCP, at the peer interface of a veth pair in a network namespace.

#include "replay/streams/tcp_over_wire.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <set>
#include <thread>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "replay/streams/tcp_packet.hpp"
#include "replay/wires/descriptor.hpp"
#include "replay/wires/forwarding.hpp"
#include "replay/wires/namespaces_for_test.hpp"

namespace rdmawire::replay {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ByteVector = std::vector<std::uint8_t>;
using Kind = TcpArrival::Kind;

constexpr std::int64_t second = 1'000'000'000, moment = 200'000'000;

IpAddress address(const char* text) { return *IpAddress::parse(text); }
ByteVector counted(std::size_t bytes, std::uint8_t from = 0) {
  ByteVector made(bytes);
  std::iota(made.begin(), made.end(), from);
  return made;
}

/// A kernel socket. Blocks for at most five seconds.
class Socket {
 public:
  explicit Socket(int number, bool v6 = false) : socket_(number), v6_(v6) {
    const timeval limit{5, 0};
    ::setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    const int on = 1;
    ::setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  static Socket make(bool v6 = false) {
    return Socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), v6);
  }
  static Socket listening(bool v6 = false, int backlog = 16) {
    Socket made = make(v6);
    EXPECT_EQ(::listen(made.number(), backlog), 0);
    return made;
  }
  [[nodiscard]] int number() const { return socket_.get(); }
  [[nodiscard]] std::uint16_t port() const {
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    ::getsockname(number(), reinterpret_cast<sockaddr*>(&own), &length);
    return ntohs(v6_ ? reinterpret_cast<sockaddr_in6&>(own).sin6_port : reinterpret_cast<sockaddr_in&>(own).sin_port);
  }
  [[nodiscard]] Socket accept() const { return Socket(::accept4(number(), nullptr, nullptr, SOCK_CLOEXEC), v6_); }
  [[nodiscard]] bool connect(const char* to, std::uint16_t port) const {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(port);
    inet_pton(AF_INET, to, &there.sin_addr);
    return ::connect(number(), reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0;
  }
  void send(const ByteVector& bytes) const {
    EXPECT_EQ(::send(number(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// Receives until there are `bytes` bytes, the stream ends or five seconds have passed.
  [[nodiscard]] ByteVector receive(std::size_t bytes) const {
    ByteVector all(bytes);
    const ssize_t got = ::recv(number(), all.data(), bytes, MSG_WAITALL);
    all.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return all;
  }
  /// 0: end of the stream. Otherwise an errno.
  [[nodiscard]] int at_end() const {
    std::uint8_t one = 0;
    const ssize_t got = ::recv(number(), &one, 1, 0);
    return got < 0 ? errno : static_cast<int>(-got);
  }
  void shut() const { ::shutdown(number(), SHUT_WR); }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(number(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket_ = {};
  }
  [[nodiscard]] tcp_info info() const {
    tcp_info info{};
    socklen_t length = sizeof info;
    ::getsockopt(number(), IPPROTO_TCP, TCP_INFO, &info, &length);
    return info;
  }

 private:
  Descriptor socket_;
  bool v6_;
};

/// Drops three TCP segments with data and three without data in each direction: every seventh, but no sequence number
/// twice. With each loss of a retransmission the peer doubles its timer, so more losses could take minutes.
class LossyWire final : public ForwardingWire {
 public:
  explicit LossyWire(std::unique_ptr<Wire> wire) : ForwardingWire(*wire), wire_(std::move(wire)) {}
  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (!frames.empty() && loses(frames.front().frame, sent_)) return 1;
    return ForwardingWire::send(frames.first(std::min<std::size_t>(1, frames.size())));
  }
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override {
    auto received = ForwardingWire::receive(deadline);
    if (received && *received && loses((*received)->frame, received_)) return std::nullopt;
    return received;
  }

 private:
  struct Losses {
    std::size_t segments = 0;
    std::set<std::pair<std::uint64_t, std::uint64_t>> lost;  ///< sequence and acknowledgement numbers
  };
  /// Losses in one direction: of segments without data, and with data.
  using Direction = std::array<Losses, 2>;

  static bool loses(Bytes frame, Direction& direction) {
    const HeaderStack stack = decode(frame);
    const auto tcp = stack.get<Tcp>();
    if (!tcp || tcp->get<"syn">() != 0) return false;
    Losses& losses = direction[stack.payload.length > 0 ? 1 : 0];
    return ++losses.segments % 7 == 0 && losses.lost.size() < 3 &&
           losses.lost.emplace(tcp->get<"seq">(), tcp->get<"ack_number">()).second;
  }

  std::unique_ptr<Wire> wire_;
  Direction sent_, received_;
};

/// Sizes of the nonempty TCP payloads sent by one side.
std::vector<std::size_t> segments(const std::vector<PassedFrame>& frames, bool sent) {
  std::vector<std::size_t> sizes;
  for (const PassedFrame& frame : frames) {
    if (frame.sent != sent) continue;
    const HeaderStack stack = decode(frame.frame);
    const auto tcp = stack.get<Tcp>();
    EXPECT_TRUE(tcp);
    if (tcp && stack.payload.length > 0) sizes.push_back(stack.payload.length);
  }
  return sizes;
}
/// Flags of the TCP headers sent by one side.
std::vector<int> flags(const std::vector<PassedFrame>& frames, bool sent, int mask) {
  std::vector<int> all;
  for (const PassedFrame& frame : frames) {
    const auto tcp = TcpPacket::find(Bytes(frame.frame).subspan(14));
    EXPECT_TRUE(tcp);
    if (tcp && frame.sent == sent) {
      const int seen = tcp->flags(Bytes(frame.frame).subspan(14)) & mask;
      if (seen != 0) all.push_back(seen);
    }
  }
  return all;
}

class KernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    spaces_ = testing::Namespaces::make(why_not);
    if (!spaces_) GTEST_SKIP() << why_not;
    ASSERT_TRUE(spaces_->run("ip link add near type veth peer name far && ip link set near up && ip link set far up && "
                             "ip address add 10.9.0.1/24 dev far && ip address add fd09::1/64 dev far nodad") &&
                spaces_->run(testing::Namespaces::until_up("near")) &&
                spaces_->run(testing::Namespaces::until_up("far")));
    host_ = make("10.9.0.200");
    ASSERT_TRUE(host_);
  }
  static std::unique_ptr<TcpOverWire> make(const char* own, std::size_t passed = 64 << 20,
                                           MacAddress mac = 0x020000000c01) {
    auto wire = open_wire("packet:near");
    EXPECT_TRUE(wire) << wire.error().message;
    auto made = TcpOverWire::make(std::move(*wire), {.mac = mac, .address = address(own), .passed_bytes = passed});
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  std::unique_ptr<TcpConnection> connect(const Socket& listener, const TcpOptions& options = {}) {
    auto made = host_->connect({address("10.9.0.1"), listener.port()}, options, in(5 * second));
    EXPECT_TRUE(made) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }
  [[nodiscard]] std::int64_t in(std::int64_t time) const { return host_->now() + time; }
  TcpArrival next(TcpConnection& connection) const {
    auto arrival = connection.receive(in(60 * second));  // TCP doubles its timer with each consecutive loss
    EXPECT_TRUE(arrival) << arrival.error().message;
    EXPECT_TRUE(arrival && *arrival) << "nothing came";
    return arrival && *arrival ? std::move(**arrival) : TcpArrival{};
  }
  /// Receives `bytes` bytes, in any number of segments.
  ByteVector receive(TcpConnection& connection, std::size_t bytes) const {
    ByteVector all;
    while (all.size() < bytes) {
      const TcpArrival arrival = next(connection);
      if (arrival.bytes.empty()) break;
      all.insert(all.end(), arrival.bytes.begin(), arrival.bytes.end());
    }
    return all;
  }

  std::unique_ptr<testing::Namespaces> spaces_;
  std::unique_ptr<TcpOverWire> host_;
};

TEST_F(KernelTest, EachSendCreatesOneSegment) {
  const Socket listener = Socket::listening();
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const Socket theirs = listener.accept();
  EXPECT_EQ(ours->remote(), (TcpAddress{address("10.9.0.1"), listener.port()}));
  EXPECT_EQ(ours->local().address, address("10.9.0.200"));
  EXPECT_EQ(ours->send_mss(), 1460);
  ByteVector all;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 200; ++i) {
    const ByteVector piece = counted(i % 7 == 0 ? 1460 : 1 + i % 3, static_cast<std::uint8_t>(i));
    ASSERT_TRUE(ours->send(piece));
    sizes.push_back(piece.size());
    all.insert(all.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(theirs.receive(all.size()), all);
  const auto passed = host_->take_passed();
  EXPECT_EQ(segments(passed, true), sizes);
  // Longer data uses several segments, all full except the last.
  ASSERT_TRUE(ours->send(counted(3000)));
  EXPECT_EQ(theirs.receive(3000), counted(3000));
  EXPECT_THAT(segments(host_->take_passed(), true), ElementsAre(1460, 1460, 80));
  for (std::size_t i = 1; i < passed.size(); ++i) EXPECT_LE(passed[i - 1].time, passed[i].time);
}

TEST_F(KernelTest, ReceivedSegmentsKeepBoundariesAndAreAcknowledgedImmediately) {
  const Socket listener = Socket::listening();
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const Socket theirs = listener.accept();
  std::int64_t last = 0;
  for (std::size_t bytes = 1; bytes <= 9; ++bytes) {
    theirs.send(counted(bytes, 7));
    const TcpArrival arrival = next(*ours);
    EXPECT_EQ(arrival.kind, Kind::bytes);
    EXPECT_EQ(arrival.bytes, counted(bytes, 7));
    EXPECT_GT(arrival.time, last);
    EXPECT_LE(arrival.time, host_->now());
    last = arrival.time;
  }
  for (int tries = 0; tries < 1000 && theirs.info().tcpi_unacked != 0; ++tries) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(theirs.info().tcpi_unacked, 0);
  EXPECT_THAT(segments(host_->take_passed(), false), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  const auto nothing = ours->receive(in(moment));
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
}

TEST_F(KernelTest, PeerUsesAnnouncedMss) {
  const Socket listener = Socket::listening();
  for (const std::uint32_t mss : {536U, 1460U, 8960U, 88U}) {
    const auto ours = connect(listener, {.mss = mss});
    ASSERT_TRUE(ours);
    const Socket theirs = listener.accept();
    // The kernel limits the MSS to that of its device, and to a minimum.
    EXPECT_EQ(theirs.info().tcpi_snd_mss, std::min(mss, 1460U)) << mss;
    theirs.send(counted(2000));
    EXPECT_EQ(receive(*ours, 2000), counted(2000));
  }
  const auto wrong = host_->connect({address("10.9.0.1"), listener.port()}, {.mss = 87}, in(second));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().kind, WireError::Kind::specification);
}

TEST_F(KernelTest, HostUsesMssOfPeer) {
  const Socket listener = Socket::make();
  const int mss = 536;
  ASSERT_EQ(::setsockopt(listener.number(), IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss), 0);
  ASSERT_EQ(::listen(listener.number(), 4), 0);
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const Socket theirs = listener.accept();
  EXPECT_EQ(ours->send_mss(), 536);
  ASSERT_TRUE(ours->send(counted(1100)));
  EXPECT_EQ(theirs.receive(1100), counted(1100));
  EXPECT_THAT(segments(host_->take_passed(), true), ElementsAre(536, 536, 28));
}

TEST_F(KernelTest, DirectionsAreClosedIndependently) {
  const Socket listener = Socket::listening();
  {
    const auto ours = connect(listener);
    ASSERT_TRUE(ours);
    const Socket theirs = listener.accept();
    ASSERT_TRUE(ours->send(counted(10)));
    ASSERT_TRUE(ours->close_half());
    ASSERT_TRUE(ours->close_half());
    EXPECT_EQ(theirs.receive(10), counted(10));
    EXPECT_EQ(theirs.at_end(), 0);
    // The other direction stays open.
    theirs.send(counted(5));
    EXPECT_EQ(next(*ours).bytes, counted(5));
    EXPECT_EQ(ours->send(counted(1)).error().kind, WireError::Kind::down);
    theirs.shut();
    EXPECT_EQ(next(*ours).kind, Kind::fin);
  }
  const auto passed = host_->take_passed();
  EXPECT_THAT(flags(passed, true, TcpPacket::fin | TcpPacket::rst), ElementsAre(TcpPacket::fin));
  EXPECT_THAT(flags(passed, false, TcpPacket::fin | TcpPacket::rst), ElementsAre(TcpPacket::fin));
  {
    // The peer closes first, with data in or before the segment with the FIN.
    const auto ours = connect(listener);
    ASSERT_TRUE(ours);
    const Socket theirs = listener.accept();
    theirs.send(counted(20));
    theirs.shut();
    EXPECT_EQ(next(*ours).bytes, counted(20));
    EXPECT_EQ(next(*ours).kind, Kind::fin);
    ASSERT_TRUE(ours->send(counted(3)));
    EXPECT_EQ(theirs.receive(3), counted(3));
    ASSERT_TRUE(ours->close_half());
    EXPECT_EQ(theirs.at_end(), 0);
  }
  EXPECT_THAT(flags(host_->take_passed(), true, TcpPacket::fin | TcpPacket::rst), ElementsAre(TcpPacket::fin));
}

TEST_F(KernelTest, ResetsAreSentAndReported) {
  const Socket listener = Socket::listening();
  {
    const auto ours = connect(listener);
    ASSERT_TRUE(ours);
    const Socket theirs = listener.accept();
    theirs.send(counted(4));
    EXPECT_EQ(next(*ours).bytes, counted(4));
    ours->reset();
    EXPECT_EQ(theirs.at_end(), ECONNRESET);
    const std::int64_t before = host_->now();
    const auto behind = ours->receive(in(60 * second));
    ASSERT_TRUE(behind);
    EXPECT_FALSE(*behind);
    EXPECT_LT(host_->now() - before, 30 * second);
  }
  {
    const auto ours = connect(listener);
    ASSERT_TRUE(ours);
    Socket theirs = listener.accept();
    theirs.send(counted(4));
    EXPECT_EQ(next(*ours).bytes, counted(4));
    theirs.reset();
    EXPECT_EQ(next(*ours).kind, Kind::reset);
    EXPECT_EQ(ours->send(counted(1)).error().kind, WireError::Kind::down);
    EXPECT_EQ(ours->close_half().error().kind, WireError::Kind::down);
  }
  (void)host_->take_passed();
  {
    // Destruction resets a connection with one open direction.
    auto ours = connect(listener);
    ASSERT_TRUE(ours);
    const Socket theirs = listener.accept();
    ours.reset();
    EXPECT_EQ(theirs.at_end(), ECONNRESET);
  }
  EXPECT_THAT(flags(host_->take_passed(), true, TcpPacket::fin | TcpPacket::rst), ElementsAre(TcpPacket::rst));
}

TEST_F(KernelTest, AcceptsIncomingConnections) {
  const auto port = host_->listen(0, {.mss = 700});
  ASSERT_TRUE(port);
  EXPECT_EQ(host_->listen(*port, {}).error().kind, WireError::Kind::full);
  const auto none = host_->accept(*port, in(moment));
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  const Socket theirs = Socket::make();
  ASSERT_TRUE(theirs.connect("10.9.0.200", *port));
  EXPECT_EQ(theirs.info().tcpi_snd_mss, 700);
  theirs.send(counted(100));  // before accept()
  auto ours = host_->accept(*port, in(5 * second));
  ASSERT_TRUE(ours && *ours);
  EXPECT_EQ((*ours)->local(), (TcpAddress{address("10.9.0.200"), *port}));
  EXPECT_EQ((*ours)->remote(), (TcpAddress{address("10.9.0.1"), theirs.port()}));
  EXPECT_EQ(next(**ours).bytes, counted(100));
  ASSERT_TRUE((*ours)->send(counted(1)));
  EXPECT_EQ(theirs.receive(1), counted(1));
  // Connections that are not accepted are reset when the port stops listening. Accepted ones stay open.
  const Socket waiting = Socket::make(), late = Socket::make();
  ASSERT_TRUE(waiting.connect("10.9.0.200", *port));
  host_->stop_listening(*port);
  EXPECT_EQ(waiting.at_end(), ECONNRESET);
  EXPECT_FALSE(late.connect("10.9.0.200", *port));
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(host_->accept(*port, in(second)).error().kind, WireError::Kind::specification);
  ASSERT_TRUE((*ours)->send(counted(2)));
  EXPECT_EQ(theirs.receive(2), counted(2));
}

TEST_F(KernelTest, ConnectErrorsContainReason) {
  const std::uint16_t port = Socket::listening().port();  // closed again
  const auto refused = host_->connect({address("10.9.0.1"), port}, {}, in(5 * second));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, WireError::Kind::missing);
  EXPECT_THAT(refused.error().message, HasSubstr("refused"));
  const auto nobody = host_->connect({address("10.9.0.77"), 1}, {}, in(5 * second));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind, WireError::Kind::missing);
  EXPECT_THAT(nobody.error().message, HasSubstr("no reply from 10.9.0.77"));
  EXPECT_EQ(host_->connect({address("fd09::1"), 1}, {}, in(second)).error().kind, WireError::Kind::unsupported);
  // Addresses of this host are refused.
  auto wire = open_wire("packet:near");
  ASSERT_TRUE(wire);
  const auto own = TcpOverWire::make(std::move(*wire), {.address = address("10.9.0.1")});
  ASSERT_FALSE(own);
  EXPECT_EQ(own.error().kind, WireError::Kind::unsupported);
}

TEST_F(KernelTest, HostsWithSameAddressAndPortsAreIndependent) {
  // The other host is in another namespace with another pair of interfaces.
  std::string why_not;
  auto other_space = testing::Namespaces::make(why_not);
  ASSERT_TRUE(other_space);
  ASSERT_TRUE(other_space->run("ip link add near type veth peer name far && ip link set near up && ip link set far up "
                               "&& ip address add 10.9.0.1/24 dev far") &&
              other_space->run(testing::Namespaces::until_up("near")) &&
              other_space->run(testing::Namespaces::until_up("far")));
  const auto other = make("10.9.0.200");
  ASSERT_TRUE(other);
  const Socket other_listener = Socket::listening();
  ASSERT_TRUE(other->listen(7471, {.mss = 500}));
  auto theirs_to_other = std::async(std::launch::async, [] {
    Socket made = Socket::make();
    EXPECT_TRUE(made.connect("10.9.0.200", 7471));
    return made.info().tcpi_snd_mss;
  });
  other_space = nullptr;  // this thread is back in the first namespace. Sockets stay in theirs
  ASSERT_TRUE(host_->listen(7471, {.mss = 600}));
  const Socket listener = Socket::listening();
  const Socket to_ours = Socket::make();
  ASSERT_TRUE(to_ours.connect("10.9.0.200", 7471));
  EXPECT_EQ(to_ours.info().tcpi_snd_mss, 600);
  EXPECT_EQ(theirs_to_other.get(), 500);
  auto first = host_->accept(7471, in(5 * second)), second_one = other->accept(7471, in(5 * second));
  ASSERT_TRUE(first && *first && second_one && *second_one);
  to_ours.send(counted(3));
  EXPECT_EQ(next(**first).bytes, counted(3));
  EXPECT_EQ(next(**second_one).kind, Kind::fin);
  // A reset without a connection is sent to the wire of the unexpected segment.
  const Socket stray = Socket::make();
  EXPECT_FALSE(stray.connect("10.9.0.200", 9));
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_THAT(flags(other->take_passed(), true, TcpPacket::rst), ElementsAre());
  EXPECT_THAT(flags(host_->take_passed(), true, TcpPacket::rst), ElementsAre(TcpPacket::rst));
}

TEST_F(KernelTest, ConnectsOverIpv6) {
  const auto host = make("fd09::200", 64 << 20, 0x020000000c02);
  ASSERT_TRUE(host);
  const Socket listener = Socket::listening(true);
  auto ours = host->connect({address("fd09::1"), listener.port()}, {.mss = 1000}, in(5 * second));
  ASSERT_TRUE(ours) << ours.error().message;
  const Socket theirs = listener.accept();
  EXPECT_EQ((*ours)->send_mss(), 1440);
  EXPECT_EQ(theirs.info().tcpi_snd_mss, 1000);
  ASSERT_TRUE((*ours)->send(counted(2000)));
  EXPECT_EQ(theirs.receive(2000), counted(2000));
  theirs.send(counted(2000));
  EXPECT_EQ(receive(**ours, 2000), counted(2000));
}

TEST_F(KernelTest, SegmentWaitsForWindow) {
  const Socket listener = Socket::make();
  const int room = 4096;
  ASSERT_EQ(::setsockopt(listener.number(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
  ASSERT_EQ(::listen(listener.number(), 4), 0);
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const Socket theirs = listener.accept();
  constexpr std::size_t pieces = 40;
  std::atomic<std::size_t> sent = 0;
  auto sending = std::async(std::launch::async, [&] {
    for (; sent < pieces; ++sent) EXPECT_TRUE(ours->send(counted(1000, static_cast<std::uint8_t>(sent))));
  });
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(sent, 20U);
  for (std::size_t i = 0; i < pieces; ++i) EXPECT_EQ(theirs.receive(1000), counted(1000, static_cast<std::uint8_t>(i)));
  sending.get();
}

TEST_F(KernelTest, UnreceivedDataFillsWindow) {
  const Socket listener = Socket::listening();
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const Socket theirs = listener.accept();
  const ByteVector much = counted(1 << 20);
  auto sending = std::async(std::launch::async, [&] { theirs.send(much); });
  std::this_thread::sleep_for(300ms);
  std::size_t came = 0;
  for (const std::size_t bytes : segments(host_->take_passed(), false)) came += bytes;
  EXPECT_LE(came, 2 * 65'535U);
  EXPECT_EQ(receive(*ours, much.size()), much);
  sending.get();
}

TEST_F(KernelTest, LostSegmentsAreRetransmitted) {
  host_ = nullptr;
  auto wire = open_wire("packet:near");
  ASSERT_TRUE(wire);
  auto lossy = TcpOverWire::make(std::make_unique<LossyWire>(std::move(*wire)), {.address = address("10.9.0.200")});
  ASSERT_TRUE(lossy);
  host_ = std::move(*lossy);
  const Socket listener = Socket::listening();
  auto made = host_->connect({address("10.9.0.1"), listener.port()}, {}, in(30 * second));
  ASSERT_TRUE(made) << made.error().message;
  const Socket theirs = listener.accept();
  const ByteVector much = counted(100'000);
  auto sending = std::async(std::launch::async, [&] { theirs.send(much); });
  EXPECT_EQ(receive(**made, much.size()), much);
  sending.get();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE((*made)->send(counted(100)));
  EXPECT_EQ(theirs.receive(1000).size(), 1000);
}

TEST_F(KernelTest, RecordedFramesAreBounded) {
  host_ = nullptr;
  host_ = make("10.9.0.200", 10'000);
  ASSERT_TRUE(host_);
  const Socket listener = Socket::listening();
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const Socket theirs = listener.accept();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(ours->send(counted(1000)));
  EXPECT_EQ(theirs.receive(100'000).size(), 100'000);
  std::size_t bytes = 0;
  const auto passed = host_->take_passed();
  for (const auto& frame : passed) bytes += frame.frame.size();
  EXPECT_LE(bytes, 10'000);
  EXPECT_FALSE(passed.empty());
  EXPECT_GT(host_->passed_lost(), 80);
  EXPECT_TRUE(host_->take_passed().empty());
}

TEST_F(KernelTest, ManyConnectionsReleaseTheirResources) {
  const Socket listener = Socket::listening();
  for (int i = 0; i < 600; ++i) {
    const auto ours = connect(listener);
    ASSERT_TRUE(ours);
    const Socket theirs = listener.accept();
    ASSERT_TRUE(ours->close_half());
    theirs.shut();
    EXPECT_EQ(next(*ours).kind, Kind::fin);
  }
}

TEST_F(KernelTest, BlockedCallsCanBeInterrupted) {
  const Socket listener = Socket::listening();
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const auto port = host_->listen(0, {});
  ASSERT_TRUE(port);
  auto interrupting = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(100ms);
    host_->interrupt();
  });
  const std::int64_t before = host_->now();
  EXPECT_EQ(ours->receive(in(60 * second)).error().kind, WireError::Kind::closed);
  EXPECT_LT(host_->now() - before, 30 * second);
  interrupting.get();
  EXPECT_EQ(host_->accept(*port, in(20 * second)).error().kind, WireError::Kind::closed);
  EXPECT_EQ(host_->pass(in(20 * second)).error().kind, WireError::Kind::closed);
  EXPECT_EQ(ours->send(counted(1)).error().kind, WireError::Kind::closed);
  EXPECT_EQ(host_->connect({address("10.9.0.1"), 1}, {}, in(20 * second)).error().kind, WireError::Kind::closed);
}

TEST_F(KernelTest, LimitedHostRespectsRateAndDestinations) {
  const auto mac = host_->resolve(address("10.9.0.1"), in(5 * second));
  ASSERT_TRUE(mac) << mac.error().message;
  const Socket listener = Socket::listening();
  host_->restrain({.frames_per_second = 100, .burst = 1, .destinations = {*mac + 1}});
  const auto forbidden = host_->connect({address("10.9.0.1"), listener.port()}, {}, in(5 * second));
  ASSERT_FALSE(forbidden);
  EXPECT_EQ(forbidden.error().kind, WireError::Kind::forbidden);
  host_->restrain({.frames_per_second = 100, .burst = 1, .destinations = {*mac}});
  const auto ours = connect(listener);
  ASSERT_TRUE(ours);
  const Socket theirs = listener.accept();
  const std::int64_t before = host_->now();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(ours->send(counted(10)));
  EXPECT_GE(host_->now() - before, 400'000'000);
  EXPECT_EQ(theirs.receive(500).size(), 500);
}

}  // namespace
}  // namespace rdmawire::replay
