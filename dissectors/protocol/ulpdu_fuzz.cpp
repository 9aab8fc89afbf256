// Decodes arbitrary bytes as FPDU, ULPDU or MPA frame. Requirements: decoding terminates, layers and ranges are inside
// the bytes, and re-encoding returns the same bytes.

#include <cstdlib>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mpa.hpp"

using namespace rdmawire;

namespace {
void require(bool condition) {
  if (!condition) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const Bytes bytes(data + 2, size - 2);
  const auto wire = static_cast<std::uint32_t>(bytes.size()) + data[1];
  HeaderStack stack;
  switch (data[0] % 3) {
    case 0: decode_fpdu(stack, bytes, wire); break;
    case 1: decode_ulpdu(stack, bytes, wire); break;
    default: decode_mpa_frame(stack, bytes, wire); break;
  }
  std::size_t end = 0;
  for (const Layer& layer : stack.layers()) {
    require(layer.offset >= end && layer.length >= layer.header->size);
    end = layer.offset + layer.length;
    require(end <= bytes.size());
    if (layer.header->parts) {
      const Parts parts = layer.header->parts(stack.bytes_of(layer));
      for (std::size_t i = 0; i < parts.count; ++i)
        require(parts.layers[i].offset + parts.layers[i].length <= layer.length);
    }
  }
  for (const Range range : {stack.payload, stack.pad, stack.mpa_crc}) require(range.end() <= bytes.size());
  (void)check_mpa_crc(stack);

  Frame frame = Frame::of(stack);
  const auto again = frame.encode();
  require(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  frame.forget_computed();
  (void)frame.encode();

  // Inserts and removes markers. The bytes must not change.
  std::vector<std::uint8_t> stream;
  MpaSender sender({.markers = true, .crc = true}, data[1] * 4U);
  const std::uint64_t from = sender.position();
  if (from % mpa::marker_interval >= mpa::marker_bytes || from % mpa::marker_interval == 0) {
    if (!sender.send(stream, bytes)) return 0;
    std::vector<std::uint8_t> plain(stream.size());
    plain.resize(remove_markers(stream, from, plain.data()));
    require(plain.size() == mpa::fpdu_bytes(static_cast<std::uint32_t>(bytes.size())));
    require(std::equal(bytes.begin(), bytes.end(), plain.begin() + 2));
    require(stream.size() == MarkerGrid::span(from, plain.size()));
  }
  return 0;
}
