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
  nothing,             ///< only one direction was seen, or no evidence pairs the two directions
  connection_manager,  ///< the CM's REQ and REP contain both QP numbers
  text,                ///< the applications exchanged their QP numbers in plain text (perftest, ibv_*_pingpong)
  caller,              ///< the caller specified the pair with Tracker::pair()
  source_port,         ///< the UDP source ports match those that the sender's stack computes from these QP numbers
  answers,             ///< acknowledgements and responses of one direction match the requests of the other
  stream,              ///< both directions belong to the same TCP connection (iWARP)
  datagram,            ///< UD packets contain both QP numbers
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

/// Counters of the packets that one endpoint sent. `wire_bytes` counts whole packets on the wire, `payload_bytes`
/// RDMA payload without padding. Both include retransmitted packets.
struct Sent {
  std::uint64_t packets = 0, wire_bytes = 0, payload_bytes = 0;
  std::uint64_t requests = 0, responses = 0;            ///< number of packets
  std::array<std::uint32_t, message_kinds> messages{};  ///< messages as requester, completed or not, by kind
  std::uint64_t message_bytes = 0;                      ///< of `messages` (READs count the requested length)
  std::uint64_t messages_completed = 0, messages_refused = 0;
  std::uint64_t retransmitted_packets = 0, retransmitted_bytes = 0;  ///< requests
  std::uint32_t rounds = 0;                                          ///< retransmission bursts
  std::uint32_t lost_in_network = 0, lost_in_capture = 0, out_of_order = 0,
                duplicates = 0;                   ///< packets of this endpoint
  std::uint32_t acks = 0, rnr_naks = 0;           ///< sent by this endpoint as responder
  std::array<std::uint32_t, 5> naks{};            ///< sent by this endpoint as responder, by NAK code
  std::uint32_t cnps = 0;                         ///< sent by this endpoint
  std::uint32_t ecn_capable = 0, ecn_marked = 0;  ///< packets of this endpoint that are ECT or CE
  std::uint32_t crc_bad = 0, truncated = 0;
  std::uint8_t request_dscp = 0, response_dscp = 0;  ///< of the latest packet of each kind
  /// Number of messages with a response (the latency is the time from the first packet to the response).
  std::uint64_t latency_count = 0;
  std::int64_t latency_sum = 0, latency_max = 0;  ///< nanoseconds
};

struct Connection {
  std::uint64_t id = 0;  ///< number of the first frame: unique, independent of how the input is split
  Service service = Service::rc;
  Wire wire = Wire::none;
  std::array<ConnectionEnd, 2> ends;  ///< a: sender of the first frame, or of the CM or MPA request
  std::array<Sent, 2> sent;           ///< by endpoint
  JoinedBy paired_by = JoinedBy::nothing;
  Confidence confidence = Confidence::none;
  /// Number of responses that confirm the pairing, and that contradict it.
  std::uint64_t agreeing = 0, contradicting = 0;
  std::uint32_t mtu = 0;        ///< path MTU in bytes of payload (0: unknown)
  bool mtu_negotiated = false;  ///< true: from the CM or the text exchange (false: inferred)
  std::uint16_t pkey = 0;
  UpperEvidence upper;
  std::uint16_t service_port = 0;  ///< port of RDMA-CM's service ID, or of the MPA listener (0: unknown)
  std::uint64_t first_frame = 0, last_frame = 0;
  std::int64_t first_time = 0, last_time = 0;
  /// Frames of the CM's RTU (or REP) and DREQ (MPA: of the reply, and of FIN, RST or Terminate).
  std::uint64_t opened_frame = 0, closed_frame = 0;
  std::int64_t open_duration = 0;  ///< from the CM or MPA request to the reply that established the connection
  bool replaced = false;           ///< its QPs were reused for another connection

  [[nodiscard]] const Sent& by(Side end) const { return sent[static_cast<std::size_t>(end)]; }
  [[nodiscard]] Sent& by(Side end) { return sent[static_cast<std::size_t>(end)]; }
  [[nodiscard]] const ConnectionEnd& at(Side end) const { return ends[static_cast<std::size_t>(end)]; }
};

/// Why the tracker reports a connection as final.
enum class CloseReason : std::uint8_t {
  ended,    ///< the capture ended, or its QPs were reused
  evicted,  ///< evicted because the table was full (its later packets are not counted)
};

