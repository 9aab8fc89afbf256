#pragma once
/// Receives FPDUs in one direction of a stream: finds the extent of each, its markers, and the bytes that its CRC
/// covers. MpaSender (protocol/mpa.hpp) sends them. Positions are offsets from the first byte of the Full Operation
/// Phase. RFC 5044, 4 and 8.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::machines {

/// Maximum number of bytes in a ULPDU, which is a DDP segment. The minimum is 1. RFC 5044, 3.
inline constexpr std::uint32_t longest_ulpdu = 64768;

/// Returns the maximum ULPDU for an EMSS of `emss` bytes, within the limits of RFC 5044, 3.
inline std::uint32_t mulpdu(std::uint32_t emss, bool markers) {
  return std::min(mpa::mulpdu(emss, markers), longest_ulpdu);
}

/// Positions of the parts of an FPDU.
struct FpduExtent {
  std::uint64_t begin = 0;   ///< first byte, which belongs to a marker if one precedes the length field
  std::uint64_t header = 0;  ///< length field, to which the FPDU's markers point
  std::uint64_t crc = 0;     ///< CRC field. The CRC covers [begin, crc)
  std::uint64_t end = 0;

  friend constexpr bool operator==(const FpduExtent&, const FpduExtent&) = default;
};
inline FpduExtent extent_of(std::uint64_t position, std::uint32_t ulpdu_length, bool markers) {
  const std::uint32_t bytes = mpa::fpdu_bytes(ulpdu_length);
  if (!markers) return {position, position, position + bytes - mpa::crc_bytes, position + bytes};
  FpduExtent extent{.begin = position, .header = position};
  if (MarkerGrid::inside(position)) extent.header = position + mpa::marker_bytes;
  extent.end = position + MarkerGrid::span(position, bytes);
  // All sizes are multiples of four, so no marker splits the CRC field. If a marker directly precedes the field, the
  // CRC covers it.
  extent.crc = extent.end - mpa::crc_bytes;
  return extent;
}

/// Returns the FPDUPTR of the marker at `marker` in an FPDU whose length field is at `header`. It is 0 if the marker
/// precedes the length field. RFC 5044, 4.3.
constexpr std::uint16_t fpduptr(std::uint64_t marker, std::uint64_t header) {
  return marker < header ? std::uint16_t{0} : static_cast<std::uint16_t>(marker - header);
}

/// Settings of the receiver.
struct FpduModes {
  bool markers = false;  ///< the receiver requested markers
  bool crc = true;       ///< the receiver checks CRCs
};

/// State of an FPDU that is being received.
struct FpduArrival {
  enum class State : std::uint8_t {
    more,     ///< incomplete: `bytes` bytes from the start of the FPDU are needed to continue
    whole,    ///< complete: it occupies `bytes` bytes of the stream, and its ULPDU has `ulpdu_length` bytes
    invalid,  ///< invalid because of `error`: no more FPDUs are delivered in this direction. RFC 5044, 8
  };
  State state = State::more;
  std::uint64_t bytes = 0;
  std::uint32_t ulpdu_length = 0;
  IwarpError error{};
};

/// Validates the bytes of the stream from `position` on, where an FPDU starts. Checks the CRC first, and then compares
/// the markers with the length field (code 3). Ignores the two low bits of FPDUPTR.
inline FpduArrival judge_fpdu(Bytes stream, std::uint64_t position, FpduModes modes) {
  using State = FpduArrival::State;
  FpduArrival arrival;
  const bool marker_first = modes.markers && MarkerGrid::inside(position);
  arrival.bytes = Fpdu::size + (marker_first ? mpa::marker_bytes : 0);
  if (stream.size() < arrival.bytes) return arrival;
  arrival.ulpdu_length = View<Fpdu>(stream.data() + arrival.bytes - Fpdu::size).get<"ulpdu_length">();
  const FpduExtent extent = extent_of(position, arrival.ulpdu_length, modes.markers);
  arrival.bytes = extent.end - position;
  if (stream.size() < arrival.bytes) return arrival;
  arrival.state = State::invalid;
  const std::size_t covered = extent.crc - position;
  if (modes.crc && compute_mpa_crc(stream.first(covered)) != load_be<4>(stream.data() + covered)) {
    arrival.error = iwarp_error::crc;
    return arrival;
  }
  if (modes.markers)
    for (std::uint64_t at = position + MarkerGrid::to_next(position); at < extent.end; at += mpa::marker_interval) {
      const std::uint32_t pointer = View<Marker>(stream.data() + (at - position)).get<"fpduptr">();
      if ((pointer & ~3U) != fpduptr(at, extent.header)) {
        arrival.error = iwarp_error::marker;
        return arrival;
      }
    }
  arrival.state = State::whole;
  return arrival;
}

/// Returns the ULPDU of a complete FPDU at `position`. `space` is a buffer of the FPDU's size. It may be the FPDU
/// itself.
inline MutableBytes take_ulpdu(Bytes fpdu, std::uint64_t position, const FpduArrival& arrival, bool markers,
                               MutableBytes space) {
  std::size_t bytes = fpdu.size();
  if (markers)
    bytes = remove_markers(fpdu, position, space.data());
  else
    std::copy(fpdu.begin(), fpdu.end(), space.begin());
  return space.first(bytes).subspan(Fpdu::size, arrival.ulpdu_length);
}

}  // namespace rdmawire::machines
