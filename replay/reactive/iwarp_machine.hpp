#pragma once
/// State machine that emulates one side of a captured iWARP stream against a live peer, in Full Operation Phase.
///
/// Free of I/O: the caller passes received segments and the current time. It gets back the messages to send and the
/// work requests that the peer's application must post. TCP handles loss.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "replay/reactive/ddp_segment.hpp"
#include "replay/reactive/exchange.hpp"
#include "replay/reactive/machine.hpp"
#include "replay/reactive/memory.hpp"

namespace rdmawire::replay::reactive {

/// A message to send: a local message, or the response to a READ of the peer.
struct OutgoingMessage {
  bool answer = false;
  std::size_t message = 0;      ///< index into the local messages. For a response, into the peer's
  std::uint32_t sink_stag = 0;  ///< response only: sink of the live peer's READ
  std::uint64_t sink_to = 0;
};

struct StreamActions {
  std::vector<std::size_t> pokes;
  std::vector<OutgoingMessage> outgoing;  ///< in transmission order
  std::vector<std::size_t> posts;
  std::int64_t wake = std::numeric_limits<std::int64_t>::max();
};

class IwarpMachine {
 public:
  /// `exchange` and `plan` must outlive the object.
  IwarpMachine(const Exchange& exchange, const MemoryPlan& plan, const MachineOptions& options);

  StreamActions start(std::int64_t now);
  /// Handles a received segment. `frame` is its number in the recording. 0: unknown.
  StreamActions on_received(const DdpSegment& segment, std::uint64_t frame, std::int64_t now);
  /// Reports how many local messages the peer's application has received.
  StreamActions received(std::size_t messages, std::int64_t now);
  /// Reports the end of the stream.
  StreamActions ended(const std::string& how, std::int64_t now);
  StreamActions on_timer(std::int64_t now);

  [[nodiscard]] bool done() const;
  /// True if progress depends on the number of messages that the peer's application has received.
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
  std::vector<std::size_t> sends_,
      reads_;  ///< SENDs and READs before each local message. One entry more than there are messages
  std::vector<std::size_t> read_indices_;  ///< indices of local READs
  std::size_t sent_ = 0, received_ = 0, answered_ = 0;
  ByteVector part_;  ///< received part of the current peer message or READ response
  ByteVector answer_part_;
  bool over_ = false;
  std::int64_t progress_at_ = 0;
  std::vector<Divergence> divergences_;
  std::string failure_;
  RoceMachine::Counts counts_;
};

}  // namespace rdmawire::replay::reactive
