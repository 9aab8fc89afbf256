/// Tests of the reference endpoint through the agent client and TCP connections, as a tester uses a device. Sent and
/// expected bytes are literal.

#include "conformance/device/iwarp/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/iwarp/script_parts_for_test.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/iwarp_tracker.hpp"
#include "replay/peer/connection_manager.hpp"
#include "replay/peer/queue_pair.hpp"

namespace rdmawire::endpoint {
namespace {

using namespace std::chrono_literals;
using testing::append_number;
using testing::atomic_header;
using testing::ByteVector;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_header;
using testing::reply_frame;
using testing::request_frame;
using testing::some;
using testing::tagged;
using testing::untagged;
using Kind = replay::TcpArrival::Kind;

constexpr std::int64_t millisecond = 1'000'000;
constexpr std::uint16_t device_port = 7471, tester_port = 4000;

template <class T, class E>
T take(tl::expected<T, E> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// The tester's side of one connection.
struct Stream {
  std::unique_ptr<replay::TcpConnection> tcp;
  VirtualTcp* host = nullptr;
  MpaSender sender{{.markers = false, .crc = true}};

  void raw(const ByteVector& bytes) const { ASSERT_TRUE(tcp->send(bytes)); }
  ByteVector fpdu(const ByteVector& ulpdu) {
    ByteVector bytes;
    (void)sender.send(bytes, ulpdu);
    return bytes;
  }
  void send_ulpdu(const ByteVector& ulpdu) { raw(fpdu(ulpdu)); }
  /// Return the next segment, or the text "fin", "reset" or "nothing".
  ByteVector next() const {
    const auto arrival = take(tcp->receive(host->now() + 20 * millisecond));
    const auto text = [](std::string_view word) { return ByteVector(word.begin(), word.end()); };
    if (!arrival) return text("nothing");
    if (arrival->kind == Kind::fin) return text("fin");
    return arrival->kind == Kind::reset ? text("reset") : arrival->bytes;
  }
};
ByteVector word(std::string_view text) { return {text.begin(), text.end()}; }

/// Return a Send to queue 0.
ByteVector send_of(std::uint32_t msn, const ByteVector& payload) { return untagged(3, 0, msn, 0, payload); }

class Reference : public ::testing::Test {
 protected:
  void SetUp() override { begin({}); }
  void begin(AdapterOptions options) {
    qps.clear();
    memory.reset();
    cq.reset();
    pd.reset();
    device.reset();
    reference = take(ReferenceEndpoint::start(std::move(options)));
    device.emplace(take(peer::Device::open(reference->peer())));
    pd.emplace(take(device->protection_domain()));
    cq.emplace(take(device->completion_queue(64)));
    memory.emplace(take(pd->region(8192, {"local_write", "remote_write", "remote_read", "remote_atomic"})));
  }
  peer::QueuePair& new_qp() {
    peer::QueuePairOptions options;
    options.send_cq = &*cq;
    qps.push_back(take(pd->queue_pair(options)));
    return qps.back();
  }
  replay::TcpAddress to_device(std::uint16_t port = device_port) const {
    return {replay::IpAddress::v4(0x0a000001), port};
  }
  Stream connect_tcp() const {
    return {take(reference->tcp().connect(to_device(), {}, reference->tcp().now() + 100 * millisecond)),
            &reference->tcp()};
  }
  struct Connected {
    Stream stream;
    peer::QueuePair* qp;
    peer::CmConnection cm;
  };
  /// The tester connects with revision 1 and CRCs. Receives of 64 bytes are posted from offset 0.
  Connected responder(unsigned receives = 0, const ByteVector& request = request_frame(0x40, 1, word("hello"))) {
    if (!listener) listener.emplace(take(peer::Listener::listen(reference->peer(), {.port = device_port})));
    Stream stream = connect_tcp();
    stream.raw(request);
    auto cm = take(listener->request(5s));
    peer::QueuePair& qp = new_qp();
    post(qp, receives);
    EXPECT_TRUE(cm.accept(qp, {.private_data = word("welcome")}));
    reply = stream.next();
    EXPECT_EQ(take(cm.next_event(5s)).type, "established");
    return {std::move(stream), &qp, std::move(cm)};
  }
  /// The device connects and the tester replies with a literal frame.
  Connected initiator(const ByteVector& answer = reply_frame(0x40, 1, word("yes"))) {
    if (!std::exchange(listens, true)) {
      EXPECT_TRUE(reference->tcp().listen(tester_port, {}));
    }
    peer::QueuePair& qp = new_qp();
    auto cm = take(peer::CmConnection::connect(reference->peer(), qp, {.address = "10.0.0.200", .port = tester_port},
                                               {.private_data = word("hello")}));
    auto tcp = take(reference->tcp().accept(tester_port, reference->tcp().now() + 100 * millisecond));
    EXPECT_NE(tcp, nullptr);
    Stream stream{std::move(tcp), &reference->tcp()};
    asked = stream.next();
    stream.raw(answer);
    return {std::move(stream), &qp, std::move(cm)};
  }
  void post(const peer::QueuePair& qp, unsigned receives) {
    for (unsigned i = 0; i < receives; ++i)
      ASSERT_TRUE(qp.post_recv({{.wr_id = 100 + i, .sges = {memory->piece(std::uint64_t{i} * 64, 64)}}}));
  }
  peer::Completion completion() {
    auto polled = take(cq->poll(1, 1000ms));
    if (polled.empty()) throw std::runtime_error("no completion");
    return polled[0];
  }
  void device_sends(const peer::QueuePair& qp, std::uint32_t bytes) {
    ASSERT_TRUE(qp.post_send({{.opcode = "send", .wr_id = 5, .sges = {memory->piece(0, bytes)}}}));
  }

  std::unique_ptr<ReferenceEndpoint> reference;
  std::optional<peer::Device> device;
  std::optional<peer::ProtectionDomain> pd;
  std::optional<peer::CompletionQueue> cq;
  std::optional<peer::Region> memory;
  std::optional<peer::Listener> listener;
  std::deque<peer::QueuePair> qps;
  bool listens = false;
  ByteVector reply, asked;
};

TEST_F(Reference, DescribesDevice) {
  EXPECT_TRUE(device->iwarp());
  EXPECT_EQ(device->name(), "reference");
  EXPECT_EQ(device->limit("max_qp_rd_atomic"), 128U);
  EXPECT_EQ(device->mac(), (std::array<std::uint8_t, 6>{2, 0, 0, 0, 0, 1}));
}

TEST_F(Reference, AcceptsConnectionAndReceivesSend) {
  auto [stream, qp, cm] = responder(1);
  // RFC 5044, 7.1.1: key, only C set, revision 1, seven bytes of private data.
  EXPECT_EQ(reply, reply_frame(0x40, 1, word("welcome")));
  EXPECT_EQ(cm.request().private_data, word("hello"));
  EXPECT_EQ(cm.request().body.at("remote_address"), "10.0.0.200");
  EXPECT_EQ(cm.request().body.at("local_port"), device_port);
  EXPECT_EQ(take(qp->state()), "rts");
  stream.send_ulpdu(send_of(1, word("hi there")));
  const auto done = completion();
  EXPECT_EQ(done.status, "success");
  EXPECT_EQ(done.wr_id, 100U);
  EXPECT_EQ(done.byte_len, 8U);
  EXPECT_EQ(done.qp_num, qp->qp_num());
  EXPECT_EQ(take(memory->read(0, 8)), word("hi there"));
}

TEST_F(Reference, ConnectsAndSends) {
  reference->wish({.enhanced = false});
  auto [stream, qp, cm] = initiator();
  EXPECT_EQ(asked, request_frame(0x40, 1, word("hello")));
  const auto established = take(cm.wait_established(5s));
  EXPECT_EQ(established.private_data, word("yes"));
  ASSERT_TRUE(memory->write(0, word("from the device")));
  device_sends(*qp, 15);
  // Untagged segment, last, queue 0, message 1: RFC 5041, 4.3. Send: RFC 5040, 4.3.
  EXPECT_EQ(stream.next(), stream.fpdu(send_of(1, word("from the device"))));
  EXPECT_EQ(completion().opcode, "send");
}

TEST_F(Reference, NegotiatedDepthsAreReported) {
  // RFC 6581, 9: A and B clear, IRD 5, ORD 3.
  auto [stream, qp, cm] = responder(0, request_frame(0x50, 2, {0x00, 0x05, 0x00, 0x03}));
  EXPECT_EQ(cm.request().body.at("initiator_depth"), 5);
  EXPECT_EQ(cm.request().body.at("responder_resources"), 3);
  ByteVector data{0x00, 0x03, 0x00, 0x05};
  const ByteVector welcome = word("welcome");
  data.insert(data.end(), welcome.begin(), welcome.end());
  EXPECT_EQ(reply, reply_frame(0x50, 2, data));
  EXPECT_EQ(take(qp->query()).at("max_rd_atomic"), 5);
  EXPECT_EQ(take(qp->query()).at("max_dest_rd_atomic"), 3);
}

TEST_F(Reference, ServesWritesReadsAndAtomics) {
  auto [stream, qp, cm] = responder(1, request_frame(0x50, 2, {0x00, 0x08, 0x00, 0x08}));
  stream.send_ulpdu(tagged(0, memory->rkey(), memory->addr() + 4096, word("written")));
  EXPECT_EQ(take(memory->read(4096, 7)), word("written"));
  ByteVector ask = untagged(1, 1, 1, 0, read_header(7, memory->rkey(), memory->addr() + 4096));
  stream.send_ulpdu(ask);
  EXPECT_EQ(stream.next(), stream.fpdu(tagged(2, 0x5157, 0x1000, word("written"))));
  ByteVector number;
  append_number(number, 0, 8);
  number[0] = 5;  // host byte order: little endian
  ASSERT_TRUE(memory->write(0, number));
  stream.send_ulpdu(untagged(10, 1, 2, 0, atomic_header(0, memory->rkey(), memory->addr(), {.data = 3})));
  ByteVector response;
  append_number(response, 0x77, 4);
  append_number(response, 5, 8);
  // RFC 7306, 5.2.2: identifier and original value.
  EXPECT_EQ(stream.next(), stream.fpdu(untagged(11, 3, 1, 0, response)));
  EXPECT_EQ(take(memory->read(0, 1)), (ByteVector{8}));
}

TEST_F(Reference, RequestsReadsAndAtomics) {
  auto [stream, qp, cm] = initiator(reply_frame(0x50, 2, {0x00, 0x08, 0x00, 0x08}));
  ASSERT_TRUE(take(cm.wait_established(5s)).body.contains("responder_resources"));
  ASSERT_TRUE(qp->post_send(
      {{.opcode = "read", .wr_id = 1, .sges = {memory->piece(64, 4)}, .remote_addr = 0x2000, .rkey = 0x99}}));
  const ByteVector fpdu = stream.next();
  ByteVector header;  // RFC 5040, 4.4: sink STag and TO, size, source STag and TO
  append_number(header, memory->lkey(), 4);
  append_number(header, memory->addr() + 64, 8);
  append_number(header, 4, 4);
  append_number(header, 0x99, 4);
  append_number(header, 0x2000, 8);
  EXPECT_EQ(fpdu, stream.fpdu(untagged(1, 1, 1, 0, header)));
  stream.send_ulpdu(tagged(2, memory->lkey(), memory->addr() + 64, word("data")));
  EXPECT_EQ(completion().opcode, "read");
  EXPECT_EQ(take(memory->read(64, 4)), word("data"));
  ASSERT_TRUE(qp->post_send({{.opcode = "compare_swap",
                              .wr_id = 2,
                              .sges = {memory->piece(0, 8)},
                              .remote_addr = 0x2000,
                              .rkey = 0x99,
                              .compare = 1,
                              .swap = 2}}));
  const ByteVector atomic = stream.next();
  ASSERT_GE(atomic.size(), 2U + 18 + 52);
  // After length and header: CmpSwap, 32-bit identifier, STag, TO, swap data and mask, compare data and mask.
  ByteVector reported(atomic.begin() + 20, atomic.begin() + 72);
  const ByteVector id(reported.begin() + 4, reported.begin() + 8);
  std::fill(reported.begin() + 4, reported.begin() + 8, 0);
  ByteVector expected = atomic_header(2, 0x99, 0x2000, {.data = 2, .mask = ~0ULL, .compare = 1});
  std::fill(expected.begin() + 4, expected.begin() + 8, 0);
  EXPECT_EQ(reported, expected);
  ByteVector response = id;
  append_number(response, 41, 8);
  stream.send_ulpdu(untagged(11, 3, 1, 0, response));
  EXPECT_EQ(completion().opcode, "compare_swap");
  EXPECT_EQ(take(memory->read(0, 1)), (ByteVector{41}));
}

TEST_F(Reference, ImmediateDataHasEightBytes) {
  auto [stream, qp, cm] = responder(1);
  stream.send_ulpdu(untagged(8, 0, 1, 0, {1, 2, 3, 4, 5, 6, 7, 8}));
  const auto done = completion();
  EXPECT_EQ(done.imm64, 0x0102030405060708U);
  EXPECT_EQ(done.imm, 0x05060708U);
  // The device sends Immediate Data in one untagged segment to queue 0. RFC 7306, 6.3.
  ASSERT_TRUE(qp->post_send({{.opcode = "send_imm", .wr_id = 6, .more = {{"imm", 0x1112131415161718}}}}));
  EXPECT_EQ(stream.next(), stream.fpdu(untagged(8, 0, 1, 0, {0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18})));
}

TEST_F(Reference, RejectSendsPrivateData) {
  listener.emplace(take(peer::Listener::listen(reference->peer(), {.port = device_port})));
  Stream stream = connect_tcp();
  stream.raw(request_frame(0x40, 1));
  const auto cm = take(listener->request(5s));
  ASSERT_TRUE(cm.reject(word("no")));
  EXPECT_EQ(stream.next(), reply_frame(0x60, 1, word("no")));
  EXPECT_EQ(stream.next(), word("fin"));
}

TEST_F(Reference, RejectedConnectReportsPrivateData) {
  auto [stream, qp, cm] = initiator(reply_frame(0x60, 1, word("never")));
  ASSERT_EQ(take(cm.next_event(5s)).type, "addr_resolved");
  ASSERT_EQ(take(cm.next_event(5s)).type, "route_resolved");
  const auto event = take(cm.next_event(5s));
  EXPECT_EQ(event.type, "rejected");
  EXPECT_EQ(event.name, "ECONNRESET");
  EXPECT_EQ(event.reason, 0);
  EXPECT_EQ(event.private_data, word("never"));
  EXPECT_EQ(stream.next(), word("fin"));
}

// RFC 6581, 9.1: ORD above the local IRD.
TEST_F(Reference, InsufficientIrdReportsConnectError) {
  reference->wish({.revision = 2, .enhanced = true});
  auto [stream, qp, cm] = initiator(reply_frame(0x50, 2, {0x00, 0x02, 0x3f, 0xfe}));
  ASSERT_EQ(take(cm.next_event(5s)).type, "addr_resolved");
  ASSERT_EQ(take(cm.next_event(5s)).type, "route_resolved");
  const auto event = take(cm.next_event(5s));
  EXPECT_EQ(event.type, "connect_error");
  EXPECT_EQ(event.name, "EPROTO");
}

TEST_F(Reference, ConnectWithoutListenerIsRefused) {
  const auto refused = reference->tcp().connect(to_device(), {}, reference->tcp().now() + millisecond);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, replay::WireError::Kind::missing);
  auto& qp = new_qp();
  const auto cm = take(peer::CmConnection::connect(reference->peer(), qp, {.address = "10.0.0.200", .port = 9}));
  ASSERT_TRUE(reference->tcp().pass(reference->tcp().now() + millisecond));
  const auto event = cm.wait_established(5s);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().name, "ECONNREFUSED");
  EXPECT_THAT(event.error().message, HasSubstr("failed"));
  // The queue pair can be connected again.
  EXPECT_TRUE(reference->tcp().listen(tester_port, {}));
  const auto second_connection =
      take(peer::CmConnection::connect(reference->peer(), qp, {.address = "10.0.0.200", .port = tester_port}));
  EXPECT_NE(take(reference->tcp().accept(tester_port, reference->tcp().now() + millisecond)), nullptr);
}

TEST_F(Reference, DeviceDisconnectsGracefully) {
  auto [stream, qp, cm] = responder(1);
  stream.send_ulpdu(send_of(1, some(4)));
  (void)completion();
  ASSERT_TRUE(cm.disconnect());
  EXPECT_EQ(stream.next(), word("fin"));
  EXPECT_EQ(take(qp->state()), "sqd");
  ASSERT_TRUE(stream.tcp->close_half());
  EXPECT_EQ(take(cm.next_event(5s)).type, "disconnected");
  EXPECT_EQ(take(qp->state()), "err");
}

TEST_F(Reference, PeerCloseDisconnects) {
  auto [stream, qp, cm] = responder(2);
  stream.send_ulpdu(send_of(1, some(4)));
  ASSERT_TRUE(stream.tcp->close_half());
  EXPECT_EQ(take(cm.next_event(5s)).type, "disconnected");
  EXPECT_EQ(stream.next(), word("fin"));
  EXPECT_EQ(completion().status, "success");
  EXPECT_EQ(completion().status, "wr_flush_err");
}

TEST_F(Reference, TesterCanSendAfterFin) {
  auto [stream, qp, cm] = responder(1);
  const auto early = stream.tcp->send_behind_fin(some(3));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().kind, replay::WireError::Kind::down);
  ASSERT_TRUE(stream.tcp->close_half());
  EXPECT_FALSE(stream.tcp->send(some(3)));
  EXPECT_TRUE(stream.tcp->send_behind_fin(some(3)));
  EXPECT_EQ(stream.next(), word("fin"));
}

