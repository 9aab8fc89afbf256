// Dissects TCP segments that are built from arbitrary bytes, in any order, with overlap and loss. Requirements:
// dissection terminates, PDUs are at their stated offsets, and memory stays within its limits.

#include <cstdlib>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"

using namespace rdmawire;
using namespace rdmawire::tracking;

namespace {
void require(bool condition) {
  if (!condition) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Dissector dissector;
  Packet packet;
  packet.link = LinkType::raw_ip;
  std::uint8_t frame[40 + 512];
  std::uint32_t next[2] = {0xffffff00, 1000};
  std::size_t at = 0;
  // Each iteration reads one segment: flags and direction, a signed step of the sequence number, number of bytes,
  // number of truncated bytes.
  while (at + 4 <= size) {
    const std::uint8_t control = data[at];
    const bool from_server = control & 1;
    const auto step = static_cast<std::int8_t>(data[at + 1]);
    std::size_t bytes = std::min<std::size_t>(data[at + 2] * 2U, size - at - 4);
    const std::size_t snapped = control & 0x40 ? data[at + 3] : 0;
    at += 4;
    std::memset(frame, 0, 40);
    const bool key = (control & 0x30) == 0x30;
    std::size_t length = bytes;
    std::memcpy(frame + 40, data + at, bytes);
    if (key) {
      // Provide the key of an MPA frame, which the fuzzer could hardly guess.
      const std::string_view text = from_server ? mpa::reply_key : mpa::request_key;
      std::memcpy(frame + 40, text.data(), text.size());
      length = std::max<std::size_t>(length, 20);
    }
    at += bytes;
    const std::uint32_t seq = next[from_server] + (control & 0x20 && !key ? static_cast<std::uint32_t>(step) * 16 : 0);
    frame[0] = 0x45;
    store_be(frame + 2, 2, 40 + length);
    frame[9] = ip_protocol::tcp;
    frame[15] = from_server;
    frame[19] = !from_server;
    store_be(frame + 20, 2, from_server ? 4210 : 40000);
    store_be(frame + 22, 2, from_server ? 40000 : 4210);
    store_be(frame + 24, 4, seq);
    store_be(frame + 28, 4, next[!from_server]);
    frame[32] = 0x50;
    frame[33] =
        static_cast<std::uint8_t>((control & 8 ? 0 : 0x10) | (control & 2) | ((control & 0x84) == 0x84 ? 4 : 0));
    if (!(control & 0x20) || key) next[from_server] = seq + static_cast<std::uint32_t>(length);
    const std::size_t captured = 40 + length - std::min(snapped, length);
    ++packet.number;
    dissector.dissect(packet, Bytes(frame, captured), static_cast<std::uint32_t>(40 + length));
    for (const Pdu& pdu : packet.pdus) {
      require(pdu.connection != nullptr);
      require(pdu.in_frame.end() <= captured);
      for (const Layer& layer : pdu.stack.layers()) require(layer.offset + layer.length <= pdu.stack.bytes.size());
      require(pdu.stack.payload.end() <= pdu.stack.bytes.size() && pdu.stack.mpa_crc.end() <= pdu.stack.bytes.size());
      if (!pdu.reassembled)
        require(pdu.stack.bytes.data() >= frame && pdu.stack.bytes.data() + pdu.stack.bytes.size() <= frame + captured);
    }
    require(dissector.tcp().buffered() < (2U << 20));
  }
  return 0;
}
