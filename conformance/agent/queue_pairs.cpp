/// create_srq, modify_srq, query_srq, create_ah, create_qp, modify_qp, query_qp, multicast.

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"

namespace rdmawire::agent {
namespace {

ibv_gid read_gid(Arguments& arguments, const std::string& name) {
  ibv_gid gid{};
  const std::string text = arguments.text(name);
  if (!arguments.complaint() && inet_pton(AF_INET6, text.c_str(), gid.raw) != 1) {
    arguments.report_error(name, EINVAL, "must be a GID in IPv6 notation");
  }
  return gid;
}

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

/// An address vector. `port_num` 0: the member `port` is required.
ibv_ah_attr read_address(Arguments& arguments, std::uint8_t port_num) {
  ibv_ah_attr address{};
  address.dlid = arguments.number_or<std::uint16_t>("dlid", 0);
  address.sl = arguments.number_or<std::uint8_t>("sl", 0, {0, 15});
  address.src_path_bits = arguments.number_or<std::uint8_t>("src_path_bits", 0, {0, 127});
  address.static_rate = arguments.number_or<std::uint8_t>("static_rate", 0);
  address.port_num = arguments.number_or<std::uint8_t>("port", port_num != 0 ? port_num : 1);
  if (auto grh = arguments.inner("grh")) {
    address.is_global = 1;
    address.grh.dgid = read_gid(*grh, "dgid");
    address.grh.sgid_index = grh->number<std::uint8_t>("sgid_index");
    address.grh.hop_limit = grh->number_or<std::uint8_t>("hop_limit", 64);
    address.grh.traffic_class = grh->number_or<std::uint8_t>("traffic_class", 0);
    address.grh.flow_label = grh->number_or<std::uint32_t>("flow_label", 0, {0, 0xFFFFF});
  }
  return address;
}

Json address_json(const ibv_ah_attr& address) {
  Json json = {{"dlid", address.dlid},
               {"sl", address.sl},
               {"src_path_bits", address.src_path_bits},
               {"static_rate", address.static_rate},
               {"port", address.port_num}};
  if (address.is_global != 0) {
    json["grh"] = {{"dgid", gid_text(address.grh.dgid)},
                   {"sgid_index", address.grh.sgid_index},
                   {"hop_limit", address.grh.hop_limit},
                   {"traffic_class", address.grh.traffic_class},
                   {"flow_label", address.grh.flow_label}};
  }
  return json;
}

Json cap_json(const ibv_qp_cap& cap) {
  return {{"max_send_wr", cap.max_send_wr},
          {"max_recv_wr", cap.max_recv_wr},
          {"max_send_sge", cap.max_send_sge},
          {"max_recv_sge", cap.max_recv_sge},
          {"max_inline_data", cap.max_inline_data}};
}

Result<Json> create_srq(Session& session, Arguments& arguments) {
  const auto* pd = arguments.object<Pd>("pd");
  ibv_srq_init_attr_ex attributes{};
  attributes.attr.max_wr = arguments.number<std::uint32_t>("max_wr");
  attributes.attr.max_sge = arguments.number_or<std::uint32_t>("max_sge", 1);
  attributes.attr.srq_limit = arguments.number_or<std::uint32_t>("limit", 0);
  const auto type = static_cast<ibv_srq_type>(arguments.maybe_choice("type", names::srq_type).value_or(IBV_SRQT_BASIC));
  const bool is_xrc = type == IBV_SRQT_XRC;
  const auto* xrcd = is_xrc ? arguments.object<Xrcd>("xrcd") : nullptr;
  const auto* cq = is_xrc ? arguments.object<Cq>("cq") : nullptr;
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);

