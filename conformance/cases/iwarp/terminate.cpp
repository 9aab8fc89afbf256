/// The Terminate message: RFC 5040, 4.8 (format), 5.4 (handling), 6.2.1 and 7.1 (close of the stream).
/// Codes of RFC 5040, figure 9, RFC 5041, 7.2, RFC 5044, 8.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::terminate_cases {
namespace {

constexpr std::size_t ddp_tagged_bytes = 14, ddp_untagged_bytes = 18, read_request_bytes = 28;

/// Returns the bytes after the four control bytes.
std::string quoted(const Seen& terminate) {
  // The length field of MPA, the DDP header, the control bytes.
  constexpr std::size_t begin = 2 + ddp_untagged_bytes + 4;
  const std::size_t end = 2 + terminate.ulpdu_bytes();
  if (terminate.bytes.size() < end || end < begin) return {};
  return {terminate.bytes.begin() + begin, terminate.bytes.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// Returns the first bytes of the DDP segment of a sent FPDU.
std::string segment_of(const ByteVector& fpdu, std::size_t bytes_of_it) {
  return {fpdu.begin() + 2, fpdu.begin() + 2 + static_cast<std::ptrdiff_t>(bytes_of_it)};
}

std::string hex(const std::string& text) {
  std::string digits;
  for (const char one : text) digits += fmt::format("{:02x}", static_cast<std::uint8_t>(one));
  return digits;
}

/// Sends an invalid segment and returns the resulting Terminate and the FPDU.
struct Drawn {
  ByteVector said;
  Seen terminate;
};
Drawn draws(Connected& qp, const Stimulus& wrong, const Expectation& expected) {
  Drawn drawn;
  drawn.said = qp.fpdu(wrong);
  qp.say(drawn.said, wrong.text());
  drawn.terminate = qp.wait(expected);
  return drawn;
}

Expectation with_headers(const Expectation& terminate, bool d, bool r) {
  return terminate.where(fmt::format("with D {} and R {}", d ? 1 : 0, r ? 1 : 0), [d, r](const Seen& seen) {
    return seen.get<Terminate, "ddp_header_included">() == static_cast<std::uint64_t>(d) &&
           seen.get<Terminate, "rdma_header_included">() == static_cast<std::uint64_t>(r);
  });
}

/// Checks D and R, and that the bytes after the control bytes match them.
void quotes(Connected& qp, IwarpBench& bench, const Stimulus& wrong, const Expectation& terminate, bool d, bool r,
            std::size_t header) {
  const Drawn drawn = draws(qp, wrong, with_headers(terminate, d, r));
  const std::size_t length = d ? 2 + header : 0, whole = length + (r ? read_request_bytes : 0);
  bench.require(quoted(drawn.terminate).size() >= whole, fmt::format("{} bytes of quoted headers", whole),
                fmt::format("{} bytes", quoted(drawn.terminate).size()));
}

// ---- TRM-001: byte 0 is layer and type, byte 1 the code, byte 2 starts with M, D and R. The rest is 0

void bits_are(IwarpBench& bench, const Stimulus& wrong, std::uint8_t layer_and_type, std::uint8_t code, Connected& qp) {
  qp >> wrong;
  const auto seen = qp.next();
  const std::string expected =
      fmt::format("a Terminate that starts with {:02x} {:02x}, followed only by M, D and R", layer_and_type, code);
  bench.require(seen && seen->is(RdmapOperation::terminate), expected, seen ? seen->text() : "nothing");
  const std::uint8_t* control = seen->bytes.data() + 2 + ddp_untagged_bytes;
  const bool right = seen->ulpdu_bytes() >= ddp_untagged_bytes + 4 && control[0] == layer_and_type &&
                     control[1] == code && (control[2] & 0x1f) == 0 && control[3] == 0;
  bench.require(right, expected, seen->text());
}
void bits_of_an_untagged_error(IwarpBench& bench) {
  bits_are(bench, send(5), 0x12, 0x03, bench.connect({.receives = 1}));
}
void bits_of_a_tagged_error(IwarpBench& bench) {
  Connected& qp = bench.connect();
  bits_are(bench, write(qp.stag(), qp.to(qp.options.region_bytes), pattern_bytes(8)), 0x11, 0x01, qp);
}
void bits_of_an_error_of_rdmap(IwarpBench& bench) {
  bits_are(bench, send(1).with<Rdmap, "rv">(2, "with RV 2"), 0x02, 0x05, bench.connect({.receives = 1}));
}
void bits_of_an_error_of_mpa(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.opens();
  const Stimulus bad = send(1).damaged([](ByteVector& fpdu) { fpdu.back() ^= 1; }, "with a bad CRC");
  bits_are(bench, bad, 0x20, 0x02, qp);
}

// ---- TRM-002: layer, type and code are defined

void defined_triples(IwarpBench& bench) {
  constexpr std::array<std::array<std::uint8_t, 3>, 6> allowed{
      {{1, 1, 0x00}, {1, 1, 0x01}, {1, 2, 0x01}, {1, 2, 0x03}, {0, 2, 0x05}, {0, 2, 0x06}}};
  const auto is_one = [&](const Seen& seen) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const auto& row) {
      return seen.get<Terminate, "layer">() == row[0] && seen.get<Terminate, "etype">() == row[1] &&
             seen.get<Terminate, "error_code">() == row[2];
    });
  };
  const auto provoke = [&](const std::function<Stimulus(const Connected&)>& wrong) {
    Connected& qp = bench.connect({.receives = 1});
    qp >> wrong(qp);
    qp << any_terminate().where("with a defined layer, type and code for this error", is_one);
  };
  provoke([](const Connected& qp) { return write(qp.stag() ^ 0x40000, qp.to(), pattern_bytes(8)); });
  provoke([](const Connected& qp) { return write(qp.stag(), qp.to() - 1, pattern_bytes(8)); });
  provoke([](const Connected&) { return send(1).with<DdpUntagged, "qn">(9, "on QN 9"); });
  provoke([](const Connected&) { return send(9); });
  provoke([](const Connected&) { return send(1).with<Rdmap, "rv">(3, "with RV 3"); });
  provoke([](const Connected&) { return send(1).with<Rdmap, "opcode">(13, "with opcode 13"); });
}

