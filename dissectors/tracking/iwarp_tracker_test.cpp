#include "dissectors/tracking/iwarp_tracker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "captures/io/reader.hpp"
#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "source_directory.hpp"

namespace rdmawire::tracking {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
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
  /// Counts the events by kind, without those of normal operation.
  [[nodiscard]] std::map<std::string_view, int> trouble() const {
    std::map<std::string_view, int> found;
    for (const Event& e : events)
      if (e.kind != EventKind::opened && e.kind != EventKind::closed) found[to_string(e.kind)]++;
    return found;
  }
  /// Returns the messages of one connection and endpoint: "send completed 16×512".
  [[nodiscard]] std::map<std::string, int> summary(std::uint64_t connection, Side end) const {
    std::map<std::string, int> found;
    for (const Message& m : messages)
      if (m.connection == connection && m.end == end)
        found[std::string(to_string(m.kind)) + " " + std::to_string(m.size) + " " +
              std::string(to_string(m.outcome))]++;
    return found;
  }
};

Recording track(const std::filesystem::path& path) {
  Recording recorded;
  auto reader = captures::Reader::open(path.string());
  if (!reader) {
    ADD_FAILURE() << path << " cannot be opened";
    return recorded;
  }
  Dissector dissector;
  IwarpTracker tracker(recorded);
  Packet packet;
  captures::Record record;
  while (reader->next(record) == captures::Next::record) {
    packet.number = record.number;
    packet.time_ns = record.time;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    tracker.add(packet);
  }
  tracker.finish();
  std::sort(recorded.connections.begin(), recorded.connections.end(),
            [](const Connection& a, const Connection& b) { return a.id < b.id; });
  EXPECT_EQ(tracker.size(), 0U);
  EXPECT_EQ(tracker.evicted(), 0U);
  return recorded;
}
const std::filesystem::path samples = std::filesystem::path(RDMAWIRE_SOURCE_DIR) / "captures" / "samples";

// Operations and lengths from tshark 4.0, which does not reassemble messages. The size of a message is the sum of
// its segments' lengths (ULPDU length minus 14 bytes of tagged, 18 of untagged header):
// tshark -r FILE -d tcp.port==0,data -T fields -e tcp.stream -e ip.src -e iwarp_rdma.opcode -e iwarp_ddp.last_flag
// -e iwarp_mpa.ulpdulength | sort | uniq -c
TEST(IwarpSamples, Write) {
  const Recording recorded = track(samples / "siw-write.pcap.gz");
  ASSERT_THAT(recorded.connections, SizeIs(2));
  const Connection& control = recorded.connections[0];
  const Connection& data = recorded.connections[1];
  EXPECT_EQ(data.service, Service::iwarp);
  EXPECT_EQ(data.paired_by, JoinedBy::stream);
  EXPECT_EQ(data.confidence, Confidence::certain);
  EXPECT_EQ(data.at(Side::a).qp, 43385U);
  EXPECT_EQ(data.at(Side::b).qp, 18515U);
  EXPECT_EQ(data.service_port, 18515);
  EXPECT_EQ(recorded.summary(data.id, Side::a), (std::map<std::string, int>{{"write 16384 completed", 50}}));
  EXPECT_EQ(recorded.summary(data.id, Side::b), (std::map<std::string, int>{}));
  EXPECT_EQ(data.by(Side::a).payload_bytes, 50 * 16384U);
  EXPECT_EQ(data.by(Side::a).requests, 600U);
  int sends = 0;
  for (const Side end : {Side::a, Side::b})
    for (const auto& [text, n] : recorded.summary(control.id, end)) {
      EXPECT_THAT(text, ::testing::EndsWith("completed"));
      sends += n;
    }
  EXPECT_EQ(sends, 32);
  EXPECT_EQ(recorded.of(EventKind::opened).size(), 2U);
  EXPECT_EQ(recorded.of(EventKind::closed).size(), 2U);
  auto trouble = recorded.trouble();
  trouble.erase("stall");  // the program waits for user input
  EXPECT_THAT(trouble, IsEmpty());
  for (const Message& m : recorded.messages) {
    EXPECT_GE(m.answer_time, m.end_time);
    EXPECT_GE(m.end_time, m.start);
  }
}

TEST(IwarpSamples, Send) {
  const Recording recorded = track(samples / "siw-send.pcap.gz");
  ASSERT_THAT(recorded.connections, SizeIs(2));
  EXPECT_EQ(recorded.summary(recorded.connections[1].id, Side::a),
            (std::map<std::string, int>{{"send 16384 completed", 50}}));
  EXPECT_EQ(recorded.summary(recorded.connections[1].id, Side::b),
            (std::map<std::string, int>{{"write 4 completed", 4}}));
  auto trouble = recorded.trouble();
  trouble.erase("stall");
  EXPECT_THAT(trouble, IsEmpty());
}

TEST(IwarpSamples, Read) {
  const Recording recorded = track(samples / "siw-read.pcap.gz");
  ASSERT_THAT(recorded.connections, SizeIs(2));
  const Connection& data = recorded.connections[1];
  EXPECT_EQ(recorded.summary(data.id, Side::a), (std::map<std::string, int>{{"read 16384 completed", 50}}));
  EXPECT_EQ(data.by(Side::b).payload_bytes, 50 * 16384U);
  EXPECT_EQ(data.by(Side::b).responses, 600U);
  std::uint32_t msn = 0;
  for (const Message& m : recorded.messages) {
    if (m.kind != MessageKind::read) continue;
    EXPECT_EQ(m.first_psn, ++msn);
    EXPECT_LE(m.first_frame, m.first_response_frame);
    EXPECT_LE(m.first_response_frame, m.answer_frame);
    EXPECT_EQ(m.packets, 13U);
  }
  auto trouble = recorded.trouble();
  trouble.erase("stall");
  EXPECT_THAT(trouble, IsEmpty());
}

TEST(IwarpSamples, Rping) {
  const Recording recorded = track(samples / "siw-rping.pcap");
  ASSERT_THAT(recorded.connections, SizeIs(1));
  const Connection& c = recorded.connections[0];
  EXPECT_EQ(recorded.summary(c.id, Side::a), (std::map<std::string, int>{{"send 16 completed", 40}}));
  EXPECT_EQ(recorded.summary(c.id, Side::b),
            (std::map<std::string, int>{
                {"read 4000 completed", 20}, {"send 16 completed", 40}, {"write 4000 completed", 20}}));
  // The first read: tshark -r siw-rping.pcap -Y 'frame.number==25 || frame.number==26 || frame.number==28'
  const auto read = std::find_if(recorded.messages.begin(), recorded.messages.end(),
                                 [](const Message& m) { return m.kind == MessageKind::read; });
  ASSERT_NE(read, recorded.messages.end());
  EXPECT_EQ(read->first_frame, 25U);
  EXPECT_EQ(read->first_response_frame, 26U);
  EXPECT_EQ(read->answer_frame, 28U);
  // MPA request and reply: tshark -r siw-rping.pcap -Y iwarp_mpa.req||iwarp_mpa.rep
  EXPECT_EQ(c.opened_frame, 22U);
  EXPECT_EQ(c.closed_frame, 304U);  // FIN
  EXPECT_THAT(recorded.trouble(), IsEmpty());
}

