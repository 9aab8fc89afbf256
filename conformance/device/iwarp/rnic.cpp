#include "conformance/device/iwarp/rnic.hpp"

#include <algorithm>

namespace rdmawire::endpoint {

void Rnic::set_fault(Fault fault) {
  faults_.set(fault);
  update_decisions();
}

void Rnic::set_blind_faults(std::vector<const IwarpBlindFault*> faults) {
  blind_faults_ = std::move(faults);
  update_decisions();
}

void Rnic::update_decisions() {
  decisions_ = decisions_with(faults_);
  for (const IwarpBlindFault* fault : blind_faults_) fault->add_to(decisions_);
  memory_decisions_ = memory_decisions_with(faults_);
}

void Rnic::clear_faults() {
  faults_.clear();
  blind_faults_.clear();
  decisions_ = {};
  memory_decisions_ = {};
}

device::Result<device::Region*> Rnic::register_region(std::uint32_t pd, std::uint64_t address, std::uint64_t bytes,
                                                      std::uint32_t rights) {
  return memory_.register_region(new_handle(), pd, address, bytes, address, rights);
}

std::uint32_t Rnic::create_cq(std::uint32_t capacity) {
  const std::uint32_t handle = new_handle();
  device::CompletionQueue& cq = cqs_[handle];
  cq.handle = handle;
  cq.capacity = capacity;
  return handle;
}

void Rnic::forget_everything() {
  memory_.clear();
  cqs_.clear();
  notifications_.clear();
  events_.clear();
  failed_ = false;
}

std::vector<device::Completion> Rnic::poll(std::uint32_t cq, std::size_t most) {
  const auto found = cqs_.find(cq);
  if (found == cqs_.end()) return {};
  auto& entries = found->second.entries;
  const auto end = entries.begin() + static_cast<std::ptrdiff_t>(std::min(most, entries.size()));
  std::vector<device::Completion> polled(entries.begin(), end);
  entries.erase(entries.begin(), end);
  return polled;
}

void Rnic::arm(std::uint32_t cq, bool solicited_only) {
  if (const auto found = cqs_.find(cq); found != cqs_.end())
    found->second.armed = solicited_only ? device::Notify::solicited : device::Notify::next;
}

std::optional<std::uint32_t> Rnic::next_notification() {
  if (notifications_.empty()) return std::nullopt;
  const std::uint32_t cq = notifications_.front();
  notifications_.pop_front();
  return cq;
}

std::optional<device::AsyncEvent> Rnic::next_event() {
  if (events_.empty()) return std::nullopt;
  const device::AsyncEvent event = events_.front();
  events_.pop_front();
  return event;
}

bool Rnic::complete(std::uint32_t cq, const device::Completion& completion, bool solicited) {
  const auto found = cqs_.find(cq);
  if (found == cqs_.end()) return true;
  device::CompletionQueue& queue = found->second;
  if (queue.overflowed) return false;
  if (queue.entries.size() >= queue.capacity) {
    decisions_.completions.overflow(*this, queue);
    return false;
  }
  queue.entries.push_back(completion);
  const bool wakes =
      queue.armed == device::Notify::next ||
      (queue.armed == device::Notify::solicited && (solicited || completion.status != device::Status::success));
  if (wakes) {
    queue.armed = device::Notify::nothing;
    notifications_.push_back(cq);
  }
  return true;
}

void Rnic::raise_event(device::EventType type, std::uint32_t object) {
  if (events_.size() < most_events) events_.push_back({type, object});
}

namespace conforming {

void overflow(Rnic& rnic, device::CompletionQueue& queue) {
  queue.overflowed = true;
  rnic.raise_event(device::EventType::cq_error, queue.handle);
}

}  // namespace conforming

}  // namespace rdmawire::endpoint
