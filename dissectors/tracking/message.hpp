#pragma once
/// A message: one work request on the wire, from its first packet to its acknowledgement or response.

#include <cstdint>
#include <string_view>

#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

/// Operations, the same for InfiniBand's transports and iWARP.
enum class MessageKind : std::uint8_t {
  send,
  write,
  read,
  compare_swap,
  fetch_add,
  flush,
  atomic_write,
  swap,  ///< RFC 7306
  terminate,
  other,
};
inline constexpr std::size_t message_kinds = static_cast<std::size_t>(MessageKind::other) + 1;
std::string_view to_string(MessageKind kind);

enum class Outcome : std::uint8_t {
  completed,   ///< acknowledged, or its response is complete
  sent,        ///< all packets were seen. The service has no acknowledgements (UC, UD), or the acknowledgement was not
               ///< captured
  refused,     ///< rejected by a NAK other than a sequence error
  unanswered,  ///< no acknowledgement or response before the end of the capture or of the connection
  partial,     ///< its start or some of its packets were not captured
};
std::string_view to_string(Outcome outcome);

struct Message {
  std::uint64_t connection = 0;  ///< Connection::id
  std::uint64_t number = 0;      ///< number among the requester's messages, from 1
  Side end = Side::a;            ///< the requester
  MessageKind kind = MessageKind::send;
  Outcome outcome = Outcome::completed;
  bool has_immediate = false, has_invalidate = false, solicited = false;
  bool has_remote = false;                    ///< remote_address, key and size are from the RETH or AtomicETH
  std::uint8_t nak_code = 0;                  ///< NAK code, for outcome refused
  std::uint32_t first_psn = 0, last_psn = 0;  ///< READ: PSNs of its responses
  std::uint64_t size = 0;                     ///< payload bytes: sent, written, or requested by a READ
  std::uint64_t remote_address = 0;
  std::uint32_t key = 0;        ///< rkey or STag
  std::uint64_t immediate = 0;  ///< immediate data: 32 bits, for iWARP 64 (RFC 7306, 6)
  std::uint32_t invalidated_key = 0;
  std::uint64_t first_frame = 0, last_frame = 0;  ///< frames of the request's first and last new packet
  std::uint64_t first_response_frame = 0;         ///< READ: frame of the first response packet
  /// Frame of the ACK, atomic response or last READ response that completed the message.
  std::uint64_t answer_frame = 0;
  std::int64_t start = 0, end_time = 0;  ///< times of first_frame and last_frame
  std::int64_t first_response_time = 0;  ///< 0: none
  std::int64_t answer_time = 0;          ///< 0: none
  std::uint32_t packets = 0;             ///< number of packets of the message, each counted once
  std::uint32_t repeated_packets = 0;    ///< retransmitted packets
  std::uint64_t atomic_operand = 0, atomic_compare = 0, atomic_original = 0;  ///< atomics
};

}  // namespace rdmawire::tracking
