/// Creates the JSON report.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "captures/analysis/memory_reserve.hpp"
#include "captures/analysis/report.hpp"
#include "dissectors/output/value.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/time.hpp"

namespace rdmawire::captures::analysis {
namespace {

std::string seconds(std::int64_t ns) {
  std::string text;
  output::append_seconds(text, ns);
  return text;
}
Json time_or_null(std::int64_t ns) { return ns == 0 ? Json() : Json(seconds(ns)); }
Json frame_or_null(std::uint64_t frame) { return frame == 0 ? Json() : Json(frame); }
std::string hex(std::uint64_t value) { return fmt::format("{:#x}", value); }
std::string_view text(Side end) { return end == Side::a ? "a" : "b"; }

std::string_view wire_name(Wire wire) {
  switch (wire) {
    case Wire::none: return "other";
    case Wire::infiniband: return "infiniband";
    case Wire::roce_v1: return "roce_v1";
    case Wire::roce_v2: return "roce_v2";
    case Wire::iwarp: return "iwarp";
  }
  return {};
}

constexpr std::string_view nak_names[] = {"psn_sequence_error", "invalid_request", "remote_access_error",
                                          "remote_operational_error", "invalid_rd_request"};

Json sent_json(const tracking::Sent& sent) {
  Json messages = Json::object();
  for (std::size_t i = 0; i < tracking::message_kinds; ++i)
    if (sent.messages[i]) messages[std::string(to_string(static_cast<MessageKind>(i)))] = sent.messages[i];
  Json naks = Json::object();
  for (std::size_t i = 0; i < sent.naks.size(); ++i)
    if (sent.naks[i]) naks[std::string(nak_names[i])] = sent.naks[i];
  return Json{{"packets", sent.packets},
              {"wire_bytes", sent.wire_bytes},
              {"payload_bytes", sent.payload_bytes},
              {"requests", sent.requests},
              {"responses", sent.responses},
              {"messages", messages},
              {"message_bytes", sent.message_bytes},
              {"messages_completed", sent.messages_completed},
              {"messages_refused", sent.messages_refused},
              {"retransmitted_packets", sent.retransmitted_packets},
              {"retransmitted_bytes", sent.retransmitted_bytes},
              {"recoveries", sent.rounds},
              {"lost_in_network", sent.lost_in_network},
              {"lost_in_capture", sent.lost_in_capture},
              {"out_of_order", sent.out_of_order},
              {"duplicates", sent.duplicates},
              {"acks", sent.acks},
              {"rnr_naks", sent.rnr_naks},
              {"naks", naks},
              {"cnps", sent.cnps},
              {"ecn_capable", sent.ecn_capable},
              {"ecn_marked", sent.ecn_marked},
              {"crc_bad", sent.crc_bad},
              {"truncated", sent.truncated},
              {"request_dscp", sent.requests ? Json(sent.request_dscp) : Json()},
              {"response_dscp", sent.responses ? Json(sent.response_dscp) : Json()},
              {"latency_count", sent.latency_count},
              {"latency_sum_ns", sent.latency_sum},
              {"latency_max_ns", sent.latency_count ? Json(sent.latency_max) : Json()}};
}

Json end_json(const tracking::ConnectionEnd& end) {
  return Json{{"address", to_text(end.address)}, {"qp", end.qp_known ? Json(end.qp) : Json()}};
}

Json finding_json(const Finding& finding, std::uint64_t rank) {
  Json evidence = Json::array();
  for (const Evidence& part : finding.evidence)
    evidence.push_back({{"kind", part.kind}, {"cause", part.cause}, {"count", part.count}, {"packets", part.packets}});
  Json worst = Json::array();
  for (const AffectedConnection& one : finding.worst)
    worst.push_back({{"connection", frame_or_null(one.connection)},
                     {"flow", one.flow},
                     {"count", one.count},
                     {"cost_ns", one.cost_ns}});
  Json unobserved = Json::array();
  for (const tracking::Unobserved what : finding.unobserved) unobserved.push_back(tracking::sentence_of(what));
  return Json{{"rank", rank},
              {"severity", to_string(finding.severity)},
              {"kind", finding.kind},
              {"cause", finding.cause},
              {"connection", frame_or_null(finding.connection)},
              {"connections", finding.connections},
              {"end", finding.connection ? Json(text(finding.end)) : Json()},
              {"flow", finding.flow},
              {"title", finding.title},
              {"count", finding.count},
              {"packets", finding.packets},
              {"bytes", finding.bytes},
              {"cost_ns", finding.cost_ns},
              {"first_frame", frame_or_null(finding.first_frame)},
              {"last_frame", frame_or_null(finding.last_frame)},
              {"first_time", time_or_null(finding.first_time)},
              {"last_time", time_or_null(finding.last_time)},
              {"frames", finding.frames},
              {"confidence", to_string(certainty_of(finding))},
              {"confidence_counts",
               {{"certain", finding.by_certainty[2]},
                {"likely", finding.by_certainty[1]},
                {"possible", finding.by_certainty[0]}}},
              {"not_observed", unobserved},
              {"share", finding.share < 0 ? Json() : Json(finding.share)},
              {"meaning", finding.meaning},
              {"next", finding.next},
              {"unverified", finding.unverified},
              {"evidence", evidence},
              {"worst", worst}};
}

Json input_json(const Analysis& analysis, const Input& input) {
  Json files = Json::array();
  for (const Input::File& file : input.files) {
    Json row{{"name", file.name},
             {"packets", file.packets},
             {"bytes", file.bytes},
             {"first_frame", frame_or_null(file.first_frame)},
             {"lost_by_capture", file.lost_by_capture ? Json(*file.lost_by_capture) : Json()}};
    if (!file.error.empty()) row["error"] = file.error;
    files.push_back(std::move(row));
  }
  const auto asked = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  return Json{
      {"files", files},
      {"filter", asked(input.filter)},
      {"from", asked(input.from)},
      {"to", asked(input.to)},
      {"connection", frame_or_null(input.connection)},
      {"memory", input.memory ? Json(input.memory) : Json()},
      {"exact",
       analysis.evicted_connections + analysis.evicted_mrc_flows + input.evicted_packets + analysis.overflow() == 0},
      {"evicted",
       {{"connections", analysis.evicted_connections + analysis.evicted_mrc_flows},
        {"packets", input.evicted_packets}}},
      {"skipped", analysis.overflow()}};
}

Json operations_json(const Analysis& analysis) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < analysis.operations.size(); ++i) {
    const OperationRow& row = analysis.operations[i];
    if (row.messages == 0) continue;
    Json sizes = Json::array();
    for (std::size_t size = 0; size < size_classes; ++size)
      if (row.sizes[size])
        sizes.push_back({{"from", size_from(size)}, {"to", size_to(size)}, {"messages", row.sizes[size]}});
    const bool known = row.size_min <= row.size_max;
    rows.push_back({{"operation", to_string(static_cast<MessageKind>(i))},
                    {"messages", row.messages},
                    {"bytes", row.bytes},
                    {"completed", row.completed},
                    {"refused", row.refused},
                    {"size_min", known ? Json(row.size_min) : Json()},
                    {"size_max", known ? Json(row.size_max) : Json()},
                    {"sizes", sizes}});
  }
  return rows;
}

