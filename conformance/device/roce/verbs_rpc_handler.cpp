#include "conformance/device/roce/verbs_rpc_handler.hpp"

#include <arpa/inet.h>

#include <cstring>

#include "conformance/device/roce/names.hpp"

namespace rdmawire::device {

namespace {

std::string answer_of(const rpc::Received& id, const Result<Json>& result) {
  Json answer = {{"id", id}};
  if (result)
    answer["result"] = *result;
  else
    answer["error"] = {{"errno", result.error().number},
                       {"name", errno_name(result.error().number)},
                       {"message", result.error().message}};
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string errno_name(int number) {
  const char* name = strerrorname_np(number);
  return name ? name : "E?";
}

Result<rpc::Nothing> nothing(const Result<void>& done) {
  if (!done) return tl::unexpected(done.error());
  return rpc::Nothing();
}

Result<std::uint32_t> rights_of(const rpc::Flags<rpc::names::access>& access) {
  const std::uint64_t rights = access.bits();
  if (const std::uint64_t unknown = rights & ~std::uint64_t{access::all}; unknown != 0)
    return refuse(EOPNOTSUPP, fmt::format("access: the reference device does not support {}",
                                          rpc::names_of_bits(rpc::names::access, unknown).front()));
  return static_cast<std::uint32_t>(rights);
}

Result<Gid> gid_of(const std::string& text, std::string_view name) {
  Gid gid;
  if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) != 1)
    return refuse(EINVAL, fmt::format("{}: must be a GID in IPv6 notation", name));
  return gid;
}

std::string gid_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  return text;
}

VerbsRpcHandler::VerbsRpcHandler(Verbs& verbs, Step step, std::string own_name, std::string greeting)
    : verbs_(verbs), step_(std::move(step)), name_(std::move(own_name)), greeting_(std::move(greeting)) {
  using V = VerbsRpcHandler;
  commands_ = {
      by(this, &V::hello),     by(this, &V::ping),         by(this, &V::reset),           by(this, &V::bye),
      by(this, &V::objects),   by(this, &V::destroy),      by(this, &V::devices),         by(this, &V::open),
      by(this, &V::describe),  by(this, &V::query_port),   by(this, &V::query_counters),  by(this, &V::alloc_pd),
      by(this, &V::write),     by(this, &V::read),         by(this, &V::register_memory), by(this, &V::alloc_mr),
      by(this, &V::fill),      by(this, &V::checksum),     by(this, &V::alloc_mw),        by(this, &V::bind_mw),
      by(this, &V::create_cq), by(this, &V::notify),       by(this, &V::create_channel),  by(this, &V::poll),
      by(this, &V::post_send), by(this, &V::post_recv),    by(this, &V::cm_listen),       by(this, &V::cm_connect),
      by(this, &V::cm_accept), by(this, &V::cm_establish), by(this, &V::cm_reject),       by(this, &V::cm_disconnect),
  };
}

void VerbsRpcHandler::add_commands(Commands own) { commands_.merge(std::move(own)); }

Result<Json> VerbsRpcHandler::run(const std::string& command, const rpc::Received& arguments) {
  const auto found = commands_.find(command);
  if (found == commands_.end()) return refuse(ENOSYS, command + ": unknown command of the reference device");
  if (!begun_ && command != rpc::Hello::command().name) return refuse(EPROTO, "the first command must be hello");
  auto result = found->second(arguments);
  if (!result && !result.error().message.starts_with(command))
    result.error().message = fmt::format("{}: {}", command, result.error().message);
  return result;
}

