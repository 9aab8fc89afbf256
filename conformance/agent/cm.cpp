/// cm_listen, cm_connect, cm_accept, cm_establish, cm_reject, cm_disconnect, cm_join: RDMA CM connections.
///
/// QPs are created with create_qp. librdmacm gets only their numbers, and their states are modified here with the
/// attributes that it computes (rdma_init_qp_attr). Therefore all transports use the same QP objects.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"
#include "replay/rpc/connection_commands.hpp"
#include "replay/rpc/events.hpp"

namespace rdmawire::agent {
namespace {

using rpc::ByteVector;

/// Placeholder for the maximum that the device supports. Replaced when the device is known.
constexpr std::uint8_t as_device = 255;

[[nodiscard]] tl::unexpected<Error> cm_failed(std::string_view call) {
  const int number = errno == 0 ? EIO : errno;
  return fail(number, "{}: {}", call, errno_text(number));
}

/// An IPv4 or IPv6 address with port.
struct Endpoint {
  sockaddr_storage storage{};
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Sets an address and its port.
void describe(std::optional<std::string>& text, std::optional<std::uint16_t>& number, const sockaddr& address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  const socklen_t length = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (address.sa_family != AF_INET && address.sa_family != AF_INET6) return;
  if (getnameinfo(&address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) return;
  text = host;
  number = static_cast<std::uint16_t>(std::stoul(port));
}

Result<Endpoint> endpoint_of(std::string_view member, const std::string& text, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(text.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return fail(EINVAL, "{}: is not an IPv4 or IPv6 address", member);
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return endpoint;
}

class CmId;

/// The event channel of the session.
class CmChannel final : public Object {
 public:
  static constexpr Kind own_kind = Kind::cm_channel;

  CmChannel(Session& session, rdma_event_channel* channel);
  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] bool needs_guard() const override { return true; }
  int release() override {
    watch_.stop();
    rdma_destroy_event_channel(channel_);
    return 0;
  }
  [[nodiscard]] rdma_event_channel* get() const { return channel_; }

 private:
  void read_event();

  Session* session_;
  rdma_event_channel* channel_;
  Loop::Watch watch_;
};

/// Parameters of a connection, as the controller specified them.
struct PendingRequest {
  ByteVector private_data;
  std::uint8_t responder_resources = as_device, initiator_depth = as_device;
  std::uint8_t flow_control = 0, retry_count = 7, rnr_retry_count = 7, srq = 0;
  Handle qp = 0;  ///< handle in the session. 0: none
  std::uint32_t qp_num = 0;

  [[nodiscard]] rdma_conn_param parameters() const {
    rdma_conn_param parameters{};
    parameters.private_data = private_data.empty() ? nullptr : private_data.data();
    parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
    parameters.responder_resources = responder_resources;
    parameters.initiator_depth = initiator_depth;
    parameters.flow_control = flow_control;
    parameters.retry_count = retry_count;
    parameters.rnr_retry_count = rnr_retry_count;
    parameters.srq = srq;
    parameters.qp_num = qp_num;
    return parameters;
  }
};

class CmId final : public Object {
 public:
  static constexpr Kind own_kind = Kind::cm_id;
  enum class Role : std::uint8_t { listener, active, passive, member };

  CmId(Session& session, rdma_cm_id* id, Role of) : role(of), session_(&session), id_(id) {}

  [[nodiscard]] Kind kind() const override { return own_kind; }
  [[nodiscard]] Json about() const override;
  int release() override;

  [[nodiscard]] rdma_cm_id* get() const { return id_; }
  /// Handles an event, which is still owned by librdmacm.
  void hear(const rdma_cm_event& event);

  Result<void> resolve_route();
  Result<void> connect();
  Result<void> join();
  Result<void> establish();
  Result<void> accept();
  Result<void> disconnect();

  const Role role;
  PendingRequest wanted;
  int timeout_ms = 2000;
  bool establishes = true;   ///< complete the connection automatically when the peer accepts
  bool says_goodbye = true;  ///< disconnect automatically when the peer disconnects
  bool has_response = false;
  Endpoint group;  ///< multicast group of a member
  bool sends_only = false;
  std::uint8_t asked_responder_resources = 0, asked_initiator_depth = 0;  ///< as in the peer's request

 private:
  [[nodiscard]] bool iwarp() const {
    return id_->verbs != nullptr && id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  }
  [[nodiscard]] bool datagram() const { return id_->qp_type == IBV_QPT_UD; }
  /// Returns the specified QP. Fails if it is not on the device that the CM selected. nullptr: none was specified.
  Result<ibv_qp*> queue_pair();
  Result<void> modify(ibv_qp* qp, ibv_qp_state state);
  Result<void> make_ready(ibv_qp* qp);
  void stop_queue_pair();
  void limit_to_device();
  void push(rpc::CmEvent event);
  void go_on(std::string_view step, const Result<void>& result);

  Session* session_;
  rdma_cm_id* id_;
  ibv_qp* attached_ = nullptr;  // QP that is attached to the multicast group
  ibv_gid group_gid_{};
  std::uint16_t group_lid_ = 0;
};

CmChannel::CmChannel(Session& session, rdma_event_channel* channel) : session_(&session), channel_(channel) {
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  fcntl(channel->fd, F_SETFD, FD_CLOEXEC);
  watch_ = session.loop().add_descriptor(channel->fd, POLLIN, [this](short) { read_event(); });
}

void CmChannel::read_event() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) return;
  if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    if (session_->objects().full()) {
      rdma_cm_id* id = event->id;
      rdma_ack_cm_event(event);
      rdma_reject(id, nullptr, 0);
      rdma_destroy_id(id);
      return;
    }
    CmId& request = session_->objects().add(std::make_unique<CmId>(*session_, event->id, CmId::Role::passive), {this});
    event->id->context = &request;
  }
  auto* id = static_cast<CmId*>(event->id->context);
  id->hear(*event);
  rdma_ack_cm_event(event);
}

ByteVector bytes_of(const void* data, std::uint8_t length) {
  const auto* begin = static_cast<const std::uint8_t*>(data);
  return {begin, begin + length};
}

void describe(rpc::CmEvent& event, const rdma_conn_param& parameters) {
  event.private_data = bytes_of(parameters.private_data, parameters.private_data_len);
  event.responder_resources = parameters.responder_resources;
  event.initiator_depth = parameters.initiator_depth;
  event.flow_control = parameters.flow_control;
  event.retry_count = parameters.retry_count;
  event.rnr_retry_count = parameters.rnr_retry_count;
  event.srq = parameters.srq;
  event.qp_num = parameters.qp_num;
}

void describe(rpc::CmEvent& event, const rdma_ud_param& parameters, bool with_data) {
  if (with_data) event.private_data = bytes_of(parameters.private_data, parameters.private_data_len);
  event.qp_num = parameters.qp_num;
  event.qkey = parameters.qkey;
  event.ah = address_of(parameters.ah_attr);
}

void describe(rpc::CmEvent& event, const rdma_cm_id& id) {
  if (id.verbs != nullptr) {
    event.device = ibv_get_device_name(id.verbs->device);
    event.port_num = id.port_num;
  }
  describe(event.local_address, event.local_port, id.route.addr.src_addr);
  describe(event.remote_address, event.remote_port, id.route.addr.dst_addr);
}

void set_error(rpc::CmEvent& event, int number) {
  event.error = static_cast<std::uint32_t>(number);
  event.error_name = errno_name(number);
}

void CmId::hear(const rdma_cm_event& event) {
  rpc::CmEvent report;
  report.type = decltype(report.type)::of(event.event);
  const auto tell = [&] { push(report); };
  if (event.status < 0) {
    set_error(report, -event.status);
  } else if (event.status > 0) {
    // For a rejection, the reason given by the peer, IBTA vol 1, 12.6.7.2.
    (event.event == RDMA_CM_EVENT_REJECTED ? report.reason : report.status) = static_cast<std::uint32_t>(event.status);
  }
  const auto private_data = [&] {
    return datagram() ? bytes_of(event.param.ud.private_data, event.param.ud.private_data_len)
                      : bytes_of(event.param.conn.private_data, event.param.conn.private_data_len);
  };
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      describe(report, *id_);
      tell();
      if (role == Role::member) {
        go_on("join", join());
      } else {
        go_on("resolve_route", resolve_route());
      }
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      tell();
      go_on("connect", connect());
      break;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      asked_responder_resources = event.param.conn.responder_resources;
      asked_initiator_depth = event.param.conn.initiator_depth;
      report.listener = {static_cast<const CmId*>(event.listen_id->context)->handle()};
      describe(report, *id_);
      if (datagram()) {
        report.private_data = private_data();
      } else {
        describe(report, event.param.conn);
      }
      tell();
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      describe(report, event.param.conn);
      has_response = true;
      if (!establishes) {
        tell();
        break;
      }
      const auto done = establish();
      if (done) {
        report.type = "established";
        tell();
      } else {
        tell();
        go_on("establish", done);
      }
      break;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      if (datagram()) {
        describe(report, event.param.ud, true);
      } else {
        describe(report, event.param.conn);
      }
      tell();
      break;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      report.private_data = private_data();
      stop_queue_pair();
      tell();
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      report.private_data = private_data();
      tell();
      // Both endpoints get this event. On the endpoint that disconnected first, disconnect() fails. Ignore that.
      if (says_goodbye) static_cast<void>(disconnect());
      break;
    case RDMA_CM_EVENT_MULTICAST_JOIN: {
      describe(report, event.param.ud, false);
      group_gid_ = event.param.ud.ah_attr.grh.dgid;
      group_lid_ = event.param.ud.ah_attr.dlid;
      tell();
      const auto qp = queue_pair();
      if (!qp) {
        go_on("attach", tl::unexpected(qp.error()));
      } else if (*qp != nullptr && !sends_only) {
        const int number = ibv_attach_mcast(*qp, &group_gid_, group_lid_);
        if (number == 0) {
          attached_ = *qp;
        } else {
          go_on("attach", tl::unexpected(verbs_failed("ibv_attach_mcast", number)));
        }
      }
      break;
    }
    default: tell(); break;
  }
}

