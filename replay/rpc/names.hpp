#pragma once
/// Constants of verbs and their names in the protocol. Each table is used in both directions.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rdmawire::rpc {

struct Name {
  std::string_view name;
  std::uint64_t value;
};
using Names = std::span<const Name>;

/// The number with this name.
std::optional<std::uint64_t> number_of(Names names, std::string_view name);
/// The name of a number, or "unknown (7)" if it has none.
std::string name_of(Names names, std::uint64_t value);
/// The names of all set bits. Bits without a name as "bit 12".
std::vector<std::string> names_of_bits(Names names, std::uint64_t bits);
/// Comma-separated names for messages.
std::string listed(Names names);

namespace names {
extern const Names access;         ///< ibv_access_flags, with FLUSH of newer kernels
extern const Names qp_type;        ///< ibv_qp_type
extern const Names qp_state;       ///< ibv_qp_state
extern const Names mig_state;      ///< ibv_mig_state
extern const Names create_flags;   ///< ibv_qp_create_flags
extern const Names send_ops;       ///< ibv_qp_create_send_ops_flags
extern const Names send_flags;     ///< ibv_send_flags
extern const Names opcode;         ///< of work requests (Linux's numbers where the libibverbs headers have none)
extern const Names wc_status;      ///< ibv_wc_status
extern const Names wc_opcode;      ///< ibv_wc_opcode
extern const Names wc_flags;       ///< ibv_wc_flags
extern const Names async_event;    ///< ibv_event_type
extern const Names node_type;      ///< ibv_node_type
extern const Names transport;      ///< ibv_transport_type
extern const Names link_layer;     ///< of a port
extern const Names port_state;     ///< ibv_port_state
extern const Names phys_state;     ///< physical state of a port, IBTA vol 1, 14.2.5.6
extern const Names gid_type;       ///< ibv_gid_type
extern const Names atomic_cap;     ///< ibv_atomic_cap
extern const Names device_caps;    ///< ibv_device_cap_flags, and further flags of newer kernels
extern const Names port_caps;      ///< ibv_port_cap_flags
extern const Names odp_general;    ///< ibv_odp_general_caps
extern const Names odp_transport;  ///< ibv_odp_transport_cap_bits
extern const Names srq_type;       ///< ibv_srq_type
extern const Names mw_type;        ///< ibv_mw_type
extern const Names pattern;        ///< patterns of `fill`
extern const Names flush_type;     ///< placement types of FLUSH
extern const Names flush_level;    ///< selectivity levels of FLUSH
extern const Names port_space;     ///< rdma_port_space
extern const Names cm_event;       ///< rdma_cm_event_type, and `failed` for a failed step of the agent
extern const Names signal;         ///< signals of Linux
}  // namespace names

/// The value of the CM event `failed`, which librdmacm does not define.
inline constexpr std::uint64_t cm_event_failed = 1000;

/// Patterns of `fill`.
enum class Pattern : std::uint8_t { byte, counter, random };

/// Work requests that libibverbs does not define here. Linux's numbers (ib_wr_opcode).
inline constexpr std::uint64_t opcode_flush = 14, opcode_atomic_write = 15, opcode_reg_mr = 0x20;

}  // namespace rdmawire::rpc
