// Rewrites all sample captures: only mapped fields and checksums change, all CRCs are valid, and the inverse map
// restores the bytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "dissectors/protocol/arp.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "replay/rewrite/maps_for_test.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay {
namespace {

using testing::invent_live;
using testing::learn;
using tracking::testing::dissect_capture;
using tracking::testing::sample;

// Fields that a map can change, and dependent checksums.
const std::set<std::string, std::less<>> expected{"eth.dst",
                                                  "eth.src",
                                                  "ip.src",
                                                  "ip.dst",
                                                  "ipv6.src",
                                                  "ipv6.dst",
                                                  "grh.sgid",
                                                  "grh.dgid",
                                                  "udp.src_port",
                                                  "bth.pkey",
                                                  "bth.dest_qp",
                                                  "bth.psn",
                                                  "deth.qkey",
                                                  "deth.src_qp",
                                                  "reth.va",
                                                  "reth.rkey",
                                                  "atomiceth.va",
                                                  "atomiceth.rkey",
                                                  "ieth.rkey",
                                                  "aeth.msn",
                                                  "tcp.src_port",
                                                  "tcp.dst_port",
                                                  "tcp.seq",
                                                  "tcp.ack_number",
                                                  "cmreq.local_comm_id",
                                                  "cmreq.local_qpn",
                                                  "cmreq.starting_psn",
                                                  "cmreq.pkey",
                                                  "cmreq.primary_local_gid.ipv4",
                                                  "cmreq.primary_remote_gid.ipv4",
                                                  "cmreq.primary_local_gid.ipv6",
                                                  "cmreq.primary_remote_gid.ipv6",
                                                  "cmrep.local_comm_id",
                                                  "cmrep.remote_comm_id",
                                                  "cmrep.local_qpn",
                                                  "cmrep.starting_psn",
                                                  "cmrtu.local_comm_id",
                                                  "cmrtu.remote_comm_id",
                                                  "cmdreq.local_comm_id",
                                                  "cmdreq.remote_comm_id",
                                                  "cmdreq.remote_qpn",
                                                  "cmdrep.local_comm_id",
                                                  "cmdrep.remote_comm_id",
                                                  "cmrej.remote_comm_id",
                                                  "cmrej.local_comm_id",
                                                  "rdmacm.src.ipv4",
                                                  "rdmacm.dst.ipv4",
                                                  "rdmacm.src.ipv6",
                                                  "rdmacm.dst.ipv6",
                                                  "arp_ethernet.sender_hardware",
                                                  "arp_ethernet.sender_protocol",
                                                  "arp_ethernet.target_hardware",
                                                  "arp_ethernet.target_protocol",
                                                  "ip.checksum",
                                                  "udp.checksum",
                                                  "tcp.checksum",
                                                  "icmpv6.checksum",
                                                  "icrc"};

class Samples : public ::testing::TestWithParam<const char*> {};

TEST_P(Samples, OnlyMappedFieldsChangeAndInverseRestoresBytes) {
  const std::string path = sample(GetParam());
  Learnt learnt = learn(path);
  invent_live(learnt.map, 7);
  RewriteOptions options;
  options.unmapped = options.others = Unmapped::keep;
  const Rewriter there(learnt.map, options), back(testing::turned(learnt.map), options);
  options.crc = CrcPolicy::recompute;
  const Rewriter computing(learnt.map, options);

  std::vector<std::uint8_t> room, room_back, room_computed;
  tracking::Dissector again;
  tracking::Packet packet;
  FlowLearner learner;
  std::uint64_t rewritten = 0, rdma = 0;
  dissect_capture(path, [&](const tracking::Packet& captured) {
    const Bytes before = captured.stack.bytes;
    room.assign(before.size() + Rewriter::growth, 0xa5);
    room_back = room_computed = room;
    const Rewritten result = there.rewrite(captured, room);
    ASSERT_NE(result.outcome, Rewritten::Outcome::refused) << captured.number << " " << result.why;
    const bool is_rdma = captured.stack.get<Bth>() || captured.tcp.connection;
    rdma += is_rdma;
    rewritten += is_rdma && result.outcome == Rewritten::Outcome::rewritten;

    packet.number = captured.number;
    packet.time_ns = captured.time_ns;
    packet.link = captured.link;
    again.dissect(packet, result.frame, captured.stack.wire_length);
    learner.add(packet);
    EXPECT_EQ(packet.icrc.status, captured.icrc.status) << captured.number;
    ASSERT_EQ(packet.pdus.size(), captured.pdus.size()) << captured.number;
    for (std::size_t i = 0; i < packet.pdus.size(); ++i)
      EXPECT_EQ(packet.pdus[i].crc.status, captured.pdus[i].crc.status) << captured.number;
    // Frames are compared without connection state, because decoding of upper layers depends on it.
    for (const FieldChange& change : differences(decode(before, captured.link), decode(result.frame, captured.link))) {
      if (captured.tcp.connection && change.field == "payload") continue;  // FPDUs contain STags
      if (captured.stack.find(info<ArpEthernet>) || !captured.stack.get<Bth>()) continue;
      EXPECT_TRUE(expected.contains(change.field)) << captured.number << ": " << to_string(change);
    }
    if (captured.icrc.status == CrcCheck::Status::good) {
      const Rewritten computed = computing.rewrite(captured, room_computed);
      EXPECT_TRUE(std::equal(result.frame.begin(), result.frame.end(), computed.frame.begin(), computed.frame.end()))
          << captured.number << ": incremental and recomputed CRC differ";
    }
    const Rewritten home = back.rewrite(packet, room_back);
    EXPECT_TRUE(std::equal(home.frame.begin(), home.frame.end(), before.begin(), before.end()))
        << captured.number << ": " << [&] {
             std::string text;
             for (const FieldChange& change : differences(captured.stack, decode(home.frame, captured.link)))
               text += to_string(change) + "; ";
             return text;
           }();
  });
  EXPECT_GT(rewritten, 0U);

  // The map inferred from the rewritten capture has the live values. QP numbers and PSNs that applications exchange as
  // plain text are payload and stay unchanged.
  if (std::string_view(GetParam()) == "linlinw5-uc-pingpong.pcap") return;  // its directions are paired only by text
  const Learnt relearnt = learner.finish();
  ASSERT_EQ(relearnt.map.connections.size(), learnt.map.connections.size());
  for (std::size_t i = 0; i < relearnt.map.connections.size(); ++i)
    for (const Side end : {Side::a, Side::b}) {
      const MappedEnd &live = learnt.map.connections[i].at(end), &now = relearnt.map.connections[i].at(end);
      EXPECT_EQ(now.address.captured, live.address.live) << i;
      EXPECT_EQ(now.qp.captured, live.qp.live) << i;
      if (now.psn.captured) {
        EXPECT_EQ(now.psn.captured, live.psn.live) << i;
      }
      EXPECT_EQ(now.qkey.captured, live.qkey.live) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Captures, Samples,
                         ::testing::Values("linlinw5-cm.pcap", "linlinw5-rc-write.pcap", "linlinw5-uc-pingpong.pcap",
                                           "nvme-over-rdma.pcap.zst", "rc-atomic.pcap", "rc-pingpong-loss.pcap.gz",
                                           "rc-pingpong.pcap.gz", "rc-read-loss.pcap.zst", "rc-read.pcap.gz",
                                           "rc-send.pcap.gz", "rc-write-ipv6.pcap", "rc-write-jumbo.pcapng.zst",
                                           "rping.pcap", "siw-nvme-ipv6.pcapng.zst", "siw-read.pcap.gz",
                                           "siw-rping.pcap", "siw-send.pcap.gz", "siw-write-loss.pcap.gz",
                                           "siw-write.pcap.gz", "srq-pingpong.pcap.gz", "two-interfaces.pcapng",
                                           "ucmatose.pcap", "ud-pingpong.pcap"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace rdmawire::replay
