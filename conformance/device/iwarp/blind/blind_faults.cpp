#include "conformance/device/iwarp/blind/blind_faults.hpp"

namespace rdmawire::endpoint {

std::span<const IwarpBlindFault* const> blind_faults() {
  static const std::span<const IwarpBlindFault> parts[] = {mpa_blind_faults(), ddp_blind_faults(),
                                                           rdmap_blind_faults()};
  static const auto all = device::all_of<Decisions>(parts);
  return all;
}

const IwarpBlindFault* find_blind_fault(std::string_view name) {
  return device::find_in<Decisions>(blind_faults(), name);
}

}  // namespace rdmawire::endpoint
