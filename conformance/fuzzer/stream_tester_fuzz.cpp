/// Fuzz target: random TCP segments of an iWARP device must not crash the tester or exhaust its memory. Afterwards, the
/// tester can still create responses.

#include <cstdlib>

#include "conformance/fuzzer/iwarp.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::fuzzer;
  rdmawire::Bytes rest(data, size);
  StreamTester tester;
  const bool markers = !rest.empty() && (rest[0] & 1) != 0;
  std::vector<std::vector<std::uint8_t>> segments;
  while (rest.size() > 2) {
    const std::size_t bytes = std::min<std::size_t>((rest[0] | rest[1] << 8) & 0x7ff, rest.size() - 2);
    const rdmawire::Bytes segment = rest.subspan(2, bytes);
    rest = rest.subspan(2 + bytes);
    tester.receive(segment, markers);
    static_cast<void>(summary_of_stream(segment));
    if (tester.requests().size() > 64) std::abort();
    Step step{.kind = StepKind::segment};
    step.opcode = !tester.requests().empty() && tester.requests().front().atomic ? 11 : 2;
    step.payload = static_cast<std::int64_t>(bytes & 15);
    tester.make(step, {}, {.operating = true, .markers = markers}, segments);
  }
  return 0;
}