Json latency_json(const Analysis& analysis) {
  Json rows = Json::array();
  for (std::size_t kind = 0; kind < tracking::message_kinds; ++kind)
    for (std::size_t size = 0; size < size_classes; ++size)
      for (std::size_t phase = 0; phase < phases; ++phase) {
        const Histogram* h = analysis.latency(static_cast<MessageKind>(kind), size, static_cast<Phase>(phase));
        if (!h) continue;
        Json buckets = Json::array();
        h->buckets([&](std::uint64_t from, std::uint64_t to, std::uint64_t count) {
          buckets.push_back(Json::array({from, to, count}));
        });
        rows.push_back({{"operation", to_string(static_cast<MessageKind>(kind))},
                        {"size_from", size_from(size)},
                        {"size_to", size_to(size)},
                        {"phase", to_string(static_cast<Phase>(phase))},
                        {"count", h->count()},
                        {"min_ns", h->min()},
                        {"p50_ns", h->quantile(500)},
                        {"p90_ns", h->quantile(900)},
                        {"p99_ns", h->quantile(990)},
                        {"p999_ns", h->quantile(999)},
                        {"max_ns", h->max()},
                        {"buckets", buckets}});
      }
  return rows;
}

Json regions_json(const Analysis& analysis) {
  auto rows = analysis.regions();
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    const auto bytes = [](const auto& r) { return r.second.read_bytes + r.second.written_bytes; };
    if (bytes(a) != bytes(b)) return bytes(a) > bytes(b);
    return std::tie(a.first.from, a.first.number) < std::tie(b.first.from, b.first.number);
  });
  Json out = Json::array();
  for (const auto& [key, row] : rows) {
    MemoryReserve::check();
    const bool touched = row.address_from <= row.address_to;
    out.push_back({{"responder", to_text(key.from)},
                   {"key", hex(key.number)},
                   {"address_from", touched ? Json(hex(row.address_from)) : Json()},
                   {"address_to", touched ? Json(hex(row.address_to)) : Json()},
                   {"read_bytes", row.read_bytes},
                   {"written_bytes", row.written_bytes},
                   {"atomics", row.atomics},
                   {"refused", row.refused},
                   {"messages", row.messages}});
  }
  return out;
}

