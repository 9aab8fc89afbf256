#include "replay/rpc/work_commands.hpp"

#include <algorithm>

namespace rdmawire::rpc {
namespace {

template <std::size_t n>
bool is_one_of(const std::string& name, const std::string_view (&names)[n]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

constexpr Limits list_of_sges{.most = most_sges};
constexpr Limits list_of_requests{.least = 1, .most = most_requests};

}  // namespace

const Structure& Sge::structure() {
  const Condition range = when<&Sge::is_range>("only with `mr`"), address = when<&Sge::is_address>("not with `mr`");
  static const Structure& it = *new Structure{
      "Sge",
      "A scatter/gather element: a range of a region, or any address with any key.",
      {optional<&Sge::mr>("mr"), optional<&Sge::offset>("offset", "start of the range", {.condition = range}),
       required<&Sge::addr>("addr", {}, {.condition = address}),
       optional<&Sge::length>("length", "bytes (default: to the end of the region; mandatory with `addr`)"),
       required<&Sge::lkey>("lkey", {}, {.condition = address})}};
  return it;
}

bool SendRequest::has_immediate() const { return is_one_of(opcode.name, {"send_imm", "write_imm"}); }
bool SendRequest::invalidates() const { return is_one_of(opcode.name, {"send_inv", "local_inv"}); }
bool SendRequest::is_remote() const {
  return is_one_of(opcode.name, {"write", "write_imm", "read", "compare_swap", "fetch_add", "flush", "atomic_write"});
}

const Structure& SendRequest::structure() {
  using R = SendRequest;
  const Limits remote{
      .condition = when<&R::is_remote>("only with `write`, `write_imm`, `read`, `compare_swap`, `fetch_add`, `flush`, "
                                       "`atomic_write`")},
      compare_swap{.condition = when<&R::is_compare_swap>("only with `compare_swap`")},
      compare_swap_mask{.condition = compare_swap.condition, .extension = true},
      fetch_add{.condition = when<&R::is_fetch_add>("only with `fetch_add`")},
      fetch_add_mask{.condition = fetch_add.condition, .extension = true},
      bind_mw{.condition = when<&R::is_bind_mw>("only with `bind_mw`")},
      key{.condition = when<&R::creates_key>("only with `bind_mw`")},
      reg_mr{.condition = when<&R::is_reg_mr>("only with `reg_mr`"), .extension = true},
      flush{.condition = when<&R::is_flush>("only with `flush`")};
  static const Structure& it = *new Structure{
      "SendRequest",
      "A request for a send queue. The opcode determines its members.",
      {required<&R::opcode>("opcode"),
       optional<&R::wr_id>("wr_id"),
       optional<&R::flags>("flags"),
       optional<&R::sges>("sges", "the flag `inline` requires the form with `mr`", list_of_sges),
       required<&R::imm>("imm", "32 bits in host byte order, 64 bits over iWARP (RFC 7306)",
                         {.condition = when<&R::has_immediate>("only with `send_imm`, `write_imm`")}),
       required<&R::invalidate_rkey>("invalidate_rkey", {},
                                     {.condition = when<&R::invalidates>("only with `send_inv`, `local_inv`")}),
       required<&R::remote_addr>("remote_addr", {}, remote),
       required<&R::rkey>("rkey", {}, remote),
       required<&R::compare>("compare", {}, compare_swap),
       required<&R::swap>("swap", {}, compare_swap),
       required<&R::add>("add", {}, fetch_add),
       optional<&R::compare_mask>("compare_mask", "RFC 7306, 5.1", compare_swap_mask),
       optional<&R::swap_mask>("swap_mask", "RFC 7306, 5.1", compare_swap_mask),
       optional<&R::add_mask>("add_mask", "RFC 7306, 5.1", fetch_add_mask),
       required<&R::mw>("mw", {}, bind_mw),
       optional<&R::mr>("mr", "unbinds the window if absent", key),
       required<&R::new_rkey>("new_rkey", "the key, of which the low byte is used", key),
       optional<&R::addr>("addr", "start of the range (default: that of the region)", key),
       optional<&R::length>("length", "bytes (default: those of the region; mandatory with `flush`)",
                            {.condition = when<&R::has_length>("only with `bind_mw`, `flush`")}),
       optional<&R::iova>("iova", "start address of the range for users of the key", reg_mr),
       optional<&R::access>("access", {}, key),
       required<&R::bytes>("bytes", {},
                           {.least = 8, .most = 8, .condition = when<&R::is_atomic_write>("only with `atomic_write`")}),
       optional<&R::placement>("placement", {}, flush),
       required<&R::selectivity>("selectivity", {}, flush),
       optional<&R::ah>("ah", "mandatory with UD"),
       optional<&R::remote_qpn>("remote_qpn", "mandatory with UD"),
       optional<&R::remote_qkey>("remote_qkey", "mandatory with UD"),
       optional<&R::remote_srqn>("remote_srqn", "mandatory with XRC")}};
  return it;
}

const Structure& ReceiveRequest::structure() {
  using R = ReceiveRequest;
  static const Structure& it =
      *new Structure{"ReceiveRequest",
                     "A request for a receive queue.",
                     {optional<&R::wr_id>("wr_id"), optional<&R::sges>("sges", {}, list_of_sges)}};
  return it;
}

const Command& PostSend::command() {
  static const Command& it = *new Command{
      .name = "post_send",
      .does =
          "Posts send requests. If a request is rejected, the preceding ones are posted: the message contains "
          "`requests[2]`. No request is posted if one is malformed.",
      .arguments = {required<&PostSend::qp>("qp"), required<&PostSend::requests>("requests", {}, list_of_requests)},
      .result = {required<&Result::posted>("posted", "posted requests")},
      .example =
          R"({"qp":9,"requests":[{"opcode":"write","wr_id":7,"flags":["signaled"],"sges":[{"mr":4,"length":64}],)"
          R"("remote_addr":140216412057600,"rkey":1137}]})",
      .answers = R"({"posted":1})"};
  return it;
}

const Command& PostRecv::command() {
  static const Command& it =
      *new Command{.name = "post_recv",
                   .does = "Posts receive requests to a queue pair or a shared receive queue.",
                   .arguments = {optional<&PostRecv::qp>("qp", "either `qp` or `srq` is mandatory"),
                                 optional<&PostRecv::srq>("srq", "either `qp` or `srq` is mandatory"),
                                 required<&PostRecv::requests>("requests", {}, list_of_requests)},
                   .result = {required<&Result::posted>("posted", "posted requests")},
                   .example = R"({"qp":9,"requests":[{"wr_id":1,"sges":[{"mr":4,"offset":1024,"length":64}]}]})",
                   .answers = R"({"posted":1})"};
  return it;
}

}  // namespace rdmawire::rpc
