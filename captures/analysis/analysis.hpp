#pragma once
/// Statistics of a capture: counters, tables and percentiles of packets and of tracking results.

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "captures/analysis/bounded.hpp"
#include "captures/analysis/histogram.hpp"
#include "captures/analysis/management.hpp"
#include "captures/analysis/series.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/level.hpp"
#include "dissectors/tracking/mrc_flow.hpp"
#include "dissectors/tracking/packet.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::captures::analysis {

using tracking::Cause;
using tracking::Connection;
using tracking::Event;
using tracking::EventKind;
using tracking::FlowKey;
using tracking::Message;
using tracking::MessageKind;
using tracking::PortAddress;
using tracking::Severity;
using tracking::Side;

/// Kind of a measured latency. Every kind starts at the first packet of the request.
enum class Phase : std::uint8_t { request_to_acknowledgement, request_to_first_response, request_to_last_response };
inline constexpr std::size_t phases = 3;
std::string_view to_string(Phase phase);

/// Role of a packet, which determines its expected traffic class.
enum class PacketClass : std::uint8_t { data, acknowledgement, cnp, management, other };
inline constexpr std::size_t packet_classes = 5;
std::string_view to_string(PacketClass packet_class);

/// Number of size classes. They are powers of two: class 0 is an empty payload, class n is 2^(n-1) to 2^n - 1 bytes.
inline constexpr std::size_t size_classes = 65;
constexpr std::size_t size_class(std::uint64_t size) { return static_cast<std::size_t>(std::bit_width(size)); }
constexpr std::uint64_t size_from(std::size_t size_class) {
  return size_class == 0 ? 0 : std::uint64_t{1} << (size_class - 1);
}
constexpr std::uint64_t size_to(std::size_t size_class) {
  return size_class == 0 ? 0 : (size_from(size_class) - 1) * 2 + 1;
}

struct AnalysisOptions {
  std::uint32_t connections =
      20'000;  ///< maximum number of connections with a row: those with the most bytes on the wire
  std::uint32_t talkers = 1U << 16;   ///< maximum number of directions between two addresses
  std::uint32_t regions = 1U << 16;   ///< maximum number of pairs of a responder and a key
  std::uint32_t distinct = 1U << 20;  ///< maximum number of distinct queue pairs, and of distinct source ports
  std::uint32_t affected =
      1U << 16;  ///< maximum number of connections with separate event groups, on average four each
  std::uint32_t mrc_paths =
      1U << 17;  ///< maximum number of paths of the MRC flows with a row, which are those with the most bytes
  std::uint32_t events_of_a_kind = 50;  ///< maximum number of complete events of each kind, which are the earliest
  std::int64_t incast_window = 10'000;  ///< length of a window in nanoseconds
};

struct OperationRow {
  std::uint64_t messages = 0, bytes = 0, completed = 0, refused = 0;
  std::uint64_t size_min = UINT64_MAX, size_max = 0;
  std::array<std::uint64_t, size_classes> sizes{};
};

struct TalkerRow {
  std::uint64_t packets = 0, bytes = 0, payload_bytes = 0;
  std::uint64_t queue_pairs = 0,
                source_ports =
                    0;  ///< numbers of distinct destination queue pairs and of distinct UDP source ports (RoCEv2)
  std::uint64_t crc_bad = 0,
                first_crc_bad = 0;  ///< number of packets with a bad CRC, and frame number of the first one
  // Values of the preceding packet, which are the same for most packets.
  std::uint32_t last_qp = UINT32_MAX, last_port = UINT32_MAX;
  void merge(const TalkerRow& other);
};

struct RegionRow {
  std::uint64_t address_from = UINT64_MAX,
                address_to = 0;  ///< address of the first accessed byte, and address after the last one
  std::uint64_t read_bytes = 0, written_bytes = 0, atomics = 0, refused = 0, messages = 0;
  void merge(const RegionRow& other);
};

