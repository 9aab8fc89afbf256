// QPs: states, posted requests, and frames.

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "replay/wires/fake_verbs/fake_verbs_state.hpp"

namespace fake_verbs {
namespace {

constexpr int masks(ibv_qp_state from, ibv_qp_state to) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return 0;
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) return IBV_QP_PORT;
  if (from == IBV_QPS_INIT && (to == IBV_QPS_INIT || to == IBV_QPS_RTR)) return 0;
  if ((from == IBV_QPS_RTR || from == IBV_QPS_RTS) && to == IBV_QPS_RTS) return 0;
  return -1;
}

void fail(QueuePair& pair, ibv_wc_status status, std::uint64_t id, std::uint64_t sequence) {
  Completion completion;
  completion.wc.wr_id = id;
  completion.wc.status = status;
  completion.wc.opcode = IBV_WC_SEND;
  completion.wc.vendor_err = 0x5a;
  completion.wc.qp_num = pair.qp_base.qp_num;
  completion.pair = &pair;
  completion.released = sequence;
  pair.qp_base.state = IBV_QPS_ERR;
  complete(queue_of(pair.qp_base.send_cq), completion);
}

// Sends one frame to the interface and completes it.
void transmit(QueuePair& pair, const Request& request, std::uint64_t sequence) {
  if (pair.qp_base.state == IBV_QPS_ERR) return fail(pair, IBV_WC_WR_FLUSH_ERR, request.id, sequence);
  if (const ibv_wc_status status = completion_of(++pair.frames); status != IBV_WC_SUCCESS)
    return fail(pair, status, request.id, sequence);
  while (send(pair.socket, request.bytes.data(), request.bytes.size(), 0) < 0) {
    if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) continue;
    Context& context = context_of(pair.qp_base.context);
    if ((errno == ENXIO || errno == ENODEV) && !context.fatal) {
      context.fatal = true;
      happens(context, IBV_EVENT_DEVICE_FATAL);
    }
    return fail(pair, errno == EMSGSIZE ? IBV_WC_LOC_LEN_ERR : IBV_WC_FATAL_ERR, request.id, sequence);
  }
  if (!request.signaled) return;
  Completion completion;
  completion.wc.wr_id = request.id;
  completion.wc.opcode = IBV_WC_SEND;
  completion.wc.byte_len = static_cast<std::uint32_t>(request.bytes.size());
  completion.wc.qp_num = pair.qp_base.qp_num;
  completion.time = realtime();
  completion.pair = &pair;
  completion.released = sequence;
  complete(queue_of(pair.qp_base.send_cq), completion);
}

// Checks the request and builds its frame. Returns an errno.
int accept(QueuePair& pair, const ibv_send_wr& wr, Request& request) {
  if (pair.posted - pair.released >= pair.cap.max_send_wr) return ENOMEM;
  if (wr.opcode != IBV_WR_SEND) return refuse(EINVAL, "opcode %d is invalid on a raw-packet QP", wr.opcode);
  if (wr.num_sge < 1 || static_cast<std::uint32_t>(wr.num_sge) > pair.cap.max_send_sge)
    return refuse(EINVAL, "request with %d SGEs; the maximum is %u", wr.num_sge, pair.cap.max_send_sge);
  const bool in_line = wr.send_flags & IBV_SEND_INLINE;
  const std::string demanded = variable("FAKE_VERBS_L2_INLINE");
  if (!demanded.empty() && !in_line && wr.sg_list[0].length < static_cast<std::uint32_t>(std::atoi(demanded.c_str())))
    return refuse(EINVAL, "the first %s bytes of a frame must be inline or in the first SGE", demanded.c_str());
  request.id = wr.wr_id;
  request.signaled = pair.all_signaled || (wr.send_flags & IBV_SEND_SIGNALED);
  request.bytes.clear();
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& piece = wr.sg_list[i];
    if (!in_line)
      if (const int number = check_memory(pair, piece, false)) return number;
    const auto* from = reinterpret_cast<const std::uint8_t*>(piece.addr);
    request.bytes.insert(request.bytes.end(), from, from + piece.length);
  }
  if (in_line && request.bytes.size() > pair.cap.max_inline_data)
    return refuse(EINVAL, "%zu inline bytes; the maximum is %u", request.bytes.size(), pair.cap.max_inline_data);
  if (request.bytes.size() < 14) return refuse(EINVAL, "frame of %zu bytes", request.bytes.size());
  return 0;
}