void add_traffic(Json& report, const Analysis& analysis) {
  auto talkers = analysis.talkers();
  std::sort(talkers.begin(), talkers.end(), [](const auto& a, const auto& b) {
    if (a.second.bytes != b.second.bytes) return a.second.bytes > b.second.bytes;
    return std::tie(a.first.from, a.first.to) < std::tie(b.first.from, b.first.to);
  });
  struct Endpoint {
    std::uint64_t sent_packets = 0, sent_bytes = 0, received_packets = 0, received_bytes = 0;
  };
  std::map<PortAddress, Endpoint> endpoints;
  Json talker_rows = Json::array(), crc_rows = Json::array();
  for (const auto& [key, row] : talkers) {
    MemoryReserve::check();
    talker_rows.push_back({{"from", to_text(key.from)},
                           {"to", to_text(key.to)},
                           {"packets", row.packets},
                           {"bytes", row.bytes},
                           {"payload_bytes", row.payload_bytes},
                           {"queue_pairs", row.queue_pairs},
                           {"source_ports", row.source_ports}});
    Endpoint& from = endpoints[key.from];
    from.sent_packets += row.packets;
    from.sent_bytes += row.bytes;
    Endpoint& to = endpoints[key.to];
    to.received_packets += row.packets;
    to.received_bytes += row.bytes;
    if (row.crc_bad) {
      const auto cause = analysis.crc_cause(key.from, key.to);
      crc_rows.push_back({{"from", to_text(key.from)},
                          {"to", to_text(key.to)},
                          {"count", row.crc_bad},
                          {"cause", cause ? Json(to_string(*cause)) : Json()},
                          {"first_frame", row.first_crc_bad}});
    }
  }
  std::stable_sort(crc_rows.begin(), crc_rows.end(), [](const Json& a, const Json& b) {
    return a.at("count").get<std::uint64_t>() > b.at("count").get<std::uint64_t>();
  });
  std::vector<std::pair<PortAddress, Endpoint>> sorted(endpoints.begin(), endpoints.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.sent_bytes + a.second.received_bytes > b.second.sent_bytes + b.second.received_bytes;
  });
  const auto queue_pairs = analysis.queue_pairs_by_address();
  Json endpoint_rows = Json::array();
  for (const auto& [address, row] : sorted) {
    MemoryReserve::check();
    const auto known = queue_pairs.find(address);
    endpoint_rows.push_back({{"address", to_text(address)},
                             {"queue_pairs", known == queue_pairs.end() ? 0 : known->second},
                             {"sent_packets", row.sent_packets},
                             {"sent_bytes", row.sent_bytes},
                             {"received_packets", row.received_packets},
                             {"received_bytes", row.received_bytes}});
  }
  report["talkers"] = std::move(talker_rows);
  report["endpoints"] = std::move(endpoint_rows);
  report["crc_errors"] = std::move(crc_rows);
}