// ---- TRM-003, TRM-005: with D, the segment's length and its DDP header, bit by bit

void quotes_its_segment(IwarpBench& bench, Connected& qp, const Stimulus& wrong, const Expectation& terminate,
                        std::size_t header, bool bit_by_bit) {
  const Drawn drawn = draws(qp, wrong, terminate.where("with D and M", [](const Seen& seen) {
    return seen.get<Terminate, "ddp_header_included">() == 1U && seen.get<Terminate, "segment_length_valid">() == 1U;
  }));
  const std::string all = quoted(drawn.terminate);
  bench.require(all.size() >= 2 + header, fmt::format("a length and {} bytes of DDP header", header),
                fmt::format("{} bytes", all.size()));
  const auto announced = static_cast<std::uint32_t>(load_be<2>(reinterpret_cast<const std::uint8_t*>(all.data())));
  const auto length = static_cast<std::uint32_t>(load_be<2>(drawn.said.data()));
  if (!bit_by_bit)
    return bench.require(announced == length, fmt::format("DDP Segment Length {}", length),
                         fmt::format("{}", announced));
  const std::string right = segment_of(drawn.said, header);
  bench.require(all.substr(2, header) == right, "the DDP header " + hex(right), hex(all.substr(2, header)));
}
void quotes_an_untagged_segment(IwarpBench& bench, bool bit_by_bit) {
  Connected& qp = bench.connect({.receives = 1});
  quotes_its_segment(bench, qp, send(4, pattern_bytes(24)), a_terminate(1, 2, 0x03), ddp_untagged_bytes, bit_by_bit);
}
void quotes_a_tagged_segment(IwarpBench& bench, bool bit_by_bit) {
  Connected& qp = bench.connect();
  quotes_its_segment(bench, qp, write(qp.stag(), qp.to(qp.options.region_bytes) - 4, pattern_bytes(24)),
                     a_terminate(1, 1, 0x01), ddp_tagged_bytes, bit_by_bit);
}
void length_of_an_untagged_segment(IwarpBench& bench) { quotes_an_untagged_segment(bench, false); }
void length_of_a_tagged_segment(IwarpBench& bench) { quotes_a_tagged_segment(bench, false); }
void header_of_an_untagged_segment(IwarpBench& bench) { quotes_an_untagged_segment(bench, true); }
void header_of_a_tagged_segment(IwarpBench& bench) { quotes_a_tagged_segment(bench, true); }
// A request whose MSN differs from its size.
void header_of_a_read_request(IwarpBench& bench) {
  Connected& qp = bench.connect();
  const Stimulus wrong = read_request(1, {.size = 48, .source_stag = qp.stag() ^ 0x40000, .source_to = qp.to()});
  quotes_its_segment(bench, qp, wrong, a_terminate(0, 1, 0x00), ddp_untagged_bytes, true);
}