// Retransmissions, their bursts, and network loss before the capture, derived only from sequence and acknowledgement
// numbers. A segment below the highest byte so far is a retransmission: none of them has an older timestamp or a
// smaller IP identification. A recovery lasts until all bytes sent at its start are acknowledged:
// tshark -r siw-write-loss.pcap -Y tcp.stream==1 -T fields -e frame.number -e ip.src -e tcp.seq -e tcp.len -e
// tcp.ack -e tcp.options.timestamp.tsval -e ip.id
TEST(IwarpSamples, LossHasRecoveriesAndCauses) {
  const Recording recorded = track(samples / "siw-write-loss.pcap.gz");
  ASSERT_THAT(recorded.connections, SizeIs(2));
  const Connection& data = recorded.connections[1];
  EXPECT_EQ(recorded.summary(data.id, Side::a), (std::map<std::string, int>{{"write 16384 completed", 50}}));
  const std::vector<Event> rounds = recorded.of(EventKind::tcp_retransmission);
  struct Expected {
    std::uint64_t first, last, packets, bytes;
  };
  constexpr Expected expected[] = {{186, 198, 3, 3592}, {353, 355, 2, 2896}, {391, 391, 1, 696}, {538, 538, 1, 1448},
                                   {576, 576, 1, 1448}, {607, 610, 2, 2896}, {619, 619, 1, 696}, {632, 632, 1, 1448},
                                   {800, 814, 2, 2896}, {829, 829, 1, 1448}, {906, 906, 1, 1448}};
  ASSERT_EQ(rounds.size(), std::size(expected));
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i].frame, expected[i].first);
    EXPECT_EQ(rounds[i].last_frame, expected[i].last) << i;
    EXPECT_EQ(rounds[i].packets, expected[i].packets) << i;
    EXPECT_EQ(rounds[i].bytes, expected[i].bytes) << i;
    EXPECT_EQ(rounds[i].cause, Cause::fast_retransmit) << i;
    EXPECT_NE(rounds[i].cause_frame, 0U);
    EXPECT_LT(rounds[i].cause_frame, rounds[i].frame);
    EXPECT_GT(rounds[i].duration, 0);
    EXPECT_EQ(rounds[i].end, Side::a);
  }
  // Byte 87489 of the stream (relative, from 1) belongs to the sixth message: a message has 11 segments of 1448
  // bytes and one of 696, together 16624, after the 24 bytes of the MPA request and the SYN.
  EXPECT_EQ(rounds[0].found, 1 + (87489U - 25) / 16624);
  EXPECT_EQ(rounds[0].value, 0U);
  EXPECT_EQ(data.by(Side::a).retransmitted_packets, 16U);
  EXPECT_EQ(data.by(Side::a).retransmitted_bytes, 20912U);
  EXPECT_EQ(data.by(Side::a).rounds, 11U);
  EXPECT_EQ(data.by(Side::a).lost_in_network, 16U);
  std::uint64_t repeated = 0;
  for (const Message& m : recorded.messages) repeated += m.repeated_packets;
  EXPECT_EQ(repeated, 16U);
  auto trouble = recorded.trouble();
  trouble.erase("stall");
  EXPECT_EQ(trouble, (std::map<std::string_view, int>{{"tcp_retransmission", 11}, {"lost_in_network", 11}}));
}

// A client 10.0.0.3:40000 (endpoint a) and a server 10.0.0.2:4210 (endpoint b). Time advances by a microsecond per
// packet, or as specified.
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

  /// Returns the frame's number.
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
  /// Sends the next bytes of a stream.
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

ByteVector fpdu(Frame frame, std::size_t payload = 0) {
  frame.payload.assign(payload, 0x5a);
  return frame.encode();
}
auto control(RdmapOperation operation, bool last = true) {
  return Value<Fpdu>() / Value<Ddp>().set<"last">(last) /
         Value<Rdmap>().set<"opcode">(static_cast<std::uint8_t>(operation));
}
ByteVector send(std::uint32_t msn, std::size_t bytes, std::uint32_t mo = 0, bool last = true,
                RdmapOperation operation = RdmapOperation::send, std::uint32_t invalidate = 0) {
  return fpdu(control(operation, last) /
                  Value<DdpUntagged>().set<"invalidate_stag">(invalidate).set<"qn">(0).set<"msn">(msn).set<"mo">(mo),
              bytes);
}
ByteVector write(std::uint32_t stag, std::uint64_t to, std::size_t bytes, bool last = true,
                 RdmapOperation operation = RdmapOperation::rdma_write) {
  return fpdu(control(operation, last) / Value<DdpTagged>().set<"stag">(stag).set<"to">(to), bytes);
}
ByteVector read(std::uint32_t msn, std::uint32_t sink, std::uint64_t sink_to, std::uint32_t size) {
  return fpdu(control(RdmapOperation::read_request) / Value<DdpUntagged>().set<"qn">(1).set<"msn">(msn) /
              Value<RdmapReadRequest>()
                  .set<"sink_stag">(sink)
                  .set<"sink_to">(sink_to)
                  .set<"size">(size)
                  .set<"src_stag">(0x77)
                  .set<"src_to">(0x7000));
}
ByteVector response(std::uint32_t sink, std::uint64_t to, std::size_t bytes, bool last = true) {
  return write(sink, to, bytes, last, RdmapOperation::read_response);
}
ByteVector join(std::initializer_list<ByteVector> parts) {
  ByteVector all;
  for (const ByteVector& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(IwarpTracker, OpensAndCloses) {
  Talk talk;
  talk.open();
  talk.say(Side::a, Talk::mpa(true));
  talk.wait(5'000'000);
  talk.say(Side::b, Talk::mpa(false));
  talk.say(Side::a, send(1, 100));
  talk.ack(Side::b);
  talk.raw(Side::a, talk.next[0]++, {}, {.fin = true});
  talk.raw(Side::b, talk.next[1]++, {}, {.fin = true});
  talk.ack(Side::a);
  const Recording& recorded = talk.finish();
  ASSERT_THAT(recorded.connections, SizeIs(1));
  const Connection& c = recorded.connections[0];
  EXPECT_EQ(c.id, 4U);
  EXPECT_EQ(c.opened_frame, 5U);
  EXPECT_EQ(c.open_duration, 5'001'000);
  EXPECT_EQ(c.closed_frame, 8U);
  EXPECT_EQ(c.service_port, 4210);
  EXPECT_EQ(c.at(Side::a).qp, 40000U);
  EXPECT_EQ(c.at(Side::a).address, PortAddress::of_ipv4(0x0a000003));
  EXPECT_EQ(c.wire, Wire::iwarp);
  EXPECT_THAT(recorded.trouble(), IsEmpty());
  const auto opened = recorded.of(EventKind::opened);
  ASSERT_THAT(opened, SizeIs(1));
  EXPECT_EQ(opened[0].origin_frame, 4U);
  EXPECT_EQ(opened[0].end, Side::a);
  EXPECT_THAT(recorded.of(EventKind::closed), SizeIs(1));
  ASSERT_THAT(recorded.messages, SizeIs(1));
  EXPECT_EQ(recorded.messages[0].outcome, Outcome::completed);
  EXPECT_EQ(recorded.messages[0].answer_frame, 7U);
  EXPECT_EQ(recorded.farewells, std::vector{CloseReason::ended});
}

TEST(IwarpTracker, RejectedConnection) {
  Talk talk;
  talk.open();
  talk.say(Side::a, Talk::mpa(true));
  talk.say(Side::b, Talk::mpa(false, true));
  const auto rejected = talk.finish().of(EventKind::rejected);
  ASSERT_THAT(rejected, SizeIs(1));
  EXPECT_EQ(rejected[0].frame, 5U);
  EXPECT_EQ(rejected[0].origin_frame, 4U);
  EXPECT_EQ(rejected[0].bytes, 3U);
  EXPECT_EQ(rejected[0].value, 1U);
  EXPECT_EQ(rejected[0].end, Side::a);
  EXPECT_THAT(talk.recorded.of(EventKind::opened), IsEmpty());
}

TEST(IwarpTracker, SendVariants) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 0));
  talk.say(Side::a, join({send(2, 1000, 0, false), send(2, 500, 1000)}));
  talk.say(Side::a, send(3, 8, 0, true, RdmapOperation::send_se));
  talk.say(Side::a, send(4, 8, 0, true, RdmapOperation::send_invalidate, 0x1234));
  talk.say(Side::a, send(5, 8, 0, true, RdmapOperation::send_se_invalidate, 0x5678));
  talk.say(Side::a, fpdu(control(RdmapOperation::immediate_data) / Value<DdpUntagged>().set<"msn">(6) /
                         Value<RdmapImmediateData>().set<"data">(0x1122334455667788)));
  const auto& m = talk.finish().messages;
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
  ASSERT_THAT(m, SizeIs(6));
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(m[i].number, i + 1);
    EXPECT_EQ(m[i].first_psn, i + 1);
    EXPECT_EQ(m[i].kind, MessageKind::send);
    EXPECT_EQ(m[i].outcome, Outcome::sent) << "nobody acknowledged";
  }
  EXPECT_EQ(m[1].size, 1500U);
  EXPECT_EQ(m[1].packets, 2U);
  EXPECT_TRUE(m[2].solicited);
  EXPECT_FALSE(m[2].has_invalidate);
  EXPECT_TRUE(m[3].has_invalidate);
  EXPECT_EQ(m[3].invalidated_key, 0x1234U);
  EXPECT_TRUE(m[4].solicited);
  EXPECT_EQ(m[4].invalidated_key, 0x5678U);
  EXPECT_TRUE(m[5].has_immediate);
  EXPECT_EQ(m[5].immediate, 0x1122334455667788U);
  EXPECT_EQ(m[5].size, 0U);
}

