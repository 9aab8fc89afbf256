#pragma once
/// Plays one side of a reliable connection against a live peer. Pure: what was heard and the time come in; what is to
/// be said, and what the peer's consumer is to be asked for, comes out. PSNs are relative, each direction's first is 0.
///
/// As requester it does what the captured side did as soon as the peer has done what came before it in the capture:
/// acknowledged (how it coalesces is its own affair), answered a READ or an atomic, sent messages of its own. What is
/// lost is said again as a requester must. As responder it answers with what the captured side answered.
///
/// Over UC nothing is acknowledged or said again: a message of ours is done when it was said, and of the peer's what is
/// lost is told and passed over.

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
  std::int64_t retry_after = 500'000'000;      ///< nanoseconds without an answer, then requests are sent again
  std::int64_t step_timeout = 10'000'000'000;  ///< nanoseconds without any progress, then it is given up
  std::uint8_t retries = 7;                    ///< in a row, for silence and sequence errors
  std::uint32_t window = 64;                   ///< PSNs that may wait for an acknowledgement that was asked for
  std::uint32_t reads_at_once = 1;             ///< READs and atomics of ours that may wait for their answers
  std::uint32_t posts_at_once = 16;            ///< work requests of the peer's that may be under way
};

/// A packet that was heard from the peer.
struct ReceivedPacket {
  const tracking::TransportPacket* t = nullptr;
  Bytes payload{};
  Psn psn{};                ///< relative to the direction of the requests that it belongs to
  std::uint64_t frame = 0;  ///< in what is recorded
};

/// A packet that is to be said.
struct OutgoingPacket {
  enum class Kind : std::uint8_t { request, read_response, atomic_answer, acknowledge };
  Kind kind = Kind::request;
  std::size_t message = 0;  ///< of ours, of a request; else of theirs
  std::size_t packet = 0;   ///< of the message; of a READ's response: which of them
  std::uint32_t psn = 0;    ///< relative
  std::uint32_t skip = 0;   ///< a READ, asked again from this PSN of it on; its response, begun anew there
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
  std::uint64_t captured_frame = 0;  ///< 0: it is made here
  bool again = false;
};

struct Actions {
  std::vector<std::size_t> pokes;       ///< of the plan; to be done first
  std::vector<OutgoingPacket> sayings;  ///< in this order
  std::vector<std::size_t> posts;       ///< messages of theirs that the peer's consumer is to post, in this order
  std::int64_t wake = std::numeric_limits<std::int64_t>::max();
};

/// What the live peer does otherwise than the captured one did.
struct Divergence {
  bool note = false;  ///< something was lost, and recovered; where we made it be lost, it is no deviation
  std::uint64_t captured_frame = 0, live_frame = 0;  ///< 0: none
  std::string captured, live;
};
/// "captured: frame 34: ACK PSN +3 MSN 4; live: frame 12: NAK, PSN sequence error, PSN +3"
std::string to_string(const Divergence& divergence);

class RoceMachine {
 public:
  /// Both must outlive it.
  RoceMachine(const Exchange& exchange, const MemoryPlan& plan, const MachineOptions& options);

  Actions start(std::int64_t now);
  Actions heard(const ReceivedPacket& packet, std::int64_t now);
  Actions woken(std::int64_t now);

  /// Everything was played, and answered.
  [[nodiscard]] bool done() const;
  /// The peer refused as the captured one did: its queue pair is in error, and nothing more will come.
  [[nodiscard]] bool refused() const { return refused_; }
  /// It cannot go on: why, one sentence; empty: it can.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// What is waited for, one sentence.
  [[nodiscard]] std::string waiting_for() const;
  [[nodiscard]] const std::vector<Divergence>& divergences() const { return divergences_; }
  [[nodiscard]] std::uint64_t divergences_left_out() const { return left_out_; }

  struct Counts {
    std::size_t ours_begun = 0, ours_done = 0;      ///< messages of ours that were sent; that the peer has answered
    std::size_t theirs_asked = 0, theirs_done = 0;  ///< of theirs that were posted; that arrived whole
    std::uint64_t again = 0;                        ///< packets that were sent again
    std::uint64_t made = 0;                         ///< answers that the captured side did not give so
    std::uint64_t recoveries = 0, rnr_waits = 0, cnps = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // As requester.
  void answered(const ReceivedPacket& packet, std::int64_t now);
  void take_payload(const ReceivedPacket& packet, std::size_t index);
  void compare_answer(const ReceivedPacket& packet, const machines::RcProgress& progress);
  void go_back(std::uint32_t psn, std::int64_t now);
  void settle(std::uint32_t through, std::int64_t now);
  void say_requests(Actions& actions, std::int64_t now);
  [[nodiscard]] bool may_begin(const Message& message) const;
  [[nodiscard]] std::size_t message_at(const std::vector<Message>& messages, std::uint32_t psn) const;
  [[nodiscard]] const CapturedAnswer* captured_answer(std::int64_t psn) const;
  /// The last PSN before `psn` whose answer can be insisted on, and one more.
  [[nodiscard]] std::uint32_t insisted(std::uint32_t psn) const;

  // As responder.
  void asked(const ReceivedPacket& packet, Actions& actions, std::int64_t now);
  /// UC: what the peer sent from expected_ on, up to `psn`, is lost.
  void pass_over(const ReceivedPacket& packet);
  void compare_request(const ReceivedPacket& packet, const Message& message, std::size_t index);
  void answer_again(const ReceivedPacket& packet, Actions& actions);
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

  machines::RequesterWindow window_;  ///< of relative PSNs
  std::vector<machines::RcOutstanding> outstanding_;
  std::size_t first_outstanding_ = 0;  ///< message that outstanding_ begins with
  std::uint32_t cursor_ = 0;           ///< PSN that is to be sent next
  std::int64_t resume_ = 0;            ///< of an RNR NAK
  std::int64_t asked_at_ = 0;          ///< when the oldest request without an answer was sent, or something came
  std::int64_t progress_at_ = 0;
  machines::RcRetries retries_;
  std::map<std::int64_t, const CapturedAnswer*> captured_;  ///< what was answered to ours, by PSN; no sequence errors
  std::vector<std::uint32_t> insist_;  ///< PSNs behind which an answer must come, ascending, each plus one
  std::optional<std::uint32_t> gone_back_to_;
  bool refused_ = false;  ///< as in the capture: the peer answers nothing any more

  std::uint32_t expected_ = 0;      ///< of their requests
  std::uint32_t acknowledged_ = 0;  ///< of them; those before it
  bool nak_said_ = false;
  std::multimap<std::int64_t, CapturedAnswer> our_answers_;  ///< by PSN of their requests
  std::map<std::int64_t, std::size_t> not_ready_;            ///< RNR NAKs of ours that are still to be said, by PSN

  std::vector<Divergence> divergences_;
  std::uint64_t left_out_ = 0;
  std::string failure_;
  Counts counts_;
};

}  // namespace rdmawire::replay::reactive