Json congestion_json(const Analysis& analysis) {
  std::uint64_t capable = 0, marked = 0, cnps = 0;
  Json rows = Json::array();
  for (std::size_t dscp = 0; dscp < 64; ++dscp)
    for (std::size_t ecn = 0; ecn < 4; ++ecn)
      for (std::size_t kind = 0; kind < packet_classes; ++kind) {
        const std::uint64_t count = analysis.classes[dscp][ecn][kind];
        if (count == 0) continue;
        if (ecn) capable += count;
        if (ecn == 3) marked += count;
        if (kind == static_cast<std::size_t>(PacketClass::cnp)) cnps += count;
        rows.push_back(
            {{"dscp", dscp}, {"ecn", ecn}, {"kind", to_string(static_cast<PacketClass>(kind))}, {"packets", count}});
      }
  const Histogram& delay = analysis.ce_to_cnp;
  return Json{
      {"ecn_capable", capable},
      {"ecn_marked", marked},
      {"cnps", cnps},
      {"ce_to_cnp_ns", delay.count() ? Json{{"p50", delay.quantile(500)}, {"p99", delay.quantile(990)}} : Json()},
      {"rate_fell", analysis.rate_fell},
      {"rate_unchanged", analysis.rate_unchanged},
      {"classes", rows}};
}

Json pauses_json(const Analysis& analysis) {
  Json rows = Json::array();
  for (const auto& [key, row] : analysis.pauses) {
    std::string source;
    std::array<std::uint8_t, 8> mac{};
    store_be(mac.data(), 8, key.source);
    output::append_mac(source, mac.data() + 2);
    rows.push_back({{"source", source},
                    {"priority", key.priority == PauseKey::whole_link ? Json() : Json(key.priority)},
                    {"frames", row.frames},
                    {"stops", row.stops},
                    {"quanta", row.quanta},
                    {"pause_ns", row.pause_ns ? Json(row.pause_ns) : Json()},
                    {"first_frame", row.first_frame}});
  }
  return rows;
}

Json address_json(const PortAddress& address) { return address == PortAddress{} ? Json() : Json(to_text(address)); }

template <class Number>
Json unless_zero(Number value) {
  return value ? Json(value) : Json();
}

Json query_json(const tracking::SubnetQuestion& query) {
  const bool answered = query.frame != 0;
  return {{"requester", address_json(query.asker)},
          {"request_frame", unless_zero(query.request_frame)},
          {"frame", unless_zero(query.frame)},
          {"time", seconds(answered ? query.time : query.request_time)},
          {"response_ns", answered && query.request_frame ? Json(query.time - query.request_time) : Json()},
          {"status", answered ? Json(query.status) : Json()}};
}

// Subnet management, which only native InfiniBand has.
Json management_json(const ManagementRecords& records) {
  Json multicast = Json::array(), paths = Json::array(), counters = Json::array();
  for (const auto& r : records.memberships) {
    Json row = query_json(r.question);
    row.update(Json{{"leaves", r.leaves},
                    {"group", address_json(r.group)},
                    {"port", address_json(r.port)},
                    {"mlid", unless_zero(r.mlid)},
                    {"mtu", unless_zero(r.mtu)}});
    multicast.push_back(row);
  }
  for (const auto& r : records.paths) {
    Json row = query_json(r.question);
    row.update(Json{{"from", address_json(r.from)},
                    {"to", address_json(r.to)},
                    {"from_lid", unless_zero(r.from_lid)},
                    {"to_lid", unless_zero(r.to_lid)},
                    {"service_level", r.service_level},
                    {"mtu", unless_zero(r.mtu)}});
    paths.push_back(row);
  }
  const auto known = [](const std::optional<std::uint32_t>& value) { return value ? Json(*value) : Json(); };
  for (const auto& r : records.counters)
    counters.push_back({{"node", address_json(r.node)},
                        {"port", r.port},
                        {"frame", r.frame},
                        {"time", seconds(r.time)},
                        {"sent_bytes", r.sent_bytes},
                        {"received_bytes", r.received_bytes},
                        {"sent_packets", r.sent_packets},
                        {"received_packets", r.received_packets},
                        {"symbol_errors", known(r.symbol_errors)},
                        {"link_downed", known(r.link_downed)},
                        {"receive_errors", known(r.receive_errors)},
                        {"transmit_discards", known(r.transmit_discards)},
                        {"transmit_wait", known(r.transmit_wait)}});
  return Json{{"multicast", multicast}, {"paths", paths}, {"port_counters", counters}};
}

