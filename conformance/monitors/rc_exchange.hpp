#pragma once
/// One end of a reliable connection as requester, and the other one as its responder: the requests that were seen, what
/// the responder is proven to have executed, and the evaluations on both. IBTA vol 1, 9.7.
///
/// What a capture shows of a requester is true of it, packet by packet; what is missing may have been lost before the
/// capture, or by it. Of the responder's state bounds are kept: it has executed at least what its responses
/// acknowledge, and at most what was seen being sent. Both are judged by what no loss can explain.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/monitors/evaluator.hpp"
#include "dissectors/machines/rc_responder.hpp"
#include "dissectors/tracking/ring.hpp"

namespace rdmawire::conformance {

struct MonitoredPacket;

/// A request packet that was seen.
struct SeenRequest {
  Psn psn;
  std::uint32_t psns = 1;  ///< that it takes; of a READ whose path MTU is not known: at least
  std::uint64_t frame = 0, last_frame = 0;
  std::int64_t time = 0, last_time = 0;
  std::uint64_t va = 0, operand = 0, compare = 0;
  std::uint32_t key = 0, length = 0, payload = 0, payload_crc = 0, immediate = 0, invalidated = 0;
  std::uint16_t pkey = 0;
  std::uint8_t opcode = 0;
  std::uint8_t times = 1;  ///< it was sent, copies apart
  bool payload_known = false, ack_request = false, solicited = false;
  bool vague = false;     ///< a READ whose PSNs are not known
  bool doubtful = false;  ///< it came again as another one: which of them the responder took is not known

  // Its message, through it
  bool sequence_known = false;  ///< `after` is
  bool bytes_known = false;     ///< the message's first packet was seen, and all since
  machines::MessageSequence after;
  std::uint32_t done = 0, announced = 0;  ///< bytes so far; RETH's length of a WRITE
  std::optional<machines::InvalidRequest> invalid;
  bool judged = false;  ///< as what follows the packet before it

  std::uint32_t messages_low = 0, messages_high = 0;  ///< ended through it, since the first request that was seen

  // Its own answer: of a READ or an atomic
  std::uint64_t answered_frame = 0;
  std::uint32_t responses = 0;   ///< of a READ: PSNs that were answered in order, from the first on
  std::uint32_t asked_from = 0;  ///< of a READ: the PSN, from its first on, at which it was asked for last
  bool response_gap = false;     ///< of a READ: a response is missing before one that came
  bool skipped = false;          ///< later requests were answered, and this one was not seen to be
  std::int64_t skipped_time = 0;
  std::uint64_t original = 0;  ///< what an atomic's answer said
  bool has_original = false;

  [[nodiscard]] Psn end() const { return psn + psns; }
  [[nodiscard]] const Opcode& op() const { return rdmawire::opcode(opcode); }
  [[nodiscard]] bool is_read() const { return op().operation == Operation::rdma_read_request; }
  [[nodiscard]] bool has_own_answer() const { return machines::keeps_answer(op().operation); }
};

class RcExchange {
 public:
  /// A request of this end, or a response of the other one.
  void request(const MonitoredPacket& watch);
  void response(const MonitoredPacket& watch);
  /// Nothing more will come.
  void finish(Evaluator& judge);

  /// Monitors::states_of, appended.
  void states(std::vector<std::uint64_t>& states) const;
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] Psn first() const { return first_; }

 private:
  static constexpr std::size_t kept = 32, kept_unanswered = 4096;
  static constexpr std::int32_t far = 1 << 16;
  static constexpr std::size_t nowhere = SIZE_MAX;

  // The requests, rc_exchange.cpp
  void begin(const MonitoredPacket& watch);
  [[nodiscard]] SeenRequest read(const MonitoredPacket& watch) const;
  [[nodiscard]] std::size_t before_or_at(Psn psn) const;
  [[nodiscard]] SeenRequest* covering(Psn psn);
  void count_messages(std::size_t from);
  void settle_read(const MonitoredPacket& watch);
  [[nodiscard]] bool is_rest(const MonitoredPacket& watch, const SeenRequest& read) const;
  void append(const MonitoredPacket& watch);
  void insert(const MonitoredPacket& watch, std::size_t at);
  void forget(const MonitoredPacket& watch);

