// Devices, contexts, ports, asynchronous events.

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <sstream>

#include "replay/wires/fake_verbs/fake_verbs_state.hpp"

namespace fake_verbs {
namespace {

// A device keeps its address for the lifetime of the process.
Device* device_named(const std::string& interface) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Device>> all;
  const std::lock_guard lock(mutex);
  auto& device = all[interface];
  if (!device) {
    device = std::make_unique<Device>();
    device->interface = interface;
    device->index = static_cast<int>(all.size());
    device->device.node_type = IBV_NODE_CA;
    device->device.transport_type = IBV_TRANSPORT_IB;
    interface.copy(device->device.name, sizeof device->device.name - 1);
  }
  const std::string sysfs = variable("FAKE_VERBS_SYSFS");
  const std::string path = (sysfs.empty() ? "/sys/class/infiniband" : sysfs) + "/" + interface;
  std::memset(device->device.ibdev_path, 0, sizeof device->device.ibdev_path);
  path.copy(device->device.ibdev_path, sizeof device->device.ibdev_path - 1);
  return device.get();
}

ifreq request_for(const Context& context) {
  ifreq request{};
  context.device->interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

bool ask(const Context& context, unsigned long what, ifreq& request) {
  request = request_for(context);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool answered = ioctl(socket, what, &request) == 0;
  close(socket);
  return answered;
}

void mac_of(const Context& context, std::uint8_t* mac) {
  ifreq request{};
  std::memset(mac, 0, 6);
  if (ask(context, SIOCGIFHWADDR, request)) std::memcpy(mac, request.ifr_hwaddr.sa_data, 6);
}

void gid_of(const Context& context, ibv_gid* gid) {
  std::uint8_t mac[6];
  mac_of(context, mac);
  const std::uint8_t bytes[16] = {
      0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<std::uint8_t>(mac[0] ^ 2),
      mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  std::memcpy(gid->raw, bytes, 16);
}

int query_port(ibv_context* base, std::uint8_t port, ibv_port_attr* attr, std::size_t bytes) {
  Context& context = context_of(base);
  if (const int number = scripted("ibv_query_port")) return number;
  if (port != 1) return refuse(EINVAL, "invalid port %d; the only port is 1", port);
  ibv_port_attr full{};
  ifreq request{};
  const bool there = ask(context, SIOCGIFMTU, request);
  const int mtu = there ? request.ifr_mtu : 1500;
  full.max_mtu = IBV_MTU_4096;
  full.active_mtu = mtu >= 4200 ? IBV_MTU_4096 : mtu >= 2148 ? IBV_MTU_2048 : IBV_MTU_1024;
  full.state = port_is_up(context) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  full.phys_state = full.state == IBV_PORT_ACTIVE ? 5 : 3;
  full.gid_tbl_len = without("gids") ? 0 : 1;
  full.pkey_tbl_len = 1;
  full.max_msg_sz = 1U << 30;
  full.active_width = 2;
  full.active_speed = 4;
  full.link_layer =
      variable("FAKE_VERBS_LINK_LAYER") == "infiniband" ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  std::memcpy(attr, &full, std::min(bytes, sizeof full));
  return 0;
}

void fill(Context& context, ibv_device_attr& attr) {
  std::strcpy(attr.fw_ver, "0.0.1");
  attr.node_guid = ibv_get_device_guid(&context.device->device);
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = ~0ULL;
  attr.page_size_cap = 0xfffffffffffff000;
  attr.vendor_id = 0x2c9;  // perftest chooses an MTU by known vendor IDs
  attr.vendor_part_id = 0xffff;
  attr.max_qp = 1024;
  attr.max_qp_wr = 16384;
  attr.max_sge = 16;
  attr.max_cq = 1024;
  attr.max_cqe = 1 << 20;
  attr.max_mr = 1 << 16;
  attr.max_pd = 1024;
  attr.max_raw_ethy_qp = without("raw") ? 0 : 1024;
  attr.max_pkeys = 1;
  attr.phys_port_cnt = 1;
}

int query_device_ex(ibv_context* base, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t bytes) {
  Context& context = context_of(base);
  if (const int number = scripted("ibv_query_device_ex")) return number;
  if (input && input->comp_mask) return EINVAL;
  ibv_device_attr_ex full{};
  fill(context, full.orig_attr);
  full.raw_packet_caps = without("raw") ? 0 : static_cast<std::uint32_t>(IBV_RAW_PACKET_CAP_IP_CSUM);
  if (!without("times")) {
    full.completion_timestamp_mask = ~0ULL;
    full.hca_core_clock = 1'000'000;  // kHz: one tick is one nanosecond
  }
  unsigned least = 0, most = 0;
  if (std::sscanf(variable("FAKE_VERBS_RATE").c_str(), "%u-%u", &least, &most) == 2) {
    full.packet_pacing_caps.qp_rate_limit_min = least;
    full.packet_pacing_caps.qp_rate_limit_max = most;
    full.packet_pacing_caps.supported_qpts = 1U << IBV_QPT_RAW_PACKET;
  }
  full.phys_port_cnt_ex = 1;
  std::memcpy(attr, &full, std::min(bytes, sizeof full));
  return 0;
}

}  // namespace

Context& context_of(ibv_context* context) { return *reinterpret_cast<Context*>(verbs_get_ctx(context)->priv); }

void happens(Context& context, ibv_event_type type) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = 1;
  context.events.push_back(event);
  eventfd_write(context.verbs.context.async_fd, 1);
}

bool port_is_up(Context& context) {
  ifreq request{};
  const bool up = variable("FAKE_VERBS_PORT") != "down" && ask(context, SIOCGIFFLAGS, request) &&
                  (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
  if (up == context.port_error) {
    context.port_error = !up;
    happens(context, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
  }
  return up;
}

}  // namespace fake_verbs

using namespace fake_verbs;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  if (const int number = scripted("ibv_get_device_list")) {
    errno = number;
    return nullptr;
  }
  const char* interfaces = std::getenv("FAKE_VERBS_DEVICES");
  if (!interfaces) {
    errno = ENOSYS;
    return nullptr;
  }
  std::vector<ibv_device*> found;
  std::istringstream words{std::string(interfaces)};
  for (std::string word; words >> word;) found.push_back(&device_named(word)->device);
  if (count) *count = static_cast<int>(found.size());
  auto** list = static_cast<ibv_device**>(std::calloc(found.size() + 1, sizeof(ibv_device*)));
  std::copy(found.begin(), found.end(), list);
  return list;
}
void ibv_free_device_list(ibv_device** list) { std::free(list); }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
int ibv_get_device_index(ibv_device* device) { return reinterpret_cast<Device*>(device)->index; }
__be64 ibv_get_device_guid(ibv_device* device) {
  const std::uint8_t guid[8] = {2,    0, 0, 0xff,
                                0xfe, 0, 0, static_cast<std::uint8_t>(reinterpret_cast<Device*>(device)->index)};
  __be64 value;
  std::memcpy(&value, guid, 8);
  return value;
}

ibv_context* ibv_open_device(ibv_device* device) {
  if (const int number = scripted("ibv_open_device")) {
    errno = number;
    return nullptr;
  }
  auto* context = new Context();
  context->device = reinterpret_cast<Device*>(device);
  context->interface = static_cast<int>(if_nametoindex(context->device->interface.c_str()));
  if (context->interface == 0) {
    delete context;
    errno = refuse(ENODEV, "no interface %s", device->name);
    return nullptr;
  }
  verbs_context& verbs = context->verbs;
  verbs.sz = sizeof verbs;
  verbs.priv = reinterpret_cast<verbs_ex_private*>(context);
  verbs.query_port = query_port;
  verbs.query_device_ex = query_device_ex;
  verbs.create_cq_ex = create_cq_ex;
  verbs.create_qp_ex = create_qp_ex;
  verbs.ibv_create_flow = create_flow;
  verbs.ibv_destroy_flow = destroy_flow;
  verbs.modify_qp_rate_limit = modify_qp_rate_limit;
  verbs.context.device = device;
  verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs.context.cmd_fd = -1;
  verbs.context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  verbs.context.num_comp_vectors = 1;
  verbs.context.ops.post_send = post_send;
  verbs.context.ops.post_recv = post_recv;
  verbs.context.ops.poll_cq = poll_cq;
  verbs.context.ops.req_notify_cq = req_notify_cq;
  if (variable("FAKE_VERBS_NOOP") == "1") no_operations(*context);
  return &verbs.context;
}

int ibv_close_device(ibv_context* base) {
  Context& context = context_of(base);
  // Reports objects that the program did not destroy. The driver of a device would release them silently.
  if (context.domains || context.queues || context.channels || !context.regions.empty() || !context.pairs.empty()) {
    refuse(0, "closing %s: %d protection domains, %d completion queues, %d channels, %zu regions, %zu queue pairs",
           context.device->interface.c_str(), context.domains, context.queues, context.channels, context.regions.size(),
           context.pairs.size());
    return 0;
  }
  close(base->async_fd);
  delete &context;
  return 0;
}

int ibv_query_device(ibv_context* base, ibv_device_attr* attr) {
  if (const int number = scripted("ibv_query_device")) return number;
  std::memset(attr, 0, sizeof *attr);
  fill(context_of(base), *attr);
  return 0;
}

int ibv_query_port(ibv_context* base, std::uint8_t port, _compat_ibv_port_attr* attr) {
  // Old programs have a struct that ends before port_cap_flags2.
  return query_port(base, port, reinterpret_cast<ibv_port_attr*>(attr), offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* base, std::uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  gid_of(context_of(base), gid);
  return 0;
}
int ibv_query_gid_type(ibv_context*, std::uint8_t, unsigned index, unsigned* type) {
  *type = 1;
  return index == 0 ? 0 : -1;
}
int _ibv_query_gid_ex(ibv_context* base, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                      std::uint32_t flags, std::size_t bytes) {
  if (const int number = scripted("ibv_query_gid_ex")) return number;
  if (port != 1 || index != 0 || flags || bytes < sizeof *entry) return index != 0 ? ENODATA : EINVAL;
  *entry = {};
  gid_of(context_of(base), &entry->gid);
  entry->port_num = 1;
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  entry->ndev_ifindex = static_cast<std::uint32_t>(context_of(base).interface);
  return 0;
}
ssize_t _ibv_query_gid_table(ibv_context* base, ibv_gid_entry* entries, std::size_t most, std::uint32_t flags,
                             std::size_t bytes) {
  if (most == 0) return -EINVAL;
  const int number = _ibv_query_gid_ex(base, 1, 0, entries, flags, bytes);
  return number ? -number : 1;
}
int ibv_query_pkey(ibv_context*, std::uint8_t port, int index, __be16* pkey) {
  *pkey = 0xffff;
  return port == 1 && index == 0 ? 0 : -1;
}

int ibv_get_async_event(ibv_context* base, ibv_async_event* event) {
  Context& context = context_of(base);
  eventfd_t count = 0;
  if (eventfd_read(base->async_fd, &count) != 0) return -1;
  const std::lock_guard lock(context.mutex);
  *event = context.events.front();
  context.events.pop_front();
  return 0;
}
void ibv_ack_async_event(ibv_async_event*) {}

ibv_pd* ibv_alloc_pd(ibv_context* base) {
  if (const int number = scripted("ibv_alloc_pd")) {
    errno = number;
    return nullptr;
  }
  auto* domain = new Domain();
  domain->context = base;
  ++context_of(base).domains;
  return domain;
}
int ibv_dealloc_pd(ibv_pd* pd) {
  auto* domain = static_cast<Domain*>(pd);
  if (domain->users) return refuse(EBUSY, "protection domain with %d users is deallocated", domain->users);
  --context_of(pd->context).domains;
  delete domain;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t, unsigned access) {
  Context& context = context_of(pd->context);
  if (const int number = scripted("ibv_reg_mr")) {
    errno = number;
    return nullptr;
  }
  if (length == 0) {
    errno = EINVAL;
    return nullptr;
  }
  const std::lock_guard lock(context.mutex);
  auto* region = new ibv_mr();
  *region = {pd->context, pd, address, length, access, context.next_key, context.next_key};
  context.regions[context.next_key] = region;
  context.next_key += 0x11;
  ++static_cast<Domain*>(pd)->users;
  return region;
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                          static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access) {
  return ibv_reg_mr_iova2(pd, address, length, iova, static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr* region) {
  Context& context = context_of(region->context);
  const std::lock_guard lock(context.mutex);
  context.regions.erase(region->lkey);
  --static_cast<Domain*>(region->pd)->users;
  delete region;
  return 0;
}

}  // extern "C"
