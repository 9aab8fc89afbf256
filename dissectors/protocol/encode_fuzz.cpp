// Encodes any headers in any order, with any variable parts and any set values. Requirements: encoding writes every
// byte that was set, and segmentation terminates.

#include <cstdlib>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/registry.hpp"

using namespace rdmawire;

namespace {
void require(bool condition) {
  if (!condition) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::size_t at = 0;
  auto next = [&]() -> std::uint8_t { return at < size ? data[at++] : 0; };
  const auto all = all_headers();
  const std::uint8_t options = next();
  Frame frame;
  std::size_t byte_count = 0;
  for (unsigned layers = next() % 40; layers > 0; --layers) {
    const HeaderInfo& header = *all[(next() << 8 | next()) % all.size()];
    HeaderValue value(header);
    const std::uint8_t form = next();
    if (form & 1) value.set_tail(std::vector<std::uint8_t>(next() * (form & 2 ? 40U : 1U), form));
    for (unsigned fields = form >> 5; fields > 0; --fields) {
      const Field& field = header.fields[next() % header.fields.size()];
      if (field.is_number()) value.set(field, static_cast<std::uint64_t>(next()) << (next() % 57) | next());
    }
    byte_count += value.bytes().size();
    frame /= value;
  }
  if (options & 1) frame.pad.emplace(next() % 8);
  if (options & 2) frame.icrc = 1;
  if (options & 4) frame.vcrc = std::uint16_t{2};
  frame.with_icrc = options & 8;
  frame.with_vcrc = options & 16;
  frame.with_mpa_crc = options & 32;
  frame.payload.assign(data + std::min(at, size), data + size);
  byte_count += frame.payload.size() + (frame.pad ? frame.pad->size() : 0);
  const auto bytes = frame.encode();
  require(bytes.size() >= byte_count && bytes.size() <= byte_count + 512);
  for (const Frame& packet : segment(frame, 256)) require(!packet.encode().empty());
  for (const Frame& packet : segment_ddp(frame, 128)) require(!packet.encode().empty());
  return 0;
}
