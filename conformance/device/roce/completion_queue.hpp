#pragma once
/// Completion queues with their notifications, and shared receive queues.

#include <cstdint>
#include <deque>

#include "conformance/device/roce/work_request.hpp"

namespace rdmawire::device {

/// What a completion queue was asked to tell of. C11-31, C11-32.
enum class Notify : std::uint8_t { nothing, solicited, next };

struct CompletionQueue {
  std::uint32_t handle = 0;
  std::uint32_t capacity = 0;
  std::uint32_t channel = 0;  ///< handle; 0: none
  Notify armed = Notify::nothing;
  bool overflowed = false;
  std::deque<Completion> entries;
};

/// Where notifications of completion queues arrive: their handles, in order.
struct CompletionChannel {
  std::uint32_t handle = 0;
  std::deque<std::uint32_t> notified;
};

struct SharedReceiveQueue {
  std::uint32_t handle = 0;
  std::uint32_t number = 0;  ///< 24 bits, of the XRCETH
  std::uint32_t pd = 0;
  std::uint32_t capacity = 0, most_sges = 0;
  std::uint32_t limit = 0;  ///< below so many requests an event is raised, once; 0: none
  std::uint32_t xrcd = 0;   ///< XRC domain; 0: it is no XRC one
  std::uint32_t cq = 0;     ///< of XRC
  std::deque<ReceiveRequest> requests;
};

}  // namespace rdmawire::device
