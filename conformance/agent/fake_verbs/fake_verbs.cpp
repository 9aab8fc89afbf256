#include "conformance/agent/fake_verbs/fake_verbs.hpp"

#include <endian.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "conformance/agent/fake_verbs/world.hpp"

namespace rdmawire::agent::fake_verbs {
namespace {

struct FakeVerbsState {
  unsigned fail_at = 0;
  bool spares_releases = false;
  int fail_number = 0;
  unsigned calls = 0;
  std::string failed;
  bool plugged = true;
  std::string sysfs = "/nowhere";
  std::size_t lists = 0;
  std::uint32_t next_number = 16;
} world;

std::recursive_mutex mutex;

/// Blocks calls with a name. `opened` is a descriptor that is readable when they may continue.
struct Gate {
  std::mutex mutex;
  std::string name;
  bool can_be_interrupted = false;
  int opened = -1;
  unsigned held = 0;
} gate;

[[noreturn]] void misuse(const char* what) {
  std::fprintf(stderr, "fake_verbs: %s\n", what);
  std::abort();
}

/// True if this call releases an object.
bool releases(std::string_view call) {
  for (const char* prefix : {"ibv_destroy", "ibv_dealloc", "ibv_dereg", "ibv_close", "ibv_free"})
    if (call.starts_with(prefix)) return true;
  return false;
}

bool fails(const char* call) {
  if (world.spares_releases && releases(call)) return false;
  ++world.calls;
  if (world.calls != world.fail_at) return false;
  world.failed = call;
  errno = world.fail_number;
  return true;
}

ibv_device the_device;

struct Context {
  verbs_context extended{};
  std::deque<ibv_async_event> events;
  std::size_t users = 0;
  unsigned unacknowledged = 0;
};
struct Pd {
  ibv_pd pd{};
  std::size_t users = 0;
};
struct Xrcd {
  ibv_xrcd xrcd{};
  std::size_t users = 0;
};
struct Channel {
  ibv_comp_channel channel{};
  std::deque<ibv_cq*> events;
};
struct Cq {
  ibv_cq cq{};
  std::deque<ibv_wc> completions;
  int armed = 0;  ///< 1: for any completion, 2: for solicited completions
  std::size_t users = 0;
  unsigned unacknowledged = 0;
};
struct Mr {
  ibv_mr mr{};
  std::uint64_t iova = 0;
  unsigned access = 0;
};
struct Receive {
  std::uint64_t wr_id;
  std::vector<ibv_sge> sges;
};
struct Srq {
  ibv_srq srq{};
  ibv_srq_attr attr{};
  std::deque<Receive> receives;
  std::size_t users = 0;
  Xrcd* xrcd = nullptr;
  Cq* cq = nullptr;
};
struct Qp {
  ibv_qp_ex qp{};
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  std::deque<Receive> receives;
  Xrcd* xrcd = nullptr;
  bool extended = false;
  std::uint32_t rkey = 0;
  std::uint64_t remote = 0;
  std::uint8_t bytes[8] = {};
};

std::set<Context*> contexts;
std::set<Pd*> pds;
std::set<Xrcd*> xrcds;
std::set<Channel*> channels;
std::set<Cq*> cqs;
std::set<Mr*> mrs;
std::set<ibv_mw*> mws;
std::set<ibv_ah*> ahs;
std::set<Srq*> srqs;
std::set<Qp*> qps;

/// Returns the fake object whose first member `theirs` points to. Aborts if it does not exist.
template <class Ours, class Theirs>
Ours* ours(const std::set<Ours*>& all, Theirs* theirs) {
  auto* object = reinterpret_cast<Ours*>(theirs);
  if (!all.contains(object)) misuse("use of a nonexistent object");
  return object;
}
Context* ours(ibv_context* context) {
  auto* object = reinterpret_cast<Context*>(reinterpret_cast<char*>(context) - offsetof(verbs_context, context));
  if (!contexts.contains(object)) misuse("use of a closed device");
  return object;
}
Pd* ours(ibv_pd* pd) { return ours(pds, pd); }
Xrcd* ours(ibv_xrcd* xrcd) { return ours(xrcds, xrcd); }
Cq* ours(ibv_cq* cq) { return ours(cqs, cq); }
Mr* ours(ibv_mr* mr) { return ours(mrs, mr); }
Srq* ours(ibv_srq* srq) { return ours(srqs, srq); }
Qp* ours(ibv_qp* qp) { return ours(qps, qp); }

void raise(Context& context, const ibv_async_event& event) {
  context.events.push_back(event);
  eventfd_write(context.extended.context.async_fd, 1);
}

void complete(ibv_cq* theirs, const ibv_wc& wc, bool solicited) {
  Cq* cq = ours(theirs);
  if (cq->completions.size() >= static_cast<std::size_t>(cq->cq.cqe)) return;  // overrun
  cq->completions.push_back(wc);
  const bool tells = cq->armed == 1 || (cq->armed == 2 && (solicited || wc.status != IBV_WC_SUCCESS));
  if (!tells || cq->cq.channel == nullptr) return;
  cq->armed = 0;
  auto* channel = reinterpret_cast<Channel*>(cq->cq.channel);
  channel->events.push_back(&cq->cq);
  eventfd_write(channel->channel.fd, 1);
}

std::uint8_t* bytes_at(Mr* mr, std::uint64_t addr) {
  return static_cast<std::uint8_t*>(mr->mr.addr) + (addr - mr->iova);
}

/// Returns the region with this key if it contains the range and permits the access. Otherwise returns nullptr.
Mr* region(std::uint32_t key, std::uint64_t addr, std::uint64_t length, unsigned access) {
  for (Mr* mr : mrs) {
    if (mr->mr.lkey != key) continue;
    const bool inside =
        addr >= mr->iova && addr - mr->iova <= mr->mr.length && length <= mr->mr.length - (addr - mr->iova);
    return inside && (mr->access & access) == access ? mr : nullptr;
  }
  return nullptr;
}

bool gather(const ibv_sge* sges, int count, bool is_inline, std::vector<std::uint8_t>& into) {
  for (int i = 0; i < count; ++i) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(sges[i].addr);
    if (!is_inline) {
      Mr* mr = region(sges[i].lkey, sges[i].addr, sges[i].length, 0);
      if (mr == nullptr) return false;
      from = bytes_at(mr, sges[i].addr);
    }
    into.insert(into.end(), from, from + sges[i].length);
  }
  return true;
}

/// Copies the bytes to the memory of the entries. Returns false if they do not fit, or if a key is invalid.
bool scatter(const ibv_sge* sges, std::size_t count, const std::vector<std::uint8_t>& bytes) {
  std::size_t done = 0;
  for (std::size_t i = 0; i < count && done < bytes.size(); ++i) {
    const std::size_t length = std::min<std::size_t>(sges[i].length, bytes.size() - done);
    Mr* mr = region(sges[i].lkey, sges[i].addr, length, IBV_ACCESS_LOCAL_WRITE);
    if (mr == nullptr) return false;
    std::memcpy(bytes_at(mr, sges[i].addr), bytes.data() + done, length);
    done += length;
  }
  return done == bytes.size();
}

void to_error(Qp* qp) {
  qp->attr.qp_state = qp->qp.qp_base.state = IBV_QPS_ERR;
  for (const Receive& receive : qp->receives) {
    ibv_wc wc{};
    wc.wr_id = receive.wr_id;
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.opcode = IBV_WC_RECV;
    wc.qp_num = qp->qp.qp_base.qp_num;
    complete(qp->qp.qp_base.recv_cq, wc, false);
  }
  qp->receives.clear();
}

Qp* find_qp(std::uint32_t number) {
  const auto found =
      std::find_if(qps.begin(), qps.end(), [&](const Qp* qp) { return qp->qp.qp_base.qp_num == number; });
  return found == qps.end() ? nullptr : *found;
}

/// Delivers a message or an immediate. Returns the status for the requester.
ibv_wc_status arrive(Qp* at, const std::vector<std::uint8_t>& bytes, const ibv_send_wr& wr, bool is_write,
                     std::uint32_t from) {
  auto* srq = at->qp.qp_base.srq != nullptr ? ours(at->qp.qp_base.srq) : nullptr;
  auto& receives = srq != nullptr ? srq->receives : at->receives;
  if (receives.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
  const Receive receive = receives.front();
  receives.pop_front();
  if (srq != nullptr && srq->attr.srq_limit != 0 && receives.size() < srq->attr.srq_limit) {
    srq->attr.srq_limit = 0;
    ibv_async_event event{};
    event.element.srq = &srq->srq;
    event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    raise(*ours(srq->srq.context), event);
  }
  ibv_wc wc{};
  wc.wr_id = receive.wr_id;
  wc.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = static_cast<std::uint32_t>(bytes.size());
  wc.qp_num = at->qp.qp_base.qp_num;
  wc.src_qp = from;
  if (wr.opcode == IBV_WR_SEND_WITH_IMM || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = wr.imm_data;
  }
  if (wr.opcode == IBV_WR_SEND_WITH_INV) {
    wc.wc_flags |= IBV_WC_WITH_INV;
    wc.invalidated_rkey = wr.invalidate_rkey;
  }
  std::vector<std::uint8_t> all = bytes;
  if (at->qp.qp_base.qp_type == IBV_QPT_UD) {
    all.insert(all.begin(), 40, 0);
    wc.byte_len += 40;
    wc.wc_flags |= IBV_WC_GRH;
  }
  if (!is_write && !scatter(receive.sges.data(), receive.sges.size(), all)) {
    wc.status = IBV_WC_LOC_LEN_ERR;
    complete(at->qp.qp_base.recv_cq, wc, true);
    to_error(at);
    return IBV_WC_REM_INV_REQ_ERR;
  }
  complete(at->qp.qp_base.recv_cq, wc, (wr.send_flags & IBV_SEND_SOLICITED) != 0);
  return IBV_WC_SUCCESS;
}

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
    case IBV_WR_LOCAL_INV: return IBV_WC_LOCAL_INV;
    case IBV_WR_BIND_MW: return IBV_WC_BIND_MW;
    case IBV_WR_ATOMIC_WRITE: return static_cast<ibv_wc_opcode>(9);
    default: return IBV_WC_SEND;
  }
}