TEST(IwarpTracker, MessageOfManyPacketsAndFpduAcrossPackets) {
  Talk talk;
  talk.establish();
  const ByteVector all = join({write(9, 0x1000, 1000, false), write(9, 0x13e8, 1000, false), write(9, 0x17d0, 24)});
  const Bytes bytes(all);
  const std::uint64_t first = talk.say(Side::a, bytes.first(500));
  talk.say(Side::a, bytes.subspan(500, 1200));
  const std::uint64_t last = talk.say(Side::a, bytes.subspan(1700));
  const std::uint64_t ack = talk.ack(Side::b);
  const auto& m = talk.finish().messages;
  ASSERT_THAT(m, SizeIs(1));
  EXPECT_EQ(m[0].kind, MessageKind::write);
  EXPECT_EQ(m[0].size, 2024U);
  EXPECT_EQ(m[0].key, 9U);
  EXPECT_EQ(m[0].remote_address, 0x1000U);
  EXPECT_EQ(m[0].first_frame, first);
  EXPECT_EQ(m[0].last_frame, last);
  EXPECT_EQ(m[0].answer_frame, ack);
  EXPECT_EQ(m[0].packets, 3U);
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
}

TEST(IwarpTracker, ReadResponsesMatchRequestOrder) {
  Talk talk;
  talk.establish();
  // All READs use the same buffer, so only the order distinguishes their responses.
  const std::uint64_t asked =
      talk.say(Side::a, join({read(1, 5, 0x100, 200), read(2, 5, 0x100, 50), read(3, 6, 0, 0)}));
  const std::uint64_t begins = talk.say(Side::b, response(5, 0x100, 120, false));
  const std::uint64_t ends = talk.say(Side::b, response(5, 0x100 + 120, 80));
  const std::uint64_t rest = talk.say(Side::b, join({response(5, 0x100, 50), response(0, 0, 0)}));
  const auto& m = talk.finish().messages;
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
  ASSERT_THAT(m, SizeIs(3));
  EXPECT_EQ(m[0].kind, MessageKind::read);
  EXPECT_EQ(m[0].outcome, Outcome::completed);
  EXPECT_EQ(m[0].size, 200U);
  EXPECT_EQ(m[0].key, 0x77U);
  EXPECT_EQ(m[0].remote_address, 0x7000U);
  EXPECT_EQ(m[0].first_frame, asked);
  EXPECT_EQ(m[0].first_response_frame, begins);
  EXPECT_EQ(m[0].answer_frame, ends);
  EXPECT_EQ(m[1].answer_frame, rest);
  EXPECT_EQ(m[2].answer_frame, rest);
  EXPECT_EQ(talk.recorded.connections[0].by(Side::a).messages_completed, 3U);
  EXPECT_EQ(talk.recorded.connections[0].by(Side::b).payload_bytes, 250U);
}

TEST(IwarpTracker, UnsolicitedResponse) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, read(1, 5, 0x100, 50));
  const std::uint64_t frame = talk.say(Side::b, response(7, 0x100, 50));
  const auto events = talk.finish().of(EventKind::unsolicited_response);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].end, Side::a);
  EXPECT_EQ(events[0].value, 7U);
}

TEST(IwarpTracker, ReadsWithoutResponse) {
  Talk talk;
  talk.establish();
  const std::uint64_t asked = talk.say(Side::a, join({read(1, 5, 0x100, 50), read(2, 5, 0x200, 60)}));
  talk.wait(400'000'000);
  talk.ack(Side::b);
  const auto events = talk.finish().of(EventKind::unanswered);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, asked);
  EXPECT_EQ(events[0].packets, 2U);
  EXPECT_EQ(events[0].bytes, 110U);
  const auto stalls = talk.recorded.of(EventKind::stall);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_EQ(stalls[0].cause, Cause::peer);
  EXPECT_EQ(stalls[0].end, Side::a);
  EXPECT_EQ(stalls[0].duration, 400'001'000);
  EXPECT_EQ(talk.recorded.messages[0].outcome, Outcome::unanswered);
}

TEST(IwarpTracker, AtomicsMatchByRequestIdentifier) {
  Talk talk;
  talk.establish();
  const auto request = [](std::uint32_t msn, unsigned operation, std::uint32_t id) {
    return fpdu(control(RdmapOperation::atomic_request) / Value<DdpUntagged>().set<"qn">(1).set<"msn">(msn) /
                Value<RdmapAtomicRequest>()
                    .set<"operation">(operation)
                    .set<"request_id">(id)
                    .set<"stag">(0x99)
                    .set<"to">(0x8000)
                    .set<"add_swap_data">(7)
                    .set<"compare_data">(3));
  };
  const auto answer = [](std::uint32_t msn, std::uint32_t id, std::uint64_t original) {
    return fpdu(control(RdmapOperation::atomic_response) / Value<DdpUntagged>().set<"qn">(3).set<"msn">(msn) /
                Value<RdmapAtomicResponse>().set<"request_id">(id).set<"original">(original));
  };
  talk.say(Side::a, join({request(1, 0, 0xa), request(2, 2, 0xb), request(3, 1, 0xc)}));
  const std::uint64_t first = talk.say(Side::b, answer(1, 0xb, 1000));
  talk.say(Side::b, join({answer(2, 0xa, 2000), answer(3, 0xc, 3000), answer(4, 0xd, 4000)}));
  const auto& m = talk.finish().messages;
  ASSERT_THAT(m, SizeIs(3));
  EXPECT_EQ(m[0].kind, MessageKind::compare_swap);
  EXPECT_EQ(m[0].atomic_original, 1000U);
  EXPECT_EQ(m[0].atomic_compare, 3U);
  EXPECT_EQ(m[0].answer_frame, first);
  EXPECT_EQ(m[0].size, 8U);
  EXPECT_EQ(m[1].kind, MessageKind::fetch_add);
  EXPECT_EQ(m[1].atomic_operand, 7U);
  EXPECT_EQ(m[1].key, 0x99U);
  EXPECT_EQ(m[2].kind, MessageKind::swap);
  EXPECT_EQ(m[2].remote_address, 0x8000U);
  EXPECT_EQ(talk.recorded.trouble(), (std::map<std::string_view, int>{{"unsolicited_response", 1}}));
}

