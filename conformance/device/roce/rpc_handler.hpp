#pragma once
/// The RoCE device as an agent's controller sees it: what it has beside VerbsFace.

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/verbs_rpc_handler.hpp"

namespace rdmawire::device {

class Face final : public VerbsFace {
 public:
  /// `device` must outlive it.
  Face(Device& device, Step step);

 private:
  // face_queue_pairs.cpp
  Result<Json> open_xrcd(Given& given);
  Result<Json> create_srq(Given& given);
  Result<Json> modify_srq(Given& given);
  Result<Json> query_srq(Given& given);
  Result<Json> create_ah(Given& given);
  Result<Json> create_qp(Given& given);
  Result<Json> modify_qp(Given& given);
  Result<Json> query_qp(Given& given);
  Result<Json> attach_multicast(Given& given);
  Result<Json> detach_multicast(Given& given);
  AddressVector read_path(Given& given);

  Result<void> release_other(Kind kind, std::uint32_t handle) override;
  Result<void> post_srq_recv(std::uint32_t srq, ReceiveRequest request) override;
  void read_more(Given& given, std::uint32_t qp, SendRequest& into) override;
  Json own_port() override;
  Json description() override;
  Json counters_json() override;
  [[nodiscard]] Identity identity() const override { return {"ca", "ib", "0200:00ff:fe00:0001"}; }

  Device& device_;
};

}  // namespace rdmawire::device
