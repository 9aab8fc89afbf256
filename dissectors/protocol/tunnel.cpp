#include "dissectors/protocol/tunnel.hpp"

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {
namespace {

Step decode_erspan2(Cursor& c) {
  if (!c.need(info<Erspan2>, Erspan2::size) || !c.take(info<Erspan2>, Erspan2::size)) return done;
  return {decode_ethernet};
}

Step decode_erspan3(Cursor& c) {
  if (!c.need(info<Erspan3>, Erspan3::size)) return done;
  const View<Erspan3> header(c.here());
  const std::uint32_t bytes = Erspan3::size + (header.get<"platform_present">() ? 8 : 0);
  if (!c.need(info<Erspan3>, bytes)) return done;
  const bool ip = header.get<"frame_type">() == 2;
  if (!c.take(info<Erspan3>, bytes)) return done;
  return ip ? step_for_ethertype(ethertype::ipv4) : Step{decode_ethernet};
}

}  // namespace

Step decode_vxlan(Cursor& c) {
  if (!c.need(info<Vxlan>, Vxlan::size) || !c.take(info<Vxlan>, Vxlan::size)) return done;
  return {decode_ethernet};
}

Step decode_gre(Cursor& c) {
  if (!c.need(info<Gre>, Gre::size)) return done;
  const View<Gre> gre(c.here());
  const bool sequence = gre.get<"sequence_present">();
  const std::uint16_t protocol = gre.get<"protocol">();
  if (gre.get<"version">() != 0 || gre.get<"routing_present">()) {
    c.stack.report({ParseError::Kind::unknown, &info<Gre>, c.at, 0, 0, "unsupported GRE version or routing"});
    if (c.take(info<Gre>, Gre::size)) c.payload();
    return done;
  }
  const std::uint32_t bytes = Gre::size + 4U * (gre.get<"checksum_present">() + gre.get<"key_present">() + sequence);
  if (!c.need(info<Gre>, bytes) || !c.take(info<Gre>, bytes)) return done;
  switch (protocol) {
    // Without a sequence number, this is ERSPAN type I, which has no ERSPAN header: the frame follows directly.
    case ethertype::erspan2: return {sequence ? decode_erspan2 : decode_ethernet};
    case ethertype::erspan3: return {decode_erspan3};
    default: return step_for_ethertype(protocol);
  }
}

void Vxlan::fill(FrameLayout& frame, std::size_t index) { frame.at(index).fill("flags", 0x08); }

void Erspan2::fill(FrameLayout& frame, std::size_t index) { frame.at(index).fill("version", 1); }
void Erspan3::fill(FrameLayout& frame, std::size_t index) {
  frame.at(index).fill("version", 2);
  frame.at(index).fill("platform_present", !frame.at(index).tail().empty());
}

void Gre::fill(FrameLayout& frame, std::size_t index) {
  HeaderValue& gre = frame.at(index);
  const HeaderInfo* next = frame.next(index);
  if (!next) return;
  if (next == &info<Erspan2>) {
    gre.fill("protocol", ethertype::erspan2);
    if (gre.tail().size() == 4) gre.fill("sequence_present", 1);
  } else if (next == &info<Erspan3>) {
    gre.fill("protocol", ethertype::erspan3);
  } else {
    gre.fill("protocol", ethertype_of(*next));
  }
}

}  // namespace rdmawire
