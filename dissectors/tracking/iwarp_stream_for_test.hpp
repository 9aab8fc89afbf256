#pragma once
/// Helpers for tests of the iWARP tracker. They record its results, and build FPDUs and TCP segments.

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/iwarp_tracker.hpp"

namespace rdmawire::tracking::iwarp_test {

using ByteVector = std::vector<std::uint8_t>;

struct Recording final : Sink {
  std::vector<Message> messages;
  std::vector<Event> events;
  std::vector<Connection> connections;
  std::vector<CloseReason> farewells;
  std::vector<PacketNote> notes;

  void message(const Connection& c, const Message& m) override {
    EXPECT_EQ(m.connection, c.id);
    messages.push_back(m);
  }
  void event(const Connection* c, const Event& e) override {
    ASSERT_NE(c, nullptr);
    EXPECT_EQ(e.connection, c->id);
    EXPECT_LE(e.frame, e.last_frame);
    events.push_back(e);
  }
  void connection(const Connection& c, CloseReason close_reason) override {
    connections.push_back(c);
    farewells.push_back(close_reason);
  }
  void packet(const Connection&, std::uint64_t, const PacketNote& note) override { notes.push_back(note); }

  [[nodiscard]] std::vector<Event> of(EventKind kind) const {
    std::vector<Event> found;
    for (const Event& e : events)
      if (e.kind == kind) found.push_back(e);
    return found;
  }
  /// Returns the number of events by kind, without those of normal operation.
  [[nodiscard]] std::map<std::string_view, int> trouble() const {
    std::map<std::string_view, int> found;
    for (const Event& e : events)
      if (e.kind != EventKind::opened && e.kind != EventKind::closed) found[to_string(e.kind)]++;
    return found;
  }
  /// Returns the messages of one endpoint of a connection as texts such as "send completed 16×512", with their number.
  [[nodiscard]] std::map<std::string, int> summary(std::uint64_t connection, Side end) const {
    std::map<std::string, int> found;
    for (const Message& m : messages)
      if (m.connection == connection && m.end == end)
        found[std::string(to_string(m.kind)) + " " + std::to_string(m.size) + " " +
              std::string(to_string(m.outcome))]++;
    return found;
  }
};

/// A client 10.0.0.3:40000 (endpoint a) and a server 10.0.0.2:4210 (endpoint b). The time advances by a microsecond per
/// packet, unless the caller specifies it.
class Talk {
 public:
  Recording recorded;
  Dissector dissector;
  IwarpTracker tracker;
  Packet packet;
  std::uint32_t next[2] = {5000, 900000};  // sequence numbers
  std::uint16_t port = 40000;

  struct With {
    bool syn = false, ack = true, rst = false, fin = false;
    std::optional<std::uint32_t> acknowledged = {};
    std::uint16_t window = 1000;
    std::uint16_t identification = 0;
    std::vector<std::uint32_t> sack = {};  // left, right
    std::optional<std::uint32_t> timestamp = {};
  };

