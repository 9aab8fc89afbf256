#pragma once
/// The reports of MrcTracker: the MRC WRITEs to a QP, their paths, and sentences about them.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

/// State of a path, as the packets show it. The requester can also deny a path, which packets do not show.
enum class MrcPathState : std::uint8_t {
  good,
  congested,  ///< the latest signal is a trimmed packet, a NACK for one, or a SACK with M 1
  failed,     ///< the latest signal is a SACK with M 2, or a packet that was retransmitted without any response
};
std::string_view to_string(MrcPathState state);

/// A number of packets, and the first and last of their frames (0: none).
struct MrcCount {
  std::uint64_t count = 0, first_frame = 0, last_frame = 0;
  void add(std::uint64_t frame) {
    if (count++ == 0) first_frame = frame;
    last_frame = frame;
  }
};

/// The packets of a QP with one entropy value.
struct MrcPath {
  std::uint16_t label = 0, port = 0;  ///< low 16 bits of the IPv6 flow label, UDP source port
  std::uint64_t packets = 0, retransmissions = 0, late = 0, probes = 0, probe_responses = 0;
  std::uint64_t marked = 0, trimmed = 0;                             ///< captured with ECN CE, captured without payload
  std::uint64_t congested_sacks = 0, bad_sacks = 0, rejections = 0;  ///< SACKs with M 1 and M 2, NACKs
  std::uint64_t silent =
      0;  ///< packets that were captured completely, but not acknowledged before their retransmission
  MrcPathState state = MrcPathState::good;
  std::uint64_t state_frame = 0;  ///< frame that caused the state. 0: none
};

/// The NACKs with one reason.
struct MrcNacks {
  std::uint8_t reason = 0;
  std::uint32_t first_psn = 0;  ///< PSN of the first NACK
  MrcCount seen;
};

/// Endpoint operations that one port requested from another one.
struct MrcEndpointOperations {
  std::uint64_t status_updates = 0, probes = 0, other = 0;  ///< requests
  std::uint64_t responses = 0;
  std::uint64_t first_frame = 0;
  std::uint32_t port_status = 0;  ///< of the latest update
  std::uint32_t lost_ports = 0;   ///< ports that worked in an update and did not in a later one
  std::uint64_t lost_frame = 0;   ///< frame of the first such update. 0: none
};

/// The WRITEs to one QP and their responses.
struct MrcFlow {
  PortAddress from, to;
  std::uint32_t dest_qp = 0;
  std::uint32_t from_qp = 0;  ///< QP of the requester, if from_qp_known: from SACKs and NACKs
  bool from_qp_known = false;
  bool paths_limited = false;     ///< more paths than MrcTracker::most_paths
  std::uint64_t first_frame = 0;  ///< identifies the flow
  std::uint64_t last_frame = 0;
  std::int64_t first_time = 0, last_time = 0;
  std::uint64_t packets = 0, payload_bytes = 0;
  MrcCount retransmissions, trimmed, marked;
  std::uint64_t missing = 0;  ///< PSNs of which only retransmissions were captured
  std::uint64_t sacks = 0, acknowledgements = 0, unmatched_entropy = 0;  ///< unmatched: its packet is missing
  std::uint64_t selective = 0;  ///< PSNs that a SACK acknowledged beyond its cumulative acknowledgement
  MrcCount congested_sacks, bad_sacks, silent;
  std::uint64_t probes = 0, probe_responses = 0;
  std::uint64_t messages = 0, completed_messages = 0;  ///< messages whose last packet was captured
  std::uint32_t reordering = 0;                        ///< maximum distance of a late first transmission, in PSNs
  MrcCount late;                                       ///< first transmissions after a later PSN
  /// Requests of the requester's port, and of the responder's port. All flows between two ports share them.
  std::array<MrcEndpointOperations, 2> endpoint_operations{};
  std::vector<MrcNacks> nacks;  ///< by reason, ascending
  std::vector<MrcPath> paths;   ///< in the order of their first packets

  [[nodiscard]] std::uint64_t nacks_of(std::uint8_t reason) const {
    const auto found = std::ranges::find(nacks, reason, &MrcNacks::reason);
    return found == nacks.end() ? 0 : found->seen.count;
  }
  [[nodiscard]] std::uint64_t paths_in(MrcPathState state) const {
    return static_cast<std::uint64_t>(std::ranges::count(paths, state, &MrcPath::state));
  }
};

/// Role of a packet in its flow, as known when it arrives.
struct MrcNote {
  std::uint64_t connection = 0;  ///< MrcFlow::first_frame. 0: the packet belongs to no flow
  bool retransmission = false, out_of_order = false;
  bool has_path = false;  ///< the following members are valid: the path of a WRITE or probe, or that of the entropy
                          ///< value in a SACK or NACK, after this packet
  MrcPathState state = MrcPathState::good;
  std::uint64_t state_frame = 0;
};

enum class MrcFindingKind : std::uint8_t {
  path_failed,
  port_down,
  error,
  resources,
  window,
  incast,
  trimmed,
  congested,
  retransmission,
  path_recovered,
  single_path,
  reordering,
};
inline constexpr std::size_t mrc_finding_kinds = static_cast<std::size_t>(MrcFindingKind::reordering) + 1;

/// Description of a kind of finding, shared by all output formats.
struct MrcFindingRow {
  MrcFindingKind kind;
  std::string_view name;
  Severity severity;
  std::string_view meaning, next;
};
/// Indexed by MrcFindingKind.
extern const std::array<MrcFindingRow, mrc_finding_kinds> mrc_finding_rows;

struct MrcFinding {
  MrcFindingKind kind = MrcFindingKind::reordering;
  std::string title;  ///< one sentence without the flow
  MrcCount seen;      ///< the packets that show it
  /// Fields that the finding depends on, and whose place is described by one source, or differently by two.
  std::vector<std::string_view> unverified;
};

/// Findings for troubleshooting, the most important first. Empty if there is nothing to report.
std::vector<MrcFinding> findings_of(const MrcFlow& flow);

}  // namespace rdmawire::tracking
