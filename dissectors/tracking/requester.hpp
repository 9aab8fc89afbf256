#pragma once
/// One endpoint of a connection as a requester. Derives messages and events from its requests and the responses of the
/// peer. Packets may be missing in the capture. IBTA vol 1, 9.7.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/tracking/cold.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/psn_window.hpp"
#include "dissectors/tracking/ring.hpp"
#include "dissectors/tracking/send_order.hpp"
#include "dissectors/tracking/transport_packet.hpp"
#include "dissectors/tracking/undecided_losses.hpp"

namespace rdmawire::tracking {

/// The connection of a requester, and the sink for its events.
struct Reporter {
  Connection& connection;
  Sink& sink;
  Side end = Side::a;   ///< the requester
  bool joined = false;  ///< packets of the peer were captured and paired
  PacketNote* note = nullptr;

  [[nodiscard]] Sent& requester() const { return connection.by(end); }
  [[nodiscard]] Sent& responder() const { return connection.by(other(end)); }
  void tell(Event& event) const;
  void tell(Message& message) const;
};

class Requester {
 public:
  /// Minimum silence for a stall, in nanoseconds.
  static constexpr std::int64_t stall_ns = 100'000'000;
  /// A PSN at this distance from the window, or farther, belongs to another connection.
  static constexpr std::int32_t far = 1 << 14;

  /// Sets the PSN of the first request, which the CM or a text exchange contains.
  void expect(Psn first);
  /// Sets the maximum number of outstanding READs and atomics.
  void limit_reads(std::uint8_t limit) { read_limit_ = limit; }

  /// Must be called when the directions are paired at `time`, if earlier packets were processed without their
  /// responses.
  void pair_late(std::int64_t time);
  /// Processes a request of this endpoint.
  void request(const TransportPacket& packet, const Reporter& to);
  /// Processes a response of the peer to this endpoint's requests.
  void response(const TransportPacket& packet, const Reporter& to);
  /// Processes a damaged packet of this endpoint, or a damaged response to it. Any of its fields can be wrong.
  void damaged(const TransportPacket& packet, bool response);
  /// True if the PSN is plausible for a new request of this endpoint, or for a response to an outstanding one.
  [[nodiscard]] bool expects(const TransportPacket& packet, bool response) const;
  /// Processes a congestion notification to this endpoint.
  void notified(const TransportPacket& packet, const Reporter& to);
  /// Reports the remaining state. The capture ended at `end`, in nanoseconds since 1970.
  void finish(const Reporter& to, std::int64_t end);
  /// Returns for what this requester waited during the silence before this packet. Returns Cause::none if another event
  /// reports the wait.
  [[nodiscard]] Cause waited_for(const TransportPacket& packet) const;

  /// True if a request was captured.
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] const machines::RequesterWindow& window() const { return window_; }
  [[nodiscard]] Psn first() const { return first_; }
  /// True if a request with this PSN can belong to the current connection. If it cannot, the QP is used for a new
  /// connection.
  [[nodiscard]] bool can_continue(Psn psn) const;
  /// Memory in bytes, without the object itself.
  [[nodiscard]] std::size_t memory() const;
  /// Prefetch the memory that a packet needs: first that of the object itself, then the memory to which it refers.
  void fetch_state(bool response) const;
  void fetch_requests(bool response) const;

