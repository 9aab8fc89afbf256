/// A RoCE device behind an agent, in real time: steps use verbs and a wire.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "conformance/device/roce/cm_messages.hpp"
#include "conformance/device/roce/names.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"
#include "conformance/fuzzer/agent_target.hpp"
#include "conformance/fuzzer/iwarp.hpp"
#include "conformance/fuzzer/layout.hpp"
#include "conformance/fuzzer/remote_connections.hpp"
#include "conformance/fuzzer/roce.hpp"
#include "conformance/fuzzer/target.hpp"
#include "conformance/runner/run.hpp"
#include "conformance/runner/transfer.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::fuzzer {

namespace {

using device::Gid;
using device::GidType;
using device::QpState;
using device::QpType;
using nlohmann::json;
namespace access = device::access;
namespace names = device::names;

constexpr std::int64_t answer_time = 40'000'000;    // wait for frames that the reference device has sent
constexpr std::int64_t message_time = 400'000'000;  // wait for CM messages, which kernel threads send
constexpr std::int64_t settle_time = 1'000'000;     // wait for other frames after the agent's response

constexpr auto completion_time = std::chrono::milliseconds(40);  // for expected completions
constexpr std::size_t most_recent = 8;
constexpr std::size_t type_1 = 2;  // index of the type 1 window. The others are type 2 windows

Gid gid_of(const std::array<std::uint8_t, 16>& bytes) { return {bytes}; }

class RemoteTarget final : public AgentTarget {
 public:
  using AgentTarget::AgentTarget;

  [[nodiscard]] std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const override {
    const GeneratorOptions narrow{.verbs = false,
                                  .windows = has_windows(),
                                  .xrc = false,
                                  .other_ways = false,
                                  .wait = false,
                                  .extensions = false,
                                  .connections = connections_ && connections_->offered(),
                                  .mixed = false};
    return std::make_unique<RoceReferenceModel>(seed, chance, narrow);
  }
  [[nodiscard]] std::vector<FaultyReference> broken() const override { return broken_reference(tolerance()); }
  [[nodiscard]] MinimizeLimits allowance() const override {
    return {.trials = 200, .seconds = 6, .restarts = 12, .restart_seconds = 180};
  }
  [[nodiscard]] std::size_t steps_per_execution() const override { return 40; }
  [[nodiscard]] bool diverged() const override { return diverged_; }

  std::optional<std::string> start(std::uint64_t /*seed*/) override {
    if (!device_) return "no device";
    finish();
    drain(0, 0);
    arrived_.clear();
    recent_.clear();
    maker_->clear();
    diverged_ = false;
    unread_ = false;
    managed_ = loose_ = false;
    drawn_ = {};
    for (std::size_t number = 0; number < windows_.size(); ++number)
      if (!windows_[number].is_unused()) make_window(number);
    auto gone = begin();
    name_windows();
    return gone;
  }

  void finish() override {
    if (!device_ || lost_) return;
    for (std::size_t at = 0; at < qps_.size(); ++at) destroy(at);
    wait_for_posted();
    if (connections_) connections_->finish();
  }