/// Executes one request. Returns its completion status.
ibv_wc_status execute(Qp* qp, const ibv_send_wr& wr, std::uint32_t& length) {
  const bool is_ud = qp->qp.qp_base.qp_type == IBV_QPT_UD;
  const auto count = static_cast<std::size_t>(wr.num_sge);
  if (wr.opcode == IBV_WR_LOCAL_INV) return IBV_WC_SUCCESS;
  if (wr.opcode == IBV_WR_BIND_MW) {
    if (!mws.contains(wr.bind_mw.mw)) misuse("bind of a nonexistent window");
    wr.bind_mw.mw->rkey = wr.bind_mw.rkey;
    return IBV_WC_SUCCESS;
  }
  if (is_ud && !ahs.contains(wr.wr.ud.ah)) misuse("use of a nonexistent address handle");
  Qp* peer = find_qp(is_ud ? wr.wr.ud.remote_qpn : qp->attr.dest_qp_num);
  const bool reachable = peer != nullptr && (peer->attr.qp_state == IBV_QPS_RTR || peer->attr.qp_state == IBV_QPS_RTS);
  if (!reachable) return is_ud ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;

  std::vector<std::uint8_t> bytes;
  const std::uint32_t own = qp->qp.qp_base.qp_num;
  if (wr.opcode == IBV_WR_RDMA_READ) {
    for (std::size_t i = 0; i < count; ++i) length += wr.sg_list[i].length;
    Mr* from = region(wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, length, IBV_ACCESS_REMOTE_READ);
    if (from == nullptr) return IBV_WC_REM_ACCESS_ERR;
    const auto* begin = bytes_at(from, wr.wr.rdma.remote_addr);
    bytes.assign(begin, begin + length);
    return scatter(wr.sg_list, count, bytes) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
  }
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    Mr* at = region(wr.wr.atomic.rkey, wr.wr.atomic.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (at == nullptr) return IBV_WC_REM_ACCESS_ERR;
    if (wr.wr.atomic.remote_addr % 8 != 0) return IBV_WC_REM_INV_REQ_ERR;
    std::uint64_t value = 0;
    std::memcpy(&value, bytes_at(at, wr.wr.atomic.remote_addr), 8);
    bytes.resize(8);
    std::memcpy(bytes.data(), &value, 8);
    if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      value += wr.wr.atomic.compare_add;
    } else if (value == wr.wr.atomic.compare_add) {
      value = wr.wr.atomic.swap;
    }
    std::memcpy(bytes_at(at, wr.wr.atomic.remote_addr), &value, 8);
    length = 8;
    return scatter(wr.sg_list, count, bytes) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
  }
  if (!gather(wr.sg_list, wr.num_sge, (wr.send_flags & IBV_SEND_INLINE) != 0, bytes)) return IBV_WC_LOC_PROT_ERR;
  length = static_cast<std::uint32_t>(bytes.size());
  if (wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    Mr* into = region(wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, length, IBV_ACCESS_REMOTE_WRITE);
    if (into == nullptr) return IBV_WC_REM_ACCESS_ERR;
    if (length != 0) std::memcpy(bytes_at(into, wr.wr.rdma.remote_addr), bytes.data(), length);
    return wr.opcode == IBV_WR_RDMA_WRITE ? IBV_WC_SUCCESS : arrive(peer, bytes, wr, true, own);
  }
  const ibv_wc_status status = arrive(peer, bytes, wr, false, own);
  return is_ud ? IBV_WC_SUCCESS : status;  // a datagram completes successfully even if it is dropped
}