Json series_json(const Series& series) {
  Json out{{"start", nullptr}, {"step_ns", series.step_ns()}};
  Json payload = Json::array(), packets = Json::array(), messages = Json::array(), retransmitted = Json::array(),
       marked = Json::array(), cnps = Json::array();
  if (!series.steps().empty()) out["start"] = seconds(series.start());
  for (const Series::Step& step : series.steps()) {
    payload.push_back(step.payload_bytes);
    packets.push_back(step.packets);
    messages.push_back(step.messages);
    retransmitted.push_back(step.retransmitted);
    marked.push_back(step.ecn_marked);
    cnps.push_back(step.cnps);
  }
  out["payload_bytes"] = std::move(payload);
  out["packets"] = std::move(packets);
  out["messages"] = std::move(messages);
  out["retransmitted"] = std::move(retransmitted);
  out["ecn_marked"] = std::move(marked);
  out["cnps"] = std::move(cnps);
  return out;
}

Json summary_json(const Analysis& analysis, const std::vector<Finding>& findings) {
  Json wires = Json::object();
  for (std::size_t i = 0; i < analysis.wires.size(); ++i)
    if (analysis.wires[i]) wires[std::string(wire_name(static_cast<Wire>(i)))] = analysis.wires[i];
  Json events = Json::object();
  for (std::size_t i = 0; i < analysis.events.size(); ++i)
    if (analysis.events[i]) events[std::string(to_string(static_cast<EventKind>(i)))] = analysis.events[i];
  std::array<std::uint64_t, 4> by_severity{};
  for (const Finding& finding : findings) ++by_severity[static_cast<std::size_t>(finding.severity)];
  const bool any = analysis.packets != 0;
  return Json{{"packets", analysis.packets},
              {"bytes", analysis.bytes},
              {"first_time", any ? Json(seconds(analysis.first_time)) : Json()},
              {"last_time", any ? Json(seconds(analysis.last_time)) : Json()},
              {"duration_ns", any ? difference(analysis.last_time, analysis.first_time) : 0},
              {"wires", wires},
              {"connections", analysis.connections},
              {"mrc_connections", analysis.mrc_flows},
              {"messages", analysis.messages},
              {"message_bytes", analysis.message_bytes},
              {"retransmitted_packets", analysis.retransmitted_packets},
              {"crcs_checked", analysis.crcs_checked},
              {"crcs_bad", analysis.crcs_bad},
              {"truncated_packets", analysis.truncated_packets},
              {"events", events},
              {"findings",
               {{"error", by_severity[static_cast<std::size_t>(Severity::error)]},
                {"warning", by_severity[static_cast<std::size_t>(Severity::warning)]},
                {"info", by_severity[static_cast<std::size_t>(Severity::info)]}}}};
}

}  // namespace

Json connection_json(const Connection& connection) {
  return Json{{"connection", connection.id},
              {"service", to_string(connection.service)},
              {"wire", wire_name(connection.wire)},
              {"a", end_json(connection.ends[0])},
              {"b", end_json(connection.ends[1])},
              {"paired_by", to_string(connection.paired_by)},
              {"confidence", to_string(connection.confidence)},
              {"mtu", connection.mtu ? Json(connection.mtu) : Json()},
              {"mtu_negotiated", connection.mtu_negotiated},
              {"upper", connection.upper.protocol == tracking::Upper::unknown
                            ? Json()
                            : Json(tracking::to_string(connection.upper.protocol))},
              {"service_port", connection.service_port ? Json(connection.service_port) : Json()},
              {"first_frame", connection.first_frame},
              {"last_frame", connection.last_frame},
              {"first_time", seconds(connection.first_time)},
              {"last_time", seconds(connection.last_time)},
              {"opened_frame", frame_or_null(connection.opened_frame)},
              {"closed_frame", frame_or_null(connection.closed_frame)},
              {"open_ns", connection.opened_frame ? Json(connection.open_duration) : Json()},
              {"replaced", connection.replaced},
              {"sent", {{"a", sent_json(connection.sent[0])}, {"b", sent_json(connection.sent[1])}}}};
}

