/// Tests with two devices on a link that randomly drops, duplicates and reorders frames. Memory must be correct at the
/// end. On a clean link the tracker must report no events.

#include <gtest/gtest.h>

#include <set>

#include "conformance/device/roce/ends_for_test.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::device {
namespace {

using testing::End;
using testing::Pair;
using testing::Seen;

/// Posted requests of one endpoint and their expected results.
struct Script {
  static constexpr std::uint64_t slot = 16'384, counter = 1'040'000, results = 1'020'000;

  Script(End& from, End& to, std::uint64_t seed) : from_(from), to_(to), random_(seed) {}

  void post(unsigned count) {
    for (unsigned i = 0; i < count; ++i) post_one(i);
  }

  void check() {
    const std::vector<Completion> all = from_.poll();
    std::vector<Completion> done;
    for (const Completion& c : all) {
      EXPECT_EQ(c.status, Status::success) << c.id;
      if (c.opcode < CompletionOpcode::receive) done.push_back(c);
    }
    ASSERT_EQ(done.size(), requests_.size());
    std::uint64_t sum = 0;
    std::set<std::uint64_t> originals;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      EXPECT_EQ(done[i].id, i);
      const RandomRequest& random_request = requests_[i];
      switch (random_request.opcode) {
        case WorkOpcode::fetch_add:
          sum += random_request.added;
          originals.insert(load_le(from_.bytes(results + 8 * i, 8).data(), 8));
          break;
        case WorkOpcode::atomic_write:
        case WorkOpcode::write:
        case WorkOpcode::write_imm:
        case WorkOpcode::read:
        case WorkOpcode::send:
        case WorkOpcode::send_imm:
          EXPECT_EQ(from_.bytes(random_request.here, random_request.bytes),
                    to_.bytes(random_request.there, random_request.bytes))
              << i;
          break;
        default: break;
      }
    }
    EXPECT_EQ(load_le(to_.bytes(counter, 8).data(), 8), sum);
    EXPECT_EQ(originals.size(), adds_);
  }

 private:
  struct RandomRequest {
    WorkOpcode opcode;
    std::uint64_t here, there;
    std::uint32_t bytes;
    std::uint64_t added = 0;
  };

  void post_one(unsigned i) {
    static constexpr WorkOpcode kinds[] = {WorkOpcode::send,  WorkOpcode::send_imm,    WorkOpcode::write,
                                           WorkOpcode::read,  WorkOpcode::write_imm,   WorkOpcode::fetch_add,
                                           WorkOpcode::flush, WorkOpcode::atomic_write};
    RandomRequest random_request{kinds[random_.bits(3)], i * slot, 524'288 + i * slot, random_.bits(13) + 1};
    if (random_request.opcode == WorkOpcode::atomic_write) random_request.bytes = 8;
    if (random_request.opcode == WorkOpcode::read)
      to_.fill(random_request.there, random_request.bytes, static_cast<std::uint8_t>(i));
    else
      from_.fill(random_request.here, random_request.bytes, static_cast<std::uint8_t>(i * 3));
    SendRequest request = from_.request(random_request.opcode, i, from_.at(random_request.here, random_request.bytes),
                                        to_, random_request.there);
    request.fence = random_.bits(2) == 0;
    if (random_request.opcode == WorkOpcode::fetch_add) {
      random_request.added = request.swap_add = random_.bits(8) + 1U;
      request.remote_address = to_.buffer + counter;
      request.sges = {from_.at(results + 8 * i, 8)};
      ++adds_;
    }
    if (random_request.opcode == WorkOpcode::flush) {
      request.sges = {};
      request.length = random_request.bytes;
    }
    const bool receives = random_request.opcode == WorkOpcode::send || random_request.opcode == WorkOpcode::send_imm ||
                          random_request.opcode == WorkOpcode::write_imm;
    if (receives) {
      ASSERT_TRUE(to_.device.post_recv(to_.qp, {.id = 1000 + i, .sges = {to_.at(random_request.there, slot)}}));
    }
    ASSERT_TRUE(from_.device.post_send(from_.qp, request));
    requests_.push_back(random_request);
  }

  End& from_;
  End& to_;
  Random random_;
  std::vector<RandomRequest> requests_;
  std::size_t adds_ = 0;
};

/// Return a function that drops, duplicates or delays each frame with probability 1 / one_in.
testing::Way impairment(std::uint64_t seed, unsigned one_in) {
  return [random = Random(seed), one_in](const Seen&) mutable -> std::vector<std::int64_t> {
    constexpr std::int64_t delay = testing::Line::delay;
    if (random.bits(16) % one_in != 0) return {delay};
    switch (random.bits(2)) {
      case 0: return {delay, delay + 3000};
      case 1: return {delay + 20'000};
      default: return {};
    }
  };
}

/// Check that each frame decodes without errors and has a valid ICRC. Return the events of a tracker.
tracking::testing::Recorder watch(const std::vector<Seen>& seen) {
  tracking::testing::Recorder recorded;
  tracking::Dissector dissector;
  tracking::Tracker tracker(recorded);
  tracking::Packet packet;
  std::uint64_t number = 0;
  for (const Seen& frame : seen) {
    const auto stack = decode_strict(frame.bytes);
    EXPECT_TRUE(stack) << to_string(stack.error());
    if (stack) {
      EXPECT_EQ(check_icrc(*stack).status, CrcCheck::Status::good);
    }
    packet.number = ++number;
    packet.time_ns = frame.time;
    packet.link = LinkType::ethernet;
    dissector.dissect(packet, frame.bytes, static_cast<std::uint32_t>(frame.bytes.size()));
    tracker.add(packet);
  }
  tracker.finish();
  return recorded;
}

TEST(Exchange, CleanLinkCausesNoEvents) {
  Pair pair;
  Script ab(pair.a, pair.b, 1), ba(pair.b, pair.a, 2);
  ab.post(30);
  ba.post(30);
  pair.line.run();
  ab.check();
  ba.check();
  const auto recorded = watch(pair.line.seen);
  for (const tracking::Event& event : recorded.events)
    ADD_FAILURE() << tracking::testing::name_of(event) << " frame " << event.frame << " psn " << event.psn;
  EXPECT_EQ(recorded.messages.size(), 60U);
  EXPECT_EQ(pair.a.device.counters().retransmitted, 0U);
}

TEST(Exchange, ReadReturnsDataFromBeforeLaterWrite) {
  Pair pair;
  pair.a.fill(0, 4096, 77);
  pair.b.fill(0, 4096, 5);
  const auto before = pair.b.bytes(0, 4096);
  ASSERT_TRUE(
      pair.a.device.post_send(pair.a.qp, pair.a.request(WorkOpcode::read, 1, pair.a.at(8192, 4096), pair.b, 0)));
  ASSERT_TRUE(pair.a.device.post_send(pair.a.qp, pair.a.request(WorkOpcode::write, 2, pair.a.at(0, 4096), pair.b, 0)));
  pair.line.run();
  EXPECT_EQ(pair.a.poll().size(), 2U);
  EXPECT_EQ(pair.a.bytes(8192, 4096), before);
  EXPECT_EQ(pair.b.bytes(0, 4096), pair.a.bytes(0, 4096));
}

TEST(Exchange, AllRequestsCompleteOverLossyLink) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Pair pair;
    pair.line.way = impairment(seed, 4 + static_cast<unsigned>(seed % 20));
    Script ab(pair.a, pair.b, seed * 2), ba(pair.b, pair.a, seed * 2 + 1);
    ab.post(30);
    ba.post(30);
    pair.line.run();
    ab.check();
    ba.check();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace rdmawire::device
