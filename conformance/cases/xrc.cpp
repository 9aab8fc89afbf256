/// Extended reliable connections: IBTA vol 1, annex A14 (numbers unverified), 9.6.1 (checks of the BTH).

#include "conformance/cases/files.hpp"

namespace rdmawire::conformance {
namespace {

// An opcode of XRC is none of an RC queue pair's: dropped, and nothing counts it.
void xrc_opcode_to_rc(Bench& bench) {
  Connected& qp = bench.rc({.receives = 1});
  bench >> qp.request(0xa4, psn(+0), {.payload = octets(8), .xrc_srq = 1});
  bench << silence();
  qp.completes_nothing();
  bench >> qp.send_only(psn(+0));
  bench << ack(psn(+0)).msn(1);
  qp.completes(0);
}

// Who does not announce XRC has no such queue pairs either, and drops its opcodes.
void absent_means_dropped(Bench& bench) {
  const auto domain = bench.device().device->xrc_domain();
  if (domain) end_case(Verdict::unsupported, "the device has XRC");
  bench.note("no XRC domain: " + domain.error().message);
  xrc_opcode_to_rc(bench);
}

}  // namespace

std::span<const Case> xrc_cases() {
  static constexpr Case list[] = {
      {.rule = "xrc.responder.opcode.other-service-dropped", .variant = "XRC opcode to RC", .run = xrc_opcode_to_rc},
      {.rule = "xrc.verbs.capability.absent-means-dropped", .run = absent_means_dropped},
  };
  return list;
}

}  // namespace rdmawire::conformance
