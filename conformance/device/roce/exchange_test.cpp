/// Two devices do everything that a service can, over a line that loses, doubles and reorders by a seed; at the end
/// memory is as it has to be, and nobody who watched finds a fault.

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

/// One end's share of an exchange: what it asked for, and what must have come of it.
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
    ASSERT_EQ(done.size(), asked_.size());
    std::uint64_t sum = 0;
    std::set<std::uint64_t> originals;
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      EXPECT_EQ(done[i].id, i);
      const Asked& asked = asked_[i];
      switch (asked.opcode) {
        case WorkOpcode::fetch_add:
          sum += asked.added;
          originals.insert(load_le(from_.bytes(results + 8 * i, 8).data(), 8));
          break;
        case WorkOpcode::atomic_write:
        case WorkOpcode::write:
        case WorkOpcode::write_imm:
        case WorkOpcode::read:
        case WorkOpcode::send:
        case WorkOpcode::send_imm:
          EXPECT_EQ(from_.bytes(asked.here, asked.bytes), to_.bytes(asked.there, asked.bytes)) << i;
          break;
        default: break;
      }
    }
    EXPECT_EQ(load_le(to_.bytes(counter, 8).data(), 8), sum);
    EXPECT_EQ(originals.size(), adds_);
  }

 private:
  struct Asked {
    WorkOpcode opcode;
    std::uint64_t here, there;
    std::uint32_t bytes;
    std::uint64_t added = 0;
  };

  void post_one(unsigned i) {
    static constexpr WorkOpcode kinds[] = {WorkOpcode::send,  WorkOpcode::send_imm,    WorkOpcode::write,
                                           WorkOpcode::read,  WorkOpcode::write_imm,   WorkOpcode::fetch_add,
                                           WorkOpcode::flush, WorkOpcode::atomic_write};
    Asked asked{kinds[random_.bits(3)], i * slot, 524'288 + i * slot, random_.bits(13) + 1};
    if (asked.opcode == WorkOpcode::atomic_write) asked.bytes = 8;
    if (asked.opcode == WorkOpcode::read)
      to_.fill(asked.there, asked.bytes, static_cast<std::uint8_t>(i));
    else
      from_.fill(asked.here, asked.bytes, static_cast<std::uint8_t>(i * 3));
    SendRequest request = from_.request(asked.opcode, i, from_.at(asked.here, asked.bytes), to_, asked.there);
    request.fence = random_.bits(2) == 0;
    if (asked.opcode == WorkOpcode::fetch_add) {
      asked.added = request.swap_add = random_.bits(8) + 1U;
      request.remote_address = to_.buffer + counter;
      request.sges = {from_.at(results + 8 * i, 8)};
      ++adds_;
    }
    if (asked.opcode == WorkOpcode::flush) {
      request.sges = {};
      request.length = asked.bytes;
    }
    const bool receives = asked.opcode == WorkOpcode::send || asked.opcode == WorkOpcode::send_imm ||
                          asked.opcode == WorkOpcode::write_imm;
    if (receives) {
      ASSERT_TRUE(to_.device.post_recv(to_.qp, {.id = 1000 + i, .sges = {to_.at(asked.there, slot)}}));
    }
    ASSERT_TRUE(from_.device.post_send(from_.qp, request));
    asked_.push_back(asked);
  }

  End& from_;
  End& to_;
  Random random_;
  std::vector<Asked> asked_;
  std::size_t adds_ = 0;
};

/// Loses, doubles and delays one frame in so many.
testing::Way trouble(std::uint64_t seed, unsigned one_in) {
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

/// Every frame strictly whole, with a good ICRC; and a tracker that follows them.
tracking::testing::Recorder watch(const std::vector<Seen>& seen) {
  tracking::testing::Recorder told;
  tracking::Dissector dissector;
  tracking::Tracker tracker(told);
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
  return told;
}

TEST(Exchange, NothingIsWrongWithACleanLine) {
  Pair pair;
  Script ab(pair.a, pair.b, 1), ba(pair.b, pair.a, 2);
  ab.post(30);
  ba.post(30);
  pair.line.run();
  ab.check();
  ba.check();
  const auto told = watch(pair.line.seen);
  for (const tracking::Event& event : told.events)
    ADD_FAILURE() << tracking::testing::name_of(event) << " frame " << event.frame << " psn " << event.psn;
  EXPECT_EQ(told.messages.size(), 60U);
  EXPECT_EQ(pair.a.device.counters().retransmitted, 0U);
}

TEST(Exchange, AReadGivesWhatWasThereBeforeALaterWrite) {
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

TEST(Exchange, EverythingArrivesOverABadLine) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Pair pair;
    pair.line.way = trouble(seed, 4 + static_cast<unsigned>(seed % 20));
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
