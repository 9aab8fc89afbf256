#pragma once
/// State machine of one side of a CM connection: reactions to received messages, calls by the application, and
/// timeouts. Pure functions of small values. IBTA vol 1, 12.9.5 to 12.9.8 (clause numbers not verified).

#include <cstdint>
#include <limits>
#include <optional>

namespace rdmawire::machines {

enum class CmMessage : std::uint8_t { req, mra, rej, rep, rtu, dreq, drep };

enum class CmState : std::uint8_t {
  idle,
  req_sent,      ///< active: waits for a REP
  rep_wait,      ///< active: waits for a REP after an MRA
  rep_received,  ///< active: waits for its application to establish the connection
  req_received,  ///< passive: waits for its application to accept or reject
  mra_req_sent,  ///< passive: like req_received, after it sent an MRA
  rep_sent,      ///< passive: waits for an RTU
  rtu_wait,      ///< passive: waits for an RTU after an MRA
  established,
  dreq_sent,
  dreq_received,  ///< waits for its application to disconnect
  timewait,       ///< closed, but packets of the connection may still be in flight
};

/// Calls that the application makes.
enum class CmCall : std::uint8_t { connect, accept, establish, reject, disconnect };

/// Notifications to the application.
enum class CmNotification : std::uint8_t {
  nothing,
  request,
  response,
  established,
  rejected,
  unreachable,  ///< the peer did not reply to any retry
  disconnected,
  timewait_exit,
};

/// Reasons in a REJ. 12.6.7.2.
namespace cm_reason {
inline constexpr std::uint8_t no_resources = 3, timeout = 4, invalid_service_id = 8, invalid_transport_type = 9,
                              stale_connection = 10, primary_gid_rejected = 12, primary_lid_rejected = 13,
                              alternate_lid_rejected = 19, invalid_path_mtu = 26, consumer = 28;
}

/// Times of a connection, in nanoseconds.
struct CmTimes {
  std::int64_t answer = 0;  ///< maximum time until the peer's reply, including the round trip
  std::int64_t way = 0;     ///< round trip time, which is added to the service timeout of a received MRA
  std::int64_t timewait =
      0;  ///< maximum time that packets can still be in flight after the end. 12.9.8.4 (clause number not verified)
  std::uint8_t retries = 0;  ///< Max CM Retries: maximum number of retransmissions of a message. 12.7.27
};

/// State of one side of one connection.
struct Cm {
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  CmState state = CmState::idle;
  CmTimes times;
  std::int64_t deadline = never;
  std::uint8_t left = 0;  ///< remaining retries of the message that waits for a reply

  /// True if this side requested the connection and waits for the REP.
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
  bool again = false;       ///< the message is an exact retransmission
  std::uint8_t reason = 0;  ///< reason in the sent REJ
  CmNotification told = CmNotification::nothing;
  bool refused = false;  ///< the application's call is not allowed in this state
};

/// Parameters of a received message.
struct CmReceived {
  CmMessage message;
  CmMessage about = CmMessage::req;  ///< MRA: the message that it acknowledges
  std::int64_t service = 0;          ///< MRA: maximum nanoseconds until the reply
};

namespace detail {

/// Sends a message that requires a reply, and starts its timer.
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

/// Handles a REQ, which is new, or retransmitted because the peer did not receive the reply.
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
    // Both sides disconnect at the same time: each sends a DREP. 12.10.8
    case CmState::dreq_sent: return {over(at, now), CmMessage::drep, false, 0, CmNotification::disconnected};
    case CmState::timewait: return {at, CmMessage::drep};
    // The peer only sends a DREQ after an RTU, so the RTU was lost.
    case CmState::rep_sent:
    case CmState::rtu_wait:
    case CmState::rep_received:
    case CmState::established: return {in(at, CmState::dreq_received), {}, false, 0, CmNotification::disconnected};
    default: return stay(at);
  }
}

}  // namespace detail

/// Handles a received message of this connection.
constexpr CmStep received(const Cm& at, const CmReceived& message, std::int64_t now) {
  switch (message.message) {
    case CmMessage::req: return detail::received_req(at);
    case CmMessage::mra: return detail::received_mra(at, message, now);
    case CmMessage::rej: return detail::received_rej(at, now);
    case CmMessage::rep:
      if (at.waits_for_reply()) return {detail::in(at, CmState::rep_received), {}, false, 0, CmNotification::response};
      // The peer did not receive the RTU, so it is retransmitted.
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

/// Handles a call by the application.
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

/// Handles the expiry of the deadline.
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
  // 12.9.8.5 (clause number not verified): the connection ends even without a DREP.
  if (at.state == CmState::dreq_sent) return {detail::over(at, now), {}, false, 0, CmNotification::disconnected};
  return {detail::over(at, now), CmMessage::rej, false, cm_reason::timeout, CmNotification::unreachable};
}

}  // namespace rdmawire::machines