  void perform(const Step& step, ReferenceModel& model, Outcome& outcome) override {
    auto& made = static_cast<RoceReferenceModel&>(model);
    const Outcome& expected = made.outcome();
    outcome.clear();
    outcome.states = states_;
    if (lost_) return;
    if (is_of_connections(step.kind) && !connections_->offered()) diverged_ = true;  // for a device with a CM
    if (diverged_) {  // performs no more steps and reports no alarm
      unread_ = true;
      outcome = expected;
      return;
    }
    const auto at = static_cast<std::size_t>(step.at);
    // CM events of a connection whose queue pair is destroyed are implementation-defined.
    const bool replaces_connection = step.kind == StepKind::connect && connections_ && connections_->has(at);
    frames_.clear();
    switch (step.kind) {
      case StepKind::connect: connect(step); break;
      case StepKind::receive: {
        const json request = memory_->receive(++received_, step.length);
        post_command("post_recv", {{"qp", qps_[at]}, {"requests", json::array({request})}});
        break;
      }
      case StepKind::request:
      case StepKind::answer:
        invalidates_ =
            invalidates_ || opcode(static_cast<std::uint8_t>(step.opcode)).invalidate || changes_opcode(step);
        say(step, made);
        outcome.sent_frames = frames_;
        break;
      case StepKind::cm:
        say(own_names(step, made), made);
        outcome.sent_frames = frames_;
        RemoteConnections::count_message(step, objects_.connections[at]);
        break;
      case StepKind::cm_connect:
      case StepKind::cm_accept:
        destroy(at);
        create(at, QpType::rc);
        [[fallthrough]];
      case StepKind::cm_reject:
      case StepKind::cm_disconnect:
        if (connections_) connections_->perform(step, qps_[at], objects_.connections[at]);
        if (step.kind == StepKind::cm_accept) post_receives(at, step);
        break;
      case StepKind::post: post(step); break;
      case StepKind::bind: bind(step); break;
      case StepKind::invalidate: invalidate(step); break;
      default: break;
    }
    managed_ = managed_ || is_of_connections(step.kind);
    loose_ = loose_ || (step.kind == StepKind::cm && step.mutated);
    if (managed_ || !observe_at_once(step, made, outcome)) observe(step, made, outcome);
    if (loose_) shield(made.memory());
    if (loose_ && step.kind == StepKind::cm && step.mutated && !lost_ && !connections_->answers(objects_, arrived_))
      lost_ = "the device's CM no longer responds to connection requests";
    if (managed_) outcome.drawn.assign(drawn_.begin(), drawn_.end());
    outcome.frames = std::exchange(arrived_, {});
    if (loose_) {
      outcome.unjudged = true;
      return;
    }
    if (is_implementation_defined(step, expected, outcome)) {
      diverged_ = unread_ = true;
      outcome = expected;
    } else if (has_credits(step) || !sent_same_psns(expected, outcome) || replaces_connection) {
      diverged_ = true;
    }
    // If all expected frames are missing, check now and then that the device still operates.
    if (!expected.frames.empty() && outcome.frames.empty() && ++unanswered_ % 50 == 0 && !lost_) {
      const auto judged = conformance::sanity(device_->device(), 1);
      if (judged.verdict != conformance::Verdict::pass) lost_ = "the device no longer acknowledges a SEND";
    }
  }
  Bytes memory() override {
    if (unread_) return {};
    return loose_ && !lost_ ? Bytes(shielded_) : AgentTarget::memory();
  }

 private:
  /// Observe the device once, without waiting. Returns false if the outcome is not as expected or lacks a request: the
  /// device may need more time.
  bool observe_at_once(const Step& step, RoceReferenceModel& made, Outcome& outcome) {
    const Outcome& expected = made.outcome();
    const auto at = static_cast<std::size_t>(step.at);
    if (!is_guest()) drain(0, settle_time);
    if (qps_[at] != 0)
      note_state(at, run_barrier("query_qp", {{"qp", qps_[at]}}));
    else
      run_barrier("ping", json::object());
    if (!expected.frames.empty()) drain(expected.frames.size(), patience_);
    const bool other = frames_.size() > 1 && qps_[1 - at] != 0;
    const auto poll = send_poll();
    const auto state = other ? send_command("query_qp", {{"qp", qps_[1 - at]}}) : std::nullopt;
    memory_->request_checksums(lost_);
    outcome.completions = completions_in(response_of("poll", poll));
    if (state) note_state(1 - at, response_of("query_qp", state));
    outcome.states = states_;
    note_completions(outcome);
    if (!lost_) memory_->look(made.memory(), lost_);
    drain(0, 0);
    outcome.frames = arrived_;
    return !lost_ && sent_same_psns(expected, outcome) &&
           !fuzzer::judge(step, expected, made.memory(), outcome, memory(), tolerance());
  }

  /// Observe the device, and wait for each expected part of the outcome.
  void observe(const Step& step, RoceReferenceModel& made, Outcome& outcome) {
    const Outcome& expected = made.outcome();
    const auto at = static_cast<std::size_t>(step.at);
    wait_for_posted();
    if (!expected.frames.empty() && !loose_) drain(expected.frames.size(), answer_time);
    drain(0, settle_time);
    if (is_of_connections(step.kind)) process_messages(step, expected);
    query_state(at);
    if (frames_.size() > 1) query_state(1 - at);  // one of several frames may be a delayed one to the other queue pair
    if (managed_) wait_for_states(expected);
    outcome.states = states_;
    const std::size_t due = loose_ ? 0 : due_completions(expected), done = due_completions(outcome);
    for (const auto& one : completions(due - std::min(due, done), completion_time)) outcome.completions.push_back(one);
    note_completions(outcome);
    if (!lost_) memory_->look(made.memory(), lost_);
    drain(0, settle_time);
  }

