#pragma once
/// The RoCE device as an agent's controller sees it: what it has beside VerbsRpcHandler.

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

class RpcHandler final : public VerbsRpcHandler {
 public:
  /// `device` must outlive it.
  RpcHandler(Device& device, Step step);

 private:
  // face_queue_pairs.cpp
  Result<Json> open_xrcd(ArgumentReader& given);
  Result<Json> create_srq(ArgumentReader& given);
  Result<Json> modify_srq(ArgumentReader& given);
  Result<Json> query_srq(ArgumentReader& given);
  Result<Json> create_ah(ArgumentReader& given);
  Result<Json> create_qp(ArgumentReader& given);
  Result<Json> modify_qp(ArgumentReader& given);
  Result<Json> query_qp(ArgumentReader& given);
  Result<Json> attach_multicast(ArgumentReader& given);
  Result<Json> detach_multicast(ArgumentReader& given);
  AddressVector read_path(ArgumentReader& given);

  Result<void> release_other(Kind kind, std::uint32_t handle) override;
  Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request) override;
  void read_more(ArgumentReader& given, std::uint32_t qp, SendRequest& into) override;
  Json own_port() override;
  Json description() override;
  Json counters_json() override;
  [[nodiscard]] Identity identity() const override { return {"ca", "ib", "0200:00ff:fe00:0001"}; }

  Device& device_;
};

}  // namespace rdmawire::device
