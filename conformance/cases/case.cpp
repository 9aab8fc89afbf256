#include "conformance/cases/case.hpp"

#include <vector>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance {

std::span<const Case> cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (const auto file :
         {rc_responder_psn_cases, rc_requester_psn_cases, rc_requester_acknowledge_cases, rc_requester_reads_cases,
          rc_requester_retry_cases, rc_requester_rnr_cases, rc_requester_errors_cases, uc_cases, ud_cases, xrc_cases,
          congestion_cases, queue_pair_states_cases, queue_pair_memory_cases}) {
      const std::span<const Case> more = file();
      list.insert(list.end(), more.begin(), more.end());
    }
    return list;
  }();
  return all;
}

}  // namespace rdmawire::conformance
