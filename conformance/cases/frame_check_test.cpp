#include "conformance/cases/frame_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "conformance/cases/conversation.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/icmp.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::conformance {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using FrameBytes = std::vector<std::uint8_t>;

constexpr std::uint32_t tester_qpn = 0x123456, device_qpn = 0x11;
constexpr std::size_t ip = 14, udp = 34, bth = 42;

Path path() {
  Path path;
  path.tester_mac = {2, 0, 0, 0, 0, 1};
  path.device_mac = {2, 0, 0, 0, 0, 2};
  path.tester_address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 9};
  path.device_address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  return path;
}

/// The path seen from the device.
Path reversed(Path path) {
  std::swap(path.tester_mac, path.device_mac);
  std::swap(path.tester_address, path.device_address);
  return path;
}

TesterQueuePair tester() {
  TesterQueuePair qp;
  qp.path = path();
  qp.tester_qpn = tester_qpn;
  qp.device_qpn = device_qpn;
  return qp;
}
/// The device's side, which sends valid frames to the tester.
TesterQueuePair device() {
  TesterQueuePair qp;
  qp.path = reversed(path());
  qp.tester_qpn = device_qpn;
  qp.device_qpn = tester_qpn;
  return qp;
}

FrameReport checked(const FrameBytes& frame, const std::set<std::uint32_t>& earlier = {}) {
  const std::vector<TesterQueuePair> queue_pairs{tester()};
  return FrameCheck({path()}).check(decode(frame), queue_pairs, earlier);
}
std::vector<std::string_view> violated(const FrameBytes& frame, const std::set<std::uint32_t>& earlier = {}) {
  std::vector<std::string_view> rules;
  for (const WireViolation& one : checked(frame, earlier).violations) {
    EXPECT_NE(one.expected, one.actual);
    rules.push_back(one.rule->id);
  }
  return rules;
}

/// Corrects the checksum of the IPv4 header and the ICRC.
FrameBytes sealed(FrameBytes frame) {
  store_be(frame.data() + ip + 10, 2, 0);
  store_be(frame.data() + ip + 10, 2, internet_checksum(Bytes(frame).subspan(ip, 20)));
  const HeaderStack stack = decode(frame);
  if (stack.icrc.length != 0) store_icrc(frame.data() + stack.icrc.offset, compute_icrc(stack));
  return frame;
}

TEST(FrameCheck, ValidFramesHaveNoViolation) {
  for (const FrameBytes& frame : {device().ack(psn(+0), 1).bytes(), device().send_only(psn(+0), "abc").bytes(),
                                  device().send_only(psn(+0), "").bytes(), device().cnp().bytes(),
                                  device().read_response(Position::only, psn(+0), 1, "12345678").bytes()}) {
    EXPECT_EQ(checked(frame).kind, FrameReport::Kind::packet);
    EXPECT_THAT(violated(frame), IsEmpty());
  }
  FrameBytes short_frame = device().send_only(psn(+0), "").bytes();
  short_frame.resize(60);  // padded by the link
  EXPECT_THAT(violated(short_frame), IsEmpty());
}

TEST(FrameCheck, EachInvalidPartViolatesItsRule) {
  struct Row {
    const char* rule;
    std::function<void(std::uint8_t*)> change;
    bool reseal = true;
  };
  const Row rows[] = {
      {"roce.sender.ipv4.never-a-fragment", [](std::uint8_t* p) { p[ip + 6] = 0; }},
      {"roce.sender.ipv4.header-checksum", [](std::uint8_t* p) { p[ip + 10] ^= 1; }, false},
      {"roce.sender.ip.addresses-from-gids", [](std::uint8_t* p) { p[ip + 15] ^= 4; }},
      {"roce.sender.udp.checksum-right-if-set", [](std::uint8_t* p) { p[udp + 6] = 1; }},
      {"roce.sender.icrc.over-ipv4", [](std::uint8_t* p) { p[bth + 20] ^= 1; }, false},
      {"bth.sender.version.zero", [](std::uint8_t* p) { p[bth + 1] |= 2; }},
      {"bth.sender.reserved.zero", [](std::uint8_t* p) { p[bth + 4] = 1; }},
      {"bth.sender.reserved.zero", [](std::uint8_t* p) { p[bth + 8] |= 1; }},
      {"bth.sender.headers.reserved-zero", [](std::uint8_t* p) { p[bth + 12] |= 0x80; }},
      {"bth.sender.headers.as-opcode-says", [](std::uint8_t* p) { p[bth] = 0x11; }},
      {"bth.sender.headers.as-opcode-says", [](std::uint8_t* p) { p[bth] = 0xdf; }},
      {"bth.sender.pkey.of-queue-pair", [](std::uint8_t* p) { p[bth + 3] ^= 1; }},
      {"bth.sender.qpn.of-connection", [](std::uint8_t* p) { p[bth + 7] ^= 1; }},
  };
  for (const Row& row : rows) {
    FrameBytes frame = device().read_response(Position::only, psn(+0), 1, "12345678").bytes();
    row.change(frame.data());
    EXPECT_THAT(violated(row.reseal ? sealed(frame) : frame), ElementsAre(row.rule));
  }
}

