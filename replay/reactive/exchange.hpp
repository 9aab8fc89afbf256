#pragma once
/// What the two ends of a captured connection said to each other, message by message: what is to be said again to a
/// live peer, and what the captured one answered.

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

/// A packet of the capture, whole; of iWARP a DDP segment (a ULPDU of MPA), and of `t` the frame in which it ends.
struct CapturedPacket {
  ByteVector bytes;             ///< from Ethernet on
  tracking::TransportPacket t;  ///< what it says; `t.frame` is its number in the capture
  [[nodiscard]] Bytes payload() const { return Bytes(bytes).subspan(t.payload_at, t.payload); }
};

/// A request of one end, with what carries it and, of a READ or an atomic, what answered it.
struct Message {
  tracking::MessageKind kind = tracking::MessageKind::send;
  ByteVector payload;  ///< sent or written; of a READ what was read
  bool has_immediate = false, has_invalidate = false, solicited = false;
  std::uint64_t immediate = 0;  ///< 32 bits; iWARP: 64 (RFC 7306, 6)
  std::uint32_t invalidated_key = 0;
  bool has_remote = false;
  std::uint64_t remote_address = 0;
  std::uint32_t key = 0;                          ///< rkey or STag
  std::uint32_t length = 0;                       ///< bytes: sent, written, asked for
  std::uint64_t operand = 0, compare = 0;         ///< of an atomic
  std::uint64_t original = 0;                     ///< what an atomic's answer said
  bool refused = false;                           ///< by a NAK other than a sequence error
  bool has_answer = false;                        ///< a READ's or an atomic's answer is there, whole
  std::uint32_t first = 0;                        ///< PSN, relative to its direction's first
  std::uint32_t psns = 1;                         ///< that it takes
  std::vector<CapturedPacket> packets, answers;   ///< each PSN once, in order
  std::uint64_t first_frame = 0, last_frame = 0;  ///< of its packets, as they were first seen
  std::uint64_t answer_frame = 0;                 ///< of the last one of `answers`

  // What had happened before its first packet left.
  std::size_t after_messages = 0;  ///< messages of the other end that had arrived whole
  std::uint32_t after_psn = 0;     ///< PSNs of this direction that were acknowledged, relative; those before it
  std::size_t after_reads = 0;     ///< iWARP: READs of this direction that were answered whole

  [[nodiscard]] std::uint32_t end() const { return first + psns; }
  [[nodiscard]] bool is_read() const { return kind == tracking::MessageKind::read; }
  [[nodiscard]] bool is_atomic() const {
    return kind == tracking::MessageKind::compare_swap || kind == tracking::MessageKind::fetch_add;
  }
  /// Takes a receive request at the other end.
  [[nodiscard]] bool takes_receive() const { return kind == tracking::MessageKind::send || has_immediate; }
};

/// What the other end answered to a direction's requests, but for what is in Message::answers.
struct CapturedAnswer {
  std::uint64_t frame = 0;
  std::int64_t psn = 0;  ///< relative
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  ///< as it stood there
  bool cnp = false;       ///< a congestion notification, which has no PSN

  [[nodiscard]] bool refuses() const {
    return !cnp && syndrome >> 5 == syndrome_kind::nak && (syndrome & 31) != nak_code::psn_sequence_error;
  }
};

/// The requests of one end, and what was answered.
struct Requests {
  Psn first;  ///< of the requests
  std::vector<Message> messages;
  std::vector<CapturedAnswer> answers;      ///< in the capture's order
  std::uint32_t psns = 0;                   ///< that all messages take
  std::uint32_t retransmitted_packets = 0;  ///< captured request packets that were sent again, and are not replayed
};

/// How a stream of iWARP was set up: the MPA frames, whole. RFC 5044, 7.1.1.
struct MpaSetup {
  bool ours_initiates = false;
  ByteVector request, reply;
};

/// One connection of a capture, seen from one of its ends.
struct Exchange {
  tracking::Connection connection;
  std::uint32_t number = 0;  ///< the capture's n-th connection, from 1
  tracking::Side side = tracking::Side::a;
  std::uint32_t mtu = 0;                ///< bytes of payload a packet
  Requests ours, theirs;                ///< requests of the captured side that is played; of its peer
  std::vector<std::string> notes;       ///< what of the capture cannot be played, and was left out
  std::optional<CapturedPacket> model;  ///< a packet of ours, for what has to be made
  std::optional<MpaSetup> mpa;          ///< of iWARP; there PSNs are not used

  [[nodiscard]] bool is_iwarp() const { return connection.service == tracking::Service::iwarp; }
  /// Nobody acknowledges, and nothing is sent again: UC.
  [[nodiscard]] bool is_unreliable() const { return connection.service == tracking::Service::uc; }
};

struct ExchangeOptions {
  std::uint32_t connection = 0;                  ///< the capture's n-th, from 1; 0: the one with most bytes
  std::optional<tracking::Side> side{};          ///< which end is played; nothing: the one that asked for or sent more
  std::uint32_t mtu = 0;                         ///< path MTU that messages of RC are cut anew for; 0: the capture's
  std::size_t max_bytes = std::size_t{1} << 30;  ///< of packets that are kept
};

/// What is wrong with a capture, one sentence.
struct ExchangeError {
  bool usage = false;  ///< it is the choice of the connection that is wrong
  std::string message;
};

/// The connections of a capture that can be chosen, in the order of their first frames.
tl::expected<std::vector<tracking::Connection>, ExchangeError> connections_of(const std::string& file);
/// "connection 3: QP 0x11 → 0x12  10.0.0.2 → 10.0.0.3, 50 messages and 400 KiB from a, …"
std::string describe(const tracking::Connection& connection, std::uint32_t number);

/// Reads a connection of RC or UC over Ethernet, or of iWARP, out of a capture.
tl::expected<Exchange, ExchangeError> read_exchange(const std::string& file, const ExchangeOptions& options);

}  // namespace rdmawire::replay::reactive
