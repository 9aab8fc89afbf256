#pragma once
/// Which upper layer protocol a connection carries, learned from packets that say so: the CM's REQ and REP (service id,
/// private data), IPoIB's multicast groups, the port an iWARP connection was made to. Payload bytes are never asked.

#include <cstdint>

#include "dissectors/protocol/upper.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/lru.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// A service id, or a Q_Key and P_Key.
struct NumberKey {
  std::uint64_t number = 0;
  friend bool operator==(const NumberKey&, const NumberKey&) = default;
  [[nodiscard]] std::uint64_t hash() const {
    const std::uint64_t h = number * 0x9e3779b97f4a7c15;
    return h ^ h >> 32;
  }
};

/// What was learned so far. Bounded: of each kind at most `capacity` entries are kept; those used longest ago go first
/// and are counted.
class Evidence {
 public:
  static constexpr std::uint32_t default_capacity = 1U << 16;
  explicit Evidence(std::uint32_t capacity = default_capacity);

  /// Learns from a packet that was decoded (and whose PDUs were found), sets packet.upper when its protocol is known,
  /// and puts the protocol's headers into the stack that carries the message's beginning. Packets come in the
  /// capture's order.
  void apply(Packet& packet);

  /// Directions of connections, iWARP connections and datagram queue pairs that are known now.
  [[nodiscard]] std::uint64_t known() const {
    return std::uint64_t{flows_.size()} + datagram_qps_.size() + streams_.size();
  }
  /// Entries dropped for want of room.
  [[nodiscard]] std::uint64_t evicted() const {
    return flows_.evicted() + requests_.evicted() + datagram_qps_.evicted() + streams_.evicted() + services_.evicted() +
           groups_.evicted();
  }

 private:
  /// The data of an NVMe Connect, which the controller reads by RDMA: where it is, and the PSN of its reading.
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
    std::uint32_t first_psn = 0;  ///< of the direction's first request
    std::uint32_t peer_qp = 0;    ///< destination queue pair of the other direction
    ConnectData connect_data;     ///< NVMe over Fabrics, to the controller
  };
  /// A CM REQ, until its answer and for the end of the connection.
  struct Request {
    UpperEvidence evidence;
    UpperContext context;
    FlowKey to_requester;  ///< flow of what the listener will send
    std::uint64_t service_id = 0;
    std::uint64_t srp_tag = 0;  ///< when the private data has the layout of an SRP login
    std::uint32_t starting_psn = 0;
    bool srp_login = false;
  };
  /// An iWARP connection with a port that belongs to a service; its key goes from the initiator to the listener.
  struct Stream {
    UpperEvidence evidence;
    bool admin_queue = false;
  };
  /// A UD queue pair that IPoIB uses.
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
  bool is_connect_data(const HeaderStack& stack, const FlowKey& key, Flow& flow);
  Request learn_request(std::uint64_t frame, const CmMessage& cm, const FlowKey& ports, bool native);
  void learn_flows(const Request& request, const CmMessage& reply);
  const Request* request_of(const FlowKey& ports, std::uint32_t local_id, std::uint32_t remote_id);
  void apply_iwarp(Packet& packet);
  const Stream* stream_of(const FlowKey& key, std::uint64_t frame, bool& to_listener);
  void learn_datagram_qp(std::uint16_t lid, std::uint32_t qp, const DatagramQp& value);

  LruTable<FlowKey, Flow> flows_;
  LruTable<FlowKey, Request> requests_;
  LruTable<FlowKey, DatagramQp> datagram_qps_;
  LruTable<FlowKey, Stream> streams_;
  LruTable<NumberKey, UpperEvidence> services_;  ///< service ids that a target announced
  LruTable<NumberKey, UpperEvidence> groups_;    ///< Q_Key and P_Key of IPoIB multicast groups
};

}  // namespace rdmawire::tracking
