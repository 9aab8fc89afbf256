// Tests QP numbers that are exchanged in plain text. Expected values are from tshark -z follow,tcp,ascii, and from its
// fields tcp.payload and infiniband.bth.psn.

#include "dissectors/tracking/text_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/captures_for_test.hpp"

namespace rdmawire::tracking {
namespace {

using ByteVector = std::vector<std::uint8_t>;
using testing::dissect_capture;
using testing::sample;
using testing::shared_capture;

struct Recorder final : PairSink {
  void pair(const PairEvidence& evidence) override { pairs.push_back(evidence); }
  void closing(const PairEvidence&, std::uint64_t, std::int64_t) override { ADD_FAILURE(); }
  std::vector<PairEvidence> pairs;
};

std::vector<PairEvidence> follow(const std::string& path) {
  Recorder recorder;
  TextExchange text(recorder);
  dissect_capture(path, [&](const Packet& packet) { text.add(packet); });
  return recorder.pairs;
}

constexpr std::uint32_t client = 0x0a000003, server = 0x0a000002;

TEST(TextExchange, RcPingpong) {
  const auto pairs = follow(sample("rc-pingpong.pcap.gz"));
  ASSERT_EQ(pairs.size(), 1U);
  const PairEvidence& e = pairs[0];
  EXPECT_EQ(e.by, JoinedBy::text);
  EXPECT_FALSE(e.service_known);
  EXPECT_EQ(e.sides[0].address, PortAddress::of_ipv4(client));
  EXPECT_EQ(e.sides[1].address, PortAddress::of_ipv4(server));
  EXPECT_EQ(e.sides[0].qp, 0x11U);
  EXPECT_EQ(e.sides[0].first_psn, 0x5c7a86U);
  EXPECT_EQ(e.sides[1].first_psn, 0x7a79daU);
  EXPECT_EQ(e.request_frame, 18U);
  EXPECT_EQ(e.frame, 20U);
  EXPECT_EQ(e.mtu, 0U);
}

TEST(TextExchange, SrqPingpongWithFourQueuePairsInOneStream) {
  const auto pairs = follow(sample("srq-pingpong.pcap.gz"));
  ASSERT_EQ(pairs.size(), 4U);
  const std::uint32_t psns[] = {0xf3209d, 0xcbcdfa, 0x485d86, 0x0e6226};
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pairs[i].sides[0].qp, 0x11U + i);
    EXPECT_EQ(pairs[i].sides[1].qp, 0x11U + i);
    EXPECT_EQ(pairs[i].sides[0].first_psn, psns[i]);
  }
}

TEST(TextExchange, PerftestWithGid) {
  const auto atomic = follow(sample("rc-atomic.pcap"));
  ASSERT_EQ(atomic.size(), 1U) << "each step repeats everything";
  EXPECT_EQ(atomic[0].sides[0].first_psn, 0xc22832U);
  EXPECT_EQ(atomic[0].sides[1].first_psn, 0x718f1bU);
  EXPECT_EQ(atomic[0].sides[0].reads_as_responder, 0x80);
  EXPECT_EQ(atomic[0].mtu, 1024U);

  const auto six = follow(sample("rc-write-ipv6.pcap"));
  ASSERT_EQ(six.size(), 1U);
  EXPECT_EQ(six[0].sides[0].address, (PortAddress{0xfd00000000000000, 3}));
  EXPECT_EQ(six[0].sides[1].address, (PortAddress{0xfd00000000000000, 2}));
  EXPECT_EQ(six[0].sides[0].reads_as_responder, 1);

  const auto latency = follow(sample("linlinw5-rc-write.pcap"));
  ASSERT_EQ(latency.size(), 1U);
  EXPECT_EQ(latency[0].sides[0].qp, 0x25U);
  EXPECT_EQ(latency[0].sides[1].qp, 0x24U);
  EXPECT_EQ(latency[0].sides[1].first_psn, 0x891fb3U);
  EXPECT_EQ(latency[0].request_frame, 14U);
  EXPECT_EQ(latency[0].frame, 15U);
}

