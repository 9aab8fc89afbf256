#pragma once
/// A dissected packet: its header stack, and data from its connection.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/stack.hpp"
#include "dissectors/protocol/upper.hpp"

namespace rdmawire::tracking {

using rdmawire::to_string;
using rdmawire::Upper;

/// The upper layer protocol of a connection, and why it was detected.
struct UpperEvidence {
  Upper protocol = Upper::unknown;
  std::string_view
      reason;  ///< string literal, for example "the CM request's service ID is port 4420, NVMe over Fabrics"
  std::uint64_t frame = 0;  ///< frame that contains the evidence
};

struct MpaConnection;  // mpa_connections.hpp

/// Properties and errors of an FPDU's markers. RFC 5044, 4.2 and 4.3.
struct MarkerFaults {
  /// There are markers, although the receiver's MPA frame did not request them (only set for the first FPDU).
  bool unasked = false;
  bool no_first = false;   ///< the receiver requested markers, but none precedes the first FPDU
  bool reserved = false;   ///< RESERVED of a marker is not zero, or the two low bits of its FPDUPTR are not zero
  bool pointer = false;    ///< a marker does not point to the start of the FPDU
  bool divided = false;    ///< two markers inside the FPDU point to different offsets
  bool leads = false;      ///< a marker precedes the FPDU, which is not an error
  bool uncovered = false;  ///< the CRC is only valid without the marker that precedes the FPDU
  std::uint16_t says = 0, due = 0;  ///< actual and expected value of the first wrong FPDUPTR
};

/// A unit of a byte stream that ends in this packet: an MPA request or reply, or an FPDU with DDP and RDMAP.
struct Pdu {
  Pdu() {}  // NOLINT(modernize-use-equals-default): user-provided, so that {} leaves the stack's arrays alone

  HeaderStack stack;  ///< offsets are relative to stack.bytes
  Range in_frame;     ///< bytes of the PDU in this packet (length 0: the PDU was complete before, but could only be
                      ///< extracted now)
  bool reassembled = false;  ///< the PDU was in several packets or contained markers, so stack.bytes is a copy. It is
                             ///< valid until the next packet is dissected
  CrcCheck crc;              ///< MPA CRC. `absent` if the connection does not use CRCs, but with the value of the field
  std::uint16_t markers = 0;    ///< number of markers that were removed
  bool wrong_marker = false;    ///< a marker does not point to the start of the FPDU. RFC 5044, 8, code 3
  MarkerFaults marker_faults;   ///< details of marker errors
  bool from_initiator = false;  ///< sent by the sender of the MPA request (valid if roles are known)
  std::uint64_t
      stream_offset = 0,
      stream_end =
          0;  ///< position of the PDU in the sender's stream, including markers. Counted like TcpSegment::offset
  const MpaConnection* connection = nullptr;  ///< never null in Packet::pdus (valid until the next packet is dissected)
};

/// A TCP segment of a known iWARP connection. An offset is the number of a byte in a stream: a sequence number
/// unwrapped to 64 bits. Its low 32 bits are the sequence number.
struct TcpSegment {
  const MpaConnection* connection = nullptr;  ///< nullptr: the segment is not known to be iWARP, and the other members
                                              ///< are unset. Valid until the next packet is dissected
  /// Offset of the segment's first byte, or of the next byte if it has no data (valid if sender_known).
  std::uint64_t offset = 0;
  std::uint64_t acknowledged =
      0;  ///< offset in the peer's stream before which everything is acknowledged (valid if `has_acknowledged`)
  std::uint32_t length = 0;  ///< bytes of data on the wire (the capture may contain fewer)
  std::uint32_t window = 0;  ///< receive window of the sender in bytes (not scaled if the scale was not captured)
  std::uint16_t emss = 0;  ///< maximum segment size of the sender according to the SYNs (0: the receiver's SYN was not
                           ///< captured). The path may allow less. RFC 9293, 3.7.1
  bool from_initiator = false;  ///< sent by the sender of the MPA request (see Pdu::from_initiator)
  bool sender_known = false;    ///< data or a SYN of the sender was captured, so `offset` is valid
  bool has_acknowledged = false;
  bool anew =
      false;  ///< the offsets of the sender restart with this segment, because it is too far from the earlier stream
  bool keep_alive = false;          ///< the segment is a keep-alive. RFC 9293, 3.8.4
  bool fin = false, reset = false;  ///< reset: only set if it is inside the window. RFC 9293, 3.10.7.4
};

struct Packet {
  std::uint64_t number = 0;  ///< number in its capture, from 1
  std::int64_t time_ns = 0;  ///< nanoseconds since 1970. bounded_time() limits it, so that differences fit
  LinkType link = LinkType::ethernet;
  HeaderStack stack;
  CrcCheck icrc;
  CrcCheck vcrc;
  std::vector<Pdu> pdus;  ///< iWARP only
  TcpSegment tcp;         ///< iWARP only
  UpperEvidence upper;
  /// Notes about the packet's role in its connection, in the order in which they were added, such as "TCP keep-alive"
  /// or "TCP retransmission". The texts are string literals.
  std::vector<std::string_view> notes;
};

}  // namespace rdmawire::tracking
