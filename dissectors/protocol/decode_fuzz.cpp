// Decodes arbitrary bytes with any link type. Requirements: decoding terminates, layers and ranges are inside the
// packet, CRC checks do not crash, re-encoding returns the same bytes, and fast paths match the reference.

#include <cstdlib>

#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/icrc_cause.hpp"

using namespace rdmawire;

namespace {
void require(bool condition) {
  if (!condition) std::abort();
}
constexpr LinkType links[] = {LinkType::ethernet,   LinkType::raw_ip,     LinkType::linux_sll,
                              LinkType::linux_sll2, LinkType::infiniband, LinkType::erf,
                              LinkType::ipv4,       LinkType::ipv6,       LinkType::null_loopback};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const LinkType link = links[data[0] % std::size(links)];
  const std::uint32_t cut = data[1];
  const Bytes bytes(data + 2, size - 2);
  HeaderStack stack;
  decode(stack, bytes, link, static_cast<std::uint32_t>(bytes.size()) + cut, {.extra_roce_v2_port = 4792});

  std::size_t end = 0;
  for (const Layer& layer : stack.layers()) {
    require(layer.offset >= end);
    require(layer.length >= layer.header->size);
    end = layer.offset + layer.length;
    require(end <= bytes.size());
    if (layer.header->parts) {
      const Parts parts = layer.header->parts(stack.bytes_of(layer));
      for (std::size_t i = 0; i < parts.count; ++i)
        require(parts.layers[i].offset + parts.layers[i].length <= layer.length &&
                parts.layers[i].length >= parts.layers[i].header->size);
    }
  }
  for (const Range range : {stack.payload, stack.pad, stack.icrc, stack.vcrc}) require(range.end() <= bytes.size());
  for (const ParseError& finding : stack.findings()) require(!to_string(finding).empty());
  const CrcCheck icrc = check_icrc(stack);
  (void)check_vcrc(stack);
  if (icrc.status == CrcCheck::Status::good || icrc.status == CrcCheck::Status::bad)
    require(compute_icrc(stack) == plain::compute_icrc(stack));
  HeaderStack steps;
  plain::decode(steps, bytes, link, stack.wire_length, {.extra_roce_v2_port = 4792});
  require(steps.layers().size() == stack.layers().size() && steps.findings().size() == stack.findings().size());
  for (std::size_t i = 0; i < steps.layers().size(); ++i)
    require(steps.layers()[i].header == stack.layers()[i].header &&
            steps.layers()[i].offset == stack.layers()[i].offset &&
            steps.layers()[i].length == stack.layers()[i].length);
  const auto same = [](Range a, Range b) { return a.length == b.length && (a.length == 0 || a.offset == b.offset); };
  require(same(steps.payload, stack.payload) && same(steps.pad, stack.pad) && same(steps.icrc, stack.icrc));
  require(steps.wire == stack.wire && steps.network == stack.network && steps.transport == stack.transport &&
          steps.cut == stack.cut && steps.fragment == stack.fragment);
  if (icrc.status == CrcCheck::Status::bad) (void)source_port_for_icrc(stack);
  (void)describe(explain_icrc(stack));

  Frame frame = Frame::of(stack);
  const auto again = frame.encode();
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  frame.forget_computed();
  (void)frame.encode();
  return 0;
}