void no_frames(QueuePair& pair, std::uint64_t id, bool signaled) {
  ++pair.posted;
  if (!signaled) return;
  Queue& queue = queue_of(pair.qp_base.send_cq);
  queue.noop_id = id;
  queue.noop_waiting = 1;
}

QueuePair& pair_of(ibv_qp_ex* qp) { return *static_cast<QueuePair*>(qp); }

void attach(QueuePair& pair, ibv_cq* cq) {
  auto& pairs = queue_of(cq).pairs;
  if (std::find(pairs.begin(), pairs.end(), &pair) == pairs.end()) pairs.push_back(&pair);
}

}  // namespace

int check_memory(QueuePair& pair, const ibv_sge& piece, bool written) {
  Context& context = context_of(pair.qp_base.context);
  const auto found = context.regions.find(piece.lkey);
  if (found == context.regions.end()) return refuse(EINVAL, "no memory region with lkey 0x%x", piece.lkey);
  const ibv_mr& region = *found->second;
  const auto begin = reinterpret_cast<std::uintptr_t>(region.addr);
  if (region.pd != pair.qp_base.pd) return refuse(EINVAL, "lkey 0x%x belongs to another protection domain", piece.lkey);
  if (piece.addr < begin || piece.length > region.length || piece.addr - begin > region.length - piece.length)
    return refuse(EINVAL, "%u bytes at 0x%llx are outside the memory region with lkey 0x%x", piece.length,
                  static_cast<unsigned long long>(piece.addr), piece.lkey);
  // The handle contains the access flags.
  if (written && !(region.handle & IBV_ACCESS_LOCAL_WRITE))
    return refuse(EINVAL, "the memory region with lkey 0x%x has no local write access", piece.lkey);
  return 0;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  QueuePair& pair = fake_verbs::pair_of(qp);
  Context& context = context_of(qp->context);
  const std::lock_guard lock(context.mutex);
  int number = scripted("ibv_post_send");
  if (!number && qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR)
    number = refuse(EINVAL, "send request in state %d", qp->state);
  send_held(pair);
  const bool up = port_is_up(context);
  for (; wr && !number; wr = wr->next) {
    Request request;
    number = accept(pair, *wr, request);
    if (number) break;
    ++pair.posted;
    // Without a carrier, posted requests wait and do not complete.
    if (up || context.fatal || qp->state == IBV_QPS_ERR)
      transmit(pair, request, pair.posted);
    else
      pair.held.push_back(std::move(request));
  }
  if (number) *bad = wr;
  return number;
}

void send_held(QueuePair& pair) {
  if (pair.held.empty() || !port_is_up(context_of(pair.qp_base.context))) return;
  while (!pair.held.empty()) {
    const Request request = std::move(pair.held.front());
    const std::uint64_t sequence = pair.posted - pair.held.size() + 1;
    pair.held.pop_front();
    transmit(pair, request, sequence);
  }
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  QueuePair& pair = fake_verbs::pair_of(qp);
  const std::lock_guard lock(context_of(qp->context).mutex);
  int number = scripted("ibv_post_recv");
  if (!number && qp->state == IBV_QPS_RESET) number = refuse(EINVAL, "receive request in RESET");
  for (; wr && !number; wr = wr->next) {
    if (pair.buffers.size() >= pair.cap.max_recv_wr) number = ENOMEM;
    if (!number && (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > pair.cap.max_recv_sge))
      number = EINVAL;
    for (int i = 0; i < wr->num_sge && !number; ++i) number = check_memory(pair, wr->sg_list[i], true);
    if (number) break;
    pair.buffers.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
  }
  if (number) *bad = wr;
  return number;
}