Json flow_json(const Connection& connection, Side from) {
  const Side to = tracking::other(from);
  const tracking::Sent& mine = connection.by(from);
  const tracking::Sent& theirs = connection.by(to);
  const auto naks = [](const tracking::Sent& sent) {
    std::uint64_t count = sent.rnr_naks;
    for (const std::uint32_t code : sent.naks) count += code;
    return count;
  };
  const std::uint64_t lost = std::min<std::uint64_t>(mine.lost_in_network, mine.packets);
  std::uint64_t messages = 0;
  for (const std::uint32_t count : mine.messages) messages += count;
  return Json{
      {"connection", connection.id},
      {"from", text(from)},
      {"ip_src", to_text(connection.at(from).address)},
      {"ip_dst", to_text(connection.at(to).address)},
      {"ip_dscp", mine.requests    ? Json(mine.request_dscp)
                  : mine.responses ? Json(mine.response_dscp)
                                   : Json()},
      {"src_qp", connection.at(from).qp_known ? Json(connection.at(from).qp) : Json()},
      {"dest_qp", connection.at(to).qp_known ? Json(connection.at(to).qp) : Json()},
      {"frames_tx", mine.packets},
      {"frames_rx", mine.packets - lost},
      {"frames_retransmitted", mine.retransmitted_packets},
      {"frame_sequence_error", theirs.naks[0]},
      {"nak_tx", naks(mine)},
      {"nak_rx", naks(theirs)},
      {"ecn_ce_rx", mine.ecn_marked},
      {"cnp_tx", mine.cnps},
      {"cnp_rx", theirs.cnps},
      {"message_complete_rx", mine.messages_completed},
      {"message_fail", mine.messages_refused},
      {"flow_completion_time", messages ? Json(difference(connection.last_time, connection.first_time)) : Json()},
      {"latency_max", mine.latency_count ? Json(mine.latency_max) : Json()}};
}

Json mrc_connection_json(const tracking::MrcFlow& flow) {
  Json nacks = Json::array();
  for (const tracking::MrcNacks& row : flow.nacks) {
    const Name* name = nack_reason_names.find(row.reason);
    nacks.push_back({{"code", row.reason},
                     {"reason", name ? Json(name->name) : Json()},
                     {"count", row.seen.count},
                     {"first_psn", row.first_psn},
                     {"first_frame", row.seen.first_frame},
                     {"last_frame", row.seen.last_frame}});
  }
  const auto operations = [](const tracking::MrcEndpointOperations& made) {
    return Json{{"status_updates", made.status_updates},
                {"probes", made.probes},
                {"other", made.other},
                {"responses", made.responses},
                {"port_status", made.status_updates ? Json(hex(made.port_status)) : Json()},
                {"lost_ports", hex(made.lost_ports)},
                {"lost_frame", frame_or_null(made.lost_frame)},
                {"first_frame", frame_or_null(made.first_frame)}};
  };
  return Json{{"connection", flow.first_frame},
              {"from", to_text(flow.from)},
              {"from_qp", flow.from_qp_known ? Json(flow.from_qp) : Json()},
              {"to", to_text(flow.to)},
              {"to_qp", flow.dest_qp},
              {"first_frame", flow.first_frame},
              {"last_frame", flow.last_frame},
              {"first_time", seconds(flow.first_time)},
              {"last_time", seconds(flow.last_time)},
              {"packets", flow.packets},
              {"payload_bytes", flow.payload_bytes},
              {"messages", flow.messages},
              {"messages_completed", flow.completed_messages},
              {"retransmitted", flow.retransmissions.count},
              {"missing_first_transmissions", flow.missing},
              {"trimmed", flow.trimmed.count},
              {"ecn_marked", flow.marked.count},
              {"out_of_order", flow.late.count},
              {"reordering_depth", flow.reordering},
              {"acks", flow.acknowledgements},
              {"sacks", flow.sacks},
              {"sacked_psns", flow.selective},
              {"congested_sacks", flow.congested_sacks.count},
              {"bad_sacks", flow.bad_sacks.count},
              {"unmatched_entropy", flow.unmatched_entropy},
              {"probes", flow.probes},
              {"probe_responses", flow.probe_responses},
              {"paths_good", flow.paths_in(tracking::MrcPathState::good)},
              {"paths_congested", flow.paths_in(tracking::MrcPathState::congested)},
              {"paths_failed", flow.paths_in(tracking::MrcPathState::failed)},
              {"paths_limited", flow.paths_limited},
              {"nacks", nacks},
              {"endpoint_operations",
               {{"from", operations(flow.endpoint_operations[0])}, {"to", operations(flow.endpoint_operations[1])}}}};
}

