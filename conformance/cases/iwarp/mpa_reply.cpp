/// MPA Reply Frames: RFC 5044, 7.1.1 (the frame), 7.1.2 (the negotiation rules). The frames of a responder, the
/// reactions of an initiator, and the start of FPDUs.

#include <fmt/format.h>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/setup.hpp"

namespace rdmawire::conformance::iwarp::mpa_reply_cases {
namespace {

constexpr std::int64_t reasonable = 45'000'000'000;  // as for requests

// The device's reply

constexpr std::string_view key_of_a_reply = "\x4d\x50\x41\x20\x49\x44\x20\x52\x65\x70\x20\x46\x72\x61\x6d\x65";

Seen replied(IwarpBench& bench, Connected& qp) {
  auto seen = qp.next();
  bench.require(seen && seen->kind == Seen::Kind::setup, "a reply", seen ? seen->text() : "nothing");
  const std::string key(seen->bytes.begin(), seen->bytes.begin() + 16);
  bench.require(key == key_of_a_reply, "the key \"MPA ID Rep Frame\"", fmt::format("\"{}\"", key));
  return std::move(*seen);
}
void a_reply_has_its_key(IwarpBench& bench) {
  Connected& qp = dialled(bench);
  qp.say(IwarpBench::frame_of(qp.options), "MPA Request Frame");
  bench.accepts(qp);
  static_cast<void>(replied(bench, qp));
}
void an_enhanced_reply_has_its_key(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.enhanced = Enhanced{}});
  qp.say(IwarpBench::frame_of(qp.options), "MPA Request Frame");
  bench.accepts(qp);
  static_cast<void>(replied(bench, qp));
}
void a_reply_that_rejects_has_its_key(IwarpBench& bench) {
  Connected& qp = dialled(bench);
  qp.say(IwarpBench::frame_of(qp.options), "MPA Request Frame");
  bench.take(bench.requested(qp.listener).reject(), "the device's application rejects");
  static_cast<void>(replied(bench, qp));
}

// 7.1.2 rule 2: R and the application's private data, and the end of MPA. The close of TCP is left to the application.
void is_rejected(IwarpBench& bench, const ConnectOptions& options, const std::string& private_data) {
  Connected& qp = dialled(bench, options);
  qp.say(IwarpBench::frame_of(options), "MPA Request Frame");
  const peer::ByteVector data(private_data.begin(), private_data.end());
  bench.take(bench.requested(qp.listener).reject(data), "the device's application rejects");
  const Seen reply =
      qp.wait(a_reply().where("R 1", [](const Seen& seen) { return frame_in(seen).get<"reject">() == 1; }));
  const std::size_t enhanced = frame_in(reply).get<"enhanced">() != 0 ? 4 : 0;
  const std::string found = private_data_in(reply);
  bench.require(found.size() >= enhanced && found.substr(enhanced) == private_data,
                fmt::format("the application's {} bytes of private data", private_data.size()), reply.text());
  qp.operate({.crc = options.crc}, {.crc = options.crc});
  qp >> write(0, 0, {});
  for (const Seen& seen : qp.all_until_silence())
    bench.require(seen.kind == Seen::Kind::fin || seen.kind == Seen::Kind::reset, "no FPDU", seen.text());
}
void a_rejection(IwarpBench& bench) { is_rejected(bench, {}, ""); }
void a_rejection_with_private_data(IwarpBench& bench) { is_rejected(bench, {}, "not today"); }
void an_enhanced_rejection(IwarpBench& bench) { is_rejected(bench, {.enhanced = Enhanced{}}, "not today"); }

// Replies on which an initiator closes the connection