int post_send(ibv_qp* theirs, ibv_send_wr* wr, ibv_send_wr** bad) {
  const Lock lock;
  Qp* qp = ours(theirs);
  for (; wr != nullptr; wr = wr->next) {
    const bool ready = qp->attr.qp_state == IBV_QPS_RTS || qp->attr.qp_state == IBV_QPS_ERR;
    const bool too_many = static_cast<std::uint32_t>(wr->num_sge) > qp->init.cap.max_send_sge;
    if (!ready || too_many) {
      *bad = wr;
      return EINVAL;
    }
    if (fails("ibv_post_send")) {
      *bad = wr;
      return errno;
    }
    ibv_wc wc{};
    wc.wr_id = wr->wr_id;
    wc.opcode = completion_opcode(wr->opcode);
    wc.qp_num = qp->qp.qp_base.qp_num;
    wc.status = qp->attr.qp_state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : execute(qp, *wr, wc.byte_len);
    const bool signaled = (wr->send_flags & IBV_SEND_SIGNALED) != 0 || qp->init.sq_sig_all != 0;
    if (signaled || wc.status != IBV_WC_SUCCESS) complete(qp->qp.qp_base.send_cq, wc, false);
    if (wc.status != IBV_WC_SUCCESS) to_error(qp);
  }
  return 0;
}

template <class Queue>
int post_receives(Queue& queue, std::uint32_t most, std::uint32_t most_sge, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (static_cast<std::uint32_t>(wr->num_sge) > most_sge) return EINVAL;
    if (queue.size() >= most) return ENOMEM;
    if (fails("ibv_post_recv")) return errno;
    queue.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
  }
  *bad = nullptr;
  return 0;
}

