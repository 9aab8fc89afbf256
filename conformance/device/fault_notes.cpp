#include "conformance/device/fault_notes.hpp"

#include <algorithm>

namespace rdmawire::device {

namespace {

using enum Fault;

constexpr FaultNotes rows[] = {
    {never_notifies, "a device without congestion management sends no CNP either"},
};

}  // namespace

const FaultNotes& notes_of(Fault fault) {
  static constexpr FaultNotes nothing{};
  const auto* const found =
      std::find_if(std::begin(rows), std::end(rows), [&](const FaultNotes& row) { return row.fault == fault; });
  return found == std::end(rows) ? nothing : *found;
}

}  // namespace rdmawire::device
