#include "conformance/cases/case.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <vector>

#include "conformance/cases/files.hpp"
#include "conformance/cases/remove_case.hpp"

namespace rdmawire::conformance {
namespace {

// clang-format off
constexpr std::span<const Case> (*files[])() = {
    headers_ip_cases::all,
    headers_lengths_cases::all,
    headers_bth_cases::all,
    headers_addresses_cases::all,
    headers_wire_cases::all,
    rc_responder_psn_cases::all,
    rc_responder_acknowledge_cases::all,
    rc_responder_duplicates_cases::all,
    rc_responder_sequence_cases::all,
    rc_responder_lengths_cases::all,
    rc_responder_keys_cases::all,
    rc_responder_rnr_cases::all,
    rc_responder_atomics_cases::all,
    rc_responder_reads_cases::all,
    rc_responder_events_cases::all,
    rc_responder_extensions_cases::all,
    rc_requester_psn_cases::all,
    rc_requester_acknowledge_cases::all,
    rc_requester_reads_cases::all,
    rc_requester_retry_cases::all,
    rc_requester_rnr_cases::all,
    rc_requester_errors_cases::all,
    transfers_cases::all,
    uc_cases::all,
    ud_cases::all,
    xrc_cases::all,
    congestion_cases::all,
    queue_pair_states_cases::all,
    port_counters_cases::all,
    connection_manager_messages_cases::all,
    connection_manager_timeouts_cases::all,
    queue_pair_memory_cases::all,
    iwarp::mpa_request_cases::all,
    iwarp::mpa_reply_cases::all,
    iwarp::mpa_negotiation_cases::all,
    iwarp::mpa_enhanced_cases::all,
    iwarp::fpdu_framing_cases::all,
    iwarp::fpdu_crc_cases::all,
    iwarp::fpdu_markers_cases::all,
    iwarp::ddp_untagged_cases::all,
    iwarp::ddp_tagged_cases::all,
    iwarp::ddp_source_cases::all,
    iwarp::ddp_close_cases::all,
    iwarp::rdmap_operations_cases::all,
    iwarp::rdmap_reads_cases::all,
    iwarp::rdmap_invalidate_cases::all,
    iwarp::rdmap_stream_cases::all,
    iwarp::rdmap_access_cases::all,
    iwarp::terminate_cases::all,
    iwarp::rdmap_immediate_cases::all,
    iwarp::rdmap_atomics_cases::all,
};
// clang-format on

/// Cases added by programs. Their addresses are stable.
struct Added {
  std::mutex mutex;
  std::deque<Case> list;
  std::set<const Case*> removed;

  /// Returns the case with this id that is not removed, or nullptr. Requires the lock.
  const Case* find(std::string_view id) const {
    for (const Case& one : list)
      if (one.id() == id && !removed.contains(&one)) return &one;
    return nullptr;
  }
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
    // Run dangerous cases last.
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
  for (const Case& one : added().list)
    if (!added().removed.contains(&one)) all.push_back(&one);
  return all;
}

bool remove_case(std::string_view id) {
  const std::lock_guard lock(added().mutex);
  const Case* const found = added().find(id);
  if (found) added().removed.insert(found);
  return found != nullptr;
}

const Case* find_case(std::string_view id) {
  const auto is_it = [&](const Case& one) { return one.id() == id; };
  const auto ours = cases();
  if (const auto found = std::find_if(ours.begin(), ours.end(), is_it); found != ours.end()) return &*found;
  const std::lock_guard lock(added().mutex);
  return added().find(id);
}

}  // namespace rdmawire::conformance