 private:
  /// A request packet that was captured, or a gap of PSNs that were not.
  struct SentPacket {
    Psn psn;
    std::uint32_t psns = 1;
    std::uint64_t frame = 0;  // frame of the first transmission (0: not captured)
    std::int64_t first_time = 0;
    std::int64_t time = 0;  // time of the last transmission
    std::uint32_t payload = 0;
    std::uint32_t icrc = 0;
    std::uint32_t bytes_before = 0;  // number of payload bytes sent before this packet, modulo 2^32
    std::uint16_t identification = 0,
                  last_identification = 0;  // identifications of the first and the last transmission
    std::uint8_t opcode = 0;
    bool seen = false;
    bool late = false;  // the packet filled a gap
    bool overtaken =
        false;  // the packet filled a gap, and was sent before packets that were captured earlier (reordered)
    bool reported = false;            // the loss of this gap was reported
    bool dropped = false;             // when the last transmission was captured, the responder expected an earlier PSN
    bool damaged = false;             // the last transmission was captured with a bad CRC
    bool late_response = false;       // the response was captured after the response to a later request
    bool passed_over = false;         // the last retransmission burst skipped this packet
    bool ack_requested = false;       // AckReq in the last transmission
    std::uint64_t beyond_frame = 0;   // frame of the first response to a later packet
    std::uint64_t refused_frame = 0;  // of a gap: frame of the NAK that requested its retransmission
    std::int64_t refused_time = 0;
    [[nodiscard]] Psn end() const { return psn + psns; }
  };
  /// A message that is being sent or waits for its response.
  struct Waiting {
    Message message;
    Psn first, end;      // PSNs of the message. `end` is one after the last
    bool whole = false;  // the last packet was captured
    bool done = false;   // the message was reported
    bool read = false;
    bool atomic = false;      // atomic, FLUSH or ATOMIC WRITE: has one response, in addition to an acknowledgement
    bool unmeasured = false;  // READ: the capture truncated its length
    bool guessed = false;     // it is only a guess that responses are missing, because the MTU was unknown or the
                              // directions were unpaired
    bool answered = false;    // the response was captured, but the response to an earlier READ or atomic is missing
    Psn next_response;        // READ: the first response that the requester has not received
    Psn seen;                 // READ: the first response that is missing in the capture
    Psn beyond;               // READ: one after the last response so far
    // Frame of the first later response while the response of this message is missing. It implies a NAK.
    std::uint64_t skipped_frame = 0;
    std::int64_t skipped_time = 0;
    Psn gap_end;                    // READ: the first captured response after the gap that starts at `seen`
    std::uint64_t ahead_frame = 0;  // frame of the first later response that was captured before the missing one
    std::int64_t ahead_time = 0;
    // READ: if a missing response arrives later, it counts as out of order, and not as a retransmission.
    bool tell_order = true;
  };
  /// A retransmission burst in progress.
  struct Round {
    bool active = false;
    Event event;
    Psn next;           // PSN of the packet that would continue the burst
    bool copy = false;  // the burst consists of one packet so far, which is identical to its first transmission
    // The last packet is ahead of the burst. It can be a late packet of the preceding burst. Then the burst continues
    // at `behind`.
    bool ahead = false;
    Psn behind;
    std::uint32_t late = 0;  // number of late packets that were captured during the burst
  };
  /// A NAK or RNR NAK to which the requester has not reacted yet.
  struct Refusal {
    bool active = false;
    bool rnr = false;
    Psn psn;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    Event event;  // RNR NAK: event to report when the wait ends
    // Cause of the retransmission that the NAK requests, unless the requested packet arrives late.
    Cause cause = Cause::sequence_error_nak;
  };
  /// How a request packet with a known PSN relates to its earlier transmissions.
  enum class Repeat : std::uint8_t {
    unknown,
    copy,           // the same transmission, duplicated by the network or the capture
    late,           // sent before other packets that were captured earlier
    retransmitted,  // sent after all packets that were captured earlier
  };
  /// A request packet whose PSN was already sent or skipped.
  struct Repetition {
    std::size_t at = 0;         // index of the PSN in packets_ (size of packets_: none)
    SentPacket known;           // state of the PSN before this packet
    bool fills = false;         // the packet is in a gap
    bool refused_here = false;  // a NAK requests the packet
    bool continues = false;     // the packet continues the current retransmission
    Repeat repeat = Repeat::unknown;
  };
  /// A packet that a NAK requests, although it was captured in order. Later packets show whether it was lost or late.
  struct Suspect {
    bool active = false;
    Psn psn;
    Event event;                     // event for the loss
    std::vector<Event> recoveries;   // events of recoveries that the same NAK caused
    std::int64_t retransmitted = 0;  // time of the retransmission (0: none). Its response decides
    bool behind = false;             // if a packet was late, it was the retransmission of the PSN before this one
  };
  /// Why the responder drops the packets after a missing one.
  struct Disorder {
    Cause cause = Cause::none;  // none: not known yet
    // If the cause is downstream of the capture point: time at which the missing packet is known to have arrived.
    std::int64_t until = 0;
    Psn next;  // PSN that the responder expects after that
  };
  struct DamagedPacket {
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    Psn psn;
    bool read = false;  // the packet seems to be a READ request
  };
  /// A packet that filled a gap. Later packets show whether it was late or retransmitted.
  struct GapFill {
    bool active = false;
    Psn psn, first_end, next;
    Event event;
    SentPacket gap;          // the gap before it was filled
    bool requested = false;  // a NAK, a timer or a missing response can be the reason for a retransmission
  };
  struct Notification {
    Event event;
    double rate_before = 0;  // rate before the notification in bytes per nanosecond (0: unknown)
    std::uint32_t packets_after = 0;
    std::uint64_t bytes_after = 0;
    std::int64_t first_after = 0;
  };
  /// A captured READ response.
  struct SeenResponse {
    std::uint32_t psn = 0;
    bool known = false;
    std::uint16_t identification = 0;
    std::uint64_t frame = 0;
  };
  /// Fields of an acknowledgement, with which later ones are compared.
  struct Acknowledgement {
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    Psn psn;
    Msn msn;
    std::uint32_t icrc = 0;
    std::uint16_t identification = 0;
    std::uint8_t syndrome = 0;

