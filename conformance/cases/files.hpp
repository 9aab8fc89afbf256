#pragma once
/// The files of cases, one for each section of the specification. Each file has a namespace of its own, so that
/// two files can use the same name for a case.

#include <span>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance {

// clang-format off
namespace headers_ip_cases { std::span<const Case> all(); }
namespace headers_lengths_cases { std::span<const Case> all(); }
namespace headers_bth_cases { std::span<const Case> all(); }
namespace headers_addresses_cases { std::span<const Case> all(); }
namespace headers_wire_cases { std::span<const Case> all(); }
namespace rc_responder_psn_cases { std::span<const Case> all(); }
namespace rc_responder_acknowledge_cases { std::span<const Case> all(); }
namespace rc_responder_duplicates_cases { std::span<const Case> all(); }
namespace rc_responder_sequence_cases { std::span<const Case> all(); }
namespace rc_responder_lengths_cases { std::span<const Case> all(); }
namespace rc_responder_keys_cases { std::span<const Case> all(); }
namespace rc_responder_rnr_cases { std::span<const Case> all(); }
namespace rc_responder_atomics_cases { std::span<const Case> all(); }
namespace rc_responder_reads_cases { std::span<const Case> all(); }
namespace rc_responder_events_cases { std::span<const Case> all(); }
namespace rc_responder_extensions_cases { std::span<const Case> all(); }
namespace rc_requester_psn_cases { std::span<const Case> all(); }
namespace rc_requester_acknowledge_cases { std::span<const Case> all(); }
namespace rc_requester_reads_cases { std::span<const Case> all(); }
namespace rc_requester_retry_cases { std::span<const Case> all(); }
namespace rc_requester_rnr_cases { std::span<const Case> all(); }
namespace rc_requester_errors_cases { std::span<const Case> all(); }
namespace transfers_cases { std::span<const Case> all(); }
namespace uc_cases { std::span<const Case> all(); }
namespace ud_cases { std::span<const Case> all(); }
namespace xrc_cases { std::span<const Case> all(); }
namespace congestion_cases { std::span<const Case> all(); }
namespace queue_pair_states_cases { std::span<const Case> all(); }
namespace queue_pair_memory_cases { std::span<const Case> all(); }
namespace port_counters_cases { std::span<const Case> all(); }
namespace connection_manager_messages_cases { std::span<const Case> all(); }
namespace connection_manager_timeouts_cases { std::span<const Case> all(); }

namespace iwarp {
namespace ddp_untagged_cases { std::span<const Case> all(); }
namespace ddp_tagged_cases { std::span<const Case> all(); }
namespace ddp_source_cases { std::span<const Case> all(); }
namespace ddp_close_cases { std::span<const Case> all(); }
namespace rdmap_operations_cases { std::span<const Case> all(); }
namespace rdmap_reads_cases { std::span<const Case> all(); }
namespace rdmap_invalidate_cases { std::span<const Case> all(); }
namespace rdmap_stream_cases { std::span<const Case> all(); }
namespace rdmap_access_cases { std::span<const Case> all(); }
namespace terminate_cases { std::span<const Case> all(); }
namespace rdmap_immediate_cases { std::span<const Case> all(); }
namespace rdmap_atomics_cases { std::span<const Case> all(); }
namespace mpa_request_cases { std::span<const Case> all(); }
namespace mpa_reply_cases { std::span<const Case> all(); }
namespace mpa_negotiation_cases { std::span<const Case> all(); }
namespace mpa_enhanced_cases { std::span<const Case> all(); }
namespace fpdu_framing_cases { std::span<const Case> all(); }
namespace fpdu_crc_cases { std::span<const Case> all(); }
namespace fpdu_markers_cases { std::span<const Case> all(); }
}  // namespace iwarp
// clang-format on

}  // namespace rdmawire::conformance
