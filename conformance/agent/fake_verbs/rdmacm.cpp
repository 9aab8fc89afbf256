#include "conformance/agent/fake_verbs/rdmacm.hpp"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "conformance/agent/fake_verbs/world.hpp"

namespace rdmawire::agent::fake_verbs {
namespace {

struct Id;
struct Event {
  rdma_cm_event event{};  // first member, so that both have the same address
  std::vector<std::uint8_t> data;
  Id* of = nullptr;
};
struct Channel {
  rdma_event_channel channel{};
  std::deque<Event*> events;
  std::size_t ids = 0;
};
struct Id {
  rdma_cm_id id{};
  Channel* channel = nullptr;
  Id* peer = nullptr;
  bool listens = false, connected = false;
  std::size_t backlog = 0, pending = 0;
  Id* listener = nullptr;  // for a request that was neither accepted nor rejected
  std::uint32_t qp_num = 0;
  unsigned unacknowledged = 0;
};

struct {
  std::set<Id*> ids;
  std::set<Channel*> channels;
  unsigned calls = 0, fail_at = 0;
  int fail_number = 0;
  bool iwarp = false;
  std::uint16_t next_port = 40'000;
} cm;

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr, "fake_verbs of librdmacm: %s\n", what);
  std::abort();
}

Id* ours(rdma_cm_id* id) {
  const auto found = std::find_if(cm.ids.begin(), cm.ids.end(), [&](const Id* one) { return &one->id == id; });
  if (found == cm.ids.end()) misuse("use of a nonexistent id");
  return *found;
}
Channel* ours(rdma_event_channel* channel) {
  const auto found = std::find_if(cm.channels.begin(), cm.channels.end(),
                                  [&](const Channel* one) { return &one->channel == channel; });
  if (found == cm.channels.end()) misuse("use of a nonexistent channel");
  return *found;
}

bool fails() {
  if (++cm.calls != cm.fail_at) return false;
  errno = cm.fail_number;
  return true;
}
int refuse(int number) {
  errno = number;
  return -1;
}

Event* tell(Id* id, rdma_cm_event_type type, int status = 0, const void* data = nullptr, std::size_t length = 0) {
  auto* event = new Event;
  event->event.event = type;
  event->event.id = &id->id;
  event->event.status = status;
  event->of = id;
  if (length > 0) {
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    event->data.assign(bytes, bytes + length);
  }
  event->event.param.conn.private_data = event->data.empty() ? nullptr : event->data.data();
  event->event.param.conn.private_data_len = static_cast<std::uint8_t>(event->data.size());
  id->channel->events.push_back(event);
  eventfd_write(id->channel->channel.fd, 1);
  return event;
}

void forget_event(Channel* channel, Event* event) {
  eventfd_t value = 0;
  eventfd_read(channel->channel.fd, &value);
  delete event;
}

Id* make(Channel* channel, void* context, rdma_port_space space) {
  auto* id = new Id;
  id->channel = channel;
  id->id.channel = &channel->channel;
  id->id.context = context;
  id->id.ps = space;
  id->id.qp_type = space == RDMA_PS_TCP ? IBV_QPT_RC : IBV_QPT_UD;
  ++channel->ids;
  cm.ids.insert(id);
  return id;
}

/// Opens the device for the id, which then owns the device context.
bool take_device(Id* id) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return false;
  if (count > 0) id->id.verbs = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  id->id.port_num = 1;
  return id->id.verbs != nullptr;
}

in_port_t port_of(const sockaddr& address) { return reinterpret_cast<const sockaddr_in&>(address).sin_port; }
void copy(sockaddr_storage& to, const sockaddr* from) {
  std::memcpy(&to, from, from->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}
void take_port(Id* id) {
  auto& source = id->id.route.addr.src_sin;
  if (source.sin_port == 0) source.sin_port = htons(cm.next_port++);
}

void part(Id* id) {
  if (id->peer == nullptr) return;
  Id* peer = std::exchange(id->peer, nullptr);
  peer->peer = nullptr;
  tell(peer, id->connected ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED, id->connected ? 0 : 28);
  id->connected = peer->connected = false;
}
void answered(Id* id) {
  if (id->listener != nullptr) --id->listener->pending;
  id->listener = nullptr;
}

void destroy(Id* id) {
  if (id->unacknowledged != 0) misuse("destruction of an id with an unacknowledged event would block");
  part(id);
  answered(id);
  Channel* channel = id->channel;
  std::vector<Id*> unseen;
  std::erase_if(channel->events, [&](Event* event) {
    const bool request = event->event.listen_id == &id->id;
    if (event->of != id && !request) return false;
    // Pending requests are destroyed with their listener.
    if (request) unseen.push_back(event->of);
    forget_event(channel, event);
    return true;
  });
  for (Id* other : cm.ids)
    if (other->listener == id) other->listener = nullptr;
  if (id->id.verbs != nullptr) ibv_close_device(id->id.verbs);
  --channel->ids;
  cm.ids.erase(id);
  delete id;
  for (Id* request : unseen) destroy(request);
}

}  // namespace

