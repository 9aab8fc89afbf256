#include "dissectors/protocol/transport.hpp"

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/options.hpp"
#include "dissectors/protocol/tunnel.hpp"

namespace rdmawire {

Step decode_udp(Cursor& c) {
  if (!c.need(info<Udp>, Udp::size)) return done;
  const View<Udp> udp(c.here());
  const std::uint32_t length = udp.get<"length">(), udp_at = c.at;
  if (length != 0 && length < Udp::size)
    c.malformed(info<Udp>, "the length is shorter than the header", Udp::size, length);
  else if (length != 0 && !c.stack.fragment)
    c.limit(info<Udp>, c.at, length);
  c.stack.transport = static_cast<std::uint8_t>(c.stack.layers().size());
  if (!c.take(info<Udp>, Udp::size)) return done;
  // Only the destination port selects the decoder. The source port of RoCEv2 is arbitrary, and can be a registered
  // port.
  const std::uint16_t port = udp.get<"dst_port">();
  if (port == DecodeOptions::roce_v2_udp_port || (port == c.options.extra_roce_v2_port && port != 0)) {
    c.stack.wire = Wire::roce_v2;
    return {decode_bth};
  }
  // Public implementations of MRC use this port. Other traffic to it does not have the form of MRC packets.
  if (port == mrc::transposed_port && c.options.mrc && c.left() >= MrcBth::size && MrcBth::recognizes(c)) {
    c.stack.wire = Wire::roce_v2;
    c.stack.report({ParseError::Kind::unknown, &info<Udp>, udp_at, 0, 0,
                    "an MRC packet to port 4971: RoCEv2's port is 4791, and implementations of MRC differ"});
    return {decode_bth};
  }
  if (port == udp_port::vxlan) return {decode_vxlan};
  c.payload();
  return done;
}

Step decode_tcp(Cursor& c) {
  if (!c.need(info<Tcp>, Tcp::size)) return done;
  const View<Tcp> tcp(c.here());
  const std::uint32_t header = 4U * tcp.get<"data_offset">();
  if (header < Tcp::size) {
    c.malformed(info<Tcp>, "the data offset is shorter than the header", Tcp::size, header);
    c.payload();
    return done;
  }
  if (!c.need(info<Tcp>, header)) return done;
  c.stack.transport = static_cast<std::uint8_t>(c.stack.layers().size());
  if (!c.take(info<Tcp>, header)) return done;
  c.payload();  // only the state of the connection shows whether this is iWARP
  return done;
}

Parts Tcp::parts(Bytes header) {
  constexpr std::uint8_t sack = 5;
  struct Known {
    std::uint8_t kind;
    const HeaderInfo* header;
  };
  static constexpr Known known[] = {{2, &info<TcpMss>}, {3, &info<TcpWindowScale>}, {8, &info<TcpTimestamps>}};
  return parts_of_options(header, Tcp::size, info<TcpOptionByte>, info<TcpOption>,
                          [](Parts& parts, std::uint8_t kind, std::uint32_t at, std::uint32_t bytes) {
                            const HeaderInfo* option = &info<TcpOption>;
                            for (const Known& k : known)
                              if (k.kind == kind && k.header->size == bytes) option = k.header;
                            parts.add(*option, at, bytes);
                            if (kind != sack) return;
                            constexpr std::uint32_t block = TcpSackBlock::size;
                            for (std::uint32_t b = at + 2; b + block <= at + bytes; b += block)
                              parts.add(info<TcpSackBlock>, b, block);
                          });
}

void Udp::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& udp = frame.at(index);
  const HeaderInfo* next = frame.next(index);
  udp.fill("length", frame.bytes_from(index));
  if (next && is_base_transport(*next)) {
    udp.fill("dst_port", DecodeOptions::roce_v2_udp_port);
    udp.fill("src_port", 0xc000);  // first port of the dynamic range, from which RoCEv2 senders choose
    udp.fill("checksum", 0);       // no checksum: the ICRC protects RoCEv2 packets
  } else if (next == &info<Vxlan>) {
    udp.fill("dst_port", udp_port::vxlan);
  }
}

void Tcp::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& tcp = frame.at(index);
  tcp.fill("data_offset", tcp.bytes().size() / 4);
}

}  // namespace rdmawire
