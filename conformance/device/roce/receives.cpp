#include "conformance/device/roce/core.hpp"

namespace rdmawire::device {

namespace {

std::deque<ReceiveRequest>* queue_of(Core& core, QueuePair& qp, std::uint32_t srq) {
  if (srq == 0) return &qp.receives;
  SharedReceiveQueue* shared = core.srq(srq);
  return shared ? &shared->requests : nullptr;
}

}  // namespace

const ReceiveRequest* next_receive(Core& core, QueuePair& qp, std::uint32_t srq) {
  const auto* queue = queue_of(core, qp, srq);
  return queue && !queue->empty() ? &queue->front() : nullptr;
}

std::optional<ReceiveRequest> take_receive(Core& core, QueuePair& qp, std::uint32_t srq) {
  auto* queue = queue_of(core, qp, srq);
  if (!queue || queue->empty()) return std::nullopt;
  ReceiveRequest taken = std::move(queue->front());
  queue->pop_front();
  if (SharedReceiveQueue* shared = core.srq(srq);
      srq != 0 && shared->limit != 0 && core.decisions.queue_pairs.is_below_limit(*shared)) {
    shared->limit = 0;  // the event is raised once for each setting of the limit: 10.2.9.1 (clause number not verified)
    core.event(EventType::srq_limit_reached, shared->handle);
  }
  return taken;
}

namespace conforming {

bool is_below_limit(const SharedReceiveQueue& srq) { return srq.requests.size() < srq.limit; }

}  // namespace conforming

}  // namespace rdmawire::device
