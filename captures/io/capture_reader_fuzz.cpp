/// Reads arbitrary bytes as a capture file, mapped and buffered. Both ways must give the same result.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "captures/io/reader.hpp"

namespace {

using namespace rdmawire::captures;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Reads all bytes of a record, so that the sanitizer checks the access.
std::uint64_t touch(const Record& record) {
  std::uint64_t sum = record.flags().value_or(0) + record.drops().value_or(0);
  for (const std::uint8_t byte : record.bytes) sum += byte;
  for (const auto comment : record.comments())
    for (const char c : comment) sum += static_cast<std::uint8_t>(c);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rdmawire::Bytes input(data, size);
  auto direct = Reader::from_memory(input, "x");
  auto buffered = Reader::from_memory(input, "x", {.map = false});
  require(direct.has_value() == buffered.has_value());
  if (!direct) {
    require(to_string(direct.error()) == to_string(buffered.error()));
    return 0;
  }
  Record a, b;
  for (;;) {
    const Next next = direct->next(a);
    require(next == buffered->next(b));
    if (next != Next::record) break;
    require(touch(a) == touch(b) && a.time == b.time && a.position == b.position && a.number == b.number &&
            a.wire_length == b.wire_length && a.interface == b.interface && a.link == b.link);
    require(a.interface < direct->interfaces().size());
    require(a.position + a.bytes.size() <= direct->position());
  }
  const Next last = direct->next(a);
  require(last == Next::end || last == Next::error);
  if (last == Next::error) require(to_string(direct->error()) == to_string(buffered->error()));
  require(direct->skipped() == buffered->skipped());
  return 0;
}
