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

namespace rdmawire::tracking {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Octets = std::vector<std::uint8_t>;

struct Told final : Sink {
  std::vector<Message> messages;
  std::vector<Event> events;
  std::vector<Connection> connections;
  std::vector<Farewell> farewells;
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
  void connection(const Connection& c, Farewell farewell) override {
    connections.push_back(c);
    farewells.push_back(farewell);
  }
  void packet(const Connection&, std::uint64_t, const PacketNote& note) override { notes.push_back(note); }

  [[nodiscard]] std::vector<Event> of(EventKind kind) const {
    std::vector<Event> found;
    for (const Event& e : events)
      if (e.kind == kind) found.push_back(e);
    return found;
  }
  /// Kinds of events but for the normal life of a connection, with their numbers.
  [[nodiscard]] std::map<std::string_view, int> trouble() const {
    std::map<std::string_view, int> found;
    for (const Event& e : events)
      if (e.kind != EventKind::opened && e.kind != EventKind::closed) found[to_string(e.kind)]++;
    return found;
  }
  /// Of one connection and end: "send completed 16×512"
  [[nodiscard]] std::map<std::string, int> summary(std::uint64_t connection, End end) const {
    std::map<std::string, int> found;
    for (const Message& m : messages)
      if (m.connection == connection && m.end == end)
        found[std::string(to_string(m.kind)) + " " + std::to_string(m.size) + " " +
              std::string(to_string(m.outcome))]++;
    return found;
  }
};

Told told_of(const std::filesystem::path& path) {
  Told told;
  auto reader = captures::Reader::open(path.string());
  if (!reader) {
    ADD_FAILURE() << path << " cannot be opened";
    return told;
  }
  Dissector dissector;
  IwarpTracker tracker(told);
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
  std::sort(told.connections.begin(), told.connections.end(),
            [](const Connection& a, const Connection& b) { return a.id < b.id; });
  EXPECT_EQ(tracker.size(), 0U);
  EXPECT_EQ(tracker.evicted(), 0U);
  return told;
}
const std::filesystem::path samples = std::filesystem::path(RDMAWIRE_SOURCE_DIR) / "captures" / "samples";

// Operations and lengths as tshark 4.0 gives them, which knows nothing of messages; a message's size is the sum of its
// segments' lengths (ULPDU length less 14 octets of tagged, 18 of untagged header):
//   tshark -r FILE -d tcp.port==0,data -T fields -e tcp.stream -e ip.src -e iwarp_rdma.opcode -e iwarp_ddp.last_flag
//          -e iwarp_mpa.ulpdulength | sort | uniq -c
TEST(IwarpSamples, Write) {
  const Told told = told_of(samples / "siw-write.pcap.gz");
  ASSERT_THAT(told.connections, SizeIs(2));
  const Connection& control = told.connections[0];
  const Connection& data = told.connections[1];
  EXPECT_EQ(data.service, Service::iwarp);
  EXPECT_EQ(data.joined_by, JoinedBy::stream);
  EXPECT_EQ(data.confidence, Confidence::certain);
  EXPECT_EQ(data.at(End::a).qp, 43385U);
  EXPECT_EQ(data.at(End::b).qp, 18515U);
  EXPECT_EQ(data.service_port, 18515);
  EXPECT_EQ(told.summary(data.id, End::a), (std::map<std::string, int>{{"write 16384 completed", 50}}));
  EXPECT_EQ(told.summary(data.id, End::b), (std::map<std::string, int>{}));
  EXPECT_EQ(data.by(End::a).payload_octets, 50 * 16384U);
  EXPECT_EQ(data.by(End::a).requests, 600U);
  int sends = 0;
  for (const End end : {End::a, End::b})
    for (const auto& [text, n] : told.summary(control.id, end)) {
      EXPECT_THAT(text, ::testing::EndsWith("completed"));
      sends += n;
    }
  EXPECT_EQ(sends, 32);
  EXPECT_EQ(told.of(EventKind::opened).size(), 2U);
  EXPECT_EQ(told.of(EventKind::closed).size(), 2U);
  auto trouble = told.trouble();
  trouble.erase("stall");  // the program waits for its user
  EXPECT_THAT(trouble, IsEmpty());
  for (const Message& m : told.messages) {
    EXPECT_GE(m.answer_time, m.end_time);
    EXPECT_GE(m.end_time, m.start);
  }
}

TEST(IwarpSamples, Send) {
  const Told told = told_of(samples / "siw-send.pcap.gz");
  ASSERT_THAT(told.connections, SizeIs(2));
  EXPECT_EQ(told.summary(told.connections[1].id, End::a), (std::map<std::string, int>{{"send 16384 completed", 50}}));
  EXPECT_EQ(told.summary(told.connections[1].id, End::b), (std::map<std::string, int>{{"write 4 completed", 4}}));
  auto trouble = told.trouble();
  trouble.erase("stall");
  EXPECT_THAT(trouble, IsEmpty());
}

TEST(IwarpSamples, Read) {
  const Told told = told_of(samples / "siw-read.pcap.gz");
  ASSERT_THAT(told.connections, SizeIs(2));
  const Connection& data = told.connections[1];
  EXPECT_EQ(told.summary(data.id, End::a), (std::map<std::string, int>{{"read 16384 completed", 50}}));
  EXPECT_EQ(data.by(End::b).payload_octets, 50 * 16384U);
  EXPECT_EQ(data.by(End::b).responses, 600U);
  std::uint32_t msn = 0;
  for (const Message& m : told.messages) {
    if (m.kind != MessageKind::read) continue;
    EXPECT_EQ(m.first_psn, ++msn);
    EXPECT_LE(m.first_frame, m.first_response_frame);
    EXPECT_LE(m.first_response_frame, m.answer_frame);
    EXPECT_EQ(m.packets, 13U);
  }
  auto trouble = told.trouble();
  trouble.erase("stall");
  EXPECT_THAT(trouble, IsEmpty());
}

TEST(IwarpSamples, Rping) {
  const Told told = told_of(samples / "siw-rping.pcap");
  ASSERT_THAT(told.connections, SizeIs(1));
  const Connection& c = told.connections[0];
  EXPECT_EQ(told.summary(c.id, End::a), (std::map<std::string, int>{{"send 16 completed", 40}}));
  EXPECT_EQ(told.summary(c.id, End::b),
            (std::map<std::string, int>{
                {"read 4000 completed", 20}, {"send 16 completed", 40}, {"write 4000 completed", 20}}));
  // The first read: tshark -r siw-rping.pcap -Y 'frame.number==25 || frame.number==26 || frame.number==28'
  const auto read = std::find_if(told.messages.begin(), told.messages.end(),
                                 [](const Message& m) { return m.kind == MessageKind::read; });
  ASSERT_NE(read, told.messages.end());
  EXPECT_EQ(read->first_frame, 25U);
  EXPECT_EQ(read->first_response_frame, 26U);
  EXPECT_EQ(read->answer_frame, 28U);
  // MPA request and reply: tshark -r siw-rping.pcap -Y iwarp_mpa.req||iwarp_mpa.rep
  EXPECT_EQ(c.opened_frame, 22U);
  EXPECT_EQ(c.closed_frame, 304U);  // FIN
  EXPECT_THAT(told.trouble(), IsEmpty());
}

// What was sent again, in which rounds, and what had been lost before the capture, by sequence and acknowledgement
// numbers alone (a segment below the highest octet so far was sent again: no older timestamp and no smaller IP
// identification is among them; a round lasts until what had been sent at its beginning is acknowledged):
//   tshark -r siw-write-loss.pcap -Y tcp.stream==1 -T fields -e frame.number -e ip.src -e tcp.seq -e tcp.len -e tcp.ack
//          -e tcp.options.timestamp.tsval -e ip.id
TEST(IwarpSamples, LossHasItsRoundsAndCauses) {
  const Told told = told_of(samples / "siw-write-loss.pcap.gz");
  ASSERT_THAT(told.connections, SizeIs(2));
  const Connection& data = told.connections[1];
  EXPECT_EQ(told.summary(data.id, End::a), (std::map<std::string, int>{{"write 16384 completed", 50}}));
  const std::vector<Event> rounds = told.of(EventKind::tcp_retransmission);
  struct Expected {
    std::uint64_t first, last, packets, octets;
  };
  constexpr Expected expected[] = {{186, 198, 3, 3592}, {353, 355, 2, 2896}, {391, 391, 1, 696}, {538, 538, 1, 1448},
                                   {576, 576, 1, 1448}, {607, 610, 2, 2896}, {619, 619, 1, 696}, {632, 632, 1, 1448},
                                   {800, 814, 2, 2896}, {829, 829, 1, 1448}, {906, 906, 1, 1448}};
  ASSERT_EQ(rounds.size(), std::size(expected));
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    EXPECT_EQ(rounds[i].frame, expected[i].first);
    EXPECT_EQ(rounds[i].last_frame, expected[i].last) << i;
    EXPECT_EQ(rounds[i].packets, expected[i].packets) << i;
    EXPECT_EQ(rounds[i].octets, expected[i].octets) << i;
    EXPECT_EQ(rounds[i].cause, Cause::fast_retransmit) << i;
    EXPECT_NE(rounds[i].cause_frame, 0U);
    EXPECT_LT(rounds[i].cause_frame, rounds[i].frame);
    EXPECT_GT(rounds[i].duration, 0);
    EXPECT_EQ(rounds[i].end, End::a);
  }
  // Octet 87489 of the stream (relative, from 1) belongs to the sixth message: a message is 11 segments of 1448 octets
  // and one of 696, 16624 in all, behind the 24 octets of the MPA request and its SYN.
  EXPECT_EQ(rounds[0].found, 1 + (87489U - 25) / 16624);
  EXPECT_EQ(rounds[0].value, 0U);
  EXPECT_EQ(data.by(End::a).packets_again, 16U);
  EXPECT_EQ(data.by(End::a).octets_again, 20912U);
  EXPECT_EQ(data.by(End::a).rounds, 11U);
  EXPECT_EQ(data.by(End::a).lost_in_network, 16U);
  std::uint64_t repeated = 0;
  for (const Message& m : told.messages) repeated += m.repeated_packets;
  EXPECT_EQ(repeated, 16U);
  auto trouble = told.trouble();
  trouble.erase("stall");
  EXPECT_EQ(trouble, (std::map<std::string_view, int>{{"tcp_retransmission", 11}, {"lost_in_network", 11}}));
}

}  // namespace
}  // namespace rdmawire::tracking
