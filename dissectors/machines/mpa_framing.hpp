#pragma once
/// Receives FPDUs in one direction of a stream: extent, markers and CRC coverage of each. MpaSender
/// (protocol/mpa.hpp) sends them. Positions are relative to the first byte of the Full Operation Phase. RFC 5044, 4
/// and 8.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::machines {

/// A DDP segment has 1 to 64768 bytes. RFC 5044, 3.
inline constexpr std::uint32_t longest_ulpdu = 64768;

/// Returns the maximum ULPDU for an EMSS, within the limits of RFC 5044, 3.
inline std::uint32_t mulpdu(std::uint32_t emss, bool markers) {
  return std::min(mpa::mulpdu(emss, markers), longest_ulpdu);
}

/// Extent of an FPDU that starts at `position`, with a marker if one is due there.
struct FpduExtent {
  std::uint64_t begin = 0;   ///< its first byte (the marker's if one precedes the length field)
  std::uint64_t header = 0;  ///< its length field, the target of its markers
  std::uint64_t crc = 0;     ///< its CRC field: the CRC covers [begin, crc)
  std::uint64_t end = 0;

  friend constexpr bool operator==(const FpduExtent&, const FpduExtent&) = default;
};
inline FpduExtent extent_of(std::uint64_t position, std::uint32_t ulpdu_length, bool markers) {
  const std::uint32_t bytes = mpa::fpdu_bytes(ulpdu_length);
  if (!markers) return {position, position, position + bytes - mpa::crc_bytes, position + bytes};
  FpduExtent extent{.begin = position, .header = position};
  if (MarkerGrid::inside(position)) extent.header = position + mpa::marker_bytes;
  extent.end = position + MarkerGrid::span(position, bytes);
  // All sizes are multiples of four, so no marker splits the CRC field. The CRC covers a marker directly before the
  // field.
  extent.crc = extent.end - mpa::crc_bytes;
  return extent;
}

/// FPDUPTR of the marker at `marker` in an FPDU whose length field is at `header`. 0 if the marker precedes it. RFC
/// 5044, 4.3.
constexpr std::uint16_t fpduptr(std::uint64_t marker, std::uint64_t header) {
  return marker < header ? std::uint16_t{0} : static_cast<std::uint16_t>(marker - header);
}

/// Receiver modes.
struct FpduModes {
  bool markers = false;  ///< the receiver requested markers
  bool crc = true;       ///< the receiver checks CRCs
};

/// State of a received FPDU.
struct FpduArrival {
  enum class State : std::uint8_t {
    more,     ///< incomplete: `bytes` from its start are needed to continue
    whole,    ///< complete: it occupies `bytes` bytes of the stream, and its ULPDU has `ulpdu_length` bytes
    invalid,  ///< invalid, with `error`: no more FPDUs are delivered in this direction. RFC 5044, 8
  };
  State state = State::more;
  std::uint64_t bytes = 0;
  std::uint32_t ulpdu_length = 0;
  IwarpError error{};
};

/// Validates the bytes of the stream from `position` on, where an FPDU starts. The CRC is checked first. If it is
/// valid, the markers are compared with the length field (code 3). The two low bits of FPDUPTR are ignored.
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

/// Extracts the ULPDU of a complete FPDU at `position`. `space`: a buffer of the FPDU's size, which may be the FPDU
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
