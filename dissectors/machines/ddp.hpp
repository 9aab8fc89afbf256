#pragma once
/// DDP: validates received segments, detects complete messages, and splits messages into segments. Pure functions of
/// small values. The caller manages buffers and memory. RFC 5041, 4, 5 and 7, RFC 7306, 4.1 (queue 3).

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/machines/memory_access.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/modular.hpp"

namespace rdmawire::machines {

/// Returns the number of bytes in a segment's header, including RDMAP's control byte and reserved bytes. RFC 5041, 4.2
/// and 4.3.
constexpr std::uint32_t ddp_header_bytes(bool tagged) {
  return static_cast<std::uint32_t>(Ddp::size + Rdmap::size + (tagged ? DdpTagged::size : DdpUntagged::size));
}

struct DdpSegment {
  bool tagged = false, last = false;
  std::uint8_t version = 1;
  std::uint8_t control = 0;           ///< RDMAP's control byte
  std::uint32_t invalidate_stag = 0;  ///< untagged: the four bytes that RDMAP uses
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t qn = 0, msn = 0, mo = 0;
  std::uint32_t bytes = 0;  ///< number of payload bytes
};

/// Reads the DDP header of a ULPDU. Returns nullopt if the ULPDU is too short. Ignores reserved bits. RFC 5041, 4.1.
inline std::optional<DdpSegment> read_segment(Bytes ulpdu) {
  if (ulpdu.empty()) return std::nullopt;
  const View<Ddp> ddp(ulpdu.data());
  DdpSegment segment{.tagged = ddp.get<"tagged">() != 0, .last = ddp.get<"last">() != 0, .version = ddp.get<"dv">()};
  const std::uint32_t header = ddp_header_bytes(segment.tagged);
  if (ulpdu.size() < header) return std::nullopt;
  segment.control = ulpdu[Ddp::size];
  segment.bytes = static_cast<std::uint32_t>(ulpdu.size()) - header;
  const std::uint8_t* model = ulpdu.data() + Ddp::size + Rdmap::size;
  if (segment.tagged) {
    const View<DdpTagged> view(model);
    segment.stag = view.get<"stag">();
    segment.to = view.get<"to">();
  } else {
    const View<DdpUntagged> view(model);
    segment.invalidate_stag = view.get<"invalidate_stag">();
    segment.qn = view.get<"qn">();
    segment.msn = view.get<"msn">();
    segment.mo = view.get<"mo">();
  }
  return segment;
}

/// State of one untagged queue. TCP preserves order, so at most one message is open.
struct UntaggedQueue {
  DdpMsn expected{1};  ///< MSN of the open message, or of the next one
  bool open = false;   ///< a part of the message was placed
  std::uint32_t placed = 0;
  // Values from the first segment of the open message:
  std::uint8_t control = 0;
  std::uint32_t invalidate_stag = 0;
};

/// State of the untagged queues: 0 to 2, and 3 if RFC 7306 is supported.
struct DdpReceiver {
  std::array<UntaggedQueue, 4> queues;
  std::uint32_t queue_count = 3;
  std::uint8_t version = 1;  ///< DDP version of the stream. A segment with another version is an error. RFC 5041, 4.1
};

/// The buffer for the open message, or for the next one.
struct UntaggedBuffer {
  bool available = false;
  std::uint64_t bytes = 0;
};

struct DdpVerdict {
  bool valid = true;
  IwarpError error{};     ///< error code if `valid` is false
  bool delivers = false;  ///< this segment completes the message