  // Judgments on the requester, rc_requester_monitor.cpp
  void judge_order(const MonitoredPacket& watch, std::int32_t gap) const;
  void judge_chain(const MonitoredPacket& watch, std::size_t at);
  void judge_ack_request(const MonitoredPacket& watch) const;
  void judge_again(const MonitoredPacket& watch, SeenRequest& known);
  void judge_part_of_read(const MonitoredPacket& watch, SeenRequest& read);
  void judge_round(const MonitoredPacket& watch, const SeenRequest* known, std::uint32_t psns);
  void judge_completed(const MonitoredPacket& watch, const SeenRequest* known);
  void judge_round_begin(const MonitoredPacket& watch, const SeenRequest* known);
  void end_round(const MonitoredPacket& watch);

  // Judgments on the responder, rc_responder_monitor.cpp
  void judge_acknowledgement(const MonitoredPacket& watch, SeenRequest* request);
  void judge_sequence_nak(const MonitoredPacket& watch);
  void judge_rnr_nak(const MonitoredPacket& watch, const SeenRequest* request);
  void judge_error_nak(const MonitoredPacket& watch, const SeenRequest* request);
  void judge_read_response(const MonitoredPacket& watch, SeenRequest* request);
  void judge_atomic_response(const MonitoredPacket& watch, SeenRequest* request);
  void judge_invalid(const MonitoredPacket& watch, Psn executed);
  void judge_order_of(const MonitoredPacket& watch);
  void judge_msn(const MonitoredPacket& watch, const SeenRequest* request);
  void settle_msn(const MonitoredPacket& watch, bool contiguous);
  void judge_reads_out(const MonitoredPacket& watch, SeenRequest& request);
  void prove(const MonitoredPacket& watch, Psn executed);

  // Where everything was seen, rc_bench_monitor.cpp
  void judge_received(const MonitoredPacket& watch);
  void judge_sent(const MonitoredPacket& watch);
  void judge_credits(const MonitoredPacket& watch);
  void note_credits(const MonitoredPacket& watch);

  bool started_ = false;
  bool start_known_ = false;  // the PSN of the first request was agreed, and it was seen
  bool lost_ = false;         // packets are missing that the capture alone may have missed
  Psn first_, next_;
  tracking::Ring<SeenRequest> sent_;  // by PSN
  std::uint32_t reads_out_ = 0;

  // What the responder is proven to have executed: everything before this PSN
  bool proven_known_ = false;
  Psn proven_;
  std::uint64_t proven_frame_ = 0;
  std::int64_t proven_time_ = 0;
  bool acknowledged_ = false;  // an ACK came, and nothing was sent since

  struct Refusal {
    bool active = false;
    Psn psn;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::int64_t timer = 0;  // RNR
    std::uint32_t times = 0;
  };
  Refusal nak_, rnr_;
  std::optional<Psn> not_ready_;   // refused with an RNR NAK, and not executed since
  bool naked_ = false;             // some gap was reported before
  std::uint64_t again_frame_ = 0;  // the last request that came again
  std::uint64_t again_ = 0;        // requests that came again, and ACKs that came again: not more than those
  std::uint64_t acks_again_ = 0;
  std::uint64_t response_gap_frame_ = 0;  // a response that shows one before it to be missing: an implied NAK
  std::uint64_t ack_frame_ = 0;           // the last ACK
  std::optional<Psn> last_response_;      // the furthest response that was seen

  // MSN: what it was before the first request that was seen, as bounds
  bool msn_known_ = false;
  Msn msn_low_;
  std::uint32_t msn_width_ = 0;
  struct PendingMsn {
    bool active = false;
    std::size_t rule = 0;
    Place place;
    Statement statement;
  };
  PendingMsn pending_msn_;

  // The responder, where all that it receives is seen
  struct Bench {
    bool active = false, gap = false, reported = false, not_ready = false, failed = false;
    Psn next;  // that it expects
    // Of the READ right before `next`, while the path MTU is not known: it takes one PSN, or more
    std::uint32_t read_length = 0;
    std::uint64_t gap_frame = 0;

    void expect(Psn psn) {
      next = psn;
      read_length = 0;
    }
    void settle(std::uint32_t mtu);
    [[nodiscard]] std::int32_t most_ahead() const;
  };
  Bench bench_;
  std::uint64_t response_frame_ = 0;  // the last response
  struct Credits {
    bool known = false;
    Msn limit;  // the last message that may be sent
    std::uint64_t frame = 0;
    std::uint32_t beyond = 0;
  };
  Credits credits_;

  // The round of sending again that goes on
  struct Round {
    bool active = false;
    Psn start, next;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::uint32_t at_start = 0;      // rounds that began there
    std::uint32_t rnr_at_start = 0;  // of these, after an RNR NAK of it
  };
  Round round_;
};

}  // namespace rdmawire::conformance
