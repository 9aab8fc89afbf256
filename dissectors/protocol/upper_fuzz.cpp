// Decodes arbitrary bytes as a message or private data of any upper layer protocol. Requirements: decoding terminates,
// layers and parts are consecutive inside the bytes, and re-encoding returns the same bytes.

#include <cstdlib>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/upper.hpp"

using namespace rdmawire;

namespace {
void require(bool condition) {
  if (!condition) std::abort();
}
void check(const HeaderStack& stack, Bytes bytes) {
  std::uint32_t end = 0;
  for (const Layer& layer : stack.layers()) {
    require(layer.offset >= end && layer.length >= layer.header->size);
    end = layer.offset + layer.length;
    require(end <= bytes.size());
    if (!layer.header->parts) continue;
    const Parts parts = layer.header->parts(stack.bytes_of(layer));
    for (std::size_t i = 0; i < parts.count; ++i)
      require(parts.layers[i].offset + parts.layers[i].length <= layer.length &&
              parts.layers[i].length >= parts.layers[i].header->size);
  }
  require(stack.payload.offset >= end && stack.payload.end() == bytes.size());
  for (const ParseError& finding : stack.findings()) require(!to_string(finding).empty());
  Frame frame = Frame::of(stack);
  const auto again = frame.encode();
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  frame.forget_computed();
  (void)frame.encode();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint8_t flags = data[1];
  const UpperContext context{static_cast<Upper>(data[0] % 7), (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
  const Bytes bytes(data + 2, size - 2);
  HeaderStack stack;
  const auto begin = [&] {
    stack.reset(bytes, static_cast<std::uint32_t>(bytes.size()));
    stack.payload = {0, static_cast<std::uint32_t>(bytes.size())};
  };
  begin();
  decode_upper(stack, context, flags & 8 ? Extent::whole : Extent::beginning);
  check(stack, bytes);
  begin();
  decode_private_data(stack, context, static_cast<PrivateData>((flags >> 4 & 3) % 3), (flags & 64) != 0);
  check(stack, bytes);
  return 0;
}