    Acknowledgement() = default;
    explicit Acknowledgement(const TransportPacket& packet)
        : frame(packet.frame),
          time(packet.time),
          psn(packet.psn),
          msn(packet.msn),
          icrc(packet.icrc),
          identification(packet.identification),
          syndrome(packet.syndrome) {}
  };
  /// A NAK that the responder sends if it receives the requests in the order in which they were captured.
  struct ExpectedNak {
    Psn psn;
    std::int64_t time = 0;  // time of the request that causes the NAK
  };
  /// State that only few connections need.
  struct LossEpisode {
    std::deque<TransportPacket> ahead;  // packets after a gap, by PSN. They wait until the gap is filled or given up
    std::vector<Notification> notifications;
    std::optional<TransportPacket>
        unsent;                    // the response with the highest PSN among those to requests that were not captured
    TransportPacket first_unsent;  // the first response to a request that was not captured
    Suspect suspect;
    Disorder disorder;
    std::array<DamagedPacket, 8> damaged;  // the last damaged packets
    std::uint32_t damaged_count = 0;
    DamagedPacket damaged_response;             // the last damaged response
    std::array<ExpectedNak, 16> expected_naks;  // the last expected NAKs
    std::uint32_t expected_nak_count = 0;
    Psn implied_psn;  // PSN of the last recovery that a missing response caused
    std::int64_t implied_time = 0;
    bool refusing = false;  // the responder sent a NAK for accepted_, or is expected to
    UndecidedLosses undecided;
    Event copies;  // if copying_: duplicates of consecutive request packets
    Psn copies_next;
  };

  // Number of acknowledged packets that are kept to detect their retransmission.
  static constexpr std::size_t kept_packets = 24;
  static constexpr std::size_t max_packets = 1 << 16;
  static constexpr std::size_t max_waiting = 1 << 14;
  static constexpr std::size_t max_ahead = 4096;

