#include "replay/reactive/iwarp_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "replay/reactive/wording.hpp"

namespace rdmawire::replay::reactive {
namespace {

using tracking::MessageKind;

std::string words_of_captured(const CapturedPacket& packet) {
  const auto segment = DdpSegment::of(packet.bytes);
  return segment ? words_of(*segment) : "a segment";
}

}  // namespace

IwarpMachine::IwarpMachine(const Exchange& exchange, const MemoryPlan& plan, const MachineOptions& options)
    : exchange_(exchange), plan_(plan), options_(options) {
  std::size_t sends = 0, reads = 0;
  for (std::size_t i = 0; i < exchange_.ours.messages.size(); ++i) {
    const Message& message = exchange_.ours.messages[i];
    sends_.push_back(sends);
    reads_.push_back(reads);
    sends += message.takes_receive();
    reads += message.is_read();
    if (message.is_read()) read_indices_.push_back(i);
  }
  sends_.push_back(sends);
  reads_.push_back(reads);
}

std::size_t IwarpMachine::sends_before(std::size_t messages) const { return sends_[messages]; }
std::size_t IwarpMachine::reads_before(std::size_t messages) const { return reads_[messages]; }

// A WRITE creates no completion at the peer. A later message on the stream implies its arrival.
bool IwarpMachine::arrived(std::size_t messages) const {
  return sent_ >= messages && received_ >= sends_before(messages) && answered_ >= reads_before(messages);
}

bool IwarpMachine::done() const {
  const std::size_t all = exchange_.ours.messages.size();
  return sent_ == all && answered_ == reads_before(all) && received_ >= sends_before(all) &&
         counts_.theirs_done == exchange_.theirs.messages.size();
}

std::string IwarpMachine::waiting_for() const {
  std::string text;
  const auto also = [&](const std::string& what) { text += (text.empty() ? "" : "; and ") + what; };
  if (answered_ < reads_before(sent_)) {
    const Message& read = exchange_.ours.messages[read_indices_[answered_]];
    also(fmt::format("the response to the local {}; captured: frame {}", words_of(read), read.answer_frame));
  }
  if (counts_.theirs_done < counts_.theirs_asked) {
    const Message& message = exchange_.theirs.messages[counts_.theirs_done];
    also(fmt::format("the peer's message {} ({}); captured: frames {} to {}", counts_.theirs_done + 1,
                     words_of(message), message.first_frame, message.last_frame));
  }
  if (received_ < sends_before(sent_))
    also(fmt::format("the completion of message {} received by the peer's application", received_ + 1));
  return text.empty() ? "nothing" : text;
}

void IwarpMachine::diverge(const Message& message, std::string captured, std::uint64_t frame, std::string live) {
  constexpr std::size_t most_divergences = 1000;
  if (divergences_.size() < most_divergences)
    divergences_.push_back({false, message.first_frame, frame, std::move(captured), std::move(live)});
}

StreamActions IwarpMachine::start(std::int64_t now) {
  progress_at_ = now;
  return finish({}, now);
}

StreamActions IwarpMachine::received(std::size_t messages, std::int64_t now) {
  if (messages > received_) progress_at_ = now;
  received_ = std::max(received_, messages);
  return finish({}, now);
}

StreamActions IwarpMachine::ended(const std::string& how, std::int64_t now) {
  over_ = true;
  const bool terminated = !exchange_.ours.messages.empty() && sent_ == exchange_.ours.messages.size() &&
                          exchange_.ours.messages.back().kind == MessageKind::terminate;
  if (!done() && !terminated && failure_.empty())
    failure_ = fmt::format("the peer closed the stream ({}) while waiting for {}", how, waiting_for());
  return finish({}, now);
}

StreamActions IwarpMachine::on_timer(std::int64_t now) {
  if (failure_.empty() && !done() && now - progress_at_ >= options_.step_timeout)
    failure_ =
        fmt::format("no progress for {} ms while waiting for {}", options_.step_timeout / 1'000'000, waiting_for());
  return finish({}, now);
}

StreamActions IwarpMachine::on_received(const DdpSegment& segment, std::uint64_t frame, std::int64_t now) {
  StreamActions actions;
  progress_at_ = now;
  if (segment.operation == RdmapOperation::read_response)
    answer(segment, frame);
  else
    request(segment, frame, actions);
  return finish(std::move(actions), now);
}

void IwarpMachine::answer(const DdpSegment& segment, std::uint64_t frame) {
  if (answered_ >= reads_before(sent_)) {
    divergences_.push_back({false, 0, frame, "nothing", words_of(segment) + ", without a request"});
    return;
  }
  const Message& read = exchange_.ours.messages[read_indices_[answered_]];
  // The local sink keeps its captured STag and offset.
  if (const auto asked = DdpSegment::of(read.packets.front().bytes);
      asked && (segment.stag != asked->sink_stag || segment.to != asked->sink_to + answer_part_.size()))
    divergences_.push_back({false, read.answer_frame, frame,
                            fmt::format("the response goes to STag {:#x}, TO {:#x}", asked->sink_stag,
                                        asked->sink_to + answer_part_.size()),
                            words_of(segment)});
  answer_part_.insert(answer_part_.end(), segment.payload.begin(), segment.payload.end());
  if (!segment.last) return;
  if (read.has_answer && answer_part_ != read.payload) {
    const auto differs =
        std::mismatch(answer_part_.begin(), answer_part_.end(), read.payload.begin(), read.payload.end());
    divergences_.push_back({false, read.answer_frame, frame, fmt::format("{} bytes read", read.payload.size()),
                            fmt::format("{} bytes, different from byte {} on", answer_part_.size(),
                                        differs.first - answer_part_.begin())});
  }
  answer_part_.clear();
  ++answered_;
}

void IwarpMachine::compare(const Message& message, const DdpSegment& segment, std::uint64_t frame) {
  const auto captured = DdpSegment::of(message.packets.back().bytes);
  if (!captured) return;
  const bool same_place = message.is_read()
                              ? segment.source_stag == captured->source_stag &&
                                    segment.source_to == captured->source_to && segment.size == captured->size
                              : !message.has_remote || segment.stag == captured->stag;
  const bool same_end =
      message.kind != MessageKind::terminate ||
      (segment.layer == captured->layer && segment.type == captured->type && segment.code == captured->code);
  if (segment.operation != captured->operation || !same_place || !same_end)
    return diverge(message, words_of_captured(message.packets.back()), frame, words_of(segment));
  if (message.kind == MessageKind::terminate || message.is_read() || part_ == message.payload) return;
  const auto differs = std::mismatch(part_.begin(), part_.end(), message.payload.begin(), message.payload.end());
  diverge(message, words_of(message), frame,
          fmt::format("{} bytes, different from byte {} on", part_.size(), differs.first - part_.begin()));
}

void IwarpMachine::request(const DdpSegment& segment, std::uint64_t frame, StreamActions& actions) {
  if (counts_.theirs_done >= exchange_.theirs.messages.size()) {
    divergences_.push_back({false, 0, frame, "nothing", words_of(segment)});
    if (segment.operation == RdmapOperation::terminate && failure_.empty())
      failure_ = "the peer terminated the stream: " + words_of(segment);
    return;
  }
  const Message& message = exchange_.theirs.messages[counts_.theirs_done];
  if (segment.operation == RdmapOperation::terminate && message.kind != MessageKind::terminate) {
    diverge(message, words_of(message), frame, words_of(segment));
    if (failure_.empty()) failure_ = "the peer terminated the stream: " + words_of(segment);
    return;
  }
  const bool follows =
      segment.tagged ? segment.to == message.remote_address + part_.size() : segment.offset == part_.size();
  if (!follows && segment.operation != RdmapOperation::terminate)
    diverge(message, fmt::format("{}, from byte {} on", words_of(message), part_.size()), frame, words_of(segment));
  part_.insert(part_.end(), segment.payload.begin(), segment.payload.end());
  if (!segment.last) return;
  compare(message, segment, frame);
  part_.clear();
  if (message.is_read()) {
    if (segment.operation != RdmapOperation::read_request) {
      if (failure_.empty()) failure_ = fmt::format("the peer sent {} instead of a Read Request", words_of(segment));
      return;
    }
    actions.outgoing.push_back({true, counts_.theirs_done, segment.sink_stag, segment.sink_to});
  }
  ++counts_.theirs_done;
}

StreamActions IwarpMachine::finish(StreamActions actions, std::int64_t now) {
  const auto &ours = exchange_.ours.messages, &theirs = exchange_.theirs.messages;
  while (failure_.empty() && !over_) {
    const std::size_t before = sent_ + counts_.theirs_asked;
    if (sent_ < ours.size()) {
      const Message& next = ours[sent_];
      const bool reads_full = next.is_read() && reads_before(sent_) - answered_ >= options_.reads_at_once;
      const auto poke = plan_.poke_of(sent_);
      const bool held = poke && !arrived(sent_);
      if (counts_.theirs_done >= next.after_messages && answered_ >= next.after_reads && !reads_full && !held) {
        if (poke) actions.pokes.push_back(*poke);
        actions.outgoing.push_back({.message = sent_++});
        progress_at_ = now;
        // A poke must not overtake preceding messages.
        if (poke) break;
      }
    }
    if (counts_.theirs_asked < theirs.size() && counts_.theirs_asked - counts_.theirs_done < options_.posts_at_once) {
      const Message& next = theirs[counts_.theirs_asked];
      // The peer generates a Terminate by itself, so it is not posted.
      if (arrived(next.after_messages)) {
        if (next.kind != MessageKind::terminate) actions.posts.push_back(counts_.theirs_asked);
        ++counts_.theirs_asked;
        progress_at_ = now;
      }
    }
    if (sent_ + counts_.theirs_asked == before) break;
  }
  counts_.ours_begun = sent_;
  counts_.ours_done = 0;
  while (counts_.ours_done < sent_ && arrived(counts_.ours_done + 1)) ++counts_.ours_done;
  if (!done() && failure_.empty()) actions.wake = progress_at_ + options_.step_timeout;
  return actions;
}

}  // namespace rdmawire::replay::reactive
