#pragma once
/// The files of cases: a function each, a file for a section of the specification.

#include <span>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

std::span<const Case> headers_ip_cases();
std::span<const Case> headers_lengths_cases();
std::span<const Case> headers_bth_cases();
std::span<const Case> headers_addresses_cases();
std::span<const Case> headers_wire_cases();
std::span<const Case> rc_responder_psn_cases();
std::span<const Case> rc_responder_acknowledge_cases();
std::span<const Case> rc_responder_duplicates_cases();
std::span<const Case> rc_responder_sequence_cases();
std::span<const Case> rc_responder_lengths_cases();
std::span<const Case> rc_responder_keys_cases();
std::span<const Case> rc_responder_rnr_cases();
std::span<const Case> rc_responder_atomics_cases();
std::span<const Case> rc_responder_reads_cases();
std::span<const Case> rc_responder_events_cases();
std::span<const Case> rc_responder_extensions_cases();
std::span<const Case> rc_requester_psn_cases();
std::span<const Case> rc_requester_acknowledge_cases();
std::span<const Case> rc_requester_reads_cases();
std::span<const Case> rc_requester_retry_cases();
std::span<const Case> rc_requester_rnr_cases();
std::span<const Case> rc_requester_errors_cases();
std::span<const Case> uc_cases();
std::span<const Case> ud_cases();
std::span<const Case> xrc_cases();
std::span<const Case> congestion_cases();
std::span<const Case> queue_pair_states_cases();
std::span<const Case> queue_pair_memory_cases();
std::span<const Case> port_counters_cases();
std::span<const Case> connection_manager_messages_cases();
std::span<const Case> connection_manager_timeouts_cases();

namespace iwarp {
std::span<const Case> ddp_untagged_cases();
std::span<const Case> ddp_tagged_cases();
std::span<const Case> ddp_source_cases();
std::span<const Case> ddp_close_cases();
std::span<const Case> rdmap_operations_cases();
std::span<const Case> rdmap_reads_cases();
std::span<const Case> rdmap_invalidate_cases();
std::span<const Case> rdmap_stream_cases();
std::span<const Case> rdmap_access_cases();
std::span<const Case> terminate_cases();
std::span<const Case> rdmap_immediate_cases();
std::span<const Case> rdmap_atomics_cases();
std::span<const Case> mpa_request_cases();
std::span<const Case> mpa_reply_cases();
std::span<const Case> mpa_negotiation_cases();
std::span<const Case> mpa_enhanced_cases();
std::span<const Case> fpdu_framing_cases();
std::span<const Case> fpdu_crc_cases();
std::span<const Case> fpdu_markers_cases();
}  // namespace iwarp

}  // namespace rdmawire::conformance
