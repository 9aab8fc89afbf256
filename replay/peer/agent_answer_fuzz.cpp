// Fuzz target: messages of an agent, received in pieces. Results and events are read as those of several commands.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "replay/peer/message.hpp"
#include "replay/rpc/completion_commands.hpp"
#include "replay/rpc/device_commands.hpp"
#include "replay/rpc/events.hpp"
#include "replay/rpc/memory_commands.hpp"
#include "replay/rpc/queue_pair_commands.hpp"

using namespace rdmawire::peer;
namespace rpc = rdmawire::rpc;

namespace {

/// Reads a result. A valid one is written, and read again without loss.
template <class Command>
void read_as(const nlohmann::json& object) {
  const auto result = rpc::read_result<Command>(object);
  if (!result) {
    if (result.error().empty()) std::abort();
    return;
  }
  const rpc::Json written = rpc::result_of<Command>(*result);
  const auto copy = rpc::read_result<Command>(written);
  if (!copy || rpc::result_of<Command>(*copy) != written) std::abort();
}

void read_result(const nlohmann::json& object) {
  read_as<rpc::Describe>(object);
  read_as<rpc::Devices>(object);
  read_as<rpc::QueryQp>(object);
  read_as<rpc::Poll>(object);
  read_as<rpc::Register>(object);
  read_as<rpc::Read>(object);
}

}  // namespace

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
      if (const auto* event = std::get_if<Event>(&*message)) {
        if (event->body.at("event") != event->name) std::abort();
        (void)rpc::read_event<rpc::CmEvent>(event->body);
        (void)rpc::read_event<rpc::AsyncEvent>(event->body);
      } else if (const auto& result = std::get<Answer>(*message).result) {
        read_result(*result);
      }
    }
  }
  return 0;
}
