#pragma once
/// Encodes values to bytes. Unset fields are computed: lengths, next-header numbers, checksums, padding, ICRC,
/// VCRC, MPA CRC. Explicitly set values are encoded as is, even if invalid. A length that exceeds its field is
/// reduced to its low bits (field_overflow.hpp).

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/protocol/header.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// A packet to encode: headers from outermost to innermost, then payload.
///
///     Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"dst">(0x0a000002) / Value<Udp>() /
///                   Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(17);
///     frame.payload = {'h', 'i'};
///     std::vector<std::uint8_t> bytes = frame.encode();
struct Frame {
  std::vector<HeaderValue> layers;
  std::vector<std::uint8_t> payload;
  /// If unset: zeros up to a multiple of four bytes, and to the size that a header requires (a management
  /// datagram).
  std::optional<std::vector<std::uint8_t>> pad;
  std::optional<std::uint32_t> icrc;  ///< as read by load_icrc()
  std::optional<std::uint16_t> vcrc;
  std::optional<std::uint32_t> mpa_crc;  ///< the CRC of an FPDU
  bool with_icrc = true;                 ///< false: omit the ICRC
  bool with_vcrc = true;                 ///< false: omit the VCRC (native InfiniBand)
  /// false: omit the CRC field of FPDUs. A connection without CRCs has the field, with the value 0: set mpa_crc to 0.
  bool with_mpa_crc = true;
  std::vector<std::uint8_t> trailer;  ///< after everything: Ethernet padding, a frame check sequence

  /// A captured packet with all values set. encode() returns its bytes.
  static Frame of(const HeaderStack& stack);

  Frame& operator/=(HeaderValue next) {
    layers.push_back(std::move(next));
    return *this;
  }
  /// Returns the innermost layer with that header, or nullptr.
  [[nodiscard]] HeaderValue* find(const HeaderInfo& header);
  /// Unsets all values that encode() can compute: lengths, next-header numbers, checksums, pad count and CRCs.
  void forget_computed();

  [[nodiscard]] std::vector<std::uint8_t> encode() const;
};

inline Frame operator/(HeaderValue outer, HeaderValue inner) {
  Frame frame;
  frame /= std::move(outer);
  frame /= std::move(inner);
  return frame;
}
inline Frame operator/(Frame frame, HeaderValue inner) {
  frame /= std::move(inner);
  return frame;
}

/// Argument of HeaderInfo::fill: all layers with their offsets. The layers inside the header are already filled.
struct FrameLayout {
  std::vector<HeaderValue> layers;
  std::vector<std::uint32_t> offsets;  ///< of each layer in the packet
  std::uint32_t payload_bytes = 0;
  std::uint32_t pad_bytes = 0;
  std::uint32_t end = 0;  ///< after payload, padding and ICRC or MPA CRC (VCRC and trailer follow)
  std::uint32_t payload_end = 0;
  std::size_t transport = SIZE_MAX;  ///< index of the BTH, if there is one

  [[nodiscard]] HeaderValue& at(std::size_t index) { return layers[index]; }
  /// Number of bytes from layer `index`, inclusive, to the end. For an upper layer after the BTH, to the end of the
  /// payload.
  [[nodiscard]] std::uint32_t bytes_from(std::size_t index) const {
    return (index > transport ? payload_end : end) - offsets[index];
  }
  /// Number of bytes after layer `index`.
  [[nodiscard]] std::uint32_t bytes_after(std::size_t index) const {
    return bytes_from(index) - static_cast<std::uint32_t>(layers[index].bytes().size());
  }
  /// The header after layer `index`, or nullptr.
  [[nodiscard]] const HeaderInfo* next(std::size_t index) const {
    return index + 1 < layers.size() ? &layers[index + 1].header() : nullptr;
  }
};

/// The Internet checksum: one's complement of the one's complement sum. RFC 1071.
std::uint16_t internet_checksum(Bytes bytes, std::uint32_t sum = 0);

/// Splits one message into packets for a path MTU: first, middle and last packets, or only one. `frame` is an RC,
/// UC or XRC request or a READ response with position only or first. Its opcode selects the operation. The layers
/// after the extension headers and the payload are the whole message. PSNs count up from the frame's. Immediate
/// data, R_Key to invalidate, SE and AckReq are only in the last packet. Other set values are in each packet. `mtu`
/// is the maximum payload, a power of two from 256 to 4096. Returns an empty vector if the opcode has no such
/// packets, or the MTU is invalid.
std::vector<Frame> segment(const Frame& frame, std::uint32_t mtu);

}  // namespace rdmawire
