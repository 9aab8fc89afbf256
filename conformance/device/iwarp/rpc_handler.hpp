#pragma once
/// Agent commands of the iWARP device, in addition to VerbsRpcHandler. docs/reference/agent-protocol.md.
///
/// Extensions of the agent protocol:
/// - `imm` has 64 bits, reported as `imm64` of completions.
/// - compare_swap has `swap_mask` and `compare_mask`, fetch_add has `add_mask` (RFC 7306, 5.1).
/// - The event disconnected has `stream_error` with the layer, type and code of a Terminate.

#include "conformance/device/iwarp/adapter.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::endpoint {

class RpcHandler final : public device::VerbsRpcHandler {
 public:
  /// `adapter` must outlive this.
  RpcHandler(Adapter& adapter, Step step);

 private:
  using ArgumentReader = device::ArgumentReader;
  using Json = device::Json;

  device::Result<Json> create_qp(ArgumentReader& arguments);
  device::Result<Json> modify_qp(ArgumentReader& arguments);
  device::Result<Json> query_qp(ArgumentReader& arguments);

  device::Result<void> release_other(Kind kind, std::uint32_t handle) override;
  device::Result<void> post_srq_recv(std::uint32_t srq, device::ReceiveRequest request) override;
  void read_more(ArgumentReader& arguments, std::uint32_t qp, device::SendRequest& into) override;
  [[nodiscard]] std::uint64_t most_immediate() const override { return ~0ULL; }
  Json own_port() override;
  Json description() override;
  Json counters_json() override;
  [[nodiscard]] Identity identity() const override { return {"rnic", "iwarp", "0200:0000:0001:0000"}; }

  Adapter& adapter_;
};

}  // namespace rdmawire::endpoint
