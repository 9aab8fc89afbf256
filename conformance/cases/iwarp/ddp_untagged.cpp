/// Untagged buffers: RFC 5041, 4.3 (the header), 7.1 (what a receiver checks), 7.2 (its errors).

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp {
namespace {

// A queue that does not exist: layer 1, type 2, code 1.
void an_unknown_queue(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send(1).with<DdpUntagged, "qn">(7, "on QN 7");
  qp << a_terminate(1, 2, 0x01) << the_end();
}

// MSN 1 is what comes first: layer 1, type 2, code 3.
void an_msn_too_far(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send(3);
  qp << a_terminate(1, 2, 0x03) << the_end();
}

}  // namespace

std::span<const Case> ddp_untagged_cases() {
  static constexpr Case cases[] = {
      {.rule = "ddp.data-sink.queue.invalid", .run = an_unknown_queue},
      {.rule = "ddp.data-sink.msn.out-of-range", .variant = "two messages ahead", .run = an_msn_too_far},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp
