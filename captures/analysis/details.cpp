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

/// Kind of a point. page.js uses the same order.
enum class PointKind : std::uint8_t { request, again, acknowledgement, response, nak, rnr_nak, cnp, marked };

/// Properties of a packet that PacketNote does not contain.
struct Seen {
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  const Opcode* op = nullptr;  ///< nullptr: no BTH
  std::uint32_t bytes = 0;     ///< on the wire
  std::uint32_t payload = 0;   ///< RDMA payload (of a TCP segment: of the FPDUs that end in it)
  std::uint8_t syndrome = 0;
  bool marked = false;  ///< ECN: congestion experienced
  // iWARP
  bool segment = false, sender_known = false, has_acknowledged = false, fin = false, reset = false;
  std::uint8_t pdus = 0, first_pdu = 0;  ///< FPDUs that end in it (255: or more), and the first one's RDMAP opcode
  bool first_is_ddp = false;             ///< whether first_pdu is valid
  std::uint32_t length = 0;
  std::uint64_t offset = 0, acknowledged = 0;

  [[nodiscard]] std::uint8_t syndrome_kind() const { return syndrome >> 5 & 3; }
  [[nodiscard]] bool negative() const {
    return op && op->operation == Operation::acknowledge && syndrome_kind() != rdmawire::syndrome_kind::ack;
  }
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
    seen.syndrome = transport.syndrome;
    constexpr std::uint8_t congestion_experienced = 3;
    seen.marked = (transport.traffic_class & 3) == congestion_experienced;
  }
  return seen;
}

struct Point {
  std::int64_t time = 0;  ///< nanoseconds since the capture's first packet
  std::int64_t sequence = 0;
  std::uint64_t frame = 0;
  std::uint32_t bytes = 0;
  PointKind kind = PointKind::request;
  Side end = Side::a;
};

/// Evenly spaced points up to a limit. When full, it drops every other point and doubles the sampling interval.
class Sample {
 public:
  explicit Sample(std::size_t room) : room_(std::max<std::size_t>(room, 2)) {}
  void add(const Point& point) {
    if (seen_++ % stride_ != 0) return;
    if (points_.size() == room_) {
      for (std::size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
      points_.resize((points_.size() + 1) / 2);
      stride_ *= 2;
      if ((seen_ - 1) % stride_ != 0) return;
    }
    points_.push_back(point);
  }
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] bool whole() const { return stride_ == 1; }

 private:
  std::size_t room_;
  std::uint64_t seen_ = 0, stride_ = 1;
  std::vector<Point> points_;
};

/// A packet in a sequence diagram.
struct SequenceEntry {
  Seen seen;
  std::uint64_t ordinal = 0;  ///< among the connection's packets
  Side end = Side::a;
  std::optional<std::int64_t> sequence;  ///< relative PSN, or stream offset of the first byte
  std::optional<std::int64_t> acknowledged;
  bool again = false;
};

/// "SEND Middle psn +12, 1024 bytes"
std::string text_of(const SequenceEntry& rung) {
  const Seen& seen = rung.seen;
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
      if (rung.sequence) fmt::format_to(out, " at {:+}", *rung.sequence);
      fmt::format_to(out, ", {} bytes", seen.length);
    } else if (rung.acknowledged) {
      fmt::format_to(out, " up to {:+}", *rung.acknowledged);
    }
    return text;
  }
  if (!seen.op) return fmt::format("{} bytes", seen.bytes);
  if (seen.negative()) {
    const std::uint8_t code = seen.syndrome & 31;
    if (seen.syndrome_kind() == syndrome_kind::rnr_nak)
      fmt::format_to(out, "RNR NAK wait {:g} ms", static_cast<double>(rnr_timer_ns(code)) / 1e6);
    else if (const Name* named = code < std::size(nak_code_entries) ? &nak_code_entries[code] : nullptr)
      fmt::format_to(out, "NAK {}", named->name);
    else
      fmt::format_to(out, "NAK code {}", code);
  } else if (seen.op->known) {
    // Omit the transport, which the connection determines.
    text = seen.op->name.substr(seen.op->name.find(' ') + 1);
  } else {
    fmt::format_to(out, "opcode {:#04x}", seen.op->value);
  }
  if (rung.sequence) fmt::format_to(out, " psn {:+}", *rung.sequence);
  if (seen.payload) fmt::format_to(out, ", {} bytes", seen.payload);
  if (seen.marked) text += ", ECN marked";
  return text;
}

