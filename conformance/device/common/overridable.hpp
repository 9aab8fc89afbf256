#pragma once
/// Decisions of the reference devices, and faults that override them.
///
/// A device makes each decision through a small named function. A fault replaces the function in a file of its own, so
/// that the device reads like the specification.

#include <cstddef>
#include <utility>
#include <vector>

namespace rdmawire::device {

template <class Signature>
class Overridable;

/// A decision of the reference device: the conforming function, and the overrides of injected faults.
template <class Result, class... Arguments>
class Overridable<Result(Arguments...)> {
 public:
  using Conforming = Result (*)(Arguments...);

  /// Passed to an override: the decision as it is without this override. An override that changes only some cases calls
  /// it for the others.
  class Next {
   public:
    Next(const Overridable& decision, std::size_t overrides) : decision_(decision), overrides_(overrides) {}
    Result operator()(Arguments... arguments) const {
      return decision_.call(overrides_, std::forward<Arguments>(arguments)...);
    }

   private:
    const Overridable& decision_;
    std::size_t overrides_;  ///< number of overrides that are still to be called
  };

  using Override = Result (*)(const Next& next, Arguments...);

  /// Not explicit, so that a structure of decisions can use each conforming function as the member's initial value.
  constexpr Overridable(Conforming conforming) : conforming_(conforming) {}  // NOLINT(google-explicit-constructor)

  /// Add an override. The last one added is called first.
  void override_with(Override function) { overrides_.push_back(function); }

  Result operator()(Arguments... arguments) const {
    return call(overrides_.size(), std::forward<Arguments>(arguments)...);
  }

 private:
  Result call(std::size_t overrides, Arguments... arguments) const {
    if (overrides == 0) return conforming_(std::forward<Arguments>(arguments)...);
    return overrides_[overrides - 1](Next(*this, overrides - 1), std::forward<Arguments>(arguments)...);
  }

  Conforming conforming_;
  std::vector<Override> overrides_;
};

}  // namespace rdmawire::device
