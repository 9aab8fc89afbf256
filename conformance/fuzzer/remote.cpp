/// A device behind an agent: the same steps by verbs and a wire, in real time.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "conformance/device/names.hpp"
#include "conformance/fuzzer/target.hpp"
#include "conformance/runner/run.hpp"
#include "dissectors/protocol/crc.hpp"

namespace rdmawire::fuzzer {

namespace {

using device::Gid;
using device::GidType;
using device::QpState;
using nlohmann::json;
namespace access = device::access;
namespace names = device::names;

constexpr std::int64_t answer_time = 8'000'000;  // for frames that the reference device has sent
constexpr std::int64_t quiet_time = 1'000'000;   // for what else is on its way when the agent has answered
constexpr auto agent_time = std::chrono::milliseconds(10'000);

/// Regions of the world, as the agent has them: each memory of its own.
struct Place {
  Key key;
  layout::Range range;
  std::uint32_t rights;
  bool elsewhere = false;  ///< in the other protection domain
};
constexpr std::uint32_t all_rights =
    access::local_write | access::remote_write | access::remote_read | access::remote_atomic;
constexpr Place places[] = {
    {Key::everything, layout::everything, all_rights},
    {Key::read_only, layout::read_only, access::remote_read},
    {Key::write_only, layout::write_only, access::local_write | access::remote_write},
    {Key::closed, layout::closed, access::local_write},
    {Key::foreign, layout::foreign, all_rights, true},
    {Key::unknown, layout::receives, access::local_write},  // no key of scripts opens it
};
constexpr std::size_t receives_at = std::size(places) - 1;

Gid gid_of(const std::array<std::uint8_t, 16>& octets) { return {octets}; }

std::vector<std::uint8_t> octets_of(const std::string& hex) {
  std::vector<std::uint8_t> octets(hex.size() / 2);
  const auto digit = [](char c) { return static_cast<std::uint8_t>(c <= '9' ? c - '0' : (c | 32) - 'a' + 10); };
  for (std::size_t i = 0; i < octets.size(); ++i)
    octets[i] = static_cast<std::uint8_t>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  return octets;
}

std::string hex_of(Bytes octets) {
  std::string hex;
  for (const std::uint8_t octet : octets) hex += fmt::format("{:02x}", octet);
  return hex;
}

class RemoteTarget final : public Target {
 public:
  RemoteTarget(Reopen reopen, std::string name) : reopen_(std::move(reopen)), name_(std::move(name)) {}

  tl::expected<void, conformance::TargetError> open() {
    lost_.reset();
    device_.reset();
    auto opened = reopen_();
    if (!opened) return tl::unexpected(opened.error());
    device_ = std::move(*opened);
    if (device_->device().is_iwarp())
      return tl::unexpected(conformance::TargetError{
          true, fmt::format("{}: it is a device of iWARP; the fuzzer speaks RoCE alone until now", name_)});
    make_objects();
    if (lost_) return tl::unexpected(conformance::TargetError{false, *lost_});
    return {};
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Tolerance tolerance() const override { return {.exact = false, .verbs = false}; }
  [[nodiscard]] WalkOptions walk() const override {
    return {
        .verbs = false, .services = false, .requester = false, .other_ways = false, .wait = false, .extensions = false};
  }
  [[nodiscard]] std::size_t affordable_runs() const override { return 200; }
  [[nodiscard]] double affordable_seconds() const override { return 6; }
  [[nodiscard]] std::size_t life() const override { return 40; }
  std::optional<std::string> gone() override {
    if (const auto gone = device_ ? device_->gone() : std::nullopt) return gone->why;
    return lost_;
  }
  std::vector<std::string> complaints() override {
    return device_ ? device_->complaints() : std::vector<std::string>();
  }
  std::optional<std::string> revive() override {
    if (auto opened = open(); !opened) return opened.error().message;
    return std::nullopt;
  }

  std::optional<std::string> start(std::uint64_t /*seed*/) override {
    if (!device_) return "the device is not there";
    for (std::size_t at = 0; at < qps_.size(); ++at) destroy(at);
    drain(0, 0);
    (void)completions();
    received_ = 0;
    maker_->clear();
    arena_.assign(layout::size, 0);
    // As World has it.
    for (std::size_t i = 0; i < arena_.size(); ++i) arena_[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8));
    for (std::size_t i = 0; i < std::size(places); ++i)
      ask("write", {{"mr", regions_[i]}, {"octets", hex_of(part(places[i].range))}});
    return gone();
  }

  void perform(const Made& made, Outcome& outcome) override {
    outcome.clear();
    outcome.states = states_;
    if (lost_) return;
    const auto at = static_cast<std::size_t>(made.step.at);
    switch (made.step.kind) {
      case StepKind::connect: connect(made.step); break;
      case StepKind::receive:
        ask("post_recv", {{"qp", qps_[at]}, {"requests", json::array({next_receive(made.step.length)})}});
        break;
      case StepKind::request:
      case StepKind::answer: {
        maker_->make(made.step, objects_, made.bases, frames_);
        for (const auto& frame : frames_) (void)device_->device().wire->send(frame);
        break;
      }
      default: break;
    }
    // When the agent has answered, the device has seen what was sent before.
    if (qps_[at] != 0) {
      const json told = ask("query_qp", {{"qp", qps_[at]}});
      const std::string state = told.value("state", "reset");
      for (const auto& one : names::qp_state)
        if (one.name == state) states_[at] = static_cast<QpState>(one.value);
    }
    outcome.states = states_;
    outcome.completions = completions();
    look_at_memory(made.memory);
    if (!made.outcome.frames.empty()) drain(made.outcome.frames.size(), answer_time);
    drain(0, quiet_time);
    outcome.frames = std::move(arrived_);
    arrived_.clear();
    // Nothing at all, where something was due: is anybody there?
    if (!made.outcome.frames.empty() && outcome.frames.empty() && ++silent_ % 50 == 0 && !lost_) {
      const auto judged = conformance::sanity(device_->device(), 1);
      if (judged.verdict != conformance::Verdict::pass) lost_ = "a SEND and its acknowledgement do not work any more";
    }
  }
  Bytes memory() override { return lost_ ? Bytes() : Bytes(arena_); }

 private:
  Bytes part(layout::Range range) const { return Bytes(arena_).subspan(range.offset, range.octets); }

  json ask(const char* command, const json& arguments) {
    if (lost_) return json::object();
    auto result = device_->device().peer->call(command, arguments, agent_time);
    if (result) return std::move(*result);
    if (result.error().kind != peer::PeerError::Kind::refused)
      lost_ = fmt::format("{}: {}", command, result.error().message);
    return json::object();
  }

  void make_objects() {
    conformance::DeviceUnderTest& device = device_->device();
    const std::uint64_t handle = device.device->handle();
    pd_ = ask("alloc_pd", {{"device", handle}}).value("pd", 0U);
    other_pd_ = ask("alloc_pd", {{"device", handle}}).value("pd", 0U);
    cq_ = ask("create_cq", {{"device", handle}, {"cqe", 256}}).value("cq", 0U);
    for (std::size_t i = 0; i < objects_.memory.size(); ++i)
      objects_.memory[i] = {static_cast<std::uint32_t>(0x5a5a5a00 + i), 0x1000};
    for (std::size_t i = 0; i < std::size(places); ++i) {
      const Place& place = places[i];
      const json made = ask("register", {{"pd", place.elsewhere ? other_pd_ : pd_},
                                         {"length", place.range.octets},
                                         {"access", names::names_of_bits(names::access, place.rights)}});
      regions_[i] = made.value("mr", 0U);
      if (i != receives_at)
        objects_.memory[static_cast<std::size_t>(place.key)] = {made.value("rkey", 0U),
                                                                made.value("addr", std::uint64_t{0})};
    }
    objects_.memory[static_cast<std::size_t>(Key::unknown)].address =
        objects_.memory[static_cast<std::size_t>(Key::everything)].address;
    qps_ = {};
    states_ = {};
    const conformance::Path& path = device.path;
    device::Port port;
    port.mac = path.tester_mac;
    const Gid own = gid_of(path.tester_address), its = gid_of(path.device_address);
    Gid other = own, elsewhere = its;
    other.octets[15] ^= 1;
    elsewhere.octets[15] ^= 0x55;
    port.gids = {{own, GidType::roce_v2}, {own, GidType::roce_v2}, {own, GidType::roce_v1}, {other, GidType::roce_v2}};
    port.learn(its, path.device_mac);
    port.learn(elsewhere, path.device_mac);
    maker_.emplace(std::move(port), DeviceAddresses{its, elsewhere});
  }

  void destroy(std::size_t at) {
    if (qps_[at] != 0) ask("destroy", {{"object", qps_[at]}});
    qps_[at] = 0;
    states_[at] = QpState::reset;
  }

  void connect(const Step& step) {
    const auto at = static_cast<std::size_t>(step.at);
    destroy(at);
    const json made = ask("create_qp", {{"type", "rc"}, {"pd", pd_}, {"send_cq", cq_}, {"recv_cq", cq_}});
    qps_[at] = made.value("qp", 0U);
    objects_.qpns[at] = made.value("qp_num", 0U);
    const auto rights =
        static_cast<std::uint32_t>(step.rights) & (access::remote_write | access::remote_read | access::remote_atomic);
    conformance::DeviceUnderTest& device = device_->device();
    ask("modify_qp", {{"qp", qps_[at]},
                      {"state", "init"},
                      {"pkey_index", 0},
                      {"port", device.device->port().number},
                      {"access", names::names_of_bits(names::access, rights)}});
    json requests = json::array();
    for (std::int64_t i = 0; i < step.count; ++i) requests.push_back(next_receive(step.length));
    if (!requests.empty()) ask("post_recv", {{"qp", qps_[at]}, {"requests", requests}});
    ask("modify_qp", {{"qp", qps_[at]},
                      {"state", "rtr"},
                      {"path_mtu", 256},
                      {"dest_qp_num", tester_qpn},
                      {"rq_psn", step.psn & 0xffffff},
                      {"max_dest_rd_atomic", step.depth},
                      {"min_rnr_timer", 1},
                      {"ah_attr",
                       {{"grh",
                         {{"dgid", device::gid_text(gid_of(device.path.tester_address))},
                          {"sgid_index", device.gid_index},
                          {"hop_limit", 64}}}}}});
    ask("modify_qp", {{"qp", qps_[at]},
                      {"state", "rts"},
                      {"sq_psn", step.own_psn & 0xffffff},
                      {"timeout", 0},
                      {"retry_cnt", step.retries},
                      {"rnr_retry", step.retries},
                      {"max_rd_atomic", std::max<std::int64_t>(step.depth, 1)}});
  }

  /// In the place and with the number that World gives it.
  json next_receive(std::int64_t octets) {
    constexpr std::uint64_t each = layout::receives.octets / 8;
    const auto length = std::min<std::uint64_t>(static_cast<std::uint64_t>(octets), layout::receives.octets);
    const std::uint64_t place = length > each ? 0 : each * (received_ % 8);
    ++received_;
    json sges = json::array();
    if (length > 0) sges.push_back({{"mr", regions_[receives_at]}, {"offset", place}, {"length", length}});
    return {{"wr_id", 500 + received_}, {"sges", sges}};
  }

  /// Frames until there are so many, or for so long.
  void drain(std::size_t count, std::int64_t within) {
    replay::Wire& wire = *device_->device().wire;
    const std::int64_t until = wire.now() + within;
    while (count == 0 || arrived_.size() < count) {
      auto received = wire.receive(until);
      if (!received || !*received) return;
      arrived_.emplace_back((*received)->frame.begin(), (*received)->frame.end());
    }
  }

  std::vector<device::Completion> completions() {
    std::vector<device::Completion> all;
    const json told = ask("poll", {{"cq", cq_}, {"max", 64}, {"timeout_ms", 0}});
    if (!told.contains("completions")) return all;
    for (const json& one : told["completions"]) {
      device::Completion completion;
      completion.id = one.value("wr_id", std::uint64_t{0});
      completion.status = static_cast<device::Status>(one.value("status_number", 0U));
      completion.octets = one.value("byte_len", 0U);
      for (const auto& opcode : names::completion_opcode)
        if (opcode.name == one.value("opcode", ""))
          completion.opcode = static_cast<device::CompletionOpcode>(opcode.value);
      all.push_back(completion);
    }
    return all;
  }

  /// What differs from the reference device's is read; what does not is the same.
  void look_at_memory(Bytes expected) {
    std::array<std::optional<std::uint64_t>, std::size(places)> numbers{};
    arena_.assign(expected.begin(), expected.end());
    for (std::size_t i = 0; i < std::size(places); ++i)
      if (auto number = device_->device().peer->send("checksum", {{"mr", regions_[i]}})) numbers[i] = *number;
    for (std::size_t i = 0; i < std::size(places); ++i) {
      if (!numbers[i]) continue;
      const layout::Range range = places[i].range;
      const auto told = device_->device().peer->collect(*numbers[i], agent_time);
      if (!told) {
        if (told.error().kind == peer::PeerError::Kind::timeout) device_->device().peer->forget(*numbers[i]);
        lost_ = fmt::format("checksum: {}", told.error().message);
        continue;
      }
      if (told->value("crc32", 0U) == crc32(expected.subspan(range.offset, range.octets))) continue;
      const auto octets = octets_of(ask("read", {{"mr", regions_[i]}}).value("octets", ""));
      if (octets.size() == range.octets)
        std::ranges::copy(octets, arena_.begin() + static_cast<std::ptrdiff_t>(range.offset));
    }
  }

  Reopen reopen_;
  std::string name_;
  std::unique_ptr<conformance::Target> device_;
  std::optional<std::string> lost_;
  std::uint32_t pd_ = 0, other_pd_ = 0, cq_ = 0;
  std::array<std::uint32_t, std::size(places)> regions_{};
  std::array<std::uint32_t, 2> qps_{};
  std::array<QpState, 2> states_{};
  KnownObjects objects_;
  std::optional<FrameMaker> maker_;
  std::vector<std::vector<std::uint8_t>> frames_, arrived_;
  std::vector<std::uint8_t> arena_;
  std::uint32_t received_ = 0;
  std::uint64_t silent_ = 0;
};

}  // namespace

tl::expected<std::unique_ptr<Target>, conformance::TargetError> remote_target(Reopen reopen, std::string name) {
  auto target = std::make_unique<RemoteTarget>(std::move(reopen), std::move(name));
  if (auto opened = target->open(); !opened) return tl::unexpected(opened.error());
  return target;
}

}  // namespace rdmawire::fuzzer
