// Tests of two endpoints on an in-memory stream: all operations with all negotiated parameters and segmentations.

#include "conformance/device/iwarp/endpoint.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "conformance/device/iwarp/stream_link_for_test.hpp"

namespace rdmawire::endpoint {
namespace {

using device::Status;
using device::WorkOpcode;
using testing::Consumer;
using testing::StreamLink;
using Type = ConnectionEvent::Type;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::vector<Type> types_of(const std::vector<ConnectionEvent>& events) {
  std::vector<Type> types;
  for (const auto& event : events) types.push_back(event.type);
  return types;
}
std::vector<std::pair<std::uint64_t, Status>> reported(const std::vector<device::Completion>& completions) {
  std::vector<std::pair<std::uint64_t, Status>> all;
  for (const auto& one : completions) all.emplace_back(one.id, one.status);
  return all;
}

machines::MpaSettings settings(int revision = 2) {
  machines::MpaSettings mpa{.revision = static_cast<std::uint8_t>(revision)};
  mpa.ird = mpa.ord = 4;
  return mpa;
}

/// Initiator `a` and responder `b`.
struct Pair {
  explicit Pair(machines::MpaSettings of_a = settings(), machines::MpaSettings of_b = settings(),
                std::uint32_t emss = 1460, RnicOptions rnic = {})
      : a(of_a, {rnic.seed, rnic.extensions}, emss), b(of_b, {rnic.seed + 1, rnic.extensions}, emss) {}

  Consumer a, b;
  StreamLink link{*a.end, *b.end};

