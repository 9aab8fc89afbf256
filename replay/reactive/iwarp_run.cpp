#include "replay/reactive/iwarp_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "replay/peer/connection_manager.hpp"
#include "replay/reactive/iwarp_machine.hpp"
#include "replay/reactive/wording.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay::reactive {
namespace {

constexpr std::int64_t a_while = 2'000'000;

/// Contents of an MPA request or reply. RFC 5044, 7.1.1, RFC 6581, 9.
struct SetUp {
  bool markers = false, crc = false, reject = false, enhanced = false;
  ByteVector private_data;  ///< without the enhanced data
  std::uint16_t ird = mpa::no_negotiation, ord = mpa::no_negotiation;

  static std::optional<SetUp> of(Bytes frame) {
    if (frame.size() < MpaFrame::size) return std::nullopt;
    const View<MpaFrame> view(frame.data());
    SetUp parsed;
    parsed.markers = view.get<"markers">() != 0;
    parsed.crc = view.get<"crc">() != 0;
    parsed.reject = view.get<"reject">() != 0;
    parsed.enhanced = view.get<"enhanced">() != 0 && view.get<"revision">() >= 2;
    const std::size_t begin = MpaFrame::size + (parsed.enhanced ? MpaEnhanced::size : 0);
    if (parsed.enhanced && frame.size() >= begin) {
      const View<MpaEnhanced> enhanced(frame.data() + MpaFrame::size);
      parsed.ird = static_cast<std::uint16_t>(enhanced.get<"ird">());
      parsed.ord = static_cast<std::uint16_t>(enhanced.get<"ord">());
    }
    if (frame.size() >= begin)
      parsed.private_data.assign(frame.begin() + static_cast<std::ptrdiff_t>(begin), frame.end());
    return parsed;
  }
};

class StreamPlayer {
 public:
  StreamPlayer(Session& session, LiveEnd& end)
      : session_(session),
        end_(end),
        host_(*session.device.tcp),
        rewriter_(map(session, end)),
        reads_at_once_(end.reads_at_once()) {}

  /// Repeats the agent request until the result is final.
  template <class Attempt>
  auto wait(const Attempt& attempt, const char* what) {
    const std::int64_t until = patience();
    for (;;) {
      // A device in virtual time reports events with its next response.
      static_cast<void>(session_.device.peer->call("ping"));
      auto result = attempt();
      if (result) return result;
      if (result.error().kind != peer::PeerError::Kind::timeout || host_.now() >= until || session_.stopped()) {
        fail(
            fmt::format("waiting for the device's application to be notified of {}: {}", what, result.error().message));
        return result;
      }
      if (auto passed = host_.pass(host_.now() + a_while); !passed) fail(passed.error().message);
      if (!going()) return result;
    }
  }

  void run() {
    if (session_.exchange.mpa->ours_initiates)
      initiate();
    else
      respond();
    if (!going()) return;
    if (auto established =
            wait([&] { return cm_.wait_established(std::chrono::milliseconds(0)); }, "an established stream");
        !established)
      return;
    IwarpMachine machine(session_.exchange, session_.plan, options());
    operate(machine);
    take_passed();
    session_.take(machine.counts(), machine.divergences());
  }

  void close() {
    if (!connection_) return;
    static_cast<void>(connection_->close_half());
    static_cast<void>(host_.pass(host_.now() + a_while));
    take_passed();
  }

  static FlowMap map(const Session& session, const LiveEnd& end) {
    const std::size_t us = static_cast<std::size_t>(session.exchange.side);
    MappedConnection connection;
    connection.name = fmt::format("connection {}", session.exchange.number);
    connection.service = tracking::Service::iwarp;
    add_regions(session.plan, end, connection.ends[1 - us]);
    FlowMap map;
    map.connections.push_back(std::move(connection));
    return map;
  }

 private:
  [[nodiscard]] bool going() { return session_.report.failure.empty() && !session_.stopped(); }
  void fail(const std::string& why) { session_.fail(why); }
  [[nodiscard]] MachineOptions options() const {
    MachineOptions options = session_.options.machine;
    options.reads_at_once = reads_at_once_;
    return options;
  }
  [[nodiscard]] std::int64_t patience() const { return host_.now() + session_.options.machine.step_timeout; }

