#pragma once
/// QP state machine: transitions, required and optional attributes, and what a QP does with work requests and packets
/// in each state. Pure functions of small values.
///
/// IBTA vol 1, 10.3.1 (states, clause number not verified), 11.2.4.2 and 11.2.5.2 (modify QP), and behavior on which
/// manual pages and drivers agree.

#include <cstdint>
#include <initializer_list>

namespace rdmawire::machines {

enum class QueuePairState : std::uint8_t {
  reset,
  init,  ///< initialized
  rtr,   ///< ready to receive
  rts,   ///< ready to send
  sqd,   ///< send queue drain
  sqe,   ///< send queue error, after a failed send of UC or UD
  err,
};
inline constexpr std::initializer_list<QueuePairState> queue_pair_states = {
    QueuePairState::reset, QueuePairState::init, QueuePairState::rtr, QueuePairState::rts,
    QueuePairState::sqd,   QueuePairState::sqe,  QueuePairState::err};

/// Service of a QP. XRC has one for each role. QPs for management use `ud`, but have no port attribute.
enum class QueuePairService : std::uint8_t { rc, uc, ud, xrc_initiator, xrc_target };
inline constexpr std::initializer_list<QueuePairService> queue_pair_services = {
    QueuePairService::rc, QueuePairService::uc, QueuePairService::ud, QueuePairService::xrc_initiator,
    QueuePairService::xrc_target};

/// Attributes that modify can set in addition to the state, as bits of a set.
enum class QueuePairAttribute : std::uint32_t {
  current_state = 1U << 0,  ///< the current state, as the application expects it
  access_flags = 1U << 1,
  pkey_index = 1U << 2,
  port = 1U << 3,
  qkey = 1U << 4,
  address_vector = 1U << 5,
  path_mtu = 1U << 6,
  timeout = 1U << 7,
  retry_count = 1U << 8,
  rnr_retry = 1U << 9,
  rq_psn = 1U << 10,
  sq_psn = 1U << 11,
  max_rd_atomic = 1U << 12,
  max_dest_rd_atomic = 1U << 13,
  min_rnr_timer = 1U << 14,
  destination_qpn = 1U << 15,
  alternate_path = 1U << 16,
  path_migration_state = 1U << 17,
  notify_drained = 1U << 18,  ///< requests an event when the send queue is drained
};

/// A set of attributes.
class QueuePairAttributes {
 public:
  constexpr QueuePairAttributes() = default;
  constexpr QueuePairAttributes(std::initializer_list<QueuePairAttribute> list) {
    for (const QueuePairAttribute one : list) bits_ |= static_cast<std::uint32_t>(one);
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr bool contains(QueuePairAttribute one) const {
    return (bits_ & static_cast<std::uint32_t>(one)) != 0;
  }
  [[nodiscard]] constexpr std::uint32_t bits() const { return bits_; }
  friend constexpr QueuePairAttributes operator|(QueuePairAttributes a, QueuePairAttributes b) {
    return QueuePairAttributes(a.bits_ | b.bits_);
  }
  /// Returns the attributes of `a` that are not in `b`.
  friend constexpr QueuePairAttributes operator-(QueuePairAttributes a, QueuePairAttributes b) {
    return QueuePairAttributes(a.bits_ & ~b.bits_);
  }
  friend constexpr bool operator==(QueuePairAttributes, QueuePairAttributes) = default;

 private:
  constexpr explicit QueuePairAttributes(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_ = 0;
};

constexpr bool is_connected(QueuePairService service) { return service != QueuePairService::ud; }
/// True if requests have responses, with which the responder can report errors.
constexpr bool is_reliable(QueuePairService service) {
  return service != QueuePairService::ud && service != QueuePairService::uc;
}
constexpr bool has_requester(QueuePairService service) { return service != QueuePairService::xrc_target; }
constexpr bool has_responder(QueuePairService service) { return service != QueuePairService::xrc_initiator; }
/// True if the service has the state. Only unreliable services have `sqe`, because a failed send moves a reliable QP to
/// `err`.
constexpr bool has_state(QueuePairService service, QueuePairState state) {
  return state != QueuePairState::sqe || !is_reliable(service);
}

/// A transition by modify, which may be illegal.
struct QueuePairTransition {
  bool legal = false;
  QueuePairAttributes required{};
  QueuePairAttributes optional{};  ///< attributes that may be set in addition to the required ones

  friend constexpr bool operator==(const QueuePairTransition&, const QueuePairTransition&) = default;
};

/// Returns the transition from one state to another, or to the same state. Linux drivers differ from it in one case:
/// they reject reset to err, which the specification allows.
constexpr QueuePairTransition transition(QueuePairService service, QueuePairState from, QueuePairState to) {
  using enum QueuePairAttribute;
  using State = QueuePairState;
  using Set = QueuePairAttributes;
  const bool datagram = service == QueuePairService::ud;
  const bool sends_reliably = is_reliable(service) && has_requester(service);
  const bool receives_reliably = is_reliable(service) && has_responder(service);
  const auto only_if = [](bool condition, Set set) { return condition ? set : Set{}; };

  if (!has_state(service, from) || !has_state(service, to)) return {};
  if (to == State::reset || to == State::err) return {.legal = true};

  const Set basic = Set{pkey_index, port} | (datagram ? Set{qkey} : Set{access_flags});
  // Attributes that may be changed in a transition to RTS, and in RTS.
  const Set running = datagram ? Set{current_state, qkey}
                               : Set{current_state, access_flags, alternate_path, path_migration_state} |
                                     only_if(receives_reliably, {min_rnr_timer});
  switch (from) {
    case State::reset:
      if (to == State::init) return {.legal = true, .required = basic};
      break;
    case State::init:
      if (to == State::init) return {.legal = true, .optional = basic};
      if (to == State::rtr) {
        if (datagram) return {.legal = true, .optional = {pkey_index, qkey}};
        return {.legal = true,
                .required = Set{address_vector, path_mtu, destination_qpn, rq_psn} |
                            only_if(receives_reliably, {max_dest_rd_atomic, min_rnr_timer}),
                .optional = {access_flags, alternate_path, pkey_index}};
      }
      break;
    case State::rtr:
      if (to == State::rts)
        return {.legal = true,
                .required = Set{sq_psn} | only_if(is_reliable(service), {timeout}) |
                            only_if(sends_reliably, {retry_count, rnr_retry, max_rd_atomic}),
                .optional = running};
      break;
    case State::rts:
      if (to == State::rts) return {.legal = true, .optional = running};
      if (to == State::sqd) return {.legal = true, .optional = {notify_drained}};
      break;
    case State::sqd:
      if (to == State::rts) return {.legal = true, .optional = running};
      if (to == State::sqd) {
        if (datagram) return {.legal = true, .optional = {pkey_index, qkey}};
        return {.legal = true,
                .optional = Set{address_vector, access_flags, alternate_path, path_migration_state, pkey_index} |
                            only_if(is_reliable(service), {port, timeout}) |
                            only_if(sends_reliably, {retry_count, rnr_retry, max_rd_atomic}) |
                            only_if(receives_reliably, {max_dest_rd_atomic, min_rnr_timer})};
      }
      break;
    case State::sqe:
      if (to == State::rts)
        return {.legal = true, .optional = datagram ? Set{current_state, qkey} : Set{current_state, access_flags}};
      break;
    case State::err: break;
  }
  return {};
}

/// Results of validating modify.
enum class ModifyAnswer : std::uint8_t {
  done,
  illegal_transition,
  attribute_missing,  ///< a required attribute is missing
  attribute_refused,  ///< an attribute is not allowed in this transition
};
struct ModifyDecision {
  ModifyAnswer answer = ModifyAnswer::done;
  QueuePairAttributes attributes{};  ///< the attributes that are missing or not allowed

  friend constexpr bool operator==(const ModifyDecision&, const ModifyDecision&) = default;
};

/// Validates modify with exactly the attributes `given`. If it fails, the QP does not change.
constexpr ModifyDecision judge_modify(QueuePairService service, QueuePairState from, QueuePairState to,
                                      QueuePairAttributes given) {
  const QueuePairTransition step = transition(service, from, to);
  if (!step.legal) return {ModifyAnswer::illegal_transition, {}};
  if (const auto missing = step.required - given; !missing.empty()) return {ModifyAnswer::attribute_missing, missing};
  if (const auto refused = given - (step.required | step.optional); !refused.empty())
    return {ModifyAnswer::attribute_refused, refused};
  return {};
}

/// Results of posting a work request.
enum class PostAnswer : std::uint8_t {
  refused,  ///< rejected with an immediate error
  queued,   ///< accepted, but only processed in a later state
  worked,   ///< accepted and processed
  flushed,  ///< accepted and completed with a flush error
};

/// Returns the result of posting to the send queue. C10-96, 10.8.2 (before RTS), C10-42 (in ERR). XRC targets have no
/// send queue.
constexpr PostAnswer post_send(QueuePairService service, QueuePairState state) {
  if (!has_requester(service) || !has_state(service, state)) return PostAnswer::refused;
  switch (state) {
    case QueuePairState::reset:
    case QueuePairState::init:
    case QueuePairState::rtr: return PostAnswer::refused;
    case QueuePairState::rts: return PostAnswer::worked;
    case QueuePairState::sqd: return PostAnswer::queued;
    case QueuePairState::sqe:
    case QueuePairState::err: return PostAnswer::flushed;
  }
  return PostAnswer::refused;
}

/// Returns the result of posting to the QP's own receive queue. C10-97.2.1 (in RESET), C10-42 (in ERR). XRC QPs use
/// only shared receive queues.
constexpr PostAnswer post_receive(QueuePairService service, QueuePairState state) {
  if (service == QueuePairService::xrc_initiator || service == QueuePairService::xrc_target ||
      !has_state(service, state))
    return PostAnswer::refused;
  switch (state) {
    case QueuePairState::reset: return PostAnswer::refused;
    case QueuePairState::init: return PostAnswer::queued;
    case QueuePairState::rtr:
    case QueuePairState::rts:
    case QueuePairState::sqd:
    case QueuePairState::sqe: return PostAnswer::worked;
    case QueuePairState::err: return PostAnswer::flushed;
  }
  return PostAnswer::refused;
}

/// True if the QP processes received requests, false if it drops them silently.
constexpr bool takes_requests(QueuePairService service, QueuePairState state) {
  return has_responder(service) && has_state(service, state) && state != QueuePairState::reset &&
         state != QueuePairState::init && state != QueuePairState::err;
}

/// True if the QP processes received responses, false if it drops them silently. Before RTS, there are no outstanding
/// requests.
constexpr bool takes_responses(QueuePairService service, QueuePairState state) {
  return is_reliable(service) && has_requester(service) &&
         (state == QueuePairState::rts || state == QueuePairState::sqd);
}

/// Requests that the QP may send.
enum class Sending : std::uint8_t {
  nothing,
  finish,  ///< only packets of messages that were started, including retransmissions
  everything,
};
constexpr Sending sending(QueuePairService service, QueuePairState state) {
  if (!has_requester(service)) return Sending::nothing;
  if (state == QueuePairState::rts) return Sending::everything;
  return state == QueuePairState::sqd ? Sending::finish : Sending::nothing;
}

/// Returns the state after a send fails. UC and UD QPs continue to receive.
constexpr QueuePairState after_send_error(QueuePairService service) {
  return is_reliable(service) ? QueuePairState::err : QueuePairState::sqe;
}

constexpr const char* to_string(QueuePairState state) {
  switch (state) {
    case QueuePairState::reset: return "RESET";
    case QueuePairState::init: return "INIT";
    case QueuePairState::rtr: return "RTR";
    case QueuePairState::rts: return "RTS";
    case QueuePairState::sqd: return "SQD";
    case QueuePairState::sqe: return "SQE";
    case QueuePairState::err: return "ERR";
  }
  return "unknown";
}

}  // namespace rdmawire::machines