  LossEpisode& trouble() {
    if (!trouble_) trouble_ = std::make_unique<LossEpisode>();
    return *trouble_;
  }
  [[nodiscard]] bool near(Psn psn) const;
  Event event_of(EventKind kind, Cause cause, const TransportPacket& packet, const Reporter& to) const;
  void measure_read(Psn end);
  [[nodiscard]] std::uint32_t psns_of(const TransportPacket& packet, const Connection& connection) const;
  void learn_mtu(const TransportPacket& packet, Connection& connection);
  void adopt_mtu(const Connection& connection);
  SentPacket* find(Psn psn);
  std::size_t index_of(Psn psn);
  void fresh(const TransportPacket& packet, std::uint32_t psns, const Reporter& to);
  void again(const TransportPacket& packet, std::uint32_t psns, const Reporter& to);
  [[nodiscard]] Repetition repetition_of(const TransportPacket& packet);
  bool captured_late(const TransportPacket& packet, const Repetition& again, const Reporter& to);
  void accept_late(const TransportPacket& packet, std::uint32_t psns, const Repetition& again);
  void note_filler(const TransportPacket& packet, std::uint32_t psns, const Repetition& again, const Reporter& to);
  [[nodiscard]] bool filler_was_retransmitted(const TransportPacket& packet, const Repetition& again) const;
  void note_retransmission(const TransportPacket& packet, std::uint32_t psns, const Repetition& again,
                           const Reporter& to);
  std::uint32_t psns_of_gap(const TransportPacket& packet, std::uint32_t psns, const Repetition& again,
                            const Reporter& to);
  void close_gap(const TransportPacket& packet, std::uint32_t psns, const Repetition& again, const Reporter& to);
  void fill(std::size_t at, const TransportPacket& packet, std::uint32_t psns);
  void lost_before_capture(const SentPacket& gap, Psn filled, const TransportPacket& packet, const Reporter& to);
  void begin_disorder(Psn missing, Cause cause);
  void accept(Psn psn, Psn end, const TransportPacket& packet);
  void accepted_through(Psn through);
  void expect_nak(std::int64_t time);
  void refuse_after(Psn psn);
  bool restarts_further(const TransportPacket& packet, const Waiting* read);
  [[nodiscard]] bool expects_nak(Psn psn, std::int64_t time) const;
  void report_recovery(Event& recovery, const Reporter& to);
  [[nodiscard]] bool damaged_in_gap(std::uint64_t after, std::uint64_t before, std::uint32_t psns) const;
  [[nodiscard]] bool damaged_since(std::int64_t time) const;
  [[nodiscard]] Repeat repeat_of(const TransportPacket& packet, const SentPacket& known) const;
  void report_copy(const TransportPacket& packet, const SentPacket& known, const Reporter& to);
  void report_late(const TransportPacket& packet, const SentPacket& known, const Reporter& to);
  Cause examine_nak(SentPacket* request, const TransportPacket& nak, bool repeated, const Reporter& to);
  void settle_suspect(bool lost, const TransportPacket* proof, const Reporter& to);
  [[nodiscard]] bool answers_retransmission(const TransportPacket& response) const;
  void end_copies(const Reporter& to);
  void suspect_retransmitted(const TransportPacket& packet, const Reporter& to);
  Cause cause_of_refusal();
  [[nodiscard]] bool is_copy(const TransportPacket& packet, const SentPacket& known) const;
  [[nodiscard]] bool is_late_without_order(const TransportPacket& packet, const Repetition& again);
  [[nodiscard]] bool is_late_in_burst(const TransportPacket& packet, const SentPacket& known);
  [[nodiscard]] bool is_late_original(const TransportPacket& packet, const SentPacket& known);
  [[nodiscard]] bool is_requested(const TransportPacket& packet);
  void pass_over(Psn psn, std::size_t end, std::uint64_t frame);
  void continue_burst(const TransportPacket& packet, std::uint32_t psns, const SentPacket& known, std::size_t at);
  void return_to_burst(Psn psn);
  void begin_round(const TransportPacket& packet, std::uint32_t psns, const SentPacket& known, const Reporter& to);
  void end_round(const Reporter& to);
  void settle_filler(bool on_retransmission, const Reporter& to);
  void deliver(const TransportPacket& packet, const Reporter& to);
  void deliver_what_waited(const Reporter& to);
  void give_up_gap(Psn through, bool answered, std::uint64_t cause_frame, const Reporter& to);
  void acknowledge(Psn through, const TransportPacket& packet, const Reporter& to);
  void complete(Waiting& waiting, const TransportPacket& packet, const Reporter& to);
  void drop_done();
  Waiting* blocking();
  void drop_answers_behind(const Waiting& from);
  void believe_progress(Psn psn, const Reporter& to);
  void unblock(Waiting& stuck, const Reporter& to);
  [[nodiscard]] bool is_patience_over(const Waiting& stuck, std::int64_t now) const;
  void skipped(Waiting& waiting, const TransportPacket& packet);
  void check_msn(const TransportPacket& packet, const Reporter& to);
  [[nodiscard]] const SeenResponse* find_response(Psn psn) const;
  [[nodiscard]] std::uint64_t frame_of_response(Psn psn) const;
  [[nodiscard]] bool is_copied_response(const TransportPacket& packet, machines::ResponsePlace place);
  void note_seen(const TransportPacket& packet);
  void note_unrequested(const TransportPacket& ack);
  void note_seen(Waiting& read, const TransportPacket& packet, const Reporter& to);
  void late_answer(const Waiting& waiting, const TransportPacket& packet, const Reporter& to);
  void report_late_response(const TransportPacket& packet, const Reporter& to);
  [[nodiscard]] bool is_captured_late(Psn psn) const;
  void read_response(const TransportPacket& packet, const Reporter& to);
  void answered(Waiting* waiting, const TransportPacket& packet, const Reporter& to);
  void mark_answered(const TransportPacket& packet);
  void end_refusal(const Reporter& to, const TransportPacket* again);
  void refused(const TransportPacket& packet, const Reporter& to);
  void unseen_request(const TransportPacket& packet, const Reporter& to);
  Waiting* waiting_of(Psn psn);
  void measure_rate(const TransportPacket& packet, const Reporter& to);
  void note_window(PacketNote& note);
  void note_arrival(const TransportPacket& packet, PacketNote& note) const;
  void settle_unsent(const TransportPacket& request, const Reporter& to);