std::vector<std::string> VerbsRpcHandler::process_line(std::string_view line) {
  const rpc::Received request = rpc::Received::parse(line, nullptr, false);
  std::vector<std::string> lines;
  if (!request.is_object()) {
    lines.push_back(answer_of(nullptr, tl::unexpected(Error{EBADMSG, "the line is not a JSON object"})));
    return lines;
  }
  const rpc::Received id = request.value("id", rpc::Received(nullptr));
  const auto what = request.find("do");
  const auto result =
      what != request.end() && what->is_string()
          ? run(what->get<std::string>(), request)
          : Result<Json>(tl::unexpected(Error{EINVAL, "do: is required and must be the name of a command"}));
  for (const Json& event : events()) lines.push_back(event.dump());
  lines.push_back(answer_of(id, result));
  return lines;
}

std::vector<Json> VerbsRpcHandler::events() {
  std::vector<Json> pending;
  while (const auto event = verbs_.get_async_event()) {
    const auto kind = kinds_.find(event->object);
    if (kind == kinds_.end()) continue;  // already destroyed
    rpc::AsyncEvent report;
    report.type = decltype(report.type)::of(static_cast<unsigned>(event->type));
    report.device = {opened_};
    if (kind->second == Kind::qp) {
      report.qp = {event->object};
    } else if (kind->second == Kind::cq) {
      report.cq = {event->object};
    } else {
      report.srq = {event->object};
    }
    pending.push_back(rpc::event_of(report));
  }
  while (const auto event = verbs_.get_cm_event()) {
    if (event->type == CmEventType::connect_request) add(Kind::cm_id, event->cm_id);
    pending.push_back(rpc::event_of(report_of(*event)));
  }
  for (const auto& [handle, kind] : kinds_) {
    if (kind != Kind::channel) continue;
    for (auto cq = verbs_.get_cq_event(handle); cq && *cq; cq = verbs_.get_cq_event(handle))
      pending.push_back(rpc::event_of(rpc::CompletionEvent{.cq = {{**cq}}}));
  }
  return pending;
}

std::uint32_t VerbsRpcHandler::add(Kind kind, std::uint32_t handle) {
  kinds_[handle] = kind;
  return handle;
}

Result<void> VerbsRpcHandler::release(Kind kind, std::uint32_t handle) {
  switch (kind) {
    case Kind::device: return {};
    case Kind::pd: return verbs_.dealloc_pd(handle);
    case Kind::mr: {
      auto done = verbs_.dereg_mr(handle);
      if (!done) return done;
      if (const auto piece = pieces_.find(handle); piece != pieces_.end()) {
        (void)verbs_.free(piece->second);
        pieces_.erase(piece);
      }
      return {};
    }
    case Kind::mw: return verbs_.dealloc_mw(handle);
    case Kind::channel: return verbs_.destroy_channel(handle);
    case Kind::cq: return verbs_.destroy_cq(handle);
    case Kind::xrcd:
    case Kind::srq:
    case Kind::ah: return release_other(kind, handle);
    case Kind::qp: return verbs_.destroy_qp(handle);
    case Kind::cm_id: return verbs_.cm_destroy(handle);
    case Kind::any:
    case Kind::cm_channel:
    case Kind::process: return {};
  }
  return {};
}

void VerbsRpcHandler::release_all() {
  // Release the newest objects first. An object in use cannot be released, so repeat until a pass releases none.
  for (bool any = true; any && !kinds_.empty();) {
    any = false;
    std::vector<std::pair<std::uint32_t, Kind>> all(kinds_.rbegin(), kinds_.rend());
    for (const auto& [handle, kind] : all)
      if (release(kind, handle)) {
        kinds_.erase(handle);
        any = true;
      }
  }
  verbs_.forget_everything();
  kinds_.clear();
  pieces_.clear();
  opened_ = 0;
}

Result<rpc::Hello::Result> VerbsRpcHandler::hello(const rpc::Hello& request) {
  if (request.protocol != rpc::protocol_version)
    return refuse(EPROTONOSUPPORT, fmt::format("protocol: version {} is not supported; expected {}", request.protocol,
                                               rpc::protocol_version));
  release_all();
  begun_ = true;
  return rpc::Hello::Result{.agent = greeting_, .host = "reference", .kernel = "none"};
}

