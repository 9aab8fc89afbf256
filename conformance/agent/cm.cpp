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

namespace rdmawire::agent {
namespace {

constexpr std::size_t most_private_data = 255;
constexpr std::uint32_t most_backlog = 1024;
/// Maximum supported by the device. Resolved when the device is known.
constexpr std::uint8_t as_device = 255;

// clang-format off
constexpr Name port_space_table[] = {
    {"tcp", RDMA_PS_TCP}, {"udp", RDMA_PS_UDP}, {"ipoib", RDMA_PS_IPOIB},
};
constexpr Name event_table[] = {
    {"addr_resolved", RDMA_CM_EVENT_ADDR_RESOLVED}, {"addr_error", RDMA_CM_EVENT_ADDR_ERROR},
    {"route_resolved", RDMA_CM_EVENT_ROUTE_RESOLVED}, {"route_error", RDMA_CM_EVENT_ROUTE_ERROR},
    {"connect_request", RDMA_CM_EVENT_CONNECT_REQUEST}, {"connect_response", RDMA_CM_EVENT_CONNECT_RESPONSE},
    {"connect_error", RDMA_CM_EVENT_CONNECT_ERROR}, {"unreachable", RDMA_CM_EVENT_UNREACHABLE},
    {"rejected", RDMA_CM_EVENT_REJECTED}, {"established", RDMA_CM_EVENT_ESTABLISHED},
    {"disconnected", RDMA_CM_EVENT_DISCONNECTED}, {"device_removal", RDMA_CM_EVENT_DEVICE_REMOVAL},
    {"multicast_join", RDMA_CM_EVENT_MULTICAST_JOIN}, {"multicast_error", RDMA_CM_EVENT_MULTICAST_ERROR},
    {"addr_change", RDMA_CM_EVENT_ADDR_CHANGE}, {"timewait_exit", RDMA_CM_EVENT_TIMEWAIT_EXIT},
};
// clang-format on

[[nodiscard]] tl::unexpected<Error> cm_failed(std::string_view call) {
  const int number = errno == 0 ? EIO : errno;
  return fail(number, "{}: {}", call, errno_text(number));
}

/// An IPv4 or IPv6 address with port.
struct Endpoint {
  sockaddr_storage storage{};
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// Adds "local_address" and "local_port", or "remote_…".
void describe(Json& json, const std::string& which, const sockaddr& address) {
  char text[NI_MAXHOST], port[NI_MAXSERV];
  const socklen_t length = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (address.sa_family != AF_INET && address.sa_family != AF_INET6) return;
  if (getnameinfo(&address, length, text, sizeof text, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) return;
  json[which + "_address"] = text;
  json[which + "_port"] = std::stoul(port);
}

Endpoint read_endpoint(Arguments& arguments, const std::string& name, const std::string& text, std::uint16_t port) {
  Endpoint endpoint;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(text.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    arguments.report_error(name, EINVAL, "is not an IPv4 or IPv6 address");
    return endpoint;
  }
  std::memcpy(&endpoint.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return endpoint;
}

class CmId;

/// The event channel of the session.
class CmChannel final : public Object {
 public:
  static constexpr std::string_view name = "cm_channel";

  CmChannel(Session& session, rdma_event_channel* channel);
  [[nodiscard]] std::string_view kind() const override { return name; }
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

/// Parameters of a connection from the controller.
struct PendingRequest {
  std::vector<std::uint8_t> private_data;
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
  static constexpr std::string_view name = "cm_id";
  enum class Role : std::uint8_t { listener, active, passive, member };

  CmId(Session& session, rdma_cm_id* id, Role of) : role(of), session_(&session), id_(id) {}

  [[nodiscard]] std::string_view kind() const override { return name; }
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
  bool establishes = true;   ///< answer the peer's response automatically
  bool says_goodbye = true;  ///< answer the peer's disconnection automatically
  bool has_response = false;
  Endpoint group;  ///< multicast group of a member
  bool sends_only = false;
  std::uint8_t asked_responder_resources = 0, asked_initiator_depth = 0;  ///< from the peer's request

 private:
  [[nodiscard]] bool iwarp() const {
    return id_->verbs != nullptr && id_->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  }
  [[nodiscard]] bool datagram() const { return id_->qp_type == IBV_QPT_UD; }
  /// The specified QP, on the device selected by the CM. nullptr: none was specified.
  Result<ibv_qp*> queue_pair();
  Result<void> modify(ibv_qp* qp, ibv_qp_state state);
  Result<void> make_ready(ibv_qp* qp);
  void stop_queue_pair();
  void limit_to_device();
  void push(Json event);
  void go_on(std::string_view step, const Result<void>& result);

  Session* session_;
  rdma_cm_id* id_;
  ibv_qp* attached_ = nullptr;  // to a multicast group
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

/// Arguments of create_ah.
Json address_handle(const ibv_ah_attr& ah) {
  Json json = {{"port", ah.port_num},
               {"dlid", ah.dlid},
               {"sl", ah.sl},
               {"src_path_bits", ah.src_path_bits},
               {"static_rate", ah.static_rate}};
  if (ah.is_global != 0) {
    char gid[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, ah.grh.dgid.raw, gid, sizeof gid);
    json["grh"] = {{"dgid", gid},
                   {"sgid_index", ah.grh.sgid_index},
                   {"hop_limit", ah.grh.hop_limit},
                   {"traffic_class", ah.grh.traffic_class},
                   {"flow_label", ah.grh.flow_label}};
  }
  return json;
}

void describe(Json& json, const rdma_conn_param& parameters) {
  json["private_data"] = to_hex(static_cast<const std::uint8_t*>(parameters.private_data), parameters.private_data_len);
  json["responder_resources"] = parameters.responder_resources;
  json["initiator_depth"] = parameters.initiator_depth;
  json["flow_control"] = parameters.flow_control;
  json["retry_count"] = parameters.retry_count;
  json["rnr_retry_count"] = parameters.rnr_retry_count;
  json["srq"] = parameters.srq;
  json["qp_num"] = parameters.qp_num;
}

void describe(Json& json, const rdma_ud_param& parameters, bool with_data) {
  if (with_data) {
    json["private_data"] =
        to_hex(static_cast<const std::uint8_t*>(parameters.private_data), parameters.private_data_len);
  }
  json["qp_num"] = parameters.qp_num;
  json["qkey"] = parameters.qkey;
  json["ah"] = address_handle(parameters.ah_attr);
}

void describe(Json& json, const rdma_cm_id& id) {
  if (id.verbs != nullptr) {
    json["device"] = ibv_get_device_name(id.verbs->device);
    json["port_num"] = id.port_num;
  }
  describe(json, "local", id.route.addr.src_addr);
  describe(json, "remote", id.route.addr.dst_addr);
}

void CmId::hear(const rdma_cm_event& event) {
  Json json = {{"type", name_of(event_table, event.event)}};
  const auto tell = [&] { push(json); };
  if (event.status < 0) {
    json["errno"] = -event.status;
    json["name"] = errno_name(-event.status);
  } else if (event.status > 0) {
    // For a rejection, the reason given by the peer, IBTA vol 1, 12.6.7.2.
    json[event.event == RDMA_CM_EVENT_REJECTED ? "reason" : "status"] = event.status;
  }
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      describe(json, *id_);
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
      json["listener"] = static_cast<const CmId*>(event.listen_id->context)->handle();
      describe(json, *id_);
      if (datagram()) {
        json["private_data"] =
            to_hex(static_cast<const std::uint8_t*>(event.param.ud.private_data), event.param.ud.private_data_len);
      } else {
        describe(json, event.param.conn);
      }
      tell();
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      describe(json, event.param.conn);
      has_response = true;
      if (!establishes) {
        tell();
        break;
      }
      const auto done = establish();
      if (done) {
        json["type"] = "established";
        tell();
      } else {
        tell();
        go_on("establish", done);
      }
      break;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      if (datagram()) {
        describe(json, event.param.ud, true);
      } else {
        describe(json, event.param.conn);
      }
      tell();
      break;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      json["private_data"] = datagram() ? to_hex(static_cast<const std::uint8_t*>(event.param.ud.private_data),
                                                 event.param.ud.private_data_len)
                                        : to_hex(static_cast<const std::uint8_t*>(event.param.conn.private_data),
                                                 event.param.conn.private_data_len);
      stop_queue_pair();
      tell();
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      json["private_data"] =
          to_hex(static_cast<const std::uint8_t*>(event.param.conn.private_data), event.param.conn.private_data_len);
      tell();
      // Both endpoints get this event. disconnect() fails on the endpoint that initiated it, which is expected.
      if (says_goodbye) static_cast<void>(disconnect());
      break;
    case RDMA_CM_EVENT_MULTICAST_JOIN: {
      describe(json, event.param.ud, false);
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

void CmId::push(Json event) {
  Json whole = {{"event", "cm"}, {"cm_id", handle()}};
  whole.update(event);
  session_->push(whole);
}

/// Reports the failure of an automatic step as an event.
void CmId::go_on(std::string_view step, const Result<void>& result) {
  if (result) return;
  push({{"type", "failed"},
        {"step", step},
        {"errno", result.error().number},
        {"name", errno_name(result.error().number)},
        {"message", result.error().message}});
}

Json CmId::about() const {
  static constexpr const char* roles[] = {"listener", "active", "passive", "member"};
  Json json = {{"role", roles[static_cast<int>(role)]}};
  describe(json, *id_);
  return json;
}

int CmId::release() {
  if (attached_ != nullptr) {
    // If the QP is destroyed, it is already detached.
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
  // Steps that the iWARP CM performs itself have no attributes.
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

/// Changes the QP from RESET to INIT, so that it accepts receive requests, and a UD QP to RTS. Keeps a later state.
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
  // The peer's request determines the local limits. librdmacm has already swapped the two values.
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
  // For iWARP, the kernel establishes TCP first, and waits if the peer does not respond.
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

/// Runs the step. Releases the id if it fails.
template <class Step>
Result<void> or_release(Session& session, CmId& id, std::string_view call, Step step) {
  errno = 0;
  if (step(id.get()) == 0) return {};
  auto error = cm_failed(call);
  static_cast<void>(session.objects().destroy(id.handle()));
  return error;
}

PendingRequest read_wanted(Arguments& arguments, bool asks) {
  PendingRequest wanted;
  if (arguments.has("private_data")) wanted.private_data = arguments.bytes("private_data", most_private_data);
  wanted.responder_resources = arguments.number_or<std::uint8_t>("responder_resources", as_device);
  wanted.initiator_depth = arguments.number_or<std::uint8_t>("initiator_depth", as_device);
  wanted.flow_control = arguments.boolean_or("flow_control", false) ? 1 : 0;
  if (asks) wanted.retry_count = arguments.number_or<std::uint8_t>("retry_count", 7, {0, 7});
  wanted.rnr_retry_count = arguments.number_or<std::uint8_t>("rnr_retry_count", 7, {0, 7});
  wanted.srq = arguments.boolean_or("srq", false) ? 1 : 0;
  const auto* qp = arguments.maybe_object<Qp>("qp");
  const auto number = arguments.maybe<std::uint32_t>("qp_num", {0, 0xffffff});
  if (qp != nullptr && number) arguments.report_error("qp_num", EINVAL, "cannot be combined with qp");
  if (qp == nullptr && !number) arguments.report_error("qp", EINVAL, "either qp or qp_num is required");
  if (qp != nullptr) {
    wanted.qp = qp->handle();
    if (qp->verbs()->srq != nullptr) wanted.srq = 1;
  }
  wanted.qp_num = number.value_or(0);
  return wanted;
}

/// Options that must be set before address resolution.
Result<void> set_options(CmId& id, std::optional<std::uint8_t> tos, std::optional<std::uint8_t> ack_timeout) {
  if (tos && rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &*tos, sizeof *tos) != 0)
    return cm_failed("rdma_set_option(tos)");
  if (ack_timeout &&
      rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &*ack_timeout, sizeof *ack_timeout) != 0)
    return cm_failed("rdma_set_option(ack_timeout)");
  return {};
}

std::uint64_t read_port_space(Arguments& arguments, rdma_port_space usual) {
  return arguments.maybe_choice("port_space", port_space_table).value_or(usual);
}

Result<Json> listen(Session& session, Arguments& arguments) {
  const auto address = arguments.text_or("address", "0.0.0.0");
  const auto port = arguments.number_or<std::uint16_t>("port", 0);
  const auto backlog = arguments.number_or<std::uint32_t>("backlog", 16, {0, most_backlog});
  const auto port_space = read_port_space(arguments, RDMA_PS_TCP);
  auto endpoint = read_endpoint(arguments, "address", address, port);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);

  auto id = make_id(session, CmId::Role::listener, port_space);
  if (!id) return tl::unexpected(id.error());
  if (auto done = or_release(session, **id, "rdma_bind_addr",
                             [&](rdma_cm_id* cm) { return rdma_bind_addr(cm, endpoint.get()); });
      !done)
    return tl::unexpected(done.error());
  if (auto done = or_release(session, **id, "rdma_listen",
                             [&](rdma_cm_id* cm) { return rdma_listen(cm, static_cast<int>(backlog)); });
      !done)
    return tl::unexpected(done.error());
  return Json{{"cm_id", (*id)->handle()}, {"port", ntohs(rdma_get_src_port((*id)->get()))}};
}

/// Common part of cm_connect and cm_join: addresses, options, and the first step. Events report the following steps.
Result<Json> set_out(Session& session, Arguments& arguments, CmId::Role role, PendingRequest wanted, bool establishes,
                     bool says_goodbye, bool sends_only) {
  const auto address = arguments.text("address");
  const auto port = role == CmId::Role::member ? std::uint16_t{0} : arguments.number<std::uint16_t>("port");
  const bool has_source = arguments.has("source");
  const auto source_text = arguments.text_or("source", "");
  const auto port_space = read_port_space(arguments, role == CmId::Role::member ? RDMA_PS_UDP : RDMA_PS_TCP);
  const auto timeout_ms = arguments.number_or<std::uint32_t>("timeout_ms", 2000, {1, 60'000});
  const auto tos = arguments.maybe<std::uint8_t>("tos");
  const auto ack_timeout =
      role == CmId::Role::member ? std::nullopt : arguments.maybe<std::uint8_t>("ack_timeout", {0, 31});
  Endpoint source, destination;
  if (!arguments.complaint()) destination = read_endpoint(arguments, "address", address, port);
  if (has_source && !arguments.complaint()) source = read_endpoint(arguments, "source", source_text, 0);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);

  auto made = make_id(session, role, port_space);
  if (!made) return tl::unexpected(made.error());
  CmId& id = **made;
  id.wanted = std::move(wanted);
  id.establishes = establishes;
  id.says_goodbye = says_goodbye;
  id.sends_only = sends_only;
  id.timeout_ms = static_cast<int>(timeout_ms);
  id.group = destination;
  if (auto done = set_options(id, tos, ack_timeout); !done) {
    static_cast<void>(session.objects().destroy(id.handle()));
    return tl::unexpected(done.error());
  }
  if (auto done = or_release(session, id, "rdma_resolve_addr",
                             [&](rdma_cm_id* cm) {
                               return rdma_resolve_addr(cm, has_source ? source.get() : nullptr, destination.get(),
                                                        id.timeout_ms);
                             });
      !done)
    return tl::unexpected(done.error());
  return Json{{"cm_id", id.handle()}};
}

Result<Json> connect(Session& session, Arguments& arguments) {
  auto wanted = read_wanted(arguments, true);
  const bool establishes = arguments.boolean_or("establish", true);
  const bool says_goodbye = arguments.boolean_or("answer_disconnect", true);
  return set_out(session, arguments, CmId::Role::active, std::move(wanted), establishes, says_goodbye, false);
}

Result<Json> join(Session& session, Arguments& arguments) {
  PendingRequest wanted;
  if (const auto* qp = arguments.maybe_object<Qp>("qp")) wanted.qp = qp->handle();
  const bool sends_only = arguments.boolean_or("send_only", false);
  return set_out(session, arguments, CmId::Role::member, std::move(wanted), true, true, sends_only);
}

/// The id if it has one of the roles. Otherwise records an error.
CmId* id_of(Arguments& arguments, std::initializer_list<CmId::Role> roles, std::string_view otherwise) {
  auto* id = arguments.object<CmId>("cm_id");
  if (id != nullptr && std::find(roles.begin(), roles.end(), id->role) == roles.end())
    arguments.report_error("cm_id", EINVAL, otherwise);
  return id;
}

Result<Json> nothing(const Result<void>& done) {
  if (!done) return tl::unexpected(done.error());
  return Json::object();
}

Result<Json> accept(Session&, Arguments& arguments) {
  auto* id = id_of(arguments, {CmId::Role::passive}, "is not a connection request");
  auto wanted = read_wanted(arguments, false);
  const bool says_goodbye = arguments.boolean_or("answer_disconnect", true);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  id->wanted = std::move(wanted);
  id->says_goodbye = says_goodbye;
  return nothing(id->accept());
}

Result<Json> establish(Session&, Arguments& arguments) {
  auto* id = id_of(arguments, {CmId::Role::active}, "is not an outgoing connection");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return nothing(id->establish());
}

Result<Json> reject(Session&, Arguments& arguments) {
  auto* id = id_of(arguments, {CmId::Role::passive, CmId::Role::active}, "is not a request or response");
  const auto data =
      arguments.has("private_data") ? arguments.bytes("private_data", most_private_data) : std::vector<std::uint8_t>();
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  errno = 0;
  if (rdma_reject(id->get(), data.empty() ? nullptr : data.data(), static_cast<std::uint8_t>(data.size())) != 0)
    return cm_failed("rdma_reject");
  return Json::object();
}

Result<Json> disconnect(Session&, Arguments& arguments) {
  auto* id = id_of(arguments, {CmId::Role::passive, CmId::Role::active}, "is not a connection");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  return nothing(id->disconnect());
}

}  // namespace

std::span<const Command> cm_commands() {
  static const std::vector<Argument> parameters = {
      {"qp",
       "optional handle: a QP of the device that the route uses. Its state changes from RESET to INIT, "
       "during connection establishment to RTR and RTS, and at the end to ERR"},
      {"qp_num", "optional number: instead of qp, a QP whose states the controller changes itself"},
      {"private_data", "optional bytes, at most 255, or fewer on some transports"},
      {"responder_resources",
       "optional number: incoming outstanding READs and atomics (default: maximum of both endpoints)"},
      {"initiator_depth",
       "optional number: outgoing outstanding READs and atomics (default: maximum of both endpoints)"},
      {"flow_control", "optional boolean"},
      {"rnr_retry_count", "optional number, 0 to 7 (default 7)"},
      {"srq", "optional boolean: the QP has an SRQ (default: as qp)"},
      {"answer_disconnect", "optional boolean: reply to a disconnect of the peer (default true)"},
  };
  static const auto with = [](std::vector<Argument> first, const std::vector<Argument>& more,
                              std::vector<Argument> last = {}) {
    first.insert(first.end(), more.begin(), more.end());
    first.insert(first.end(), last.begin(), last.end());
    return first;
  };
  static const std::vector<Argument> way = {
      {"source", "optional text: the source address"},
      {"port_space", "optional name: tcp, udp or ipoib"},
      {"timeout_ms", "optional number, 1 to 60000: for address resolution and for route resolution (default 2000)"},
      {"tos", "optional number: type of service"},
  };
  static const Command all[] = {
      {"cm_listen",
       "Listens for connections. Requests are reported as events `cm` of type `connect_request`, each with a new "
       "`cm_id`.",
       {{"address", "optional text, IPv4 or IPv6 (default 0.0.0.0)"},
        {"port", "optional number (default 0: any free port)"},
        {"backlog", "optional number, 0 to 1024: pending requests (default 16)"},
        {"port_space", "optional name: tcp (default), udp or ipoib"}},
       {{"cm_id", "handle"}, {"port", "number"}},
       R"({"address":"10.0.0.1","port":7471})",
       R"({"cm_id":6,"port":7471})",
       &listen},
      {"cm_connect",
       "Requests a connection or, in the port spaces udp and ipoib, a QP number and a Q_Key. Responds "
       "immediately. "
       "Events of type `addr_resolved`, `route_resolved` and `established` follow, or an error: `addr_error`, "
       "`route_error`, `unreachable`, `connect_error`, `rejected`, or `failed` with the failed `step`.",
       with(
           {{"address", "text, IPv4 or IPv6"}, {"port", "number"}}, parameters,
           with(
               {{"retry_count", "optional number, 0 to 7 (default 7)"},
                {"ack_timeout", "optional number, 0 to 31: 4.096 µs * 2^value"},
                {"establish",
                 "optional boolean (default true). If false, the peer's response is reported as `connect_response` and "
                 "requires `cm_establish`"}},
               way)),
       {{"cm_id", "handle"}},
       R"({"address":"10.0.0.1","port":7471,"qp":5,"private_data":"6869"})",
       R"({"cm_id":7})",
       &connect},
      {"cm_accept",
       "Accepts a request. The event `established` follows the peer's response.",
       with({{"cm_id", "handle, from a `connect_request`"}}, parameters),
       {},
       R"({"cm_id":7,"qp":5,"private_data":"796f"})",
       "{}",
       &accept},
      {"cm_establish",
       "Answers a `connect_response`: changes the QP to RTR and RTS and sends a ready-to-use message to the peer.",
       {{"cm_id", "handle"}},
       {},
       R"({"cm_id":7})",
       "{}",
       &establish},
      {"cm_reject",
       "Rejects a request or a response. The peer gets `rejected` with reason 28 (iWARP: errno "
       "ECONNRESET) and the private data.",
       {{"cm_id", "handle"}, {"private_data", "optional bytes, at most 255, or fewer on some transports"}},
       {},
       R"({"cm_id":7,"private_data":"6e6f"})",
       "{}",
       &reject},
      {"cm_disconnect",
       "Ends a connection. Its QP changes to ERR. Both endpoints get `disconnected`, and later `timewait_exit`.",
       {{"cm_id", "handle"}},
       {},
       R"({"cm_id":7})",
       "{}",
       &disconnect},
      {"cm_join",
       "Joins a multicast group. The event `multicast_join` follows, with `ah` (arguments of `create_ah`), `qp_num` "
       "and `qkey`, "
       "or "
       "`multicast_error`. Destroying the handle leaves the group.",
       with({{"address", "text: the address of the multicast group"},
             {"qp", "optional handle: a UD QP, which is changed to RTS and attached"},
             {"send_only", "optional boolean"}},
            way),
       {{"cm_id", "handle"}},
       R"({"address":"239.1.2.3","source":"10.0.0.1","qp":5})",
       R"({"cm_id":8})",
       &join},
  };
  return all;
}

}  // namespace rdmawire::agent
