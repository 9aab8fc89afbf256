#pragma once
/// Work requests, completions and events, with the names of verbs. IBTA vol 1, 11.4 and 11.6.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "conformance/device/roce/addresses.hpp"
#include "dissectors/machines/queue_pair_states.hpp"

namespace rdmawire::device {

/// Error of a call: a Linux error number and a message.
struct Error {
  int number = 0;
  std::string message;
};
template <class T>
using Result = tl::expected<T, Error>;
/// Return an error result with this number and message.
inline tl::unexpected<Error> refuse(int number, std::string message) {
  return tl::unexpected(Error{number, std::move(message)});
}

using QpType = machines::QueuePairService;

/// Access rights of memory and queue pairs: the bits of ibv_access_flags.
namespace access {
inline constexpr std::uint32_t local_write = 1, remote_write = 1U << 1, remote_read = 1U << 2, remote_atomic = 1U << 3,
                               mw_bind = 1U << 4, zero_based = 1U << 5, flush_global = 1U << 8,
                               flush_persistent = 1U << 9;
inline constexpr std::uint32_t all =
    local_write | remote_write | remote_read | remote_atomic | mw_bind | zero_based | flush_global | flush_persistent;
}  // namespace access

/// Scatter/gather element: a range of local memory.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
};

enum class WorkOpcode : std::uint8_t {
  write,
  write_imm,
  send,
  send_imm,
  send_inv,
  read,
  compare_swap,
  fetch_add,
  local_inv,
  bind_mw,
  reg_mr,
  flush,
  atomic_write,
  unknown,  ///< undefined number
};
/// True if the request changes only the device's own memory registrations, and sends nothing.
constexpr bool is_local(WorkOpcode opcode) {
  return opcode == WorkOpcode::local_inv || opcode == WorkOpcode::bind_mw || opcode == WorkOpcode::reg_mr;
}

/// A request for the send queue.
struct SendRequest {
  std::uint64_t id = 0;
  WorkOpcode opcode = WorkOpcode::send;
  bool signaled = true, fence = false, solicited = false;
  bool is_inline = false;              ///< true: the message is `bytes`, and `sges` is ignored
  std::vector<std::uint8_t> bytes{};   ///< inline message
  std::vector<Sge> sges{};             ///< source of the message, or destination of a READ or atomic response
  std::uint64_t remote_address = 0;    ///< RDMA and atomic operations
  std::uint32_t rkey = 0;              ///< RDMA and atomic operations: R_Key. local_inv: key to invalidate
  std::uint32_t immediate = 0;         ///< *_imm: immediate data. send_inv: R_Key to invalidate
  std::uint64_t compare = 0;           ///< compare_swap: value to compare with
  std::uint64_t swap_add = 0;          ///< value to swap or add
  std::uint64_t swap_add_mask = 0;     ///< iWARP: mask of RFC 7306, 5.1. FetchAdd: 0 for one 64-bit addition
  std::uint64_t compare_mask = ~0ULL;  ///< iWARP: compare mask of CmpSwap
  std::uint64_t immediate_data = 0;    ///< iWARP, *_imm: 64 bits of immediate data. RFC 7306, 6
  std::uint32_t length = 0;            ///< flush: length of the range in bytes
  std::uint8_t placement = 1;          ///< flush: bit 0 global visibility, bit 1 persistence
  std::uint8_t selectivity = 0;        ///< flush: 0 range, 1 region
  std::uint32_t ah = 0;                ///< UD: address handle
  std::uint32_t remote_qpn = 0, remote_qkey = 0;  ///< UD
  std::uint32_t xrc_srq = 0;                      ///< XRC: SRQ number at the target
  std::uint32_t window = 0, region = 0;           ///< bind_mw and reg_mr: handles
  std::uint32_t new_key = 0;                   ///< bind_mw of type 2, and reg_mr: its low byte becomes that of the key
  std::uint64_t address = 0, bytes_bound = 0;  ///< bind_mw and reg_mr: start and length of the range
  std::uint64_t iova = 0;                      ///< reg_mr: start address for accesses with the key
  std::uint32_t rights = 0;                    ///< bind_mw and reg_mr: access rights
};

struct ReceiveRequest {
  std::uint64_t id = 0;
  std::vector<Sge> sges{};

  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Sge& sge : sges) sum += sge.length;
    return sum;
  }
};

/// Completion statuses, numbered as ibv_wc_status.
enum class Status : std::uint8_t {
  success = 0,
  local_length,
  local_qp_operation,
  local_eec_operation,
  local_protection,
  flushed,
  bind,
  bad_response,
  local_access,
  remote_invalid_request,
  remote_access,
  remote_operation,
  retry_exceeded,
  rnr_retry_exceeded,
  fatal = 19,
  general = 21,
};

/// Completed operations, numbered as ibv_wc_opcode.
enum class CompletionOpcode : std::uint8_t {
  send = 0,
  write,
  read,
  compare_swap,
  fetch_add,
  bind_mw,
  local_inv,
  flush = 8,
  atomic_write = 9,
  reg_mr = 10,
  receive = 128,
  receive_write_imm = 129,
};

struct Completion {
  std::uint64_t id = 0;
  Status status = Status::success;
  CompletionOpcode opcode = CompletionOpcode::send;
  std::uint32_t bytes = 0;  ///< number of bytes of a receive, READ or atomic
  bool has_immediate = false, has_invalidated = false, has_grh = false;
  std::uint32_t immediate = 0;  ///< immediate data, or the invalidated key
  std::uint32_t qpn = 0;        ///< number of the local queue pair
  std::uint32_t source_qpn = 0;
  std::uint16_t pkey_index = 0;
  std::uint8_t sl = 0;
  bool is_ipv4 = false;              ///< UD: true if the network header is IPv4
  Mac source_mac{};                  ///< UD: MAC address of the sender
  std::uint64_t immediate_data = 0;  ///< iWARP: 64 bits of immediate data

  friend bool operator==(const Completion&, const Completion&) = default;
};

/// Asynchronous events, numbered as ibv_event_type.
enum class EventType : std::uint8_t {
  cq_error = 0,
  qp_fatal,
  qp_request_error,
  qp_access_error,
  communication_established,
  sq_drained,
  port_active = 9,
  srq_error = 14,
  srq_limit_reached,
  last_wqe_reached,
};
struct AsyncEvent {
  EventType type = EventType::qp_fatal;
  std::uint32_t object = 0;  ///< handle of the queue pair, completion queue or SRQ

  friend bool operator==(const AsyncEvent&, const AsyncEvent&) = default;
};

}  // namespace rdmawire::device
