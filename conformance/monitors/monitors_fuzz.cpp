/// Fuzzes the monitors with arbitrary packets of a few QPs, or with TCP segments of an iWARP connection. Checks that
/// each violation has a statement, that memory is bounded, and that the counters are consistent.

#include <cstdlib>
#include <string_view>
#include <vector>

#include "conformance/monitors/monitors.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/frames_for_test.hpp"
#include "dissectors/tracking/tracker.hpp"

using namespace rdmawire;
using tracking::testing::RdmaFrame;

namespace {

/// Number of input bytes that describe a packet: direction and kind (2), PSN, length, header fields, time.
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

void check(conformance::Monitors& monitors) {
  std::uint64_t counted = 0, reported = monitors.evaluator().omitted();
  for (const auto& counts : monitors.evaluator().counters()) counted += counts.violated;
  for (const auto& violation : monitors.evaluator().violations()) {
    reported += violation.count;
    if (violation.count && (violation.statement.expected.empty() || violation.statement.actual.empty())) std::abort();
    if (violation.sequence.size() > 32) std::abort();
  }
  if (counted != reported) std::abort();
}

/// One endpoint of the TCP connection.
struct StreamEnd {
  std::uint32_t next = 0xfffffe00;  // the sequence number wraps soon
  MpaSender sender{{}};
};

/// Returns the content of a segment: a negotiation frame, an FPDU, or raw bytes.
std::vector<std::uint8_t> bytes_of(const std::uint8_t* d, StreamEnd& end, StreamEnd& other) {
  std::vector<std::uint8_t> bytes;
  const unsigned kind = d[1] & 7;
  if (kind < 2) {
    const std::string_view key = kind == 0 ? mpa::request_key : mpa::reply_key;
    bytes.assign(key.begin(), key.end());
    const std::uint8_t private_data = d[4] & 31;
    bytes.insert(bytes.end(), {d[2], d[3], std::uint8_t{0}, private_data});
    for (std::uint8_t i = 0; i < private_data; ++i) bytes.push_back(d[5 + i % 4]);
    other.sender = MpaSender({.markers = (d[2] & 0x80) != 0, .crc = (d[9] & 1) != 0});
    end.sender = MpaSender({.markers = (d[9] & 2) != 0, .crc = (d[9] & 1) != 0});
    return bytes;
  }
  if (kind == 2) {
    bytes.assign(d + 2, d + 9);
    return bytes;
  }
  std::vector<std::uint8_t> ulpdu{d[2], d[3]};
  const auto word = [&](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) ulpdu.push_back(static_cast<std::uint8_t>(value >> shift));
  };
  word(d[4] & 0x80 ? d[4] : 0);
  if (d[2] & 0x80) {
    word(0);
    word(std::uint32_t{d[6]} * 4);
  } else {
    word(d[4] & 7);
    word(d[5]);
    word(std::uint32_t{d[6]} * 4);
  }
  constexpr std::uint16_t lengths[] = {0, 4, 8, 12, 28, 46, 52, 600, 1400};
  for (std::uint16_t i = 0; i < lengths[d[7] % 9]; ++i) ulpdu.push_back(i < 6 ? d[5 + i % 4] : 0);
  end.sender.send(bytes, ulpdu);
  if (d[8] & 0x80) bytes[d[8] % bytes.size()] ^= d[9];
  return bytes;
}

int fuzz_streams(const std::uint8_t* data, std::size_t size, const conformance::MonitorOptions& options) {
  conformance::Monitors monitors(options);
  tracking::TrackerOptions tracker_options;
  tracker_options.transport = true;
  tracking::Tracker tracker(monitors, tracker_options);
  tracking::Dissector dissector;
  tracking::Packet packet;
  packet.link = LinkType::raw_ip;
  packet.time_ns = 1'000'000'000;
  StreamEnd ends[2];
  std::vector<std::uint8_t> last[2];
  for (std::size_t at = 1; at + described <= size; at += described) {
    const std::uint8_t* const d = data + at;
    const unsigned from = d[0] & 1;
    StreamEnd &end = ends[from], &other = ends[1 - from];
    const bool again = d[0] & 8, syn = d[0] & 16;
    if (!again) last[from] = bytes_of(d, end, other);
    const std::vector<std::uint8_t>& bytes = last[from];
    const std::uint32_t seq = again ? end.next - static_cast<std::uint32_t>(bytes.size()) : end.next;
    HeaderValue tcp = Value<Tcp>()
                          .set<"src_port">(1000 + from)
                          .set<"dst_port">(1001 - from)
                          .set<"seq">(seq)
                          .set<"ack">(1)
                          .set<"ack_number">(other.next - (d[10] & 15))
                          .set<"syn">(syn ? 1 : 0)
                          .set<"fin">(d[0] & 2 ? 1 : 0)
                          .set<"rst">((d[0] & 6) == 4 ? 1 : 0);
    const std::uint8_t mss[] = {2, 4, d[11], 0};
    if (syn) tcp.set_tail(mss);
    Frame frame = Value<Ipv4>().set<"src">(0x0a000001 + from).set<"dst">(0x0a000002 - from) / tcp;
    if (!syn) frame.payload = bytes;
    if (!again) end.next += syn ? 1 : static_cast<std::uint32_t>(bytes.size());
    if (d[0] & 32) continue;  // not captured
    const std::vector<std::uint8_t> encoded = frame.encode();
    ++packet.number;
    packet.time_ns += 1000;
    const std::size_t kept = d[0] & 64 ? std::min<std::size_t>(encoded.size(), 40U + d[11]) : encoded.size();
    dissector.dissect(packet, Bytes(encoded).first(kept), static_cast<std::uint32_t>(encoded.size()));
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  check(monitors);
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  conformance::MonitorOptions options;
  options.assumptions.everywhere = data[0] & 1;
  if (data[0] & 2) options.assumptions.at.push_back(tracking::PortAddress::of_ipv4(tracking::testing::host_a));
  if (data[0] & 8) return fuzz_streams(data, size, options);
  conformance::Monitors monitors(options);
  tracking::TrackerOptions tracker_options;
  tracker_options.transport = true;
  if (data[0] & 4) tracker_options.connections = 2;
  tracking::Tracker tracker(monitors, tracker_options);
  tracking::Dissector dissector({{}, false});
  tracking::Packet packet;
  packet.link = LinkType::raw_ip;
  packet.time_ns = 1'000'000'000;
  static std::uint8_t bytes[RdmaFrame::most];
  for (std::size_t at = 1; at + described <= size; at += described) {
    const std::uint8_t* const d = data + at;
    ++packet.number;
    packet.time_ns += std::int64_t{1} << (d[10] & 31);
    const std::size_t length = frame_of(d).write(bytes);
    const std::size_t kept = d[10] & 32 ? length / 2 : length;
    dissector.dissect(packet, Bytes(bytes, kept), static_cast<std::uint32_t>(length));
    packet.icrc.status = d[10] & 64 ? CrcCheck::Status::bad : CrcCheck::Status::good;
    if (d[10] & 128) packet.icrc.value = d[9];
    monitors.take(packet);
    tracker.add(packet);
  }
  tracker.finish();
  check(monitors);
  return 0;
}
