// Fuzz target: a link type (two bytes) and a packet. The conversion keeps the contents after the link header.

#include <algorithm>
#include <cstdlib>

#include "replay/player/link_conversion.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire;
  if (size < 2) return 0;
  captures::Record record;
  record.link = static_cast<LinkType>(load_be<2>(data));
  record.bytes = {data + 2, size - 2};
  record.wire_length = static_cast<std::uint32_t>(record.bytes.size());
  if (!replay::LinkConversion::supports(record.link)) return 0;
  replay::LinkConversion conversion;
  conversion.learn(record);
  const Bytes before = record.bytes;
  if (!conversion.convert(record)) {
    if (record.bytes.data() != before.data() || record.bytes.size() != before.size()) std::abort();
    return 0;
  }
  constexpr std::size_t header = 14;
  if (record.link != LinkType::ethernet || record.bytes.size() < header) std::abort();
  if (record.wire_length != record.bytes.size()) std::abort();
  const Bytes contents = record.bytes.subspan(header);
  if (contents.size() > before.size() || !std::equal(contents.rbegin(), contents.rend(), before.rbegin())) std::abort();
  return 0;
}
