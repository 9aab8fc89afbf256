// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once
/// What is known of the capture file that is open: built once, frame by frame in order, and asked for any frame
/// afterwards. Knows nothing of Wireshark.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "conformance/monitors/monitors.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::wireshark {

using tracking::Connection;
using tracking::Event;
using tracking::Message;
using tracking::Packet;
using tracking::PacketNote;
using tracking::Side;

struct SessionOptions {
  tracking::DissectorOptions dissector;
  bool monitors = true;                            ///< judge the rules of conformance, too
  std::size_t kept_bytes = std::size_t{64} << 20;  ///< of PDUs and messages that lie in several frames, in all
};

/// A frame as it came from the file.
struct Frame {
  std::uint64_t number = 0;
  std::int64_t time_ns = 0;
  LinkType link = LinkType::ethernet;
  Bytes bytes;
  std::uint32_t wire_length = 0;
};

/// Things in the order in which they became known, by index. The first ones can be forgotten: indexes stay.
template <class T>
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
  /// So many, new ones as they are made.
  void grow(std::size_t end) {
    if (end > this->end()) kept_.resize(end - forgotten_);
  }
  void forget_before(std::size_t index) {
    for (; forgotten_ < index && !kept_.empty(); ++forgotten_) kept_.pop_front();
  }

 private:
  std::deque<T> kept_;
  std::size_t forgotten_ = 0;
};

/// A connection as far as it is known.
struct ConnectionFacts {
  std::uint64_t id = 0;
  tracking::Service service = tracking::Service::rc;
  Wire wire = Wire::none;
  std::array<tracking::ConnectionEnd, 2> ends;
  tracking::JoinedBy paired_by = tracking::JoinedBy::nothing;
  std::uint32_t mtu = 0;
  std::uint64_t opened_frame = 0, closed_frame = 0;  ///< 0: not seen
  std::int64_t open_duration = 0;                    ///< of its set-up, nanoseconds; 0: not known
};

/// A message that is over: what of tracking::Message is shown.
struct MessageFacts {
  std::int64_t start = 0, end_time = 0, first_response_time = 0, answer_time = 0;
  std::uint64_t size = 0, remote_address = 0;
  std::uint32_t connection = 0, number = 0, key = 0, first_psn = 0, last_psn = 0, packets = 0, repeated_packets = 0;
  std::uint32_t first_frame = 0, last_frame = 0, first_response_frame = 0, answer_frame = 0;
  Side end = Side::a;
  tracking::MessageKind kind = tracking::MessageKind::send;
  tracking::Outcome outcome = tracking::Outcome::completed;
  bool has_remote = false;

  explicit MessageFacts(const Message& message);
};

/// What a congestion notification answers: the marks that its connection's packets had, as far as they were captured.
struct NotificationFacts {
  std::uint64_t marked_frame = 0;  ///< the last marked one before it; 0: none was seen
  std::int64_t after = 0;          ///< nanoseconds since that frame
  std::uint32_t marked = 0;        ///< frames that were marked since the notification before it
  std::uint64_t before_frame = 0;  ///< the notification before it; 0: it is the first
  std::int64_t interval = 0;       ///< nanoseconds since that one
};

/// What a frame has to do with a message.
enum class Part : std::uint8_t { begins, ends, first_response, answer };

/// A DDP message that several segments carry, put together.
struct StreamMessage {
  std::vector<std::uint32_t> frames;  ///< in which its segments end
  std::vector<std::uint8_t> bytes;
  std::uint32_t msn = 0;  ///< untagged ones
  std::uint8_t opcode = 0;
  bool tagged = false;
};

/// What is known of one frame beside its own bytes; valid until the next frame is added.
struct FrameFacts {
  std::optional<PacketNote> note;
  const ConnectionFacts* connection = nullptr;  ///< of the note
  const MessageFacts* message = nullptr;        ///< the one that the note names, once it is over
  const Event* retransmission = nullptr;        ///< the round in which the frame repeats another
  std::uint32_t round = 0;                      ///< of its requester's rounds that one's number, from 1
  std::int64_t reaction = 0;                    ///< nanoseconds from the frame that brought the round about; 0: unknown
  std::uint64_t sent_again_in = 0;              ///< the next frame with the same packet; 0: none
  std::uint64_t notified_in = 0;                ///< the frame is marked: the first notification after it; 0: none
  std::optional<NotificationFacts> notification;
  std::vector<const Event*> events;  ///< that show first in this frame
  std::vector<std::pair<Part, const MessageFacts*>> messages;
  std::vector<const conformance::Violation*> violations;
  std::vector<const StreamMessage*> whole;  ///< that end in this frame
  std::vector<const StreamMessage*> parts;  ///< of which this frame carries a segment that is not the last
};