TEST_F(Reference, PeerResetDisconnects) {
  auto [stream, qp, cm] = responder(1);
  stream.tcp->reset();
  EXPECT_EQ(completion().status, "wr_flush_err");
  EXPECT_EQ(take(cm.next_event(5s)).type, "disconnected");
  EXPECT_FALSE(stream.tcp->send(some(3)));
  EXPECT_EQ(stream.next(), word("nothing"));
}

TEST_F(Reference, ErrorSendsTerminateAndRaisesEvent) {
  auto [stream, qp, cm] = responder(1);
  stream.send_ulpdu(tagged(0, memory->rkey() ^ 0x100, memory->addr(), word("x")));
  const ByteVector fpdu = stream.next();
  ASSERT_GE(fpdu.size(), 24U);
  // RFC 5040, 4.8: DDP, tagged buffer, invalid STag. M and D are set.
  EXPECT_EQ(ByteVector(fpdu.begin() + 20, fpdu.begin() + 23), (ByteVector{0x11, 0x00, 0xc0}));
  EXPECT_EQ(stream.next(), word("fin"));
  ASSERT_TRUE(stream.tcp->close_half());
  const auto event = take(cm.next_event(5s));
  EXPECT_EQ(event.type, "disconnected");
  EXPECT_EQ(event.body.at("stream_error"), nlohmann::json({{"layer", 1}, {"type", 1}, {"code", 0}, {"by", "device"}}));
  const auto async = take(reference->peer().next_event(5s, [](const peer::Event& one) { return one.name == "async"; }));
  ASSERT_TRUE(async);
  EXPECT_EQ(async->body.at("type"), "qp_fatal");
  EXPECT_EQ(async->body.at("qp"), qp->handle());
}

