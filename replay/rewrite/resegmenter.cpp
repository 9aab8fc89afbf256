#include "replay/rewrite/resegmenter.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/modular.hpp"
#include "replay/faults/recompute_checksums.hpp"

namespace rdmawire::replay {
namespace {

using Result = Resegmenter::Result;

constexpr std::uint32_t packets_of(std::uint64_t bytes, std::uint32_t mtu) {
  return std::max<std::uint32_t>(1, static_cast<std::uint32_t>((bytes + mtu - 1) / mtu));
}

/// Bytes of a message that are not yet sent in live packets.
struct Cutter {
  std::vector<std::uint8_t> bytes;
  std::uint32_t sent = 0;              ///< number of sent packets
  std::vector<HeaderValue> extension;  ///< headers of the first packet after its BTH

  /// Creates the live packets that are complete, based on the captured packet in `stack`. With `ends`, also the last
  /// one.
  void cut(std::vector<std::vector<std::uint8_t>>& out, const HeaderStack& stack, std::uint32_t mtu, Psn first,
           bool ends) {
    // More bytes than one packet remain, so this packet is not the last one.
    std::size_t at = 0;
    while (bytes.size() - at > mtu) {
      out.push_back(packet(stack, Bytes(bytes).subspan(at, mtu), first, false));
      at += mtu;
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    if (!ends) return;
    out.push_back(packet(stack, bytes, first, true));
    bytes.clear();
  }

 private:
  std::vector<std::uint8_t> packet(const HeaderStack& stack, Bytes payload, Psn first, bool last) {
    const Opcode& captured = opcode(stack.get<Bth>()->get<"opcode">());
    const Position position = sent == 0 ? (last ? Position::only : Position::first)
                              : last    ? Position::last
                                        : Position::middle;
    const Opcode* op = find_opcode(captured.transport, captured.operation, position, last && captured.immediate,
                                   last && captured.invalidate);
    Frame frame;
    for (const Layer& layer : stack.layers()) {
      auto value = HeaderValue::parse(*layer.header, stack.bytes_of(layer));
      if (!value) break;
      frame /= std::move(*value);
      if (layer.header == &info<Bth>) break;
    }
    HeaderValue& bth = frame.layers.back();
    auto set = [&](std::string_view name, std::uint64_t number) { bth.set(*info<Bth>.find(name), number); };
    set("opcode", op->value);
    set("psn", (first + sent).value());
    if (!last) {
      set("se", 0);
      set("ack_request", 0);  // only the last packet requests an acknowledgement
    }
    for (const HeaderInfo* header : op->extension_headers()) {
      const Layer* here = stack.find(*header);
      const auto kept = std::find_if(extension.begin(), extension.end(),
                                     [&](const HeaderValue& value) { return &value.header() == header; });
      if (here)
        frame /= *HeaderValue::parse(*header, stack.bytes_of(*here));
      else if (kept != extension.end())
        frame /= *kept;
      else
        frame /= HeaderValue(*header);
    }
    frame.payload.assign(payload.begin(), payload.end());
    frame.forget_computed();
    ++sent;
    return frame.encode();
  }
};

/// PSNs of one message or request, in the captured and in the live sequence.
struct Piece {
  Psn captured, live;  ///< first PSN
  std::uint32_t captured_count = 1;
  std::uint32_t live_count = 1;  ///< number of live packets so far
  std::uint64_t bytes = 0;
  bool cut = false;  ///< resegmented: the message itself, or the response to a READ request

