#pragma once
/// Messages and responses of the two endpoints of a captured connection, as input of a reactive replay.

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/protocol/modular.hpp"
#include "dissectors/protocol/syndrome.hpp"
#include "dissectors/tracking/connection.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::replay::reactive {

using ByteVector = std::vector<std::uint8_t>;

/// A captured packet. For iWARP, a DDP segment (an MPA ULPDU) and the frame in which it ends.
struct CapturedPacket {
  ByteVector bytes;             ///< the frame, from the Ethernet header. iWARP: the ULPDU
  tracking::TransportPacket t;  ///< decoded headers. `t.frame` is the frame number in the capture
  [[nodiscard]] Bytes payload() const { return Bytes(bytes).subspan(t.payload_at, t.payload); }
};

/// A request of one endpoint: its packets and, for a READ or an atomic, its response.
struct Message {
  tracking::MessageKind kind = tracking::MessageKind::send;
  ByteVector payload;  ///< data that was sent, written or read
  bool has_immediate = false, has_invalidate = false, solicited = false;
  std::uint64_t immediate = 0;  ///< 32 bits. iWARP: 64 (RFC 7306, 6)
  std::uint32_t invalidated_key = 0;
  bool has_remote = false;
  std::uint64_t remote_address = 0;
  std::uint32_t key = 0;                          ///< rkey or STag
  std::uint32_t length = 0;                       ///< bytes sent, written or requested
  std::uint64_t operand = 0, compare = 0;         ///< atomics only
  std::uint64_t original = 0;                     ///< value in the atomic response
  bool refused = false;                           ///< by a NAK other than a PSN sequence error
  bool has_answer = false;                        ///< the capture contains the complete response of the READ or atomic
  std::uint32_t first = 0;                        ///< relative PSN
  std::uint32_t psns = 1;                         ///< number of PSNs
  std::vector<CapturedPacket> packets, answers;   ///< each PSN once, in order
  std::uint64_t first_frame = 0, last_frame = 0;  ///< first transmission of its packets
  std::uint64_t answer_frame = 0;                 ///< frame of the last packet in `answers`

  // The first packet is sent after these events:
  std::size_t after_messages = 0;  ///< completely received messages of the peer
  std::uint32_t after_psn = 0;     ///< exclusive end of the acknowledged PSNs of this direction, relative
  std::size_t after_reads = 0;     ///< iWARP: READs of this direction with a complete response

  [[nodiscard]] std::uint32_t end() const { return first + psns; }
  [[nodiscard]] bool is_read() const { return kind == tracking::MessageKind::read; }
  [[nodiscard]] bool is_atomic() const {
    return kind == tracking::MessageKind::compare_swap || kind == tracking::MessageKind::fetch_add;
  }
  /// True if the message consumes a receive work request of the peer.
  [[nodiscard]] bool takes_receive() const { return kind == tracking::MessageKind::send || has_immediate; }
};

/// A captured ACK, NAK or CNP. Responses with data are in Message::answers.
struct CapturedAnswer {
  std::uint64_t frame = 0;
  std::int64_t psn = 0;  ///< relative
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  ///< captured value
  bool cnp = false;       ///< congestion notification packet. Has no PSN

  [[nodiscard]] bool refuses() const {
    return !cnp && Syndrome(syndrome).is_nak() && !Syndrome(syndrome).is_nak(nak_code::psn_sequence_error);
  }
};

/// Requests of one endpoint, and the captured responses to them.
struct Requests {
  Psn first;  ///< PSN of the first request
  std::vector<Message> messages;
  std::vector<CapturedAnswer> answers;      ///< in capture order
  std::uint32_t psns = 0;                   ///< total number of PSNs
  std::uint32_t retransmitted_packets = 0;  ///< captured retransmissions, which are not replayed
};

/// MPA negotiation of an iWARP stream: the complete frames. RFC 5044, 7.1.1.
struct MpaSetup {
  bool ours_initiates = false;
  ByteVector request, reply;
};

/// A captured connection as seen from one endpoint.
struct Exchange {
  tracking::Connection connection;
  std::uint32_t number = 0;  ///< position in the capture, from 1
  tracking::Side side = tracking::Side::a;
  std::uint32_t mtu = 0;                ///< payload bytes per packet
  Requests ours, theirs;                ///< requests of the emulated side, and of its peer
  std::vector<std::string> notes;       ///< parts of the capture that are skipped
  std::optional<CapturedPacket> model;  ///< a local packet, used as the template of packets that are not in the capture
  std::optional<MpaSetup> mpa;          ///< iWARP only. PSNs are unused

  [[nodiscard]] bool is_iwarp() const { return connection.service == tracking::Service::iwarp; }
  /// True for UC: no acknowledgements and no retransmissions.
  [[nodiscard]] bool is_unreliable() const { return connection.service == tracking::Service::uc; }
};

struct ExchangeOptions {
  std::uint32_t connection = 0;          ///< position in the capture, from 1. 0: the connection with the most bytes
  std::optional<tracking::Side> side{};  ///< emulated side. nullopt: the side that sent or requested more bytes
  std::uint32_t mtu = 0;                 ///< path MTU to resegment RC messages to. 0: the captured path MTU
  std::size_t max_bytes = std::size_t{1} << 30;  ///< limit for the packets kept in memory
};

/// Why a capture cannot be replayed, in one sentence.
struct ExchangeError {
  bool usage = false;  ///< the file or the selected connection is an invalid argument
  std::string message;
};

/// Connections of a capture that can be selected, in the order of their first frames.
tl::expected<std::vector<tracking::Connection>, ExchangeError> connections_of(const std::string& file);
/// "connection 3: QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3, 50 messages and 400 KiB from a, …"
std::string describe(const tracking::Connection& connection, std::uint32_t number);

/// Reads an RC or UC connection over Ethernet, or an iWARP connection, from a capture.
tl::expected<Exchange, ExchangeError> read_exchange(const std::string& file, const ExchangeOptions& options);

}  // namespace rdmawire::replay::reactive
