#include "conformance/fuzzer/remote_connections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "conformance/device/roce/cm_messages.hpp"

namespace rdmawire::fuzzer {

using nlohmann::json;
using namespace std::chrono_literals;
namespace cm = device::cm_attribute;

namespace {

constexpr auto event_time = 400ms;
constexpr std::int64_t probe_time = 1'000'000'000, glance = 5'000'000;
constexpr int probes = 3;
constexpr std::size_t most_older = 64;

std::string ipv4_text(const std::array<std::uint8_t, 16>& gid) {
  return fmt::format("{}.{}.{}.{}", gid[12], gid[13], gid[14], gid[15]);
}

}  // namespace

RemoteConnections::RemoteConnections(Reach reach, KnownObjects& objects) : reach_(std::move(reach)) {
  listener_ = reach_.run_command("cm_listen", {{"port", cm_port}}).value("cm_id", 0U);
  // A kernel remembers closed connections for some time. Random IDs avoid conflicts with earlier sessions.
  const std::uint32_t base = std::random_device{}() & 0x3fff'ffffU;
  for (std::size_t i = 0; i < objects.connections.size(); ++i)
    objects.connections[i] = {.tester_id = base | static_cast<std::uint32_t>(i << 30),
                              .fresh_queue_pairs = true,
                              .timeout = KnownConnection::patient};
  probe_id_ = (base ^ 1U << 21) | 3U << 30;  // differs from all others, like the QP numbers derived from it
}

void RemoteConnections::end(std::uint32_t& handle) {
  if (handle != 0) reach_.run_command("destroy", {{"object", handle}});
  handle = 0;
}

void RemoteConnections::finish() {
  process_events(0ms, [] { return false; });
  for (std::uint32_t& handle : older_) end(handle);
  older_.clear();
  for (std::uint32_t& handle : handles_) end(handle);
}

void RemoteConnections::count_message(const Step& step, KnownConnection& known) {
  if (step.kind != StepKind::cm || step.opcode != cm::req || step.number != 0) return;
  ++known.tester_id;
  known.device_id = 0;
}

bool RemoteConnections::process_events(std::chrono::milliseconds within, const std::function<bool()>& enough) {
  const auto until = peer::Deadline::Clock::now() + within;
  const auto is_of_cm = [](const peer::Event& event) { return event.name == "cm"; };
  while (!enough()) {
    const auto event = reach_.peer.next_event(peer::Deadline(until), is_of_cm);
    if (!event || !*event) return enough();
    const json& body = (*event)->body;
    if (body.value("type", "") != "connect_request") continue;
    const auto handle = body.value("cm_id", 0U), qpn = body.value("qp_num", 0U);
    if (qpn == tester_queue_pair(probe_id_, 0)) {
      end(probe_);
      probe_ = handle;
      continue;
    }
    std::uint32_t& place = handles_[qpn & 1U];
    if (place != 0) older_.push_back(place);
    place = handle;
    if (older_.size() > most_older) {  // many REQs
      end(older_.front());
      older_.erase(older_.begin());
    }
  }
  return true;
}

std::uint32_t RemoteConnections::request_of(std::size_t at) {
  reach_.run_command("ping", json::object());
  process_events(0ms, [] { return false; });  // get pending events, so that the newest request is used
  process_events(event_time, [&] { return handles_[at] != 0; });
  return handles_[at];
}

void RemoteConnections::perform(const Step& step, std::uint32_t qp, KnownConnection& known) {
  const auto at = static_cast<std::size_t>(step.at);
  const std::int64_t retries = step.retries & 7;
  switch (step.kind) {
    case StepKind::cm_connect: {
      if (handles_[at] != 0) older_.push_back(handles_[at]);
      ++known.tester_id;
      known.device_id = 0;
      handles_[at] = reach_
                         .run_command("cm_connect", {{"address", ipv4_text(reach_.tester_address)},
                                                     {"port", cm_port},
                                                     {"qp", qp},
                                                     {"retry_count", retries},
                                                     {"rnr_retry_count", retries}})
                         .value("cm_id", 0U);
      break;
    }
    case StepKind::cm_accept:
      reach_.run_command("cm_accept", {{"cm_id", request_of(at)},
                                       {"qp", qp},
                                       {"rnr_retry_count", retries},
                                       {"answer_disconnect", step.number == 0}});
      break;
    case StepKind::cm_reject: reach_.run_command("cm_reject", {{"cm_id", request_of(at)}}); break;
    case StepKind::cm_disconnect:
      if (handles_[at] != 0) reach_.run_command("cm_disconnect", {{"cm_id", handles_[at]}});
      break;
    default: break;
  }
}

void RemoteConnections::receive_frames(std::span<const std::vector<std::uint8_t>> frames, KnownObjects& objects) const {
  for (const auto& frame : frames) {
    const auto message = cm_message_in(frame);
    if (!message || message->local_id == 0) continue;
    for (std::size_t at = 0; at < objects.connections.size(); ++at) {
      const bool is_for_tester = message->attribute == cm::req
                                     ? message->local_qpn == objects.qpns[at]
                                     : message->remote_id == objects.connections[at].tester_id;
      if (is_for_tester) objects.connections[at].device_id = message->local_id;
    }
  }
}

bool RemoteConnections::answers(const KnownObjects& objects, std::vector<std::vector<std::uint8_t>>& frames) {
  KnownObjects own = objects;
  for (int i = 0; i < probes; ++i) {
    own.connections[0] = {.tester_id = probe_id_, .fresh_queue_pairs = true, .timeout = KnownConnection::patient};
    const Step request{.kind = StepKind::cm, .opcode = cm::req, .own_psn = 1, .depth = 1, .timeout = 6, .retries = 1};
    const auto frame = reach_.maker.plain(request, own, {});
    ++probe_id_;
    (void)reach_.wire.send(frame);
    const std::int64_t until = reach_.wire.now() + probe_time;
    bool requested = false;
    while (!requested && reach_.wire.now() < until) {
      const auto received = reach_.wire.receive(reach_.wire.now() + glance);
      if (!received) break;
      if (*received) frames.emplace_back((*received)->frame.begin(), (*received)->frame.end());
      reach_.run_command("ping", json::object());  // pending events arrive before its response
      requested = process_events(0ms, [&] { return probe_ != 0; });
    }
    if (!requested) continue;
    reach_.run_command("cm_reject", {{"cm_id", probe_}});
    end(probe_);
    return true;
  }
  return false;
}

}  // namespace rdmawire::fuzzer
