/// Enhanced negotiation: RFC 6581, 6 (the frames), 8 (errors), 9.1 (depths), 9.2 and 9.3 (the peer-to-peer model and
/// its ready-to-receive indication), 10 (interoperability with revision 1).

#include <fmt/format.h>

#include <utility>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/setup.hpp"

namespace rdmawire::conformance::iwarp::mpa_enhanced_cases {
namespace {

constexpr std::uint16_t not_negotiated = 0x3fff;

View<MpaEnhanced> agreed(IwarpBench& bench, Connected& qp) {
  agree(bench, qp);
  return enhanced_in(bench, *qp.setup);
}

// 10: an enhanced reply to an enhanced request, an unenhanced one to an unenhanced request.

void an_enhanced_request(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.enhanced = Enhanced{}, .receives = 1});
  agreed(bench, qp);
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
void with_private_data_of_both(IwarpBench& bench) {
  Connected& qp = dialled(
      bench, {.enhanced = Enhanced{}, .private_data = "hello", .device_private_data = "welcome", .receives = 1});
  agreed(bench, qp);
  const peer::ByteVector& received = qp.cm.request().private_data;
  bench.require(std::string(received.begin(), received.end()) == "hello",
                "the application notified with its five bytes of private data",
                fmt::format("{} bytes", received.size()));
  bench.require(private_data_in(*qp.setup).substr(4) == "welcome",
                "the application's private data after the four bytes of enhanced data", "other data");
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
void a_rejected_enhanced_request(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.enhanced = Enhanced{}});
  qp.say(IwarpBench::frame_of(qp.options), "enhanced MPA Request Frame");
  bench.take(bench.requested(qp.listener).reject(), "the device's application rejects");
  enhanced_in(bench, qp.wait(a_reply()));
}
void an_unenhanced_request_of_revision_2(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.revision = 2, .device_private_data = "welcome", .receives = 1});
  agree(bench, qp);
  bench.require(frame_in(*qp.setup).get<"enhanced">() == 0 && private_data_in(*qp.setup) == "welcome",
                "a reply with S 0 and only the application's private data", qp.setup->text());
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
void an_unenhanced_request_of_revision_1(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.receives = 1});
  agree(bench, qp);
  bench.require(frame_in(*qp.setup).get<"enhanced">() == 0 && private_data_in(*qp.setup).empty(),
                "a reply with S 0 and no private data", qp.setup->text());
}

/// Ends the case if the device knows only revision 1, for which every enhanced frame is invalid.
void knows_revision_2(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.enhanced = Enhanced{}, .receives = 1});
  qp.say(IwarpBench::frame_of(qp.options), "a valid enhanced request");
  constexpr const char* unknown = "the device knows only revision 1";
  // The application has not accepted yet.
  const Expectation refusal("the end of TCP, or a reply that rejects", [](const Seen& seen) {
    return seen.kind == Seen::Kind::setup ? Match::yes : stream_closed().judge(seen);
  });
  if (qp.wait_or_silence(refusal)) end_case(Verdict::unsupported, unknown);
  bench.accepts(qp);
  qp.setup = qp.wait(a_reply());
  if (frame_in(*qp.setup).get<"enhanced">() == 0) end_case(Verdict::unsupported, unknown);
  bench.operates(qp);
  bench.expect_event(qp, "established");
}

// 6: at least four bytes. The device closes TCP on an invalid frame, or rejects the request.
template <std::size_t count>
void enhanced_data_of(IwarpBench& bench) {
  knows_revision_2(bench);
  Connected& qp = dialled(bench);
  qp.say(mpa_request(mpa_flag::crc | mpa_flag::enhanced, 2, pattern_bytes(count, 0)),
         fmt::format("an enhanced request with {} bytes of private data", count));
  const Seen answer = qp.wait({"the end of TCP, or a reply with R 1", [](const Seen& seen) {
                                 const bool ends = seen.kind == Seen::Kind::fin || seen.kind == Seen::Kind::reset;
                                 const bool rejects =
                                     seen.kind == Seen::Kind::setup && frame_in(seen).get<"reject">() == 1;
                                 return ends || rejects ? Match::yes : Match::no;
                               }});
  if (answer.kind == Seen::Kind::setup) bench.note("it rejects");
  expect_no_connect_request(bench, qp);
}

