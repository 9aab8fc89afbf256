#include "conformance/fuzzer/agent_target.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/device/roce/names.hpp"
#include "conformance/fuzzer/frames.hpp"

namespace rdmawire::fuzzer {

using nlohmann::json;
namespace access = device::access;
namespace names = device::names;

namespace {
constexpr auto response_time = std::chrono::milliseconds(10'000);
}

tl::expected<void, conformance::TargetError> AgentTarget::open(std::unique_ptr<conformance::Target> first) {
  lost_.reset();
  patience_ = most_patience;
  forget();
  device_.reset();
  if (!first) {
    auto opened = reopen_();
    if (!opened) return tl::unexpected(opened.error());
    first = std::move(*opened);
  }
  device_ = std::move(first);
  conformance::DeviceUnderTest& device = device_->device();
  const std::uint64_t handle = device.device->handle();
  memory_.emplace(*device.peer);
  pd_ = run_command("alloc_pd", {{"device", handle}}).value("pd", 0U);
  other_pd_ = run_command("alloc_pd", {{"device", handle}}).value("pd", 0U);
  cq_ = run_command("create_cq", {{"device", handle}, {"cqe", 256}}).value("cq", 0U);
  make_memory();
  make_objects();
  if (lost_) return tl::unexpected(conformance::TargetError{false, *lost_});
  return {};
}

void AgentTarget::make_memory() {
  memory_->make(pd_, other_pd_, all_rights(), objects_, lost_);
  invalidates_ = false;
}

std::uint32_t AgentTarget::all_rights() {
  return access::local_write | access::remote_write | access::remote_read | access::remote_atomic;
}

std::optional<std::string> AgentTarget::gone() {
  if (const auto gone = device_ ? device_->gone() : std::nullopt) return gone->why;
  return lost_;
}

std::vector<std::string> AgentTarget::complaints() {
  return device_ ? device_->complaints() : std::vector<std::string>();
}

std::optional<std::string> AgentTarget::revive() {
  if (auto opened = open(); !opened) return opened.error().message;
  return std::nullopt;
}

std::optional<std::string> AgentTarget::begin() {
  const auto poll = send_poll();
  received_ = 0;
  posted_ = 0;
  // If the previous script invalidated a key, register new regions.
  if (invalidates_) make_memory();
  if (!lost_) memory_->fill(lost_);
  (void)response_of("poll", poll);
  return gone();
}

std::optional<std::uint64_t> AgentTarget::send_command(const char* command, const json& arguments) {
  if (lost_) return std::nullopt;
  auto number = device_->device().peer->send(command, arguments);
  if (number) return *number;
  lost_ = fmt::format("{}: {}", command, number.error().message);
  return std::nullopt;
}

json AgentTarget::response_of(const char* command, std::optional<std::uint64_t> number) {
  if (!number) return json::object();
  peer::Peer& peer = *device_->device().peer;
  auto response = peer.collect(*number, response_time);
  if (response) return std::move(*response);
  if (response.error().kind == peer::PeerError::Kind::timeout) peer.forget(*number);
  if (response.error().kind != peer::PeerError::Kind::refused && !lost_)
    lost_ = fmt::format("{}: {}", command, response.error().message);
  return json::object();
}

json AgentTarget::run_barrier(const char* command, const json& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  json response = run_command(command, arguments);
  const std::chrono::nanoseconds latency = std::chrono::steady_clock::now() - begin;
  patience_ = std::clamp(std::max<std::int64_t>(2 * latency.count(), patience_ * 7 / 8), least_patience, most_patience);
  wait_for_posted();
  return response;
}

std::optional<std::uint64_t> AgentTarget::send_poll() {
  return send_command("poll", {{"cq", cq_}, {"max", 64}, {"timeout_ms", 0}});
}

std::vector<device::Completion> AgentTarget::completions(std::size_t least, std::chrono::milliseconds within) {
  json arguments = {{"cq", cq_}, {"max", 64}, {"timeout_ms", least == 0 ? 0 : within.count()}};
  if (least > 0) arguments["min"] = std::min<std::size_t>(least, 64);
  return completions_in(run_command("poll", arguments));
}

std::vector<device::Completion> AgentTarget::completions_in(const json& response) {
  std::vector<device::Completion> all;
  if (!response.contains("completions")) return all;
  for (const json& one : response["completions"]) {
    device::Completion completion;
    completion.id = one.value("wr_id", std::uint64_t{0});
    completion.status = static_cast<device::Status>(one.value("status_number", 0U));
    completion.bytes = one.value("byte_len", 0U);
    if (const auto opcode = rpc::number_of(rpc::names::wc_opcode, one.value("opcode", "")))
      completion.opcode = static_cast<device::CompletionOpcode>(*opcode);
    completion.qpn = one.value("qp_num", 0U);
    completion.has_immediate = one.contains("imm");
    completion.immediate = one.value("imm", 0U);
    all.push_back(completion);
  }
  return all;
}

std::optional<json> AgentTarget::send_request(const Step& step) {
  using device::WorkOpcode;
  ++posted_;
  const char* opcode = nullptr;
  for (const auto& known : names::opcode)
    if (known.value == static_cast<std::uint64_t>(step.opcode)) opcode = known.name.data();
  if (!opcode) return std::nullopt;
  const auto operation = static_cast<WorkOpcode>(step.opcode);
  json request = {{"opcode", opcode}, {"wr_id", posted_}, {"sges", json::array()}};
  const bool atomic = operation == WorkOpcode::compare_swap || operation == WorkOpcode::fetch_add;
  if (operation != WorkOpcode::send && operation != WorkOpcode::send_imm && operation != WorkOpcode::send_inv) {
    request["remote_addr"] = tester_address;
    request["rkey"] = tester_key;
  }
  if (atomic || step.length > 0)
    request["sges"].push_back(memory_->local(step.offset & 0x7ff, atomic ? 8 : step.length));
  if (operation == WorkOpcode::send_imm || operation == WorkOpcode::write_imm)
    request["imm"] = static_cast<std::uint32_t>(step.immediate);
  if (operation == WorkOpcode::compare_swap) {
    request["compare"] = static_cast<std::uint64_t>(step.compare);
    request["swap"] = static_cast<std::uint64_t>(step.value);
  }
  if (operation == WorkOpcode::fetch_add) request["add"] = static_cast<std::uint64_t>(step.value);
  json flags = json::array();
  if ((step.flags & 1) != 0) flags.push_back("solicited");
  if ((step.flags & 2) != 0) flags.push_back("fence");
  if ((step.flags & 4) == 0) flags.push_back("signaled");
  request["flags"] = flags;
  return request;
}

}  // namespace rdmawire::fuzzer
