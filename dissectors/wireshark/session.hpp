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
using tracking::End;
using tracking::Event;
using tracking::Message;
using tracking::Packet;
using tracking::PacketNote;

struct SessionOptions {
  tracking::DissectorOptions dissector;
  bool monitors = true;                             ///< judge the rules of conformance, too
  std::size_t kept_octets = std::size_t{64} << 20;  ///< of PDUs and messages that lie in several frames, in all
};

/// A frame as it came from the file.
struct Frame {
  std::uint64_t number = 0;
  std::int64_t time_ns = 0;
  LinkType link = LinkType::ethernet;
  Bytes bytes;
  std::uint32_t wire_length = 0;
};

/// A connection as far as it is known.
struct ConnectionFacts {
  std::uint64_t id = 0;
  tracking::Service service = tracking::Service::rc;
  Wire wire = Wire::none;
  std::array<tracking::ConnectionEnd, 2> ends;
  tracking::JoinedBy joined_by = tracking::JoinedBy::nothing;
  std::uint32_t mtu = 0;
};

/// What a frame has to do with a message.
enum class Part : std::uint8_t { begins, ends, first_response, answer };

/// A DDP message that several segments carry, put together.
struct StreamMessage {
  std::vector<std::uint32_t> frames;  ///< in which its segments end
  std::vector<std::uint8_t> octets;
  std::uint32_t msn = 0;  ///< untagged ones
  std::uint8_t opcode = 0;
  bool tagged = false;
};

/// What is known of one frame beside its own octets; valid until the next frame is added.
struct FrameFacts {
  std::optional<PacketNote> note;
  const ConnectionFacts* connection = nullptr;  ///< of the note
  const Message* message = nullptr;             ///< the one that the note names, once it is over
  const Event* retransmission = nullptr;        ///< the round in which the frame repeats another
  std::vector<const Event*> events;             ///< that show first in this frame
  std::vector<std::pair<Part, const Message*>> messages;
  std::vector<const conformance::Violation*> violations;
  std::vector<const StreamMessage*> whole;  ///< that end in this frame
  std::vector<const StreamMessage*> parts;  ///< of which this frame carries a segment that is not the last
};

/// The octets of its message that a packet or a PDU carries: what lies behind the headers of InfiniBand's transport or
/// of RDMAP, upper layers' headers included. Length 0: none.
Range message_octets(const HeaderStack& stack);

