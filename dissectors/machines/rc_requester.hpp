#pragma once
/// Requester of a reliable connection (RC, or the initiator of XRC): evaluates responses to outstanding requests. Pure
/// functions of small values. Time is an argument. IBTA vol 1, 9.7.5, 9.7.6 (clause numbers of single statements not
/// verified unless stated).

#include <algorithm>
#include <cstdint>
#include <span>

#include "dissectors/machines/psn_window.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::machines {

/// A sent message without complete response.
struct RcOutstanding {
  Psn first;
  std::uint32_t psns = 1;  ///< number of its PSNs
  Operation operation = Operation::send;
  std::uint32_t length = 0;  ///< bytes (READ: requested bytes)
  /// READ: number of response PSNs received in order. Other operations with a response beyond an acknowledgement:
  /// 1 when it has arrived.
  std::uint32_t answered = 0;
  /// Start of the last retry of a READ, in PSNs from `first`: its response starts there.
  std::uint32_t asked_from = 0;

  /// True if an acknowledgement does not complete it: 9.4.4, 9.4.5, A19.4.
  [[nodiscard]] constexpr bool needs_answer() const {
    return operation == Operation::rdma_read_request || operation == Operation::compare_swap ||
           operation == Operation::fetch_add || operation == Operation::flush || operation == Operation::atomic_write;
  }
  [[nodiscard]] constexpr std::uint32_t answers() const {
    return operation == Operation::rdma_read_request ? psns : needs_answer() ? 1 : 0;
  }
  [[nodiscard]] constexpr Psn last() const { return first + (psns - 1); }
};

/// A response packet, as evaluated by its requester.
struct RcResponse {
  const Opcode* op = nullptr;  ///< not nullptr
  Psn psn;
  std::uint8_t syndrome = 0;  ///< of the AETH, if present
  bool has_aeth = false;
  std::uint32_t payload = 0;  ///< bytes without padding
};

/// Reaction of the requester to a response.
enum class RcStep : std::uint8_t {
  ignore,    ///< a ghost acknowledgement or a duplicate: no change
  progress,  ///< acknowledges everything before `through` (accepts payload of a READ response)
  go_back,   ///< the same, and retransmits from `restart`
  wait,      ///< the same, after the RNR timer
  fail,      ///< the same, and the message at `restart` fails with `failure`
};
/// Completion error of a message, named like the completion statuses of verbs. 11.6.2 (clause number not verified).
enum class RcFailure : std::uint8_t {
  none,
  remote_invalid_request,
  remote_access,
  remote_operation,
  bad_response,  ///< a response that does not match the request
  local_length,  ///< more bytes than requested
  retry_exceeded,
  rnr_retry_exceeded,
};

struct RcProgress {
  RcStep step = RcStep::ignore;
  Psn through{};  ///< the first unacknowledged PSN (unset if `step` is ignore)
  Psn restart{};
  RcFailure failure = RcFailure::none;
  bool implied = false;  ///< go_back was caused by a missing response: an implied NAK
  /// Index of the outstanding message of an accepted READ or atomic response.
  std::size_t message = 0;
  bool takes_payload = false;

  friend constexpr bool operator==(const RcProgress&, const RcProgress&) = default;
};