  errno = 0;
  ibv_srq* srq = nullptr;
  std::string_view call = "ibv_create_srq";
  ibv_srq_init_attr basic{nullptr, attributes.attr};
  if (is_xrc) {
    call = "ibv_create_srq_ex";
    attributes.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    attributes.srq_type = type;
    attributes.pd = pd->verbs();
    attributes.xrcd = xrcd->verbs();
    attributes.cq = cq->verbs();
    srq = ibv_create_srq_ex(pd->verbs()->context, &attributes);
  } else {
    srq = ibv_create_srq(pd->verbs(), &basic);
  }
  if (srq == nullptr) return tl::unexpected(verbs_failed(call, errno));
  const ibv_srq_attr& granted = is_xrc ? attributes.attr : basic.attr;
  const Srq& added = session.objects().add(std::make_unique<Srq>(srq, granted.max_sge), {pd, xrcd, cq});
  Json result = {{"srq", added.handle()}, {"max_wr", granted.max_wr}, {"max_sge", granted.max_sge}};
  std::uint32_t number = 0;
  if (is_xrc && ibv_get_srq_num(srq, &number) == 0) result["srq_num"] = number;
  return result;
}

Result<Json> modify_srq(Session&, Arguments& arguments) {
  const auto* srq = arguments.object<Srq>("srq");
  const auto max_wr = arguments.maybe<std::uint32_t>("max_wr");
  const auto limit = arguments.maybe<std::uint32_t>("limit");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  ibv_srq_attr attributes{max_wr.value_or(0), 0, limit.value_or(0)};
  const int mask = (max_wr ? IBV_SRQ_MAX_WR : 0) | (limit ? IBV_SRQ_LIMIT : 0);
  if (const int wrong = ibv_modify_srq(srq->verbs(), &attributes, mask); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_modify_srq", wrong));
  }
  return Json::object();
}

Result<Json> query_srq(Session&, Arguments& arguments) {
  const auto* srq = arguments.object<Srq>("srq");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  ibv_srq_attr attributes{};
  if (const int wrong = ibv_query_srq(srq->verbs(), &attributes); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_query_srq", wrong));
  }
  return Json{{"max_wr", attributes.max_wr}, {"max_sge", attributes.max_sge}, {"limit", attributes.srq_limit}};
}

void create_ah(Session& session, Arguments& arguments, Answer answer) {  // NOLINT(performance-unnecessary-value-param)
  const auto* pd = arguments.object<Pd>("pd");
  ibv_ah_attr address = read_address(arguments, 0);
  if (auto wrong = arguments.wrong()) return answer(tl::unexpected(*wrong));
  const auto made = std::make_shared<ibv_ah*>(nullptr);
  // The kernel or the driver resolves the neighbor's MAC.
  const auto make = [made, verbs = pd->verbs(), address]() mutable {
    errno = 0;
    *made = ibv_create_ah(verbs, &address);
    return *made == nullptr ? errno : 0;
  };
  const auto then = [&session, made, pd, answer](int number) {
    if (*made == nullptr) return answer(tl::unexpected(verbs_failed("ibv_create_ah", number)));
    answer(Json{{"ah", session.objects().add(std::make_unique<Ah>(*made), {pd}).handle()}});
  };
  session.make_slow_call({make, then, {pd->handle()}});
}

Result<Json> create_qp(Session& session, Arguments& arguments) {
  const auto type = static_cast<ibv_qp_type>(arguments.choice("type", names::qp_type));
  // XRC target QPs have an XRC domain instead of a PD and CQs.
  const bool receives_xrc = type == IBV_QPT_XRC_RECV;
  const auto* xrcd = receives_xrc ? arguments.object<Xrcd>("xrcd") : nullptr;
  const auto* pd = receives_xrc ? nullptr : arguments.object<Pd>("pd");
  const auto* send_cq = receives_xrc ? nullptr : arguments.object<Cq>("send_cq");
  const auto* recv_cq = receives_xrc || type == IBV_QPT_XRC_SEND ? nullptr : arguments.object<Cq>("recv_cq");
  const auto* srq = receives_xrc ? nullptr : arguments.maybe_object<Srq>("srq");
  ibv_qp_init_attr_ex attributes{};
  attributes.qp_type = type;
  attributes.cap.max_send_wr = arguments.number_or<std::uint32_t>("max_send_wr", receives_xrc ? 0 : 16);
  attributes.cap.max_recv_wr =
      arguments.number_or<std::uint32_t>("max_recv_wr", recv_cq == nullptr || srq != nullptr ? 0 : 16);
  attributes.cap.max_send_sge = arguments.number_or<std::uint32_t>("max_send_sge", receives_xrc ? 0 : 1);
  attributes.cap.max_recv_sge =
      arguments.number_or<std::uint32_t>("max_recv_sge", recv_cq == nullptr || srq != nullptr ? 0 : 1);
  attributes.cap.max_inline_data = arguments.number_or<std::uint32_t>("max_inline_data", 0);
  attributes.sq_sig_all = arguments.boolean_or("sq_sig_all", false) ? 1 : 0;
  const auto create_flags = arguments.maybe_bits("create_flags", names::create_flags);
  const auto send_ops = arguments.maybe_bits("send_ops", names::send_ops);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);

