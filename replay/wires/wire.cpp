#include "replay/wires/wire.hpp"

#include <chrono>

namespace rdmawire::replay {

namespace {

std::int64_t since_1970() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}
std::int64_t steady() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::int64_t Wire::now() const {
  static const std::int64_t offset = since_1970() - steady();
  return offset + steady();
}

WireResult<void> Wire::send(Bytes frame) {
  const Outgoing outgoing{frame, 0};
  const auto sent = send(std::span(&outgoing, 1));
  if (!sent) return tl::unexpected(sent.error());
  if (*sent == 0) return tl::unexpected(WireError{WireError::Kind::full, 0, name() + ": its queue is full"});
  return {};
}

}  // namespace rdmawire::replay
