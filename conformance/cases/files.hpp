#pragma once
/// The files of cases: a function each, a file for a section of the specification.

#include <span>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

std::span<const Case> headers_ip_cases();
std::span<const Case> headers_lengths_cases();
std::span<const Case> headers_bth_cases();
std::span<const Case> headers_addresses_cases();
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

}  // namespace rdmawire::conformance
