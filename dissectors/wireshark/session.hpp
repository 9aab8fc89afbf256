// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// Analysis of the current capture file: frames are added once in order, and then any frame can be queried.
/// Independent of Wireshark.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "conformance/monitors/known_stack.hpp"
#include "conformance/monitors/monitors.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/mrc_tracker.hpp"
#include "dissectors/tracking/tracker.hpp"
#include "dissectors/wireshark/cm_exchanges.hpp"
#include "dissectors/wireshark/packed_table.hpp"
#include "dissectors/wireshark/seen_psns.hpp"

namespace rdmawire::wireshark {

using tracking::Connection;
using tracking::Event;
using tracking::Message;
using tracking::Packet;
using tracking::PacketNote;
using tracking::Side;

struct SessionOptions {
  tracking::DissectorOptions dissector;
  bool monitors = true;                                ///< also check the conformance rules
  std::size_t kept_bytes = std::size_t{64} << 20;      ///< limit for PDUs and messages of several frames
  std::size_t tracked_bytes = std::size_t{512} << 20;  ///< limit for connections: TrackerOptions::memory
};

/// A frame from the capture file.
struct Frame {
  std::uint64_t number = 0;
  std::int64_t time_ns = 0;
  LinkType link = LinkType::ethernet;
  Bytes bytes;
  std::uint32_t wire_length = 0;
};

/// Items by index in the order of addition. Old items can be removed. Indexes remain valid.
template <class T, class Container = std::deque<T>>
class Kept {
 public:
  [[nodiscard]] std::size_t begin() const { return forgotten_; }
  [[nodiscard]] std::size_t end() const { return forgotten_ + kept_.size(); }
  [[nodiscard]] bool has(std::size_t index) const { return index >= forgotten_ && index < end(); }
  T& operator[](std::size_t index) { return kept_[index - forgotten_]; }
  const T& operator[](std::size_t index) const { return kept_[index - forgotten_]; }
  template <class... Parts>
  T& add(Parts&&... parts) {
    return kept_.emplace_back(std::forward<Parts>(parts)...);
  }
  T& back() { return kept_.back(); }
  const T& back() const { return kept_.back(); }
  /// Grows to `end` default items.
  void grow(std::size_t end) {
    if (end > this->end()) kept_.resize(end - forgotten_);
  }
  void forget_before(std::size_t index) {
    const std::size_t count = std::min(index - std::min(index, forgotten_), kept_.size());
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
    forgotten_ += count;
  }

 private:
  Container kept_;
  std::size_t forgotten_ = 0;
};

/// A connection, as far as known.
struct ConnectionFacts {
  std::uint64_t id = 0;
  tracking::Service service = tracking::Service::rc;
  Wire wire = Wire::none;
  std::array<tracking::ConnectionEnd, 2> ends;
  tracking::JoinedBy paired_by = tracking::JoinedBy::nothing;
  std::uint32_t mtu = 0;
  std::uint64_t opened_frame = 0, closed_frame = 0;  ///< 0: not seen
  std::int64_t open_duration = 0;  ///< duration of the connection establishment, nanoseconds (0: unknown)
  /// Index of the connection, from 0: in the order in which its packets arrive. finish() sorts by first frame.
  std::uint32_t stream = no_stream;
  bool requests = false, responses = false;  ///< seen. IWARP: packets of the requester and of its peer
  bool aborted = false;                      ///< rejected, reset or terminated
  bool sound_crcs = false;                   ///< the sender of a packet had computed its ICRC over the same headers

  std::int64_t first_time = 0, last_time = 0;  ///< of its packets, nanoseconds since 1970

  static constexpr std::uint32_t no_stream = UINT32_MAX;
};

/// A finished message: the shown fields of tracking::Message.
struct MessageFacts {
  std::int64_t start = 0, end_time = 0, first_response_time = 0, answer_time = 0;
  std::uint64_t size = 0, remote_address = 0;
  std::uint32_t connection = 0, number = 0, key = 0, first_psn = 0, last_psn = 0, packets = 0, repeated_packets = 0;
  std::uint32_t first_frame = 0, last_frame = 0, first_response_frame = 0, answer_frame = 0;
  Side end = Side::a;
  tracking::MessageKind kind = tracking::MessageKind::send;
  tracking::Outcome outcome = tracking::Outcome::completed;
  bool has_remote = false;

