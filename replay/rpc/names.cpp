#include "replay/rpc/names.hpp"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <csignal>

namespace rdmawire::rpc {

std::optional<std::uint64_t> number_of(Names names, std::string_view name) {
  for (const Name& entry : names) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

std::string name_of(Names names, std::uint64_t value) {
  for (const Name& entry : names) {
    if (entry.value == value) return std::string(entry.name);
  }
  return fmt::format("unknown ({})", static_cast<std::int64_t>(value));
}

std::vector<std::string> names_of_bits(Names names, std::uint64_t bits) {
  std::vector<std::string> found;
  for (const Name& entry : names) {
    if ((bits & entry.value) == 0) continue;
    found.emplace_back(entry.name);
    bits &= ~entry.value;
  }
  for (unsigned bit = 0; bit < 64; ++bit) {
    if ((bits >> bit & 1) != 0) found.push_back(fmt::format("bit {}", bit));
  }
  return found;
}

std::string listed(Names names) {
  std::string text;
  for (const Name& entry : names) {
    if (!text.empty()) text += ", ";
    text += entry.name;
  }
  return text;
}

namespace names {
namespace {

// clang-format off
constexpr Name access_table[] = {
    {"local_write", IBV_ACCESS_LOCAL_WRITE},
    {"remote_write", IBV_ACCESS_REMOTE_WRITE},
    {"remote_read", IBV_ACCESS_REMOTE_READ},
    {"remote_atomic", IBV_ACCESS_REMOTE_ATOMIC},
    {"mw_bind", IBV_ACCESS_MW_BIND},
    {"zero_based", IBV_ACCESS_ZERO_BASED},
    {"on_demand", IBV_ACCESS_ON_DEMAND},
    {"hugetlb", IBV_ACCESS_HUGETLB},
    {"flush_global", 1U << 8},      // IB_UVERBS_ACCESS_FLUSH_GLOBAL, since Linux 6.2
    {"flush_persistent", 1U << 9},  // IB_UVERBS_ACCESS_FLUSH_PERSISTENT
    {"relaxed_ordering", IBV_ACCESS_RELAXED_ORDERING},
};
constexpr Name qp_type_table[] = {
    {"rc", IBV_QPT_RC}, {"uc", IBV_QPT_UC}, {"ud", IBV_QPT_UD},
    {"xrc_send", IBV_QPT_XRC_SEND}, {"xrc_recv", IBV_QPT_XRC_RECV},
};
constexpr Name qp_state_table[] = {
    {"reset", IBV_QPS_RESET}, {"init", IBV_QPS_INIT}, {"rtr", IBV_QPS_RTR}, {"rts", IBV_QPS_RTS},
    {"sqd", IBV_QPS_SQD}, {"sqe", IBV_QPS_SQE}, {"err", IBV_QPS_ERR},
};
constexpr Name mig_state_table[] = {
    {"migrated", IBV_MIG_MIGRATED}, {"rearm", IBV_MIG_REARM}, {"armed", IBV_MIG_ARMED},
};
constexpr Name create_flags_table[] = {
    {"block_self_multicast_loopback", IBV_QP_CREATE_BLOCK_SELF_MCAST_LB},
    {"scatter_fcs", IBV_QP_CREATE_SCATTER_FCS},
    {"cvlan_stripping", IBV_QP_CREATE_CVLAN_STRIPPING},
    {"pci_write_end_padding", IBV_QP_CREATE_PCI_WRITE_END_PADDING},
};
constexpr Name send_ops_table[] = {
    {"write", IBV_QP_EX_WITH_RDMA_WRITE},
    {"write_imm", IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM},
    {"send", IBV_QP_EX_WITH_SEND},
    {"send_imm", IBV_QP_EX_WITH_SEND_WITH_IMM},
    {"read", IBV_QP_EX_WITH_RDMA_READ},
    {"compare_swap", IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP},
    {"fetch_add", IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD},
    {"local_inv", IBV_QP_EX_WITH_LOCAL_INV},
    {"bind_mw", IBV_QP_EX_WITH_BIND_MW},
    {"send_inv", IBV_QP_EX_WITH_SEND_WITH_INV},
    {"flush", 1U << 11},  // IBV_QP_EX_WITH_FLUSH, in rdma-core since version 45
    {"atomic_write", 1U << 12},
};
constexpr Name send_flags_table[] = {
    {"fence", IBV_SEND_FENCE}, {"signaled", IBV_SEND_SIGNALED}, {"solicited", IBV_SEND_SOLICITED},
    {"inline", IBV_SEND_INLINE}, {"ip_csum", IBV_SEND_IP_CSUM},
};
constexpr Name opcode_table[] = {
    {"write", IBV_WR_RDMA_WRITE}, {"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
    {"send", IBV_WR_SEND}, {"send_imm", IBV_WR_SEND_WITH_IMM}, {"send_inv", IBV_WR_SEND_WITH_INV},
    {"read", IBV_WR_RDMA_READ},
    {"compare_swap", IBV_WR_ATOMIC_CMP_AND_SWP}, {"fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD},
    {"local_inv", IBV_WR_LOCAL_INV}, {"bind_mw", IBV_WR_BIND_MW},
    {"flush", opcode_flush}, {"atomic_write", opcode_atomic_write}, {"reg_mr", opcode_reg_mr},
};
constexpr Name wc_status_table[] = {
    {"success", IBV_WC_SUCCESS}, {"loc_len_err", IBV_WC_LOC_LEN_ERR}, {"loc_qp_op_err", IBV_WC_LOC_QP_OP_ERR},
    {"loc_eec_op_err", IBV_WC_LOC_EEC_OP_ERR}, {"loc_prot_err", IBV_WC_LOC_PROT_ERR},
    {"wr_flush_err", IBV_WC_WR_FLUSH_ERR}, {"mw_bind_err", IBV_WC_MW_BIND_ERR},
    {"bad_resp_err", IBV_WC_BAD_RESP_ERR}, {"loc_access_err", IBV_WC_LOC_ACCESS_ERR},
    {"rem_inv_req_err", IBV_WC_REM_INV_REQ_ERR}, {"rem_access_err", IBV_WC_REM_ACCESS_ERR},
    {"rem_op_err", IBV_WC_REM_OP_ERR}, {"retry_exc_err", IBV_WC_RETRY_EXC_ERR},
    {"rnr_retry_exc_err", IBV_WC_RNR_RETRY_EXC_ERR}, {"loc_rdd_viol_err", IBV_WC_LOC_RDD_VIOL_ERR},
    {"rem_inv_rd_req_err", IBV_WC_REM_INV_RD_REQ_ERR}, {"rem_abort_err", IBV_WC_REM_ABORT_ERR},
    {"inv_eecn_err", IBV_WC_INV_EECN_ERR}, {"inv_eec_state_err", IBV_WC_INV_EEC_STATE_ERR},
    {"fatal_err", IBV_WC_FATAL_ERR}, {"resp_timeout_err", IBV_WC_RESP_TIMEOUT_ERR},
    {"general_err", IBV_WC_GENERAL_ERR}, {"tm_err", IBV_WC_TM_ERR},
    {"tm_rndv_incomplete", IBV_WC_TM_RNDV_INCOMPLETE},
};
constexpr Name wc_opcode_table[] = {
    {"send", IBV_WC_SEND}, {"write", IBV_WC_RDMA_WRITE}, {"read", IBV_WC_RDMA_READ},
    {"compare_swap", IBV_WC_COMP_SWAP}, {"fetch_add", IBV_WC_FETCH_ADD}, {"bind_mw", IBV_WC_BIND_MW},
    {"local_inv", IBV_WC_LOCAL_INV}, {"tso", IBV_WC_TSO}, {"flush", 8}, {"atomic_write", 9}, {"reg_mr", 10},
    {"recv", IBV_WC_RECV}, {"recv_write_imm", IBV_WC_RECV_RDMA_WITH_IMM},
};
constexpr Name wc_flags_table[] = {
    {"grh", IBV_WC_GRH}, {"imm", IBV_WC_WITH_IMM}, {"ip_csum_ok", IBV_WC_IP_CSUM_OK}, {"inv", IBV_WC_WITH_INV},
    {"tm_sync_req", IBV_WC_TM_SYNC_REQ}, {"tm_match", IBV_WC_TM_MATCH}, {"tm_data_valid", IBV_WC_TM_DATA_VALID},
};
constexpr Name async_event_table[] = {
    {"cq_err", IBV_EVENT_CQ_ERR}, {"qp_fatal", IBV_EVENT_QP_FATAL}, {"qp_req_err", IBV_EVENT_QP_REQ_ERR},
    {"qp_access_err", IBV_EVENT_QP_ACCESS_ERR}, {"comm_est", IBV_EVENT_COMM_EST},
    {"sq_drained", IBV_EVENT_SQ_DRAINED}, {"path_mig", IBV_EVENT_PATH_MIG},
    {"path_mig_err", IBV_EVENT_PATH_MIG_ERR}, {"device_fatal", IBV_EVENT_DEVICE_FATAL},
    {"port_active", IBV_EVENT_PORT_ACTIVE}, {"port_err", IBV_EVENT_PORT_ERR},
    {"lid_change", IBV_EVENT_LID_CHANGE}, {"pkey_change", IBV_EVENT_PKEY_CHANGE},
    {"sm_change", IBV_EVENT_SM_CHANGE}, {"srq_err", IBV_EVENT_SRQ_ERR},
    {"srq_limit_reached", IBV_EVENT_SRQ_LIMIT_REACHED}, {"qp_last_wqe_reached", IBV_EVENT_QP_LAST_WQE_REACHED},
    {"client_reregister", IBV_EVENT_CLIENT_REREGISTER}, {"gid_change", IBV_EVENT_GID_CHANGE},
    {"wq_fatal", IBV_EVENT_WQ_FATAL},
};
constexpr Name node_type_table[] = {
    {"ca", IBV_NODE_CA}, {"switch", IBV_NODE_SWITCH}, {"router", IBV_NODE_ROUTER}, {"rnic", IBV_NODE_RNIC},
    {"usnic", IBV_NODE_USNIC}, {"usnic_udp", IBV_NODE_USNIC_UDP}, {"unspecified", IBV_NODE_UNSPECIFIED},
};
constexpr Name transport_table[] = {
    {"ib", IBV_TRANSPORT_IB}, {"iwarp", IBV_TRANSPORT_IWARP}, {"usnic", IBV_TRANSPORT_USNIC},
    {"usnic_udp", IBV_TRANSPORT_USNIC_UDP}, {"unspecified", IBV_TRANSPORT_UNSPECIFIED},
};
constexpr Name link_layer_table[] = {
    {"unspecified", IBV_LINK_LAYER_UNSPECIFIED}, {"infiniband", IBV_LINK_LAYER_INFINIBAND},
    {"ethernet", IBV_LINK_LAYER_ETHERNET},
};
constexpr Name port_state_table[] = {
    {"nop", IBV_PORT_NOP}, {"down", IBV_PORT_DOWN}, {"init", IBV_PORT_INIT}, {"armed", IBV_PORT_ARMED},
    {"active", IBV_PORT_ACTIVE}, {"active_defer", IBV_PORT_ACTIVE_DEFER},
};
constexpr Name phys_state_table[] = {
    {"sleep", 1}, {"polling", 2}, {"disabled", 3}, {"training", 4}, {"link_up", 5}, {"error_recovery", 6},
    {"phy_test", 7},
};
constexpr Name gid_type_table[] = {
    {"ib", IBV_GID_TYPE_IB}, {"roce_v1", IBV_GID_TYPE_ROCE_V1}, {"roce_v2", IBV_GID_TYPE_ROCE_V2},
};
constexpr Name atomic_cap_table[] = {
    {"none", IBV_ATOMIC_NONE}, {"hca", IBV_ATOMIC_HCA}, {"global", IBV_ATOMIC_GLOB},
};
constexpr Name device_caps_table[] = {
    {"resize_max_wr", IBV_DEVICE_RESIZE_MAX_WR}, {"bad_pkey_counter", IBV_DEVICE_BAD_PKEY_CNTR},
    {"bad_qkey_counter", IBV_DEVICE_BAD_QKEY_CNTR}, {"raw_multicast", IBV_DEVICE_RAW_MULTI},
    {"auto_path_migration", IBV_DEVICE_AUTO_PATH_MIG}, {"change_phy_port", IBV_DEVICE_CHANGE_PHY_PORT},
    {"ud_av_port_enforce", IBV_DEVICE_UD_AV_PORT_ENFORCE}, {"cur_qp_state_mod", IBV_DEVICE_CURR_QP_STATE_MOD},
    {"shutdown_port", IBV_DEVICE_SHUTDOWN_PORT}, {"init_type", IBV_DEVICE_INIT_TYPE},
    {"port_active_event", IBV_DEVICE_PORT_ACTIVE_EVENT}, {"sys_image_guid", IBV_DEVICE_SYS_IMAGE_GUID},
    {"rc_rnr_nak_gen", IBV_DEVICE_RC_RNR_NAK_GEN}, {"srq_resize", IBV_DEVICE_SRQ_RESIZE},
    {"n_notify_cq", IBV_DEVICE_N_NOTIFY_CQ}, {"mem_window", IBV_DEVICE_MEM_WINDOW},
    {"ud_ip_csum", IBV_DEVICE_UD_IP_CSUM}, {"xrc", IBV_DEVICE_XRC},
    {"mem_mgt_extensions", IBV_DEVICE_MEM_MGT_EXTENSIONS}, {"mem_window_type_2a", IBV_DEVICE_MEM_WINDOW_TYPE_2A},
    {"mem_window_type_2b", IBV_DEVICE_MEM_WINDOW_TYPE_2B}, {"rc_ip_csum", IBV_DEVICE_RC_IP_CSUM},
    {"raw_ip_csum", IBV_DEVICE_RAW_IP_CSUM}, {"managed_flow_steering", IBV_DEVICE_MANAGED_FLOW_STEERING},
    {"raw_scatter_fcs", IBV_DEVICE_RAW_SCATTER_FCS}, {"pci_write_end_padding", IBV_DEVICE_PCI_WRITE_END_PADDING},
    {"flush_global", 1ULL << 38}, {"flush_persistent", 1ULL << 39}, {"atomic_write", 1ULL << 40},
};
constexpr Name port_caps_table[] = {
    {"sm", IBV_PORT_SM}, {"notice", IBV_PORT_NOTICE_SUP}, {"trap", IBV_PORT_TRAP_SUP},
    {"opt_ipd", IBV_PORT_OPT_IPD_SUP}, {"auto_migration", IBV_PORT_AUTO_MIGR_SUP}, {"sl_map", IBV_PORT_SL_MAP_SUP},
    {"mkey_nvram", IBV_PORT_MKEY_NVRAM}, {"pkey_nvram", IBV_PORT_PKEY_NVRAM}, {"led_info", IBV_PORT_LED_INFO_SUP},
    {"sys_image_guid", IBV_PORT_SYS_IMAGE_GUID_SUP},
    {"pkey_switch_external_port_trap", IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP},
    {"extended_speeds", IBV_PORT_EXTENDED_SPEEDS_SUP}, {"cap_mask2", IBV_PORT_CAP_MASK2_SUP},
    {"cm", IBV_PORT_CM_SUP}, {"snmp_tunnel", IBV_PORT_SNMP_TUNNEL_SUP}, {"reinit", IBV_PORT_REINIT_SUP},
    {"device_management", IBV_PORT_DEVICE_MGMT_SUP}, {"vendor_class", IBV_PORT_VENDOR_CLASS_SUP},
    {"dr_notice", IBV_PORT_DR_NOTICE_SUP}, {"cap_mask_notice", IBV_PORT_CAP_MASK_NOTICE_SUP},
    {"boot_management", IBV_PORT_BOOT_MGMT_SUP}, {"link_latency", IBV_PORT_LINK_LATENCY_SUP},
    {"client_reregistration", IBV_PORT_CLIENT_REG_SUP}, {"ip_based_gids", IBV_PORT_IP_BASED_GIDS},
};
constexpr Name odp_general_table[] = {{"support", IBV_ODP_SUPPORT}, {"implicit", IBV_ODP_SUPPORT_IMPLICIT}};
constexpr Name odp_transport_table[] = {
    {"send", IBV_ODP_SUPPORT_SEND}, {"recv", IBV_ODP_SUPPORT_RECV}, {"write", IBV_ODP_SUPPORT_WRITE},
    {"read", IBV_ODP_SUPPORT_READ}, {"atomic", IBV_ODP_SUPPORT_ATOMIC}, {"srq_recv", IBV_ODP_SUPPORT_SRQ_RECV},
    {"flush", 1U << 6}, {"atomic_write", 1U << 7},
};
constexpr Name srq_type_table[] = {{"basic", IBV_SRQT_BASIC}, {"xrc", IBV_SRQT_XRC}};
constexpr Name mw_type_table[] = {{"1", IBV_MW_TYPE_1}, {"2", IBV_MW_TYPE_2}};
constexpr Name pattern_table[] = {
    {"byte", static_cast<std::uint64_t>(Pattern::byte)}, {"counter", static_cast<std::uint64_t>(Pattern::counter)},
    {"random", static_cast<std::uint64_t>(Pattern::random)},
};
constexpr Name flush_type_table[] = {{"global", 1U << 0}, {"persistent", 1U << 1}};
constexpr Name flush_level_table[] = {{"range", 0}, {"mr", 1}};
constexpr Name port_space_table[] = {{"tcp", RDMA_PS_TCP}, {"udp", RDMA_PS_UDP}, {"ipoib", RDMA_PS_IPOIB}};
constexpr Name cm_event_table[] = {
    {"addr_resolved", RDMA_CM_EVENT_ADDR_RESOLVED}, {"addr_error", RDMA_CM_EVENT_ADDR_ERROR},
    {"route_resolved", RDMA_CM_EVENT_ROUTE_RESOLVED}, {"route_error", RDMA_CM_EVENT_ROUTE_ERROR},
    {"connect_request", RDMA_CM_EVENT_CONNECT_REQUEST}, {"connect_response", RDMA_CM_EVENT_CONNECT_RESPONSE},
    {"connect_error", RDMA_CM_EVENT_CONNECT_ERROR}, {"unreachable", RDMA_CM_EVENT_UNREACHABLE},
    {"rejected", RDMA_CM_EVENT_REJECTED}, {"established", RDMA_CM_EVENT_ESTABLISHED},
    {"disconnected", RDMA_CM_EVENT_DISCONNECTED}, {"device_removal", RDMA_CM_EVENT_DEVICE_REMOVAL},
    {"multicast_join", RDMA_CM_EVENT_MULTICAST_JOIN}, {"multicast_error", RDMA_CM_EVENT_MULTICAST_ERROR},
    {"addr_change", RDMA_CM_EVENT_ADDR_CHANGE}, {"timewait_exit", RDMA_CM_EVENT_TIMEWAIT_EXIT},
    {"failed", cm_event_failed},
};
constexpr Name signal_table[] = {
    {"hup", SIGHUP}, {"int", SIGINT}, {"quit", SIGQUIT}, {"abrt", SIGABRT}, {"kill", SIGKILL}, {"usr1", SIGUSR1},
    {"segv", SIGSEGV}, {"usr2", SIGUSR2}, {"pipe", SIGPIPE}, {"alrm", SIGALRM}, {"term", SIGTERM}, {"cont", SIGCONT},
    {"stop", SIGSTOP}, {"ill", SIGILL}, {"fpe", SIGFPE}, {"bus", SIGBUS}, {"trap", SIGTRAP}, {"sys", SIGSYS},
    {"xcpu", SIGXCPU}, {"xfsz", SIGXFSZ},
};
// clang-format on

}  // namespace

const Names access = access_table;
const Names qp_type = qp_type_table;
const Names qp_state = qp_state_table;
const Names mig_state = mig_state_table;
const Names create_flags = create_flags_table;
const Names send_ops = send_ops_table;
const Names send_flags = send_flags_table;
const Names opcode = opcode_table;
const Names wc_status = wc_status_table;
const Names wc_opcode = wc_opcode_table;
const Names wc_flags = wc_flags_table;
const Names async_event = async_event_table;
const Names node_type = node_type_table;
const Names transport = transport_table;
const Names link_layer = link_layer_table;
const Names port_state = port_state_table;
const Names phys_state = phys_state_table;
const Names gid_type = gid_type_table;
const Names atomic_cap = atomic_cap_table;
const Names device_caps = device_caps_table;
const Names port_caps = port_caps_table;
const Names odp_general = odp_general_table;
const Names odp_transport = odp_transport_table;
const Names srq_type = srq_type_table;
const Names mw_type = mw_type_table;
const Names pattern = pattern_table;
const Names flush_type = flush_type_table;
const Names flush_level = flush_level_table;
const Names port_space = port_space_table;
const Names cm_event = cm_event_table;
const Names signal = signal_table;

}  // namespace names
}  // namespace rdmawire::rpc
