// Tests reports about CM exchanges. Values of real captures are from tshark's fields infiniband.cm.* and
// frame.time_epoch.

#include "dissectors/tracking/conversations.hpp"

#include <gtest/gtest.h>

#include <string>

#include "dissectors/protocol/encode.hpp"
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

struct Notification {
  std::string what;
  PairEvidence evidence;
  Event event;
  FlowKey path;
  std::size_t by = 9;
  std::uint8_t message = 9;
  bool datagram = false;
  std::string reason;
  ByteVector additional;
};

struct Recorder final : PairSink {
  void pair(const PairEvidence& e) override { notifications.push_back({"pair", e, {}, {}, 9, 9, false, {}, {}}); }
  void datagram_service(const PairEvidence& e) override {
    notifications.push_back({"datagram", e, {}, {}, 9, 9, false, {}, {}});
  }
  void opened(const PairEvidence& e, const Event& v) override {
    notifications.push_back({"opened", e, v, {}, 9, 9, false, {}, {}});
  }
  void rejected(const PairEvidence& e, const Event& v, const Rejection& r) override {
    notifications.push_back({"rejected",
                             e,
                             v,
                             {},
                             r.by,
                             r.message,
                             r.datagram,
                             std::string(r.reason_name),
                             ByteVector(r.additional.begin(), r.additional.end())});
  }
  void path_changed(const PairEvidence& e, const Event& v, const FlowKey& path) override {
    notifications.push_back({"path", e, v, path, 9, 9, false, {}, {}});
  }
  void unanswered(const PairEvidence& e, const Event& v) override {
    notifications.push_back({"unanswered", e, v, {}, 9, 9, false, {}, {}});
  }
  void closing(const PairEvidence& e, std::uint64_t frame, std::int64_t time) override {
    Event v;
    v.frame = frame;
    v.time = time;
    notifications.push_back({"closing", e, v, {}, 9, 9, false, {}, {}});
  }
  void closed(const PairEvidence& e, const Event& v) override {
    notifications.push_back({"closed", e, v, {}, 9, 9, false, {}, {}});
  }
  [[nodiscard]] std::string steps() const {
    std::string all;
    for (const Notification& t : notifications) all += (all.empty() ? "" : " ") + t.what;
    return all;
  }
  std::vector<Notification> notifications;
};

std::vector<Notification> follow(const std::string& path) {
  Recorder recorder;
  Conversations conversations(recorder);
  dissect_capture(path, [&](const Packet& packet) { conversations.add(packet); });
  conversations.finish();
  return recorder.notifications;
}

TEST(Conversations, Rping) {
  const auto notifications = follow(sample("rping.pcap"));
  ASSERT_EQ(notifications.size(), 4U);
  const PairEvidence& e = notifications[0].evidence;
  EXPECT_EQ(notifications[0].what, "pair");
  EXPECT_EQ(e.by, JoinedBy::connection_manager);
  EXPECT_EQ(e.service, Service::rc);
  EXPECT_EQ(e.sides[0].address, PortAddress::of_ipv4(0x0a000003));
  EXPECT_EQ(e.sides[1].address, PortAddress::of_ipv4(0x0a000002));
  EXPECT_EQ(e.sides[0].qp, 0x11U);
  EXPECT_EQ(e.sides[1].qp, 0x11U);
  EXPECT_EQ(e.sides[0].first_psn, 8415281U);   // frame 18: the client's first SEND
  EXPECT_EQ(e.sides[1].first_psn, 10321873U);  // frame 20: the server's first RDMA READ Request
  EXPECT_EQ(e.mtu, 1024U);
  EXPECT_EQ(e.pkey, 0xffff);
  EXPECT_EQ(e.service_port, 7174);
  EXPECT_EQ(e.sides[0].reads_as_responder, 1);
  EXPECT_EQ(e.sides[0].reads_as_requester, 1);
  EXPECT_EQ(e.sides[1].reads_as_responder, 1);
  EXPECT_EQ(e.sides[1].reads_as_requester, 1);
  EXPECT_EQ(e.sides[1].retries, 7);
  EXPECT_EQ(e.sides[0].rnr_retries, 7);
  EXPECT_EQ(e.sides[0].acknowledgement_timeout, 4096LL << 19);
  EXPECT_EQ(e.sides[1].acknowledgement_timeout, 4096LL << 19);
  EXPECT_EQ(e.requests, 1U);
  EXPECT_EQ(e.request_frame, 15U);
  EXPECT_EQ(e.frame, 16U);
  EXPECT_EQ(e.request_time, 1795236398114043000);
  EXPECT_EQ(e.time, 1795236398142248000);

  EXPECT_EQ(notifications[1].what, "opened");
  EXPECT_EQ(notifications[1].event.kind, EventKind::opened);
  EXPECT_EQ(notifications[1].event.frame, 17U);
  EXPECT_EQ(notifications[1].event.origin_frame, 15U);
  EXPECT_EQ(notifications[1].event.cause_frame, 16U);
  EXPECT_EQ(notifications[1].event.duration, 28205000);

  EXPECT_EQ(notifications[2].what, "closing");
  EXPECT_EQ(notifications[2].event.frame, 378U);
  EXPECT_EQ(notifications[3].what, "closed");
  EXPECT_EQ(notifications[3].event.frame, 378U);
  EXPECT_EQ(notifications[3].event.last_frame, 379U);
  EXPECT_EQ(notifications[3].event.duration, 11224000);
  EXPECT_EQ(notifications[3].event.end, Side::a);
  EXPECT_EQ(notifications[3].event.cause, Cause::none);
}

