#pragma once
/// Requester and responder of one direction of a reliable connection: the captured requests, the proven progress of the
/// responder, and the checks of both. IBTA vol 1, 9.7.
///
/// A captured packet proves what the requester sent. A missing packet may have been lost before the capture or by it.
/// The responder's progress is bounded: it executed at least the requests that its responses acknowledge, and at most
/// the requests that were captured. The monitor reports only violations that no loss can explain.

#include <cstdint>
#include <optional>
#include <vector>

#include "conformance/monitors/evaluator.hpp"
#include "dissectors/machines/rc_responder.hpp"
#include "dissectors/tracking/ring.hpp"

namespace rdmawire::conformance {

struct MonitoredPacket;

/// Time and IP identification of a captured packet, to determine the order in which its sender sent packets.
struct SentMoment {
  std::int64_t time = 0;
  std::uint16_t identification = 0;  ///< of the IPv4 header
};

/// A captured request packet.
struct SeenRequest {
  Psn psn;
  std::uint32_t psns = 1;  ///< number of PSNs. READ with unknown path MTU: the minimum
  std::uint64_t frame = 0, last_frame = 0;
  std::int64_t time = 0, last_time = 0;
  std::uint64_t va = 0, operand = 0, compare = 0;
  std::uint32_t key = 0, length = 0, payload = 0, payload_crc = 0, immediate = 0, invalidated = 0;
  std::uint16_t pkey = 0;
  std::uint8_t opcode = 0;
  std::uint8_t times = 1;  ///< number of transmissions, not counting duplicates
  bool payload_known = false, ack_request = false, solicited = false;
  bool psns_unknown = false;   ///< true: the number of PSNs of the READ is unknown
  bool psns_inferred = false;  ///< true: the number of PSNs is derived from an inferred path MTU, and may be lower
  bool doubtful = false;       ///< true: retransmitted with other content. The responder may have accepted either one

  // State of the message after this packet
  bool sequence_known = false;  ///< true: `after` is known
  bool bytes_known = false;     ///< true: the message was captured from its first packet to this one
  machines::MessageSequence after;
  std::uint32_t done = 0, announced = 0;  ///< bytes so far, and DMA length of the RETH
  std::optional<machines::InvalidRequest> invalid;
  bool checked = false;  ///< true: the transition from the preceding packet was checked

  std::uint32_t messages_low = 0, messages_high = 0;  ///< bounds of the number of messages that ended up to here

  // The response to a READ or an atomic
  std::uint64_t response_frame = 0;
  std::uint32_t responses = 0;     ///< READ: number of response packets captured in order
  std::uint32_t retried_from = 0;  ///< READ: index of the response packet at which the last retry starts
  bool response_gap = false;       ///< READ: the capture lacks a response packet before a captured one
  bool skipped = false;            ///< true: only responses to later requests were captured
  std::int64_t skipped_time = 0;
  std::uint64_t original = 0;  ///< value in an atomic's response
  bool has_original = false;

  [[nodiscard]] Psn end() const { return psn + psns; }
  [[nodiscard]] const Opcode& op() const { return rdmawire::opcode(opcode); }
  [[nodiscard]] bool is_read() const { return op().operation == Operation::rdma_read_request; }
  [[nodiscard]] bool has_own_response() const { return machines::keeps_answer(op().operation); }
};

class RcExchange {
 public:
  /// Handles a request of this requester, or a response to it.
  void request(const MonitoredPacket& watch);
  void response(const MonitoredPacket& watch);
  /// Called after the last packet.
  void finish(Evaluator& evaluator);

  /// Returns the allocated memory in bytes, without the object itself.
  [[nodiscard]] std::size_t memory() const { return sent_.bytes(); }
  /// Appends the values of Monitors::states_of().
  void states(std::vector<std::uint64_t>& states) const;
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] Psn first() const { return first_; }

 private:
  static constexpr std::size_t kept = 32, kept_unanswered = 4096;
  static constexpr std::int32_t far = 1 << 16;
  static constexpr std::size_t nowhere = SIZE_MAX;

  // Requests: rc_exchange.cpp
  void begin(const MonitoredPacket& watch);
  [[nodiscard]] SeenRequest read(const MonitoredPacket& watch) const;
  [[nodiscard]] std::size_t before_or_at(Psn psn) const;
  [[nodiscard]] SeenRequest* covering(Psn psn);
  void count_messages(std::size_t from);
  void settle_read(const MonitoredPacket& watch);
  [[nodiscard]] bool is_remainder(const MonitoredPacket& watch, const SeenRequest& read) const;
  void append(const MonitoredPacket& watch);
  void insert(const MonitoredPacket& watch, std::size_t at);
  void forget(const MonitoredPacket& watch);

