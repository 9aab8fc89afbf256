#include "replay/streams/tcp_frames.hpp"

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::replay {

std::vector<std::uint8_t> TcpFrame::encode() const {
  HeaderValue tcp = Value<Tcp>()
                        .set<"src_port">(from.port)
                        .set<"dst_port">(to.port)
                        .set<"seq">(seq)
                        .set<"ack_number">(ack_number.value_or(0))
                        .set<"ack">(ack_number.has_value())
                        .set<"psh">(!payload.empty())
                        .set<"rst">(rst)
                        .set<"syn">(syn)
                        .set<"fin">(fin)
                        .set<"window">(window);
  if (mss) {
    const auto option = Value<TcpMss>().set<"kind">(2).set<"length">(TcpMss::size).set<"mss">(*mss);
    tcp.set_tail(option.bytes());
  }
  Frame frame = Value<Ethernet>().set<"dst">(to_mac).set<"src">(from_mac) /
                Value<Ipv4>()
                    .set<"df">(1)
                    .set<"identification">(identification)
                    .set<"ttl">(64)
                    .set<"src">(load_be<4>(from.address.storage.data()))
                    .set<"dst">(load_be<4>(to.address.storage.data())) /
                std::move(tcp);
  frame.payload.assign(payload.begin(), payload.end());
  return frame.encode();
}

}  // namespace rdmawire::replay
