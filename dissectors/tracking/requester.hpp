#pragma once
/// One end of a connection as requester: its requests and the other end's responses to them in, messages and events
/// out. Follows what a capture shows, which can lack packets that were on the wire. IBTA vol 1, 9.7.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/ring.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::tracking {

/// Whom a requester belongs to, and whom it tells.
struct Reporter {
  Connection& connection;
  Sink& sink;
  Side end = Side::a;   ///< the requester
  bool joined = false;  ///< the other end's packets are seen, and known to be its
  PacketNote* note = nullptr;

  [[nodiscard]] Sent& requester() const { return connection.by(end); }
  [[nodiscard]] Sent& responder() const { return connection.by(other(end)); }
  void tell(Event& event) const;
  void tell(Message& message) const;
};

class Requester {
 public:
  /// So much silence is a stall.
  static constexpr std::int64_t stall_ns = 100'000'000;
  /// PSNs further away than this are not the connection's.
  static constexpr std::int32_t far = 1 << 14;

  /// The PSN of the first request is known: the CM said it, or the programs did.
  void expect(Psn first);
  /// Reads and atomics that may be outstanding.
  void limit_reads(std::uint8_t limit) { read_limit_ = limit; }

  /// A request of this end.
  void request(const TransportPacket& packet, const Reporter& to);
  /// A response of the other end to this end's requests.
  void response(const TransportPacket& packet, const Reporter& to);
  /// A congestion notification to this end.
  void notified(const TransportPacket& packet, const Reporter& to);
  /// Nothing more will come; the capture ended at `end`, nanoseconds since 1970.
  void finish(const Reporter& to, std::int64_t end);
  /// What this requester waited for, when the connection was silent until this packet; none: nothing to tell, for what
  /// follows tells it.
  [[nodiscard]] Cause waited_for(const TransportPacket& packet) const;