void CmId::push(rpc::CmEvent event) {
  event.cm_id = {handle()};
  session_->push(event);
}

/// Reports the failure of an automatic step as an event.
void CmId::go_on(std::string_view step, const Result<void>& result) {
  if (result) return;
  rpc::CmEvent report;
  report.type = "failed";
  set_error(report, result.error().number);
  report.step = step;
  report.message = result.error().message;
  push(std::move(report));
}

Json CmId::about() const {
  static constexpr const char* roles[] = {"listener", "active", "passive", "member"};
  rpc::CmEvent report;
  describe(report, *id_);
  Json json = {{"role", roles[static_cast<int>(role)]}};
  json.update(rpc::write(&report, rpc::CmEvent::event().fields));
  json.erase("cm_id");
  json.erase("type");
  return json;
}

int CmId::release() {
  if (attached_ != nullptr) {
    // Detach the QP if it still exists. Otherwise its destruction detached it.
    auto* qp = session_->objects().find_if<Qp>([&](const Qp& other) { return other.verbs() == attached_; });
    if (qp != nullptr) ibv_detach_mcast(attached_, &group_gid_, group_lid_);
    attached_ = nullptr;
  }
  return rdma_destroy_id(id_) == 0 ? 0 : errno;
}

Result<ibv_qp*> CmId::queue_pair() {
  if (wanted.qp == 0) return nullptr;
  const auto found = session_->objects().get<Qp>(wanted.qp);
  if (!found) return tl::unexpected(found.error());
  if (session_->slow_calls().takes(wanted.qp)) return fail(EBUSY, "qp: modify_qp is still in progress");
  ibv_qp* qp = (*found)->verbs();
  if (id_->verbs == nullptr) return fail(ENOTCONN, "qp: the CM has not chosen a device yet");
  const char* chosen = ibv_get_device_name(id_->verbs->device);
  const char* own = ibv_get_device_name(qp->context->device);
  if (std::strcmp(chosen, own) != 0) {
    return fail(EXDEV, "qp: the route uses device {}, but queue pair {} belongs to {}", chosen, wanted.qp, own);
  }
  return qp;
}

