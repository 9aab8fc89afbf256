#pragma once
/// State machine that emulates one side of a captured RC or UC connection against a live peer.
///
/// Free of I/O: the caller passes received packets and the current time. It gets back the packets to send and the work
/// requests that the peer's application must post. PSNs are relative to the first packet of each direction.
///
/// RC requester: sends each captured request as soon as the peer has completed the preceding captured steps, and
/// retransmits on loss. ACK coalescing by the peer is not compared. RC responder: sends the captured responses.
///
/// UC: there are no acknowledgements or retransmissions. A local message is complete when it is sent. Lost peer
/// messages are reported and skipped.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "dissectors/machines/rc_requester.hpp"
#include "replay/reactive/exchange.hpp"
#include "replay/reactive/memory.hpp"

namespace rdmawire::replay::reactive {

struct MachineOptions {
  std::int64_t retry_after = 500'000'000;      ///< nanoseconds without a response until requests are retransmitted
  std::int64_t step_timeout = 10'000'000'000;  ///< nanoseconds without progress until the replay fails
  std::uint8_t retries = 7;                    ///< consecutive timeouts and sequence errors
  std::uint32_t window = 64;                   ///< maximum number of unacknowledged PSNs
  std::uint32_t reads_at_once = 1;             ///< outstanding local READs and atomics
  std::uint32_t posts_at_once = 16;            ///< outstanding work requests of the peer
};

/// A packet received from the peer.
struct ReceivedPacket {
  const tracking::TransportPacket* t = nullptr;
  Bytes payload{};
  Psn psn{};                ///< relative to the direction of the requests that it belongs to
  std::uint64_t frame = 0;  ///< frame number in the recording
};

/// A packet to send.
struct OutgoingPacket {
  enum class Kind : std::uint8_t { request, read_response, atomic_answer, acknowledge };
  Kind kind = Kind::request;
  std::size_t message = 0;  ///< index into the local messages for a request, otherwise into the peer's
  std::size_t packet = 0;   ///< index within the message. For a READ, index of the response packet
  std::uint32_t psn = 0;    ///< relative
  std::uint32_t skip = 0;   ///< READ: the retry starts at this packet of the response. Response: starts at this packet
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
  std::uint64_t captured_frame = 0;  ///< 0: the packet is not in the capture
  bool again = false;
};

struct Actions {
  std::vector<std::size_t> pokes;        ///< indices into MemoryPlan::pokes. Carried out first
  std::vector<OutgoingPacket> outgoing;  ///< in transmission order
  std::vector<std::size_t> posts;        ///< peer messages that the peer's application must post, in this order
  std::int64_t wake = std::numeric_limits<std::int64_t>::max();
};

/// A difference between the live peer and the captured peer.
struct Divergence {
  bool note = false;  ///< loss that was recovered. No deviation if an injected fault caused it
  std::uint64_t captured_frame = 0, live_frame = 0;  ///< 0: none
  std::string captured, live;
};
/// "captured: frame 34: ACK, PSN +3, MSN 4; live: frame 12: NAK PSN sequence error, PSN +3"
std::string to_string(const Divergence& divergence);

class RoceMachine {
 public:
  /// `exchange` and `plan` must outlive the object.
  RoceMachine(const Exchange& exchange, const MemoryPlan& plan, const MachineOptions& options);

  Actions start(std::int64_t now);
  Actions on_received(const ReceivedPacket& packet, std::int64_t now);
  Actions on_timer(std::int64_t now);

  /// Returns whether all messages are sent and all responses are received.
  [[nodiscard]] bool done() const;
  /// Returns whether the peer sent the captured fatal NAK. Its QP is then in the Error state, and the connection is
  /// over.
  [[nodiscard]] bool refused() const { return refused_; }
  /// One sentence. Empty if the replay can continue.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// One sentence that lists the pending events.
  [[nodiscard]] std::string waiting_for() const;
  [[nodiscard]] const std::vector<Divergence>& divergences() const { return divergences_; }
  [[nodiscard]] std::uint64_t divergences_left_out() const { return left_out_; }

