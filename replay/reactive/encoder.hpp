#pragma once
/// Builds frames to send: captured packets rewritten for the live peer, and packets that are not in the capture.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "replay/reactive/exchange.hpp"
#include "replay/reactive/machine.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay::reactive {

class Encoder {
 public:
  /// `exchange` must outlive the object. Connection 0 of `map` is the connection of `exchange`. The flow map must not
  /// contain MSNs, because the state machine sets them.
  Encoder(const Exchange& exchange, FlowMap map);

  /// Returns the frame, or the reason why it cannot be built. Each frame, including retransmissions, has the next IPv4
  /// identification, unless the captured identifications are constant.
  tl::expected<ByteVector, std::string> encode(const OutgoingPacket& next_packet);

 private:
  [[nodiscard]] ByteVector captured_form(const OutgoingPacket& next_packet) const;

  const Exchange& exchange_;
  Rewriter rewriter_;
  std::optional<std::uint16_t> next_identification_;
};

}  // namespace rdmawire::replay::reactive