Result<void> CmId::modify(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = state;
  if (rdma_init_qp_attr(id_, &attributes, &mask) != 0) return cm_failed("rdma_init_qp_attr");
  // The mask is empty if the iWARP CM itself changes the state in this step.
  if (mask == 0) return {};
  if (role == Role::passive && state == IBV_QPS_RTR && (mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    attributes.max_dest_rd_atomic = wanted.responder_resources;
  if (role == Role::passive && state == IBV_QPS_RTS && (mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    attributes.max_rd_atomic = wanted.initiator_depth;
  const int number = ibv_modify_qp(qp, &attributes, mask);
  if (number != 0) {
    Error error = verbs_failed("ibv_modify_qp", number);
    error.message += fmt::format(" (to {})", name_of(names::qp_state, state));
    return tl::unexpected(std::move(error));
  }
  return {};
}

/// Changes a QP in RESET to INIT, so that receive requests can be posted. Changes a UD QP to RTS.
Result<void> CmId::make_ready(ibv_qp* qp) {
  if (qp->state == IBV_QPS_RESET)
    if (auto done = modify(qp, IBV_QPS_INIT); !done) return done;
  if (!datagram()) return {};
  ibv_qp_attr attributes{};
  for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (qp->state >= state) continue;
    attributes.qp_state = state;
    const int number = ibv_modify_qp(qp, &attributes, IBV_QP_STATE | (state == IBV_QPS_RTS ? IBV_QP_SQ_PSN : 0));
    if (number != 0) return tl::unexpected(verbs_failed("ibv_modify_qp", number));
  }
  return {};
}

void CmId::limit_to_device() {
  ibv_device_attr_ex device{};
  const bool known = id_->verbs != nullptr && ibv_query_device_ex(id_->verbs, nullptr, &device) == 0;
  const auto limit = [&](std::uint8_t& value, int most, std::uint8_t asked) {
    if (value == as_device) value = static_cast<std::uint8_t>(known ? std::clamp<int>(most, 0, asked) : 0);
  };
  const bool answers = role == Role::passive;
  // The values of the peer's request are upper limits. librdmacm has already swapped them for this side.
  limit(wanted.responder_resources, device.orig_attr.max_qp_rd_atom,
        answers ? asked_responder_resources : as_device - 1);
  limit(wanted.initiator_depth, device.orig_attr.max_qp_init_rd_atom, answers ? asked_initiator_depth : as_device - 1);
}

Result<void> CmId::resolve_route() {
  if (rdma_resolve_route(id_, timeout_ms) != 0) return cm_failed("rdma_resolve_route");
  return {};
}

Result<void> CmId::connect() {
  const auto qp = queue_pair();
  if (!qp) return tl::unexpected(qp.error());
  if (*qp != nullptr) {
    wanted.qp_num = (*qp)->qp_num;
    if (auto done = make_ready(*qp); !done) return done;
  }
  limit_to_device();
  // For iWARP, rdma_connect blocks until the kernel has established TCP or given up. So it is a slow call.
  const auto make = [id = id_, with = wanted] {
    auto parameters = with.parameters();
    errno = 0;
    if (rdma_connect(id, &parameters) == 0) return 0;
    return errno == 0 ? EIO : errno;
  };
  const auto then = [this](int number) {
    errno = number;
    if (number != 0) go_on("connect", cm_failed("rdma_connect"));
  };
  SlowCalls::Call call{make, then, {handle()}, handle()};
  if (wanted.qp != 0) call.uses.push_back(wanted.qp);
  session_->make_slow_call(std::move(call));
  return {};
}

Result<void> CmId::establish() {
  if (!has_response) return fail(ENOTCONN, "cm_id: no pending response from the peer");
  const auto qp = queue_pair();
  if (!qp) return tl::unexpected(qp.error());
  if (*qp != nullptr) {
    for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS})
      if (auto done = modify(*qp, state); !done) return done;
  }
  if (rdma_establish(id_) != 0) return cm_failed("rdma_establish");
  has_response = false;
  return {};
}

Result<void> CmId::accept() {
  const auto qp = queue_pair();
  if (!qp) return tl::unexpected(qp.error());
  limit_to_device();
  if (*qp != nullptr) {
    wanted.qp_num = (*qp)->qp_num;
    if (auto done = make_ready(*qp); !done) return done;
    if (!datagram()) {
      for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS})
        if (auto done = modify(*qp, state); !done) return done;
    }
  }
  auto parameters = wanted.parameters();
  if (rdma_accept(id_, &parameters) != 0) {
    auto error = cm_failed("rdma_accept");
    stop_queue_pair();
    return error;
  }
  return {};
}