  bool started_ = false, expected_ = false;
  machines::RequesterWindow window_;
  std::uint32_t mtu_ = 0;  // MTU of the connection, as last applied to READs
  Psn first_;
  Psn delivered_;     // all packets before this PSN were processed, or given up as missing
  bool gap_ = false;  // packets are missing after delivered_
  machines::MessageSequence sequence_;
  bool sequence_known_ =
      false;  // false if the position in the message is unknown: after a start within a message, or after a gap
  bool open_ = false;  // the last message of waiting_ is incomplete
  std::uint8_t read_limit_ = 0;
  std::uint32_t reads_out_ = 0;
  bool read_limit_reported_ = false;
  Ring<SentPacket> packets_;
  Ring<Waiting> waiting_;
  std::uint64_t messages_ = 0;
  std::uint32_t bytes_sent_ = 0;  // number of payload bytes modulo 2^32. Each packet counts once
  Cold<Round> round_;
  Cold<Refusal> refusal_;
  Cold<Refusal> obeyed_late_;  // a sequence error NAK that a later acknowledgement made obsolete
  Cold<GapFill> filler_;
  std::uint32_t unanswered_again_ = 0;  // number of retransmitted packets whose acknowledgement may still be repeated
  Psn again_end_;                       // next PSN after that burst. Repeated acknowledgements have earlier PSNs
  std::int64_t again_time_ = 0;         // time of the last retransmitted packet
  std::int64_t again_until_ = 0;        // time until which these acknowledgements can arrive (0: unknown)
  Acknowledgement last_ack_;
  std::uint64_t ack_frame_ = 0;  // frame of the last acknowledgement
  Psn acknowledged_from_;        // the oldest PSN that the last acknowledgement acknowledged
  std::int64_t acknowledged_time_ = 0;
  std::int64_t paired_time_ = 0;  // time until which responses were not known, because the directions were unpaired
  std::int64_t last_time_ = 0;    // time of the last request of this endpoint, or of the last response to it
  std::uint64_t last_frame_ = 0;
  std::int64_t response_time_ = 0;
  std::int64_t fastest_response_ = INT64_MAX;  // shortest time from a request to its response, as captured
  std::uint8_t response_samples_ = 0;          // number of measured responses
  std::uint8_t credit_ = 31;                   // credit code in the last ACK (31: not used)
  bool credits_used_ = false;
  bool late_response_ = false;  // the current response is late, and was not reported yet
  // Number of acknowledgements of packets with AckReq (acks_unrequested: the responder also acknowledges packets
  // without AckReq).
  std::uint8_t requested_acks_ = 0;
  bool msn_known_ = false, disordered_ = false;
  bool copying_ = false;  // duplicates were captured that are not reported yet
  std::uint32_t most_outstanding_ = 0;
  Msn msn_;                         // MSN in the last ACK
  std::uint64_t msn_messages_ = 0;  // number of messages that this MSN counts
  std::uint64_t msn_epoch_ = 0;
  std::uint64_t epoch_ = 0;           // number of places where messages could not be counted
  SendOrder order_, response_order_;  // order in which requests and responses were sent
  // The PSN that the responder expects, if it received the packets in the order in which they were captured. It differs
  // from the PSN after the newest packet if packets were missing, late or damaged at the capture point.
  Psn accepted_;         // valid if disordered_
  Psn newest_response_;  // the last PSN that a response acknowledged. Valid after the first response
  std::unique_ptr<LossEpisode> trouble_;
  PsnWindow<SeenResponse, 64> seen_responses_;  // only used if there are READs
};

}  // namespace rdmawire::tracking
