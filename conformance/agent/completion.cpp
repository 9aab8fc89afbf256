/// create_channel, create_cq, notify, poll.

#include <endian.h>

#include <algorithm>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"

namespace rdmawire::agent {
namespace {

constexpr std::uint32_t most_completions = 4096;

Json completion_json(const ibv_wc& wc) {
  Json json = {{"wr_id", wc.wr_id},
               {"status", name_of(names::wc_status, wc.status)},
               {"status_number", static_cast<unsigned>(wc.status)},
               {"vendor_err", wc.vendor_err},
               {"qp_num", wc.qp_num}};
  // Other members are undefined for a failed completion.
  if (wc.status != IBV_WC_SUCCESS) return json;
  json["opcode"] = name_of(names::wc_opcode, wc.opcode);
  json["byte_len"] = wc.byte_len;
  json["flags"] = names_of_bits(names::wc_flags, wc.wc_flags);
  if ((wc.opcode & IBV_WC_RECV) != 0) {
    // Some drivers set these flags on send completions, where they are meaningless.
    if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) json["imm"] = be32toh(wc.imm_data);
    if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) json["invalidated_rkey"] = wc.invalidated_rkey;
    json["src_qp"] = wc.src_qp;
    json["pkey_index"] = wc.pkey_index;
    json["slid"] = wc.slid;
    json["sl"] = wc.sl;
    json["dlid_path_bits"] = wc.dlid_path_bits;
  }
  return json;
}

Result<Json> create_channel(Session& session, Arguments& arguments) {
  const auto* device = arguments.object<Device>("device");
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  errno = 0;
  ibv_comp_channel* channel = ibv_create_comp_channel(device->context());
  if (channel == nullptr) return tl::unexpected(verbs_failed("ibv_create_comp_channel", errno));
  return Json{{"channel", session.objects().add(std::make_unique<Channel>(session, channel), {device}).handle()}};
}

Result<Json> create_cq(Session& session, Arguments& arguments) {
  const auto* device = arguments.object<Device>("device");
  const auto cqe = arguments.number<std::uint32_t>("cqe", {0, INT32_MAX});
  const auto* channel = arguments.maybe_object<Channel>("channel");
  const auto vector = arguments.number_or<std::uint32_t>("comp_vector", 0, {0, INT32_MAX});
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (channel != nullptr && channel->verbs()->context != device->context()) {
    return fail(EINVAL, "channel: {} does not belong to device {}", channel->handle(), device->handle());
  }
  errno = 0;
  ibv_cq* cq = ibv_create_cq(device->context(), static_cast<int>(cqe), nullptr,
                             channel != nullptr ? channel->verbs() : nullptr, static_cast<int>(vector));
  if (cq == nullptr) return tl::unexpected(verbs_failed("ibv_create_cq", errno));
  const Cq& added = session.objects().add(std::make_unique<Cq>(cq), {device, channel});
  return Json{{"cq", added.handle()}, {"cqe", cq->cqe}};
}

Result<Json> resize_cq(Session&, Arguments& arguments) {
  const auto* cq = arguments.object<Cq>("cq");
  const auto cqe = arguments.number<std::uint32_t>("cqe", {0, INT32_MAX});
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (const int wrong = ibv_resize_cq(cq->verbs(), static_cast<int>(cqe)); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_resize_cq", wrong));
  }
  return Json{{"cqe", cq->verbs()->cqe}};
}

Result<Json> notify(Session&, Arguments& arguments) {
  const auto* cq = arguments.object<Cq>("cq");
  const bool solicited = arguments.boolean_or("solicited_only", false);
  if (auto wrong = arguments.wrong()) return tl::unexpected(*wrong);
  if (cq->verbs()->channel == nullptr) return fail(EINVAL, "cq: {} has no completion channel", cq->handle());
  if (const int wrong = ibv_req_notify_cq(cq->verbs(), solicited ? 1 : 0); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_req_notify_cq", wrong));
  }
  return Json::object();
}