/// Key of the pause frames of one sender and priority. IEEE 802.3, annex 31B, and IEEE 802.1Q, 36.
struct PauseKey {
  std::uint64_t source = 0;  ///< MAC address
  std::uint8_t priority = 0;
  static constexpr std::uint8_t whole_link = 8;  ///< value for 802.3x pause frames, which have no priority
  friend auto operator<=>(const PauseKey&, const PauseKey&) = default;
};
struct PauseRow {
  std::uint64_t frames = 0;   ///< number of pause and resume frames
  std::uint64_t stops = 0;    ///< number of pause frames (quanta not 0)
  std::uint64_t quanta = 0;   ///< sum of the requested quanta, in units of 512 bit times
  std::int64_t pause_ns = 0;  ///< sum of the times from a pause frame to its resume frame
  std::uint64_t first_frame = 0;
  std::int64_t paused_since = -1;  ///< time of a pause frame whose resume frame has not arrived yet, or -1
};

/// Events of one connection that have the same kind, cause and affected endpoint.
struct Group {
  static constexpr std::size_t most_frames = 10;
  EventKind kind = EventKind::retransmission;
  Cause cause = Cause::none;
  Side end = Side::a;
  std::uint64_t count = 0, packets = 0, bytes = 0;
  std::int64_t cost_ns = 0;
  std::uint64_t first_frame = UINT64_MAX, last_frame = 0;
  std::int64_t first_time = INT64_MAX, last_time = INT64_MIN;
  std::uint8_t frame_count = 0;
  std::array<std::uint64_t, most_frames> frames{};                         ///< lowest frame numbers, ascending
  std::array<std::uint64_t, 3> by_certainty{};                             ///< number of events by Certainty
  std::array<std::uint64_t, tracking::unobserved_values> by_unobserved{};  ///< number of events by Unobserved

  void add(const Event& event);
  void merge(const Group& other);

 private:
  void add_frame(std::uint64_t frame);
};

/// Events of one connection.
struct ConnectionEvents {
  std::array<tracking::ConnectionEnd, 2> ends;
  std::array<std::uint64_t, 2> packets{};  ///< number of packets that each endpoint sent so far
  tracking::Service service = tracking::Service::rc;
  std::vector<Group> groups;
};

/// Number of connections that share a property, and the first frame of the earliest connection.
struct ConnectionCount {
  std::uint64_t connections = 0;
  std::uint64_t first_frame = UINT64_MAX;
  void add(const Connection& connection) {
    ++connections;
    first_frame = std::min(first_frame, connection.id);
  }
  void merge(const ConnectionCount& other) {
    connections += other.connections;
    first_frame = std::min(first_frame, other.first_frame);
  }
};

/// Keeps the MRC flows with the most payload bytes, as long as the number of their paths is within a limit. The result
/// does not depend on the order of insertion.
class MrcFlows {
 public:
  explicit MrcFlows(std::uint32_t most_paths = 0) : most_paths_(most_paths) {}
  void add(const tracking::MrcFlow& flow);
  void merge(const MrcFlows& other);
  /// Returns the flows that are kept, most bytes first.
  [[nodiscard]] std::vector<tracking::MrcFlow> sorted() const;
  /// Number of flows that were not kept.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  friend struct Archived;
  static std::uint64_t weight(const tracking::MrcFlow& flow) { return flow.paths.size() + flow.nacks.size() + 8; }
  static bool before(const tracking::MrcFlow& a, const tracking::MrcFlow& b);
  /// True if the flow precedes all dropped flows in the order. Only then can it be kept.
  [[nodiscard]] bool precedes_dropped(const tracking::MrcFlow& flow) const;
  /// Sorts the flows, and removes those beyond the limit.
  void limit();

  std::uint32_t most_paths_;
  std::uint64_t paths_ = 0;                   ///< sum of the weights of flows_
  std::uint64_t dropped_ = 0;                 ///< number of flows that limit() removed
  std::uint64_t dropped_bytes_ = 0;           ///< payload bytes of the dropped flow that is first in the order
  std::uint64_t dropped_frame_ = UINT64_MAX;  ///< first frame of that flow (UINT64_MAX: none was dropped)
  std::vector<tracking::MrcFlow> flows_;
};

