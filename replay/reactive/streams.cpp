// Reads iWARP exchanges: reassembles messages from both directions of a TCP connection.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dissectors/protocol/mpa.hpp"
#include "replay/reactive/ddp_segment.hpp"
#include "replay/reactive/exchange_detail.hpp"

namespace rdmawire::replay::reactive::detail {
namespace {

using tracking::MessageKind;
using tracking::Side;

bool is_end(const tracking::ConnectionEnd& end, const tracking::Endpoint& endpoint) {
  return end.address.high == endpoint.first && end.address.low == endpoint.last && end.qp == endpoint.port;
}

class StreamBuilder {
 public:
  StreamBuilder(Exchange& exchange, std::size_t max_bytes) : exchange_(exchange), most_bytes_(max_bytes) {
    const std::size_t us = static_cast<std::size_t>(exchange.side);
    ends_ = {exchange.connection.ends[us], exchange.connection.ends[1 - us]};
    exchange_.mpa.emplace();
  }

  Result<void> add(const tracking::Packet& packet) {
    if (packet.number < exchange_.connection.first_frame || packet.number > exchange_.connection.last_frame) return {};
    for (const tracking::Pdu& pdu : packet.pdus) {
      const tracking::Endpoint& from = pdu.from_initiator ? pdu.connection->initiator : pdu.connection->responder;
      const tracking::Endpoint& to = pdu.from_initiator ? pdu.connection->responder : pdu.connection->initiator;
      for (std::size_t i = 0; i < ends_.size(); ++i)
        if (is_end(ends_[i], from) && is_end(ends_[1 - i], to))
          if (auto added = add(pdu, i, packet.number); !added) return added;
    }
    return {};
  }

  Result<void> finish() {
    if (exchange_.mpa->request.empty() || exchange_.mpa->reply.empty())
      return wrong("the capture does not contain both the MPA request and the MPA reply of the connection");
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (open_[i])
        exchange_.notes.push_back(fmt::format("the capture ends within a message of {} (frame {}), which is skipped",
                                              i == 0 ? "the local side" : "the peer", open_[i]->first_frame));
      if (answering_[i]) requests(1 - i).messages[*answering_[i]].answers.clear();
    }
    // A READ without a captured response cannot be replayed.
    auto& theirs = exchange_.theirs.messages;
    const auto unanswered =
        std::find_if(theirs.begin(), theirs.end(), [](const Message& one) { return one.is_read() && !one.has_answer; });
    if (unanswered != theirs.end()) {
      exchange_.notes.push_back(
          fmt::format("the local response to frame {} is incomplete in the capture; the peer's "
                      "messages from there on are skipped",
                      unanswered->first_frame));
      theirs.erase(unanswered, theirs.end());
    }
    if (exchange_.ours.messages.empty() && theirs.empty())
      return wrong("the capture contains no complete message of the connection");
    order(exchange_.ours, exchange_.theirs);
    order(exchange_.theirs, exchange_.ours);
    return {};
  }

 private:
  Requests& requests(std::size_t end) { return end == 0 ? exchange_.ours : exchange_.theirs; }

  Result<void> add(const tracking::Pdu& pdu, std::size_t from, std::uint64_t frame) {
    const auto layers = pdu.stack.layers();
    if (layers.empty()) return {};
    const Bytes bytes = pdu.stack.bytes;
    if (layers[0].header == &info<MpaFrame>) {
      const bool request = MpaFrame::is_request(bytes.data() + layers[0].offset);
      const Bytes whole = pdu.stack.bytes_of(layers[0]);
      (request ? exchange_.mpa->request : exchange_.mpa->reply).assign(whole.begin(), whole.end());
      if (request) exchange_.mpa->ours_initiates = from == 0;
      return {};
    }
    if (layers[0].header != &info<Fpdu>) return {};
    const std::uint32_t length = View<Fpdu>(bytes.data() + layers[0].offset).get<"ulpdu_length">();
    const std::size_t begin = layers[0].offset + Fpdu::size;
    if (bytes.size() < begin + length)
      return wrong(
          fmt::format("frame {}: its FPDU was truncated by the capture; replay requires complete packets", frame));
    const Bytes ulpdu = bytes.subspan(begin, length);
    bytes_ += length;
    if (bytes_ > most_bytes_)
      return wrong(
          fmt::format("the messages of the connection exceed {} bytes; replay a part of the capture", most_bytes_));
    const auto segment = DdpSegment::of(ulpdu);
    if (!segment) return wrong(fmt::format("frame {}: malformed DDP segment", frame));
    CapturedPacket captured{.bytes = {ulpdu.begin(), ulpdu.end()}, .t = {}};
    captured.t.frame = frame;
    if (segment->operation == RdmapOperation::read_response) return answer(from, *segment, std::move(captured));
    return request(from, *segment, std::move(captured));
  }