  MessageFacts() = default;
  explicit MessageFacts(const Message& message);
};

/// Cause of a congestion notification: the captured ECN marks of its connection.
struct NotificationFacts {
  std::uint64_t marked_frame = 0;  ///< last marked frame before the notification (0: none)
  std::int64_t after = 0;          ///< nanoseconds from that frame to the notification
  std::uint32_t marked = 0;        ///< number of frames marked since the previous notification
  std::uint64_t before_frame = 0;  ///< the previous notification (0: none)
  std::int64_t interval = 0;       ///< nanoseconds from the previous notification to this one
};

/// A result that was known when the frame arrived. Later frames can change it: see Event.
struct EarlyResult {
  tracking::EventKind kind = tracking::EventKind::retransmission;
  tracking::Cause cause = tracking::Cause::none;
  std::uint32_t cause_frame = 0;
};

/// Violation of a rule. `stack`: known for this harmless deviation.
struct ViolationFacts {
  const conformance::Violation* violation = nullptr;
  conformance::Stack stack = conformance::Stack::unknown;
};

/// Role of a frame in a message.
enum class Part : std::uint8_t { begins, ends, first_response, answer };

/// A reassembled DDP message of several segments.
struct StreamMessage {
  std::vector<std::uint32_t> frames;  ///< frames in which its segments end
  std::vector<std::uint8_t> bytes;
  std::uint32_t msn = 0;  ///< for untagged messages
  std::uint8_t opcode = 0;
  bool tagged = false;
};

/// Analysis of one frame. Valid until the next frame is added.
struct FrameFacts {
  std::optional<PacketNote> note;
  const ConnectionFacts* connection = nullptr;  ///< connection of the note, or of the CM packet
  const MessageFacts* message = nullptr;        ///< the note's message, once it is finished
  const Event* retransmission = nullptr;        ///< the retransmission burst that contains the frame
  std::uint32_t round = 0;                      ///< number of the burst among those of its requester, from 1
  std::int64_t reaction = 0;                    ///< nanoseconds from the frame that caused the burst (0: unknown)
  std::uint64_t retransmitted_in = 0;           ///< the next frame with the same packet (0: none)
  std::uint64_t notified_in = 0;                ///< if the frame is marked: the first notification after it (0: none)
  std::optional<NotificationFacts> notification;
  std::uint32_t duplicate_number = 0;  ///< of a duplicate acknowledgement since the last new one, from 1
  bool repeated_response = false;      ///< a READ response whose PSN was in an earlier frame
  std::int64_t since_previous = 0;     ///< nanoseconds since the previous packet of the connection
  std::vector<const Event*> events;    ///< that start in this frame
  /// Results before finish(), without those that `events` or `retransmission` contain.
  std::vector<EarlyResult> early;
  std::optional<Event> early_round;  ///< the burst of an early retransmission, up to this frame
  std::vector<std::pair<Part, const MessageFacts*>> messages;
  std::vector<std::pair<Part, std::uint32_t>> message_parts;  ///< `messages` by their numbers in the session
  std::vector<MessageFacts> stored_messages;                  ///< to which `message` and `messages` refer
  std::vector<ViolationFacts> violations;
  std::vector<const StreamMessage*> whole;  ///< that end in this frame
  std::optional<tracking::MrcNote> mrc;
  std::vector<const StreamMessage*> parts;  ///< with a segment in this frame that is not the last
};

/// Returns the range of the message's bytes in a packet or PDU: after the headers of InfiniBand's transport or RDMAP,
/// including upper layer headers. Length 0: none.
Range message_bytes(const HeaderStack& stack);

/// A message reassembled from its frames.
struct Reassembly {
  std::vector<std::uint64_t> frames;  ///< in message order
  std::vector<std::uint8_t> bytes;
};

class Session final : public tracking::Sink {
 public:
  explicit Session(const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Adds the next frame. Numbers must increase. The packet is valid until the next call of add() or again().
  const Packet& add(const Frame& frame);
  /// Dissects a frame that was added before, with the connection state at that time.
  const Packet& again(const Frame& frame);
  /// Declares that no frame is queried after later frames were added. The session then discards old frames,
  /// except for data to which later frames refer.
  void read_once() { once_ = true; }
  /// Reports waiting events. Call after the last frame.
  void finish();
  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] std::uint64_t last_frame() const { return last_frame_; }

