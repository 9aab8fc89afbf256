#pragma once
/// Completion queues with their notifications, and shared receive queues (SRQs).

#include <cstdint>
#include <deque>

#include "conformance/device/roce/work_request.hpp"

namespace rdmawire::device {

/// Requested notification of a completion queue. C11-31, C11-32.
enum class Notify : std::uint8_t { nothing, solicited, next };

struct CompletionQueue {
  std::uint32_t handle = 0;
  std::uint32_t capacity = 0;
  std::uint32_t channel = 0;  ///< handle. 0: none
  Notify armed = Notify::nothing;
  bool overflowed = false;
  std::deque<Completion> entries;
};

/// A completion channel. `notified`: handles of completion queues with an event, in the order of the events.
struct CompletionChannel {
  std::uint32_t handle = 0;
  std::deque<std::uint32_t> notified;
};

struct SharedReceiveQueue {
  std::uint32_t handle = 0;
  std::uint32_t number = 0;  ///< SRQ number in the XRCETH, 24 bits
  std::uint32_t pd = 0;
  std::uint32_t capacity = 0, most_sges = 0;
  std::uint32_t limit = 0;  ///< when fewer requests remain, one event is raised. 0: no event
  std::uint32_t xrcd = 0;   ///< handle of the XRC domain. 0: basic SRQ
  std::uint32_t cq = 0;     ///< completion queue of an XRC SRQ
  std::deque<ReceiveRequest> requests;
};

}  // namespace rdmawire::device
