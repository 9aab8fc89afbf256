#pragma once
/// Detects problems of one direction of a TCP connection: retransmissions and their causes, loss, reordering, and
/// bytes missing in the capture. Evaluated at the capture point, from segment offsets only.

#include <cstdint>
#include <vector>

#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

class TcpLossTracker {
 public:
  /// Number of acknowledged and unacknowledged segments whose first transmission is remembered. The former
  /// suffice for the longest FPDU.
  static constexpr std::size_t remembered_acknowledged = 48, remembered_segments = 128;
  static constexpr std::size_t max_holes = 64;
  /// An acknowledgement can be captured before its bytes. After this time (nanoseconds) the capture is missing
  /// them.
  static constexpr std::int64_t late_capture = 10'000'000;
  /// A sender that was silent for this time (nanoseconds) had a timeout, regardless of duplicate ACKs: the
  /// shortest usual timeout is 200 ms.
  static constexpr std::int64_t sure_timeout = 150'000'000;

  /// A segment with data in this direction.
  struct Segment {
    std::uint64_t from = 0, to = 0;  ///< offsets
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::uint32_t timestamp = 0;       ///< TCP timestamp. Valid if has_timestamp. RFC 7323, 3.2
    std::uint16_t identification = 0;  ///< of IPv4 (0: none)
    std::uint16_t checksum = 0;        ///< of TCP
    bool has_timestamp = false;
  };
  /// Acknowledgement by the receiver of this direction.
  struct Acknowledgement {
    std::uint64_t offset = 0;
    std::uint64_t frame = 0;
    std::int64_t time = 0;
    std::uint32_t window = 0;
    bool data = false;       ///< has data, so that a repeated number is no duplicate ACK
    bool selective = false;  ///< it has SACK blocks. RFC 2018
  };
  enum class Kind : std::uint8_t {
    fresh,      ///< brought bytes that were not sent before
    again,      ///< retransmitted: seen before, or lost before the capture point
    late,       ///< bytes that others overtook
    duplicate,  ///< the same packet once more
  };
  struct Judgment {
    Kind kind = Kind::fresh;
    std::uint64_t bytes = 0;         ///< again: of these (else of all)
    std::uint64_t origin_frame = 0;  ///< of the first sending, where that is known
    std::int64_t origin_time = 0;
  };

  /// Requires rising frames. Events contain no connection or end, and psn is the sequence number.
  Judgment segment(const Segment& segment, std::vector<Event>& events);
  void acknowledge(const Acknowledgement& acknowledgement, std::vector<Event>& events);
  /// The direction is over.
  void finish(std::vector<Event>& events);
  /// PDUs between these offsets belong to that message: of a round that began there and waits for its name.
  void name(std::uint64_t from, std::uint64_t to, std::uint64_t message, Side whose);

  /// Bytes that were sent and are not acknowledged.
  [[nodiscard]] std::uint64_t outstanding() const {
    return started_ && acknowledged_known_ && acknowledged_ < highest_ ? highest_ - acknowledged_ : 0;
  }
  /// Whether all bytes before `offset` are.
  [[nodiscard]] bool acknowledged(std::uint64_t offset) const { return acknowledged_known_ && offset <= acknowledged_; }
  [[nodiscard]] std::uint64_t acknowledging_frame() const { return acknowledged_frame_; }
  [[nodiscard]] std::int64_t acknowledging_time() const { return acknowledged_time_; }
  /// The segment that brought the byte at `offset` last. nullptr: not remembered.
  [[nodiscard]] const Segment* carrier(std::uint64_t offset) const;
  /// Relative to the stream's first byte that was seen.
  [[nodiscard]] std::uint64_t relative(std::uint64_t offset) const { return started_ ? offset - first_ : 0; }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  [[nodiscard]] std::size_t memory() const {
    return segments_.capacity() * sizeof(Segment) + holes_.capacity() * sizeof(Hole);
  }

 private:
  // Bytes that were not seen, though later ones were.
  struct Hole {
    std::uint64_t from, to;
    std::uint64_t before_frame;  // the last frame before it
    Segment next;                // the segment after it
    std::uint64_t acknowledged_frame = 0;
    std::int64_t acknowledged_time = 0;
  };
  struct Round {
    bool open = false;
    Event event;
    std::uint64_t from = 0;              // the first byte
    std::uint64_t retransmitted_to = 0;  // bytes before it were retransmitted in this recovery
    std::uint64_t recover = 0;           // end of all bytes sent when it started. RFC 6582, 3.2
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
  std::int64_t last_time_ = 0;  // of the last segment
  std::uint64_t acknowledged_ = 0, acknowledged_frame_ = 0;
  std::int64_t acknowledged_time_ = 0;
  std::uint32_t acknowledged_window_ = 0;
  // Since the acknowledgement last advanced.
  std::uint32_t duplicate_acknowledgements_ = 0;
  std::uint64_t duplicate_ack_frame_ = 0;
  std::uint32_t longest_ = 1;  // segment
  std::uint64_t rounds_ = 0;
  std::vector<Segment> segments_;
  std::size_t oldest_ = 0;
  std::vector<Hole> holes_;  // ascending
  Round round_;
};

}  // namespace rdmawire::tracking
