#pragma once
/// Handles the agent commands of the iWARP device, in addition to VerbsRpcHandler. See
/// docs/reference/agent-protocol.md.

#include "conformance/device/iwarp/adapter.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"
#include "replay/rpc/queue_pair_commands.hpp"

namespace rdmawire::endpoint {

class RpcHandler final : public device::VerbsRpcHandler {
 public:
  /// `adapter` must outlive the handler.
  RpcHandler(Adapter& adapter, Step step);

 private:
  device::Result<rpc::CreateQp::Result> create_qp(const rpc::CreateQp& request);
  device::Result<rpc::ModifyQp::Result> modify_qp(const rpc::ModifyQp& request);
  device::Result<rpc::QueryQp::Result> query_qp(const rpc::QueryQp& request);

  device::Result<void> release_other(Kind kind, std::uint32_t handle) override;
  device::Result<void> post_srq_recv(std::uint32_t srq, device::ReceiveRequest request) override;
  device::Result<void> read_more(const rpc::SendRequest& request, std::uint32_t qp, device::SendRequest& into) override;
  [[nodiscard]] std::uint64_t most_immediate() const override { return ~0ULL; }
  void describe_port(rpc::PortAttributes& port) override;
  void describe_device(rpc::Describe::Result& description) override;
  std::map<std::string, std::uint64_t> counters() override;
  [[nodiscard]] Identity identity() const override { return {"rnic", "iwarp", "0200:0000:0001:0000"}; }

  Adapter& adapter_;
};

}  // namespace rdmawire::endpoint
