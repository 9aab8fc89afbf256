/// Tests the iWARP tracker with real captures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "captures/io/reader.hpp"
#include "dissectors/tracking/iwarp_stream_for_test.hpp"
#include "source_directory.hpp"

namespace rdmawire::tracking {
namespace {

using namespace iwarp_test;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
  // The first READ. See tshark -r siw-rping.pcap -Y 'frame.number==25 || frame.number==26 || frame.number==28'
  const auto read = std::find_if(recorded.messages.begin(), recorded.messages.end(),
                                 [](const Message& m) { return m.kind == MessageKind::read; });
  ASSERT_NE(read, recorded.messages.end());
  EXPECT_EQ(read->first_frame, 25U);
  EXPECT_EQ(read->first_response_frame, 26U);
  EXPECT_EQ(read->answer_frame, 28U);
  // MPA request and reply. See tshark -r siw-rping.pcap -Y 'iwarp_mpa.req || iwarp_mpa.rep'
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
  // Byte 87489 of the stream (relative, from 1) belongs to the sixth message. A message has 11 segments of 1448 bytes
  // and one of 696 bytes, together 16624. Before the messages, there are the SYN and the 24 bytes of the MPA request.
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

// ---- Real streams with known damage

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
    trouble.erase("psn_gap");  // the acknowledgement at the end can also be missing
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

// Header bytes are sufficient, because the headers contain the payload length.
TEST(IwarpSamples, ShortSnapLength) {
  for (const char* name : {"siw-write", "siw-send"}) {
    std::vector<Kept> all = sample(name);
    const Recording whole = track(all);
    // 20 bytes of an FPDU or MPA frame remain after Ethernet, IPv4 and TCP with timestamps.
    for (Kept& record : all) record.bytes.resize(std::min<std::size_t>(record.bytes.size(), 14 + 20 + 32 + 20));
    const Recording recorded = track(all);
    ASSERT_THAT(recorded.connections, SizeIs(2)) << name;
    for (const Connection& c : recorded.connections)
      for (const Side end : {Side::a, Side::b})
        EXPECT_EQ(recorded.summary(c.id, end), whole.summary(c.id, end)) << name;
    EXPECT_EQ(recorded.trouble(), whole.trouble());
  }
}

// Repeats segments some packets later, with another IP identification, like a sender that retransmits.
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
      // Only segments between the connection setup and the end are repeated.
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

// Public captures, which are not in the repository.
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