  /// Connection parameters of the live endpoint, as captured.
  [[nodiscard]] peer::CmParameters parameters(const SetUp& captured) const {
    const auto depth = [&](std::uint16_t asked) {
      return static_cast<std::uint8_t>(std::min<std::uint16_t>(asked, end_.reads_at_once()));
    };
    return {.private_data = captured.private_data,
            .responder_resources = depth(captured.ird),
            .initiator_depth = depth(captured.ord)};
  }

  void initiate() {
    const MpaSetup& mpa = *session_.exchange.mpa;
    const auto reply = SetUp::of(mpa.reply), request = SetUp::of(mpa.request);
    if (!reply || !request) return fail("the captured MPA frames are malformed");
    auto listener = peer::Listener::listen(*session_.device.peer, {.address = to_string(session_.device.address)});
    if (!listener) return fail("listen on the device: " + listener.error().message);
    listener_ = std::move(*listener);
    auto connected = host_.connect({session_.device.address, listener_.port()}, {}, patience());
    if (!connected)
      return fail(fmt::format("connect TCP to {} port {}: {}", to_string(session_.device.address), listener_.port(),
                              connected.error().message));
    connection_ = std::move(*connected);
    if (!say(mpa.request)) return;
    auto asked = wait([&] { return listener_.request(std::chrono::milliseconds(0)); }, "the MPA request");
    if (!asked) return;
    cm_ = std::move(*asked);
    if (auto accepted = cm_.accept(end_.queue_pair(), parameters(*reply)); !accepted)
      return fail("accept the stream on the device: " + accepted.error().message);
    const ByteVector live = setup_frame();
    if (!going()) return;
    const auto live_setup = SetUp::of(live);
    if (live_setup->reject) return fail("the device rejected the stream");
    compare_setup(*reply, *live_setup);
    begin({.markers = live_setup->markers, .crc = live_setup->crc || request->crc}, request->markers, *live_setup);
  }

  void respond() {
    const MpaSetup& mpa = *session_.exchange.mpa;
    const auto reply = SetUp::of(mpa.reply), request = SetUp::of(mpa.request);
    if (!reply || !request) return fail("the captured MPA frames are malformed");
    const auto port = host_.listen(0, {});
    if (!port) return fail("listen for the device's TCP connection: " + port.error().message);
    auto connecting = peer::CmConnection::connect(
        *session_.device.peer, end_.queue_pair(),
        {.address = to_string(host_.address()), .port = *port, .source = to_string(session_.device.address)},
        parameters(*request));
    if (!connecting) return fail("connect from the device: " + connecting.error().message);
    cm_ = std::move(*connecting);
    auto accepted = host_.accept(*port, patience());
    host_.stop_listening(*port);
    if (!accepted) return fail("accept the device's TCP connection: " + accepted.error().message);
    if (!*accepted) return fail("the device did not connect");
    connection_ = std::move(*accepted);
    const ByteVector live = setup_frame();
    if (!going()) return;
    const auto live_setup = SetUp::of(live);
    compare_setup(*request, *live_setup);
    ByteVector answer = mpa.reply;
    if (live_setup->enhanced != reply->enhanced) {
      // An enhanced request requires an enhanced reply, and a basic request a basic reply. RFC 6581, 9.
      session_.note(
          "the MPA revision of the device's request differs from the capture; the reply uses the live revision");
      Frame frame;
      Value<MpaFrame> header;
      header.set<"key">(Bytes(mpa.reply).first(16)).set<"markers">(reply->markers).set<"crc">(reply->crc);
      header.set<"enhanced">(live_setup->enhanced).set<"revision">(View<MpaFrame>(live.data()).get<"revision">());
      HeaderValue value = header;
      ByteVector data;
      if (live_setup->enhanced)
        data.assign(live.begin() + MpaFrame::size, live.begin() + MpaFrame::size + MpaEnhanced::size);
      data.insert(data.end(), reply->private_data.begin(), reply->private_data.end());
      value.set_tail(data);
      frame /= std::move(value);
      answer = frame.encode();
    }
    if (!say(answer)) return;
    begin({.markers = live_setup->markers, .crc = live_setup->crc || reply->crc}, reply->markers, *live_setup);
  }