TEST(Conversations, ServerDisconnects) {
  const auto notifications = follow(sample("ucmatose.pcap"));
  ASSERT_EQ(notifications.size(), 4U);
  EXPECT_EQ(notifications[0].evidence.sides[0].first_psn, 0x10b0aeU);
  EXPECT_EQ(notifications[0].evidence.sides[1].first_psn, 0xc836d3U);  // frame 18: 13121235
  EXPECT_EQ(notifications[0].evidence.service_port, 7471);
  EXPECT_EQ(notifications[3].event.frame, 218U);
  EXPECT_EQ(notifications[3].event.end, Side::b);
}

TEST(Conversations, TwoConnectionsDisconnectedFromBothSides) {
  Recorder recorder;
  recorder.notifications = follow(sample("linlinw5-cm.pcap"));
  // Both sides of the second connection send a DREQ before they receive the DREQ of the peer (frames 91 and 92).
  EXPECT_EQ(recorder.steps(), "pair opened pair opened closing closed closing closed");
  const auto& t = recorder.notifications;
  ASSERT_EQ(t.size(), 8U);
  EXPECT_EQ(t[2].evidence.sides[0].qp, 0x3eU);
  EXPECT_EQ(t[2].evidence.sides[1].qp, 0x3cU);
  EXPECT_EQ(t[3].event.frame, 30U);
  EXPECT_EQ(t[4].event.frame, 91U);
  EXPECT_EQ(t[4].evidence.sides[1].qp, 0x3cU);
  EXPECT_EQ(t[5].event.last_frame, 93U);
  EXPECT_EQ(t[5].event.packets, 1U);
  EXPECT_EQ(t[6].event.frame, 95U);
  EXPECT_EQ(t[6].evidence.sides[0].qp, 0x3dU);
  EXPECT_EQ(t[7].event.duration, 521000);
}

TEST(Conversations, NativeInfiniBandByLid) {
  const std::string path = shared_capture("public/realjimmy__sample-captures__infiniband.pcap");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " does not exist";
  Recorder recorder;
  recorder.notifications = follow(path);
  ASSERT_EQ(recorder.steps(), "pair opened pair opened pair opened");
  const PairEvidence& e = recorder.notifications[0].evidence;
  EXPECT_EQ(e.sides[0].address, PortAddress::of_lid(4));
  EXPECT_EQ(e.sides[1].address, PortAddress::of_lid(1));
  EXPECT_EQ(e.sides[0].qp, 0x870408U);
  EXPECT_EQ(e.sides[1].qp, 0xfc0407U);
  EXPECT_EQ(e.sides[0].first_psn, 0xd40a55U);
  EXPECT_EQ(e.sides[1].first_psn, 0U);
  EXPECT_EQ(e.mtu, 2048U);
  EXPECT_EQ(e.service_port, 0);  // service ID of IPoIB's connected mode
  EXPECT_EQ(recorder.notifications[4].evidence.request_frame, 34U);
  EXPECT_EQ(recorder.notifications[5].event.frame, 37U);
}

