/// Scripts from files: what is read runs on the reference device of its family, and comes back as it was written.

#include "conformance/fuzzer/iwarp.hpp"
#include "conformance/fuzzer/open.hpp"
#include "conformance/fuzzer/session.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::fuzzer;
  const auto script = parse_script({reinterpret_cast<const char*>(data), size});
  if (!script) return 0;
  const auto again = parse_script(to_json(*script).dump());
  if (!again || again->family != script->family || !(again->steps == script->steps)) __builtin_trap();
  // Enough for every kind of step; long ones only take time.
  if (script->steps.size() > 16) return 0;
  const auto device = script->family == Family::iwarp ? reference_endpoint_target({}) : reference_target({});
  // What passed is shown as frames, too.
  static_cast<void>(replay(*script, *device, true));
  return 0;
}