/// How a response's PSN relates to the requests in the capture.
enum class Answered : std::uint8_t {
  nothing,       ///< not a response, or the service has no acknowledgements
  outstanding,   ///< responds to outstanding requests
  acknowledged,  ///< responds to requests that were already acknowledged
  unseen,        ///< responds to a request that was not seen
};
std::string_view to_string(Answered answered);

/// Class of a request packet when it arrives, as far as earlier packets determine it. Later packets can change it: the
/// events contain the final result.
enum class Arrival : std::uint8_t {
  in_order,
  after_gap,       ///< PSNs before it are missing
  retransmission,  ///< sent before, and part of a retransmission burst
  out_of_order,    ///< sent before packets that were captured earlier
  duplicate,       ///< the same transmission as an earlier packet
};

/// A packet's role in its connection.
struct PacketNote {
  std::uint64_t connection = 0;     ///< Connection::id
  Side end = Side::a;               ///< sender of the packet
  std::uint32_t relative_psn = 0;   ///< relative to the first PSN of its direction's requests
  std::uint64_t message = 0;        ///< Message::number of the message that it belongs or responds to (0: none)
  Side requester = Side::a;         ///< requester of that message
  std::uint64_t related_frame = 0;  ///< response: frame of the request (retransmission: of the first transmission)
  std::int64_t related_delay = 0;   ///< nanoseconds since that frame
  std::uint32_t outstanding = 0;    ///< number of the requester's unacknowledged packets after this packet
  bool again = false;               ///< retransmission
  Arrival arrival = Arrival::in_order;
  Cause cause = Cause::none;      ///< of a retransmission, as known when it arrives
  std::uint64_t cause_frame = 0;  ///< the NAK, RNR NAK or response that caused it (0: none, or unknown)
  std::uint64_t burst_frame = 0;  ///< first frame of its retransmission burst, as known when it arrives. 0: iWARP
  // Only for InfiniBand's reliable services:
  Answered answered = Answered::nothing;  ///< relation of a response to the requests
  std::uint32_t acknowledged =
      0;  ///< responses: the number of the requester's packets that it acknowledges for the first time
  std::uint32_t outstanding_bytes = 0;  ///< payload bytes of the outstanding packets whose first transmission was seen
  std::uint32_t reads = 0;      ///< number of READs, atomics and similar requests without a response after this packet
  std::uint8_t read_limit = 0;  ///< negotiated maximum of `reads` (0: unknown)
  std::optional<std::uint32_t>
      credits;  ///< additional messages that the responder can accept, if it provides credits. IBTA vol 1, 9.7.7.2
};

struct MrcFlow;               // mrc_flow.hpp
struct TransportPacket;       // transport_packet.hpp
struct NegotiatedParameters;  // pair_evidence.hpp

/// Receives connections, messages and events, each once, approximately in capture order. References are valid
/// during the call.
class Sink {
 public:
  virtual void message(const Connection&, const Message&) {}
  /// Receives an event. `connection`: nullptr if the event belongs to no connection.
  virtual void event(const Connection* /*connection*/, const Event&) {}
  /// Receives the final counters of a connection. No later call refers to the connection.
  virtual void connection(const Connection&, CloseReason) {}
  /// Receives the final counters of the MRC WRITEs to a QP.
  virtual void mrc_flow(const MrcFlow&, CloseReason) {}
  /// Everything reported for connection `id` belongs to `connection`. This happens if a direction was reported as
  /// a connection of its own before it was paired. No later call refers to `id`.
  virtual void merged(const Connection&, std::uint64_t /*id*/) {}
  /// Receives every packet that belongs to a connection. Called only if TrackerOptions::packets is set. Packets wait
  /// while the other direction is unknown, so they can arrive after later packets of other connections.
  virtual void packet(const Connection&, std::uint64_t /*frame*/, const PacketNote&) {}
  /// Receives the same packets with their contents. Called only if TrackerOptions::transport is set. Once the
  /// directions are paired, the packets of both endpoints arrive in capture order. `from`: the sender. `agreement`:
  /// parameters from the CM or the text exchange, or nullptr if none were seen.
  virtual void transport(const Connection&, Side /*from*/, const TransportPacket&,
                         const NegotiatedParameters* /*agreement*/) {}
  /// Receives the packets of iWARP connections with the PDUs that end in them, in capture order and before the events
  /// that they cause. Called only if TrackerOptions::transport is set. `from`: the sender.
  virtual void stream(const Connection&, Side /*from*/, const Packet&) {}

 protected:
  ~Sink() = default;
};

}  // namespace rdmawire::tracking
