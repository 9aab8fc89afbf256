#pragma once
/// What a consumer asks of a queue pair, and what it is told. Names are those of verbs; IBTA vol 1, 11.4 and 11.6.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "conformance/device/roce/addresses.hpp"
#include "dissectors/machines/queue_pair_states.hpp"

namespace rdmawire::device {

/// Why a call was refused: Linux's error number, and what was asked of what and found.
struct Error {
  int number = 0;
  std::string message;
};
template <class T>
using Result = tl::expected<T, Error>;
/// A call that fails with this error number and message.
inline tl::unexpected<Error> refuse(int number, std::string message) {
  return tl::unexpected(Error{number, std::move(message)});
}

using QpType = machines::QueuePairService;

/// Rights to memory, and of a queue pair: bits as ibv_access_flags has them.
namespace access {
inline constexpr std::uint32_t local_write = 1, remote_write = 1U << 1, remote_read = 1U << 2, remote_atomic = 1U << 3,
                               mw_bind = 1U << 4, zero_based = 1U << 5, flush_global = 1U << 8,
                               flush_persistent = 1U << 9;
inline constexpr std::uint32_t all =
    local_write | remote_write | remote_read | remote_atomic | mw_bind | zero_based | flush_global | flush_persistent;
}  // namespace access

/// A piece of local memory.
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
  unknown,  ///< a number that has no meaning
};
/// Whether the request concerns only the device's own memory: nothing is sent.
constexpr bool is_local(WorkOpcode opcode) {
  return opcode == WorkOpcode::local_inv || opcode == WorkOpcode::bind_mw || opcode == WorkOpcode::reg_mr;
}

/// A request for the send queue.
struct SendRequest {
  std::uint64_t id = 0;
  WorkOpcode opcode = WorkOpcode::send;
  bool signaled = true, fence = false, solicited = false;
  bool is_inline = false;                         ///< `bytes` is the message; `sges` is not looked at
  std::vector<std::uint8_t> bytes{};              ///< of an inline message
  std::vector<Sge> sges{};                        ///< gathered from; of READs and atomics: where the answer goes
  std::uint64_t remote_address = 0;               ///< of what reaches remote memory
  std::uint32_t rkey = 0;                         ///< likewise; of local_inv: the key
  std::uint32_t immediate = 0;                    ///< of *_imm; of send_inv: the remote key to invalidate
  std::uint64_t compare = 0;                      ///< of compare_swap
  std::uint64_t swap_add = 0;                     ///< the swapped value, or what is added
  std::uint64_t swap_add_mask = 0;                ///< of iWARP: RFC 7306, 5.1; FetchAdd without fields has 0
  std::uint64_t compare_mask = ~0ULL;             ///< of iWARP
  std::uint64_t immediate_data = 0;               ///< of *_imm over iWARP, which has 64 bits: RFC 7306, 6
  std::uint32_t length = 0;                       ///< of flush: bytes of the range
  std::uint8_t placement = 1;                     ///< of flush: bit 0 global visibility, bit 1 persistence
  std::uint8_t selectivity = 0;                   ///< of flush: 0 range, 1 region
  std::uint32_t ah = 0;                           ///< of UD: address handle
  std::uint32_t remote_qpn = 0, remote_qkey = 0;  ///< of UD
  std::uint32_t xrc_srq = 0;                      ///< of XRC: the number of the target's shared receive queue
  std::uint32_t window = 0, region = 0;           ///< of bind_mw and reg_mr: handles
  std::uint32_t new_key = 0;                      ///< of bind_mw of type 2, and reg_mr: the key, whose low byte counts
  std::uint64_t address = 0, bytes_bound = 0;     ///< of bind_mw and reg_mr: the range
  std::uint64_t iova = 0;    ///< of reg_mr: the address that the range begins at for who uses the key
  std::uint32_t rights = 0;  ///< of bind_mw and reg_mr
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

/// Completion statuses; the numbers are ibv_wc_status'.
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

/// What a completion says was done; the numbers are ibv_wc_opcode's.
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
  std::uint32_t bytes = 0;  ///< of receives, READs and atomics
  bool has_immediate = false, has_invalidated = false, has_grh = false;
  std::uint32_t immediate = 0;  ///< or the key that was invalidated
  std::uint32_t qpn = 0;        ///< of the queue pair here
  std::uint32_t source_qpn = 0;
  std::uint16_t pkey_index = 0;
  std::uint8_t sl = 0;
  bool is_ipv4 = false;              ///< of a datagram's network header
  Mac source_mac{};                  ///< of a datagram
  std::uint64_t immediate_data = 0;  ///< over iWARP

  friend bool operator==(const Completion&, const Completion&) = default;
};

/// What a device tells without being asked; the numbers are ibv_event_type's.
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
  std::uint32_t object = 0;  ///< handle of the queue pair, completion queue or shared receive queue

  friend bool operator==(const AsyncEvent&, const AsyncEvent&) = default;
};

}  // namespace rdmawire::device