// ---- TRM-004: with R, the Read Request header, only for a protection error of a Read Request

Stimulus read_of_no_stag(const Connected& qp) {
  return read_request(1, {.size = 16, .source_stag = qp.stag() ^ 0x40000, .source_to = qp.to()});
}

void quotes_the_read_request(IwarpBench& bench) {
  Connected& qp = bench.connect();
  const Drawn drawn = draws(qp, read_of_no_stag(qp), with_headers(a_terminate(0, 1, 0x00), true, true));
  const std::string all = quoted(drawn.terminate), right = segment_of(drawn.said, 18 + 28).substr(18);
  constexpr std::size_t at = 2 + ddp_untagged_bytes;
  bench.require(all.size() >= at + read_request_bytes && all.substr(at, read_request_bytes) == right,
                "the Read Request Header " + hex(right), all.size() > at ? hex(all.substr(at)) : "none");
}

// ---- TRM-006: a partially answered Read Request

void quotes_what_is_left_of_a_read(IwarpBench& bench) {
  constexpr std::uint32_t size = 4U << 20;
  constexpr std::uint64_t sink = 0x1000;
  Connected& qp = bench.connect({.region_bytes = size});
  const std::uint64_t source = qp.to();
  qp >> read_request(1, {.size = size, .source_stag = qp.stag(), .source_to = source, .sink_to = sink});
  std::uint64_t answered = qp.wait(a_read_response(0x5157, sink)).payload().size();
  // The source region is deregistered during the response.
  bench.take(qp.region.release(), "the device's application deregisters the memory region");
  for (;;) {
    auto seen = qp.next();
    if (!seen) bench.deviate(Verdict::fail, "Terminate, layer 0, type 1, code 0x00", "nothing");
    if (seen->is(RdmapOperation::read_response)) {
      answered += seen->payload().size();
      if (answered == size)
        end_case(Verdict::inconclusive, "the response was complete before the region was deregistered");
      continue;
    }
    if (seen->kind == Seen::Kind::torn) continue;
    if (const auto right = seen->with_bits_in_order(); right && seen->get<Terminate, "layer">() != 0U) seen = right;
    bench.require(a_terminate(0, 1, 0x00).judge(*seen) == Match::yes, "Terminate, layer 0, type 1, code 0x00",
                  seen->text());
    const std::string all = quoted(*seen);
    constexpr std::size_t at = 2 + ddp_untagged_bytes;
    bench.require(all.size() >= at + read_request_bytes, "the Read Request Header", hex(all));
    const View<RdmapReadRequest> read(reinterpret_cast<const std::uint8_t*>(all.data() + at));
    bench.require(read.get<"sink_to">() == sink + answered && read.get<"src_to">() == source + answered &&
                      read.get<"size">() == size - answered,
                  fmt::format("both TOs advanced by {}, and the size {}", answered, size - answered),
                  hex(all.substr(at)));
    return;
  }
}

// ---- TRM-007 to TRM-011: quoted headers