// The first request of each side has the PSN from the CM exchange.
TEST(Conversations, FirstRequestsHaveTheStartingPsns) {
  for (const char* name : {"rping.pcap", "ucmatose.pcap", "linlinw5-cm.pcap", "rc-read.pcap.gz", "rc-send.pcap.gz",
                           "nvme-over-rdma.pcap.zst"}) {
    Recorder recorder;
    Conversations conversations(recorder);
    unsigned checked = 0;
    std::vector<FlowKey> met;
    dissect_capture(sample(name), [&](const Packet& packet) {
      conversations.add(packet);
      const auto bth = packet.stack.get<Bth>();
      const auto ports = ports_of(packet.stack);
      if (!bth || !ports || opcode(bth->get<"opcode">()).direction != Direction::request || bth->get<"dest_qp">() <= 1)
        return;
      const FlowKey key = ports->with(bth->get<"dest_qp">());
      if (std::find(met.begin(), met.end(), key) != met.end()) return;
      for (auto t = recorder.notifications.rbegin(); t != recorder.notifications.rend(); ++t)
        for (std::size_t side : {0U, 1U})
          if (t->what == "pair" && t->evidence.to(1 - side) == key) {
            EXPECT_EQ(t->evidence.sides[side].first_psn, bth->get<"psn">()) << name << " frame " << packet.number;
            met.push_back(key);
            ++checked;
          }
    });
    EXPECT_GE(checked, 1U) << name;
  }
}

// ---- Generated exchanges

constexpr std::uint32_t host = 0x0a000003, target = 0x0a000002;
constexpr std::uint32_t host_qp = 0x21, target_qp = 0x22, host_id = 0x1111, target_id = 0x2222;
enum class Over { roce_v2, roce_v1, infiniband };

ByteVector mapped(std::uint32_t ipv4) {
  ByteVector gid(16, 0);
  gid[10] = gid[11] = 0xff;
  store_be(gid.data() + 12, 4, ipv4);
  return gid;
}

class Wires {
 public:
  explicit Wires(std::uint32_t capacity = Conversations::default_capacity) : conversations(recorder, capacity) {}

  /// Adds a packet one millisecond after the preceding packet.
  void see(Frame frame) {
    const ByteVector bytes = frame.encode();
    packet_.number = ++frames_;
    packet_.time_ns = static_cast<std::int64_t>(frames_) * 1000000;
    packet_.link = over == Over::infiniband ? LinkType::infiniband : LinkType::ethernet;
    dissector_.dissect(packet_, bytes, static_cast<std::uint32_t>(bytes.size()));
    ASSERT_TRUE(packet_.stack.get<Mad>());
    conversations.add(packet_);
  }
  void send(std::uint32_t from, const HeaderValue& message) {
    const std::uint32_t to = from == host ? target : host;
    Frame frame;
    if (over == Over::roce_v2) {
      frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(from).set<"dst">(to) / Value<Udp>();
    } else if (over == Over::roce_v1) {
      frame = Value<Ethernet>() / Value<Grh>().set<"sgid">(mapped(from)).set<"dgid">(mapped(to));
    } else {
      frame /= Value<Lrh>().set<"slid">(from & 0xff).set<"dlid">(to & 0xff);
    }
    frame /= Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1);
    frame /= Value<Deth>().set<"src_qp">(1).set<"qkey">(0x80010000);
    frame /= Value<Mad>();
    const std::size_t byte_count = Mad::size + message.bytes().size();
    frame /= message;
    frame.payload.resize(Mad::whole - byte_count);
    see(std::move(frame));
  }
  void connect() {
    send(host, request());
    send(target, reply());
    send(host, Value<CmRtu>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id));
  }
  [[nodiscard]] Value<CmReq> request(std::uint32_t id = host_id, std::uint32_t qp = host_qp) const {
    Value<CmReq> req;
    req.set<"local_comm_id">(id).set<"service_id">(0x0000000001061144).set<"local_qpn">(qp).set<"path_mtu">(5);
    req.set<"pkey">(0xffff).set<"starting_psn">(0x100);
    const bool lids = over == Over::infiniband;
    req.set<"primary_local_lid">(lids ? host & 0xff : 0xffff).set<"primary_remote_lid">(lids ? target & 0xff : 0xffff);
    req.set<"primary_local_gid">(mapped(host)).set<"primary_remote_gid">(mapped(target));
    return req;
  }
  static Value<CmRep> reply(std::uint32_t id = target_id, std::uint32_t qp = target_qp) {
    return Value<CmRep>()
        .set<"local_comm_id">(id)
        .set<"remote_comm_id">(host_id)
        .set<"local_qpn">(qp)
        .set<"starting_psn">(0x200);
  }
  const Notification& last() { return recorder.notifications.back(); }

  Over over = Over::roce_v2;
  Recorder recorder;
  Conversations conversations;

 private:
  Dissector dissector_;
  Packet packet_;
  std::uint64_t frames_ = 0;
};

