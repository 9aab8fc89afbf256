#include "conformance/cases/fast_region.hpp"

namespace rdmawire::conformance {

FastRegion::FastRegion(DeviceBench& bench, std::size_t domain) : bench_(bench) {
  const auto made = bench.device().peer->call("alloc_mr", {{"pd", bench.domain(domain).handle()}, {"length", 4096}});
  if (!made) end_case(Verdict::unsupported, "verbs of user space have no fast registration: " + made.error().message);
  handle_ = made->value("mr", std::uint64_t{0});
  address = made->value("addr", std::uint64_t{0});
  key_ = made->value("rkey", std::uint32_t{0});
}

FastRegion::~FastRegion() { static_cast<void>(bench_.device().peer->call("destroy", {{"object", handle_}})); }

void FastRegion::registers(DeviceQueuePair& through, std::uint64_t wr_id, std::uint32_t n) const {
  through.post(
      {.opcode = "reg_mr",
       .wr_id = wr_id,
       .more = {{"mr", handle_}, {"new_rkey", key(n)}, {"access", {"local_write", "remote_write", "remote_read"}}}});
  through.completes(wr_id);
}

}  // namespace rdmawire::conformance
