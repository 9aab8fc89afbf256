#include "conformance/fuzzer/stream_frames.hpp"

#include "replay/streams/tcp_frames.hpp"

namespace rdmawire::fuzzer {

namespace {

constexpr replay::MacAddress tester_mac = 0x020000000c01, device_mac = 0x020000000001;
constexpr std::uint32_t tester_ipv4 = 0x0a0000c8, device_ipv4 = 0x0a000001;  // as in VirtualTcp
constexpr std::uint16_t listening_port = 7471, first_port = 40'000;

}  // namespace

void StreamFrames::connect(std::size_t at, bool device_initiates, std::size_t step, std::int64_t time,
                           std::vector<Exchanged>& frames) {
  Stream& stream = streams_[at];
  const auto port = static_cast<std::uint16_t>(first_port + connections_++ % 20'000);
  stream = {true, device_initiates ? listening_port : port, device_initiates ? port : listening_port,
            0x1000'0000 + 0x0001'0000U * port, 0x5000'0000 + 0x0001'0000U * port};
  for (int i = 0; i < 3; ++i) {
    const bool sent = device_initiates == (i == 1);
    replay::TcpFrame frame{.from_mac = sent ? tester_mac : device_mac, .to_mac = sent ? device_mac : tester_mac};
    frame.from = {replay::IpAddress::v4(sent ? tester_ipv4 : device_ipv4),
                  sent ? stream.tester_port : stream.device_port};
    frame.to = {replay::IpAddress::v4(sent ? device_ipv4 : tester_ipv4),
                sent ? stream.device_port : stream.tester_port};
    frame.seq = sent ? stream.tester_next : stream.device_next;
    frame.syn = i < 2;
    if (i > 0) frame.ack_number = sent ? stream.device_next : stream.tester_next;
    if (frame.syn) {
      frame.mss = std::uint16_t{1460};
      ++(sent ? stream.tester_next : stream.device_next);
    }
    frames.push_back({sent, step, time + i, frame.encode()});
  }
}

void StreamFrames::segment(std::size_t at, bool sent, Bytes bytes, bool fin, bool reset, std::size_t step,
                           std::int64_t time, std::vector<Exchanged>& frames) {
  constexpr std::size_t most = 1460;
  Stream& stream = streams_[at];
  if (!stream.there) return;
  do {
    const Bytes part = bytes.first(std::min(bytes.size(), most));
    bytes = bytes.subspan(part.size());
    replay::TcpFrame frame{.from_mac = sent ? tester_mac : device_mac, .to_mac = sent ? device_mac : tester_mac};
    frame.from = {replay::IpAddress::v4(sent ? tester_ipv4 : device_ipv4),
                  sent ? stream.tester_port : stream.device_port};
    frame.to = {replay::IpAddress::v4(sent ? device_ipv4 : tester_ipv4),
                sent ? stream.device_port : stream.tester_port};
    frame.seq = sent ? stream.tester_next : stream.device_next;
    frame.ack_number = sent ? stream.device_next : stream.tester_next;
    frame.fin = fin && bytes.empty();
    frame.rst = reset;
    frame.payload = part;
    (sent ? stream.tester_next : stream.device_next) += frame.length();
    frames.push_back({sent, step, time, frame.encode()});
  } while (!bytes.empty());
  if (reset) stream.there = false;
}

}  // namespace rdmawire::fuzzer