TEST(Conversations, EveryWireIsSupported) {
  for (Over over : {Over::roce_v2, Over::roce_v1, Over::infiniband}) {
    Wires wires;
    wires.over = over;
    wires.connect();
    ASSERT_EQ(wires.recorder.steps(), "pair opened");
    const PairEvidence& e = wires.last().evidence;
    const bool lids = over == Over::infiniband;
    EXPECT_EQ(e.sides[0].address, lids ? PortAddress::of_lid(3) : PortAddress::of_ipv4(host));
    EXPECT_EQ(e.sides[1].address, lids ? PortAddress::of_lid(2) : PortAddress::of_ipv4(target));
    EXPECT_EQ(e.to(1).number, target_qp);
    EXPECT_EQ(e.service_port, 0x1144);
  }
}

TEST(Conversations, QueuePairsAreAtThePrimaryPath) {
  Wires wires;
  const auto elsewhere = mapped(0x0a000105);
  wires.send(host, wires.request().set<"primary_remote_gid">(elsewhere));
  wires.send(target, Wires::reply());
  EXPECT_EQ(wires.last().evidence.sides[1].address, PortAddress::of_ipv4(0x0a000105));
  // The path contains no addresses, so those of the packet are used.
  Wires other;
  other.send(host, other.request().set<"primary_remote_gid">(ByteVector(16)).set<"primary_local_gid">(ByteVector(16)));
  other.send(target, Wires::reply());
  EXPECT_EQ(other.last().evidence.sides[0].address, PortAddress::of_ipv4(host));
  EXPECT_EQ(other.last().evidence.sides[1].address, PortAddress::of_ipv4(target));
}

TEST(Conversations, TransportTypes) {
  const auto service = [](unsigned type, unsigned extended) {
    Wires wires;
    wires.send(host, wires.request().set<"transport_service_type">(type).set<"extended_transport_type">(extended));
    wires.send(target, Wires::reply(target_id, extended ? 0 : target_qp).set<"local_eecn">(extended ? 0x77 : 0));
    return wires.last().evidence;
  };
  EXPECT_EQ(service(0, 0).service, Service::rc);
  EXPECT_EQ(service(1, 0).service, Service::uc);
  EXPECT_EQ(service(1, 0).sides[1].qp, target_qp);
  EXPECT_EQ(service(3, 1).service, Service::xrc);
  EXPECT_TRUE(service(3, 1).service_known);
  EXPECT_EQ(service(3, 1).sides[1].qp, 0x77U);
  EXPECT_FALSE(service(3, 4).service_known);
}

TEST(Conversations, RetransmittedMessagesAreCountedAndReportedOnce) {
  Wires wires;
  for (int i = 0; i < 3; ++i) wires.send(host, wires.request());
  wires.send(target, Value<CmMra>().set<"local_comm_id">(target_id).set<"remote_comm_id">(host_id));
  wires.send(target, Wires::reply());
  wires.send(target, Wires::reply());
  const HeaderValue rtu = Value<CmRtu>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id);
  wires.send(host, rtu);
  wires.send(host, rtu);
  ASSERT_EQ(wires.recorder.steps(), "pair opened");
  EXPECT_EQ(wires.last().evidence.requests, 3U);
  EXPECT_EQ(wires.last().evidence.receipts, 1U);
  EXPECT_EQ(wires.last().event.packets, 3U);
  EXPECT_EQ(wires.last().event.duration, 4000000);  // frame 1 to frame 5

  const HeaderValue dreq =
      Value<CmDreq>().set<"local_comm_id">(target_id).set<"remote_comm_id">(host_id).set<"remote_qpn">(host_qp);
  const HeaderValue drep = Value<CmDrep>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id);
  wires.send(target, dreq);
  wires.send(target, dreq);
  wires.send(host, drep);
  wires.send(host, drep);
  wires.conversations.finish();
  EXPECT_EQ(wires.recorder.steps(), "pair opened closing closed");
  EXPECT_EQ(wires.last().event.packets, 2U);
  EXPECT_EQ(wires.last().event.end, Side::b);
}

TEST(Conversations, ReusedIdIsAnotherConversation) {
  Wires wires;
  wires.connect();
  wires.send(host, wires.request(host_id, 0x31));
  wires.send(target, Wires::reply(0x3333, 0x32));
  EXPECT_EQ(wires.recorder.steps(), "pair opened pair");
  EXPECT_EQ(wires.last().evidence.sides[0].qp, 0x31U);
  EXPECT_EQ(wires.last().evidence.sides[1].qp, 0x32U);
}