std::size_t cm_alive() {
  const Lock lock;
  return cm.ids.size() + cm.channels.size();
}
void fail_cm_call(unsigned nth, int number) {
  const Lock lock;
  cm.calls = 0;
  cm.fail_at = nth;
  cm.fail_number = number;
}
unsigned cm_calls() {
  const Lock lock;
  return cm.calls;
}
void act_as_iwarp(bool iwarp) {
  const Lock lock;
  cm.iwarp = iwarp;
}

}  // namespace rdmawire::agent::fake_verbs

using namespace rdmawire::agent::fake_verbs;

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  const Lock lock;
  if (fails()) return nullptr;
  auto* channel = new Channel;
  channel->channel.fd = eventfd(0, EFD_SEMAPHORE);
  cm.channels.insert(channel);
  return &channel->channel;
}
void rdma_destroy_event_channel(rdma_event_channel* theirs) {
  const Lock lock;
  Channel* channel = ours(theirs);
  if (channel->ids != 0) misuse("destruction of a channel in use");
  close(theirs->fd);
  cm.channels.erase(channel);
  delete channel;
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  const Lock lock;
  if (fails()) return -1;
  *id = &make(ours(channel), context, space)->id;
  return 0;
}
int rdma_destroy_id(rdma_cm_id* id) {
  const Lock lock;
  if (fails()) return -1;
  destroy(ours(id));
  return 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  const Lock lock;
  if (fails()) return -1;
  for (const Id* other : cm.ids) {
    if (other->listens && port_of(other->id.route.addr.src_addr) == port_of(*address) && port_of(*address) != 0 &&
        other->id.ps == id->ps)
      return refuse(EADDRINUSE);
  }
  copy(id->route.addr.src_storage, address);
  take_port(ours(id));
  return 0;
}
int rdma_listen(rdma_cm_id* id, int backlog) {
  const Lock lock;
  if (fails()) return -1;
  ours(id)->listens = true;
  ours(id)->backlog = static_cast<std::size_t>(backlog);
  return 0;
}
int rdma_resolve_addr(rdma_cm_id* theirs, sockaddr* source, sockaddr* destination, int) {
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  if (source != nullptr) copy(theirs->route.addr.src_storage, source);
  if (source == nullptr) theirs->route.addr.src_addr.sa_family = destination->sa_family;
  copy(theirs->route.addr.dst_storage, destination);
  take_port(id);
  // 192.0.2.0/24 is unreachable.
  const auto to = ntohl(reinterpret_cast<const sockaddr_in*>(destination)->sin_addr.s_addr);
  if (destination->sa_family == AF_INET && to >> 8 == 0xc00002) {
    tell(id, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
  } else {
    if (!take_device(id)) return -1;
    tell(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  }
  return 0;
}
int rdma_resolve_route(rdma_cm_id* id, int) {
  const Lock lock;
  if (fails()) return -1;
  tell(ours(id), RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int rdma_connect(rdma_cm_id* theirs, rdma_conn_param* parameters) {
  if (const int number = wait_at_gate("rdma_connect"); number != 0) return refuse(number);
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  id->qp_num = parameters->qp_num;
  const auto found = std::find_if(cm.ids.begin(), cm.ids.end(), [&](const Id* other) {
    return other->listens && other->id.ps == theirs->ps &&
           port_of(other->id.route.addr.src_addr) == port_of(theirs->route.addr.dst_addr);
  });
  if (found == cm.ids.end()) {
    tell(id, RDMA_CM_EVENT_REJECTED, 8);
    return 0;
  }
  Id* listener = *found;
  if (listener->pending >= listener->backlog) {
    tell(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    return 0;
  }
  Id* request = make(listener->channel, listener->id.context, theirs->ps);
  if (!take_device(request)) {
    destroy(request);
    return refuse(EIO);
  }
  copy(request->id.route.addr.src_storage, &theirs->route.addr.dst_addr);
  copy(request->id.route.addr.dst_storage, &theirs->route.addr.src_addr);
  request->peer = id;
  id->peer = request;
  request->listener = listener;
  ++listener->pending;
  Event* event =
      tell(request, RDMA_CM_EVENT_CONNECT_REQUEST, 0, parameters->private_data, parameters->private_data_len);
  event->event.listen_id = &listener->id;
  if (theirs->qp_type == IBV_QPT_RC) {
    // Swap the values, as librdmacm does: one side's responder resources limit the initiator depth of the other.
    event->event.param.conn.responder_resources = parameters->initiator_depth;
    event->event.param.conn.initiator_depth = parameters->responder_resources;
    event->event.param.conn.retry_count = parameters->retry_count;
    event->event.param.conn.qp_num = parameters->qp_num;
  }
  return 0;
}
int rdma_accept(rdma_cm_id* theirs, rdma_conn_param* parameters) {
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  if (id->peer == nullptr) return refuse(EINVAL);
  answered(id);
  const bool datagram = theirs->qp_type == IBV_QPT_UD;
  id->qp_num = parameters->qp_num;
  Event* event = tell(id->peer, datagram || cm.iwarp ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE, 0,
                      parameters->private_data, parameters->private_data_len);
  if (datagram) {
    auto& ud = event->event.param.ud;
    ud.qp_num = parameters->qp_num;
    ud.qkey = RDMA_UDP_QKEY;
    ud.ah_attr.is_global = 1;
    ud.ah_attr.port_num = 1;
    ud.ah_attr.grh.dgid.raw[10] = ud.ah_attr.grh.dgid.raw[11] = 0xff;
    ud.ah_attr.grh.dgid.raw[12] = 10;
    ud.ah_attr.grh.dgid.raw[15] = 2;
    ud.ah_attr.grh.sgid_index = 1;
    ud.ah_attr.grh.hop_limit = 64;
    id->peer = id->peer->peer = nullptr;
    return 0;
  }
  event->event.param.conn.qp_num = parameters->qp_num;
  id->connected = true;
  if (cm.iwarp) {
    id->peer->connected = true;
    tell(id, RDMA_CM_EVENT_ESTABLISHED);
  }
  return 0;
}
int rdma_establish(rdma_cm_id* theirs) {
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  if (id->peer == nullptr) return refuse(EINVAL);
  id->connected = true;
  tell(id->peer, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}
int rdma_reject(rdma_cm_id* theirs, const void* data, std::uint8_t length) {
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  if (id->peer == nullptr) return refuse(EINVAL);
  answered(id);
  Id* peer = std::exchange(id->peer, nullptr);
  peer->peer = nullptr;
  tell(peer, RDMA_CM_EVENT_REJECTED, cm.iwarp ? -ECONNRESET : 28, data, length);
  return 0;
}
int rdma_disconnect(rdma_cm_id* theirs) {
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  if (id->peer == nullptr) return refuse(EINVAL);
  part(id);
  tell(id, RDMA_CM_EVENT_DISCONNECTED);
  return 0;
}

int rdma_init_qp_attr(rdma_cm_id* theirs, ibv_qp_attr* attributes, int* mask) {
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  *mask = IBV_QP_STATE;
  switch (attributes->qp_state) {
    case IBV_QPS_INIT:
      attributes->port_num = 1;
      attributes->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      attributes->qkey = RDMA_UDP_QKEY;
      *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (theirs->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
      return 0;
    case IBV_QPS_RTR:
      if (cm.iwarp) {
        *mask = 0;
        return 0;
      }
      if (id->peer == nullptr) return refuse(EINVAL);
      attributes->dest_qp_num = id->peer->qp_num;
      attributes->rq_psn = 100;
      attributes->path_mtu = IBV_MTU_1024;
      attributes->max_dest_rd_atomic = 1;
      *mask |= IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU | IBV_QP_AV | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER;
      return 0;
    case IBV_QPS_RTS:
      if (cm.iwarp) {
        *mask = 0;
        return 0;
      }
      attributes->sq_psn = 100;
      attributes->timeout = 14;
      attributes->retry_cnt = 7;
      *mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
      return 0;
    default: return refuse(EINVAL);
  }
}

int rdma_get_cm_event(rdma_event_channel* theirs, rdma_cm_event** event) {
  const Lock lock;
  Channel* channel = ours(theirs);
  if (channel->events.empty()) return refuse(EAGAIN);
  if (fails()) return -1;
  Event* first = channel->events.front();
  channel->events.pop_front();
  eventfd_t value = 0;
  eventfd_read(theirs->fd, &value);
  ++first->of->unacknowledged;
  *event = &first->event;
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* theirs) {
  const Lock lock;
  auto* event = reinterpret_cast<Event*>(theirs);
  --event->of->unacknowledged;
  delete event;
  return 0;
}

__be16 rdma_get_src_port(rdma_cm_id* id) { return port_of(id->route.addr.src_addr); }
int rdma_set_option(rdma_cm_id* id, int, int, void*, std::size_t) {
  const Lock lock;
  ours(id);
  return fails() ? -1 : 0;
}
int rdma_join_multicast_ex(rdma_cm_id* theirs, rdma_cm_join_mc_attr_ex* attributes, void* context) {
  const Lock lock;
  Id* id = ours(theirs);
  if (fails()) return -1;
  Event* event = tell(id, RDMA_CM_EVENT_MULTICAST_JOIN);
  auto& ud = event->event.param.ud;
  ud.private_data = context;
  ud.private_data_len = 0;
  ud.qp_num = 0xffffff;
  ud.qkey = RDMA_UDP_QKEY;
  ud.ah_attr.is_global = 1;
  ud.ah_attr.port_num = 1;
  ud.ah_attr.grh.dgid.raw[0] = 0xff;
  ud.ah_attr.grh.dgid.raw[1] = 0x0e;
  ud.ah_attr.grh.dgid.raw[10] = ud.ah_attr.grh.dgid.raw[11] = 0xff;
  std::memcpy(&ud.ah_attr.grh.dgid.raw[12], &reinterpret_cast<const sockaddr_in*>(attributes->addr)->sin_addr, 4);
  return 0;
}

}  // extern "C"
