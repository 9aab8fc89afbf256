/// RDMAP messages: RFC 5040, 4.1 (the control field, figure 4), 4.2 to 4.5 (headers), 5.1 to 5.4 (operations), 7.2
/// (checks of a receiver).

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::rdmap_operations_cases {
namespace {

template <class H, FixedString Name>
void has(IwarpBench& bench, const Seen& seen, const char* what, std::uint64_t wanted) {
  const auto found = seen.get<H, Name>();
  bench.require(found == wanted, fmt::format("{} {:#x} in: {}", what, wanted, seen.text()),
                found ? fmt::format("{:#x}", *found) : "the field is missing");
}

// Figure 4: opcodes 3 to 6, untagged, queue 0. STag 0 without Invalidate.
void format_of_a_send(IwarpBench& bench, const char* posted, const peer::Names& flags, unsigned opcode,
                      std::uint32_t invalidates) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(16));
  qp.opens();
  qp.post({.opcode = posted, .wr_id = 0, .sges = {qp.piece(0, 16)}, .invalidate_rkey = invalidates, .flags = flags});
  const Seen seen = qp.wait({fmt::format("a message of opcode {}", opcode), [opcode](const Seen& one) {
                               return one.get<Rdmap, "opcode">() == opcode ? Match::yes : Match::no;
                             }});
  has<Ddp, "tagged">(bench, seen, "tagged flag", 0);
  has<DdpUntagged, "qn">(bench, seen, "QN", 0);
  has<DdpUntagged, "invalidate_stag">(bench, seen, "Invalidate STag", invalidates);
  bench.require(seen.payload() == pattern_bytes(16), "the bytes that were posted", seen.text());
}
void format_of_a_plain_send(IwarpBench& bench) { format_of_a_send(bench, "send", {"signaled"}, 3, 0); }
void format_of_a_send_with_invalidate(IwarpBench& bench) {
  format_of_a_send(bench, "send_inv", {"signaled"}, 4, 0x13570);
}
void format_of_a_solicited_send(IwarpBench& bench) { format_of_a_send(bench, "send", {"signaled", "solicited"}, 5, 0); }
void format_of_a_solicited_send_with_invalidate(IwarpBench& bench) {
  format_of_a_send(bench, "send_inv", {"signaled", "solicited"}, 6, 0x13570);
}

// 4.3: a tagged DDP header followed by the payload. 5.1: the application is not notified.
void format_of_a_write(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(40));
  qp.opens();
  qp.device_writes(0, 40);
  const Seen seen = qp.wait(a_write(tester_stag, tester_memory).carrying(pattern_bytes(40)));
  has<Rdmap, "opcode">(bench, seen, "opcode", 0);
  has<Ddp, "tagged">(bench, seen, "tagged flag", 1);
  bench.require(seen.ulpdu_bytes() == 14 + 40, "a DDP header of 14 bytes, and 40 bytes of payload",
                fmt::format("{} bytes", seen.ulpdu_bytes()));
}
void writes_are_not_delivered(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> write(qp.stag(), qp.to(), pattern_bytes(16)) >>
      write_part(qp.stag(), qp.to(16), pattern_bytes(16, 0x11), false) >>
      write_part(qp.stag(), qp.to(32), pattern_bytes(16, 0x21), true);
  qp.completes_nothing();
  qp << silence();
  qp >> send(1, pattern_bytes(8));
  qp.completes(0);
  qp.received(0, pattern_bytes(8));
  qp.holds(0, pattern_bytes(48));
}

// 4.4: exactly 28 bytes, on queue 1, in one segment.
void format_of_a_read_request(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.device_reads(0, 24, 64);
  const Seen seen = qp.wait(a_read_request(1, 24));
  has<Rdmap, "opcode">(bench, seen, "opcode", 1);
  has<Ddp, "tagged">(bench, seen, "tagged flag", 0);
  has<Ddp, "last">(bench, seen, "last flag", 1);
  has<DdpUntagged, "qn">(bench, seen, "QN", 1);
  has<DdpUntagged, "mo">(bench, seen, "MO", 0);
  has<RdmapReadRequest, "src_stag">(bench, seen, "Data Source STag", tester_stag);
  has<RdmapReadRequest, "src_to">(bench, seen, "Data Source TO", tester_memory);
  bench.require(seen.ulpdu_bytes() == 18 + 28, "a DDP header of 18 bytes, and a Read Request header of 28 bytes",
                fmt::format("{} bytes", seen.ulpdu_bytes()));
  // The destination is the requested sink.
  qp >> response_to(seen, pattern_bytes(24));
  qp.completes(0);
  qp.holds(64, pattern_bytes(24));
}