int post_recv(ibv_qp* theirs, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const Lock lock;
  Qp* qp = ours(theirs);
  *bad = wr;
  if (qp->attr.qp_state == IBV_QPS_RESET) return EINVAL;
  return post_receives(qp->receives, qp->init.cap.max_recv_wr, qp->init.cap.max_recv_sge, wr, bad);
}

int post_srq_recv(ibv_srq* theirs, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const Lock lock;
  Srq* srq = ours(theirs);
  return post_receives(srq->receives, srq->attr.max_wr, srq->attr.max_sge, wr, bad);
}

int poll_cq(ibv_cq* theirs, int most, ibv_wc* wc) {
  const Lock lock;
  Cq* cq = ours(theirs);
  if (fails("ibv_poll_cq")) return -1;
  int count = 0;
  for (; count < most && !cq->completions.empty(); ++count) {
    wc[count] = cq->completions.front();
    cq->completions.pop_front();
  }
  return count;
}

int req_notify_cq(ibv_cq* theirs, int solicited_only) {
  const Lock lock;
  if (fails("ibv_req_notify_cq")) return errno;
  ours(theirs)->armed = solicited_only != 0 ? 2 : 1;
  return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  const Lock lock;
  if (fails("ibv_alloc_mw")) return nullptr;
  ++ours(pd)->users;
  auto* mw = new ibv_mw{pd->context, pd, world.next_number++ << 8, 0, type};
  mws.insert(mw);
  return mw;
}

int dealloc_mw(ibv_mw* mw) {
  const Lock lock;
  if (!mws.contains(mw)) misuse("deallocation of a nonexistent window");
  if (fails("ibv_dealloc_mw")) return errno;
  --ours(mw->pd)->users;
  mws.erase(mw);
  delete mw;
  return 0;
}

int bind_mw(ibv_qp* theirs, ibv_mw* mw, ibv_mw_bind* bind) {
  const Lock lock;
  Qp* qp = ours(theirs);
  if (fails("ibv_bind_mw")) return errno;
  if (qp->attr.qp_state != IBV_QPS_RTS) return EINVAL;
  ibv_send_wr wr{};
  wr.wr_id = bind->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = bind->send_flags;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = bind->bind_info;
  ibv_send_wr* bad = nullptr;
  return post_send(theirs, &wr, &bad);
}

int query_port(ibv_context*, std::uint8_t number, ibv_port_attr* port, std::size_t) {
  const Lock lock;
  if (fails("ibv_query_port")) return errno;
  if (number != 1) return EINVAL;
  *port = {};
  port->state = IBV_PORT_ACTIVE;
  port->max_mtu = IBV_MTU_4096;
  port->active_mtu = IBV_MTU_1024;
  port->gid_tbl_len = 4;
  port->pkey_tbl_len = 1;
  port->max_msg_sz = 1U << 31;
  port->phys_state = 5;
  port->link_layer = IBV_LINK_LAYER_ETHERNET;
  port->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  return 0;
}

int query_device_ex(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr, std::size_t) {
  const Lock lock;
  if (fails("ibv_query_device_ex")) return errno;
  *attr = {};
  std::strcpy(attr->orig_attr.fw_ver, "1.2.3");
  attr->orig_attr.node_guid = htobe64(0x0200000000000001);
  attr->orig_attr.max_qp = 1024;
  attr->orig_attr.max_sge = 8;
  attr->orig_attr.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN;
  attr->orig_attr.atomic_cap = IBV_ATOMIC_HCA;
  attr->orig_attr.phys_port_cnt = 1;
  attr->device_cap_flags_ex = IBV_DEVICE_RC_RNR_NAK_GEN | 1ULL << 40;
  attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
  attr->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_READ;
  return 0;
}

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr*) {
  const Lock lock;
  if (fails("ibv_open_xrcd")) return nullptr;
  ++ours(context)->users;
  auto* xrcd = new Xrcd;
  xrcd->xrcd.context = context;
  xrcds.insert(xrcd);
  return &xrcd->xrcd;
}

int close_xrcd(ibv_xrcd* theirs) {
  const Lock lock;
  Xrcd* xrcd = ours(theirs);
  if (fails("ibv_close_xrcd")) return errno;
  if (xrcd->users != 0) return EBUSY;
  --ours(xrcd->xrcd.context)->users;
  xrcds.erase(xrcd);
  delete xrcd;
  return 0;
}

ibv_srq* make_srq(ibv_pd* pd, ibv_srq_attr& attr) {
  if (attr.max_wr == 0 || attr.max_wr > 65536 || attr.max_sge > 64) {
    errno = EINVAL;
    return nullptr;
  }
  ++ours(pd)->users;
  auto* srq = new Srq;
  srq->srq.context = pd->context;
  srq->srq.pd = pd;
  attr.max_sge = std::max(attr.max_sge, 1U);
  srq->attr = attr;
  srqs.insert(srq);
  return &srq->srq;
}

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* init) {
  const Lock lock;
  if (fails("ibv_create_srq_ex")) return nullptr;
  Xrcd* xrcd = ours(init->xrcd);
  Cq* cq = ours(init->cq);
  ibv_srq* srq = make_srq(init->pd, init->attr);
  if (srq == nullptr) return nullptr;
  ours(srq)->xrcd = xrcd;
  ours(srq)->cq = cq;
  ++xrcd->users;
  ++cq->users;
  return srq;
}