  attributes.send_cq = send_cq != nullptr ? send_cq->verbs() : nullptr;
  attributes.recv_cq = recv_cq != nullptr ? recv_cq->verbs() : nullptr;
  attributes.srq = srq != nullptr ? srq->verbs() : nullptr;
  attributes.create_flags = static_cast<std::uint32_t>(create_flags.value_or(0));
  attributes.send_ops_flags = send_ops.value_or(0);
  if (create_flags) attributes.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if (send_ops) attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  ibv_context* context = nullptr;
  if (receives_xrc) {
    attributes.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    attributes.xrcd = xrcd->verbs();
    context = xrcd->verbs()->context;
  } else {
    attributes.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attributes.pd = pd->verbs();
    context = pd->verbs()->context;
  }
  for (const Cq* cq : {send_cq, recv_cq}) {
    if (cq != nullptr && cq->verbs()->context != context) {
      return fail(EINVAL, "cq {} and the protection domain belong to different devices", cq->handle());
    }
  }
  if (srq != nullptr && srq->verbs()->context != context) {
    return fail(EINVAL, "srq {} and the protection domain belong to different devices", srq->handle());
  }
  errno = 0;
  ibv_qp* qp = ibv_create_qp_ex(context, &attributes);
  if (qp == nullptr) {
    return tl::unexpected(
        verbs_failed(attributes.comp_mask == IBV_QP_INIT_ATTR_PD ? "ibv_create_qp" : "ibv_create_qp_ex", errno));
  }
  const Qp& added = session.objects().add(std::make_unique<Qp>(qp, attributes.cap, send_ops.value_or(0)),
                                          {pd, xrcd, send_cq, recv_cq, srq});
  Json result = {{"qp", added.handle()}, {"qp_num", qp->qp_num}};
  result.update(cap_json(attributes.cap));
  return result;
}

/// A numeric attribute: its bit in the mask and its setter.
struct NumberAttribute {
  const char* name;
  int bit;
  std::uint64_t most;
  void (*set)(ibv_qp_attr&, std::uint64_t);
};

template <auto member>
void set(ibv_qp_attr& attributes, std::uint64_t value) {
  attributes.*member = static_cast<std::remove_reference_t<decltype(attributes.*member)>>(value);
}

