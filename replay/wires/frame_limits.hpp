#pragma once
/// Maximum frame length that depends on the frame.

#include <cstddef>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::replay {

/// A wire whose maximum length is larger for frames with a VLAN tag. WireCapabilities::max_bytes includes the tag.
class FrameLimits {
 public:
  virtual ~FrameLimits() = default;
  [[nodiscard]] virtual std::size_t max_bytes_of(Bytes frame) const = 0;
};

}  // namespace rdmawire::replay
