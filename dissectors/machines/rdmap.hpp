#pragma once
/// RDMAP: what each opcode demands of its segments, how many reads and atomics are under way, what atomics do, and how
/// a stream ends. Pure functions of small values.
///
/// RFC 5040, 4 to 7; RFC 7306 (immediate data, atomics).

#include <cstdint>
#include <optional>

#include "dissectors/machines/ddp.hpp"
#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::machines {

/// What a stream speaks.
struct RdmapAbilities {
  std::uint8_t version = 1;  ///< of RDMAP, and of DDP; 0 with a peer of the RDMA Consortium
  bool extensions = true;    ///< RFC 7306: opcodes 8 to 11, queue 3

  [[nodiscard]] constexpr std::uint32_t queues() const { return extensions ? 4 : 3; }
};

inline RdmapOperation operation_of(std::uint8_t control) {
  return static_cast<RdmapOperation>(View<Rdmap>(&control).get<"opcode">());
}
constexpr bool is_extension(RdmapOperation operation) { return operation >= RdmapOperation::immediate_data; }
constexpr bool is_send(RdmapOperation operation) {
  return operation >= RdmapOperation::send && operation <= RdmapOperation::send_se_invalidate;
}
constexpr bool is_immediate(RdmapOperation operation) {
  return operation == RdmapOperation::immediate_data || operation == RdmapOperation::immediate_data_se;
}

/// Whether RDMAP's byte fits the segment: version, opcode, buffer model, queue. RFC 5040, 4.1 figure 4 and 7.2; RFC
/// 7306, figure 2. An opcode in the other buffer model is unexpected there; a queue that is not its own is an invalid
/// one. Reserved bits are not looked at.
inline std::optional<IwarpError> judge_control(const DdpSegment& segment, RdmapAbilities abilities) {
  const View<Rdmap> control(&segment.control);
  if (control.get<"rv">() != abilities.version) return iwarp_error::rdmap_version;
  const RdmapOpcode& op = rdmap_opcode(control.get<"opcode">());
  if (!op.known || (!abilities.extensions && is_extension(operation_of(segment.control))))
    return iwarp_error::unexpected_opcode;
  if (op.tagged != segment.tagged) return iwarp_error::unexpected_opcode;
  if (!op.tagged && op.queue != segment.qn) return iwarp_error::untagged_invalid_qn;
  return std::nullopt;
}

/// Whether a segment of a message that is open goes on with it: all carry RDMAP's bytes of the first. RFC 5041, 4.3.
constexpr std::optional<IwarpError> judge_continuation(const UntaggedQueue& queue, const DdpSegment& segment) {
  if (!queue.open || (segment.control == queue.control && segment.invalidate_stag == queue.invalidate_stag))
    return std::nullopt;
  return iwarp_error::unexpected_opcode;
}

/// Whether a whole message has the bytes that its opcode demands: those of its header where that is all (RFC 5040,
/// figure 5; RFC 7306, 6.3), any number else. More are too many for the buffer; for fewer there is no code of their
/// own.
inline std::optional<IwarpError> judge_length(RdmapOperation operation, std::uint64_t bytes) {
  const RdmapOpcode& op = rdmap_opcode(operation);
  if (op.header == nullptr) return std::nullopt;
  if (bytes < op.header->size) return iwarp_error::operation_unspecified;
  if (bytes > op.header->size && op.header->tail.empty()) return iwarp_error::untagged_too_long;
  return std::nullopt;
}

/// What the source of an RDMA Read, or the target of an atomic, is told whose memory is refused. RFC 5040, figure 9.
constexpr IwarpError protection_error(AccessReason reason, std::uint64_t to, std::uint64_t bytes) {
  switch (reason) {
    case AccessReason::right: return iwarp_error::protection_rights;
    case AccessReason::other_domain:
    case AccessReason::other_queue_pair: return iwarp_error::protection_other_stream;
    case AccessReason::beyond_address_space:
    case AccessReason::out_of_bounds:
      return to + bytes < to ? iwarp_error::protection_to_wrap : iwarp_error::protection_bounds;
    default: return iwarp_error::protection_invalid_stag;
  }
}

/// Reads and atomics under way: they share queue 1 and its depths. RFC 5040, 5.2.2 and 6.1; RFC 7306, 5.2.
struct ReadDepth {
  std::uint32_t ord = 0, ird = 0;
  std::uint32_t outstanding = 0;  ///< of this end: requests without their whole responses
  std::uint32_t serving = 0;      ///< of the other end

  [[nodiscard]] constexpr bool may_request() const { return outstanding < ord; }
  /// Whether one more of the other end's requests has a buffer.
  [[nodiscard]] constexpr bool has_buffer() const { return serving < ird; }
};

/// Whether the next of the send queue may begin: fenced work waits for the responses before it (RFC 5040, 5.5 rule 12),
/// and so does what needs room in the depth.
constexpr bool may_begin(const ReadDepth& depth, bool reads_or_atomic, bool fenced) {
  if (fenced && depth.outstanding != 0) return false;
  return !reads_or_atomic || depth.may_request();
}

