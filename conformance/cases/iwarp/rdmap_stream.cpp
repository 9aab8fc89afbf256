/// RDMAP streams: RFC 5040, 5.3 (solicited events), 5.4 (Terminate), 5.5 (order and completions), 6.2.1 (close), 7.1
/// (the first error), 8.1.1 items 9 and 10 (shared completion queues).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::rdmap_stream_cases {
namespace {

// 5.5 rule 10: a delivered Send implies that the RDMA Writes before it are placed.
void a_write_then_a_send(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.together({write(qp.stag(), qp.to(), pattern_bytes(64)), send(1)});
  qp.completes(0);
  qp.holds(0, pattern_bytes(64));
}
void many_writes_then_a_send(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  std::vector<Stimulus> all;
  for (std::uint64_t i = 0; i < 16; ++i)
    all.push_back(write(qp.stag(), qp.to(32 * i), pattern_bytes(32, static_cast<std::uint8_t>(i + 1))));
  all.push_back(send(1, ""));
  qp.together(all);
  qp.completes(0);
  for (std::uint64_t i = 0; i < 16; ++i) qp.holds(32 * i, pattern_bytes(32, static_cast<std::uint8_t>(i + 1)));
}
void a_long_write_then_a_send(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  const std::string all = pattern_bytes(6000);
  ByteVector stream;
  const auto add = [&](const Stimulus& segment) {
    const ByteVector one = qp.fpdu(segment);
    stream.insert(stream.end(), one.begin(), one.end());
  };
  for (std::size_t at = 0; at < all.size(); at += 1200)
    add(write_part(qp.stag(), qp.to(at), all.substr(at, 1200), at + 1200 == all.size()));
  add(send(1));
  qp.send_in_segments(stream, 700, "an RDMA Write of 6000 bytes, and a Send");
  qp.completes(0);
  qp.holds(0, all);
}

// 5.3: MAY, if the application requested a notification.
void solicited_event(IwarpBench& bench, const Stimulus& solicited) {
  Connected& qp = bench.connect({.receives = 3, .notifies = true});
  qp.ask_for_notification(false);
  qp >> send(1);
  qp.is_notified(true);
  qp.completes(0);
  qp.ask_for_notification(true);
  qp >> send(2);
  qp.is_notified(false);
  qp >> solicited;
  const auto of_this_queue = [handle = qp.cq.handle()](const peer::Event& event) {
    return event.name == "completion" && event.body.value("cq", std::uint64_t{0}) == handle;
  };
  if (!bench.next_event(bench.patience().answer, of_this_queue))
    end_case(Verdict::may, "a Send with Solicited Event raises no event");
  bench.note("a Send with Solicited Event raises an event");
  qp.completes(1);
  qp.completes(2);
}
void an_event_of_a_send(IwarpBench& bench) { solicited_event(bench, send_solicited(3)); }
void an_event_of_a_send_of_nothing(IwarpBench& bench) { solicited_event(bench, send_solicited(3, "")); }

// 5.5 rules 15 and 19: the RDMA Read waits for its response, and later requests wait for the RDMA Read.
void a_read_in_the_middle(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.device_writes(0);
  qp.device_reads(1, 16, 64);
  qp.device_sends(2);
  qp << an(RdmapOperation::rdma_write);
  const Seen request = qp.wait(a_read_request(1, 16));
  qp << a_send(1);
  qp.completes(0);
  qp.completes_nothing();
  qp >> response_to(request, pattern_bytes(16));
  qp.completes(1);
  qp.holds(64, pattern_bytes(16));
  qp.completes(2);
  qp.completes_nothing();
}
void a_partial_response(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.device_reads(0, 32, 64);
  const Seen request = qp.wait(a_read_request(1, 32));
  qp >> response_to(request, pattern_bytes(16), 0, false);
  qp.completes_nothing();
  qp >> response_to(request, pattern_bytes(16, 0x11), 16, true);
  qp.completes(0);
  qp.holds(64, pattern_bytes(32));
}
// The note to rule 12: a fence delays requests after the RDMA Read.
void a_fenced_send(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.device_reads(0, 16, 64);
  qp.device_sends(1, 8, 0, {"signaled", "fence"});
  const Seen request = qp.wait(a_read_request(1, 16));
  qp << silence();
  qp.completes_nothing();
  qp >> response_to(request, pattern_bytes(16));
  qp.completes(0);
  qp << a_send(1);
  qp.completes(1);
}
void two_reads(IwarpBench& bench) {
  Connected& qp = bench.connect({.enhanced = Enhanced{}});
  qp.opens();
  qp.device_reads(0, 16, 0);
  qp.device_reads(1, 16, 64);
  const Seen first = qp.wait(a_read_request(1, 16)), second = qp.wait(a_read_request(2, 16));
  qp.completes_nothing();
  qp >> response_to(first, pattern_bytes(16));
  qp.completes(0);
  qp.completes_nothing();
  qp >> response_to(second, pattern_bytes(16, 0x80));
  qp.completes(1);
  qp.holds(0, pattern_bytes(16));
  qp.holds(64, pattern_bytes(16, 0x80));
}

// 5.4: posted messages may be sent before the Terminate, but none after it.
void silent_after_its_terminate(IwarpBench& bench, Connected& qp) {
  bool terminated = false;
  for (const Seen& seen : qp.all_until_silence()) {
    const bool message = seen.kind == Seen::Kind::fpdu || seen.kind == Seen::Kind::torn;
    if (terminated && message) bench.deviate(Verdict::fail, "only the end of TCP after the Terminate", seen.text());
    terminated = terminated || seen.is(RdmapOperation::terminate);
  }
  bench.require(terminated, "a Terminate", "none");
}
void with_sends_posted(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  for (std::uint64_t i = 0; i < 4; ++i) qp.device_sends(i, 1000);
  qp >> send_nowhere(1);
  silent_after_its_terminate(bench, qp);
  qp.ends();
}
void with_reads_to_answer(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  const auto read = [&](std::uint32_t msn) {
    return read_request(msn, {.size = 8000, .source_stag = qp.stag(), .source_to = qp.to()});
  };
  qp.together({read(1), read(2), send_nowhere(1)});
  silent_after_its_terminate(bench, qp);
  qp.ends();
}
void with_sends_posted_after_it(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send_nowhere(1);
  qp << any_terminate();
  // Rejected immediately or flushed, but never sent.
  constexpr std::uint64_t first = 0x100, sends = 2;
  for (std::uint64_t i = 0; i < sends; ++i) {
    const auto posted = qp.qp.post_send({{.opcode = "send", .wr_id = first + i, .sges = {qp.piece(0, 8)}}});
    bench.note(posted ? "a Send is posted" : "a Send is refused: " + posted.error().message);
  }
  for (const Seen& seen : qp.all_until_silence()) {
    const bool end = seen.kind == Seen::Kind::fin || seen.kind == Seen::Kind::reset;
    bench.require(end, "only the end of TCP after the Terminate", seen.text());
  }
  qp.ends();
  // Whether they are flushed is not checked here.
  int flushed = 0;
  bench.pass(bench.patience().silence);
  for (const peer::Completion& one : bench.take(qp.cq.poll(8, {}), "poll for completions")) {
    bench.require(one.wr_id < first || !one.good(), "no successful Send after the Terminate", text_of(one));
    if (one.wr_id >= first) ++flushed;
  }
  bench.note(fmt::format("{} of {} Sends posted after the end are flushed", flushed, sends));
}

// 6.2.1: outstanding requests SHOULD complete in error, and the close SHOULD be graceful.
void flushed_by(IwarpBench& bench, const Stimulus& stimulus) {
  Connected& qp = bench.connect({.receives = 2});
  qp.opens();
  qp.device_reads(0x10, 16);
  qp << a_read_request(1, 16);
  qp.device_sends(0x11);
  qp << a_send(1);
  qp >> stimulus;
  // 5.4 permits further messages.
  std::optional<Seen> seen;
  do {
    seen = qp.next();
  } while (seen && seen->kind == Seen::Kind::fpdu);
  bench.require(seen && seen->kind == Seen::Kind::fin, "a FIN", seen ? seen->text() : "nothing");
  qp.ends();
  // The order between the two queues is unspecified.
  bool receives[2] = {}, read = false, sent = false;
  for (int i = 0; i < 4; ++i) {
    const auto completions = bench.take(qp.cq.poll(1, bench.answer_time()), "poll for a completion");
    bench.require(!completions.empty(), "all outstanding requests complete", fmt::format("only {} of 4 complete", i));
    const peer::Completion& one = completions.front();
    const bool counts = one.wr_id == 0x11 || !one.good();  // the Send had been sent
    bench.require(counts, "an error", text_of(one));
    if (one.wr_id < 2) receives[one.wr_id] = true;
    read = read || one.wr_id == 0x10;
    sent = sent || one.wr_id == 0x11;
  }
  bench.require(receives[0] && receives[1] && read && sent, "one completion of each of the four requests",
                "other completions");
}
void by_a_terminate_of_ddp(IwarpBench& bench) { flushed_by(bench, terminate(1, 2, 0x03)); }
void by_a_terminate_of_a_read(IwarpBench& bench) { flushed_by(bench, terminate(0, 1, 0x00)); }
void by_a_local_catastrophe(IwarpBench& bench) { flushed_by(bench, terminate(0, 0, 0x00)); }

// 7.1 rule 4: the first error is reported.
void the_first_error(IwarpBench& bench, const std::function<std::vector<Stimulus>(const Connected&)>& two,
                     const Expectation& terminate) {
  Connected& qp = bench.connect({.receives = 2});
  qp.together(two(qp));
  qp.refuses(terminate);
}
void a_queue_then_an_msn(IwarpBench& bench) {
  the_first_error(
      bench,
      [](const Connected&) {
        return std::vector{send_nowhere(1), send(9)};
      },
      a_terminate(1, 2, 0x01));
}
void an_msn_then_a_queue(IwarpBench& bench) {
  the_first_error(
      bench,
      [](const Connected&) {
        return std::vector{send(9), send_nowhere(1)};
      },
      a_terminate(1, 2, 0x03));
}
void a_write_then_a_read(IwarpBench& bench) {
  the_first_error(
      bench,
      [](const Connected& qp) {
        return std::vector{write(unknown_stag, qp.to(), pattern_bytes(8)),
                           read_request(1, {.source_stag = unknown_stag})};
      },
      a_terminate(1, 1, 0x00));
}
void a_version_then_an_opcode(IwarpBench& bench) {
  the_first_error(
      bench,
      [](const Connected&) {
        return std::vector{send(1).with<Rdmap, "rv">(2, "with RDMAP version 2"),
                           send(1).with<Rdmap, "opcode">(15, "with opcode 15")};
      },
      a_terminate(0, 2, 0x05));
}

// 8.1.1, items 9 and 10: streams that use other queues continue.
constexpr std::uint32_t few = 4, many = 48;  // size of the queue, and more completions than any rounded-up size

/// Overflows the completion queue of the stream. The effect on the stream itself is not checked.
void overflow(IwarpBench& bench, Connected& qp) {
  for (std::uint32_t msn = 1; msn <= many; ++msn) qp >> send(msn, "");
  const auto end = qp.all_until_silence();
  bench.note(end.empty() ? "the stream continues" : "the stream ends: " + end.front().text());
}
void works(Connected& qp, std::uint32_t msn) {
  qp >> write(qp.stag(), qp.to(), pattern_bytes(16, static_cast<std::uint8_t>(msn))) >> send(msn, pattern_bytes(16));
  qp.completes(msn - 1);
  qp.holds(0, pattern_bytes(16, static_cast<std::uint8_t>(msn)));
  qp.device_sends(0x100 + msn);
  qp << a_send(msn);
  qp.completes(0x100 + msn);
}
void a_queue_of_its_own(IwarpBench& bench) {
  Connected& other = bench.connect({.receives = 3});
  works(other, 1);
  Connected& qp = bench.connect({.receives = many, .completions = few});
  overflow(bench, qp);
  works(other, 2);
  works(other, 3);
  other << silence();
}
void a_queue_of_two_streams(IwarpBench& bench) {
  const peer::CompletionQueue shared =
      bench.take(bench.device().device->completion_queue(few), "a completion queue for two");
  Connected& other = bench.connect({.receives = 3});
  works(other, 1);
  Connected& first = bench.connect({.receives = many, .shared_cq = &shared});
  bench.connect({.receives = 2, .shared_cq = &shared});
  overflow(bench, first);
  works(other, 2);
  works(other, 3);
  other << silence();
}
void a_new_stream_after_it(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = many, .completions = few});
  overflow(bench, qp);
  works(bench.connect({.receives = 1}), 1);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case cases[] = {
      {.rule = "rdmap.receiver.order.send-after-writes", .variant = "one", .run = a_write_then_a_send},
      {.rule = "rdmap.receiver.order.send-after-writes", .variant = "sixteen", .run = many_writes_then_a_send},
      {.rule = "rdmap.receiver.order.send-after-writes",
       .variant = "several segments",
       .run = a_long_write_then_a_send},
      {.rule = "rdmap.receiver.send.solicited-event", .variant = "8 bytes", .run = an_event_of_a_send},
      {.rule = "rdmap.receiver.send.solicited-event", .variant = "no bytes", .run = an_event_of_a_send_of_nothing},
      {.rule = "rdmap.verbs.completion.in-order",
       .variant = "RDMA Write, RDMA Read, Send",
       .role = requester,
       .run = a_read_in_the_middle},
      {.rule = "rdmap.verbs.completion.in-order",
       .variant = "partial response",
       .role = requester,
       .run = a_partial_response},
      {.rule = "rdmap.verbs.completion.in-order", .variant = "two RDMA Reads", .role = requester, .run = two_reads},
      {.rule = "rdmap.verbs.completion.in-order",
       .variant = "RDMA Read, fenced Send",
       .role = requester,
       .run = a_fenced_send},
      {.rule = "rdmap.sender.terminate.then-silence", .variant = "Sends posted", .run = with_sends_posted},
      {.rule = "rdmap.sender.terminate.then-silence",
       .variant = "pending RDMA Read Requests",
       .run = with_reads_to_answer},
      {.rule = "rdmap.sender.terminate.then-silence",
       .variant = "Sends posted after it",
       .run = with_sends_posted_after_it},
      {.rule = "rdmap.receiver.terminate.flushed", .variant = "of DDP", .run = by_a_terminate_of_ddp},
      {.rule = "rdmap.receiver.terminate.flushed",
       .variant = "remote protection error",
       .run = by_a_terminate_of_a_read},
      {.rule = "rdmap.receiver.terminate.flushed", .variant = "local catastrophe", .run = by_a_local_catastrophe},
      {.rule = "rdmap.receiver.error.first-told", .variant = "QN, then MSN", .run = a_queue_then_an_msn},
      {.rule = "rdmap.receiver.error.first-told", .variant = "MSN, then QN", .run = an_msn_then_a_queue},
      {.rule = "rdmap.receiver.error.first-told",
       .variant = "RDMA Write, then RDMA Read Request",
       .run = a_write_then_a_read},
      {.rule = "rdmap.receiver.error.first-told", .variant = "version, then opcode", .run = a_version_then_an_opcode},
      {.rule = "rdmap.verbs.cq.overflow-isolated",
       .variant = "own queue",
       .role = Role::verbs,
       .run = a_queue_of_its_own},
      {.rule = "rdmap.verbs.cq.overflow-isolated",
       .variant = "queue of two streams",
       .role = Role::verbs,
       .run = a_queue_of_two_streams},
      {.rule = "rdmap.verbs.cq.overflow-isolated",
       .variant = "a stream created after it",
       .role = Role::verbs,
       .run = a_new_stream_after_it},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::rdmap_stream_cases
