#include "dissectors/tracking/mpa_connections.hpp"

#include <algorithm>

#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking {
namespace {

using Use = MpaModes::Use;
using SegmentArrival = TcpStream::Arrival;

// MSS of a sender whose SYN has no MSS option. RFC 9293, 3.7.1
constexpr std::uint16_t default_mss = 536, default_mss_ipv6 = 1220;
constexpr std::uint16_t timestamps_bytes =
    12;  // size of the timestamps option with two bytes of padding. RFC 7323, appendix A

bool endpoints(const HeaderStack& stack, Endpoint& from, Endpoint& to) {
  if (stack.network == HeaderStack::none) return false;
  const Layer& network = stack.layers()[stack.network];
  const std::uint8_t* ip = stack.bytes.data() + network.offset;
  if (network.header == &info<Ipv4>) {
    from = Endpoint::of_ipv4(View<Ipv4>(ip).get<"src">());
    to = Endpoint::of_ipv4(View<Ipv4>(ip).get<"dst">());
  } else if (network.header == &info<Ipv6>) {
    from = Endpoint::of_ipv6(ip + 8);
    to = Endpoint::of_ipv6(ip + 24);
  } else {
    return false;
  }
  return true;
}

// Returns the number of data bytes in the segment on the wire. The capture may contain fewer.
std::uint32_t data_bytes(const HeaderStack& stack) {
  if (!stack.cut) return stack.payload.length;
  const Layer& network = stack.layers()[stack.network];
  const std::uint8_t* ip = stack.bytes.data() + network.offset;
  std::uint32_t bytes = 0;
  if (network.header == &info<Ipv4>) {
    bytes = View<Ipv4>(ip).get<"total_length">();
  } else {
    bytes = View<Ipv6>(ip).get<"payload_length">();
    if (bytes) bytes += Ipv6::size;
  }
  const std::uint32_t end = bytes ? network.offset + bytes : stack.wire_length;
  return std::max(stack.payload.length, end > stack.payload.offset ? end - stack.payload.offset : 0);
}

}  // namespace

MpaConnections::MpaConnections() : MpaConnections(Limits{}) {}

std::size_t MpaConnections::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = static_cast<std::uint64_t>(key.low.port) << 16 | key.high.port;
  for (const Endpoint* end : {&key.low, &key.high})
    for (const std::uint64_t word : {end->first, end->last}) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
  return hash;
}

std::size_t MpaConnections::Connection::buffered() const {
  std::size_t bytes = 0;
  for (const Direction& d : directions) bytes += d.tcp.buffered() + d.mpa.buffered();
  return bytes;
}