/// A window in which several senders sent to one receiver.
struct IncastRow {
  PortAddress receiver;
  std::int64_t time = 0;  ///< start of the window
  std::uint32_t senders = 0;
  std::uint64_t bytes = 0;
};

/// Counts distinct senders by receiver and window. Instances for disjoint sets of receivers merge exactly. Therefore,
/// the packets for Incast are divided among shards by receiver, while those for Analysis are divided by endpoint pair.
class Incast {
 public:
  explicit Incast(std::int64_t window = 10'000, std::uint32_t receivers = 1U << 12);
  /// Adds a packet with `bytes` of payload. Ignores a packet that belongs to a window before the receiver's latest one.
  void add(const PortAddress& sender, const PortAddress& receiver, std::int64_t time, std::uint64_t bytes);
  void merge(const Incast& other);
  /// Returns the windows with at least two senders, in descending order of the number of senders.
  [[nodiscard]] std::vector<IncastRow> rows() const;
  /// Number of packets that were not counted because the table of receivers was full.
  [[nodiscard]] std::uint64_t overflow() const { return receivers_.overflow() + merged_overflow_; }
  [[nodiscard]] tracking::Level level() const { return {receivers_.rows().size(), receivers_.capacity()}; }
  [[nodiscard]] std::int64_t window() const { return window_; }

 private:
  friend struct Archived;
  static constexpr std::size_t most_senders = 64;  ///< maximum value of `senders`
  static constexpr std::size_t most_rows = 50;
  struct Receiver {
    std::int64_t window = INT64_MIN;
    std::uint64_t bytes = 0;
    std::uint32_t senders = 0;
    std::array<std::uint64_t, most_senders> seen;  // hashes of the senders. Only the first `senders` are initialized
    void merge(const Receiver& other) { static_cast<void>(other); }
  };
  struct Address {
    PortAddress address;
    friend bool operator==(const Address&, const Address&) = default;
    [[nodiscard]] std::uint64_t hash() const { return FlowKey{address, {}, 0}.hash(); }
  };
  struct IncastOrder {
    bool operator()(const IncastRow& a, const IncastRow& b) const;
  };
  void close(const PortAddress& receiver, const Receiver& row, TopN<IncastRow, IncastOrder>& rows) const;

  std::int64_t window_;
  BoundedTable<Address, Receiver> receivers_;
  TopN<IncastRow, IncastOrder> rows_;
  std::uint64_t merged_overflow_ = 0;
};

/// The properties of a packet that Analysis counts.
struct PacketFacts {
  std::uint64_t number = 0;
  std::int64_t time = 0;
  std::optional<FlowKey> flow;     ///< addresses of the packet, if it has any
  std::uint64_t payload = 0;       ///< number of RDMA payload bytes on the wire
  std::uint32_t wire_length = 0;   ///< length on the wire in bytes
  std::uint32_t qp = UINT32_MAX;   ///< destination QP (UINT32_MAX: no BTH)
  std::uint16_t source_port = 0;   ///< UDP source port (only for RoCEv2 with BTH)
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN, valid if has_traffic_class
  Wire wire = Wire::none;
  PacketClass packet_class = PacketClass::other;
  bool has_traffic_class = false, truncated = false, crc_checked = false, crc_bad = false;
  bool pause = false;  ///< the packet may be a pause frame

  static PacketFacts of(const tracking::Packet& packet);
  /// Returns the facts of a RoCE packet from its fields. `payload` is the number of RDMA payload bytes on the wire.
  static PacketFacts of(const tracking::TransportPacket& packet, std::uint64_t payload);
};
/// Returns the number of RDMA payload bytes of a packet on the wire, which is an estimate for truncated packets.
std::uint64_t payload_of(const tracking::Packet& packet);

/// Collects statistics from dissected packets and from the tracker. Analyses of disjoint sets of endpoint pairs can be
/// merged. The result equals the analysis of all pairs, unless a table overflowed. The options limit the memory. Every
/// part must use the frame numbers of the complete capture.
class Analysis final : public tracking::Sink {
 public:
  explicit Analysis(const AnalysisOptions& options = {});
  Analysis(Analysis&&) noexcept = default;
  Analysis& operator=(Analysis&&) noexcept = default;

