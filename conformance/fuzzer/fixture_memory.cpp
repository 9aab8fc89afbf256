#include "conformance/fuzzer/fixture_memory.hpp"

#include <algorithm>

#include "conformance/fuzzer/frames.hpp"

namespace rdmawire::fuzzer {

using device::WorkOpcode;

namespace {
constexpr std::uint32_t receive_places = 8;
}

void fill_memory(MutableBytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8));
}

device::Sge FixtureMemory::receive(std::uint32_t number, std::int64_t bytes) const {
  constexpr std::uint64_t each = layout::receives.bytes / receive_places;
  const std::uint32_t length = std::min<std::uint32_t>(low(bytes), layout::receives.bytes);
  const std::uint64_t place = length > each ? 0 : each * (number % receive_places);
  return {buffer + layout::receives.offset + place, length, receive_key};
}

device::Sge FixtureMemory::local(const Step& step, std::uint32_t bytes) const {
  return {buffer + layout::local.offset + (low(step.offset) & 0x7ffU), bytes, local_key};
}

device::SendRequest FixtureMemory::remote_work(const Step& step, std::uint64_t id) {
  const auto last = static_cast<std::int64_t>(WorkOpcode::unknown);
  device::SendRequest asked{.id = id,
                            .opcode = static_cast<WorkOpcode>(std::clamp<std::int64_t>(step.opcode, 0, last))};
  asked.solicited = (step.flags & 1) != 0;
  asked.fence = (step.flags & 2) != 0;
  asked.signaled = (step.flags & 4) == 0;
  asked.remote_address = tester_address;
  asked.rkey = tester_key;
  asked.immediate = low(step.immediate);
  asked.swap_add = static_cast<std::uint64_t>(step.value);
  asked.compare = static_cast<std::uint64_t>(step.compare);
  return asked;
}

device::SendRequest FixtureMemory::local_work(const Step& step, std::uint64_t id, const KnownObjects& objects) const {
  device::SendRequest asked{.id = id};
  const auto key = static_cast<std::size_t>(step.key);
  asked.rights = low(step.rights) & device::access::all;
  asked.address = asked.iova = objects.memory[key].address + static_cast<std::uint64_t>(step.offset);
  asked.bytes_bound = static_cast<std::uint64_t>(step.length);
  asked.fence = (step.flags & 2) != 0;
  if (step.kind == StepKind::bind) {
    asked.opcode = WorkOpcode::bind_mw;
    asked.window = windows[static_cast<std::size_t>(std::clamp<std::int64_t>(step.number, 0, 2))];
    asked.region = regions[std::min<std::size_t>(key, 5)];
    asked.new_key = low(step.immediate);
  } else if (step.kind == StepKind::fast_register) {
    asked.opcode = WorkOpcode::reg_mr;
    asked.region = regions[5];
    asked.address = asked.iova = buffer + layout::fast.offset + static_cast<std::uint64_t>(step.offset);
    asked.new_key = low(step.immediate);
  } else {
    asked.opcode = WorkOpcode::local_inv;
    asked.rkey = objects.memory[key].key;
  }
  return asked;
}

}  // namespace rdmawire::fuzzer
