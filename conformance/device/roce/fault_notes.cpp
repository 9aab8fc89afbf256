#include "conformance/device/roce/fault_notes.hpp"

#include <algorithm>
#include <span>

namespace rdmawire::device {

namespace {

using enum Fault;

constexpr std::string_view silence = "a lost or rejected request could explain the missing response";
constexpr std::string_view memory = "packets do not show memory content";
constexpr std::string_view no_roce = "the dissector does not recognize such packets as RoCE";

struct Note {
  Fault fault;
  std::string_view text;
};

constexpr Note reasons[] = {
    {sends_ecn_unasked, "packets do not show whether congestion management is on"},
    {wrong_udp_port, no_roce},
    {extension_headers_reversed, "the headers have the same length in either order"},
    {flush_icrc_twice, silence},
    {never_acknowledges, silence},
    {naks_first_gap_alone, silence},
    {executes_duplicates, memory},
    {ignores_duplicate_reads, silence},
    {atomic_returns_new_value, memory},
    {executes_duplicate_atomic_write, memory},
    {read_takes_one_psn, "a READ inside the PSNs of another READ counts as its retry, REQ-035"},
    {newest_request_first, "packets do not show the order of posting"},
    {skips_missing_reads, silence},
    {slow_timer, "a conforming requester may delay its retransmission"},
    {selective_repeat, "skipped packets may still follow until the next new request is sent"},
    {retries_for_every_nak, "packets do not show which loss caused a NAK"},
    {ignores_response_gap, silence},
    {xrceth_without_number, "packets do not show which SRQ the application specified"},
    {one_read_too_many, "only the CM exchange shows the negotiated number of READs"},
    {reset_keeps_psns, "packets do not show calls of verbs"},
    {never_notifies, "a device without congestion management sends no CNP either"},
    {sends_after_error, "packets do not show calls of verbs"},
    {swaps_unequal, memory},
    {ack_completes_oldest, "packets do not show completions"},
    {wrong_ids_in_cm_messages, "packets do not show the IDs that the application uses"},
};

constexpr Note relations[] = {
    {sends_ip_options, "HDR-004"},
    {sends_ecn_unasked, "CNP-003"},
    {short_total_length, "*"},
    {wrong_ip_protocol, "*"},
    {wrong_source_address, "HDR-007 HDR-011 RSP-009 roce.sender.udp.source-port-dynamic"},
    {short_payload_length, "HDR-015 HDR-022 HDR-027 HDR-037 UD-014"},
    {wrong_udp_port, "*"},
    {short_udp_length, "*"},
    {wrong_pad_count, "HDR-004 HDR-009 HDR-012"},
    {extension_headers_reversed, "REQ-006 RSP-005 RSP-017 RSP-019 RSP-020 RSP-021 RSP-042 XRC-001 XRC-006"},
    {only_ipv4,
     "HDR-002 HDR-003 HDR-006 HDR-008 HDR-009 HDR-012 HDR-015 HDR-022 HDR-027 UD-001 "
     "cm.endpoint.messages.over-the-same-network roce.sender.version.as-gid-type"},
    {marks_own_packets, "CNP-003 HDR-003"},
    {icrc_reserved_unmasked, "*"},
    {flush_icrc_twice, "RSP-065 RSP-066 RSP-067 RSP-068"},
    {accepts_bad_icrc, "CNP-006"},
    {accepts_version_mismatch, "UD-018 roce.sender.version.as-gid-type"},
    {ignores_pkey, "CNP-006 QPS-022"},
    {minds_reserved_bits, "CNP-012 HDR-017"},
    {never_acknowledges, "*"},
    {acknowledges_only_asked, "RSP-005 RSP-011 RSP-049"},
    {acknowledges_twice, "*"},
    {msn_starts_at_one, "*"},
    {msn_counts_packets,
     "RSP-002 RSP-003 RSP-004 RSP-011 RSP-013 RSP-017 RSP-023 RSP-024 RSP-025 RSP-048 RSP-049 "
     "XRC-002"},
    {msn_late_in_read_response, "RSP-005 RSP-007 RSP-014 RSP-017 RSP-032 XRC-002 XRC-006"},
    {msn_counts_duplicates, "RSP-004 RSP-005 RSP-006 RSP-012 RSP-013 RSP-014 RSP-017 RSP-019 RSP-064 RSP-068 XRC-006"},
    {answers_newest_first, "RSP-014 RSP-044 RSP-055 RSP-070"},
    {nak_has_received_psn, "QPS-023 RSP-010 RSP-012 RSP-047 XRC-006"},
    {psn_does_not_wrap, "RSP-009"},
    {acknowledges_duplicates_psn, "RSP-012 RSP-047"},
    {ignores_duplicate_reads, "RSP-007 RSP-016 RSP-017 RSP-070"},
    {executes_duplicate_atomics, "RSP-017 RSP-020 XRC-006"},
    {minds_duplicate_operands, "RSP-019"},
    {accepts_read_in_message, "RSP-023"},
    {accepts_wrong_write_total, "RSP-040"},
    {truncates_long_sends, "RSP-039 RSP-060"},
    {checks_empty_access, "RSP-048"},
    {unknown_key_invalid_request, "QPS-019 RSP-038 RSP-039 RSP-040 RSP-057 RSP-067 RSP-069 XRC-006"},
    {bounds_off_by_one, "QPS-017 RSP-067"},
    {ignores_protection_domains, "XRC-006"},
    {ignores_region_rights, "QPS-017 RSP-066 UC-008"},
    {ignores_queue_pair_rights, "RSP-066"},
    {no_error_completion, "RSP-031 RSP-050 RSP-060"},
    {no_nak_without_receive, "*"},
    {executes_misaligned_atomics, "RSP-040 XRC-006"},
    {atomic_returns_new_value, "HDR-037 RSP-017 RSP-019 RSP-020 RSP-021 XRC-006"},
    {no_rnr_nak, "QPS-023 RSP-009 RSP-046 RSP-047 XRC-003"},
    {rnr_timer_zero, "XRC-004"},
    {rnr_eats_message, "RSP-047 XRC-004"},
    {aeth_in_middle, "RSP-071 XRC-006"},
    {short_read_packets, "*"},
    {acknowledges_before_reads, "RSP-008 RSP-014 XRC-002"},
    {nak_of_atomic_is_atomic,
     "RSP-023 RSP-025 RSP-033 RSP-034 RSP-035 RSP-036 RSP-037 RSP-040 RSP-041 RSP-043 XRC-006"},
    {deaf_until_rts, "QPS-031"},
    {answers_in_error, "HDR-010 QPS-009 QPS-026 RSP-005"},
    {error_uses_all_receives, "RSP-039"},
    {atomic_write_acknowledged, "RSP-064"},
    {flush_acknowledged, "HDR-018 RSP-067 RSP-068"},
    {starts_at_next_psn, "*"},
    {read_takes_one_psn, "REQ-024 REQ-035 REQ-036 REQ-037 REQ-044 XRC-006"},
    {newest_request_first, "*"},
    {half_filled_packets, "*"},
    {sends_giant_messages, "REQ-006"},
    {ack_completes_too_much, "QPS-006 REQ-024"},
    {believes_ghost_naks, "REQ-024"},
    {believes_stale_naks, "REQ-024"},
    {ack_completes_reads, "REQ-013"},
    {wrong_status_of_nak, "REQ-044 XRC-006"},
    {restarts_behind_nak, "REQ-022 REQ-023 REQ-025 REQ-042 REQ-043 XRC-001"},
    {selective_repeat, "REQ-021 REQ-023 REQ-043"},
    {impatient_timer, "QPS-029 REQ-023"},
    {slow_timer, "QPS-029"},
    {never_reloads_retries, "REQ-029"},
    {asks_whole_read_again, "REQ-037 XRC-006"},
    {ignores_response_gap, "XRC-006"},
    {hides_unsignaled_failure, "REQ-039"},
    {retransmits_other_bytes, "REQ-021 REQ-022 REQ-042"},
    {retries_access_errors, "QPS-009 REQ-024"},
    {acknowledges_uc, "UC-002 UC-003 UC-004 UC-005 UC-006 UC-007 UC-010 UC-011"},
    {waits_for_lost_uc, "UC-004 UC-007 UC-011"},
    {drops_uc_restart, "UC-002 UC-006"},
    {keeps_shared_receive, "UC-009"},
    {uc_sends_rnr, "UC-001"},
    {uc_naks_access, "UC-001"},
    {uc_naks_reads, "UC-001"},
    {ignores_qkey, "UD-006"},
    {multicast_to_first_alone, "UD-016"},
    {xrc_target_as_sender, "XRC-002 XRC-003 XRC-004 XRC-005 XRC-006 XRC-007"},
    {never_notifies, "CNP-002 CNP-004 CNP-005"},
    {two_cnps_a_mark, "CNP-013"},
    {ignores_cnp, "CNP-009 CNP-010"},
    {cnp_for_loss, "QPS-023 RSP-009 RSP-010 RSP-012 RSP-047 XRC-006"},
    {any_transition, "XRC-008"},
    {attributes_optional, "XRC-008"},
    {forgets_to_flush, "QPS-009 REQ-020 REQ-039 RSP-022 RSP-039 RSP-059 RSP-060"},
    {sends_while_drained, "QPS-009"},
    {never_notifies_cq, "RSP-051"},
    {windows_grant_their_regions_rights, "RSP-036"},
    {fast_register_does_nothing, "QPS-020"},
    {local_invalidate_does_nothing, "QPS-019 REQ-034"},
    {no_default_pkey, "HDR-031"},
    {receives_in_init, "RSP-059"},
    {rep_names_another, "QPS-025 QPS-026 QPS-029"},
    {cm_psn_unheeded, "QPS-029 REQ-001"},
    {ignores_mra, "QPS-030"},
    {cm_timeout_unheeded, "REQ-024"},
    {short_mads,
     "HDR-031 QPS-024 QPS-025 QPS-026 QPS-027 QPS-028 QPS-029 QPS-030 UD-006 UD-007 "
     "cm.endpoint.messages.over-the-same-network cm.endpoint.reject.no-lid-reasons"},
    {sends_other_pkey, "CNP-002"},
    {only_ipv6, "*"},
    {executes_duplicate_sends, "RSP-012"},
    {solicits_every_message, "QPS-013"},
    {swaps_unequal, "XRC-006"},
    {refuses_last_byte, "RSP-042 RSP-044 RSP-056 RSP-061 RSP-070 RSP-071"},
    {known_key_invalid_request, "QPS-017 QPS-018 QPS-020 REQ-034 RSP-038 RSP-049 RSP-066 RSP-067 RSP-072 XRC-006"},
    {refuses_windows, "QPS-017 QPS-020 REQ-034 RSP-049"},
    {always_roce_v1, "*"},
    {refuses_migrated, "*"},
    {deaf_after_malformed, "HDR-020 HDR-021 HDR-022 HDR-023 UD-007"},
    {writes_use_receives, "RSP-003 RSP-006 RSP-008 RSP-015 RSP-049 RSP-055"},
    {believes_stale_responses, "REQ-024"},
    {ack_completes_oldest, "QPS-011 REQ-001 REQ-021 REQ-038 XRC-001"},
    {fences_everything, "REQ-002 REQ-005 REQ-013 REQ-022 REQ-032"},
    {empty_read_takes_two_psns, "REQ-001"},
};

std::string_view find(std::span<const Note> notes, Fault fault) {
  const auto found = std::ranges::find(notes, fault, &Note::fault);
  return found == notes.end() ? std::string_view{} : found->text;
}

}  // namespace

std::string_view unseen_because(Fault fault) { return find(reasons, fault); }

std::string_view related_to(Fault fault) { return find(relations, fault); }

}  // namespace rdmawire::device
