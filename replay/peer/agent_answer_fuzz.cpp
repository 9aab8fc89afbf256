// Fuzz target: messages of an agent, received in pieces.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "replay/peer/message.hpp"

using namespace rdmawire::peer;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] % 64 + 1;
  std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  LineBuffer lines;
  while (!bytes.empty()) {
    const std::size_t taken = std::min(piece, bytes.size());
    if (lines.append(bytes.substr(0, taken)) != LineBuffer::State::ok) return 0;
    bytes.remove_prefix(taken);
    while (const auto line = lines.next()) {
      const auto message = parse_message(*line);
      if (!message) {
        if (message.error().empty()) std::abort();
        continue;
      }
      if (const auto* event = std::get_if<Event>(&*message); event != nullptr && event->body.at("event") != event->name)
        std::abort();
    }
  }
  return 0;
}