// 10: a device without RFC 6581 treats an enhanced frame as invalid.
void an_enhanced_request_to_one_of_revision_1(IwarpBench& bench) {
  wish_if_possible(bench, {.revision = 1});
  Connected& qp = dialled(bench, {.enhanced = Enhanced{}});
  qp.say(IwarpBench::frame_of(qp.options), "enhanced MPA Request Frame");
  if (!bench.device().wish) {
    bench.accepts(qp);
    const Seen reply = qp.wait(a_reply());
    if (frame_in(reply).get<"enhanced">() != 0)
      end_case(Verdict::unsupported, "the device supports RFC 6581, and this cannot be disabled");
    bench.require(false, "the end of TCP", reply.text());
  }
  qp << stream_closed();
  expect_no_connect_request(bench, qp);
}

// 9.1: depths. The device's application requests four of each.

void depths_of(IwarpBench& bench, std::uint16_t ird, std::uint16_t ord) {
  Connected& qp = dialled(bench, {.enhanced = Enhanced{.ird = ird, .ord = ord}, .receives = 1});
  qp.say(IwarpBench::frame_of(qp.options), fmt::format("an enhanced request with IRD {} and ORD {}", ird, ord));
  bench.accepts(qp);
  qp.setup = qp.wait(a_reply());
  const View<MpaEnhanced> data = enhanced_in(bench, *qp.setup);
  if (frame_in(*qp.setup).get<"reject">() != 0 && ird < 4)
    end_case(Verdict::may, "the device rejects a request whose IRD is below its application's ORD");
  bench.require(data.get<"ord">() <= ird, fmt::format("an ORD of at most {}", ird),
                fmt::format("ORD {}", data.get<"ord">()));
  bench.require(data.get<"ird">() >= ord, fmt::format("an IRD of at least {}", ord),
                fmt::format("IRD {}", data.get<"ird">()));
  bench.operates(qp);
  bench.expect_event(qp, "established");
  arrives(qp, 1, 0);
}
template <std::uint16_t ird, std::uint16_t ord>
void depths_of(IwarpBench& bench) {
  depths_of(bench, ird, ord);
}
void reads_keep_to_the_depth(IwarpBench& bench) {
  Connected& qp = bench.connect({.enhanced = Enhanced{.ird = 2, .ord = 4}});
  qp.opens();
  for (const std::uint64_t wr_id : {1, 2, 3, 4}) qp.device_reads(wr_id);
  qp << a_read_request(1, 8) << a_read_request(2, 8) << silence();
}

// If the request contains an IRD of all ones, the reply contains an ORD of all ones, and vice versa.
void no_depth_is_negotiated(IwarpBench& bench, const Enhanced& asked) {
  Connected& qp = dialled(bench, {.enhanced = asked, .reads_at_once = 2, .own_reads = 2});
  const View<MpaEnhanced> data = agreed(bench, qp);
  if (asked.ird == not_negotiated)
    bench.require(data.get<"ord">() == not_negotiated, "ORD 0x3fff", fmt::format("ORD {:#x}", data.get<"ord">()));
  if (asked.ord == not_negotiated)
    bench.require(data.get<"ird">() == not_negotiated, "IRD 0x3fff", fmt::format("IRD {:#x}", data.get<"ird">()));
}
void no_ird(IwarpBench& bench) { no_depth_is_negotiated(bench, {.ird = not_negotiated, .ord = 2}); }
void no_ord(IwarpBench& bench) { no_depth_is_negotiated(bench, {.ird = 2, .ord = not_negotiated}); }
void neither(IwarpBench& bench) { no_depth_is_negotiated(bench, {.ird = not_negotiated, .ord = not_negotiated}); }
// Without negotiation, the application's local ORD or IRD, 2, applies.
void the_local_ord_stays(IwarpBench& bench) {
  Connected& qp = bench.connect({.enhanced = Enhanced{.ird = not_negotiated, .ord = not_negotiated}, .own_reads = 2});
  qp.opens();
  for (const std::uint64_t wr_id : {1, 2, 3}) qp.device_reads(wr_id);
  qp << a_read_request(1, 8) << a_read_request(2, 8) << silence();
}
void the_local_ird_stays(IwarpBench& bench) {
  Connected& qp =
      bench.connect({.enhanced = Enhanced{.ird = not_negotiated, .ord = not_negotiated}, .reads_at_once = 2});
  qp.fill(0, pattern_bytes(16));
  ByteVector both = qp.fpdu(read_request(1, {.source_stag = qp.stag(), .source_to = qp.to()}));
  const ByteVector second = qp.fpdu(read_request(2, {.source_stag = qp.stag(), .source_to = qp.to(8)}));
  both.insert(both.end(), second.begin(), second.end());
  qp.say(both, "two RDMA Read Requests");
  qp << an(RdmapOperation::read_response).carrying(pattern_bytes(16).substr(0, 8))
     << an(RdmapOperation::read_response).carrying(pattern_bytes(16).substr(8));
}