TEST(IwarpTracker, TerminateFindsTheQuotedFpdu) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, write(9, 0x1000, 100, false));
  const std::uint64_t guilty = talk.say(Side::a, write(9, 0x1064, 100));
  talk.say(Side::a, send(1, 10));
  HeaderValue terminate = Value<Terminate>()
                              .set<"layer">(0)
                              .set<"etype">(1)
                              .set<"error_code">(2)
                              .set<"segment_length_valid">(1)
                              .set<"ddp_header_included">(1);
  ByteVector quoted{0, 114};  // the segment's length, then its DDP header
  const ByteVector fpdus = write(9, 0x1064, 100);
  quoted.insert(quoted.end(), fpdus.begin() + 2, fpdus.begin() + 2 + 14);
  terminate.set_tail(quoted);
  Frame frame = control(RdmapOperation::terminate) / Value<DdpUntagged>().set<"qn">(2);
  frame /= terminate;
  const std::uint64_t says = talk.raw(Side::b, talk.next[1], fpdu(frame), {.acknowledged = talk.next[0] - 200});
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(EventKind::terminate);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, says);
  EXPECT_EQ(events[0].value, 0x000102U);
  EXPECT_EQ(events[0].found, 6U);
  EXPECT_EQ(events[0].bytes, 114U);
  EXPECT_EQ(events[0].origin_frame, guilty);
  EXPECT_EQ(events[0].end, Side::a);
  const auto closed = recorded.of(EventKind::closed);
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_EQ(closed[0].cause_frame, says);
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::a),
            (std::map<std::string, int>{{"write 200 refused", 1}, {"send 10 sent", 1}}));
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::b),
            (std::map<std::string, int>{{"terminate 0 sent", 1}}));
  EXPECT_EQ(recorded.connections[0].by(Side::a).messages_refused, 1U);
  EXPECT_EQ(recorded.connections[0].closed_frame, says);
}

TEST(IwarpTracker, TerminatedReadRequestIsFoundByItsMsn) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, read(1, 5, 0x100, 50));
  const std::uint64_t guilty = talk.say(Side::a, read(2, 5, 0x100, 50));
  HeaderValue terminate = Value<Terminate>()
                              .set<"layer">(0)
                              .set<"etype">(1)
                              .set<"error_code">(1)
                              .set<"segment_length_valid">(1)
                              .set<"ddp_header_included">(1)
                              .set<"rdma_header_included">(1);
  ByteVector quoted{0, 46};
  const ByteVector request = read(2, 5, 0x100, 50);
  quoted.insert(quoted.end(), request.begin() + 2, request.begin() + 2 + 18 + 28);
  terminate.set_tail(quoted);
  Frame frame = control(RdmapOperation::terminate) / Value<DdpUntagged>().set<"qn">(2);
  frame /= terminate;
  talk.say(Side::b, response(5, 0x100, 50));
  talk.say(Side::b, fpdu(frame));
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(EventKind::terminate);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].origin_frame, guilty);
  EXPECT_EQ(events[0].psn, 2U);
  EXPECT_EQ(events[0].found, 7U);
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::a),
            (std::map<std::string, int>{{"read 50 completed", 1}, {"read 50 refused", 1}}));
  EXPECT_THAT(recorded.of(EventKind::unanswered), IsEmpty());
}

// Tests each error in an otherwise valid stream.
struct Fault {
  std::string name;
  std::vector<ByteVector> fpdus;
  EventKind kind;
  std::uint64_t value, found;
};
class Faults : public ::testing::TestWithParam<Fault> {};
TEST_P(Faults, IsReported) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 10));
  std::uint64_t frame = 0;
  for (const ByteVector& f : GetParam().fpdus) frame = talk.say(Side::a, f);
  talk.ack(Side::b);
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(GetParam().kind);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].value, GetParam().value);
  EXPECT_EQ(events[0].found, GetParam().found);
  EXPECT_EQ(events[0].end, Side::a);
  EXPECT_THAT(recorded.trouble(), SizeIs(1));
}
INSTANTIATE_TEST_SUITE_P(
    IwarpTracker, Faults,
    ::testing::Values(
        Fault{"msn_jump", {send(3, 10)}, EventKind::msn_jump, 2, 3},
        Fault{"msn_back", {send(1, 10)}, EventKind::msn_jump, 2, 1},
        Fault{"read_msn", {read(2, 1, 0, 10)}, EventKind::msn_jump, 1, 2},
        Fault{"mo_jump", {send(2, 10, 0, false), send(2, 10, 30)}, EventKind::segmentation, 10, 30},
        Fault{"mo_begins_late", {send(2, 10, 8)}, EventKind::segmentation, 0, 8},
        Fault{"to_jump", {write(4, 100, 10, false), write(4, 120, 10)}, EventKind::segmentation, 110, 120},
        Fault{"stag_changes", {write(4, 100, 10, false), write(5, 110, 10)}, EventKind::segmentation, 110, 110},
        Fault{"not_ended", {send(2, 10, 0, false), send(3, 10)}, EventKind::opcode_sequence, 3, 0},
        Fault{"opcode_changes",
              {send(2, 10, 0, false), send(2, 10, 10, true, RdmapOperation::send_se)},
              EventKind::opcode_sequence,
              5,
              0}),
    [](const auto& p) { return p.param.name; });

TEST(IwarpTracker, OpcodeOnWrongQueue) {
  Talk talk;
  talk.establish();
  // A Send on the queue of Read Requests. Each queue has its own message sequence numbers.
  talk.say(Side::a, fpdu(control(RdmapOperation::send) / Value<DdpUntagged>().set<"qn">(1).set<"msn">(1), 10));
  const auto events = talk.finish().of(EventKind::opcode_sequence);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].value, 3U);
  EXPECT_EQ(events[0].found, 1U);
}

TEST(IwarpTracker, MoreReadsThanNegotiated) {
  Talk talk;
  // Endpoint a may have min(ORD 4, IRD 2) outstanding. Endpoint b has no negotiated limit.
  talk.establish(std::pair{0x3fff, 4}, std::pair{2, 0x3fff});
  EXPECT_EQ(talk.recorded.events.at(0).kind, EventKind::opened);
  EXPECT_EQ(talk.recorded.events[0].value, 2U);
  EXPECT_EQ(talk.recorded.events[0].found, 0U);
  talk.say(Side::a, join({read(1, 5, 0, 8), read(2, 5, 0, 8)}));
  talk.say(Side::b, response(5, 0, 8));
  talk.say(Side::a, read(3, 5, 0, 8));
  EXPECT_THAT(talk.recorded.of(EventKind::read_limit), IsEmpty());
  const std::uint64_t frame = talk.say(Side::a, read(4, 5, 0, 8));
  talk.say(Side::a, read(5, 5, 0, 8));
  const auto events = talk.finish().of(EventKind::read_limit);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].value, 2U);
  EXPECT_EQ(events[0].found, 3U);
}

