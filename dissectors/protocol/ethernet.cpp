#include "dissectors/protocol/ethernet.hpp"

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mac_control.hpp"

namespace rdmawire {
namespace {

Step payload_step(Cursor& c) {
  c.payload();
  return done;
}
Step decode_vlan(Cursor& c);

// If several EtherTypes have the same decoder, encoding uses the first one.
struct EtherTypeDecoder {
  std::uint16_t type;
  Step::Decoder decoder;
  const HeaderInfo* header;
};
constexpr EtherTypeDecoder ether_type_decoders[] = {
    {ethertype::ipv4, decode_ipv4, &info<Ipv4>},
    {ethertype::roce_v1, decode_grh, &info<Grh>},
    {ethertype::ipv6, decode_ipv6, &info<Ipv6>},
    {ethertype::vlan, decode_vlan, &info<Vlan>},
    {ethertype::provider_vlan, decode_vlan, &info<Vlan>},
    {ethertype::old_provider_vlan, decode_vlan, &info<Vlan>},
    {ethertype::teb, decode_ethernet, &info<Ethernet>},
    {ethertype::arp, decode_arp, &info<Arp>},
    {ethertype::pause, decode_mac_control, &info<MacControl>},
};

Step decode_vlan(Cursor& c) {
  if (!c.need(info<Vlan>, Vlan::size)) return done;
  const auto type = View<Vlan>(c.here()).get<"type">();
  if (!c.take(info<Vlan>, Vlan::size)) return done;
  return step_for_ethertype(type);
}

}  // namespace

Step step_for_ethertype(std::uint16_t type) {
  for (const EtherTypeDecoder& a : ether_type_decoders)
    if (a.type == type) return {a.decoder};
  return {payload_step};
}

std::uint16_t ethertype_of(const HeaderInfo& next) {
  for (const EtherTypeDecoder& a : ether_type_decoders)
    if (a.header == &next) return a.type;
  return 0;
}

Step decode_ethernet(Cursor& c) {
  if (!c.need(info<Ethernet>, Ethernet::size)) return done;
  const auto type = View<Ethernet>(c.here()).get<"type">();
  if (!c.take(info<Ethernet>, Ethernet::size)) return done;
  if (type == ethertype::ipv4) return {decode_ipv4};
  return step_for_ethertype(type);  // values below 0x600 are 802.3 lengths: payload follows
}

Step decode_linux_sll(Cursor& c) {
  if (!c.need(info<LinuxSll>, LinuxSll::size)) return done;
  const auto type = View<LinuxSll>(c.here()).get<"protocol">();
  if (!c.take(info<LinuxSll>, LinuxSll::size)) return done;
  return step_for_ethertype(type);
}

Step decode_linux_sll2(Cursor& c) {
  if (!c.need(info<LinuxSll2>, LinuxSll2::size)) return done;
  const auto type = View<LinuxSll2>(c.here()).get<"protocol">();
  if (!c.take(info<LinuxSll2>, LinuxSll2::size)) return done;
  return step_for_ethertype(type);
}

Step decode_null_loopback(Cursor& c) {
  if (!c.need(info<NullLoopback>, NullLoopback::size)) return done;
  if (!c.take(info<NullLoopback>, NullLoopback::size)) return done;
  return {decode_raw_ip};  // address family numbers depend on the system, so use the version in the IP header
}

Step decode_erf(Cursor& c) {
  if (!c.need(info<Erf>, Erf::size)) return done;
  const View<Erf> erf(c.here());
  const std::uint32_t from = c.at;
  std::uint32_t header = Erf::size;
  // Each extension header has 8 bytes. Its first bit is set if another one follows.
  for (bool more = erf.get<"type.extended">(); more;) {
    if (!c.need(info<Erf>, header + 8)) return done;
    more = c.here()[header] & 0x80;
    header += 8;
  }
  const std::uint8_t kind = erf.get<"type.kind">();
  if (kind == 2) {  // Ethernet records start with an offset and a pad byte
    if (!c.need(info<Erf>, header + 2)) return done;
    header += 2;
  }
  const std::uint32_t record = erf.get<"record_length">(), wire = erf.get<"wire_length">();
  if (record < header) c.malformed(info<Erf>, "the record length is shorter than the record's header", header, record);
  if (!c.take(info<Erf>, header)) return done;
  if (record >= header && from + record < c.end) c.end = from + record;
  c.declared_end = c.at + wire;
  c.end = std::min(c.end, c.declared_end);
  switch (kind) {
    case 2: return {decode_ethernet};
    case 21: return {decode_lrh};
    case 22: return {decode_ipv4};
    case 23: return {decode_ipv6};
    default: return {payload_step};
  }
}

void announce_ethertype(FrameLayout& frame, std::size_t index, std::string_view field) {
  HeaderValue& header = frame.at(index);
  const HeaderInfo* next = frame.next(index);
  const std::uint64_t present = header.get(*header.header().find(field));
  for (const EtherTypeDecoder& a : ether_type_decoders)
    if (a.header == next && a.type == present) return;
  if (const std::uint16_t type = next ? ethertype_of(*next) : 0) header.fill(field, type);
}

void Ethernet::fill(FrameLayout& frame, std::size_t index) { announce_ethertype(frame, index, "type"); }
void Vlan::fill(FrameLayout& frame, std::size_t index) { announce_ethertype(frame, index, "type"); }
void LinuxSll::fill(FrameLayout& frame, std::size_t index) { announce_ethertype(frame, index, "protocol"); }
void LinuxSll2::fill(FrameLayout& frame, std::size_t index) { announce_ethertype(frame, index, "protocol"); }

}  // namespace rdmawire
