#pragma once
/// Extracts MPA frames and FPDUs from one direction of a TCP connection that may be iWARP.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

/// Memory for the bytes of reassembled PDUs. The bytes are valid until the next packet, and then their memory is
/// reused.
class Scratch {
 public:
  void reset();
  /// Returns memory for `byte_count` bytes, which is valid until reset().
  std::uint8_t* take(std::size_t byte_count);

 private:
  static constexpr std::size_t block_bytes = 128 << 10;  // more than the longest FPDU (less than 66,000 bytes)
  static constexpr std::size_t kept_blocks = 8;
  struct Block {
    std::unique_ptr<std::uint8_t[]> bytes;
    std::size_t size;
  };
  std::vector<Block> blocks_;
  std::size_t used_block_ = 0, used_bytes_ = 0;
};

/// Negotiated modes of one direction, as far as they are known.
struct MpaModes {
  enum class Use : std::uint8_t { unknown, off, on };
  Use crc = Use::unknown;
  Use markers = Use::unknown;
  /// An offset at which a marker starts, if the stream has markers.
  std::uint64_t marker_origin = 0;
};

class MpaStream {
 public:
  /// Space for two FPDUs of maximum length with their markers, and for the next header.
  static constexpr std::size_t max_pending = 136 << 10;
  /// Number of bytes in which FPDUs are searched, if the start of the stream was not captured.
  static constexpr std::uint64_t searched_bytes = 512 << 10;

  enum class State : std::uint8_t {
    beginning,  ///< no data was captured yet, so an MPA frame can follow
    search,     ///< FPDUs are searched at any offset
    fpdus,      ///< Full Operation Phase: an FPDU starts at the next byte
    other,      ///< not iWARP, or not yet
  };

  /// Receives what the stream finds. Implemented by the connection.
  class Events {
   public:
    /// Receives a complete MPA Request or Reply Frame, or the available part of one. It ends before offset `end`. The
    /// connection can set the stream's modes in this call.
    virtual void mpa_frame(const HeaderStack& frame, std::uint64_t end) = 0;
    /// Adds a PDU to the packet and returns it.
    virtual Pdu& pdu(std::uint64_t from, std::uint64_t to) = 0;
    /// FPDUs were found in a stream whose protocol was unknown.
    virtual void found() = 0;
    virtual void note(std::string_view note) = 0;

   protected:
    ~Events() = default;
  };

  /// Starts at the first byte of the connection (`known_start`), or anywhere in the stream.
  void start(bool known_start);
  /// Processes the next bytes of the stream. `in_packet`: the bytes exist until the packet is dissected completely.
  void bytes(std::uint64_t offset, Bytes bytes, bool in_packet, bool verify, Scratch& scratch, Events& events);
  /// Reports that the bytes up to offset `to` are lost.
  void gap(std::uint64_t to, bool verify, Scratch& scratch, Events& events);
  /// Searches for FPDUs, because the other direction is iWARP.
  void expect();
  void end();

  [[nodiscard]] State state() const { return state_; }
  MpaModes modes;
  [[nodiscard]] std::size_t buffered() const { return pending_.capacity(); }

 private:
  struct Context;
  /// Positions of the bytes of FPDUs in the stream.
  struct Layout {
    bool markers = false;
    std::uint64_t origin = 0;  // an offset at which a marker starts
    /// Returns the number of stream bytes that the first `byte_count` bytes of an FPDU at `at` occupy.
    [[nodiscard]] std::uint64_t span(std::uint64_t at, std::uint32_t byte_count) const;
    bool head(std::uint64_t at, Bytes bytes, std::uint32_t byte_count, std::uint8_t* out) const;
  };
  struct FramingResult {
    enum class Kind : std::uint8_t { no, yes, more } kind = Kind::no;
    std::uint64_t end = 0;   // kind yes: end of the FPDU. Kind more: offset up to which bytes are needed
    bool proven = false;     // kind yes: the CRC is valid
    bool ambiguous = false;  // kind yes: the CRC is valid for several positions of markers
    bool plausible = false;  // an FPDU, apart from its CRC
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
  FramingResult without_crcs(std::uint64_t at, Bytes bytes, const FramingResult& first);
  FramingResult one(std::uint64_t at, Bytes bytes, bool marker_use_known, const Layout& known_layout);
  FramingResult one(std::uint64_t at, Bytes bytes, const Layout& layout);
  void emit(Context& c, std::uint64_t at, Bytes raw, std::uint32_t whole, const Layout& layout, bool stable,
            std::uint32_t computed_crc);
  void lose_framing();
  void drop_pending();

  State state_ = State::other;
  bool known_start_ = false;
  bool known_ = false;                  // the connection is iWARP
  bool doubt_ = false;                  // the last FPDU was invalid
  std::uint8_t alignment_ = unaligned;  // the two low bits of the offsets of FPDUs
  static constexpr std::uint8_t unaligned = 4;
  std::vector<std::uint8_t> pending_;
  std::uint64_t pending_at_ = 0;
  std::uint64_t want_ = 0;        // offset up to which bytes are needed to continue (0: none)
  std::uint64_t skip_until_ = 0;  // bytes before it belong to an incomplete PDU
  std::uint64_t unmarked_ = 0;    // number of bytes in consecutive valid FPDUs without a marker
  std::uint64_t first_at_ = 0;    // start of the Full Operation Phase, as long as it was not checked
  MarkerFaults first_faults_;     // errors of the markers there, which are reported with the first FPDU
  std::uint64_t segment_from_ = 0, segment_to_ = 0;  // offsets of the last segment
  // Search
  std::uint64_t searched_to_ = 0;  // offsets before this one were checked, or are queued
  std::uint64_t searched_end_ = 0;
  std::uint64_t searched_ = 0,
                crc_bytes_ =
                    0;  // number of bytes that were searched, and that CRCs covered, since framing was last found
  std::array<BufferedSegment, 8> held_;
  std::size_t held_count_ = 0;
};

}  // namespace rdmawire::tracking