TEST(Conversations, Rejections) {
  Wires wires;
  wires.send(host, wires.request());
  wires.send(target, Value<CmRej>().set<"remote_comm_id">(host_id).set<"reason">(12).set<"info_length">(16).set<"ari">(
                         mapped(0x0a000009)));
  ASSERT_EQ(wires.recorder.steps(), "rejected");
  EXPECT_EQ(wires.last().event.value, 12U);
  EXPECT_EQ(wires.last().reason, "Primary Remote Port GID rejected");
  EXPECT_EQ(wires.last().additional, mapped(0x0a000009));
  EXPECT_EQ(wires.last().event.origin_frame, 1U);
  EXPECT_EQ(wires.last().event.duration, 1000000);
  EXPECT_EQ(wires.last().event.end, Side::a);
  EXPECT_EQ(wires.last().by, 1U);
  EXPECT_EQ(wires.last().message, 0);
  EXPECT_EQ(wires.last().evidence.sides[0].qp, host_qp);
  EXPECT_EQ(wires.last().evidence.sides[1].qp, 0U);

  // The requester rejects the REP. The reason is unknown, and the length of ARI exceeds the field.
  Wires other;
  other.send(host, other.request());
  other.send(target, Wires::reply());
  const HeaderValue rej = Value<CmRej>()
                              .set<"local_comm_id">(host_id)
                              .set<"remote_comm_id">(target_id)
                              .set<"message">(1)
                              .set<"reason">(999)
                              .set<"info_length">(127);
  other.send(host, rej);
  other.send(host, rej);
  ASSERT_EQ(other.recorder.steps(), "pair rejected");
  EXPECT_EQ(other.last().by, 0U);
  EXPECT_EQ(other.last().event.end, Side::b);
  EXPECT_EQ(other.last().reason, "");
  EXPECT_EQ(other.last().additional.size(), 72U);

  // The capture does not contain the start of the connection.
  Wires late;
  late.send(target, Value<CmRej>().set<"remote_comm_id">(host_id).set<"reason">(8));
  late.send(target, Value<CmRej>().set<"remote_comm_id">(host_id).set<"reason">(8));
  ASSERT_EQ(late.recorder.steps(), "rejected");
  EXPECT_EQ(late.last().reason, "Invalid Service ID");
  EXPECT_EQ(late.last().evidence.sides[0].address, PortAddress::of_ipv4(host));
  EXPECT_EQ(late.last().event.origin_frame, 0U);
}

TEST(Conversations, AlternatePaths) {
  for (unsigned status : {0U, 3U}) {
    Wires wires;
    wires.connect();
    wires.send(target, Value<CmLap>()
                           .set<"local_comm_id">(target_id)
                           .set<"remote_comm_id">(host_id)
                           .set<"remote_qpn">(host_qp)
                           .set<"alternate_local_gid">(mapped(0x0b000002))
                           .set<"alternate_remote_gid">(mapped(0x0b000003)));
    EXPECT_EQ(wires.recorder.steps(), "pair opened");
    const HeaderValue apr =
        Value<CmApr>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id).set<"status">(status);
    wires.send(host, apr);
    wires.send(host, apr);
    ASSERT_EQ(wires.recorder.steps(), "pair opened path");
    const Notification& t = wires.last();
    EXPECT_EQ(t.event.kind, EventKind::path_change);
    EXPECT_EQ(t.event.frame, 5U);
    EXPECT_EQ(t.event.origin_frame, 4U);
    EXPECT_EQ(t.event.value, status);
    EXPECT_EQ(t.event.end, Side::b);
    EXPECT_EQ(t.path.from, PortAddress::of_ipv4(0x0b000003));
    EXPECT_EQ(t.path.to, PortAddress::of_ipv4(0x0b000002));
  }
}

TEST(Conversations, DisconnectWithoutCapturedStart) {
  Wires wires;
  wires.send(host, Value<CmDreq>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id).set<"remote_qpn">(
                       target_qp));
  ASSERT_EQ(wires.recorder.steps(), "closing");
  EXPECT_EQ(wires.last().evidence.to(1),
            (FlowKey{PortAddress::of_ipv4(host), PortAddress::of_ipv4(target), target_qp}));
  EXPECT_EQ(wires.last().evidence.request_frame, 0U);
  wires.conversations.finish();
  ASSERT_EQ(wires.recorder.steps(), "closing closed");
  EXPECT_EQ(wires.last().event.cause, Cause::unknown);
  EXPECT_EQ(wires.last().event.duration, 0);
  wires.conversations.finish();
  EXPECT_EQ(wires.recorder.steps(), "closing closed");
}

