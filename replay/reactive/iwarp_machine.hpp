#pragma once
/// Plays one side of a stream of iWARP against a live peer, in Full Operation Phase. Pure: what was heard and the time
/// come in; what is to be said, and what the peer's consumer is to be asked for, comes out. TCP sees to it that nothing
/// is lost.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "replay/reactive/ddp_segment.hpp"
#include "replay/reactive/exchange.hpp"
#include "replay/reactive/machine.hpp"
#include "replay/reactive/memory.hpp"

namespace rdmawire::replay::reactive {

/// A message that is to be said: of ours, or the answer to a READ of theirs.
struct OutgoingMessage {
  bool answer = false;
  std::size_t message = 0;      ///< of ours; else of theirs
  std::uint32_t sink_stag = 0;  ///< of an answer: where the live peer wants it
  std::uint64_t sink_to = 0;
};

struct StreamActions {
  std::vector<std::size_t> pokes;
  std::vector<OutgoingMessage> sayings;  ///< in this order
  std::vector<std::size_t> posts;
  std::int64_t wake = std::numeric_limits<std::int64_t>::max();
};

class IwarpMachine {
 public:
  /// Both must outlive it.
  IwarpMachine(const Exchange& exchange, const MemoryPlan& plan, const MachineOptions& options);

  StreamActions start(std::int64_t now);
  /// A segment came; `frame` is its number in what is recorded, 0: it is not known.
  StreamActions heard(const DdpSegment& segment, std::uint64_t frame, std::int64_t now);
  /// The peer's consumer has received so many messages of ours.
  StreamActions received(std::size_t messages, std::int64_t now);
  /// The stream is over.
  StreamActions ended(const std::string& how, std::int64_t now);
  StreamActions woken(std::int64_t now);

  [[nodiscard]] bool done() const;
  /// What the peer's consumer has received is asked for: it decides whether something can go on.
  [[nodiscard]] bool wants_received() const { return !done() && received_ < sends_before(sent_); }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] std::string waiting_for() const;
  [[nodiscard]] const std::vector<Divergence>& divergences() const { return divergences_; }
  [[nodiscard]] const RoceMachine::Counts& counts() const { return counts_; }

 private:
  StreamActions finish(StreamActions actions, std::int64_t now);
  void answer(const DdpSegment& segment, std::uint64_t frame);
  void request(const DdpSegment& segment, std::uint64_t frame, StreamActions& actions);
  void compare(const Message& message, const DdpSegment& segment, std::uint64_t frame);
  [[nodiscard]] std::size_t sends_before(std::size_t messages) const;
  [[nodiscard]] std::size_t reads_before(std::size_t messages) const;
  [[nodiscard]] bool arrived(std::size_t messages) const;
  void diverge(const Message& message, std::string captured, std::uint64_t frame, std::string live);

  const Exchange& exchange_;
  const MemoryPlan& plan_;
  MachineOptions options_;
  std::vector<std::size_t> sends_, reads_;  ///< of ours before a message, by its index; one more than there are
  std::vector<std::size_t> read_indices_;   ///< READs of ours
  std::size_t sent_ = 0, received_ = 0, answered_ = 0;
  ByteVector part_;  ///< of the message of theirs, or of the answer, that is coming
  ByteVector answer_part_;
  bool over_ = false;
  std::int64_t progress_at_ = 0;
  std::vector<Divergence> divergences_;
  std::string failure_;
  RoceMachine::Counts counts_;
};

}  // namespace rdmawire::replay::reactive
