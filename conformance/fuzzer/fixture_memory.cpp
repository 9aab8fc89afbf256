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
  device::SendRequest request{.id = id,
                              .opcode = static_cast<WorkOpcode>(std::clamp<std::int64_t>(step.opcode, 0, last))};
  request.solicited = (step.flags & 1) != 0;
  request.fence = (step.flags & 2) != 0;
  request.signaled = (step.flags & 4) == 0;
  request.remote_address = tester_address;
  request.rkey = tester_key;
  request.immediate = low(step.immediate);
  request.swap_add = static_cast<std::uint64_t>(step.value);
  request.compare = static_cast<std::uint64_t>(step.compare);
  return request;
}

device::SendRequest FixtureMemory::local_work(const Step& step, std::uint64_t id, const KnownObjects& objects) const {
  device::SendRequest request{.id = id};
  const auto key = static_cast<std::size_t>(step.key);
  request.rights = low(step.rights) & device::access::all;
  request.address = request.iova = objects.memory[key].address + static_cast<std::uint64_t>(step.offset);
  request.bytes_bound = static_cast<std::uint64_t>(step.length);
  request.fence = (step.flags & 2) != 0;
  if (step.kind == StepKind::bind) {
    request.opcode = WorkOpcode::bind_mw;
    request.window = windows[static_cast<std::size_t>(std::clamp<std::int64_t>(step.number, 0, 2))];
    request.region = regions[std::min<std::size_t>(key, 5)];
    request.new_key = low(step.immediate);
  } else if (step.kind == StepKind::fast_register) {
    request.opcode = WorkOpcode::reg_mr;
    request.region = regions[5];
    request.address = request.iova = buffer + layout::fast.offset + static_cast<std::uint64_t>(step.offset);
    request.new_key = low(step.immediate);
  } else {
    request.opcode = WorkOpcode::local_inv;
    request.rkey = objects.memory[key].key;
  }
  return request;
}

}  // namespace rdmawire::fuzzer
