#pragma once
/// DDP: direct data placement. RFC 5041.
///
/// The header consists of DDP's control byte, RDMAP's control byte (see rdmap.hpp), and the fields of the buffer model.
/// Each part is a layer, so that `ddp.last` and `rdmap.opcode` have the same name in both models.

#include <vector>

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// DDP's control byte, which is common to both buffer models.
struct Ddp {
  static constexpr std::string_view name = "ddp", title = "DDP control", section = "RFC 5041, 4.1";
  static constexpr std::size_t size = 1;
  static constexpr std::array fields{
      field("tagged", 0, 1, "tagged buffer model: the segment specifies the destination buffer")
          .alias("iwarp_ddp.tagged_flag"),
      field("last", 1, 1, "the last segment of its message").alias("iwarp_ddp.last_flag"),
      field("reserved", 2, 4, "sent as zero").as(Display::reserved).alias("iwarp_ddp.rsvd"),
      field("dv", 6, 2, "DDP version: 1").alias("iwarp_ddp.dv"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Fields after the two control bytes in the tagged buffer model.
struct DdpTagged {
  static constexpr std::string_view name = "ddp_tagged", title = "DDP tagged buffer", section = "RFC 5041, 4.2";
  static constexpr std::size_t size = 12;
  static constexpr std::array fields{
      field("stag", 0, 32, "steering tag of the data sink's buffer").hex().alias("iwarp_ddp.stag"),
      field("to", 32, 64, "tagged offset: offset of the segment's first byte in the buffer")
          .hex()
          .alias("iwarp_ddp.tagged_offset"),
  };
};

inline constexpr Name ddp_queue_entries[] = {
    {0, "Send", "Send and its variants, Immediate Data"},
    {1, "RDMA Read Request", "RDMA Read Requests and Atomic Requests"},
    {2, "Terminate", "Terminate messages"},
    {3, "Atomic Response", "Atomic Responses"},
};
inline constexpr Names ddp_queue_names{"DDP queue number", ddp_queue_entries, "RFC 7306, 10.2"};

/// Fields after the two control bytes in the untagged buffer model.
struct DdpUntagged {
  static constexpr std::string_view name = "ddp_untagged", title = "DDP untagged buffer", section = "RFC 5041, 4.3";
  static constexpr std::size_t size = 16;
  static constexpr std::array fields{
      field("invalidate_stag", 0, 32, "steering tag that a Send with Invalidate invalidates (zero in other messages)")
          .hex()
          .in("RFC 5040, 4.1"),
      field("qn", 32, 32, "queue number at the data sink").of(ddp_queue_names).alias("iwarp_ddp.qn"),
      field("msn", 64, 32, "message sequence number of this queue (the first is 1)").alias("iwarp_ddp.msn"),
      field("mo", 96, 32, "message offset: bytes of the message before this segment").alias("iwarp_ddp.mo"),
  };
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Decodes one ULPDU of MPA: a DDP segment with its part of the RDMAP message. Sets the wire to iwarp.
void decode_ulpdu(HeaderStack& stack, Bytes bytes, std::uint32_t wire_length);
inline void decode_ulpdu(HeaderStack& stack, Bytes bytes) {
  decode_ulpdu(stack, bytes, static_cast<std::uint32_t>(bytes.size()));
}

/// Decoding step for a DDP segment, which ends at the cursor's limit.
Step decode_ddp(Cursor& c);

struct Frame;

/// Splits one DDP message into segments. Each becomes a frame. RFC 5041, 5.1 and 5.2. `message` contains the layers of
/// one segment (Fpdu is optional, then Ddp, Rdmap, DdpTagged or DdpUntagged, and the RDMAP header if there is one) and
/// the payload of the whole message. Its tagged or message offset is that of the first byte. `mulpdu` limits a segment
/// including headers (see mpa::mulpdu). An RDMAP header is not split. Returns an empty vector if there is no DDP
/// header, or if `mulpdu` is too small for the headers and one byte of payload.
std::vector<Frame> segment_ddp(const Frame& message, std::uint32_t mulpdu);

}  // namespace rdmawire
