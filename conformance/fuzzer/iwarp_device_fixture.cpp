#include "conformance/fuzzer/iwarp_device_fixture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/fuzzer/frames.hpp"

namespace rdmawire::fuzzer {

namespace access = device::access;
using device::WorkOpcode;
using endpoint::ConnectionEvent;
using endpoint::Endpoint;
using machines::QueuePairState;

namespace {

constexpr std::uint32_t iwarp_all_rights =
    access::local_write | access::remote_write | access::remote_read | access::remote_atomic | access::mw_bind;
constexpr std::int64_t iwarp_usual_pause = 20'000;
constexpr std::uint32_t iwarp_max_wakes = 64, max_takes = 256;  // limits per step
constexpr std::uint16_t most_ird = 8;

std::uint16_t depth_of(std::int64_t value) { return static_cast<std::uint16_t>(low(value) & 0xffU); }

/// Return the QP state as reported by endpoint::Adapter.
QueuePairState state_of(const Endpoint* endpoint) {
  using machines::StreamState;
  if (!endpoint) return QueuePairState::reset;
  if (endpoint->ended()) return QueuePairState::err;
  if (!machines::takes_fpdus(endpoint->phase())) return QueuePairState::init;
  switch (endpoint->stream()) {
    case StreamState::operating: return QueuePairState::rts;
    case StreamState::peer_closed: return QueuePairState::rtr;
    case StreamState::closing: return QueuePairState::sqd;
    case StreamState::terminating: return QueuePairState::sqe;
    default: return QueuePairState::err;
  }
}

std::string text_of(const ConnectionEvent& event) {
  using Type = ConnectionEvent::Type;
  switch (event.type) {
    case Type::request:
      return fmt::format("request, revision {}, {} bytes of private data, IRD {}, ORD {}", event.revision,
                         event.private_data.size(), event.ird, event.ord);
    case Type::established:
      return fmt::format("established, {} bytes of private data, IRD {}, ORD {}", event.private_data.size(), event.ird,
                         event.ord);
    case Type::rejected: return fmt::format("rejected, {} bytes of private data", event.private_data.size());
    case Type::failed: return "MPA negotiation failed";
    case Type::peer_closed: return "peer closed";
    case Type::error:
    case Type::terminated:
      return fmt::format("{}, layer {}, type {}, code {}", event.type == Type::error ? "error" : "terminated",
                         event.error.layer, event.error.type, event.error.code);
    case Type::disconnected: return "disconnected";
  }
  return {};
}

machines::MpaSettings settings_of(const Step& step, std::int64_t service) {
  const auto has = [&](std::int64_t bit) { return (service & bit) != 0; };
  machines::MpaSettings mpa{.revision = static_cast<std::uint8_t>(has(stream_settings::revision_1) ? 1 : 2)};
  mpa.markers = has(stream_settings::markers);
  mpa.crc = !has(stream_settings::no_crc);
  mpa.enhanced = !has(stream_settings::not_enhanced);
  mpa.peer_to_peer = has(stream_settings::peer_to_peer);
  mpa.rdmac = has(stream_settings::rdmac);
  if (has(stream_settings::rtr_write_only)) mpa.rtr = {.write = true};
  if (has(stream_settings::rtr_send_only)) mpa.rtr = {.send = true};
  mpa.ird = depth_of(step.depth);
  mpa.ord = depth_of(step.own_depth);
  mpa.most_ird = most_ird;
  return mpa;
}

}  // namespace

IwarpDeviceFixture::IwarpDeviceFixture(std::uint64_t seed, const endpoint::Faults& faults,
                                       std::optional<std::int64_t> settings)
    : rnic_({.seed = seed}), settings_(settings) {
  if (faults.any())
    for (std::size_t i = 0; i < endpoint::fault_count; ++i)
      if (const auto fault = static_cast<endpoint::Fault>(i); faults[fault]) rnic_.set_fault(fault);
  pd_ = rnic_.alloc_pd();
  other_pd_ = rnic_.alloc_pd();
  cq_ = rnic_.create_cq(1024);
  device::Memory& memory = rnic_.memory();
  memory_.buffer = *memory.allocate(layout::size);
  fill_memory(memory.at(memory_.buffer, layout::size));
  memory_.register_regions(
      iwarp_all_rights, [&](layout::Range range, std::uint32_t rights, bool foreign) -> const device::Region& {
        return **rnic_.register_region(foreign ? other_pd_ : pd_, memory_.buffer + range.offset, range.bytes, rights);
      });
  memory_.regions[5] = (*memory.allocate_region(rnic_.new_handle(), pd_, layout::fast.bytes))->handle;
  for (std::size_t i = 0; i < memory_.windows.size(); ++i)
    memory_.windows[i] = (*memory.allocate_window(rnic_.new_handle(), pd_, i == 2 ? 1 : 2))->handle;
  objects_.memory[static_cast<std::size_t>(Key::unknown)] = {0x5a5a5a5a, memory_.buffer + layout::everything.offset};
  update_objects();
}

void IwarpDeviceFixture::update_objects() {
  memory_.tell(
      objects_, [&](std::uint32_t handle) { return rnic_.memory().region(handle); },
      [&](std::uint32_t handle) { return rnic_.memory().window(handle); });
}

StreamBases IwarpDeviceFixture::bases(std::int64_t at) const {
  StreamBases bases;
  const Endpoint* of = endpoint(at);
  bases.msn.fill(1);
  if (!of) return bases;
  bases.operating = machines::takes_fpdus(of->phase());
  bases.device_initiated = initiates_[static_cast<std::size_t>(at)];
  for (std::size_t i = 0; i < bases.msn.size(); ++i) {
    bases.msn[i] = of->ddp().queues[i].expected.value();
    bases.mo[i] = of->ddp().queues[i].placed;
  }
  bases.version = of->agreement().version;
  bases.markers = of->agreement().receive_markers;
  bases.crc = of->agreement().crc;
  bases.device_markers = of->agreement().send_markers;
  return bases;
}

void IwarpDeviceFixture::receive(std::int64_t at, std::int64_t bytes, Outcome& outcome) {
  // Agents' devices get receive requests of at least one byte, so use the same length here.
  if (settings_) bytes = std::max<std::int64_t>(bytes, 1);
  const device::Sge place = memory_.receive(received_++, bytes);
  auto& endpoint = endpoints_[static_cast<std::size_t>(at)];
  if (!endpoint) return outcome.results.push_back(EINVAL);
  device::ReceiveRequest request{.id = 500 + received_};
  if (place.length > 0) request.sges = {place};
  tell(outcome, endpoint->post_receive(std::move(request)));
}

void IwarpDeviceFixture::connect(const Step& step, std::span<const std::vector<std::uint8_t>> segments,
                                 Outcome& outcome) {
  const auto at = static_cast<std::size_t>(step.at);
  if (endpoints_[at]) {
    endpoints_[at]->lost(now_);
    settle(at, outcome);
    rnic_.memory().unbind_windows_of(endpoints_[at]->number());
  }
  const bool small = (step.queues & 1) != 0;
  if (small) {
    if (small_cq_ != 0) rnic_.destroy_cq(small_cq_);
    small_cq_ = rnic_.create_cq(3);
  }
  const std::int64_t service = settings_.value_or(step.service);
  rnic_.set_extensions((service & stream_settings::no_extensions) == 0);
  endpoint::EndpointOptions options{.pd = pd_, .send_cq = cq_, .receive_cq = small ? small_cq_ : cq_};
  options.mpa = settings_of(step, service);
  endpoints_[at] = std::make_unique<Endpoint>(rnic_, options);
  initiates_[at] = step.number == 1;
  for (std::int64_t i = 0; i < step.count; ++i) receive(step.at, step.length, outcome);
  Endpoint& endpoint = *endpoints_[at];
  tell(outcome, initiates_[at] ? endpoint.connect({}, now_) : endpoint.await(now_));
  settle(at, outcome);
  for (const auto& segment : segments) {
    endpoint.received(segment, now_);
    settle(at, outcome);
  }
  if (endpoint.phase() != machines::MpaPhase::awaits_consumer || step.state > 1) return;
  tell(outcome, step.state == 0 ? endpoint.accept({}) : endpoint.reject({}));
}

void IwarpDeviceFixture::post(const Step& step, Outcome& outcome) {
  auto& endpoint = endpoints_[static_cast<std::size_t>(step.at)];
  if (!endpoint) return outcome.results.push_back(EINVAL);
  device::SendRequest request = FixtureMemory::remote_work(step, ++last_id_);
  const std::uint32_t length = low(step.length);
  const bool atomic = request.opcode == WorkOpcode::compare_swap || request.opcode == WorkOpcode::fetch_add;
  if (length != 0 || atomic || request.opcode == WorkOpcode::read)
    request.sges = {memory_.local(step, atomic ? 8U : length)};
  request.immediate_data = static_cast<std::uint64_t>(step.immediate);
  request.swap_add_mask = static_cast<std::uint64_t>(step.mask);
  request.compare_mask = static_cast<std::uint64_t>(step.compare_mask);
  tell(outcome, endpoint->post_send(std::move(request)));
}

void IwarpDeviceFixture::post_work(const Step& step, Outcome& outcome) {
  auto& endpoint = endpoints_[static_cast<std::size_t>(step.at)];
  if (!endpoint) return outcome.results.push_back(EINVAL);
  device::SendRequest request = memory_.local_work(step, ++last_id_, objects_);
  tell(outcome, endpoint->post_send(std::move(request)));
}

/// Collect all data that the endpoint sends on a stream, or about `most` bytes of it.
void IwarpDeviceFixture::settle(std::size_t at, Outcome& outcome, std::size_t most) {
  Endpoint* endpoint = endpoints_[at].get();
  if (!endpoint) return;
  for (std::uint32_t i = 0; i < max_takes; ++i) {
    endpoint::Output output = most != 0 ? endpoint->take(now_, most) : endpoint->take(now_);
    if (output.empty()) break;
    if (most != 0) i = max_takes;
    for (auto& segment : output.segments) {
      outcome.frames.push_back(std::move(segment));
      streams_.push_back(static_cast<std::uint8_t>(at));
    }
    if (output.fin) outcome.ends.push_back(at == 0 ? "FIN" : "FIN of the second stream");
    if (output.reset) outcome.ends.push_back(at == 0 ? "RST" : "RST of the second stream");
  }
  while (const auto event = endpoint->next_event()) outcome.connection_events.push_back(text_of(*event));
}

void IwarpDeviceFixture::run(std::int64_t nanoseconds, Outcome& outcome) {
  const std::int64_t until = now_ + nanoseconds;
  for (std::size_t at = 0; at < endpoints_.size(); ++at) settle(at, outcome);
  for (std::uint32_t i = 0; i < iwarp_max_wakes; ++i) {
    std::int64_t next = endpoint::never;
    for (const auto& one : endpoints_)
      if (one) next = std::min(next, one->wakes());
    if (next > until) break;
    now_ = std::max(now_, next);
    for (std::size_t at = 0; at < endpoints_.size(); ++at)
      if (endpoints_[at] && endpoints_[at]->wakes() <= now_) {
        endpoints_[at]->woken(now_);
        settle(at, outcome);
      }
  }
  now_ = until;
}

void IwarpDeviceFixture::drain(Outcome& outcome) {
  outcome.completions = rnic_.poll(cq_);
  while (const auto event = rnic_.next_event()) outcome.events.push_back(*event);
  while (rnic_.next_notification()) ++outcome.notified;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    outcome.states[i] = state_of(endpoints_[i].get());
    outcome.receives[i] = endpoints_[i] ? static_cast<std::uint32_t>(endpoints_[i]->receives()) : 0;
  }
}

