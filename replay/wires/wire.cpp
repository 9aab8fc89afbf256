#include "replay/wires/wire.hpp"

#include <algorithm>

#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/packet.hpp"
#include "replay/wires/sending.hpp"
#include "replay/wires/spec.hpp"
#include "replay/wires/unix.hpp"

namespace rdmawire::replay {

std::int64_t Wire::now() const { return wire_clock::now(); }

WireResult<bool> Wire::writable(std::int64_t /*deadline*/) { return true; }

WireResult<void> Wire::send(Bytes frame) {
  const Outgoing outgoing{frame, 0};
  const auto sent = send(std::span(&outgoing, 1));
  if (!sent) return tl::unexpected(sent.error());
  if (*sent == 0) return tl::unexpected(WireError{WireError::Kind::full, 0, name() + ": its queue is full"});
  return {};
}

WireResult<std::size_t> send_all(Wire& wire, std::span<const Outgoing> frames, std::int64_t deadline) {
  std::size_t sent = 0;
  while (sent < frames.size()) {
    const auto taken = wire.send(frames.subspan(sent));
    if (!taken && taken.error().kind != WireError::Kind::full) {
      if (sent == 0) return taken;
      return sent;
    }
    sent += taken.value_or(0);
    if (sent == frames.size()) break;
    const auto room = wire.writable(deadline);
    if (!room && sent == 0) return tl::unexpected(room.error());
    if (!room || !*room) break;
  }
  return sent;
}

WireResult<std::unique_ptr<Wire>> open_wire(const std::string& name) {
  auto spec = WireSpec::parse(name);
  if (!spec) return tl::unexpected(spec.error());
  if (spec->kind == "unix") return open_unix_wire(*spec);
  if (spec->kind == "packet") return open_packet_wire(*spec);
  return tl::unexpected(specification_error(
      name, fmt::format("there is no kind \"{}\"; there are unix:PATH and packet:INTERFACE", spec->kind)));
}

}  // namespace rdmawire::replay