Result<rpc::Ping::Result> VerbsRpcHandler::ping(const rpc::Ping&) {
  return rpc::Ping::Result{kinds_.size(), static_cast<std::uint64_t>(verbs_.now())};
}

Result<rpc::Reset::Result> VerbsRpcHandler::reset(const rpc::Reset&) {
  const std::size_t released = kinds_.size();
  release_all();
  return rpc::Reset::Result{released};
}

Result<rpc::Bye::Result> VerbsRpcHandler::bye(const rpc::Bye&) {
  return rpc::Bye::Result{reset(rpc::Reset())->released};
}

Result<rpc::ListObjects::Result> VerbsRpcHandler::objects(const rpc::ListObjects&) {
  rpc::ListObjects::Result all;
  for (const auto& [handle, kind] : kinds_)
    all.objects.push_back({{"handle", handle}, {"kind", name_of(kind)}, {"uses", Json::array()}});
  return all;
}

Result<rpc::Nothing> VerbsRpcHandler::destroy(const rpc::Destroy& request) {
  const auto handle = number_of(request.object);
  const auto found = kinds_.find(handle);
  if (found == kinds_.end()) return refuse(ENOENT, fmt::format("object: unknown object {}", request.object.number));
  if (found->second == Kind::device && kinds_.size() > 1)
    return refuse(EBUSY, fmt::format("object: {} is in use", handle));
  if (auto done = release(found->second, handle); !done) return tl::unexpected(done.error());
  kinds_.erase(found);
  return rpc::Nothing();
}

rpc::PortAttributes VerbsRpcHandler::port() {
  rpc::PortAttributes port{.state = "active",
                           .phys_state = "link_up",
                           .link_layer = "ethernet",
                           .netdev = name_,
                           .lmc = 0,
                           .sm_lid = 0,
                           .sm_sl = 0,
                           .max_vl = 1,
                           .subnet_timeout = 0,
                           .active_width = 2,
                           .active_speed = 64};
  describe_port(port);
  return port;
}

Result<rpc::Devices::Result> VerbsRpcHandler::devices(const rpc::Devices&) {
  const auto [node_type, transport, guid] = identity();
  rpc::Devices::Result all;
  all.devices.push_back(
      {.name = name_, .node_type = node_type, .transport = transport, .guid = guid, .ports = {{port()}}});
  return all;
}

Result<rpc::Open::Result> VerbsRpcHandler::open(const rpc::Open& request) {
  if (request.name != name_) return refuse(ENODEV, "name: unknown device; available: " + name_);
  opened_ = verbs_.reserve_handle();
  return rpc::Open::Result{{add(Kind::device, opened_)}, 1};
}

Result<rpc::Describe::Result> VerbsRpcHandler::describe(const rpc::Describe&) {
  const auto [node_type, transport, guid] = identity();
  rpc::Describe::Result description{.name = name_,
                                    .node_type = node_type,
                                    .transport = transport,
                                    .guid = guid,
                                    .sys_image_guid = guid,
                                    .firmware = "reference",
                                    .vendor_id = 0,
                                    .vendor_part_id = 0,
                                    .hw_ver = 1,
                                    .comp_vectors = 1};
  describe_device(description);
  description.ports.push_back(port());
  return description;
}

namespace {

Result<void> check_port(std::uint8_t port) {
  if (port != 1) return refuse(ERANGE, fmt::format("port: must be 1, not {}", port));
  return {};
}

}  // namespace

Result<rpc::PortAttributes> VerbsRpcHandler::query_port(const rpc::QueryPort& request) {
  if (auto done = check_port(request.port); !done) return tl::unexpected(done.error());
  return port();
}

Result<rpc::Counters::Result> VerbsRpcHandler::query_counters(const rpc::Counters& request) {
  if (auto done = check_port(request.port); !done) return tl::unexpected(done.error());
  return rpc::Counters::Result{.hw_counters = counters()};
}

}  // namespace rdmawire::device