void IwarpDeviceFixture::perform(const Step& step, std::span<const std::vector<std::uint8_t>> segments,
                                 Outcome& outcome) {
  outcome.clear();
  streams_.clear();
  const auto at = static_cast<std::size_t>(step.at);
  Endpoint* endpoint = endpoints_[at].get();
  std::int64_t pause = iwarp_usual_pause;
  const auto refused = [&] { outcome.results.push_back(EINVAL); };
  switch (step.kind) {
    case StepKind::connect: connect(step, segments, outcome); break;
    case StepKind::setup:
    case StepKind::segment:
      if (!endpoint) break;
      for (const auto& segment : segments) {
        endpoint->received(segment, now_);
        if (step.nanoseconds != 1) settle(at, outcome);
      }
      break;
    case StepKind::accept: endpoint ? tell(outcome, endpoint->accept({})) : refused(); break;
    case StepKind::reject: endpoint ? tell(outcome, endpoint->reject({})) : refused(); break;
    case StepKind::fin:
      if (endpoint) endpoint->peer_closed(now_);
      break;
    case StepKind::abort:
      if (endpoint) endpoint->lost(now_);
      break;
    case StepKind::disconnect:
      if (!endpoint) break;
      if ((step.flags & 1) != 0)
        endpoint->fail_locally();
      else
        endpoint->disconnect();
      break;
    case StepKind::receive: receive(step.at, step.length, outcome); break;
    case StepKind::post: post(step, outcome); break;
    case StepKind::wait: pause = step.nanoseconds; break;
    case StepKind::notify: rnic_.arm(cq_, (step.flags & 1) != 0); break;
    case StepKind::bind:
    case StepKind::fast_register:
    case StepKind::invalidate: post_work(step, outcome); break;
    case StepKind::deregister:
      tell(outcome,
           rnic_.memory().deregister(memory_.regions[static_cast<std::size_t>(std::min<std::int64_t>(step.key, 5))]));
      break;
    case StepKind::destroy:
      if (!endpoint) break;
      endpoint->lost(now_);
      settle(at, outcome);
      rnic_.memory().unbind_windows_of(endpoint->number());
      endpoints_[at].reset();
      break;
    default: refused(); break;
  }
  // Without a pause after this step, the endpoint's data is still pending at the next one.
  if (step.kind == StepKind::wait && step.length > 0)
    settle(at, outcome, static_cast<std::size_t>(step.length));
  else if (step.kind != StepKind::wait && step.nanoseconds == 1)
    ++now_;
  else
    run(pause, outcome);
  drain(outcome);
  update_objects();
}

}  // namespace rdmawire::fuzzer
