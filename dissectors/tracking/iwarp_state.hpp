#pragma once
/// Internal state of IwarpTracker, which only its own sources include. iwarp_tracker.cpp handles connections and TCP.
/// iwarp_messages.cpp handles the contents of PDUs.

#include <algorithm>
#include <bit>
#include <deque>
#include <optional>

#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/tracking/iwarp_tracker.hpp"
#include "dissectors/tracking/tcp_loss_tracker.hpp"

namespace rdmawire::tracking {
namespace iwarp {

enum Queue : std::uint8_t { send_queue, request_queue, terminate_queue, atomic_response_queue, queues };

// The DDP segment of an FPDU.
struct Segment {
  const Pdu* pdu;
  const RdmapOpcode* opcode;
  bool tagged, last;
  std::uint32_t key;       // STag of a tagged segment (untagged: the STag to invalidate)
  std::uint64_t position;  // TO of a tagged segment, MO of an untagged one
  std::uint32_t queue, msn;
  std::uint64_t bytes;  // number of bytes after the DDP header
  const Layer* header;  // RDMAP header, or nullptr
};

// Frame and time at which something was captured.
struct SeenAt {
  std::uint64_t frame = 0;
  std::int64_t time = 0;
};

// The earliest and the latest packet that contain a segment.
struct Span {
  SeenAt first, last;
};

// A message whose last segment was not captured yet.
struct Open {
  bool active = false;
  bool lost = false;  // a part of the message was not captured
  const RdmapOpcode* opcode = nullptr;
  std::uint64_t next = 0;            // the next expected TO or MO
  std::uint32_t key = 0;             // STag of a tagged message
  std::uint64_t begin = 0, end = 0;  // offsets of the message in the stream
  Message message;
};
// A message that TCP has not acknowledged yet.
struct Sending {
  std::uint64_t begin, end;
  Message message;
};
// A READ or an atomic whose response is not complete yet.
struct Request {
  std::uint64_t begin, end;
  Message message;
  bool atomic, lost = false;
  std::uint32_t sink = 0;  // READ: STag of the data sink (atomics: the request identifier)
  std::uint64_t sink_to = 0, received = 0;
  std::uint32_t gaps = 0;  // number of gaps in the responder's stream before the request
  SeenAt latest;           // latest packet that contains a part of the response
};
// An FPDU that was captured. Terminate messages and retransmitted bytes are assigned to it.
struct Seen {
  std::uint64_t begin = 0, end = 0, frame = 0, message = 0, position = 0;
  std::uint32_t key_or_msn = 0;
  std::uint8_t queue = 0;  // queue number, if untagged
  bool tagged = false;
  Side whose = Side::a;
};
// Retransmitted bytes whose PDUs have not been extracted yet.
struct RetransmittedRange {
  std::uint64_t from, to;
  std::uint64_t counted;  // name_of() of the last message for which the bytes were counted
};

inline constexpr std::size_t seen_fpdus = 32;
inline constexpr std::size_t max_again = 32;

inline std::uint64_t name_of(std::uint64_t message, Side whose) {
  return message << 1 | static_cast<std::uint64_t>(whose);
}

// State of the stream that one endpoint sends.
struct IwarpDirection {
  TcpLossTracker tcp;
  bool from_start = false;  // the first FPDU was captured, and no byte after it is missing
  bool lost = false;        // bytes are missing after the last segment
  std::uint64_t parsed_to = 0;
  bool parsed = false;
  std::uint32_t gaps = 0;        // number of places where bytes are missing
  std::uint64_t lost_bytes = 0;  // number of bytes that are missing since the last READ response
  struct {
    std::uint32_t next = 1;
    bool known = false;
  } msn[queues];
  Open send, write;
  // Segments of a response whose request is not captured yet, because the directions can be captured out of order.
  struct {
    bool any = false, whole = false;
    std::uint32_t key = 0;
    std::uint64_t begin = 0, next = 0;
    SeenAt first, last;
  } early;
  std::deque<Sending> sending;
  std::deque<Request> requests;
  std::uint64_t messages = 0;
  std::uint32_t read_limit = 0;  // 0: unknown
  bool over_limit = false;
  std::vector<Seen> seen;
  std::size_t oldest_seen = 0;
  std::vector<RetransmittedRange> again;
  bool fin = false;
  // Frame and time at which this endpoint closed its window (frame 0: it is open).
  std::uint64_t closed_window_frame = 0;
  std::int64_t closed_window_time = 0;

  /// True if the receiver acknowledged bytes that the extracted PDUs do not contain. A FIN counts as one byte.
  [[nodiscard]] bool misses() const { return parsed && tcp.acknowledged(parsed_to + 2); }
};

struct Ports {
  Endpoint low, high;
  friend bool operator==(const Ports&, const Ports&) = default;
};
struct PortsHash {
  std::size_t operator()(const Ports& p) const {
    std::uint64_t hash = static_cast<std::uint64_t>(p.low.port) << 16 | p.high.port;
    for (const std::uint64_t word : {p.low.first, p.low.last, p.high.first, p.high.last})
      hash = (hash ^ word ^ hash >> 29) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
  }
};

struct Tracked {
  Ports ports;
  Endpoint a;                // Connection::ends[0]
  std::uint64_t number = 0;  // MpaConnection::id
  Connection record;
  IwarpDirection halves[2];
  bool used = false;  // the connection was used since the clock hand of evict() last passed it
  bool closed = false;
  std::uint64_t request_frame = 0;
  std::int64_t request_time = 0;
  std::uint32_t ird[2] = {}, ord[2] = {};
  bool enhanced[2] = {};

