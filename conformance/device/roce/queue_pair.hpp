#pragma once
/// A queue pair: attributes, posted work requests, requester state and responder state.

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "conformance/device/roce/work_request.hpp"
#include "dissectors/machines/congestion.hpp"
#include "dissectors/machines/queue_pair_states.hpp"
#include "dissectors/machines/rc_requester.hpp"
#include "dissectors/machines/rc_responder.hpp"
#include "dissectors/machines/uc.hpp"
#include "dissectors/protocol/opcode.hpp"

namespace rdmawire::device {

using QpState = machines::QueuePairState;

inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// Options of create_qp. 11.2.4.1 (clause number not verified).
struct QueuePairOptions {
  QpType type = QpType::rc;
  std::uint32_t pd = 0, send_cq = 0, recv_cq = 0;  ///< handles
  std::uint32_t srq = 0;                           ///< handle. 0: the queue pair has its own receive queue
  std::uint32_t xrcd = 0;                          ///< handle of the XRC domain of an xrc_recv queue pair
  std::uint32_t max_send_wr = 64, max_recv_wr = 64, max_send_sge = 4, max_recv_sge = 4, max_inline = 256;
  bool all_signaled = false;
  bool privileged = false;  ///< true: the application may use Q_Keys with the high bit set: 10.2.5
  bool gsi = false;         ///< true: QP 1, the general services interface. Requires type UD, only one can exist
};

/// Attributes for modify_qp. Only attributes that are present are changed.
struct QueuePairChange {
  std::optional<QpState> state{}, current{};
  std::optional<std::uint16_t> pkey_index{};
  std::optional<std::uint8_t> port{};
  std::optional<std::uint32_t> access{};
  std::optional<std::uint32_t> qkey{};
  std::optional<std::uint32_t> path_mtu{};  ///< bytes
  std::optional<AddressVector> path{};
  std::optional<std::uint32_t> dest_qpn{}, rq_psn{}, sq_psn{};
  std::optional<std::uint32_t> max_rd_atomic{}, max_dest_rd_atomic{};
  std::optional<std::uint8_t> min_rnr_timer{}, timeout{}, retry_count{}, rnr_retry{};
  std::optional<bool> sqd_notify{};  ///< true: raise an event when the send queue is drained
};

/// Current attributes.
struct QueuePairAttributes {
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 1;
  std::uint32_t access = 0;
  std::uint32_t qkey = 0;
  std::uint32_t path_mtu = 1024;
  AddressVector path;
  std::uint32_t dest_qpn = 0;
  std::uint32_t rq_psn = 0, sq_psn = 0;
  std::uint32_t max_rd_atomic = 0, max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0, timeout = 0, retry_count = 0, rnr_retry = 0;
};

/// A posted send request that is not complete.
struct SendWork {
  SendRequest request;
  std::uint64_t length = 0;  ///< message length in bytes
  Psn first{};
  std::uint32_t psns = 0;  ///< number of PSNs. 0: local operation, or not started
  bool started = false, done = false;
  Status failure = Status::success;  ///< error that was detected when the request started
  std::uint32_t answered = 0;        ///< see machines::RcOutstanding
  std::uint32_t asked_from = 0;      ///< see machines::RcOutstanding
};

/// State that only faults of the requester use.
struct RequesterFaultState {
  bool extra_retry = false;                                       ///< true: an additional retry was made
  std::optional<std::pair<std::size_t, std::uint32_t>> resume{};  ///< request and packet to send after the next one
};

/// Requester state.
struct Requester {
  std::deque<SendWork> queue;  ///< oldest first
  machines::RequesterWindow window;
  std::size_t at = 0;        ///< cursor: index in the queue of the request to send next
  std::uint32_t packet = 0;  ///< cursor: index of its packet to send next
  machines::RcRetries retries;
  std::optional<Psn> went_back_to;    ///< first PSN of the current recovery. Further NAKs of the same loss are ignored
  std::int64_t ack_deadline = never;  ///< time at which the ACK timer expires
  std::int64_t rnr_until = 0;         ///< earliest time of the next transmission
  Psn highest_sent{};                 ///< PSN after the highest one sent. Lower ones are retransmissions
  std::uint64_t messages = 0;         ///< number of started messages that use PSNs
  bool credits_known = false;         ///< true: the responder has sent credits
  Msn limit{};                        ///< MSN of the last message that the credits permit: 9.7.7.2
  bool draining = false;              ///< true: in SQD, and the application requested the drained event
  bool drained_reported = false;
  RequesterFaultState faults;
};

/// A pending response.
struct Response {
  enum class Kind : std::uint8_t { acknowledge, read, atomic, placed } kind = Kind::acknowledge;
  Psn psn{};
  std::uint8_t syndrome = 0;
  Msn msn{};
  bool fatal = false;  ///< true: a NAK after which the queue pair enters the Error state
  std::uint64_t original = 0;
  // READ: remaining part.
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t pd = 0;  ///< protection domain for the R_Key
  std::uint32_t left = 0;
  Psn request{};                     ///< PSN of the request, or of the retry of a part
  std::vector<std::uint8_t> kept{};  ///< original bytes, if a later request of the queue pair has overwritten them
  std::uint64_t kept_va = 0;         ///< address of `kept`, if that is not empty
};

/// State that only faults of the responder use.
struct ResponderFaultState {
  bool reported_gap = false;
  std::uint64_t acknowledgements = 0;
  std::optional<Psn> unasked{};                                                ///< newest packet without AckReq
  std::map<std::uint8_t, std::pair<std::uint64_t, std::uint64_t>> operands{};  ///< of atomics, by index of the response
  std::optional<Psn> expected_datagram{};
};

/// Responder state.
struct Responder {
  machines::RcResponder state;
  std::uint32_t pd = 0;                   ///< protection domain for the keys of the current request
  std::deque<Response> answers;           ///< in PSN order
  std::optional<ReceiveRequest> receive;  ///< receive request that the message in progress uses
  std::uint32_t receive_srq = 0;          ///< handle of its SRQ. 0: the queue pair's own queue
  std::uint64_t written = 0;              ///< bytes written so far for the message in progress
  bool rejecting = false;                 ///< true: a fatal NAK is pending, so no more requests are accepted
  machines::UcResponder uc;
  ResponderFaultState faults;
};

struct QueuePair {
  std::uint32_t handle = 0;
  std::uint32_t qpn = 0;
  QueuePairOptions options;
  QueuePairAttributes attributes;
  QpState state = QpState::reset;
  Requester requester;
  Responder responder;
  std::deque<ReceiveRequest> receives;
  machines::ReactionPoint rate;
  machines::NotificationPoint notification;
  std::int64_t next_send = 0;  ///< earliest time of the next packet, for rate control
  std::uint16_t source_port = 0xc000;
  std::uint32_t groups = 0;                                           ///< number of attached multicast groups
  std::optional<std::pair<Psn, machines::ResponderWindow>> old_psns;  ///< only set by faults: PSNs before a reset
  bool last_wqe_reported = false;
  bool established_reported = false;

