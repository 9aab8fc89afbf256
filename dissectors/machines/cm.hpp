#pragma once
/// The communication manager's side of one connection: what each message, each wish of its consumer and the passing of
/// time make of it. Pure functions of small values. IBTA vol 1, 12.9.5 to 12.9.8 (numbers unverified).

#include <cstdint>
#include <limits>
#include <optional>

namespace rdmawire::machines {

enum class CmMessage : std::uint8_t { req, mra, rej, rep, rtu, dreq, drep };

enum class CmState : std::uint8_t {
  idle,
  req_sent,      ///< active: a REP is waited for
  rep_wait,      ///< active: an MRA came meanwhile
  rep_received,  ///< active: its consumer has not said that it is ready
  req_received,  ///< passive: its consumer has not answered
  mra_req_sent,  ///< passive: likewise, and the other end knows
  rep_sent,      ///< passive: an RTU is waited for
  rtu_wait,      ///< passive: an MRA came meanwhile
  established,
  dreq_sent,
  dreq_received,  ///< its consumer has not agreed yet
  timewait,       ///< over; packets of it may still be on their way
};

/// What a consumer asks for.
enum class CmCall : std::uint8_t { connect, accept, establish, reject, disconnect };

/// What a consumer is told.
enum class CmNotification : std::uint8_t {
  nothing,
  request,
  response,
  established,
  rejected,
  unreachable,  ///< nobody answered, how often it was asked
  disconnected,
  timewait_exit,
};

/// Reasons of a REJ that the machine itself gives. 12.6.7.2.
namespace cm_reason {
inline constexpr std::uint8_t timeout = 4, stale_connection = 10, consumer = 28;
}

/// Times of a connection, nanoseconds.
struct CmTimes {
  std::int64_t answer = 0;    ///< how long the other end's answer may take, the way there and back with it
  std::int64_t way = 0;       ///< the way there and back: goes on top of what an MRA announces
  std::int64_t timewait = 0;  ///< how long packets may still be on their way. 12.9.8.4 (clause number not verified)
  std::uint8_t retries = 0;   ///< Max CM Retries: how often a message is sent again. 12.7.27
};

/// One end of one connection.
struct Cm {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  CmState state = CmState::idle;
  CmTimes times;
  std::int64_t deadline = never;
  std::uint8_t left = 0;  ///< retries of the message that waits for its answer