  void note_completions(const Outcome& outcome) {
    update_windows(outcome);
    for (const device::Completion& one : outcome.completions)
      if (is_datagram(one)) memory_->expect_network_header(one.id, recent_);
  }

  void forget() override {
    qps_ = {};
    states_ = {};
    windows_ = {};
    connections_.reset();
  }

  void make_objects() override {
    name_windows();
    const conformance::DeviceUnderTest& device = device_->device();
    const conformance::Path& path = device.path;
    ah_ =
        run_command("create_ah", {{"pd", pd_}, {"port", device.device->port().number}, {"grh", grh()}}).value("ah", 0U);
    device::Port port;
    port.mac = path.tester_mac;
    const Gid own = gid_of(path.tester_address), its = gid_of(path.device_address);
    Gid other = own, elsewhere = its;
    other.bytes[15] ^= 1;
    elsewhere.bytes[15] ^= 0x55;
    port.gids = {{own, GidType::roce_v2}, {own, GidType::roce_v2}, {own, GidType::roce_v1}, {other, GidType::roce_v2}};
    port.learn(its, path.device_mac);
    port.learn(elsewhere, path.device_mac);
    maker_.emplace(std::move(port), DeviceAddresses{its, elsewhere});
    const auto run = [this](const char* command, const json& arguments) { return run_command(command, arguments); };
    connections_.emplace(RemoteConnections::Reach{*device.peer, *device.wire, *maker_, path.tester_address, run},
                         objects_);
  }

  /// Send the frames of a step.
  void say(const Step& step, const RoceReferenceModel& made) {
    Bases bases = made.bases();
    bases.drawn = drawn_[static_cast<std::size_t>(step.at)].beyond;
    maker_->make(step, objects_, bases, frames_);
    for (const auto& frame : frames_) {
      (void)device_->device().wire->send(frame);
      if (recent_.size() == most_recent) recent_.erase(recent_.begin());
      recent_.push_back(frame);
    }
  }

  /// Return the step with the device's QP number instead of the reference device's. DREQ and LAP contain it, and Linux
  /// checks it.
  [[nodiscard]] Step own_names(Step step, const RoceReferenceModel& made) const {
    const auto at = static_cast<std::size_t>(step.at);
    const bool names_it = step.opcode == device::cm_attribute::dreq || step.opcode == device::cm_attribute::lap;
    if (names_it && (!step.mutated || step.immediate == made.objects().qpns[at])) step.immediate = objects_.qpns[at];
    return step;
  }

  /// Return the REQ or REP in these frames, which contains the connection parameters.
  static std::optional<CmMessage> set_up_in(std::span<const std::vector<std::uint8_t>> frames) {
    for (const auto& frame : frames)
      if (const auto message = cm_message_in(frame); message && message->local_qpn != 0) return message;
    return std::nullopt;
  }

  /// Receive frames until all expected CM messages have arrived or the time is over.
  void process_messages(const Step& step, const Outcome& expected) {
    const std::size_t due = messages_among(expected.frames).size();
    replay::Wire& wire = *device_->device().wire;
    const std::int64_t until = wire.now() + (loose_ ? answer_time : message_time);
    while (messages_among(arrived_).size() < due) {
      auto received = wire.receive(until);
      if (!received || !*received) break;
      arrived_.emplace_back((*received)->frame.begin(), (*received)->frame.end());
    }
    connections_->receive_frames(arrived_, objects_);
    const auto own = set_up_in(arrived_), reference = set_up_in(expected.frames);
    if (!own || !reference) return;
    const auto at = static_cast<std::size_t>(step.at);
    drawn_[at] = {tester_queue_pair(objects_.connections[at].tester_id, at),
                  (own->starting_psn - reference->starting_psn) & 0xffffffU};
    // If the path MTU differs from the reference device's, so do the lengths of First, Middle and Last packets.
    loose_ = loose_ || own->path_mtu != reference->path_mtu;
  }