void local_catastrophe_quotes_nothing(IwarpBench& bench) {
  // A local catastrophic error: the device's completion queue overflows.
  Connected& qp = bench.connect({.receives = 8, .receive_bytes = 64, .completions = 1});
  const std::uint32_t holds = qp.cq.entries();
  if (holds > 6) end_case(Verdict::inconclusive, fmt::format("the completion queue holds at least {} entries", holds));
  for (std::uint32_t msn = 1; msn <= holds + 2; ++msn) qp >> send(msn, pattern_bytes(4));
  for (;;) {
    const auto seen = qp.next();
    bench.require(seen.has_value(), "an end of the stream", "nothing");
    if (seen->kind == Seen::Kind::fin || seen->kind == Seen::Kind::reset)
      end_case(Verdict::may, "the stream ended without a Terminate when its completion queue overflowed");
    bench.require(with_headers(a_terminate(0, 0, 0x00), false, false).judge(*seen) == Match::yes,
                  "Terminate, layer 0, type 0, with no header", seen->text());
    return;
  }
}

void read_of_an_unknown_stag(IwarpBench& bench) {
  Connected& qp = bench.connect();
  quotes(qp, bench, read_of_no_stag(qp), a_terminate(0, 1, 0x00), true, true, ddp_untagged_bytes);
}
void invalidation_of_an_unknown_stag(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  // Figure 9 lists the code for both types.
  const Expectation refused{"Terminate, layer 0, type 1 or 2, code 0x09", [](const Seen& seen) {
                              const bool one = a_terminate(0, 1, 0x09).judge(seen) == Match::yes;
                              return one || a_terminate(0, 2, 0x09).judge(seen) == Match::yes ? Match::yes
                                     : seen.is(RdmapOperation::terminate)                     ? Match::wrong_code
                                                                                              : Match::no;
                            }};
  quotes(qp, bench, send_invalidate(1, qp.stag() ^ 0x40000), refused, true, false, ddp_untagged_bytes);
}
void unexpected_opcode(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  quotes(qp, bench, send(1).with<Rdmap, "opcode">(13, "with opcode 13"), a_terminate(0, 2, 0x06), true, false,
         ddp_untagged_bytes);
}
void version_of_a_read_request(IwarpBench& bench) {
  Connected& qp = bench.connect();
  const Stimulus wrong =
      read_request(1, {.source_stag = qp.stag(), .source_to = qp.to()}).with<Rdmap, "rv">(2, "with RV 2");
  quotes(qp, bench, wrong, a_terminate(0, 2, 0x05), true, false, ddp_untagged_bytes);
}
void tagged_error(IwarpBench& bench) {
  Connected& qp = bench.connect();
  quotes(qp, bench, write(qp.stag() ^ 0x40000, qp.to(), pattern_bytes(8)), a_terminate(1, 1, 0x00), true, false,
         ddp_tagged_bytes);
}
void untagged_error(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  quotes(qp, bench, send(3), a_terminate(1, 2, 0x03), true, false, ddp_untagged_bytes);
}
void error_of_a_read_requests_queue(IwarpBench& bench) {
  Connected& qp = bench.connect();
  const Stimulus wrong = read_request(4, {.source_stag = qp.stag(), .source_to = qp.to()});
  quotes(qp, bench, wrong, a_terminate(1, 2, 0x03), true, false, ddp_untagged_bytes);
}
void bad_crc(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.opens();
  const Stimulus bad = send(1).damaged([](ByteVector& fpdu) { fpdu.back() ^= 1; }, "with a bad CRC");
  const Drawn drawn = draws(qp, bad, with_headers(a_terminate(2, 0, 0x02), false, false));
  bench.require(quoted(drawn.terminate).empty(), "no bytes after the control bytes", hex(quoted(drawn.terminate)));
}

// ---- TRM-012: a Write without write access