// 4.5, 5.2.2: opcode 2, tagged, with the STag, TO and length of the request.
void format_of_a_read_response(IwarpBench& bench, std::uint32_t size) {
  Connected& qp = bench.connect();
  qp.fill(0, pattern_bytes(8192));
  constexpr std::uint32_t sink = 0x98765432;
  constexpr std::uint64_t sink_to = 0x1122334455667788;
  qp >> read_request(
            1, {.size = size, .source_stag = qp.stag(), .source_to = qp.to(16), .sink_stag = sink, .sink_to = sink_to});
  std::string come;
  do {
    const Seen seen = qp.wait(a_read_response(sink, sink_to + come.size()));
    has<Rdmap, "opcode">(bench, seen, "opcode", 2);
    has<Ddp, "tagged">(bench, seen, "tagged flag", 1);
    come += seen.payload();
    has<Ddp, "last">(bench, seen, "last flag", come.size() < size ? 0 : 1);
  } while (come.size() < size);
  bench.require(come == pattern_bytes(8192).substr(16, size), fmt::format("the {} requested bytes", size),
                fmt::format("{} bytes, or other content", come.size()));
  qp << silence();
}
void format_of_a_short_response(IwarpBench& bench) { format_of_a_read_response(bench, 8); }
void format_of_an_odd_response(IwarpBench& bench) { format_of_a_read_response(bench, 1001); }
void format_of_a_long_response(IwarpBench& bench) { format_of_a_read_response(bench, 5000); }

// 5.4: opcode 7, untagged, queue 2, MSN 1.
void format_of_a_terminate(IwarpBench& bench, const Stimulus& bad) {
  Connected& qp = bench.connect({.receives = 3});
  qp >> send(1) >> send(2);  // MSNs of other queues are independent
  qp.completes(0);
  qp.completes(1);
  qp >> bad;
  const Seen seen = qp.wait(any_terminate());
  has<Ddp, "tagged">(bench, seen, "tagged flag", 0);
  has<Ddp, "last">(bench, seen, "last flag", 1);
  has<DdpUntagged, "qn">(bench, seen, "QN", 2);
  has<DdpUntagged, "msn">(bench, seen, "MSN", 1);
  has<DdpUntagged, "mo">(bench, seen, "MO", 0);
}
void format_of_a_terminate_of_ddp(IwarpBench& bench) { format_of_a_terminate(bench, send(9)); }
void format_of_a_terminate_of_rdmap(IwarpBench& bench) {
  format_of_a_terminate(bench, send(3).with<Rdmap, "rv">(2, "with RDMAP version 2"));
}
void format_of_a_terminate_of_a_read(IwarpBench& bench) {
  format_of_a_terminate(bench, read_request(1, {.source_stag = unknown_stag}));
}

// 4.1: version 1 in every message.
void version_of_what_is_sent(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.opens();
  qp.device_sends(0);
  has<Rdmap, "rv">(bench, qp.wait(a_send(1)), "RDMAP version", 1);
  qp.device_writes(1);
  has<Rdmap, "rv">(bench, qp.wait(an(RdmapOperation::rdma_write)), "RDMAP version", 1);
  qp.device_reads(2);
  const Seen request = qp.wait(a_read_request(1, 8));
  has<Rdmap, "rv">(bench, request, "RDMAP version", 1);
  qp >> response_to(request, pattern_bytes(8));
  qp >> read_request(1, {.source_stag = qp.stag(), .source_to = qp.to()});
  has<Rdmap, "rv">(bench, qp.wait(an(RdmapOperation::read_response)), "RDMAP version", 1);
  qp << silence();  // other cases test a Terminate during a response
  qp >> send(9);
  has<Rdmap, "rv">(bench, qp.wait(any_terminate()), "RDMAP version", 1);
}

