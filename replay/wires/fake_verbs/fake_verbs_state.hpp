#pragma once
/// A fake libibverbs over AF_PACKET, for tests. It checks arguments as strictly as devices do and can inject errors. It
/// is loaded before libibverbs, whose pure functions (status texts) remain in use.
///
/// Environment variables control it. They are read at each use:
///
///     FAKE_VERBS_DEVICES       interfaces, separated by spaces: each is a device with one port. Unset:
///                            no RDMA in the kernel (ENOSYS)
///     FAKE_VERBS_FAIL          CALL=NUMBER[@N],…: the call fails with this errno. @N: only from the Nth call on
///     FAKE_VERBS_COMPLETION    N=STATUS: the Nth sent frame completes with this status and its QP fails
///     FAKE_VERBS_LINK_LAYER    infiniband: the ports are not Ethernet
///     FAKE_VERBS_PORT          down: all ports are down, regardless of the interface
///     FAKE_VERBS_WITHOUT       words of: wr (ibv_wr_*), times, wallclock, sniffer, raw, gids (empty GID table)
///     FAKE_VERBS_SYSFS         directory instead of /sys/class/infiniband
///     FAKE_VERBS_RATE          LEAST-MOST: packet pacing, kbit/s
///     FAKE_VERBS_L2_INLINE     bytes of a frame that must be inline or in the first scatter entry
///     FAKE_VERBS_LOOPBACK      1: frames sent by a QP also arrive at the other QPs of the device
///     FAKE_VERBS_NOOP          1: posting and polling only count, to measure the cost of the caller

#include <infiniband/verbs.h>

// These names are macros around functions defined here.
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

// Access to the environment variables.
std::string variable(const char* name);
bool without(const char* what);
/// The errno that this use of `call` must fail with. 0: none.
int scripted(const char* call);
/// The completion status of the frame with this number (from 1).
ibv_wc_status completion_of(std::uint64_t frame);
/// Prints the reason of an error to standard error and returns `number`.
int refuse(int number, const char* format, ...) __attribute__((format(printf, 2, 3)));

struct Device {
  ibv_device device{};
  char behind[512]{};  ///< providers store their data after ibv_device
  std::string interface;
  int index = 0;
};

struct QueuePair;

struct Context {
  Device* device = nullptr;
  std::recursive_mutex mutex;
  int interface = 0;  ///< interface index
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
/// Queues an event for ibv_get_async_event.
void happens(Context& context, ibv_event_type type);
/// True if the port is up and has a carrier. Queues an event when that changes.
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
  QueuePair* pair = nullptr;   ///< whose send queue slots are released
  std::uint64_t released = 0;  ///< up to this request
};

struct Queue : ibv_cq_ex {
  std::deque<Completion> entries;
  std::vector<QueuePair*> pairs;
  bool armed = false, overrun = false;
  int event = -1;  ///< eventfd
  std::uint32_t unacknowledged = 0;
  Completion current;  ///< current entry of the ibv_cq_ex poll
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
  // ibv_wr_*: the request under construction.
  bool building = false;
  int wrong = 0;
  std::vector<ibv_send_wr> requests;
  std::deque<ibv_sge> pieces;
  std::deque<std::vector<std::uint8_t>> inlines;
};
inline QueuePair& pair_of(ibv_qp* qp) { return *static_cast<QueuePair*>(reinterpret_cast<ibv_qp_ex*>(qp)); }
inline ibv_qp& base_of(QueuePair& pair) { return pair.qp_base; }

/// True if a flow of the QP matches the frame.
bool wanted(const QueuePair& pair, const std::vector<std::uint8_t>& frame);
/// Receives pending frames of the QP and completes them.
void pump(QueuePair& pair);
/// Sends the frames that were posted while the port was down.
void send_held(QueuePair& pair);
void complete(Queue& queue, Completion completion);
/// Returns 0 if the memory is registered with these access rights, otherwise an errno.
int check_memory(QueuePair& pair, const ibv_sge& piece, bool written);

// Operations of a context.
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
