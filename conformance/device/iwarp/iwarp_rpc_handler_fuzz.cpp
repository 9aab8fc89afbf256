/// Fuzz target: random lines of the agent protocol for one iWARP device. A line that starts with '>' contains bytes
/// that the tester sends over TCP.

#include <cstdint>
#include <string_view>

#include "conformance/device/iwarp/rpc_handler.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire;
  using namespace rdmawire::endpoint;
  AdapterOptions options;
  options.most_objects = 64;
  Adapter adapter(options);
  adapter.rnic().memory().max_bytes = 1U << 20;
  // Disable CRCs, so that random bytes can be a valid FPDU.
  machines::MpaSettings mpa = adapter.wished();
  mpa.crc = false;
  adapter.wish(mpa);
  VirtualTcp tcp(adapter);
  RpcHandler handler(adapter, [&](std::int64_t until) { return tcp.step(until); });
  const auto process = [&](std::string_view line) {
    const std::lock_guard lock(tcp.mutex());
    (void)handler.process_line(line);
    tcp.settle();
  };
  process(R"({"id":1,"do":"hello","protocol":1})");
  process(R"({"id":2,"do":"open","name":"reference"})");
  (void)tcp.listen(4000, {});
  std::unique_ptr<replay::TcpConnection> connection;
  std::string_view left(reinterpret_cast<const char*>(data), size);
  while (!left.empty()) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, end);
    if (line.starts_with('>')) {
      if (!connection) connection = tcp.accept(4000, tcp.now() + 1'000'000).value_or(nullptr);
      if (!connection)
        connection = tcp.connect({tcp.options().device, 7471}, {}, tcp.now() + 1'000'000).value_or(nullptr);
      if (connection) {
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(line.data());
        if (line.size() == 1)
          (void)connection->close_half();
        else
          (void)connection->send(Bytes(bytes + 1, line.size() - 1));
        while (const auto arrival = connection->receive(tcp.now()).value_or(std::nullopt)) {
        }
      }
    } else {
      process(line);
    }
    left.remove_prefix(std::min(left.size(), end + 1));
  }
  return 0;
}
