#include "conformance/cases/iwarp/setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rdmawire::conformance::iwarp {

View<MpaEnhanced> enhanced_in(IwarpBench& bench, const Seen& setup) {
  const View<MpaFrame> frame = frame_in(setup);
  bench.require(frame.get<"revision">() == 2 && frame.get<"enhanced">() == 1 && frame.get<"private_data_length">() >= 4,
                "revision 2, S 1, and at least four bytes of enhanced data", setup.text());
  const View<MpaEnhanced> data(setup.bytes.data() + MpaFrame::size);
  bench.note(fmt::format("enhanced data: A {}, B {}, IRD {}, C {}, D {}, ORD {}", data.get<"peer_to_peer">(),
                         data.get<"rtr_send">(), data.get<"ird">(), data.get<"rtr_write">(), data.get<"rtr_read">(),
                         data.get<"ord">()));
  return data;
}

std::string private_data_in(const Seen& setup) {
  return {setup.bytes.begin() + static_cast<std::ptrdiff_t>(MpaFrame::size), setup.bytes.end()};
}

Connected& dialled(IwarpBench& bench, const ConnectOptions& options) {
  Connected& qp = bench.make(options);
  bench.listens(qp);
  bench.dials(qp);
  return qp;
}

void agree(IwarpBench& bench, Connected& qp) {
  qp.say(IwarpBench::frame_of(qp.options), "MPA Request Frame");
  bench.accepts(qp);
  bench.operates(qp);
}

Connected& asking(IwarpBench& bench, const ConnectOptions& options) {
  ConnectOptions asks = options;
  asks.device_initiates = true;
  Connected& qp = bench.make(asks);
  bench.device_dials(qp);
  return qp;
}

void expect_no_connect_request(IwarpBench& bench, const Connected& qp) {
  const auto of_the_listener = [handle = qp.listener.handle()](const peer::Event& event) {
    return event.name == "cm" && event.body.value("listener", std::uint64_t{0}) == handle;
  };
  const bool asked = bench.next_event(bench.patience().silence, of_the_listener).has_value();
  bench.require(!asked, "no notification of the application", "the application was notified of a request");
}

peer::CmEvent outcome_of(IwarpBench& bench, const Connected& qp) {
  constexpr std::array progress{"addr_resolved", "route_resolved"};
  for (;;) {
    peer::CmEvent event = bench.wait_for("the outcome of the connection", bench.patience().answer,
                                         [&] { return qp.cm.next_event(std::chrono::milliseconds(0)); });
    if (std::ranges::count(progress, event.type) == 0) return event;
  }
}

peer::CmEvent attempt_fails(IwarpBench& bench, const Connected& qp) {
  constexpr std::array failures{"rejected", "unreachable", "connect_error", "failed"};
  peer::CmEvent event = outcome_of(bench, qp);
  bench.require(std::ranges::count(failures, event.type) != 0, "the application notified of a failed connection",
                event.body.dump());
  return event;
}

void arrives(Connected& qp, std::uint32_t msn, std::uint64_t receive) {
  const std::string payload = pattern_bytes(24, static_cast<std::uint8_t>(msn));
  qp >> send(msn, payload);
  qp.completes(receive);
  qp.received(receive, payload);
}

void wish_if_possible(IwarpBench& bench, const MpaWishes& wishes) {
  if (bench.device().wish) bench.wish(wishes);
}

void without_crc(const Seen& setup) {
  if (frame_in(setup).get<"crc">() != 0)
    end_case(Verdict::unsupported, "the device requests CRCs, and this cannot be disabled");
}

void with_markers(const Seen& setup) {
  if (frame_in(setup).get<"markers">() == 0)
    end_case(Verdict::unsupported, "the device does not request markers, and this cannot be enabled");
}

std::optional<Seen> markers_refused(IwarpBench& bench, Connected& qp) {
  qp.say(IwarpBench::frame_of(qp.options), "MPA Request Frame");
  if (auto early = qp.wait_or_silence(a_reply())) return early;
  bench.accepts(qp);
  return std::nullopt;
}

Connected& connect_with_markers(IwarpBench& bench, ConnectOptions options) {
  options.markers = true;
  if (options.device_initiates) {
    Connected& qp = asking(bench, options);
    bench.answers(qp);
    bench.operates(qp);
    const std::string becomes = outcome_of(bench, qp).type;
    if (becomes != "established")
      end_case(Verdict::unsupported, "a reply that requests markers ends the device's attempt: " + becomes);
    return qp;
  }
  Connected& qp = dialled(bench, options);
  qp.setup = markers_refused(bench, qp);
  if (!qp.setup) qp.setup = qp.wait(a_reply());
  if (frame_in(*qp.setup).get<"reject">() != 0)
    end_case(Verdict::unsupported, "the device rejects a request for markers");
  bench.operates(qp);
  bench.expect_event(qp, "established");
  return qp;
}

void ends_with_an_error(Connected& qp) {
  const Seen first = qp.wait({"a Terminate, or the end of TCP", [](const Seen& seen) {
                                const bool ends = seen.kind == Seen::Kind::fin || seen.kind == Seen::Kind::reset;
                                return ends || seen.is(RdmapOperation::terminate) ? Match::yes : Match::no;
                              }});
  if (first.kind == Seen::Kind::fpdu) qp << stream_closed();
}

void delivers_nothing(IwarpBench& bench, Connected& qp) {
  bench.pass(bench.patience().silence);
  const auto completions = bench.take(qp.cq.poll(64, std::chrono::milliseconds(0)), "poll for completions");
  for (const peer::Completion& one : completions)
    bench.require(!one.good(), "no receive that completes with success", text_of(one));
}

}  // namespace rdmawire::conformance::iwarp