TEST_F(Reference, ReceivedTerminateIsReported) {
  auto [stream, qp, cm] = responder(1);
  stream.send_ulpdu(send_of(1, some(1)));
  stream.send_ulpdu(untagged(7, 2, 1, 0, {0x02, 0x05, 0, 0}));
  EXPECT_EQ(stream.next(), word("fin"));
  ASSERT_TRUE(stream.tcp->close_half());
  EXPECT_EQ(take(cm.next_event(5s)).body.at("stream_error"),
            nlohmann::json({{"layer", 0}, {"type", 2}, {"code", 5}, {"by", "peer"}}));
}

TEST_F(Reference, TimersExpireDuringWaitingCommand) {
  listener.emplace(take(peer::Listener::listen(reference->peer(), {.port = device_port})));
  Stream stream = connect_tcp();
  const auto before = reference->tcp().now();
  EXPECT_TRUE(take(cq->poll(1, 6000ms)).empty());
  EXPECT_EQ(reference->tcp().now() - before, 6'000 * millisecond);
  EXPECT_EQ(stream.next(), word("reset"));  // no request frame within five seconds
}

TEST_F(Reference, SegmentsObeyAnnouncedMss) {
  listener.emplace(take(peer::Listener::listen(reference->peer(), {.port = device_port})));
  Stream stream{take(reference->tcp().connect(to_device(), {.mss = 200}, reference->tcp().now() + millisecond)),
                &reference->tcp()};
  EXPECT_EQ(stream.tcp->send_mss(), 1460U);
  auto connected = responder(1);
  connected.stream.send_ulpdu(send_of(1, some(1)));
  stream.raw(request_frame(0x40, 1));
  auto cm = take(listener->request(5s));
  auto& qp = new_qp();
  post(qp, 1);
  ASSERT_TRUE(cm.accept(qp));
  (void)stream.next();
  stream.send_ulpdu(send_of(1, some(1)));
  device_sends(qp, 1000);
  const ByteVector segment = stream.next();
  EXPECT_LE(segment.size(), 200U);
  EXPECT_GT(segment.size(), 190U);
}

TEST_F(Reference, ConnectionsAreIndependentWithSharedCompletionQueue) {
  auto one = responder(1), two = responder(0);
  two.stream.send_ulpdu(send_of(1, some(1)));  // no receive is posted: the stream ends
  one.stream.send_ulpdu(send_of(1, word("still")));
  EXPECT_EQ(take(one.qp->state()), "rts");
  EXPECT_NE(take(two.qp->state()), "rts");
  const auto done = completion();
  EXPECT_EQ(done.qp_num, one.qp->qp_num());
  EXPECT_EQ(done.byte_len, 5U);
}

TEST_F(Reference, WriteToOtherProtectionDomainIsRejected) {
  const auto other = take(device->protection_domain());
  const auto foreign = take(other.region(64, {"local_write", "remote_write"}));
  auto connected = responder(0);
  connected.stream.send_ulpdu(tagged(0, foreign.rkey(), foreign.addr(), word("x")));
  const ByteVector fpdu = connected.stream.next();
  ASSERT_GE(fpdu.size(), 24U);
  // RFC 5041, 7.2: the STag is not associated with the stream.
  EXPECT_EQ(ByteVector(fpdu.begin() + 20, fpdu.begin() + 22), (ByteVector{0x11, 0x02}));
  EXPECT_EQ(take(foreign.read(0, 1)), (ByteVector{0}));
}

TEST_F(Reference, DestroyedConnectionIsReset) {
  auto connected = responder(0);
  ASSERT_TRUE(connected.cm.release());
  EXPECT_EQ(connected.stream.next(), word("reset"));
  listener->release();
  EXPECT_FALSE(reference->tcp().connect(to_device(), {}, reference->tcp().now() + millisecond));
}

TEST_F(Reference, DeviceCanSendAfterPeerClose) {
  listener.emplace(take(peer::Listener::listen(reference->peer(), {.port = device_port})));
  Stream stream = connect_tcp();
  stream.raw(request_frame(0x40, 1));
  auto cm = take(listener->request(5s));
  auto& qp = new_qp();
  post(qp, 1);
  ASSERT_TRUE(
      reference->peer().call("cm_accept", {{"cm_id", cm.handle()}, {"qp", qp.handle()}, {"answer_disconnect", false}}));
  (void)stream.next();
  stream.send_ulpdu(send_of(1, some(1)));
  ASSERT_TRUE(stream.tcp->close_half());
  ASSERT_EQ(take(cm.next_event(5s)).type, "established");
  EXPECT_EQ(take(cm.next_event(5s)).type, "disconnected");
  EXPECT_EQ(stream.next(), word("nothing"));
  ASSERT_TRUE(memory->write(0, word("late")));
  device_sends(qp, 4);
  EXPECT_EQ(stream.next(), stream.fpdu(send_of(1, word("late"))));
  ASSERT_TRUE(cm.disconnect());
  EXPECT_EQ(stream.next(), word("fin"));
}

TEST_F(Reference, WindowAndFastRegistrationPermitWrites) {
  memory.emplace(take(pd->region(8192, {"local_write", "remote_write", "mw_bind"})));
  auto window = take(pd->memory_window());
  auto connected = responder(1);
  connected.stream.send_ulpdu(send_of(1, some(1)));
  (void)completion();
  const auto key = take(window.bind(*connected.qp, *memory, 128, 16, {"remote_write"}, true));
  EXPECT_EQ(completion().opcode, "bind_mw");
  connected.stream.send_ulpdu(tagged(0, key, memory->addr() + 128, word("in the window")));
  EXPECT_EQ(take(memory->read(128, 13)), word("in the window"));
  const auto fast = take(reference->peer().call("alloc_mr", {{"pd", pd->handle()}, {"length", 4096}}));
  const std::uint32_t rkey = fast.at("rkey").get<std::uint32_t>() + 1;
  ASSERT_TRUE(connected.qp->post_send(
      {{.opcode = "reg_mr",
        .wr_id = 8,
        .more = {{"mr", fast.at("mr")}, {"new_rkey", rkey}, {"access", {"local_write", "remote_write"}}}}}));
  EXPECT_EQ(completion().opcode, "reg_mr");
  connected.stream.send_ulpdu(tagged(0, rkey, fast.at("addr").get<std::uint64_t>(), word("fast")));
  const auto reported = take(reference->peer().call("read", {{"mr", fast.at("mr")}, {"length", 4}}));
  EXPECT_EQ(reported.at("bytes"), "66617374");
  // An access after the end of the window: RFC 5041, 7.2.
  connected.stream.send_ulpdu(tagged(0, key, memory->addr() + 140, word("in the window")));
  const ByteVector fpdu = connected.stream.next();
  ASSERT_GE(fpdu.size(), 24U);
  EXPECT_EQ(ByteVector(fpdu.begin() + 20, fpdu.begin() + 22), (ByteVector{0x11, 0x01}));
}

TEST_F(Reference, SolicitedSendNotifiesCompletionChannel) {
  const auto channel = take(device->completion_channel());
  cq.emplace(take(device->completion_queue(8, &channel)));
  auto connected = responder(2);
  ASSERT_TRUE(cq->notify(true));
  const auto woken = [&] {
    EXPECT_TRUE(reference->peer().call("ping"));
    const auto event =
        take(reference->peer().next_event(0ms, [](const peer::Event& one) { return one.name == "completion"; }));
    return event.has_value();
  };
  connected.stream.send_ulpdu(send_of(1, some(1)));
  EXPECT_FALSE(woken());
  connected.stream.send_ulpdu(untagged(5, 0, 2, 0, some(1)));
  EXPECT_TRUE(woken());
}

TEST_F(Reference, RequestsBeyondBacklogAreReset) {
  listener.emplace(take(peer::Listener::listen(reference->peer(), {.port = device_port}, 1)));
  Stream one = connect_tcp(), two = connect_tcp();
  one.raw(request_frame(0x40, 1));
  two.raw(request_frame(0x40, 1));
  EXPECT_EQ(two.next(), word("reset"));
  EXPECT_EQ(one.next(), word("nothing"));
  const auto waiting = take(listener->request(5s));
  EXPECT_FALSE(listener->request(0ms));
}

TEST_F(Reference, ModifyToErrorTerminatesStream) {
  auto [stream, qp, cm] = responder(1);
  stream.send_ulpdu(send_of(1, some(1)));
  (void)completion();
  ASSERT_TRUE(qp->modify({{"state", "err"}}));
  const ByteVector fpdu = stream.next();
  ASSERT_GE(fpdu.size(), 24U);
  // RFC 5040, 4.8: RDMA, local catastrophic error.
  EXPECT_EQ(ByteVector(fpdu.begin() + 20, fpdu.begin() + 24), (ByteVector{0, 0, 0, 0}));
  EXPECT_EQ(stream.next(), word("fin"));
}

TEST_F(Reference, ModifyToErrorWithoutConnectionFlushes) {
  auto& qp = new_qp();
  post(qp, 1);
  ASSERT_TRUE(qp.modify({{"state", "err"}}));
  EXPECT_EQ(take(qp.state()), "err");
  EXPECT_EQ(completion().status, "wr_flush_err");
  ASSERT_TRUE(qp.post_send({{.opcode = "send", .wr_id = 9}}));
  EXPECT_EQ(completion().status, "wr_flush_err");
  EXPECT_FALSE(peer::CmConnection::connect(reference->peer(), qp, {.address = "10.0.0.200", .port = tester_port}));
}

TEST_F(Reference, OpcodesOfRfc7306AreUnexpectedWithoutExtensions) {
  reference->set_extensions(false);
  EXPECT_EQ(take(reference->peer().call("describe", {{"device", device->handle()}})).at("rfc7306"), false);
  auto connected = responder(1);
  connected.stream.send_ulpdu(untagged(8, 0, 1, 0, some(8)));
  const ByteVector fpdu = connected.stream.next();
  ASSERT_GE(fpdu.size(), 24U);
  // RFC 5040, 7.2: RDMA, remote operation error, unexpected opcode.
  EXPECT_EQ(ByteVector(fpdu.begin() + 20, fpdu.begin() + 22), (ByteVector{0x02, 0x06}));
}

TEST_F(Reference, SegmentsObeyChangedEmss) {
  auto connected = responder(1);
  connected.stream.send_ulpdu(send_of(1, some(1)));
  reference->set_emss(536);
  device_sends(*connected.qp, 1000);
  // RFC 5044, 4.5: EMSS 536, MULPDU 530.
  EXPECT_EQ(connected.stream.next().size(), 536U);
}

TEST_F(Reference, InvalidCommandsAreRejected) {
  auto& qp = new_qp();
  const auto refused = [&](const char* command, const nlohmann::json& arguments, const char* name) {
    const auto result = reference->peer().call(command, arguments);
    ASSERT_FALSE(result) << command;
    EXPECT_EQ(result.error().name, name) << result.error().message;
  };
  refused("cm_accept", {{"cm_id", 99}, {"qp", qp.handle()}}, "ENOENT");
  refused("cm_connect", {{"address", "10.0.0.200"}, {"port", 1}, {"qp_num", 3}}, "EINVAL");
  refused("cm_connect", {{"address", "fd00::2"}, {"port", 1}, {"qp", qp.handle()}}, "EAFNOSUPPORT");
  refused("modify_qp", {{"qp", qp.handle()}, {"state", "rts"}}, "EINVAL");
  refused("create_srq", {{"pd", pd->handle()}, {"max_wr", 4}}, "ENOSYS");
  refused("destroy", {{"object", cq->handle()}}, "EBUSY");
  refused("destroy", {{"object", pd->handle()}}, "EBUSY");
  EXPECT_FALSE(qp.post_send({{.opcode = "send", .wr_id = 1}}));  // no connection
  EXPECT_TRUE(qp.to_init());
  EXPECT_EQ(take(qp.state()), "init");
}

TEST_F(Reference, InjectedFaultHasEffect) {
  reference->set_fault(find_fault("replies-with-request-key")->fault);
  (void)responder(0);
  EXPECT_EQ(reply, testing::setup_frame(mpa::request_key, 0x40, 1, word("welcome")));
}

TEST_F(Reference, MpaSettingsApplyToNewQueuePairs) {
  machines::MpaSettings wish = reference->wished();
  wish.markers = true;
  wish.peer_to_peer = true;
  reference->wish(wish);
  auto connected = initiator(reply_frame(0x50, 2, {0x80, 0x08, 0x80, 0x08}));
  ASSERT_EQ(asked.size(), 20U + 4 + 5);
  EXPECT_EQ(asked[16], 0xd0);         // M, C and S
  EXPECT_EQ(asked[20] & 0xc0, 0xc0);  // A and B
  (void)connected.stream.next();      // the RTR indication: an empty RDMA Write
  ASSERT_TRUE(take(connected.cm.wait_established(5s)).type == "established");
}

TEST_F(Reference, InterruptEndsReceive) {
  auto connected = responder(0);
  reference->tcp().interrupt();
  const auto ended = connected.stream.tcp->receive(reference->tcp().now() + millisecond);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, replay::WireError::Kind::closed);
}

