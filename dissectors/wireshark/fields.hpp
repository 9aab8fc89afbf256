// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// All fields that the plugin registers: those of the header tables, and those of the analysis, one row each.

#include <vector>

#include "conformance/rules/rules.hpp"
#include "dissectors/protocol/header.hpp"
#include "dissectors/tracking/event.hpp"
#include "dissectors/wireshark/compat.hpp"

namespace rdmawire::wireshark {

/// Returns the number of an enumerator.
constexpr std::size_t index(auto value) { return static_cast<std::size_t>(value); }

/// A registered header table.
struct HeaderFields {
  int header = unregistered;  ///< the header: "rdmawire.bth"
  int tail = unregistered;    ///< field of the variable part
  int tree = -1;
  std::vector<int> fields;  ///< in table order
  std::vector<int> whole;   ///< for a part the index of the field that contains it (else -1)
};
const HeaderFields& fields_of(const HeaderInfo& header);

/// Fields that are not in a header table.
enum class Own : std::uint8_t {
  wire,
  payload,
  payload_length,
  pad,
  icrc,
  icrc_status,
  icrc_computed,
  icrc_source_port,
  vcrc,
  vcrc_status,
  vcrc_computed,
  pdu,
  pdu_offset,
  pdu_length,
  pdu_reassembled,
  pdu_markers,
  pdu_wrong_marker,
  crc,
  crc_status,
  crc_computed,
  upper,
  upper_reason,
  upper_frame,
  note,
  finding,
  finding_kind,
  finding_offset,
  stream,
  time_delta,
  time_relative,
  completeness,
  completeness_text,
  analysis,
  flags,
  connection,
  service,
  paired_by,
  mtu,
  opened_in,
  open_time,
  closed_in,
  sender,
  from,
  to,
  endpoint,
  own_qp,
  peer_qp,
  either_qp,
  relative_psn,
  outstanding,
  outstanding_bytes,
  acknowledges,
  completes,
  duplicate_acknowledgement,
  duplicate_number,
  repeated_response,
  unseen_request,
  reads,
  reads_allowed,
  credits,
  again,
  retransmitted_in,
  first_sent_in,
  first_sent_ago,
  answers_frame,
  answers_after,
  round,
  round_frame,
  round_last_frame,
  round_origin_frame,
  round_packets,
  round_bytes,
  round_cause,
  round_cause_frame,
  round_reaction,
  round_cost,
  mrc_connection,
  mrc_retransmission,
  mrc_out_of_order,
  mrc_path_state,
  mrc_path_state_frame,
  rnr_timer,
  rnr_wait,
  rnr_early,
  msn_expected,
  msn_found,
  cnp_flow,
  cnp_ce_frame,
  cnp_latency,
  cnp_marked,
  cnp_before,
  cnp_interval,
  cnp_rate_before,
  cnp_rate_after,
  ce_notified_in,
  message,
  message_of,
  message_operation,
  message_outcome,
  message_size,
  message_packets,
  message_repeated,
  message_key,
  message_address,
  message_first_psn,
  message_last_psn,
  request_in,
  request_ends_in,
  response_in,
  acknowledged_in,
  response_time,
  acknowledgement_time,
  request_time,
  ended,
  event,
  event_kind,
  event_severity,
  event_cause,
  event_end,
  event_connection,
  event_frame,
  event_last_frame,
  event_origin_frame,
  event_cause_frame,
  event_duration,
  event_packets,
  event_bytes,
  event_psn,
  event_value,
  event_found,
  violation,
  violation_rule,
  violation_alias,
  violation_level,
  violation_clause,
  violation_expected,
  violation_actual,
  violation_count,
  violation_last_frame,
  violation_related,
  violation_known,
  reassembled_in,
  reassembled_length,
  reassembled_data,
  segment,
  count_
};
/// Returns the registered number of a field.
int field_id(Own field);

/// Subtrees other than headers.
enum class Subtree : std::uint8_t { root, crc, pdu, analysis, message, event, violation, finding, count_ };
int subtree_id(Subtree subtree);

/// Expert items of events.
expert_field& expert_of(tracking::EventKind kind);
expert_field& expert_of(const conformance::Rule& rule);
/// The item of a harmless deviation of a known stack.
expert_field& known_deviation();
/// Expert items of errors found while decoding a packet.
expert_field& expert_of(ParseError::Kind kind);

/// Registers all fields for the protocol. Called once.
void register_fields(int proto);

}  // namespace rdmawire::wireshark
