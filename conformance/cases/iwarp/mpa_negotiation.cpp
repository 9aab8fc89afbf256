/// Parameters that both negotiation frames determine: CRCs and markers (RFC 5044, 7.1.1, 4.3, 4.4) and the revision
/// (RFC 5044, 7.1.1 and appendix C, RFC 6581, 6 and 10).

#include <fmt/format.h>

#include <algorithm>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/setup.hpp"

namespace rdmawire::conformance::iwarp::mpa_negotiation_cases {
namespace {

Stimulus with_another_crc(const Stimulus& of) {
  return of.damaged([](ByteVector& bytes) { bytes.back() ^= 0x01; }, "with another CRC");
}
Stimulus with_crc(const Stimulus& of, std::uint32_t value) {
  return of.changed([value](Frame& frame) { frame.mpa_crc = value; }, fmt::format("with {:#x} as CRC", value));
}

// 4.1: if neither side requested CRCs, the field "MUST NOT be checked".
void takes_any_crc(IwarpBench& bench, bool device_initiates) {
  wish_if_possible(bench, {.crc = false});
  Connected& qp = bench.connect({.device_initiates = device_initiates, .crc = false, .receives = 3});
  without_crc(*qp.setup);
  qp >> with_crc(send(1), 0) >> with_crc(send(2), 0xffffffff) >> with_crc(send(3), 0x12345678);
  for (const std::uint64_t receive : {0, 1, 2}) qp.completes(receive);
}
void any_crc_to_a_responder(IwarpBench& bench) { takes_any_crc(bench, false); }
void any_crc_to_an_initiator(IwarpBench& bench) { takes_any_crc(bench, true); }

// 4.4: one request for CRCs is sufficient.
Connected& with_one_request(IwarpBench& bench, bool device_initiates, bool tester_requests) {
  if (tester_requests) wish_if_possible(bench, {.crc = false});
  Connected& qp = bench.connect({.device_initiates = device_initiates, .crc = tester_requests, .receives = 1});
  if (!tester_requests && frame_in(*qp.setup).get<"crc">() == 0)
    end_case(Verdict::unsupported, "the device requests no CRCs, and the tester does not either");
  return qp;
}
template <bool device_initiates, bool tester_requests>
void crcs_are_generated(IwarpBench& bench) {
  Connected& qp = with_one_request(bench, device_initiates, tester_requests);
  qp.opens();
  qp.device_sends(1, 100);
  qp << a_send(1);
}
template <bool device_initiates, bool tester_requests>
void crcs_are_checked(IwarpBench& bench) {
  Connected& qp = with_one_request(bench, device_initiates, tester_requests);
  qp >> with_another_crc(send(1));
  ends_with_an_error(qp);
  delivers_nothing(bench, qp);
}

// 4.4 (2a): the default configuration, without an administrator's setting.
void a_request_has_c_set(IwarpBench& bench) {
  Connected& qp = asking(bench);
  qp << a_request().where("C 1", [](const Seen& seen) { return frame_in(seen).get<"crc">() == 1; });
}
void a_reply_has_c_set(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = dialled(bench, options);
  qp.say(IwarpBench::frame_of(options), "MPA Request Frame");
  bench.accepts(qp);
  qp << a_reply().where("C 1", [](const Seen& seen) { return frame_in(seen).get<"crc">() == 1; });
}
void a_reply_to_a_request_for_crcs(IwarpBench& bench) { a_reply_has_c_set(bench, {}); }
void a_reply_to_one_that_does_not(IwarpBench& bench) { a_reply_has_c_set(bench, {.crc = false}); }

// 7.1.1, M. The message has 1200 bytes: regardless of its FPDUs, markers are due at 0, 512 and 1024.
std::string sent_by_the_device(IwarpBench& bench, Connected& qp, std::vector<std::uint64_t>& markers) {
  constexpr std::uint32_t length = 1200;
  qp.fill(0, pattern_bytes(length));
  qp.opens();
  qp.device_sends(1, length);
  std::string payload;
  for (const Seen& seen : qp.message(RdmapOperation::send)) {
    payload += seen.payload();
    for (const auto& marker : seen.markers) markers.push_back(marker.position);
  }
  bench.require(payload == pattern_bytes(length), "the message as it was posted", "other bytes");
  return payload;
}
Connected& connect_for_markers(IwarpBench& bench, const ConnectOptions& options) {
  if (options.device_initiates) return bench.connect(options);
  Connected& qp = dialled(bench, options);
  if (const auto reply = markers_refused(bench, qp)) bench.require(false, "a reply that accepts", reply->text());
  bench.operates(qp);
  bench.expect_event(qp, "established");
  return qp;
}
void markers_are_inserted(IwarpBench& bench, bool device_initiates) {
  Connected& qp = connect_for_markers(bench, {.device_initiates = device_initiates, .markers = true});
  std::vector<std::uint64_t> markers;
  sent_by_the_device(bench, qp, markers);
  bench.require(markers == std::vector<std::uint64_t>{0, 512, 1024}, "markers at 0, 512 and 1024",
                fmt::format("{} markers", markers.size()));
}
void markers_of_a_responder(IwarpBench& bench) { markers_are_inserted(bench, false); }
void markers_of_an_initiator(IwarpBench& bench) { markers_are_inserted(bench, true); }
void an_enhanced_request_for_markers(IwarpBench& bench) {
  Connected& qp = connect_for_markers(bench, {.markers = true, .enhanced = Enhanced{}});
  std::vector<std::uint64_t> markers;
  sent_by_the_device(bench, qp, markers);
  bench.require(markers.size() == 3, "markers at 0, 512 and 1024", fmt::format("{} markers", markers.size()));
}
// The stream is parsed as contiguous FPDUs: a marker would be a length of 0.
void no_markers_are_inserted(IwarpBench& bench, bool device_initiates, bool crc) {
  if (!crc) wish_if_possible(bench, {.crc = false});
  Connected& qp = bench.connect({.device_initiates = device_initiates, .crc = crc});
  std::vector<std::uint64_t> markers;
  sent_by_the_device(bench, qp, markers);
}
template <bool device_initiates, bool crc>
void no_markers_are_inserted(IwarpBench& bench) {
  no_markers_are_inserted(bench, device_initiates, crc);
}

// RFC 6581, 6: a device of revision 2 accepts requests of revision 1.
void revision_1_is_answered(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = dialled(bench, options);
  qp.say(IwarpBench::frame_of(options), "MPA Request Frame of revision 1");
  bench.accepts(qp);
  qp.setup = qp.wait(a_reply().where("revision 1, S 0 and the application's private data", [&](const Seen& seen) {
    return frame_in(seen).get<"revision">() == 1 && frame_in(seen).get<"enhanced">() == 0 &&
           private_data_in(seen) == options.device_private_data;
  }));
  bench.operates(qp);
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
void revision_1(IwarpBench& bench) { revision_1_is_answered(bench, {.receives = 1}); }
void revision_1_with_private_data(IwarpBench& bench) {
  revision_1_is_answered(bench, {.private_data = "hello", .device_private_data = "welcome", .receives = 1});
}

// Appendix C: revision 0 of the RDMA Consortium, with M = 1, C = 1 and version 0 of DDP and RDMAP.
Stimulus of_version_0(const Stimulus& segment) {
  return segment.with<Ddp, "dv">(0, "with DV 0").with<Rdmap, "rv">(0, "RV 0");
}
const std::uint8_t rdmac_flags = mpa_flag::markers | mpa_flag::crc;

void exchanges_version_0(Connected& qp) {
  qp.operate({.markers = true}, {.markers = true});
  qp >> of_version_0(send(1, pattern_bytes(600)));
  qp.completes(0);
  qp.received(0, pattern_bytes(600));
  qp.device_sends(1, 600);
  qp << a_send(1).where("DV 0, RV 0",
                        [](const Seen& seen) { return seen.get<Ddp, "dv">() == 0 && seen.get<Rdmap, "rv">() == 0; });
}
// C.2.1 and C.2.3: a non-permissive responder replies with revision 1 and closes gracefully. 7.1.1 requires a close
// without a reply from a responder that does not support the revision.
void a_request_of_revision_0(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.receives = 1});
  qp.say(mpa_request(rdmac_flags, 0), "MPA Request Frame of revision 0");
  const Seen first = qp.wait({"a reply of revision 1, or the end of TCP", [](const Seen& seen) {
                                const bool ends = seen.kind == Seen::Kind::fin || seen.kind == Seen::Kind::reset;
                                return ends || seen.kind == Seen::Kind::setup ? Match::yes : Match::no;
                              }});
  expect_no_connect_request(bench, qp);
  if (first.kind != Seen::Kind::setup) end_case(Verdict::may, "it closes, without a reply");
  bench.require(frame_in(first).get<"revision">() == 1, "a reply of revision 1", first.text());
  qp << a_fin();
}
void a_request_of_revision_0_to_a_permissive_one(IwarpBench& bench) {
  bench.wish({.rdmac = true});
  Connected& qp = dialled(bench, {.receives = 1});
  qp.say(mpa_request(rdmac_flags, 0), "MPA Request Frame of revision 0");
  bench.accepts(qp);
  qp << a_reply().where("revision 0, M 1, C 1, R 0", [](const Seen& seen) {
    const auto frame = frame_in(seen);
    return frame.get<"revision">() == 0 && frame.get<"markers">() == 1 && frame.get<"crc">() == 1 &&
           frame.get<"reject">() == 0;
  });
  bench.expect_event(qp, "established");
  exchanges_version_0(qp);
}
// C.2.2.
void a_reply_of_revision_0(IwarpBench& bench) {
  Connected& qp = asking(bench);
  qp.setup = qp.wait(a_request());
  qp.say(mpa_reply(rdmac_flags, 0), "MPA Reply Frame of revision 0");
  const Seen end = qp.wait(stream_closed());
  attempt_fails(bench, qp);
  if (end.kind == Seen::Kind::reset) end_case(Verdict::may, "it resets TCP, where appendix C has a graceful close");
}
// C.2.5.
void a_reply_of_revision_0_to_a_permissive_one(IwarpBench& bench) {
  bench.wish({.revision = 1, .rdmac = true});
  Connected& qp = asking(bench, {.receives = 1});
  qp.setup = qp.wait(a_request());
  qp.say(mpa_reply(rdmac_flags, 0), "MPA Reply Frame of revision 0");
  bench.expect_event(qp, "established");
  exchanges_version_0(qp);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "mpa.responder.revision.one-accepted", .variant = "without private data", .run = revision_1},
      {.rule = "mpa.responder.revision.one-accepted",
       .variant = "with private data",
       .run = revision_1_with_private_data},
      {.rule = "mpa.receiver.crc.unchecked-if-unwanted", .variant = "responder", .run = any_crc_to_a_responder},
      {.rule = "mpa.receiver.crc.unchecked-if-unwanted",
       .variant = "initiator",
       .role = Role::requester,
       .run = any_crc_to_an_initiator},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "generated, tester's request",
       .run = crcs_are_generated<false, true>},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "checked, tester's request",
       .run = crcs_are_checked<false, true>},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "generated, device's reply",
       .run = crcs_are_generated<false, false>},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "checked, device's reply",
       .run = crcs_are_checked<false, false>},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "generated, tester's reply",
       .role = Role::requester,
       .run = crcs_are_generated<true, true>},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "checked, tester's reply",
       .role = Role::requester,
       .run = crcs_are_checked<true, true>},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "generated, device's request",
       .role = Role::requester,
       .run = crcs_are_generated<true, false>},
      {.rule = "mpa.endpoint.crc.used-if-either-asks",
       .variant = "checked, device's request",
       .role = Role::requester,
       .run = crcs_are_checked<true, false>},
      {.rule = "mpa.endpoint.crc.asked-by-default",
       .variant = "in a request",
       .role = Role::requester,
       .run = a_request_has_c_set},
      {.rule = "mpa.endpoint.crc.asked-by-default",
       .variant = "in a reply to C = 1",
       .run = a_reply_to_a_request_for_crcs},
      {.rule = "mpa.endpoint.crc.asked-by-default",
       .variant = "in a reply to C = 0",
       .run = a_reply_to_one_that_does_not},
      {.rule = "mpa.sender.markers.inserted-if-asked", .variant = "responder", .run = markers_of_a_responder},
      {.rule = "mpa.sender.markers.inserted-if-asked", .variant = "enhanced", .run = an_enhanced_request_for_markers},
      {.rule = "mpa.sender.markers.inserted-if-asked",
       .variant = "initiator",
       .role = Role::requester,
       .run = markers_of_an_initiator},
      {.rule = "mpa.sender.markers.none-if-unasked",
       .variant = "responder",
       .run = no_markers_are_inserted<false, true>},
      {.rule = "mpa.sender.markers.none-if-unasked",
       .variant = "responder, without CRCs",
       .run = no_markers_are_inserted<false, false>},
      {.rule = "mpa.sender.markers.none-if-unasked",
       .variant = "initiator",
       .role = Role::requester,
       .run = no_markers_are_inserted<true, true>},
      {.rule = "mpa.endpoint.revision.zero", .variant = "a request", .run = a_request_of_revision_0},
      {.rule = "mpa.endpoint.revision.zero",
       .variant = "a request to a permissive device",
       .run = a_request_of_revision_0_to_a_permissive_one},
      {.rule = "mpa.endpoint.revision.zero",
       .variant = "a reply",
       .role = Role::requester,
       .run = a_reply_of_revision_0},
      {.rule = "mpa.endpoint.revision.zero",
       .variant = "a reply to a permissive device",
       .role = Role::requester,
       .run = a_reply_of_revision_0_to_a_permissive_one},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::mpa_negotiation_cases
