#pragma once
/// For tests of management datagrams: builds datagrams from literal bytes, and decodes them from the BTH on.

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/testing.hpp"

namespace rdmawire::testing {

/// Returns bytes from hexadecimal digits, followed by zeros up to `size`.
inline std::vector<std::uint8_t> padded(std::string_view hex, std::size_t size) {
  std::vector<std::uint8_t> bytes = from_hex(hex);
  bytes.resize(std::max(bytes.size(), size), 0);
  return bytes;
}

/// Returns the concatenated pieces.
inline std::vector<std::uint8_t> joined(std::initializer_list<std::vector<std::uint8_t>> pieces) {
  std::vector<std::uint8_t> all;
  for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

/// Returns BTH and DETH to QP 1, then the datagram, padded with zeros to `size`. There is no ICRC.
inline std::vector<std::uint8_t> datagram(std::vector<std::uint8_t> mad, std::size_t size = Mad::whole) {
  mad.resize(std::max(mad.size(), size), 0);
  return joined({from_hex("6400ffff 00000001 00000000 80010000 00000001"), mad});
}

/// Offset of the MAD in the result of datagram().
inline constexpr std::uint32_t datagram_at = Bth::size + Deth::size;

/// Returns the names of the layers after the DETH: "mad rmpp sa pathrecord".
inline std::string layers_of(const HeaderStack& stack) {
  std::string names;
  for (const Layer& layer : stack.layers().subspan(2))
    names += (names.empty() ? "" : " ") + std::string(layer.header->name);
  return names;
}

}  // namespace rdmawire::testing
