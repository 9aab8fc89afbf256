#pragma once
/// A conversation with the device over a wire: the tester says, and waits.
///
///     conversation >> qp.send_only(psn(+1)) >> qp.send_only(psn(+2));
///     conversation << nak_sequence_error(psn(+0)) << silence();

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/case_recorder.hpp"
#include "conformance/cases/expectation.hpp"
#include "conformance/cases/queue_pair.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::conformance {

class Conversation : public CaseRecorder {
 public:
  /// `wire` gives only what is for the tester (see replay/host), and must outlive this.
  Conversation(replay::Wire& wire, const Timeouts& patience) : CaseRecorder(patience), wire_(wire) {}

  /// Frames to this queue pair are heard from now on. It takes the place of one with its number.
  void listen_to(const TesterQueuePair& queue_pair) {
    std::erase_if(queue_pairs_,
                  [&](const TesterQueuePair& other) { return other.tester_qpn == queue_pair.tester_qpn; });
    queue_pairs_.push_back(queue_pair);
  }
  /// And every other frame of RoCE that comes, whatever queue pair it is for; its PSNs count from 0.
  void listen_to_all() { to_all_ = true; }

  Conversation& operator>>(const Stimulus& stimulus);
  /// Waits for the next frame to one of the queue pairs; another one than expected ends the case.
  Conversation& operator<<(const Expectation& expectation) {
    static_cast<void>(wait(expectation));
    return *this;
  }
  Conversation& operator<<(const Silence& silence);

  /// The same as <<, and what came.
  Seen wait(const Expectation& expectation);
  /// What comes next, whatever it is; nothing until the deadline (0: the usual patience).
  std::optional<Seen> next(std::int64_t for_ns = 0);
  /// Frames that came, until there is silence; at most so many.
  std::vector<Seen> all_until_silence(std::size_t most = 4096);
  void pass(std::int64_t nanoseconds) override;
  /// What still comes at the end of a case, until there is silence for so long: it belongs to what happened.
  void drain(std::int64_t silence);

  [[nodiscard]] std::int64_t now() const override { return wire_.now(); }
  [[nodiscard]] replay::Wire& wire() { return wire_; }

 private:
  std::optional<Seen> read(const replay::Received& received) const;

  replay::Wire& wire_;
  std::vector<TesterQueuePair> queue_pairs_;
  bool to_all_ = false;
  std::deque<Seen> kept_;
};

}  // namespace rdmawire::conformance