// 4.1: ignored on receipt.
void reserved_bits(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 4});
  for (std::uint32_t bits = 1; bits <= 3; ++bits) {
    qp >> send(bits).with<Rdmap, "reserved">(bits, "with reserved bits of RDMAP");
    qp.completes(bits - 1);
  }
  qp >> write(qp.stag(), qp.to(), pattern_bytes(16)).with<Rdmap, "reserved">(3, "with reserved bits of RDMAP");
  qp >> read_request(1, {.size = 16, .source_stag = qp.stag(), .source_to = qp.to()})
            .with<Rdmap, "reserved">(3, "with reserved bits of RDMAP");
  qp << an(RdmapOperation::read_response).carrying(pattern_bytes(16));
}
void an_invalidate_stag_that_is_none(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 3});
  const std::uint32_t own = qp.stag();
  qp >> send(1).with<DdpUntagged, "invalidate_stag">(unknown_stag, "with an Invalidate STag");
  qp >> send_solicited(2).with<DdpUntagged, "invalidate_stag">(own, "with an Invalidate STag");
  qp.completes(0);
  const peer::Completion second = qp.completes(1);
  bench.require(!second.invalidated_rkey, "no invalidation", "the application is notified of an invalidated STag");
  qp >> read_request(1, {.source_stag = own, .source_to = qp.to()})
            .with<DdpUntagged, "invalidate_stag">(own, "with an Invalidate STag");
  qp << an(RdmapOperation::read_response).carrying(untouched(8));
  qp >> write(own, qp.to(), pattern_bytes(16)) >> send(3);  // the STag is still valid
  qp.completes(2);
  qp.holds(0, pattern_bytes(16));
}

/// Checks that the segment causes this Terminate, the receive fails or is flushed, and the memory is unchanged.
void refused(IwarpBench& bench, const std::function<Stimulus(const Connected&)>& bad, const Expectation& terminate) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> bad(qp);
  qp.refuses(terminate);
  qp.fail_or_are_flushed(0, 0);
  qp.received(0, untouched());
  qp.holds(0, untouched());
}

// Layer 0, type 2, code 5.
void version(IwarpBench& bench, unsigned rv, const std::function<Stimulus(const Connected&)>& message) {
  refused(
      bench,
      [&](const Connected& qp) { return message(qp).with<Rdmap, "rv">(rv, fmt::format("of RDMAP version {}", rv)); },
      a_terminate(0, 2, 0x05));
}
Stimulus some_send(const Connected& qp) {
  static_cast<void>(qp);
  return send(1, pattern_bytes(16));
}
Stimulus some_write(const Connected& qp) { return write(qp.stag(), qp.to(), pattern_bytes(16)); }
Stimulus some_read(const Connected& qp) {
  return read_request(1, {.size = 16, .source_stag = qp.stag(), .source_to = qp.to()});
}
void version_0_of_a_send(IwarpBench& bench) { version(bench, 0, some_send); }
void version_2_of_a_send(IwarpBench& bench) { version(bench, 2, some_send); }
void version_3_of_a_send(IwarpBench& bench) { version(bench, 3, some_send); }
void version_2_of_a_write(IwarpBench& bench) { version(bench, 2, some_write); }
void version_2_of_a_read_request(IwarpBench& bench) { version(bench, 2, some_read); }

// Layer 0, type 2, code 6: RFC 5040 and RFC 7306 do not define opcodes 12 to 15.
void opcode(IwarpBench& bench, unsigned number, const std::function<Stimulus(const Connected&)>& message) {
  refused(
      bench,
      [&](const Connected& qp) {
        return message(qp).with<Rdmap, "opcode">(number, fmt::format("with opcode {}", number));
      },
      a_terminate(0, 2, 0x06));
}
void opcode_12(IwarpBench& bench) { opcode(bench, 12, some_send); }
void opcode_13(IwarpBench& bench) { opcode(bench, 13, some_send); }
void opcode_14(IwarpBench& bench) { opcode(bench, 14, some_send); }
void opcode_15(IwarpBench& bench) { opcode(bench, 15, some_send); }
void opcode_15_tagged(IwarpBench& bench) { opcode(bench, 15, some_write); }