  /// Wait for the expected states, because a kernel changes states asynchronously. RTS is accepted instead of RTR.
  void wait_for_states(const Outcome& expected) {
    const auto works = [](QpState state) {
      return state == QpState::init || state == QpState::rtr || state == QpState::rts;
    };
    for (std::size_t at = 0; at < states_.size(); ++at) {
      for (int i = 0; i < 20 && !loose_ && works(states_[at]) != works(expected.states[at]); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        query_state(at);
      }
      if (works(states_[at]) == works(expected.states[at])) states_[at] = expected.states[at];
    }
  }

  /// Replace writable memory by the expected bytes before the comparison. Connections that only the device has may have
  /// changed it.
  void shield(Bytes expected) {
    const Bytes bytes = AgentTarget::memory();
    shielded_.assign(bytes.begin(), bytes.end());
    if (shielded_.size() != expected.size()) return;
    for (const layout::Range& range : layout::writable)
      std::ranges::copy(expected.subspan(range.offset, range.bytes),
                        shielded_.begin() + static_cast<std::ptrdiff_t>(range.offset));
  }

  /// Path to the tester.
  [[nodiscard]] json grh() const {
    const conformance::DeviceUnderTest& device = device_->device();
    return {{"dgid", device::gid_text(gid_of(device.path.tester_address))},
            {"sgid_index", device.gid_index},
            {"hop_limit", 64}};
  }

  /// A memory window. While a type 2 window exists, the queue pair that bound it cannot be destroyed.
  struct Window {
    std::uint32_t handle = 0, key = 0;
    std::uint64_t request = 0;   ///< pending bind request
    std::uint32_t next_key = 0;  ///< key after that request
    std::size_t by = 0;          ///< index of the queue pair that binds it
    bool bound = false;

    [[nodiscard]] bool is_unused() const { return !bound && request == 0; }
  };

  void make_window(std::size_t number) {
    if (windows_[number].handle != 0) post_command("destroy", {{"object", windows_[number].handle}});
    const json made = run_command("alloc_mw", {{"pd", pd_}, {"type", number == type_1 ? 1 : 2}});
    windows_[number] = {.handle = made.value("mw", 0U), .key = made.value("rkey", 0U)};
    name_windows();
  }

  /// Store the keys of the windows and the address of their memory in objects_.
  void name_windows() {
    for (std::size_t number = 0; number < windows_.size(); ++number)
      if (windows_[number].handle != 0)
        objects_.memory[static_cast<std::size_t>(Key::window) + number] = {
            windows_[number].key, objects_.memory[static_cast<std::size_t>(Key::everything)].address};
  }

  [[nodiscard]] bool has_windows() const {
    return std::ranges::all_of(windows_, [](const Window& window) { return window.handle != 0; });
  }
  [[nodiscard]] std::uint32_t all_rights() override {
    for (std::size_t number = 0; number < windows_.size(); ++number)
      if (windows_[number].handle == 0) make_window(number);
    return AgentTarget::all_rights() | (has_windows() ? access::mw_bind : 0);
  }

  void bind(const Step& step) {
    const auto number = static_cast<std::size_t>(std::clamp<std::int64_t>(step.number, 0, 2));
    const std::uint32_t qp = qps_[static_cast<std::size_t>(step.at)];
    Window& window = windows_[number];
    ++posted_;
    if (qp == 0 || window.handle == 0) return;
    const auto address = objects_.memory[static_cast<std::size_t>(Key::everything)].address;
    json what = {{"mw", window.handle},
                 {"mr", memory_->handle(static_cast<Key>(step.key))},
                 {"addr", address + static_cast<std::uint64_t>(step.offset)},
                 {"length", step.length},
                 {"access", names::names_of_bits(names::access, static_cast<std::uint32_t>(step.rights))},
                 {"wr_id", posted_},
                 {"flags", json::array({"signaled"})}};
    window.request = posted_;
    window.by = static_cast<std::size_t>(step.at);
    if (number == type_1) {
      what["qp"] = qp;
      window.next_key = run_command("bind_mw", what).value("rkey", window.key);
      return;
    }
    window.next_key = (window.key & ~0xffU) | (static_cast<std::uint32_t>(step.immediate) & 0xffU);
    if (window.next_key == window.key) window.next_key ^= 1;  // the key must differ from the previous one
    what["opcode"] = "bind_mw";
    what["new_rkey"] = window.next_key;
    post_command("post_send", {{"qp", qp}, {"requests", json::array({what})}});
  }

