/// Fuzz target: the agent protocol with fake_verbs. The first byte selects how the input is split, the second one which
/// verbs call and which CM call fail. All objects must be released at the end.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "conformance/agent/conversation.hpp"
#include "conformance/agent/fake_verbs/fake_verbs.hpp"
#include "conformance/agent/fake_verbs/rdmacm.hpp"

using namespace rdmawire::agent;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const unsigned how = data[0], fails = data[1];
  std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);

  fake_verbs::reset();
  // Release calls always succeed. Otherwise an object whose release failed would count as a leak of the agent.
  fake_verbs::spare_releases();
  fake_verbs::fail_call(fails, ENOMEM);
  fake_verbs::fail_cm_call(fails, ENOMEM);
  {
    Loop::Time time = 0;
    Loop loop([&] { return time; });
    Settings settings;
    settings.most_memory = 1U << 16U;
    settings.threads = false;
    settings.allow_run = false;
    std::size_t said = 0;
    Conversation conversation(loop, settings, [&](const std::string& line) { said += line.size(); });
    if ((how & 0x40) != 0) {
      conversation.receive(
          "{\"id\":0,\"do\":\"hello\",\"protocol\":1}\n{\"id\":0,\"do\":\"open\",\"name\":\"fake0\"}\n");
    }
    const std::size_t step = (how & 0x3F) == 0 ? bytes.size() : how & 0x3F;
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, step);
      bytes.remove_prefix(part.size());
      conversation.receive(part);
      if (loop.turn(0) == 0) time += Loop::millisecond;
    }
    for (int i = 0; i < 20; ++i) {
      if (loop.turn(0) == 0) time += 200 * Loop::millisecond;
    }
    if ((how & 1) != 0) conversation.lost();
  }
  fake_verbs::fail_cm_call(0, 0);
  if (fake_verbs::alive() != 0 || fake_verbs::cm_alive() != 0) std::abort();
  return 0;
}
