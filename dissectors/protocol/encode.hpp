#pragma once
/// Encodes values to bytes. Computes fields that are not set: lengths, next-header numbers, checksums, padding, ICRC,
/// VCRC, MPA CRC. Writes fields that are set unchanged, even if they are invalid. If a computed length exceeds its
/// field, only its low bits are written (field_overflow.hpp).

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
  /// Padding bytes. If unset: zeros up to a multiple of four bytes and to the size that a header requires (a management
  /// datagram).
  std::optional<std::vector<std::uint8_t>> pad;
  std::optional<std::uint32_t> icrc;  ///< as read by load_icrc()
  std::optional<std::uint16_t> vcrc;
  std::optional<std::uint32_t> mpa_crc;  ///< the CRC of an FPDU
  bool with_icrc = true;                 ///< false: omit the ICRC
  bool with_vcrc = true;                 ///< false: omit the VCRC (native InfiniBand)
  /// False: omits the CRC field of FPDUs. If a connection does not use CRCs, the field is present and 0: set mpa_crc to
  /// 0.
  bool with_mpa_crc = true;
  std::vector<std::uint8_t> trailer;  ///< bytes after the packet: Ethernet padding, a frame check sequence

  /// Returns a frame with all values of a captured packet set, so that encode() returns the packet's bytes.
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

/// Argument of HeaderInfo::fill: all layers with their offsets. When it is called, the inner layers are already filled.
struct FrameLayout {
  std::vector<HeaderValue> layers;
  std::vector<std::uint32_t> offsets;  ///< offset of each layer in the packet
  std::uint32_t payload_bytes = 0;
  std::uint32_t pad_bytes = 0;
  std::uint32_t end = 0;  ///< offset after payload, padding and ICRC or MPA CRC (VCRC and trailer follow)
  std::uint32_t payload_end = 0;
  std::size_t transport = SIZE_MAX;  ///< index of the BTH, if there is one

  [[nodiscard]] HeaderValue& at(std::size_t index) { return layers[index]; }
  /// Number of bytes from the start of layer `index` to `end`. For an upper layer after the BTH, to the end of the
  /// payload.
  [[nodiscard]] std::uint32_t bytes_from(std::size_t index) const {
    return (index > transport ? payload_end : end) - offsets[index];
  }
  /// Like bytes_from(), but without layer `index` itself.
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

/// Splits one message into packets for a path MTU: first, middle and last packets, or only one. `frame` is an RC, UC or
/// XRC request or a READ response with position first or only. Its opcode selects the operation. The message consists
/// of the layers after the extension headers, and the payload. PSNs start with that of `frame`. Only the last packet
/// has the immediate data, R_Key to invalidate, SE and AckReq. Each packet has the other set values. `mtu` is the
/// maximum payload, a power of two from 256 to 4096. Returns an empty vector if the MTU is invalid, or if the opcode
/// has no such packets.
std::vector<Frame> segment(const Frame& frame, std::uint32_t mtu);

}  // namespace rdmawire
