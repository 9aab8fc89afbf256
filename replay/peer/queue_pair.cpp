#include "replay/peer/queue_pair.hpp"

#include <functional>

#include "replay/peer/handle_state.hpp"
#include "replay/rpc/queue_pair_commands.hpp"
#include "replay/rpc/work_commands.hpp"

namespace rdmawire::peer {

using nlohmann::json;

namespace {

/// The GID of an address. IPv4 addresses are mapped.
std::string gid_of(const std::string& address) {
  return address.find(':') == std::string::npos ? "::ffff:" + address : address;
}

std::vector<rpc::Sge> sges_of(const std::vector<Piece>& pieces) {
  std::vector<rpc::Sge> sges;
  for (const Piece& piece : pieces) {
    rpc::Sge& sge = sges.emplace_back(rpc::Sge{.offset = piece.offset, .length = piece.length});
    if (piece.region != 0) {
      sge.mr = {piece.region};
    } else {
      sge.addr = piece.addr;
      sge.lkey = piece.lkey;
    }
  }
  return sges;
}

std::vector<rpc::ReceiveRequest> receive_requests(const std::vector<ReceiveRequest>& requests) {
  std::vector<rpc::ReceiveRequest> list;
  for (const ReceiveRequest& request : requests) list.push_back({request.wr_id, sges_of(request.sges)});
  return list;
}

rpc::SendRequest send_request(const SendRequest& request, bool datagram) {
  rpc::SendRequest message{.opcode = request.opcode,
                           .wr_id = request.wr_id,
                           .flags = request.flags,
                           .sges = sges_of(request.sges),
                           .imm = request.imm,
                           .invalidate_rkey = request.invalidate_rkey,
                           .remote_addr = request.remote_addr,
                           .rkey = request.rkey,
                           .compare = request.compare,
                           .swap = request.swap,
                           .add = request.add,
                           .remote_srqn = request.remote_srqn};
  if (datagram) {
    if (request.ah != nullptr) message.ah = {request.ah->handle()};
    message.remote_qpn = request.remote_qpn;
    message.remote_qkey = request.remote_qkey;
  }
  return message;
}

/// Changes of a QP, until one fails.
class Steps {
 public:
  using Modify = std::function<PeerResult<void>(rpc::ModifyQp)>;
  explicit Steps(Modify modify) : modify_(std::move(modify)) {}
  Steps& then(rpc::ModifyQp attributes) {
    if (result_) result_ = modify_(std::move(attributes));
    return *this;
  }
  PeerResult<void> result() { return std::move(result_); }

