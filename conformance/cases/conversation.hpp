#pragma once
/// An exchange of frames with the device over a wire: the tester sends, and waits for frames.
///
///     conversation >> qp.send_only(psn(+1)) >> qp.send_only(psn(+2));
///     conversation << nak_sequence_error(psn(+0)) << silence();

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/cases/case_recorder.hpp"
#include "conformance/cases/expectation.hpp"
#include "conformance/cases/frame_check.hpp"
#include "conformance/cases/queue_pair.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::conformance {

/// Every received frame is checked, also those that the case does not wait for: see FrameCheck and
/// CaseRecorder::wire_violations().
class Conversation : public CaseRecorder {
 public:
  /// `wire` returns only frames for the tester (see replay/host). `check`: applied to all received frames. `earlier`:
  /// QP numbers of the tester in earlier cases. Those of this case are added. `wire` and `earlier` must outlive this
  /// object.
  Conversation(replay::Wire& wire, const Timeouts& patience, FrameCheck check, std::set<std::uint32_t>& earlier)
      : CaseRecorder(patience), wire_(wire), check_(std::move(check)), earlier_(earlier) {}

  /// Receives frames addressed to this QP. Replaces a QP with the same number.
  void listen_to(const TesterQueuePair& queue_pair) {
    std::erase_if(queue_pairs_,
                  [&](const TesterQueuePair& other) { return other.tester_qpn == queue_pair.tester_qpn; });
    queue_pairs_.push_back(queue_pair);
    earlier_.insert(queue_pair.tester_qpn);
  }
  /// Also receives all other RoCE frames, for any QP. Their PSNs count from 0.
  void listen_to_all() { to_all_ = true; }

  Conversation& operator>>(const Stimulus& stimulus);
  /// Waits for the next frame to one of the QPs. A frame other than expected ends the case.
  Conversation& operator<<(const Expectation& expectation) {
    static_cast<void>(wait(expectation));
    return *this;
  }
  /// An ICMP error that quotes a packet of the tester is no silence.
  Conversation& operator<<(const Silence& silence);

  /// Like <<, and returns the frame.
  Seen wait(const Expectation& expectation);
  /// Returns the next frame, or nullopt at the deadline (0: the default timeout).
  std::optional<Seen> next(std::int64_t for_ns = 0);
  /// Returns frames until there is silence, at most `most`.
  std::vector<Seen> all_until_silence(std::size_t most = 4096);
  void pass(std::int64_t nanoseconds) override;
  /// Checks a frame that a case received from the wire itself.
  void inspect(const HeaderStack& stack, std::int64_t time);
  /// Records frames at the end of a case until there is silence for this time.
  void drain(std::int64_t silence);

  [[nodiscard]] std::int64_t now() const override { return wire_.now(); }
  [[nodiscard]] replay::Wire& wire() { return wire_; }

 private:
  std::optional<Seen> read(const replay::Received& received);
  [[nodiscard]] std::string nothing() const;

  replay::Wire& wire_;
  FrameCheck check_;
  std::set<std::uint32_t>& earlier_;
  std::vector<TesterQueuePair> queue_pairs_;
  bool to_all_ = false;
  std::deque<Seen> kept_;
  std::string icmp_error_;  // received since the last frame was sent
};

}  // namespace rdmawire::conformance
