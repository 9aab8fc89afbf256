// Completion queues and their events.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "replay/wires/fake_verbs/fake_verbs_state.hpp"

namespace fake_verbs {
namespace {

void watch(int epoll, int descriptor, std::uint32_t events, void* whose) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = whose;
  if (epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event) != 0) epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

// Removes the next entry of the queue. Returns false if the queue is empty.
bool take(Queue& queue, Completion& out) {
  if (queue.entries.empty()) return false;
  out = queue.entries.front();
  queue.entries.pop_front();
  if (out.pair) out.pair->released = std::max(out.pair->released, out.released);
  return true;
}

void gather(Queue& queue) {
  for (QueuePair* pair : queue.pairs) {
    send_held(*pair);
    pump(*pair);
  }
}

Queue& queue_of(ibv_cq_ex* cq) { return *static_cast<Queue*>(cq); }

int next_poll(ibv_cq_ex* cq) {
  Queue& queue = queue_of(cq);
  if (!take(queue, queue.current)) return ENOENT;
  cq->status = queue.current.wc.status;
  cq->wr_id = queue.current.wc.wr_id;
  return 0;
}
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask) return EINVAL;
  Context& context = context_of(cq->context);
  if (const int number = scripted("ibv_start_poll")) return number;
  context.mutex.lock();
  gather(queue_of(cq));
  const int number = next_poll(cq);
  if (number) context.mutex.unlock();  // the poll did not start, so ibv_end_poll is not called
  return number;
}
void end_poll(ibv_cq_ex* cq) { context_of(cq->context).mutex.unlock(); }

void destroyed(Queue& queue) {
  if (queue.channel) --queue.channel->refcnt;
  close(queue.event);
  --context_of(queue.context).queues;
  delete &queue;
}

}  // namespace

std::int64_t realtime() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

void complete(Queue& queue, Completion completion) {
  if (queue.entries.size() >= static_cast<std::size_t>(queue.cqe)) {
    queue.overrun = true;
    refuse(0, "completion queue of %d entries overflows", queue.cqe);
    happens(context_of(queue.context), IBV_EVENT_CQ_ERR);
    return;
  }
  queue.entries.push_back(completion);
  if (!queue.armed) return;
  queue.armed = false;
  eventfd_write(queue.event, 1);
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  Queue& queue = fake_verbs::queue_of(cq);
  Context& context = context_of(cq->context);
  if (const int number = scripted("ibv_poll_cq")) return -number;
  const std::lock_guard lock(context.mutex);
  if (queue.overrun) return -1;
  gather(queue);
  int taken = 0;
  for (Completion completion; taken < count && take(queue, completion); ++taken) wc[taken] = completion.wc;
  return taken;
}