// A reply of the requested kind, with changes.
ByteVector frame_to(const Seen& request, std::string_view key, std::uint8_t flags, int revision,
                    const std::string& private_data, int pd_length = -1) {
  const bool enhanced = frame_in(request).get<"enhanced">() != 0;
  const std::string data = (enhanced ? enhanced_data({}) : "") + private_data;
  const auto kind = static_cast<std::uint8_t>(flags | (enhanced ? mpa_flag::enhanced : 0));
  return mpa_frame(key, kind,
                   static_cast<std::uint8_t>(revision != 0 ? revision
                                             : enhanced    ? 2
                                                           : 1),
                   data, pd_length < 0 ? -1 : pd_length + (enhanced ? 4 : 0));
}
ByteVector reply_to(const Seen& request, std::uint8_t flags, int revision, const std::string& private_data,
                    int pd_length = -1) {
  return frame_to(request, mpa::reply_key, flags, revision, private_data, pd_length);
}

// RFC 5044, 8, code 4: TCP is closed. "Any" error in enhanced negotiation causes a Terminate: RFC 6581, 8.
void is_given_up(Connected& qp) {
  if (frame_in(*qp.setup).get<"enhanced">() == 0) {
    qp << stream_closed();
  } else {
    qp.operate({}, {});
    ends_with_an_error(qp);
  }
}
void a_key_is_closed_on(IwarpBench& bench, std::string_view key, const std::string& text) {
  Connected& qp = asking(bench);
  qp.setup = qp.wait(a_request());
  qp.say(frame_to(*qp.setup, key, mpa_flag::crc, 0, ""), text);
  is_given_up(qp);
  attempt_fails(bench, qp);
}
void another_key(IwarpBench& bench) { a_key_is_closed_on(bench, "HTTP/1.0 200 OK\r", "a frame of another protocol"); }
void a_key_with_another_last_byte(IwarpBench& bench) {
  a_key_is_closed_on(bench, "MPA ID Rep Framf", "a reply with another last letter of the key");
}
// Both are initiators.
void a_request_in_place_of_the_reply(IwarpBench& bench) {
  a_key_is_closed_on(bench, mpa::request_key, "MPA Request Frame");
}
void its_own_request_back(IwarpBench& bench) {
  Connected& qp = asking(bench);
  qp.setup = qp.wait(a_request());
  qp.say(qp.setup->bytes, "its own MPA Request Frame");
  is_given_up(qp);
  attempt_fails(bench, qp);
}
void a_reply_is_closed_on(IwarpBench& bench, int revision, const std::string& private_data, int pd_length, bool fin,
                          const std::string& text) {
  Connected& qp = asking(bench);
  qp.setup = qp.wait(a_request());
  qp.say(reply_to(*qp.setup, mpa_flag::crc, revision, private_data, pd_length), text);
  if (fin) qp.finish();
  is_given_up(qp);
  attempt_fails(bench, qp);
}
void revision_3(IwarpBench& bench) { a_reply_is_closed_on(bench, 3, "", -1, false, "a reply of revision 3"); }
void private_data_of_513_bytes(IwarpBench& bench) {
  a_reply_is_closed_on(bench, 0, pattern_bytes(513), -1, false, "a reply with more than 512 bytes of private data");
}
void less_private_data_than_announced(IwarpBench& bench) {
  a_reply_is_closed_on(bench, 0, pattern_bytes(3), 10, true, "a reply with 7 bytes less than its PD_Length");
}
void a_reply_that_stops(IwarpBench& bench) {
  Connected& qp = asking(bench);
  qp.setup = qp.wait(a_request());
  ByteVector half = reply_to(*qp.setup, mpa_flag::crc, 0, "");
  half.resize(18);
  qp.say(half, "18 bytes of a reply");
  static_cast<void>(qp.wait(stream_closed(), reasonable));
  attempt_fails(bench, qp);
}

// Replies that an initiator accepts

