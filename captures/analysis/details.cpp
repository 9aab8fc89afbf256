#include "captures/analysis/details.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>

#include "dissectors/output/value.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/time.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::captures::analysis {
namespace {

std::size_t index(Side end) { return static_cast<std::size_t>(end); }
std::string_view name(Side end) { return end == Side::a ? "a" : "b"; }

/// Kind of a point. The order is that of point_kinds in page/connection.js.
enum class PointKind : std::uint8_t { request, retransmission, acknowledgement, response, nak, rnr_nak, cnp, marked };

/// Properties of a packet that are not in PacketNote.
struct Seen {
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  const Opcode* op = nullptr;  ///< nullptr: no BTH
  std::uint32_t bytes = 0;     ///< length on the wire in bytes
  std::uint32_t payload = 0;   ///< RDMA payload in bytes (TCP segment: payload of the FPDUs that end in it)
  Syndrome syndrome{0};
  bool marked = false;  ///< ECN-marked: Congestion Experienced
  // iWARP:
  bool segment = false, sender_known = false, has_acknowledged = false, fin = false, reset = false;
  std::uint8_t
      pdus = 0,
      first_pdu = 0;  ///< number of FPDUs that end in the segment (255: 255 or more), and RDMAP opcode of the first one
  bool first_is_ddp = false;  ///< first_pdu is valid
  std::uint32_t length = 0;
  std::uint64_t offset = 0, acknowledged = 0;

  [[nodiscard]] bool negative() const { return op && op->operation == Operation::acknowledge && !syndrome.is_ack(); }
};

Seen seen_of(const tracking::Packet& packet) {
  Seen seen;
  seen.frame = packet.number;
  seen.time = packet.time_ns;
  seen.bytes = packet.stack.wire_length;
  if (packet.tcp.connection || !packet.pdus.empty()) {
    seen.segment = true;
    seen.sender_known = packet.tcp.sender_known;
    seen.has_acknowledged = packet.tcp.has_acknowledged;
    seen.fin = packet.tcp.fin;
    seen.reset = packet.tcp.reset;
    seen.length = packet.tcp.length;
    seen.offset = packet.tcp.offset;
    seen.acknowledged = packet.tcp.acknowledged;
    seen.pdus = static_cast<std::uint8_t>(std::min<std::size_t>(packet.pdus.size(), 255));
    for (const tracking::Pdu& pdu : packet.pdus) seen.payload += pdu.stack.payload.length;
    if (!packet.pdus.empty())
      if (const auto control = packet.pdus.front().stack.get<Rdmap>()) {
        seen.first_is_ddp = true;
        seen.first_pdu = control->get<"opcode">();
      }
  } else if (tracking::TransportPacket transport; tracking::read_transport_packet(packet, transport)) {
    seen.op = transport.op;
    seen.payload = transport.payload;
    seen.syndrome = Syndrome(transport.syndrome);
    constexpr std::uint8_t congestion_experienced = 3;
    seen.marked = (transport.traffic_class & 3) == congestion_experienced;
  }
  return seen;
}

struct Point {
  std::int64_t time = 0;  ///< nanoseconds since the first packet of the capture
  std::int64_t sequence = 0;
  std::uint64_t frame = 0;
  std::uint32_t bytes = 0;
  PointKind kind = PointKind::request;
  Side end = Side::a;
};

/// Keeps evenly spaced points, up to a limit. When the limit is reached, drops every other point and doubles the
/// interval.
class Sample {
 public:
  explicit Sample(std::size_t capacity) : capacity_(std::max<std::size_t>(capacity, 2)) {}
  void add(const Point& point) {
    if (seen_++ % stride_ != 0) return;
    if (points_.size() == capacity_) {
      for (std::size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
      points_.resize((points_.size() + 1) / 2);
      stride_ *= 2;
      if ((seen_ - 1) % stride_ != 0) return;
    }
    points_.push_back(point);
  }
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] bool complete() const { return stride_ == 1; }