// The device as an initiator, after its enhanced request. If it sends another request, the case is unsupported.
Connected& asking_enhanced(IwarpBench& bench, const MpaWishes& wishes, const ConnectOptions& options = {}) {
  wish_if_possible(bench, wishes);
  Connected& qp = asking(bench, options);
  qp.setup = qp.wait(a_request());
  if (frame_in(*qp.setup).get<"enhanced">() == 0)
    end_case(Verdict::unsupported, "the device does not request enhanced negotiation");
  return qp;
}
void answer(IwarpBench& bench, Connected& qp, const Enhanced& data) {
  qp.options.enhanced = data;
  qp.say(IwarpBench::frame_of(qp.options),
         fmt::format("an enhanced reply: A {:d}, B {:d}, C {:d}, D {:d}, IRD {}, ORD {}", data.a, data.b, data.c,
                     data.d, data.ird, data.ord));
  bench.operates(qp);
}
void a_reply_without_enhanced_data(IwarpBench& bench) {
  Connected& qp = asking_enhanced(bench, {});
  qp.say(mpa_reply(mpa_flag::crc | mpa_flag::enhanced, 2), "an enhanced reply without private data");
  qp.operate({}, {});
  ends_with_an_error(qp);
  attempt_fails(bench, qp);
}
void more_than_it_has_resources_for(IwarpBench& bench) {
  Connected& qp = asking_enhanced(bench, {});
  answer(bench, qp, {.ird = 4, .ord = 0x3ffe});
  qp << a_terminate(2, 0, 0x06) << stream_closed();
  attempt_fails(bench, qp);
}

// 9.2: the peer-to-peer model.

enum class Rtr : std::uint8_t { send, write, read };
bool names(const View<MpaEnhanced>& data, Rtr kind) {
  switch (kind) {
    case Rtr::send: return data.get<"rtr_send">() != 0;
    case Rtr::write: return data.get<"rtr_write">() != 0;
    case Rtr::read: return data.get<"rtr_read">() != 0;
  }
  return false;
}
void indicate(IwarpBench& bench, Connected& qp, Rtr kind) {
  if (kind == Rtr::send) qp >> send(1, {});
  if (kind == Rtr::write) qp >> write(0, 0, {});
  if (kind == Rtr::read) {
    qp >> read_request(1, {.size = 0});
    qp << an(RdmapOperation::read_response).carrying({});
  }
  bench.expect_event(qp, "established");
}
// Sends an indication that the reply permits, so that the negotiation completes. Another rule tests other indications.
void indicate_as_named(IwarpBench& bench, Connected& qp, const View<MpaEnhanced>& data) {
  indicate(bench, qp, names(data, Rtr::write) ? Rtr::write : names(data, Rtr::read) ? Rtr::read : Rtr::send);
}
View<MpaEnhanced> agreed_as_peers(IwarpBench& bench, Connected& qp) {
  const View<MpaEnhanced> data = agreed(bench, qp);
  bench.require(data.get<"peer_to_peer">() == 1, "A 1", "A 0");
  bench.require(names(data, Rtr::send) || names(data, Rtr::write) || names(data, Rtr::read),
                "at least one of B, C and D is 1", "none");
  return data;
}
void a_reply_names_an_option(IwarpBench& bench, const Enhanced& asked) {
  Connected& qp = dialled(bench, {.enhanced = asked});
  indicate_as_named(bench, qp, agreed_as_peers(bench, qp));
}
template <bool b, bool c, bool d>
void a_reply_names_an_option(IwarpBench& bench) {
  a_reply_names_an_option(bench, Enhanced{.a = true, .b = b, .c = c, .d = d});
}
Enhanced asked_for(Rtr kind) {
  return {.a = true, .b = kind == Rtr::send, .c = kind == Rtr::write, .d = kind == Rtr::read};
}
// The reply to a request for one option prefers this option.
void a_reply_prefers_what_matches(IwarpBench& bench) {
  Connected& all = dialled(bench, {.enhanced = Enhanced{.a = true, .b = true, .c = true, .d = true}});
  const View<MpaEnhanced> named = agreed_as_peers(bench, all);
  indicate_as_named(bench, all, named);
  for (const Rtr kind : {Rtr::send, Rtr::write, Rtr::read}) {
    if (!names(named, kind)) continue;
    Connected& qp = dialled(bench, {.enhanced = asked_for(kind)});
    const View<MpaEnhanced> data = agreed_as_peers(bench, qp);
    indicate_as_named(bench, qp, data);
    // RFC 6581, 9.2: the preference is a SHOULD, and the rule is a shall.
    bench.require(names(data, kind), "the requested option, which the device supports", "another option", Verdict::may);
  }
}
// After the indication, the responder may send.
void an_indication_is_taken(IwarpBench& bench, Rtr kind) {
  Connected& qp = dialled(bench, {.enhanced = asked_for(kind)});
  const View<MpaEnhanced> data = agreed_as_peers(bench, qp);
  if (!names(data, kind)) {
    indicate_as_named(bench, qp, data);
    end_case(Verdict::unsupported, "the device does not support this indication");
  }
  indicate(bench, qp, kind);
  qp.device_sends(1, 8);
  qp << a_send(1);
}
template <Rtr kind>
void an_indication_is_taken(IwarpBench& bench) {
  an_indication_is_taken(bench, kind);
}