  Result<void> request(std::size_t from, const DdpSegment& segment, CapturedPacket captured) {
    const auto kind = kind_of(segment);
    const std::uint64_t frame = captured.t.frame;
    if (!kind || *kind == MessageKind::other)
      return wrong(fmt::format("frame {}: {} cannot be replayed against a live peer", frame, words_of(segment)));
    std::optional<Message>& open = open_[from];
    if (open && open->kind != *kind)
      return wrong(fmt::format("frame {}: {} within another message", frame, words_of(segment)));
    if (!open) {
      open.emplace();
      open->kind = *kind;
      open->first_frame = frame;
      open->first = static_cast<std::uint32_t>(requests(from).messages.size());
      if (*kind == MessageKind::write || *kind == MessageKind::read) {
        open->has_remote = true;
        open->key = *kind == MessageKind::write ? segment.stag : segment.source_stag;
        open->remote_address = *kind == MessageKind::write ? segment.to : segment.source_to;
      }
      open->has_invalidate = rdmap_opcode(segment.operation).invalidate;
      if (open->has_invalidate) open->invalidated_key = segment.stag;
      open->solicited = rdmap_opcode(segment.operation).solicited_event;
    }
    if (*kind != MessageKind::terminate)
      open->payload.insert(open->payload.end(), segment.payload.begin(), segment.payload.end());
    open->last_frame = frame;
    open->packets.push_back(std::move(captured));
    if (!segment.last) return {};
    open->length = *kind == MessageKind::read ? segment.size : static_cast<std::uint32_t>(open->payload.size());
    requests(from).messages.push_back(std::move(*open));
    open.reset();
    return {};
  }

  Result<void> answer(std::size_t from, const DdpSegment& segment, CapturedPacket captured) {
    auto& messages = requests(1 - from).messages;
    if (!answering_[from]) {
      std::size_t& next = unanswered_[from];
      while (next < messages.size() && (!messages[next].is_read() || messages[next].has_answer)) ++next;
      if (next == messages.size())
        return wrong(fmt::format("frame {}: {} without a request", captured.t.frame, words_of(segment)));
      answering_[from] = next;
    }
    Message& read = messages[*answering_[from]];
    read.payload.insert(read.payload.end(), segment.payload.begin(), segment.payload.end());
    read.answer_frame = captured.t.frame;
    read.answers.push_back(std::move(captured));
    if (!segment.last) return {};
    read.has_answer = true;
    answering_[from].reset();
    if (read.payload.size() != read.length)
      return wrong(fmt::format("the Read Request of frame {} requests {} bytes, but its response contains {}",
                               read.first_frame, read.length, read.payload.size()));
    return {};
  }

  static void order(Requests& requests, const Requests& other) {
    std::size_t messages = 0, reads = 0;
    // READs are answered in request order.
    auto next = requests.messages.begin();
    for (Message& message : requests.messages) {
      while (messages < other.messages.size() && other.messages[messages].last_frame < message.first_frame) ++messages;
      message.after_messages = messages;
      for (; next != requests.messages.end(); ++next) {
        if (!next->is_read()) continue;
        if (!next->has_answer || next->answer_frame >= message.first_frame) break;
        ++reads;
      }
      message.after_reads = reads;
    }
  }

  Exchange& exchange_;
  std::size_t most_bytes_, bytes_ = 0;
  std::array<tracking::ConnectionEnd, 2> ends_;
  std::array<std::optional<Message>, 2> open_;           ///< incomplete message of each sender
  std::array<std::size_t, 2> unanswered_{};              ///< the peer's messages before this index need no response
  std::array<std::optional<std::size_t>, 2> answering_;  ///< the peer's READ that is being answered, by sender
};

}  // namespace

Result<void> read_streams(const std::string& file, std::size_t max_bytes, Exchange& exchange) {
  StreamBuilder builder(exchange, max_bytes);
  if (auto read = dissect_file(file, [&](const tracking::Packet& packet) { return builder.add(packet); }); !read)
    return read;
  return builder.finish();
}

}  // namespace rdmawire::replay::reactive::detail
