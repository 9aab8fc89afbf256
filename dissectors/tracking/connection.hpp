#pragma once
/// A connection with its counters: two QPs that communicate, a UD pair, or an iWARP stream.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/stack.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/message.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// How the two directions of a connection were paired.
enum class JoinedBy : std::uint8_t {
  nothing,             ///< the directions are not paired: only one was seen, or there is no evidence
  connection_manager,  ///< the CM's REQ and REP contain the two QP numbers
  text,                ///< the applications exchanged their QP numbers in plain text (perftest, ibv_*_pingpong)
  caller,              ///< the caller specified the pair with Tracker::pair()
  source_port,  ///< the UDP source ports are those that the sender's network stack computes from these QP numbers
  answers,      ///< acknowledgements and responses in one direction match the requests in the other direction
  stream,       ///< both directions belong to the same TCP connection (iWARP)
  datagram,     ///< UD packets contain both QP numbers
};
std::string_view to_string(JoinedBy paired_by);

enum class Confidence : std::uint8_t { none, low, high, certain };
std::string_view to_string(Confidence confidence);

enum class Service : std::uint8_t { rc, uc, ud, xrc, rd, iwarp, vendor };
std::string_view to_string(Service service);
/// Returns the service of a transport's opcodes.
constexpr Service service_of(Transport transport) {
  switch (transport) {
    case Transport::uc: return Service::uc;
    case Transport::ud: return Service::ud;
    case Transport::rd: return Service::rd;
    case Transport::xrc: return Service::xrc;
    default: return Service::rc;
  }
}

struct ConnectionEnd {
  PortAddress address;
  std::uint32_t qp = 0;  ///< QP number (iWARP: the TCP port)
  bool qp_known = false;
};

/// Counters of the packets that one endpoint sent. `wire_bytes` is the size of whole packets on the wire, and
/// `payload_bytes` that of the RDMA payload without padding. Both include retransmitted packets.
struct Sent {
  std::uint64_t packets = 0, wire_bytes = 0, payload_bytes = 0;
  std::uint64_t requests = 0, responses = 0;  ///< numbers of packets
  std::array<std::uint32_t, message_kinds>
      messages{};  ///< numbers of messages that the endpoint started as requester, completed or not, by kind
  std::uint64_t message_bytes = 0;  ///< bytes of `messages` (READs: requested bytes)
  std::uint64_t messages_completed = 0, messages_refused = 0;
  std::uint64_t retransmitted_packets = 0, retransmitted_bytes = 0;  ///< retransmitted requests
  std::uint32_t rounds = 0;                                          ///< number of retransmission bursts
  std::uint32_t lost_in_network = 0, lost_in_capture = 0, out_of_order = 0,
                duplicates = 0;                   ///< packets of this endpoint
  std::uint32_t acks = 0, rnr_naks = 0;           ///< numbers of packets that this endpoint sent as responder
  std::array<std::uint32_t, 5> naks{};            ///< numbers of NAKs that this endpoint sent as responder, by NAK code
  std::uint32_t cnps = 0;                         ///< number of CNPs that this endpoint sent
  std::uint32_t ecn_capable = 0, ecn_marked = 0;  ///< numbers of packets of this endpoint with ECT or CE, and with CE
  std::uint32_t crc_bad = 0, truncated = 0;
  std::uint8_t request_dscp = 0, response_dscp = 0;  ///< DSCP of the latest packet of each kind
  /// Number of messages with a latency, which is the time from the first packet to the response.
  std::uint64_t latency_count = 0;
  std::int64_t latency_sum = 0, latency_max = 0;  ///< nanoseconds
};

struct Connection {
  std::uint64_t id = 0;  ///< number of the first frame. It is unique, and does not depend on how the input was split
  Service service = Service::rc;
  Wire wire = Wire::none;
  std::array<ConnectionEnd, 2> ends;  ///< endpoint a sent the first frame, or the CM or MPA request
  std::array<Sent, 2> sent;           ///< by endpoint
  JoinedBy paired_by = JoinedBy::nothing;
  Confidence confidence = Confidence::none;
  /// Numbers of responses that confirm the pairing, and that contradict it.
  std::uint64_t agreeing = 0, contradicting = 0;
  std::uint32_t mtu = 0;        ///< path MTU in bytes of payload (0: unknown)
  bool mtu_negotiated = false;  ///< true: from the CM or the text exchange (false: inferred)
  std::uint16_t pkey = 0;
  UpperEvidence upper;
  std::uint16_t service_port = 0;  ///< port of RDMA-CM's service ID, or of the MPA listener (0: unknown)
  std::uint64_t first_frame = 0, last_frame = 0;
  std::int64_t first_time = 0, last_time = 0;
  /// Frames of the CM's RTU (or REP) and DREQ. MPA: frames of the reply, and of the FIN, RST or Terminate.
  std::uint64_t opened_frame = 0, closed_frame = 0;
  std::int64_t open_duration =
      0;  ///< time from the CM or MPA request to the reply that established the connection, in nanoseconds
  bool replaced = false;  ///< its QPs were reused for another connection

