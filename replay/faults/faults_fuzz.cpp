// Fuzz target: a program, a zero byte, and frames, each preceded by its length (one byte) and its side. Compilation
// must return a program or a printable error, and the engine must keep its invariants.

#include <algorithm>
#include <cstdlib>
#include <string>

#include "replay/faults/engine.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rdmawire::replay;
  const std::uint8_t* end = std::find(data, data + size, 0);
  const std::string_view text(reinterpret_cast<const char*>(data), static_cast<std::size_t>(end - data));
  auto program = FaultProgram::compile(text);
  if (!program) {
    if (program.error().message.empty() || to_string(program.error(), text).empty()) std::abort();
    return 0;
  }
  for (const FaultRule& rule : program->rules())
    if (!FaultProgram::compile(rule.text)) std::abort();

  FaultEngine engine(std::move(*program), {.seed = 1, .held_frames = 8, .log_entries = 16, .connections = 4});
  std::int64_t now = 0;
  const auto check = [&](const FaultOutcome& outcome) {
    if (outcome.leaving.size() > 32'000) std::abort();
    for (const FaultedFrame& frame : outcome.leaving)
      if (frame.time < now || frame.frame == 0 || frame.frame > engine.frames()) std::abort();
  };
  const std::uint8_t* at = end + (end != data + size);
  while (data + size - at >= 2) {
    const std::size_t bytes = std::min<std::size_t>(at[0], static_cast<std::size_t>(data + size - at) - 2);
    now += at[1] * 1000;
    check(engine.arrived({at + 2, bytes}, now, at[1] % 3));
    at += 2 + bytes;
    if (engine.log().size() > 16) std::abort();
    if (const std::int64_t wakes = engine.wakes(); wakes != FaultEngine::never && bytes % 5 == 0) {
      now = std::max(now, wakes);
      check(engine.due(now));
      if (engine.wakes() <= now) std::abort();
    }
  }
  check(engine.finish(now));
  if (engine.wakes() != FaultEngine::never) std::abort();
  for (const FaultLogEntry& entry : engine.log()) (void)to_string(entry, engine.program());
  return 0;
}
