#pragma once
/// Wires whose unsent frames are not the last accepted ones.

namespace rdmawire::replay {

/// A wire that may send a frame after it lost an earlier one, or that sends frames of different hosts out of order.
class OutOfOrder {
 public:
  virtual ~OutOfOrder() = default;
};

}  // namespace rdmawire::replay