// clang-format off
constexpr NumberAttribute number_attributes[] = {
    {"pkey_index", IBV_QP_PKEY_INDEX, 0xFFFF, set<&ibv_qp_attr::pkey_index>},
    {"port", IBV_QP_PORT, 0xFF, set<&ibv_qp_attr::port_num>},
    {"qkey", IBV_QP_QKEY, 0xFFFFFFFF, set<&ibv_qp_attr::qkey>},
    {"timeout", IBV_QP_TIMEOUT, 0xFF, set<&ibv_qp_attr::timeout>},
    {"retry_cnt", IBV_QP_RETRY_CNT, 0xFF, set<&ibv_qp_attr::retry_cnt>},
    {"rnr_retry", IBV_QP_RNR_RETRY, 0xFF, set<&ibv_qp_attr::rnr_retry>},
    {"rq_psn", IBV_QP_RQ_PSN, 0xFFFFFFFF, set<&ibv_qp_attr::rq_psn>},
    {"sq_psn", IBV_QP_SQ_PSN, 0xFFFFFFFF, set<&ibv_qp_attr::sq_psn>},
    {"max_rd_atomic", IBV_QP_MAX_QP_RD_ATOMIC, 0xFF, set<&ibv_qp_attr::max_rd_atomic>},
    {"max_dest_rd_atomic", IBV_QP_MAX_DEST_RD_ATOMIC, 0xFF, set<&ibv_qp_attr::max_dest_rd_atomic>},
    {"min_rnr_timer", IBV_QP_MIN_RNR_TIMER, 0xFF, set<&ibv_qp_attr::min_rnr_timer>},
    {"dest_qp_num", IBV_QP_DEST_QPN, 0xFFFFFFFF, set<&ibv_qp_attr::dest_qp_num>},
    {"rate_limit", IBV_QP_RATE_LIMIT, 0xFFFFFFFF, set<&ibv_qp_attr::rate_limit>},
};
// clang-format on

