#pragma once
/// What a capture shows, gathered: packets, and what tracking makes of them, in; counts, tables and percentiles out.

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
#include "dissectors/tracking/packet.hpp"

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

/// From asking to what was waited for.
enum class Phase : std::uint8_t { request_to_acknowledgement, request_to_first_response, request_to_last_response };
inline constexpr std::size_t phases = 3;
std::string_view to_string(Phase phase);

/// What a packet is to the network: which traffic class it should be in depends on that.
enum class PacketClass : std::uint8_t { data, acknowledgement, cnp, management, other };
inline constexpr std::size_t packet_classes = 5;
std::string_view to_string(PacketClass packet_class);

/// Sizes are classed by powers of two: class 0 is no byte, class n is 2^(n-1) to 2^n - 1.
inline constexpr std::size_t size_classes = 65;
constexpr std::size_t size_class(std::uint64_t size) { return static_cast<std::size_t>(std::bit_width(size)); }
constexpr std::uint64_t size_from(std::size_t size_class) {
  return size_class == 0 ? 0 : std::uint64_t{1} << (size_class - 1);
}
constexpr std::uint64_t size_to(std::size_t size_class) {
  return size_class == 0 ? 0 : (size_from(size_class) - 1) * 2 + 1;
}

struct AnalysisOptions {
  std::uint32_t connections = 20'000;   ///< rows kept: those with most bytes on the wire
  std::uint32_t talkers = 1U << 16;     ///< directions between two addresses
  std::uint32_t regions = 1U << 16;     ///< pairs of responder and key
  std::uint32_t distinct = 1U << 20;    ///< queue pairs and source ports that are told apart, each
  std::uint32_t troubled = 1U << 16;    ///< connections whose events are kept apart
  std::uint32_t events_of_a_kind = 50;  ///< the first ones, kept whole
  std::int64_t incast_window = 10'000;  ///< nanoseconds
};

struct OperationRow {
  std::uint64_t messages = 0, bytes = 0, completed = 0, refused = 0;
  std::uint64_t size_min = UINT64_MAX, size_max = 0;
  std::array<std::uint64_t, size_classes> sizes{};
};

struct TalkerRow {
  std::uint64_t packets = 0, bytes = 0, payload_bytes = 0;
  std::uint64_t queue_pairs = 0, source_ports = 0;  ///< distinct: destinations, and of UDP over RoCEv2
  std::uint64_t crc_bad = 0, first_crc_bad = 0;     ///< packets, and the first one's number
  // The last ones seen: most packets have the same.
  std::uint32_t last_qp = UINT32_MAX, last_port = UINT32_MAX;
  void merge(const TalkerRow& other);
};

struct RegionRow {
  std::uint64_t address_from = UINT64_MAX, address_to = 0;  ///< from the first byte touched to behind the last
  std::uint64_t read_bytes = 0, written_bytes = 0, atomics = 0, refused = 0, messages = 0;
  void merge(const RegionRow& other);
};

/// Pause frames of one sender and priority. IEEE 802.3, annex 31B; IEEE 802.1Q, 36.
struct PauseKey {
  std::uint64_t source = 0;  ///< MAC address
  std::uint8_t priority = 0;
  static constexpr std::uint8_t whole_link = 8;  ///< 802.3x: no priority
  friend auto operator<=>(const PauseKey&, const PauseKey&) = default;
};
struct PauseRow {
  std::uint64_t frames = 0;   ///< that stop (quanta not 0) or let go
  std::uint64_t stops = 0;    ///< those that stop
  std::uint64_t quanta = 0;   ///< asked for in all, each 512 bit times of the link's speed
  std::int64_t pause_ns = 0;  ///< between frames that stop and frames that let go
  std::uint64_t first_frame = 0;
  std::int64_t paused_since = -1;  ///< while a stop waits for its end
};

