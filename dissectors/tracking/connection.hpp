#pragma once
/// A connection: two queue pairs that talk to each other, a UD pair, or an iWARP stream; with what was counted of it.

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

/// What says that two directions are halves of one connection.
enum class JoinedBy : std::uint8_t {
  nothing,             ///< one direction was seen, or nothing joins the two
  connection_manager,  ///< the CM's REQ and REP name both queue pairs
  text,                ///< the programs told each other their queue pairs in plain text (perftest, ibv_*_pingpong)
  told,                ///< who made the queue pairs told the tracker: Tracker::pair()
  source_port,         ///< the UDP source ports are those that the sender's stack computes from these queue pairs
  answers,             ///< one direction's acknowledgements and responses answer the other's requests
  stream,              ///< both are the same TCP connection (iWARP)
  datagram,            ///< UD names both queue pairs in each packet
};
std::string_view to_string(JoinedBy paired_by);

enum class Confidence : std::uint8_t { none, low, high, certain };
std::string_view to_string(Confidence confidence);

enum class Service : std::uint8_t { rc, uc, ud, xrc, rd, iwarp, vendor };
std::string_view to_string(Service service);
/// Whose opcodes these are.
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
  std::uint32_t qp = 0;  ///< queue pair number; iWARP: the TCP port
  bool qp_known = false;
};

/// What one end sent. Bytes: `wire_bytes` whole packets as on the wire, `payload_bytes` RDMA payload without pad,
/// `again` packets counted in both.
struct Sent {
  std::uint64_t packets = 0, wire_bytes = 0, payload_bytes = 0;
  std::uint64_t requests = 0, responses = 0;            ///< packets
  std::array<std::uint32_t, message_kinds> messages{};  ///< finished or not, as requester
  std::uint64_t message_bytes = 0;                      ///< of these; reads count what they ask for
  std::uint64_t messages_completed = 0, messages_refused = 0;
  std::uint64_t retransmitted_packets = 0, retransmitted_bytes = 0;                          ///< requests sent again
  std::uint32_t rounds = 0;                                                                  ///< of retransmission
  std::uint32_t lost_in_network = 0, lost_in_capture = 0, out_of_order = 0, duplicates = 0;  ///< packets of this end
  std::uint32_t acks = 0, rnr_naks = 0;           ///< sent by this end as responder
  std::array<std::uint32_t, 5> naks{};            ///< by code, likewise
  std::uint32_t cnps = 0;                         ///< sent by this end
  std::uint32_t ecn_capable = 0, ecn_marked = 0;  ///< packets of this end that are ECT, or CE
  std::uint32_t crc_bad = 0, truncated = 0;
  std::uint8_t request_dscp = 0, response_dscp = 0;  ///< of the last ones
  std::uint64_t latency_count = 0;                   ///< messages with an answer: start to answer
  std::int64_t latency_sum = 0, latency_max = 0;     ///< nanoseconds
};

struct Connection {
  std::uint64_t id = 0;  ///< number of its first frame: no two connections share it, however the input is cut
  Service service = Service::rc;
  Wire wire = Wire::none;
  std::array<ConnectionEnd, 2> ends;  ///< a: sent the first frame, or the CM's or MPA's request
  std::array<Sent, 2> sent;           ///< by end
  JoinedBy paired_by = JoinedBy::nothing;
  Confidence confidence = Confidence::none;
  std::uint64_t agreeing = 0, contradicting = 0;  ///< answers that fit the joining, and that do not
  std::uint32_t mtu = 0;                          ///< path MTU in bytes of payload; 0: not known
  bool mtu_negotiated = false;                    ///< the CM or the text said so; else it was inferred
  std::uint16_t pkey = 0;
  UpperEvidence upper;
  std::uint16_t service_port = 0;  ///< of RDMA-CM's service id or the MPA listener; 0: not known
  std::uint64_t first_frame = 0, last_frame = 0;
  std::int64_t first_time = 0, last_time = 0;
  std::uint64_t opened_frame = 0, closed_frame = 0;  ///< CM's RTU (or REP) and DREQ; MPA reply and FIN, RST, Terminate
  std::int64_t open_duration = 0;                    ///< from the CM's or MPA's request to the reply that opened it
  bool replaced = false;                             ///< its queue pairs were used again for another connection