/// The TCP frames as read by a dissector and an iWARP tracker.
struct Passage {
  explicit Passage(const std::vector<replay::PassedFrame>& frames) {
    tracking::Dissector dissector;
    tracking::IwarpTracker tracker(reported);
    tracking::Packet packet;
    packet.link = LinkType::ethernet;
    std::int64_t last = 0;
    for (const auto& one : frames) {
      EXPECT_GE(one.time, last);
      last = one.time;
      all.insert(all.end(), one.frame.begin(), one.frame.end());
      ++packet.number;
      packet.time_ns = 1'000'000'000 + one.time;
      dissector.dissect(packet, one.frame, static_cast<std::uint32_t>(one.frame.size()));
      tracker.add(packet);
      for (const tracking::Pdu& pdu : packet.pdus)
        wrong_crcs += pdu.crc.status != CrcCheck::Status::good && pdu.stack.find(info<Fpdu>) != nullptr;
    }
    tracker.finish();
  }
  /// Return lines such as "send completed 11".
  [[nodiscard]] std::vector<std::string> messages() const {
    std::vector<std::string> lines;
    for (const auto& m : reported.messages)
      lines.push_back(fmt::format("{} {} {}", to_string(m.kind), to_string(m.outcome), m.size));
    return lines;
  }

  tracking::testing::Recorder reported;
  ByteVector all;
  int wrong_crcs = 0;
};

