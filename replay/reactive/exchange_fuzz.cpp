// Fuzz target: reads exchanges from arbitrary captures, plans their memory and steps, and parses DDP segments.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "replay/reactive/ddp_segment.hpp"
#include "replay/reactive/run.hpp"

using namespace rdmawire::replay::reactive;

namespace {

void check(const Exchange& exchange) {
  constexpr std::uint64_t most = 1 << 20;
  const auto plan = plan_memory(exchange, most);
  if (!plan && plan.error().empty()) std::abort();
  if (plan && plan->outbox.size() != exchange.theirs.messages.size()) std::abort();
  static_cast<void>(steps_of(exchange));
  for (const Requests* requests : {&exchange.ours, &exchange.theirs}) {
    std::uint32_t next = 0;
    for (const Message& message : requests->messages) {
      if (message.packets.empty()) std::abort();
      if (!exchange.is_iwarp() && message.first != next) std::abort();
      next = message.end();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (const auto segment = DdpSegment::of({data, size}); segment && words_of(*segment).empty()) std::abort();
  const int file = ::memfd_create("capture", MFD_CLOEXEC);
  if (file < 0) return 0;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::write(file, data, size) == static_cast<ssize_t>(size)) {
    for (const auto side : {rdmawire::tracking::Side::a, rdmawire::tracking::Side::b}) {
      const auto exchange = read_exchange(path, {.side = side, .max_bytes = 1 << 20});
      if (!exchange && exchange.error().message.empty()) std::abort();
      if (exchange) check(*exchange);
    }
  }
  ::close(file);
  return 0;
}
