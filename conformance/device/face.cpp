#include "conformance/device/face.hpp"

#include <cstring>

#include "conformance/device/names.hpp"

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

const std::map<std::string, Face::Command, std::less<>>& Face::commands() {
  static const std::map<std::string, Command, std::less<>> all = {
      {"hello", &Face::hello},
      {"ping", &Face::ping},
      {"reset", &Face::reset},
      {"bye", &Face::reset},
      {"objects", &Face::objects},
      {"destroy", &Face::destroy},
      {"devices", &Face::devices},
      {"open", &Face::open},
      {"describe", &Face::describe},
      {"port", &Face::port},
      {"counters", &Face::counters},
      {"alloc_pd", &Face::alloc_pd},
      {"open_xrcd", &Face::open_xrcd},
      {"register", &Face::register_memory},
      {"alloc_mr", &Face::alloc_mr},
      {"write", &Face::write},
      {"read", &Face::read},
      {"fill", &Face::fill},
      {"checksum", &Face::checksum},
      {"alloc_mw", &Face::alloc_mw},
      {"bind_mw", &Face::bind_mw},
      {"create_channel", &Face::create_channel},
      {"create_cq", &Face::create_cq},
      {"notify", &Face::notify},
      {"poll", &Face::poll},
      {"create_srq", &Face::create_srq},
      {"modify_srq", &Face::modify_srq},
      {"query_srq", &Face::query_srq},
      {"create_ah", &Face::create_ah},
      {"create_qp", &Face::create_qp},
      {"modify_qp", &Face::modify_qp},
      {"query_qp", &Face::query_qp},
      {"attach_multicast", &Face::attach_multicast},
      {"detach_multicast", &Face::detach_multicast},
      {"post_send", &Face::post_send},
      {"post_recv", &Face::post_recv},
      {"cm_listen", &Face::cm_listen},
      {"cm_connect", &Face::cm_connect},
      {"cm_accept", &Face::cm_accept},
      {"cm_establish", &Face::cm_establish},
      {"cm_reject", &Face::cm_reject},
      {"cm_disconnect", &Face::cm_disconnect},
  };
  return all;
}

Result<Json> Face::run(const std::string& command, const Json& arguments) {
  const auto found = commands().find(command);
  if (found == commands().end())
    return tl::unexpected(Error{ENOSYS, fmt::format("{}: the reference device has no such command", command)});
  if (!begun_ && command != "hello") return tl::unexpected(Error{EPROTO, "hello comes first"});
  Given given(arguments);
  auto result = (this->*found->second)(given);
  if (!result && !result.error().message.starts_with(command))
    result.error().message = fmt::format("{}: {}", command, result.error().message);
  return result;
}

std::vector<std::string> Face::ask(std::string_view line) {
  const Json asked = Json::parse(line, nullptr, false);
  std::vector<std::string> lines;
  if (!asked.is_object()) {
    lines.push_back(answer_of(nullptr, tl::unexpected(Error{EBADMSG, "the line is no JSON object"})));
    return lines;
  }
  const Json id = asked.value("id", Json(nullptr));
  const auto what = asked.find("do");
  const auto result = what != asked.end() && what->is_string()
                          ? run(what->get<std::string>(), asked)
                          : Result<Json>(tl::unexpected(Error{EINVAL, "do: is needed, and names a command"}));
  for (const Json& event : events()) lines.push_back(event.dump());
  lines.push_back(answer_of(id, result));
  return lines;
}

std::vector<Json> Face::events() {
  std::vector<Json> told;
  while (const auto event = device_.get_async_event()) {
    Json json = {{"event", "async"},
                 {"type", names::name_of(names::event, static_cast<unsigned>(event->type))},
                 {"device", opened_}};
    const auto kind = kinds_.find(event->object);
    if (kind == kinds_.end()) continue;  // it was destroyed meanwhile
    json[kind->second == Kind::qp ? "qp" : kind->second == Kind::cq ? "cq" : "srq"] = event->object;
    told.push_back(std::move(json));
  }
  while (const auto event = device_.get_cm_event()) {
    if (event->type == CmEventType::connect_request) add(Kind::cm_id, event->cm_id);
    told.push_back(cm_json(*event));
  }
  for (const auto& [handle, kind] : kinds_) {
    if (kind != Kind::channel) continue;
    for (auto cq = device_.get_cq_event(handle); cq && *cq; cq = device_.get_cq_event(handle))
      told.push_back({{"event", "completion"}, {"cq", **cq}});
  }
  return told;
}

