#pragma once
/// Names of verbs constants in the agent protocol, the same as in the agent (docs/reference/agent-protocol.md).

#include "conformance/device/roce/argument_reader.hpp"

namespace rdmawire::device::names {

// clang-format off
inline constexpr NamedNumber access[] = {
    {"local_write", access::local_write}, {"remote_write", access::remote_write},
    {"remote_read", access::remote_read}, {"remote_atomic", access::remote_atomic}, {"mw_bind", access::mw_bind},
    {"zero_based", access::zero_based}, {"flush_global", access::flush_global},
    {"flush_persistent", access::flush_persistent}};
inline constexpr NamedNumber qp_type[] = {{"rc", 0}, {"uc", 1}, {"ud", 2}, {"xrc_send", 3}, {"xrc_recv", 4}};
inline constexpr NamedNumber qp_state[] = {{"reset", 0}, {"init", 1}, {"rtr", 2}, {"rts", 3},
                                           {"sqd", 4}, {"sqe", 5}, {"err", 6}};
inline constexpr NamedNumber mig_state[] = {{"migrated", 0}, {"rearm", 1}, {"armed", 2}};
inline constexpr NamedNumber send_flags[] = {{"fence", 1}, {"signaled", 2}, {"solicited", 4}, {"inline", 8}};
inline constexpr NamedNumber opcode[] = {
    {"write", 0}, {"write_imm", 1}, {"send", 2}, {"send_imm", 3}, {"send_inv", 4}, {"read", 5}, {"compare_swap", 6},
    {"fetch_add", 7}, {"local_inv", 8}, {"bind_mw", 9}, {"reg_mr", 10}, {"flush", 11}, {"atomic_write", 12},
    {"unknown", 13}};
inline constexpr NamedNumber send_ops[] = {
    {"write", 1}, {"write_imm", 2}, {"send", 4}, {"send_imm", 8}, {"send_inv", 16}, {"read", 32},
    {"compare_swap", 64}, {"fetch_add", 128}, {"local_inv", 256}, {"bind_mw", 512}, {"flush", 1024},
    {"atomic_write", 2048}};
inline constexpr NamedNumber status[] = {
    {"success", 0}, {"loc_len_err", 1}, {"loc_qp_op_err", 2}, {"loc_eec_op_err", 3}, {"loc_prot_err", 4},
    {"wr_flush_err", 5}, {"mw_bind_err", 6}, {"bad_resp_err", 7}, {"loc_access_err", 8}, {"rem_inv_req_err", 9},
    {"rem_access_err", 10}, {"rem_op_err", 11}, {"retry_exc_err", 12}, {"rnr_retry_exc_err", 13}, {"fatal_err", 19},
    {"general_err", 21}};
inline constexpr NamedNumber completion_opcode[] = {
    {"send", 0}, {"write", 1}, {"read", 2}, {"compare_swap", 3}, {"fetch_add", 4}, {"bind_mw", 5}, {"local_inv", 6},
    {"flush", 8}, {"atomic_write", 9}, {"reg_mr", 10}, {"recv", 128}, {"recv_write_imm", 129}};
inline constexpr NamedNumber event[] = {
    {"cq_err", 0}, {"qp_fatal", 1}, {"qp_req_err", 2}, {"qp_access_err", 3}, {"comm_est", 4}, {"sq_drained", 5},
    {"port_active", 9}, {"srq_err", 14}, {"srq_limit_reached", 15}, {"qp_last_wqe_reached", 16}};
inline constexpr NamedNumber port_space[] = {{"tcp", 0}, {"udp", 1}, {"ipoib", 2}};
/// In the order of CmEventType.
inline constexpr NamedNumber cm_event[] = {
    {"addr_resolved", 0}, {"addr_error", 1}, {"route_resolved", 2}, {"connect_request", 3}, {"connect_response", 4},
    {"unreachable", 5}, {"rejected", 6}, {"established", 7}, {"disconnected", 8}, {"timewait_exit", 9},
    {"failed", 10}, {"connect_error", 11}};
inline constexpr NamedNumber srq_type[] = {{"basic", 0}, {"xrc", 1}};
inline constexpr NamedNumber pattern[] = {{"byte", 0}, {"counter", 1}, {"random", 2}};
inline constexpr NamedNumber flush_type[] = {{"global", 1}, {"persistent", 2}};
inline constexpr NamedNumber flush_level[] = {{"range", 0}, {"mr", 1}};
// clang-format on

inline std::string name_of(NamedNumbers names, std::uint64_t value) {
  for (const NamedNumber& entry : names)
    if (entry.value == value) return std::string(entry.name);
  return fmt::format("unknown ({})", value);
}
inline Json names_of_bits(NamedNumbers names, std::uint64_t bits) {
  Json list = Json::array();
  for (const NamedNumber& entry : names)
    if ((bits & entry.value) != 0) list.push_back(entry.name);
  return list;
}

}  // namespace rdmawire::device::names