TEST(IwarpTracker, BadCrc) {
  Talk talk;
  talk.establish();
  ByteVector bad = send(1, 10);
  bad[25] ^= 1;
  const std::uint64_t frame = talk.say(Side::a, bad);
  talk.say(Side::a, send(2, 10));
  const Recording& recorded = talk.finish();
  const auto events = recorded.of(EventKind::crc_bad);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, frame);
  EXPECT_EQ(events[0].bytes, 10U);
  EXPECT_EQ(recorded.connections[0].by(Side::a).crc_bad, 1U);
  EXPECT_THAT(recorded.trouble(), SizeIs(1));
  EXPECT_THAT(recorded.messages, SizeIs(1));
}

// TCP ----------------------------------------------------------------------------------------------------------------

TEST(IwarpTcp, LossAfterTheCapturePointIsRetransmitted) {
  Talk talk;
  talk.establish();
  const std::uint32_t first = talk.next[0];
  talk.say(Side::a, send(1, 100));
  const std::uint32_t lost = talk.next[0];
  const ByteVector again = send(2, 100);
  const std::uint64_t sending = talk.say(Side::a, again, {.identification = 10});
  talk.say(Side::a, send(3, 100), {.identification = 11});
  talk.raw(Side::b, talk.next[1], {}, {.acknowledged = lost});
  for (int i = 0; i < 2; ++i) talk.raw(Side::b, talk.next[1], {}, {.acknowledged = lost});
  const std::uint64_t third = talk.raw(Side::b, talk.next[1], {}, {.acknowledged = lost});
  talk.wait(999'000);
  const std::uint64_t resent = talk.raw(Side::a, lost, again, {.identification = 12});
  const std::uint64_t done = talk.ack(Side::b);
  const Recording& recorded = talk.finish();
  const auto rounds = recorded.of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].cause, Cause::fast_retransmit);
  EXPECT_EQ(rounds[0].frame, resent);
  EXPECT_EQ(rounds[0].origin_frame, sending);
  EXPECT_EQ(rounds[0].cause_frame, third);
  EXPECT_EQ(rounds[0].psn, lost);
  EXPECT_EQ(rounds[0].bytes, again.size());
  EXPECT_EQ(rounds[0].found, 2U);
  EXPECT_EQ(rounds[0].duration, 999'000 + 6 * 1000);
  const auto losses = recorded.of(EventKind::lost_in_network);
  ASSERT_THAT(losses, SizeIs(1));
  EXPECT_EQ(losses[0].cause, Cause::after_capture);
  EXPECT_THAT(recorded.trouble(), SizeIs(2));
  ASSERT_THAT(recorded.messages, SizeIs(3));
  EXPECT_EQ(recorded.messages[0].repeated_packets, 0U);
  EXPECT_EQ(recorded.messages[1].repeated_packets, 1U);
  EXPECT_EQ(recorded.messages[1].answer_frame, done);
  EXPECT_EQ(recorded.connections[0].by(Side::a).retransmitted_packets, 1U);
  EXPECT_NE(first, lost);
}

TEST(IwarpTcp, LossBeforeTheCapturePointWithinAMessage) {
  Talk talk;
  talk.establish();
  const ByteVector all = join({write(9, 0, 1000, false), write(9, 1000, 1000, false), write(9, 2000, 1000)});
  const Bytes bytes(all);
  const std::uint32_t base = talk.next[0];
  const std::uint64_t before = talk.say(Side::a, bytes.first(1020), {.timestamp = 7});
  const std::uint64_t behind = talk.raw(Side::a, base + 2040, bytes.subspan(2040), {.timestamp = 7});
  talk.next[0] = base + 1020;
  const std::uint64_t asks =
      talk.raw(Side::b, talk.next[1], {}, {.sack = {base + 2040, base + static_cast<std::uint32_t>(bytes.size())}});
  const std::uint64_t fills = talk.raw(Side::a, base + 1020, bytes.subspan(1020, 1020), {.timestamp = 9});
  talk.next[0] = base + static_cast<std::uint32_t>(bytes.size());
  talk.ack(Side::b);
  const Recording& recorded = talk.finish();
  const auto rounds = recorded.of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].frame, fills);
  EXPECT_EQ(rounds[0].cause, Cause::fast_retransmit);
  EXPECT_EQ(rounds[0].cause_frame, asks);
  EXPECT_EQ(rounds[0].origin_frame, before);
  EXPECT_EQ(rounds[0].found, 1U);
  EXPECT_EQ(recorded.of(EventKind::lost_in_network).at(0).cause, Cause::before_capture);
  ASSERT_THAT(recorded.messages, SizeIs(1));
  EXPECT_EQ(recorded.messages[0].outcome, Outcome::completed);
  EXPECT_EQ(recorded.messages[0].size, 3000U);
  EXPECT_EQ(recorded.messages[0].first_frame, before);
  EXPECT_EQ(recorded.messages[0].last_frame, fills);
  EXPECT_LT(behind, fills);
  EXPECT_EQ(recorded.messages[0].repeated_packets, 1U);
}

TEST(IwarpTcp, TimeoutDuringReadResponseRefersToTheRead) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, read(1, 5, 0, 100));
  const std::uint32_t seq = talk.next[1];
  const ByteVector bytes = response(5, 0, 100);
  talk.say(Side::b, bytes);
  talk.wait(300'000'000);
  talk.raw(Side::b, seq, bytes, {});
  talk.ack(Side::a);
  talk.say(Side::a, send(1, 1));
  const auto rounds = talk.finish().of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].cause, Cause::timeout);
  EXPECT_EQ(rounds[0].end, Side::b);
  EXPECT_EQ(rounds[0].found, 1U);
  EXPECT_EQ(rounds[0].value, 0U) << "a is the requester of the read";
  EXPECT_EQ(rounds[0].duration, 300'001'000);
  EXPECT_THAT(talk.recorded.of(EventKind::stall), IsEmpty()) << "the retransmission reports it";
}

TEST(IwarpTcp, AcknowledgedBytesAreSpuriousRetransmission) {
  Talk talk;
  talk.establish();
  const std::uint32_t seq = talk.next[0];
  talk.say(Side::a, send(1, 100), {.identification = 5});
  talk.ack(Side::b);
  talk.raw(Side::a, seq, send(1, 100), {.identification = 6});
  const auto rounds = talk.finish().of(EventKind::tcp_retransmission);
  ASSERT_THAT(rounds, SizeIs(1));
  EXPECT_EQ(rounds[0].cause, Cause::spurious);
  EXPECT_THAT(talk.recorded.of(EventKind::lost_in_network), IsEmpty());
}

