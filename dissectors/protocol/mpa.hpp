#pragma once
/// MPA frames DDP segments on TCP. RFC 5044, and RFC 6581 for enhanced connection establishment.

#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

namespace mpa {
inline constexpr std::string_view request_key = "MPA ID Req Frame", reply_key = "MPA ID Rep Frame";
inline constexpr std::uint32_t max_private_data = 512;  ///< RFC 5044, 7.1.1
/// Distance between the starts of consecutive markers, in bytes of the stream. RFC 5044, 4.3.
inline constexpr std::uint32_t marker_interval = 512;
inline constexpr std::uint32_t marker_bytes = 4;
inline constexpr std::uint32_t crc_bytes = 4;
inline constexpr std::uint16_t no_negotiation = 0x3fff;  ///< value of IRD or ORD: the ULP negotiates it. RFC 6581, 9.1

/// Number of padding bytes of an FPDU: up to a multiple of four. RFC 5044, 4.1.
constexpr std::uint32_t pad_bytes(std::uint32_t ulpdu_length) { return -(ulpdu_length + 2U) & 3U; }
/// Number of bytes of a whole FPDU without markers.
constexpr std::uint32_t fpdu_bytes(std::uint32_t ulpdu_length) {
  return 2 + ulpdu_length + pad_bytes(ulpdu_length) + crc_bytes;
}
/// Returns the maximum length of a ULPDU whose FPDU fits into one TCP segment of `emss` bytes, but at least 128. RFC
/// 5044, 4.5.
std::uint32_t mulpdu(std::uint32_t emss, bool markers);
}  // namespace mpa

/// MPA Request or Reply Frame: starts iWARP on a TCP connection.
struct MpaFrame {
  static constexpr std::string_view name = "mpa", title = "MPA Request or Reply Frame", section = "RFC 5044, 7.1.1";
  static constexpr std::size_t size = 20;
  static constexpr std::string_view tail = "private_data";
  static constexpr std::array fields{
      field("key", 0, 128, "\"MPA ID Req Frame\" from the initiator, \"MPA ID Rep Frame\" of the responder")
          .as(Display::text)
          .constant(),
      field("markers", 128, 1, "the sender of this frame requires markers in the stream that it receives")
          .alias("iwarp_mpa.marker_flag"),
      field("crc", 129, 1, "the sender of this frame prefers CRCs (one side is sufficient to enable them)")
          .alias("iwarp_mpa.crc_flag"),
      field("reject", 130, 1, "in a reply: the connection is rejected").alias("iwarp_mpa.rej_flag"),
      field("enhanced", 131, 1, "the private data starts with the enhanced connection establishment data")
          .in("RFC 6581, 6"),
      reserved("reserved", 132, 4),
      field("revision", 136, 8, "1, or 2 for enhanced connection establishment").alias("iwarp_mpa.rev"),
      field("private_data_length", 144, 16, "bytes of private data (at most 512)")
          .alias("iwarp_mpa.pdlength")
          .computed(),
  };
  static Parts parts(Bytes header);
  static void fill(FrameLayout& frame, std::size_t index);
  static bool is_request(const std::uint8_t* key) { return std::memcmp(key, mpa::request_key.data(), 16) == 0; }
  static bool is_reply(const std::uint8_t* key) { return std::memcmp(key, mpa::reply_key.data(), 16) == 0; }
};

/// Enhanced RDMA Connection Establishment Data: the start of the private data if the S bit of the frame is set.
struct MpaEnhanced {
  static constexpr std::string_view name = "mpa_enhanced", title = "MPA enhanced connection establishment data",
                                    section = "RFC 6581, 9";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("peer_to_peer", 0, 1, "A: peer-to-peer connection model").in("RFC 6581, 9.2"),
      field("rtr_send", 1, 1, "B: a Send without payload can be the ready-to-receive indication").in("RFC 6581, 9.2"),
      field("ird", 2, 14, "inbound RDMA Read queue depth (16383: the ULP negotiates it)").in("RFC 6581, 9.1"),
      field("rtr_write", 16, 1, "C: an RDMA Write without payload can be the ready-to-receive indication")
          .in("RFC 6581, 9.2"),
      field("rtr_read", 17, 1, "D: an RDMA Read without payload can be the ready-to-receive indication")
          .in("RFC 6581, 9.2"),
      field("ord", 18, 14, "outbound RDMA Read queue depth (16383: the ULP negotiates it)").in("RFC 6581, 9.1"),
  };
};