void write_without_the_right(IwarpBench& bench) {
  Connected& qp = bench.connect({.region_access = {"local_write", "remote_read"}});
  qp.fill(0, pattern_bytes(32, 0x30));
  qp >> write(qp.stag(), qp.to(), pattern_bytes(8, 0x77));
  const Seen seen = qp.wait(
      {"Terminate, an access rights violation of RDMAP or an error of DDP's tagged buffers", [](const Seen& one) {
         const bool rdmap = a_terminate(0, 1, 0x02).judge(one) == Match::yes;
         const bool ddp = one.is(RdmapOperation::terminate) && one.get<Terminate, "layer">() == 1U &&
                          one.get<Terminate, "etype">() == 1U;
         return rdmap || ddp ? Match::yes : Match::no;
       }});
  qp.holds(0, pattern_bytes(32, 0x30));
  bench.note("reported as " + seen.text());
}

// ---- TRM-013: a malformed Terminate

void expect_end_of_stream(Connected& qp) {
  // The stream must end. A Terminate in response is optional.
  for (;;) {
    const auto seen = qp.next();
    if (!seen) {
      qp << stream_closed();
      return;
    }
    if (seen->kind == Seen::Kind::fin || seen->kind == Seen::Kind::reset) return;
  }
}
void malformed(IwarpBench& bench, const Stimulus& wrong) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> wrong;
  expect_end_of_stream(qp);
  qp.completes(0, "wr_flush_err");
}
void terminate_on_queue_0(IwarpBench& bench) {
  malformed(bench, terminate(1, 2, 0x03).with<DdpUntagged, "qn">(0, "on QN 0"));
}
void terminate_of_msn_2(IwarpBench& bench) {
  malformed(bench, terminate(1, 2, 0x03).with<DdpUntagged, "msn">(2, "with MSN 2"));
}
void terminate_from_an_offset(IwarpBench& bench) {
  malformed(bench, terminate(1, 2, 0x03).with<DdpUntagged, "mo">(4, "with MO 4"));
}
void terminate_truncated(IwarpBench& bench) {
  malformed(bench, untagged(RdmapOperation::terminate, 2, 1, 0, std::string("\x12\x03", 2)));
}

// ---- TRM-014: after the message in progress

void at_a_boundary(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1, .region_bytes = 1U << 20});
  qp >> read_request(1, {.size = 1U << 20, .source_stag = qp.stag(), .source_to = qp.to()});
  // The response has started. An earlier error may be reported before it.
  const Seen first = qp.wait(an(RdmapOperation::read_response));
  std::uint64_t bytes_answered = first.payload().size();
  bool inside = first.get<Ddp, "last">() == 0;
  qp >> send(7);
  for (;;) {
    auto seen = qp.next();
    if (!seen) bench.deviate(Verdict::fail, "a Terminate", "nothing");
    if (seen->is(RdmapOperation::read_response)) {
      bytes_answered += seen->payload().size();
      inside = seen->get<Ddp, "last">() == 0;
      continue;
    }
    bench.require(seen->is(RdmapOperation::terminate), "a Terminate after the message in progress", seen->text());
    bench.require(!inside, "a Terminate at the end of a message",
                  fmt::format("it arrives after {} bytes of an RDMA Read Response", bytes_answered));
    return;
  }
}

// ---- TRM-015, TRM-017: a Terminate from the peer

void terminate_without_a_receive(IwarpBench& bench) {
  Connected& qp = bench.connect();
  qp.opens();
  qp >> terminate(0, 2, 0x07);
  expect_end_of_stream(qp);
  bench.expect_event(qp, "disconnected");
}
void outstanding_work_fails(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 2});
  qp >> terminate(0, 2, 0x07);
  expect_end_of_stream(qp);
  qp.flushes(0, 1);
}
void application_is_notified(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp.opens();
  qp >> terminate(0, 2, 0x05);
  const peer::CmEvent event = bench.expect_event(qp, "disconnected");
  const auto stream_error = event.body.find("stream_error");
  if (stream_error == event.body.end())
    end_case(Verdict::unsupported, "the device's verbs cannot report layer, type and code");
  const nlohmann::json right = {{"layer", 0}, {"type", 2}, {"code", 5}, {"by", "peer"}};
  bench.require(*stream_error == right, "application notified: " + right.dump(), stream_error->dump());
}

// ---- TRM-016, TRM-018: closed gracefully, and only once