Json Face::add(Kind kind, std::uint32_t handle) {
  kinds_[handle] = kind;
  return handle;
}

Result<void> Face::release(Kind kind, std::uint32_t handle) {
  switch (kind) {
    case Kind::device: return {};
    case Kind::pd: return device_.dealloc_pd(handle);
    case Kind::xrcd: return device_.close_xrcd(handle);
    case Kind::mr: {
      auto done = device_.dereg_mr(handle);
      if (!done) return done;
      if (const auto piece = pieces_.find(handle); piece != pieces_.end()) {
        (void)device_.free(piece->second);
        pieces_.erase(piece);
      }
      return {};
    }
    case Kind::mw: return device_.dealloc_mw(handle);
    case Kind::channel: return device_.destroy_channel(handle);
    case Kind::cq: return device_.destroy_cq(handle);
    case Kind::srq: return device_.destroy_srq(handle);
    case Kind::ah: return device_.destroy_ah(handle);
    case Kind::qp: return device_.destroy_qp(handle);
    case Kind::cm_id: return device_.cm_destroy(handle);
  }
  return {};
}

void Face::release_all() {
  // Newest first, and again as long as that frees any: what is used goes after what uses it.
  for (bool any = true; any && !kinds_.empty();) {
    any = false;
    std::vector<std::pair<std::uint32_t, Kind>> all(kinds_.rbegin(), kinds_.rend());
    for (const auto& [handle, kind] : all)
      if (release(kind, handle)) {
        kinds_.erase(handle);
        any = true;
      }
  }
  device_.forget_everything();
  kinds_.clear();
  pieces_.clear();
  opened_ = 0;
}

Result<Json> Face::hello(Given& given) {
  const auto version = given.number<std::uint32_t>("protocol");
  if (given.has("controller")) given.text("controller");
  given.maybe<std::uint32_t>("heartbeat_ms");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  if (version != protocol)
    return tl::unexpected(Error{EPROTONOSUPPORT, fmt::format("protocol: {} is not version {}", version, protocol)});
  release_all();
  begun_ = true;
  return Json{{"protocol", protocol}, {"agent", "rdmawire reference device"},
              {"host", "reference"},  {"kernel", "none"},
              {"privileged", false},  {"authentication", "none"}};
}

Result<Json> Face::ping(Given& given) {
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  return Json{{"objects", kinds_.size()}, {"time_ns", device_.now()}};
}

Result<Json> Face::reset(Given& given) {
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const std::size_t released = kinds_.size();
  release_all();
  return Json{{"released", released}};
}

Result<Json> Face::objects(Given& given) {
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  static constexpr const char* words[] = {"device", "pd",  "xrcd", "mr", "mw",   "channel",
                                          "cq",     "srq", "ah",   "qp", "cm_id"};
  Json all = Json::array();
  for (const auto& [handle, kind] : kinds_)
    all.push_back({{"handle", handle}, {"kind", words[static_cast<unsigned>(kind)]}, {"uses", Json::array()}});
  return Json{{"objects", std::move(all)}};
}

Result<Json> Face::destroy(Given& given) {
  const auto handle = given.number<std::uint32_t>("object");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const auto found = kinds_.find(handle);
  if (found == kinds_.end()) return tl::unexpected(Error{ENOENT, fmt::format("object: there is no object {}", handle)});
  if (found->second == Kind::device && kinds_.size() > 1)
    return tl::unexpected(Error{EBUSY, fmt::format("object: {} is in use", handle)});
  if (auto done = release(found->second, handle); !done) return tl::unexpected(done.error());
  kinds_.erase(found);
  return Json::object();
}

Json Face::port_json() {
  const Port& at = device_.port();
  const Faults& faults = device_.faults();
  Json gids = Json::array(), pkeys = Json::array();
  for (std::size_t i = 0; i < at.gids.size(); ++i) {
    if (at.gids[i].gid.is_zero()) continue;
    const char* type = at.gids[i].type == GidType::roce_v2 ? "roce_v2" : "roce_v1";
    if (faults[Fault::gid_types_untold] && !at.gids[i].gid.is_ipv4()) type = "ib";
    const std::string netdev = at.gids[i].vlan == 0 ? "reference" : fmt::format("reference.{}", at.gids[i].vlan);
    gids.push_back({{"index", i}, {"gid", gid_text(at.gids[i].gid)}, {"type", type}, {"netdev", netdev}});
  }
  for (const std::uint16_t pkey : at.pkeys) pkeys.push_back(pkey);
  if (faults[Fault::no_default_pkey]) pkeys[0] = 0x8001;
  return {{"port", 1},
          {"state", "active"},
          {"phys_state", "link_up"},
          {"link_layer", "ethernet"},
          {"netdev", "reference"},
          {"max_mtu", at.mtu},
          {"active_mtu", at.mtu},
          {"max_msg_size", machines::longest_message},
          {"lid", 0},
          {"lmc", 0},
          {"sm_lid", 0},
          {"sm_sl", 0},
          {"max_vl", 1},
          {"subnet_timeout", 0},
          {"active_width", 2},
          {"active_speed", 64},
          {"grh_required", true},
          {"bad_pkey_counter", device_.counters().bad_pkeys},
          {"qkey_violations", device_.counters().qkey_violations},
          {"capabilities", Json::array({"cm", "ip_based_gids"})},
          {"gid_table_length", at.gids.size()},
          {"gids", std::move(gids)},
          {"pkeys", std::move(pkeys)}};
}

