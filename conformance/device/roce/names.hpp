#pragma once
/// Names of the agent protocol for which the reference devices use other numbers than replay/rpc/names.hpp.

#include "conformance/device/roce/work_request.hpp"
#include "replay/rpc/names.hpp"

namespace rdmawire::device::names {

using rpc::name_of;
using rpc::names_of_bits;
using rpc::number_of;
using rpc::names::access;
using rpc::names::qp_state;

// clang-format off
inline constexpr rpc::Name qp_types[] = {{"rc", 0}, {"uc", 1}, {"ud", 2}, {"xrc_send", 3}, {"xrc_recv", 4}};
/// WorkOpcode.
inline constexpr rpc::Name opcodes[] = {
    {"write", 0}, {"write_imm", 1}, {"send", 2}, {"send_imm", 3}, {"send_inv", 4}, {"read", 5}, {"compare_swap", 6},
    {"fetch_add", 7}, {"local_inv", 8}, {"bind_mw", 9}, {"reg_mr", 10}, {"flush", 11}, {"atomic_write", 12}};
/// Ordered like CmEventType.
inline constexpr rpc::Name cm_events[] = {
    {"addr_resolved", 0}, {"addr_error", 1}, {"route_resolved", 2}, {"connect_request", 3}, {"connect_response", 4},
    {"unreachable", 5}, {"rejected", 6}, {"established", 7}, {"disconnected", 8}, {"timewait_exit", 9},
    {"failed", 10}, {"connect_error", 11}};
// clang-format on
inline constexpr rpc::Names qp_type = qp_types, opcode = opcodes, cm_event = cm_events;

}  // namespace rdmawire::device::names
