/// Compiles arbitrary text as a filter. The text must compile, or give a printable error. Its canonical form must be
/// equivalent. The filter runs on packets of every wire format.
#include <cstdlib>
#include <memory>
#include <string_view>

#include "dissectors/output/filter.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/protocol/tunnel.hpp"
#include "dissectors/tracking/dissector.hpp"

namespace {

using namespace rdmawire;

struct Sample {
  std::vector<std::uint8_t> bytes;
  tracking::Packet packet;
  Sample(const Frame& frame, LinkType link) : bytes(frame.encode()) {
    packet.link = link;
    tracking::Dissector().dissect(packet, bytes, static_cast<std::uint32_t>(bytes.size()));
  }
};

const std::vector<std::unique_ptr<Sample>>& samples() {
  static const auto all = [] {
    std::vector<std::unique_ptr<Sample>> made;
    auto add = [&](const Frame& frame, LinkType link = LinkType::ethernet) {
      made.push_back(std::make_unique<Sample>(frame, link));
    };
    const Frame ack = Frame(Value<Ethernet>() / Value<Ipv4>()) / Value<Udp>() / Value<Bth>().set<"opcode">(0x11) /
                      Value<Aeth>().set<"syndrome">(0x60);
    add(ack);
    Frame write = Value<Ethernet>() / Value<Grh>() / Value<Bth>().set<"opcode">(0x0a) / Value<Reth>();
    write.payload = {1, 2, 3};
    add(write);
    add(Frame(Value<Lrh>() / Value<Bth>().set<"opcode">(0x64)) / Value<Deth>(), LinkType::infiniband);
    HeaderValue tcp = Value<Tcp>().set<"data_offset">(8);
    const std::uint8_t options[] = {2, 4, 0x05, 0xb4, 1, 3, 3, 7, 1, 1, 1, 0};
    tcp.set_tail(options);
    add(Frame(Value<Ethernet>() / Value<Ipv6>()) / tcp);
    Frame mirrored = Value<Ethernet>() / Value<Ipv4>() / Value<Udp>().set<"dst_port">(4789) / Value<Vxlan>();
    for (const HeaderValue& layer : ack.layers) mirrored /= layer;
    add(mirrored);
    return made;
  }();
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view expression(reinterpret_cast<const char*>(data), size);
  const auto filter = output::Filter::compile(expression);
  if (!filter) {
    if (filter.error().position > size || output::to_string(filter.error(), expression).empty()) std::abort();
    return 0;
  }
  const auto again = output::Filter::compile(filter->text());
  // The canonical form has additional spaces, so it can exceed the length limit.
  if (!again && filter->text().size() <= output::Filter::max_length) std::abort();
  if (again && again->text() != filter->text()) std::abort();
  for (const auto& sample : samples())
    if (again && filter->matches(sample->packet) != again->matches(sample->packet)) std::abort();
  return 0;
}