TEST(Conversations, RequestWithoutReplyIsUnanswered) {
  Wires wires;
  for (int i = 0; i < 3; ++i) wires.send(host, wires.request());
  wires.send(host, Value<CmSidrReq>().set<"request_id">(7));
  wires.conversations.finish();
  wires.conversations.finish();
  ASSERT_EQ(wires.recorder.steps(), "unanswered unanswered");
  const Notification& t = wires.recorder.notifications[0];
  EXPECT_EQ(t.event.kind, EventKind::unanswered);
  EXPECT_EQ(t.event.frame, 1U);
  EXPECT_EQ(t.event.last_frame, 3U);
  EXPECT_EQ(t.event.duration, 2000000);
  EXPECT_EQ(t.event.packets, 3U);
  EXPECT_EQ(t.evidence.sides[0].qp, host_qp);
}

TEST(Conversations, DatagramServices) {
  Wires wires;
  const HeaderValue ask =
      Value<CmSidrReq>().set<"request_id">(7).set<"pkey">(0xffff).set<"service_id">(0x0000000001111d2f);
  wires.send(host, ask);
  wires.send(host, ask);
  wires.send(target, Value<CmSidrRep>().set<"request_id">(7).set<"qpn">(0x99).set<"qkey">(0x01234567));
  ASSERT_EQ(wires.recorder.steps(), "datagram");
  const PairEvidence& e = wires.last().evidence;
  EXPECT_EQ(e.service, Service::ud);
  EXPECT_EQ(e.sides[1].qp, 0x99U);
  EXPECT_EQ(e.sides[1].address, PortAddress::of_ipv4(target));
  EXPECT_EQ(e.qkey, 0x01234567U);
  EXPECT_EQ(e.service_port, 7471);
  EXPECT_EQ(e.requests, 2U);

  wires.send(host, Value<CmSidrReq>().set<"request_id">(8).set<"service_id">(0x0000000001111d2f));
  wires.send(target, Value<CmSidrRep>().set<"request_id">(8).set<"status">(2));
  ASSERT_EQ(wires.recorder.steps(), "datagram rejected");
  EXPECT_TRUE(wires.last().datagram);
  EXPECT_EQ(wires.last().event.value, 2U);
  EXPECT_EQ(wires.last().reason, "rejected");
}

TEST(Conversations, RepliesWithoutRequestsAreIgnored) {
  Wires wires;
  wires.send(target, Wires::reply());
  wires.send(host, Value<CmRtu>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id));
  wires.send(host, Value<CmDrep>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id));
  wires.send(host, Value<CmApr>().set<"local_comm_id">(host_id).set<"remote_comm_id">(target_id));
  wires.send(target, Value<CmSidrRep>().set<"request_id">(8));
  wires.conversations.finish();
  EXPECT_EQ(wires.recorder.steps(), "");
}

TEST(Conversations, DamagedMessageIsIgnored) {
  Wires wires;
  Frame frame = Value<Ethernet>() / Value<Ipv4>().set<"src">(host).set<"dst">(target) / Value<Udp>() /
                Value<Bth>().set<"opcode">(0x64).set<"dest_qp">(1) / Value<Deth>().set<"qkey">(0x80010000) /
                Value<Mad>() / wires.request();
  frame.payload.resize(Mad::whole - Mad::size - CmReq::size);
  frame.icrc = 0x12345678;
  wires.see(frame);
  EXPECT_EQ(wires.conversations.known(), 0U);
  frame.icrc = 0;  // captured before the device computed the ICRC
  wires.see(frame);
  EXPECT_EQ(wires.conversations.known(), 1U);
}

TEST(Conversations, HalfOpenConversationsAreBounded) {
  Wires wires(64);
  for (std::uint32_t id = 1; id <= 1000; ++id) wires.send(host, wires.request(id, 0x100 + id));
  EXPECT_EQ(wires.conversations.known(), 64U);
  EXPECT_EQ(wires.conversations.evicted(), 936U);
  EXPECT_LT(wires.conversations.memory(), std::size_t{1} << 17);
  EXPECT_EQ(wires.recorder.steps(), "");
}

}  // namespace
}  // namespace rdmawire::tracking
