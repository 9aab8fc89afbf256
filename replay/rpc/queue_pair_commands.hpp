#pragma once
/// Commands about queue pairs, shared receive queues and address handles.

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

/// Route of packets with a GRH, and of all packets on Ethernet.
struct GlobalRoute {
  std::string dgid = {};
  std::uint8_t sgid_index = 0;
  std::uint8_t hop_limit = 64, traffic_class = 0;
  std::uint32_t flow_label = 0;
  static const Structure& structure();
};

struct AddressVector {
  std::uint16_t dlid = 0;
  std::uint8_t sl = 0, src_path_bits = 0, static_rate = 0;
  std::optional<std::uint8_t> port = {};
  std::optional<GlobalRoute> grh = {};
  static const Structure& structure();
};

/// Capacity of a queue pair.
struct Capacity {
  std::uint32_t max_send_wr = 0, max_recv_wr = 0, max_send_sge = 0, max_recv_sge = 0, max_inline_data = 0;
  static const Structure& structure();
};

struct AlternatePath {
  AddressVector ah_attr = {};
  std::uint16_t pkey_index = 0;
  std::optional<std::uint8_t> port = {};
  std::uint8_t timeout = 0;
  static const Structure& structure();
};

struct CreateSrq {
  PdHandle pd = {};
  std::uint32_t max_wr = 0, max_sge = 1, limit = 0;
  Choice<names::srq_type> type = "basic";
  XrcdHandle xrcd = {};
  CqHandle cq = {};
  [[nodiscard]] bool is_xrc() const { return type.name == "xrc"; }
  struct Result {
    SrqHandle srq = {};
    std::optional<std::uint32_t> max_wr = {}, max_sge = {};
    std::optional<std::uint32_t> srq_num = {};
  };
  static const Command& command();
};

struct ModifySrq {
  SrqHandle srq = {};
  std::optional<std::uint32_t> max_wr = {}, limit = {};
  using Result = Nothing;
  static const Command& command();
};

struct QuerySrq {
  SrqHandle srq = {};
  struct Result {
    std::uint32_t max_wr = 0, max_sge = 0, limit = 0;
  };
  static const Command& command();
};

struct CreateAh : AddressVector {
  PdHandle pd = {};
  struct Result {
    AhHandle ah = {};
  };
  static const Command& command();
};

struct CreateQp {
  Choice<names::qp_type> type = "rc";
  PdHandle pd = {};
  XrcdHandle xrcd = {};
  CqHandle send_cq = {}, recv_cq = {};
  std::optional<SrqHandle> srq = {};
  std::optional<std::uint32_t> max_send_wr = {}, max_recv_wr = {}, max_send_sge = {}, max_recv_sge = {};
  std::uint32_t max_inline_data = 0;
  bool sq_sig_all = false;
  std::optional<Flags<names::create_flags>> create_flags = {};
  std::optional<Flags<names::send_ops>> send_ops = {};

  [[nodiscard]] bool is_xrc_target() const { return type.name == "xrc_recv"; }
  [[nodiscard]] bool is_initiator() const { return !is_xrc_target(); }
  /// Whether it receives from a CQ of its own.
  [[nodiscard]] bool is_not_xrc() const { return !is_xrc_target() && type.name != "xrc_send"; }
  /// The capacity with its defaults.
  [[nodiscard]] Capacity capacity() const;

  struct Result {
    QpHandle qp = {};
    std::uint32_t qp_num = 0;
    std::optional<std::uint32_t> max_send_wr = {}, max_recv_wr = {}, max_send_sge = {}, max_recv_sge = {},
                                 max_inline_data = {};
    Result() = default;
    Result(QpHandle handle, std::uint32_t number, const Capacity& granted);
  };
  static const Command& command();
};

struct ModifyQp {
  QpHandle qp = {};
  std::optional<Choice<names::qp_state>> state = {}, cur_state = {};
  std::optional<Choice<names::mig_state>> path_mig_state = {};
  std::optional<std::uint16_t> pkey_index = {};
  std::optional<std::uint8_t> port = {};
  std::optional<std::uint32_t> qkey = {};
  std::optional<std::uint8_t> timeout = {}, retry_cnt = {}, rnr_retry = {};
  std::optional<std::uint32_t> rq_psn = {}, sq_psn = {};
  std::optional<std::uint8_t> max_rd_atomic = {}, max_dest_rd_atomic = {}, min_rnr_timer = {};
  std::optional<std::uint32_t> dest_qp_num = {}, rate_limit = {};
  std::optional<Flags<names::access>> access = {};
  std::optional<std::uint32_t> path_mtu = {};
  std::optional<bool> sqd_async_notify = {};
  std::optional<AddressVector> ah_attr = {};
  std::optional<AlternatePath> alt_path = {};
  std::optional<Capacity> cap = {};
  struct Result {
    Choice<names::qp_state> state = {};
  };
  static const Command& command();
};

struct QueryQp {
  QpHandle qp = {};
  struct Result {
    std::optional<std::uint32_t> qp_num = {};
    std::optional<Choice<names::qp_type>> type = {};
    Choice<names::qp_state> state = {};
    std::optional<Choice<names::qp_state>> cur_state = {};
    std::optional<std::uint32_t> path_mtu = {};
    std::optional<Choice<names::mig_state>> path_mig_state = {};
    std::optional<std::uint32_t> qkey = {}, rq_psn = {}, sq_psn = {}, dest_qp_num = {};
    std::optional<Flags<names::access>> access = {};
    std::optional<Capacity> cap = {};
    std::optional<AddressVector> ah_attr = {};
    std::optional<AlternatePath> alt_path = {};
    std::optional<std::uint16_t> pkey_index = {};
    std::optional<bool> sq_draining = {};
    std::optional<std::uint16_t> max_rd_atomic = {}, max_dest_rd_atomic = {};
    std::optional<std::uint8_t> min_rnr_timer = {}, port = {}, timeout = {}, retry_cnt = {}, rnr_retry = {};
    std::optional<std::uint32_t> rate_limit = {};
    std::optional<bool> sq_sig_all = {};
  };
  static const Command& command();
};

struct AttachMulticast {
  QpHandle qp = {};
  std::string gid = {};
  std::uint16_t lid = 0;
  using Result = Nothing;
  static const Command& command();
};

struct DetachMulticast {
  QpHandle qp = {};
  std::string gid = {};
  std::uint16_t lid = 0;
  using Result = Nothing;
  static const Command& command();
};

}  // namespace rdmawire::rpc