void closes_gracefully(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  qp >> send(6);
  qp << a_terminate(1, 2, 0x03) << a_fin();
}
void terminates_once(IwarpBench& bench) {
  Connected& qp = bench.connect({.receives = 1});
  ByteVector both = qp.fpdu(send(6));
  for (const Stimulus& next : {send(9), send(1).with<DdpUntagged, "qn">(8, "on QN 8")}) {
    const ByteVector more = qp.fpdu(next);
    both.insert(both.end(), more.begin(), more.end());
  }
  qp.say(both, "three Sends, each wrong, at once");
  qp << a_terminate(1, 2, 0x03) << stream_closed();
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "terminate.sender.control.bits", .variant = "untagged buffer", .run = bits_of_an_untagged_error},
      {.rule = "terminate.sender.control.bits", .variant = "tagged buffer", .run = bits_of_a_tagged_error},
      {.rule = "terminate.sender.control.bits", .variant = "RDMAP", .run = bits_of_an_error_of_rdmap},
      {.rule = "terminate.sender.control.bits", .variant = "MPA", .run = bits_of_an_error_of_mpa},
      {.rule = "terminate.sender.control.defined-code", .run = defined_triples},
      {.rule = "terminate.sender.ddp-header.present", .variant = "untagged", .run = length_of_an_untagged_segment},
      {.rule = "terminate.sender.ddp-header.present", .variant = "tagged", .run = length_of_a_tagged_segment},
      {.rule = "terminate.sender.read-request.present", .run = quotes_the_read_request},
      {.rule = "terminate.sender.ddp-header.copied", .variant = "untagged", .run = header_of_an_untagged_segment},
      {.rule = "terminate.sender.ddp-header.copied", .variant = "tagged", .run = header_of_a_tagged_segment},
      {.rule = "terminate.sender.ddp-header.copied", .variant = "RDMA Read Request", .run = header_of_a_read_request},
      {.rule = "terminate.sender.read-request.progress", .run = quotes_what_is_left_of_a_read},
      {.rule = "terminate.sender.local-catastrophic.no-header", .run = local_catastrophe_quotes_nothing},
      {.rule = "terminate.sender.protection.headers", .variant = "Read Request", .run = read_of_an_unknown_stag},
      {.rule = "terminate.sender.protection.headers",
       .variant = "Send with Invalidate",
       .run = invalidation_of_an_unknown_stag},
      {.rule = "terminate.sender.operation.headers", .variant = "opcode", .run = unexpected_opcode},
      {.rule = "terminate.sender.operation.headers",
       .variant = "version of a Read Request",
       .run = version_of_a_read_request},
      {.rule = "terminate.sender.ddp-error.headers", .variant = "tagged", .run = tagged_error},
      {.rule = "terminate.sender.ddp-error.headers", .variant = "untagged", .run = untagged_error},
      {.rule = "terminate.sender.ddp-error.headers",
       .variant = "queue of Read Requests",
       .run = error_of_a_read_requests_queue},
      {.rule = "terminate.sender.llp-error.no-header", .run = bad_crc},
      {.rule = "terminate.sender.write-rights.refused", .run = write_without_the_right},
      {.rule = "terminate.receiver.message.malformed", .variant = "QN 0", .run = terminate_on_queue_0},
      {.rule = "terminate.receiver.message.malformed", .variant = "MSN 2", .run = terminate_of_msn_2},
      {.rule = "terminate.receiver.message.malformed", .variant = "MO 4", .run = terminate_from_an_offset},
      {.rule = "terminate.receiver.message.malformed", .variant = "two bytes", .run = terminate_truncated},
      {.rule = "terminate.sender.message.at-boundary", .run = at_a_boundary},
      {.rule = "terminate.receiver.message.buffer-guaranteed",
       .variant = "none posted",
       .run = terminate_without_a_receive},
      {.rule = "terminate.receiver.message.buffer-guaranteed", .variant = "two posted", .run = outstanding_work_fails},
      {.rule = "terminate.sender.close.graceful", .run = closes_gracefully},
      {.rule = "terminate.receiver.message.told", .run = application_is_notified},
      {.rule = "terminate.sender.message.once", .run = terminates_once},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::terminate_cases
