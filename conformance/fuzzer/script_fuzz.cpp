/// Scripts from files: what is read runs on the reference device, and comes back as it was written.

#include "conformance/fuzzer/open.hpp"
#include "conformance/fuzzer/session.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::fuzzer;
  const auto script = parse_script({reinterpret_cast<const char*>(data), size});
  if (!script) return 0;
  const auto again = parse_script(to_json(*script).dump());
  if (!again || !(again->steps == script->steps)) __builtin_trap();
  // Enough for every kind of step; long ones only take time.
  if (script->steps.size() > 16) return 0;
  const auto device = reference_target({});
  static_cast<void>(replay(*script, *device));
  return 0;
}
