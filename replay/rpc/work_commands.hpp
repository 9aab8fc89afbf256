#pragma once
/// Commands about work requests.

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

inline constexpr std::uint64_t most_requests = 4096, most_sges = 256;

/// A scatter/gather element: a range of a region, or any address with any key.
struct Sge {
  std::optional<MrHandle> mr = {};
  std::uint64_t offset = 0;
  std::uint64_t addr = 0;
  std::optional<std::uint32_t> length = {};
  std::uint32_t lkey = 0;
  [[nodiscard]] bool is_range() const { return mr.has_value(); }
  [[nodiscard]] bool is_address() const { return !mr; }
  static const Structure& structure();
};

struct SendRequest {
  Choice<names::opcode> opcode = "send";
  std::uint64_t wr_id = 0;
  Flags<names::send_flags> flags = {};
  std::vector<Sge> sges = {};
  std::uint64_t imm = 0;
  std::uint32_t invalidate_rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare = 0, swap = 0, add = 0;
  std::optional<std::uint64_t> compare_mask = {}, swap_mask = {}, add_mask = {};
  MwHandle mw = {};
  std::optional<MrHandle> mr = {};
  std::uint32_t new_rkey = 0;
  std::optional<std::uint64_t> addr = {}, length = {}, iova = {};
  Flags<names::access> access = {};
  ByteVector bytes = {};
  Flags<names::flush_type> placement = {};
  Choice<names::flush_level> selectivity = "range";
  std::optional<AhHandle> ah = {};
  std::optional<std::uint32_t> remote_qpn = {}, remote_qkey = {}, remote_srqn = {};

  // Which opcodes have a member.
  [[nodiscard]] bool has_immediate() const;
  [[nodiscard]] bool invalidates() const;
  [[nodiscard]] bool is_remote() const;
  [[nodiscard]] bool is_compare_swap() const { return opcode.name == "compare_swap"; }
  [[nodiscard]] bool is_fetch_add() const { return opcode.name == "fetch_add"; }
  [[nodiscard]] bool is_bind_mw() const { return opcode.name == "bind_mw"; }
  [[nodiscard]] bool is_reg_mr() const { return opcode.name == "reg_mr"; }
  [[nodiscard]] bool creates_key() const { return is_bind_mw() || is_reg_mr(); }
  [[nodiscard]] bool is_atomic_write() const { return opcode.name == "atomic_write"; }
  [[nodiscard]] bool is_flush() const { return opcode.name == "flush"; }
  [[nodiscard]] bool has_length() const { return creates_key() || is_flush(); }
  static const Structure& structure();
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::vector<Sge> sges = {};
  static const Structure& structure();
};

struct PostSend {
  QpHandle qp = {};
  std::vector<SendRequest> requests = {};
  struct Result {
    std::uint64_t posted = 0;
  };
  static const Command& command();
};

struct PostRecv {
  std::optional<QpHandle> qp = {};
  std::optional<SrqHandle> srq = {};
  std::vector<ReceiveRequest> requests = {};
  struct Result {
    std::uint64_t posted = 0;
  };
  static const Command& command();
};

}  // namespace rdmawire::rpc