  void invalidate(const Step& step) {
    ++posted_;
    const std::uint32_t qp = qps_[static_cast<std::size_t>(step.at)];
    if (qp == 0) return;
    const json what = {{"opcode", "local_inv"},
                       {"wr_id", posted_},
                       {"invalidate_rkey", objects_.memory[static_cast<std::size_t>(step.key)].key},
                       {"flags", json::array({"signaled"})}};
    post_command("post_send", {{"qp", qp}, {"requests", json::array({what})}});
  }

  /// Update the key after a successful bind.
  void update_windows(const Outcome& outcome) {
    for (Window& window : windows_) {
      const auto done = std::ranges::find_if(outcome.completions, [&](const device::Completion& one) {
        return window.request != 0 && one.id == window.request;
      });
      if (done == outcome.completions.end()) continue;
      window.request = 0;
      window.bound = true;  // assumed even if flushed: rxe may have executed the bind
      if (done->status == device::Status::success) window.key = window.next_key;
    }
    name_windows();
  }

  void destroy(std::size_t at) {
    // Replace windows that this QP has bound, because they prevent its destruction.
    for (std::size_t number = 0; number < windows_.size(); ++number)
      if (!windows_[number].is_unused() && windows_[number].by == at && number != type_1) make_window(number);
    if (qps_[at] != 0) post_command("destroy", {{"object", qps_[at]}});
    qps_[at] = 0;
    states_[at] = QpState::reset;
  }

  void create(std::size_t at, QpType type) {
    services_[at] = type;
    const json made =
        run_command("create_qp", {{"type", names::name_of(names::qp_type, static_cast<std::uint64_t>(type))},
                                  {"pd", pd_},
                                  {"send_cq", cq_},
                                  {"recv_cq", cq_}});
    qps_[at] = made.value("qp", 0U);
    objects_.qpns[at] = made.value("qp_num", 0U);
  }

  void post_receives(std::size_t at, const Step& step) {
    json requests = json::array();
    for (std::int64_t i = 0; i < step.count; ++i) requests.push_back(memory_->receive(++received_, step.length));
    if (!requests.empty()) post_command("post_recv", {{"qp", qps_[at]}, {"requests", requests}});
  }

  void connect(const Step& step) {
    const auto at = static_cast<std::size_t>(step.at);
    destroy(at);
    drawn_[at] = {};
    const auto type =
        static_cast<QpType>(std::clamp<std::int64_t>(step.service, 0, static_cast<std::int64_t>(QpType::ud)));
    create(at, type);
    const auto rights =
        static_cast<std::uint32_t>(step.rights) & (access::remote_write | access::remote_read | access::remote_atomic);
    json init = {
        {"qp", qps_[at]}, {"state", "init"}, {"pkey_index", 0}, {"port", device_->device().device->port().number}};
    if (type == QpType::ud)
      init["qkey"] = usual_qkey;
    else
      init["access"] = names::names_of_bits(names::access, rights);
    post_command("modify_qp", init);
    post_receives(at, step);
    json rtr = {{"qp", qps_[at]}, {"state", "rtr"}};
    json rts = {{"qp", qps_[at]}, {"state", "rts"}, {"sq_psn", step.own_psn & 0xffffff}};
    if (type != QpType::ud) {
      rtr["path_mtu"] = 256;
      rtr["dest_qp_num"] = tester_qpn;
      rtr["rq_psn"] = step.psn & 0xffffff;
      rtr["ah_attr"] = {{"grh", grh()}};
    }
    if (type == QpType::rc) {
      rtr["max_dest_rd_atomic"] = step.depth;
      rtr["min_rnr_timer"] = 1;
      rts["timeout"] = 0;
      rts["retry_cnt"] = step.retries;
      rts["rnr_retry"] = step.retries;
      rts["max_rd_atomic"] = std::max<std::int64_t>(step.depth, 1);
    }
    post_command("modify_qp", rtr);
    post_command("modify_qp", rts);
  }