 private:
  Modify modify_;
  PeerResult<void> result_;
};

}  // namespace

PeerResult<void> QueuePair::change(rpc::ModifyQp attributes) const {
  attributes.qp = {handle()};
  return done(request(attributes));
}

PeerResult<void> QueuePair::to_init(const Names& access) const {
  return change({.state = "init", .pkey_index = 0, .port = port_, .access = access});
}

PeerResult<void> QueuePair::connect(const Connection& to) const {
  const bool unreliable = type_ == "uc", sends_xrc = type_ == "xrc_send", receives_xrc = type_ == "xrc_recv";
  rpc::AddressVector path{.dlid = to.dlid, .sl = to.sl, .port = port_};
  if (!to.address.empty()) {
    path.grh = {.dgid = gid_of(to.address),
                .sgid_index = static_cast<std::uint8_t>(to.sgid_index.value_or(sgid_index_)),
                .hop_limit = to.hop_limit,
                .traffic_class = to.traffic_class,
                .flow_label = to.flow_label};
  }
  rpc::ModifyQp rtr{
      .state = "rtr", .rq_psn = to.psn, .dest_qp_num = to.qp_num, .path_mtu = to.mtu, .ah_attr = std::move(path)};
  if (!unreliable && !sends_xrc) {
    rtr.max_dest_rd_atomic = to.max_dest_rd_atomic;
    rtr.min_rnr_timer = to.min_rnr_timer;
  }
  rpc::ModifyQp rts{.state = "rts", .sq_psn = to.own_psn};
  if (!unreliable) rts.timeout = to.timeout;
  if (!unreliable && !receives_xrc) {
    rts.retry_cnt = to.retry_cnt;
    rts.rnr_retry = to.rnr_retry;
    rts.max_rd_atomic = to.max_rd_atomic;
  }
  return Steps([this](rpc::ModifyQp step) { return change(std::move(step)); })
      .then({.state = "init", .pkey_index = 0, .port = port_, .access = to.access})
      .then(std::move(rtr))
      .then(std::move(rts))
      .result();
}

PeerResult<void> QueuePair::ready(std::uint32_t qkey, std::uint32_t own_psn) const {
  return Steps([this](rpc::ModifyQp step) { return change(std::move(step)); })
      .then({.state = "init", .pkey_index = 0, .port = port_, .qkey = qkey})
      .then({.state = "rtr"})
      .then({.state = "rts", .sq_psn = own_psn})
      .result();
}

PeerResult<void> QueuePair::modify(json attributes) const {
  if (attributes.is_null()) attributes = json::object();
  attributes["qp"] = handle();
  return done(call("modify_qp", attributes));
}

PeerResult<std::string> QueuePair::state() const {
  const auto result = request(rpc::QueryQp{.qp = {handle()}});
  if (!result) return tl::unexpected(result.error());
  return result->state.name;
}

PeerResult<json> QueuePair::query() const { return call("query_qp", {{"qp", handle()}}); }

PeerResult<void> QueuePair::post_send(const std::vector<SendRequest>& requests) const {
  rpc::PostSend message{.qp = {handle()}};
  for (const SendRequest& request : requests) message.requests.push_back(send_request(request, type_ == "ud"));
  json arguments = rpc::arguments_of(message);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (requests[i].more.is_object()) arguments["requests"][i].update(requests[i].more);
  return done(call("post_send", arguments));
}

PeerResult<void> QueuePair::post_recv(const std::vector<ReceiveRequest>& requests) const {
  return done(request(rpc::PostRecv{.qp = {{handle()}}, .requests = receive_requests(requests)}));
}

PeerResult<void> SharedReceiveQueue::post_recv(const std::vector<ReceiveRequest>& requests) const {
  return done(request(rpc::PostRecv{.srq = {{handle()}}, .requests = receive_requests(requests)}));
}

PeerResult<QueuePair> ProtectionDomain::create_queue_pair(const rpc::CreateQp& message,
                                                          std::vector<std::shared_ptr<Object>> uses) const {
  const auto made = request(message);
  if (!made) return tl::unexpected(made.error());
  QueuePair qp(adopt(session(), made->qp.number, std::move(uses)));
  qp.qp_num_ = made->qp_num;
  qp.type_ = message.type.name;
  qp.sgid_index_ = sgid_index_;
  qp.port_ = port_;
  return qp;
}

PeerResult<QueuePair> ProtectionDomain::queue_pair(const QueuePairOptions& options) const {
  rpc::CreateQp message{.type = options.type,
                        .pd = {handle()},
                        .max_send_wr = options.max_send_wr,
                        .max_send_sge = options.max_send_sge,
                        .max_inline_data = options.max_inline_data,
                        .sq_sig_all = options.sq_sig_all};
  std::vector<std::shared_ptr<Object>> uses = {object_of(*this)};
  const auto handle_of = [&uses](const Handle& other) {
    uses.push_back(object_of(other));
    return other.handle();
  };
  if (options.send_cq != nullptr) message.send_cq = {handle_of(*options.send_cq)};
  if (options.type != "xrc_send") {
    if (const auto* cq = options.recv_cq != nullptr ? options.recv_cq : options.send_cq)
      message.recv_cq = {handle_of(*cq)};
    if (options.srq != nullptr) {
      message.srq = {handle_of(*options.srq)};
    } else {
      message.max_recv_wr = options.max_recv_wr;
      message.max_recv_sge = options.max_recv_sge;
    }
  }
  if (!options.send_ops.empty()) message.send_ops = options.send_ops;
  return create_queue_pair(message, std::move(uses));
}

PeerResult<QueuePair> ProtectionDomain::receiving_xrc(const XrcDomain& domain) const {
  return create_queue_pair({.type = "xrc_recv", .xrcd = {domain.handle()}}, {object_of(domain)});
}

PeerResult<SharedReceiveQueue> ProtectionDomain::shared_receive_queue(const SharedReceiveQueueOptions& options) const {
  rpc::CreateSrq message{
      .pd = {handle()}, .max_wr = options.max_wr, .max_sge = options.max_sge, .limit = options.limit};
  std::vector<std::shared_ptr<Object>> uses = {object_of(*this)};
  if (options.xrcd != nullptr) {
    message.type = "xrc";
    message.xrcd = {options.xrcd->handle()};
    uses.push_back(object_of(*options.xrcd));
  }
  if (options.cq != nullptr) {
    message.cq = {options.cq->handle()};
    uses.push_back(object_of(*options.cq));
  }
  const auto made = request(message);
  if (!made) return tl::unexpected(made.error());
  SharedReceiveQueue srq(adopt(session(), made->srq.number, std::move(uses)));
  srq.number_ = made->srq_num.value_or(0);
  return srq;
}

PeerResult<AddressHandle> ProtectionDomain::address_handle(const std::string& address,
                                                           std::optional<std::uint32_t> sgid_index) const {
  return address_handle_of(
      {.port = port_,
       .grh = rpc::GlobalRoute{.dgid = gid_of(address),
                               .sgid_index = static_cast<std::uint8_t>(sgid_index.value_or(sgid_index_))}});
}

PeerResult<AddressHandle> ProtectionDomain::address_handle_of(const rpc::AddressVector& address) const {
  rpc::CreateAh message{address};
  message.pd = {handle()};
  const auto made = request(message);
  if (!made) return tl::unexpected(made.error());
  return AddressHandle(adopt(session(), made->ah.number, {object_of(*this)}));
}

}  // namespace rdmawire::peer