 private:
  std::size_t capacity_;
  std::uint64_t seen_ = 0, stride_ = 1;
  std::vector<Point> points_;
};

/// A packet in a sequence diagram.
struct SequenceEntry {
  Seen seen;
  std::uint64_t ordinal = 0;  ///< number of the packet within its connection
  Side end = Side::a;
  std::optional<std::int64_t> sequence;  ///< relative PSN, or offset of the first byte in the stream
  std::optional<std::int64_t> acknowledged;
  bool retransmission = false;
};

/// Returns the text of an entry, such as "SEND Middle psn +12, 1024 bytes".
std::string text_of(const SequenceEntry& entry) {
  const Seen& seen = entry.seen;
  std::string text;
  const auto out = std::back_inserter(text);
  if (seen.segment) {
    if (seen.first_is_ddp && rdmap_opcode(seen.first_pdu).known)
      text = rdmap_opcode(seen.first_pdu).name;
    else if (seen.pdus)
      text = "MPA";
    else
      text = seen.reset ? "TCP RST" : seen.fin ? "TCP FIN" : seen.length ? "TCP segment" : "TCP ACK";
    if (seen.pdus > 1) fmt::format_to(out, " and {} more", seen.pdus - 1);
    if (seen.length) {
      if (entry.sequence) fmt::format_to(out, " at {:+}", *entry.sequence);
      fmt::format_to(out, ", {} bytes", seen.length);
    } else if (entry.acknowledged) {
      fmt::format_to(out, " up to {:+}", *entry.acknowledged);
    }
    return text;
  }
  if (!seen.op) return fmt::format("{} bytes", seen.bytes);
  if (seen.negative()) {
    const std::uint8_t code = seen.syndrome.code();
    if (seen.syndrome.is_rnr_nak())
      fmt::format_to(out, "RNR NAK wait {:g} ms", static_cast<double>(seen.syndrome.wait_ns()) / 1e6);
    else if (const Name* named = code < std::size(nak_code_entries) ? &nak_code_entries[code] : nullptr)
      fmt::format_to(out, "NAK {}", named->name);
    else
      fmt::format_to(out, "NAK code {}", code);
  } else if (seen.op->known) {
    // Omit the transport, which is that of the connection.
    text = seen.op->name.substr(seen.op->name.find(' ') + 1);
  } else {
    fmt::format_to(out, "opcode {:#04x}", seen.op->value);
  }
  if (entry.sequence) fmt::format_to(out, " psn {:+}", *entry.sequence);
  if (seen.payload) fmt::format_to(out, ", {} bytes", seen.payload);
  if (seen.marked) text += ", ECN marked";
  return text;
}

struct SequenceDiagram {
  static constexpr std::size_t most = 40;
  struct Anchor {
    std::uint64_t frame = 0;
    std::size_t before = 0, after = 0;  ///< number of entries to include before and after the frame
  };
  std::uint64_t rank = 0, connection = 0;
  std::string kind, cause;
  std::uint64_t first_frame = 0, cause_frame = 0, origin_frame = 0;
  std::vector<Anchor> anchors;
  std::map<std::uint64_t, SequenceEntry> entries;
  std::size_t to_come = 0;
};

class Collector final : public tracking::Sink {
 public:
  Collector(const Analysis& analysis, const Json& report, const DetailsOptions& options)
      : options_(options), origin_(analysis.first_time), ring_(std::size_t{1} << 17) {
    choose_diagrams(analysis, report);
    choose_connections(analysis, report);
  }

  void add(const tracking::Packet& packet) { ring_[packet.number & (ring_.size() - 1)] = seen_of(packet); }

  void packet(const Connection& /*connection*/, std::uint64_t frame, const tracking::PacketNote& note) override {
    find_unplaced(frame, note.connection);
    const auto found = kept_.find(note.connection);
    if (found == kept_.end()) return;
    Kept& kept = found->second;
    const Seen& seen = ring_[frame & (ring_.size() - 1)];
    ++kept.packets;
    if (seen.frame != frame) return;  // the packet was already overwritten in the ring
    SequenceEntry entry;
    entry.seen = seen;
    entry.ordinal = kept.packets;
    entry.end = note.end;
    entry.retransmission = note.again;
    place(kept, note, entry);
    if (kept.plotted) plot(kept, entry);
    if (!kept.diagrams.empty()) add_to_diagrams(kept, entry);
  }

  void event(const Connection* /*connection*/, const Event& event) override {
    for (SequenceDiagram& diagram : diagrams_) {
      if (diagram.first_frame != event.frame || diagram.kind != to_string(event.kind) ||
          diagram.cause != to_string(event.cause))
        continue;
      diagram.cause_frame = event.cause_frame;
      diagram.origin_frame = event.origin_frame;
    }
  }

  void message(const Connection& /*connection*/, const Message& message) override {
    const auto found = kept_.find(message.connection);
    if (found == kept_.end() || !found->second.plotted || message.start == 0) return;
    Plot& plot = *found->second.plotted;
    ++plot.messages[index(message.end)][plot.step_of(message.start)];
  }

