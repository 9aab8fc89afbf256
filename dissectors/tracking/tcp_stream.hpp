#pragma once
/// One direction of a TCP connection: segments in any order in, bytes in the stream's order out. RFC 9293, 3.10.7.4.

#include <cstdint>
#include <map>
#include <vector>

#include "dissectors/protocol/bits.hpp"

namespace rdmawire::tracking {

/// Bytes of the stream are numbered by *offsets*: their TCP sequence numbers, unwrapped to 64 bits.
class TcpStream {
 public:
  /// Bytes of segments that came ahead of a gap are kept up to this; then the gap counts as lost.
  static constexpr std::size_t max_buffered = 256 << 10;

  /// What a segment was to the stream.
  enum class Arrival : std::uint8_t {
    empty,           ///< no bytes
    in_order,        ///< brought the next bytes
    keep_alive,      ///< the last byte again, or none, to see whether the peer answers. RFC 9293, 3.8.4
    retransmission,  ///< nothing but bytes that had been seen
    ahead,           ///< bytes before it are missing
    fills_gap,       ///< brought bytes that were missing before others
    beyond,          ///< so far from the stream that it must be another connection
  };

  /// Where the bytes go. Exactly once each, in order; what is lost is told by gap().
  class Sink {
   public:
    /// `in_packet`: the bytes lie in the packet that is being dissected, else they do not outlive the call.
    virtual void bytes(std::uint64_t offset, Bytes bytes, bool in_packet) = 0;
    /// Bytes from `from` up to `to` will not come.
    virtual void gap(std::uint64_t from, std::uint64_t to) = 0;

   protected:
    ~Sink() = default;
  };

  /// The next byte has sequence number `seq`; forgets everything before.
  void start(std::uint32_t seq);
  [[nodiscard]] bool started() const { return started_; }
  /// Whether the stream began at this sequence number.
  [[nodiscard]] bool began_at(std::uint32_t seq) const { return started_ && offset_of(seq) == start_; }
  /// Offset of the next byte.
  [[nodiscard]] std::uint64_t next() const { return next_; }

  /// A segment of `length` bytes, of which the capture has the first `captured`. Starts the stream when it was not.
  /// `plain`: neither SYN, FIN nor RST is set.
  Arrival accept(std::uint32_t seq, std::uint32_t length, Bytes captured, bool plain, Sink& sink);
  /// The receiver acknowledged everything before `ack`: what is still missing before it was lost by the capture only.
  void acknowledged(std::uint32_t ack);
  /// Whether a reset with this sequence number counts for a receiver that said last that it would take `window` bytes
  /// more: not before what it acknowledged, nor behind its window or what was sent. RFC 9293, 3.10.7.4
  [[nodiscard]] bool in_window(std::uint32_t seq, std::uint32_t window) const;
  /// Forgets all that is buffered.
  void clear();

  /// Bytes of memory that the stream holds, bookkeeping included.
  [[nodiscard]] std::size_t buffered() const { return buffered_; }
  /// The offset that sequence number `seq` means now.
  [[nodiscard]] std::uint64_t offset_of(std::uint32_t seq) const;

 private:
  static constexpr std::size_t chunk_overhead = 96;  // of a map's node and a vector
  void keep(std::uint64_t from, Bytes bytes);
  void drain(Sink& sink);
  void skip_to(std::uint64_t offset, Sink& sink);

  bool started_ = false;
  std::uint64_t start_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::map<std::uint64_t, std::vector<std::uint8_t>> ahead_;  // disjoint; each begins behind next_
  std::size_t buffered_ = 0;
};

}  // namespace rdmawire::tracking
