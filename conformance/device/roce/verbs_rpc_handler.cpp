#include "conformance/device/roce/verbs_rpc_handler.hpp"

#include <cstring>

#include "conformance/device/roce/names.hpp"

namespace rdmawire::device {

namespace {

constexpr std::uint32_t protocol = 1;

std::string answer_of(const Json& id, const Result<Json>& result) {
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

VerbsRpcHandler::VerbsRpcHandler(Verbs& verbs, Step step, std::string own_name, std::string greeting)
    : verbs_(verbs), step_(std::move(step)), name_(std::move(own_name)), greeting_(std::move(greeting)) {
  commands_ = {
      {"hello", by(this, &VerbsRpcHandler::hello)},
      {"ping", by(this, &VerbsRpcHandler::ping)},
      {"reset", by(this, &VerbsRpcHandler::reset)},
      {"bye", by(this, &VerbsRpcHandler::reset)},
      {"objects", by(this, &VerbsRpcHandler::objects)},
      {"destroy", by(this, &VerbsRpcHandler::destroy)},
      {"devices", by(this, &VerbsRpcHandler::devices)},
      {"open", by(this, &VerbsRpcHandler::open)},
      {"describe", by(this, &VerbsRpcHandler::describe)},
      {"port", by(this, &VerbsRpcHandler::port)},
      {"counters", by(this, &VerbsRpcHandler::counters)},
      {"alloc_pd", by(this, &VerbsRpcHandler::alloc_pd)},
      {"register", by(this, &VerbsRpcHandler::register_memory)},
      {"alloc_mr", by(this, &VerbsRpcHandler::alloc_mr)},
      {"write", by(this, &VerbsRpcHandler::write)},
      {"read", by(this, &VerbsRpcHandler::read)},
      {"fill", by(this, &VerbsRpcHandler::fill)},
      {"checksum", by(this, &VerbsRpcHandler::checksum)},
      {"alloc_mw", by(this, &VerbsRpcHandler::alloc_mw)},
      {"bind_mw", by(this, &VerbsRpcHandler::bind_mw)},
      {"create_channel", by(this, &VerbsRpcHandler::create_channel)},
      {"create_cq", by(this, &VerbsRpcHandler::create_cq)},
      {"notify", by(this, &VerbsRpcHandler::notify)},
      {"poll", by(this, &VerbsRpcHandler::poll)},
      {"post_send", by(this, &VerbsRpcHandler::post_send)},
      {"post_recv", by(this, &VerbsRpcHandler::post_recv)},
      {"cm_listen", by(this, &VerbsRpcHandler::cm_listen)},
      {"cm_connect", by(this, &VerbsRpcHandler::cm_connect)},
      {"cm_accept", by(this, &VerbsRpcHandler::cm_accept)},
      {"cm_establish", by(this, &VerbsRpcHandler::cm_establish)},
      {"cm_reject", by(this, &VerbsRpcHandler::cm_reject)},
      {"cm_disconnect", by(this, &VerbsRpcHandler::cm_disconnect)},
  };
}

void VerbsRpcHandler::add_commands(Commands own) { commands_.merge(std::move(own)); }

Result<Json> VerbsRpcHandler::run(const std::string& command, const Json& arguments) {
  const auto found = commands_.find(command);
  if (found == commands_.end())
    return tl::unexpected(Error{ENOSYS, fmt::format("{}: unknown command of the reference device", command)});
  if (!begun_ && command != "hello") return tl::unexpected(Error{EPROTO, "the first command must be hello"});
  ArgumentReader reader(arguments);
  auto result = found->second(reader);
  if (!result && !result.error().message.starts_with(command))
    result.error().message = fmt::format("{}: {}", command, result.error().message);
  return result;
}

std::vector<std::string> VerbsRpcHandler::process_line(std::string_view line) {
  const Json request = Json::parse(line, nullptr, false);
  std::vector<std::string> lines;
  if (!request.is_object()) {
    lines.push_back(answer_of(nullptr, tl::unexpected(Error{EBADMSG, "the line is not a JSON object"})));
    return lines;
  }
  const Json id = request.value("id", Json(nullptr));
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
    Json json = {{"event", "async"},
                 {"type", names::name_of(names::event, static_cast<unsigned>(event->type))},
                 {"device", opened_}};
    const auto kind = kinds_.find(event->object);
    if (kind == kinds_.end()) continue;  // already destroyed
    json[kind->second == Kind::qp ? "qp" : kind->second == Kind::cq ? "cq" : "srq"] = event->object;
    pending.push_back(std::move(json));
  }
  while (const auto event = verbs_.get_cm_event()) {
    if (event->type == CmEventType::connect_request) add(Kind::cm_id, event->cm_id);
    pending.push_back(cm_json(*event));
  }
  for (const auto& [handle, kind] : kinds_) {
    if (kind != Kind::channel) continue;
    for (auto cq = verbs_.get_cq_event(handle); cq && *cq; cq = verbs_.get_cq_event(handle))
      pending.push_back({{"event", "completion"}, {"cq", **cq}});
  }
  return pending;
}

Json VerbsRpcHandler::add(Kind kind, std::uint32_t handle) {
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
  }
  return {};
}

void VerbsRpcHandler::release_all() {
  // Release the newest objects first and repeat until no object can be released, because objects may be in use.
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

Result<Json> VerbsRpcHandler::hello(ArgumentReader& arguments) {
  const auto version = arguments.number<std::uint32_t>("protocol");
  if (arguments.has("controller")) arguments.text("controller");
  arguments.optional_number<std::uint32_t>("heartbeat_ms");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (version != protocol)
    return tl::unexpected(
        Error{EPROTONOSUPPORT, fmt::format("protocol: version {} is not supported; expected {}", version, protocol)});
  release_all();
  begun_ = true;
  return Json{
      {"protocol", protocol}, {"agent", greeting_}, {"host", "reference"}, {"kernel", "none"}, {"privileged", false}};
}

Result<Json> VerbsRpcHandler::ping(ArgumentReader& arguments) {
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return Json{{"objects", kinds_.size()}, {"time_ns", verbs_.now()}};
}

Result<Json> VerbsRpcHandler::reset(ArgumentReader& arguments) {
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const std::size_t released = kinds_.size();
  release_all();
  return Json{{"released", released}};
}

Result<Json> VerbsRpcHandler::objects(ArgumentReader& arguments) {
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  static constexpr const char* kind_names[] = {"device", "pd",  "xrcd", "mr", "mw",   "channel",
                                               "cq",     "srq", "ah",   "qp", "cm_id"};
  Json all = Json::array();
  for (const auto& [handle, kind] : kinds_)
    all.push_back({{"handle", handle}, {"kind", kind_names[static_cast<unsigned>(kind)]}, {"uses", Json::array()}});
  return Json{{"objects", std::move(all)}};
}

Result<Json> VerbsRpcHandler::destroy(ArgumentReader& arguments) {
  const auto handle = arguments.number<std::uint32_t>("object");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto found = kinds_.find(handle);
  if (found == kinds_.end()) return tl::unexpected(Error{ENOENT, fmt::format("object: unknown object {}", handle)});
  if (found->second == Kind::device && kinds_.size() > 1)
    return tl::unexpected(Error{EBUSY, fmt::format("object: {} is in use", handle)});
  if (auto done = release(found->second, handle); !done) return tl::unexpected(done.error());
  kinds_.erase(found);
  return Json::object();
}

Json VerbsRpcHandler::port_json() {
  Json port = {{"port", 1},
               {"state", "active"},
               {"phys_state", "link_up"},
               {"link_layer", "ethernet"},
               {"netdev", name_},
               {"lid", 0},
               {"lmc", 0},
               {"sm_lid", 0},
               {"sm_sl", 0},
               {"max_vl", 1},
               {"subnet_timeout", 0},
               {"active_width", 2},
               {"active_speed", 64}};
  port.update(own_port());
  return port;
}

Result<Json> VerbsRpcHandler::devices(ArgumentReader& arguments) {
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto [node_type, transport, guid] = identity();
  return Json{{"devices", Json::array({{{"name", name_},
                                        {"node_type", node_type},
                                        {"transport", transport},
                                        {"guid", guid},
                                        {"ports", Json::array({port_json()})}}})}};
}

Result<Json> VerbsRpcHandler::open(ArgumentReader& arguments) {
  const std::string request = arguments.text("name");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  if (request != name_) return tl::unexpected(Error{ENODEV, "name: unknown device; available: " + name_});
  opened_ = verbs_.reserve_handle();
  add(Kind::device, opened_);
  return Json{{"device", opened_}, {"comp_vectors", 1}};
}

Result<Json> VerbsRpcHandler::describe(ArgumentReader& arguments) {
  arguments.number<std::uint32_t>("device");
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  const auto [node_type, transport, guid] = identity();
  Json description_json = {{"name", name_},    {"node_type", node_type}, {"transport", transport},
                           {"guid", guid},     {"sys_image_guid", guid}, {"firmware", "reference"},
                           {"vendor_id", 0},   {"vendor_part_id", 0},    {"hw_ver", 1},
                           {"comp_vectors", 1}};
  description_json.update(description());
  description_json["ports"] = Json::array({port_json()});
  return description_json;
}

Result<Json> VerbsRpcHandler::port(ArgumentReader& arguments) {
  arguments.number<std::uint32_t>("device");
  arguments.optional_number<std::uint8_t>("port", 1, 1);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return port_json();
}

Result<Json> VerbsRpcHandler::counters(ArgumentReader& arguments) {
  arguments.number<std::uint32_t>("device");
  arguments.optional_number<std::uint8_t>("port", 1, 1);
  if (auto wrong = arguments.finish()) return tl::unexpected(*wrong);
  return Json{{"counters", Json::object()}, {"hw_counters", counters_json()}, {"device_hw_counters", Json::object()}};
}

}  // namespace rdmawire::device