TEST(IwarpTcp, ReorderedSegmentIsNoRetransmission) {
  for (const bool by_timestamp : {false, true}) {
    Talk talk;
    talk.establish();
    const std::uint32_t base = talk.next[0];
    const ByteVector one = send(1, 100), two = send(2, 100);
    const auto with = [&](std::uint32_t n) {
      Talk::With w;
      if (by_timestamp)
        w.timestamp = n;
      else
        w.identification = static_cast<std::uint16_t>(n);
      return w;
    };
    const std::uint64_t ahead = talk.raw(Side::a, base + static_cast<std::uint32_t>(one.size()), two, with(21));
    talk.wait(2'000'000);
    const std::uint64_t late = talk.raw(Side::a, base, one, with(20));
    talk.next[0] += static_cast<std::uint32_t>(one.size() + two.size());
    talk.ack(Side::b);
    const auto events = talk.finish().of(EventKind::out_of_order);
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_EQ(events[0].frame, late);
    EXPECT_EQ(events[0].cause_frame, ahead);
    EXPECT_EQ(events[0].duration, 2'001'000);
    EXPECT_THAT(talk.recorded.trouble(), SizeIs(1));
    ASSERT_THAT(talk.recorded.messages, SizeIs(2));
    EXPECT_EQ(talk.recorded.messages[0].first_frame, late);
    EXPECT_EQ(talk.recorded.messages[1].first_frame, ahead);
  }
}

TEST(IwarpTcp, IdenticalPacketIsADuplicate) {
  Talk talk;
  talk.establish();
  const std::uint32_t seq = talk.next[0];
  const std::uint64_t first = talk.say(Side::a, send(1, 100), {.identification = 5});
  talk.raw(Side::a, seq, send(1, 100), {.identification = 5});
  const auto events = talk.finish().of(EventKind::duplicate);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].origin_frame, first);
  EXPECT_THAT(talk.recorded.trouble(), SizeIs(1));
  EXPECT_EQ(talk.recorded.connections[0].by(Side::a).duplicates, 1U);
}

TEST(IwarpTcp, KeepAliveIsIgnored) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.ack(Side::b);
  const std::uint8_t byte = 0;
  talk.raw(Side::a, talk.next[0] - 1, Bytes(&byte, 1), {});
  talk.raw(Side::a, talk.next[0] - 1, {}, {});
  talk.ack(Side::b);
  talk.say(Side::a, send(2, 100));
  EXPECT_THAT(talk.finish().trouble(), IsEmpty());
  EXPECT_THAT(talk.recorded.messages, SizeIs(2));
}

TEST(IwarpTcp, AcknowledgedButNotCaptured) {
  Talk talk;
  talk.establish();
  const std::uint64_t before = talk.say(Side::a, send(1, 100));
  const std::uint32_t seq = talk.next[0];
  talk.next[0] += 3 * 124;  // Sends 2 to 4, which the capture is missing
  const std::uint64_t behind = talk.say(Side::a, send(5, 100));
  const std::uint64_t ack = talk.ack(Side::b);
  talk.wait(20'000'000);
  talk.say(Side::a, send(6, 100));
  talk.ack(Side::b);
  const auto events = talk.finish().of(EventKind::lost_in_capture);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].frame, behind);
  EXPECT_EQ(events[0].cause_frame, ack);
  EXPECT_EQ(events[0].origin_frame, before);
  EXPECT_EQ(events[0].bytes, 372U);
  EXPECT_EQ(events[0].packets, 3U);
  EXPECT_EQ(events[0].psn, seq);
  EXPECT_THAT(talk.recorded.trouble(), SizeIs(1)) << "no MSN jump, because the capture is missing packets";
  EXPECT_THAT(talk.recorded.messages, SizeIs(3));
  for (const Message& m : talk.recorded.messages) EXPECT_EQ(m.outcome, Outcome::completed);
}

TEST(IwarpTcp, AcknowledgementsCapturedBeforeTheirBytes) {
  Talk talk;
  talk.establish();
  const ByteVector one = send(1, 100), two = send(2, 100);
  const std::uint32_t base = talk.next[0];
  talk.raw(Side::a, base + static_cast<std::uint32_t>(one.size()), two, {});
  talk.next[0] += static_cast<std::uint32_t>(one.size() + two.size());
  talk.ack(Side::b);
  talk.raw(Side::a, base, one, {});
  EXPECT_EQ(talk.finish().trouble(), (std::map<std::string_view, int>{{"out_of_order", 1}}));
}

TEST(IwarpTcp, ClosedWindow) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  const std::uint64_t closes = talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  talk.wait(1'000'000'000);
  talk.raw(Side::a, talk.next[0] - 1, {}, {});  // a window probe
  talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  talk.wait(500'000'000);
  const std::uint64_t opens = talk.raw(Side::b, talk.next[1], {}, {.window = 500});
  talk.say(Side::a, send(2, 100));
  const auto stalls = talk.finish().of(EventKind::stall);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_EQ(stalls[0].cause, Cause::window);
  EXPECT_EQ(stalls[0].end, Side::a);
  EXPECT_EQ(stalls[0].frame, closes);
  EXPECT_EQ(stalls[0].last_frame, opens);
  EXPECT_EQ(stalls[0].duration, 1'500'003'000);
  EXPECT_THAT(talk.recorded.trouble(), SizeIs(1));
}

TEST(IwarpTracker, IdleConnectionStalls) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  const std::uint64_t before = talk.ack(Side::b);
  talk.wait(250'000'000);
  const std::uint64_t after = talk.say(Side::b, send(1, 100));
  talk.ack(Side::a);
  talk.wait(150'000'000);
  talk.say(Side::b, send(2, 100));
  const auto stalls = talk.finish().of(EventKind::stall);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_EQ(stalls[0].cause, Cause::nothing_outstanding);
  EXPECT_EQ(stalls[0].frame, before);
  EXPECT_EQ(stalls[0].last_frame, after);
  EXPECT_EQ(stalls[0].duration, 250'001'000);
}

TEST(IwarpTcp, WindowProbeIsNoRetransmission) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  const ByteVector two = send(2, 100);
  for (int i = 0; i < 3; ++i) {
    talk.raw(Side::a, talk.next[0], Bytes(two).first(1), {});
    talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  }
  talk.raw(Side::b, talk.next[1], {}, {.window = 500});
  talk.say(Side::a, two);
  talk.ack(Side::b);
  const std::uint64_t closes = talk.raw(Side::b, talk.next[1], {}, {.window = 0});
  EXPECT_EQ(talk.finish().trouble(), (std::map<std::string_view, int>{{"stall", 2}}));
  EXPECT_EQ(talk.recorded.of(EventKind::stall)[1].frame, closes) << "the window did not open again";
  EXPECT_THAT(talk.recorded.messages, SizeIs(2));
}

TEST(IwarpTcp, ResetIsOnlyValidInsideTheWindow) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.ack(Side::b);
  // Before the acknowledged bytes, and beyond the window of 1000 bytes.
  talk.raw(Side::a, talk.next[0] - 1, {}, {.rst = true});
  talk.raw(Side::a, talk.next[0] + 1001, {}, {.rst = true});
  talk.raw(Side::a, talk.next[0] + 0x70000000, {}, {.rst = true});
  EXPECT_THAT(talk.recorded.trouble(), IsEmpty());
  talk.say(Side::a, send(2, 100));
  EXPECT_EQ(talk.packet.pdus.size(), 1U);
  talk.ack(Side::b);
  EXPECT_EQ(talk.recorded.messages.size(), 2U);
  const std::uint64_t frame = talk.raw(Side::a, talk.next[0] + 1000, {}, {.rst = true});
  const Recording& recorded = talk.finish();
  ASSERT_THAT(recorded.of(EventKind::tcp_reset), SizeIs(1));
  EXPECT_EQ(recorded.of(EventKind::tcp_reset)[0].frame, frame);
  EXPECT_EQ(recorded.connections[0].closed_frame, frame);
  EXPECT_THAT(recorded.of(EventKind::closed), SizeIs(1));
}

