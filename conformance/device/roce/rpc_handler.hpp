#pragma once
/// Agent commands of the RoCE device, in addition to VerbsRpcHandler.

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

class RpcHandler final : public VerbsRpcHandler {
 public:
  /// `device` must outlive it.
  RpcHandler(Device& device, Step step);

 private:
  // rpc_queue_pairs.cpp
  Result<Json> open_xrcd(ArgumentReader& arguments);
  Result<Json> create_srq(ArgumentReader& arguments);
  Result<Json> modify_srq(ArgumentReader& arguments);
  Result<Json> query_srq(ArgumentReader& arguments);
  Result<Json> create_ah(ArgumentReader& arguments);
  Result<Json> create_qp(ArgumentReader& arguments);
  Result<Json> modify_qp(ArgumentReader& arguments);
  Result<Json> query_qp(ArgumentReader& arguments);
  Result<Json> attach_multicast(ArgumentReader& arguments);
  Result<Json> detach_multicast(ArgumentReader& arguments);
  AddressVector read_path(ArgumentReader& arguments);

  Result<void> release_other(Kind kind, std::uint32_t handle) override;
  Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request) override;
  void read_more(ArgumentReader& arguments, std::uint32_t qp, SendRequest& into) override;
  Json own_port() override;
  Json description() override;
  Json counters_json() override;
  [[nodiscard]] Identity identity() const override { return {"ca", "ib", "0200:00ff:fe00:0001"}; }

  Device& device_;
};

}  // namespace rdmawire::device