/// Changes the QP of a closed connection to the error state. For iWARP, the kernel does this.
void CmId::stop_queue_pair() {
  if (datagram() || iwarp()) return;
  const auto qp = queue_pair();
  if (!qp || *qp == nullptr || (*qp)->state == IBV_QPS_RESET) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(*qp, &attributes, IBV_QP_STATE);
}

Result<void> CmId::disconnect() {
  stop_queue_pair();
  if (rdma_disconnect(id_) != 0) return cm_failed("rdma_disconnect");
  return {};
}

Result<void> CmId::join() {
  const auto qp = queue_pair();
  if (!qp) return tl::unexpected(qp.error());
  if (*qp != nullptr)
    if (auto done = make_ready(*qp); !done) return done;
  rdma_cm_join_mc_attr_ex attributes{};
  attributes.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  attributes.join_flags = sends_only ? RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER : RDMA_MC_JOIN_FLAG_FULLMEMBER;
  attributes.addr = group.get();
  if (rdma_join_multicast_ex(id_, &attributes, this) != 0) return cm_failed("rdma_join_multicast_ex");
  return {};
}

Result<CmChannel*> channel_of(Session& session) {
  if (auto* channel = session.objects().find_if<CmChannel>([](const CmChannel&) { return true; })) return channel;
  errno = 0;
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) {
    const int number = errno == 0 ? ENODEV : errno;
    return fail(number, "rdma_create_event_channel: {}; is the module rdma_ucm loaded?", errno_text(number));
  }
  return &session.objects().add(std::make_unique<CmChannel>(session, channel));
}

