#include "conformance/device/roce/blind/blind_faults.hpp"

namespace rdmawire::device {

std::span<const RoceBlindFault* const> blind_faults() {
  static const std::span<const RoceBlindFault> parts[] = {responder_blind_faults(), requester_blind_faults(),
                                                          memory_blind_faults(), queue_pair_blind_faults(),
                                                          service_blind_faults()};
  static const auto all = all_of<Decisions>(parts);
  return all;
}

const RoceBlindFault* find_blind_fault(std::string_view name) { return find_in<Decisions>(blind_faults(), name); }

}  // namespace rdmawire::device
