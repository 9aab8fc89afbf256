#pragma once
/// Detects problems in one direction of a TCP connection: retransmissions and their causes, loss, reordering, and bytes
/// that are missing in the capture. Evaluates segments and acknowledgements in capture order.

#include <cstdint>
#include <vector>

#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

class TcpLossTracker {
 public:
  /// Maximum number of segments that are remembered: if the oldest one is acknowledged, and if it is not. The
  /// acknowledged segments suffice for the longest FPDU.
  static constexpr std::size_t remembered_acknowledged = 48, remembered_segments = 128;
  static constexpr std::size_t max_holes = 64;
  /// An acknowledgement can be captured before its bytes. If the bytes are not captured within this time (nanoseconds),
  /// they are missing in the capture.
  static constexpr std::int64_t late_capture = 10'000'000;
  /// A retransmission after this silence (nanoseconds) counts as a timeout, even if there were duplicate ACKs. The
  /// usual minimum of timeouts is 200 ms.
  static constexpr std::int64_t sure_timeout = 150'000'000;

  /// A segment with data in this direction.
  struct Segment {
    std::uint64_t from = 0, to = 0;  ///< offsets
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::uint32_t timestamp = 0;       ///< TCP timestamp, valid if has_timestamp. RFC 7323, 3.2
    std::uint16_t identification = 0;  ///< IPv4 identification (0: none)
    std::uint16_t checksum = 0;        ///< TCP checksum
    bool has_timestamp = false;
  };
  /// An acknowledgement that the receiver of this direction sent.
  struct Acknowledgement {
    std::uint64_t offset = 0;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::uint32_t window = 0;
    bool data = false;  ///< the packet contains data, so it is not a duplicate ACK even if the acknowledgement number
                        ///< is repeated
    bool selective = false;  ///< the packet has SACK blocks. RFC 2018
  };
  enum class Kind : std::uint8_t {
    fresh,      ///< the segment contains bytes that were not sent before
    again,      ///< the segment retransmits bytes that were captured before, or lost before the capture point
    late,       ///< the segment was overtaken by later bytes
    duplicate,  ///< the packet is a duplicate
  };
  struct Judgment {
    Kind kind = Kind::fresh;
    std::uint64_t bytes = 0;  ///< kind again: number of retransmitted bytes. Other kinds: number of all bytes
    std::uint64_t origin_frame =
        0;  ///< frame of the previous transmission, or the last frame before the missing bytes (0: unknown)
    std::int64_t origin_time = 0;  ///< time of the previous transmission, or of the segment after the missing bytes
  };

  /// Classifies a segment, and appends events. Frame numbers must increase. The events have no connection and endpoint
  /// yet. Their psn is the sequence number.
  Judgment segment(const Segment& segment, std::vector<Event>& events);
  void acknowledge(const Acknowledgement& acknowledgement, std::vector<Event>& events);
  /// Appends the remaining events at the end of the direction.
  void finish(std::vector<Event>& events);
  /// Assigns bytes to a message. If a recovery started with these bytes, its event refers to the message.
  void name(std::uint64_t from, std::uint64_t to, std::uint64_t message, Side whose);

  /// Number of bytes that were sent, but are not acknowledged yet.
  [[nodiscard]] std::uint64_t outstanding() const {
    return started_ && acknowledged_known_ && acknowledged_ < highest_ ? highest_ - acknowledged_ : 0;
  }
  /// Returns whether all bytes before `offset` are acknowledged.
  [[nodiscard]] bool acknowledged(std::uint64_t offset) const { return acknowledged_known_ && offset <= acknowledged_; }
  [[nodiscard]] std::uint64_t acknowledging_frame() const { return acknowledged_frame_; }
  [[nodiscard]] std::int64_t acknowledging_time() const { return acknowledged_time_; }
  /// Returns the last segment that contained the byte at `offset`, or nullptr if it is no longer remembered.
  [[nodiscard]] const Segment* carrier(std::uint64_t offset) const;
  /// Returns the offset relative to the first byte that was captured.
  [[nodiscard]] std::uint64_t relative(std::uint64_t offset) const { return started_ ? offset - first_ : 0; }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  [[nodiscard]] std::size_t memory() const {
    return segments_.capacity() * sizeof(Segment) + holes_.capacity() * sizeof(Hole);
  }

 private:
  // Bytes that were not captured, although later bytes were.
  struct Hole {
    std::uint64_t from, to;
    std::uint64_t before_frame;  // last frame before the hole
    Segment next;                // the segment after the hole
    std::uint64_t acknowledged_frame = 0;
    std::int64_t acknowledged_time = 0;
  };
  struct Round {
    bool open = false;
    Event event;
    std::uint64_t from = 0;              // offset of the first retransmitted byte
    std::uint64_t retransmitted_to = 0;  // all bytes before this offset were retransmitted in this recovery
    std::uint64_t recover = 0;           // end of all bytes that had been sent when the recovery started. RFC 6582, 3.2
    std::uint64_t lost_before_packets = 0, lost_before_bytes = 0;
    std::uint64_t lost_after_packets = 0, lost_after_bytes = 0;
  };
  void remember(const Segment& segment);
  [[nodiscard]] bool overtaken(const Segment& segment, const Hole& hole) const;
  void repeat(const Segment& segment, Judgment& judgment, bool seen, std::vector<Event>& events);
  void close_round(std::vector<Event>& events);
  [[nodiscard]] Event missing_bytes(const Hole& hole) const;
  void expire_holes(std::int64_t now, std::vector<Event>& events);

  bool started_ = false, acknowledged_known_ = false;
  std::uint64_t first_ = 0, highest_ = 0, highest_frame_ = 0;
  std::int64_t last_time_ = 0;  // time of the last segment
  std::uint64_t acknowledged_ = 0, acknowledged_frame_ = 0;
  std::int64_t acknowledged_time_ = 0;
  std::uint32_t acknowledged_window_ = 0;
  // Number of duplicate ACKs since the acknowledgement number last increased.
  std::uint32_t duplicate_acknowledgements_ = 0;
  std::uint64_t duplicate_ack_frame_ = 0;
  std::uint32_t longest_ = 1;  // bytes of the longest segment
  std::uint64_t rounds_ = 0;
  std::vector<Segment> segments_;
  std::size_t oldest_ = 0;
  std::vector<Hole> holes_;  // ascending
  Round round_;
};

}  // namespace rdmawire::tracking
