#include "replay/peer/queue_pair.hpp"

#include "replay/peer/handle_state.hpp"

namespace rdmawire::peer {

using nlohmann::json;

namespace {

/// The GID of an address. IPv4 addresses are mapped.
std::string gid_of(const std::string& address) {
  return address.find(':') == std::string::npos ? "::ffff:" + address : address;
}

json pieces(const std::vector<Piece>& sges) {
  json list = json::array();
  for (const Piece& piece : sges) {
    if (piece.region != 0) {
      list.push_back({{"mr", piece.region}, {"offset", piece.offset}, {"length", piece.length}});
    } else {
      list.push_back({{"addr", piece.addr}, {"length", piece.length}, {"lkey", piece.lkey}});
    }
  }
  return list;
}

json receive_requests(const std::vector<ReceiveRequest>& requests) {
  json list = json::array();
  for (const ReceiveRequest& request : requests)
    list.push_back({{"wr_id", request.wr_id}, {"sges", pieces(request.sges)}});
  return list;
}

json send_request(const SendRequest& request, bool datagram) {
  const std::string& opcode = request.opcode;
  json given = {{"opcode", opcode}, {"wr_id", request.wr_id}, {"flags", request.flags}, {"sges", pieces(request.sges)}};
  const bool atomic = opcode == "compare_swap" || opcode == "fetch_add";
  if (opcode.starts_with("write") || opcode == "read" || atomic || opcode == "flush" || opcode == "atomic_write") {
    given["remote_addr"] = request.remote_addr;
    given["rkey"] = request.rkey;
  }
  if (opcode.ends_with("_imm")) given["imm"] = request.imm;
  if (opcode.ends_with("_inv")) given["invalidate_rkey"] = request.invalidate_rkey;
  if (opcode == "compare_swap") given.update({{"compare", request.compare}, {"swap", request.swap}});
  if (opcode == "fetch_add") given["add"] = request.add;
  if (datagram) {
    if (request.ah != nullptr) given["ah"] = request.ah->handle();
    given.update({{"remote_qpn", request.remote_qpn}, {"remote_qkey", request.remote_qkey}});
  }
  if (request.remote_srqn) given["remote_srqn"] = *request.remote_srqn;
  if (request.more.is_object()) given.update(request.more);
  return given;
}

/// Calls of modify_qp. After the first failure, the others are skipped.
class Steps {
 public:
  explicit Steps(const QueuePair& qp) : qp_(&qp) {}
  Steps& then(json attributes) {
    if (result_) result_ = qp_->modify(std::move(attributes));
    return *this;
  }
  PeerResult<void> result() { return std::move(result_); }

 private:
  const QueuePair* qp_;
  PeerResult<void> result_;
};

}  // namespace

PeerResult<void> QueuePair::to_init(const Names& access) const {
  return modify({{"state", "init"}, {"pkey_index", 0}, {"port", port_}, {"access", access}});
}

PeerResult<void> QueuePair::connect(const Connection& to) const {
  const bool unreliable = type_ == "uc", sends_xrc = type_ == "xrc_send", receives_xrc = type_ == "xrc_recv";
  json grh = {{"dgid", gid_of(to.address)},
              {"sgid_index", to.sgid_index.value_or(sgid_index_)},
              {"hop_limit", to.hop_limit},
              {"traffic_class", to.traffic_class},
              {"flow_label", to.flow_label}};
  json path = {{"dlid", to.dlid}, {"sl", to.sl}, {"port", port_}};
  if (!to.address.empty()) path["grh"] = std::move(grh);
  json rtr = {{"state", "rtr"},
              {"ah_attr", std::move(path)},
              {"path_mtu", to.mtu},
              {"dest_qp_num", to.qp_num},
              {"rq_psn", to.psn}};
  if (!unreliable && !sends_xrc)
    rtr.update({{"max_dest_rd_atomic", to.max_dest_rd_atomic}, {"min_rnr_timer", to.min_rnr_timer}});
  json rts = {{"state", "rts"}, {"sq_psn", to.own_psn}};
  if (!unreliable) rts["timeout"] = to.timeout;
  if (!unreliable && !receives_xrc)
    rts.update({{"retry_cnt", to.retry_cnt}, {"rnr_retry", to.rnr_retry}, {"max_rd_atomic", to.max_rd_atomic}});
  return Steps(*this)
      .then({{"state", "init"}, {"pkey_index", 0}, {"port", port_}, {"access", to.access}})
      .then(std::move(rtr))
      .then(std::move(rts))
      .result();
}

PeerResult<void> QueuePair::ready(std::uint32_t qkey, std::uint32_t own_psn) const {
  return Steps(*this)
      .then({{"state", "init"}, {"pkey_index", 0}, {"port", port_}, {"qkey", qkey}})
      .then({{"state", "rtr"}})
      .then({{"state", "rts"}, {"sq_psn", own_psn}})
      .result();
}

PeerResult<void> QueuePair::modify(json attributes) const {
  return done(ask("modify_qp", "qp", std::move(attributes)));
}

PeerResult<std::string> QueuePair::state() const {
  const auto result = query();
  if (!result) return tl::unexpected(result.error());
  Reader reader(*result);
  std::string state = reader.text("state");
  if (reader.wrong()) return unreadable("query_qp", *reader.wrong());
  return state;
}

PeerResult<json> QueuePair::query() const { return ask("query_qp", "qp"); }

PeerResult<void> QueuePair::post_send(const std::vector<SendRequest>& requests) const {
  json list = json::array();
  for (const SendRequest& request : requests) list.push_back(send_request(request, type_ == "ud"));
  return done(ask("post_send", "qp", {{"requests", std::move(list)}}));
}

PeerResult<void> QueuePair::post_recv(const std::vector<ReceiveRequest>& requests) const {
  return done(ask("post_recv", "qp", {{"requests", receive_requests(requests)}}));
}

PeerResult<void> SharedReceiveQueue::post_recv(const std::vector<ReceiveRequest>& requests) const {
  return done(ask("post_recv", "srq", {{"requests", receive_requests(requests)}}));
}

PeerResult<QueuePair> ProtectionDomain::queue_pair(const QueuePairOptions& options) const {
  json arguments = {{"type", options.type},
                    {"max_send_wr", options.max_send_wr},
                    {"max_send_sge", options.max_send_sge},
                    {"max_inline_data", options.max_inline_data},
                    {"sq_sig_all", options.sq_sig_all}};
  std::vector<std::shared_ptr<Object>> uses = {object_of(*this)};
  const auto with = [&](const char* name, const Handle* other) {
    if (other == nullptr) return;
    arguments[name] = other->handle();
    uses.push_back(object_of(*other));
  };
  with("send_cq", options.send_cq);
  if (options.type != "xrc_send") {
    with("recv_cq", options.recv_cq != nullptr ? options.recv_cq : options.send_cq);
    with("srq", options.srq);
    if (options.srq == nullptr)
      arguments.update({{"max_recv_wr", options.max_recv_wr}, {"max_recv_sge", options.max_recv_sge}});
  }
  if (!options.send_ops.empty()) arguments["send_ops"] = options.send_ops;
  const auto result = ask("create_qp", "pd", std::move(arguments));
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "create_qp", *result, "qp", std::move(uses));
  if (!object) return tl::unexpected(object.error());
  QueuePair qp(std::move(*object));
  Reader reader(*result);
  qp.qp_num_ = reader.number<std::uint32_t>("qp_num");
  if (reader.wrong()) return unreadable("create_qp", *reader.wrong());
  qp.type_ = options.type;
  qp.sgid_index_ = sgid_index_;
  qp.port_ = port_;
  return qp;
}