  friend constexpr bool operator==(const DdpVerdict&, const DdpVerdict&) = default;
};
constexpr DdpVerdict ddp_refused(IwarpError error) { return {.valid = false, .error = error}; }

constexpr IwarpError version_error(bool tagged) {
  return tagged ? iwarp_error::tagged_version : iwarp_error::untagged_version;
}

/// Validates an untagged segment. `buffer` is a function from the queue number to an UntaggedBuffer. It is called at
/// most once, and only for an existing queue. Offsets are checked only in segments with payload (7.1). Even an empty
/// message needs a buffer (RFC 5040, 5.3). A segment that is out of order in its message has an invalid offset.
template <class Buffer>
constexpr DdpVerdict judge_untagged(const DdpReceiver& at, const DdpSegment& segment, const Buffer& buffer) {
  if (segment.version != at.version) return ddp_refused(iwarp_error::untagged_version);
  if (segment.qn >= at.queue_count) return ddp_refused(iwarp_error::untagged_invalid_qn);
  const UntaggedQueue& queue = at.queues[segment.qn];
  if (DdpMsn(segment.msn) != queue.expected) return ddp_refused(iwarp_error::untagged_msn_range);
  const UntaggedBuffer space = buffer(segment.qn);
  if (!space.available) return ddp_refused(iwarp_error::untagged_no_buffer);
  if (segment.bytes != 0) {
    if (segment.mo != queue.placed) return ddp_refused(iwarp_error::untagged_invalid_mo);
    if (std::uint64_t{segment.mo} + segment.bytes > space.bytes) return ddp_refused(iwarp_error::untagged_too_long);
  }
  return {.delivers = segment.last};
}

/// Returns the state after an untagged segment was placed.
constexpr DdpReceiver placed(DdpReceiver at, const DdpSegment& segment) {
  UntaggedQueue& queue = at.queues[segment.qn];
  if (segment.last) {
    queue = {.expected = queue.expected + 1};
    return at;
  }
  if (!queue.open) {
    queue.open = true;
    queue.control = segment.control;
    queue.invalidate_stag = segment.invalidate_stag;
  }
  queue.placed += segment.bytes;
  return at;
}

/// Returns the error code for a rejected tagged segment. If a buffer does not permit placement (7.1, item 2), the code
/// is that of an invalid STag, because there is no code for missing rights.
constexpr IwarpError tagged_error(AccessReason reason, std::uint64_t to, std::uint64_t bytes) {
  switch (reason) {
    case AccessReason::other_domain:
    case AccessReason::other_queue_pair: return iwarp_error::tagged_other_stream;
    case AccessReason::beyond_address_space:
    case AccessReason::out_of_bounds:
      // A sum of exactly 2^64 counts as wrapped. 7.1, item 5
      return to + bytes < to ? iwarp_error::tagged_to_wrap : iwarp_error::tagged_bounds;
    default: return iwarp_error::tagged_invalid_stag;
  }
}

/// Validates a tagged segment. `memory` is a function that returns the AccessDecision for STag and TO. It is called
/// only for a segment with payload: otherwise STag and TO are ignored (5.2).
template <class Memory>
constexpr DdpVerdict judge_tagged(std::uint8_t version, const DdpSegment& segment, const Memory& memory) {
  if (segment.version != version) return ddp_refused(iwarp_error::tagged_version);
  if (segment.bytes != 0) {
    const AccessDecision decision = memory();
    if (decision.answer != AccessAnswer::allowed)
      return ddp_refused(tagged_error(decision.reason, segment.to, segment.bytes));
  }
  return {.delivers = segment.last};
}

/// One segment of a message to send. `offset` is the MO (untagged), or the distance from the TO of the message's first
/// byte (tagged).
struct DdpPiece {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  bool last = true;

  friend constexpr bool operator==(const DdpPiece&, const DdpPiece&) = default;
};
/// Returns the segment that follows the first `done` bytes of a message of `whole` bytes. An empty message has one
/// segment. RFC 5041, 5.2.
constexpr DdpPiece next_piece(std::uint64_t done, std::uint64_t whole, std::uint32_t mulpdu, bool tagged) {
  const std::uint64_t space = mulpdu - ddp_header_bytes(tagged);
  const std::uint64_t bytes = std::min(space, whole - done);
  return {done, static_cast<std::uint32_t>(bytes), done + bytes == whole};
}

}  // namespace rdmawire::machines