  [[nodiscard]] std::string json() const {
    std::string out = R"({"schema":"rdmawire.page/2","connections":[)";
    bool first = true;
    for (const std::uint64_t id : order_) {
      if (!first) out += ',';
      first = false;
      append(out, id, *kept_.at(id).plotted);
    }
    out += R"(],"sequences":)";
    Json diagrams = Json::array();
    for (const SequenceDiagram& diagram : diagrams_)
      if (!diagram.entries.empty()) diagrams.push_back(json_of(diagram));
    out += diagrams.dump(-1, ' ', false, Json::error_handler_t::replace);
    out += '}';
    return out;
  }

 private:
  struct Plot {
    Sample plenty, rare;
    std::int64_t start = 0,
                 step = 1;  ///< start of the first step in nanoseconds since 1970, and length of a step in nanoseconds
    std::array<std::vector<std::uint64_t>, 2> bytes, messages;

    Plot(const Connection& connection, std::size_t capacity, std::int64_t steps)
        // A quarter of the points is reserved for retransmissions, NAKs, CNPs and ECN marks, so that they are not lost
        // in the sampling.
        : plenty(capacity - capacity / 4), rare(capacity / 4), start(connection.first_time) {
      const std::int64_t length = std::max<std::int64_t>(difference(connection.last_time, connection.first_time), 0);
      constexpr std::int64_t finest = 1000;
      step = std::max(finest, length / steps + 1);
      const auto count = static_cast<std::size_t>(length / step + 1);
      for (auto* values : {&bytes, &messages})
        for (auto& of_end : *values) of_end.resize(count);
    }
    [[nodiscard]] std::size_t step_of(std::int64_t time) const {
      const std::int64_t at = std::max<std::int64_t>(difference(time, start), 0) / step;
      return std::min(static_cast<std::size_t>(at), bytes[0].size() - 1);
    }
  };
  struct Kept {
    std::optional<Plot> plotted;
    std::vector<std::size_t> diagrams;  ///< indices of the sequence diagrams
    std::deque<SequenceEntry> before;   ///< latest entries, which may precede a diagram's frame
    std::uint64_t packets = 0;
    // State of each endpoint: the latest unwrapped sequence number (iWARP: the stream offset of sequence number 0), and
    // the latest acknowledgement.
    std::array<std::int64_t, 2> last{};
    std::array<std::optional<std::int64_t>, 2> base;
    std::array<std::int64_t, 2> acknowledged{INT64_MIN, INT64_MIN};
  };

  static std::uint64_t number(const Json& object, const char* key) {
    const auto value = object.find(key);
    return value != object.end() && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
  }

  /// Selects the worst findings, and the frames that their sequence diagrams must show.
  void choose_diagrams(const Analysis& analysis, const Json& report) {
    // A finding about many connections does not name one, so look up the connection of its first frame.
    std::map<std::pair<std::uint64_t, EventKind>, std::uint64_t> owners;
    for (const auto& [connection, affected] : analysis.affected())
      for (const Group& group : affected.groups) owners.emplace(std::pair(group.first_frame, group.kind), connection);
    for (const Json& finding : report.at("findings")) {
      if (diagrams_.size() == options_.findings) break;
      SequenceDiagram diagram;
      diagram.rank = number(finding, "rank");
      diagram.connection = number(finding, "connection");
      diagram.first_frame = number(finding, "first_frame");
      if (diagram.first_frame == 0) continue;
      diagram.kind = finding.at("kind").get<std::string>();
      diagram.cause = finding.at("cause").get<std::string>();
      diagram.anchors.push_back({diagram.first_frame, 8, 11});
      if (diagram.connection == 0)
        for (const auto& [key, owner] : owners)
          if (key.first == diagram.first_frame && to_string(key.second) == diagram.kind) diagram.connection = owner;
      for (const Json& event : report.at("events")) {
        if (number(event, "frame") != diagram.first_frame || event.at("kind") != diagram.kind ||
            event.at("cause") != diagram.cause)
          continue;
        if (const std::uint64_t frame = number(event, "origin_frame")) diagram.anchors.push_back({frame, 1, 2});
        if (const std::uint64_t frame = number(event, "cause_frame")) diagram.anchors.push_back({frame, 2, 1});
        break;
      }
      if (diagram.connection)
        kept_[diagram.connection].diagrams.push_back(diagrams_.size());
      else
        unplaced_.emplace(diagram.first_frame, diagrams_.size());
      diagrams_.push_back(std::move(diagram));
    }
  }

