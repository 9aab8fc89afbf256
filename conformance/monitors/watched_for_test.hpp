#pragma once
/// For tests only: passes the packets of a connection to the monitors, and returns their results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "conformance/monitors/monitors.hpp"
#include "conformance/monitors/tally_for_test.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/queue_pairs.hpp"

namespace rdmawire::conformance::testing {

using tracking::testing::ack;
using tracking::testing::congestion_notification;  // an opcode
using tracking::testing::host_a;
using tracking::testing::host_b;
using tracking::testing::nak;
using tracking::testing::RdmaFrame;
using tracking::testing::rnr;
namespace rc = tracking::testing::rc;
using tracking::testing::uc;
using tracking::testing::ud;
using tracking::testing::xrc;

inline constexpr std::int64_t microsecond = 1000, millisecond = 1'000'000;

/// QP 0x11 of host_a (endpoint a) and QP 0x12 of host_b (endpoint b), paired by the CM: path MTU 1024, first PSNs 100
/// (a) and 500 (b). Both endpoints have two outstanding READs, 3 retries, 2 RNR retries and an ACK timeout of 4 ms. The
/// REQ is frame 1. The other frames are 20 ms apart, so that they cannot be reordered.
class Watched {
 public:
  struct NegotiatedParameters {
    bool paired = true;
    bool bench = false;  ///< CaptureAssumptions::everywhere
    tracking::Service service = tracking::Service::rc;
    std::uint32_t mtu = 1024;
    std::vector<tracking::PortAddress> at = {};
  };
  static constexpr std::uint32_t qp_a = 0x11, qp_b = 0x12, first_a = 100, first_b = 500;

  Watched() : Watched(NegotiatedParameters{}) {}
  explicit Watched(const NegotiatedParameters& agreed)
      : monitors(monitor_options(agreed)), pairs_(monitors, options()) {
    packet_.link = LinkType::raw_ip;
    packet_.number = 1;
    if (!agreed.paired) return;
    tracking::PairEvidence evidence;
    evidence.service = agreed.service;
    evidence.sides[0].address = tracking::PortAddress::of_ipv4(host_a);
    evidence.sides[1].address = tracking::PortAddress::of_ipv4(host_b);
    evidence.sides[0].qp = qp_a;
    evidence.sides[1].qp = qp_b;
    evidence.sides[0].first_psn = first_a;
    evidence.sides[1].first_psn = first_b;
    for (auto& side : evidence.sides) {
      side.reads_as_requester = side.reads_as_responder = 2;
      side.retries = 3;
      side.rnr_retries = 2;
      side.acknowledgement_timeout = 4 * millisecond;
    }
    evidence.mtu = agreed.mtu;
    evidence.pkey = 0xffff;
    evidence.request_frame = evidence.frame = 1;
    evidence.request_time = evidence.time = now;
    pairs_.pair(evidence);
    evidence_ = evidence;
  }

  /// Passes a packet from endpoint a or b to the monitors. Returns its frame number.
  std::uint64_t a(RdmaFrame frame) {
    frame.from = host_a;
    frame.to = host_b;
    if (frame.qp == 0) frame.qp = qp_b;
    return send(frame);
  }
  std::uint64_t b(RdmaFrame frame) {
    frame.from = host_b;
    frame.to = host_a;
    if (frame.qp == 0) frame.qp = qp_a;
    return send(frame);
  }
  /// Passes a SEND of one packet with AckReq. `psn` is relative to the first PSN.
  std::uint64_t sends(std::uint32_t psn, std::uint32_t payload = 64) {
    return a({.opcode = rc::send, .psn = first_a + psn, .payload = payload, .ack_request = true});
  }
  std::uint64_t writes(std::uint8_t opcode, std::uint32_t psn, std::uint32_t payload, std::uint32_t length = 0) {
    return a({.opcode = opcode, .psn = first_a + psn, .payload = payload, .ack_request = true, .length = length});
  }
  std::uint64_t reads(std::uint32_t psn, std::uint32_t length, std::uint64_t address = 0x1000) {
    return a({.opcode = rc::read, .psn = first_a + psn, .ack_request = true, .address = address, .length = length});
  }
  std::uint64_t acks(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome = ack) {
    return b({.opcode = rc::acknowledge, .psn = first_a + psn, .syndrome = syndrome, .msn = msn});
  }
  std::uint64_t responds(std::uint8_t opcode, std::uint32_t psn, std::uint32_t payload, std::uint32_t msn = 0) {
    return b({.opcode = opcode, .psn = first_a + psn, .payload = payload, .msn = msn});
  }

