// Tracks iWARP connections that are built from arbitrary bytes: segments, acknowledgements, FPDUs and resets.
// Requirements: tracking terminates, refers only to frames that were passed, and stays within its memory limits.

#include <cstdlib>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/iwarp_tracker.hpp"

using namespace rdmawire;
using namespace rdmawire::tracking;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

struct Judge final : Sink {
  std::uint64_t now = 0;  // number of the current frame
  std::uint64_t connections = 0;
  void known(std::uint64_t frame) const { require(frame <= now); }
  void message(const Connection& c, const Message& m) override {
    require(m.connection == c.id && m.number != 0);
    require(m.first_frame != 0);
    for (const std::uint64_t frame : {m.first_frame, m.last_frame, m.first_response_frame, m.answer_frame})
      known(frame);
    require(m.packets != 0);
    if (m.outcome == Outcome::completed) require(m.answer_frame != 0);
    if (m.outcome == Outcome::unanswered) require(m.answer_frame == 0);
  }
  void event(const Connection* c, const Event& e) override {
    require(c != nullptr && e.connection == c->id);
    require(e.frame != 0 && e.frame <= e.last_frame && e.duration >= 0);
    for (const std::uint64_t frame : {e.frame, e.last_frame, e.origin_frame, e.cause_frame}) known(frame);
    require(static_cast<std::size_t>(e.kind) < event_kinds && static_cast<std::size_t>(e.cause) < causes);
  }
  void connection(const Connection& c, CloseReason) override {
    ++connections;
    require(c.id == c.first_frame && c.first_frame <= c.last_frame);
    known(c.last_frame);
    for (const Sent& s : c.sent) require(s.messages_completed + s.messages_refused <= s.packets + s.requests);
  }
  void packet(const Connection& c, std::uint64_t frame, const PacketNote& note) override {
    require(frame == now && note.connection == c.id);
    known(note.related_frame);
  }
};

// Returns the bytes of the input one by one. Returns zeros at its end.
struct Source {
  const std::uint8_t* data;
  std::size_t left;
  std::uint8_t byte() {
    if (left == 0) return 0;
    --left;
    return *data++;
  }
};