TEST(FrameCheck, WrongLengthsViolateTheirRules) {
  FrameBytes frame = device().send_only(psn(+0), "12345678").bytes();
  frame[ip + 3] -= 4;
  EXPECT_THAT(violated(sealed(frame)), testing::Contains("roce.sender.ipv4.total-length"));
  frame = device().send_only(psn(+0), "12345678").bytes();
  frame[udp + 5] -= 4;
  EXPECT_THAT(violated(frame), testing::Contains("roce.sender.udp.length"));
  frame = device().send_only(psn(+0), "12345678").bytes();
  frame[bth + 1] |= 3 << 4;  // three pad bytes
  frame.insert(frame.end(), 2, 0);
  frame[ip + 3] += 2;
  frame[udp + 5] += 2;
  EXPECT_THAT(violated(sealed(frame)), testing::Contains("bth.sender.pad.to-multiple-of-four"));
}

TEST(FrameCheck, FramesThatNoReceiverAcceptsAreLost) {
  const auto lost_rule = [](const FrameBytes& frame) {
    const FrameReport report = checked(frame);
    EXPECT_EQ(report.violations.size(), 1U);
    if (report.violations.empty()) return std::string_view();
    EXPECT_TRUE(report.violations.front().lost);
    return report.violations.front().rule->id;
  };
  FrameBytes frame = device().send_only(psn(+0)).bytes();
  store_be(frame.data() + udp + 2, 2, 4790);
  EXPECT_EQ(lost_rule(frame), "roce.sender.udp.destination-port");
  frame = device().send_only(psn(+0)).bytes();
  frame[ip + 9] = 0x1b;
  EXPECT_EQ(lost_rule(sealed(frame)), "roce.sender.ip.protocol-is-udp");
  frame = device().send_only(psn(+0)).bytes();
  frame[ip + 6] = 0x20;  // MF
  EXPECT_EQ(lost_rule(sealed(frame)), "roce.sender.ipv4.never-a-fragment");
  frame.resize(bth + 8);  // no complete BTH
  frame[ip + 6] = 0x40;
  store_be(frame.data() + ip + 2, 2, frame.size() - ip);
  store_be(frame.data() + udp + 4, 2, frame.size() - udp);
  EXPECT_EQ(lost_rule(sealed(frame)), "bth.sender.headers.as-opcode-says");
}

TEST(FrameCheck, PacketsToEarlierAndManagementQueuePairsAreNoViolation) {
  TesterQueuePair other = device();
  other.device_qpn = tester_qpn + 1;
  const FrameBytes late = other.ack(psn(+0), 1).bytes();
  EXPECT_THAT(violated(late), ElementsAre("bth.sender.qpn.of-connection"));
  EXPECT_THAT(violated(late, {tester_qpn + 1}), IsEmpty());
  other.device_qpn = 1;
  EXPECT_THAT(violated(other.send_only(psn(+0)).bytes()), IsEmpty());
}

Frame from_device(std::uint32_t to) {
  return Value<Ethernet>().set<"dst">(0x020000000001).set<"src">(0x020000000002) /
         Value<Ipv4>().set<"ttl">(64).set<"src">(0x0a000001).set<"dst">(to);
}

FrameBytes icmp_unreachable() {
  Frame frame = from_device(0x0a000009) / Value<Icmp>().set<"type">(icmp_type::unreachable).set<"code">(3);
  const FrameBytes quoted = tester().send_only(psn(+0)).bytes();
  frame.payload.assign(4, 0);
  frame.payload.insert(frame.payload.end(), quoted.begin() + ip, quoted.begin() + ip + 28);
  return frame.encode();
}