/// Evaluates a response. `outstanding`: messages sent and not completed, oldest first, with contiguous PSNs from
/// window.oldest or before up to window.next. `mtu`: maximum payload in bytes.
constexpr RcProgress judge(std::span<const RcOutstanding> outstanding, const RequesterWindow& window,
                           const RcResponse& response, std::uint32_t mtu) {
  const Opcode& op = *response.op;
  if (window.place(response.psn) != ResponsePlace::outstanding) return {};
  // Acknowledges everything before `psn`. If a response before `psn` is missing, acknowledges up to that request and
  // retransmits it.
  const auto acknowledge = [&](Psn psn, RcProgress then) {
    for (const RcOutstanding& m : outstanding) {
      if (m.first - psn >= 0) break;
      if (m.answered < m.answers()) {
        const Psn missing = m.operation == Operation::rdma_read_request ? m.first + m.answered : m.first;
        if (missing - psn >= 0) break;
        return RcProgress{.step = RcStep::go_back, .through = missing, .restart = missing, .implied = true};
      }
    }
    then.through = psn;
    return then;
  };
  const auto found = std::find_if(outstanding.begin(), outstanding.end(), [&](const RcOutstanding& m) {
    return response.psn - m.first >= 0 && response.psn - m.last() <= 0;
  });
  if (found == outstanding.end()) return {};
  const auto index = static_cast<std::size_t>(found - outstanding.begin());
  const RcOutstanding& asked = *found;
  const auto bad = [&](RcFailure failure) {
    return acknowledge(asked.first, {.step = RcStep::fail, .restart = asked.first, .failure = failure});
  };

  if (op.operation == Operation::rdma_read_response) {
    const bool read = asked.operation == Operation::rdma_read_request;
    const bool placed = asked.operation == Operation::flush || asked.operation == Operation::atomic_write;
    if (!read && !placed) return bad(RcFailure::bad_response);
    if (placed) {
      if (op.position != Position::only || response.payload != 0) return bad(RcFailure::bad_response);
      return acknowledge(response.psn,
                         {.step = RcStep::progress, .message = index, .takes_payload = asked.answered == 0});
    }
    const auto at = static_cast<std::uint32_t>(response.psn - asked.first);
    if (at < asked.answered) return {};
    // First, last and only packets have an AETH, which must be an ACK.
    if (response.has_aeth && !Syndrome(response.syndrome).is_ack()) return bad(RcFailure::bad_response);
    if (at > asked.answered) {
      const Psn missing = asked.first + asked.answered;
      return acknowledge(missing, {.step = RcStep::go_back, .restart = missing, .implied = true});
    }
    const bool last = at + 1 == asked.psns;
    const std::uint32_t wanted = last ? asked.length - at * mtu : mtu;
    if (response.payload > wanted) return bad(RcFailure::local_length);
    if (response.payload < wanted || op.ends_message() != last) return bad(RcFailure::bad_response);
    // After a retry, some responders start with a first packet, and others continue with a middle packet.
    const bool begins = at == 0 || at == asked.asked_from;
    if ((op.begins_message() && !begins) || (!op.begins_message() && at == 0)) return bad(RcFailure::bad_response);
    return acknowledge(response.psn, {.step = RcStep::progress, .message = index, .takes_payload = true});
  }
  if (op.operation == Operation::atomic_acknowledge) {
    if (asked.operation != Operation::compare_swap && asked.operation != Operation::fetch_add)
      return bad(RcFailure::bad_response);
    return acknowledge(response.psn,
                       {.step = RcStep::progress, .message = index, .takes_payload = asked.answered == 0});
  }
  if (op.operation != Operation::acknowledge) return {};

  const Syndrome syndrome(response.syndrome);
  switch (syndrome.kind()) {
    case syndrome_kind::ack:
      // An acknowledgement of a request that needs a response implies that the response was lost.
      return acknowledge(response.psn + 1, {.step = RcStep::progress});
    case syndrome_kind::rnr_nak: return acknowledge(response.psn, {.step = RcStep::wait, .restart = response.psn});
    case syndrome_kind::nak: {
      const std::uint8_t code = syndrome.code();
      if (code == nak_code::psn_sequence_error)
        return acknowledge(response.psn, {.step = RcStep::go_back, .restart = response.psn});
      RcFailure failure = RcFailure::bad_response;
      if (code == nak_code::invalid_request) failure = RcFailure::remote_invalid_request;
      if (code == nak_code::remote_access_error) failure = RcFailure::remote_access;
      if (code == nak_code::remote_operational_error) failure = RcFailure::remote_operation;
      return acknowledge(response.psn, {.step = RcStep::fail, .restart = asked.first, .failure = failure});
    }
    default: return bad(RcFailure::bad_response);
  }
}

/// Returns the local ACK timeout of a code from 0 to 31, in nanoseconds: 4.096 µs · 2^code. 0: no timer. The timer
/// expires after one to four times this value. C9-140 to C9-142, 9.7.6.1.3.
constexpr std::int64_t ack_timeout_ns(std::uint8_t code) { return code == 0 ? 0 : std::int64_t{4096} << (code & 31); }

/// Retry counters of a requester.
struct RcRetries {
  std::uint8_t timeouts = 7;  ///< retry_cnt: retransmissions after timeouts and sequence errors
  std::uint8_t rnr = 7;       ///< rnr_retry (7: unlimited)
  std::uint8_t timeouts_left = timeouts;
  std::uint8_t rnr_left = rnr;

  static constexpr std::uint8_t without_limit = 7;
  /// Resets the counters after progress.
  [[nodiscard]] constexpr RcRetries reloaded() const { return {timeouts, rnr, timeouts, rnr}; }
  /// Uses one retry for a timeout or a sequence error. Returns false if none is left.
  constexpr bool again() { return timeouts_left != 0 && (--timeouts_left, true); }
  /// Uses one retry after an RNR NAK.
  constexpr bool again_after_rnr() { return rnr == without_limit || (rnr_left != 0 && (--rnr_left, true)); }
};

}  // namespace rdmawire::machines