  [[nodiscard]] bool holds(Psn psn) const {
    return psn - captured >= 0 && psn - captured < static_cast<std::int32_t>(captured_count);
  }
  /// The last live packet whose bytes are all in captured packets up to `psn`. `live` - 1 if there is none.
  [[nodiscard]] Psn covered(Psn psn, std::uint32_t captured_mtu, std::uint32_t live_mtu) const {
    const auto index = static_cast<std::uint64_t>(psn - captured);
    if (!cut || index + 1 >= captured_count) return live + (std::int64_t{live_count} - 1);
    return live + (static_cast<std::int64_t>((index + 1) * captured_mtu / live_mtu) - 1);
  }
  /// The live packet with the first byte of a captured packet.
  [[nodiscard]] Psn beginning(Psn psn, std::uint32_t captured_mtu, std::uint32_t live_mtu) const {
    const auto index = static_cast<std::uint64_t>(psn - captured);
    return live + (cut ? static_cast<std::int64_t>(index * captured_mtu / live_mtu) : 0);
  }
};

/// Requests of one endpoint and their responses.
struct Requests {
  bool begun = false;
  Psn next, next_live;  ///< PSNs of the next request
  std::deque<Piece> pieces;
  Cutter request, answer;
  bool in_message = false;  ///< the last request packet did not end its message
  Psn next_answer;          ///< captured PSN of the next packet of the current response
  bool in_answer = false;

  Piece* find(Psn psn) {
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
      if (piece->holds(psn)) return &*piece;
    return nullptr;
  }
};

std::vector<std::uint8_t> with_psn(const HeaderStack& stack, Psn psn) {
  std::vector<std::uint8_t> bytes(stack.bytes.begin(), stack.bytes.end());
  const Layer& bth = *stack.find(info<Bth>);
  detail::field_of<Bth>("psn").store(bytes.data() + bth.offset, psn.value());
  HeaderStack after = stack;
  after.bytes = bytes;
  mend_icrc(bytes, after);
  mend_transport_checksum(bytes, after);
  return bytes;
}

Result replaced(std::vector<std::vector<std::uint8_t>> frames) {
  return {Result::Outcome::replaced, std::move(frames), {}};
}
Result dropped(std::string_view why) { return {Result::Outcome::dropped, {}, why}; }

}  // namespace

struct Resegmenter::State {
  struct Connection {
    std::uint32_t captured_mtu, live_mtu;
    std::array<Requests, 2> requests;  ///< by requester
  };
  std::map<std::uint32_t, Connection> connections;

  Result request(Connection& c, Requests& d, const HeaderStack& stack, const Opcode& op, Psn psn) {
    if (!d.begun) {
      d.begun = true;
      d.next = d.next_live = psn;
    }
    const std::int32_t ahead = psn - d.next;
    if (ahead < 0) return dropped("captured retransmission; a resegmented message is sent once");
    if (ahead > 0) {
      // Missing packets cannot be sent. Later packets keep the gap in the PSNs.
      d.next_live += ahead;
      d.in_message = false;
    }
    d.next = psn + 1;
    const bool carries = op.operation == Operation::send || op.operation == Operation::rdma_write;
    if (op.begins_message()) {
      if (d.pieces.size() == window) d.pieces.pop_front();
      Piece piece;
      piece.captured = psn;
      piece.live = d.next_live;
      if (op.operation == Operation::rdma_read_request) {
        piece.bytes = stack.get<Reth>()->get<"length">();
        piece.cut = true;
        piece.captured_count = packets_of(piece.bytes, c.captured_mtu);
        piece.live_count = packets_of(piece.bytes, c.live_mtu);
        d.next = psn + std::int64_t{piece.captured_count};
      } else if (carries) {
        piece.cut = true;
        piece.live_count = 0;
        d.request = {};
        keep_extension(d.request, stack, op);
        d.in_message = true;
      }
      d.pieces.push_back(piece);
    } else if (!d.in_message) {
      return dropped("the start of the message is not in the capture, so it cannot be resegmented");
    }
    Piece& piece = d.pieces.back();
    if (!carries) {
      d.next_live = piece.live + std::int64_t{piece.live_count};
      return replaced({with_psn(stack, piece.live)});
    }
    if (!op.begins_message()) ++piece.captured_count;
    const Bytes payload = stack.bytes_of(stack.payload);
    d.request.bytes.insert(d.request.bytes.end(), payload.begin(), payload.end());
    Result result = replaced({});
    d.request.cut(result.frames, stack, c.live_mtu, piece.live, op.ends_message());
    piece.live_count = d.request.sent;
    d.next_live = piece.live + std::int64_t{piece.live_count};
    if (op.ends_message()) d.in_message = false;
    return result;
  }

