#pragma once
/// iWARP connections, messages and events from dissected TCP packets.
///
/// A connection is a TCP connection from its MPA request (or from the packet that showed it to be iWARP) on; messages
/// are RDMAP messages. RFC 5040, 5041, 5044, 6581, 7306. How the shared types are to be read for iWARP:
/// - Message::first_psn and last_psn are the DDP MSN of untagged messages and 0 of tagged ones; `packets` counts FPDUs;
///   `repeated_packets` counts TCP segments that were sent again with bytes of the message in them.
/// - RDMAP has no acknowledgement. A send or write, and whatever else draws no response, is `completed` when TCP
///   acknowledged its last byte, with that packet as its answer: the peer's TCP has it, which does not say that its
///   ULP was told. It is `sent` when no such acknowledgement was captured. `refused`: a Terminate quotes it; nak_code
///   is the Terminate's error code.
/// - A read's answer is the last segment of its response; key and remote_address name the source, not the sink.
/// - Immediate Data is a send of no bytes with an immediate (64 bits). RFC 7306, 6
/// - Sent::requests and responses count FPDUs; retransmitted_packets and retransmitted_bytes TCP segments and bytes;
/// acks TCP segments
///   without data.
/// - PacketNote::relative_psn counts bytes of the sender's stream from the first that was seen.
/// - Event::psn is the MSN, or the TCP sequence number where the event is TCP's. Further:
///   `opened`: value and found are how many reads a and b may have outstanding (RFC 6581), 0 where nothing was agreed;
///   origin_frame is the MPA request. `rejected`: bytes is the length of the reply's private data, value its revision.
///   `closed`: cause_frame is the Terminate, where that ended it.
///   `terminate`: value is layer << 16 | error type << 8 | error code; found says what is quoted, the header's bits M
///   (segment length; in `bytes`) 4, D (DDP header) 2, R (Read Request header) 1; origin_frame is the FPDU that is
///   quoted; end the one that sent that.
///   `tcp_retransmission`: found is the number of the first message that it delayed and value whose it is (0: a, 1: b).
///   `msn_jump`, `segmentation`: value is the MSN, MO or TO that was to come, found what came.
///   `opcode_sequence`: value is the RDMAP opcode, found the queue number (untagged).
///   `read_limit`: value is the limit, found how many were outstanding.
///   `stall`: frame and last_frame stand before and after the silence; cause window: from the zero window to its
///   opening.

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
  std::uint32_t connections = 1U << 14;   ///< so many are kept at once; then one that was idle for long goes
  std::uint32_t messages = 1U << 10;      ///< that wait for their answer, by direction
  std::uint32_t all_messages = 1U << 17;  ///< likewise, of all connections
  std::int64_t stall = 200'000'000;       ///< silence from this on is an event; nanoseconds
  bool packets = false;                   ///< tell Sink::packet
  bool transport = false;                 ///< tell Sink::stream
};

class IwarpTracker {
 public:
  explicit IwarpTracker(Sink& sink, const IwarpLimits& limits = {});
  ~IwarpTracker();
  IwarpTracker(const IwarpTracker&) = delete;
  IwarpTracker& operator=(const IwarpTracker&) = delete;

  /// Packets as tracking::Dissector gives them, in the capture's order, frame numbers rising. Those whose TCP
  /// connection is not known to be iWARP cost one comparison.
  void add(const Packet& packet) {
    if (packet.tcp.connection) follow(packet);
  }
  /// What waits is told, every connection says farewell.
  void finish();

  /// Connections and waiting messages that had to go for want of room.
  [[nodiscard]] std::uint64_t evicted() const;
  /// Bytes of memory that are held, about.
  [[nodiscard]] std::size_t memory() const;
  /// Connections that are held.
  [[nodiscard]] std::size_t size() const;

 private:
  void follow(const Packet& packet);
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::tracking
