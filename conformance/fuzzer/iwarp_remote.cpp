/// An iWARP device behind an agent, in real time: steps use verbs, the device's CM, and TCP of the tester.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "conformance/device/roce/names.hpp"
#include "conformance/fuzzer/agent_target.hpp"
#include "conformance/fuzzer/iwarp.hpp"
#include "dissectors/protocol/rdmap.hpp"

namespace rdmawire::fuzzer {

namespace {

using machines::QueuePairState;
using nlohmann::json;
namespace access = device::access;
namespace names = device::names;

constexpr std::int64_t iwarp_answer_time = 40'000'000;  // wait for segments that the reference device has sent
constexpr std::int64_t iwarp_settle_time = 3'000'000;   // wait for other segments
constexpr std::int64_t connect_time = 2'000'000'000;
constexpr auto event_wait = std::chrono::milliseconds(1'000);  // wait for an expected connection request event
constexpr int max_failures = 3;  // consecutive failed connections after which the device counts as lost

class IwarpRemoteTarget final : public AgentTarget {
 public:
  using AgentTarget::AgentTarget;

  [[nodiscard]] Family family() const override { return Family::iwarp; }
  [[nodiscard]] std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const override {
    // Capabilities of Linux's siw.
    constexpr IwarpGeneratorOptions narrow{.settings = stream_settings::no_crc | stream_settings::no_extensions,
                                           .extensions = false,
                                           .verbs = false,
                                           .timing = false};
    return std::make_unique<IwarpReferenceModel>(seed, chance, narrow);
  }
  [[nodiscard]] std::vector<FaultyReference> broken() const override { return broken_endpoint(tolerance()); }
  [[nodiscard]] MinimizeLimits allowance() const override { return {.trials = 60, .seconds = 8, .restarts = 3}; }
  [[nodiscard]] std::size_t steps_per_execution() const override { return 24; }

  std::optional<std::string> start(std::uint64_t /*seed*/) override {
    if (!device_) return "no device";
    for (std::size_t at = 0; at < places_.size(); ++at) destroy(at);
    wait_for_posted();
    tester_.clear();
    return begin();
  }

  void perform(const Step& step, ReferenceModel& model, Outcome& outcome) override {
    auto& made = static_cast<IwarpReferenceModel&>(model);
    const Outcome& expected = made.outcome();
    outcome.clear();
    outcome.states = expected.states;
    if (lost_) return;
    const auto at = static_cast<std::size_t>(step.at);
    Place& place = places_[at];
    const auto segments = tester_.make(step, objects_, made.bases());
    outcome.sent_frames.assign(segments.begin(), segments.end());
    switch (step.kind) {
      case StepKind::connect: connect(step, segments, expected); break;
      case StepKind::setup:
        send(at, segments);
        if (place.cm == 0 && place.tcp) hear_request(at, expected);
        break;
      case StepKind::segment:
        invalidates_ = invalidates_ || rdmap_opcode(static_cast<std::uint8_t>(step.opcode & 15)).invalidate ||
                       !step.mutations.empty();
        send(at, segments);
        break;
      case StepKind::accept: answer(at, true, step); break;
      case StepKind::reject: answer(at, false, step); break;
      case StepKind::fin:
        if (place.tcp) (void)place.tcp->close_half();
        break;
      case StepKind::abort:
        if (place.tcp) place.tcp->reset();
        break;
      case StepKind::disconnect:
        if (place.cm != 0) run_command("cm_disconnect", {{"cm_id", place.cm}});
        break;
      case StepKind::receive: {
        const json request = receive(step);  // also counts requests without a queue pair
        if (place.qp != 0) post_command("post_recv", {{"qp", place.qp}, {"requests", json::array({request})}});
        break;
      }
      case StepKind::post: post(at, step); break;
      case StepKind::destroy: destroy(at); break;
      default: break;
    }
    if (!observe_at_once(step, made, outcome)) observe(step, made, outcome);
    if (step.kind == StepKind::connect) watch(expected);
  }

 private:
  /// A queue pair and its stream.
  struct Place {
    std::uint32_t qp = 0, cm = 0;
    std::unique_ptr<replay::TcpConnection> tcp{};
    bool over = false;   ///< TCP has ended
    bool ended = false;  ///< the application was notified
    bool markers = false;
  };

  /// Observe the device once, without waiting. Returns false if the outcome is not as expected: the device may need
  /// more time.
  bool observe_at_once(const Step& step, IwarpReferenceModel& made, Outcome& outcome) {
    const Outcome& expected = made.outcome();
    const auto at = static_cast<std::size_t>(step.at);
    run_barrier("ping", json::object());
    receive_segments(at, expected, patience_, is_guest() ? 0 : iwarp_settle_time, outcome);
    std::array<std::optional<std::uint64_t>, 2> states{};
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (is_compared(i, expected)) states[i] = send_command("query_qp", {{"qp", places_[i].qp}});
    const auto poll = send_poll();
    memory_->request_checksums(lost_);
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (states[i]) note_state(i, has_ended(i, response_of("query_qp", states[i])), expected, outcome);
    outcome.completions = completions_in(response_of("poll", poll));
    if (!lost_) memory_->look(made.memory(), lost_);
    receive_segments(at, expected, 0, 0, outcome);
    return !lost_ && !made.judge(step, outcome, memory(), tolerance());
  }

  /// Observe the device, and wait for each expected part of the outcome.
  void observe(const Step& step, IwarpReferenceModel& made, Outcome& outcome) {
    const Outcome& expected = made.outcome();
    wait_for_posted();
    receive_segments(static_cast<std::size_t>(step.at), expected, iwarp_answer_time, iwarp_settle_time, outcome);
    query_states(expected, outcome);
    for (const auto& one : completions()) outcome.completions.push_back(one);
    if (!lost_) memory_->look(made.memory(), lost_);
  }

  void forget() override {
    for (Place& place : places_) place = {};
  }

  void make_objects() override {
    const json listens = run_command("cm_listen", {{"port", 0}, {"backlog", 64}});
    listener_ = listens.value("cm_id", 0U);
    port_ = static_cast<std::uint16_t>(listens.value("port", 0U));
  }

  void destroy(std::size_t at) {
    Place& place = places_[at];
    place.tcp.reset();
    if (place.cm != 0) post_command("destroy", {{"object", place.cm}});
    if (place.qp != 0) post_command("destroy", {{"object", place.qp}});
    place = {};
  }

  /// Return the next receive request. Its length is at least one byte, as in the reference model.
  json receive(const Step& step) { return memory_->receive(++received_, std::max<std::int64_t>(step.length, 1)); }

  /// Return the next event that `filter` accepts.
  std::optional<peer::Event> event(const std::function<bool(const peer::Event&)>& filter,
                                   std::chrono::milliseconds within) {
    auto response = device_->device().peer->next_event(within, filter);
    if (!response) {
      lost_ = response.error().message;
      return std::nullopt;
    }
    return std::move(*response);
  }

  void connect(const Step& step, std::span<const std::vector<std::uint8_t>> segments, const Outcome& expected) {
    const auto at = static_cast<std::size_t>(step.at);
    destroy(at);
    // Discard events of earlier connections.
    while (!lost_ && event([](const peer::Event&) { return true; }, std::chrono::milliseconds(0))) {
    }
    Place& place = places_[at];
    place.qp =
        run_command("create_qp", {{"type", "rc"}, {"pd", pd_}, {"send_cq", cq_}, {"recv_cq", cq_}}).value("qp", 0U);
    conformance::DeviceUnderTest& device = device_->device();
    post_command("modify_qp", {{"qp", place.qp},
                               {"state", "init"},
                               {"pkey_index", 0},
                               {"port", device.device->port().number},
                               {"access", names::names_of_bits(names::access, all_rights() & ~access::local_write)}});
    json requests = json::array();
    for (std::int64_t i = 0; i < step.count; ++i) requests.push_back(receive(step));
    if (!requests.empty()) post_command("post_recv", {{"qp", place.qp}, {"requests", requests}});
    place.markers = (step.flags & setup_flags::markers) != 0;
    replay::TcpHost& host = *device.tcp;
    depth_ = {step.depth, step.own_depth};
    if (step.number == 1) {
      const auto port = host.listen(0, {});
      if (!port) return;
      const json response = run_command("cm_connect", {{"qp", place.qp},
                                                       {"address", to_string(host.address())},
                                                       {"source", to_string(device.address)},
                                                       {"port", *port},
                                                       {"responder_resources", step.depth},
                                                       {"initiator_depth", step.own_depth}});
      place.cm = response.value("cm_id", 0U);
      auto accepted = host.accept(*port, host.now() + connect_time);
      host.stop_listening(*port);
      if (accepted && *accepted) place.tcp = std::move(*accepted);
      // The device is the initiator: receive its MPA request before the tester replies.
      if (place.tcp) first_ = place.tcp->receive(host.now() + connect_time).value_or(std::nullopt);
      send(at, segments);
      return;
    }
    auto connected = host.connect({device.address, port_}, {}, host.now() + connect_time);
    if (!connected) return;
    place.tcp = std::move(*connected);
    send(at, segments);
    hear_request(at, expected);
    if (place.cm != 0 && step.state <= 1) answer(at, step.state == 0, step);
  }

  /// Wait for the connection request event if one is expected.
  void hear_request(std::size_t at, const Outcome& expected) {
    const bool request = std::ranges::any_of(expected.connection_events,
                                             [](const std::string& one) { return one.starts_with("request"); });
    const auto response = event(
        [&](const peer::Event& one) {
          return one.name == "cm" && one.body.value("type", "") == "connect_request" &&
                 one.body.value("listener", listener_) == listener_;
        },
        request ? event_wait : std::chrono::milliseconds(2));
    if (response) places_[at].cm = response->body.value("cm_id", 0U);
  }

  void answer(std::size_t at, bool accepts, const Step& /*step*/) {
    Place& place = places_[at];
    if (place.cm == 0) return;
    if (accepts)
      run_command(
          "cm_accept",
          {{"cm_id", place.cm}, {"qp", place.qp}, {"responder_resources", depth_[0]}, {"initiator_depth", depth_[1]}});
    else
      run_command("cm_reject", {{"cm_id", place.cm}});
  }

  void send(std::size_t at, std::span<const std::vector<std::uint8_t>> segments) {
    Place& place = places_[at];
    for (const auto& segment : segments)
      if (place.tcp && !place.over) (void)place.tcp->send(segment);
  }

  void post(std::size_t at, const Step& step) {
    const Place& place = places_[at];
    const auto request = send_request(step);
    if (!request || place.qp == 0) return;
    post_command("post_send", {{"qp", place.qp}, {"requests", json::array({*request})}});
  }

  /// Wait up to `within` for the expected segments, and then `settle` for others. Nanoseconds.
  void receive_segments(std::size_t at, const Outcome& expected, std::int64_t within, std::int64_t settle,
                        Outcome& outcome) {
    replay::TcpHost& host = *device_->device().tcp;
    const bool ends = expected.ends.size() > outcome.ends.size();
    std::size_t due = expected.frames.size() - std::min(expected.frames.size(), outcome.frames.size());
    const std::int64_t until = host.now() + within;
    for (std::size_t which = 0; which < places_.size(); ++which) {
      Place& place = places_[which];
      while (place.tcp && !place.over) {
        std::optional<replay::TcpArrival> arrival;
        if (which == at && first_) {
          arrival = std::move(first_);
          first_.reset();
        } else {
          const bool waits = which == at && (due > 0 || ends);
          auto received = place.tcp->receive(waits ? until : host.now() + (which == at ? settle : 0));
          if (!received) break;
          arrival = std::move(*received);
        }
        if (!arrival) break;
        if (arrival->kind == replay::TcpArrival::Kind::bytes) {
          if (due > 0) --due;
          const std::vector<std::vector<std::uint8_t>> one{arrival->bytes};
          const std::vector<std::uint8_t> stream{static_cast<std::uint8_t>(which)};
          tester_.receive(one, stream, {places_[0].markers, places_[1].markers});
          outcome.frames.push_back(std::move(arrival->bytes));
          outcome.streams.push_back(static_cast<std::uint8_t>(which));
          continue;
        }
        const bool fin = arrival->kind == replay::TcpArrival::Kind::fin;
        outcome.ends.emplace_back(fin ? (which == 0 ? "FIN" : "FIN of the second stream")
                                      : (which == 0 ? "RST" : "RST of the second stream"));
        place.over = true;
      }
    }
  }

  /// Process events about the end of streams.
  void poll_events() {
    while (const auto response =
               event([](const peer::Event& one) { return one.name == "cm"; }, std::chrono::milliseconds(0))) {
      const std::string type = response->body.value("type", "");
      const std::uint32_t cm = response->body.value("cm_id", 0U);
      for (Place& place : places_)
        if (place.cm == cm && cm != 0 && ends_a_stream(type)) place.ended = true;
    }
  }
  static bool ends_a_stream(std::string_view type) {
    return type == "disconnected" || type == "rejected" || type == "failed" || type == "unreachable" ||
           type == "connect_error" || type == "addr_error" || type == "route_error";
  }

  static bool is_end(QueuePairState state) { return state == QueuePairState::err || state == QueuePairState::sqe; }
  /// Return whether to compare the state, which is only done to detect whether the queue pair still operates. Other
  /// states are implementation-defined and may be reported late.
  [[nodiscard]] bool is_compared(std::size_t at, const Outcome& expected) const {
    return places_[at].qp != 0 && (expected.states[at] == QueuePairState::rts || is_end(expected.states[at]));
  }
  /// Return whether a queue pair no longer operates. `response`: to query_qp.
  bool has_ended(std::size_t at, const json& response) {
    const std::string state = response.value("state", "reset");
    poll_events();
    return state == "err" || state == "sqe" || state == "sqd" || places_[at].over || places_[at].ended;
  }
  void note_state(std::size_t at, bool ended, const Outcome& expected, Outcome& outcome) const {
    if (lost_) return;
    const QueuePairState state = expected.states[at];
    outcome.states[at] = ended == is_end(state) ? state : ended ? QueuePairState::err : QueuePairState::rts;
  }

  void query_states(const Outcome& expected, Outcome& outcome) {
    for (std::size_t at = 0; at < places_.size(); ++at) {
      if (!is_compared(at, expected)) continue;
      const auto ended = [&] { return has_ended(at, run_command("query_qp", {{"qp", places_[at].qp}})); };
      bool over = ended();
      // Wait up to 100 ms, because another thread of the device processes the end of a stream.
      for (int tries = 0; is_end(expected.states[at]) && !over && tries < 20 && !lost_; ++tries) {
        (void)device_->device().tcp->pass(device_->device().tcp->now() + 5'000'000);
        over = ended();
      }
      note_state(at, over, expected, outcome);
    }
  }

  /// Reopen a device whose listener no longer accepts connections.
  void watch(const Outcome& expected) {
    const bool fine = std::ranges::any_of(expected.states, [](QueuePairState s) { return s == QueuePairState::rts; });
    const bool there = std::ranges::any_of(places_, [](const Place& place) { return place.tcp != nullptr; });
    if (there) unanswered_ = 0;
    if (!fine || there || ++unanswered_ < max_failures) return;
    unanswered_ = 0;
    lost_ = "the device no longer accepts TCP connections";
  }

  std::uint32_t listener_ = 0;
  std::uint16_t port_ = 0;
  std::array<Place, 2> places_;
  std::array<std::int64_t, 2> depth_{};
  std::optional<replay::TcpArrival> first_;  ///< segment received before the tester's first one
  IwarpTester tester_;
  int unanswered_ = 0;
};

}  // namespace

tl::expected<std::unique_ptr<Target>, conformance::TargetError> iwarp_remote_target(
    Reopen reopen, std::string name, std::unique_ptr<conformance::Target> first) {
  auto target = std::make_unique<IwarpRemoteTarget>(std::move(reopen), std::move(name));
  if (auto opened = target->open(std::move(first)); !opened) return tl::unexpected(opened.error());
  return target;
}

}  // namespace rdmawire::fuzzer