  explicit Talk(const IwarpLimits& limits = {}) : tracker(recorded, limits) { packet.time_ns = 1'000'000'000; }

  /// Sends a segment. Returns its frame number.
  std::uint64_t raw(Side from, std::uint32_t seq, Bytes data, const With& with) {
    const bool client = from == Side::a;
    Value<Tcp> tcp;
    tcp.set<"src_port">(client ? port : 4210).set<"dst_port">(client ? 4210 : port).set<"seq">(seq);
    tcp.set<"ack_number">(with.acknowledged.value_or(next[client])).set<"ack">(with.ack).set<"syn">(with.syn);
    tcp.set<"rst">(with.rst).set<"fin">(with.fin).set<"window">(with.window);
    HeaderValue header = tcp;
    ByteVector options;
    const auto put = [&](std::initializer_list<std::uint8_t> bytes, std::initializer_list<std::uint32_t> words) {
      options.insert(options.end(), bytes);
      for (const std::uint32_t word : words)
        for (int shift = 24; shift >= 0; shift -= 8) options.push_back(static_cast<std::uint8_t>(word >> shift));
    };
    if (with.timestamp) put({1, 1, 8, 10}, {*with.timestamp, 0});
    if (!with.sack.empty()) put({1, 1, 5, 10}, {with.sack[0], with.sack[1]});
    if (!options.empty()) header.set_tail(options);
    Frame frame = Value<Ipv4>()
                      .set<"src">(client ? 0x0a000003 : 0x0a000002)
                      .set<"dst">(client ? 0x0a000002 : 0x0a000003)
                      .set<"identification">(with.identification) /
                  header;
    frame.payload.assign(data.begin(), data.end());
    bytes_ = frame.encode();
    packet.link = LinkType::raw_ip;
    ++packet.number;
    packet.time_ns += 1000;
    dissector.dissect(packet, bytes_, static_cast<std::uint32_t>(bytes_.size()));
    tracker.add(packet);
    return packet.number;
  }
  /// Sends the next bytes of a stream. Returns the frame number.
  std::uint64_t say(Side from, Bytes data, const With& with) {
    std::uint32_t& seq = next[static_cast<std::size_t>(from)];
    seq += static_cast<std::uint32_t>(data.size());
    return raw(from, seq - static_cast<std::uint32_t>(data.size()), data, with);
  }
  std::uint64_t say(Side from, Bytes data) { return say(from, data, {}); }
  std::uint64_t ack(Side from) { return raw(from, next[static_cast<std::size_t>(from)], {}, {}); }
  void wait(std::int64_t nanoseconds) { packet.time_ns += nanoseconds; }

  static ByteVector mpa(bool request, bool reject = false, std::optional<std::pair<int, int>> ird_ord = {}) {
    Value<MpaFrame> frame;
    const std::string_view key = request ? mpa::request_key : mpa::reply_key;
    frame.set<"key">(Bytes(reinterpret_cast<const std::uint8_t*>(key.data()), key.size()));
    frame.set<"crc">(1).set<"reject">(reject).set<"revision">(ird_ord ? 2 : 1).set<"enhanced">(ird_ord.has_value());
    HeaderValue value = frame;
    ByteVector tail{'h', 'i', '!'};
    if (ird_ord) {
      ByteVector data(4);
      store_be(data.data(), 2, static_cast<std::uint64_t>(ird_ord->first));
      store_be(data.data() + 2, 2, static_cast<std::uint64_t>(ird_ord->second));
      tail.insert(tail.begin(), data.begin(), data.end());
    }
    value.set_tail(tail);
    Frame out;
    out /= value;
    return out.encode();
  }
  void open() {
    raw(Side::a, next[0]++, {}, {.syn = true, .ack = false});
    raw(Side::b, next[1]++, {}, {.syn = true});
    ack(Side::a);
  }
  void establish(std::optional<std::pair<int, int>> a = {}, std::optional<std::pair<int, int>> b = {}) {
    open();
    say(Side::a, mpa(true, false, a));
    say(Side::b, mpa(false, false, b));
  }
  const Recording& finish() {
    tracker.finish();
    return recorded;
  }

 private:
  ByteVector bytes_;
};

inline ByteVector fpdu(Frame frame, std::size_t payload = 0) {
  frame.payload.assign(payload, 0x5a);
  return frame.encode();
}
inline auto control(RdmapOperation operation, bool last = true) {
  return Value<Fpdu>() / Value<Ddp>().set<"last">(last) /
         Value<Rdmap>().set<"opcode">(static_cast<std::uint8_t>(operation));
}
inline ByteVector send(std::uint32_t msn, std::size_t bytes, std::uint32_t mo = 0, bool last = true,
                       RdmapOperation operation = RdmapOperation::send, std::uint32_t invalidate = 0) {
  return fpdu(control(operation, last) /
                  Value<DdpUntagged>().set<"invalidate_stag">(invalidate).set<"qn">(0).set<"msn">(msn).set<"mo">(mo),
              bytes);
}
inline ByteVector write(std::uint32_t stag, std::uint64_t to, std::size_t bytes, bool last = true,
                        RdmapOperation operation = RdmapOperation::rdma_write) {
  return fpdu(control(operation, last) / Value<DdpTagged>().set<"stag">(stag).set<"to">(to), bytes);
}
inline ByteVector read(std::uint32_t msn, std::uint32_t sink, std::uint64_t sink_to, std::uint32_t size) {
  return fpdu(control(RdmapOperation::read_request) / Value<DdpUntagged>().set<"qn">(1).set<"msn">(msn) /
              Value<RdmapReadRequest>()
                  .set<"sink_stag">(sink)
                  .set<"sink_to">(sink_to)
                  .set<"size">(size)
                  .set<"src_stag">(0x77)
                  .set<"src_to">(0x7000));
}
inline ByteVector response(std::uint32_t sink, std::uint64_t to, std::size_t bytes, bool last = true) {
  return write(sink, to, bytes, last, RdmapOperation::read_response);
}
inline ByteVector join(std::initializer_list<ByteVector> parts) {
  ByteVector all;
  for (const ByteVector& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace rdmawire::tracking::iwarp_test