  /// Returns the current analysis of a frame. Pointers are valid until the next frame is added.
  void facts_of(std::uint64_t frame, FrameFacts& facts) const;
  /// True if the frame has an event, an early result, a violation or an unusual response.
  [[nodiscard]] bool eventful(std::uint64_t frame) const;
  /// Returns the connection with that ID, or the connection into which it was merged.
  [[nodiscard]] const ConnectionFacts* connection_of(std::uint64_t id) const;
  /// Returns the ID of the connection into which `id` was merged. Sets `swapped` if the endpoints of `id` are reversed
  /// in that connection.
  [[nodiscard]] std::uint64_t now_called(std::uint64_t id, bool& swapped) const;
  /// True if the frame's TCP segment belongs to iWARP, even if no PDU ends in it.
  [[nodiscard]] bool is_iwarp(std::uint64_t frame) const;
  /// True if the frame's SEND message cannot start with a header of RPC-over-RDMA version 1. RFC 8166, 4.1
  [[nodiscard]] bool is_not_rpc(std::uint64_t frame) const;
  /// Returns the first frame of each request packet of a connection's endpoint, or of each of its READ responses, in
  /// PSN order. Without those that is_damaged() excludes. Call after finish().
  [[nodiscard]] std::vector<std::uint32_t> frames_in_order(std::uint64_t connection, Side sender, bool responses) const;
  /// True if the headers or the payload of the frame are damaged. False in a connection without any correct ICRC,
  /// because its sender, or the capture, has no ICRCs.
  [[nodiscard]] bool is_damaged(std::uint64_t frame) const;
  /// Number of connections with packets.
  [[nodiscard]] std::uint32_t streams() const { return streams_; }

  /// Reassembles the message whose last segment is in the frame. Returns false if there is none, or if segments
  /// are missing or were dropped. Not needed for messages of one packet.
  bool reassemble(std::uint64_t frame, Reassembly& whole) const;
  /// Returns the frame that completes the message of this frame's segment, or 0 if the message is incomplete.
  [[nodiscard]] std::uint64_t reassembled_in(std::uint64_t frame) const;