  // Checks of the requester: rc_requester_monitor.cpp
  void check_order(const MonitoredPacket& watch, std::int32_t gap) const;
  void check_chain(const MonitoredPacket& watch, std::size_t at);
  void check_ack_request(const MonitoredPacket& watch) const;
  void check_retransmission(const MonitoredPacket& watch, SeenRequest& known);
  void check_part_of_read(const MonitoredPacket& watch, SeenRequest& read);
  void check_recovery(const MonitoredPacket& watch, const SeenRequest* known, std::uint32_t psns);
  void check_completed(const MonitoredPacket& watch, const SeenRequest* known);
  void check_recovery_start(const MonitoredPacket& watch, const SeenRequest* known);
  void end_recovery(const MonitoredPacket& watch);

  // Checks of the responder: rc_responder_monitor.cpp
  void check_acknowledgement(const MonitoredPacket& watch, SeenRequest* request);
  void check_sequence_nak(const MonitoredPacket& watch);
  void check_rnr_nak(const MonitoredPacket& watch, const SeenRequest* request);
  void check_error_nak(const MonitoredPacket& watch, const SeenRequest* request);
  void check_read_response(const MonitoredPacket& watch, SeenRequest* request);
  void check_atomic_response(const MonitoredPacket& watch, SeenRequest* request);
  void check_invalid(const MonitoredPacket& watch, Psn executed);
  void check_response_order(const MonitoredPacket& watch);
  void check_msn(const MonitoredPacket& watch, const SeenRequest* request);
  void settle_msn(const MonitoredPacket& watch, bool contiguous);
  void check_outstanding_reads(const MonitoredPacket& watch, SeenRequest& request);
  void prove(const MonitoredPacket& watch, Psn executed);

  // Checks that need a complete capture: rc_bench_monitor.cpp
  void check_received(const MonitoredPacket& watch);
  void check_sent(const MonitoredPacket& watch);
  void check_credits(const MonitoredPacket& watch);
  void note_credits(const MonitoredPacket& watch);

  bool started_ = false;
  bool start_known_ = false;  // the starting PSN was negotiated, and the first request was captured
  bool lost_ = false;         // packets were lost, possibly only by the capture
  bool late_ = false;         // the first transmission of a request was captured after one with a later PSN
  Psn first_, next_;
  // PSN after the highest one in a response. If it exceeds next_, the requests between them were not captured.
  std::optional<Psn> answered_;
  tracking::Ring<SeenRequest> sent_;  // by PSN
  std::uint32_t outstanding_reads_ = 0;

  // Responses prove that the responder has executed all requests before this PSN.
  bool proven_known_ = false;
  Psn proven_;
  std::uint64_t proven_frame_ = 0;
  std::int64_t proven_time_ = 0;
  std::uint16_t proven_identification_ = 0;
  bool acknowledged_ = false;  // an ACK was captured after the last request

  struct Refusal {
    bool active = false;
    Psn psn;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::int64_t timer = 0;  // RNR timer, nanoseconds
    std::uint32_t times = 0;
    std::uint16_t identification = 0;
  };
  Refusal nak_, rnr_;
  std::optional<Psn> not_ready_;            // request that was rejected with an RNR NAK and is not yet executed
  bool naked_ = false;                      // a sequence error NAK was captured
  std::uint64_t retransmission_frame_ = 0;  // frame of the last retransmitted request
  std::uint64_t retransmissions_ = 0;       // number of retransmitted packets, each of which may cause a repeated ACK
  std::uint64_t repeated_acks_ = 0;
  std::uint64_t response_gap_frame_ = 0;  // frame of a response after a missing one, which is an implied NAK
  std::uint64_t ack_frame_ = 0;           // frame of the last ACK
  std::optional<Psn> last_response_;      // highest PSN of a response

  // Bounds of the MSN before the first captured request: from msn_low_ to msn_low_ + msn_width_
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

  // The responder's state if the capture is complete
  struct Bench {
    bool active = false, gap = false, reported = false, not_ready = false, failed = false;
    Psn next;  // the expected PSN, or a lower one if read_length is not 0
    // Length of the READ before `next`, if its number of PSNs is unknown. `next` then assumes one PSN
    std::uint32_t read_length = 0;
    std::uint64_t gap_frame = 0;

    void expect(Psn psn) {
      next = psn;
      read_length = 0;
    }
    void settle(std::uint32_t mtu);
    [[nodiscard]] std::int32_t maximum_ahead() const;
  };
  Bench bench_;
  std::uint64_t response_frame_ = 0;  // frame of the last response
  struct Credits {
    bool known = false;
    Msn limit;  // MSN of the last permitted message
    std::uint64_t frame = 0;
    std::uint32_t beyond = 0;
  };
  Credits credits_;

  // The recovery in progress: one go-back-N episode
  struct Recovery {
    bool active = false;
    Psn start, next;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::uint32_t at_start = 0;      // number of recoveries that started at `start`
    std::uint32_t rnr_at_start = 0;  // number of those that an RNR NAK for `start` caused
  };
  Recovery recovery_;
};

}  // namespace rdmawire::conformance