MpaConnections::Connection* MpaConnections::known(const Key& key) {
  // Consecutive segments often belong to the same connection.
  if (!order_.empty() && order_.front().key == key) return &order_.front();
  const auto found = connections_.find(key);
  if (found == connections_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return &order_.front();
}

MpaConnections::Connection& MpaConnections::begin(const Key& key) {
  if (connections_.size() >= limits_.connections && !order_.empty()) {
    evict(std::prev(order_.end()));
    ++evicted_;
  }
  order_.emplace_front();
  order_.front().key = key;
  connections_.emplace(key, order_.begin());
  most_connections_ = std::max(most_connections_, connections_.size());
  return order_.front();
}

void MpaConnections::evict(Order::iterator victim) {
  buffered_ -= victim->buffered();
  connections_.erase(victim->key);
  order_.erase(victim);
}

bool MpaConnections::is_assumed(const Key& key) const {
  return std::any_of(assumed_ports_.begin(), assumed_ports_.end(),
                     [&](const NumberRange& range) { return range.has(key.low.port) || range.has(key.high.port); });
}

// Processes one packet of a connection.
class MpaConnections::LiveAnalysis final : public TcpStream::Sink, public MpaStream::Events {
 public:
  LiveAnalysis(MpaConnections& all, Connection& connection, bool from_high, Packet& packet, bool verify)
      : all_(all), connection_(connection), from_high_(from_high), packet_(packet), verify_(verify) {}

  /// Treats the connection as iWARP before its first FPDU was found.
  void assume() {
    recognize(false);
    direction().mpa.expect();
    other().mpa.expect();
  }

  void segment(std::uint32_t seq, std::uint32_t length, Bytes captured, bool plain) {
    const SegmentArrival arrival = accept(seq, length, captured, plain);
    if (!connection_.info) return;
    packet_.tcp.length = length;
    packet_.tcp.offset = segment_from_;
    packet_.tcp.sender_known = direction().tcp.started();
    packet_.tcp.keep_alive = arrival == SegmentArrival::keep_alive;
    packet_.tcp.anew = arrival == SegmentArrival::beyond;
    switch (arrival) {
      case SegmentArrival::keep_alive: note("TCP keep-alive"); break;
      case SegmentArrival::retransmission: note("TCP retransmission"); break;
      case SegmentArrival::ahead: note("TCP segment ahead: earlier bytes have not arrived yet"); break;
      case SegmentArrival::fills_gap: note("TCP segment fills a gap"); break;
      case SegmentArrival::beyond: note("TCP segment far from the stream: treated as a new connection"); break;
      default: break;
    }
    // Completes the PDUs of the packet in which the connection was recognized as iWARP.
    for (Pdu& pdu : packet_.pdus) settle(pdu);
  }

  void bytes(std::uint64_t offset, Bytes bytes, bool in_packet) override {
    direction().mpa.bytes(offset, bytes, in_packet, verify_, all_.scratch_, *this);
  }
  void gap(std::uint64_t, std::uint64_t to) override {
    if (connection_.info) note("bytes of the TCP stream are missing in the capture");
    direction().mpa.gap(to, verify_, all_.scratch_, *this);
  }

  void mpa_frame(const HeaderStack& stack, std::uint64_t end) override {
    const View<MpaFrame> frame(stack.bytes.data());
    const bool request = MpaFrame::is_request(stack.bytes.data());
    const Bytes tail = stack.bytes.subspan(MpaFrame::size);
    const Endpoint& sender = from_high_ ? connection_.key.high : connection_.key.low;
    const Endpoint& receiver = from_high_ ? connection_.key.low : connection_.key.high;
    const MpaConnection* before = connection_.info.get();
    // A request that is the reply to a request: both sides are initiators, or one side uses the wrong key in its reply.
    const bool answers =
        request && before && before->request_seen && !before->reply_seen && before->responder == sender;
    MpaConnection& known = recognize(request && before && before->request_seen && !answers);
    if (!answers) {
      known.initiator = request ? sender : receiver;
      known.responder = request ? receiver : sender;
    }
    known.roles_known = true;
    if (!connection_.syn_seen) known.listener = known.responder;
    known.revision = frame.get<"revision">();
    const std::size_t bytes = std::min<std::size_t>(tail.size(), mpa::max_private_data);
    const bool asks = request && !answers;
    (asks ? known.request_private_data : known.reply_private_data)
        .assign(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(bytes));
    (asks ? known.request_seen : known.reply_seen) = true;

    // The M bit in an MPA frame requests markers in the stream of the other side. Markers in the sender's own stream
    // start after this MPA frame. RFC 5044, 4.3 and 7.1.1
    MpaModes& own = direction().mpa.modes;
    MpaModes& others = other().mpa.modes;
    others.markers = frame.get<"markers">() ? Use::on : Use::off;
    own.marker_origin = end;
    const bool both = known.request_seen && known.reply_seen;
    if (frame.get<"crc">())
      known.crc = Use::on;
    else if (both && known.crc != Use::on)
      known.crc = Use::off;
    own.crc = others.crc = known.crc;
    if (!request && frame.get<"reject">()) {
      known.rejected = true;
      note("the MPA reply rejects the connection");
      direction().mpa.end();
      other().mpa.end();
      return;
    }
    other().mpa.expect();
  }
  Pdu& pdu(std::uint64_t from, std::uint64_t to) override {
    Pdu& pdu = packet_.pdus.emplace_back();
    pdu.stream_offset = from;
    pdu.stream_end = to;
    const std::uint64_t begin = std::max(from, segment_from_), end = std::min(to, segment_from_ + captured_);
    pdu.in_frame = {packet_.stack.payload.offset, 0};
    if (begin < end)
      pdu.in_frame = {packet_.stack.payload.offset + static_cast<std::uint32_t>(begin - segment_from_),
                      static_cast<std::uint32_t>(end - begin)};
    return pdu;
  }
  void found() override {
    recognize(false);
    other().mpa.expect();
    if (direction().mpa.modes.crc == Use::on) connection_.info->crc = other().mpa.modes.crc = Use::on;
  }
  void note(std::string_view text) override {
    if (std::find(packet_.notes.begin(), packet_.notes.end(), text) == packet_.notes.end())
      packet_.notes.push_back(text);
  }

 private:
  Direction& direction() { return connection_.directions[from_high_]; }
  Direction& other() { return connection_.directions[!from_high_]; }

  SegmentArrival accept(std::uint32_t seq, std::uint32_t length, Bytes captured, bool plain) {
    TcpStream& tcp = direction().tcp;
    if (!tcp.started() && length) {
      tcp.start(seq);
      direction().mpa.start(false);
      if (connection_.info) direction().mpa.expect();
    }
    segment_from_ = tcp.offset_of(seq);
    captured_ = captured.size();
    const SegmentArrival arrival = tcp.accept(seq, length, captured, plain, *this);
    if (arrival != SegmentArrival::beyond) return arrival;
    tcp.start(seq);
    direction().mpa.start(false);
    if (connection_.info) direction().mpa.expect();
    segment_from_ = tcp.offset_of(seq);
    tcp.accept(seq, length, captured, plain, *this);
    return arrival;
  }
  MpaConnection& recognize(bool anew) {
    if (!connection_.info || anew) {
      connection_.info = std::make_unique<MpaConnection>();
      MpaConnection& known = *connection_.info;
      known.id = ++all_.recognized_;
      known.frame = packet_.number;
      known.roles_known = connection_.syn_seen;
      const bool initiator_high = connection_.syn_seen && connection_.syn_from_high;
      known.initiator = initiator_high ? connection_.key.high : connection_.key.low;
      known.responder = known.listener = initiator_high ? connection_.key.low : connection_.key.high;
    }
    return *connection_.info;
  }
  void settle(Pdu& pdu) {
    MpaConnection& known = *connection_.info;
    pdu.connection = &known;
    pdu.from_initiator = known.initiator == (from_high_ ? connection_.key.high : connection_.key.low);
    (pdu.from_initiator ? known.markers_to_responder : known.markers_to_initiator) = direction().mpa.modes.markers;
    (pdu.from_initiator ? known.markers_to_initiator : known.markers_to_responder) = other().mpa.modes.markers;
  }

  MpaConnections& all_;
  Connection& connection_;
  bool from_high_;
  Packet& packet_;
  bool verify_;
  std::uint64_t segment_from_ = 0;
  std::size_t captured_ = 0;
};

void MpaConnections::follow(Packet& packet, bool verify_crcs) {
  scratch_.reset();
  const HeaderStack& stack = packet.stack;
  Endpoint from, to;
  if (stack.fragment || !endpoints(stack, from, to)) return;
  const Layer& layer = stack.layers()[stack.transport];
  const View<Tcp> tcp(stack.bytes.data() + layer.offset);
  from.port = tcp.get<"src_port">();
  to.port = tcp.get<"dst_port">();
  const bool from_high = to < from;
  const Key key = from_high ? Key{to, from} : Key{from, to};
  const bool syn = tcp.get<"syn">(), ack = tcp.get<"ack">(), rst = tcp.get<"rst">(), fin = tcp.get<"fin">();
  const std::uint32_t length = data_bytes(stack);
  const Bytes captured = stack.bytes_of(stack.payload);

  Connection* const found = known(key);
  // Only a segment with SYN or data creates a connection.
  if (!found && !syn && length == 0) return;
  Connection& current = found ? *found : begin(key);
  const std::size_t before = current.buffered();
  std::uint32_t seq = tcp.get<"seq">();
  Direction& direction = current.directions[from_high];
  Direction& other = current.directions[!from_high];
  if (syn) {
    ++seq;  // a SYN uses one sequence number
    // A retransmitted SYN has no effect.
    const bool again = current.syn_seen && direction.tcp.began_at(seq);
    if (!again) {
      // The SYN of a new connection, or a SYN-ACK whose SYN was not captured.
      if (!ack || direction.tcp.started()) {
        other = {};
        current.info.reset();
      }
      const Parts options = Tcp::parts(stack.bytes_of(layer));
      direction.scales = direction.timestamps = false;
      direction.mss = stack.layers()[stack.network].header == &info<Ipv4> ? default_mss : default_mss_ipv6;
      for (std::size_t i = 0; i < options.count; ++i) {
        const std::uint8_t* option = stack.bytes.data() + layer.offset + options.layers[i].offset;
        if (options.layers[i].header == &info<TcpWindowScale>) {
          direction.scales = true;
          // A larger shift counts as 14. RFC 7323, 2.3
          direction.shift = static_cast<std::uint8_t>(std::min<std::uint64_t>(option[2], 14));
        } else if (options.layers[i].header == &info<TcpTimestamps>) {
          direction.timestamps = true;
        } else if (options.layers[i].header == &info<TcpMss>) {
          direction.mss = View<TcpMss>(option).get<"mss">();
        }
      }
      current.syn_seen = true;
      current.syn_from_high = ack ? !from_high : from_high;
      direction.tcp.start(seq);
      direction.mpa.start(true);
    }
  }
  if (ack && !rst) {
    other.tcp.acknowledged(tcp.get<"ack_number">());
    // The window in a SYN is never scaled. Other windows are scaled only if both SYNs have the window scale option.
    const bool scaled = !syn && direction.scales && other.scales;
    other.window = static_cast<std::uint32_t>(tcp.get<"window">()) << (scaled ? direction.shift : 0);
  }
  LiveAnalysis following(*this, current, from_high, packet, verify_crcs);
  if (!current.info && length != 0 && is_assumed(key)) following.assume();
  if (!rst) following.segment(seq, length, captured, !syn && !fin);
  const bool reset = rst && direction.tcp.in_window(seq, direction.window);
  if (reset) {
    for (Direction& d : current.directions) {
      d.tcp.clear();
      d.mpa.end();
    }
  } else if (rst && current.info) {
    following.note("TCP reset outside of the window: ignored");
  }
  if (current.info) {
    TcpSegment& segment = packet.tcp;
    segment.connection = current.info.get();
    segment.from_initiator = current.info->initiator == from;
    segment.fin = fin && !rst;
    segment.reset = reset;
    segment.has_acknowledged = ack && !rst && other.tcp.started();
    if (segment.has_acknowledged) segment.acknowledged = other.tcp.offset_of(tcp.get<"ack_number">());
    segment.window = other.window;
    if (reset && direction.tcp.started()) segment.offset = direction.tcp.offset_of(seq);
    // If both SYNs have the timestamps option, every segment has it.
    const std::uint16_t options = direction.timestamps && other.timestamps ? timestamps_bytes : 0;
    segment.emss = other.mss > options ? static_cast<std::uint16_t>(other.mss - options) : 0;
  }

  buffered_ += current.buffered() - before;
  most_buffered_ = std::max(most_buffered_, buffered_);
  while (buffered_ > limits_.bytes && order_.size() > 1) {
    evict(std::prev(order_.end()));
    ++evicted_;
  }
}

}  // namespace rdmawire::tracking