void reserved_bits_of_a_reply(IwarpBench& bench) {
  Connected& qp = asking(bench, {.receives = 1});
  qp.setup = qp.wait(a_request());
  qp.say(reply_to(*qp.setup, mpa_flag::crc | 0x0f, 0, ""), "a reply with every reserved bit");
  bench.operates(qp);
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
void a_reply_with_private_data(IwarpBench& bench, std::size_t count) {
  Connected& qp = asking(bench, {.private_data = pattern_bytes(count), .receives = 1});
  bench.answers(qp);
  bench.operates(qp);
  const peer::CmEvent event = bench.expect_event(qp, "established");
  bench.require(std::string(event.private_data.begin(), event.private_data.end()) == pattern_bytes(count),
                fmt::format("an application notified with {} bytes", count),
                fmt::format("notified with {} bytes", event.private_data.size()));
  arrives(qp, 1, 0);
}
template <std::size_t count>
void a_reply_with_private_data(IwarpBench& bench) {
  a_reply_with_private_data(bench, count);
}

// 7.1.2 rule 3.
void is_notified_of_a_rejection(IwarpBench& bench, const std::string& private_data) {
  Connected& qp = asking(bench, {.receives = 1});
  qp.setup = qp.wait(a_request());
  qp.say(reply_to(*qp.setup, mpa_flag::crc | mpa_flag::reject, 0, private_data), "a reply with R = 1");
  const peer::CmEvent event = bench.expect_event(qp, "rejected");
  const std::string found(event.private_data.begin(), event.private_data.end());
  bench.require(found == private_data, "the private data of the rejection", fmt::format("\"{}\"", found));
  qp.operate({}, {});
  for (const Seen& seen : qp.all_until_silence())
    bench.require(seen.kind == Seen::Kind::fin || seen.kind == Seen::Kind::reset, "no FPDU", seen.text());
}
void is_rejected_with_private_data(IwarpBench& bench) { is_notified_of_a_rejection(bench, "not today"); }
void is_rejected_without_private_data(IwarpBench& bench) { is_notified_of_a_rejection(bench, ""); }

// 7.1: the reply ends where PD_Length indicates, not at the end of its segment.
void together_with_its_reply(IwarpBench& bench, const std::string& private_data, std::uint32_t sends) {
  Connected& qp = asking(bench, {.private_data = private_data, .receives = sends});
  qp.setup = qp.wait(a_request());
  qp.options.enhanced = frame_in(*qp.setup).get<"enhanced">() != 0 ? std::optional<Enhanced>(Enhanced{}) : std::nullopt;
  ByteVector together = IwarpBench::frame_of(qp.options);
  bench.operates(qp);
  for (std::uint32_t msn = 1; msn <= sends; ++msn) {
    const ByteVector behind = qp.fpdu(send(msn, pattern_bytes(9, static_cast<std::uint8_t>(msn))));
    together.insert(together.end(), behind.begin(), behind.end());
  }
  qp.say(together, fmt::format("MPA Reply Frame, and {} FPDUs in its TCP segment", sends));
  // Rule 4 forbids a responder to send this early: the initiator may close the connection, but must not lose the FPDUs
  // silently.
  const peer::CmEvent event = outcome_of(bench, qp);
  if (event.type != "established") {
    is_given_up(qp);
    end_case(Verdict::may, "the device ends the stream: rule 4 forbids a responder to send FPDUs this early");
  }
  for (std::uint32_t i = 0; i < sends; ++i) {
    qp.completes(i);
    qp.received(i, pattern_bytes(9, static_cast<std::uint8_t>(i + 1)));
  }
}
void an_fpdu_after_the_reply(IwarpBench& bench) { together_with_its_reply(bench, "", 1); }
void fpdus_after_private_data(IwarpBench& bench) { together_with_its_reply(bench, "welcome", 3); }

// 7.1.2 rule 4: the responder sends FPDUs and markers only after the initiator's first FPDU.
void waits_for_the_initiator(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = options.markers ? connect_with_markers(bench, options) : bench.connect(options);
  qp.fill(0, pattern_bytes(64));
  qp.device_sends(7, 64);
  qp << silence();
  qp.opens();
  qp << a_send(1).carrying(pattern_bytes(64));
  qp.completes(7);
}
void work_of_a_responder(IwarpBench& bench) {
  bench.environment().fix(Parameter::stream_history, "the rule is about the first FPDU of a stream");
  waits_for_the_initiator(bench, {});
}
void work_of_a_responder_with_markers(IwarpBench& bench) { waits_for_the_initiator(bench, {.markers = true}); }
void work_of_an_enhanced_responder(IwarpBench& bench) {
  bench.environment().fix(Parameter::stream_history, "the rule is about the first FPDU of a stream");
  waits_for_the_initiator(bench, {.enhanced = Enhanced{}});
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "mpa.responder.reply.key", .variant = "accepted", .run = a_reply_has_its_key},
      {.rule = "mpa.responder.reply.key", .variant = "enhanced", .run = an_enhanced_reply_has_its_key},
      {.rule = "mpa.responder.reply.key", .variant = "rejected", .run = a_reply_that_rejects_has_its_key},
      {.rule = "mpa.receiver.key.wrong",
       .variant = "another protocol, in the reply",
       .role = Role::requester,
       .run = another_key},
      {.rule = "mpa.receiver.key.wrong",
       .variant = "the last byte, in the reply",
       .role = Role::requester,
       .run = a_key_with_another_last_byte},
      {.rule = "mpa.initiator.reply.is-a-request",
       .variant = "of the requested kind",
       .role = Role::requester,
       .run = a_request_in_place_of_the_reply},
      {.rule = "mpa.initiator.reply.is-a-request",
       .variant = "its own",
       .role = Role::requester,
       .run = its_own_request_back},
      {.rule = "mpa.receiver.frame.never-ends",
       .variant = "inside a reply",
       .role = Role::requester,
       .run = a_reply_that_stops},
      {.rule = "mpa.receiver.revision.unknown",
       .variant = "3, in the reply",
       .role = Role::requester,
       .run = revision_3},
      {.rule = "mpa.receiver.reserved.unchecked",
       .variant = "all bits, in the reply",
       .role = Role::requester,
       .run = reserved_bits_of_a_reply},
      {.rule = "mpa.receiver.private-data.handed-on",
       .variant = "none, in the reply",
       .role = Role::requester,
       .run = a_reply_with_private_data<0>},
      {.rule = "mpa.receiver.private-data.handed-on",
       .variant = "200 bytes, in the reply",
       .role = Role::requester,
       .run = a_reply_with_private_data<200>},
      {.rule = "mpa.receiver.private-data.handed-on",
       .variant = "508 bytes, in the reply",
       .role = Role::requester,
       .run = a_reply_with_private_data<508>,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.too-long",
       .variant = "in the reply",
       .role = Role::requester,
       .run = private_data_of_513_bytes,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.private-data.length-mismatch",
       .variant = "fewer bytes, then a FIN, in the reply",
       .role = Role::requester,
       .run = less_private_data_than_announced,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.responder.reject.reply", .variant = "without private data", .run = a_rejection},
      {.rule = "mpa.responder.reject.reply", .variant = "with private data", .run = a_rejection_with_private_data},
      {.rule = "mpa.responder.reject.reply", .variant = "enhanced", .run = an_enhanced_rejection},
      {.rule = "mpa.initiator.reject.no-fpdu",
       .variant = "with private data",
       .role = Role::requester,
       .run = is_rejected_with_private_data},
      {.rule = "mpa.initiator.reject.no-fpdu",
       .variant = "without private data",
       .role = Role::requester,
       .run = is_rejected_without_private_data},
      {.rule = "mpa.responder.fpdu.waits-for-initiator", .variant = "revision 1", .run = work_of_a_responder},
      {.rule = "mpa.responder.fpdu.waits-for-initiator",
       .variant = "with markers",
       .run = work_of_a_responder_with_markers},
      {.rule = "mpa.responder.fpdu.waits-for-initiator", .variant = "enhanced", .run = work_of_an_enhanced_responder},
      {.rule = "mpa.initiator.reply.with-fpdu-in-segment",
       .variant = "one",
       .role = Role::requester,
       .run = an_fpdu_after_the_reply},
      {.rule = "mpa.initiator.reply.with-fpdu-in-segment",
       .variant = "three, after private data",
       .role = Role::requester,
       .run = fpdus_after_private_data},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::mpa_reply_cases
