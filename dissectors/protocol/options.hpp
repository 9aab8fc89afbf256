#pragma once
/// Parser for the options of IPv4 and TCP, which have the same format: kind 0 ends the list, kind 1 is a padding byte,
/// and other options consist of kind, length and data. RFC 791, 3.1, RFC 9293, 3.1.

#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Returns the options after the first `size` bytes of `header` as parts, at most Parts::capacity. `byte` is the header
/// of options that are a single byte. For other options, calls `found(parts, kind, offset, bytes)`, which adds the
/// part. `option` is the header that findings refer to.
template <class Found>
Parts parts_of_options(Bytes header, std::uint32_t size, const HeaderInfo& byte, const HeaderInfo& option,
                       Found found) {
  Parts parts;
  std::uint32_t at = size;
  while (at < header.size() && parts.count < Parts::capacity) {
    const std::uint8_t kind = header[at];
    if (kind <= 1) {
      parts.add(byte, at++, byte.size);
      if (kind == 0) break;
      continue;
    }
    const auto left = static_cast<std::uint32_t>(header.size()) - at;
    const std::uint32_t length = left >= 2 ? header[at + 1] : 0;
    if (length < 2 || length > left) {
      parts.error = ParseError{ParseError::Kind::malformed, &option, at,
                               std::max(length, 2U),        left,    "the option's length is invalid"};
      break;
    }
    found(parts, kind, at, length);
    at += length;
  }
  return parts;
}

}  // namespace rdmawire