void pump(QueuePair& pair) {
  if (pair.socket < 0) return;
  std::vector<std::uint8_t> room(65'536 + 4);
  while (!pair.buffers.empty() && pair.qp_base.state != IBV_QPS_ERR) {
    alignas(cmsghdr) char control[256];
    sockaddr_ll from{};
    iovec piece{room.data() + 4, room.size() - 4};
    msghdr message{&from, sizeof from, &piece, 1, control, sizeof control, 0};
    const ssize_t got = recvmsg(pair.socket, &message, MSG_DONTWAIT);
    if (got < 0) return;
    if (from.sll_pkttype == PACKET_OUTGOING && variable("FAKE_VERBS_LOOPBACK") != "1") continue;
    std::size_t begin = 4, bytes = static_cast<std::size_t>(got);
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
      tpacket_auxdata aux{};
      std::memcpy(&aux, CMSG_DATA(c), sizeof aux);
      if (!(aux.tp_status & TP_STATUS_VLAN_VALID)) continue;
      std::memmove(room.data(), room.data() + 4, 12);
      const std::uint16_t tag[2] = {htons((aux.tp_status & TP_STATUS_VLAN_TPID_VALID) ? aux.tp_vlan_tpid : 0x8100),
                                    htons(aux.tp_vlan_tci)};
      std::memcpy(room.data() + 12, tag, 4);
      begin = 0;
      bytes += 4;
    }
    const std::vector<std::uint8_t> frame(room.begin() + static_cast<long>(begin),
                                          room.begin() + static_cast<long>(begin + bytes));
    if (!wanted(pair, frame)) continue;
    const Buffer buffer = std::move(pair.buffers.front());
    pair.buffers.pop_front();
    Completion completion;
    completion.wc.wr_id = buffer.id;
    completion.wc.opcode = IBV_WC_RECV;
    completion.wc.byte_len = static_cast<std::uint32_t>(frame.size());
    completion.wc.qp_num = pair.qp_base.qp_num;
    completion.time = realtime();
    std::size_t at = 0;
    for (const ibv_sge& into : buffer.pieces) {
      const std::size_t count = std::min<std::size_t>(into.length, frame.size() - at);
      std::memcpy(reinterpret_cast<void*>(into.addr), frame.data() + at, count);
      at += count;
    }
    if (at < frame.size()) {
      completion.wc.status = IBV_WC_LOC_LEN_ERR;
      pair.qp_base.state = IBV_QPS_ERR;
    }
    complete(queue_of(pair.qp_base.recv_cq), completion);
  }
}