  struct Counts {
    std::size_t ours_begun = 0, ours_done = 0;      ///< local messages: sent. Completed by the peer
    std::size_t theirs_asked = 0, theirs_done = 0;  ///< peer messages: posted. Completely received
    std::uint64_t again = 0;                        ///< retransmitted packets
    std::uint64_t made = 0;                         ///< acknowledgements and responses that are not in the capture
    std::uint64_t recoveries = 0, rnr_waits = 0, cnps = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // Requester.
  void answered(const ReceivedPacket& packet, std::int64_t now);
  void take_payload(const ReceivedPacket& packet, std::size_t index);
  void compare_answer(const ReceivedPacket& packet, const machines::RcProgress& progress);
  void go_back(std::uint32_t psn, std::int64_t now);
  void settle(std::uint32_t through, std::int64_t now);
  void send_requests(Actions& actions, std::int64_t now);
  [[nodiscard]] bool may_begin(const Message& message) const;
  [[nodiscard]] std::size_t message_at(const std::vector<Message>& messages, std::uint32_t psn) const;
  [[nodiscard]] const CapturedAnswer* captured_answer(std::int64_t psn) const;
  /// Exclusive end of the PSNs before `psn` that the peer must acknowledge without further requests.
  [[nodiscard]] std::uint32_t insisted(std::uint32_t psn) const;

  // Responder.
  void asked(const ReceivedPacket& packet, Actions& actions, std::int64_t now);
  /// UC: reports the peer's packets from expected_ up to `packet` as lost.
  void skip_lost(const ReceivedPacket& packet);
  void compare_request(const ReceivedPacket& packet, const Message& message, std::size_t index);
  void respond_to_duplicate(const ReceivedPacket& packet, Actions& actions);
  void respond(std::size_t message, std::uint32_t skip, bool again, Actions& actions);
  void acknowledge(std::uint32_t psn, std::uint8_t syndrome, std::uint64_t captured, Actions& actions);
  void post(Actions& actions, std::int64_t now);

  void diverge(Divergence divergence);
  void fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
  }
  Actions finish(Actions actions, std::int64_t now);

  const Exchange& exchange_;
  const MemoryPlan& plan_;
  MachineOptions options_;

  machines::RequesterWindow window_;  ///< relative PSNs
  std::vector<machines::RcOutstanding> outstanding_;
  std::size_t first_outstanding_ = 0;  ///< index of the message of outstanding_[0]
  std::uint32_t cursor_ = 0;           ///< next PSN to send
  std::int64_t resume_ = 0;            ///< end of the RNR wait
  std::int64_t asked_at_ = 0;          ///< when the oldest unanswered request was sent, or the last response arrived
  std::int64_t progress_at_ = 0;
  machines::RcRetries retries_;
  std::map<std::int64_t, const CapturedAnswer*>
      captured_;                       ///< captured responses to local requests, by PSN. Without sequence errors
  std::vector<std::uint32_t> insist_;  ///< PSN + 1 of each packet that requires an acknowledgement, ascending
  std::optional<std::uint32_t> gone_back_to_;
  bool refused_ = false;  ///< the peer sent the captured fatal NAK

  std::uint32_t expected_ = 0;      ///< next PSN of the peer's requests
  std::uint32_t acknowledged_ = 0;  ///< exclusive end of the acknowledged peer PSNs
  bool nak_sent_ = false;
  std::multimap<std::int64_t, CapturedAnswer> our_answers_;  ///< by PSN of the peer's requests
  std::map<std::int64_t, std::size_t> not_ready_;            ///< RNR NAKs that are still to be sent, by PSN

  std::vector<Divergence> divergences_;
  std::uint64_t left_out_ = 0;
  std::string failure_;
  Counts counts_;
};

}  // namespace rdmawire::replay::reactive