  IwarpDirection& of(Side end) { return halves[static_cast<std::size_t>(end)]; }
};

// Fields of the IP and TCP headers that TcpSegment does not contain.
struct LowerLayerState {
  std::uint16_t identification = 0, checksum = 0;
  std::uint8_t dscp = 0, ecn = 0;
  std::uint32_t timestamp = 0;
  bool has_timestamp = false, selective = false;
};

}  // namespace iwarp

using namespace iwarp;

class IwarpTracker::State {
 public:
  State(Sink& sink, const IwarpLimits& limits) : sink_(sink), limits_(limits) {
    limits_.connections = std::max(limits_.connections, 1U);
    limits_.messages = std::max(limits_.messages, 1U);
  }

  void add(const Packet& packet);
  void finish() {
    while (!order_.empty()) drop(order_.begin(), CloseReason::ended);
  }
  [[nodiscard]] std::uint64_t evicted() const { return evicted_; }
  [[nodiscard]] std::size_t most_connections() const { return most_connections_; }
  [[nodiscard]] std::uint64_t most_messages() const { return most_waiting_; }
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] std::size_t memory() const {
    constexpr std::size_t node = 64;    // size of a node of a list and of a hash table
    constexpr std::size_t deque = 576;  // size of an empty deque
    std::size_t bytes =
        sizeof(State) + slots_.capacity() * sizeof(Slot) + waiting_ * std::max(sizeof(Sending), sizeof(Request));
    for (const Tracked& t : order_) {
      bytes += sizeof(Tracked) + node + 4 * deque;
      for (const IwarpDirection& half : t.halves)
        bytes += half.tcp.memory() + half.seen.capacity() * sizeof(Seen) +
                 half.again.capacity() * sizeof(RetransmittedRange);
    }
    return bytes;
  }

 private:
  using Order = std::list<Tracked>;  // in the order of their first packets
  // Maps MpaConnection::id to a tracked connection without a hash look-up.
  struct Slot {
    std::uint64_t number = 0;
    Tracked* tracked = nullptr;
  };
  static constexpr std::size_t max_slots = 1 << 14;

  Tracked& find(const Packet& packet);
  void begin(Tracked& t, const Packet& packet);
  void evict();
  void drop(Order::iterator victim, CloseReason close_reason);
  void tell(Tracked& t, Event event, Side end) {
    event.end = end;
    event.connection = t.record.id;
    event.last_frame = std::max(event.last_frame, event.frame);
    event.duration = std::max<std::int64_t>(event.duration, 0);  // times in a capture can decrease
    sink_.event(&t.record, event);
  }
  Event here(EventKind kind) const {
    Event event;
    event.kind = kind;
    event.frame = event.last_frame = packet_->number;
    event.time = packet_->time_ns;
    return event;
  }
  void tell_tcp(Tracked& t, Side end);
  void tell_message(Tracked& t, Message& message);
  void answered(Tracked& t, Message& message, std::uint64_t frame, std::int64_t time);

  void silence(Tracked& t, bool again);
  TcpLossTracker::Judgment segment(Tracked& t, Side end, const LowerLayerState& below);
  void on_retransmission(Tracked& t, Side end, std::uint64_t from, std::uint64_t to);
  void acknowledge(Tracked& t, Side end, const LowerLayerState& below);
  void window(Tracked& t, Side end);
  // Called when `end` opened its window, or when it is clear that it never will.
  void opened(Tracked& t, Side end, std::uint64_t frame, std::int64_t time);
  void restart(Tracked& t, Side end);
  void end(Tracked& t, Side end);
  void close(Tracked& t, Side end, std::uint64_t cause_frame);
  void flush(Tracked& t);

  void pdu(Tracked& t, Side end, const Pdu& pdu);
  void mpa_frame(Tracked& t, Side end, const Pdu& pdu);
  void ddp_segment(Tracked& t, Side end, Segment& s);
  void gap(Tracked& t, Side end);
  void untagged(Tracked& t, Side end, Segment& s);
  void write(Tracked& t, Side end, Segment& s);
  void read_response(Tracked& t, Side end, Segment& s);
  void request(Tracked& t, Side end, Segment& s);
  void atomic_response(Tracked& t, Side end, Segment& s);
  void terminate(Tracked& t, Side end, Segment& s);
  void begin(Tracked& t, Side end, Open& open, const Segment& s);
  void extend(Tracked& t, Open& open, const Segment& s);
  void whole(Tracked& t, IwarpDirection& half, Open& open);
  void unfinished(Tracked& t, Open& open);
  void wrong(Tracked& t, Side end, EventKind kind, std::uint64_t expected, std::uint64_t found, const Segment& s);
  [[nodiscard]] Span span(const IwarpDirection& half, const Segment& s) const;
  [[nodiscard]] SeenAt carried(const IwarpDirection& half, std::uint64_t offset) const;
  void log(Tracked& t, Side end, const Segment& s, const Message& message);
  void room(Tracked& t, IwarpDirection& half);
  Message* message_at(Tracked& t, Side whose, std::uint64_t number);

  Sink& sink_;
  IwarpLimits limits_;
  Order order_;
  Order::iterator hand_ = order_.end();
  std::vector<Slot> slots_;
  std::unordered_map<Ports, Order::iterator, PortsHash> connections_;
  std::vector<Event> events_;  // TCP events of the current packet. A member, so that its memory is reused
  std::uint64_t waiting_ = 0, most_waiting_ = 0;  // number of waiting messages and requests: now, and maximum
  std::size_t most_connections_ = 0;
  std::uint64_t evicted_ = 0;
  const Packet* packet_ = nullptr;
  std::uint64_t note_message_ = 0, note_related_ = 0;
  Side note_requester_ = Side::a;
  std::int64_t note_delay_ = 0;
};

}  // namespace rdmawire::tracking
