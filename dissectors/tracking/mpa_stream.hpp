#pragma once
/// One direction of a TCP connection that may be iWARP: the stream's bytes in, MPA frames and FPDUs out.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// Memory for the bytes of reassembled PDUs: lives until the next packet, is used again then.
class Scratch {
 public:
  void reset();
  /// `bytes` that stay where they are until reset().
  std::uint8_t* take(std::size_t byte_count);

 private:
  static constexpr std::size_t block_bytes = 128 << 10;  // an FPDU has less than 66,000
  static constexpr std::size_t kept_blocks = 8;
  struct Block {
    std::unique_ptr<std::uint8_t[]> bytes;
    std::size_t size;
  };
  std::vector<Block> blocks_;
  std::size_t used_block_ = 0, used_bytes_ = 0;
};

/// What was agreed for one direction, as far as it is known.
struct MpaModes {
  enum class Use : std::uint8_t { unknown, off, on };
  Use crc = Use::unknown;
  Use markers = Use::unknown;
  /// Markers on: an offset at which a marker begins.
  std::uint64_t marker_origin = 0;
};

class MpaStream {
 public:
  /// Longest FPDU with its markers, and room to see what follows it.
  static constexpr std::size_t max_pending = 136 << 10;
  /// So much of a stream whose beginning was not captured is searched for FPDUs.
  static constexpr std::uint64_t searched_bytes = 512 << 10;

  enum class State : std::uint8_t {
    beginning,  ///< nothing was seen; an MPA frame, or not
    search,     ///< FPDUs may begin anywhere
    fpdus,      ///< Full Operation Phase: an FPDU begins at the next byte
    other,      ///< not iWARP, or not yet
  };

  /// What happened, for the connection to act on.
  class Events {
   public:
    /// An MPA Request or Reply Frame that is whole, or as whole as it will get; it ends before offset `end`. The
    /// stream's modes can be set now.
    virtual void mpa_frame(const HeaderStack& frame, std::uint64_t end) = 0;
    /// A PDU for the packet. Gives where to put it.
    virtual Pdu& pdu(std::uint64_t from, std::uint64_t to) = 0;
    /// FPDUs were found in a stream of which nothing was known.
    virtual void found() = 0;
    virtual void note(std::string_view note) = 0;

   protected:
    ~Events() = default;
  };

  /// The bytes begin at a connection's first byte (`known_start`), or somewhere in it.
  void start(bool known_start);
  /// Bytes of the stream in order; `in_packet` when they outlive this packet's dissection.
  void bytes(std::uint64_t offset, Bytes bytes, bool in_packet, bool verify, Scratch& scratch, Events& events);
  /// Bytes up to `to` are lost.
  void gap(std::uint64_t to, bool verify, Scratch& scratch, Events& events);
  /// The connection is iWARP as its other direction shows: worth searching.
  void expect();
  void end();

  [[nodiscard]] State state() const { return state_; }
  MpaModes modes;
  [[nodiscard]] std::size_t buffered() const { return pending_.capacity(); }

 private:
  struct Context;
  /// How the bytes of an FPDU lie in the stream.
  struct Layout {
    bool markers = false;
    std::uint64_t origin = 0;  // an offset at which a marker begins
    /// Bytes of the stream that the first `bytes` of an FPDU at `at` take.
    [[nodiscard]] std::uint64_t span(std::uint64_t at, std::uint32_t byte_count) const;
    bool head(std::uint64_t at, Bytes bytes, std::uint32_t byte_count, std::uint8_t* out) const;
  };
  struct FramingResult {
    enum class Kind : std::uint8_t { no, yes, more } kind = Kind::no;
    std::uint64_t end = 0;   // yes: of the FPDU; more: the offset up to which bytes are needed
    bool proven = false;     // yes: by its CRC
    bool ambiguous = false;  // yes: by its CRC, with markers in more than one place
    Layout layout;
  };
  struct BufferedSegment {
    std::uint64_t offset = 0, ready_at = 0;
  };

  std::size_t consume(Context& c, std::uint64_t at, Bytes bytes, bool stable);
  std::size_t begin(Context& c, std::uint64_t at, Bytes bytes, bool stable);
  void begin_fpdus(Context& c, std::uint64_t at, Bytes frame, std::uint64_t end_at, bool stable);
  std::size_t fpdu(Context& c, std::uint64_t at, Bytes bytes, bool stable);
  bool look_at_first(Context& c, std::uint64_t at, Bytes bytes);
  std::size_t search(Context& c, std::uint64_t at, Bytes bytes);
  void adopt(Context& c, std::uint64_t at, const FramingResult& verdict);
  FramingResult acceptable(std::uint64_t at, Bytes bytes);
  FramingResult one(std::uint64_t at, Bytes bytes, bool marker_use_known, const Layout& known_layout);
  FramingResult one(std::uint64_t at, Bytes bytes, const Layout& layout);
  void emit(Context& c, std::uint64_t at, Bytes raw, std::uint32_t whole, const Layout& layout, bool stable,
            std::uint32_t computed_crc);
  void lose_framing();
  void drop_pending();

  State state_ = State::other;
  bool known_start_ = false;
  bool known_ = false;                  // the connection is iWARP
  bool doubt_ = false;                  // the last FPDU was not right
  std::uint8_t alignment_ = unaligned;  // FPDUs begin at offsets that have these low two bits
  static constexpr std::uint8_t unaligned = 4;
  std::vector<std::uint8_t> pending_;
  std::uint64_t pending_at_ = 0;
  std::uint64_t want_ = 0;                           // the offset up to which bytes are needed to go on; 0: none are
  std::uint64_t skip_until_ = 0;                     // bytes before it belong to an FPDU of which some are lost
  std::uint64_t unmarked_ = 0;                       // bytes of good FPDUs in a row, without a marker
  std::uint64_t first_at_ = 0;                       // where the Full Operation Phase begins, until that was looked at
  MarkerFaults first_faults_;                        // found there, to be told with the first FPDU
  std::uint64_t segment_from_ = 0, segment_to_ = 0;  // the piece that came last
  // Search
  std::uint64_t searched_to_ = 0;  // places before it were judged or are held
  std::uint64_t searched_end_ = 0;
  std::uint64_t searched_ = 0, crc_bytes_ = 0;  // since framing was found last
  std::array<BufferedSegment, 8> held_;
  std::size_t held_count_ = 0;
};

}  // namespace rdmawire::tracking
