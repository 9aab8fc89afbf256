#pragma once
/// One direction of a TCP connection: reassembles segments into an ordered byte stream. RFC 9293, 3.10.7.4.

#include <cstdint>
#include <map>
#include <vector>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::tracking {

/// The bytes of the stream are numbered by *offsets*, which are TCP sequence numbers unwrapped to 64 bits.
class TcpStream {
 public:
  /// Maximum of buffered() in bytes. If it is exceeded, the gap counts as lost.
  static constexpr std::size_t max_buffered = 256 << 10;

  /// Classification of a segment.
  enum class Arrival : std::uint8_t {
    empty,           ///< no data
    in_order,        ///< starts with the next byte
    keep_alive,      ///< repeats the last byte, or contains no data, to probe the peer. RFC 9293, 3.8.4
    retransmission,  ///< contains only bytes that arrived before
    ahead,           ///< earlier bytes are missing
    fills_gap,       ///< contains missing bytes that precede bytes which arrived before
    beyond,          ///< too far from the stream, so it belongs to another connection
  };

  /// Receives each byte once and in order, except lost bytes, which gap() reports.
  class Sink {
   public:
    /// `in_packet`: the bytes are in the packet that is being dissected. If not, they are only valid during the call.
    virtual void bytes(std::uint64_t offset, Bytes bytes, bool in_packet) = 0;
    /// The bytes from `from` up to `to` are lost.
    virtual void gap(std::uint64_t from, std::uint64_t to) = 0;

   protected:
    ~Sink() = default;
  };

  /// Starts at sequence number `seq`. Discards the earlier state.
  void start(std::uint32_t seq);
  [[nodiscard]] bool started() const { return started_; }
  /// True if the stream started at this sequence number.
  [[nodiscard]] bool began_at(std::uint32_t seq) const { return started_ && offset_of(seq) == start_; }
  /// Offset of the next byte.
  [[nodiscard]] std::uint64_t next() const { return next_; }

  /// Processes a segment of `length` bytes. The capture has the first bytes of it, `captured`. Starts the stream if
  /// necessary. `plain`: SYN, FIN and RST are clear.
  Arrival accept(std::uint32_t seq, std::uint32_t length, Bytes captured, bool plain, Sink& sink);
  /// Reports that the receiver acknowledged everything before `ack`. Missing bytes before it are capture loss.
  void acknowledged(std::uint32_t ack);
  /// True if a receiver that last advertised `window` bytes accepts a reset with this sequence number. The number must
  /// be between its acknowledgement and the end of its window or of the bytes that were sent. RFC 9293, 3.10.7.4
  [[nodiscard]] bool in_window(std::uint32_t seq, std::uint32_t window) const;
  /// Discards all buffered bytes.
  void clear();

  /// Memory of the stream in bytes, including bookkeeping.
  [[nodiscard]] std::size_t buffered() const { return buffered_; }
  /// Returns the offset that sequence number `seq` currently has.
  [[nodiscard]] std::uint64_t offset_of(std::uint32_t seq) const;

 private:
  static constexpr std::size_t chunk_overhead = 96;  // bytes of a map's node and of a vector
  void keep(std::uint64_t from, Bytes bytes);
  void drain(Sink& sink);
  void skip_to(std::uint64_t offset, Sink& sink);

  bool started_ = false;
  std::uint64_t start_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::map<std::uint64_t, std::vector<std::uint8_t>> ahead_;  // segments after next_, which do not overlap
  std::size_t buffered_ = 0;
};

}  // namespace rdmawire::tracking
