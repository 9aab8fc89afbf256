/// Fuzz target: a parsed script can be written and parsed again without changes, and runs on its reference device.

#include "conformance/fuzzer/iwarp.hpp"
#include "conformance/fuzzer/open.hpp"
#include "conformance/fuzzer/session.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::fuzzer;
  const auto script = parse_script({reinterpret_cast<const char*>(data), size});
  if (!script) return 0;
  const auto again = parse_script(to_json(*script).dump());
  if (!again || again->family != script->family || !(again->steps == script->steps)) __builtin_trap();
  // Limits the time.
  if (script->steps.size() > 16) return 0;
  const auto device = script->family == Family::iwarp ? reference_endpoint_target({}) : reference_target({});
  // Also convert the exchange to frames.
  static_cast<void>(replay(*script, *device, true));
  return 0;
}
