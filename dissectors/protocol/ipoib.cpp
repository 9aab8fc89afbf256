#include "dissectors/protocol/ipoib.hpp"

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {

Step decode_ipoib(Cursor& c) {
  if (!c.need(info<Ipoib>, Ipoib::size)) return done;
  const auto type = View<Ipoib>(c.here()).get<"type">();
  if (!c.take(info<Ipoib>, Ipoib::size)) return done;
  return step_for_ethertype(type);
}

void Ipoib::fill(FrameLayout& frame, std::size_t index) {
  const HeaderInfo* next = frame.next(index);
  if (const std::uint16_t type = next ? ethertype_of(*next) : 0) frame.at(index).fill("type", type);
}

}  // namespace rdmawire