  /// Counts a packet, independently of the tracker.
  void add(const tracking::Packet& packet) {
    const PacketFacts facts = PacketFacts::of(packet);
    add(facts);
    if (facts.pause) add_pause(packet);
  }
  /// Counts a packet in two steps. add_pause() is only needed if PacketFacts::pause is true.
  void add(const PacketFacts& packet);
  void add_pause(const tracking::Packet& packet);
  /// Returns a number for a destination queue pair, for fetch_slot() and fetch_row(). These prefetch the memory that
  /// add() uses.
  static std::uint64_t queue_pair_id(const FlowKey& ports, std::uint32_t qp) {
    return ports.with(std::uint64_t{1} << 32 | qp).hash();
  }
  /// Returns whether prefetching is useful. It is not if the queue pairs fit into the cache.
  [[nodiscard]] bool worth_fetching() const { return flow_queue_pairs_.rows().size() >= 256; }
  void fetch_slot(std::uint64_t queue_pair_id) const { flow_queue_pairs_.fetch_slot({queue_pair_id}); }
  void fetch_row(std::uint64_t queue_pair_id) const { flow_queue_pairs_.fetch_row({queue_pair_id}); }
  void message(const Connection& connection, const Message& message) override;
  void event(const Connection* connection, const Event& event) override;
  void connection(const Connection& connection, tracking::CloseReason close_reason) override;
  void merged(const Connection& connection, std::uint64_t id) override;
  void mrc_flow(const tracking::MrcFlow& flow, tracking::CloseReason close_reason) override;
  void merge(const Analysis& other);

  // Results. The order of lists depends on the order of packets. report.cpp sorts them by their contents.
  std::uint64_t packets = 0, bytes = 0;
  std::int64_t first_time = INT64_MAX, last_time = INT64_MIN;
  std::array<std::uint64_t, 5> wires{};  ///< number of packets by Wire
  std::array<std::array<std::array<std::uint64_t, packet_classes>, 4>, 64>
      classes{};                                 ///< number of packets by DSCP, ECN and class
  std::uint64_t crcs_checked = 0, crcs_bad = 0;  ///< number of packets with a verified CRC, and with a bad CRC
  std::uint64_t truncated_packets = 0;           ///< number of packets that the capture truncated
  Series series;
  std::map<PauseKey, PauseRow> pauses;
  ManagementRecords management;
  std::uint64_t skipped_pauses = 0;

  std::uint64_t messages = 0, message_bytes = 0;
  std::array<OperationRow, tracking::message_kinds> operations{};
  std::uint64_t partial_messages = 0;
  std::uint64_t first_partial = UINT64_MAX;  ///< frame number of the first one
  std::uint64_t unacknowledged = 0;

  std::array<std::uint64_t, tracking::event_kinds> events{};  ///< number of events by kind
  std::uint64_t retransmitted_packets = 0;
  struct RecoveryCounts {
    std::uint64_t recoveries = 0, packets = 0, bytes = 0;
    std::int64_t duration_ns = 0;
  };
  std::array<RecoveryCounts, tracking::causes> retransmissions{};
  std::array<std::uint64_t, tracking::causes> naks{};
  std::uint64_t rnr_naks = 0;
  std::uint64_t rate_fell = 0, rate_unchanged = 0;
  Histogram ce_to_cnp;

  std::uint64_t connections = 0, evicted_connections = 0;
  ConnectionCount opened_before;  ///< reliable connections that were established before the capture started
  ConnectionCount one_way;      ///< reliable connections with packets of only one endpoint, if there are at least three
                                ///< packets and the capture covers more than the start or end of the connection
  ConnectionCount two_way;      ///< reliable connections of which both directions were captured
  ConnectionCount other_class;  ///< reliable connections whose responses have a different DSCP than the requests
  std::uint64_t duplicable = 0, duplicates = 0;  ///< number of packets whose duplicates can be detected (requests, TCP
                                                 ///< segments), and number of their duplicates
  ConnectionCount low_confidence;  ///< reliable connections whose directions were paired with low confidence

