#include "dissectors/protocol/ipoib.hpp"

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {

Step decode_ipoib(Cursor& c) {
  if (!c.need(info<Ipoib>, Ipoib::size)) return done;
  const auto type = View<Ipoib>(c.here()).get<"type">();
  if (!c.take(info<Ipoib>, Ipoib::size)) return done;
  return step_for_ethertype(type);
}

void Ipoib::fill(FrameLayout& frame, std::size_t index) { announce_ethertype(frame, index, "type"); }

}  // namespace rdmawire
