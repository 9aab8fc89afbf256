// Fuzz target: key files, and bytes from an unauthenticated peer, received by either side of TLS.

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "replay/peer/tls.hpp"

using namespace rdmawire::peer;

namespace {

std::shared_ptr<const TlsContext> context_of(TlsContext::Side side) {
  Key key;
  key.id = "fuzz";
  auto context = TlsContext::make(side, {key});
  if (!context) std::abort();
  return *context;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto agent = context_of(TlsContext::Side::agent), controller = context_of(TlsContext::Side::controller);
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto keys = parse_keys(bytes);
  if (keys ? keys->empty() : keys.error().empty()) std::abort();

  const std::size_t piece = data[0] / 2 + 1;
  TlsChannel channel((data[0] & 1) != 0 ? agent : controller);
  std::string text;
  while (!bytes.empty()) {
    const std::size_t taken = std::min(piece, bytes.size());
    if (!channel.receive(bytes.substr(0, taken), text)) {
      if (channel.error().empty()) std::abort();
      break;
    }
    bytes.remove_prefix(taken);
    (void)channel.take_output();
  }
  // The proof of a key depends on random numbers of this channel, so no input contains a valid one.
  if (channel.established() || !text.empty()) std::abort();
  return 0;
}
