#pragma once
/// For tests only: a libibverbs that stands in for the real one, over AF_PACKET. It is strict about what devices are
/// strict about, and fails when it is told to. It is loaded before libibverbs, whose pure functions (texts of statuses)
/// stay in use.
///
/// What it does is said by environment variables, which are read anew at each use:
///
///     FAKE_VERBS_DEVICES       interfaces, separated by blanks: each is a device of that name with one port; unset:
///                            no RDMA in the kernel (ENOSYS)
///     FAKE_VERBS_FAIL          CALL=NUMBER[@N],…: that call gives that errno; with @N only the Nth from then on
///     FAKE_VERBS_COMPLETION    N=STATUS: the Nth frame sent completes with that status, and its queue pair fails
///     FAKE_VERBS_LINK_LAYER    infiniband: the ports are not Ethernet
///     FAKE_VERBS_PORT          down: the ports are, whatever the interface is
///     FAKE_VERBS_WITHOUT       words of: wr (ibv_wr_*), times, wallclock, sniffer, raw
///     FAKE_VERBS_RATE          LEAST-MOST: packet pacing, kbit/s
///     FAKE_VERBS_L2_INLINE     bytes of a frame that must be inline or in the first scatter entry
///     FAKE_VERBS_LOOPBACK      1: what one queue pair sends arrives at the other ones of this device, too
///     FAKE_VERBS_NOOP          1: posting and polling do nothing but count, so that the costs of their caller show

#include <infiniband/verbs.h>

// These names are macros around functions that are defined here.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake_verbs {

// What the environment says.
std::string variable(const char* name);
bool without(const char* what);
/// The errno with which this use of `call` is to fail; 0: none.
int scripted(const char* call);
/// The status with which the frame of that number (from 1) completes.
ibv_wc_status completion_of(std::uint64_t frame);
/// Says on standard error what a device would only answer with an errno, and gives that.
int refuse(int number, const char* format, ...) __attribute__((format(printf, 2, 3)));

struct Device {
  ibv_device device{};
  char behind[512]{};  ///< providers look behind ibv_device for what is theirs
  std::string interface;
  int index = 0;
};

struct QueuePair;

struct Context {
  Device* device = nullptr;
  std::recursive_mutex mutex;
  int interface = 0;  ///< its index
  int domains = 0, channels = 0;
  std::uint32_t next_key = 0x100;
  std::uint32_t next_number = 0x40;
  std::map<std::uint32_t, ibv_mr*> regions;
  std::list<QueuePair*> pairs;
  int queues = 0;
  std::deque<ibv_async_event> events;
  bool port_error = false, fatal = false, noop = false;
  verbs_context verbs{};
};
Context& context_of(ibv_context* context);
/// An event for ibv_get_async_event.
void happens(Context& context, ibv_event_type type);
/// The port is up and has its carrier. Says so by an event when that changes.
bool port_is_up(Context& context);

struct Domain : ibv_pd {
  int users = 0;
};

struct Channel : ibv_comp_channel {
  std::deque<ibv_cq*> waiting;
};

struct Completion {
  ibv_wc wc{};
  std::int64_t time = 0;       ///< nanoseconds since 1970
  QueuePair* pair = nullptr;   ///< whose send queue it frees
  std::uint64_t released = 0;  ///< up to this request
};

struct Queue : ibv_cq_ex {
  std::deque<Completion> entries;
  std::vector<QueuePair*> pairs;
  bool armed = false, overrun = false;
  int event = -1;  ///< eventfd
  std::uint32_t unacknowledged = 0;
  Completion current;  ///< of the polling of ibv_cq_ex
  std::uint64_t noop_id = 0;
  std::uint32_t noop_waiting = 0;
};
inline Queue& queue_of(ibv_cq* cq) { return *static_cast<Queue*>(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline ibv_cq* base_of(Queue& queue) { return ibv_cq_ex_to_cq(&queue); }

struct Request {
  std::uint64_t id = 0;
  bool signaled = false;
  std::vector<std::uint8_t> bytes;
};
struct Buffer {
  std::uint64_t id = 0;
  std::vector<ibv_sge> pieces;
};

struct Flow : ibv_flow {
  QueuePair* pair = nullptr;
  ibv_flow_attr_type type = IBV_FLOW_ATTR_NORMAL;
  std::vector<std::vector<std::uint8_t>> specifications;
};

struct QueuePair : ibv_qp_ex {
  ibv_qp_cap cap{};
  bool all_signaled = false;
  int socket = -1;
  std::uint64_t posted = 0, released = 0, frames = 0;
  std::deque<Request> held;  ///< posted while the port was down
  std::deque<Buffer> buffers;
  std::list<Flow*> flows;
  std::uint32_t rate = 0;
  // ibv_wr_*: what was begun.
  bool building = false;
  int wrong = 0;
  std::vector<ibv_send_wr> requests;
  std::deque<ibv_sge> pieces;
  std::deque<std::vector<std::uint8_t>> inlines;
};
inline QueuePair& pair_of(ibv_qp* qp) { return *static_cast<QueuePair*>(reinterpret_cast<ibv_qp_ex*>(qp)); }
inline ibv_qp& base_of(QueuePair& pair) { return pair.qp_base; }

/// Whether one of the pair's flows takes that frame.
bool wanted(const QueuePair& pair, const std::vector<std::uint8_t>& frame);
/// Takes what arrived for the pair and completes it.
void pump(QueuePair& pair);
/// Sends what was held while the port was down.
void send_held(QueuePair& pair);
void complete(Queue& queue, Completion completion);
/// Registered memory with these rights; an errno otherwise.
int check_memory(QueuePair& pair, const ibv_sge& piece, bool written);

// The operations of a context.
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int poll_cq(ibv_cq* cq, int count, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);
ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr);
int destroy_flow(ibv_flow* flow);
void offer_requests(QueuePair& pair);
void no_operations(Context& context);
void no_requests(QueuePair& pair);
std::int64_t realtime();

}  // namespace fake_verbs
