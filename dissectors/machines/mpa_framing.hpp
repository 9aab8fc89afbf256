#pragma once
/// FPDUs in a half connection's stream of bytes, as its receiver takes them: where each begins and ends, which markers
/// lie in it, what its CRC covers. Sending them is MpaSender's (protocol/mpa.hpp). Positions count from the first byte
/// of the Full Operation Phase. RFC 5044, 4 and 8.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/protocol/mpa.hpp"

namespace rdmawire::machines {

/// A DDP segment has 1 to 64768 bytes. RFC 5044, 3.
inline constexpr std::uint32_t longest_ulpdu = 64768;

/// The largest ULPDU for an EMSS, the bounds of RFC 5044, 3 kept.
inline std::uint32_t mulpdu(std::uint32_t emss, bool markers) {
  return std::min(mpa::mulpdu(emss, markers), longest_ulpdu);
}

/// An FPDU that begins (its marker, if one is due there) at `position`.
struct FpduExtent {
  std::uint64_t begin = 0;   ///< of its first byte, which is the marker's when one precedes the length field
  std::uint64_t header = 0;  ///< of its length field, to which its markers point
  std::uint64_t crc = 0;     ///< of its CRC field: the CRC covers [begin, crc)
  std::uint64_t end = 0;

  friend constexpr bool operator==(const FpduExtent&, const FpduExtent&) = default;
};
inline FpduExtent extent_of(std::uint64_t position, std::uint32_t ulpdu_length, bool markers) {
  const std::uint32_t bytes = mpa::fpdu_bytes(ulpdu_length);
  if (!markers) return {position, position, position + bytes - mpa::crc_bytes, position + bytes};
  FpduExtent extent{.begin = position, .header = position};
  if (MarkerGrid::inside(position)) extent.header = position + mpa::marker_bytes;
  extent.end = position + MarkerGrid::span(position, bytes);
  // All of it is a multiple of four: no marker divides the CRC field, and one right before it is covered.
  extent.crc = extent.end - mpa::crc_bytes;
  return extent;
}

/// What the marker at `marker` says in an FPDU whose length field is at `header`: 0 where it precedes it. RFC
/// 5044, 4.3.
constexpr std::uint16_t fpduptr(std::uint64_t marker, std::uint64_t header) {
  return marker < header ? std::uint16_t{0} : static_cast<std::uint16_t>(marker - header);
}

/// How a receiver takes FPDUs.
struct FpduModes {
  bool markers = false;  ///< it required them
  bool crc = true;       ///< it checks CRCs
};

/// What of an FPDU has arrived.
struct FpduArrival {
  enum class State : std::uint8_t {
    more,     ///< the stream must have `bytes` from here on to go on
    whole,    ///< it takes `bytes` of the stream; `ulpdu_length` of them are the ULPDU
    invalid,  ///< `error`: no FPDU of this half connection is delivered any more. RFC 5044, 8
  };
  State state = State::more;
  std::uint64_t bytes = 0;
  std::uint32_t ulpdu_length = 0;
  IwarpError error{};
};

/// Judges the bytes of the stream from `position` on, where an FPDU begins. The CRC comes first: only when it is good
/// are the markers held against the length field (code 3). The two low bits of FPDUPTR are not looked at.
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

/// Takes the ULPDU out of a whole FPDU at `position`. `room`: as many bytes as the FPDU has; it may be the FPDU's own.
inline MutableBytes take_ulpdu(Bytes fpdu, std::uint64_t position, const FpduArrival& arrival, bool markers,
                               MutableBytes room) {
  std::size_t bytes = fpdu.size();
  if (markers)
    bytes = remove_markers(fpdu, position, room.data());
  else
    std::copy(fpdu.begin(), fpdu.end(), room.begin());
  return room.first(bytes).subspan(Fpdu::size, arrival.ulpdu_length);
}

}  // namespace rdmawire::machines
