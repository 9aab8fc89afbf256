#include "replay/rpc/queue_pair_commands.hpp"

namespace rdmawire::rpc {
namespace {

constexpr std::string_view a_gid = "a GID in IPv6 notation";

/// The members of an address vector, or of a message derived from it.
template <class M>
Fields address_fields(std::string_view port_meaning) {
  using A = AddressVector;
  return {optional<&A::dlid, M>("dlid", "destination LID"),
          optional<&A::sl, M>("sl", {}, {.most = 15}),
          optional<&A::src_path_bits, M>("src_path_bits", {}, {.most = 127}),
          optional<&A::static_rate, M>("static_rate", "as ibv_rate"),
          optional<&A::port, M>("port", port_meaning),
          optional<&A::grh, M>("grh")};
}

}  // namespace

const Structure& GlobalRoute::structure() {
  using G = GlobalRoute;
  static const Structure& it = *new Structure{
      "GlobalRoute",
      "The route of packets on Ethernet, and of packets with a GRH.",
      {required<&G::dgid>("dgid", a_gid), required<&G::sgid_index>("sgid_index", "index of the source GID"),
       optional<&G::hop_limit>("hop_limit"), optional<&G::traffic_class>("traffic_class"),
       optional<&G::flow_label>("flow_label", {}, {.most = 0xF'FFFF})}};
  return it;
}

const Structure& AddressVector::structure() {
  static const Structure& it = *new Structure{"AddressVector", "The address of a peer.",
                                              address_fields<AddressVector>("(default: port of the QP)")};
  return it;
}

const Structure& Capacity::structure() {
  using C = Capacity;
  static const Structure& it = *new Structure{
      "Capacity",
      "The capacity of a queue pair.",
      {required<&C::max_send_wr>("max_send_wr", "work requests of a queue, SGEs of a request, inline bytes"),
       required<&C::max_recv_wr>("max_recv_wr", same), required<&C::max_send_sge>("max_send_sge", same),
       required<&C::max_recv_sge>("max_recv_sge", same), required<&C::max_inline_data>("max_inline_data", same)}};
  return it;
}

const Structure& AlternatePath::structure() {
  using A = AlternatePath;
  static const Structure& it = *new Structure{
      "AlternatePath",
      "The path after a migration.",
      {required<&A::ah_attr>("ah_attr"), optional<&A::pkey_index>("pkey_index"),
       optional<&A::port>("port", "(default: port of the QP)"), optional<&A::timeout>("timeout", "as in `modify_qp`")}};
  return it;
}

const Command& CreateSrq::command() {
  const Condition only_xrc = when<&CreateSrq::is_xrc>("only with `xrc`");
  static const Command& it = *new Command{
      .name = "create_srq",
      .does =
          "Creates a shared receive queue. If fewer requests than `limit` remain, `srq_limit_reached` is reported "
          "once.",
      .arguments = {required<&CreateSrq::pd>("pd"),
                    required<&CreateSrq::max_wr>("max_wr", "minimum capacity in work requests"),
                    optional<&CreateSrq::max_sge>("max_sge", "SGEs per request"),
                    optional<&CreateSrq::limit>("limit", "0: none"), optional<&CreateSrq::type>("type"),
                    required<&CreateSrq::xrcd>("xrcd", {}, {.condition = only_xrc}),
                    required<&CreateSrq::cq>("cq", {}, {.condition = only_xrc})},
      .result = {required<&Result::srq>("srq"), optional<&Result::max_wr>("max_wr", "granted capacity"),
                 optional<&Result::max_sge>("max_sge", same),
                 optional<&Result::srq_num>("srq_num", "SRQ number for XRC senders, only with `xrc`")},
      .example = R"({"pd":2,"max_wr":16})",
      .answers = R"({"srq":7,"max_wr":31,"max_sge":1})"};
  return it;
}

const Command& ModifySrq::command() {
  static const Command& it = *new Command{
      .name = "modify_srq",
      .does = "Changes a shared receive queue.",
      .arguments = {required<&ModifySrq::srq>("srq"), optional<&ModifySrq::max_wr>("max_wr", "minimum capacity"),
                    optional<&ModifySrq::limit>("limit", "as in `create_srq`")},
      .example = R"({"srq":7,"limit":4})",
      .answers = "{}"};
  return it;
}

const Command& QuerySrq::command() {
  static const Command& it =
      *new Command{.name = "query_srq",
                   .does = "Returns the attributes of a shared receive queue.",
                   .arguments = {required<&QuerySrq::srq>("srq")},
                   .result = {required<&Result::max_wr>("max_wr", "as in `create_srq`"),
                              required<&Result::max_sge>("max_sge", same), required<&Result::limit>("limit", same)},
                   .example = R"({"srq":7})",
                   .answers = R"({"max_wr":31,"max_sge":1,"limit":4})"};
  return it;
}

const Command& CreateAh::command() {
  static const Command& it = *new Command([] {
    Command made = {
        .name = "create_ah",
        .does =
            "Creates an address handle for UD. On Ethernet, libibverbs requests the MAC address of the GID from the "
            "kernel, which can take seconds if there is no response.",
        .arguments = {required<&CreateAh::pd>("pd")},
        .result = {required<&Result::ah>("ah")},
        .example = R"({"pd":2,"grh":{"dgid":"::ffff:10.0.0.3","sgid_index":1}})",
        .answers = R"({"ah":8})"};
    for (const Field& field : address_fields<CreateAh>("(default 1)")) made.arguments.push_back(field);
    return made;
  }());
  return it;
}

Capacity CreateQp::capacity() const {
  const bool receives = is_not_xrc() && !srq;
  return {.max_send_wr = max_send_wr.value_or(is_xrc_target() ? 0 : 16),
          .max_recv_wr = max_recv_wr.value_or(receives ? 16 : 0),
          .max_send_sge = max_send_sge.value_or(is_xrc_target() ? 0 : 1),
          .max_recv_sge = max_recv_sge.value_or(receives ? 1 : 0),
          .max_inline_data = max_inline_data};
}

CreateQp::Result::Result(QpHandle handle, std::uint32_t number, const Capacity& granted)
    : qp(handle),
      qp_num(number),
      max_send_wr(granted.max_send_wr),
      max_recv_wr(granted.max_recv_wr),
      max_send_sge(granted.max_send_sge),
      max_recv_sge(granted.max_recv_sge),
      max_inline_data(granted.max_inline_data) {}

const Command& CreateQp::command() {
  using Q = CreateQp;
  const Condition initiator = when<&Q::is_initiator>("not with `xrc_recv`");
  const Condition not_xrc = when<&Q::is_not_xrc>("not with `xrc_send` and `xrc_recv`");
  const Condition target = when<&Q::is_xrc_target>("only with `xrc_recv`");
  static const Command& it = *new Command{
      .name = "create_qp",
      .does = "Creates a queue pair, in the state `reset`.",
      .arguments = {required<&Q::type>("type"), required<&Q::pd>("pd", {}, {.condition = initiator}),
                    required<&Q::xrcd>("xrcd", {}, {.condition = target}),
                    required<&Q::send_cq>("send_cq", {}, {.condition = initiator}),
                    required<&Q::recv_cq>("recv_cq", {}, {.condition = not_xrc}),
                    optional<&Q::srq>("srq", {}, {.condition = initiator}),
                    optional<&Q::max_send_wr>("max_send_wr", "(default 16, 0 with `xrc_recv`)"),
                    optional<&Q::max_recv_wr>("max_recv_wr", "(default 16, 0 with an SRQ and XRC)"),
                    optional<&Q::max_send_sge>("max_send_sge", "(default 1, 0 with `xrc_recv`)"),
                    optional<&Q::max_recv_sge>("max_recv_sge", "(default 1, 0 with an SRQ and XRC)"),
                    optional<&Q::max_inline_data>("max_inline_data", "bytes"),
                    optional<&Q::sq_sig_all>("sq_sig_all", "every send request creates a completion"),
                    optional<&Q::create_flags>("create_flags"),
                    optional<&Q::send_ops>(
                        "send_ops",
                        "opcodes of `post_send` to enable for the ibv_wr_ calls (required for `flush` and "
                        "`atomic_write`)")},
      .result = {required<&Result::qp>("qp"), required<&Result::qp_num>("qp_num"),
                 optional<&Result::max_send_wr>("max_send_wr", "granted values"),
                 optional<&Result::max_recv_wr>("max_recv_wr", same),
                 optional<&Result::max_send_sge>("max_send_sge", same),
                 optional<&Result::max_recv_sge>("max_recv_sge", same),
                 optional<&Result::max_inline_data>("max_inline_data", same)},
      .example = R"({"type":"rc","pd":2,"send_cq":6,"recv_cq":6})",
      .answers =
          R"({"qp":9,"qp_num":17,"max_send_wr":16,"max_recv_wr":16,"max_send_sge":1,"max_recv_sge":1,"max_inline_data":0})"};
  return it;
}

const Command& ModifyQp::command() {
  using Q = ModifyQp;
  static const Command& it = *new Command{
      .name = "modify_qp",
      .does =
          "Changes attributes of a queue pair. The mask of ibv_modify_qp contains exactly the specified attributes.",
      .arguments = {required<&Q::qp>("qp"),
                    optional<&Q::state>("state"),
                    optional<&Q::cur_state>("cur_state"),
                    optional<&Q::path_mig_state>("path_mig_state"),
                    optional<&Q::pkey_index>("pkey_index"),
                    optional<&Q::port>("port"),
                    optional<&Q::qkey>("qkey"),
                    optional<&Q::timeout>("timeout", "4.096 µs * 2^value (0: infinite)"),
                    optional<&Q::retry_cnt>("retry_cnt"),
                    optional<&Q::rnr_retry>("rnr_retry", "7: unlimited"),
                    optional<&Q::rq_psn>("rq_psn"),
                    optional<&Q::sq_psn>("sq_psn"),
                    optional<&Q::max_rd_atomic>("max_rd_atomic"),
                    optional<&Q::max_dest_rd_atomic>("max_dest_rd_atomic"),
                    optional<&Q::min_rnr_timer>("min_rnr_timer", "timer code, IBTA vol 1, 9.7.5.2.8"),
                    optional<&Q::dest_qp_num>("dest_qp_num"),
                    optional<&Q::rate_limit>("rate_limit", "kbit/s"),
                    optional<&Q::access>("access"),
                    optional<&Q::path_mtu>("path_mtu", "256, 512, 1024, 2048 or 4096"),
                    optional<&Q::sqd_async_notify>("sqd_async_notify", "request the event `sq_drained`"),
                    optional<&Q::ah_attr>("ah_attr"),
                    optional<&Q::alt_path>("alt_path"),
                    optional<&Q::cap>("cap")},
      .result = {required<&Result::state>("state", "current state in libibverbs")},
      .example = R"({"qp":9,"state":"init","pkey_index":0,"port":1,"access":["remote_write"]})",
      .answers = R"({"state":"init"})"};
  return it;
}

const Command& QueryQp::command() {
  constexpr std::string_view attribute = "attributes, as in `modify_qp`";
  static const Command& it = *new Command{
      .name = "query_qp",
      .does = "Returns the attributes of a queue pair.",
      .arguments = {required<&QueryQp::qp>("qp")},
      .result = {optional<&Result::qp_num>("qp_num"),
                 optional<&Result::type>("type"),
                 required<&Result::state>("state"),
                 optional<&Result::cur_state>("cur_state"),
                 optional<&Result::path_mtu>("path_mtu", attribute),
                 optional<&Result::path_mig_state>("path_mig_state"),
                 optional<&Result::qkey>("qkey", attribute),
                 optional<&Result::rq_psn>("rq_psn", same),
                 optional<&Result::sq_psn>("sq_psn", same),
                 optional<&Result::dest_qp_num>("dest_qp_num", same),
                 optional<&Result::access>("access"),
                 optional<&Result::cap>("cap"),
                 optional<&Result::ah_attr>("ah_attr"),
                 optional<&Result::alt_path>("alt_path"),
                 optional<&Result::pkey_index>("pkey_index", attribute),
                 optional<&Result::sq_draining>("sq_draining"),
                 optional<&Result::max_rd_atomic>("max_rd_atomic", attribute),
                 optional<&Result::max_dest_rd_atomic>("max_dest_rd_atomic", same),
                 optional<&Result::min_rnr_timer>("min_rnr_timer", same),
                 optional<&Result::port>("port", same),
                 optional<&Result::timeout>("timeout", same),
                 optional<&Result::retry_cnt>("retry_cnt", same),
                 optional<&Result::rnr_retry>("rnr_retry", same),
                 optional<&Result::rate_limit>("rate_limit", same),
                 optional<&Result::sq_sig_all>("sq_sig_all")},
      .example = R"({"qp":9})",
      .answers = R"({"qp_num":17,"type":"rc","state":"init","cur_state":"init","path_mtu":256,"rq_psn":0,"sq_psn":0})"};
  return it;
}

const Command& AttachMulticast::command() {
  static const Command& it =
      *new Command{.name = "attach_multicast",
                   .does = "Attaches a UD queue pair to a multicast group.",
                   .arguments = {required<&AttachMulticast::qp>("qp"), required<&AttachMulticast::gid>("gid", a_gid),
                                 optional<&AttachMulticast::lid>("lid")},
                   .example = R"({"qp":9,"gid":"ff0e::ffff:e000:1"})",
                   .answers = "{}"};
  return it;
}

const Command& DetachMulticast::command() {
  static const Command& it =
      *new Command{.name = "detach_multicast",
                   .does = "Detaches a queue pair from a multicast group.",
                   .arguments = {required<&DetachMulticast::qp>("qp"), required<&DetachMulticast::gid>("gid", a_gid),
                                 optional<&DetachMulticast::lid>("lid")},
                   .example = R"({"qp":9,"gid":"ff0e::ffff:e000:1"})",
                   .answers = "{}"};
  return it;
}

}  // namespace rdmawire::rpc
