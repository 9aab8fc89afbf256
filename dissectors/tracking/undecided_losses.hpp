#pragma once
/// Reports about missing packets that wait for more evidence. Internal: not part of the library's interface.
///
/// If a retransmission fills a gap, the packet was lost before the capture point, unless its first transmission is
/// captured later: then it was late. If a NAK requests a packet that was captured, the packet was lost or late after
/// the capture point. The capture cannot show which of both, so the other packets of the connection decide. A network
/// that reorders a packet usually reorders many, and some of these are proven: their response was captured before the
/// retransmission.

#include <array>
#include <cstdint>
#include <vector>

#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

struct Reporter;

class UndecidedLosses {
 public:
  /// Adds a loss before the capture point. `numbered`: the IP identifications show the order in which the sender sent
  /// its packets.
  void add_before(const Event& loss, bool response, bool numbered);
  /// Adds a loss after the capture point, or a packet that was late there.
  /// `missing_again`: the packet is still missing after its first retransmission.
  /// `behind`: if a packet was late, it was the one with the PSN before, and this one was dropped.
  void add_after(const Event& loss, bool response, bool missing_again = false, bool behind = false);
  /// Adds requests that were acknowledged, or responses that were received, although they are missing in the capture.
  void add_in_capture(const Event& loss, bool response = false) { add({loss, {}, false, response}); }
  /// Adds the recovery from a loss, which is reported together with the loss. Returns false if no waiting loss explains
  /// the recovery.
  bool attach(const Event& recovery);
  /// The first transmission of a packet was captured. Returns true if the packet had been considered lost.
  bool arrived_late(std::uint32_t psn, bool response);
  /// True if the request with this PSN is considered lost before the capture point.
  [[nodiscard]] bool is_missing(std::uint32_t psn) const;
  /// A request was retransmitted. A READ, atomic or FLUSH requests the responses from `psn` to before `end`.
  void note_repeat(std::uint32_t psn, std::uint32_t end);
  /// A response was captured. If more responses with its PSN were captured than retransmissions requested, one of them
  /// is the late first response.
  void note_response(std::uint32_t psn);
  /// Another recovery starts. The responder acknowledges its packets, so later acknowledgements can belong to these
  /// retransmissions.
  void note_recovery();
  /// At `time`, the responder acknowledged a request again, although it received the request only once, as far as
  /// known. The first transmission of a packet that was lost or late after the capture point has therefore arrived.
  /// Returns false if no such packet waits.
  bool note_second_arrival(std::uint32_t psn, std::int64_t time);
  /// A packet was proven to be late after the capture point.
  void note_late_after(bool response) { ++late_after_[response ? 1 : 0]; }
  /// A packet was captured late.
  void note_late(bool response) { ++late_[response ? 1 : 0]; }
  /// True if several packets of this direction were captured late.
  [[nodiscard]] bool reorders(bool response) const { return late_[response ? 1 : 0] >= several; }
  /// True if a packet of this direction was captured late.
  [[nodiscard]] bool some_late(bool response) const { return late_[response ? 1 : 0] != 0; }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// True if the oldest loss has waited long enough, or too many losses wait.
  [[nodiscard]] bool due(std::int64_t now) const {
    return !waiting_.empty() && (waiting_.size() >= most || now - waiting_.front().loss.time > patience_ns);
  }
  /// Reports all waiting losses.
  void settle(const Reporter& to);

 private:
  /// How long a loss waits for evidence, in nanoseconds, and how many losses can wait.
  static constexpr std::int64_t patience_ns = 1'000'000'000;
  static constexpr std::size_t most = 64;
  static constexpr std::uint32_t several = 4;
  /// Maximum time from a NAK to the acknowledgement of the late packet, in nanoseconds.
  static constexpr std::int64_t second_arrival_ns = 500'000;

  struct Waiting {
    Event loss;
    std::vector<Event> recoveries;
    bool after = false, response = false, numbered = false;
    bool refuted = false;   // the packet was captured late
    bool arrived = false;   // the packet arrived late after the capture point
    bool repeated = false;  // another recovery followed
    bool missing_again = false, behind = false;
    std::uint32_t requested = 0, responses = 0;  // requested and captured responses with the first PSN after the loss
  };
  void add(Waiting waiting) { waiting_.push_back(std::move(waiting)); }
  void settle(Waiting& waiting, const Reporter& to);

  std::vector<Waiting> waiting_;
  std::array<std::uint32_t, 2> late_{};  // number of packets that were captured late: requests, responses
  std::array<std::uint32_t, 2>
      open_{};  // number of packets that were lost before the capture point, or arrived after their retransmission
  std::array<std::uint32_t, 2>
      late_after_{};  // number of packets that arrived late after the capture point: requests, responses
  std::array<std::uint32_t, 2> open_after_{};  // number of packets that were lost or late after the capture point
};

}  // namespace rdmawire::tracking
