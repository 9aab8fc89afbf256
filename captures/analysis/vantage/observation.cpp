#include "captures/analysis/vantage/observation.hpp"

#include <cstring>

#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::captures::vantage {
namespace {

class Hash {
 public:
  void add(std::uint64_t word) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(state_ ^ word ^ 0x9e3779b97f4a7c15) * 0xd6e8feb86659fd93;
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64) ^ state_ << 1;
  }
  void add(Bytes bytes) {
    while (bytes.size() >= 8) {
      add(load_be<8>(bytes.data()));
      bytes = bytes.subspan(8);
    }
    std::uint64_t rest = bytes.size();
    for (const std::uint8_t byte : bytes) rest = rest << 8 | byte;
    add(rest);
  }
  void add(const PortAddress& address) {
    add(address.high);
    add(address.low);
  }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t h = state_;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93;
    return h ^ h >> 32;
  }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3;
};

void look_at_the_way(Observation& s, const HeaderStack& stack) {
  const auto layers = stack.layers();
  const std::uint8_t* bytes = stack.bytes.data();
  s.ttl = 0;
  s.traffic_class = 0;
  if (stack.network < layers.size()) {
    const std::uint8_t* at = bytes + layers[stack.network].offset;
    const HeaderInfo* header = layers[stack.network].header;
    if (header == &info<Ipv4>) {
      s.ttl = View<Ipv4>(at).get<"ttl">();
      s.traffic_class = View<Ipv4>(at).get<"tos">();
    } else {  // the layout of the GRH is that of an IPv6 header
      s.ttl = at[7];
      s.traffic_class = static_cast<std::uint8_t>(at[0] << 4 | at[1] >> 4);
    }
  }
  s.priority = Observation::no_priority;
  for (const Layer& layer : layers) {
    if (layer.header == &info<Vlan>)
      s.priority = View<Vlan>(bytes + layer.offset).get<"priority">();
    else if (layer.header == &info<Lrh>)
      s.priority = View<Lrh>(bytes + layer.offset).get<"sl">();
    else if (layer.header != &info<Ethernet>)
      break;
    if (s.priority != Observation::no_priority) break;
  }
}

bool sight_tcp(Observation& s, const HeaderStack& stack, IdentityBy by) {
  const auto ports = tracking::ports_of(stack);
  if (!ports || stack.network >= stack.layers().size()) return false;
  const Layer& layer = stack.layers()[stack.transport];
  const View<Tcp> tcp(stack.bytes.data() + layer.offset);
  const Layer& network = stack.layers()[stack.network];
  const std::uint8_t* ip = stack.bytes.data() + network.offset;
  const std::uint32_t begin = layer.offset + 4U * tcp.get<"data_offset">();
  const std::uint32_t end =
      network.offset + (network.header == &info<Ipv4> ? View<Ipv4>(ip).get<"total_length">()
                                                      : Ipv6::size + View<Ipv6>(ip).get<"payload_length">());
  s.flow = ports->with(TcpFlow{tcp.get<"src_port">(), tcp.get<"dst_port">()}.number());
  s.psn = tcp.get<"seq">();
  s.acknowledges = tcp.get<"ack">();
  s.acknowledged = tcp.get<"ack_number">();
  // SYN and FIN each occupy one sequence number, and are retransmitted like data.
  s.bytes = (end > begin ? end - begin : 0) + tcp.get<"syn">() + tcp.get<"fin">();
  s.syndrome = Syndrome(0);
  s.read_request = false;
  s.role = Role::segment;
  s.icrc = CrcCheck::Status::absent;
  s.source_port = tcp.get<"src_port">();
  Hash hash;
  hash.add(s.flow.from);
  hash.add(s.flow.to);
  hash.add(s.flow.number << 8 | stack.bytes[layer.offset + 13]);
  hash.add(std::uint64_t{s.psn} << 32 | (s.acknowledges ? s.acknowledged : 0));
  hash.add(s.bytes);
  if (begin > layer.offset + Tcp::size && begin <= stack.bytes.size())
    hash.add(stack.bytes.subspan(layer.offset + Tcp::size, begin - layer.offset - Tcp::size));
  if (by == IdentityBy::icrc) {
    if (end > stack.bytes.size()) return false;
    if (end > begin) hash.add(crc32(stack.bytes.subspan(begin, end - begin)));
  }
  s.identity = hash.value();
  return true;
}

}  // namespace

bool cut_before_icrc(const tracking::Packet& packet) {
  const HeaderStack& stack = packet.stack;
  return stack.transport < stack.layers().size() && stack.layers()[stack.transport].header == &info<Bth> &&
         stack.icrc.length == 0;
}

bool observe(Observation& s, const tracking::Packet& packet, IdentityBy by) {
  const HeaderStack& stack = packet.stack;
  const auto layers = stack.layers();
  if (stack.fragment || stack.transport >= layers.size()) return false;
  s.time = sane_time(packet.time_ns);
  s.frame = packet.number;
  s.wire = stack.wire;
  if (layers[stack.transport].header == &info<Tcp>) {
    if (!sight_tcp(s, stack, by)) return false;
    s.wire = packet.tcp.connection ? Wire::iwarp : Wire::none;
    look_at_the_way(s, stack);
    return true;
  }
  if (by == IdentityBy::icrc && stack.icrc.length == 0) return false;
  tracking::TransportPacket t;
  if (!tracking::read_transport_packet(packet, t)) return false;
  s.flow = t.key_of_flow();
  s.psn = t.psn.value();
  s.bytes = t.payload;
  s.icrc = packet.icrc.status;
  s.source_port = t.source_port;
  s.acknowledged = 0;
  s.acknowledges = t.has_aeth || t.is_response();
  s.syndrome = Syndrome(t.has_aeth ? t.syndrome : std::uint8_t{0});
  s.read_request = t.op->operation == Operation::rdma_read_request;
  const bool reliable =
      t.op->transport == Transport::rc || t.op->transport == Transport::xrc || t.op->transport == Transport::rd;
  s.role = !reliable                                   ? Role::datagram
           : !t.is_response()                          ? Role::request
           : t.op->operation == Operation::acknowledge ? Role::acknowledge
                                                       : Role::response;

  const std::uint32_t at = layers[stack.transport].offset;
  Hash hash;
  // Mask byte 4 of the BTH (FECN, BECN, reserved), like the ICRC does, because switches may change it.
  std::uint8_t bth[Bth::size];
  std::memcpy(bth, stack.bytes.data() + at, sizeof bth);
  bth[4] = 0;
  hash.add(Bytes(bth));
  const std::size_t headers = std::min<std::size_t>(t.op->header_bytes, stack.bytes.size() - at - Bth::size);
  hash.add(stack.bytes.subspan(at + Bth::size, headers));
  hash.add(t.payload);
  if (by == IdentityBy::icrc) {
    hash.add(packet.icrc.value ? packet.icrc.value : load_icrc(stack.bytes.data() + stack.icrc.offset));
  } else {
    hash.add(t.from);
    hash.add(t.to);
    hash.add(std::uint64_t{t.identification} << 16 | t.source_port);
  }
  s.identity = hash.value();
  look_at_the_way(s, stack);
  return true;
}

}  // namespace rdmawire::captures::vantage