  void message(const Connection& connection, const Message& message) override;
  void event(const Connection* connection, const Event& event) override;
  void connection(const Connection& connection, tracking::CloseReason close_reason) override;
  void merged(const Connection& connection, std::uint64_t id) override;
  void packet(const Connection& connection, std::uint64_t frame, const PacketNote& note) override;
  void transport(const Connection& connection, Side from, const tracking::TransportPacket& t,
                 const tracking::NegotiatedParameters* agreement) override;
  void stream(const Connection& connection, Side from, const Packet& packet) override;

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  enum class What : std::uint32_t { event, begins, ends, first_response, answer, violation, whole, part, early };
  struct Link {
    std::uint32_t index = 0, next = none;
    What what = What::event;
  };
  /// A row per frame. Must be small.
  struct Row {
    std::int64_t related_delay = 0;
    std::int64_t time = 0;  ///< until its note arrives its own time, then the time since the connection's last packet
    std::uint32_t connection = 0, message = 0,  // of a CM packet, `message` is its exchange
        related_frame = 0, relative_psn = 0, outstanding = 0;
    /// `acknowledged` of a duplicate acknowledgement is the number of the duplicate.
    std::uint32_t outstanding_bytes = 0, acknowledged = 0, retransmitted_in = 0;
    std::uint32_t saved = none, segment = none;
    std::uint16_t reads = 0, credits = 0;
    std::uint8_t read_limit = 0;
    bool has_note : 1 = false, has_credits : 1 = false, again : 1 = false, iwarp : 1 = false, happened : 1 = false,
                    notifies : 1 = false, marked : 1 = false, not_rpc : 1 = false, read_response : 1 = false,
                    repeated_response : 1 = false, cm : 1 = false, own_time : 1 = false, damaged : 1 = false,
                    sound_crc : 1 = false, cut : 1 = false;
    tracking::Answered answered : 2 = tracking::Answered::nothing;
    Side end : 1 = Side::a;
    Side requester : 1 = Side::a;
  };
  /// The first link of a frame. Not in its row, because the links of messages are added late.
  struct LinkHead {
    std::uint32_t index = none;
  };
  /// A packet's part of a message of several packets.
  struct Segment {
    const std::uint8_t* bytes = nullptr;
    std::uint32_t length = 0;
    std::uint32_t previous = 0;  ///< another frame of the same message (0: none)
    Position position = Position::only;
  };
  /// Order of a message's segments.
  struct Arrangement {
    std::uint64_t connection = 0, message = 0;
    Side requester = Side::a;
    std::uint32_t newest = 0;          ///< the last segment when the order was computed
    std::vector<std::uint32_t> order;  ///< one frame per PSN, in message order
    std::uint32_t whole_in = 0;        ///< the frame that completed the message (0: incomplete)
  };
  /// A retransmission burst.
  struct RoundPlace {
    std::uint32_t frame, last_frame, index;  ///< in events_
  };
  /// A retransmission burst that was not reported yet.
  struct OpenBurst {
    Event event;               ///< as far as known
    std::uint32_t number = 0;  ///< among the bursts of the requester
  };
  /// State of one requester. Its messages are indexed by their number - 1.
  struct Requests {
    Kept<std::uint32_t, std::vector<std::uint32_t>> messages;  ///< index of a finished message in messages_
    Kept<std::uint32_t, std::vector<std::uint32_t>> segments;  ///< frame of the message's last segment
    std::vector<RoundPlace> rounds;
    std::vector<OpenBurst> open_bursts;  ///< in order of their first frames
    std::uint32_t bursts = 0;
    std::uint32_t duplicates = 0;  ///< acknowledgements since the last new one
    SeenPsns read_responses;       ///< relative PSNs
    /// ECN-marked frames, and frames with notifications: frame and time.
    std::vector<std::pair<std::uint32_t, std::int64_t>> marks, notifications;
  };
  /// Sizes of all tables at a frame.
  struct Milestone {
    std::uint64_t frame;
    std::size_t links, events, messages, saved, pdus, layers, findings, notes, segments, stream_messages, bytes, early;
  };
  /// A header stack without its unused parts.
  struct SavedStack {
    std::uint32_t layers = 0, findings = 0;  ///< start index in layers_ and findings_
    Range payload, pad, mpa_crc;
    std::uint8_t layer_count = 0, finding_count = 0;
    std::uint8_t network = HeaderStack::none, transport = HeaderStack::none;
    Wire wire = Wire::none;
    bool cut = false;
  };
  /// A PDU of a byte stream.
  struct SavedPdu {
    SavedStack stack;
    const std::uint8_t* bytes = nullptr;  ///< copied bytes of a PDU of several frames (nullptr: in its frame)
    std::uint32_t offset = 0;             ///< of the PDU in its frame
    std::uint32_t length = 0, wire_length = 0;
    Range in_frame;
    CrcCheck crc;
    std::uint16_t markers = 0;
    bool reassembled = false, wrong_marker = false;
  };
  /// Data of a packet that does not follow from its own bytes.
  struct Saved {
    SavedStack stack;  ///< the packet's stack, if the connection determined additional headers
    tracking::UpperEvidence upper;
    std::uint32_t pdus = 0, notes = 0;  ///< start index in pdus_ and notes_
    std::uint16_t pdu_count = 0;
    std::uint8_t note_count = 0;
    bool has_stack = false;
  };
  /// The open DDP message of a sender, tagged or untagged. The next one starts after its end. RFC 5041, 5.3.
  struct OpenMessage {
    StreamMessage message;
    std::uint64_t next = 0;  ///< message offset, or tagged offset, of the next segment
    std::uint32_t stag = 0;
    bool whole = false;  ///< no segment is missing so far
  };
  struct Renamed {
    std::uint64_t now;
    bool swapped;
  };