TEST_F(Reference, CapturedFramesAreDecodedCorrectly) {
  auto connected = responder(1, request_frame(0x50, 2, {0x00, 0x08, 0x00, 0x08}));
  Stream& stream = connected.stream;
  stream.send_ulpdu(tagged(0, memory->rkey(), memory->addr(), some(300)));
  stream.send_ulpdu(send_of(1, some(11)));
  stream.send_ulpdu(untagged(1, 1, 1, 0, read_header(2000, memory->rkey(), memory->addr())));
  device_sends(*connected.qp, 3000);
  while (stream.next() != word("nothing")) {
  }
  ASSERT_TRUE(stream.tcp->close_half());
  EXPECT_EQ(stream.next(), word("fin"));
  const auto frames = reference->tcp().take_passed();
  const Passage passage(frames);
  EXPECT_THAT(passage.messages(), ::testing::UnorderedElementsAre("write completed 300", "send completed 11",
                                                                  "read completed 2000", "send completed 3000"));
  EXPECT_EQ(passage.wrong_crcs, 0);
  // The tracker reports only open and close events, so nothing is lost, repeated or reordered.
  for (const auto& event : passage.reported.events)
    EXPECT_TRUE(event.kind == tracking::EventKind::opened || event.kind == tracking::EventKind::closed)
        << to_string(event.kind);
  ASSERT_GE(frames.size(), 3U);
  // SYN with the tester's MSS, SYN and ACK with the device's MSS, ACK.
  EXPECT_TRUE(frames[0].sent);
  EXPECT_EQ(frames[0].frame[47], 0x02);
  EXPECT_FALSE(frames[1].sent);
  EXPECT_EQ(frames[1].frame[47], 0x12);
  EXPECT_EQ(frames[2].frame[47], 0x10);
  EXPECT_EQ(ByteVector(frames[1].frame.begin() + 54, frames[1].frame.end()), (ByteVector{2, 4, 0x05, 0xb4}));
  EXPECT_TRUE(reference->tcp().take_passed().empty());
}