/// Events of one connection, kind, cause and sufferer, together.
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
  std::array<std::uint64_t, most_frames> frames{};  ///< the lowest, ascending

  void add(const Event& event);
  void merge(const Group& other);

 private:
  void add_frame(std::uint64_t frame);
};

/// A connection to which something happened.
struct ConnectionEvents {
  std::array<tracking::ConnectionEnd, 2> ends;
  std::array<std::uint64_t, 2> packets{};  ///< that each end sent; what is known so far
  tracking::Service service = tracking::Service::rc;
  std::vector<Group> groups;
};

/// Many connections with the same trait: how many, and the first of them.
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

/// A receiver that several senders sent to within a short time.
struct IncastRow {
  PortAddress receiver;
  std::int64_t time = 0;  ///< at which the window begins
  std::uint32_t senders = 0;
  std::uint64_t bytes = 0;
};

/// Distinct senders by receiver and window. Apart from Analysis, because a receiver's senders are many pairs: it is fed
/// by receiver, and merges exactly over disjoint receivers.
class Incast {
 public:
  explicit Incast(std::int64_t window = 10'000, std::uint32_t receivers = 1U << 12);
  /// A packet with `bytes` of payload. Times may go back by less than a window without harm.
  void add(const PortAddress& sender, const PortAddress& receiver, std::int64_t time, std::uint64_t bytes);
  void merge(const Incast& other);
  /// Windows with two senders and more; those with most senders first.
  [[nodiscard]] std::vector<IncastRow> rows() const;
  [[nodiscard]] std::int64_t window() const { return window_; }

 private:
  friend struct Archived;
  static constexpr std::size_t most_senders = 64;  ///< told apart in a window
  static constexpr std::size_t most_rows = 50;
  struct Receiver {
    std::int64_t window = INT64_MIN;
    std::uint64_t bytes = 0;
    std::uint32_t senders = 0;
    std::array<std::uint64_t, most_senders> seen;  // hashes; not initialized beyond `senders`
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
};

/// Takes packets as they were dissected, and what the tracker says of them. Analyses of disjoint sets of endpoint pairs
/// merge to exactly what one analysis of them all is, as long as nothing overflowed; memory is bounded by the options.
/// Frame numbers must be those of the whole capture in every part.
class Analysis final : public tracking::Sink {
 public:
  explicit Analysis(const AnalysisOptions& options = {});
  Analysis(Analysis&&) noexcept = default;
  Analysis& operator=(Analysis&&) noexcept = default;

  /// What is counted of each packet by itself.
  void add(const tracking::Packet& packet);
  /// What identifies a destination queue pair to add(): its memory can be brought into the cache ahead, in two steps.
  static std::uint64_t queue_pair_id(const FlowKey& ports, std::uint32_t qp) {
    return ports.with(std::uint64_t{1} << 32 | qp).hash();
  }
  void fetch_slot(std::uint64_t queue_pair_id) const { flow_queue_pairs_.fetch_slot({queue_pair_id}); }
  void fetch_row(std::uint64_t queue_pair_id) const { flow_queue_pairs_.fetch_row({queue_pair_id}); }
  void message(const Connection& connection, const Message& message) override;
  void event(const Connection* connection, const Event& event) override;
  void connection(const Connection& connection, tracking::CloseReason close_reason) override;
  void merged(const Connection& connection, std::uint64_t id) override;
  void merge(const Analysis& other);

  // What was found. Order is that of arrival; report.cpp puts it into an order that depends on the contents only.
  std::uint64_t packets = 0, bytes = 0;
  std::int64_t first_time = INT64_MAX, last_time = INT64_MIN;
  std::array<std::uint64_t, 5> wires{};                                                ///< packets by Wire
  std::array<std::array<std::array<std::uint64_t, packet_classes>, 4>, 64> classes{};  ///< by DSCP, ECN, class
  std::uint64_t crcs_checked = 0, crcs_bad = 0;  ///< packets with a CRC that was verified; wrong ones
  std::uint64_t snapped = 0;                     ///< packets that the capture cut
  Series series;
  std::map<PauseKey, PauseRow> pauses;
  ManagementRecords management;
  std::uint64_t pauses_left_out = 0;

  std::uint64_t messages = 0, message_bytes = 0;
  std::array<OperationRow, tracking::message_kinds> operations{};
  std::uint64_t partial_messages = 0;
  std::uint64_t first_partial = UINT64_MAX;  ///< frame
  std::uint64_t unacknowledged = 0;

  std::array<std::uint64_t, tracking::event_kinds> events{};  ///< how many of each kind
  std::uint64_t retransmitted_packets = 0;
  struct Rounds {
    std::uint64_t rounds = 0, packets = 0, bytes = 0;
    std::int64_t duration_ns = 0;
  };
  std::array<Rounds, tracking::causes> retransmissions{};
  std::array<std::uint64_t, tracking::causes> naks{};
  std::uint64_t rnr_naks = 0;
  std::uint64_t rate_fell = 0, rate_unchanged = 0;
  Histogram ce_to_cnp;

  std::uint64_t connections = 0, evicted_connections = 0;
  ConnectionCount opened_before;  ///< reliable connections whose opening the capture does not have
  ConnectionCount one_way;  ///< reliable ones of which one direction is there, with three packets or more, and not only
                            ///< for a moment
  ConnectionCount two_way;  ///< reliable ones of which both are there
  ConnectionCount other_class;             ///< whose responses travel in another traffic class than the requests
  std::uint64_t copyable = 0, copies = 0;  ///< packets of which copies are told (requests, TCP segments); told ones
  ConnectionCount guessed;                 ///< whose halves were joined at low confidence

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
  /// The key's number is the memory key, its `from` the responder.
  [[nodiscard]] const std::vector<std::pair<FlowKey, RegionRow>>& regions() const { return regions_.rows(); }
  /// Distinct queue pairs of each address, of connections that said farewell.
  [[nodiscard]] std::map<PortAddress, std::uint64_t> queue_pairs_by_address() const;
  /// What explains most of the wrong CRCs from one address to another; nullopt: nothing is known.
  [[nodiscard]] std::optional<Cause> crc_cause(const PortAddress& from, const PortAddress& to) const;
  [[nodiscard]] const std::unordered_map<std::uint64_t, ConnectionEvents>& troubled() const { return troubled_; }
  /// Whatever found no room in a table.
  [[nodiscard]] std::uint64_t overflow() const;
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
  void add_pause(const tracking::Packet& packet);
  void add_latency(MessageKind kind, std::size_t size_class, Phase phase, std::int64_t ns);
  void add_queue_pair(const tracking::ConnectionEnd& end);
  ConnectionEvents* trouble_of(const Connection* connection);

  AnalysisOptions options_;
  BoundedTable<FlowKey, TalkerRow> talkers_;
  /// Destination queue pairs of each talker, with the source port that came last: most have one only.
  BoundedTable<MixedNumber, LastPort> flow_queue_pairs_;
  BoundedSet flow_ports_;
  BoundedTable<FlowKey, RegionRow> regions_;
  BoundedTable<FlowKey, Count> queue_pairs_;  ///< address and queue pair
  BoundedTable<FlowKey, Count> crc_causes_;
  std::vector<std::unique_ptr<Histogram>> latencies_;
  TopN<Connection, LargerConnection> connection_rows_;
  std::vector<TopN<Event, EarlierEvent>> events_;
  std::unordered_map<std::uint64_t, ConnectionEvents> troubled_;
  std::uint64_t troubled_left_out_ = 0;
  /// What constant sentences of loaded connections point to.
  std::vector<std::shared_ptr<const std::set<std::string, std::less<>>>> sentences_;
};

}  // namespace rdmawire::captures::analysis
