#include "dissectors/machines/rc_requester.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace rdmawire::machines {
namespace {

constexpr std::uint8_t ack = 0x1f, rnr = 0x2e, nak = 0x60;

/// SEND at 10, a READ of three packets (600 bytes at MTU 256) at 11 to 13, SEND at 14, an atomic at 15, SEND at 16.
struct Sender {
  std::vector<RcOutstanding> outstanding{
      {.first = Psn(10)}, {.first = Psn(11), .psns = 3, .operation = Operation::rdma_read_request, .length = 600},
      {.first = Psn(14)}, {.first = Psn(15), .operation = Operation::fetch_add},
      {.first = Psn(16)},
  };
  RequesterWindow window{Psn(10), Psn(17)};

  RcProgress gets(const RcResponse& response) const { return judge(outstanding, window, response, 256); }
  RcProgress acknowledge(std::uint32_t psn, std::uint8_t syndrome) const {
    return gets({.op = find_opcode(Transport::rc, Operation::acknowledge),
                 .psn = Psn(psn),
                 .syndrome = syndrome,
                 .has_aeth = true});
  }
  RcProgress response(std::uint32_t psn, Position position, std::uint32_t payload) const {
    return gets({.op = find_opcode(Transport::rc, Operation::rdma_read_response, position),
                 .psn = Psn(psn),
                 .payload = payload});
  }
  RcProgress atomic(std::uint32_t psn) const {
    return gets({.op = find_opcode(Transport::rc, Operation::atomic_acknowledge), .psn = Psn(psn), .has_aeth = true});
  }
};

TEST(RcRequester, AcknowledgementStopsAtAMissingResponse) {
  Sender sender;
  RcProgress got = sender.acknowledge(10, ack);
  EXPECT_EQ(got.step, RcStep::progress);
  EXPECT_EQ(got.through.value(), 11U);
  got = sender.acknowledge(14, ack);
  EXPECT_EQ(got.step, RcStep::go_back);
  EXPECT_TRUE(got.implied);
  EXPECT_EQ(got.restart.value(), 11U);
  sender.outstanding[1].answered = 2;
  EXPECT_EQ(sender.acknowledge(16, ack).restart.value(), 13U);
  sender.outstanding[1].answered = 3;
  EXPECT_EQ(sender.acknowledge(14, ack).step, RcStep::progress);
  EXPECT_EQ(sender.acknowledge(16, ack).restart.value(), 15U);  // restarts at the atomic, whose response is missing
  // An acknowledgement with a PSN of the READ is not the READ's response.
  sender.outstanding[1].answered = 0;
  EXPECT_EQ(sender.acknowledge(12, ack).restart.value(), 11U);
}

TEST(RcRequester, GhostAcknowledgementsAreIgnored) {
  Sender sender;
  EXPECT_EQ(sender.acknowledge(17, ack).step, RcStep::ignore);
  EXPECT_EQ(sender.acknowledge(17, nak).step, RcStep::ignore);
  EXPECT_EQ(sender.acknowledge(9, ack).step, RcStep::ignore);
  EXPECT_EQ(sender.acknowledge(9, nak).step, RcStep::ignore);
  EXPECT_EQ(sender.response(9, Position::only, 4).step, RcStep::ignore);
}

TEST(RcRequester, ReadResponsesInOrder) {
  Sender sender;
  RcProgress got = sender.response(11, Position::first, 256);
  EXPECT_EQ(got, (RcProgress{.step = RcStep::progress, .through = Psn(11), .message = 1, .takes_payload = true}));
  EXPECT_EQ(sender.response(12, Position::middle, 256).restart.value(), 11U);  // the first response packet is missing
  sender.outstanding[1].answered = 2;
  EXPECT_EQ(sender.response(11, Position::first, 256).step, RcStep::ignore);
  EXPECT_EQ(sender.response(13, Position::last, 88).step, RcStep::progress);
  EXPECT_EQ(sender.response(13, Position::last, 87).failure, RcFailure::bad_response);
  EXPECT_EQ(sender.response(13, Position::last, 89).failure, RcFailure::local_length);
  EXPECT_EQ(sender.response(13, Position::middle, 88).failure, RcFailure::bad_response);
  EXPECT_EQ(sender.response(13, Position::only, 88).failure, RcFailure::bad_response);
  sender.outstanding[1].asked_from = 2;  // the last retry started there
  EXPECT_EQ(sender.response(13, Position::only, 88).step, RcStep::progress);
  EXPECT_EQ(sender.response(13, Position::last, 88).step, RcStep::progress);
  sender.outstanding[1].answered = 0;
  EXPECT_EQ(sender.response(11, Position::middle, 256).failure, RcFailure::bad_response);
}

TEST(RcRequester, ReadResponseMustBeAnAck) {
  const Sender sender;
  RcResponse response{.op = find_opcode(Transport::rc, Operation::rdma_read_response, Position::first),
                      .psn = Psn(11),
                      .syndrome = ack,
                      .has_aeth = true,
                      .payload = 256};
  EXPECT_EQ(sender.gets(response).step, RcStep::progress);
  response.syndrome = 0x5f;  // a reserved syndrome
  EXPECT_EQ(sender.gets(response).failure, RcFailure::bad_response);
}

TEST(RcRequester, ResponsesOfAnotherTypeFail) {
  Sender sender;
  sender.outstanding[1].answered = 3;
  EXPECT_EQ(sender.response(14, Position::only, 0).failure, RcFailure::bad_response);
  EXPECT_EQ(sender.atomic(14).failure, RcFailure::bad_response);
  EXPECT_EQ(sender.atomic(15).step, RcStep::progress);
  EXPECT_EQ(sender.response(15, Position::only, 8).failure, RcFailure::bad_response);
  sender.outstanding[1].answered = 0;
  const RcProgress got = sender.atomic(11);
  EXPECT_EQ(got.step, RcStep::fail);
  EXPECT_EQ(got.restart.value(), 11U);
}

TEST(RcRequester, Naks) {
  Sender sender;
  RcProgress got = sender.acknowledge(11, nak);
  EXPECT_EQ(got, (RcProgress{.step = RcStep::go_back, .through = Psn(11), .restart = Psn(11)}));
  got = sender.acknowledge(14, nak);  // the responses of the READ (PSNs 11 to 13) are missing
  EXPECT_EQ(got.restart.value(), 11U);
  EXPECT_TRUE(got.implied);
  EXPECT_EQ(sender.acknowledge(10, rnr).step, RcStep::wait);
  EXPECT_EQ(sender.acknowledge(10, nak | 1).failure, RcFailure::remote_invalid_request);
  EXPECT_EQ(sender.acknowledge(10, nak | 2).failure, RcFailure::remote_access);
  EXPECT_EQ(sender.acknowledge(10, nak | 3).failure, RcFailure::remote_operation);
  EXPECT_EQ(sender.acknowledge(10, nak | 9).step, RcStep::fail);
  EXPECT_EQ(sender.acknowledge(10, 0x40).step, RcStep::fail);
  // A NAK after the first response packet of a READ: the READ fails.
  sender.outstanding[1].answered = 1;
  got = sender.acknowledge(12, nak | 2);
  EXPECT_EQ(got.failure, RcFailure::remote_access);
  EXPECT_EQ(got.restart.value(), 11U);
}

TEST(RcRequester, Timers) {
  EXPECT_EQ(ack_timeout_ns(0), 0);
  EXPECT_EQ(ack_timeout_ns(1), 8192);
  EXPECT_EQ(ack_timeout_ns(14), 67108864);
  EXPECT_EQ(ack_timeout_ns(31), 4096LL << 31);
}

TEST(RcRequester, RetryCounters) {
  RcRetries retries{.timeouts = 2, .rnr = 1, .timeouts_left = 2, .rnr_left = 1};
  EXPECT_TRUE(retries.again());
  EXPECT_TRUE(retries.again());
  EXPECT_FALSE(retries.again());
  EXPECT_TRUE(retries.again_after_rnr());
  EXPECT_FALSE(retries.again_after_rnr());
  retries = retries.reloaded();
  EXPECT_TRUE(retries.again());
  retries.rnr = RcRetries::without_limit;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(retries.again_after_rnr());
}

}  // namespace
}  // namespace rdmawire::machines