/// Header of an FPDU, before the ULPDU.
struct Fpdu {
  static constexpr std::string_view name = "fpdu", title = "MPA FPDU", section = "RFC 5044, 4.1";
  static constexpr std::size_t size = 2;
  static constexpr std::array fields{
      field("ulpdu_length", 0, 16, "length of the DDP segment in bytes, without header, padding, CRC and markers")
          .alias("iwarp_mpa.ulpdulength")
          .computed(),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// A marker. If the receiver requires markers, one starts at every 512th byte of the stream.
struct Marker {
  static constexpr std::string_view name = "mpa_marker", title = "MPA marker", section = "RFC 5044, 4.2";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      field("reserved", 0, 16, "sent as zero").as(Display::reserved).alias("iwarp_mpa.marker_res"),
      field("fpduptr", 16, 16,
            "distance in bytes from the start of the FPDU to the marker (0: the FPDU starts after the marker)")
          .alias("iwarp_mpa.marker_fpduptr"),
  };
};

/// Decodes an MPA Request or Reply Frame that starts at bytes[0]. Accepts any key. Sets the wire to iwarp. The layer's
/// tail contains the private data. As in decode(), `wire_length` exceeds bytes.size() if the capture truncated the
/// frame.
void decode_mpa_frame(HeaderStack& stack, Bytes bytes, std::uint32_t wire_length);
inline void decode_mpa_frame(HeaderStack& stack, Bytes bytes) {
  decode_mpa_frame(stack, bytes, static_cast<std::uint32_t>(bytes.size()));
}

/// Decodes one FPDU without its markers: length, DDP segment with the RDMAP message, padding, CRC (stack.pad and
/// stack.mpa_crc). Ignores bytes after the FPDU.
void decode_fpdu(HeaderStack& stack, Bytes bytes, std::uint32_t wire_length);
inline void decode_fpdu(HeaderStack& stack, Bytes bytes) {
  decode_fpdu(stack, bytes, static_cast<std::uint32_t>(bytes.size()));
}

/// Verifies the CRC of an FPDU without markers. RFC 5044, 4.4. The values are in wire order: the first byte is the
/// highest, as in the figures of the RFC.
CrcCheck check_mpa_crc(const HeaderStack& stack);

/// Computes the CRC of an FPDU, in wire order. `covered` starts with the FPDU, or with a marker before it, and ends
/// with the padding. It includes the markers. RFC 5044, 4.4.
inline std::uint32_t compute_mpa_crc(Bytes covered) { return __builtin_bswap32(crc32c(covered)); }

/// Finds markers in a stream. `position` is the offset from the first byte of the Full Operation Phase, which starts
/// with a marker.
class MarkerGrid {
 public:
  /// Returns the number of bytes from `position` to the start of the next marker, or 0 if one starts there. Requires
  /// that `position` is not inside a marker, except at its start.
  static constexpr std::uint32_t to_next(std::uint64_t position) {
    return static_cast<std::uint32_t>(-position & (mpa::marker_interval - 1));
  }
  /// True if the byte at `position` belongs to a marker.
  static constexpr bool inside(std::uint64_t position) {
    return (position & (mpa::marker_interval - 1)) < mpa::marker_bytes;
  }
  /// Returns the number of bytes of the stream, including markers, that `bytes` of an FPDU occupy from `position` on.
  /// The result includes a marker before the first byte, but not one after the last byte.
  static std::uint64_t span(std::uint64_t position, std::uint64_t bytes);
};

/// Removes the markers from a part of a stream that starts at `position`. `out` must have space for bytes.size() bytes,
/// and may be the address of `bytes`. Returns the number of remaining bytes.
std::size_t remove_markers(Bytes bytes, std::uint64_t position, std::uint8_t* out);

struct Frame;

/// Builds the stream of one direction in Full Operation Phase: consecutive FPDUs, markers at their positions, CRCs. RFC
/// 5044, 4.
class MpaSender {
 public:
  struct Modes {
    bool markers = false;  ///< the receiver requires markers
    bool crc = true;       ///< false: the CRC field is present, but zero. RFC 5044, 4.1
  };
  explicit MpaSender(Modes modes, std::uint64_t position = 0) : modes_(modes), position_(position) {}

  /// Appends one FPDU that contains `ulpdu`. If `ulpdu` exceeds 65535 bytes, appends nothing and returns false.
  bool send(std::vector<std::uint8_t>& stream, Bytes ulpdu);
  /// Appends `fpdu`, a frame that starts with an Fpdu layer. Set values (length, padding, CRC) are written unchanged.
  void send(std::vector<std::uint8_t>& stream, const Frame& fpdu);

  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  enum class Check : std::uint8_t { none, given, computed };
  void append(std::vector<std::uint8_t>& stream, Bytes covered, Check check, std::uint32_t value);
  Modes modes_;
  std::uint64_t position_;
};

}  // namespace rdmawire
