/// create_channel, create_cq, notify, poll.

#include <endian.h>

#include <algorithm>

#include "conformance/agent/commands.hpp"
#include "conformance/agent/kinds.hpp"
#include "replay/rpc/completion_commands.hpp"
#include "replay/rpc/range.hpp"

namespace rdmawire::agent {
namespace {

rpc::Completion completion_of(const ibv_wc& wc) {
  rpc::Completion report;
  report.wr_id = wc.wr_id;
  report.status = decltype(report.status)::of(wc.status);
  report.status_number = wc.status;
  report.vendor_err = wc.vendor_err;
  report.qp_num = wc.qp_num;
  // If the status is an error, verbs does not define the following members.
  if (wc.status != IBV_WC_SUCCESS) return report;
  report.opcode = rpc::Choice<names::wc_opcode>::of(wc.opcode);
  report.byte_len = wc.byte_len;
  report.flags = rpc::Flags<names::wc_flags>::of(wc.wc_flags);
  if ((wc.opcode & IBV_WC_RECV) == 0) return report;
  // Read these flags only for receive completions: some drivers also set them for send completions.
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) report.imm = be32toh(wc.imm_data);
  if ((wc.wc_flags & IBV_WC_WITH_INV) != 0) report.invalidated_rkey = wc.invalidated_rkey;
  report.src_qp = wc.src_qp;
  report.pkey_index = wc.pkey_index;
  report.slid = wc.slid;
  report.sl = wc.sl;
  report.dlid_path_bits = wc.dlid_path_bits;
  return report;
}

Result<rpc::CreateChannel::Result> create_channel(Session& session, const rpc::CreateChannel& request) {
  const Device& device = session.objects().of<Device>(request.device);
  errno = 0;
  ibv_comp_channel* channel = ibv_create_comp_channel(device.context());
  if (channel == nullptr) return tl::unexpected(verbs_failed("ibv_create_comp_channel", errno));
  return rpc::CreateChannel::Result{
      {session.objects().add(std::make_unique<Channel>(session, channel), {&device}).handle()}};
}

Result<rpc::CreateCq::Result> create_cq(Session& session, const rpc::CreateCq& request) {
  const Device& device = session.objects().of<Device>(request.device);
  const auto* channel = session.objects().of<Channel>(request.channel);
  if (channel != nullptr && channel->verbs()->context != device.context()) {
    return fail(EINVAL, "channel: {} does not belong to device {}", channel->handle(), device.handle());
  }
  errno = 0;
  ibv_cq* cq = ibv_create_cq(device.context(), static_cast<int>(request.cqe), nullptr,
                             channel != nullptr ? channel->verbs() : nullptr, static_cast<int>(request.comp_vector));
  if (cq == nullptr) return tl::unexpected(verbs_failed("ibv_create_cq", errno));
  const Cq& added = session.objects().add(std::make_unique<Cq>(cq), {&device, channel});
  return rpc::CreateCq::Result{{added.handle()}, static_cast<std::uint32_t>(cq->cqe)};
}

Result<rpc::ResizeCq::Result> resize_cq(Session& session, const rpc::ResizeCq& request) {
  const Cq& cq = session.objects().of<Cq>(request.cq);
  if (const int wrong = ibv_resize_cq(cq.verbs(), static_cast<int>(request.cqe)); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_resize_cq", wrong));
  }
  return rpc::ResizeCq::Result{static_cast<std::uint32_t>(cq.verbs()->cqe)};
}

Result<rpc::Nothing> notify(Session& session, const rpc::Notify& request) {
  const Cq& cq = session.objects().of<Cq>(request.cq);
  if (cq.verbs()->channel == nullptr) return fail(EINVAL, "cq: {} has no completion channel", cq.handle());
  if (const int wrong = ibv_req_notify_cq(cq.verbs(), request.solicited_only ? 1 : 0); wrong != 0) {
    return tl::unexpected(verbs_failed("ibv_req_notify_cq", wrong));
  }
  return rpc::Nothing();
}

void poll(Session& session, const rpc::Poll& request, const AnswerTo<rpc::Poll>& answer) {
  if (request.min > request.max) return answer(tl::unexpected(rpc::out_of_range("min", 1, request.max, request.min)));
  if (session.too_many_waits())
    return answer(fail(EAGAIN, "the limit of {} waiting commands is reached", Session::most_waits));

  auto found = std::make_shared<rpc::Poll::Result>();
  const auto look = [&session, request, found, answer](bool last) {
    const auto queue = session.objects().get<Cq>(request.cq.number);
    if (!queue) {
      answer(fail(ECANCELED, "cq: {} was destroyed", request.cq.number));
      return true;
    }
    auto& list = found->completions;
    ibv_wc completions[16];
    while (list.size() < request.max) {
      const int room = static_cast<int>(std::min<std::size_t>(std::size(completions), request.max - list.size()));
      errno = 0;
      const int count = ibv_poll_cq((*queue)->verbs(), room, completions);
      if (count < 0) {
        answer(tl::unexpected(verbs_failed("ibv_poll_cq", errno)));
        return true;
      }
      for (int i = 0; i < count; ++i) list.push_back(completion_of(completions[i]));
      if (count < room) break;
    }
    if (list.size() < request.min && !last) return false;
    answer(*found);
    return true;
  };
  session.wait(request.timeout_ms * Loop::millisecond, look);
}

}  // namespace

std::vector<Handler> completion_handlers() {
  return {handler(create_channel), handler(create_cq), handler(resize_cq), handler(notify), handler(poll)};
}

}  // namespace rdmawire::agent
