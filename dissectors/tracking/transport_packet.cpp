#include "dissectors/tracking/transport_packet.hpp"

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::tracking {
namespace {

constexpr std::uint32_t icrc_bytes = 4;

}  // namespace

std::uint32_t declared_end(const HeaderStack& stack) {
  if (stack.wire == Wire::infiniband) {
    const auto lrh = stack.get<Lrh>();
    const Layer* layer = stack.find(info<Lrh>);
    return lrh ? layer->offset + lrh->get<"length">() * 4U : 0;
  }
  if (stack.network >= stack.layers().size()) return 0;
  const Layer& network = stack.layers()[stack.network];
  const std::uint8_t* at = stack.bytes.data() + network.offset;
  if (network.header == &info<Ipv4>) return network.offset + View<Ipv4>(at).get<"total_length">();
  if (network.header == &info<Ipv6>) return network.offset + Ipv6::size + View<Ipv6>(at).get<"payload_length">();
  return network.offset + Grh::size + View<Grh>(at).get<"payload_length">();
}

bool has_transport(const Packet& packet) {
  const auto layers = packet.stack.layers();
  const std::size_t at = packet.stack.transport;
  return at < layers.size() && layers[at].header == &info<Bth> && ports_of(packet.stack).has_value();
}

bool read_transport_packet(const Packet& packet, TransportPacket& t) {
  const HeaderStack& stack = packet.stack;
  const auto layers = stack.layers();
  if (stack.transport >= layers.size() || layers[stack.transport].header != &info<Bth>) return false;
  const auto ports = ports_of(stack);
  if (!ports) return false;

  const std::uint8_t* bytes = stack.bytes.data();
  const View<Bth> bth(bytes + layers[stack.transport].offset);
  t.frame = packet.number;
  t.time = packet.time_ns;
  t.from = ports->from;
  t.to = ports->to;
  t.op = &opcode(bth.get<"opcode">());
  t.dest_qp = bth.get<"dest_qp">();
  t.psn = Psn(bth.get<"psn">());
  t.pkey = bth.get<"pkey">();
  t.ack_request = bth.get<"ack_request">();
  t.solicited = bth.get<"se">();
  t.migrated = bth.get<"migreq">();
  t.wire = stack.wire;
  t.wire_bytes = stack.wire_length;
  t.crc_bad = packet.icrc.status == CrcCheck::Status::bad;
  t.icrc = packet.icrc.value;

  if (stack.network < layers.size()) {
    const Layer& network = layers[stack.network];
    const std::uint8_t* at = bytes + network.offset;
    if (network.header == &info<Ipv4>) {
      const View<Ipv4> ip(at);
      t.traffic_class = ip.get<"tos">();
      t.identification = ip.get<"identification">();
    } else if (network.header == &info<Ipv6>) {
      t.traffic_class = View<Ipv6>(at).get<"traffic_class">();
    } else {
      t.traffic_class = View<Grh>(at).get<"traffic_class">();
    }
  }
  if (stack.transport > 0 && layers[stack.transport - 1U].header == &info<Udp>)
    t.source_port = View<Udp>(bytes + layers[stack.transport - 1U].offset).get<"src_port">();

  std::uint32_t payload_at = layers[stack.transport].offset + Bth::size;
  for (std::size_t i = stack.transport + 1U; i < layers.size(); ++i) {
    const std::uint8_t* at = bytes + layers[i].offset;
    const HeaderInfo* const header = layers[i].header;
    if (header == &info<Reth>) {
      const View<Reth> reth(at);
      t.has_reth = true;
      t.address = reth.get<"va">();
      t.key = reth.get<"rkey">();
      t.length = reth.get<"length">();
    } else if (header == &info<Aeth>) {
      const View<Aeth> aeth(at);
      t.has_aeth = true;
      t.syndrome = aeth.get<"syndrome">();
      t.msn = Msn(aeth.get<"msn">());
    } else if (header == &info<AtomicEth>) {
      const View<AtomicEth> atomic(at);
      t.has_atomic = true;
      t.address = atomic.get<"va">();
      t.key = atomic.get<"rkey">();
      t.operand = atomic.get<"swap_add">();
      t.compare = atomic.get<"compare">();
    } else if (header == &info<AtomicAckEth>) {
      t.operand = View<AtomicAckEth>(at).get<"original">();
    } else if (header == &info<ImmDt>) {
      t.immediate = View<ImmDt>(at).get<"data">();
    } else if (header == &info<Ieth>) {
      t.invalidated_key = View<Ieth>(at).get<"rkey">();
    } else if (header == &info<Deth>) {
      const View<Deth> deth(at);
      t.source_qp = deth.get<"src_qp">();
      t.qkey = deth.get<"qkey">();
    }
  }
  payload_at += t.op->header_bytes;
  t.payload_at = payload_at;

  // If a packet is truncated, or has upper layer headers, its payload length follows from the lengths in the lower
  // layers.
  const std::uint32_t end = declared_end(stack), less = payload_at + bth.get<"pad">() + icrc_bytes;
  t.payload = end > less ? end - less : 0;
  t.truncated = stack.cut && stack.wire_length == stack.bytes.size();
  return true;
}

void read_payload_crc(const Packet& packet, TransportPacket& t) {
  const Bytes bytes = packet.stack.bytes;
  t.payload_known = std::size_t{t.payload_at} + t.payload <= bytes.size();
  if (t.payload_known && t.payload != 0) t.payload_crc = crc32c(bytes.subspan(t.payload_at, t.payload));
}

}  // namespace rdmawire::tracking
