#pragma once
/// RDMAP: validates segments by opcode, limits outstanding READs and atomics, computes atomic operations, and
/// terminates streams. Pure functions of small values.
///
/// RFC 5040, 4 to 7, RFC 7306 (immediate data, atomics).

#include <cstdint>
#include <optional>

#include "dissectors/machines/ddp.hpp"
#include "dissectors/machines/iwarp_error.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::machines {

/// Protocol version and extensions of a stream.
struct RdmapAbilities {
  std::uint8_t version = 1;  ///< version of RDMAP and DDP (0 if the peer follows the RDMA Consortium's specification)
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

/// Validates RDMAP's control byte for the segment: version, opcode, buffer model, queue. RFC 5040, 4.1 figure 4 and
/// 7.2, RFC 7306, figure 2. The error for a wrong buffer model is "unexpected opcode", and for a wrong queue "invalid
/// QN". Ignores reserved bits.
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

/// Validates a segment after the first one of an open message. RFC 5041, 4.3: its RDMAP bytes must equal those of the
/// first segment.
constexpr std::optional<IwarpError> judge_continuation(const UntaggedQueue& queue, const DdpSegment& segment) {
  if (!queue.open || (segment.control == queue.control && segment.invalidate_stag == queue.invalidate_stag))
    return std::nullopt;
  return iwarp_error::unexpected_opcode;
}

/// Validates the length of a complete message. Without payload, it must be the length of the header (RFC 5040, figure
/// 5, RFC 7306, 6.3). Otherwise, any length is valid. A message that is too long exceeds the buffer. A message that is
/// too short has no error code of its own.
inline std::optional<IwarpError> judge_length(RdmapOperation operation, std::uint64_t bytes) {
  const RdmapOpcode& op = rdmap_opcode(operation);
  if (op.header == nullptr) return std::nullopt;
  if (bytes < op.header->size) return iwarp_error::operation_unspecified;
  if (bytes > op.header->size && op.header->tail.empty()) return iwarp_error::untagged_too_long;
  return std::nullopt;
}

/// Returns the error code for a rejected access to the source of an RDMA Read, or to the target of an atomic. RFC 5040,
/// figure 9.
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

/// READs and atomics in progress, which share queue 1 and its depths. RFC 5040, 5.2.2 and 6.1, RFC 7306, 5.2.
struct ReadDepth {
  std::uint32_t ord = 0, ird = 0;
  std::uint32_t outstanding = 0;  ///< requests of this endpoint whose response is not complete
  std::uint32_t serving = 0;      ///< requests of the peer whose response is not complete

  [[nodiscard]] constexpr bool may_request() const { return outstanding < ord; }
  /// True if a buffer is available for another request of the peer.
  [[nodiscard]] constexpr bool has_buffer() const { return serving < ird; }
};

/// True if the next work request may start. A fenced request waits for earlier responses (RFC 5040, 5.5 rule 12). A
/// READ or atomic waits until fewer than ORD are outstanding.
constexpr bool may_begin(const ReadDepth& depth, bool reads_or_atomic, bool fenced) {
  if (fenced && depth.outstanding != 0) return false;
  return !reads_or_atomic || depth.may_request();
}

/// The data sink of the oldest READ, to validate its response, as RFC 5040, 5.2.2 permits. `received` is the number of
/// bytes received so far.
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

/// Computes FetchAdd. A mask bit is the top bit of a field. Carries do not leave the field.
constexpr std::uint64_t fetch_add(std::uint64_t original, std::uint64_t add, std::uint64_t mask) {
  // Carries below a top bit stay in the field. The top bits are added without a carry.
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

/// Returns the error of an atomic request that is found before memory is accessed. The operation is undefined, or the
/// address (not only the offset) is not a multiple of eight. RFC 7306, 5.2.1 item 4 (specifies no code) and 8.2.
constexpr std::optional<IwarpError> judge_atomic(std::uint8_t operation, std::uint64_t address) {
  if (operation != atomic_fetch_add && operation != atomic_compare_swap) return iwarp_error::unexpected_opcode;
  if (address % 8 != 0) return iwarp_error::stream_catastrophic;
  return std::nullopt;
}

// End of a stream. RFC 5040, 5.4, 6.2 and 7.1, RFC 5041, 6.2, RFC 5044, 8.

enum class StreamState : std::uint8_t {
  operating,
  peer_closed,  ///< received a FIN between messages: still sends, but no longer receives
  closing,      ///< sent a FIN, or will send it next: still receives
  terminating,  ///< after an error: sent a Terminate and a FIN, or will send them next. Drops received data
  terminated,   ///< received a Terminate: sent a FIN, or will send it next
  closed,
};
enum class StreamEvent : std::uint8_t {
  error,            ///< an error in received data, or a local error
  terminate,        ///< a Terminate was received
  consumer_closes,  ///< the application closes gracefully while no local request is pending
  fin,              ///< a FIN was received between messages
  fin_in_message,
  lost,  ///< TCP was reset or timed out
  timeout,
};
struct StreamActions {
  bool terminate = false;    ///< send a Terminate after the current message
  bool fin = false;          ///< close the local direction after the pending data
  bool reset = false;        ///< abort TCP
  bool flush = false;        ///< complete outstanding requests with an error
  bool tell_error = false;   ///< notify the application of the error
  bool tell_closed = false;  ///< notify the application that one or both directions closed

  friend constexpr bool operator==(const StreamActions&, const StreamActions&) = default;
};
struct StreamStep {
  StreamState state = StreamState::operating;
  StreamActions actions{};

  friend constexpr bool operator==(const StreamStep&, const StreamStep&) = default;
};

/// Returns the next state and the actions. Each direction sends at most one Terminate, for the first error, and after
/// it only the FIN.
constexpr StreamStep after(StreamState state, StreamEvent event) {
  using enum StreamState;
  using enum StreamEvent;
  constexpr StreamStep aborted{closed, {.reset = true, .flush = true, .tell_error = true}};
  const StreamStep nothing{state, {}};
  if (state == closed) return nothing;
  // Requests were already flushed, and the error was already reported.
  const bool failed = state == terminating || state == terminated;
  switch (event) {
    case error:
      if (failed) return nothing;
      // After the local FIN, a Terminate cannot be sent, so TCP is reset. TCP is also reset if the peer sends after its
      // FIN.
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