  /// Whether this end asked for the connection, as far as the state tells.
  [[nodiscard]] constexpr bool waits_for_reply() const {
    return state == CmState::req_sent || state == CmState::rep_wait;
  }
  [[nodiscard]] constexpr bool waits_for_consumer() const {
    return state == CmState::req_received || state == CmState::mra_req_sent;
  }
  [[nodiscard]] constexpr bool waits_for_ready() const {
    return state == CmState::rep_sent || state == CmState::rtu_wait;
  }
};

struct CmStep {
  Cm next;
  std::optional<CmMessage> sends = {};
  bool again = false;       ///< the same message as before, byte by byte
  std::uint8_t reason = 0;  ///< of a REJ that is sent
  CmNotification told = CmNotification::nothing;
  bool refused = false;  ///< of a call: the state does not allow it
};

/// What else a message says.
struct CmReceived {
  CmMessage message;
  CmMessage about = CmMessage::req;  ///< MRA: the message that it acknowledges
  std::int64_t service = 0;          ///< MRA: nanoseconds until the answer
};

namespace detail {

/// A message leaves that is to be answered.
constexpr CmStep ask(Cm at, CmState state, CmMessage message, std::int64_t now) {
  at.state = state;
  at.left = at.times.retries;
  at.deadline = now + at.times.answer;
  return {at, message};
}
constexpr CmStep stay(Cm at) { return {at}; }
constexpr CmStep repeat(Cm at, CmMessage message) { return {at, message, true}; }
constexpr Cm over(Cm at, std::int64_t now) {
  at.state = CmState::timewait;
  at.deadline = now + at.times.timewait;
  return at;
}
constexpr Cm in(Cm at, CmState state) {
  at.state = state;
  at.deadline = Cm::never;
  return at;
}

constexpr CmStep received_rej(Cm at, std::int64_t now) {
  switch (at.state) {
    case CmState::idle:
    case CmState::timewait: return stay(at);
    case CmState::established:
    case CmState::dreq_sent:
    case CmState::dreq_received: return {over(at, now), {}, false, 0, CmNotification::disconnected};
    default: return {in(at, CmState::idle), {}, false, 0, CmNotification::rejected};
  }
}

/// The other end did not understand that it was answered, or asks a second time.
constexpr CmStep received_req(Cm at) {
  switch (at.state) {
    case CmState::idle: return {in(at, CmState::req_received), {}, false, 0, CmNotification::request};
    case CmState::req_received: at.state = CmState::mra_req_sent; return {at, CmMessage::mra};
    case CmState::mra_req_sent: return repeat(at, CmMessage::mra);
    case CmState::rep_sent:
    case CmState::rtu_wait: return repeat(at, CmMessage::rep);
    case CmState::timewait: return {at, CmMessage::rej, false, cm_reason::stale_connection};
    default: return stay(at);
  }
}

constexpr CmStep received_mra(Cm at, const CmReceived& message, std::int64_t now) {
  const bool of_req = at.waits_for_reply() && message.about == CmMessage::req;
  const bool of_rep = at.waits_for_ready() && message.about == CmMessage::rep;
  if (!of_req && !of_rep) return stay(at);
  at.state = of_req ? CmState::rep_wait : CmState::rtu_wait;
  at.deadline = now + message.service + at.times.way;  // 12.6.6
  return stay(at);
}

constexpr CmStep received_dreq(Cm at, std::int64_t now) {
  switch (at.state) {
    // 12.10.8: who asked for the end, too, agrees.
    case CmState::dreq_sent: return {over(at, now), CmMessage::drep, false, 0, CmNotification::disconnected};
    case CmState::timewait: return {at, CmMessage::drep};
    // A DREQ behind a REP says that the RTU was lost on the way.
    case CmState::rep_sent:
    case CmState::rtu_wait:
    case CmState::rep_received:
    case CmState::established: return {in(at, CmState::dreq_received), {}, false, 0, CmNotification::disconnected};
    default: return stay(at);
  }
}

}  // namespace detail

/// A message of this connection came.
constexpr CmStep received(const Cm& at, const CmReceived& message, std::int64_t now) {
  switch (message.message) {
    case CmMessage::req: return detail::received_req(at);
    case CmMessage::mra: return detail::received_mra(at, message, now);
    case CmMessage::rej: return detail::received_rej(at, now);
    case CmMessage::rep:
      if (at.waits_for_reply()) return {detail::in(at, CmState::rep_received), {}, false, 0, CmNotification::response};
      // It did not hear the RTU.
      if (at.state == CmState::established) return detail::repeat(at, CmMessage::rtu);
      return detail::stay(at);
    case CmMessage::rtu:
      if (at.waits_for_ready())
        return {detail::in(at, CmState::established), {}, false, 0, CmNotification::established};
      return detail::stay(at);
    case CmMessage::dreq: return detail::received_dreq(at, now);
    case CmMessage::drep:
      if (at.state == CmState::dreq_sent) return {detail::over(at, now), {}, false, 0, CmNotification::disconnected};
      return detail::stay(at);
  }
  return detail::stay(at);
}

/// The consumer asks for something.
constexpr CmStep asked(const Cm& at, CmCall call, std::int64_t now) {
  const CmStep refused{at, {}, false, 0, CmNotification::nothing, true};
  switch (call) {
    case CmCall::connect:
      return at.state == CmState::idle ? detail::ask(at, CmState::req_sent, CmMessage::req, now) : refused;
    case CmCall::accept:
      return at.waits_for_consumer() ? detail::ask(at, CmState::rep_sent, CmMessage::rep, now) : refused;
    case CmCall::establish:
      if (at.state != CmState::rep_received) return refused;
      return {detail::in(at, CmState::established), CmMessage::rtu};
    case CmCall::reject:
      if (!at.waits_for_consumer() && at.state != CmState::rep_received) return refused;
      return {detail::in(at, CmState::idle), CmMessage::rej, false, cm_reason::consumer};
    case CmCall::disconnect:
      if (at.state == CmState::dreq_received) return {detail::over(at, now), CmMessage::drep};
      if (at.state != CmState::established && !at.waits_for_ready()) return refused;
      return detail::ask(at, CmState::dreq_sent, CmMessage::dreq, now);
  }
  return refused;
}

/// The deadline is over.
constexpr CmStep timed_out(Cm at, std::int64_t now) {
  if (now < at.deadline) return detail::stay(at);
  const CmMessage message = at.waits_for_reply()             ? CmMessage::req
                            : at.waits_for_ready()           ? CmMessage::rep
                            : at.state == CmState::dreq_sent ? CmMessage::dreq
                                                             : CmMessage::drep;
  if (message == CmMessage::drep) {
    if (at.state != CmState::timewait) return detail::stay(detail::in(at, at.state));
    return {detail::in(at, CmState::idle), {}, false, 0, CmNotification::timewait_exit};
  }
  if (at.left > 0) {
    --at.left;
    at.deadline = now + at.times.answer;
    return detail::repeat(at, message);
  }
  // 12.9.8.5 (clause number not verified): it gives up.
  if (at.state == CmState::dreq_sent) return {detail::over(at, now), {}, false, 0, CmNotification::disconnected};
  return {detail::over(at, now), CmMessage::rej, false, cm_reason::timeout, CmNotification::unreachable};
}

}  // namespace rdmawire::machines