  void connect() {
    ASSERT_TRUE(b.end->await(link.now));
    ASSERT_TRUE(a.end->connect(bytes_of("hello"), link.now));
    link.run();
    const auto requests = b.events();
    ASSERT_THAT(types_of(requests), ElementsAre(Type::request));
    EXPECT_EQ(requests[0].private_data, bytes_of("hello"));
    ASSERT_TRUE(b.end->accept(bytes_of("welcome")));
    link.run();
    const auto answered = a.events();
    ASSERT_THAT(types_of(answered), ElementsAre(Type::established));
    EXPECT_EQ(answered[0].private_data, bytes_of("welcome"));
    ASSERT_THAT(types_of(b.events()), ElementsAre(Type::established));
  }
  void post(device::SendRequest request) { ASSERT_TRUE(a.end->post_send(std::move(request))); }
};

device::SendRequest work(std::uint64_t id, WorkOpcode opcode, std::vector<device::Sge> sges,
                         const Consumer* remote = nullptr, std::uint64_t offset = 0) {
  device::SendRequest request{.id = id, .opcode = opcode, .sges = std::move(sges)};
  if (remote != nullptr) {
    request.remote_address = remote->buffer + offset;
    request.rkey = remote->stag;
  }
  return request;
}

/// Execute all operations of an initiator and compare the effects at the responder.
void all_operations(Pair& pair) {
  Consumer &a = pair.a, &b = pair.b;
  std::string message(9000, ' ');
  for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<char>('a' + i % 23);
  a.fill(0, message);
  b.fill(40'000, "remote words");
  const std::uint64_t nine = 9;
  std::memcpy(b.at(48'000, 8).data(), &nine, 8);
  for (std::uint64_t id = 100; id < 106; ++id) b.receive(id, (id - 100) * 10'000, 9000);

  device::Region* invalidated = *b.rnic.memory().allocate_region(b.rnic.new_handle(), b.pd, 4096);
  const std::uint32_t fast_handle = invalidated->handle;
  ASSERT_TRUE(b.end->post_send({.id = 50,
                                .opcode = WorkOpcode::reg_mr,
                                .region = fast_handle,
                                .new_key = 7,
                                .address = b.buffer,
                                .bytes_bound = 4096,
                                .iova = b.buffer,
                                .rights = device::access::local_write | device::access::remote_write}));

  pair.post(work(1, WorkOpcode::send, {a.piece(0, 9000)}));
  pair.post(work(2, WorkOpcode::send, {}));
  pair.post(work(3, WorkOpcode::write, {a.piece(0, 5000), a.piece(5000, 4000)}, &b, 10'000));
  pair.post(work(4, WorkOpcode::read, {a.piece(20'000, 12)}, &b, 40'000));
  pair.post(work(5, WorkOpcode::read, {}, &b, 40'000));
  auto add = work(6, WorkOpcode::fetch_add, {a.piece(30'000, 8)}, &b, 48'000);
  add.swap_add = 5;
  pair.post(add);
  auto swap = work(7, WorkOpcode::compare_swap, {a.piece(30'008, 8)}, &b, 48'000);
  swap.compare = 14;
  swap.swap_add = 77;
  swap.swap_add_mask = ~0ULL;
  pair.post(swap);
  auto event = work(8, WorkOpcode::send, {a.piece(0, 3)});
  event.solicited = true;
  pair.post(event);
  auto immediate = work(9, WorkOpcode::write_imm, {a.piece(0, 4)}, &b, 60'000);
  immediate.immediate_data = 0x1122334455667788;
  pair.post(immediate);
  pair.link.run();
  auto invalidate = work(10, WorkOpcode::send_inv, {a.piece(0, 1)});
  invalidate.immediate = b.rnic.memory().region(fast_handle)->key;
  EXPECT_TRUE(b.rnic.memory().region(fast_handle)->valid);
  pair.post(invalidate);
  auto fenced = work(11, WorkOpcode::send, {a.piece(20'000, 12)});
  fenced.fence = true;
  pair.post(fenced);
  pair.link.run();

  std::vector<std::pair<std::uint64_t, Status>> expected;
  for (std::uint64_t id = 1; id <= 11; ++id) expected.emplace_back(id, Status::success);
  EXPECT_EQ(reported(a.poll()), expected);
  auto completions = b.poll();
  expected.clear();
  EXPECT_EQ(std::erase_if(completions, [](const auto& one) { return one.id == 50 && one.status == Status::success; }),
            1U);
  for (std::uint64_t id = 100; id < 106; ++id) expected.emplace_back(id, Status::success);
  ASSERT_EQ(reported(completions), expected);
  EXPECT_EQ(completions[0].bytes, 9000U);
  EXPECT_EQ(completions[1].bytes, 0U);
  EXPECT_EQ(completions[2].bytes, 3U);
  EXPECT_TRUE(completions[3].has_immediate);
  EXPECT_EQ(completions[3].immediate_data, 0x1122334455667788U);
  EXPECT_TRUE(completions[4].has_invalidated);
  EXPECT_FALSE(b.rnic.memory().region(fast_handle)->valid);
  EXPECT_TRUE(b.text(0, 9000) == message);
  EXPECT_TRUE(b.text(10'000, 9000) == message);
  EXPECT_EQ(a.text(20'000, 12), "remote words");
  EXPECT_EQ(b.text(50'000, 12), "remote words");  // the fenced Send follows the complete read
  std::uint64_t values[2], now = 0;
  std::memcpy(values, a.at(30'000, 16).data(), 16);
  std::memcpy(&now, b.at(48'000, 8).data(), 8);
  EXPECT_EQ(values[0], 9U);
  EXPECT_EQ(values[1], 14U);
  EXPECT_EQ(now, 77U);
  EXPECT_EQ(a.end->stream(), machines::StreamState::operating);
  EXPECT_EQ(b.end->stream(), machines::StreamState::operating);
}

struct Cut {
  const char* name;
  std::function<std::size_t(std::size_t)> piece;
};
std::vector<Cut> cuts() {
  auto random = std::make_shared<device::Random>(7);
  return {{"whole", [](std::size_t waiting) { return waiting; }},
          {"bytes", [](std::size_t) { return std::size_t{1}; }},
          {"random", [random](std::size_t) { return std::size_t{1 + random->bits(11)}; }}};
}

TEST(Endpoints, AllOperationsCompleteWithAllNegotiatedParameters) {
  for (const int revision : {1, 2})
    for (const bool markers_a : {false, true})
      for (const bool markers_b : {false, true})
        for (const bool crc_a : {false, true})
          for (const bool crc_b : {false, true})
            for (const Cut& cut : cuts()) {
              SCOPED_TRACE(fmt::format("revision {} markers {} {} crc {} {} {}", revision, markers_a, markers_b, crc_a,
                                       crc_b, cut.name));
              auto of_a = settings(revision), of_b = settings(revision);
              of_a.markers = markers_a;
              of_b.markers = markers_b;
              of_a.crc = crc_a;
              of_b.crc = crc_b;
              Pair pair(of_a, of_b);
              pair.link.piece = cut.piece;
              pair.connect();
              // An endpoint sends markers if the peer requested them. Both use CRCs if one requested them.
              EXPECT_EQ(pair.a.end->agreement().send_markers, markers_b);
              EXPECT_EQ(pair.b.end->agreement().send_markers, markers_a);
              EXPECT_EQ(pair.a.end->agreement().crc, crc_a || crc_b);
              // The responder sends only after the first FPDU of the initiator.
              pair.b.receive(99, 63'000, 10);
              pair.post(work(98, WorkOpcode::send, {}));
              pair.link.run();
              EXPECT_EQ(reported(pair.a.poll()).size(), 1U);
              EXPECT_EQ(reported(pair.b.poll()).size(), 1U);
              all_operations(pair);
            }
}

TEST(Endpoints, AllOperationsCompleteWithAllSegmentSizes) {
  for (const std::uint32_t emss : {100, 140, 536, 1448, 1460, 4096, 9000, 65495}) {
    SCOPED_TRACE(emss);
    auto marked = settings();
    marked.markers = true;
    Pair pair(marked, marked, emss);
    pair.connect();
    all_operations(pair);
    for (const int side : {0, 1})
      for (const std::size_t bytes : pair.link.segments[side]) EXPECT_LE(bytes, emss);
  }
}

TEST(Endpoints, FirstFpduIsNegotiatedRtrIndication) {
  struct Row {
    machines::RtrKinds kinds;
    std::uint8_t opcode;
  };
  const Row rows[] = {{{.send = true}, 3}, {{.write = true}, 0}, {{.read = true}, 1}, {{true, true, true}, 0}};
  for (const Row& row : rows) {
    auto of_a = settings(), of_b = settings();
    of_a.peer_to_peer = true;
    of_b.rtr = row.kinds;
    Pair pair(of_a, of_b);
    pair.connect();
    // The initiator's first FPDU, after an MPA frame of 20 + 4 + 5 bytes, is the RTR indication. The responder may then
    // send.
    ASSERT_GT(pair.link.sent[0].size(), 29U + 4U);
    EXPECT_EQ(pair.link.sent[0][29 + 3] & 0x0f, row.opcode);
    EXPECT_EQ(pair.b.end->phase(), machines::MpaPhase::full_operation);
    pair.a.receive(1, 0, 100);
    pair.b.fill(0, "first");
    ASSERT_TRUE(pair.b.end->post_send(work(2, WorkOpcode::send, {pair.b.piece(0, 5)})));
    pair.link.run();
    EXPECT_THAT(reported(pair.a.poll()), ElementsAre(std::pair(std::uint64_t{1}, Status::success)));
    EXPECT_THAT(reported(pair.b.poll()), ElementsAre(std::pair(std::uint64_t{2}, Status::success)));
    all_operations(pair);
  }
}

TEST(Endpoints, ResponderSendsAfterFirstFpdu) {
  Pair pair;
  pair.connect();
  pair.a.receive(1, 0, 100);
  pair.b.receive(2, 0, 100);
  ASSERT_TRUE(pair.b.end->post_send(work(3, WorkOpcode::send, {})));
  pair.link.run();
  EXPECT_THAT(pair.b.poll(), IsEmpty());
  pair.post(work(4, WorkOpcode::send, {}));
  pair.link.run();
  EXPECT_THAT(reported(pair.b.poll()), ElementsAre(std::pair(2U, Status::success), std::pair(3U, Status::success)));
}

TEST(Endpoints, OutstandingReadsAreLimitedByOrd) {
  auto of_a = settings(), of_b = settings();
  of_a.ord = 2;
  of_b.ird = 2;
  Pair pair(of_a, of_b);
  pair.connect();
  EXPECT_EQ(pair.a.end->agreement().ord, 2);
  for (std::uint64_t id = 0; id < 7; ++id) pair.post(work(id, WorkOpcode::read, {pair.a.piece(id * 8, 8)}, &pair.b, 0));
  // The initiator has sent two requests of 2 + 18 + 28 + 4 bytes, but not the third one.
  std::size_t bytes = 0;
  for (const auto& segment : pair.a.end->take(pair.link.now).segments) bytes += segment.size();
  EXPECT_EQ(bytes, 2U * 52U);
}

TEST(Endpoints, ReadsBeyondOrdCompleteInOrder) {
  auto of_a = settings(), of_b = settings();
  of_a.ord = of_b.ird = 2;
  Pair pair(of_a, of_b);
  pair.connect();
  pair.b.receive(100, 0, 10);
  for (std::uint64_t id = 0; id < 7; ++id) pair.post(work(id, WorkOpcode::read, {pair.a.piece(id * 8, 8)}, &pair.b, 0));
  pair.post(work(7, WorkOpcode::send, {}));
  pair.link.run();
  const auto completions = pair.a.poll();
  ASSERT_EQ(completions.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(completions[i].id, i);
}

TEST(Endpoints, RejectReportsPrivateData) {
  Pair pair;
  ASSERT_TRUE(pair.b.end->await(0));
  ASSERT_TRUE(pair.a.end->connect({}, 0));
  pair.link.run();
  EXPECT_THAT(types_of(pair.b.events()), ElementsAre(Type::request));
  ASSERT_TRUE(pair.b.end->reject(bytes_of("no")));
  pair.link.run();
  const auto events = pair.a.events();
  EXPECT_THAT(types_of(events), ElementsAre(Type::rejected, Type::disconnected));
  EXPECT_EQ(events[0].private_data, bytes_of("no"));
  EXPECT_THAT(types_of(pair.b.events()), ElementsAre(Type::disconnected));
}

TEST(Endpoints, PrivateDataLimitIsEnforced) {
  for (const int revision : {1, 2}) {
    const std::vector<std::uint8_t> most(revision == 1 ? 512 : 508, 7);
    const std::vector<std::uint8_t> more(most.size() + 1, 7);
    Pair pair(settings(revision), settings(revision));
    ASSERT_TRUE(pair.b.end->await(0));
    EXPECT_EQ(pair.a.end->connect(more, 0).error().number, EINVAL);
    ASSERT_TRUE(pair.a.end->connect(most, 0));
    pair.link.run();
    EXPECT_EQ(pair.b.events().at(0).private_data, most);
    EXPECT_EQ(pair.b.end->accept(more).error().number, EINVAL);
    ASSERT_TRUE(pair.b.end->accept(most));
    pair.link.run();
    EXPECT_EQ(pair.a.events().at(0).private_data, most);
  }
}

TEST(Endpoints, ResponderTimesOutWithoutRequest) {
  Pair pair;
  ASSERT_TRUE(pair.b.end->await(0));
  pair.link.run_until(4'999'999'999);
  EXPECT_THAT(pair.b.events(), IsEmpty());
  pair.link.run_until(5'000'000'000);
  EXPECT_THAT(types_of(pair.b.events()), ElementsAre(Type::failed, Type::disconnected));
}

TEST(Endpoints, DisconnectSendsPostedRequestsFirst) {
  Pair pair;
  pair.connect();
  pair.b.receive(1, 0, 10);
  pair.b.receive(2, 0, 10);
  pair.post(work(3, WorkOpcode::send, {}));
  pair.a.end->disconnect();
  pair.link.run();
  EXPECT_THAT(types_of(pair.a.events()), ElementsAre(Type::disconnected));
  EXPECT_THAT(types_of(pair.b.events()), ElementsAre(Type::peer_closed, Type::disconnected));
  EXPECT_THAT(reported(pair.b.poll()), ElementsAre(std::pair(1U, Status::success), std::pair(2U, Status::flushed)));
}

TEST(Endpoints, ReadIsServedAfterPeerClose) {
  Pair pair;
  pair.connect();
  pair.b.fill(0, "still there");
  pair.post(work(1, WorkOpcode::read, {pair.a.piece(0, 11)}, &pair.b, 0));
  // The FIN arrives together with the request.
  for (const auto& segment : pair.a.end->take(0).segments) pair.b.end->received(segment, 0);
  pair.b.end->peer_closed(0);
  pair.link.run();
  EXPECT_THAT(reported(pair.a.poll()), ElementsAre(std::pair(1U, Status::success)));
  EXPECT_EQ(pair.a.text(0, 11), "still there");
}

TEST(Endpoints, ErrorSendsTerminateAndCloses) {
  Pair pair;
  pair.connect();
  pair.post(work(1, WorkOpcode::send, {}));  // no receive is posted
  pair.post(work(2, WorkOpcode::read, {pair.a.piece(0, 8)}, &pair.b, 0));
  pair.link.run();
  const auto here = pair.b.events(), there = pair.a.events();
  EXPECT_THAT(types_of(here), ElementsAre(Type::error, Type::disconnected));
  EXPECT_EQ(here[0].error, (machines::IwarpError{1, 2, 2}));
  EXPECT_THAT(types_of(there), ElementsAre(Type::terminated, Type::disconnected));
  EXPECT_EQ(there[0].error, (machines::IwarpError{1, 2, 2}));
  EXPECT_THAT(reported(pair.a.poll()), ElementsAre(std::pair(1U, Status::success), std::pair(2U, Status::flushed)));
}

TEST(Endpoints, ReadWithInvalidStagCompletesWithRemoteAccessError) {
  Pair pair;
  pair.connect();
  auto read = work(1, WorkOpcode::read, {pair.a.piece(0, 8)}, &pair.b, 0);
  read.rkey ^= 0x100;
  pair.post(read);
  pair.post(work(2, WorkOpcode::send, {}));
  pair.link.run();
  EXPECT_EQ(pair.a.events().at(0).error, (machines::IwarpError{0, 1, 0}));
  EXPECT_THAT(reported(pair.a.poll()),
              ElementsAre(std::pair(1U, Status::remote_access), std::pair(2U, Status::flushed)));
  EXPECT_EQ(pair.b.rnic.next_event()->type, device::EventType::qp_access_error);
}

TEST(Endpoints, OperationsOfRfc7306RequireExtensions) {
  Pair pair(settings(), settings(), 1460, {.extensions = false});
  pair.connect();
  EXPECT_EQ(pair.a.end->post_send(work(1, WorkOpcode::send_imm, {})).error().number, EINVAL);
  EXPECT_EQ(pair.a.end->post_send(work(1, WorkOpcode::flush, {})).error().number, EINVAL);
  EXPECT_TRUE(pair.a.end->post_send(work(1, WorkOpcode::send, {})));
}

TEST(Endpoints, RdmaConsortiumVersionIsSupportedIfEnabled) {
  auto permissive = settings(1);
  permissive.rdmac = true;
  Consumer b(permissive);
  ASSERT_TRUE(b.end->await(0));
  std::vector<std::uint8_t> request = bytes_of("MPA ID Req Frame");
  request.insert(request.end(), {0xc0, 0, 0, 0});
  b.end->received(request, 0);
  ASSERT_TRUE(b.end->accept({}));
  const Output output = b.end->take(0);
  ASSERT_EQ(output.segments.size(), 1U);
  EXPECT_EQ(output.segments[0][16], 0xc0);
  EXPECT_EQ(output.segments[0][17], 0);
  EXPECT_EQ(b.end->agreement().version, 0);
}

TEST(Endpoints, WriteToOtherStreamsDomainIsRejected) {
  Pair pair;
  Consumer second(pair.b, settings());
  pair.connect();
  auto write = work(1, WorkOpcode::write, {pair.a.piece(0, 8)}, &second, 0);  // in another protection domain
  pair.post(write);
  pair.link.run();
  EXPECT_EQ(pair.a.events().at(0).error, (machines::IwarpError{1, 1, 2}));
}

TEST(Endpoints, CompletionQueueOverflowTerminatesItsStreams) {
  Pair pair;
  pair.connect();
  for (int i = 0; i < 300; ++i) pair.b.receive(static_cast<std::uint64_t>(i), 0, 8);
  for (int i = 0; i < 200; ++i) pair.post(work(1, WorkOpcode::send, {}));
  pair.link.run();
  EXPECT_EQ(pair.a.poll().size(), 200U);
  for (int i = 0; i < 100; ++i) pair.post(work(1, WorkOpcode::send, {}));
  pair.link.run();
  EXPECT_EQ(pair.b.rnic.next_event()->type, device::EventType::cq_error);
  EXPECT_EQ(pair.a.events().at(0).error, (machines::IwarpError{0, 0, 0}));
}

}  // namespace
}  // namespace rdmawire::endpoint
