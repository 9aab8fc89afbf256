#pragma once
/// From values to bytes. What is not given is computed: lengths, next-header numbers, checksums, pad, ICRC, VCRC, CRC.
/// What is given is kept, however wrong. A length that its field cannot hold keeps its low bits (misfit.hpp).

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/protocol/header.hpp"
#include "dissectors/protocol/stack.hpp"

namespace rdmawire {

/// A packet to be encoded: headers from the outermost in, then payload.
///
///     Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"dst">(0x0a000002) / Value<Udp>() /
///                   Value<Bth>().set<"opcode">(0x04).set<"dest_qp">(17);
///     frame.payload = {'h', 'i'};
///     std::vector<std::uint8_t> bytes = frame.encode();
struct Frame {
  std::vector<HeaderValue> layers;
  std::vector<std::uint8_t> payload;
  /// Bytes. Not given: zeros up to a multiple of four, and to the size that a header demands (a management datagram).
  std::optional<std::vector<std::uint8_t>> pad;
  std::optional<std::uint32_t> icrc;  ///< as load_icrc() reads it
  std::optional<std::uint16_t> vcrc;
  std::optional<std::uint32_t> mpa_crc;  ///< of an FPDU
  bool with_icrc = true;                 ///< false: leave the ICRC away where one belongs
  bool with_vcrc = true;                 ///< likewise, native InfiniBand only
  /// Likewise, FPDUs only. Where CRCs are not in use the field is there all the same: mpa_crc = 0.
  bool with_mpa_crc = true;
  std::vector<std::uint8_t> trailer;  ///< after everything: Ethernet padding, a frame check sequence

  /// The captured packet: everything given. encode() gives its bytes again.
  static Frame of(const HeaderStack& stack);

  Frame& operator/=(HeaderValue next) {
    layers.push_back(std::move(next));
    return *this;
  }
  /// The innermost layer of that header, or nullptr.
  [[nodiscard]] HeaderValue* find(const HeaderInfo& header);
  /// Lets everything be computed again that encode() can compute: lengths, numbers of what follows, checksums, pad
  /// count and CRCs.
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

/// What a header's `fill` sees: all layers, already laid out, those further in already filled.
struct FrameLayout {
  std::vector<HeaderValue> layers;
  std::vector<std::uint32_t> offsets;  ///< of each layer in the packet
  std::uint32_t payload_bytes = 0;
  std::uint32_t pad_bytes = 0;
  std::uint32_t end = 0;  ///< after payload, pad and ICRC or MPA CRC; VCRC and trailer come behind it
  std::uint32_t payload_end = 0;
  std::size_t transport = SIZE_MAX;  ///< index of the BTH, if there is one

  [[nodiscard]] HeaderValue& at(std::size_t index) { return layers[index]; }
  /// Bytes from layer `index` (with it) to the end: of the payload when an upper layer behind the BTH asks.
  [[nodiscard]] std::uint32_t bytes_from(std::size_t index) const {
    return (index > transport ? payload_end : end) - offsets[index];
  }
  /// Bytes behind layer `index`.
  [[nodiscard]] std::uint32_t bytes_after(std::size_t index) const {
    return bytes_from(index) - static_cast<std::uint32_t>(layers[index].bytes().size());
  }
  /// The header behind layer `index`, or nullptr.
  [[nodiscard]] const HeaderInfo* next(std::size_t index) const {
    return index + 1 < layers.size() ? &layers[index + 1].header() : nullptr;
  }
};

/// The Internet checksum: one's complement of the one's complement sum. RFC 1071.
std::uint16_t internet_checksum(Bytes bytes, std::uint32_t sum = 0);

/// One message at a path MTU: its first, middle and last packets, or its only one. `frame` is an RC, UC or XRC request
/// or a READ response with position only or first (its opcode picks the kind; immediate and invalidate go to the end),
/// what stands behind its extension headers (an upper layer's headers, payload) the whole message; PSNs count up from
/// the frame's; SE and the wish for an acknowledgement are the last packet's alone. What else the frame gives, each
/// packet has. `mtu` is the payload of a packet, a power of two from 256 to 4096. An empty result: the opcode has no
/// such packets, or the MTU is not one.
std::vector<Frame> segment(const Frame& frame, std::uint32_t mtu);

}  // namespace rdmawire