  /// Whether a request was seen.
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] const machines::RequesterWindow& window() const { return window_; }
  [[nodiscard]] Psn first() const { return first_; }
  /// Whether a request with this PSN can belong to what went on so far; if not, the queue pair is a new one.
  [[nodiscard]] bool can_continue(Psn psn) const;
  /// Bytes of memory beside the object itself.
  [[nodiscard]] std::size_t memory() const;
  /// Begins to load into the cache what a packet will need: of the object itself, then of what it points to.
  void fetch_state(bool response) const;
  void fetch_requests(bool response) const;

 private:
  /// A request packet that was seen, or PSNs that were not.
  struct SentPacket {
    Psn psn;
    std::uint32_t psns = 1;
    std::uint64_t frame = 0;  // of its first sending; 0: not seen
    std::int64_t first_time = 0;
    std::int64_t time = 0;  // of its last sending
    std::uint32_t payload = 0;
    std::uint32_t icrc = 0;
    std::uint32_t bytes_before = 0;  // of payload that was sent before it, modulo 2^32
    std::uint16_t identification = 0;
    std::uint8_t opcode = 0;
    bool seen = false;
    bool late = false;                // filled a gap
    bool told = false;                // a gap whose loss was told
    bool behind_late = false;         // sent before what came late, and so dropped by the responder
    bool passed_over = false;         // the last round of sending again went on behind it without it
    std::uint64_t beyond_frame = 0;   // the first response to what was sent after it
    std::uint64_t refused_frame = 0;  // a gap: the NAK that asked for it
    std::int64_t refused_time = 0;
    [[nodiscard]] Psn end() const { return psn + psns; }
  };
  /// A message that is being sent or waits for its answer.
  struct Waiting {
    Message message;
    Psn first, end;      // of the PSNs that it takes; `end`: one behind
    bool whole = false;  // its last packet was seen
    bool done = false;   // told
    bool read = false;
    bool atomic = false;              // or FLUSH or ATOMIC WRITE: one answer, and an acknowledgement is none
    bool unmeasured = false;          // read: the capture cut its length off
    bool answered = false;            // its answer was seen, but the one of an earlier READ or atomic is missing
    Psn next_response;                // read: the first that the requester misses
    Psn seen;                         // read: likewise, had the capture missed what is missing before it
    Psn beyond;                       // read: one behind the furthest response
    std::uint64_t skipped_frame = 0;  // what came in spite of missing responses: implies a NAK
    std::int64_t skipped_time = 0;
    Psn gap_end;                    // read: the first response behind those that are missing from `seen` on
    std::uint64_t ahead_frame = 0;  // what came before what is missing, as the capture has it
    std::int64_t ahead_time = 0;
    bool tell_order = true;  // read: a missing one that comes is late, and was not asked for again
  };
  /// A round of sending again that goes on.
  struct Round {
    bool active = false;
    Event event;
    Psn next;           // what would continue it
    bool copy = false;  // so far a single packet that equals the first sending
    std::int64_t last_time = 0;
  };
  /// A NAK or RNR NAK that was not reacted to yet.
  struct Refusal {
    bool active = false;
    bool rnr = false;
    Psn psn;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    Event event;  // RNR: told when the wait is over
  };
  /// A packet that filled a gap; whether late or sent again shows with the next one.
  struct GapFill {
    bool active = false;
    Psn psn, first_end, next;
    Event event;
    SentPacket gap;  // as it was
  };
  struct Notification {
    Event event;
    double rate_before = 0;  // bytes a nanosecond; 0: not known
    std::uint32_t packets_after = 0;
    std::uint64_t bytes_after = 0;
    std::int64_t first_after = 0;
  };
  /// A READ response that was seen: which frame had which PSN.
  struct SeenResponse {
    Psn psn;
    std::uint64_t frame = 0;
  };
  /// What few connections ever need.
  struct LossEpisode {
    std::deque<TransportPacket> ahead;  // by PSN; wait for the gap before them to be filled or given up
    std::vector<Notification> notifications;
    std::optional<TransportPacket> unsent;  // the furthest response to what was not seen being sent
    TransportPacket first_unsent;           // the first of these
  };

  static constexpr std::size_t kept_packets = 24;  // of what is acknowledged: to know it when it comes again
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
  void fill(std::size_t at, const TransportPacket& packet, std::uint32_t psns);
  void lost_before_capture(const SentPacket& gap, Psn filled, const TransportPacket& packet, const Reporter& to);
  /// Whether the sender gives each packet an IP identification of its own.
  [[nodiscard]] bool numbers_packets() const { return other_identifications_ >= 3; }
  [[nodiscard]] bool is_copy(const TransportPacket& packet, const SentPacket& known) const;
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
  void skipped(Waiting& waiting, const TransportPacket& packet);
  void check_msn(const TransportPacket& packet, const Reporter& to);
  [[nodiscard]] std::uint64_t frame_of_response(Psn psn) const;
  void note_seen(Waiting& read, const TransportPacket& packet, const Reporter& to);
  void late_answer(const Waiting& waiting, const TransportPacket& packet, const Reporter& to);
  void read_response(const TransportPacket& packet, const Reporter& to);
  void answered(Waiting* waiting, const TransportPacket& packet, const Reporter& to);
  void mark_answered(const TransportPacket& packet);
  void end_refusal(const Reporter& to, const TransportPacket* again);
  void refused(const TransportPacket& packet, const Reporter& to);
  void unseen_request(const TransportPacket& packet, const Reporter& to);
  Waiting* waiting_of(Psn psn);
  void measure_rate(const TransportPacket& packet, const Reporter& to);
  void note_window(PacketNote& note);
  void settle_unsent(const TransportPacket& request, const Reporter& to);

  bool started_ = false, expected_ = false;
  machines::RequesterWindow window_;
  std::uint32_t mtu_ = 0;  // the connection's, as far as it was taken into account
  Psn first_;
  Psn delivered_;     // what the messages are made of: everything before was seen in order
  bool gap_ = false;  // something is missing behind delivered_
  machines::MessageSequence sequence_;
  bool sequence_known_ = false;  // false: after a beginning in the middle, or a gap
  bool open_ = false;            // the last of waiting_ goes on
  std::uint8_t read_limit_ = 0;
  std::uint32_t reads_out_ = 0;
  bool read_limit_told_ = false;
  Ring<SentPacket> packets_;
  Ring<Waiting> waiting_;
  std::uint64_t messages_ = 0;
  std::uint32_t bytes_sent_ = 0;  // of payload, each packet once, modulo 2^32
  Round round_;
  Refusal refusal_;
  Refusal obeyed_late_;  // a NAK of a sequence error that an acknowledgement made void
  GapFill filler_;
  std::uint32_t unanswered_again_ = 0;  // packets sent again whose acknowledgement may come once more
  Psn again_end_;                       // what was sent when that ended: their acknowledgements have a PSN before it
  std::int64_t again_time_ = 0;         // of the last packet that was sent again
  std::int64_t again_until_ = 0;        // when the last of these can come; 0: not known yet
  TransportPacket last_ack_;
  std::uint64_t ack_frame_ = 0;  // the one that acknowledged last
  std::int64_t last_time_ = 0;   // of this end's requests and their responses
  std::uint64_t last_frame_ = 0;
  std::int64_t response_time_ = 0;
  std::uint8_t credit_ = 31;  // code of the last ACK; 31: not used
  bool credits_used_ = false;
  std::uint32_t most_outstanding_ = 0;
  bool msn_known_ = false;
  Msn msn_;                         // of the last ACK
  std::uint64_t msn_messages_ = 0;  // messages that it counted
  std::uint64_t msn_epoch_ = 0;
  std::uint64_t epoch_ = 0;                // counts where messages could not be counted
  std::uint16_t last_identification_ = 0;  // of the newest request packet, and how many newer ones in a row had another
  std::uint8_t other_identifications_ = 0;  // than the one before
  std::unique_ptr<LossEpisode> trouble_;
  std::unique_ptr<std::array<SeenResponse, 64>> seen_responses_;  // by the low bits of their PSN; with READs only
};

}  // namespace rdmawire::tracking