/// The bytes of its message that a packet or a PDU carries: what lies behind the headers of InfiniBand's transport or
/// of RDMAP, upper layers' headers included. Length 0: none.
Range message_bytes(const HeaderStack& stack);

/// A message put together from the frames that carry it.
struct Reassembly {
  std::vector<std::uint64_t> frames;  ///< in the message's order
  std::vector<std::uint8_t> bytes;
};

class Session final : public tracking::Sink {
 public:
  explicit Session(const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The next frame: numbers must rise. The packet is valid until the next call of add() or again().
  const Packet& add(const Frame& frame);
  /// A frame that was added before. What its connection taught is what it was then.
  const Packet& again(const Frame& frame);
  /// No frame will be asked for again after later ones were added: the old ones are forgotten from here on, but for
  /// what later ones refer to.
  void read_once() { once_ = true; }
  /// The last frame was added: what waited is told.
  void finish();
  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] std::uint64_t last_frame() const { return last_frame_; }

  /// What is known of a frame now. Pointers into the session; valid until the next frame is added.
  void facts_of(std::uint64_t frame, FrameFacts& facts) const;
  /// Whether anything happened in the frame that a person is warned of.
  [[nodiscard]] bool eventful(std::uint64_t frame) const;
  /// The connection of that id, or of what was told as that id.
  [[nodiscard]] const ConnectionFacts* connection_of(std::uint64_t id) const;
  /// What was told as connection `id` belongs to the one that is returned; its ends are the other way round if
  /// `swapped` is set.
  [[nodiscard]] std::uint64_t now_called(std::uint64_t id, bool& swapped) const;
  /// Whether the frame's TCP segment is iWARP's, though no PDU may end in it.
  [[nodiscard]] bool is_iwarp(std::uint64_t frame) const;
  /// Bytes that were not kept for want of room (SessionOptions::kept_bytes).
  [[nodiscard]] std::uint64_t bytes_dropped() const { return dropped_; }

