#pragma once
/// For tests only: one connection that a CM exchange pairs. The test passes packets to it one by one.

#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/queue_pairs.hpp"

namespace rdmawire::tracking::testing {

inline constexpr std::int64_t microsecond = 1000, millisecond = 1'000'000;

/// Endpoint a is QP 0x11 of host_a, and endpoint b is QP 0x12 of host_b. Frames are numbered from 1 and are ten
/// microseconds apart.
class Link {
 public:
  struct NegotiatedParameters {
    std::uint32_t mtu = 1024;
    std::uint32_t first_a = 100, first_b = 500;  ///< first PSNs of the requests
    std::uint8_t reads = 0;                      ///< maximum outstanding READs (0: not negotiated)
    bool joined = true;                          ///< false: there is no CM exchange
    TrackerOptions options = {};
  };
  static constexpr std::uint32_t qp_a = 0x11, qp_b = 0x12;

  Link() : Link(NegotiatedParameters{}) {}
  explicit Link(const NegotiatedParameters& agreed) : pairs(recorded, agreed.options) {
    packet_.link = LinkType::raw_ip;
    if (!agreed.joined) return;
    PairEvidence evidence;
    evidence.sides[0].address = PortAddress::of_ipv4(host_a);
    evidence.sides[1].address = PortAddress::of_ipv4(host_b);
    evidence.sides[0].qp = qp_a;
    evidence.sides[1].qp = qp_b;
    evidence.sides[0].first_psn = agreed.first_a;
    evidence.sides[1].first_psn = agreed.first_b;
    if (agreed.reads != 0)
      for (auto& side : evidence.sides) side.reads_as_requester = side.reads_as_responder = agreed.reads;
    evidence.mtu = agreed.mtu;
    evidence.request_frame = evidence.frame = 1;
    evidence.request_time = evidence.time = now;
    packet_.number = 1;
    pairs.pair(evidence);
  }

  /// Passes a packet of endpoint a or b. Returns its frame number.
  std::uint64_t a(RdmaFrame frame) {
    frame.from = host_a;
    frame.to = host_b;
    frame.qp = qp_b;
    return send(frame);
  }
  std::uint64_t b(RdmaFrame frame) {
    frame.from = host_b;
    frame.to = host_a;
    frame.qp = qp_a;
    return send(frame);
  }
  /// Passes `count` SENDs of endpoint a with one packet each.
  std::uint64_t sends(std::uint32_t first, std::uint32_t count = 1, std::uint32_t payload = 64) {
    std::uint64_t last = 0;
    for (std::uint32_t i = 0; i < count; ++i)
      last = a({.opcode = rc::send, .psn = (first + i) & 0xffffff, .payload = payload});
    return last;
  }
  std::uint64_t acks(std::uint32_t psn, std::uint32_t msn = 0, std::uint8_t syndrome = ack) {
    return b({.opcode = rc::acknowledge, .psn = psn, .syndrome = syndrome, .msn = msn});
  }
  std::uint64_t send(RdmaFrame frame) {
    now += 10 * microsecond;
    ++packet_.number;
    if (frame.identification == 0) frame.identification = static_cast<std::uint16_t>(packet_.number);
    packet_.time_ns = now;
    const std::size_t size = frame.write(bytes_);
    dissector_.dissect(packet_, Bytes(bytes_, std::min(size, kept)), static_cast<std::uint32_t>(size));
    packet_.icrc.status = damaged ? CrcCheck::Status::bad : good_crcs ? CrcCheck::Status::good : CrcCheck::Status{};
    pairs.add(packet_);
    return packet_.number;
  }
  void wait(std::int64_t nanoseconds) { now += nanoseconds; }
  Recorder& end() {
    pairs.finish();
    return recorded;
  }
  [[nodiscard]] std::uint64_t frame() const { return packet_.number; }

  Recorder recorded;
  QueuePairs pairs;
  std::int64_t now = 1'000'000'000;
  std::size_t kept = RdmaFrame::most;       ///< number of bytes that are captured of each following packet
  bool good_crcs = false, damaged = false;  ///< result of the CRC check of the following packets

 private:
  Dissector dissector_{{{}, false}};
  Packet packet_;
  std::uint8_t bytes_[RdmaFrame::most];
};

}  // namespace rdmawire::tracking::testing