PeerResult<QueuePair> ProtectionDomain::receiving_xrc(const XrcDomain& domain) const {
  const auto result = session() ? session()->call("create_qp", {{"type", "xrc_recv"}, {"xrcd", domain.handle()}})
                                : ask("create_qp", "pd");
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "create_qp", *result, "qp", {object_of(domain)});
  if (!object) return tl::unexpected(object.error());
  QueuePair qp(std::move(*object));
  Reader reader(*result);
  qp.qp_num_ = reader.number<std::uint32_t>("qp_num");
  if (reader.wrong()) return unreadable("create_qp", *reader.wrong());
  qp.type_ = "xrc_recv";
  qp.sgid_index_ = sgid_index_;
  qp.port_ = port_;
  return qp;
}

PeerResult<SharedReceiveQueue> ProtectionDomain::shared_receive_queue(const SharedReceiveQueueOptions& options) const {
  json arguments = {{"max_wr", options.max_wr}, {"max_sge", options.max_sge}, {"limit", options.limit}};
  std::vector<std::shared_ptr<Object>> uses = {object_of(*this)};
  if (options.xrcd != nullptr) {
    arguments.update({{"type", "xrc"}, {"xrcd", options.xrcd->handle()}});
    uses.push_back(object_of(*options.xrcd));
  }
  if (options.cq != nullptr) {
    arguments["cq"] = options.cq->handle();
    uses.push_back(object_of(*options.cq));
  }
  const auto result = ask("create_srq", "pd", std::move(arguments));
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "create_srq", *result, "srq", std::move(uses));
  if (!object) return tl::unexpected(object.error());
  SharedReceiveQueue srq(std::move(*object));
  Reader reader(*result);
  srq.number_ = reader.maybe_number<std::uint32_t>("srq_num").value_or(0);
  if (reader.wrong()) return unreadable("create_srq", *reader.wrong());
  return srq;
}

PeerResult<AddressHandle> ProtectionDomain::address_handle(const std::string& address,
                                                           std::optional<std::uint32_t> sgid_index) const {
  return address_handle_of(
      json{{"port", port_}, {"grh", {{"dgid", gid_of(address)}, {"sgid_index", sgid_index.value_or(sgid_index_)}}}});
}

PeerResult<AddressHandle> ProtectionDomain::address_handle_of(const json& attributes) const {
  const auto result = ask("create_ah", "pd", attributes);
  if (!result) return tl::unexpected(result.error());
  auto object = take_in(session(), "create_ah", *result, "ah", {object_of(*this)});
  if (!object) return tl::unexpected(object.error());
  return AddressHandle(std::move(*object));
}

}  // namespace rdmawire::peer
