#pragma once
/// Detects the upper layer protocol of a connection. Sources are the CM's REQ and REP (service ID, private data),
/// services that SRP targets announce, IPoIB's multicast groups, and the listening port of iWARP connections. Payload
/// is not a source.

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "dissectors/protocol/upper.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/assumed.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/level.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// Key of a table: a service ID, or the combination of a Q_Key and a P_Key.
struct NumberKey {
  std::uint64_t number = 0;
  friend bool operator==(const NumberKey&, const NumberKey&) = default;
  [[nodiscard]] std::uint64_t hash() const {
    const std::uint64_t h = number * 0x9e3779b97f4a7c15;
    return h ^ h >> 32;
  }
};

/// The collected evidence. Keeps at most `capacity` entries of each kind, evicts the least recently used ones, and
/// counts evictions.
class Evidence {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 16;
  explicit Evidence(std::uint32_t capacity = default_capacity);

  /// Sets the protocols of connections without evidence.
  void assume(std::vector<AssumedUpper> protocols) { assumed_ = std::move(protocols); }
  /// Collects evidence from a decoded packet and its PDUs. If the packet's upper layer protocol is known, sets
  /// packet.upper and adds the protocol's headers to the stack in which the message starts. Packets must be in capture
  /// order.
  void apply(Packet& packet);

  /// Returns whether the upper layer protocol of any connection between QPs is known.
  [[nodiscard]] bool knows_flows() const { return !flows_.empty() || !assumed_.empty(); }
  /// Number of known connection directions, iWARP connections and datagram QPs.
  [[nodiscard]] std::uint64_t known() const {
    return std::uint64_t{flows_.size()} + datagram_qps_.size() + streams_.size();
  }
  /// Number of entries that were evicted because a table was full.
  [[nodiscard]] std::uint64_t evicted() const {
    return flows_.evicted() + requests_.evicted() + datagram_qps_.evicted() + streams_.evicted() + services_.evicted() +
           groups_.evicted();
  }
  /// Appends the levels of the tables, always in the same order.
  void append_levels(std::vector<Level>& levels) const {
    const auto add = [&](const auto& table) { levels.push_back({table.most(), table.capacity()}); };
    add(flows_);
    add(requests_);
    add(datagram_qps_);
    add(streams_);
    add(services_);
    add(groups_);
  }

 private:
  /// The data of an NVMe Connect command: its address, and the PSN of the READ with which the controller reads it.
  struct ConnectData {
    enum class State : std::uint8_t { none, offered, read } state = State::none;
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    std::uint32_t psn = 0;
  };
  /// One direction of a connection.
  struct Flow {
    UpperEvidence evidence;
    UpperContext context;
    std::uint32_t first_psn = 0;  ///< PSN of the direction's first request
    std::uint32_t peer_qp = 0;    ///< QP that receives the packets of the other direction
    ConnectData connect_data;     ///< only for NVMe over Fabrics, in the direction to the controller
  };
  /// A CM REQ. It is kept until the reply arrives, and then until the connection is closed.
  struct Request {
    UpperEvidence evidence;
    UpperContext context;
    FlowKey to_requester;  ///< flow of the packets that the listener sends
    std::uint64_t service_id = 0;
    std::uint64_t srp_tag = 0;  ///< tag of the SRP login, if the private data has its layout
    std::uint32_t starting_psn = 0;
    bool srp_login = false;
  };
  /// An iWARP connection that involves the port of a service. The direction of the key is from the initiator to the
  /// listener.
  struct Stream {
    UpperEvidence evidence;
    bool admin_queue = false;
  };
  /// A UD QP that IPoIB uses.
  struct DatagramQp {
    UpperEvidence evidence;
    std::uint32_t qkey = 0;
    bool qkey_known = false;
  };

  void apply_management(Packet& packet);
  void apply_cm(Packet& packet);
  void learn_services(std::uint64_t frame, Bytes mad);
  void learn_group(std::uint64_t frame, const HeaderStack& stack);
  void apply_datagram(Packet& packet);
  void apply_connection(Packet& packet);
  [[nodiscard]] Upper assumed(std::initializer_list<std::uint32_t> numbers) const;
  bool is_connect_data(const HeaderStack& stack, const FlowKey& key, Flow& flow);
  Request learn_request(std::uint64_t frame, const CmMessage& cm, const FlowKey& ports, bool native);
  void learn_flows(const Request& request, const CmMessage& reply);
  const Request* request_of(const FlowKey& ports, std::uint32_t local_id, std::uint32_t remote_id);
  void apply_iwarp(Packet& packet);
  const Stream* stream_of(const FlowKey& key, std::uint64_t frame, bool& to_listener);
  void learn_datagram_qp(std::uint16_t lid, std::uint32_t qp, const DatagramQp& value);

  std::vector<AssumedUpper> assumed_;
  LruTable<FlowKey, Flow> flows_;
  LruTable<FlowKey, Request> requests_;
  LruTable<FlowKey, DatagramQp> datagram_qps_;
  LruTable<FlowKey, Stream> streams_;
  LruTable<NumberKey, UpperEvidence> services_;  ///< service IDs that SRP targets announced
  LruTable<NumberKey, UpperEvidence> groups_;    ///< Q_Keys and P_Keys of IPoIB multicast groups
};

}  // namespace rdmawire::tracking
