#pragma once
/// Extracts iWARP connections, messages and events from dissected TCP packets.
///
/// A connection is a TCP connection, starting with its MPA request or the packet that identified it as iWARP.
/// Messages are RDMAP messages. RFC 5040, 5041, 5044, 6581, 7306. Meaning of the shared types for iWARP:
/// - Message::first_psn and last_psn are the DDP MSN of an untagged message, and 0 for a tagged message. `packets` is
/// the
///   number of FPDUs, and `repeated_packets` that of retransmitted TCP segments with bytes of the message.
/// - RDMAP has no acknowledgements. A message that needs no response, such as a Send or RDMA Write, is `completed` when
///   TCP acknowledges its last byte. The packet with this acknowledgement is the answer. It proves that the peer's TCP
///   received the message, but its ULP may not have. The outcome is `sent` if no such acknowledgement was captured, and
///   `refused` if a Terminate message quotes the message. nak_code is the error code of the Terminate message.
/// - The answer to a READ is the last segment of its response. key and remote_address identify the source of the data,
///   and not the sink.
/// - Immediate Data is a Send without payload and with 64 bits of immediate data. RFC 7306, 6
/// - Sent::requests and responses are numbers of FPDUs, retransmitted_packets and retransmitted_bytes those of TCP
///   segments and bytes, and acks that of TCP segments without data.
/// - PacketNote::relative_psn is the number of bytes from the first captured byte of the sender's stream.
/// - Event::psn is the MSN, or the TCP sequence number for TCP events. Members whose meaning depends on the kind:
///   - `opened`: value and found are the maximum outstanding READs of a and b (RFC 6581), or 0.
///     origin_frame is the MPA request.
///   - `rejected`: bytes is the length of the reply's private data, and value is its revision.
///   - `closed`: cause_frame is the Terminate that ended the connection, if any.
///   - `terminate`: value is layer << 16 | error type << 8 | error code. found contains the header bits: 4 for M (the
///     segment length, which is in bytes), 2 for D (DDP header), 1 for R (Read Request header). origin_frame is the
///     frame of the quoted FPDU, and end is its sender.
///   - `tcp_retransmission`: found is the number of the first delayed message, and value is its endpoint (0: a, 1: b).
///   - `msn_jump`, `segmentation`: value is the expected MSN, MO, TO or READ length, and found is the received one.
///   - `opcode_sequence`: value is the RDMAP opcode, and found is the queue number (untagged).
///   - `read_limit`: value is the limit, and found is the number of outstanding READs.
///   - `stall`: frame and last_frame are those before and after the silence. If the cause is `window`, they are the
///     packets that closed and opened the window.

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/mpa_connections.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::tracking {

struct IwarpLimits {
  std::uint32_t connections =
      1U << 14;  ///< maximum number of tracked connections. If there are more, an idle one is evicted
  /// Maximum number of messages that wait for an acknowledgement or response, in one direction.
  std::uint32_t messages = 1U << 10;
  std::uint32_t all_messages = 1U << 17;  ///< maximum number of these messages in all connections together
  std::int64_t stall = 200'000'000;       ///< minimum silence for a stall event, in nanoseconds
  bool packets = false;                   ///< call Sink::packet
  bool transport = false;                 ///< call Sink::stream
};

class IwarpTracker {
 public:
  explicit IwarpTracker(Sink& sink, const IwarpLimits& limits = {});
  ~IwarpTracker();
  IwarpTracker(const IwarpTracker&) = delete;
  IwarpTracker& operator=(const IwarpTracker&) = delete;

  /// Processes a packet of tracking::Dissector. Packets must be in capture order with increasing frame numbers. A
  /// packet costs one comparison if its TCP connection is not known to be iWARP.
  void add(const Packet& packet) {
    if (packet.tcp.connection) follow(packet);
  }
  /// Reports waiting messages and all connections. Must be called after the last packet.
  void finish();

  /// Number of connections and waiting messages that were evicted because a table was full.
  [[nodiscard]] std::uint64_t evicted() const;
  /// Memory in use, approximately, in bytes.
  [[nodiscard]] std::size_t memory() const;
  /// Number of tracked connections.
  [[nodiscard]] std::size_t size() const;
  /// Maximum number of connections that were tracked at once, and of messages that waited at once.
  [[nodiscard]] std::size_t most_connections() const;
  [[nodiscard]] std::uint64_t most_messages() const;

 private:
  void follow(const Packet& packet);
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::tracking