// Figure 4 has one buffer model for each opcode. RFC 5040 does not define the error for another model.
void wrong_model(IwarpBench& bench, const std::function<Stimulus(const Connected&)>& bad) {
  refused(bench, bad, any_terminate());
}
void a_tagged_send(IwarpBench& bench) {
  wrong_model(bench,
              [](const Connected& qp) { return tagged(RdmapOperation::send, qp.stag(), qp.to(), pattern_bytes(16)); });
}
void a_tagged_read_request(IwarpBench& bench) {
  wrong_model(bench, [](const Connected& qp) {
    // The header of a request for the region's first bytes, after the header of a tagged segment.
    std::string header(28, '\0');
    header[0] = 0x51;
    header[15] = 8;
    const auto store = [&](std::size_t at, std::uint64_t value, int size) {
      for (int i = 0; i < size; ++i) header[at + i] = static_cast<char>(value >> 8 * (size - 1 - i));
    };
    store(16, qp.stag(), 4);
    store(20, qp.to(), 8);
    return tagged(RdmapOperation::read_request, qp.stag(), qp.to(), header);
  });
}
// Only the flag is wrong: a receiver that uses only the opcode finds all fields.
Stimulus flag_changed(const Stimulus& right, unsigned tagged_flag) {
  return right.with<Ddp, "tagged">(tagged_flag, tagged_flag != 0 ? "with the tagged flag" : "without the tagged flag");
}
void a_send_with_the_flag(IwarpBench& bench) {
  wrong_model(bench, [](const Connected& qp) { return flag_changed(some_send(qp), 1); });
}
void a_read_request_with_the_flag(IwarpBench& bench) {
  wrong_model(bench, [](const Connected& qp) { return flag_changed(some_read(qp), 1); });
}
void a_write_without_the_flag(IwarpBench& bench) {
  wrong_model(bench, [](const Connected& qp) { return flag_changed(some_write(qp), 0); });
}
void an_untagged_write(IwarpBench& bench) {
  wrong_model(bench, [](const Connected& qp) {
    static_cast<void>(qp);
    return untagged(RdmapOperation::rdma_write, 0, 1, 0, pattern_bytes(16));
  });
}
void an_untagged_read_response(IwarpBench& bench) {
  wrong_model(bench, [](const Connected& qp) {
    static_cast<void>(qp);
    return untagged(RdmapOperation::read_response, 0, 1, 0, pattern_bytes(16));
  });
}
void a_tagged_terminate(IwarpBench& bench) {
  wrong_model(bench, [](const Connected& qp) {
    return tagged(RdmapOperation::terminate, qp.stag(), qp.to(), std::string("\x12\x01\x00\x00", 4));
  });
}

// 5.3: a zero-length Send consumes a receive and is delivered.
void a_send_of_nothing(IwarpBench& bench, const Stimulus& empty) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> empty >> send(2, pattern_bytes(16));
  const peer::Completion first = qp.completes(0);
  bench.require(first.byte_len == 0, "0 bytes", fmt::format("{} bytes", first.byte_len));
  qp.completes(1);
  qp.received(0, untouched());
  qp.received(1, pattern_bytes(16));
}
void a_plain_send_of_nothing(IwarpBench& bench) { a_send_of_nothing(bench, send(1, "")); }
void a_solicited_send_of_nothing(IwarpBench& bench) { a_send_of_nothing(bench, send_solicited(1, "")); }
void the_device_sends_nothing(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp.device_sends(0, 0);
  qp << a_send(1).carrying("");
  qp.completes(0);
  qp.device_sends(1, 8);
  qp << a_send(2);
}

}  // namespace