// The packets that follow match the text. Captures without such text yield no pairs.
TEST(TextExchange, FirstRequestsHaveTheExchangedPsns) {
  std::vector<std::string> paths;
  for (const char* name : {"rc-pingpong.pcap.gz", "srq-pingpong.pcap.gz", "ud-pingpong.pcap", "rc-atomic.pcap",
                           "rc-write-ipv6.pcap", "linlinw5-rc-write.pcap", "linlinw5-uc-pingpong.pcap"})
    paths.push_back(sample(name));
  for (const char* name : {"pingpong_rc", "pingpong_ud", "rdma_read_bw", "rdma_send_bw", "rdma_write_bw"})
    if (auto path = shared_capture("public/linlinw5__rdma_ib_tutorial__" + std::string(name) + ".pcap");
        std::filesystem::exists(path))
      paths.push_back(path);
  for (const std::string& path : paths) {
    Recorder recorder;
    TextExchange text(recorder);
    unsigned checked = 0;
    std::vector<FlowKey> met;
    dissect_capture(path, [&](const Packet& packet) {
      text.add(packet);
      const auto bth = packet.stack.get<Bth>();
      const auto ports = ports_of(packet.stack);
      if (!bth || !ports || opcode(bth->get<"opcode">()).direction != Direction::request) return;
      const FlowKey key = ports->with(bth->get<"dest_qp">());
      if (std::find(met.begin(), met.end(), key) != met.end()) return;
      for (const PairEvidence& e : recorder.pairs)
        for (std::size_t side : {0U, 1U})
          if (e.to(1 - side) == key) {
            EXPECT_EQ(e.sides[side].first_psn, bth->get<"psn">()) << path << " frame " << packet.number;
            met.push_back(key);
            ++checked;
          }
    });
    EXPECT_GE(checked, 1U) << path;
  }
  for (const char* name : {"rping.pcap", "ucmatose.pcap", "rc-read.pcap.gz", "siw-write.pcap.gz", "siw-rping.pcap",
                           "siw-write-loss.pcap.gz", "nvme-over-rdma.pcap.zst"})
    EXPECT_TRUE(follow(sample(name)).empty()) << name;
}

// ---- Forms

Bytes bytes_of(std::string_view text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

using namespace std::string_view_literals;
constexpr std::string_view with_gid = "0000:000011:f3209d:00000000000000000000ffff0a000003\0"sv,
                           without_gid = "0003:000011:f3209d\0"sv,
                           perftest = "0004:0010:000012:cbcdfa:0000027a:00005560e85ee000\0"sv,
                           perftest_srq = "0004:0010:000012:cbcdfa:0000027a:00005560e85ee000:00000007\0"sv,
                           perftest_gid =
                               "0000:0010:000012:cbcdfa:0000027a:00005560e85ee000:00:00:00:00:00:00:00:00:"
                               "00:00:ff:ff:0a:00:00:03\0"sv,
                           perftest_both =
                               "0000:0080:000011:c22832:0000027a:00005560e85ee000:00:00:00:00:00:00:00:00:"
                               "00:00:ff:ff:0a:00:00:03:00000000:\0"sv;
constexpr std::string_view forms[] = {with_gid, without_gid, perftest, perftest_srq, perftest_gid, perftest_both};

TEST(TextRecord, EveryForm) {
  const std::size_t lengths[] = {52, 19, 50, 59, 98, 108};
  for (std::size_t i = 0; i < std::size(forms); ++i) {
    EXPECT_EQ(forms[i].size(), lengths[i]);
    EXPECT_EQ(read_text_record(bytes_of(forms[i])).length, lengths[i]) << forms[i];
  }
  const TextRecord old = read_text_record(bytes_of(without_gid));
  EXPECT_EQ(old.lid, 3);
  EXPECT_EQ(old.qp, 0x11U);
  EXPECT_EQ(old.psn, 0xf3209dU);
  EXPECT_EQ(old.gid, PortAddress{});
  const TextRecord gid = read_text_record(bytes_of(perftest_gid));
  EXPECT_EQ(gid.gid, PortAddress::of_ipv4(client));
  EXPECT_EQ(gid.reads, 0x10);
  EXPECT_EQ(gid.psn, 0xcbcdfaU);
}

TEST(TextRecord, OtherCharactersAndLengthsAreRejected) {
  for (std::string_view form : forms) {
    for (std::size_t n = 0; n < form.size(); ++n) EXPECT_EQ(read_text_record(bytes_of(form.substr(0, n))).length, 0U);
    for (std::size_t at = 0; at < form.size(); ++at)
      for (char wrong : {'g', 'A', ' ', '\0', '/', '\n', '\x80', form[at] == ':' ? '0' : ':'}) {
        // A zero in place of a colon can terminate a shorter form.
        if (form[at] == wrong || (form[at] == ':' && wrong == '\0')) continue;
        std::string text(form);
        text[at] = wrong;
        EXPECT_EQ(read_text_record(bytes_of(text)).length, 0U) << text << " at " << at;
      }
  }
}

TEST(TextRecord, RandomDataIsRejected) {
  std::mt19937_64 random(20260101);
  ByteVector payload(160);
  constexpr std::string_view alphabet = "0123456789abcdef:"sv;
  for (int i = 0; i < 1000000; ++i) {
    // Half of the payloads are random. The others have valid characters at random positions.
    for (std::size_t at = 0; at < payload.size(); at += 8) store_le(payload.data() + at, 8, random());
    if (i % 2)
      for (std::uint8_t& byte : payload) byte = static_cast<std::uint8_t>(alphabet[byte % alphabet.size()]);
    ASSERT_EQ(read_text_record(payload).length, 0U) << i;
  }
}

// ---- Streams

class Wires {
 public:
  explicit Wires(std::uint32_t capacity = TextExchange::default_capacity) : text(recorder, capacity) {}

  void send(bool from_client, std::string_view payload, std::uint16_t port = 40000) {
    std::uint32_t& seq = next_[from_client];
    segment(from_client, seq, payload, port);
    seq += static_cast<std::uint32_t>(payload.size());
  }
  void segment(bool from_client, std::uint32_t seq, std::string_view payload, std::uint16_t port = 40000) {
    Frame frame = Value<Ethernet>() /
                  Value<Ipv4>().set<"src">(from_client ? client : server).set<"dst">(from_client ? server : client) /
                  Value<Tcp>()
                      .set<"src_port">(from_client ? port : 18515)
                      .set<"dst_port">(from_client ? 18515 : port)
                      .set<"seq">(seq)
                      .set<"ack">(1);
    frame.payload.assign(payload.begin(), payload.end());
    const ByteVector bytes = frame.encode();
    packet_.number = ++frames_;
    packet_.time_ns = static_cast<std::int64_t>(frames_);
    dissector_.dissect(packet_, bytes, static_cast<std::uint32_t>(bytes.size()));
    text.add(packet_);
  }

  Recorder recorder;
  TextExchange text;

 private:
  Dissector dissector_;
  Packet packet_;
  std::uint64_t frames_ = 0;
  std::uint32_t next_[2] = {0xffffffc0, 1};
};

std::string record(std::uint32_t qp, std::uint32_t psn, std::uint16_t lid = 0) {
  char out[32];
  const int n = std::snprintf(out, sizeof out, "%04x:%06x:%06x", lid, qp, psn);
  return {out, static_cast<std::size_t>(n) + 1};
}

TEST(TextExchange, WithoutGidUsesLidOrTcpAddresses) {
  Wires wires;
  wires.send(true, record(0x21, 1));
  wires.send(false, record(0x22, 2, 7));
  ASSERT_EQ(wires.recorder.pairs.size(), 1U);
  EXPECT_EQ(wires.recorder.pairs[0].sides[0].address, PortAddress::of_ipv4(client));
  EXPECT_EQ(wires.recorder.pairs[0].sides[1].address, PortAddress::of_lid(7));
}

TEST(TextExchange, SmallerMtuIsUsed) {
  Wires wires;
  wires.send(true, "5\0"sv);
  wires.send(false, "3\0"sv);
  wires.send(true, record(0x21, 1));
  wires.send(false, record(0x22, 2));
  ASSERT_EQ(wires.recorder.pairs.size(), 1U);
  EXPECT_EQ(wires.recorder.pairs[0].mtu, 1024U);
}

// Sends `all` in segments of at least `least` bytes.
template <class Send>
void cut(std::mt19937& random, std::string_view all, std::size_t least, Send send) {
  for (std::size_t at = 0; at < all.size();) {
    std::size_t n = least + random() % 60;
    if (all.size() - at < n + least) n = all.size() - at;
    send(at, all.substr(at, n));
    at += n;
  }
}

TEST(TextExchange, AnySegmentationGivesTheSamePairs) {
  constexpr std::uint32_t queue_pairs = 40;
  std::string mine, theirs;
  for (std::uint32_t i = 0; i < queue_pairs; ++i) {
    mine += record(100 + i, i);
    theirs += record(500 + i, 7 * i);
  }
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const bool loses = round % 2;
    Wires wires;
    for (int again = 0; again < 2; ++again)
      for (bool from_client : {true, false})
        cut(random, from_client ? mine : theirs, 19, [&](std::size_t at, std::string_view piece) {
          const auto seq = static_cast<std::uint32_t>(0xffffff00 + at + (again ? mine.size() : 0));
          if (!loses || at == 0 || random() % 8) wires.segment(from_client, seq, piece);
          if (random() % 8 == 0) wires.segment(from_client, seq, piece);
        });
    ASSERT_FALSE(wires.recorder.pairs.empty());
    for (const PairEvidence& e : wires.recorder.pairs) EXPECT_EQ(e.sides[0].qp + 400, e.sides[1].qp) << round;
    if (!loses) {
      EXPECT_EQ(wires.recorder.pairs.size(), queue_pairs) << round;
    }
  }
}