struct Ladder {
  static constexpr std::size_t most = 40;
  struct Anchor {
    std::uint64_t frame = 0;
    std::size_t before = 0, after = 0;  ///< surrounding entries to include
  };
  std::uint64_t rank = 0, connection = 0;
  std::string kind, cause;
  std::uint64_t first_frame = 0, cause_frame = 0, origin_frame = 0;
  std::vector<Anchor> anchors;
  std::map<std::uint64_t, SequenceEntry> rungs;
  std::size_t to_come = 0;
};

class Collector final : public tracking::Sink {
 public:
  Collector(const Analysis& analysis, const Json& report, const DetailsOptions& options)
      : options_(options), origin_(analysis.first_time), ring_(std::size_t{1} << 17) {
    choose_ladders(analysis, report);
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
    if (seen.frame != frame) return;  // already overwritten in the ring
    SequenceEntry rung;
    rung.seen = seen;
    rung.ordinal = kept.packets;
    rung.end = note.end;
    rung.again = note.again;
    place(kept, note, rung);
    if (kept.plotted) plot(kept, rung);
    if (!kept.ladders.empty()) climb(kept, rung);
  }

  void event(const Connection* /*connection*/, const Event& event) override {
    for (Ladder& ladder : ladders_) {
      if (ladder.first_frame != event.frame || ladder.kind != to_string(event.kind) ||
          ladder.cause != to_string(event.cause))
        continue;
      ladder.cause_frame = event.cause_frame;
      ladder.origin_frame = event.origin_frame;
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
    Json ladders = Json::array();
    for (const Ladder& ladder : ladders_)
      if (!ladder.rungs.empty()) ladders.push_back(json_of(ladder));
    out += ladders.dump(-1, ' ', false, Json::error_handler_t::replace);
    out += '}';
    return out;
  }

 private:
  struct Plot {
    Sample plenty, rare;
    std::int64_t start = 0, step = 1;  ///< nanoseconds since 1970, nanoseconds
    std::array<std::vector<std::uint64_t>, 2> bytes, messages;

    Plot(const Connection& connection, std::size_t room, std::int64_t steps)
        // Reserve a quarter for retransmissions, NAKs, CNPs and ECN marks, so that sampling keeps them.
        : plenty(room - room / 4), rare(room / 4), start(connection.first_time) {
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
    std::vector<std::size_t> ladders;  ///< indices
    std::deque<SequenceEntry> before;  ///< latest entries
    std::uint64_t packets = 0;
    // State of each endpoint: latest sequence number, unwrapped, and for iWARP the stream offset of sequence number 0.
    std::array<std::int64_t, 2> last{};
    std::array<std::optional<std::int64_t>, 2> base;
    std::array<std::int64_t, 2> acknowledged{INT64_MIN, INT64_MIN};
  };

  static std::uint64_t number(const Json& object, const char* key) {
    const auto value = object.find(key);
    return value != object.end() && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
  }

  /// Selects the worst findings, and the frames that each sequence diagram must show.
  void choose_ladders(const Analysis& analysis, const Json& report) {
    // A finding of many connections names none, so look up the owner of its first frame.
    std::map<std::pair<std::uint64_t, EventKind>, std::uint64_t> owners;
    for (const auto& [connection, troubled] : analysis.troubled())
      for (const Group& group : troubled.groups) owners.emplace(std::pair(group.first_frame, group.kind), connection);
    for (const Json& finding : report.at("findings")) {
      if (ladders_.size() == options_.findings) break;
      Ladder ladder;
      ladder.rank = number(finding, "rank");
      ladder.connection = number(finding, "connection");
      ladder.first_frame = number(finding, "first_frame");
      if (ladder.first_frame == 0) continue;
      ladder.kind = finding.at("kind").get<std::string>();
      ladder.cause = finding.at("cause").get<std::string>();
      ladder.anchors.push_back({ladder.first_frame, 8, 11});
      if (ladder.connection == 0)
        for (const auto& [key, owner] : owners)
          if (key.first == ladder.first_frame && to_string(key.second) == ladder.kind) ladder.connection = owner;
      for (const Json& event : report.at("events")) {
        if (number(event, "frame") != ladder.first_frame || event.at("kind") != ladder.kind ||
            event.at("cause") != ladder.cause)
          continue;
        if (const std::uint64_t frame = number(event, "origin_frame")) ladder.anchors.push_back({frame, 1, 2});
        if (const std::uint64_t frame = number(event, "cause_frame")) ladder.anchors.push_back({frame, 2, 1});
        break;
      }
      if (ladder.connection)
        kept_[ladder.connection].ladders.push_back(ladders_.size());
      else
        unplaced_.emplace(ladder.first_frame, ladders_.size());
      ladders_.push_back(std::move(ladder));
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
      for (const Json& sufferer : finding.at("worst")) choose(number(sufferer, "connection"));
    }
    for (const Connection& row : rows) choose(row.id);
    if (chosen.empty()) return;
    const std::size_t room = std::min(options_.points, options_.points_in_all / chosen.size());
    for (const Connection* row : chosen) {
      kept_[row->id].plotted.emplace(*row, room, options_.steps);
      order_.push_back(row->id);
    }
  }

  /// Assigns a sequence diagram whose connection was unknown until now.
  void find_unplaced(std::uint64_t frame, std::uint64_t connection) {
    if (unplaced_.empty()) return;
    const auto [first, last] = unplaced_.equal_range(frame);
    for (auto at = first; at != last; ++at) {
      ladders_[at->second].connection = connection;
      kept_[connection].ladders.push_back(at->second);
    }
    unplaced_.erase(first, last);
  }

  /// Sets the position of a packet within the sequence of its requester, or within its stream.
  static void place(Kept& kept, const tracking::PacketNote& note, SequenceEntry& rung) {
    const Seen& seen = rung.seen;
    if (seen.segment) {
      std::int64_t& last = kept.last[index(note.end)];
      if (seen.sender_known) {
        last += static_cast<std::int32_t>(note.relative_psn - static_cast<std::uint32_t>(last));
        kept.base[index(note.end)] = static_cast<std::int64_t>(seen.offset - static_cast<std::uint64_t>(last));
        rung.sequence = last;
      }
      if (const auto& base = kept.base[index(other(note.end))]; seen.has_acknowledged && base)
        rung.acknowledged = static_cast<std::int64_t>(seen.acknowledged - static_cast<std::uint64_t>(*base));
      return;
    }
    if (!seen.op || seen.op->operation == Operation::congestion_notification) return;
    std::int64_t& last = kept.last[index(note.requester)];
    // Unwrap 24 bits relative to the preceding value, because a connection may exceed 2^24 packets.
    const std::uint32_t difference = (note.relative_psn - static_cast<std::uint32_t>(last)) << 8;
    last += static_cast<std::int32_t>(difference) >> 8;
    rung.sequence = last;
  }

  void plot(Kept& kept, const SequenceEntry& rung) const {
    Plot& plot = *kept.plotted;
    const Seen& seen = rung.seen;
    plot.bytes[index(rung.end)][plot.step_of(seen.time)] += seen.payload;
    Point point{difference(seen.time, origin_), 0, seen.frame, seen.bytes, PointKind::request, rung.end};
    if (seen.segment) {
      if (seen.length && rung.sequence) {
        point.kind = rung.again ? PointKind::again : PointKind::request;
        // End of the segment, which is the sequence number of its acknowledgement.
        point.sequence = *rung.sequence + seen.length;
        (rung.again ? plot.rare : plot.plenty).add(point);
      }
      std::int64_t& before = kept.acknowledged[index(rung.end)];
      if (rung.acknowledged && (*rung.acknowledged != before || seen.length == 0)) {
        before = *rung.acknowledged;
        point.kind = PointKind::acknowledgement;
        point.sequence = *rung.acknowledged;
        plot.plenty.add(point);
      }
      return;
    }
    if (!seen.op) return;
    if (seen.op->operation == Operation::congestion_notification) {
      point.kind = PointKind::cnp;
    } else if (seen.op->direction == Direction::request) {
      point.kind = rung.again ? PointKind::again : seen.marked ? PointKind::marked : PointKind::request;
    } else if (seen.negative()) {
      point.kind = seen.syndrome_kind() == syndrome_kind::rnr_nak ? PointKind::rnr_nak : PointKind::nak;
    } else {
      point.kind = seen.op->operation == Operation::acknowledge ? PointKind::acknowledgement : PointKind::response;
    }
    point.sequence = rung.sequence.value_or(0);
    const bool plenty = point.kind == PointKind::request || point.kind == PointKind::acknowledgement ||
                        point.kind == PointKind::response;
    (plenty ? plot.plenty : plot.rare).add(point);
  }

  void climb(Kept& kept, const SequenceEntry& rung) {
    constexpr std::size_t most_before = 8;
    for (const std::size_t at : kept.ladders) {
      Ladder& ladder = ladders_[at];
      for (const Ladder::Anchor& anchor : ladder.anchors) {
        if (anchor.frame != rung.seen.frame) continue;
        const std::size_t count = std::min(anchor.before, kept.before.size());
        for (std::size_t i = kept.before.size() - count; i < kept.before.size(); ++i)
          ladder.rungs.emplace(kept.before[i].seen.frame, kept.before[i]);
        ladder.to_come = std::max(ladder.to_come, anchor.after + 1);
      }
      if (ladder.to_come == 0) continue;
      --ladder.to_come;
      if (ladder.rungs.size() < Ladder::most) ladder.rungs.emplace(rung.seen.frame, rung);
    }
    if (kept.before.size() == most_before) kept.before.pop_front();
    kept.before.push_back(rung);
  }

  [[nodiscard]] static Json json_of(const Ladder& ladder) {
    Json frames = Json::array();
    std::uint64_t ordinal = 0;
    for (const auto& [frame, rung] : ladder.rungs) {
      std::string time;
      output::append_seconds(time, rung.seen.time);
      Json row{{"frame", frame}, {"time", time}, {"from", name(rung.end)}, {"text", text_of(rung)}};
      if (frame == ladder.cause_frame)
        row["mark"] = "cause";
      else if (frame == ladder.first_frame)
        row["mark"] = "event";
      else if (rung.again)
        row["mark"] = "retransmitted";
      else if (frame == ladder.origin_frame)
        row["mark"] = "origin";
      if (ordinal && rung.ordinal > ordinal + 1) row["skipped"] = rung.ordinal - ordinal - 1;
      ordinal = rung.ordinal;
      frames.push_back(std::move(row));
    }
    return {{"finding", ladder.rank}, {"connection", ladder.connection}, {"frames", frames}};
  }

  // Formats the points directly, without Json objects, because there are many.
  static void append(std::string& out, std::uint64_t id, const Plot& plot) {
    std::vector<Point> points = plot.plenty.points();
    points.insert(points.end(), plot.rare.points().begin(), plot.rare.points().end());
    std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.frame < b.frame; });
    const auto to = std::back_inserter(out);
    fmt::format_to(to, R"({{"connection":{},"sampled":{},"points":[)", id, !(plot.plenty.whole() && plot.rare.whole()));
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
  std::vector<Seen> ring_;  ///< by frame number, until packet() reports the connection
  std::vector<Ladder> ladders_;
  std::multimap<std::uint64_t, std::size_t> unplaced_;  ///< by frame: diagrams without a known connection
  std::unordered_map<std::uint64_t, Kept> kept_;
  std::vector<std::uint64_t> order_;  ///< plotted connections
};

}  // namespace

std::string details_of(const RunOptions& options, const Analysis& analysis, const Json& report,
                       const DetailsOptions& details) {
  Collector collector(analysis, report, details);
  RunOptions again = options;
  again.threads = 1;
  again.also = &collector;
  again.tracker.packets = true;
  again.on_packet = [&collector](const tracking::Packet& packet) { collector.add(packet); };
  static_cast<void>(run(again));
  return collector.json();
}

}  // namespace rdmawire::captures::analysis
