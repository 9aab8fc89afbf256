#include "conformance/agent/kinds.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include "replay/rpc/events.hpp"

namespace rdmawire::agent {
namespace {

void make_nonblocking(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0) ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

/// Maximum number of events per turn, so that a burst does not delay other work.
constexpr int most_events = 64;

}  // namespace

Device::Device(Session& session, ibv_context* context, bool owned)
    : session_(&session), context_(context), owned_(owned) {
  make_nonblocking(context->async_fd);
  events_ = session.loop().add_descriptor(context->async_fd, POLLIN, [this](short) { read_event(); });
}

Json Device::about() const { return {{"name", ibv_get_device_name(context_->device)}}; }

int Device::release() {
  events_.stop();
  return owned_ ? std::abs(ibv_close_device(context_)) : 0;
}

void Device::read_event() {
  for (int i = 0; i < most_events; ++i) {
    ibv_async_event event{};
    if (ibv_get_async_event(context_, &event) != 0) return;
    const Objects& objects = session_->objects();
    rpc::AsyncEvent report{.type = decltype(report.type)::of(event.event_type), .device = {handle()}};
    const auto tell = [](auto& member, const Object* object) {
      if (object != nullptr) member = {object->handle()};
    };
    switch (event.event_type) {
      case IBV_EVENT_CQ_ERR:
        tell(report.cq, objects.find_if<Cq>([&](const Cq& cq) { return cq.verbs() == event.element.cq; }));
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
      case IBV_EVENT_SQ_DRAINED:
      case IBV_EVENT_PATH_MIG:
      case IBV_EVENT_PATH_MIG_ERR:
      case IBV_EVENT_QP_LAST_WQE_REACHED:
        tell(report.qp, objects.find_if<Qp>([&](const Qp& qp) { return qp.verbs() == event.element.qp; }));
        break;
      case IBV_EVENT_SRQ_ERR:
      case IBV_EVENT_SRQ_LIMIT_REACHED:
        tell(report.srq, objects.find_if<Srq>([&](const Srq& srq) { return srq.verbs() == event.element.srq; }));
        break;
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_LID_CHANGE:
      case IBV_EVENT_PKEY_CHANGE:
      case IBV_EVENT_SM_CHANGE:
      case IBV_EVENT_CLIENT_REREGISTER:
      case IBV_EVENT_GID_CHANGE: report.port = static_cast<std::uint8_t>(event.element.port_num); break;
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_WQ_FATAL: break;
    }
    ibv_ack_async_event(&event);
    session_->push(report);
  }
}

Channel::Channel(Session& session, ibv_comp_channel* channel) : VerbsObject(channel), session_(&session) {
  make_nonblocking(channel->fd);
  events_ = session.loop().add_descriptor(channel->fd, POLLIN, [this](short) { read_event(); });
}

int Channel::release() {
  const int number = VerbsObject::release();
  if (number == 0) events_.stop();
  return number;
}

void Channel::read_event() {
  for (int i = 0; i < most_events; ++i) {
    ibv_cq* which = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(verbs(), &which, &context) != 0) return;
    ibv_ack_cq_events(which, 1);
    const Cq* cq = session_->objects().find_if<Cq>([&](const Cq& candidate) { return candidate.verbs() == which; });
    rpc::CompletionEvent report;
    if (cq != nullptr) report.cq = {cq->handle()};
    session_->push(report);
  }
}

ibv_mw_bind_info bind_info(const Mr* mr, std::optional<std::uint64_t> addr, std::optional<std::uint64_t> length,
                           std::uint64_t access) {
  return {mr != nullptr ? mr->verbs() : nullptr, addr.value_or(mr != nullptr ? mr->iova() : 0),
          length.value_or(mr != nullptr ? mr->length() : 0), static_cast<unsigned>(access)};
}

std::uint8_t* map_memory(std::size_t length) {
  void* memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::uint8_t*>(memory);
}

void unmap_memory(std::uint8_t* memory, std::size_t length) { ::munmap(memory, length); }

Mr::Mr(Session& session, ibv_mr* mr, std::uint8_t* memory, std::size_t length, std::uint64_t iova)
    : session_(&session), mr_(mr), memory_(memory), length_(length), iova_(iova) {
  session.memory += length;
}

Mr::~Mr() { session_->memory -= length_; }

Json Mr::about() const { return {{"length", length_}, {"lkey", mr_->lkey}, {"rkey", mr_->rkey}}; }

int Mr::release() {
  // The memory stays mapped if the region could not be deregistered, because the device may still access it.
  const int number = std::abs(ibv_dereg_mr(mr_));
  if (number == 0) unmap_memory(memory_, length_);
  return number;
}

}  // namespace rdmawire::agent