int req_notify_cq(ibv_cq* cq, int) {
  Queue& queue = fake_verbs::queue_of(cq);
  Context& context = context_of(cq->context);
  const std::lock_guard lock(context.mutex);
  if (!cq->channel) return refuse(EINVAL, "notification requested for a completion queue without channel");
  queue.armed = true;
  for (QueuePair* pair : queue.pairs)
    if (pair->qp_base.recv_cq == cq && pair->socket >= 0)
      watch(cq->channel->fd, pair->socket, EPOLLIN | EPOLLONESHOT, pair);
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* base, ibv_cq_init_attr_ex* attr) {
  Context& context = context_of(base);
  constexpr auto known = static_cast<std::uint64_t>(IBV_WC_STANDARD_FLAGS) |
                         static_cast<std::uint64_t>(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) |
                         static_cast<std::uint64_t>(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
  int number = scripted("ibv_create_cq");
  if (!number && (attr->cqe == 0 || attr->cqe > 1U << 20))
    number = refuse(EINVAL, "invalid completion queue size %u", attr->cqe);
  if (!number && attr->comp_vector != 0) number = EINVAL;
  if (!number && ((attr->wc_flags & ~known) || (attr->comp_mask & ~1U))) number = EOPNOTSUPP;
  if (!number && (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) &&
      (without("wallclock") || without("times")))
    number = EOPNOTSUPP;
  if (!number && (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) && without("times")) number = EOPNOTSUPP;
  if (number) {
    errno = number;
    return nullptr;
  }
  auto* queue = new Queue();
  queue->context = base;
  queue->channel = attr->channel;
  queue->cq_context = attr->cq_context;
  queue->cqe = static_cast<int>(attr->cqe);
  queue->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (attr->channel) {
    ++attr->channel->refcnt;
    watch(attr->channel->fd, queue->event, EPOLLIN, nullptr);
    static_cast<Channel*>(attr->channel)->waiting.push_back(base_of(*queue));
  }
  queue->start_poll = start_poll;
  queue->next_poll = next_poll;
  queue->end_poll = end_poll;
  queue->read_opcode = [](ibv_cq_ex* cq) { return queue_of(cq).current.wc.opcode; };
  queue->read_vendor_err = [](ibv_cq_ex* cq) { return queue_of(cq).current.wc.vendor_err; };
  queue->read_byte_len = [](ibv_cq_ex* cq) { return queue_of(cq).current.wc.byte_len; };
  queue->read_qp_num = [](ibv_cq_ex* cq) { return queue_of(cq).current.wc.qp_num; };
  queue->read_wc_flags = [](ibv_cq_ex* cq) { return queue_of(cq).current.wc.wc_flags; };
  queue->read_imm_data = [](ibv_cq_ex*) -> __be32 { return 0; };
  queue->read_src_qp = [](ibv_cq_ex*) -> std::uint32_t { return 0; };
  queue->read_slid = [](ibv_cq_ex*) -> std::uint32_t { return 0; };
  queue->read_sl = [](ibv_cq_ex*) -> std::uint8_t { return 0; };
  queue->read_dlid_path_bits = [](ibv_cq_ex*) -> std::uint8_t { return 0; };
  if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
    queue->read_completion_ts = [](ibv_cq_ex* cq) { return static_cast<std::uint64_t>(queue_of(cq).current.time); };
  if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
    queue->read_completion_wallclock_ns = [](ibv_cq_ex* cq) {
      return static_cast<std::uint64_t>(queue_of(cq).current.time);
    };
  ++context.queues;
  return queue;
}

}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* base) {
  if (const int number = scripted("ibv_create_comp_channel")) {
    errno = number;
    return nullptr;
  }
  auto* channel = new Channel();
  channel->context = base;
  channel->fd = epoll_create1(EPOLL_CLOEXEC);
  ++context_of(base).channels;
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (channel->refcnt) return refuse(EBUSY, "channel with %d completion queues is destroyed", channel->refcnt);
  --context_of(channel->context).channels;
  close(channel->fd);
  delete static_cast<Channel*>(channel);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* base, int cqe, void* own, ibv_comp_channel* channel, int vector) {
  if (cqe <= 0) {
    errno = EINVAL;
    return nullptr;
  }
  ibv_cq_init_attr_ex attr{};
  attr.cqe = static_cast<std::uint32_t>(cqe);
  attr.cq_context = own;
  attr.channel = channel;
  attr.comp_vector = static_cast<std::uint32_t>(vector);
  ibv_cq_ex* queue = create_cq_ex(base, &attr);
  return queue ? ibv_cq_ex_to_cq(queue) : nullptr;
}
int ibv_destroy_cq(ibv_cq* cq) {
  Queue& queue = fake_verbs::queue_of(cq);
  if (!queue.pairs.empty()) return refuse(EBUSY, "completion queue with %zu QPs is destroyed", queue.pairs.size());
  if (queue.unacknowledged) return refuse(EBUSY, "%u events were not acknowledged", queue.unacknowledged);
  if (cq->channel) {
    auto& waiting = static_cast<Channel*>(cq->channel)->waiting;
    std::erase(waiting, cq);
  }
  destroyed(queue);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* base, ibv_cq** cq, void** own) {
  auto* channel = static_cast<Channel*>(base);
  Context& context = context_of(base->context);
  for (;;) {
    const bool waits = (fcntl(base->fd, F_GETFL) & O_NONBLOCK) == 0;
    epoll_event event{};
    const int got = epoll_wait(base->fd, &event, 1, waits ? -1 : 0);
    if (got <= 0) {
      if (got == 0) errno = EAGAIN;
      return -1;
    }
    const std::lock_guard lock(context.mutex);
    if (event.data.ptr) pump(*static_cast<QueuePair*>(event.data.ptr));
    for (ibv_cq* candidate : channel->waiting) {
      Queue& queue = fake_verbs::queue_of(candidate);
      eventfd_t count = 0;
      if (eventfd_read(queue.event, &count) != 0) continue;
      ++queue.unacknowledged;
      *cq = candidate;
      *own = candidate->cq_context;
      return 0;
    }
    // No flow matched the frames, so the queue continues to wait.
    if (event.data.ptr) {
      auto* pair = static_cast<QueuePair*>(event.data.ptr);
      if (fake_verbs::queue_of(pair->qp_base.recv_cq).armed) req_notify_cq(pair->qp_base.recv_cq, 0);
    }
  }
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned count) { fake_verbs::queue_of(cq).unacknowledged -= count; }

}  // extern "C"