TEST_F(Reference, RunsAreDeterministic) {
  ByteVector runs[2];
  for (auto& run : runs) {
    listener.reset();
    begin({});
    auto connected = responder(2, request_frame(0x50, 2, {0x00, 0x08, 0x00, 0x08}));
    connected.stream.send_ulpdu(send_of(1, some(60)));
    device_sends(*connected.qp, 5000);
    for (int i = 0; i < 4; ++i) (void)connected.stream.next();
    run = Passage(reference->tcp().take_passed()).all;
  }
  EXPECT_GT(runs[0].size(), 5000U);
  EXPECT_EQ(runs[0], runs[1]);
}

TEST_F(Reference, ReadResponseBeyondWindowWaitsForReceiver) {
  memory.emplace(take(pd->region(1 << 20, {"local_write", "remote_read"})));
  auto connected = responder(0);
  connected.stream.send_ulpdu(untagged(1, 1, 1, 0, read_header(1 << 20, memory->rkey(), memory->addr())));
  std::size_t bytes = 0;
  ASSERT_TRUE(reference->tcp().pass(reference->tcp().now() + 10 * millisecond));
  // An error occurs during the response. The Terminate follows the response. RFC 5040, 7.1 rule 2.
  connected.stream.send_ulpdu(tagged(0, memory->rkey() ^ 0x100, memory->addr(), word("x")));
  ByteVector last;
  for (;;) {
    const ByteVector segment = connected.stream.next();
    if (segment == word("fin")) break;
    ASSERT_NE(segment, word("nothing"));
    last = segment;
    bytes += segment.size();
  }
  EXPECT_GT(bytes, 1U << 20);
  ASSERT_GE(last.size(), 22U);
  EXPECT_EQ(last[3] & 0x0f, 7);
  EXPECT_EQ(ByteVector(last.begin() + 20, last.begin() + 22), (ByteVector{0x11, 0x00}));
}