Result<Json> Face::devices(Given& given) {
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  return Json{{"devices", Json::array({{{"name", "reference"},
                                        {"node_type", "ca"},
                                        {"transport", "ib"},
                                        {"guid", "0200:00ff:fe00:0001"},
                                        {"ports", Json::array({port_json()})}}})}};
}

Result<Json> Face::open(Given& given) {
  const std::string name = given.text("name");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  if (name != "reference") return tl::unexpected(Error{ENODEV, "name: there is no such device; there are reference"});
  opened_ = device_.reserve_handle();
  add(Kind::device, opened_);
  return Json{{"device", opened_}, {"comp_vectors", 1}};
}

Result<Json> Face::describe(Given& given) {
  given.number<std::uint32_t>("device");
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  const DeviceOptions& o = device_.options();
  const Json limits = {{"max_mr_size", 256ULL << 20},
                       {"max_qp", o.most_objects},
                       {"max_qp_wr", o.most_work},
                       {"max_sge", 256},
                       {"max_sge_rd", 256},
                       {"max_cq", o.most_objects},
                       {"max_cqe", o.most_work},
                       {"max_mr", o.most_objects},
                       {"max_mw", o.most_objects},
                       {"max_pd", o.most_objects},
                       {"max_ah", o.most_objects},
                       {"max_srq", o.most_objects},
                       {"max_srq_wr", o.most_work},
                       {"max_srq_sge", 256},
                       {"max_qp_rd_atomic", o.most_rd_atomic},
                       {"max_qp_init_rd_atomic", o.most_rd_atomic},
                       {"max_res_rd_atomic", o.most_rd_atomic * o.most_objects},
                       {"max_multicast_groups", 256},
                       {"max_multicast_qp_attach", o.most_objects},
                       {"max_total_multicast_qp_attach", o.most_objects},
                       {"max_pkeys", o.port.pkeys.size()},
                       {"local_ca_ack_delay", 1}};
  return Json{{"name", "reference"},
              {"node_type", "ca"},
              {"transport", "ib"},
              {"guid", "0200:00ff:fe00:0001"},
              {"sys_image_guid", "0200:00ff:fe00:0001"},
              {"firmware", "reference"},
              {"vendor_id", 0},
              {"vendor_part_id", 0},
              {"hw_ver", 1},
              {"limits", limits},
              {"capabilities", Json::array({"bad_pkey_counter", "bad_qkey_counter", "cur_qp_state_mod",
                                            "rc_rnr_nak_gen", "mem_window", "xrc", "mem_mgt_extensions",
                                            "mem_window_type_2b", "flush_global", "flush_persistent", "atomic_write"})},
              {"atomic", "hca"},
              {"comp_vectors", 1},
              {"congestion_control", o.congestion_control},
              {"congestion", {{"pacing", "queue_pair"}, {"interval_ns", o.cnp_interval}, {"on_loss", false}}},
              {"ports", Json::array({port_json()})}};
}

Result<Json> Face::port(Given& given) {
  given.number<std::uint32_t>("device");
  given.maybe<std::uint8_t>("port", 1, 1);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  return port_json();
}

Result<Json> Face::counters(Given& given) {
  given.number<std::uint32_t>("device");
  given.maybe<std::uint8_t>("port", 1, 1);
  if (auto wrong = given.finish()) return tl::unexpected(*wrong);
  Json own = Json::object();
  for (const CounterName& counter : counter_names) own[std::string(counter.name)] = device_.counters().*counter.value;
  return Json{{"counters", Json::object()}, {"hw_counters", std::move(own)}, {"device_hw_counters", Json::object()}};
}

}  // namespace rdmawire::device