/// A read response against the request that is oldest: the sink may check that it is what was asked for. RFC 5040,
/// 5.2.2. `received`: bytes of it so far.
struct ReadSink {
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t bytes = 0, received = 0;
};
constexpr std::optional<IwarpError> judge_response(const ReadSink* oldest, const DdpSegment& segment) {
  if (oldest == nullptr) return iwarp_error::unexpected_opcode;
  const std::uint64_t through = std::uint64_t{oldest->received} + segment.bytes;
  if (segment.bytes != 0) {
    if (segment.stag != oldest->stag) return iwarp_error::tagged_invalid_stag;
    if (segment.to != oldest->to + oldest->received || through > oldest->bytes) return iwarp_error::tagged_bounds;
  }
  if (segment.last && through != oldest->bytes) return iwarp_error::tagged_bounds;
  return std::nullopt;
}

// Atomics. RFC 7306, 5.1.

/// A mask's bit ends a field at its top: no carry leaves it.
constexpr std::uint64_t fetch_add(std::uint64_t original, std::uint64_t add, std::uint64_t mask) {
  // Below the tops of the fields nothing can leave a field; the tops themselves add without a carry out.
  const std::uint64_t tops = mask | 1ULL << 63;
  return ((original & ~tops) + (add & ~tops)) ^ ((original ^ add) & tops);
}
constexpr std::uint64_t compare_swap(std::uint64_t original, std::uint64_t compare, std::uint64_t compare_mask,
                                     std::uint64_t swap, std::uint64_t swap_mask) {
  if (((compare ^ original) & compare_mask) != 0) return original;
  return (original & ~swap_mask) | (swap & swap_mask);
}
inline constexpr std::uint8_t atomic_fetch_add = 0, atomic_compare_swap = 2;
static_assert(atomic_operation_entries[0].value == atomic_fetch_add &&
              atomic_operation_entries[2].value == atomic_compare_swap);

/// What an atomic request is told before its memory is looked at: an operation that does not exist, or an address (not
/// the offset alone) that is no multiple of eight. RFC 7306, 5.2.1 item 4 (no code is named there) and 8.2.
constexpr std::optional<IwarpError> judge_atomic(std::uint8_t operation, std::uint64_t address) {
  if (operation != atomic_fetch_add && operation != atomic_compare_swap) return iwarp_error::unexpected_opcode;
  if (address % 8 != 0) return iwarp_error::stream_catastrophic;
  return std::nullopt;
}

// The end of a stream. RFC 5040, 5.4, 6.2 and 7.1; RFC 5041, 6.2; RFC 5044, 8.

enum class StreamState : std::uint8_t {
  operating,
  peer_closed,  ///< its FIN came between messages: it is sent to, no longer received from
  closing,      ///< our FIN is sent or next; it is received from
  terminating,  ///< an error: a Terminate and a FIN are sent or next; what comes is dropped
  terminated,   ///< the other end's Terminate came; our FIN is sent or next
  closed,
};
enum class StreamEvent : std::uint8_t {
  error,            ///< of what was received, or of one's own
  terminate,        ///< a Terminate was delivered
  consumer_closes,  ///< in order, when nothing of its own waits
  fin,              ///< between messages
  fin_in_message,
  lost,  ///< TCP was reset, or gave up
  timeout,
};
struct StreamActions {
  bool terminate = false;    ///< send a Terminate, at the end of the message that is being sent
  bool fin = false;          ///< close our half, behind what is to be sent
  bool reset = false;        ///< abort TCP
  bool flush = false;        ///< complete what is outstanding in error
  bool tell_error = false;   ///< to the consumer
  bool tell_closed = false;  ///< to the consumer: half or all of the stream

  friend constexpr bool operator==(const StreamActions&, const StreamActions&) = default;
};
struct StreamStep {
  StreamState state = StreamState::operating;
  StreamActions actions{};

  friend constexpr bool operator==(const StreamStep&, const StreamStep&) = default;
};

/// Each direction has one Terminate at most, of the first error; after it nothing is sent but the FIN.
constexpr StreamStep after(StreamState state, StreamEvent event) {
  using enum StreamState;
  using enum StreamEvent;
  constexpr StreamStep aborted{closed, {.reset = true, .flush = true, .tell_error = true}};
  const StreamStep nothing{state, {}};
  if (state == closed) return nothing;
  const bool failed = state == terminating || state == terminated;  // flushed and told already
  switch (event) {
    case error:
      if (failed) return nothing;
      // What our closed half cannot tell by a Terminate it tells by a reset; as for a peer that sends behind its FIN.
      if (state != operating) return aborted;
      return {terminating, {.terminate = true, .fin = true, .flush = true, .tell_error = true}};
    case terminate:
      if (failed) return nothing;
      return {terminated, {.fin = state == operating, .flush = true, .tell_error = true}};
    case consumer_closes:
      if (state == operating) return {closing, {.fin = true}};
      if (state == peer_closed) return {closed, {.fin = true, .flush = true, .tell_closed = true}};
      return nothing;
    case fin:
      if (state == operating) return {peer_closed, {.tell_closed = true}};
      return {closed, {.flush = !failed, .tell_closed = true}};
    case fin_in_message:
      if (failed) return {closed, {.tell_closed = true}};
      return aborted;
    case lost: return {closed, {.flush = !failed, .tell_error = !failed, .tell_closed = failed}};
    case timeout:
      if (failed) return {closed, {.reset = true, .tell_closed = true}};
      return state == closing ? aborted : nothing;
  }
  return nothing;
}

}  // namespace rdmawire::machines
