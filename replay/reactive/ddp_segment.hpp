#pragma once
/// A DDP segment and its RDMAP header.

#include <cstdint>
#include <optional>

#include "dissectors/protocol/rdmap.hpp"
#include "replay/reactive/exchange.hpp"

namespace rdmawire::replay::reactive {

/// `payload` points into the ULPDU, which must outlive the segment.
struct DdpSegment {
  RdmapOperation operation = RdmapOperation::send;
  bool tagged = false, last = false;
  std::uint32_t stag = 0;                        ///< tagged: STag of the sink. Untagged: STag to invalidate
  std::uint64_t to = 0;                          ///< tagged
  std::uint32_t queue = 0, msn = 0, offset = 0;  ///< untagged
  Bytes payload{};                               ///< after the DDP and RDMAP headers
  // Read Request only:
  std::uint32_t sink_stag = 0, source_stag = 0, size = 0;
  std::uint64_t sink_to = 0, source_to = 0;
  // Terminate only:
  std::uint8_t layer = 0, type = 0, code = 0;

  /// Returns nullopt if the segment is too short for its headers or has an unknown opcode.
  static std::optional<DdpSegment> of(Bytes ulpdu);
};

/// "RDMA Write, 1408 bytes to STag 0x1, TO 0x10", "Terminate, layer 1, type 2, code 0x3"
std::string words_of(const DdpSegment& segment);

/// Sets the STag and the tagged offset of a tagged segment, in place.
void aim(MutableBytes ulpdu, std::uint32_t stag, std::uint64_t to);

/// Message kind of a segment. nullopt for a response.
std::optional<tracking::MessageKind> kind_of(const DdpSegment& segment);

}  // namespace rdmawire::replay::reactive