Json mrc_path_json(const tracking::MrcFlow& flow, const tracking::MrcPath& path) {
  return Json{{"connection", flow.first_frame},
              {"flow_label", path.label},
              {"source_port", path.port},
              {"state", to_string(path.state)},
              {"state_frame", frame_or_null(path.state_frame)},
              {"packets", path.packets},
              {"retransmitted", path.retransmissions},
              {"trimmed", path.trimmed},
              {"ecn_marked", path.marked},
              {"out_of_order", path.late},
              {"without_response", path.silent},
              {"congested_sacks", path.congested_sacks},
              {"bad_sacks", path.bad_sacks},
              {"nacks", path.rejections},
              {"probes", path.probes},
              {"probe_responses", path.probe_responses}};
}

Json message_json(const Message& m) {
  return Json{
      {"connection", m.connection},
      {"message", m.number},
      {"end", text(m.end)},
      {"operation", to_string(m.kind)},
      {"outcome", to_string(m.outcome)},
      {"size", m.size},
      {"first_frame", frame_or_null(m.first_frame)},
      {"last_frame", frame_or_null(m.last_frame)},
      {"first_response_frame", frame_or_null(m.first_response_frame)},
      {"answer_frame", frame_or_null(m.answer_frame)},
      {"start", time_or_null(m.start)},
      {"end_time", time_or_null(m.end_time)},
      {"first_response_time", time_or_null(m.first_response_time)},
      {"answer_time", time_or_null(m.answer_time)},
      {"latency_ns", m.start && m.answer_time ? Json(difference(m.answer_time, m.start)) : Json()},
      {"packets", m.packets},
      {"repeated_packets", m.repeated_packets},
      {"first_psn", m.first_psn},
      {"last_psn", m.last_psn},
      {"remote_address", m.has_remote ? Json(hex(m.remote_address)) : Json()},
      {"key", m.has_remote ? Json(hex(m.key)) : Json()},
      {"immediate", m.has_immediate ? Json(hex(m.immediate)) : Json()},
      {"invalidated_key", m.has_invalidate ? Json(hex(m.invalidated_key)) : Json()},
      {"solicited", m.solicited},
      {"nak", m.outcome == tracking::Outcome::refused && m.nak_code < std::size(nak_names) ? Json(nak_names[m.nak_code])
                                                                                           : Json()}};
}

Json event_json(const Event& event) {
  return Json{
      {"kind", to_string(event.kind)},
      {"cause", to_string(event.cause)},
      {"severity", to_string(tracking::event_rows[static_cast<std::size_t>(event.kind)].severity)},
      {"confidence", to_string(event.certainty)},
      {"not_observed", event.unobserved == tracking::Unobserved::nothing ? Json() : Json(to_string(event.unobserved))},
      {"connection", frame_or_null(event.connection)},
      {"end", text(event.end)},
      {"frame", frame_or_null(event.frame)},
      {"last_frame", frame_or_null(event.last_frame)},
      {"origin_frame", frame_or_null(event.origin_frame)},
      {"cause_frame", frame_or_null(event.cause_frame)},
      {"time", time_or_null(event.time)},
      {"duration_ns", event.duration},
      {"packets", event.packets},
      {"bytes", event.bytes},
      {"psn", event.psn},
      {"value", event.value},
      {"observed", event.found}};
}

namespace {

/// Returns the connections and their paths. `reverse` is the connection of the opposite direction, if both QPs are
/// known.
Json mrc_json(const Analysis& analysis) {
  const std::vector<tracking::MrcFlow> flows = analysis.mrc.sorted();
  std::map<std::tuple<PortAddress, PortAddress, std::uint32_t, std::uint32_t>, std::uint64_t> by_qps;
  for (const tracking::MrcFlow& flow : flows)
    if (flow.from_qp_known) by_qps[{flow.from, flow.to, flow.from_qp, flow.dest_qp}] = flow.first_frame;
  Json connections = Json::array(), paths = Json::array();
  for (const tracking::MrcFlow& flow : flows) {
    MemoryReserve::check();
    Json row = mrc_connection_json(flow);
    const auto reverse =
        flow.from_qp_known ? by_qps.find({flow.to, flow.from, flow.dest_qp, flow.from_qp}) : by_qps.end();
    row["reverse"] = reverse == by_qps.end() ? Json() : Json(reverse->second);
    connections.push_back(std::move(row));
    for (const tracking::MrcPath& path : flow.paths) paths.push_back(mrc_path_json(flow, path));
  }
  return Json{{"connections", connections}, {"paths", paths}};
}

}  // namespace

