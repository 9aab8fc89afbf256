#include "conformance/cases/case.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance {
namespace {

// clang-format off
constexpr std::span<const Case> (*files[])() = {
    headers_ip_cases,
    headers_lengths_cases,
    headers_bth_cases,
    headers_addresses_cases,
    headers_wire_cases,
    rc_responder_psn_cases,
    rc_responder_acknowledge_cases,
    rc_responder_duplicates_cases,
    rc_responder_sequence_cases,
    rc_responder_lengths_cases,
    rc_responder_keys_cases,
    rc_responder_rnr_cases,
    rc_responder_atomics_cases,
    rc_responder_reads_cases,
    rc_responder_events_cases,
    rc_responder_extensions_cases,
    rc_requester_psn_cases,
    rc_requester_acknowledge_cases,
    rc_requester_reads_cases,
    rc_requester_retry_cases,
    rc_requester_rnr_cases,
    rc_requester_errors_cases,
    uc_cases,
    ud_cases,
    xrc_cases,
    congestion_cases,
    queue_pair_states_cases,
    port_counters_cases,
    connection_manager_messages_cases,
    connection_manager_timeouts_cases,
    queue_pair_memory_cases,
    iwarp::mpa_request_cases,
    iwarp::mpa_reply_cases,
    iwarp::mpa_negotiation_cases,
    iwarp::mpa_enhanced_cases,
    iwarp::fpdu_framing_cases,
    iwarp::fpdu_crc_cases,
    iwarp::fpdu_markers_cases,
    iwarp::ddp_untagged_cases,
    iwarp::ddp_tagged_cases,
    iwarp::ddp_source_cases,
    iwarp::ddp_close_cases,
    iwarp::rdmap_operations_cases,
    iwarp::rdmap_reads_cases,
    iwarp::rdmap_invalidate_cases,
    iwarp::rdmap_stream_cases,
    iwarp::rdmap_access_cases,
    iwarp::terminate_cases,
    iwarp::rdmap_immediate_cases,
    iwarp::rdmap_atomics_cases,
};
// clang-format on

/// Those that programs add: each stays where it is.
struct Added {
  std::mutex mutex;
  std::deque<Case> list;
};
Added& added() {
  static Added all;
  return all;
}

}  // namespace

std::string_view to_string(Family family) { return family == Family::iwarp ? "iWARP" : "RoCE"; }

void Script::run(Bench& bench) const {
  static_cast<void>(bench);
  end_case(Verdict::error, "the case has no steps for a device of RoCE");
}
void Script::run_streams(iwarp::IwarpBench& bench) const {
  static_cast<void>(bench);
  end_case(Verdict::error, "the case has no steps for a device of iWARP");
}

std::span<const Case> cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (const auto file : files) {
      const std::span<const Case> more = file();
      list.insert(list.end(), more.begin(), more.end());
    }
    // What may leave a device hanging or deaf comes when all else is known.
    std::stable_partition(list.begin(), list.end(),
                          [](const Case& which) { return which.caution != RunPolicy::dangerous; });
    return list;
  }();
  return all;
}

const Case* add_case(const Case& which) {
  if (find_case(which.id())) return nullptr;
  const std::lock_guard lock(added().mutex);
  return &added().list.emplace_back(which);
}

std::vector<const Case*> added_cases() {
  const std::lock_guard lock(added().mutex);
  std::vector<const Case*> all;
  for (const Case& one : added().list) all.push_back(&one);
  return all;
}

const Case* find_case(std::string_view id) {
  const auto is_it = [&](const Case& one) { return one.id() == id; };
  const auto ours = cases();
  if (const auto found = std::find_if(ours.begin(), ours.end(), is_it); found != ours.end()) return &*found;
  const std::lock_guard lock(added().mutex);
  const auto& list = added().list;
  const auto found = std::find_if(list.begin(), list.end(), is_it);
  return found == list.end() ? nullptr : &*found;
}

}  // namespace rdmawire::conformance
