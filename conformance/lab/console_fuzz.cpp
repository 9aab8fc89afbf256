// Fuzz target: console output of any content. Memory is bounded, and the result does not depend on how the input is
// split.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "conformance/lab/console.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  rdmawire::lab::ConsoleWatch whole, cut;
  whole.take(text);
  for (std::size_t at = 0; at < size; at += 7) cut.take(text.substr(at, 7));
  if (whole.count() != cut.count() || whole.panicked() != cut.panicked()) std::abort();
  if (whole.complaints().size() > 100 || whole.last_lines().size() > 20) std::abort();
  for (std::size_t i = 0; i < whole.complaints().size(); ++i)
    if (whole.complaints()[i].lines != cut.complaints()[i].lines || whole.complaints()[i].lines.size() > 100)
      std::abort();
  return 0;
}
