// Fuzzes the tracker of MRC with packets of a few QPs. Each packet is described by 12 bytes. Checks that the counters
// are consistent, and that findings are sentences.

#include <cstdlib>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mrc.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/mrc_tracker.hpp"

using namespace rdmawire;

namespace {

constexpr std::size_t described = 12;
constexpr std::uint8_t opcodes[] = {0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xd1, 0xd8, 0xd9, 0xdc, 0xdd, 0xde};

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::uint8_t> packet_of(const std::uint8_t* d) {
  const std::uint8_t code = opcodes[d[0] % std::size(opcodes)];
  const MrcOpcode& op = mrc_opcode(code);
  const bool back = op.direction == Direction::response;
  constexpr std::uint8_t hosts[2][16] = {{1}, {2}};
  Value<Ipv6> ip;
  ip.set<"src">(Bytes(hosts[back])).set<"dst">(Bytes(hosts[!back])).set<"flow_label">(d[1] & 7);
  ip.set<"traffic_class">(d[1] >> 6);
  Frame frame = ip / Value<Udp>().set<"src_port">(d[1] >> 3 & 7);
  const std::uint32_t psn = (0xffff00U + (std::uint32_t{d[2]} << 8 | d[3])) & 0xffffff;
  frame /= Value<MrcBth>().set<"opcode">(code).set<"dest_qp">(d[4] & 3).set<"psn">(psn).set<"rtx">(d[4] >> 2 & 1);
  for (std::size_t i = 0; i < op.header_count; ++i) {
    HeaderValue header(*op.headers[i]);
    // The fields that the tracker uses, from the description.
    std::size_t at = 5;
    for (const Field& field : header.header().fields)
      if (!field.is_reserved() && field.is_number() && !field.is_part() && header.header().name != "reth")
        header.set(field, field.name == "cack_psn" || field.name == "nack_psn" ? psn : d[at++ % described] & 7U);
    if (header.header().name == "reth") header.set(*info<Reth>.find("length"), 4096);
    frame /= header;
  }
  if (op.payload) frame.payload.resize(d[5] & 63);
  return frame.encode();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tracking::Dissector dissector;
  tracking::MrcTracker tracker(4);
  tracking::Packet packet;
  packet.link = LinkType::raw_ip;
  for (; size >= described; data += described, size -= described) {
    std::vector<std::uint8_t> bytes = packet_of(data);
    if (data[11] >> 6 == 3) bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), data[11] & 31));  // trimmed
    ++packet.number;
    dissector.dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
    tracker.add(packet);
  }
  for (const tracking::MrcFlow& flow : tracker.flows()) {
    std::uint64_t packets = 0, retransmissions = 0;
    for (const tracking::MrcPath& path : flow.paths) {
      packets += path.packets;
      retransmissions += path.retransmissions;
      require(path.trimmed <= path.packets && path.state_frame <= packet.number);
    }
    require(packets == flow.packets && retransmissions == flow.retransmissions);
    require(flow.completed_messages <= flow.messages && flow.paths.size() <= tracking::MrcTracker::most_paths);
    for (const std::string& finding : tracking::findings_of(flow)) require(finding.size() > 20);
  }
  return 0;
}