/// Reads all specified attributes and returns their mask.
int read_attributes(Arguments& arguments, ibv_qp_attr& attributes) {
  int mask = 0;
  const auto choose = [&](const char* name, int bit, Names names, auto& member) {
    if (const auto value = arguments.maybe_choice(name, names)) {
      member = static_cast<std::remove_reference_t<decltype(member)>>(*value);
      mask |= bit;
    }
  };
  choose("state", IBV_QP_STATE, names::qp_state, attributes.qp_state);
  choose("cur_state", IBV_QP_CUR_STATE, names::qp_state, attributes.cur_qp_state);
  choose("path_mig_state", IBV_QP_PATH_MIG_STATE, names::mig_state, attributes.path_mig_state);
  for (const NumberAttribute& attribute : number_attributes) {
    if (const auto value = arguments.maybe<std::uint64_t>(attribute.name, {0, attribute.most})) {
      attribute.set(attributes, *value);
      mask |= attribute.bit;
    }
  }
  if (const auto access = arguments.maybe_bits("access", names::access)) {
    attributes.qp_access_flags = static_cast<unsigned>(*access);
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  if (const auto mtu = arguments.maybe<std::uint32_t>("path_mtu")) {
    for (const ibv_mtu code : {IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
      if (*mtu == 128U << code) attributes.path_mtu = code;
    }
    if (attributes.path_mtu == 0) arguments.report_error("path_mtu", ERANGE, "must be 256, 512, 1024, 2048 or 4096");
    mask |= IBV_QP_PATH_MTU;
  }
  if (arguments.has("sqd_async_notify")) {
    attributes.en_sqd_async_notify = arguments.boolean_or("sqd_async_notify", false) ? 1 : 0;
    mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
  }
  const std::uint8_t port = (mask & IBV_QP_PORT) != 0 ? attributes.port_num : 1;
  if (auto address = arguments.inner("ah_attr")) {
    attributes.ah_attr = read_address(*address, port);
    mask |= IBV_QP_AV;
  }
  if (auto alternate = arguments.inner("alt_path")) {
    attributes.alt_pkey_index = alternate->number_or<std::uint16_t>("pkey_index", 0);
    attributes.alt_port_num = alternate->number_or<std::uint8_t>("port", port);
    attributes.alt_timeout = alternate->number_or<std::uint8_t>("timeout", 0);
    if (auto address = alternate->inner("ah_attr")) {
      attributes.alt_ah_attr = read_address(*address, attributes.alt_port_num);
    } else {
      alternate->report_error("ah_attr", EINVAL, "missing required argument");
    }
    mask |= IBV_QP_ALT_PATH;
  }
  if (auto cap = arguments.inner("cap")) {
    attributes.cap.max_send_wr = cap->number<std::uint32_t>("max_send_wr");
    attributes.cap.max_recv_wr = cap->number<std::uint32_t>("max_recv_wr");
    attributes.cap.max_send_sge = cap->number<std::uint32_t>("max_send_sge");
    attributes.cap.max_recv_sge = cap->number<std::uint32_t>("max_recv_sge");
    attributes.cap.max_inline_data = cap->number<std::uint32_t>("max_inline_data");
    mask |= IBV_QP_CAP;
  }
  return mask;
}

void modify_qp(Session& session, Arguments& arguments, Answer answer) {  // NOLINT(performance-unnecessary-value-param)
  const auto* qp = arguments.object<Qp>("qp");
  ibv_qp_attr attributes{};
  const int mask = read_attributes(arguments, attributes);
  if (auto wrong = arguments.wrong()) return answer(tl::unexpected(*wrong));
  const auto make = [verbs = qp->verbs(), attributes, mask] {
    ibv_qp_attr changed = attributes;
    return ibv_modify_qp(verbs, &changed, mask);
  };
  const auto then = [qp, answer](int number) {
    if (number != 0) return answer(tl::unexpected(verbs_failed("ibv_modify_qp", number)));
    answer(Json{{"state", name_of(names::qp_state, qp->verbs()->state)}});
  };
  // The kernel resolves the neighbor's MAC for an address vector.
  if ((mask & (IBV_QP_AV | IBV_QP_ALT_PATH)) != 0) {
    session.make_slow_call({make, then, {qp->handle()}, qp->handle()});
  } else {
    then(make());
  }
}

Result<Json> query_qp(Session&, Arguments& arguments) {
  const auto* qp = arguments.object<Qp>("qp");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  constexpr int all = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                      IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP | IBV_QP_DEST_QPN;
  if (const int wrong = ibv_query_qp(qp->verbs(), &a, all, &init); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_query_qp", wrong));
  }
  return Json{{"qp_num", qp->verbs()->qp_num},
              {"type", name_of(names::qp_type, qp->verbs()->qp_type)},
              {"state", name_of(names::qp_state, a.qp_state)},
              {"cur_state", name_of(names::qp_state, a.cur_qp_state)},
              {"path_mtu", a.path_mtu == 0 ? 0U : 128U << (a.path_mtu & 15U)},
              {"path_mig_state", name_of(names::mig_state, a.path_mig_state)},
              {"qkey", a.qkey},
              {"rq_psn", a.rq_psn},
              {"sq_psn", a.sq_psn},
              {"dest_qp_num", a.dest_qp_num},
              {"access", names_of_bits(names::access, a.qp_access_flags)},
              {"cap", cap_json(a.cap)},
              {"ah_attr", address_json(a.ah_attr)},
              {"alt_path",
               {{"ah_attr", address_json(a.alt_ah_attr)},
                {"pkey_index", a.alt_pkey_index},
                {"port", a.alt_port_num},
                {"timeout", a.alt_timeout}}},
              {"pkey_index", a.pkey_index},
              {"sq_draining", a.sq_draining != 0},
              {"max_rd_atomic", a.max_rd_atomic},
              {"max_dest_rd_atomic", a.max_dest_rd_atomic},
              {"min_rnr_timer", a.min_rnr_timer},
              {"port", a.port_num},
              {"timeout", a.timeout},
              {"retry_cnt", a.retry_cnt},
              {"rnr_retry", a.rnr_retry},
              {"rate_limit", a.rate_limit},
              {"sq_sig_all", init.sq_sig_all != 0}};
}

Result<Json> multicast(Arguments& arguments, std::string_view call,
                       int (*act)(ibv_qp*, const ibv_gid*, std::uint16_t)) {
  const auto* qp = arguments.object<Qp>("qp");
  const ibv_gid gid = read_gid(arguments, "gid");
  const auto lid = arguments.number_or<std::uint16_t>("lid", 0);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (const int wrong = act(qp->verbs(), &gid, lid); wrong != 0) return tl::unexpected(verbs_failed(call, wrong));
  return Json::object();
}

Result<Json> attach_multicast(Session&, Arguments& arguments) {
  return multicast(arguments, "ibv_attach_mcast", ibv_attach_mcast);
}

Result<Json> detach_multicast(Session&, Arguments& arguments) {
  return multicast(arguments, "ibv_detach_mcast", ibv_detach_mcast);
}

}  // namespace

std::span<const Command> queue_pair_commands() {
  static constexpr std::string_view
      a_pd = "handle of a protection domain",
      a_qp = "handle of a queue pair", a_srq = "handle of a shared receive queue", a_number = "optional number",
      a_gid = "text: a GID in IPv6 notation", a_dlid = "optional number: destination LID (default 0)",
      a_sl = "optional number, 0 to 15 (default 0)",
      a_grh =
          "optional object: `dgid` (text: a GID in IPv6 notation), `sgid_index` (number), `hop_limit` "
          "(optional, 64), `traffic_class` (optional, 0), `flow_label` (optional, 0)";
  static const Command all[] = {
      {"create_srq",
       "Creates a shared receive queue. If fewer requests than `limit` remain, `srq_limit_reached` is reported "
       "once.",
       {{"pd", a_pd},
        {"max_wr", "number: minimum capacity in work requests"},
        {"max_sge", "optional number: SGEs per request (default 1)"},
        {"limit", "optional number (0: none)"},
        {"type", "optional: `basic` or `xrc` (`basic`)"},
        {"xrcd", "handle of an XRC domain, with `xrc` only"},
        {"cq", "handle of a completion queue, with `xrc` only"}},
       {{"srq", "handle"}, {"max_wr, max_sge", "granted capacity"}, {"srq_num", "number, with `xrc` only"}},
       R"({"pd":2,"max_wr":16})",
       R"({"srq":7,"max_wr":31,"max_sge":1})",
       &create_srq},
      {"modify_srq",
       "Changes a shared receive queue.",
       {{"srq", a_srq}, {"max_wr", a_number}, {"limit", a_number}},
       {},
       R"({"srq":7,"limit":4})",
       "{}",
       &modify_srq},
      {"query_srq",
       "Returns the attributes of a shared receive queue.",
       {{"srq", a_srq}},
       {{"max_wr, max_sge, limit", "numbers"}},
       R"({"srq":7})",
       R"({"max_wr":31,"max_sge":1,"limit":4})",
       &query_srq},
      {"create_ah",
       "Creates an address handle for UD. On Ethernet, libibverbs requests the MAC address of the GID from the kernel, "
       "which can take seconds if there is no response.",
       {{"pd", a_pd},
        {"dlid", a_dlid},
        {"sl", a_sl},
        {"src_path_bits", "optional number, 0 to 127 (default 0)"},
        {"static_rate", "optional number of ibv_rate (default 0)"},
        {"port", "optional number (default 1)"},
        {"grh", a_grh}},
       {{"ah", "handle"}},
       R"({"pd":2,"grh":{"dgid":"::ffff:10.0.0.3","sgid_index":1}})",
       R"({"ah":8})",
       &create_ah},
      {"create_qp",
       "Creates a queue pair, in the state `reset`.",
       {{"type", "`rc`, `uc`, `ud`, `xrc_send` or `xrc_recv`"},
        {"pd", "handle of a protection domain (not with `xrc_recv`)"},
        {"xrcd", "handle of an XRC domain, with `xrc_recv` only"},
        {"send_cq", "handle of a completion queue (not with `xrc_recv`)"},
        {"recv_cq", "handle of a completion queue (not with `xrc_send` and `xrc_recv`)"},
        {"srq", "optional handle of a shared receive queue (not with `xrc_recv`)"},
        {"max_send_wr", "optional number (default 16, 0 with `xrc_recv`)"},
        {"max_recv_wr", "optional number (default 16, 0 with an SRQ and XRC)"},
        {"max_send_sge", "optional number (default 1, 0 with `xrc_recv`)"},
        {"max_recv_sge", "optional number (default 1, 0 with an SRQ and XRC)"},
        {"max_inline_data", "optional number: bytes (default 0)"},
        {"sq_sig_all", "optional boolean: every send request creates a completion (default false)"},
        {"create_flags",
         "optional list: `block_self_multicast_loopback`, `scatter_fcs`, `cvlan_stripping`, `pci_write_end_padding`"},
        {"send_ops",
         "optional list of opcodes of `post_send` to enable for the ibv_wr_ calls (required for `flush` and "
         "`atomic_write`)"}},
       {{"qp", "handle"},
        {"qp_num", "number"},
        {"max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data", "granted values"}},
       R"({"type":"rc","pd":2,"send_cq":6,"recv_cq":6})",
       R"({"qp":9,"qp_num":17,"max_send_wr":16,"max_recv_wr":16,"max_send_sge":1,"max_recv_sge":1,"max_inline_data":0})",
       &create_qp},
      {"modify_qp",
       "Changes attributes of a queue pair. The mask of ibv_modify_qp contains exactly the specified attributes.",
       {{"qp", a_qp},
        {"state", "optional: `reset`, `init`, `rtr`, `rts`, `sqd`, `sqe`, `err`"},
        {"cur_state", "optional, as `state`"},
        {"path_mig_state", "optional: `migrated`, `rearm`, `armed`"},
        {"pkey_index", a_number},
        {"port", a_number},
        {"qkey", a_number},
        {"timeout", "optional number: 4.096 µs * 2^value (0: infinite)"},
        {"retry_cnt", a_number},
        {"rnr_retry", "optional number (7: unlimited)"},
        {"rq_psn", a_number},
        {"sq_psn", a_number},
        {"max_rd_atomic", a_number},
        {"max_dest_rd_atomic", a_number},
        {"min_rnr_timer", "optional number: timer code, IBTA vol 1, 9.7.5.2.8"},
        {"dest_qp_num", a_number},
        {"rate_limit", "optional number: kbit/s"},
        {"access", "optional list of names, as for `register`"},
        {"path_mtu", "optional number: 256, 512, 1024, 2048 or 4096"},
        {"sqd_async_notify", "optional boolean: request the event `sq_drained`"},
        {"ah_attr",
         "optional object: `dlid`, `sl`, `src_path_bits`, `static_rate`, `port`, `grh`, as for `create_ah` (default of "
         "`port`: port of the QP)"},
        {"alt_path", "optional object: `ah_attr`, `pkey_index`, `port`, `timeout`"},
        {"cap",
         "optional object: `max_send_wr`, `max_recv_wr`, `max_send_sge`, `max_recv_sge`, `max_inline_data`, all "
         "required"}},
       {{"state", "current state in libibverbs"}},
       R"({"qp":9,"state":"init","pkey_index":0,"port":1,"access":["remote_write"]})",
       R"({"state":"init"})",
       &modify_qp},
      {"query_qp",
       "Returns the attributes of a queue pair.",
       {{"qp", a_qp}},
       {{"qp_num, type, state, cur_state", "identification and state"},
        {"cap, ah_attr, alt_path, access, path_mtu, path_mig_state, …", "all attributes, as for `modify_qp`"},
        {"sq_draining, sq_sig_all", "booleans"}},
       R"({"qp":9})",
       R"({"qp_num":17,"type":"rc","state":"init","cur_state":"init","path_mtu":256,"rq_psn":0,"sq_psn":0})",
       &query_qp},
      {"attach_multicast",
       "Attaches a UD queue pair to a multicast group.",
       {{"qp", a_qp}, {"gid", a_gid}, {"lid", "optional number (default 0)"}},
       {},
       R"({"qp":9,"gid":"ff0e::ffff:e000:1"})",
       "{}",
       &attach_multicast},
      {"detach_multicast",
       "Detaches a queue pair from a multicast group.",
       {{"qp", a_qp}, {"gid", a_gid}, {"lid", "optional number (default 0)"}},
       {},
       R"({"qp":9,"gid":"ff0e::ffff:e000:1"})",
       "{}",
       &detach_multicast},
  };
  return all;
}

}  // namespace rdmawire::agent