int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  const Lock lock;
  static_cast<void>(ours(srq));
  *number = 77;
  return 0;
}

void wr_start(ibv_qp_ex*) {}
void wr_atomic_write(ibv_qp_ex* theirs, std::uint32_t rkey, std::uint64_t remote, const void* bytes) {
  const Lock lock;
  Qp* qp = ours(&theirs->qp_base);
  qp->rkey = rkey;
  qp->remote = remote;
  std::memcpy(qp->bytes, bytes, sizeof qp->bytes);
}
int wr_complete(ibv_qp_ex* theirs) {
  const Lock lock;
  Qp* qp = ours(&theirs->qp_base);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(qp->bytes), sizeof qp->bytes, 0};
  ibv_send_wr wr{};
  wr.wr_id = theirs->wr_id;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = theirs->wr_flags | IBV_SEND_INLINE;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.rkey = qp->rkey;
  wr.wr.rdma.remote_addr = qp->remote;
  ibv_send_wr* bad = nullptr;
  return post_send(&theirs->qp_base, &wr, &bad);
}

ibv_qp* make_qp(ibv_context* context, ibv_qp_init_attr_ex* init) {
  if (init->cap.max_send_wr > 65536 || init->cap.max_recv_wr > 65536 || init->cap.max_send_sge > 64 ||
      init->cap.max_recv_sge > 64 || init->cap.max_inline_data > 1024) {
    errno = EINVAL;
    return nullptr;
  }
  auto* qp = new Qp;
  std::memcpy(&qp->init, init, sizeof qp->init);
  ibv_qp& base = qp->qp.qp_base;
  base.context = context;
  base.pd = (init->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? init->pd : nullptr;
  base.send_cq = init->send_cq;
  base.recv_cq = init->recv_cq;
  base.srq = init->srq;
  base.qp_num = world.next_number++;
  base.qp_type = init->qp_type;
  qp->attr.cap = init->cap;
  qp->xrcd = (init->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 ? ours(init->xrcd) : nullptr;
  qp->extended = (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  qp->qp.wr_start = wr_start;
  qp->qp.wr_atomic_write = wr_atomic_write;
  qp->qp.wr_complete = wr_complete;
  ++ours(context)->users;
  if (base.pd != nullptr) ++ours(base.pd)->users;
  if (base.send_cq != nullptr) ++ours(base.send_cq)->users;
  if (base.recv_cq != nullptr) ++ours(base.recv_cq)->users;
  if (base.srq != nullptr) ++ours(base.srq)->users;
  if (qp->xrcd != nullptr) ++qp->xrcd->users;
  qps.insert(qp);
  return &base;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  const Lock lock;
  return fails("ibv_create_qp_ex") ? nullptr : make_qp(context, init);
}

}  // namespace

std::size_t alive() {
  const Lock lock;
  return contexts.size() + pds.size() + xrcds.size() + channels.size() + cqs.size() + mrs.size() + mws.size() +
         ahs.size() + srqs.size() + qps.size() + world.lists;
}

Lock::Lock() { mutex.lock(); }
Lock::~Lock() { mutex.unlock(); }

int wait_at_gate(const char* call) {
  std::unique_lock lock(gate.mutex);
  if (gate.name != call) return 0;
  pollfd opened{gate.opened, POLLIN, 0};
  const bool can_be_interrupted = gate.can_be_interrupted;
  ++gate.held;
  lock.unlock();
  int number = 0;
  while (poll(&opened, 1, -1) < 0) {
    number = can_be_interrupted ? EINTR : 0;
    if (number != 0) break;
  }
  lock.lock();
  --gate.held;
  return number;
}

void block_calls(const std::string& name, bool can_be_interrupted) {
  const std::lock_guard lock(gate.mutex);
  if (gate.opened >= 0) close(gate.opened);
  gate.opened = eventfd(0, 0);
  gate.name = name;
  gate.can_be_interrupted = can_be_interrupted;
}
unsigned held_calls() {
  const std::lock_guard lock(gate.mutex);
  return gate.held;
}
void release_calls() {
  const std::lock_guard lock(gate.mutex);
  gate.name.clear();
  if (gate.opened >= 0) eventfd_write(gate.opened, 1);
}

void fail_call(unsigned nth, int number) {
  const Lock lock;
  world.fail_at = nth;
  world.fail_number = number;
  world.calls = 0;
  world.failed.clear();
}

void spare_releases() {
  const Lock lock;
  world.spares_releases = true;
}

unsigned calls() {
  const Lock lock;
  return world.calls;
}
std::string failed_call() {
  const Lock lock;
  return world.failed;
}
void plug(bool present) {
  const Lock lock;
  world.plugged = present;
}
void set_sysfs(const std::string& path) {
  const Lock lock;
  world.sysfs = path;
}

void raise_port_event(ibv_event_type type) {
  const Lock lock;
  for (Context* context : contexts) {
    ibv_async_event event{};
    event.element.port_num = 1;
    event.event_type = type;
    raise(*context, event);
  }
}

void raise_qp_event(std::uint32_t qp_num, ibv_event_type type) {
  const Lock lock;
  Qp* qp = find_qp(qp_num);
  if (qp == nullptr) misuse("event for a nonexistent queue pair");
  ibv_async_event event{};
  event.element.qp = &qp->qp.qp_base;
  event.event_type = type;
  raise(*ours(qp->qp.qp_base.context), event);
}

void reset() {
  const Lock lock;
  if (alive() != 0) misuse("reset with existing objects");
  world = FakeVerbsState();
}

}  // namespace rdmawire::agent::fake_verbs

// The functions exported by libibverbs. The parentheses prevent expansion of the header's macros.
using namespace rdmawire::agent::fake_verbs;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  const Lock lock;
  if (fails("ibv_get_device_list")) return nullptr;
  if (count != nullptr) *count = world.plugged ? 1 : 0;
  auto** list = new ibv_device* [2] { world.plugged ? &the_device : nullptr, nullptr };
  the_device.node_type = IBV_NODE_CA;
  the_device.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(the_device.name, sizeof the_device.name, "%s", device_name);
  std::snprintf(the_device.ibdev_path, sizeof the_device.ibdev_path, "%s", world.sysfs.c_str());
  ++world.lists;
  return list;
}
void ibv_free_device_list(ibv_device** list) {
  const Lock lock;
  --world.lists;
  delete[] list;
}
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
__be64 ibv_get_device_guid(ibv_device*) { return htobe64(0x0200000000000001); }

