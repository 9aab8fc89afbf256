#pragma once
/// Statements about missing packets that wait for evidence. Not part of the library's interface.
///
/// A gap that a retransmission fills shows a loss before the capture point, unless the first transmission is captured
/// later: then it was late. A NAK for a captured packet shows that the packet was lost or late after the capture point.
/// The capture does not contain its arrival, so the other packets of the connection decide: networks that reorder a
/// packet reorder many, and some of these are proven by a response that was captured before the retransmission.

#include <array>
#include <cstdint>
#include <vector>

#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

struct Reporter;

class UndecidedLosses {
 public:
  /// Adds a loss before the capture point. `numbered`: the IP identifications show the order of the sender.
  void add_before(const Event& loss, bool response, bool numbered);
  /// Adds a loss after the capture point, or a packet that was late there.
  /// `missing_again`: it is missing after its first retransmission, too.
  /// `behind`: if a packet was late, it was the one with the PSN before, and this one was dropped.
  void add_after(const Event& loss, bool response, bool missing_again = false, bool behind = false);
  /// Adds acknowledged requests, or received responses, that are missing in the capture.
  void add_in_capture(const Event& loss, bool response = false) { add({loss, {}, false, response}); }
  /// Adds the recovery from the loss, which is reported with it. Returns false if no waiting loss explains it.
  bool attach(const Event& recovery);
  /// The first transmission of a packet was captured. Returns true if it had been taken for lost.
  bool arrived_late(std::uint32_t psn, bool response);
  /// True if the request with this PSN is taken for lost before the capture point.
  [[nodiscard]] bool is_missing(std::uint32_t psn) const;
  /// A request was retransmitted. A READ, atomic or FLUSH requests the responses from `psn` to before `end`.
  void note_repeat(std::uint32_t psn, std::uint32_t end);
  /// A response was captured. If more responses with its PSN were captured than retransmissions requested, one of
  /// these responses is the late one.
  void note_response(std::uint32_t psn);
  /// A further recovery starts. The responder acknowledges its packets, so later acknowledgements can belong to the
  /// retransmission.
  void note_recovery();
  /// The responder acknowledged a request again that it received only once, as far as known, at `time`. The first
  /// transmission of a packet that was lost or late after the capture point has arrived. Returns false if none waits.
  bool note_second_arrival(std::uint32_t psn, std::int64_t time);
  /// A packet is proven to be late after the capture point.
  void note_late_after(bool response) { ++late_after_[response ? 1 : 0]; }
  /// A packet was captured late.
  void note_late(bool response) { ++late_[response ? 1 : 0]; }
  /// True if several packets of this direction were captured late.
  [[nodiscard]] bool reorders(bool response) const { return late_[response ? 1 : 0] >= several; }
  /// True if a packet of this direction was captured late.
  [[nodiscard]] bool some_late(bool response) const { return late_[response ? 1 : 0] != 0; }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  /// True if the oldest one has waited long enough, or too many wait.
  [[nodiscard]] bool due(std::int64_t now) const {
    return !waiting_.empty() && (waiting_.size() >= most || now - waiting_.front().loss.time > patience_ns);
  }
  /// Reports all.
  void settle(const Reporter& to);

 private:
  /// Time for which a loss waits for evidence, nanoseconds, and number of waiting losses.
  static constexpr std::int64_t patience_ns = 1'000'000'000;
  static constexpr std::size_t most = 64;
  static constexpr std::uint32_t several = 4;
  /// Maximum time from a NAK to the acknowledgement of the late packet, nanoseconds.
  static constexpr std::int64_t second_arrival_ns = 500'000;

  struct Waiting {
    Event loss;
    std::vector<Event> recoveries;
    bool after = false, response = false, numbered = false;
    bool refuted = false;   // captured late
    bool arrived = false;   // arrived late, after the capture point
    bool repeated = false;  // another recovery followed
    bool missing_again = false, behind = false;
    std::uint32_t requested = 0, responses = 0;  // responses with the first PSN, after the loss
  };
  void add(Waiting waiting) { waiting_.push_back(std::move(waiting)); }
  void settle(Waiting& waiting, const Reporter& to);

  std::vector<Waiting> waiting_;
  std::array<std::uint32_t, 2> late_{};        // at the capture point: requests, responses
  std::array<std::uint32_t, 2> open_{};        // lost before the capture point, or late beyond the retransmission
  std::array<std::uint32_t, 2> late_after_{};  // requests, responses
  std::array<std::uint32_t, 2> open_after_{};  // lost or late
};

}  // namespace rdmawire::tracking