void poll(Session& session, Arguments& arguments, Answer answer) {
  const auto* cq = arguments.object<Cq>("cq");
  const auto most = arguments.number_or<std::uint32_t>("max", 16, {1, most_completions});
  const auto least = arguments.number_or<std::uint32_t>("min", 1, {1, most});
  const auto timeout = arguments.number_or<std::uint32_t>("timeout_ms", 0, {0, 3'600'000});
  if (auto wrong = arguments.wrong()) return answer(tl::unexpected(*wrong));
  if (session.too_many_waits())
    return answer(fail(EAGAIN, "the limit of {} waiting commands is reached", Session::most_waits));

  auto found = std::make_shared<Json>(Json::array());
  const auto look = [&session, handle = cq->handle(), most, least, found, answer](bool last) {
    const auto queue = session.objects().get<Cq>(handle);
    if (!queue) {
      answer(fail(ECANCELED, "cq: {} was destroyed", handle));
      return true;
    }
    ibv_wc completions[16];
    while (found->size() < most) {
      const int room = static_cast<int>(std::min<std::size_t>(std::size(completions), most - found->size()));
      errno = 0;
      const int count = ibv_poll_cq((*queue)->verbs(), room, completions);
      if (count < 0) {
        answer(tl::unexpected(verbs_failed("ibv_poll_cq", errno)));
        return true;
      }
      for (int i = 0; i < count; ++i) found->push_back(completion_json(completions[i]));
      if (count < room) break;
    }
    if (found->size() < least && !last) return false;
    answer(Json{{"completions", std::move(*found)}});
    return true;
  };
  session.wait(timeout * Loop::millisecond, look);
}

}  // namespace

std::span<const Command> completion_commands() {
  static const Command all[] = {
      {"create_channel",
       "Creates a completion channel. Its events are reported as `{\"event\":\"completion\",\"cq\":6}`.",
       {{"device", "handle of an opened device"}},
       {{"channel", "handle"}},
       R"({"device":1})",
       R"({"channel":5})",
       &create_channel},
      {"create_cq",
       "Creates a completion queue.",
       {{"device", "handle of an opened device"},
        {"cqe", "number: minimum capacity"},
        {"channel", "optional handle of a completion channel"},
        {"comp_vector", "optional number (default 0)"}},
       {{"cq", "handle"}, {"cqe", "capacity"}},
       R"({"device":1,"cqe":16,"channel":5})",
       R"({"cq":6,"cqe":63})",
       &create_cq},
      {"resize_cq",
       "Changes the capacity of a completion queue.",
       {{"cq", "handle of a completion queue"}, {"cqe", "number: minimum capacity"}},
       {{"cqe", "capacity"}},
       R"({"cq":6,"cqe":100})",
       R"({"cqe":127})",
       &resize_cq},
      {"notify",
       "Requests one event for the next completion.",
       {{"cq", "handle of a completion queue with a channel"},
        {"solicited_only", "optional boolean: only for solicited completions and errors (default false)"}},
       {},
       R"({"cq":6})",
       "{}",
       &notify},
      {"poll",
       "Polls a completion queue and waits up to `timeout_ms`. Returns the completions until then, possibly an "
       "empty list. ECANCELED: the queue was destroyed.",
       {{"cq", "handle of a completion queue"},
        {"max", "optional number, 1 to 4096 (default 16)"},
        {"min", "optional number, 1 to `max`: completions to wait for (default 1)"},
        {"timeout_ms", "optional number, 0 to 3600000 (default 0)"}},
       {{"completions",
         "list of `wr_id`, `status`, `status_number`, `vendor_err`, `qp_num`. Successful ones also have `opcode`, "
         "`byte_len`, `flags` (`grh`, `imm`, `inv`, …), and received ones have `imm` or `invalidated_rkey` if "
         "present, "
         "`src_qp`, `pkey_index`, `slid`, `sl`, `dlid_path_bits`"}},
       R"({"cq":6,"timeout_ms":1000})",
       R"({"completions":[{"wr_id":7,"status":"success","status_number":0,"vendor_err":0,"qp_num":17,"opcode":"send","byte_len":64,"flags":[]}]})",
       &poll},
  };
  return all;
}

}  // namespace rdmawire::agent