  Row& row_of(std::uint64_t frame);
  [[nodiscard]] const Row* find_row(std::uint64_t frame) const;
  [[nodiscard]] std::uint32_t first_link(std::uint64_t frame) const;
  void store_messages(FrameFacts& facts, std::uint32_t own) const;
  void link(std::uint64_t frame, What what, std::size_t index);
  void save(Row& row);
  [[nodiscard]] SavedStack saved_stack(const HeaderStack& stack);
  void restore(const SavedStack& saved, HeaderStack& stack, Bytes bytes, std::uint32_t wire_length) const;
  const std::uint8_t* keep_bytes(Bytes bytes);
  void keep_segment(Row& row);
  void keep_stream_segments();
  void forget();
  [[nodiscard]] const Arrangement* arranged(std::uint64_t frame) const;
  Requests& requests_of(std::uint64_t connection, Side requester);
  [[nodiscard]] const Requests* find_requests(std::uint64_t connection, Side requester) const;
  void note_connection(const Connection& connection);
  void note_early(const Connection& connection, std::uint64_t frame, const PacketNote& note);
  void note_early_of_packet();
  void add_early(std::uint64_t frame, const EarlyResult& result);
  void early_of(std::uint64_t frame, FrameFacts& facts) const;
  void note_open_burst(Requests& requests, const PacketNote& note) const;
  void note_rpc(Row& row);
  void note_stack();
  void note_cm(Row& row);
  void assign_cm(const Event& event);
  [[nodiscard]] std::uint64_t connection_in(const Row& row) const;
  void number_streams();
  void link_violations();
  void clear_packet(Packet& packet, const Frame& frame) const;
  [[nodiscard]] std::int64_t reaction_of(const Event& burst) const;
  void round_of(std::uint64_t frame, const Row& row, FrameFacts& facts) const;
  void congestion_of(std::uint64_t frame, const Row& row, FrameFacts& facts) const;

  SessionOptions options_;
  tracking::Dissector dissector_;
  std::unique_ptr<conformance::Monitors> monitors_;
  std::unique_ptr<tracking::Tracker> tracker_;
  Packet packet_;
  Packet shown_again_;
  PackedTable<Row, 128, 128> rows_;         ///< by frame number
  PackedTable<LinkHead, 1024, 256> heads_;  ///< by frame number
  PackedTable<Link> links_;
  Kept<Event> events_;
  PackedTable<MessageFacts> messages_;
  Kept<Saved> saved_;
  Kept<SavedPdu> pdus_;
  Kept<Layer> layers_;
  Kept<ParseError> findings_;
  Kept<std::string_view> notes_;
  Kept<Segment> segments_;
  Kept<EarlyResult> early_;
  Kept<std::vector<std::uint8_t>> bytes_;  ///< of segments and PDUs, in large blocks
  mutable Arrangement arrangement_;        ///< the last one requested
  std::size_t violations_seen_ = 0;
  std::vector<ViolationFacts> violations_;
  conformance::KnownStacks stacks_;
  CmExchanges exchanges_;
  bool assigned_late_ = false;  ///< CM packets were assigned to connections after later packets
  std::unordered_map<std::uint64_t, OpenMessage> open_messages_;  ///< by TCP connection, model and sender
  Kept<StreamMessage> stream_messages_;
  std::deque<Milestone> milestones_;
  std::unordered_map<std::uint64_t, Requests> requests_;  ///< by connection and requester
  std::uint64_t last_requests_key_ = 0;
  Requests* last_requests_ = nullptr;
  std::unordered_map<std::uint64_t, ConnectionFacts> connections_;
  ConnectionFacts* last_connection_ = nullptr;
  std::unordered_map<std::uint64_t, Renamed> renamed_;
  std::unordered_map<std::uint64_t, std::int64_t> notified_at_;  ///< times of notifications that wait for their notes
  tracking::MrcTracker mrc_;
  std::unordered_map<std::uint64_t, tracking::MrcNote> mrc_notes_;  ///< by frame
  std::unordered_map<std::uint64_t, bool> not_rpc_;                 ///< of the last message of each flow
  std::uint64_t last_frame_ = 0;
  std::uint32_t streams_ = 0;
  std::size_t kept_ = 0;
  bool finished_ = false, once_ = false;
};

}  // namespace rdmawire::wireshark
