#pragma once
/// Handles the agent commands of the RoCE device, in addition to VerbsRpcHandler.

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"
#include "replay/rpc/queue_pair_commands.hpp"

namespace rdmawire::device {

class RpcHandler final : public VerbsRpcHandler {
 public:
  /// `device` must outlive the handler.
  RpcHandler(Device& device, Step step);

 private:
  // rpc_queue_pairs.cpp
  Result<rpc::OpenXrcd::Result> open_xrcd(const rpc::OpenXrcd& request);
  Result<rpc::CreateSrq::Result> create_srq(const rpc::CreateSrq& request);
  Result<rpc::Nothing> modify_srq(const rpc::ModifySrq& request);
  Result<rpc::QuerySrq::Result> query_srq(const rpc::QuerySrq& request);
  Result<rpc::CreateAh::Result> create_ah(const rpc::CreateAh& request);
  Result<rpc::CreateQp::Result> create_qp(const rpc::CreateQp& request);
  Result<rpc::ModifyQp::Result> modify_qp(const rpc::ModifyQp& request);
  Result<rpc::QueryQp::Result> query_qp(const rpc::QueryQp& request);
  Result<rpc::Nothing> attach_multicast(const rpc::AttachMulticast& request);
  Result<rpc::Nothing> detach_multicast(const rpc::DetachMulticast& request);

  Result<void> release_other(Kind kind, std::uint32_t handle) override;
  Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request) override;
  Result<void> read_more(const rpc::SendRequest& request, std::uint32_t qp, SendRequest& into) override;
  void describe_port(rpc::PortAttributes& port) override;
  void describe_device(rpc::Describe::Result& description) override;
  std::map<std::string, std::uint64_t> counters() override;
  [[nodiscard]] Identity identity() const override { return {"ca", "ib", "0200:00ff:fe00:0001"}; }

  Device& device_;
};

}  // namespace rdmawire::device
