#pragma once
/// Commands about completion queues.

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

/// Highest numbers of int parameters of libibverbs.
inline constexpr std::uint64_t most_int = 0x7fff'ffff;
inline constexpr std::uint32_t most_completions = 4096;
inline constexpr std::uint32_t most_timeout_ms = 3'600'000;

struct CreateChannel {
  DeviceHandle device = {};
  struct Result {
    ChannelHandle channel = {};
  };
  static const Command& command();
};

struct CreateCq {
  DeviceHandle device = {};
  std::uint32_t cqe = 0;
  std::optional<ChannelHandle> channel = {};
  std::uint32_t comp_vector = 0;
  struct Result {
    CqHandle cq = {};
    std::uint32_t cqe = 0;
  };
  static const Command& command();
};

struct ResizeCq {
  CqHandle cq = {};
  std::uint32_t cqe = 0;
  struct Result {
    std::uint32_t cqe = 0;
  };
  static const Command& command();
};

struct Notify {
  CqHandle cq = {};
  bool solicited_only = false;
  using Result = Nothing;
  static const Command& command();
};

/// A work completion. IBTA vol 1, 11.4.2.1.
struct Completion {
  std::uint64_t wr_id = 0;
  Choice<names::wc_status> status = {};
  std::uint32_t status_number = 0, vendor_err = 0, qp_num = 0;
  // Only of successful completions:
  std::optional<Choice<names::wc_opcode>> opcode = {};
  std::optional<std::uint32_t> byte_len = {};
  std::optional<Flags<names::wc_flags>> flags = {};
  std::optional<std::uint32_t> imm = {};
  std::optional<std::uint64_t> imm64 = {};
  std::optional<std::uint32_t> invalidated_rkey = {}, src_qp = {};
  std::optional<std::uint16_t> pkey_index = {};
  std::optional<std::uint16_t> slid = {};
  std::optional<std::uint8_t> sl = {}, dlid_path_bits = {};
  static const Structure& structure();
};

struct Poll {
  CqHandle cq = {};
  std::uint32_t max = 16;
  std::uint32_t min = 1;
  std::uint32_t timeout_ms = 0;
  struct Result {
    std::vector<Completion> completions = {};
  };
  static const Command& command();
};

}  // namespace rdmawire::rpc