  static void keep_extension(Cutter& cutter, const HeaderStack& stack, const Opcode& op) {
    for (const HeaderInfo* header : op.extension_headers())
      if (const Layer* layer = stack.find(*header))
        if (auto value = HeaderValue::parse(*header, stack.bytes_of(*layer))) cutter.extension.push_back(*value);
  }

  Result answer(Connection& c, Requests& d, const HeaderStack& stack, const Opcode& op, Psn psn) {
    Piece* piece = d.find(psn);
    if (!piece) return dropped("the request of this response is not in the capture, or too old");
    if (op.operation != Operation::rdma_read_response) {
      const auto aeth = stack.get<Aeth>();
      const bool refuses = aeth && !Syndrome(aeth->get<"syndrome">()).is_ack();
      return replaced({with_psn(stack, refuses ? piece->beginning(psn, c.captured_mtu, c.live_mtu)
                                               : piece->covered(psn, c.captured_mtu, c.live_mtu))});
    }
    if (op.begins_message()) {
      if (!(psn == piece->captured)) return dropped("captured retransmission; a resegmented message is sent once");
      d.answer = {};
      keep_extension(d.answer, stack, op);
      d.in_answer = true;
    } else if (!d.in_answer || !(psn == d.next_answer)) {
      return dropped("the start of the message is not in the capture, so it cannot be resegmented");
    }
    d.next_answer = psn + 1;
    const Bytes payload = stack.bytes_of(stack.payload);
    d.answer.bytes.insert(d.answer.bytes.end(), payload.begin(), payload.end());
    if (op.ends_message()) {
      d.answer.extension.clear();
      keep_extension(d.answer, stack, op);
      d.in_answer = false;
    }
    Result result = replaced({});
    d.answer.cut(result.frames, stack, c.live_mtu, piece->live, op.ends_message());
    return result;
  }
};

Resegmenter::Resegmenter(const FlowMap& map) : state_(std::make_unique<State>()) {
  using tracking::Service;
  for (std::uint32_t i = 0; i < map.connections.size(); ++i) {
    const MappedConnection& c = map.connections[i];
    if (c.service != Service::rc && c.service != Service::uc && c.service != Service::xrc) continue;
    if (!c.mtu.captured || !c.mtu.live || *c.mtu.captured == *c.mtu.live) continue;
    state_->connections.emplace(i, State::Connection{*c.mtu.captured, *c.mtu.live, {}});
  }
}
Resegmenter::Resegmenter(Resegmenter&&) noexcept = default;
Resegmenter& Resegmenter::operator=(Resegmenter&&) noexcept = default;
Resegmenter::~Resegmenter() = default;

bool Resegmenter::needed() const { return !state_->connections.empty(); }

void Resegmenter::begin_again() {
  for (auto& [index, connection] : state_->connections) connection.requests = {};
}

Resegmenter::Result Resegmenter::take(const HeaderStack& stack, const Rewriter::Place& place) {
  const auto found = state_->connections.find(place.connection);
  const auto bth = stack.get<Bth>();
  if (found == state_->connections.end() || !bth || bth->get<"dest_qp">() <= 1) return {};
  const Opcode& op = opcode(bth->get<"opcode">());
  if (!op.known || op.operation == Operation::congestion_notification) return {};
  if (stack.cut) return dropped("truncated by the capture, so it cannot be resegmented");
  const Psn psn(bth->get<"psn">());
  State::Connection& c = found->second;
  return op.direction == Direction::request
             ? state_->request(c, c.requests[static_cast<std::size_t>(place.from)], stack, op, psn)
             : state_->answer(c, c.requests[static_cast<std::size_t>(tracking::other(place.from))], stack, op, psn);
}

}  // namespace rdmawire::replay
