/// Fuzz target: random lines of the agent protocol for one device.

#include <cstdint>
#include <string_view>

#include "conformance/device/roce/reference.hpp"
#include "conformance/device/roce/rpc_handler.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::device;
  DeviceOptions options = reference_options();
  options.most_objects = 64;
  Device device(options);
  device.port().learn(Gid::ipv4(0x0a000009), {2, 0, 0, 0, 0, 9});
  // Advances the virtual time, and drops all sent frames.
  RpcHandler handler(device, [&](std::int64_t until) {
    if (device.wakes() > until) return false;
    rdmawire::replay::SimulatedHostOutput output;
    device.woken(device.wakes(), output);
    return true;
  });
  (void)handler.process_line(R"({"id":1,"do":"hello","protocol":1})");
  (void)handler.process_line(R"({"id":2,"do":"open","name":"reference"})");
  std::string_view left(reinterpret_cast<const char*>(data), size);
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    (void)handler.process_line(left.substr(0, end));
    left.remove_prefix(std::min(left.size(), end + 1));
  }
  return 0;
}