Result<CmId*> make_id(Session& session, CmId::Role role, std::uint64_t port_space) {
  const auto channel = channel_of(session);
  if (!channel) return tl::unexpected(channel.error());
  rdma_cm_id* id = nullptr;
  if (rdma_create_id((*channel)->get(), &id, nullptr, static_cast<rdma_port_space>(port_space)) != 0)
    return cm_failed("rdma_create_id");
  CmId& added = session.objects().add(std::make_unique<CmId>(session, id, role), {*channel});
  id->context = &added;
  return &added;
}

/// Runs `step`, the librdmacm call with this name. Releases the id if it fails.
template <class Step>
Result<void> or_release(Session& session, CmId& id, std::string_view call, Step step) {
  errno = 0;
  if (step(id.get()) == 0) return {};
  auto error = cm_failed(call);
  static_cast<void>(session.objects().destroy(id.handle()));
  return error;
}

Result<PendingRequest> wanted_of(Session& session, const rpc::ConnectionParameters& request) {
  PendingRequest wanted;
  wanted.private_data = request.private_data;
  wanted.responder_resources = request.responder_resources.value_or(as_device);
  wanted.initiator_depth = request.initiator_depth.value_or(as_device);
  wanted.flow_control = request.flow_control ? 1 : 0;
  wanted.rnr_retry_count = request.rnr_retry_count;
  wanted.srq = request.srq ? 1 : 0;
  const auto* qp = session.objects().of<Qp>(request.qp);
  if (qp != nullptr && request.qp_num) return fail(EINVAL, "qp_num: cannot be combined with qp");
  if (qp == nullptr && !request.qp_num) return fail(EINVAL, "qp: either qp or qp_num is required");
  if (qp != nullptr) {
    wanted.qp = qp->handle();
    if (qp->verbs()->srq != nullptr) wanted.srq = 1;
  }
  wanted.qp_num = request.qp_num.value_or(0);
  return wanted;
}

