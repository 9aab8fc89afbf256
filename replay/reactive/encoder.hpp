#pragma once
/// What is to be said, as frames: packets of the capture, changed by the flow map to what the live peer understands;
/// and those that have to be made, in the capture's terms first.

#include <string>
#include <tl/expected.hpp>

#include "replay/reactive/exchange.hpp"
#include "replay/reactive/machine.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay::reactive {

class Encoder {
 public:
  /// `exchange` must outlive it. Connection 0 of the map is the exchange's; MSNs are the machine's own affair.
  Encoder(const Exchange& exchange, FlowMap map);

  /// The frame, or why it cannot be made.
  tl::expected<ByteVector, std::string> encode(const OutgoingPacket& saying) const;

 private:
  [[nodiscard]] ByteVector captured_form(const OutgoingPacket& saying) const;

  const Exchange& exchange_;
  Rewriter rewriter_;
};

}  // namespace rdmawire::replay::reactive
