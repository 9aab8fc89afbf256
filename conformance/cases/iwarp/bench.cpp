#include "conformance/cases/iwarp/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "conformance/cases/case.hpp"

namespace rdmawire::conformance::iwarp {
namespace {

std::uint8_t flags_of(const ConnectOptions& options) {
  return static_cast<std::uint8_t>((options.markers ? mpa_flag::markers : 0) | (options.crc ? mpa_flag::crc : 0) |
                                   (options.enhanced ? mpa_flag::enhanced : 0));
}

peer::CmParameters parameters_of(const ConnectOptions& options) {
  const std::string& data = options.device_private_data;
  return {.private_data = {data.begin(), data.end()},
          .responder_resources = options.reads_at_once,
          .initiator_depth = options.own_reads};
}

}  // namespace

// ---- messages of the device

void Connected::device_sends(std::uint64_t wr_id, std::uint32_t length, std::uint64_t offset,
                             const peer::Names& flags) {
  post({.opcode = "send", .wr_id = wr_id, .sges = {piece(offset, length)}, .flags = flags});
}
void Connected::device_writes(std::uint64_t wr_id, std::uint32_t length, std::uint64_t offset) {
  post({.opcode = "write",
        .wr_id = wr_id,
        .sges = {piece(offset, length)},
        .remote_addr = tester_memory,
        .rkey = tester_stag});
}
void Connected::device_reads(std::uint64_t wr_id, std::uint32_t length, std::uint64_t offset,
                             const peer::Names& flags) {
  post({.opcode = "read",
        .wr_id = wr_id,
        .sges = {piece(offset, length)},
        .remote_addr = tester_memory,
        .rkey = tester_stag,
        .flags = flags});
}

void Connected::refuses(const Expectation& terminate) {
  *this << terminate << stream_closed();
  ends();
}
void Connected::is_refused_by(const Seen& refusal) {
  if (refusal.kind == Seen::Kind::fpdu) *this << stream_closed();
  ends();
}
void Connected::ends() {
  finish();
  static_cast<void>(bench_->expect_event(cm, "disconnected"));
}

Stimulus response_to(const Seen& request, const std::string& payload, std::uint64_t offset, bool last) {
  const auto stag = static_cast<std::uint32_t>(request.get<RdmapReadRequest, "sink_stag">().value_or(0));
  return read_response(stag, request.get<RdmapReadRequest, "sink_to">().value_or(0) + offset, payload, last);
}

// ---- the bench

IwarpBench::~IwarpBench() {
  if (wished_) device().wish({});
  if (switched_) device().switch_extensions(true);
}

void IwarpBench::without_extensions() {
  if (!lacking(device(), Need::atomics).empty()) return;
  if (!device().switch_extensions) end_case(Verdict::unsupported, "the device has the extensions of RFC 7306");
  device().switch_extensions(false);
  switched_ = true;
}

void IwarpBench::wish(const MpaWishes& wishes) {
  if (!device().wish) end_case(Verdict::unsupported, "the negotiation parameters of this device cannot be set");
  device().wish(wishes);
  wished_ = true;
}

void IwarpBench::resolve(ConnectOptions& options) {
  Environment& row = environment();
  // RFC 5044 requires support of markers, but several implementations reject them. Then no case would have a result.
  if (!device().virtual_time() && !options.markers.is_set())
    row.fix(Parameter::markers, "the device may reject connections with markers");
  options.markers.resolve(row, Parameter::markers, std::array{false, true});
  options.mss.resolve(row, Parameter::mss, std::array<std::uint32_t, 3>{1460, 536, 1200});
  options.send_wr.resolve(row, Parameter::send_queue, std::array<std::uint32_t, 3>{32, 33, 128});
}

Connected& IwarpBench::make(const ConnectOptions& asked) {
  ConnectOptions options = asked;
  resolve(options);
  if (options.wishes) wish(*options.wishes);
  const peer::Device& verbs = *device().device;
  Connected& made = connected_.emplace_back(*this, *this, host_, options);
  made.shared_cq = options.shared_cq;
  if (!options.shared_cq) {
    const peer::CompletionChannel* channel = nullptr;
    if (options.notifies) channel = &channels_.emplace_back(take(verbs.completion_channel(), "a completion channel"));
    made.cq = take(verbs.completion_queue(options.completions, channel), "a completion queue");
  }
  made.region = region(options.region_bytes, options.region_access, options.domain);
  constexpr std::uint32_t receive_wr = 64;
  const std::uint64_t inbox_bytes = std::max<std::uint64_t>(std::uint64_t{receive_wr} * options.receive_bytes, 64);
  made.inbox = take(domain(options.domain).region(inbox_bytes, {"local_write"}), "memory for receive requests");
  made.receive_sges = environment().take(Parameter::receive_sges) == 0 ? 1 : 3;
  made.qp = take(domain(options.domain)
                     .queue_pair({.send_cq = &made.completions(),
                                  .max_send_wr = options.send_wr,
                                  .max_recv_wr = receive_wr,
                                  .max_recv_sge = made.receive_sges}),
                 "a QP");
  take(made.qp.to_init(), "the QP to INIT");
  if (options.receives) made.post_receives(options.receives);
  return made;
}

ByteVector IwarpBench::frame_of(const ConnectOptions& options) {
  const std::string data = (options.enhanced ? enhanced_data(*options.enhanced) : "") + options.private_data;
  const std::uint8_t revision = options.enhanced ? 2 : options.revision;
  return mpa_frame(options.device_initiates ? mpa::reply_key : mpa::request_key, flags_of(options), revision, data);
}

void IwarpBench::listens(Connected& of) {
  of.listener = take(peer::Listener::listen(*device().peer, {.address = to_string(device().address)}),
                     "the device waits for connections");
}

void IwarpBench::dials(Connected& to) {
  const replay::TcpAddress there{device().address, to.listener.port()};
  auto connected = host_.connect(there, {.mss = to.options.mss}, now() + patience().answer);
  if (!connected)
    end_case(connected.error().kind == replay::WireError::Kind::forbidden ? Verdict::unsupported : Verdict::error,
             "TCP could not be connected: " + connected.error().message);
  to.take(std::move(*connected));
  note(fmt::format("TCP is connected to port {} of the device", there.port));
}

void IwarpBench::device_dials(Connected& from) {
  const auto port = host_.listen(0, {.mss = from.options.mss});
  if (!port) end_case(Verdict::error, "the tester could not listen for TCP: " + port.error().message);
  const peer::CmAddress to{.address = to_string(host_.address()), .port = *port, .source = to_string(device().address)};
  from.cm = DeviceBench::take(peer::CmConnection::connect(*device().peer, from.qp, to, parameters_of(from.options)),
                              fmt::format("the device connects to {} port {}", to.address, to.port));
  auto accepted = host_.accept(*port, now() + patience().answer);
  host_.stop_listening(*port);
  if (!accepted) end_case(Verdict::error, "the tester's TCP failed: " + accepted.error().message);
  require(*accepted != nullptr, "TCP connected by the device", "no connection");
  from.take(std::move(*accepted));
}

void IwarpBench::answers(Connected& of) {
  of.setup = of.wait(a_request());
  const View<MpaFrame> asked(of.setup->bytes.data());
  if (asked.get<"enhanced">() != 0 && asked.get<"revision">() >= 2 && !of.options.enhanced) {
    require(of.setup->bytes.size() >= MpaFrame::size + MpaEnhanced::size, "at least four bytes of enhanced data",
            of.setup->text());
    const View<MpaEnhanced> data(of.setup->bytes.data() + MpaFrame::size);
    const bool a = data.get<"peer_to_peer">() != 0;
    of.options.enhanced = Enhanced{.ird = static_cast<std::uint16_t>(data.get<"ord">()),
                                   .ord = static_cast<std::uint16_t>(data.get<"ird">()),
                                   .a = a,
                                   .b = a && data.get<"rtr_send">() != 0,
                                   .c = a && data.get<"rtr_write">() != 0,
                                   .d = a && data.get<"rtr_read">() != 0};
  }
  of.say(frame_of(of.options), "MPA Reply Frame");
}

void IwarpBench::accepts(Connected& of) {
  of.cm = requested(of.listener);
  DeviceBench::take(of.cm.accept(of.qp, parameters_of(of.options)), "the device's application accepts");
}

void IwarpBench::operates(Connected& of) {
  if (!of.setup) of.setup = of.wait(of.options.device_initiates ? a_request() : a_reply());
  const View<MpaFrame> theirs(of.setup->bytes.data());
  if (!of.options.device_initiates) require(theirs.get<"reject">() == 0, "a reply that accepts", of.setup->text());
  const bool crc = of.options.crc || theirs.get<"crc">() != 0;
  of.operate({.markers = theirs.get<"markers">() != 0, .crc = crc}, {.markers = of.options.markers, .crc = crc});
}

void IwarpBench::run_history(Connected& qp) {
  // The first FPDU of a stream with an RTR message is that message. RFC 6581, 9.
  if (qp.options.enhanced && qp.options.enhanced->a) return;
  // A responder sends no FPDU before it has received the first FPDU of the initiator. RFC 5044, 7.1.2.
  if (qp.options.device_initiates) {
    if (environment().use(Parameter::stream_history) != ParameterUse::free)
      environment().fix(Parameter::stream_history, "the device initiates, so it sends the first FPDU");
    return;
  }
  constexpr std::array<int, 3> counts{0, 3, 70};
  const int count = counts[environment().take(Parameter::stream_history)];
  if (count == 0) return;
  note(fmt::format("before the case: {} RDMA Writes of length zero", count));
  for (int i = 0; i < count; ++i) qp >> write(0, 0, {});
  note("the steps of the case begin");
}

Connected& IwarpBench::connect(const ConnectOptions& asked) {
  Connected& made = make(asked);
  ConnectOptions& options = made.options;
  if (options.private_data.empty()) {
    constexpr std::array<std::size_t, 3> bytes{0, 1, 64};
    options.private_data.assign(bytes[environment().take(Parameter::private_data)], 'p');
  } else {
    environment().set_by_case(Parameter::private_data);
  }
  if (options.device_initiates) {
    device_dials(made);
    answers(made);
    operates(made);
  } else {
    listens(made);
    dials(made);
    made.say(frame_of(options), "MPA Request Frame");
    accepts(made);
    operates(made);
  }
  expect_event(made, "established");
  constexpr std::size_t two = 1, tiny = 2;
  const std::size_t segments = environment().take(Parameter::segments);
  if (segments == two) made.set_segment_bytes([](std::size_t bytes) { return bytes / 2 + 1; });
  if (segments == tiny) made.set_segment_bytes([](std::size_t) -> std::size_t { return 7; });
  run_history(made);
  return made;
}

void IwarpBench::pass(std::int64_t nanoseconds) {
  if (const auto passed = host_.pass(now() + nanoseconds); !passed)
    end_case(Verdict::error, "the tester's TCP failed: " + passed.error().message);
}

void IwarpBench::drain(std::int64_t silence) {
  constexpr std::size_t most = 65'536;
  for (Connected& one : connected_) {
    if (!one.connected()) continue;
    try {
      for (std::size_t left = most; left > 0 && one.next(silence); --left) {
      }
    } catch (const CaseEnd&) {
      // A failed stream delivers no further events.
    }
  }
}

}  // namespace rdmawire::conformance::iwarp