  std::uint64_t send(const RdmaFrame& frame) {
    now += step;
    ++packet_.number;
    packet_.time_ns = now;
    std::size_t size = frame.write(bytes_);
    bytes_[6] = 0x40;  // DF
    bytes_[29] |= migrated ? 0x40 : 0;
    store_be(bytes_ + 4, 2, packet_.number);
    store_be(bytes_ + 10, 2, 0);
    store_be(bytes_ + 10, 2, internet_checksum(Bytes(bytes_, 20)));
    if (bytes_[28] != congestion_notification) store_be(bytes_ + size - 4, 4, 0x10000 + packet_.number);  // an ICRC
    if (change) size = change(bytes_, size);
    change = nullptr;
    dissector_.dissect(packet_, Bytes(bytes_, std::min(size, kept)), static_cast<std::uint32_t>(size));
    packet_.icrc.status = status;
    if (packet_.stack.icrc.length) packet_.icrc.value = static_cast<std::uint32_t>(0x10000 + packet_.number);
    if (packet_.icrc.status == CrcCheck::Status::bad) packet_.icrc = check_icrc(packet_.stack);
    monitors.take(packet_);
    pairs_.add(packet_);
    return packet_.number;
  }
  void wait(std::int64_t nanoseconds) { now += nanoseconds; }
  /// Closes the connection by the CM: DREQ of `by`, and the DREP.
  void closes(Side by) {
    tracking::Event event;
    event.kind = tracking::EventKind::closed;
    event.end = by;
    event.time = now;
    event.frame = event.last_frame = ++packet_.number;
    pairs_.closed(evidence_, event);
  }
  void finish() {
    if (finished_) return;
    finished_ = true;
    pairs_.finish();
  }

  /// Finishes the trace and returns the counters of a rule, by id or alias.
  const ResultCounters& counts(std::string_view rule) {
    finish();
    return counts_of(monitors, rule);
  }
  /// Finishes the trace and returns the violations as "RSP-009 b 12": alias, endpoint, first frame.
  std::vector<std::string> violated() {
    finish();
    std::vector<std::string> lines;
    for (const Violation& v : monitors.evaluator().violations())
      lines.push_back(std::string(v.of().alias) + (v.place.end == Side::a ? " a " : " b ") +
                      std::to_string(v.place.frame));
    return lines;
  }

  Monitors monitors;
  std::int64_t now = 1'000'000'000;
  std::int64_t step = 20 * millisecond;
  std::size_t kept = RdmaFrame::most;  ///< number of captured bytes of the next packets
  bool migrated = true;
  CrcCheck::Status status = CrcCheck::Status::good;
  /// Changes the bytes of the next packet. Returns its size.
  std::function<std::size_t(std::uint8_t*, std::size_t)> change;

 private:
  static MonitorOptions monitor_options(const NegotiatedParameters& agreed) {
    MonitorOptions result;
    result.assumptions.at = agreed.at;
    result.assumptions.everywhere = agreed.bench;
    return result;
  }
  static tracking::TrackerOptions options() {
    tracking::TrackerOptions result;
    result.transport = true;
    return result;
  }
  tracking::QueuePairs pairs_;
  tracking::PairEvidence evidence_;
  tracking::Dissector dissector_{{{}, false}};
  tracking::Packet packet_;
  std::uint8_t bytes_[RdmaFrame::most];
  bool finished_ = false;
};

/// Traces for a rule: one with a violation, one without, and optionally one in which packets are missing.
struct Example {
  const char* alias;
  Side end;  ///< the violating endpoint
  Watched::NegotiatedParameters agreed;
  std::function<void(Watched&)> broken, kept, lossy;
};

inline void PrintTo(const Example& example, std::ostream* out) { *out << example.alias; }

inline void hold(const Example& example) {
  {
    Watched link(example.agreed);
    example.broken(link);
    EXPECT_GT(link.counts(example.alias).violated, 0U) << "the violation was missed";
    bool found = false;
    for (const Violation& v : link.monitors.evaluator().violations()) {
      if (v.of().alias != example.alias) continue;
      found = true;
      EXPECT_EQ(v.place.end, example.end);
      EXPECT_FALSE(v.statement.expected.empty());
      EXPECT_FALSE(v.statement.actual.empty());
      EXPECT_NE(v.statement.expected, v.statement.actual);
      EXPECT_TRUE(std::any_of(v.sequence.begin(), v.sequence.end(), [&](const SequenceEntry& r) {
        return r.frame == v.place.frame;
      })) << "the sequence lacks the frame of the violation";
    }
    EXPECT_TRUE(found);
  }
  {
    Watched link(example.agreed);
    example.kept(link);
    EXPECT_GT(link.counts(example.alias).passed, 0U) << "the rule was not evaluated";
    EXPECT_THAT(link.violated(), ::testing::IsEmpty());
  }
  if (example.lossy) {
    Watched::NegotiatedParameters agreed = example.agreed;
    agreed.bench = false;
    agreed.at.clear();
    Watched link(agreed);
    example.lossy(link);
    EXPECT_EQ(link.counts(example.alias).violated, 0U) << "a false positive: packets may be missing";
  }
}

}  // namespace rdmawire::conformance::testing