ibv_qp* create_qp_ex(ibv_context* base, ibv_qp_init_attr_ex* attr) {
  Context& context = context_of(base);
  constexpr std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  int number = scripted("ibv_create_qp");
  if (!number && (attr->comp_mask & ~known)) number = EOPNOTSUPP;
  if (!number && (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
      (attr->create_flags & ~static_cast<std::uint32_t>(IBV_QP_CREATE_BLOCK_SELF_MCAST_LB)))
    number = EOPNOTSUPP;
  if (!number && (attr->qp_type != IBV_QPT_RAW_PACKET || without("raw"))) number = EOPNOTSUPP;
  const bool requests = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (!number && requests && (without("wr") || (attr->send_ops_flags & ~std::uint64_t{IBV_QP_EX_WITH_SEND})))
    number = EOPNOTSUPP;
  if (!number && (attr->srq || !attr->send_cq || !attr->recv_cq || !attr->pd)) number = EINVAL;
  if (!number && (attr->cap.max_send_wr > 16384 || attr->cap.max_recv_wr > 16384 || attr->cap.max_send_sge > 16 ||
                  attr->cap.max_recv_sge > 16 || attr->cap.max_inline_data > 512))
    number = refuse(EINVAL, "QP with %u and %u requests and %u inline bytes", attr->cap.max_send_wr,
                    attr->cap.max_recv_wr, attr->cap.max_inline_data);
  if (number) {
    errno = number;
    return nullptr;
  }
  const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (socket < 0) return nullptr;  // EPERM, as the kernel returns it for ibv_create_qp
  const int on = 1, buffer = 8 << 20;
  setsockopt(socket, SOL_PACKET, PACKET_AUXDATA, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = context.interface;
  packet_mreq all{};
  all.mr_ifindex = context.interface;
  all.mr_type = PACKET_MR_PROMISC;
  setsockopt(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(socket);
    return nullptr;
  }
  const std::lock_guard lock(context.mutex);
  auto* pair = new QueuePair();
  pair->socket = socket;
  pair->cap = attr->cap;
  pair->all_signaled = attr->sq_sig_all;
  ibv_qp& qp = pair->qp_base;
  qp.context = base;
  qp.qp_context = attr->qp_context;
  qp.pd = attr->pd;
  qp.send_cq = attr->send_cq;
  qp.recv_cq = attr->recv_cq;
  qp.qp_num = context.next_number++;
  qp.state = IBV_QPS_RESET;
  qp.qp_type = attr->qp_type;
  attach(*pair, attr->send_cq);
  attach(*pair, attr->recv_cq);
  ++static_cast<Domain*>(attr->pd)->users;
  context.pairs.push_back(pair);
  if (requests) offer_requests(*pair);
  if (requests && context.noop) no_requests(*pair);
  return &qp;
}

void offer_requests(QueuePair& pair) {
  pair.comp_mask = 1;
  pair.wr_start = [](ibv_qp_ex* qp) {
    QueuePair& p = pair_of(qp);
    context_of(qp->qp_base.context).mutex.lock();
    p.building = true;
    p.wrong = 0;
    p.requests.clear();
    p.pieces.clear();
    p.inlines.clear();
  };
  pair.wr_send = [](ibv_qp_ex* qp) {
    ibv_send_wr wr{};
    wr.wr_id = qp->wr_id;
    wr.send_flags = qp->wr_flags;
    wr.opcode = IBV_WR_SEND;
    pair_of(qp).requests.push_back(wr);
  };
  pair.wr_set_sge = [](ibv_qp_ex* qp, std::uint32_t key, std::uint64_t address, std::uint32_t bytes) {
    QueuePair& p = pair_of(qp);
    p.pieces.push_back({address, bytes, key});
    p.requests.back().sg_list = &p.pieces.back();
    p.requests.back().num_sge = 1;
  };
  pair.wr_set_inline_data = [](ibv_qp_ex* qp, void* address, std::size_t bytes) {
    QueuePair& p = pair_of(qp);
    const auto* from = static_cast<const std::uint8_t*>(address);
    p.inlines.emplace_back(from, from + bytes);
    p.pieces.push_back(
        {reinterpret_cast<std::uint64_t>(p.inlines.back().data()), static_cast<std::uint32_t>(bytes), 0});
    p.requests.back().sg_list = &p.pieces.back();
    p.requests.back().num_sge = 1;
    p.requests.back().send_flags |= IBV_SEND_INLINE;
  };
  pair.wr_complete = [](ibv_qp_ex* qp) {
    QueuePair& p = pair_of(qp);
    Context& context = context_of(qp->qp_base.context);
    int number = scripted("ibv_wr_complete");
    if (!p.building) number = refuse(EINVAL, "ibv_wr_complete without ibv_wr_start");
    // All or none.
    if (!number && p.posted - p.released + p.requests.size() > p.cap.max_send_wr) number = ENOMEM;
    Request unused;
    for (const ibv_send_wr& wr : p.requests)
      if (!number) number = accept(p, wr, unused);
    for (std::size_t i = 0; i + 1 < p.requests.size(); ++i) p.requests[i].next = &p.requests[i + 1];
    ibv_send_wr* bad = nullptr;
    if (!number && !p.requests.empty()) number = post_send(&qp->qp_base, p.requests.data(), &bad);
    p.building = false;
    context.mutex.unlock();
    return number;
  };
  pair.wr_abort = [](ibv_qp_ex* qp) {
    pair_of(qp).building = false;
    context_of(qp->qp_base.context).mutex.unlock();
  };
}

void no_operations(Context& context) {
  context.noop = true;
  context.verbs.context.ops.post_send = [](ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr**) {
    for (; wr; wr = wr->next) no_frames(fake_verbs::pair_of(qp), wr->wr_id, wr->send_flags & IBV_SEND_SIGNALED);
    return 0;
  };
  context.verbs.context.ops.poll_cq = [](ibv_cq* cq, int, ibv_wc* wc) {
    Queue& queue = queue_of(cq);
    if (!queue.noop_waiting) return 0;
    queue.noop_waiting = 0;
    wc->wr_id = queue.noop_id;
    wc->status = IBV_WC_SUCCESS;
    wc->opcode = IBV_WC_SEND;
    return 1;
  };
}

void no_requests(QueuePair& pair) {
  pair.wr_start = [](ibv_qp_ex*) {};
  pair.wr_send = [](ibv_qp_ex* qp) { no_frames(pair_of(qp), qp->wr_id, qp->wr_flags & IBV_SEND_SIGNALED); };
  pair.wr_set_sge = [](ibv_qp_ex*, std::uint32_t, std::uint64_t, std::uint32_t) {};
  pair.wr_set_inline_data = [](ibv_qp_ex*, void*, std::size_t) {};
  pair.wr_complete = [](ibv_qp_ex*) { return 0; };
}

int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr) {
  if (const int number = scripted("ibv_modify_qp_rate_limit")) return number;
  if (qp->state != IBV_QPS_RTS) return refuse(EINVAL, "rate limit in state %d", qp->state);
  unsigned least = 0, most = 0;
  if (std::sscanf(variable("FAKE_VERBS_RATE").c_str(), "%u-%u", &least, &most) != 2) return EOPNOTSUPP;
  if (attr->comp_mask || (attr->rate_limit && (attr->rate_limit < least || attr->rate_limit > most))) return EINVAL;
  fake_verbs::pair_of(qp).rate = attr->rate_limit;
  return 0;
}

}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex full{};
  full.qp_context = attr->qp_context;
  full.send_cq = attr->send_cq;
  full.recv_cq = attr->recv_cq;
  full.srq = attr->srq;
  full.cap = attr->cap;
  full.qp_type = attr->qp_type;
  full.sq_sig_all = attr->sq_sig_all;
  full.comp_mask = IBV_QP_INIT_ATTR_PD;
  full.pd = pd;
  ibv_qp* qp = create_qp_ex(pd->context, &full);
  if (qp) attr->cap = full.cap;
  return qp;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  QueuePair& pair = fake_verbs::pair_of(qp);
  return pair.comp_mask ? &pair : nullptr;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (const int number = scripted("ibv_modify_qp")) return number;
  const std::lock_guard lock(context_of(qp->context).mutex);
  const ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
  if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state) return EINVAL;
  const int needed = masks(qp->state, to);
  if (needed < 0) return refuse(EINVAL, "invalid transition from state %d to %d", qp->state, to);
  const int allowed = IBV_QP_STATE | IBV_QP_CUR_STATE | needed | (to == IBV_QPS_RTS ? IBV_QP_RATE_LIMIT : 0) |
                      (to == IBV_QPS_INIT ? IBV_QP_PORT : 0);
  if ((mask & needed) != needed || (mask & ~allowed))
    return refuse(EINVAL, "invalid attributes for the transition from state %d to %d: 0x%x", qp->state, to, mask);
  if ((mask & IBV_QP_PORT) && attr->port_num != 1)
    return refuse(EINVAL, "invalid port %d; the only port is 1", attr->port_num);
  if (mask & IBV_QP_RATE_LIMIT) {
    unsigned least = 0, most = 0;
    if (std::sscanf(variable("FAKE_VERBS_RATE").c_str(), "%u-%u", &least, &most) != 2) return EOPNOTSUPP;
    if (attr->rate_limit && (attr->rate_limit < least || attr->rate_limit > most))
      return refuse(EINVAL, "unsupported rate of %u kbit/s", attr->rate_limit);
    fake_verbs::pair_of(qp).rate = attr->rate_limit;
  }
  qp->state = to;
  if (to == IBV_QPS_RESET) {
    QueuePair& pair = fake_verbs::pair_of(qp);
    pair.buffers.clear();
    pair.held.clear();
    pair.posted = pair.released = 0;
  }
  return 0;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  QueuePair& pair = fake_verbs::pair_of(qp);
  *attr = {};
  attr->qp_state = attr->cur_qp_state = qp->state;
  attr->port_num = 1;
  attr->cap = pair.cap;
  attr->rate_limit = pair.rate;
  *init = {qp->qp_context, qp->send_cq, qp->recv_cq, nullptr, pair.cap, qp->qp_type, pair.all_signaled};
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  QueuePair& pair = fake_verbs::pair_of(qp);
  Context& context = context_of(qp->context);
  const std::lock_guard lock(context.mutex);
  if (!pair.flows.empty()) return refuse(EBUSY, "cannot destroy a QP with %zu attached flows", pair.flows.size());
  for (ibv_cq* cq : {qp->send_cq, qp->recv_cq}) {
    Queue& queue = queue_of(cq);
    std::erase(queue.pairs, &pair);
    std::erase_if(queue.entries, [&](const Completion& c) { return c.wc.qp_num == qp->qp_num; });
  }
  --static_cast<Domain*>(qp->pd)->users;
  context.pairs.remove(&pair);
  close(pair.socket);
  delete &pair;
  return 0;
}

}  // extern "C"
