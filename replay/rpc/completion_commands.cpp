#include "replay/rpc/completion_commands.hpp"

namespace rdmawire::rpc {

const Command& CreateChannel::command() {
  static const Command& it = *new Command{
      .name = "create_channel",
      .does = "Creates a completion channel. Its events are reported as `{\"event\":\"completion\",\"cq\":6}`.",
      .arguments = {required<&CreateChannel::device>("device")},
      .result = {required<&Result::channel>("channel")},
      .example = R"({"device":1})",
      .answers = R"({"channel":5})"};
  return it;
}

const Command& CreateCq::command() {
  static const Command& it =
      *new Command{.name = "create_cq",
                   .does = "Creates a completion queue.",
                   .arguments = {required<&CreateCq::device>("device"),
                                 required<&CreateCq::cqe>("cqe", "minimum capacity", {.most = most_int}),
                                 optional<&CreateCq::channel>("channel"),
                                 optional<&CreateCq::comp_vector>("comp_vector", {}, {.most = most_int})},
                   .result = {required<&Result::cq>("cq"), required<&Result::cqe>("cqe", "capacity")},
                   .example = R"({"device":1,"cqe":16,"channel":5})",
                   .answers = R"({"cq":6,"cqe":63})"};
  return it;
}

const Command& ResizeCq::command() {
  static const Command& it =
      *new Command{.name = "resize_cq",
                   .does = "Changes the capacity of a completion queue.",
                   .arguments = {required<&ResizeCq::cq>("cq"),
                                 required<&ResizeCq::cqe>("cqe", "minimum capacity", {.most = most_int})},
                   .result = {required<&Result::cqe>("cqe", "capacity")},
                   .example = R"({"cq":6,"cqe":100})",
                   .answers = R"({"cqe":127})"};
  return it;
}

const Command& Notify::command() {
  static const Command& it = *new Command{
      .name = "notify",
      .does = "Requests one event for the next completion. The queue must have a completion channel.",
      .arguments = {required<&Notify::cq>("cq"),
                    optional<&Notify::solicited_only>("solicited_only", "only for solicited completions and errors")},
      .example = R"({"cq":6})",
      .answers = "{}"};
  return it;
}

const Structure& Completion::structure() {
  using C = Completion;
  static const Structure& it = *new Structure{
      "Completion",
      "A work completion. Failed ones have only the first five members.",
      {required<&C::wr_id>("wr_id"), required<&C::status>("status"),
       required<&C::status_number>("status_number", "`status` as a number of ibv_wc_status"),
       optional<&C::vendor_err>("vendor_err", "error code of the vendor"), required<&C::qp_num>("qp_num"),
       optional<&C::opcode>("opcode"), optional<&C::byte_len>("byte_len", "transferred bytes"),
       optional<&C::flags>("flags"), optional<&C::imm>("imm", "received immediate data, in host byte order"),
       optional<&C::imm64>("imm64", "immediate data over iWARP, RFC 7306, 6", {.extension = true}),
       optional<&C::invalidated_rkey>("invalidated_rkey", "key that the received SEND invalidated"),
       optional<&C::src_qp>("src_qp", "of a received message, as in ibv_wc"),
       optional<&C::pkey_index>("pkey_index", same), optional<&C::slid>("slid", same), optional<&C::sl>("sl", same),
       optional<&C::dlid_path_bits>("dlid_path_bits", same)}};
  return it;
}

const Command& Poll::command() {
  static const Command& it = *new Command{
      .name = "poll",
      .does =
          "Polls a completion queue and waits up to `timeout_ms`. Returns the completions until then, possibly an "
          "empty list. ECANCELED: the queue was destroyed.",
      .arguments = {required<&Poll::cq>("cq"),
                    optional<&Poll::max>("max", "completions to return", {.least = 1, .most = most_completions}),
                    optional<&Poll::min>("min", "completions to wait for, up to `max`",
                                         {.least = 1, .most = most_completions}),
                    optional<&Poll::timeout_ms>("timeout_ms", {}, {.most = most_timeout_ms})},
      .result = {required<&Result::completions>("completions")},
      .example = R"({"cq":6,"timeout_ms":1000})",
      .answers =
          R"({"completions":[{"wr_id":7,"status":"success","status_number":0,"vendor_err":0,"qp_num":17,"opcode":"send","byte_len":64,"flags":[]}]})"};
  return it;
}

}  // namespace rdmawire::rpc
