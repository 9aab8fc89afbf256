#include "dissectors/machines/rc_responder.hpp"

#include <gtest/gtest.h>

namespace rdmawire::machines {
namespace {

const Opcode& rc(Operation operation, Position position = Position::only, bool immediate = false) {
  return *find_opcode(Transport::rc, operation, position, immediate);
}

/// A responder that expects PSN 100, with MTU 256 and all rights.
struct Device {
  RcResponder at = RcResponder::expecting(Psn(100));
  RcResponderSettings settings{.mtu = 256,
                               .reads_at_once = 2,
                               .writes = true,
                               .reads = true,
                               .atomics = true,
                               .flush_global = true,
                               .flush_persistent = true};
  RcKnowledge knowledge;
  int asked = 0;

  RcDecision judge(const RcRequest& request) {
    return machines::judge(at, request, settings, [&](const RcRequest&) { return ++asked, knowledge; });
  }
  /// Evaluates a request and updates the state: for an executed request, or a reported gap.
  RcReaction takes(const RcRequest& request, std::uint64_t original = 0) {
    const RcReaction reaction = judge(request).reaction;
    if (reaction == RcReaction::execute) at = executed(at, request, settings, original);
    if (reaction == RcReaction::nak_sequence) at = reported_gap(at);
    return reaction;
  }
};

RcRequest send(std::uint32_t psn, Position position = Position::only, std::uint32_t payload = 4) {
  return {.op = &rc(Operation::send, position), .psn = Psn(psn), .payload = payload};
}
RcRequest write(std::uint32_t psn, Position position, std::uint32_t payload, std::uint32_t length = 0) {
  return {.op = &rc(Operation::rdma_write, position),
          .psn = Psn(psn),
          .payload = payload,
          .va = 0x1000,
          .rkey = 7,
          .length = length};
}
RcRequest read(std::uint32_t psn, std::uint32_t length, std::uint64_t va = 0x1000) {
  return {.op = &rc(Operation::rdma_read_request), .psn = Psn(psn), .va = va, .rkey = 7, .length = length};
}
RcRequest fetch_add(std::uint32_t psn, std::uint64_t va = 0x1000) {
  return {.op = &rc(Operation::fetch_add), .psn = Psn(psn), .va = va, .rkey = 7};
}

TEST(RcResponder, MsnCountsMessagesAndPsnPackets) {
  Device device;
  EXPECT_EQ(device.takes(send(100)), RcReaction::execute);
  EXPECT_EQ(device.at.msn.value(), 1U);
  EXPECT_EQ(device.takes(send(101, Position::first, 256)), RcReaction::execute);
  EXPECT_EQ(device.takes(send(102, Position::middle, 256)), RcReaction::execute);
  EXPECT_EQ(device.at.msn.value(), 1U);
  EXPECT_EQ(device.takes(send(103, Position::last, 1)), RcReaction::execute);
  EXPECT_EQ(device.at.msn.value(), 2U);
  EXPECT_EQ(device.takes(read(104, 3 * 256)), RcReaction::execute);  // takes three PSNs
  EXPECT_EQ(device.at.window.expected.value(), 107U);
  EXPECT_EQ(device.at.msn.value(), 3U);
}

TEST(RcResponder, OneNakPerGapUntilTheMissingPacketArrives) {
  Device device;
  EXPECT_EQ(device.takes(send(101)), RcReaction::nak_sequence);
  EXPECT_EQ(device.takes(send(102)), RcReaction::drop);
  EXPECT_EQ(device.takes(send(100)), RcReaction::execute);
  EXPECT_EQ(device.takes(send(102)), RcReaction::nak_sequence);
}

TEST(RcResponder, PsnsWrap) {
  Device device;
  device.at = RcResponder::expecting(Psn(0xffffff));
  EXPECT_EQ(device.takes(send(0xffffff, Position::first, 256)), RcReaction::execute);
  EXPECT_EQ(device.takes(send(0, Position::last, 256)), RcReaction::execute);
  EXPECT_EQ(device.takes(send(0xffffff, Position::first, 256)), RcReaction::acknowledge_again);
  EXPECT_EQ(device.at.window.expected.value(), 1U);
  // PSNs at the limits of both halves of the PSN space.
  EXPECT_EQ(device.judge(send(1 + 0x7fffff)).reaction, RcReaction::nak_sequence);
  EXPECT_EQ(device.judge(send(1 + 0x800000)).reaction, RcReaction::acknowledge_again);
}

TEST(RcResponder, InvalidOpcodeSequences) {
  const auto invalid = [](Device device, const RcRequest& request) {
    device.asked = 0;
    const RcDecision decision = device.judge(request);
    EXPECT_EQ(decision.reaction, RcReaction::nak_invalid);
    EXPECT_EQ(device.asked, 0);
    return decision.invalid;
  };
  const Device idle;
  EXPECT_EQ(invalid(idle, send(100, Position::middle, 256)), InvalidRequest::sequence);
  EXPECT_EQ(invalid(idle, send(100, Position::last)), InvalidRequest::sequence);
  EXPECT_EQ(invalid(idle, send(100, Position::first, 255)), InvalidRequest::payload);
  EXPECT_EQ(invalid(idle, send(100, Position::only, 257)), InvalidRequest::payload);
  EXPECT_EQ(invalid(idle, {.op = &opcode(0x15), .psn = Psn(100)}), InvalidRequest::opcode);

  Device writing;
  EXPECT_EQ(writing.takes(write(100, Position::first, 256, 512)), RcReaction::execute);
  EXPECT_EQ(invalid(writing, send(101, Position::middle, 256)), InvalidRequest::sequence);
  EXPECT_EQ(invalid(writing, send(101)), InvalidRequest::sequence);
  EXPECT_EQ(invalid(writing, read(101, 4)), InvalidRequest::sequence);
  EXPECT_EQ(invalid(writing, write(101, Position::last, 0)), InvalidRequest::payload);
}

TEST(RcResponder, WriteLengthMatchesItsReth) {
  const auto last = [](std::uint32_t length, std::uint32_t bytes) {
    Device device;
    EXPECT_EQ(device.takes(write(100, Position::first, 256, length)), RcReaction::execute);
    return device.judge(write(101, Position::last, bytes));
  };
  EXPECT_EQ(last(300, 44).reaction, RcReaction::execute);
  EXPECT_EQ(last(300, 43).invalid, InvalidRequest::message_length);
  EXPECT_EQ(last(300, 45).reaction, RcReaction::nak_invalid);
  Device device;
  EXPECT_EQ(device.judge(write(100, Position::only, 4, 5)).invalid, InvalidRequest::message_length);
  EXPECT_EQ(device.judge(write(100, Position::first, 256, 256)).invalid, InvalidRequest::message_length);
  EXPECT_EQ(device.judge(write(100, Position::first, 256, 0x80000000)).reaction, RcReaction::execute);
  EXPECT_EQ(device.judge(write(100, Position::first, 256, 0x80000001)).invalid, InvalidRequest::message_too_long);
  EXPECT_EQ(device.judge(read(100, 0x80000001)).invalid, InvalidRequest::message_too_long);
}

TEST(RcResponder, DeviceStateIsCheckedLast) {
  Device device;
  device.knowledge.receive = false;
  EXPECT_EQ(device.judge(send(100)).reaction, RcReaction::rnr_nak);
  EXPECT_EQ(device.judge(write(100, Position::only, 4, 4)).reaction, RcReaction::execute);
  device.knowledge = {.receive_bytes = 3};
  EXPECT_EQ(device.judge(send(100)).reaction, RcReaction::nak_invalid);
  device.knowledge = {.access = Access::refused};
  EXPECT_EQ(device.judge(write(100, Position::only, 4, 4)).reaction, RcReaction::nak_access);
  EXPECT_EQ(device.judge(read(100, 4)).reaction, RcReaction::nak_access);
  EXPECT_EQ(device.judge(read(100, 0)).reaction, RcReaction::execute);  // C9-88
  EXPECT_EQ(device.judge(write(100, Position::only, 0, 0)).reaction, RcReaction::execute);
  device.knowledge = {.access = Access::failed};
  EXPECT_EQ(device.judge(read(100, 4)).reaction, RcReaction::nak_operational);
  device.knowledge = {};
  device.settings.reads = false;
  EXPECT_EQ(device.judge(read(100, 4)).invalid, InvalidRequest::right);
  device.settings.reads_at_once = 0;
  EXPECT_EQ(device.judge(fetch_add(100)).invalid, InvalidRequest::resources);
}

TEST(RcResponder, AtomicsAreAligned) {
  Device device;
  EXPECT_EQ(device.judge(fetch_add(100, 0x1004)).invalid, InvalidRequest::misaligned);
  EXPECT_EQ(device.judge(fetch_add(100, 0x1008)).reaction, RcReaction::execute);
  RcRequest atomic_write{
      .op = &rc(Operation::atomic_write), .psn = Psn(100), .payload = 8, .va = 0x1008, .rkey = 7, .length = 8};
  EXPECT_EQ(device.judge(atomic_write).reaction, RcReaction::execute);
  atomic_write.va = 0x1001;
  EXPECT_EQ(device.judge(atomic_write).invalid, InvalidRequest::misaligned);
  atomic_write.payload = atomic_write.length = 4;
  EXPECT_EQ(device.judge(atomic_write).invalid, InvalidRequest::atomic_write_size);
}

TEST(RcResponder, DuplicatesAreAnsweredFromKeptResponses) {
  Device device;
  EXPECT_EQ(device.takes(send(100)), RcReaction::execute);
  EXPECT_EQ(device.takes(read(101, 3 * 256)), RcReaction::execute);
  EXPECT_EQ(device.takes(fetch_add(104), 42), RcReaction::execute);
  EXPECT_EQ(device.judge(send(100)).reaction, RcReaction::acknowledge_again);
  EXPECT_EQ(device.at.acknowledged.value(), 100U);  // PSN of the WRITE, because READs do not count: C9-105
  EXPECT_EQ(device.judge(read(101, 3 * 256)).reaction, RcReaction::answer_again);
  EXPECT_EQ(device.judge(read(102, 2 * 256, 0x1100)).reaction, RcReaction::answer_again);
  EXPECT_EQ(device.judge(read(103, 4, 0x1200)).reaction, RcReaction::answer_again);
  // The responder drops retries with another address, beyond the original range, or with another key.
  EXPECT_EQ(device.judge(read(102, 256, 0x1200)).reaction, RcReaction::drop);
  EXPECT_EQ(device.judge(read(102, 3 * 256, 0x1100)).reaction, RcReaction::drop);
  RcRequest other = read(101, 256);
  other.rkey = 8;
  EXPECT_EQ(device.judge(other).reaction, RcReaction::drop);
  const RcDecision atomic = device.judge(fetch_add(104));
  EXPECT_EQ(atomic.reaction, RcReaction::answer_again);
  EXPECT_EQ(device.at.answers[atomic.answer].original, 42U);
  // The responder keeps two responses, so the next atomic evicts the response of the READ.
  EXPECT_EQ(device.takes(fetch_add(105)), RcReaction::execute);
  EXPECT_EQ(device.judge(read(101, 3 * 256)).reaction, RcReaction::drop);
  EXPECT_EQ(device.judge(fetch_add(104)).reaction, RcReaction::answer_again);
}

TEST(RcResponder, DuplicateDoesNotAffectAnOpenMessage) {
  Device device;
  EXPECT_EQ(device.takes(read(100, 4)), RcReaction::execute);
  EXPECT_EQ(device.takes(write(101, Position::first, 256, 512)), RcReaction::execute);
  EXPECT_EQ(device.takes(read(100, 4)), RcReaction::answer_again);
  EXPECT_EQ(device.takes(write(102, Position::last, 256)), RcReaction::execute);
  EXPECT_EQ(device.at.msn.value(), 2U);
}

}  // namespace
}  // namespace rdmawire::machines
