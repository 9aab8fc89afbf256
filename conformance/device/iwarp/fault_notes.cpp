#include "conformance/device/iwarp/fault_notes.hpp"

#include <algorithm>
#include <span>

namespace rdmawire::endpoint {
namespace {

struct Note {
  Fault fault;
  std::string_view text;
};

std::string_view text_of(std::span<const Note> notes, Fault fault) {
  const auto found = std::find_if(notes.begin(), notes.end(), [&](const Note& note) { return note.fault == fault; });
  return found == notes.end() ? std::string_view() : found->text;
}

using enum Fault;

constexpr Note reasons[] = {
    {sends_no_rtr, "the initiator sends nothing while its application posts nothing"},
    {solicited_as_plain, "packets do not show which kind of Send the application posted"},
    {plain_as_solicited, "packets do not show which kind of Send the application posted"},
    {replies_lower_ord, "the monitor checks only the ORD of a reply"},
};

constexpr Note relations[] = {
    {needs_setup_in_one_piece, "MPA-014"},
    {replies_with_request_key, "*"},
    {accepts_any_key, "MPA-004"},
    {waits_forever_for_request, "MPA-007"},
    {refuses_revision_1, "*"},
    {accepts_any_revision, "MPA-027 MPA-037"},
    {accepts_long_private_data, "MPA-014"},
    {does_not_wait_for_private_data, "MPA-006 MPA-007 MPA-013"},
    {rejects_by_closing, "MPA-002 MPA-024"},
    {checks_crcs_unasked, "FPD-001 FPD-006 FPD-007 FPD-014 MPA-021"},
    {refuses_markers, "FPD-003 FPD-011 FPD-012 FPD-014 FPD-015 FPD-016 FPD-017 FPD-020 MPA-022 MPA-037"},
    {sends_markers_unasked, "*"},
    {replies_unenhanced, "MPA-028 MPA-029 MPA-031 MPA-032 MPA-036"},
    {replies_enhanced_unasked, "MPA-008 MPA-037"},
    {takes_enhanced_for_plain, "MPA-037"},
    {ord_above_ird, "MPA-029 RDM-018"},
    {sends_no_rtr, "MPA-035"},
    {nonzero_pad, "FPD-003"},
    {wrong_crc, "*"},
    {ignores_crc, "FPD-005 FPD-021 MPA-018 TRM-001 TRM-011"},
    {wants_zero_crc, "MPA-017"},
    {needs_whole_fpdus, "EXT-005 RDM-021"},
    {long_ulpdus, "DDP-010 FPD-012"},
    {two_ulpdus_an_fpdu,
     "DDP-001 DDP-006 DDP-007 DDP-008 DDP-010 DDP-024 DDP-027 EXT-015 FPD-011 FPD-012 FPD-015 "
     "RDM-004 RDM-016 RDM-019 TRM-006"},
    {no_first_marker,
     "DDP-007 DDP-010 FPD-003 FPD-011 FPD-012 FPD-015 FPD-016 FPD-017 FPD-020 MPA-018 MPA-020 "
     "MPA-022 MPA-037"},
    {marker_points_wrong, "FPD-003 FPD-014 FPD-016 FPD-017 FPD-020"},
    {markers_point_to_markers, "FPD-015 FPD-020"},
    {first_marker_uncovered,
     "DDP-007 DDP-010 FPD-003 FPD-011 FPD-012 FPD-014 FPD-015 FPD-016 FPD-020 MPA-020 MPA-022 MPA-037"},
    {ignores_marker_values, "FPD-021"},
    {markers_both_ways,
     "DDP-007 DDP-010 FPD-003 FPD-004 FPD-011 FPD-012 FPD-014 FPD-015 FPD-016 FPD-017 FPD-018 "
     "FPD-021 MPA-020 MPA-022"},
    {resets_for_crc_error, "FPD-004 FPD-018 MPA-030 MPA-034 MPA-035 TRM-001 TRM-011"},
    {sends_reserved_ddp_bits, "FPD-003 FPD-014 FPD-017"},
    {changes_version, "DDP-001 FPD-003 FPD-017"},
    {last_flag_everywhere, "DDP-024 EXT-015 FPD-012 FPD-015 RDM-004 RDM-019"},
    {to_stands, "DDP-027 RDM-004 RDM-016"},
    {msn_from_zero, "*"},
    {segments_beyond_mulpdu, "FPD-011 FPD-012"},
    {empty_message_twice, "MPA-031 MPA-033 MPA-035 RDM-014 RDM-028"},
    {checks_empty_stags, "*"},
    {silent_invalid_stag, "DDP-023 RDM-026 RDM-032 RDM-035 TRM-002 TRM-010 TRM-012"},
    {ignores_domains, "RDM-015"},
    {bounds_off_by_one, "RDM-015"},
    {silent_invalid_queue, "DDP-001 DDP-023 RDM-011 RDM-030 RDM-032 TRM-002 TRM-013"},
    {silent_missing_buffer, "EXT-004"},
    {accepts_any_msn, "RDM-005 RDM-006 RDM-032 TRM-001 TRM-002 TRM-003 TRM-005 TRM-010 TRM-014 TRM-016 TRM-018"},
    {ignores_mo, "DDP-025 RDM-012"},
    {sends_newest_first, "EXT-015 RDM-018"},
    {delivers_at_last_flag, "DDP-020 RDM-012"},
    {write_without_end, "DDP-006 DDP-007 DDP-011 DDP-024 FPD-011 FPD-016"},
    {delivers_writes,
     "DDP-002 DDP-012 DDP-014 DDP-015 DDP-023 DDP-026 DDP-028 FPD-004 FPD-006 FPD-018 RDM-022 "
     "RDM-023 RDM-024 RDM-026 RDM-027 RDM-031 RDM-034 RDM-035"},
    {response_to_source, "EXT-015 EXT-018 RDM-014 RDM-016 TRM-006"},
    {sends_version_0, "EXT-018 FPD-003 FPD-014 FPD-017"},
    {ignores_rdmap_version, "RDM-005 RDM-032 TRM-001 TRM-002 TRM-009"},
    {silent_unknown_opcode, "TRM-002 TRM-009"},
    {checks_empty_reads, "MPA-031"},
    {unspecified_read_errors, "EXT-014 RDM-026 RDM-035 TRM-004 TRM-005 TRM-006 TRM-008"},
    {answers_newest_first, "EXT-015 MPA-029 RDM-014"},
    {exceeds_ord, "EXT-015 MPA-028 MPA-029"},
    {reads_before_writes, "EXT-005 RDM-021"},
    {sends_before_writes, "EXT-005 RDM-019"},
    {trusts_responses, "RDM-023"},
    {invalidates_nothing, "RDM-027"},
    {silent_invalidate_error, "TRM-008"},
    {drops_empty_sends, "DDP-022 DDP-024 RDM-021 RDM-025"},
    {completes_reads_early, "DDP-026 DDP-028 RDM-022 RDM-023 RDM-031"},
    {sends_after_terminate, "*"},
    {forgets_to_flush, "*"},
    {tells_last_error, "DDP-023 TRM-018"},
    {terminate_as_little_endian, "*"},
    {terminate_of_no_table, "*"},
    {terminate_without_read, "RDM-015 TRM-006 TRM-008"},
    {terminate_quotes_zeros, "TRM-003 TRM-004 TRM-006"},
    {protection_without_header, "RDM-015 TRM-004 TRM-005 TRM-006"},
    {operation_quotes_read, "TRM-008"},
    {ddp_error_without_header, "TRM-003 TRM-005"},
    {ignores_rights, "EXT-014 RDM-015"},
    {resets_after_terminate, "*"},
    {terminates_twice, "*"},
    {immediate_of_four_bytes, "EXT-005"},
    {changes_request_id, "EXT-007 EXT-009 EXT-010 EXT-011 EXT-015 EXT-019"},
    {adds_without_carry, "EXT-007 EXT-010 EXT-017"},
    {atomic_error_quotes, "TRM-004"},
    {atomics_write_back_late, "EXT-015"},
    {extensions_of_version_0, "RDM-006"},
    {no_compare_swap, "EXT-011 EXT-013"},
    {bounds_as_invalid_stag, "TRM-001"},
    {replies_lower_ord, "EXT-015 RDM-018"},
    {terminates_anywhere, "*"},
};

}  // namespace

std::string_view unseen_because(Fault fault) { return text_of(reasons, fault); }
std::string_view related_to(Fault fault) { return text_of(relations, fault); }

}  // namespace rdmawire::endpoint