ibv_context* ibv_open_device(ibv_device* device) {
  const Lock lock;
  if (fails("ibv_open_device")) return nullptr;
  auto* context = new Context;
  verbs_context& extended = context->extended;
  extended.sz = sizeof extended;
  extended.query_port = query_port;
  extended.query_device_ex = query_device_ex;
  extended.open_xrcd = open_xrcd;
  extended.close_xrcd = close_xrcd;
  extended.create_srq_ex = create_srq_ex;
  extended.get_srq_num = get_srq_num;
  extended.create_qp_ex = create_qp_ex;
  extended.context.device = device;
  extended.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  extended.context.num_comp_vectors = 1;
  extended.context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  auto& ops = extended.context.ops;
  ops.alloc_mw = alloc_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.bind_mw = bind_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
  contexts.insert(context);
  return &extended.context;
}
int ibv_close_device(ibv_context* theirs) {
  const Lock lock;
  Context* context = ours(theirs);
  if (context->users != 0) misuse("close of a device in use");
  close(theirs->async_fd);
  contexts.erase(context);
  delete context;
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr*) { return ENOSYS; }
int(ibv_query_port)(ibv_context*, std::uint8_t, _compat_ibv_port_attr*) { return ENOSYS; }
ssize_t _ibv_query_gid_table(ibv_context*, ibv_gid_entry* entries, std::size_t most, std::uint32_t, std::size_t) {
  const Lock lock;
  if (fails("ibv_query_gid_table")) return -errno;
  if (most < 2) return -EINVAL;
  entries[0] = entries[1] = {};
  entries[0].gid.raw[0] = 0xfe;
  entries[0].gid.raw[1] = 0x80;
  entries[0].gid.raw[15] = 1;
  entries[0].gid_type = IBV_GID_TYPE_ROCE_V1;
  entries[1].gid = entries[0].gid;
  entries[1].gid_index = 1;
  entries[1].gid_type = IBV_GID_TYPE_ROCE_V2;
  entries[0].port_num = entries[1].port_num = 1;
  entries[1].ndev_ifindex = 1;  // lo
  return 2;
}
int ibv_query_pkey(ibv_context*, std::uint8_t, int index, __be16* pkey) {
  const Lock lock;
  *pkey = htobe16(0xFFFF);
  return index == 0 ? 0 : -1;
}

