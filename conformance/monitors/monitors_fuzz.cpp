/// Fuzzes the monitors with packets of a few queue pairs, in any order and as wrong as wanted: nothing may crash, be
/// accused without a statement, or grow without bound; and what is counted adds up.

#include <cstdlib>

#include "conformance/monitors/monitors.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/tracker.hpp"

using namespace rdmawire;
using tracking::testing::RdmaFrame;

namespace {

/// A packet is made of 12 octets: which way and what (2), PSN, length, what its headers say, time.
constexpr std::size_t described = 12;

RdmaFrame frame_of(const std::uint8_t* d) {
  RdmaFrame frame;
  const bool forth = d[0] & 1;
  frame.from = forth ? tracking::testing::host_a : tracking::testing::host_b;
  frame.to = forth ? tracking::testing::host_b : tracking::testing::host_a;
  frame.qp = 0x11U + (d[0] >> 1 & 3);
  frame.ack_request = d[0] & 8;
  frame.solicited = d[0] & 16;
  frame.identification = d[0] & 32 ? d[11] : 0;
  frame.traffic_class = d[0] >> 6;
  frame.opcode = d[1];
  frame.psn = (0xfffff8U + d[2]) & 0xffffff;
  constexpr std::uint32_t lengths[] = {0, 1, 8, 256, 511, 512, 1024, 4096};
  frame.payload = lengths[d[3] & 7];
  frame.length = lengths[d[3] >> 3 & 7] * (d[3] >> 6);
  frame.syndrome = d[4];
  frame.msn = d[5];
  frame.address = std::uint64_t{d[6]} << 8;
  frame.key = d[7] & 3;
  frame.swap = d[8] & 3;
  frame.immediate = d[8] >> 2 & 3;
  frame.icrc = d[9];
  frame.source_qp = 0x11U + (d[7] >> 2 & 1);
  return frame;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  conformance::MonitorOptions options;
  options.trust.everywhere = data[0] & 1;
  if (data[0] & 2) options.trust.at.push_back(tracking::PortAddress::of_ipv4(tracking::testing::host_a));
  conformance::Monitors monitors(options);
  tracking::TrackerOptions tracker_options;
  tracker_options.transport = true;
  if (data[0] & 4) tracker_options.connections = 2;
  tracking::Tracker tracker(monitors, tracker_options);
  tracking::Dissector dissector({{}, false});
  tracking::Packet packet;
  packet.link = LinkType::raw_ip;
  packet.time_ns = 1'000'000'000;
  static std::uint8_t octets[RdmaFrame::most];
  for (std::size_t at = 1; at + described <= size; at += described) {
    const std::uint8_t* const d = data + at;
    ++packet.number;
    packet.time_ns += std::int64_t{1} << (d[10] & 31);
    const std::size_t length = frame_of(d).write(octets);
    const std::size_t kept = d[10] & 32 ? length / 2 : length;
    dissector.dissect(packet, Bytes(octets, kept), static_cast<std::uint32_t>(length));
    packet.icrc.status = d[10] & 64 ? CrcCheck::Status::bad : CrcCheck::Status::good;
    if (d[10] & 128) packet.icrc.value = d[9];
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  std::uint64_t counted = 0, told = monitors.judge().untold();
  for (const auto& tally : monitors.judge().tallies()) counted += tally.violated;
  for (const auto& violation : monitors.judge().violations()) {
    told += violation.count;
    if (violation.count && (violation.statement.expected.empty() || violation.statement.actual.empty())) std::abort();
    if (violation.ladder.size() > 32) std::abort();
  }
  if (counted != told) std::abort();
  return 0;
}
