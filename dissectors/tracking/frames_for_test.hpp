#pragma once
/// For tests only: builds valid and invalid RoCEv2 frames, and converts a tracker's reports to short texts.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/tracking/connection.hpp"

namespace rdmawire::tracking::testing {

/// RC opcodes. Those of UC, UD and XRC have the same low bits.
namespace rc {
inline constexpr std::uint8_t send_first = 0x00, send_middle = 0x01, send_last = 0x02, send_last_immediate = 0x03,
                              send = 0x04, send_immediate = 0x05, write_first = 0x06, write_middle = 0x07,
                              write_last = 0x08, write_last_immediate = 0x09, write = 0x0a, write_immediate = 0x0b,
                              read = 0x0c, response_first = 0x0d, response_middle = 0x0e, response_last = 0x0f,
                              response_only = 0x10, acknowledge = 0x11, atomic_acknowledge = 0x12, compare_swap = 0x13,
                              fetch_add = 0x14, send_last_invalidate = 0x16, send_invalidate = 0x17;
}  // namespace rc
inline constexpr std::uint8_t uc = 0x20, ud = 0x60, xrc = 0xa0;  ///< offsets to add to an RC opcode
inline constexpr std::uint8_t congestion_notification = 0x81;

/// AETH syndromes.
inline constexpr std::uint8_t ack = Syndrome::ack().bits();  ///< without credits
constexpr std::uint8_t rnr(std::uint8_t timer) { return Syndrome::rnr_nak(timer).bits(); }
constexpr std::uint8_t nak(std::uint8_t code) { return Syndrome::nak(code).bits(); }

inline constexpr std::uint32_t host_a = 0x0a000001, host_b = 0x0a000002;

/// A raw IPv4 datagram: UDP to port 4791, BTH, the extension headers of the opcode, a payload of zeros, ICRC.
struct RdmaFrame {
  std::uint8_t opcode = rc::send;
  std::uint32_t from = host_a, to = host_b;
  std::uint32_t qp = 0;
  std::uint32_t psn = 0;
  std::uint32_t payload = 0;  ///< bytes
  bool ack_request = false, solicited = false;
  std::uint8_t syndrome = ack;
  std::uint32_t msn = 0;
  std::uint64_t address = 0x1000;
  std::uint32_t key = 0x77;
  std::uint32_t length = 0;
  std::uint64_t swap = 0, compare = 0;  ///< swap: in an atomic response, the original value
  std::uint32_t immediate = 0;          ///< immediate data, or the invalidated R_Key
  std::uint32_t source_qp = 0, qkey = 0;
  std::uint16_t source_port = 0xc123, identification = 0, pkey = 0xffff;
  std::uint8_t traffic_class = 0;
  std::uint32_t icrc = 0x11223344;
  bool vendor = false;  ///< adds Mellanox's DC header after the BTH

  static constexpr std::size_t headers = 20 + 8 + 12, most = headers + 64 + 4096 + 4;

  /// Writes the frame, at most `most` bytes, if the payload is at most 4096 bytes. Returns the number of bytes.
  std::size_t write(std::uint8_t* out) const {
    const Opcode& op = rdmawire::opcode(opcode);
    std::uint8_t* at = out + headers;
    const auto number = [&](unsigned bytes, std::uint64_t value) {
      store_be(at, bytes, value);
      at += bytes;
    };
    if (vendor) {
      number(1, 0x11);
      number(3, source_qp);
      std::memset(at, 0, 16);
      at += 16;
    } else {
      for (const HeaderInfo* header : op.extension_headers()) {
        if (header == &info<Reth>) {
          number(8, address);
          number(4, key);
          number(4, length);
        } else if (header == &info<Aeth>) {
          number(1, syndrome);
          number(3, msn);
        } else if (header == &info<AtomicEth>) {
          number(8, address);
          number(4, key);
          number(8, swap);
          number(8, compare);
        } else if (header == &info<AtomicAckEth>) {
          number(8, swap);
        } else if (header == &info<ImmDt> || header == &info<Ieth>) {
          number(4, immediate);
        } else if (header == &info<Deth>) {
          number(4, qkey);
          number(4, source_qp);
        } else {
          for (std::size_t i = 0; i < header->size; ++i) *at++ = 0;
        }
      }
    }
    const std::uint32_t pad = (4 - payload % 4) % 4;
    std::memset(at, 0, payload + pad);
    at += payload + pad;
    number(4, icrc);
    const auto size = static_cast<std::size_t>(at - out);
    std::memset(out, 0, headers);
    out[0] = 0x45;
    out[1] = traffic_class;
    store_be(out + 2, 2, size);
    store_be(out + 4, 2, identification);
    out[8] = 64;
    out[9] = 17;
    store_be(out + 12, 4, from);
    store_be(out + 16, 4, to);
    store_be(out + 20, 2, source_port);
    store_be(out + 22, 2, 4791);
    store_be(out + 24, 2, size - 20);
    out[28] = opcode;
    out[29] = static_cast<std::uint8_t>((solicited ? 0x80 : 0) | pad << 4);
    store_be(out + 30, 2, pkey);
    store_be(out + 33, 3, qp);
    out[36] = ack_request ? 0x80 : 0;
    store_be(out + 37, 3, psn);
    return size;
  }
};

/// Returns the kind, and the cause if there is one: "nak remote_access_error".
inline std::string name_of(const Event& e) {
  std::string text(to_string(e.kind));
  if (e.cause != Cause::none) text += " " + std::string(to_string(e.cause));
  return text;
}

/// Records everything that is reported.
struct Recorder final : Sink {
  struct ClosedConnection {
    Connection connection;
    CloseReason why;
  };
  void event(const Connection*, const Event& e) override { events.push_back(e); }
  void message(const Connection&, const Message& m) override { messages.push_back(m); }
  void connection(const Connection& c, CloseReason why) override { farewells.push_back({c, why}); }
  void packet(const Connection&, std::uint64_t frame, const PacketNote& note) override {
    notes.resize(std::max<std::size_t>(notes.size(), frame + 1));
    notes[frame] = note;
    ++packets;
  }

  /// Returns all events as texts, such as "retransmission timeout".
  [[nodiscard]] std::vector<std::string> event_texts() const {
    std::vector<std::string> lines;
    for (const Event& e : events) lines.push_back(name_of(e));
    return lines;
  }
  /// Returns all messages as texts, such as "send completed 2-4".
  [[nodiscard]] std::vector<std::string> message_texts() const {
    std::vector<std::string> lines;
    for (const Message& m : messages)
      lines.push_back(std::string(to_string(m.kind)) + " " + std::string(to_string(m.outcome)) + " " +
                      std::to_string(m.first_frame) + "-" + std::to_string(m.last_frame));
    return lines;
  }
  [[nodiscard]] const Event& of(EventKind kind) const {
    static const Event no_such_event;
    for (const Event& e : events)
      if (e.kind == kind) return e;
    return no_such_event;
  }
  [[nodiscard]] std::size_t count(EventKind kind) const {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [&](const Event& e) { return e.kind == kind; }));
  }

  std::vector<Event> events;
  std::vector<Message> messages;
  std::vector<ClosedConnection> farewells;
  std::vector<PacketNote> notes;  ///< by frame
  std::uint64_t packets = 0;
};

}  // namespace rdmawire::tracking::testing
