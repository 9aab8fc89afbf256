#pragma once
/// A DDP segment with what RDMAP says in it, as the two ends of a stream exchange them.

#include <cstdint>
#include <optional>

#include "dissectors/protocol/rdmap.hpp"
#include "replay/reactive/exchange.hpp"

namespace rdmawire::replay::reactive {

/// Views into the ULPDU that it was read from.
struct DdpSegment {
  RdmapOperation operation = RdmapOperation::send;
  bool tagged = false, last = false;
  std::uint32_t stag = 0;                        ///< tagged: of the sink; untagged: to be invalidated
  std::uint64_t to = 0;                          ///< tagged
  std::uint32_t queue = 0, msn = 0, offset = 0;  ///< untagged
  Bytes payload{};                               ///< behind DDP's and RDMAP's headers
  // Of a Read Request:
  std::uint32_t sink_stag = 0, source_stag = 0, size = 0;
  std::uint64_t sink_to = 0, source_to = 0;
  // Of a Terminate:
  std::uint8_t layer = 0, type = 0, code = 0;

  /// Nothing: it is too short for its headers, or its opcode is unknown.
  static std::optional<DdpSegment> of(Bytes ulpdu);
};

/// "RDMA Write, 1408 bytes to STag 0x1, TO 0x10", "Terminate, layer 1, type 2, code 0x3"
std::string words_of(const DdpSegment& segment);

/// Lets a tagged segment name another buffer, in place.
void aim(MutableBytes ulpdu, std::uint32_t stag, std::uint64_t to);

/// The kind of message that a segment is of; nothing: of a response.
std::optional<tracking::MessageKind> kind_of(const DdpSegment& segment);

}  // namespace rdmawire::replay::reactive
