#include "dissectors/machines/cm.hpp"

#include <gtest/gtest.h>

namespace rdmawire::machines {
namespace {

constexpr CmTimes times{.answer = 100, .way = 7, .timewait = 1000, .retries = 2};

/// One side of a connection. The test passes messages, calls and times to it, so it needs no network.
struct End {
  Cm cm{.times = times};
  CmStep hears(CmMessage message, std::int64_t now = 0) { return take(received(cm, {message}, now)); }
  CmStep hears(const CmReceived& message, std::int64_t now = 0) { return take(received(cm, message, now)); }
  CmStep is_asked(CmCall call, std::int64_t now = 0) { return take(asked(cm, call, now)); }
  CmStep waits(std::int64_t now) { return take(timed_out(cm, now)); }
  CmStep take(const CmStep& step) {
    cm = step.next;
    return step;
  }
};

TEST(ConnectionManager, ConnectsAndDisconnects) {
  End active, passive;
  EXPECT_EQ(active.is_asked(CmCall::connect).sends, CmMessage::req);
  EXPECT_EQ(passive.hears(CmMessage::req).told, CmNotification::request);
  EXPECT_EQ(passive.is_asked(CmCall::accept).sends, CmMessage::rep);
  EXPECT_EQ(active.hears(CmMessage::rep).told, CmNotification::response);
  EXPECT_EQ(active.is_asked(CmCall::establish).sends, CmMessage::rtu);
  EXPECT_EQ(passive.hears(CmMessage::rtu).told, CmNotification::established);
  EXPECT_EQ(passive.cm.deadline, Cm::never);
  EXPECT_EQ(active.is_asked(CmCall::disconnect, 50).sends, CmMessage::dreq);
  EXPECT_EQ(passive.hears(CmMessage::dreq).told, CmNotification::disconnected);
  EXPECT_EQ(passive.is_asked(CmCall::disconnect, 60).sends, CmMessage::drep);
  EXPECT_EQ(active.hears(CmMessage::drep, 61).told, CmNotification::disconnected);
  EXPECT_EQ(active.waits(1060).told, CmNotification::nothing);
  EXPECT_EQ(active.waits(1061).told, CmNotification::timewait_exit);
  EXPECT_EQ(active.cm.state, CmState::idle);
}

// 12.7.27: after n retries, the application is notified.
TEST(ConnectionManager, RetransmitsUpToMaxCmRetries) {
  End active;
  active.is_asked(CmCall::connect, 0);
  EXPECT_FALSE(active.waits(99).sends);
  for (const std::int64_t at : {100, 200}) {
    const CmStep step = active.waits(at);
    EXPECT_EQ(step.sends, CmMessage::req);
    EXPECT_TRUE(step.again);
  }
  const CmStep step = active.waits(300);
  EXPECT_EQ(step.sends, CmMessage::rej);
  EXPECT_EQ(step.reason, 4);
  EXPECT_EQ(step.told, CmNotification::unreachable);
}

// 12.6.6
TEST(ConnectionManager, WaitsForTheTimeInAnMra) {
  End active;
  active.is_asked(CmCall::connect, 0);
  active.hears(CmReceived{CmMessage::mra, CmMessage::rep, 5000}, 10);  // an MRA for another message
  EXPECT_EQ(active.cm.deadline, 100);
  active.hears(CmReceived{CmMessage::mra, CmMessage::req, 5000}, 10);
  EXPECT_FALSE(active.waits(5016).sends);
  EXPECT_EQ(active.waits(5017).sends, CmMessage::req);
  EXPECT_EQ(active.hears(CmMessage::rep).told, CmNotification::response);
}

TEST(ConnectionManager, RepeatsReplyToRetransmittedMessage) {
  End passive;
  passive.hears(CmMessage::req);
  EXPECT_EQ(passive.hears(CmMessage::req).sends, CmMessage::mra);
  EXPECT_TRUE(passive.hears(CmMessage::req).again);
  passive.is_asked(CmCall::accept);
  const CmStep again = passive.hears(CmMessage::req);
  EXPECT_EQ(again.sends, CmMessage::rep);
  EXPECT_TRUE(again.again);
  EXPECT_EQ(again.told, CmNotification::nothing);
  passive.hears(CmMessage::rtu);
  EXPECT_EQ(passive.hears(CmMessage::rtu).told, CmNotification::nothing);
  EXPECT_FALSE(passive.hears(CmMessage::req).sends);

  End active;
  active.is_asked(CmCall::connect);
  active.hears(CmMessage::rep);
  EXPECT_FALSE(active.hears(CmMessage::rep).sends);
  active.is_asked(CmCall::establish);
  EXPECT_EQ(active.hears(CmMessage::rep).sends, CmMessage::rtu);
}

TEST(ConnectionManager, RejectionNotifiesTheApplication) {
  End passive, active;
  active.is_asked(CmCall::connect);
  passive.hears(CmMessage::req);
  const CmStep rejects = passive.is_asked(CmCall::reject);
  EXPECT_EQ(rejects.sends, CmMessage::rej);
  EXPECT_EQ(rejects.reason, 28);
  EXPECT_EQ(active.hears(CmMessage::rej).told, CmNotification::rejected);
  EXPECT_EQ(active.cm.state, CmState::idle);
  EXPECT_TRUE(active.is_asked(CmCall::establish).refused);
  EXPECT_TRUE(active.is_asked(CmCall::disconnect).refused);
  EXPECT_TRUE(passive.is_asked(CmCall::accept).refused);
}

// 12.10.8
TEST(ConnectionManager, SimultaneousDisconnect) {
  End end;
  end.is_asked(CmCall::connect);
  end.hears(CmMessage::rep);
  end.is_asked(CmCall::establish);
  end.is_asked(CmCall::disconnect, 0);
  EXPECT_EQ(end.waits(100).sends, CmMessage::dreq);
  const CmStep crossing = end.hears(CmMessage::dreq, 120);
  EXPECT_EQ(crossing.sends, CmMessage::drep);
  EXPECT_EQ(crossing.told, CmNotification::disconnected);
  EXPECT_EQ(end.hears(CmMessage::dreq, 130).sends, CmMessage::drep);
  const CmStep stale = end.hears(CmMessage::req, 140);
  EXPECT_EQ(stale.sends, CmMessage::rej);
  EXPECT_EQ(stale.reason, 10);
}

TEST(ConnectionManager, DisconnectWithoutReplyTimesOut) {
  End end;
  end.hears(CmMessage::req);
  end.is_asked(CmCall::accept);
  end.hears(CmMessage::rtu);
  end.is_asked(CmCall::disconnect, 0);
  end.waits(100);
  end.waits(200);
  const CmStep step = end.waits(300);
  EXPECT_FALSE(step.sends);
  EXPECT_EQ(step.told, CmNotification::disconnected);
  EXPECT_EQ(end.cm.state, CmState::timewait);
}

}  // namespace
}  // namespace rdmawire::machines