void no_model_is_answered(IwarpBench& bench, const Enhanced& asked) {
  Connected& qp = dialled(bench, {.enhanced = asked});
  const View<MpaEnhanced> data = agreed(bench, qp);
  bench.require(data.get<"peer_to_peer">() == 0 && data.get<"rtr_send">() == 0 && data.get<"rtr_write">() == 0 &&
                    data.get<"rtr_read">() == 0,
                "A, B, C and D 0", "one of them 1");
}
void no_model(IwarpBench& bench) { no_model_is_answered(bench, {}); }
void options_without_the_model(IwarpBench& bench) {
  no_model_is_answered(bench, {.a = false, .b = true, .c = true, .d = true});
}

// The device as initiator of the peer-to-peer model.
Connected& asking_as_a_peer(IwarpBench& bench, const MpaWishes& wishes, const ConnectOptions& options = {}) {
  Connected& qp = asking_enhanced(bench, wishes, options);
  if (enhanced_in(bench, *qp.setup).get<"peer_to_peer">() == 0)
    end_case(Verdict::unsupported, "the device does not request the peer-to-peer model");
  return qp;
}
bool offers(const Connected& qp, const Enhanced& options) {
  const View<MpaEnhanced> data(qp.setup->bytes.data() + MpaFrame::size);
  return (options.b && data.get<"rtr_send">() != 0) || (options.c && data.get<"rtr_write">() != 0) ||
         (options.d && data.get<"rtr_read">() != 0);
}
Expectation an_indication(const Enhanced& options) {
  return {"a zero-length message of the agreed kind", [options](const Seen& seen) {
            const bool empty = seen.kind == Seen::Kind::fpdu && seen.crc_good;
            const bool send = seen.is(RdmapOperation::send) && seen.payload().empty();
            const bool write = seen.is(RdmapOperation::rdma_write) && seen.payload().empty();
            const bool read = seen.is(RdmapOperation::read_request) && seen.get<RdmapReadRequest, "size">() == 0;
            const bool agreed = (options.b && send) || (options.c && write) || (options.d && read);
            return empty && agreed ? Match::yes : Match::no;
          }};
}
void indicates(IwarpBench& bench, Enhanced options) {
  options.a = true;
  Connected& qp = asking_as_a_peer(bench, {.peer_to_peer = true});
  if (!offers(qp, options)) end_case(Verdict::unsupported, "the device does not offer this indication");
  answer(bench, qp, options);
  const Seen indication = qp.wait(an_indication(options));
  bench.expect_event(qp, "established");
  if (const auto sink = indication.get<RdmapReadRequest, "sink_stag">();
      sink && indication.is(RdmapOperation::read_request))
    qp >> read_response(static_cast<std::uint32_t>(*sink), *indication.get<RdmapReadRequest, "sink_to">(), {});
  qp.device_sends(1, 8);
  qp << an(RdmapOperation::send);
}
void a_send_indicates(IwarpBench& bench) { indicates(bench, {.b = true}); }
void a_write_indicates(IwarpBench& bench) { indicates(bench, {.c = true}); }
void a_read_indicates(IwarpBench& bench) { indicates(bench, {.d = true}); }
void any_of_them_indicates(IwarpBench& bench) { indicates(bench, {.b = true, .c = true, .d = true}); }

