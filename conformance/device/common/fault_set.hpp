#pragma once
/// A set of injected faults.

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace rdmawire::device {

/// A set of faults. `Count`: number of all faults.
template <class Fault, std::size_t Count>
class FaultSet {
 public:
  [[nodiscard]] bool operator[](Fault fault) const { return any_ && on_[static_cast<std::size_t>(fault)]; }
  void set(Fault fault, bool on = true) {
    on_[static_cast<std::size_t>(fault)] = on;
    any_ = on_.any();
  }
  void clear() {
    on_.reset();
    any_ = false;
  }
  [[nodiscard]] bool any() const { return any_; }

 private:
  std::bitset<Count> on_;
  bool any_ = false;
};

}  // namespace rdmawire::device