/// A message put together from the frames that carry it.
struct Reassembly {
  std::vector<std::uint64_t> frames;  ///< in the message's order
  std::vector<std::uint8_t> octets;
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
  /// The last frame was added: what waited is told.
  void finish();
  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] std::uint64_t last_frame() const { return last_frame_; }

  /// What is known of a frame now. Pointers into the session; valid until the next frame is added.
  void facts_of(std::uint64_t frame, FrameFacts& facts) const;
  /// Whether anything happened in the frame, or begins or ends: where not, facts_of() tells of its connection alone.
  [[nodiscard]] bool eventful(std::uint64_t frame) const;
  /// The connection of that id, or of what was told as that id.
  [[nodiscard]] const ConnectionFacts* connection_of(std::uint64_t id) const;
  /// What was told as connection `id` belongs to the one that is returned; its ends are the other way round if
  /// `swapped` is set.
  [[nodiscard]] std::uint64_t now_called(std::uint64_t id, bool& swapped) const;
  /// Whether the frame's TCP segment is iWARP's, though no PDU may end in it.
  [[nodiscard]] bool is_iwarp(std::uint64_t frame) const;
  /// Octets that were not kept for want of room (SessionOptions::kept_octets).
  [[nodiscard]] std::uint64_t octets_dropped() const { return dropped_; }

  /// The message whose last segment the frame carries, put together; false: it carries none, or segments are missing,
  /// or there was no room for them. Messages of one packet need none of this.
  bool reassemble(std::uint64_t frame, Reassembly& whole) const;
  /// The frame in which the message is whole, of which this frame carries a segment; 0: it is not.
  [[nodiscard]] std::uint64_t reassembled_in(std::uint64_t frame) const;

  void message(const Connection& connection, const Message& message) override;
  void event(const Connection* connection, const Event& event) override;
  void connection(const Connection& connection, tracking::Farewell farewell) override;
  void merged(const Connection& connection, std::uint64_t id) override;
  void packet(const Connection& connection, std::uint64_t frame, const PacketNote& note) override;
  void transport(const Connection& connection, End from, const tracking::TransportPacket& t,
                 const tracking::Agreement* agreement) override;
  void stream(const Connection& connection, End from, const Packet& packet) override;

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
    std::uint32_t links = none, saved = none, segment = none;
    bool has_note = false, again = false, iwarp = false;
    End end = End::a, requester = End::a;
  };
  /// A packet's part of a message that has several.
  struct Segment {
    const std::uint8_t* octets = nullptr;  ///< nullptr: there was no room
    std::uint32_t length = 0;
    std::uint32_t previous = 0;  ///< another frame of the same message; 0: none
    Position position = Position::only;
  };
  /// How its segments make a message.
  struct Arrangement {
    std::uint64_t connection = 0, message = 0;
    End requester = End::a;
    std::uint32_t newest = 0;          ///< the segment that came last when this was found
    std::vector<std::uint32_t> order;  ///< one frame for each PSN, in the message's order
    std::uint32_t whole_in = 0;        ///< the frame that made it whole; 0: it is not
  };
  /// The messages of one requester, by number - 1.
  struct Requests {
    std::vector<std::uint32_t> messages;  ///< index in messages_, once they are over
    std::vector<std::uint32_t> segments;  ///< frame of the newest segment
  };
  struct SavedStack;
  struct SavedPdu;
  struct Saved;
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
  void keep_segment(Row& row);
  void keep_stream_segments();
  [[nodiscard]] const Arrangement* arranged(std::uint64_t frame) const;
  Requests& requests_of(std::uint64_t connection, End requester);
  [[nodiscard]] const Requests* find_requests(std::uint64_t connection, End requester) const;
  void note_connection(const Connection& connection);
  void link_violations();
  void clear_packet(Packet& packet, const Frame& frame) const;

  SessionOptions options_;
  tracking::Dissector dissector_;
  std::unique_ptr<conformance::Monitors> monitors_;
  std::unique_ptr<tracking::Tracker> tracker_;
  Packet packet_;
  Packet shown_again_;
  std::deque<Row> rows_;  ///< by frame number
  std::deque<Link> links_;
  std::deque<Event> events_;
  std::deque<Message> messages_;
  std::deque<Saved> saved_;
  std::deque<Segment> segments_;
  std::deque<std::vector<std::uint8_t>> octets_;  ///< of segments, in large pieces
  mutable Arrangement arrangement_;               ///< the one that was asked for last
  std::size_t violations_seen_ = 0;
  std::vector<const conformance::Violation*> violations_;
  std::unordered_map<std::uint64_t, OpenMessage> open_messages_;  ///< by TCP connection, model and sender
  std::deque<StreamMessage> stream_messages_;
  std::unordered_map<std::uint64_t, Requests> requests_;  ///< by connection and requester
  std::uint64_t last_requests_key_ = 0;
  Requests* last_requests_ = nullptr;
  std::unordered_map<std::uint64_t, ConnectionFacts> connections_;
  ConnectionFacts* last_connection_ = nullptr;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> rounds_;  ///< of retransmission, by connection
  std::unordered_map<std::uint64_t, Renamed> renamed_;
  std::uint64_t last_frame_ = 0;
  std::size_t kept_ = 0;
  std::uint64_t dropped_ = 0;
  bool finished_ = false;
};

}  // namespace rdmawire::wireshark