  void choose_connections(const Analysis& analysis, const Json& report) {
    const std::vector<Connection> rows = analysis.kept_connections();
    std::unordered_map<std::uint64_t, const Connection*> by_id;
    for (const Connection& row : rows) by_id.emplace(row.id, &row);
    std::vector<const Connection*> chosen;
    const auto choose = [&](std::uint64_t id) {
      const auto row = by_id.find(id);
      if (row == by_id.end() || chosen.size() == options_.connections) return;
      chosen.push_back(row->second);
      by_id.erase(row);
    };
    for (const Json& finding : report.at("findings")) {
      choose(number(finding, "connection"));
      for (const Json& affected : finding.at("worst")) choose(number(affected, "connection"));
    }
    for (const Connection& row : rows) choose(row.id);
    if (chosen.empty()) return;
    const std::size_t capacity = std::min(options_.points, options_.points_in_all / chosen.size());
    for (const Connection* row : chosen) {
      kept_[row->id].plotted.emplace(*row, capacity, options_.steps);
      order_.push_back(row->id);
    }
  }

  /// Sets the connection of sequence diagrams that start at the frame, if it was unknown.
  void find_unplaced(std::uint64_t frame, std::uint64_t connection) {
    if (unplaced_.empty()) return;
    const auto [first, last] = unplaced_.equal_range(frame);
    for (auto at = first; at != last; ++at) {
      diagrams_[at->second].connection = connection;
      kept_[connection].diagrams.push_back(at->second);
    }
    unplaced_.erase(first, last);
  }

  /// Sets the position of a packet in the sequence of its requester, or in its stream.
  static void place(Kept& kept, const tracking::PacketNote& note, SequenceEntry& entry) {
    const Seen& seen = entry.seen;
    if (seen.segment) {
      std::int64_t& last = kept.last[index(note.end)];
      if (seen.sender_known) {
        last += static_cast<std::int32_t>(note.relative_psn - static_cast<std::uint32_t>(last));
        kept.base[index(note.end)] = static_cast<std::int64_t>(seen.offset - static_cast<std::uint64_t>(last));
        entry.sequence = last;
      }
      if (const auto& base = kept.base[index(other(note.end))]; seen.has_acknowledged && base)
        entry.acknowledged = static_cast<std::int64_t>(seen.acknowledged - static_cast<std::uint64_t>(*base));
      return;
    }
    if (!seen.op || seen.op->operation == Operation::congestion_notification) return;
    std::int64_t& last = kept.last[index(note.requester)];
    // Unwrap the 24 bits relative to the preceding value, because a connection may have more than 2^24 packets.
    const std::uint32_t difference = (note.relative_psn - static_cast<std::uint32_t>(last)) << 8;
    last += static_cast<std::int32_t>(difference) >> 8;
    entry.sequence = last;
  }

  void plot(Kept& kept, const SequenceEntry& entry) const {
    Plot& plot = *kept.plotted;
    const Seen& seen = entry.seen;
    plot.bytes[index(entry.end)][plot.step_of(seen.time)] += seen.payload;
    Point point{difference(seen.time, origin_), 0, seen.frame, seen.bytes, PointKind::request, entry.end};
    if (seen.segment) {
      if (seen.length && entry.sequence) {
        point.kind = entry.retransmission ? PointKind::retransmission : PointKind::request;
        // The end of the segment, which is the number with which it is acknowledged.
        point.sequence = *entry.sequence + seen.length;
        (entry.retransmission ? plot.rare : plot.plenty).add(point);
      }
      std::int64_t& before = kept.acknowledged[index(entry.end)];
      if (entry.acknowledged && (*entry.acknowledged != before || seen.length == 0)) {
        before = *entry.acknowledged;
        point.kind = PointKind::acknowledgement;
        point.sequence = *entry.acknowledged;
        plot.plenty.add(point);
      }
      return;
    }
    if (!seen.op) return;
    if (seen.op->operation == Operation::congestion_notification) {
      point.kind = PointKind::cnp;
    } else if (seen.op->direction == Direction::request) {
      point.kind = entry.retransmission ? PointKind::retransmission
                   : seen.marked        ? PointKind::marked
                                        : PointKind::request;
    } else if (seen.negative()) {
      point.kind = seen.syndrome.is_rnr_nak() ? PointKind::rnr_nak : PointKind::nak;
    } else {
      point.kind = seen.op->operation == Operation::acknowledge ? PointKind::acknowledgement : PointKind::response;
    }
    point.sequence = entry.sequence.value_or(0);
    const bool plenty = point.kind == PointKind::request || point.kind == PointKind::acknowledgement ||
                        point.kind == PointKind::response;
    (plenty ? plot.plenty : plot.rare).add(point);
  }