Json report_of(const Analysis& analysis, const Input& input, const std::vector<CounterDifference>& counters,
               std::size_t whole_connections) {
  InputFacts facts;
  facts.overlapping_files = input.overlapping_files;
  for (const Input::File& file : input.files) facts.lost_by_capture += file.lost_by_capture.value_or(0);
  const std::vector<Finding> findings = findings_of(analysis, facts);
  Json report{{"schema", "rdmawire.analysis/2"}, {"program", "rdmawire " RDMAWIRE_VERSION}};
  // An ordered_json object copies all its members when it grows, because their keys are constant. Reserving avoids
  // this.
  report.get_ref<Json::object_t&>().reserve(32);
  report["input"] = input_json(analysis, input);
  report["summary"] = summary_json(analysis, findings);
  report["findings"] = Json::array();
  for (std::size_t i = 0; i < findings.size(); ++i) {
    MemoryReserve::check();
    report["findings"].push_back(finding_json(findings[i], i + 1));
  }
  Json connections = Json::array(), flows = Json::array();
  for (const Connection& connection : analysis.kept_connections()) {
    MemoryReserve::check();
    if (connections.size() >= whole_connections) {
      connections.push_back({{"service", to_string(connection.service)}});
      continue;
    }
    connections.push_back(connection_json(connection));
    for (const Side end : {Side::a, Side::b}) flows.push_back(flow_json(connection, end));
  }
  report["connections"] = std::move(connections);
  report["flows"] = std::move(flows);
  report["mrc"] = mrc_json(analysis);
  report["operations"] = operations_json(analysis);
  report["latency"] = latency_json(analysis);
  report["retransmissions"] = Json::object();
  for (std::size_t i = 0; i < analysis.retransmissions.size(); ++i) {
    MemoryReserve::check();
    const Analysis::RecoveryCounts& row = analysis.retransmissions[i];
    if (row.recoveries)
      report["retransmissions"][std::string(to_string(static_cast<Cause>(i)))] = {{"recoveries", row.recoveries},
                                                                                  {"packets", row.packets},
                                                                                  {"bytes", row.bytes},
                                                                                  {"duration_ns", row.duration_ns}};
  }
  report["naks"] = Json::object();
  for (std::size_t i = 0; i < analysis.naks.size(); ++i)
    if (analysis.naks[i]) report["naks"][std::string(to_string(static_cast<Cause>(i)))] = analysis.naks[i];
  if (analysis.rnr_naks) report["naks"]["rnr"] = analysis.rnr_naks;
  report["regions"] = regions_json(analysis);
  add_traffic(report, analysis);
  report["congestion"] = congestion_json(analysis);
  report["pauses"] = pauses_json(analysis);
  report["management"] = management_json(analysis.management);
  report["incast"] = Json::array();
  for (const IncastRow& row : analysis.incast.rows())
    report["incast"].push_back({{"receiver", to_text(row.receiver)},
                                {"time", seconds(row.time)},
                                {"window_ns", analysis.incast.window()},
                                {"senders", row.senders},
                                {"bytes", row.bytes}});
  report["series"] = series_json(analysis.series);
  report["events"] = Json::array();
  for (std::size_t kind = 0; kind < tracking::event_kinds; ++kind)
    for (const Event& event : analysis.first_events(static_cast<EventKind>(kind)))
      report["events"].push_back(event_json(event));
  if (!counters.empty()) {
    report["counters"] = Json::array();
    for (const CounterDifference& row : counters)
      report["counters"].push_back({{"name", row.name},
                                    {"before", row.before},
                                    {"after", row.after},
                                    {"difference", row.difference},
                                    {"in_capture", row.in_capture ? Json(*row.in_capture) : Json()},
                                    {"note", row.says}});
  }
  return report;
}

}  // namespace rdmawire::captures::analysis