std::span<const Case> all() {
  constexpr Role requester = Role::requester;
  static constexpr Case cases[] = {
      {.rule = "rdmap.sender.send.format", .variant = "Send", .role = requester, .run = format_of_a_plain_send},
      {.rule = "rdmap.sender.send.format",
       .variant = "Send with Invalidate",
       .role = requester,
       .run = format_of_a_send_with_invalidate},
      {.rule = "rdmap.sender.send.format",
       .variant = "Send with Solicited Event",
       .role = requester,
       .run = format_of_a_solicited_send},
      {.rule = "rdmap.sender.send.format",
       .variant = "Send with Solicited Event and Invalidate",
       .role = requester,
       .run = format_of_a_solicited_send_with_invalidate},
      {.rule = "rdmap.endpoint.write.format", .variant = "sent", .role = requester, .run = format_of_a_write},
      {.rule = "rdmap.endpoint.write.format", .variant = "received", .run = writes_are_not_delivered},
      {.rule = "rdmap.requester.read-request.format", .role = requester, .run = format_of_a_read_request},
      {.rule = "rdmap.responder.read-response.format", .variant = "8 bytes", .run = format_of_a_short_response},
      {.rule = "rdmap.responder.read-response.format", .variant = "1001 bytes", .run = format_of_an_odd_response},
      {.rule = "rdmap.responder.read-response.format", .variant = "several segments", .run = format_of_a_long_response},
      {.rule = "rdmap.sender.terminate.format", .variant = "of DDP", .run = format_of_a_terminate_of_ddp},
      {.rule = "rdmap.sender.terminate.format", .variant = "of RDMAP", .run = format_of_a_terminate_of_rdmap},
      {.rule = "rdmap.sender.terminate.format",
       .variant = "of an RDMA Read Request",
       .run = format_of_a_terminate_of_a_read},
      {.rule = "rdmap.sender.version.one", .run = version_of_what_is_sent},
      {.rule = "rdmap.receiver.reserved.ignored", .variant = "reserved bits", .run = reserved_bits},
      {.rule = "rdmap.receiver.reserved.ignored", .variant = "Invalidate STag", .run = an_invalidate_stag_that_is_none},
      {.rule = "rdmap.receiver.version.invalid", .variant = "0", .run = version_0_of_a_send},
      {.rule = "rdmap.receiver.version.invalid", .variant = "2", .run = version_2_of_a_send},
      {.rule = "rdmap.receiver.version.invalid", .variant = "3", .run = version_3_of_a_send},
      {.rule = "rdmap.receiver.version.invalid", .variant = "RDMA Write", .run = version_2_of_a_write},
      {.rule = "rdmap.receiver.version.invalid", .variant = "RDMA Read Request", .run = version_2_of_a_read_request},
      {.rule = "rdmap.receiver.opcode.unexpected", .variant = "12", .run = opcode_12},
      {.rule = "rdmap.receiver.opcode.unexpected", .variant = "13", .run = opcode_13},
      {.rule = "rdmap.receiver.opcode.unexpected", .variant = "14", .run = opcode_14},
      {.rule = "rdmap.receiver.opcode.unexpected", .variant = "15", .run = opcode_15},
      {.rule = "rdmap.receiver.opcode.unexpected", .variant = "15, tagged", .run = opcode_15_tagged},
      {.rule = "rdmap.receiver.opcode.wrong-model", .variant = "tagged Send", .run = a_tagged_send},
      {.rule = "rdmap.receiver.opcode.wrong-model",
       .variant = "tagged RDMA Read Request",
       .run = a_tagged_read_request},
      {.rule = "rdmap.receiver.opcode.wrong-model", .variant = "untagged RDMA Write", .run = an_untagged_write},
      {.rule = "rdmap.receiver.opcode.wrong-model",
       .variant = "untagged RDMA Read Response",
       .run = an_untagged_read_response},
      {.rule = "rdmap.receiver.opcode.wrong-model", .variant = "Send, flag set", .run = a_send_with_the_flag},
      {.rule = "rdmap.receiver.opcode.wrong-model",
       .variant = "RDMA Read Request, flag set",
       .run = a_read_request_with_the_flag},
      {.rule = "rdmap.receiver.opcode.wrong-model",
       .variant = "RDMA Write, flag cleared",
       .run = a_write_without_the_flag},
      {.rule = "rdmap.receiver.opcode.wrong-model", .variant = "tagged Terminate", .run = a_tagged_terminate},
      {.rule = "rdmap.receiver.send.zero-length", .variant = "Send", .run = a_plain_send_of_nothing},
      {.rule = "rdmap.receiver.send.zero-length",
       .variant = "Send with Solicited Event",
       .run = a_solicited_send_of_nothing},
      {.rule = "rdmap.receiver.send.zero-length",
       .variant = "sent",
       .role = requester,
       .run = the_device_sends_nothing},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::rdmap_operations_cases