  void add_to_diagrams(Kept& kept, const SequenceEntry& entry) {
    constexpr std::size_t most_before = 8;
    for (const std::size_t at : kept.diagrams) {
      SequenceDiagram& diagram = diagrams_[at];
      for (const SequenceDiagram::Anchor& anchor : diagram.anchors) {
        if (anchor.frame != entry.seen.frame) continue;
        const std::size_t count = std::min(anchor.before, kept.before.size());
        for (std::size_t i = kept.before.size() - count; i < kept.before.size(); ++i)
          diagram.entries.emplace(kept.before[i].seen.frame, kept.before[i]);
        diagram.to_come = std::max(diagram.to_come, anchor.after + 1);
      }
      if (diagram.to_come == 0) continue;
      --diagram.to_come;
      if (diagram.entries.size() < SequenceDiagram::most) diagram.entries.emplace(entry.seen.frame, entry);
    }
    if (kept.before.size() == most_before) kept.before.pop_front();
    kept.before.push_back(entry);
  }

  [[nodiscard]] static Json json_of(const SequenceDiagram& diagram) {
    Json frames = Json::array();
    std::uint64_t ordinal = 0;
    for (const auto& [frame, entry] : diagram.entries) {
      std::string time;
      output::append_seconds(time, entry.seen.time);
      Json row{{"frame", frame}, {"time", time}, {"from", name(entry.end)}, {"text", text_of(entry)}};
      if (frame == diagram.cause_frame)
        row["mark"] = "cause";
      else if (frame == diagram.first_frame)
        row["mark"] = "event";
      else if (entry.retransmission)
        row["mark"] = "retransmitted";
      else if (frame == diagram.origin_frame)
        row["mark"] = "origin";
      if (ordinal && entry.ordinal > ordinal + 1) row["skipped"] = entry.ordinal - ordinal - 1;
      ordinal = entry.ordinal;
      frames.push_back(std::move(row));
    }
    return {{"finding", diagram.rank}, {"connection", diagram.connection}, {"frames", frames}};
  }

  // Formats the points directly and not as Json objects, because there are many.
  static void append(std::string& out, std::uint64_t id, const Plot& plot) {
    std::vector<Point> points = plot.plenty.points();
    points.insert(points.end(), plot.rare.points().begin(), plot.rare.points().end());
    std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.frame < b.frame; });
    const auto to = std::back_inserter(out);
    fmt::format_to(to, R"({{"connection":{},"sampled":{},"points":[)", id,
                   !(plot.plenty.complete() && plot.rare.complete()));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Point& point = points[i];
      fmt::format_to(to, "{}[{},{},{},", i ? "," : "", point.time, index(point.end), static_cast<int>(point.kind));
      if (point.kind == PointKind::cnp)
        out += "null";
      else
        fmt::format_to(to, "{}", point.sequence);
      fmt::format_to(to, ",{},{}]", point.frame, point.bytes);
    }
    std::string start;
    output::append_seconds(start, plot.start);
    const Json series{{"start", start},           {"step_ns", plot.step},           {"bytes_a", plot.bytes[0]},
                      {"bytes_b", plot.bytes[1]}, {"messages_a", plot.messages[0]}, {"messages_b", plot.messages[1]}};
    fmt::format_to(to, R"(],"series":{}}})", series.dump());
  }

  DetailsOptions options_;
  std::int64_t origin_;
  std::vector<Seen> ring_;  ///< packets by frame number. They wait until packet() is called with their connection
  std::vector<SequenceDiagram> diagrams_;
  std::multimap<std::uint64_t, std::size_t> unplaced_;  ///< diagrams whose connection is unknown, by frame
  std::unordered_map<std::uint64_t, Kept> kept_;
  std::vector<std::uint64_t> order_;  ///< connections with plots
};

}  // namespace

std::string details_of(const RunOptions& options, const Analysis& analysis, const Json& report,
                       const DetailsOptions& details) {
  Collector collector(analysis, report, details);
  RunOptions second_pass = options;
  second_pass.threads = 1;
  second_pass.also = &collector;
  second_pass.tracker.packets = true;
  second_pass.on_packet = [&collector](const tracking::Packet& packet) { collector.add(packet); };
  static_cast<void>(run(second_pass));
  return collector.json();
}

}  // namespace rdmawire::captures::analysis