TEST_F(Reference, DeviceStaysResponsiveWithEachFault) {
  for (const FaultRow& row : fault_rows) {
    SCOPED_TRACE(row.name);
    listener.reset();
    listens = false;
    begin({});
    reference->set_fault(row.fault);
    listener.emplace(take(peer::Listener::listen(reference->peer(), {.port = device_port})));
    Stream stream = connect_tcp();
    (void)stream.tcp->send(request_frame(0x50, 2, {0x00, 0x08, 0x00, 0x08}));
    auto cm = listener->request(0ms);
    peer::QueuePair& qp = new_qp();
    post(qp, 4);
    if (cm) (void)cm->accept(qp);
    (void)stream.next();
    for (const ByteVector& ulpdu :
         {send_of(1, some(5)), tagged(0, memory->rkey(), memory->addr(), some(9)),
          untagged(1, 1, 1, 0, read_header(7, memory->rkey(), memory->addr())), send_of(9, some(5))})
      if (!stream.tcp->send(stream.fpdu(ulpdu))) break;
    (void)qp.post_send({{.opcode = "send", .wr_id = 5, .sges = {memory->piece(0, 100)}}});
    (void)stream.tcp->close_half();
    ASSERT_TRUE(reference->tcp().pass(reference->tcp().now() + 10'000 * millisecond));
    ASSERT_TRUE(reference->peer().call("ping"));
    ASSERT_TRUE(qp.state());
    ASSERT_TRUE(reference->peer().call("reset"));
  }
}

}  // namespace
}  // namespace rdmawire::endpoint
