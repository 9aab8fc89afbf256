#include "dissectors/tracking/mrc_flow.hpp"

#include <fmt/format.h>

#include "dissectors/protocol/mrc.hpp"

namespace rdmawire::tracking {
namespace {

using Kind = MrcFindingKind;

std::string packets_text(std::uint64_t count) { return fmt::format("{} packet{}", count, count == 1 ? "" : "s"); }
std::string paths_text(std::uint64_t count) { return fmt::format("{} path{}", count, count == 1 ? "" : "s"); }

/// Adds "header.field" for each field whose section states that it is unverified.
template <class H>
void add_unverified(std::vector<std::string_view>& to, std::initializer_list<std::string_view> names) {
  struct Qualified {
    const Field* field;
    std::string text;
  };
  static const std::vector<Qualified> all = [] {
    std::vector<Qualified> made;
    for (const Field& field : info<H>.fields)
      if (field.section.find("unverified") != std::string_view::npos)
        made.push_back({&field, fmt::format("{}.{}", H::name, field.name)});
    return made;
  }();
  for (const std::string_view name : names)
    for (const Qualified& one : all)
      if (one.field->name == name && std::ranges::find(to, one.text) == to.end()) to.emplace_back(one.text);
}
void add_unverified_of_sack(std::vector<std::string_view>& to) {
  add_unverified<Seth>(to, {"path_state", "entropy", "spdcid", "dpdcid"});
}
void add_unverified_of_nack(std::vector<std::string_view>& to) {
  add_unverified<Neth>(to, {"reason", "nack_psn", "spdcid", "dpdcid"});
}

/// Adds two counts of the same flow.
MrcCount sum_of(const MrcCount& a, const MrcCount& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  return {a.count + b.count, std::min(a.first_frame, b.first_frame), std::max(a.last_frame, b.last_frame)};
}
MrcCount nacks_with(const MrcFlow& flow, std::initializer_list<std::uint8_t> reasons) {
  MrcCount all;
  for (const MrcNacks& nacks : flow.nacks)
    if (std::ranges::find(reasons, nacks.reason) != reasons.end()) all = sum_of(all, nacks.seen);
  return all;
}

std::string failed_paths_text(const MrcFlow& flow, MrcCount& seen) {
  constexpr std::size_t most_named = 4;
  std::string named;
  std::uint64_t failed = 0, without_response = 0;
  for (const MrcPath& path : flow.paths) {
    if (path.state != MrcPathState::failed) continue;
    seen = sum_of(seen, {1, path.state_frame, path.state_frame});
    without_response += path.silent;
    if (failed++ < most_named)
      named += fmt::format("{}flow label {:#06x}, source port {} (frame {})", named.empty() ? "" : "; ", path.label,
                           path.port, path.state_frame);
  }
  return fmt::format("{} of {} failed: {}{}. {} without any response", failed, paths_text(flow.paths.size()), named,
                     failed > most_named ? "; …" : "", packets_text(without_response));
}

}  // namespace

std::string_view to_string(MrcPathState state) {
  switch (state) {
    case MrcPathState::good: return "good";
    case MrcPathState::congested: return "congested";
    case MrcPathState::failed: return "failed";
  }
  return "?";
}

constexpr std::array<MrcFindingRow, mrc_finding_kinds> mrc_finding_rows{{
    {Kind::path_failed, "mrc_path_failed", Severity::warning,
     "The latest packet of a path has no response, or the latest SACK instructs the requester to skip the path. The "
     "requester uses the other paths.",
     "Check the links and switches of this path. Trace it with its flow label and source port."},
    {Kind::port_down, "mrc_port_down", Severity::warning, "An endpoint reported that one of its ports stopped working.",
     "Check the link of this port and its switch."},
    {Kind::error, "mrc_error", Severity::error, "The responder reported an unexpected event. The connection fails.",
     "Check the responder's log and its completion queue."},
    {Kind::resources, "mrc_resources", Severity::warning,
     "The responder rejected packets because it lacked a bitmap, a buffer or another resource.",
     "Reduce the number of connections or the requester's window, or check why the responder is slow."},
    {Kind::window, "mrc_window", Severity::warning, "The responder rejected packets with a PSN outside its window.",
     "Compare the requester's window with the maximum PSN range in the responder's SACKs."},
    {Kind::incast, "mrc_incast", Severity::warning,
     "The last switch trimmed packets: the receiver's link is congested.",
     "Check how many senders transmit to this receiver at the same time."},
    {Kind::trimmed, "mrc_trimmed", Severity::info,
     "Switches removed the payload of packets because of congestion. The requester retransmits these packets.",
     "Compare the paths: congestion on all paths has another cause than congestion on one."},
    {Kind::congested, "mrc_congested", Severity::info,
     "SACKs instructed the requester to skip paths once, because switches ECN-marked packets.",
     "Compare the paths. If one path is always marked, check its link and the flows that share it."},
    {Kind::retransmission, "mrc_retransmission", Severity::info, "The requester retransmitted packets selectively.",
     "Compare with the trimmed packets and the failed paths."},
    {Kind::path_recovered, "mrc_path_recovered", Severity::info,
     "A packet of the path had no response, and a later signal shows that the path works.",
     "Check for a link that failed for a short time."},
    {Kind::single_path, "mrc_single_path", Severity::info, "The requester does not spray its packets.",
     "Check the number of entropy values that the requester is configured to use."},
    {Kind::reordering, "mrc_reordering", Severity::info,
     "Packets arrived out of order. This is normal for several paths.",
     "Compare the distance with the responder's window (mpr of the SETH)."},
}};

std::vector<MrcFinding> findings_of(const MrcFlow& flow) {
  std::vector<MrcFinding> out;
  const auto add = [&](Kind kind, std::string title, const MrcCount& seen) -> std::vector<std::string_view>& {
    out.push_back({kind, std::move(title), seen, {}});
    return out.back().unverified;
  };
  if (flow.paths_in(MrcPathState::failed) != 0) {
    MrcCount seen;
    std::string title = failed_paths_text(flow, seen);
    add_unverified_of_sack(add(Kind::path_failed, std::move(title), seen));
  }
  for (const MrcEndpointOperations& endpoint : flow.endpoint_operations) {
    if (endpoint.lost_frame == 0) continue;
    const bool requester = &endpoint == flow.endpoint_operations.data();
    add_unverified<Erth>(add(Kind::port_down,
                             fmt::format("the {} reported that ports stopped working (mask {:#x})",
                                         requester ? "requester" : "responder", endpoint.lost_ports),
                             {1, endpoint.lost_frame, endpoint.lost_frame}),
                         {"operation", "port_status"});
  }
  if (const MrcCount seen = nacks_with(flow, {nack_reason::unexpected_event}); seen.count != 0)
    add_unverified_of_nack(
        add(Kind::error,
            fmt::format("the responder reported an unexpected event {} time{}", seen.count, seen.count == 1 ? "" : "s"),
            seen));
  if (const MrcCount seen =
          nacks_with(flow, {nack_reason::no_bitmap, nack_reason::no_packet_buffer, nack_reason::no_resource});
      seen.count != 0)
    add_unverified_of_nack(
        add(Kind::resources,
            fmt::format("the responder rejected {} because it lacked resources", packets_text(seen.count)), seen));
  if (const MrcCount seen = nacks_with(flow, {nack_reason::psn_out_of_window}); seen.count != 0)
    add_unverified_of_nack(
        add(Kind::window, fmt::format("the responder rejected {} outside its window", packets_text(seen.count)), seen));
  if (const MrcCount seen = nacks_with(flow, {nack_reason::trimmed_last_hop}); seen.count != 0)
    add_unverified_of_nack(
        add(Kind::incast, fmt::format("{} trimmed at the last hop", packets_text(seen.count)), seen));
  if (const MrcCount nacks = nacks_with(flow, {nack_reason::trimmed}); nacks.count + flow.trimmed.count != 0) {
    const bool captured = flow.trimmed.count >= nacks.count;
    const MrcCount& seen = captured ? flow.trimmed : nacks;
    std::uint64_t paths = 0;
    for (const MrcPath& path : flow.paths) paths += path.trimmed + path.rejections != 0;
    auto& unverified = add(Kind::trimmed,
                           fmt::format("switches trimmed {} of {}, on {} of {}: congestion, not corruption", seen.count,
                                       packets_text(flow.packets), paths, paths_text(flow.paths.size())),
                           seen);
    if (!captured) add_unverified_of_nack(unverified);
  }
  if (flow.congested_sacks.count != 0) {
    std::uint64_t paths = 0;
    for (const MrcPath& path : flow.paths) paths += path.congested_sacks != 0;
    add_unverified_of_sack(
        add(Kind::congested,
            fmt::format("{} SACK{} reported congestion on {} of {}", flow.congested_sacks.count,
                        flow.congested_sacks.count == 1 ? "" : "s", paths, paths_text(flow.paths.size())),
            flow.congested_sacks));
  }
  if (flow.retransmissions.count != 0) {
    auto& unverified = add(Kind::retransmission,
                           fmt::format("{} of {} retransmitted ({} without a captured first transmission)",
                                       flow.retransmissions.count, packets_text(flow.packets), flow.missing),
                           flow.retransmissions);
    if (flow.missing != 0) add_unverified<MrcBth>(unverified, {"rtx"});
  }
  std::uint64_t silent = 0;
  for (const MrcPath& path : flow.paths) silent += path.silent != 0 && path.state != MrcPathState::failed;
  if (silent != 0)
    add_unverified_of_sack(
        add(Kind::path_recovered, fmt::format("{} failed and recovered", paths_text(silent)), flow.silent));
  constexpr std::uint64_t enough = 64;
  if (flow.packets >= enough && flow.paths.size() == 1 && !flow.paths_limited)
    add(Kind::single_path, fmt::format("all {} used one path", packets_text(flow.packets)),
        {flow.packets, flow.first_frame, flow.last_frame});
  if (flow.late.count != 0)
    add_unverified<MrcBth>(
        add(Kind::reordering,
            fmt::format("{} arrived out of order, by at most {} PSNs", packets_text(flow.late.count), flow.reordering),
            flow.late),
        {"rtx"});
  return out;
}

}  // namespace rdmawire::tracking
