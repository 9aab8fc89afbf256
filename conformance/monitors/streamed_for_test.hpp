#pragma once
/// For tests only: passes the TCP segments of an iWARP connection to the monitors, and returns their results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "conformance/monitors/monitors.hpp"
#include "conformance/monitors/tally_for_test.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/tracker.hpp"

namespace rdmawire::conformance::testing {

using ByteVector = std::vector<std::uint8_t>;

/// A connection from endpoint a (10.0.0.1, port 1000) to endpoint b (10.0.0.2, port 2000). Each packet acknowledges all
/// bytes that its sender received before. Frames are numbered from 1.
class Streamed {
 public:
  struct Options {
    bool syn = true;
    std::uint16_t mss = 1460;
    std::uint32_t sequence[2] = {1000, 5000};  ///< sequence numbers of the SYNs
    bool checks[2] = {true, true};
    bool everywhere = false;
  };

  Streamed() : Streamed(Options{}) {}
  explicit Streamed(const Options& options)
      : monitors(monitor_options(options)), tracker_(monitors, tracker_options()) {
    packet_.link = LinkType::raw_ip;
    for (int end : {0, 1}) next[end] = options.sequence[end] + 1;
    if (!options.syn) return;
    mss_ = options.mss;
    for (int end : {0, 1}) {
      --next[end];
      knows_[end] = end == 1;
      packet(end, {}, syn);
      ++next[end];
    }
    knows_[0] = knows_[1] = true;
    mss_ = 0;
    packet(0, {});
  }

  /// Passes a segment with the next bytes. Returns its frame number.
  std::uint64_t sends(Side end, Bytes bytes) { return packet(static_cast<int>(end), bytes); }
  std::uint64_t a(Bytes bytes) { return sends(Side::a, bytes); }
  std::uint64_t b(Bytes bytes) { return sends(Side::b, bytes); }
  std::uint64_t fin(Side end) { return packet(static_cast<int>(end), {}, finish_flag); }
  std::uint64_t reset(Side end) { return packet(static_cast<int>(end), {}, reset_flag); }
  /// Skips bytes that were sent but not captured.
  void lost(Side end, std::size_t bytes) { next[static_cast<int>(end)] += static_cast<std::uint32_t>(bytes); }
  /// Retransmits the given bytes, which end at the next sequence number.
  std::uint64_t again(Side end, Bytes bytes) {
    const int from = static_cast<int>(end);
    const std::uint32_t kept = next[from];
    next[from] -= static_cast<std::uint32_t>(bytes.size());
    const std::uint64_t frame = packet(from, bytes);
    next[from] = kept;
    return frame;
  }
  /// The next packet of `end` acknowledges only bytes that the peer sent before this call.
  void forget(Side end) { known_[static_cast<int>(end)] = next[1 - static_cast<int>(end)]; }

  const ResultCounters& counts(std::string_view rule) {
    finish();
    return counts_of(monitors, rule);
  }
  /// Finishes the trace and returns the violations as "FPD-001 a 12": alias, endpoint, first frame.
  std::vector<std::string> violated() {
    finish();
    std::vector<std::string> lines;
    for (const Violation& v : monitors.evaluator().violations()) {
      if (v.count == 0) continue;
      EXPECT_FALSE(v.statement.expected.empty());
      EXPECT_FALSE(v.statement.actual.empty());
      EXPECT_NE(v.statement.expected, v.statement.actual) << v.of().id;
      EXPECT_TRUE(
          std::ranges::any_of(v.sequence, [&](const SequenceEntry& entry) { return entry.frame == v.place.frame; }))
          << v.of().id << ": the sequence lacks the frame of the violation";
      lines.push_back(std::string(v.of().alias) + (v.place.end == Side::a ? " a " : " b ") +
                      std::to_string(v.place.frame));
    }
    return lines;
  }
  void finish() {
    if (!finished_) tracker_.finish();
    finished_ = true;
  }

  Monitors monitors;
  std::uint32_t next[2];                  ///< next sequence number, by endpoint
  std::optional<std::uint32_t> captured;  ///< number of captured bytes of the next packets
  bool bad_checksum = false;              ///< true: the next packets have an invalid TCP checksum, as with offload
  std::vector<ByteVector> frames{};       ///< all frames, not truncated

 private:
  enum : unsigned { plain = 0, syn = 1, finish_flag = 2, reset_flag = 4 };

  std::uint64_t packet(int end, Bytes bytes, unsigned flags = plain) {
    Value<Tcp> tcp;
    tcp.set<"src_port">(end == 0 ? 1000 : 2000)
        .set<"dst_port">(end == 0 ? 2000 : 1000)
        .set<"seq">(next[end])
        .set<"ack">(knows_[end] ? 1 : 0)
        .set<"ack_number">(knows_[end] ? known_[end].value_or(next[1 - end]) : 0)
        .set<"window">(65535)
        .set<"syn">(flags & syn ? 1 : 0)
        .set<"fin">(flags & finish_flag ? 1 : 0)
        .set<"rst">(flags & reset_flag ? 1 : 0)
        .set<"psh">(bytes.empty() ? 0 : 1);
    known_[end].reset();
    HeaderValue header = tcp;
    const std::array<std::uint8_t, 4> option{2, 4, static_cast<std::uint8_t>(mss_ >> 8),
                                             static_cast<std::uint8_t>(mss_)};
    if (mss_ != 0) header.set_tail(option);
    Frame frame = Value<Ipv4>()
                      .set<"src">(0x0a000001U + static_cast<unsigned>(end))
                      .set<"dst">(0x0a000002U - static_cast<unsigned>(end)) /
                  header;
    frame.payload.assign(bytes.begin(), bytes.end());
    ByteVector packet = frame.encode();
    if (bad_checksum) packet[36] ^= 0x55;
    frames.push_back(packet);
    const auto wire = static_cast<std::uint32_t>(packet.size());
    if (captured) packet.resize(std::min<std::size_t>(packet.size(), *captured));
    ++packet_.number;
    packet_.time_ns += 1'000'000;
    dissector_.dissect(packet_, packet, wire);
    monitors.take(packet_);
    tracker_.add(packet_);
    next[end] += static_cast<std::uint32_t>(bytes.size()) + (flags & finish_flag ? 1 : 0);
    return packet_.number;
  }
  static MonitorOptions monitor_options(const Options& options) {
    MonitorOptions result;
    result.assumptions.everywhere = options.everywhere;
    for (unsigned end : {0U, 1U})
      if (options.checks[end]) result.assumptions.checked.push_back(tracking::PortAddress::of_ipv4(0x0a000001U + end));
    return result;
  }
  static tracking::TrackerOptions tracker_options() {
    tracking::TrackerOptions result;
    result.transport = true;
    return result;
  }
  tracking::Tracker tracker_;
  tracking::Dissector dissector_;
  tracking::Packet packet_;
  bool knows_[2] = {true, true};
  std::optional<std::uint32_t> known_[2];
  std::uint16_t mss_ = 0;
  bool finished_ = false;
};

}  // namespace rdmawire::conformance::testing