// Writes an FPDU with small field values, so that several FPDUs often have equal values.
std::size_t fpdu(Source& source, std::uint8_t* out) {
  const std::uint8_t kind = source.byte();
  const RdmapOpcode& opcode = rdmap_opcode(static_cast<std::uint8_t>(kind & 15));
  const bool tagged = opcode.tagged != ((kind & 0x30) == 0x30);
  std::uint8_t* at = out + 2;
  *at++ = static_cast<std::uint8_t>((tagged ? 0x80 : 0) | (kind & 0x40 ? 0 : 0x40) | 1);
  *at++ = static_cast<std::uint8_t>(0x40 | (kind & 15));
  const auto number = [&](std::size_t bytes, std::uint64_t value) {
    store_be(at, static_cast<unsigned>(bytes), value);
    at += bytes;
  };
  if (tagged) {
    number(4, source.byte() & 3);
    number(8, source.byte());
  } else {
    number(4, 0);
    number(4, kind & 0x80 ? source.byte() & 3 : opcode.queue);
    number(4, source.byte() & 15);
    number(4, kind & 0x80 ? source.byte() : 0);
  }
  if (opcode.header == &info<RdmapReadRequest>) {
    number(4, source.byte() & 3);
    number(8, source.byte());
    number(4, source.byte());
    number(4, 0);
    number(8, 0);
  } else if (opcode.header == &info<RdmapAtomicRequest>) {
    number(4, source.byte() & 3);
    number(4, source.byte() & 3);
    for (int i = 0; i < 44; ++i) *at++ = 0;
  } else if (opcode.header == &info<RdmapAtomicResponse>) {
    number(4, source.byte() & 3);
    number(8, 1);
  } else if (opcode.header == &info<Terminate>) {
    for (int i = 0; i < 3; ++i) *at++ = source.byte();
    for (int i = 0; i < 30; ++i) *at++ = source.byte();
  } else {
    for (int n = source.byte() & 127; n > 0; --n) *at++ = 0x55;
  }
  const auto length = static_cast<std::uint32_t>(at - out - 2);
  store_be(out, 2, length);
  const std::uint32_t whole = mpa::fpdu_bytes(length);
  while (at < out + whole) *at++ = 0;
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Judge judge;
  Dissector dissector;
  IwarpLimits limits;
  limits.connections = 3;
  limits.messages = 16;
  limits.all_messages = 40;
  limits.packets = true;
  IwarpTracker tracker(judge, limits);
  Packet packet;
  packet.link = LinkType::raw_ip;
  packet.time_ns = 1;
  std::uint8_t frame[52 + 1024];
  std::uint32_t next[8][2];
  for (auto& n : next) {
    n[0] = 0xffffff00;
    n[1] = 1000;
  }
  Source source{data, size};
  const auto segment = [&](unsigned port, bool from_server, std::uint32_t seq, std::size_t length, std::uint8_t flags,
                           std::uint32_t ack, std::uint16_t window) {
    std::memset(frame, 0, 52);
    frame[0] = 0x45;
    store_be(frame + 2, 2, 52 + length);
    store_be(frame + 4, 2, packet.number);
    frame[9] = ip_protocol::tcp;
    frame[15] = from_server;
    frame[19] = !from_server;
    const std::uint64_t client = 40000 + port;
    store_be(frame + 20, 2, from_server ? 4210 : client);
    store_be(frame + 22, 2, from_server ? client : 4210);
    store_be(frame + 24, 4, seq);
    store_be(frame + 28, 4, ack);
    frame[32] = 0x80;
    frame[33] = flags;
    store_be(frame + 34, 2, window);
    // Adds the timestamps option, or a selective acknowledgement of the next bytes.
    frame[40] = frame[41] = 1;
    frame[42] = window & 1 ? 5 : 8;
    frame[43] = 10;
    store_be(frame + 44, 4, window & 1 ? ack + 10 : static_cast<std::uint32_t>(packet.time_ns >> 20));
    store_be(frame + 48, 4, window & 1 ? ack + 20 : 0);
    judge.now = ++packet.number;
    dissector.dissect(packet, Bytes(frame, 52 + length), static_cast<std::uint32_t>(52 + length));
    tracker.add(packet);
    require(tracker.size() <= 3);
    require(tracker.memory() < (256U << 10));
  };
  while (source.left) {
    const std::uint8_t control = source.byte();
    const bool from_server = control & 1;
    const unsigned port = control >> 1 & 3;
    std::uint32_t& mine = next[port][from_server];
    const std::uint32_t others = next[port][!from_server];
    std::size_t length = 0;
    std::uint8_t flags = 0x10;
    std::uint32_t seq = mine, ack = others;
    bool advance = true;
    switch (control >> 3 & 7) {
      case 0: {  // an MPA frame, which sometimes limits READs
        const std::string_view key = from_server ? mpa::reply_key : mpa::request_key;
        std::memcpy(frame + 52, key.data(), key.size());
        const std::uint8_t how = source.byte();
        frame[52 + 16] = static_cast<std::uint8_t>((how & 1 ? 0x10 : 0) | (how == 0x7e ? 0x20 : 0));
        frame[52 + 17] = how & 1 ? 2 : 1;
        store_be(frame + 52 + 18, 2, 4);
        store_be(frame + 52 + 20, 4, 0x00010001);
        length = 24;
        break;
      }
      case 1:
      case 2: length = fpdu(source, frame + 52); break;
      case 3: {  // several FPDUs
        for (int i = source.byte() & 3; i >= 0 && length < 600; --i) length += fpdu(source, frame + 52 + length);
        break;
      }
      case 4:  // bytes that are repeated, or start at a later offset
        seq += static_cast<std::uint32_t>(static_cast<std::int8_t>(source.byte())) * 4;
        length = fpdu(source, frame + 52);
        advance = false;
        break;
      case 5:  // an acknowledgement of any kind
        ack += static_cast<std::uint32_t>(static_cast<std::int8_t>(source.byte())) * 4;
        break;
      case 6:
        length = source.byte();
        for (std::size_t i = 0; i < length; ++i) frame[52 + i] = source.byte();
        break;
      default:
        flags = static_cast<std::uint8_t>(source.byte() & 0x17);
        seq += static_cast<std::uint32_t>(static_cast<std::int8_t>(source.byte()));
        advance = false;
    }
    if (control & 0x40) packet.time_ns += std::int64_t{source.byte()} << 20;
    ++packet.time_ns;
    segment(port, from_server, seq, length, flags, ack,
            control & 0x80 ? static_cast<std::uint16_t>(source.byte()) : 9000);
    if (advance) mine = seq + static_cast<std::uint32_t>(length);
  }
  tracker.finish();
  require(tracker.size() == 0);
  return 0;
}