  /// The message whose last segment the frame carries, put together; false: it carries none, or segments are missing,
  /// or there was no room for them. Messages of one packet need none of this.
  bool reassemble(std::uint64_t frame, Reassembly& whole) const;
  /// The frame in which the message is whole, of which this frame carries a segment; 0: it is not.
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
  enum class What : std::uint8_t { event, begins, ends, first_response, answer, violation, whole, part };
  struct Link {
    std::uint32_t index, next;
    What what;
  };
  /// A row a frame: small, because there are as many as frames.
  struct Row {
    std::int64_t related_delay = 0;
    std::uint32_t connection = 0, message = 0, related_frame = 0, relative_psn = 0, outstanding = 0;
    std::uint32_t outstanding_bytes = 0, acknowledged = 0, sent_again_in = 0;
    std::uint32_t links = none, saved = none, segment = none;
    std::uint16_t reads = 0, credits = 0;
    std::uint8_t read_limit = 0;
    bool has_note : 1 = false, has_credits : 1 = false, again : 1 = false, iwarp : 1 = false, happened : 1 = false,
                    notifies : 1 = false, marked : 1 = false;
    tracking::Answered answered = tracking::Answered::nothing;
    Side end = Side::a, requester = Side::a;
  };
  /// A packet's part of a message that has several.
  struct Segment {
    const std::uint8_t* bytes = nullptr;  ///< nullptr: there was no room
    std::uint32_t length = 0;
    std::uint32_t previous = 0;  ///< another frame of the same message; 0: none
    Position position = Position::only;
  };
  /// How its segments make a message.
  struct Arrangement {
    std::uint64_t connection = 0, message = 0;
    Side requester = Side::a;
    std::uint32_t newest = 0;          ///< the segment that came last when this was found
    std::vector<std::uint32_t> order;  ///< one frame for each PSN, in the message's order
    std::uint32_t whole_in = 0;        ///< the frame that made it whole; 0: it is not
  };
  /// A round of going back and sending again.
  struct RoundPlace {
    std::uint32_t frame, last_frame, index;  ///< in events_
  };
  /// What is known of one requester. Messages by number - 1.
  struct Requests {
    Kept<std::uint32_t> messages;  ///< index in messages_, once they are over
    Kept<std::uint32_t> segments;  ///< frame of the newest segment
    std::vector<RoundPlace> rounds;
    /// Frames that a switch marked, and those that notify of congestion: frame and time.
    std::vector<std::pair<std::uint32_t, std::int64_t>> marks, notifications;
  };
  /// How far everything had grown at a frame.
  struct Milestone {
    std::uint64_t frame;
    std::size_t links, events, messages, saved, pdus, layers, findings, notes, segments, stream_messages, bytes;
  };
  /// A header stack without what was not used of it.
  struct SavedStack {
    std::uint32_t layers = 0, findings = 0;  ///< from here on in layers_ and findings_
    Range payload, pad, mpa_crc;
    std::uint8_t layer_count = 0, finding_count = 0;
    std::uint8_t network = HeaderStack::none, transport = HeaderStack::none;
    Wire wire = Wire::none;
    bool cut = false;
  };
  /// A PDU of a byte stream.
  struct SavedPdu {
    SavedStack stack;
    const std::uint8_t* bytes = nullptr;  ///< of one that lies in several frames; nullptr: it lies in its frame
    std::uint32_t offset = 0;             ///< in its frame
    std::uint32_t length = 0, wire_length = 0;
    Range in_frame;
    CrcCheck crc;
    std::uint16_t markers = 0;
    bool reassembled = false, wrong_marker = false;
  };
  /// What of a packet its own bytes do not tell.
  struct Saved {
    SavedStack stack;  ///< its own, where its connection told of more headers
    tracking::UpperEvidence upper;
    std::uint32_t pdus = 0, notes = 0;  ///< from here on in pdus_ and notes_
    std::uint16_t pdu_count = 0;
    std::uint8_t note_count = 0;
    bool has_stack = false;
  };
  /// The DDP message, tagged or untagged, that a sender has begun: another one begins when it has ended. RFC 5041, 5.3.
  struct OpenMessage {
    StreamMessage message;
    std::uint64_t next = 0;  ///< message offset, or tagged offset, of the segment that goes on with it
    std::uint32_t stag = 0;
    bool whole = false;  ///< nothing is missing so far
  };
  struct Renamed {
    std::uint64_t now;
    bool swapped;
  };

  Row& row_of(std::uint64_t frame);
  [[nodiscard]] const Row* find_row(std::uint64_t frame) const;
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
  void link_violations();
  void clear_packet(Packet& packet, const Frame& frame) const;
  void round_of(std::uint64_t frame, const Row& row, FrameFacts& facts) const;
  void congestion_of(std::uint64_t frame, const Row& row, FrameFacts& facts) const;

  SessionOptions options_;
  tracking::Dissector dissector_;
  std::unique_ptr<conformance::Monitors> monitors_;
  std::unique_ptr<tracking::Tracker> tracker_;
  Packet packet_;
  Packet shown_again_;
  Kept<Row> rows_;  ///< by frame number
  Kept<Link> links_;
  Kept<Event> events_;
  Kept<MessageFacts> messages_;
  Kept<Saved> saved_;
  Kept<SavedPdu> pdus_;
  Kept<Layer> layers_;
  Kept<ParseError> findings_;
  Kept<std::string_view> notes_;
  Kept<Segment> segments_;
  Kept<std::vector<std::uint8_t>> bytes_;  ///< of segments and PDUs, in large pieces
  mutable Arrangement arrangement_;        ///< the one that was asked for last
  std::size_t violations_seen_ = 0;
  std::vector<const conformance::Violation*> violations_;
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
  std::uint64_t last_frame_ = 0;
  std::size_t kept_ = 0;
  std::uint64_t dropped_ = 0;
  bool finished_ = false, once_ = false;
};

}  // namespace rdmawire::wireshark