  std::uint64_t mrc_flows = 0, evicted_mrc_flows = 0;
  MrcFlows mrc;

  struct LargerConnection {
    bool operator()(const Connection& a, const Connection& b) const;
  };
  struct EarlierEvent {
    bool operator()(const Event& a, const Event& b) const;
  };
  [[nodiscard]] std::vector<Connection> kept_connections() const { return connection_rows_.sorted(); }
  [[nodiscard]] std::vector<Event> first_events(EventKind kind) const;
  [[nodiscard]] const Histogram* latency(MessageKind kind, std::size_t size_class, Phase phase) const;
  [[nodiscard]] const std::vector<std::pair<FlowKey, TalkerRow>>& talkers() const { return talkers_.rows(); }
  /// Rows by FlowKey: its number is the memory key, and `from` is the responder.
  [[nodiscard]] const std::vector<std::pair<FlowKey, RegionRow>>& regions() const { return regions_.rows(); }
  /// Number of distinct queue pairs of each address, from closed connections.
  [[nodiscard]] std::map<PortAddress, std::uint64_t> queue_pairs_by_address() const;
  /// Returns the most frequent cause of bad CRCs from one address to another (nullopt: unknown).
  [[nodiscard]] std::optional<Cause> crc_cause(const PortAddress& from, const PortAddress& to) const;
  [[nodiscard]] const std::unordered_map<std::uint64_t, ConnectionEvents>& affected() const { return affected_; }
  /// Number of items that were dropped because a table was full.
  [[nodiscard]] std::uint64_t overflow() const;
  /// Appends the levels of the tables that shrink or are not merged, always in the same order: receivers, connections
  /// with events, event groups. After a merge, overflow() shows whether another table was full.
  void append_levels(std::vector<tracking::Level>& levels) const;
  [[nodiscard]] const AnalysisOptions& options() const { return options_; }

  Incast incast;

 private:
  friend struct Archived;
  struct Count {
    std::uint64_t count = 0;
    void merge(const Count& other) { count += other.count; }
  };
  struct LastPort {
    std::uint32_t port = UINT32_MAX;
    void merge(const LastPort& /*other*/) {}
  };
  struct AddressKey {
    PortAddress address;
    friend bool operator==(const AddressKey&, const AddressKey&) = default;
    [[nodiscard]] std::uint64_t hash() const { return FlowKey{address, {}, 0}.hash(); }
  };
  void add_latency(MessageKind kind, std::size_t size_class, Phase phase, std::int64_t ns);
  void add_queue_pair(const tracking::ConnectionEnd& end);
  ConnectionEvents& events_of_connection(const Connection* connection);
  /// Returns the group for an event, or nullptr if there are too many groups.
  Group* group_of(ConnectionEvents& affected, EventKind kind, Cause cause, Side end);

  AnalysisOptions options_;
  BoundedTable<FlowKey, TalkerRow> talkers_;
  /// Destination queue pairs of each talker, with their latest source port. Most queue pairs use only one port.
  BoundedTable<MixedNumber, LastPort> flow_queue_pairs_;
  BoundedSet flow_ports_;
  BoundedTable<FlowKey, RegionRow> regions_;
  BoundedTable<FlowKey, Count> queue_pairs_;  ///< key: address and queue pair
  BoundedTable<FlowKey, Count> crc_causes_;
  std::vector<std::unique_ptr<Histogram>> latencies_;
  TopN<Connection, LargerConnection> connection_rows_;
  std::vector<TopN<Event, EarlierEvent>> events_;
  std::unordered_map<std::uint64_t, ConnectionEvents> affected_;
  std::uint64_t skipped_affected_ = 0;
  std::uint64_t groups_ = 0, most_groups_ = 0, most_affected_ = 0;
  /// Strings to which loaded connections refer.
  std::vector<std::shared_ptr<const std::set<std::string, std::less<>>>> sentences_;
};

}  // namespace rdmawire::captures::analysis
