#pragma once
/// A message: one work request as it appears on the wire, from its first packet to its acknowledgement or response.

#include <cstdint>
#include <string_view>

#include "dissectors/tracking/event.hpp"

namespace rdmawire::tracking {

/// Operations of InfiniBand's transports and of iWARP.
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
  completed,  ///< acknowledged, or the response is complete
  sent,  ///< all packets were captured, but no acknowledgement: the service has none (UC, UD), or it was not captured
  refused,     ///< rejected by a NAK that is not a sequence error
  unanswered,  ///< no acknowledgement or response until the end of the capture or of the connection
  partial,     ///< the start or other packets of the message were not captured
};
std::string_view to_string(Outcome outcome);

struct Message {
  std::uint64_t connection = 0;  ///< Connection::id
  std::uint64_t number = 0;      ///< number among the messages of the requester, from 1
  Side end = Side::a;            ///< the requester
  MessageKind kind = MessageKind::send;
  Outcome outcome = Outcome::completed;
  bool has_immediate = false, has_invalidate = false, solicited = false;
  bool has_remote = false;                    ///< remote_address, key and size come from the RETH or AtomicETH
  std::uint8_t nak_code = 0;                  ///< code of the NAK, for outcome refused
  std::uint32_t first_psn = 0, last_psn = 0;  ///< first and last PSN. READ: PSNs of the responses
  std::uint64_t size = 0;                     ///< payload bytes that are sent or written, or requested by a READ
  std::uint64_t remote_address = 0;
  std::uint32_t key = 0;        ///< R_Key or STag
  std::uint64_t immediate = 0;  ///< immediate data: 32 bits (iWARP: 64 bits, RFC 7306, 6)
  std::uint32_t invalidated_key = 0;
  std::uint64_t first_frame = 0,
                last_frame = 0;  ///< frames of the first and the last packet of the request, without retransmissions
  std::uint64_t first_response_frame = 0;  ///< READ: frame of the first response packet
  /// Frame of the ACK, the atomic response or the last READ response that completed the message.
  std::uint64_t answer_frame = 0;
  std::int64_t start = 0, end_time = 0;  ///< times of first_frame and last_frame
  std::int64_t first_response_time = 0;  ///< time of first_response_frame (0: none)
  std::int64_t answer_time = 0;          ///< time of answer_frame (0: none)
  std::uint32_t packets = 0;             ///< number of packets of the message. Each counts once
  std::uint32_t repeated_packets = 0;    ///< number of retransmitted packets
  std::uint64_t atomic_operand = 0, atomic_compare = 0,
                atomic_original = 0;  ///< operands and original value of an atomic
};

}  // namespace rdmawire::tracking