void no_option_named(IwarpBench& bench) {
  Connected& qp = asking_as_a_peer(bench, {.peer_to_peer = true});
  answer(bench, qp, {.a = true});
  qp << a_terminate(2, 0, 0x07) << stream_closed();
  attempt_fails(bench, qp);
}
void another_option_named(IwarpBench& bench) {
  Connected& qp = asking_as_a_peer(bench, {.peer_to_peer = true, .rtr_send = false, .rtr_read = false});
  Enhanced options{.a = true};
  if (!offers(qp, {.b = true}))
    options.b = true;
  else if (!offers(qp, {.d = true}))
    options.d = true;
  else
    end_case(Verdict::unsupported, "the device offers every indication");
  answer(bench, qp, options);
  qp << a_terminate(2, 0, 0x07) << stream_closed();
  attempt_fails(bench, qp);
}

// 9.3: verbs can cause one local error during the negotiation: the QP is moved to ERR before the responder has sent its
// reply.
void the_queue_pair_is_given_up(IwarpBench& bench) {
  Connected& qp = asking_as_a_peer(bench, {.peer_to_peer = true});
  const Enhanced options{.a = true, .b = true, .c = true, .d = true};
  answer(bench, qp, options);
  qp << an_indication(options);
  bench.expect_event(qp, "established");
  bench.take(qp.qp.modify({{"state", "err"}}), "the QP to ERR");
  qp << a_terminate(2, 0, 0x05) << stream_closed();
}