/// Sets the options that must be set before address resolution.
Result<void> set_options(CmId& id, std::optional<std::uint8_t> tos, std::optional<std::uint8_t> ack_timeout) {
  if (tos && rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &*tos, sizeof *tos) != 0)
    return cm_failed("rdma_set_option(tos)");
  if (ack_timeout &&
      rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &*ack_timeout, sizeof *ack_timeout) != 0)
    return cm_failed("rdma_set_option(ack_timeout)");
  return {};
}

Result<rpc::CmListen::Result> listen(Session& session, const rpc::CmListen& request) {
  auto endpoint = endpoint_of("address", request.address, request.port);
  if (!endpoint) return tl::unexpected(endpoint.error());
  auto id = make_id(session, CmId::Role::listener, request.port_space.value());
  if (!id) return tl::unexpected(id.error());
  if (auto done = or_release(session, **id, "rdma_bind_addr",
                             [&](rdma_cm_id* cm) { return rdma_bind_addr(cm, endpoint->get()); });
      !done)
    return tl::unexpected(done.error());
  if (auto done = or_release(session, **id, "rdma_listen",
                             [&](rdma_cm_id* cm) { return rdma_listen(cm, static_cast<int>(request.backlog)); });
      !done)
    return tl::unexpected(done.error());
  return rpc::CmListen::Result{{(*id)->handle()}, ntohs(rdma_get_src_port((*id)->get()))};
}

/// Common arguments of cm_connect and cm_join.
struct Start {
  CmId::Role role;
  std::string address;
  std::uint16_t port = 0;
  rpc::Choice<names::port_space> port_space;  ///< by default
  std::optional<std::uint8_t> ack_timeout = {};
  PendingRequest wanted = {};
  bool establishes = true, says_goodbye = true, sends_only = false;
};

/// Common part of cm_connect and cm_join: addresses, options, and the first step. Events report the following steps.
Result<CmId*> set_out(Session& session, const rpc::Resolution& how, Start start) {
  auto destination = endpoint_of("address", start.address, start.port);
  if (!destination) return tl::unexpected(destination.error());
  std::optional<Endpoint> source;
  if (how.source) {
    auto endpoint = endpoint_of("source", *how.source, 0);
    if (!endpoint) return tl::unexpected(endpoint.error());
    source = *endpoint;
  }

  auto made = make_id(session, start.role, how.port_space.value_or(start.port_space).value());
  if (!made) return tl::unexpected(made.error());
  CmId& id = **made;
  id.wanted = std::move(start.wanted);
  id.establishes = start.establishes;
  id.says_goodbye = start.says_goodbye;
  id.sends_only = start.sends_only;
  id.timeout_ms = static_cast<int>(how.timeout_ms);
  id.group = *destination;
  if (auto done = set_options(id, how.tos, start.ack_timeout); !done) {
    static_cast<void>(session.objects().destroy(id.handle()));
    return tl::unexpected(done.error());
  }
  if (auto done = or_release(session, id, "rdma_resolve_addr",
                             [&](rdma_cm_id* cm) {
                               return rdma_resolve_addr(cm, source ? source->get() : nullptr, destination->get(),
                                                        id.timeout_ms);
                             });
      !done)
    return tl::unexpected(done.error());
  return &id;
}

