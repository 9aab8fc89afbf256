/// Tests of the communication manager: connections between two devices, and individual messages.

#include "dissectors/protocol/cm.hpp"

#include <gtest/gtest.h>

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/ends_for_test.hpp"
#include "dissectors/protocol/decode.hpp"
#include "replay/rpc/message.hpp"

namespace rdmawire::device {
namespace {

using testing::End;
using testing::Line;
using testing::Seen;
using namespace std::string_literals;

constexpr std::uint16_t port = 7471;
Gid address_of(std::uint8_t number) { return Gid::ipv4(0x0a000000U | number); }

/// Return the attribute ID of a CM message, or 0.
std::uint16_t attribute_of(const std::vector<std::uint8_t>& frame) {
  const HeaderStack stack = decode(frame);
  const auto mad = stack.get<Mad>();
  return mad ? static_cast<std::uint16_t>(mad->get<"attribute_id">()) : std::uint16_t{0};
}

/// Device a connects, device b listens.
struct Connecting : ::testing::Test {
  Connecting() : a(1), b(2), line(a.device, b.device) {
    a.device.port().learn(address_of(2), b.device.options().port.mac);
    listener = b.device.cm_listen({{}, port}, 4)->cm_id;
  }
  std::uint32_t call(CmParameters with = {}) {
    with.qp = a.qp;
    return *a.device.cm_connect({address_of(2), port}, {}, std::move(with));
  }
  static CmEvent expect_event(Device& device, CmEventType type) {
    const auto event = device.get_cm_event();
    EXPECT_TRUE(event);
    if (!event) return {type};
    EXPECT_EQ(static_cast<int>(event->type), static_cast<int>(type));
    return *event;
  }
  /// Start a connection from a, and return the connect request event of b.
  CmEvent requested(CmParameters with = {}) {
    caller = call(std::move(with));
    expect_event(a.device, CmEventType::addr_resolved);
    expect_event(a.device, CmEventType::route_resolved);
    line.run(line.now + 10'000);
    return expect_event(b.device, CmEventType::connect_request);
  }
  void connect() {
    callee = requested().cm_id;
    CmParameters with;
    with.qp = b.qp;
    const auto accepted = b.device.cm_accept(callee, with);
    ASSERT_TRUE(accepted) << accepted.error().message;
    line.run(line.now + 10'000);
    expect_event(a.device, CmEventType::established);
    expect_event(b.device, CmEventType::established);
  }
  std::vector<std::uint16_t> messages() const {
    std::vector<std::uint16_t> all;
    for (const Seen& seen : line.seen)
      if (const auto attribute = attribute_of(seen.bytes)) all.push_back(attribute);
    return all;
  }
  using Messages = std::vector<std::uint16_t>;

  End a, b;
  Line line;
  std::uint32_t listener = 0, caller = 0, callee = 0;
};

TEST_F(Connecting, TransfersDataAndDisconnects) {
  connect();
  EXPECT_EQ(messages(), (Messages{cm_attribute::req, cm_attribute::rep, cm_attribute::rtu}));
  EXPECT_EQ(a.device.qp(a.qp)->attributes.dest_qpn, b.device.qp(b.qp)->qpn);
  a.fill(0, 3000, 5);
  ASSERT_TRUE(a.device.post_send(a.qp, a.request(WorkOpcode::write, 1, a.at(0, 3000), b, 100)));
  line.run(line.now + 1'000'000);
  EXPECT_EQ(a.poll().size(), 1U);
  EXPECT_EQ(b.bytes(100, 3000), a.bytes(0, 3000));

  line.seen.clear();
  ASSERT_TRUE(a.device.cm_disconnect(caller));
  line.run();
  EXPECT_EQ(messages(), (Messages{cm_attribute::dreq, cm_attribute::drep}));
  expect_event(a.device, CmEventType::disconnected);
  expect_event(b.device, CmEventType::disconnected);
  expect_event(a.device, CmEventType::timewait_exit);
  expect_event(b.device, CmEventType::timewait_exit);
  EXPECT_EQ(a.device.qp(a.qp)->state, QpState::err);
  EXPECT_EQ(b.device.qp(b.qp)->state, QpState::err);
  EXPECT_TRUE(a.device.cm_destroy(caller));
  EXPECT_TRUE(b.device.cm_destroy(callee));
  EXPECT_TRUE(b.device.cm_destroy(listener));
  EXPECT_EQ(b.device.cm_destroy(listener).error().number, ENOENT);
}

TEST_F(Connecting, ReportsParametersOfRequest) {
  CmParameters with;
  with.private_data = {'h', 'i'};
  with.responder_resources = 3;
  with.initiator_depth = 2;
  with.retry_count = 5;
  with.rnr_retry_count = 4;
  const CmEvent event = requested(with);
  EXPECT_EQ(event.listener, listener);
  EXPECT_EQ(event.peer.responder_resources, 3);
  EXPECT_EQ(event.peer.initiator_depth, 2);
  EXPECT_EQ(event.peer.retry_count, 5);
  EXPECT_EQ(event.peer.rnr_retry_count, 4);
  EXPECT_EQ(event.peer.qpn, a.device.qp(a.qp)->qpn);
  ASSERT_EQ(event.peer.private_data.size(), 56U);
  EXPECT_EQ(event.peer.private_data[0], 'h');
  EXPECT_EQ(event.local.address, address_of(2));
  EXPECT_EQ(event.local.port, port);
  EXPECT_EQ(event.remote.address, address_of(1));
  CmParameters own;
  own.qp = b.qp;
  ASSERT_TRUE(b.device.cm_accept(event.cm_id, own));
  EXPECT_EQ(b.device.qp(b.qp)->attributes.max_dest_rd_atomic, 2U);
  EXPECT_EQ(b.device.qp(b.qp)->attributes.max_rd_atomic, 3U);
  EXPECT_EQ(b.device.qp(b.qp)->attributes.retry_count, 5);
  EXPECT_EQ(b.device.qp(b.qp)->attributes.rnr_retry, 4);
}

TEST_F(Connecting, RejectReportsReason) {
  const CmEvent event = requested();
  const std::uint8_t no[] = {'n', 'o'};
  ASSERT_TRUE(b.device.cm_reject(event.cm_id, no));
  line.run(line.now + 10'000);
  const CmEvent rejected = expect_event(a.device, CmEventType::rejected);
  EXPECT_EQ(rejected.reason, 28);
  EXPECT_EQ(rejected.peer.private_data[1], 'o');
  EXPECT_EQ(rejected.peer.private_data.size(), 148U);
  EXPECT_EQ(a.device.qp(a.qp)->state, QpState::err);
  EXPECT_EQ(b.device.cm_accept(event.cm_id, {}).error().number, EINVAL);
}

TEST_F(Connecting, ConnectToUnknownServiceOrAddressFails) {
  ASSERT_TRUE(b.device.cm_destroy(listener));
  call();
  line.run(10'000);
  expect_event(a.device, CmEventType::addr_resolved);
  expect_event(a.device, CmEventType::route_resolved);
  EXPECT_EQ(expect_event(a.device, CmEventType::rejected).reason, 8);

  const auto elsewhere = a.device.cm_connect({address_of(99), port}, {}, {});
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(expect_event(a.device, CmEventType::addr_error).error, EHOSTUNREACH);
}

// 12.7.27
TEST_F(Connecting, RequestIsRetransmittedUnchangedUntilTimeout) {
  line.way = [](const Seen&) { return std::vector<std::int64_t>(); };
  call();
  line.run();
  std::vector<std::vector<std::uint8_t>> requests;
  for (const Seen& seen : line.seen)
    if (attribute_of(seen.bytes) == cm_attribute::req)
      requests.emplace_back(seen.bytes.begin() + 62, seen.bytes.end() - 4);  // the datagram without other headers
  ASSERT_EQ(requests.size(), 8U);                                            // Max CM Retries 7
  for (const auto& request : requests) EXPECT_EQ(request, requests[0]);
  EXPECT_GE(line.seen[1].time - line.seen[0].time, 536'870'912);  // code 17
  EXPECT_EQ(attribute_of(line.seen.back().bytes), cm_attribute::rej);
  expect_event(a.device, CmEventType::addr_resolved);
  expect_event(a.device, CmEventType::route_resolved);
  EXPECT_EQ(expect_event(a.device, CmEventType::unreachable).error, ETIMEDOUT);
}

TEST_F(Connecting, DuplicateMessageGetsSameResponse) {
  // The link duplicates every message from a.
  line.way = [](const Seen& seen) {
    return seen.from == 0 ? std::vector<std::int64_t>{1000, 2000} : std::vector<std::int64_t>{1000};
  };
  callee = requested().cm_id;
  EXPECT_EQ(messages(), (Messages{cm_attribute::req, cm_attribute::mra}));
  CmParameters with;
  with.qp = b.qp;
  ASSERT_TRUE(b.device.cm_accept(callee, with));
  line.run(line.now + 10'000);
  expect_event(b.device, CmEventType::established);
  EXPECT_FALSE(b.device.get_cm_event());
}

TEST_F(Connecting, LostReadyToUseCausesReplyRetransmission) {
  // The RTU is lost twice and the REP is retransmitted.
  int lost = 0;
  line.way = [&](const Seen& seen) {
    const bool rtu = attribute_of(seen.bytes) == cm_attribute::rtu;
    return rtu && lost++ < 2 ? std::vector<std::int64_t>() : std::vector<std::int64_t>{1000};
  };
  callee = requested().cm_id;
  CmParameters with;
  with.qp = b.qp;
  ASSERT_TRUE(b.device.cm_accept(callee, with));
  line.run(5'000'000'000);
  expect_event(b.device, CmEventType::established);
  EXPECT_EQ(lost, 3);
}

TEST_F(Connecting, ApplicationMayEstablishExplicitly) {
  CmParameters with;
  with.establishes = false;
  callee = requested(with).cm_id;
  CmParameters own;
  own.qp = b.qp;
  ASSERT_TRUE(b.device.cm_accept(callee, own));
  line.run(line.now + 10'000);
  expect_event(a.device, CmEventType::connect_response);
  EXPECT_EQ(a.device.qp(a.qp)->state, QpState::init);
  ASSERT_TRUE(a.device.cm_establish(caller));
  EXPECT_EQ(a.device.qp(a.qp)->state, QpState::rts);
  line.run(line.now + 10'000);
  expect_event(b.device, CmEventType::established);
}

TEST_F(Connecting, DestroyedConnectionDisconnects) {
  connect();
  line.seen.clear();
  ASSERT_TRUE(a.device.cm_destroy(caller));
  EXPECT_FALSE(a.device.get_cm_event());
  line.run();
  EXPECT_EQ(messages(), (Messages{cm_attribute::dreq, cm_attribute::drep}));
  expect_event(b.device, CmEventType::disconnected);

  End c(3), d(4);
  const auto waits = c.device.cm_listen({address_of(3), 0}, 1);
  ASSERT_TRUE(waits);
  EXPECT_GE(waits->port, 49'152);
  EXPECT_EQ(c.device.cm_listen({{}, waits->port}, 1).error().number, EADDRINUSE);
  EXPECT_EQ(c.device.cm_listen({address_of(4), 5}, 1).error().number, EADDRNOTAVAIL);
}

/// One device, and a tester that sends management datagrams to its QP 1.
struct General : ::testing::Test {
  General() : device(testing::options_of(1)) {
    tester = testing::options_of(9).port;
    device.port().learn(address_of(9), tester.mac);
    tester.learn(address_of(1), device.options().port.mac);
  }
  /// Send a MAD and return the first 36 bytes of the response MAD in hexadecimal. Empty if there is no response.
  std::string response_to(const std::string& hex, std::uint32_t qkey = 0x80010000, std::size_t bytes = 256,
                          std::uint16_t pkey = 0xffff) {
    OutgoingPacket packet;
    packet.fields.opcode = 0x64;
    packet.fields.pkey = pkey;
    packet.fields.dest_qpn = 1;
    packet.fields.qkey = qkey;
    packet.fields.source_qpn = 1;
    packet.path.dgid = address_of(1);
    packet.path.sgid_index = 2;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
      packet.payload.push_back(static_cast<std::uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    packet.payload.resize(bytes);
    replay::SimulatedHostOutput output;
    now += 1'000'000;
    device.arrived(*make_frame(packet, tester), now, output);
    constexpr std::size_t mad_at = 14 + 20 + 8 + 12 + 8;
    if (output.frames.empty() || output.frames[0].bytes.size() != mad_at + 256 + 4) return {};
    const Bytes mad = Bytes(output.frames[0].bytes).subspan(mad_at, 36);
    return rpc::to_hex(mad.data(), mad.size());
  }
  Device device;
  Port tester;
  std::int64_t now = 0;
};

TEST_F(General, DisconnectOfUnknownConnectionGetsReply) {
  // The DREQ has transaction 0x0102030405060708, local ID 0x11223344 and remote ID 0x55667788. The DREP has swapped
  // IDs.
  const std::string dreq =
      "0107020300000000"
      "0102030405060708"
      "0015000000000000"
      "1122334455667788";
  EXPECT_EQ(response_to(dreq),
            "0107020300000000"
            "0102030405060708"
            "0016000000000000"
            "5566778811223344"
            "00000000");
}

TEST_F(General, ReturnsClassPortInfo) {
  // The response to Get(ClassPortInfo) is a GetResp with base version 1, class version 2, response time 17.
  EXPECT_EQ(response_to("0107020100000000"
                        "00000000000000aa"
                        "0001000000000000"),
            "0107028100000000"
            "00000000000000aa"
            "0001000000000000"
            "0102000000000011"
            "00000000");
  // The status for another attribute: its method is not supported.
  EXPECT_EQ(response_to("0107020100000000"
                        "00000000000000aa"
                        "0002000000000000")
                .substr(0, 16),
            "01070281000c0000");
}

TEST_F(General, InvalidDatagramsAreDropped) {
  const std::string get =
      "0107020100000000"
      "00000000000000aa"
      "0001000000000000";
  EXPECT_EQ(response_to(get, 0x80010001), "");
  EXPECT_EQ(response_to(get, 0x80010000, 252), "");
  EXPECT_EQ(response_to(get, 0x80010000, 260), "");
  EXPECT_EQ(response_to(get, 0x80010000, 256, 0x8123), "");
  EXPECT_EQ(response_to("02" + get.substr(2)), "");
  EXPECT_EQ(response_to("0104" + get.substr(4)), "");
  EXPECT_EQ(device.counters().qkey_violations, 1U);
  EXPECT_EQ(device.counters().bad_pkeys, 1U);
}

TEST_F(General, UnknownServiceVersionAndReplyAreRejected) {
  // The response to a REQ with service ID 1 is a REJ of a REQ: reason 8, local ID 0, remote ID of the REQ's sender.
  const std::string req =
      "0107020300000000"
      "0000000000000001"
      "0010000000000000"
      "11223344"
      "00000000"
      "0000000000000001";
  EXPECT_EQ(response_to(req),
            "0107020300000000"
            "0000000000000001"
            "0012000000000000"
            "0000000011223344"
            "00000008");
  // The response to another class version has reason 31 and the highest supported version.
  EXPECT_EQ(response_to("010703" + req.substr(6)).substr(64), "0002001f");
  // The response to a REP without a connection is a REJ of a REP (bits 40) with reason 6.
  EXPECT_EQ(response_to("0107020300000000"
                        "0000000000000002"
                        "0013000000000000"
                        "1122334455667788")
                .substr(48),
            "0000000011223344"
            "40000006");
}

}  // namespace
}  // namespace rdmawire::device