// RFC 5044, 8, code 1.
void is_notified_of_the_end(IwarpBench& bench, const Connected& qp) {
  for (;;) {
    const peer::CmEvent event = bench.wait_for("the outcome of the connection", bench.patience().answer,
                                               [&] { return qp.cm.next_event(std::chrono::milliseconds(0)); });
    if (event.type == "established") continue;
    bench.require(event.type == "disconnected" || event.type == "connect_error" || event.type == "rejected",
                  "the application notified that the connection ended", event.body.dump());
    return;
  }
}
void a_fin_before_the_indication(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.enhanced = Enhanced{.a = true, .b = true, .c = true, .d = true}});
  agreed(bench, qp);
  qp.finish();
  is_notified_of_the_end(bench, qp);
  // The responder sends nothing before it has received an FPDU.
  qp << stream_closed();
}
void a_reset_before_the_indication(IwarpBench& bench) {
  Connected& qp = dialled(bench, {.enhanced = Enhanced{.a = true, .b = true, .c = true, .d = true}, .receives = 1});
  agreed(bench, qp);
  qp.reset();
  is_notified_of_the_end(bench, qp);
  qp.completes(0, "wr_flush_err");
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "mpa.responder.enhanced.answered-enhanced",
       .variant = "without private data",
       .run = an_enhanced_request},
      {.rule = "mpa.responder.enhanced.answered-enhanced",
       .variant = "with private data",
       .run = with_private_data_of_both},
      {.rule = "mpa.responder.enhanced.answered-enhanced", .variant = "rejected", .run = a_rejected_enhanced_request},
      {.rule = "mpa.responder.enhanced.not-unasked",
       .variant = "revision 2",
       .run = an_unenhanced_request_of_revision_2},
      {.rule = "mpa.responder.enhanced.not-unasked",
       .variant = "revision 1",
       .run = an_unenhanced_request_of_revision_1},
      {.rule = "mpa.receiver.enhanced.too-short",
       .variant = "no bytes",
       .run = enhanced_data_of<0>,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.enhanced.too-short",
       .variant = "2 bytes",
       .run = enhanced_data_of<2>,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.enhanced.too-short",
       .variant = "3 bytes",
       .run = enhanced_data_of<3>,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.receiver.enhanced.too-short",
       .variant = "no bytes, in the reply",
       .role = Role::requester,
       .run = a_reply_without_enhanced_data,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.responder.enhanced.unsupported", .run = an_enhanced_request_to_one_of_revision_1},
      {.rule = "mpa.responder.depth.within-request", .variant = "IRD 4, ORD 4", .run = depths_of<4, 4>},
      {.rule = "mpa.responder.depth.within-request",
       .variant = "an IRD below the application's ORD",
       .run = depths_of<2, 4>},
      {.rule = "mpa.responder.depth.within-request",
       .variant = "an ORD above the application's IRD",
       .run = depths_of<4, 16>},
      {.rule = "mpa.responder.depth.within-request", .variant = "none", .run = depths_of<0, 0>},
      {.rule = "mpa.responder.depth.within-request", .variant = "14 bits", .run = depths_of<0x3ffe, 1>},
      {.rule = "mpa.responder.depth.within-request",
       .variant = "RDMA Reads within the depth",
       .run = reads_keep_to_the_depth},
      {.rule = "mpa.responder.depth.all-ones", .variant = "IRD", .run = no_ird},
      {.rule = "mpa.responder.depth.all-ones", .variant = "ORD", .run = no_ord},
      {.rule = "mpa.responder.depth.all-ones", .variant = "both", .run = neither},
      {.rule = "mpa.responder.depth.all-ones", .variant = "the local ORD stays", .run = the_local_ord_stays},
      {.rule = "mpa.responder.depth.all-ones", .variant = "the local IRD stays", .run = the_local_ird_stays},
      {.rule = "mpa.initiator.depth.insufficient", .role = Role::requester, .run = more_than_it_has_resources_for},
      {.rule = "mpa.responder.rtr.option-chosen", .variant = "B", .run = a_reply_names_an_option<true, false, false>},
      {.rule = "mpa.responder.rtr.option-chosen", .variant = "C", .run = a_reply_names_an_option<false, true, false>},
      {.rule = "mpa.responder.rtr.option-chosen", .variant = "D", .run = a_reply_names_an_option<false, false, true>},
      {.rule = "mpa.responder.rtr.option-chosen", .variant = "B, C", .run = a_reply_names_an_option<true, true, false>},
      {.rule = "mpa.responder.rtr.option-chosen", .variant = "B, D", .run = a_reply_names_an_option<true, false, true>},
      {.rule = "mpa.responder.rtr.option-chosen", .variant = "C, D", .run = a_reply_names_an_option<false, true, true>},
      {.rule = "mpa.responder.rtr.option-chosen",
       .variant = "B, C, D",
       .run = a_reply_names_an_option<true, true, true>},
      {.rule = "mpa.responder.rtr.option-chosen",
       .variant = "none",
       .run = a_reply_names_an_option<false, false, false>},
      {.rule = "mpa.responder.rtr.option-chosen",
       .variant = "matching options first",
       .run = a_reply_prefers_what_matches},
      {.rule = "mpa.responder.rtr.option-chosen", .variant = "Send accepted", .run = an_indication_is_taken<Rtr::send>},
      {.rule = "mpa.responder.rtr.option-chosen",
       .variant = "RDMA Write accepted",
       .run = an_indication_is_taken<Rtr::write>},
      {.rule = "mpa.responder.rtr.option-chosen",
       .variant = "RDMA Read accepted",
       .run = an_indication_is_taken<Rtr::read>},
      {.rule = "mpa.responder.rtr.none-without-model", .variant = "none requested", .run = no_model},
      {.rule = "mpa.responder.rtr.none-without-model", .variant = "B, C and D", .run = options_without_the_model},
      {.rule = "mpa.initiator.rtr.sent-first", .variant = "Send", .role = Role::requester, .run = a_send_indicates},
      {.rule = "mpa.initiator.rtr.sent-first",
       .variant = "RDMA Write",
       .role = Role::requester,
       .run = a_write_indicates},
      {.rule = "mpa.initiator.rtr.sent-first",
       .variant = "RDMA Read",
       .role = Role::requester,
       .run = a_read_indicates},
      {.rule = "mpa.initiator.rtr.sent-first",
       .variant = "any option",
       .role = Role::requester,
       .run = any_of_them_indicates},
      {.rule = "mpa.initiator.rtr.no-common-option",
       .variant = "no option",
       .role = Role::requester,
       .run = no_option_named},
      {.rule = "mpa.initiator.rtr.no-common-option",
       .variant = "another option",
       .role = Role::requester,
       .run = another_option_named},
      {.rule = "mpa.endpoint.setup.local-error",
       .role = Role::requester,
       .run = the_queue_pair_is_given_up,
       .possible_problems = "Moving the QP to ERR is the only local error that verbs can cause; "
                            "a device need not treat it as an error of the negotiation."},
      {.rule = "mpa.responder.close.before-rtr",
       .variant = "FIN",
       .run = a_fin_before_the_indication,
       .caution = RunPolicy::dangerous},
      {.rule = "mpa.responder.close.before-rtr",
       .variant = "reset",
       .run = a_reset_before_the_indication,
       .caution = RunPolicy::dangerous},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::mpa_enhanced_cases