int ibv_get_async_event(ibv_context* theirs, ibv_async_event* event) {
  const Lock lock;
  Context* context = ours(theirs);
  eventfd_t one = 0;
  eventfd_read(theirs->async_fd, &one);
  if (context->events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *event = context->events.front();
  context->events.pop_front();
  return 0;
}
void ibv_ack_async_event(ibv_async_event*) {}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const Lock lock;
  if (fails("ibv_alloc_pd")) return nullptr;
  ++ours(context)->users;
  auto* pd = new Pd;
  pd->pd.context = context;
  pds.insert(pd);
  return &pd->pd;
}
int ibv_dealloc_pd(ibv_pd* theirs) {
  const Lock lock;
  Pd* pd = ours(theirs);
  if (fails("ibv_dealloc_pd")) return errno;
  if (pd->users != 0) return EBUSY;
  --ours(pd->pd.context)->users;
  pds.erase(pd);
  delete pd;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, unsigned access) {
  const Lock lock;
  if (fails("ibv_reg_mr")) return nullptr;
  const unsigned remote_writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & remote_writes) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) {
    errno = EINVAL;
    return nullptr;
  }
  ++ours(pd)->users;
  auto* mr = new Mr;
  mr->mr.context = pd->context;
  mr->mr.pd = pd;
  mr->mr.addr = addr;
  mr->mr.length = length;
  mr->mr.lkey = mr->mr.rkey = world.next_number++;
  mr->iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  mr->access = access;
  mrs.insert(mr);
  return &mr->mr;
}
ibv_mr*(ibv_reg_mr)(ibv_pd* pd, void* addr, std::size_t length, int access) {
  const Lock lock;
  return ibv_reg_mr_iova2(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr), static_cast<unsigned>(access));
}
ibv_mr*(ibv_reg_mr_iova)(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  const Lock lock;
  return ibv_reg_mr_iova2(pd, addr, length, iova, static_cast<unsigned>(access));
}
int ibv_rereg_mr(ibv_mr* theirs, int flags, ibv_pd* pd, void*, std::size_t, int access) {
  const Lock lock;
  Mr* mr = ours(theirs);
  if (fails("ibv_rereg_mr")) return IBV_REREG_MR_ERR_CMD;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) {
    --ours(mr->mr.pd)->users;
    mr->mr.pd = pd;
    ++ours(pd)->users;
  }
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) mr->access = static_cast<unsigned>(access);
  return 0;
}
int ibv_dereg_mr(ibv_mr* theirs) {
  const Lock lock;
  Mr* mr = ours(theirs);
  if (fails("ibv_dereg_mr")) return errno;
  --ours(mr->mr.pd)->users;
  mrs.erase(mr);
  delete mr;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const Lock lock;
  if (fails("ibv_create_comp_channel")) return nullptr;
  ++ours(context)->users;
  auto* channel = new Channel;
  channel->channel = {context, eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC), 0};
  channels.insert(channel);
  return &channel->channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* theirs) {
  const Lock lock;
  Channel* channel = ours(channels, theirs);
  if (fails("ibv_destroy_comp_channel")) return errno;
  if (theirs->refcnt != 0) return EBUSY;
  --ours(theirs->context)->users;
  close(theirs->fd);
  channels.erase(channel);
  delete channel;
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel* theirs, ibv_cq** cq, void** context) {
  const Lock lock;
  Channel* channel = ours(channels, theirs);
  eventfd_t one = 0;
  eventfd_read(theirs->fd, &one);
  if (channel->events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *cq = channel->events.front();
  *context = nullptr;
  channel->events.pop_front();
  ++ours(*cq)->unacknowledged;
  return 0;
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  const Lock lock;
  ours(cq)->unacknowledged -= count;
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void*, ibv_comp_channel* channel, int vector) {
  const Lock lock;
  if (fails("ibv_create_cq")) return nullptr;
  if (cqe < 1 || cqe > 65536 || vector != 0) {
    errno = EINVAL;
    return nullptr;
  }
  ++ours(context)->users;
  auto* cq = new Cq;
  cq->cq.context = context;
  cq->cq.channel = channel;
  cq->cq.cqe = cqe;
  if (channel != nullptr) ++channel->refcnt;
  cqs.insert(cq);
  return &cq->cq;
}
int ibv_resize_cq(ibv_cq* cq, int cqe) {
  const Lock lock;
  if (fails("ibv_resize_cq")) return errno;
  if (cqe < 1 || cqe > 65536) return EINVAL;
  ours(cq)->cq.cqe = cqe;
  return 0;
}
int ibv_destroy_cq(ibv_cq* theirs) {
  const Lock lock;
  Cq* cq = ours(theirs);
  if (cq->unacknowledged != 0) misuse("destruction of a completion queue with unacknowledged events");
  if (fails("ibv_destroy_cq")) return errno;
  if (cq->users != 0) return EBUSY;
  if (cq->cq.channel != nullptr) {
    --cq->cq.channel->refcnt;
    auto& events = reinterpret_cast<Channel*>(cq->cq.channel)->events;
    events.erase(std::remove(events.begin(), events.end(), theirs), events.end());
  }
  --ours(cq->cq.context)->users;
  cqs.erase(cq);
  delete cq;
  return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  const Lock lock;
  return fails("ibv_create_srq") ? nullptr : make_srq(pd, init->attr);
}
int ibv_modify_srq(ibv_srq* theirs, ibv_srq_attr* attr, int mask) {
  const Lock lock;
  if (fails("ibv_modify_srq")) return errno;
  Srq* srq = ours(theirs);
  if ((mask & IBV_SRQ_MAX_WR) != 0) srq->attr.max_wr = attr->max_wr;
  if ((mask & IBV_SRQ_LIMIT) != 0) srq->attr.srq_limit = attr->srq_limit;
  return 0;
}
int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  const Lock lock;
  if (fails("ibv_query_srq")) return errno;
  *attr = ours(srq)->attr;
  return 0;
}
int ibv_destroy_srq(ibv_srq* theirs) {
  const Lock lock;
  Srq* srq = ours(theirs);
  if (fails("ibv_destroy_srq")) return errno;
  if (srq->users != 0) return EBUSY;
  auto& events = ours(srq->srq.context)->events;
  std::erase_if(events, [&](const ibv_async_event& event) {
    return event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == theirs;
  });
  --ours(srq->srq.pd)->users;
  if (srq->xrcd != nullptr) --srq->xrcd->users;
  if (srq->cq != nullptr) --srq->cq->users;
  srqs.erase(srq);
  delete srq;
  return 0;
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (const int number = wait_at_gate("ibv_create_ah"); number != 0) {
    errno = number;
    return nullptr;
  }
  const Lock lock;
  if (fails("ibv_create_ah")) return nullptr;
  if (attr->port_num != 1) {
    errno = EINVAL;
    return nullptr;
  }
  ++ours(pd)->users;
  auto* ah = new ibv_ah{pd->context, pd, 0};
  ahs.insert(ah);
  return ah;
}
int ibv_destroy_ah(ibv_ah* ah) {
  const Lock lock;
  if (!ahs.contains(ah)) misuse("destruction of a nonexistent address handle");
  if (fails("ibv_destroy_ah")) return errno;
  --ours(ah->pd)->users;
  ahs.erase(ah);
  delete ah;
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  const Lock lock;
  if (fails("ibv_create_qp")) return nullptr;
  ibv_qp_init_attr_ex all{};
  std::memcpy(&all, init, sizeof *init);
  all.comp_mask = IBV_QP_INIT_ATTR_PD;
  all.pd = pd;
  return make_qp(pd->context, &all);
}
int ibv_modify_qp(ibv_qp* theirs, ibv_qp_attr* attr, int mask) {
  if (const int number = wait_at_gate("ibv_modify_qp"); number != 0) return number;
  const Lock lock;
  if (fails("ibv_modify_qp")) return errno;
  Qp* qp = ours(theirs);
  const ibv_qp_state from = qp->attr.qp_state;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
  const bool forward = to == from || to == IBV_QPS_RESET || to == IBV_QPS_ERR ||
                       static_cast<int>(to) == static_cast<int>(from) + 1 || (from == IBV_QPS_SQD && to == IBV_QPS_RTS);
  if (!forward) return EINVAL;
  if ((mask & IBV_QP_DEST_QPN) != 0) qp->attr.dest_qp_num = attr->dest_qp_num;
  if ((mask & IBV_QP_RQ_PSN) != 0) qp->attr.rq_psn = attr->rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) qp->attr.sq_psn = attr->sq_psn;
  if ((mask & IBV_QP_PATH_MTU) != 0) qp->attr.path_mtu = attr->path_mtu;
  if ((mask & IBV_QP_AV) != 0) qp->attr.ah_attr = attr->ah_attr;
  if ((mask & IBV_QP_ALT_PATH) != 0) qp->attr.alt_ah_attr = attr->alt_ah_attr;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) qp->attr.qp_access_flags = attr->qp_access_flags;
  if ((mask & IBV_QP_PORT) != 0) qp->attr.port_num = attr->port_num;
  if ((mask & IBV_QP_QKEY) != 0) qp->attr.qkey = attr->qkey;
  if ((mask & IBV_QP_TIMEOUT) != 0) qp->attr.timeout = attr->timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) qp->attr.retry_cnt = attr->retry_cnt;
  qp->attr.qp_state = qp->qp.qp_base.state = to;
  if (to == IBV_QPS_ERR) to_error(qp);
  if (to == IBV_QPS_RESET) qp->receives.clear();
  return 0;
}
int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  const Lock lock;
  if (fails("ibv_query_qp")) return errno;
  *attr = ours(qp)->attr;
  attr->cur_qp_state = attr->qp_state;
  *init = ours(qp)->init;
  return 0;
}
int ibv_destroy_qp(ibv_qp* theirs) {
  const Lock lock;
  Qp* qp = ours(theirs);
  if (fails("ibv_destroy_qp")) return errno;
  auto& events = ours(theirs->context)->events;
  std::erase_if(events, [&](const ibv_async_event& event) {
    return event.event_type <= IBV_EVENT_PATH_MIG_ERR && event.element.qp == theirs;
  });
  --ours(theirs->context)->users;
  if (theirs->pd != nullptr) --ours(theirs->pd)->users;
  if (theirs->send_cq != nullptr) --ours(theirs->send_cq)->users;
  if (theirs->recv_cq != nullptr) --ours(theirs->recv_cq)->users;
  if (theirs->srq != nullptr) --ours(theirs->srq)->users;
  if (qp->xrcd != nullptr) --qp->xrcd->users;
  qps.erase(qp);
  delete qp;
  return 0;
}
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* theirs) {
  const Lock lock;
  Qp* qp = ours(theirs);
  return qp->extended ? &qp->qp : nullptr;
}
int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t) {
  const Lock lock;
  if (fails("ibv_attach_mcast")) return errno;
  return ours(qp)->qp.qp_base.qp_type == IBV_QPT_UD && gid->raw[0] == 0xFF ? 0 : EINVAL;
}
int ibv_detach_mcast(ibv_qp* qp, const ibv_gid*, std::uint16_t) {
  const Lock lock;
  if (fails("ibv_detach_mcast")) return errno;
  static_cast<void>(ours(qp));
  return 0;
}

}  // extern "C"
