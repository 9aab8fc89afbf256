#include "dissectors/protocol/mac_control.hpp"

#include "dissectors/protocol/encode.hpp"

namespace rdmawire {

Step decode_mac_control(Cursor& c) {
  if (!c.need(info<MacControl>, MacControl::size)) return done;
  const auto opcode = View<MacControl>(c.here()).get<"opcode">();
  if (!c.take(info<MacControl>, MacControl::size)) return done;
  const HeaderInfo* pause = nullptr;
  if (opcode == mac_control_opcode::pause) pause = &info<Pause>;
  if (opcode == mac_control_opcode::priority_pause) pause = &info<PriorityPause>;
  if (pause && (!c.need(*pause, pause->size) || !c.take(*pause, pause->size))) return done;
  c.payload();
  return done;
}

void MacControl::fill(FrameLayout& frame, std::size_t index) {
  const HeaderInfo* next = frame.next(index);
  if (next == &info<Pause>) frame.at(index).fill("opcode", mac_control_opcode::pause);
  if (next == &info<PriorityPause>) frame.at(index).fill("opcode", mac_control_opcode::priority_pause);
}

}  // namespace rdmawire