  void post(const Step& step) {
    const auto at = static_cast<std::size_t>(step.at);
    auto request = send_request(step);
    if (!request || qps_[at] == 0) return;
    if (services_[at] == QpType::ud) {
      (*request)["ah"] = ah_;
      (*request)["remote_qpn"] = tester_qpn;
      (*request)["remote_qkey"] = (step.flags & 8) != 0 ? privileged_qkey : usual_qkey;
    }
    post_command("post_send", {{"qp", qps_[at]}, {"requests", json::array({*request})}});
  }

  [[nodiscard]] bool is_datagram(const device::Completion& one) const {
    const auto at = std::ranges::find(objects_.qpns, one.qpn);
    return at != objects_.qpns.end() && services_[static_cast<std::size_t>(at - objects_.qpns.begin())] == QpType::ud &&
           one.status == device::Status::success && one.opcode == device::CompletionOpcode::receive;
  }

  /// Query the state. The agent's response implies that the device has processed the earlier frames.
  void query_state(std::size_t at) {
    if (qps_[at] == 0) return;
    note_state(at, run_command("query_qp", {{"qp", qps_[at]}}));
  }
  void note_state(std::size_t at, const json& response) {
    const std::string state = response.value("state", "reset");
    for (const auto& one : names::qp_state)
      if (one.name == state) states_[at] = static_cast<QpState>(one.value);
  }

  /// Return the number of expected completions, except flushed ones, whose time is implementation-defined.
  static std::size_t due_completions(const Outcome& expected) {
    return static_cast<std::size_t>(std::ranges::count_if(
        expected.completions, [](const auto& one) { return one.status != device::Status::flushed; }));
  }

  /// True if a mutation may change the opcode.
  static bool changes_opcode(const Step& step) {
    return std::ranges::any_of(step.mutations, [](const Mutation& one) { return one.header == &info<Bth>; });
  }

  /// Receive frames until there are `count`, or until the time is over.
  void drain(std::size_t count, std::int64_t within) {
    replay::Wire& wire = *device_->device().wire;
    const std::int64_t until = wire.now() + within;
    while (count == 0 || arrived_.size() < count) {
      auto received = wire.receive(until);
      if (!received || !*received) return;
      arrived_.emplace_back((*received)->frame.begin(), (*received)->frame.end());
    }
  }

  std::array<std::uint32_t, 2> qps_{};
  std::array<QpState, 2> states_{};
  std::array<QpType, 2> services_{};
  std::array<Window, 3> windows_{};
  std::uint32_t ah_ = 0;  ///< address handle of the tester
  std::optional<FrameMaker> maker_;
  std::vector<std::vector<std::uint8_t>> frames_, arrived_;
  std::vector<std::vector<std::uint8_t>> recent_;  ///< frames sent last
  std::uint64_t unanswered_ = 0;
  bool diverged_ = false;  ///< the device made a permitted choice that differs from the reference device's
  bool unread_ = false;    ///< true: memory is no longer read and compared
  std::optional<RemoteConnections> connections_;
  std::array<Outcome::Drawn, 2> drawn_{};  ///< differences of starting PSNs that the device's CM chose
  bool managed_ = false;                   ///< the communication manager was used in this script
  bool loose_ = false;  ///< after a mutated CM message: check only that the device responds and that protected memory
                        ///< is unchanged
  std::vector<std::uint8_t>
      shielded_;  ///< memory of the device in write-protected ranges, otherwise of the reference model
};

}  // namespace

tl::expected<std::unique_ptr<Target>, conformance::TargetError> remote_target(Reopen reopen, std::string name) {
  auto first = reopen();
  if (!first) return tl::unexpected(first.error());
  if ((*first)->device().is_iwarp()) return iwarp_remote_target(std::move(reopen), std::move(name), std::move(*first));
  auto target = std::make_unique<RemoteTarget>(std::move(reopen), std::move(name));
  if (auto opened = target->open(std::move(*first)); !opened) return tl::unexpected(opened.error());
  return target;
}

}  // namespace rdmawire::fuzzer
