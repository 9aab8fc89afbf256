#pragma once
/// Requester of a reliable connection (RC, or the initiator of XRC): evaluates responses to outstanding requests. Pure
/// functions of small values. Time is an argument. IBTA vol 1, 9.7.5, 9.7.6 (clause numbers of single statements are
/// only verified where stated).

#include <algorithm>
#include <cstdint>
#include <span>

#include "dissectors/machines/psn_window.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::machines {

/// A sent message that has no complete response yet.
struct RcOutstanding {
  Psn first;
  std::uint32_t psns = 1;  ///< number of PSNs that the message uses
  Operation operation = Operation::send;
  std::uint32_t length = 0;  ///< length in bytes (READ: of the requested data)
  /// READ: number of response packets that were received in order. Atomics, FLUSH and ATOMIC WRITE: 1 if the response
  /// was received, else 0.
  std::uint32_t answered = 0;
  /// READ: offset in PSNs from `first` at which the last retry started. The response to the retry starts there.
  std::uint32_t asked_from = 0;

  /// True if the message needs a response in addition to an acknowledgement: 9.4.4, 9.4.5, A19.4.
  [[nodiscard]] constexpr bool needs_answer() const {
    return operation == Operation::rdma_read_request || operation == Operation::compare_swap ||
           operation == Operation::fetch_add || operation == Operation::flush || operation == Operation::atomic_write;
  }
  [[nodiscard]] constexpr std::uint32_t answers() const {
    return operation == Operation::rdma_read_request ? psns : needs_answer() ? 1 : 0;
  }
  [[nodiscard]] constexpr Psn last() const { return first + (psns - 1); }
};

/// A response packet that the requester evaluates.
struct RcResponse {
  const Opcode* op = nullptr;  ///< never nullptr
  Psn psn;
  std::uint8_t syndrome = 0;  ///< syndrome of the AETH, if there is one
  bool has_aeth = false;
  std::uint32_t payload = 0;  ///< payload bytes without padding
};

/// Reaction of the requester to a response.
enum class RcStep : std::uint8_t {
  ignore,    ///< no change: a ghost acknowledgement, or a duplicate
  progress,  ///< acknowledges everything before `through`, and accepts the payload of a READ response
  go_back,   ///< like progress, and retransmits from `restart`
  wait,      ///< like go_back, but after the RNR timer
  fail,      ///< like progress, and the message at `restart` fails with `failure`
};
/// Completion error of a message. Names follow the completion statuses of verbs. 11.6.2 (clause number not verified).
enum class RcFailure : std::uint8_t {
  none,
  remote_invalid_request,
  remote_access,
  remote_operation,
  bad_response,  ///< the response does not match the request
  local_length,  ///< the response contains more bytes than requested
  retry_exceeded,
  rnr_retry_exceeded,
};

struct RcProgress {
  RcStep step = RcStep::ignore;
  Psn through{};  ///< the first unacknowledged PSN (not set if `step` is ignore)
  Psn restart{};
  RcFailure failure = RcFailure::none;
  bool implied = false;  ///< go_back without a NAK, because a response is missing (an implied NAK)
  /// Index of the outstanding message whose READ or atomic response was accepted.
  std::size_t message = 0;
  bool takes_payload = false;

  friend constexpr bool operator==(const RcProgress&, const RcProgress&) = default;
};

/// Evaluates a response. `outstanding` contains the messages that were sent but not completed, oldest first. Their PSNs
/// are contiguous up to window.next, and start at window.oldest or before. `mtu` is the maximum payload in bytes.
constexpr RcProgress judge(std::span<const RcOutstanding> outstanding, const RequesterWindow& window,
                           const RcResponse& response, std::uint32_t mtu) {
  const Opcode& op = *response.op;
  if (window.place(response.psn) != ResponsePlace::outstanding) return {};
  // Acknowledges everything before `psn`. If an earlier response is missing, acknowledges only up to its request, and
  // goes back to that request.
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
    // The response to a retry starts with a first packet from some responders, and with a middle packet from others.
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
      // If the acknowledged request needs a response, the response was lost.
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

/// Converts a local ACK timeout code from 0 to 31 to nanoseconds: 4.096 µs · 2^code. 0 means no timer. The timer
/// expires after one to four times this value. C9-140 to C9-142, 9.7.6.1.3.
constexpr std::int64_t ack_timeout_ns(std::uint8_t code) { return code == 0 ? 0 : std::int64_t{4096} << (code & 31); }

/// Retry counters of a requester.
struct RcRetries {
  std::uint8_t timeouts = 7;  ///< retry_cnt: number of retransmissions after timeouts and sequence errors
  std::uint8_t rnr = 7;       ///< rnr_retry: number of retransmissions after RNR NAKs (7: unlimited)
  std::uint8_t timeouts_left = timeouts;
  std::uint8_t rnr_left = rnr;

  static constexpr std::uint8_t without_limit = 7;
  /// Returns the counters after progress, which resets them.
  [[nodiscard]] constexpr RcRetries reloaded() const { return {timeouts, rnr, timeouts, rnr}; }
  /// Uses one retry for a timeout or a sequence error. Returns false if none is left.
  constexpr bool again() { return timeouts_left != 0 && (--timeouts_left, true); }
  /// Uses one retry for an RNR NAK. Returns false if none is left.
  constexpr bool again_after_rnr() { return rnr == without_limit || (rnr_left != 0 && (--rnr_left, true)); }
};

}  // namespace rdmawire::machines