TEST(TextExchange, RetransmittedSegmentsAreIgnored) {
  Wires wires;
  wires.segment(true, 1, record(1, 1) + record(2, 2));
  wires.segment(true, 1, record(1, 1) + record(2, 2));
  wires.segment(false, 1, record(3, 3));
  wires.segment(false, 1, record(3, 3));
  wires.segment(false, 20, record(4, 4));
  ASSERT_EQ(wires.recorder.pairs.size(), 2U);
  EXPECT_EQ(wires.recorder.pairs[1].sides[0].qp, 2U);
  EXPECT_EQ(wires.recorder.pairs[1].sides[1].qp, 4U);
}

TEST(TextExchange, Bounded) {
  Wires wires(8);
  for (std::uint16_t port = 1000; port < 1100; ++port) wires.send(true, record(1, port), port);
  EXPECT_EQ(wires.text.known(), 8U);
  EXPECT_EQ(wires.text.evicted(), 92U);
  std::string many;
  for (std::uint32_t i = 1; i <= 3000; ++i) wires.send(true, record(i, i), 2000);
  EXPECT_EQ(wires.text.evicted(), 93U + 3000 - TextExchange::max_queue_pairs);
  EXPECT_LT(wires.text.memory(), std::size_t{1} << 18);
}

}  // namespace
}  // namespace rdmawire::tracking
