#pragma once
/// A queue pair: what the consumer set, what it posted, and where its two halves stand.

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

/// What create_qp asks for. 11.2.4.1 (number unverified).
struct QueuePairOptions {
  QpType type = QpType::rc;
  std::uint32_t pd = 0, send_cq = 0, recv_cq = 0;  ///< handles
  std::uint32_t srq = 0;                           ///< 0: a receive queue of its own
  std::uint32_t xrcd = 0;                          ///< of xrc_recv
  std::uint32_t max_send_wr = 64, max_recv_wr = 64, max_send_sge = 4, max_recv_sge = 4, max_inline = 256;
  bool all_signaled = false;
  bool privileged = false;  ///< its consumer may use Q_Keys with the high bit set: 10.2.5
  bool gsi = false;         ///< queue pair 1, the general services interface; there is one at most, of type UD
};

/// What modify_qp gives; only what is there is changed.
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
  std::optional<bool> sqd_notify{};  ///< ask for the event when the send queue has drained
};

/// What was set, so far.
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

/// A request that was posted and is not completed.
struct SendWork {
  SendRequest request;
  std::uint64_t length = 0;  ///< bytes of the message
  Psn first{};
  std::uint32_t psns = 0;  ///< that it takes; 0: a local operation, or not begun
  bool started = false, done = false;
  Status failure = Status::success;  ///< that was found when it began
  std::uint32_t answered = 0;        ///< as machines::RcOutstanding has it
  std::uint32_t asked_from = 0;      ///< likewise
};

/// The half that sends requests.
struct Requester {
  std::deque<SendWork> queue;  ///< oldest first
  machines::RequesterWindow window;
  std::size_t at = 0;        ///< which of the queue is sent next
  std::uint32_t packet = 0;  ///< and which of its packets
  machines::RcRetries retries;
  std::optional<Psn> went_back_to;    ///< for a NAK; further ones of the same loss are of no interest
  std::int64_t ack_deadline = never;  ///< when the ACK timer ends
  std::int64_t rnr_until = 0;         ///< nothing is sent before
  Psn highest_sent{};                 ///< the PSN after the newest that was on the wire, for counting what goes again
  std::uint64_t messages = 0;         ///< begun, those that take no PSN aside
  bool credits_known = false;         ///< the responder told some
  Msn limit{};                        ///< the message up to which it has receives: 9.7.7.2
  bool extra_retry = false;           ///< only faults: one more than is left was made
  std::optional<std::pair<std::size_t, std::uint32_t>> resume;  ///< only faults: the cursor behind one packet
  bool draining = false;  ///< SQD: the consumer wants to be told when it has drained
  bool drained_told = false;
};

/// An answer that waits to be sent.
struct Response {
  enum class Kind : std::uint8_t { acknowledge, read, atomic, placed } kind = Kind::acknowledge;
  Psn psn{};
  std::uint8_t syndrome = 0;
  Msn msn{};
  bool fatal = false;  ///< a NAK after which the queue pair is in error
  std::uint64_t original = 0;
  // Of a READ: what is left.
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t pd = 0;  ///< that the R_Key is held against
  std::uint32_t left = 0;
  Psn request{};                     ///< the PSN of the request, or of its part that was asked for again
  std::vector<std::uint8_t> kept{};  ///< what a later request of the queue pair has overwritten, as it was: from
  std::uint64_t kept_va = 0;         ///< this address on; empty: nothing has
};

/// The half that answers.
struct Responder {
  machines::RcResponder state;
  std::uint32_t pd = 0;                   ///< that the keys of the request in work are held against
  std::deque<Response> answers;           ///< in the order of their PSNs
  std::optional<ReceiveRequest> receive;  ///< the one that the open message fills
  std::uint32_t receive_srq = 0;          ///< the handle of the shared queue that it came from; 0: its own
  std::uint64_t written = 0;              ///< bytes of the open message
  std::uint64_t gaps = 0;                 ///< that were reported
  std::uint64_t acknowledgements = 0;     ///< that were made
  Psn unasked{};                          ///< the newest packet that asked for no acknowledgement
  bool has_unasked = false;
  std::map<std::uint8_t, std::pair<std::uint64_t, std::uint64_t>> operands;  ///< of atomics, by the answer's place
  bool condemned = false;  ///< a fatal NAK waits; nothing more is taken
  machines::UcResponder uc;
  std::optional<Psn> expected_datagram;  ///< only faults look at it
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
  std::int64_t next_send = 0;  ///< not before, for its rate
  std::uint16_t source_port = 0xc000;
  std::uint32_t groups = 0;                                           ///< that it is attached to
  std::optional<std::pair<Psn, machines::ResponderWindow>> old_psns;  ///< only faults: of the life before a reset
  bool last_wqe_told = false;
  bool established_told = false;

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
  /// Of a responder, as its machine takes it.
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