Result<rpc::CmConnect::Result> connect(Session& session, const rpc::CmConnect& request) {
  auto wanted = wanted_of(session, request);
  if (!wanted) return tl::unexpected(wanted.error());
  wanted->retry_count = request.retry_count;
  const auto id = set_out(session, request,
                          {.role = CmId::Role::active,
                           .address = request.address,
                           .port = request.port,
                           .port_space = "tcp",
                           .ack_timeout = request.ack_timeout,
                           .wanted = std::move(*wanted),
                           .establishes = request.establish,
                           .says_goodbye = request.answer_disconnect});
  if (!id) return tl::unexpected(id.error());
  return rpc::CmConnect::Result{{(*id)->handle()}};
}

Result<rpc::CmJoin::Result> join(Session& session, const rpc::CmJoin& request) {
  PendingRequest wanted;
  if (request.qp) wanted.qp = request.qp->number;
  const auto id = set_out(session, request,
                          {.role = CmId::Role::member,
                           .address = request.address,
                           .port_space = "udp",
                           .wanted = std::move(wanted),
                           .sends_only = request.send_only});
  if (!id) return tl::unexpected(id.error());
  return rpc::CmJoin::Result{{(*id)->handle()}};
}

/// Returns the id. Fails with the text `otherwise` if it has none of the roles.
Result<CmId*> id_of(Session& session, rpc::CmHandle handle, std::initializer_list<CmId::Role> roles,
                    std::string_view otherwise) {
  CmId& id = session.objects().of<CmId>(handle);
  if (std::find(roles.begin(), roles.end(), id.role) == roles.end()) return fail(EINVAL, "cm_id: {}", otherwise);
  return &id;
}

Result<rpc::Nothing> nothing(const Result<void>& done) {
  if (!done) return tl::unexpected(done.error());
  return rpc::Nothing();
}

Result<rpc::Nothing> accept(Session& session, const rpc::CmAccept& request) {
  const auto id = id_of(session, request.cm_id, {CmId::Role::passive}, "is not a connection request");
  if (!id) return tl::unexpected(id.error());
  auto wanted = wanted_of(session, request);
  if (!wanted) return tl::unexpected(wanted.error());
  (*id)->wanted = std::move(*wanted);
  (*id)->says_goodbye = request.answer_disconnect;
  return nothing((*id)->accept());
}

Result<rpc::Nothing> establish(Session& session, const rpc::CmEstablish& request) {
  const auto id = id_of(session, request.cm_id, {CmId::Role::active}, "is not an outgoing connection");
  if (!id) return tl::unexpected(id.error());
  return nothing((*id)->establish());
}

constexpr auto connections = {CmId::Role::passive, CmId::Role::active};

Result<rpc::Nothing> reject(Session& session, const rpc::CmReject& request) {
  const auto id = id_of(session, request.cm_id, connections, "is not a request or response");
  if (!id) return tl::unexpected(id.error());
  const ByteVector& data = request.private_data;
  errno = 0;
  if (rdma_reject((*id)->get(), data.empty() ? nullptr : data.data(), static_cast<std::uint8_t>(data.size())) != 0)
    return cm_failed("rdma_reject");
  return rpc::Nothing();
}

Result<rpc::Nothing> disconnect(Session& session, const rpc::CmDisconnect& request) {
  const auto id = id_of(session, request.cm_id, connections, "is not a connection");
  if (!id) return tl::unexpected(id.error());
  return nothing((*id)->disconnect());
}

}  // namespace

std::vector<Handler> connection_handlers() {
  return {handler(listen), handler(connect),    handler(accept), handler(establish),
          handler(reject), handler(disconnect), handler(join)};
}

}  // namespace rdmawire::agent