TEST(IwarpTracker, StartInTheMiddle) {
  Talk talk;
  talk.say(Side::a, send(70, 100, 200));  // the end of a message
  talk.say(Side::a, send(71, 100));
  talk.say(Side::a, join({send(72, 100), read(33, 5, 0, 10)}));
  talk.say(Side::b, response(4, 100, 10));  // to an older request
  talk.say(Side::b, response(5, 0, 10));
  talk.say(Side::b, response(5, 0, 10));
  const Recording& recorded = talk.finish();
  EXPECT_THAT(recorded.trouble(), IsEmpty());
  ASSERT_THAT(recorded.connections, SizeIs(1));
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::a),
            (std::map<std::string, int>{{"send 100 partial", 1}, {"send 100 completed", 2}, {"read 10 completed", 1}}));
}

TEST(IwarpTracker, ReusedPortIsAnotherConnection) {
  Talk talk;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  talk.next[0] = 77;
  talk.next[1] = 88;
  talk.establish();
  talk.say(Side::a, send(1, 100));
  const Recording& recorded = talk.finish();
  ASSERT_THAT(recorded.connections, SizeIs(2));
  EXPECT_TRUE(recorded.connections[0].replaced);
  EXPECT_FALSE(recorded.connections[1].replaced);
  EXPECT_EQ(recorded.trouble(), (std::map<std::string_view, int>{{"replaced", 1}}));
}

TEST(IwarpTracker, MemoryIsBounded) {
  Talk talk({.connections = 4, .messages = 8});
  for (int i = 0; i < 100; ++i) {
    talk.port = static_cast<std::uint16_t>(20000 + i);
    talk.establish();
    for (std::uint32_t msn = 1; msn <= 20; ++msn) {
      talk.raw(Side::a, talk.next[0], join({send(msn, 10), read(msn, 5, 0, 10)}), {});
      talk.next[0] += static_cast<std::uint32_t>(send(msn, 10).size() + read(msn, 5, 0, 10).size());
    }
    EXPECT_LE(talk.tracker.size(), 4U);
    EXPECT_LT(talk.tracker.memory(), 200'000U);
  }
  EXPECT_EQ(talk.tracker.evicted(), 96U + 100 * 2 * 12);
  talk.finish();
  EXPECT_EQ(talk.recorded.connections.size(), 100U);
  EXPECT_EQ(std::count(talk.recorded.farewells.begin(), talk.recorded.farewells.end(), CloseReason::evicted), 96);
  EXPECT_EQ(talk.recorded.messages.size(), 100U * 40);
}

TEST(IwarpTracker, PacketsHaveTheirNotes) {
  Talk talk({.packets = true});
  talk.establish();
  const std::uint32_t seq = talk.next[0];
  talk.say(Side::a, read(1, 5, 0, 100));
  talk.say(Side::b, response(5, 0, 100));
  talk.raw(Side::a, seq, read(1, 5, 0, 100), {});
  const auto& notes = talk.finish().notes;
  ASSERT_THAT(notes, SizeIs(5));
  EXPECT_EQ(notes[2].message, 1U);
  EXPECT_EQ(notes[2].relative_psn, Talk::mpa(true).size());
  EXPECT_EQ(notes[2].outstanding, 1U);
  EXPECT_EQ(notes[3].message, 1U);
  EXPECT_EQ(notes[3].requester, Side::a);
  EXPECT_EQ(notes[3].related_frame, 6U);
  EXPECT_EQ(notes[3].related_delay, 1000);
  EXPECT_TRUE(notes[4].again);
  EXPECT_EQ(notes[4].related_frame, 6U);
}

// Real streams with known damage
// -------------------------------------------------------------------------------------

struct Kept {
  ByteVector bytes;
  std::uint32_t wire_length;
  LinkType link;
  std::int64_t time;
};
std::vector<Kept> records_of(const std::filesystem::path& path) {
  std::vector<Kept> kept;
  auto reader = captures::Reader::open(path.string());
  captures::Record record;
  while (reader && reader->next(record) == captures::Next::record)
    kept.push_back({{record.bytes.begin(), record.bytes.end()}, record.wire_length, record.link, record.time});
  return kept;
}
Recording track(const std::vector<Kept>& records, const IwarpLimits& limits = {}) {
  Recording recorded;
  Dissector dissector;
  IwarpTracker tracker(recorded, limits);
  Packet packet;
  for (const Kept& record : records) {
    ++packet.number;
    packet.time_ns = record.time;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    tracker.add(packet);
  }
  tracker.finish();
  return recorded;
}
class RealStreams : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Iwarp, RealStreams, ::testing::Values("siw-write", "siw-send", "siw-read", "siw-rping"),
                         [](const auto& p) { return p.param.substr(4); });
std::vector<Kept> sample(const std::string& name) {
  return records_of(samples / (name + (name == "siw-rping" ? ".pcap" : ".pcap.gz")));
}

TEST_P(RealStreams, StartAnywhereWithoutFalseEvents) {
  const std::vector<Kept> all = sample(GetParam());
  ASSERT_FALSE(all.empty());
  for (std::size_t from = 0; from < all.size(); from += 7) {
    auto trouble = track({all.begin() + static_cast<std::ptrdiff_t>(from), all.end()}).trouble();
    trouble.erase("stall");
    ASSERT_THAT(trouble, IsEmpty()) << "from " << from;
  }
}

TEST_P(RealStreams, CaptureLossIsReportedAsSuch) {
  const std::vector<Kept> all = sample(GetParam());
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<Kept> some;
    for (const Kept& record : all)
      if (some.size() < 60 || random() % 100 >= static_cast<unsigned>(round) / 4) some.push_back(record);
    const Recording recorded = track(some);
    auto trouble = recorded.trouble();
    trouble.erase("stall");
    trouble.erase("lost_in_capture");
    trouble.erase("psn_gap");  // if the acknowledgement is missing too, at the end
    for (const Event& e : recorded.events)
      if (trouble.count(to_string(e.kind)))
        ADD_FAILURE() << to_string(e.kind) << " " << to_string(e.cause) << " frame " << e.frame << " value " << e.value
                      << " found " << e.found << " psn " << e.psn;
    ASSERT_THAT(trouble, IsEmpty()) << "round " << round;
    for (const Message& m : recorded.messages) ASSERT_NE(m.outcome, Outcome::refused);
  }
}

TEST_P(RealStreams, SwappedNeighborsAreNoRetransmissions) {
  const std::vector<Kept> all = sample(GetParam());
  std::mt19937 random(2);
  std::uint64_t out_of_order = 0;
  for (int round = 0; round < 30; ++round) {
    std::vector<Kept> some = all;
    for (std::size_t i = 60; i + 1 < some.size(); i += 2 + random() % 40) {
      if (some[i + 1].time - some[i].time > 5'000'000) continue;
      std::swap(some[i], some[i + 1]);
      std::swap(some[i].time, some[i + 1].time);
    }
    const Recording recorded = track(some);
    auto trouble = recorded.trouble();
    out_of_order += static_cast<std::uint64_t>(trouble["out_of_order"]);
    trouble.erase("stall");
    trouble.erase("out_of_order");
    ASSERT_THAT(trouble, IsEmpty()) << "round " << round;
  }
  EXPECT_GT(out_of_order, GetParam() == "siw-rping" ? 0U : 100U);
}

