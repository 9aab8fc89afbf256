#include "dissectors/protocol/infiniband.hpp"

#include <type_traits>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/mrc.hpp"

namespace rdmawire {

Step decode_lrh(Cursor& c) {
  if (!c.need(info<Lrh>, Lrh::size)) return done;
  const View<Lrh> lrh(c.here());
  c.stack.wire = Wire::infiniband;
  const std::uint32_t from = c.at, bytes = 4U * lrh.get<"length">();
  if (bytes < Lrh::size) {
    c.malformed(info<Lrh>, "the packet length is shorter than the header", Lrh::size, bytes);
  } else {
    const std::uint32_t wire_end = c.declared_end, captured_end = c.end;
    c.datagram(info<Lrh>, from, bytes);
    // The length excludes the VCRC.
    if (from + bytes + 2 <= captured_end)
      c.stack.vcrc = {from + bytes, 2};
    else if (from + bytes + 2 <= wire_end)
      c.stack.cut = true;
  }
  if (!c.take(info<Lrh>, Lrh::size)) return done;
  switch (lrh.get<"lnh">()) {
    case 3: return {decode_grh};
    case 2: return {decode_bth};
    case 1: return {decode_ipv6};
    default: break;
  }
  if (!c.need(info<Rwh>, Rwh::size)) return done;
  const std::uint16_t type = View<Rwh>(c.here()).get<"type">();
  if (!c.take(info<Rwh>, Rwh::size)) return done;
  return step_for_ethertype(type);
}

Step decode_grh(Cursor& c) {
  if (!c.need(info<Grh>, Grh::size)) return done;
  const View<Grh> grh(c.here());
  // A GRH that is not directly after an LRH belongs to RoCEv1, even in a tunnel over InfiniBand.
  const auto layers = c.stack.layers();
  if (layers.empty() || layers.back().header != &info<Lrh>) c.stack.wire = Wire::roce_v1;
  const std::uint32_t grh_at = c.at, length = grh.get<"payload_length">();
  if (length != 0) c.datagram(info<Grh>, c.at, Grh::size + length);
  const std::uint8_t next = grh.get<"next_header">();
  c.stack.network = static_cast<std::uint8_t>(c.stack.layers().size());
  if (!c.take(info<Grh>, Grh::size)) return done;
  if (next == Grh::next_is_bth) return {decode_bth};
  c.stack.report({ParseError::Kind::unknown, &info<Grh>, grh_at, 0, 0, "the next header is not a BTH"});
  c.payload();
  return done;
}

namespace {

// Decodes a packet whose BTH, at the cursor, has been checked with need(). `Base` is Bth or MrcBth.
template <class Base>
Step decode_base_transport(Cursor& c, const Opcode& op) {
  constexpr bool is_mrc = std::is_same_v<Base, MrcBth>;
  constexpr const HeaderInfo& base = info<Base>;
  HeaderStack& stack = c.stack;
  const View<Bth> bth(c.here());
  const std::uint32_t bth_at = c.at;
  stack.transport = static_cast<std::uint8_t>(stack.layers().size());
  if (!c.take(base, Bth::size)) return done;

  // Separates the ICRC from the rest, except in a fragment, which does not contain the end of the datagram.
  constexpr std::uint32_t icrc_bytes = 4;
  if (!stack.fragment) {
    if (c.declared_end - c.at < icrc_bytes) {
      stack.report({ParseError::Kind::malformed, &base, bth_at, Bth::size + icrc_bytes, c.declared_end - bth_at,
                    "too short for the ICRC"});
    } else {
      c.declared_end -= icrc_bytes;
      if (c.end == c.declared_end + icrc_bytes)
        stack.icrc = {c.declared_end, icrc_bytes};
      else
        stack.cut = true;
      c.end = std::min(c.end, c.declared_end);
    }
  }

  auto headers = op.extension_headers();
  MrcExtensions of_mrc;
  if constexpr (is_mrc) {
    of_mrc = extensions_of(View<MrcBth>(bth.data()));
    headers = of_mrc.list();
  }
  const bool datagram = op.transport == Transport::ud;
  if (op.transport == Transport::rd && c.left() >= DcEth::size && DcEth::recognizes(c.here())) {
    if (!c.take(info<DcEth>, DcEth::size)) return done;
    while (!headers.empty() && (headers.front() == &info<Rdeth> || headers.front() == &info<Deth>))
      headers = headers.subspan(1);
  }
  if (!is_mrc && !op.known) {
    stack.report({ParseError::Kind::unknown, &info<Bth>, bth_at, 0, 0, "reserved opcode"});
    c.payload();
    return done;
  }
  for (const HeaderInfo* header : headers)
    if (!c.need(*header, header->size) || !c.take(*header, header->size)) return done;

  // The padding is at the end of the datagram, which is not in the first fragment.
  const bool ends_here = !stack.fragment || stack.network == HeaderStack::none;
  if (const std::uint32_t pad = ends_here ? bth.get<"pad">() : 0U) {
    if (c.declared_end - c.at < pad) {
      stack.report({ParseError::Kind::malformed, &base, bth_at, 0, 0, "the pad count exceeds the payload"});
    } else {
      c.declared_end -= pad;
      if (c.end >= c.declared_end + pad) stack.pad = {c.declared_end, pad};
      c.end = std::min(c.end, c.declared_end);
    }
  }
  // Only management datagrams are sent to QPs 0 and 1.
  if (datagram && bth.get<"dest_qp">() <= 1) return {decode_mad};
  c.payload();
  return done;
}

}  // namespace

Step decode_bth(Cursor& c) {
  if (!c.need(info<Bth>, Bth::size)) return done;
  const Opcode& op = opcode(View<Bth>(c.here()).get<"opcode">());
  // MRC uses opcodes that IBTA leaves to manufacturers.
  if (!op.known && c.stack.wire == Wire::roce_v2 && c.options.mrc && MrcBth::recognizes(c))
    return decode_base_transport<MrcBth>(c, op);
  return decode_base_transport<Bth>(c, op);
}

void Lrh::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& lrh = frame.at(index);
  const HeaderInfo* next = frame.next(index);
  lrh.fill("length", frame.bytes_from(index) / 4);
  lrh.fill("lnh", next == &info<Grh> ? 3 : next == &info<Bth> ? 2 : next == &info<Ipv6> ? 1 : 0);
}

void Rwh::fill(FrameLayout& frame, std::size_t index) { announce_ethertype(frame, index, "type"); }

void Grh::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& grh = frame.at(index);
  grh.fill("version", 6);
  grh.fill("payload_length", frame.bytes_after(index));
  grh.fill("next_header", Grh::next_is_bth);
  grh.fill("hop_limit", 64);
}

void Bth::fill(FrameLayout& frame, std::size_t index) {
  frame.at(index).fill("pad", frame.pad_bytes);
  frame.at(index).fill("pkey", 0xffff);  // the default partition, full member. IBTA vol 1, 10.9.2
}

void Reth::fill(FrameLayout& frame, std::size_t index) {
  // This is right for a packet with a whole message. Only the sender knows the length of a longer message.
  frame.at(index).fill("length", frame.payload_bytes);
}

}  // namespace rdmawire
