#include "conformance/cases/case.hpp"

#include <vector>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance {

std::span<const Case> cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (const auto file : {rc_responder_psn_cases, rc_responder_acknowledge_cases, rc_responder_duplicates_cases, rc_responder_sequence_cases, rc_responder_lengths_cases, rc_responder_keys_cases}) {
      const std::span<const Case> more = file();
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }();
  return all;
}

}  // namespace rdmawire::conformance