  [[nodiscard]] Transport transport() const {
    switch (options.type) {
      case QpType::rc: return Transport::rc;
      case QpType::uc: return Transport::uc;
      case QpType::ud: return Transport::ud;
      default: return Transport::xrc;
    }
  }
  [[nodiscard]] bool is_connected() const { return machines::is_connected(options.type); }
  [[nodiscard]] bool is_reliable() const { return machines::is_reliable(options.type); }
  [[nodiscard]] bool sends() const { return machines::sending(options.type, state) != machines::Sending::nothing; }
  [[nodiscard]] bool takes_requests() const { return machines::takes_requests(options.type, state); }
  [[nodiscard]] bool takes_responses() const { return machines::takes_responses(options.type, state); }
  /// Return the settings of the responder's state machine.
  [[nodiscard]] machines::RcResponderSettings responder_settings() const {
    const std::uint32_t rights = attributes.access;
    return {.mtu = attributes.path_mtu,
            .reads_at_once = attributes.max_dest_rd_atomic,
            .writes = (rights & access::remote_write) != 0,
            .reads = (rights & access::remote_read) != 0,
            .atomics = (rights & access::remote_atomic) != 0,
            .flush_global = (rights & access::flush_global) != 0,
            .flush_persistent = (rights & access::flush_persistent) != 0};
  }
};

}  // namespace rdmawire::device