TEST_P(RealStreams, EachPacketTwiceIsADuplicate) {
  const std::vector<Kept> all = sample(GetParam());
  std::vector<Kept> twice;
  for (const Kept& record : all) {
    twice.push_back(record);
    twice.push_back(record);
    twice.back().time += 1;
  }
  const Recording once = track(all), recorded = track(twice);
  auto trouble = recorded.trouble();
  trouble.erase("stall");
  EXPECT_THAT(trouble, SizeIs(1));
  EXPECT_GT(trouble["duplicate"], 0);
  EXPECT_EQ(recorded.messages.size(), once.messages.size());
}

// Headers are sufficient: the payload length follows from the header lengths.
TEST(IwarpSamples, ShortSnapLength) {
  for (const char* name : {"siw-write", "siw-send"}) {
    std::vector<Kept> all = sample(name);
    const Recording whole = track(all);
    // After Ethernet, IPv4 and TCP with timestamps, 20 bytes of an FPDU or MPA frame remain.
    for (Kept& record : all) record.bytes.resize(std::min<std::size_t>(record.bytes.size(), 14 + 20 + 32 + 20));
    const Recording recorded = track(all);
    ASSERT_THAT(recorded.connections, SizeIs(2)) << name;
    for (const Connection& c : recorded.connections)
      for (const Side end : {Side::a, Side::b})
        EXPECT_EQ(recorded.summary(c.id, end), whole.summary(c.id, end)) << name;
    EXPECT_EQ(recorded.trouble(), whole.trouble());
  }
}

// Segments repeated some packets later with another IP identification, like those of a sender that retransmits.
TEST_P(RealStreams, RetransmissionsAreCounted) {
  const std::vector<Kept> all = sample(GetParam());
  const Recording once = track(all);
  std::map<std::uint16_t, int> ports;  // TCP ports of endpoint a (10.0.0.3) of the iWARP connections
  for (const Connection& c : once.connections) ports[static_cast<std::uint16_t>(c.at(Side::a).qp)]++;
  constexpr std::size_t ethernet = 14, ip = 20, tcp = 32;
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Kept> some;
    std::vector<std::pair<std::size_t, Kept>> pending;
    std::uint64_t injected = 0, resent_bytes = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      some.push_back(all[i]);
      std::erase_if(pending, [&](auto& p) {
        if (p.first > i) return false;
        p.second.time = all[i].time + 1;
        some.push_back(p.second);
        return true;
      });
      const ByteVector& bytes = all[i].bytes;
      // After the connection setup and before the end.
      if (i < 60 || i + 60 > all.size() || bytes.size() <= ethernet + ip + tcp + 30 || bytes[23] != 6) continue;
      const auto source = static_cast<std::uint16_t>(bytes[34] << 8 | bytes[35]);
      const auto destination = static_cast<std::uint16_t>(bytes[36] << 8 | bytes[37]);
      if (!ports.count(source) && !ports.count(destination)) continue;
      if (random() % 20) continue;
      Kept again = all[i];
      again.bytes[18] ^= 0x80;
      again.bytes[19] ^= 0x01;
      pending.emplace_back(i + 1 + random() % 8, again);
      ++injected;
      resent_bytes += bytes.size() - ethernet - ip - tcp;
    }
    const Recording recorded = track(some);
    std::uint64_t retransmitted_packets = 0, retransmitted_bytes = 0, in_rounds = 0;
    for (const Connection& c : recorded.connections)
      for (const Sent& sent : c.sent) {
        retransmitted_packets += sent.retransmitted_packets;
        retransmitted_bytes += sent.retransmitted_bytes;
      }
    for (const Event& e : recorded.of(EventKind::tcp_retransmission)) {
      in_rounds += e.packets;
      EXPECT_TRUE(e.cause == Cause::spurious || e.cause == Cause::timeout || e.cause == Cause::fast_retransmit);
      EXPECT_NE(e.origin_frame, 0U);
    }
    ASSERT_GT(injected, 0U);
    ASSERT_EQ(retransmitted_packets, injected) << round;
    ASSERT_EQ(retransmitted_bytes, resent_bytes) << round;
    ASSERT_EQ(in_rounds, injected) << round;
    auto trouble = recorded.trouble();
    for (const char* expected : {"stall", "tcp_retransmission", "lost_in_network"}) trouble.erase(expected);
    ASSERT_THAT(trouble, IsEmpty());
    ASSERT_EQ(recorded.messages.size(), once.messages.size());
  }
}

// Public captures, read at their location.
struct Public {
  std::string name;
  std::map<std::string, int> a, b;
  std::map<std::string_view, int> trouble;

  friend void PrintTo(const Public& capture, std::ostream* out) { *out << capture.name; }
};
class PublicIwarp : public ::testing::TestWithParam<Public> {};
INSTANTIATE_TEST_SUITE_P(
    Iwarp, PublicIwarp,
    // tshark -r FILE -T fields -e frame.number -e ip.src -e iwarp_rdma.opcode -e iwarp_mpa.ulpdulength
    //        -e iwarp_mpa.rej_flag
    ::testing::Values(
        Public{"connect_C00_M00", {}, {}, {}}, Public{"connect_C11_M00", {}, {}, {}},
        Public{"connect_C11_M11", {}, {}, {}}, Public{"connect_C00_M00_reject", {}, {}, {{"rejected", 1}}},
        Public{"send_recv_snd_recv", {{"send 16 completed", 1}}, {{"send 16 completed", 1}}, {}},
        Public{"send_recv_snd_recv_crc", {{"send 16 completed", 1}}, {{"send 16 completed", 1}}, {}},
        Public{"send_recv_snd_recv_mrkr", {{"send 16 completed", 1}}, {{"send 16 completed", 1}}, {}},
        // Its sender has bugs: it uses one MSN for all queues, and the fields of its Read Request are little
        // endian, so that it requests 262144 bytes into another buffer than the one in the response:
        //   tshark -r FILE -T fields -e frame.number -e iwarp_ddp.qn -e iwarp_ddp.msn -e iwarp_rdma.sinkstag
        //          -e iwarp_rdma.rdmardsz -e iwarp_ddp.stag
        Public{"rdma_read",
               {{"send 16 completed", 1}},
               {{"send 16 completed", 1},
                {"write 1024 completed", 1},
                {"read 262144 unanswered", 1},
                {"send 4 completed", 1}},
               {{"msn_jump", 2}, {"unsolicited_response", 1}, {"unanswered", 1}}}),
    [](const auto& p) { return p.param.name; });
TEST_P(PublicIwarp, MessagesAndEventsMatch) {
  const char* shared = std::getenv("RDMAWIRE_SHARED");
  if (!shared) GTEST_SKIP() << "skipped: RDMAWIRE_SHARED is not set";
  const std::filesystem::path path = std::filesystem::path(shared) / "captures" / "public" /
                                     ("realjimmy__sample-captures__iwarp_" + GetParam().name + ".pcap");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "skipped: needs " << path.filename();
  const bool rejected = GetParam().trouble.count("rejected");
  const Recording recorded = track(path);
  ASSERT_THAT(recorded.connections, SizeIs(1));
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::a), GetParam().a);
  EXPECT_EQ(recorded.summary(recorded.connections[0].id, Side::b), GetParam().b);
  EXPECT_EQ(recorded.of(EventKind::opened).size(), rejected ? 0U : 1U);
  EXPECT_EQ(recorded.of(EventKind::closed).size(), rejected ? 0U : 1U);
  EXPECT_EQ(recorded.connections[0].service_port, 4210);
  EXPECT_EQ(recorded.trouble(), GetParam().trouble);
}

}  // namespace
}  // namespace rdmawire::tracking
