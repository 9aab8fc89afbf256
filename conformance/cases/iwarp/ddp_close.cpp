/// The end of a DDP stream: RFC 5041, 6.2.1 (graceful), 6.2.2 (abortive), 7.1 (what follows an error).

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::ddp_close_cases {
namespace {

// 7.1: later segments are silently dropped, while one message may still be sent: the Terminate.
void a_write_with_the_error(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.together({send_nowhere(1), write(qp.stag(), qp.to(), pattern_bytes(16))});
  qp.refuses(any_terminate());
  qp.holds(0, untouched());
  qp.fail_or_are_flushed(0, 0);
}
void a_write_after_the_terminate(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_nowhere(1);
  qp << any_terminate();
  qp >> write(qp.stag(), qp.to(), pattern_bytes(16));
  qp << stream_closed();
  qp.ends();
  qp.holds(0, untouched());
  qp.fail_or_are_flushed(0, 0);
}
void a_send_with_the_error(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.together({write(unknown_stag, 0, pattern_bytes(8)), send(1, pattern_bytes(16))});
  qp.refuses(any_terminate());
  qp.fail_or_are_flushed(0, 0);
  qp.received(0, untouched());
}
void a_read_with_the_error(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.together({send_nowhere(1), read_request(1, {.source_stag = qp.stag(), .source_to = qp.to()})});
  qp.refuses(any_terminate());
  qp.fail_or_are_flushed(0, 0);
}
// Data before the error is placed and delivered.
void what_came_before(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp.together({write(qp.stag(), qp.to(), pattern_bytes(16)), send(1, pattern_bytes(8)), send_nowhere(2),
               write(qp.stag(), qp.to(16), pattern_bytes(16))});
  qp.refuses(any_terminate());
  qp.completes(0);
  qp.fail_or_are_flushed(1, 1);
  qp.holds(0, pattern_bytes(16) + untouched(16));
}

// 6.2.1, 6.2.2: a reset, or a Terminate while it can be sent, but not a graceful close. The completion of the
// application's work requests is checked in both cases.
void is_aborted(IwarpBench& bench, Connected& qp) {
  const Seen seen = qp.wait(a_refusal());
  if (seen.kind == Seen::Kind::fin)
    bench.deviates(Verdict::fail, "an abort: a reset of TCP, or a Terminate", seen.text());
  qp.is_refused_by(seen);
}
void inside_a_send(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send_part(1, 0, pattern_bytes(16), false);
  qp.finish();
  is_aborted(bench, qp);
  qp.fails_or_is_flushed(0);
  qp.fail_or_are_flushed(1, 1);
}
void inside_a_write(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write_part(qp.stag(), qp.to(), pattern_bytes(16), false);
  qp.finish();
  is_aborted(bench, qp);
  qp.fail_or_are_flushed(0, 0);
}
void inside_a_response(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.opens();
  qp.device_reads(7, 32);
  const Seen request = qp.wait(a_read_request(1, 32));
  qp >> response_to(request, pattern_bytes(16), 0, false);
  qp.finish();
  is_aborted(bench, qp);
  qp.fails_or_is_flushed(7);
  qp.fail_or_are_flushed(0, 0);
}
// A FIN between messages is no error: the stream ends gracefully, and delivered data stays delivered.
void between_messages(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> send(1, pattern_bytes(16));
  qp.completes(0);
  qp.finish();
  qp << a_fin();
  static_cast<void>(bench.expect_event(qp, "disconnected"));
  qp.fail_or_are_flushed(1, 1);
}

// 6.2.1. The device's direction is still open, because it answers an RDMA Read longer than a window. TCP cannot deliver
// data after a FIN, so the data is injected where possible.
void data_after_a_close(IwarpBench& bench, const Stimulus& late, Connected& qp) {
  qp >> read_request(1, {.size = 1U << 20, .source_stag = qp.stag(), .source_to = qp.to()});
  qp.finish();
  qp.send_after_close(late);
  for (;;) {
    const auto seen = qp.next();
    if (seen && seen->kind == Seen::Kind::reset) break;
    const bool answers = seen && (seen->is(RdmapOperation::read_response) || seen->kind == Seen::Kind::torn);
    if (!answers) bench.deviate(Verdict::fail, "a reset of TCP", seen ? seen->text() : "nothing");
  }
  static_cast<void>(bench.expect_event(qp, "disconnected"));
  qp.holds(0, untouched());
  qp.fail_or_are_flushed(0, 0);
}
void a_write_after_a_close(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1, .region_bytes = 1U << 20});
  data_after_a_close(bench, write(qp.stag(), qp.to(), pattern_bytes(16)), qp);
}
void a_send_after_a_close(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1, .region_bytes = 1U << 20});
  data_after_a_close(bench, send(1, pattern_bytes(16)), qp);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "ddp.data-sink.error.later-dropped",
       .variant = "RDMA Write with the error",
       .run = a_write_with_the_error},
      {.rule = "ddp.data-sink.error.later-dropped",
       .variant = "RDMA Write after the Terminate",
       .run = a_write_after_the_terminate},
      {.rule = "ddp.data-sink.error.later-dropped", .variant = "Send with the error", .run = a_send_with_the_error},
      {.rule = "ddp.data-sink.error.later-dropped",
       .variant = "RDMA Read Request with the error",
       .run = a_read_with_the_error},
      {.rule = "ddp.data-sink.error.later-dropped", .variant = "data before the error", .run = what_came_before},
      {.rule = "ddp.data-sink.close.inside-message", .variant = "Send", .run = inside_a_send},
      {.rule = "ddp.data-sink.close.inside-message", .variant = "RDMA Write", .run = inside_a_write},
      {.rule = "ddp.data-sink.close.inside-message",
       .variant = "RDMA Read Response",
       .role = Role::requester,
       .run = inside_a_response},
      {.rule = "ddp.data-sink.close.inside-message", .variant = "between messages", .run = between_messages},
      {.rule = "ddp.data-sink.close.data-behind", .variant = "RDMA Write", .run = a_write_after_a_close},
      {.rule = "ddp.data-sink.close.data-behind", .variant = "Send", .run = a_send_after_a_close},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::ddp_close_cases