  /// Notes differences. Each side chooses its framing options, and applications receive the private data.
  void compare_setup(const SetUp& was, const SetUp& is) {
    if (was.markers != is.markers || was.crc != is.crc || was.enhanced != is.enhanced)
      session_.note(fmt::format("MPA: captured markers {}, CRC {}, enhanced {}; live {}, {}, {}", was.markers, was.crc,
                                was.enhanced, is.markers, is.crc, is.enhanced));
    if (was.private_data != is.private_data)
      session_.note(
          fmt::format("MPA: the live private data ({} bytes) differs from the captured private data "
                      "({} bytes)",
                      is.private_data.size(), was.private_data.size()));
  }

  /// `theirs`: the received frame.
  void begin(const MpaSender::Modes& to_device, bool markers_to_us, const SetUp& theirs) {
    if (theirs.enhanced && theirs.ird != mpa::no_negotiation)
      reads_at_once_ = std::clamp<std::uint32_t>(theirs.ird, 1, reads_at_once_);
    sender_.emplace(to_device);
    from_device_ = {.markers = markers_to_us, .crc = to_device.crc};
  }

  bool say(Bytes bytes) {
    auto sent = connection_->send(bytes);
    take_passed();
    if (!sent) fail(sent.error().message);
    return sent.has_value();
  }

  void take_passed() {
    for (const PassedFrame& passed : host_.take_passed()) {
      if (passed.sent)
        session_.sent(passed.frame, passed.time, "sent");
      else
        last_frame_ = session_.received(passed.frame, passed.time);
    }
  }

  /// Appends received data to pending_. Returns false at the end of the stream.
  bool receive(std::int64_t until) {
    auto arrival = connection_->receive(until);
    take_passed();
    if (!arrival) {
      fail(arrival.error().message);
      return false;
    }
    if (!*arrival) return true;
    if ((*arrival)->kind != TcpArrival::Kind::bytes) {
      ended_ = (*arrival)->kind == TcpArrival::Kind::fin ? "FIN" : "reset";
      return false;
    }
    pending_.insert(pending_.end(), (*arrival)->bytes.begin(), (*arrival)->bytes.end());
    return true;
  }

  ByteVector setup_frame() {
    const std::int64_t until = patience();
    for (;;) {
      if (pending_.size() >= MpaFrame::size) {
        const std::size_t whole = MpaFrame::size + View<MpaFrame>(pending_.data()).get<"private_data_length">();
        if (pending_.size() >= whole) {
          ByteVector frame(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
          pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
          return frame;
        }
      }
      if (!receive(std::min(until, host_.now() + a_while)) || host_.now() >= until || session_.stopped()) {
        fail(ended_.empty() ? "no MPA frame received from the device"
                            : fmt::format("the device closed TCP ({}) before its MPA frame", ended_));
        return {};
      }
    }
  }

  /// Handles all complete FPDUs in pending_.
  void listen(IwarpMachine& machine) {
    for (;;) {
      const machines::FpduArrival arrival = machines::judge_fpdu(pending_, position_, from_device_);
      if (arrival.state == machines::FpduArrival::State::more) return;
      if (arrival.state == machines::FpduArrival::State::invalid)
        return fail(
            fmt::format("invalid FPDU at byte {} of the device's stream: its CRC or its markers are "
                        "wrong",
                        position_));
      ByteVector room(arrival.bytes);
      const Bytes fpdu = Bytes(pending_).first(arrival.bytes);
      const Bytes ulpdu = machines::take_ulpdu(fpdu, position_, arrival, from_device_.markers, room);
      const auto segment = DdpSegment::of(ulpdu);
      if (!segment) return fail(fmt::format("malformed DDP segment of {} bytes from the device", ulpdu.size()));
      const StreamActions actions = machine.on_received(*segment, last_frame_, host_.now());
      pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(arrival.bytes));
      position_ += arrival.bytes;
      perform(actions);
      if (!going()) return;
    }
  }

