#pragma once
/// Reports of MrcTracker: the MRC WRITEs to a QP, their paths, and sentences about them.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

/// State of a path according to the captured packets. The requester can also exclude a path, which packets do not show.
enum class MrcPathState : std::uint8_t {
  good,
  congested,  ///< the latest signal is a trimmed packet, a NACK for one, or a SACK with M 1
  failed,     ///< the latest signal is a SACK with M 2, or a packet that was retransmitted without any response
};
std::string_view to_string(MrcPathState state);

/// A number of packets, and the frames of the first and the last of them (0: none).
struct MrcCount {
  std::uint64_t count = 0, first_frame = 0, last_frame = 0;
  void add(std::uint64_t frame) {
    if (count++ == 0) first_frame = frame;
    last_frame = frame;
  }
};

/// The packets to a QP that have the same entropy value.
struct MrcPath {
  std::uint16_t label = 0, port = 0;  ///< low 16 bits of the IPv6 flow label, and UDP source port
  std::uint64_t packets = 0, retransmissions = 0, late = 0, probes = 0, probe_responses = 0;
  std::uint64_t marked = 0, trimmed = 0;  ///< numbers of packets that were captured with ECN CE, and without payload
  std::uint64_t congested_sacks = 0, bad_sacks = 0,
                rejections = 0;  ///< numbers of SACKs with M 1, of SACKs with M 2, and of NACKs
  std::uint64_t silent =
      0;  ///< number of packets that were captured completely, but not acknowledged before their retransmission
  MrcPathState state = MrcPathState::good;
  std::uint64_t state_frame = 0;  ///< frame that caused the state (0: none)
};

/// The NACKs that have the same reason.
struct MrcNacks {
  std::uint8_t reason = 0;
  std::uint32_t first_psn = 0;  ///< PSN of the first NACK
  MrcCount seen;
};

/// Endpoint operations that one port requested from another port.
struct MrcEndpointOperations {
  std::uint64_t status_updates = 0, probes = 0, other = 0;  ///< numbers of requests
  std::uint64_t responses = 0;
  std::uint64_t first_frame = 0;
  std::uint32_t port_status = 0;  ///< port status in the latest update
  std::uint32_t lost_ports = 0;   ///< ports that worked according to one update, but not according to a later one
  std::uint64_t lost_frame = 0;   ///< frame of the first such later update (0: none)
};

/// The WRITEs to one QP and their responses.
struct MrcFlow {
  PortAddress from, to;
  std::uint32_t dest_qp = 0;
  std::uint32_t from_qp = 0;  ///< QP of the requester according to SACKs and NACKs. Valid if from_qp_known
  bool from_qp_known = false;
  bool paths_limited = false;     ///< the flow has more paths than MrcTracker::most_paths
  std::uint64_t first_frame = 0;  ///< number of the first frame, which identifies the flow
  std::uint64_t last_frame = 0;
  std::int64_t first_time = 0, last_time = 0;
  std::uint64_t packets = 0, payload_bytes = 0;
  MrcCount retransmissions, trimmed, marked;
  std::uint64_t missing = 0;  ///< number of PSNs whose first transmission was not captured
  std::uint64_t sacks = 0, acknowledgements = 0,
                unmatched_entropy = 0;  ///< unmatched_entropy: SACKs and NACKs whose packet is missing in the capture
  std::uint64_t selective = 0;  ///< number of PSNs that SACKs acknowledged after their cumulative acknowledgement
  MrcCount congested_sacks, bad_sacks, silent;
  std::uint64_t probes = 0, probe_responses = 0;
  std::uint64_t messages = 0, completed_messages = 0;  ///< numbers of messages whose last packet was captured
  std::uint32_t reordering = 0;  ///< maximum distance in PSNs by which a first transmission was late
  MrcCount late;                 ///< first transmissions that followed a later PSN
  /// Requests of the requester's port, and requests of the responder's port. All flows between two ports share them.
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

/// Role of a packet in its flow, as far as known when the packet arrives.
struct MrcNote {
  std::uint64_t connection = 0;  ///< MrcFlow::first_frame (0: the packet belongs to no flow)
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

/// Description of a kind of finding, which all output formats use.
struct MrcFindingRow {
  MrcFindingKind kind;
  std::string_view name;
  Severity severity;
  std::string_view meaning, next;
};
/// Rows by MrcFindingKind.
extern const std::array<MrcFindingRow, mrc_finding_kinds> mrc_finding_rows;

struct MrcFinding {
  MrcFindingKind kind = MrcFindingKind::reordering;
  std::string title;  ///< one sentence, which does not name the flow
  MrcCount seen;      ///< the packets that show the finding
  /// Fields that the finding uses, and whose position only one source describes, or sources describe differently.
  std::vector<std::string_view> unverified;
};

/// Returns findings for troubleshooting, the most important first. The result is empty if there are none.
std::vector<MrcFinding> findings_of(const MrcFlow& flow);

}  // namespace rdmawire::tracking
