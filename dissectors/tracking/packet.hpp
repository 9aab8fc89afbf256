#pragma once
/// A packet as a person or a filter sees it: its own header stack, and what its connection adds to that.

#include <cstdint>
#include <string_view>
#include <vector>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/stack.hpp"
#include "dissectors/protocol/upper.hpp"

namespace rdmawire::tracking {

using rdmawire::to_string;
using rdmawire::Upper;

/// What is known of a connection's upper layer protocol, and why.
struct UpperEvidence {
  Upper protocol = Upper::unknown;
  std::string_view reason;  ///< a constant sentence: "the CM request names port 4420, NVMe over Fabrics"
  std::uint64_t frame = 0;  ///< where it was seen
};

struct MpaConnection;  // mpa_connections.hpp

/// What the markers of an FPDU are like, and what is wrong with them. RFC 5044, 4.2 and 4.3.
struct MarkerFaults {
  bool unasked = false;   ///< they are there, and the receiver's set-up frame did not ask for them: told with the first
                          ///< FPDU
  bool no_first = false;  ///< none stands before the first FPDU, though it was asked for
  bool reserved = false;  ///< RESERVED, or the two low bits of FPDUPTR, are not zero in one of them
  bool pointer = false;   ///< one does not point to the FPDU's beginning
  bool divided = false;   ///< two of those inside of the FPDU point to different places
  bool leads = false;     ///< no fault: one stands before the FPDU
  bool uncovered = false;           ///< the CRC is bad, and right without the marker before the FPDU
  std::uint16_t says = 0, due = 0;  ///< the first FPDUPTR that is wrong
};

/// A unit of a byte stream that ends in this packet: an MPA request or reply, or an FPDU with DDP and RDMAP in it.
struct Pdu {
  Pdu() {}  // NOLINT(modernize-use-equals-default): user-provided, so that {} leaves the stack's arrays alone

  HeaderStack stack;  ///< offsets count in stack.bytes
  Range in_frame;     ///< those of its bytes that this packet carried; length 0: it was only waiting for this packet
  bool reassembled = false;  ///< stack.bytes is not a part of the packet's own bytes: other packets carried some of it,
                             ///< or markers were taken out; valid until the next packet is dissected
  CrcCheck crc;              ///< MPA's; absent, with its value, where the connection does not use CRCs
  std::uint16_t markers = 0;    ///< markers that were taken out
  bool wrong_marker = false;    ///< one of them does not point to the FPDU's beginning. RFC 5044, 8, code 3
  MarkerFaults marker_faults;   ///< in detail
  bool from_initiator = false;  ///< sent by the side that sent the MPA request; meaningful when that is known
  std::uint64_t stream_offset = 0, stream_end = 0;  ///< where its bytes, markers included, lie in the sender's stream,
                                                    ///< whether they were captured or not;
                                                    ///< counted as TcpSegment::offset
  const MpaConnection* connection = nullptr;  ///< never null in Packet::pdus; valid until the next packet is dissected
};

/// What a TCP segment is to its connection, once that is known to be iWARP. Bytes of a stream are numbered by offsets:
/// their sequence numbers, unwrapped to 64 bits (the low 32 bits are the sequence number).
struct TcpSegment {
  const MpaConnection* connection = nullptr;  ///< null: not known to be iWARP, and the rest is not set. Valid until the
                                              ///< next packet is dissected
  std::uint64_t offset = 0;        ///< of its first byte, or of the next one when it has none; sender_known says it
  std::uint64_t acknowledged = 0;  ///< offset in the other side's stream; set when `has_acknowledged`
  std::uint32_t length = 0;        ///< bytes of data on the wire; the capture may have fewer
  std::uint32_t window = 0;        ///< bytes the sender would take; not scaled when the scale was not captured
  std::uint16_t emss = 0;          ///< bytes that the sender may put into one segment as the SYNs say, the path may
                                   ///< allow less; 0: the receiver's SYN was not captured. RFC 9293, 3.7.1
  bool from_initiator = false;     ///< as Pdu::from_initiator
  bool sender_known = false;       ///< data or a SYN of the sender was captured, so that `offset` means something
  bool has_acknowledged = false;
  bool anew = false;                ///< the sender's offsets begin anew here: too far from the stream to belong to it
  bool keep_alive = false;          ///< RFC 9293, 3.8.4
  bool fin = false, reset = false;  ///< a reset outside of the window does not count. RFC 9293, 3.10.7.4
};

struct Packet {
  std::uint64_t number = 0;  ///< in its capture, from 1
  std::int64_t time_ns = 0;  ///< since 1970, nanoseconds; bounded_time(), so that differences fit
  LinkType link = LinkType::ethernet;
  HeaderStack stack;
  CrcCheck icrc;
  CrcCheck vcrc;
  std::vector<Pdu> pdus;  ///< iWARP only
  TcpSegment tcp;         ///< iWARP only
  UpperEvidence upper;
  /// What is remarkable about the packet in its connection, in the order found: "TCP keep-alive", "TCP retransmission".
  /// Constant sentences.
  std::vector<std::string_view> notes;
};

}  // namespace rdmawire::tracking