  [[nodiscard]] const Sent& by(Side end) const { return sent[static_cast<std::size_t>(end)]; }
  [[nodiscard]] Sent& by(Side end) { return sent[static_cast<std::size_t>(end)]; }
  [[nodiscard]] const ConnectionEnd& at(Side end) const { return ends[static_cast<std::size_t>(end)]; }
};

/// Why the tracker reports a connection as final.
enum class CloseReason : std::uint8_t {
  ended,    ///< the capture ended, or its QPs were reused
  evicted,  ///< the table was full. Later packets of the connection are not counted
};

/// How a response's PSN relates to the requests in the capture.
enum class Answered : std::uint8_t {
  nothing,       ///< the packet is not a response, or belongs to an unacknowledged service
  outstanding,   ///< responds to outstanding requests
  acknowledged,  ///< responds to requests that were already acknowledged
  unseen,        ///< responds to a request that was not captured
};
std::string_view to_string(Answered answered);

/// Class of a request packet, as far as earlier packets determine it. Later packets can change it, so the final class
/// is in the events.
enum class Arrival : std::uint8_t {
  in_order,
  after_gap,       ///< PSNs before it are missing
  retransmission,  ///< the packet was sent before, and is part of a retransmission burst
  out_of_order,    ///< the packet was sent before packets that were captured earlier
  duplicate,       ///< the same transmission as an earlier packet
};

/// A packet's role in its connection.
struct PacketNote {
  std::uint64_t connection = 0;     ///< Connection::id
  Side end = Side::a;               ///< sender of the packet
  std::uint32_t relative_psn = 0;   ///< PSN relative to the first request PSN of its direction
  std::uint64_t message = 0;        ///< Message::number of the message that it belongs or responds to (0: none)
  Side requester = Side::a;         ///< requester of that message
  std::uint64_t related_frame = 0;  ///< response: frame of the request (retransmission: of the first transmission)
  std::int64_t related_delay = 0;   ///< time since that frame, in nanoseconds
  std::uint32_t outstanding = 0;    ///< number of the requester's unacknowledged packets after this packet
  bool again = false;               ///< retransmission
  Arrival arrival = Arrival::in_order;
  Cause cause = Cause::none;      ///< cause of a retransmission, as far as known when the packet arrives
  std::uint64_t cause_frame = 0;  ///< frame of the NAK, RNR NAK or response that caused it (0: none, or unknown)
  std::uint64_t burst_frame =
      0;  ///< first frame of the retransmission burst, as far as known when the packet arrives (0: iWARP)
  // Only for InfiniBand's reliable services:
  Answered answered = Answered::nothing;  ///< how a response relates to the requests
  std::uint32_t acknowledged =
      0;  ///< responses: number of the requester's packets that are acknowledged for the first time
  std::uint32_t outstanding_bytes =
      0;                    ///< payload bytes of those outstanding packets whose first transmission was captured
  std::uint32_t reads = 0;  ///< number of READs, atomics and similar requests that have no response after this packet
  std::uint8_t read_limit = 0;  ///< negotiated maximum of `reads` (0: unknown)
  std::optional<std::uint32_t>
      credits;  ///< additional messages that the responder can accept, if it provides credits. IBTA vol 1, 9.7.7.2
};

struct MrcFlow;               // mrc_flow.hpp
struct TransportPacket;       // transport_packet.hpp
struct NegotiatedParameters;  // pair_evidence.hpp

/// Receives connections, messages and events. Each is reported once, approximately in capture order. References are
/// valid during the call.
class Sink {
 public:
  virtual void message(const Connection&, const Message&) {}
  /// Receives an event. `connection` is nullptr if the event belongs to no connection.
  virtual void event(const Connection* /*connection*/, const Event&) {}
  /// Receives the final counters of a connection. No later call refers to the connection.
  virtual void connection(const Connection&, CloseReason) {}
  /// Receives the final counters of the MRC WRITEs to a QP.
  virtual void mrc_flow(const MrcFlow&, CloseReason) {}
  /// Everything that was reported for connection `id` belongs to `connection`. This happens if one direction was
  /// reported as a connection before the directions were paired. Later calls do not refer to `id`.
  virtual void merged(const Connection&, std::uint64_t /*id*/) {}
  /// Receives every packet that belongs to a connection, if TrackerOptions::packets is set. A packet waits while the
  /// other direction is unknown, so it can arrive after later packets of other connections.
  virtual void packet(const Connection&, std::uint64_t /*frame*/, const PacketNote&) {}
  /// Receives the packets that packet() receives, with their contents, if TrackerOptions::transport is set. Once the
  /// directions are paired, the packets of both endpoints arrive in capture order. `from` is the sender. `agreement`
  /// contains parameters from the CM or the text exchange. It is nullptr if none were captured.
  virtual void transport(const Connection&, Side /*from*/, const TransportPacket&,
                         const NegotiatedParameters* /*agreement*/) {}
  /// Receives the packets of iWARP connections, with the PDUs that end in them, if TrackerOptions::transport is set.
  /// They arrive in capture order, and before the events that they cause. `from` is the sender.
  virtual void stream(const Connection&, Side /*from*/, const Packet&) {}

 protected:
  ~Sink() = default;
};

}  // namespace rdmawire::tracking