TEST(FrameCheck, FramesOfTheHostAreNoViolation) {
  Frame mdns = from_device(0xe00000fb) / Value<Udp>().set<"src_port">(5353).set<"dst_port">(5353);
  mdns.payload.assign(40, 0);
  Frame dns = from_device(0x0a000009) / Value<Udp>().set<"src_port">(53).set<"dst_port">(49152);
  dns.payload.assign(40, 0);
  Frame igmp = from_device(0xe0000016);
  igmp.layers.back().set(*info<Ipv4>.find("protocol"), 2);
  igmp.payload.assign(8, 0x16);
  Frame tcp = from_device(0x0a000009) / Value<Tcp>().set<"src_port">(22).set<"rst">(1);
  Frame lldp;
  lldp /= Value<Ethernet>().set<"dst">(0x0180c200000e).set<"src">(0x020000000002).set<"type">(0x88cc);
  lldp.payload.assign(46, 1);
  for (const Frame* frame : {&mdns, &dns, &igmp, &tcp, &lldp}) {
    EXPECT_EQ(checked(frame->encode()).kind, FrameReport::Kind::other);
    EXPECT_THAT(violated(frame->encode()), IsEmpty());
  }
  const FrameReport error = checked(icmp_unreachable());
  EXPECT_EQ(error.kind, FrameReport::Kind::icmp_error);
  EXPECT_THAT(error.violations, IsEmpty());
  EXPECT_EQ(error.text, "ICMP destination unreachable, code 3, for a packet of the tester");
  FrameBytes another_host = device().send_only(psn(+0)).bytes();
  another_host[6 + 5] = 7;
  another_host.back() ^= 1;
  EXPECT_THAT(violated(another_host), IsEmpty()) << "only the device is checked";
}

/// A wire that returns prepared frames and has a virtual clock.
class PreparedWire final : public replay::Wire {
 public:
  std::deque<FrameBytes> frames;

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const replay::WireCapabilities& capabilities() const override { return capabilities_; }
  using Wire::send;
  replay::WireResult<std::size_t> send(std::span<const replay::Outgoing> sent) override { return sent.size(); }
  replay::WireResult<std::optional<replay::Received>> receive(std::int64_t deadline) override {
    if (frames.empty()) {
      now_ = std::max(now_, deadline);
      return std::nullopt;
    }
    current_ = std::move(frames.front());
    frames.pop_front();
    return replay::Received{current_, ++now_, static_cast<std::uint32_t>(current_.size()), false};
  }
  [[nodiscard]] std::int64_t now() const override { return now_; }
  [[nodiscard]] replay::WireCounters counters() const override { return {}; }
  void close() override {}

 private:
  std::string name_ = "prepared";
  replay::WireCapabilities capabilities_;
  FrameBytes current_;
  std::int64_t now_ = 0;
};

struct Talk {
  PreparedWire wire;
  std::set<std::uint32_t> earlier;
  Conversation conversation{wire, {}, FrameCheck({path()}), earlier};
  Talk() { conversation.listen_to(tester()); }
};

TEST(Conversation, IcmpErrorIsNoSilence) {
  Talk talk;
  talk.conversation >> tester().send_only(psn(+0));
  talk.conversation << silence();
  talk.wire.frames.push_back(icmp_unreachable());
  talk.conversation >> tester().send_only(psn(+1));
  try {
    talk.conversation << silence();
    FAIL() << "silence was accepted";
  } catch (const CaseEnd& end) {
    EXPECT_EQ(end.judgment.verdict, Verdict::fail);
    EXPECT_EQ(end.judgment.actual, "ICMP destination unreachable, code 3, for a packet of the tester");
  }
}

TEST(Conversation, IcmpErrorIsTheActualResult) {
  Talk talk;
  talk.wire.frames.push_back(icmp_unreachable());
  try {
    talk.conversation << ack(psn(+0));
    FAIL() << "an ICMP error is no ACK";
  } catch (const CaseEnd& end) {
    EXPECT_THAT(end.judgment.actual, testing::StartsWith("ICMP destination unreachable"));
  }
}

TEST(Conversation, ViolationsAreCountedOncePerRule) {
  Talk talk;
  for (int i = 0; i < 3; ++i) {
    FrameBytes frame = device().ack(psn(i), 1).bytes();
    frame.back() ^= 1;
    talk.wire.frames.push_back(std::move(frame));
    talk.conversation << ack(psn(i));
  }
  const auto& violations = talk.conversation.wire_violations();
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations.front().rule->id, "roce.sender.icrc.over-ipv4");
  EXPECT_EQ(violations.front().count, 3U);
  EXPECT_FALSE(violations.front().lost);
}

}  // namespace
}  // namespace rdmawire::conformance