  [[nodiscard]] const Sent& by(Side end) const { return sent[static_cast<std::size_t>(end)]; }
  [[nodiscard]] Sent& by(Side end) { return sent[static_cast<std::size_t>(end)]; }
  [[nodiscard]] const ConnectionEnd& at(Side end) const { return ends[static_cast<std::size_t>(end)]; }
};

/// Why a connection is told to the sink, for good.
enum class CloseReason : std::uint8_t {
  ended,    ///< the capture ended, or its queue pairs were used again
  evicted,  ///< there was no more room: what its later packets would have told is lost to it
};

/// What a response's PSN is to the requests that the capture has.
enum class Answered : std::uint8_t {
  nothing,       ///< the packet is no response, or the connection's service knows no acknowledgement
  outstanding,   ///< of requests that waited for it
  acknowledged,  ///< of requests that had been acknowledged before
  unseen,        ///< of a request that was not seen
};
std::string_view to_string(Answered answered);

/// What a packet was to its connection.
struct PacketNote {
  std::uint64_t connection = 0;     ///< Connection::id
  Side end = Side::a;               ///< its sender
  std::uint32_t relative_psn = 0;   ///< from the first PSN of its direction's requests
  std::uint64_t message = 0;        ///< Message::number of the message it belongs to, or that it answers; 0: none
  Side requester = Side::a;         ///< whose message that is
  std::uint64_t related_frame = 0;  ///< a response: the request it answers; sent again: the first sending
  std::int64_t related_delay = 0;   ///< nanoseconds since that frame
  std::uint32_t outstanding = 0;    ///< packets of the requester that are not acknowledged after this one
  bool again = false;               ///< seen before
  // InfiniBand's reliable services alone:
  Answered answered = Answered::nothing;  ///< a response
  std::uint32_t acknowledged = 0;         ///< a response: packets of the requester that it acknowledged first
  std::uint32_t outstanding_bytes = 0;    ///< of payload, of the outstanding packets whose first sending was seen
  std::uint32_t reads = 0;                ///< READs, atomics and the like that wait for their answers after this packet
  std::uint8_t read_limit = 0;            ///< so many may, as the CM said; 0: not known
  std::optional<std::uint32_t> credits;   ///< messages that the responder will take, beyond those that were sent; only
                                          ///< where it gives credits. IBTA vol 1, 9.7.7.2
};

struct TransportPacket;       // transport_packet.hpp
struct NegotiatedParameters;  // pair_evidence.hpp

/// Where connections, messages and events go, as they become known: roughly in the capture's order, each once.
/// References are valid during the call.
class Sink {
 public:
  virtual void message(const Connection&, const Message&) {}
  /// `connection`: nullptr where the event belongs to none.
  virtual void event(const Connection* /*connection*/, const Event&) {}
  /// The last that is heard of a connection; its numbers are final.
  virtual void connection(const Connection&, CloseReason) {}
  /// What was told as connection `id` belongs to this one: one half had given up looking for the other, and spoken for
  /// itself. `id` says no farewell, and nothing else.
  virtual void merged(const Connection&, std::uint64_t /*id*/) {}
  /// Every packet that belongs to a connection; only when TrackerOptions::packets is set. It can come after later
  /// ones of other connections: while the other half of a connection is looked for, packets wait.
  virtual void packet(const Connection&, std::uint64_t /*frame*/, const PacketNote&) {}
  /// The same packets, themselves; only when TrackerOptions::transport is set. Both ends' packets of one connection
  /// come in the capture's order once their directions are joined. `from`: its sender. `agreement`: what the CM or the
  /// programs said of the two queue pairs; nullptr: nothing was seen.
  virtual void transport(const Connection&, Side /*from*/, const TransportPacket&,
                         const NegotiatedParameters* /*agreement*/) {}
  /// The packets of iWARP connections, themselves, with the PDUs that end in them; only when TrackerOptions::transport
  /// is set. In the capture's order, before what is told of them. `from`: the sender.
  virtual void stream(const Connection&, Side /*from*/, const Packet&) {}

 protected:
  ~Sink() = default;
};

}  // namespace rdmawire::tracking