  void perform(const StreamActions& actions) {
    wake_ = actions.wake;
    for (const std::size_t poke : actions.pokes)
      if (auto done = end_.poke(session_.plan.pokes[poke]); !done) return fail(done.error());
    for (const OutgoingMessage& next_packet : actions.outgoing) {
      const Requests& requests = next_packet.answer ? session_.exchange.theirs : session_.exchange.ours;
      const Message& message = requests.messages[next_packet.message];
      std::uint64_t offset = 0;
      for (const CapturedPacket& segment : next_packet.answer ? message.answers : message.packets) {
        ByteVector ulpdu = segment.bytes;
        if (next_packet.answer) {
          aim(ulpdu, next_packet.sink_stag, next_packet.sink_to + offset);
          offset += DdpSegment::of(ulpdu)->payload.size();
        } else {
          rewriter_.rewrite_ulpdu(ulpdu, 0, session_.exchange.side);
        }
        ByteVector fpdu;
        if (!sender_->send(fpdu, ulpdu)) return fail("a DDP segment exceeds the maximum FPDU length");
        if (!say(fpdu)) return;
      }
      if (next_packet.answer) continue;
      if (auto kept = end_.keep_receiving(end_.received().size()); !kept) return fail(kept.error());
    }
    if (auto posted = end_.post(actions.posts); !posted) fail(posted.error());
  }

  void operate(IwarpMachine& machine) {
    constexpr std::int64_t slice = 50'000'000;
    perform(machine.start(host_.now()));
    while (going() && machine.failure().empty() && !machine.done()) {
      listen(machine);
      if (!going() || machine.done()) break;
      if (machine.wants_received()) {
        if (auto polled = end_.poll(); !polled) return fail(polled.error());
        if (auto kept = end_.keep_receiving(received_until()); !kept) return fail(kept.error());
        perform(machine.received(end_.received().size(), host_.now()));
        if (machine.done()) break;
      }
      const std::int64_t patient = machine.wants_received() ? a_while : slice;
      if (!receive(std::min(wake_, host_.now() + patient)) && !ended_.empty()) {
        listen(machine);
        perform(machine.ended(ended_, host_.now()));
        break;
      }
      if (host_.now() >= wake_) perform(machine.on_timer(host_.now()));
    }
    if (!machine.failure().empty()) fail(machine.failure());
    if (going()) drain(machine);
  }

  /// Exclusive end of the local messages that the peer has received.
  [[nodiscard]] std::size_t received_until() const {
    return end_.received().empty() ? 0 : static_cast<std::size_t>(end_.received().rbegin()->first) + 1;
  }

  void drain(const IwarpMachine& machine) {
    const std::int64_t until = patience();
    std::size_t asked = machine.counts().theirs_asked;
    for (const Message& message : session_.exchange.theirs.messages)
      asked -= message.kind == tracking::MessageKind::terminate && asked > 0;
    while (going()) {
      if (auto polled = end_.poll(); !polled) return fail(polled.error());
      if (session_.all_completed(end_, asked)) return;
      if (host_.now() >= until)
        return fail(
            fmt::format("the peer's application has completions for {} of {} sent messages and {} of {} "
                        "received",
                        end_.sent().size(), asked, end_.received().size(), session_.plan.inbox.size()));
      if (!receive(host_.now() + a_while) && !ended_.empty()) {
        if (auto passed = host_.pass(host_.now() + a_while); !passed) return fail(passed.error().message);
      }
    }
  }

  Session& session_;
  LiveEnd& end_;
  TcpHost& host_;
  Rewriter rewriter_;
  peer::Listener listener_;
  peer::CmConnection cm_;
  std::unique_ptr<TcpConnection> connection_;
  std::optional<MpaSender> sender_;
  machines::FpduModes from_device_{};
  ByteVector pending_;
  std::uint64_t position_ = 0;  ///< stream position of pending_[0], in Full Operation Phase
  std::uint64_t last_frame_ = 0;
  std::int64_t wake_ = Wire::forever;
  std::string ended_;
  std::uint32_t reads_at_once_ = 1;
};

}  // namespace

Report play_stream(Session& session) {
  if (!session.device.tcp) return session.failed("the captured connection uses iWARP, but the device does not");
  if (!session.options.faults.rules().empty())
    return session.failed(
        "faults cannot be injected into an iWARP replay, because TCP retransmits lost frames; "
        "use the switch of rdmawire lab");
  auto end = LiveEnd::make(session.device, session.exchange, session.plan);
  if (!end) return session.failed(end.error());
  session.read_counters(false);
  if (auto made = session.record(); !made) return session.failed(made.error());
  static_cast<void>(session.device.tcp->take_passed());  // discards data of earlier connections
  StreamPlayer player(session, *end);
  player.run();
  session.settle_memory(*end);
  player.close();
  return session.finish(*end);
}

}  // namespace rdmawire::replay::reactive
