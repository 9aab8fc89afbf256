#pragma once
/// Subnet management: packets that a subnet manager uses to discover and configure ports. IBTA vol 1, chapter 14.
/// Each attribute has 64 bytes.

#include "dissectors/protocol/mad.hpp"

namespace rdmawire {

inline constexpr Name node_type_entries[] = {{1, "channel adapter", ""}, {2, "switch", ""}, {3, "router", ""}};
inline constexpr Names node_type_names{"node type", node_type_entries, "IBTA vol 1, 14.2.5.3"};

inline constexpr Name port_state_entries[] = {
    {0, "no change", "set only"},
    {1, "Down", "no link"},
    {2, "Initialize", "the link is up, but transfers only subnet management packets"},
    {3, "Armed", "the port is configured: the first received data packet activates it"},
    {4, "Active", "the link transfers all packets"},
};
inline constexpr Names port_state_names{"port state", port_state_entries, "IBTA vol 1, 14.2.5.6"};

inline constexpr Name port_physical_state_entries[] = {
    {0, "no change", "set only"},         {1, "Sleep", ""},  {2, "Polling", ""},           {3, "Disabled", ""},
    {4, "PortConfigurationTraining", ""}, {5, "LinkUp", ""}, {6, "LinkErrorRecovery", ""}, {7, "Phy Test", ""},
};
inline constexpr Names port_physical_state_names{"port physical state", port_physical_state_entries,
                                                 "IBTA vol 1, 14.2.5.6"};

inline constexpr Name link_down_default_entries[] = {
    {0, "no change", "set only"}, {1, "Sleep", ""}, {2, "Polling", ""}};
inline constexpr Names link_down_default_names{"link down default state", link_down_default_entries,
                                               "IBTA vol 1, 14.2.5.6"};

inline constexpr Name link_width_entries[] = {
    {1, "1x", ""}, {2, "4x", ""}, {4, "8x", ""}, {8, "12x", ""}, {16, "2x", ""},
};
inline constexpr Names link_width_names{"link width", link_width_entries, "IBTA vol 1, 14.2.5.6"};

inline constexpr Name link_speed_entries[] = {{0, "extended", "specified by the extended speed"},
                                              {1, "2.5 Gb/s", "SDR"},
                                              {2, "5 Gb/s", "DDR"},
                                              {4, "10 Gb/s", "QDR"}};
inline constexpr Names link_speed_names{"link speed of a lane", link_speed_entries, "IBTA vol 1, 14.2.5.6"};

inline constexpr Name link_speed_extended_entries[] = {
    {0, "none", "no extended speed"}, {1, "14.0625 Gb/s", "FDR"}, {2, "25.78125 Gb/s", "EDR"},
    {4, "53.125 Gb/s", "HDR"},        {8, "106.25 Gb/s", "NDR"},
};
inline constexpr Names link_speed_extended_names{"extended link speed of a lane", link_speed_extended_entries,
                                                 "IBTA vol 1, 14.2.5.6"};

inline constexpr Name vl_count_entries[] = {
    {1, "VL0", ""}, {2, "VL0 to VL1", ""}, {3, "VL0 to VL3", ""}, {4, "VL0 to VL7", ""}, {5, "VL0 to VL14", ""},
};
inline constexpr Names vl_count_names{"virtual lanes", vl_count_entries, "IBTA vol 1, 14.2.5.6"};

inline constexpr Name sm_state_entries[] = {
    {0, "Not-active", "disabled by another subnet manager"},
    {1, "Discovering", "sweeping the subnet"},
    {2, "Standby", "ready to take over"},
    {3, "Master", "manages the subnet"},
};
inline constexpr Names sm_state_names{"SM state", sm_state_entries, "IBTA vol 1, 14.2.5.13"};

inline constexpr Name notice_type_entries[] = {
    {0, "Fatal", ""},         {1, "Urgent", ""},
    {2, "Security", ""},      {3, "Subnet Management", ""},
    {4, "Informational", ""}, {0x7f, "Empty", "no notice"},
};
inline constexpr Names notice_type_names{"notice type", notice_type_entries, "IBTA vol 1, 13.4.8.2"};

inline constexpr Name notice_producer_entries[] = {
    {1, "channel adapter", ""}, {2, "switch", ""}, {3, "router", ""}, {4, "class manager", ""}};
inline constexpr Names notice_producer_names{"producer type", notice_producer_entries, "IBTA vol 1, 13.4.8.2"};

inline constexpr Name trap_entries[] = {
    {64, "GID in service", "a port is reachable"},
    {65, "GID out of service", "a port is no longer reachable"},
    {66, "multicast group created", ""},
    {67, "multicast group deleted", ""},
    {68, "paths invalid", "paths may have changed"},
    {69, "paths computed", "the changed paths can be queried"},
    {128, "link state change", "the link state of a switch port changed"},
    {129, "local link integrity", "threshold of local link integrity errors reached"},
    {130, "excessive buffer overrun", "threshold of buffer overruns reached"},
    {131, "flow control watchdog", "the neighbor sent no flow control packets in time"},
    {144, "port changed", "the capability mask, link width, link speed or node description changed"},
    {145, "system image GUID changed", ""},
    {256, "bad M_Key", "a subnet management packet had the wrong key"},
    {257, "bad P_Key", "a packet had the wrong partition key"},
    {258, "bad Q_Key", "a packet had the wrong Q_Key"},
    {259, "bad P_Key at a switch", "a switch port rejected a packet because of its P_Key"},
};
inline constexpr Names trap_names{"trap number", trap_entries, "IBTA vol 1, 14.2.5.1"};

/// Header of LID-routed subnet management packets between the common header and the attribute.
struct SmpLid {
  static constexpr std::string_view name = "smp", title = "Subnet Management Packet, LID routed",
                                    section = "IBTA vol 1, 14.2.1.1";
  static constexpr std::size_t size = 40;
  static constexpr std::array fields{
      field("mkey", 0, 64, "key that the port requires").hex().alias("infiniband.smplid.mkey"),
      reserved("reserved", 64, 256),
  };
};

/// Header of directed-route subnet management packets.
struct SmpDirected {
  static constexpr std::string_view name = "smpdr", title = "Subnet Management Packet, directed route",
                                    section = "IBTA vol 1, 14.2.1.2";
  static constexpr std::size_t size = 40;
  static constexpr std::array fields{
      field("mkey", 0, 64, "key that the port requires").hex().alias("infiniband.smplid.mkey"),
      field("dr_slid", 64, 16, "LID at the start of the directed part of the route (0xffff: the sender)")
          .alias("infiniband.smpdirected.drslid"),
      field("dr_dlid", 80, 16, "LID at the end of the directed part of the route (0xffff: the receiver)")
          .alias("infiniband.smpdirected.drdlid"),
      reserved("reserved", 96, 224),
  };
};

/// Lists of ports after the attribute of a directed-route packet, with one byte per hop. The first byte of each list is
/// unused.
struct SmpPath {
  static constexpr std::string_view name = "smppath", title = "Directed route", section = "IBTA vol 1, 14.2.1.2";
  static constexpr std::size_t size = 128;
  static constexpr std::array fields{
      field("initial", 0, 512, "outbound port at each hop of the forward path")
          .alias("infiniband.smpdirected.initialpath"),
      field("return", 512, 512, "outbound port at each hop of the return path")
          .alias("infiniband.smpdirected.returnpath"),
  };
};

/// An attribute whose name is known, but whose fields are not decoded.
struct SmpData {
  static constexpr std::string_view name = "smpdata", title = "Subnet management attribute",
                                    section = "IBTA vol 1, 14.2.5";
  static constexpr std::size_t size = 64;
  static constexpr std::array fields{field("data", 0, 512, "not decoded")};
};

struct NodeDescription {
  static constexpr std::string_view name = "nodedescription", title = "NodeDescription",
                                    section = "IBTA vol 1, 14.2.5.2";
  static constexpr std::size_t size = 64;
  static constexpr std::array fields{
      field("text", 0, 512, "name of the node").as(Display::text).alias("infiniband.nodedescription.nodestring"),
  };
};

namespace detail {

/// Returns the concatenation of tables of rows.
template <std::size_t... N>
constexpr auto rows(const std::array<Field, N>&... tables) {
  std::array<Field, (N + ...)> all{};
  auto out = all.begin();
  ((out = std::copy(tables.begin(), tables.end(), out)), ...);
  return all;
}
/// Moves rows by `bits`. Does not support rows with conditions, because the conditions use offsets from the header.
template <std::size_t N>
constexpr std::array<Field, N> moved(std::array<Field, N> table, unsigned bits) {
  for (Field& f : table) {
    if (f.present) throw "a conditional row cannot be moved";
    f.bit = static_cast<std::uint16_t>(f.bit + bits);
  }
  return table;
}
/// Returns consecutive rows that differ only in name and position.
template <std::size_t N>
constexpr std::array<Field, N> repeated(const std::string_view (&names)[N], unsigned width, std::string_view meaning,
                                        Display display) {
  std::array<Field, N> table{};
  for (std::size_t i = 0; i < N; ++i)
    table[i] = field(names[i], static_cast<unsigned>(i) * width, width, meaning).as(display);
  return table;
}

inline constexpr std::array node_info_rows{
    field("base_version", 0, 8, "base version of MADs").alias("infiniband.nodeinfo.baseversion"),
    field("class_version", 8, 8, "version of subnet management").alias("infiniband.nodeinfo.classversion"),
    field("node_type", 16, 8, "type of the node").of(node_type_names).alias("infiniband.nodeinfo.nodetype"),
    field("num_ports", 24, 8, "physical ports").alias("infiniband.nodeinfo.numports"),
    field("system_image_guid", 32, 64, "GUID that all nodes of one system share")
        .as(Display::guid)
        .alias("infiniband.nodeinfo.systemimageguid"),
    field("node_guid", 96, 64, "GUID of the node").as(Display::guid).alias("infiniband.nodeinfo.nodeguid"),
    field("port_guid", 160, 64, "GUID of the responding port (of a switch: of port 0)")
        .as(Display::guid)
        .alias("infiniband.nodeinfo.portguid"),
    field("partition_cap", 224, 16, "entries of the partition table").alias("infiniband.nodeinfo.partitioncap"),
    field("device_id", 240, 16, "the vendor's device ID").hex().alias("infiniband.nodeinfo.deviceid"),
    field("revision", 256, 32, "revision of the device").hex().alias("infiniband.nodeinfo.revision"),
    field("local_port_num", 288, 8, "number of the port that received the packet")
        .alias("infiniband.nodeinfo.localportnum"),
    field("vendor_id", 296, 24, "OUI of the vendor").hex().alias("infiniband.nodeinfo.vendorid"),
};

inline constexpr std::array port_info_rows{
    field("mkey", 0, 64, "key that the port requires (0 in responses to requests without this key)")
        .hex()
        .alias("infiniband.portinfo.m_key"),
    field("gid_prefix", 64, 64, "first half of the port's GIDs").hex().alias("infiniband.portinfo.guid"),
    field("lid", 128, 16, "the port's base LID").alias("infiniband.portinfo.lid"),
    field("master_sm_lid", 144, 16, "LID of the master subnet manager").alias("infiniband.portinfo.mastersmlid"),
    field("capability_mask", 160, 32, "bits: capabilities of the port")
        .hex()
        .alias("infiniband.portinfo.capabilitymask"),
    field("capability_mask.hierarchy_info", 160, 1, "has hierarchy information"),
    field("capability_mask.multicast_fdb_top", 161, 1, "has MulticastFDBTop"),
    field("capability_mask.multicast_pkey_trap_suppression", 162, 1, "can suppress multicast P_Key traps"),
    field("capability_mask.vendor_mads_table", 163, 1, "has the vendor specific MADs table"),
    field("capability_mask.link_speed_width_pairs", 164, 1, "has the link speed and width pairs table")
        .alias("infiniband.portinfo.capabilitymask.linkspeedwidthpairstablesupported"),
    field("capability_mask.other_local_changes_notice", 165, 1, "trap 144 reports other local changes")
        .alias("infiniband.portinfo.capabilitymask.otherlocalchangesnoticesupported"),
    field("capability_mask.client_reregistration", 166, 1, "supports client reregistration")
        .alias("infiniband.portinfo.capabilitymask.clientregistrationsupported"),
    field("capability_mask.link_round_trip_latency", 167, 1, "measures the link's round trip")
        .alias("infiniband.portinfo.capabilitymask.linkroundtriplatencysupported"),
    field("capability_mask.boot_management", 168, 1, "supports boot management")
        .alias("infiniband.portinfo.capabilitymask.bootmanagementsupported"),
    field("capability_mask.capability_mask_notice", 169, 1, "trap 144 reports changes of this mask")
        .alias("infiniband.portinfo.capabilitymask.capabilitymasknoticesupported"),
    field("capability_mask.dr_notice", 170, 1, "trap 256 contains directed routes")
        .alias("infiniband.portinfo.capabilitymask.drnoticesupported"),
    field("capability_mask.vendor_class", 171, 1, "supports a vendor class")
        .alias("infiniband.portinfo.capabilitymask.vendorclasssupported"),
    field("capability_mask.device_management", 172, 1, "supports device management")
        .alias("infiniband.portinfo.capabilitymask.devicemanagementsupported"),
    field("capability_mask.reinit", 173, 1, "supports InitType and InitTypeReply")
        .alias("infiniband.portinfo.capabilitymask.reinitsupported"),
    field("capability_mask.snmp_tunneling", 174, 1, "supports SNMP tunneling")
        .alias("infiniband.portinfo.capabilitymask.snmptunnelingsupported"),
    field("capability_mask.communication_management", 175, 1, "supports communication management")
        .alias("infiniband.portinfo.capabilitymask.communicationmanagementsupported"),
    field("capability_mask.capability_mask2", 176, 1, "has CapabilityMask2"),
    field("capability_mask.extended_speeds", 177, 1, "supports extended link speeds"),
    field("capability_mask.cable_info", 178, 1, "supports cable information"),
    field("capability_mask.pkey_switch_trap", 179, 1, "switch: external ports send P_Key traps")
        .alias("infiniband.portinfo.capabilitymask.pkeyswitchexternalporttrapsupported"),
    field("capability_mask.system_image_guid", 180, 1, "has a system image GUID")
        .alias("infiniband.portinfo.capabilitymask.systemimageguidsupported"),
    field("capability_mask.sm_disabled", 181, 1, "its subnet manager is disabled")
        .alias("infiniband.portinfo.capabilitymask.smdisabled"),
    field("capability_mask.led_info", 182, 1, "has a LED").alias("infiniband.portinfo.capabilitymask.ledinfosupported"),
    field("capability_mask.pkey_nvram", 183, 1, "keeps P_Keys when powered off")
        .alias("infiniband.portinfo.capabilitymask.pkeynvram"),
    field("capability_mask.mkey_nvram", 184, 1, "keeps the M_Key when powered off")
        .alias("infiniband.portinfo.capabilitymask.mkeynvram"),
    field("capability_mask.sl_mapping", 185, 1, "maps service levels to virtual lanes")
        .alias("infiniband.portinfo.capabilitymask.slmappingsupported"),
    field("capability_mask.automatic_migration", 186, 1, "supports automatic path migration")
        .alias("infiniband.portinfo.capabilitymask.automaticmigrationsupported"),
    field("capability_mask.optional_ipd", 187, 1, "supports optional inter-packet delays")
        .alias("infiniband.portinfo.capabilitymask.optionalipdsupported"),
    field("capability_mask.trap", 188, 1, "sends traps").alias("infiniband.portinfo.capabilitymask.trapsupported"),
    field("capability_mask.notice", 189, 1, "keeps notices")
        .alias("infiniband.portinfo.capabilitymask.noticesupported"),
    field("capability_mask.sm", 190, 1, "has a subnet manager").alias("infiniband.portinfo.capabilitymask.issm"),
    reserved("capability_mask.reserved", 191, 1),
    field("diag_code", 192, 16, "0: no error").hex().alias("infiniband.portinfo.diagcode"),
    field("mkey_lease_period", 208, 16, "time until the M_Key expires, in seconds (0: it does not expire)")
        .alias("infiniband.portinfo.m_keyleaseperiod"),
    field("local_port_num", 224, 8, "number of the port that received the packet")
        .alias("infiniband.portinfo.localportnum"),
    field("link_width_enabled", 232, 8, "bits: 1x, 4x, 8x, 12x, 2x")
        .hex()
        .alias("infiniband.portinfo.linkwidthenabled"),
    field("link_width_supported", 240, 8, "bits: 1x, 4x, 8x, 12x, 2x")
        .hex()
        .alias("infiniband.portinfo.linkwidthsupported"),
    field("link_width_active", 248, 8, "active link width")
        .of(link_width_names)
        .alias("infiniband.portinfo.linkwidthactive"),
    field("link_speed_supported", 256, 4, "bits: SDR, DDR, QDR").hex().alias("infiniband.portinfo.linkspeedsupported"),
    field("port_state", 260, 4, "state of the port").of(port_state_names).alias("infiniband.portinfo.portstate"),
    field("port_physical_state", 264, 4, "physical state of the link")
        .of(port_physical_state_names)
        .alias("infiniband.portinfo.portphysicalstate"),
    field("link_down_default_state", 268, 4, "physical state that the port enters when the link goes down")
        .of(link_down_default_names)
        .alias("infiniband.portinfo.linkdowndefaultstate"),
    field("mkey_protect_bits", 272, 2, "level of access that requests without the M_Key have")
        .alias("infiniband.portinfo.m_keyprotectbits"),
    reserved("reserved", 274, 3),
    field("lmc", 277, 3, "the port has 2^LMC LIDs").alias("infiniband.portinfo.lmc"),
    field("link_speed_active", 280, 4, "active link speed")
        .of(link_speed_names)
        .alias("infiniband.portinfo.linkspeedactive"),
    field("link_speed_enabled", 284, 4, "bits: SDR, DDR, QDR").hex().alias("infiniband.portinfo.linkspeedenabled"),
    field("neighbor_mtu", 288, 4, "MTU of this link").of(mtu_names).alias("infiniband.portinfo.neighbormtu"),
    field("master_sm_sl", 292, 4, "service level toward the subnet manager").alias("infiniband.portinfo.mastersmsl"),
    field("vl_cap", 296, 4, "data virtual lanes that the port supports")
        .of(vl_count_names)
        .alias("infiniband.portinfo.vlcap"),
    field("init_type", 300, 4, "bits: requested initialization").hex().alias("infiniband.portinfo.inittype"),
    field("vl_high_limit", 304, 8, "amount of high-priority data that is sent before low-priority data")
        .alias("infiniband.portinfo.vlhighlimit"),
    field("vl_arbitration_high_cap", 312, 8, "entries of the arbitration table for high priority")
        .alias("infiniband.portinfo.vlarbitrationhighcap"),
    field("vl_arbitration_low_cap", 320, 8, "entries of the arbitration table for low priority")
        .alias("infiniband.portinfo.vlarbitrationlowcap"),
    field("init_type_reply", 328, 4, "bits: performed initialization").hex().alias("infiniband.portinfo.inittypereply"),
    field("mtu_cap", 332, 4, "largest MTU of the port").of(mtu_names).alias("infiniband.portinfo.mtucap"),
    field("vl_stall_count", 336, 3, "packets dropped in a row before a lane counts as stalled")
        .alias("infiniband.portinfo.vlstallcount"),
    field("hoq_life", 339, 5, "code of the maximum time at the head of a switch's queue (19 and more: unlimited)")
        .alias("infiniband.portinfo.hoqlife"),
    field("operational_vls", 344, 4, "data virtual lanes in use")
        .of(vl_count_names)
        .alias("infiniband.portinfo.operationalvls"),
    field("partition_enforcement_inbound", 348, 1, "the switch checks P_Keys of inbound packets")
        .alias("infiniband.portinfo.partitionenforcementinbound"),
    field("partition_enforcement_outbound", 349, 1, "the switch checks P_Keys of outbound packets")
        .alias("infiniband.portinfo.partitionenforcementoutbound"),
    field("filter_raw_inbound", 350, 1, "the switch drops inbound raw packets")
        .alias("infiniband.portinfo.filterrawinbound"),
    field("filter_raw_outbound", 351, 1, "the switch drops outbound raw packets")
        .alias("infiniband.portinfo.filterrawoutbound"),
    field("mkey_violations", 352, 16, "packets with a wrong M_Key").alias("infiniband.portinfo.m_keyviolations"),
    field("pkey_violations", 368, 16, "packets with a wrong P_Key").alias("infiniband.portinfo.p_keyviolations"),
    field("qkey_violations", 384, 16, "packets with a wrong Q_Key").alias("infiniband.portinfo.q_keyviolations"),
    field("guid_cap", 400, 8, "entries of the GUID table").alias("infiniband.portinfo.guidcap"),
    field("client_reregister", 408, 1, "clients shall repeat their registrations")
        .alias("infiniband.portinfo.clientreregister"),
    field("multicast_pkey_trap_suppression", 409, 2, "whether P_Key traps for multicast packets are suppressed"),
    field("subnet_timeout", 411, 5, "code of the maximum propagation time through the subnet")
        .alias("infiniband.portinfo.subnettimeout"),
    field("subnet_timeout.limit", 411, 5, "maximum propagation time through the subnet")
        .as(Display::time)
        .means(&exponential_time_ns),
    reserved("reserved2", 416, 3),
    field("response_time", 419, 5, "code for the response time limit").alias("infiniband.portinfo.resptimevalue"),
    field("response_time.limit", 419, 5, "response time limit").as(Display::time).means(&exponential_time_ns),
    field("local_phy_errors", 424, 4, "threshold of local physical errors").alias("infiniband.portinfo.localphyerrors"),
    field("overrun_errors", 428, 4, "threshold of buffer overruns").alias("infiniband.portinfo.overrunerrors"),
    field("max_credit_hint", 432, 16, "maximum flow control credits, in units of 64 bytes")
        .alias("infiniband.portinfo.maxcredithint"),
    reserved("reserved3", 448, 8),
    field("link_round_trip_latency", 456, 24,
          "round-trip latency of the link in units of 4 ns (all ones: not measured)")
        .alias("infiniband.portinfo.linkroundtriplatency"),
    field("capability_mask2", 480, 16, "more bits: capabilities of the port").hex(),
    field("capability_mask2.ndr", 485, 1, "supports NDR"),
    field("capability_mask2.hdr", 490, 1, "supports HDR"),
    field("capability_mask2.link_width_2x", 491, 1, "supports 2x"),
    field("capability_mask2.switch_port_state_table", 492, 1, "has the switch port state table"),
    field("capability_mask2.virtualization", 493, 1, "supports virtual ports"),
    field("capability_mask2.port_info_extended", 494, 1, "has PortInfoExtended"),
    field("capability_mask2.set_node_description", 495, 1, "the node description can be set"),
    field("link_speed_ext_active", 496, 4, "active extended link speed").of(link_speed_extended_names),
    field("link_speed_ext_supported", 500, 4, "bits: FDR, EDR, HDR, NDR").hex(),
    reserved("reserved4", 504, 3),
    field("link_speed_ext_enabled", 507, 5, "bits: FDR, EDR, HDR, NDR").hex(),
};

inline constexpr std::string_view guid_row_names[] = {"guid0", "guid1", "guid2", "guid3",
                                                      "guid4", "guid5", "guid6", "guid7"};
inline constexpr std::string_view pkey_row_names[] = {
    "pkey0",  "pkey1",  "pkey2",  "pkey3",  "pkey4",  "pkey5",  "pkey6",  "pkey7",  "pkey8",  "pkey9",  "pkey10",
    "pkey11", "pkey12", "pkey13", "pkey14", "pkey15", "pkey16", "pkey17", "pkey18", "pkey19", "pkey20", "pkey21",
    "pkey22", "pkey23", "pkey24", "pkey25", "pkey26", "pkey27", "pkey28", "pkey29", "pkey30", "pkey31"};

/// True if the notice at `h` is defined by the specification and has a trap number from `First` to `Last`.
template <unsigned First, unsigned Last = First>
constexpr bool trap_is(const std::uint8_t* h) {
  const std::uint64_t number = load_be(h + 4, 2);
  return h[0] >> 7 && number >= First && number <= Last;
}
constexpr bool trap_has_lid(const std::uint8_t* h) {
  return trap_is<129, 131>(h) || trap_is<144, 145>(h) || trap_is<256>(h);
}
constexpr bool generic_notice(const std::uint8_t* h) { return h[0] >> 7; }
constexpr bool vendor_notice(const std::uint8_t* h) { return !generic_notice(h); }

inline constexpr std::array notice_rows{
    field("is_generic", 0, 1, "1: defined by the specification (0: vendor-specific)")
        .alias("infiniband.notice.isgeneric"),
    field("type", 1, 7, "urgency").of(notice_type_names).alias("infiniband.notice.type"),
    field("producer", 8, 24, "sender of the notice").hex().alias("infiniband.notice.producertypevendorid"),
    field("producer.type", 8, 24, "type of the node, if the notice is generic")
        .of(notice_producer_names)
        .when(&generic_notice),
    field("producer.vendor_id", 8, 24, "OUI of the vendor, if the notice is vendor-specific")
        .hex()
        .when(&vendor_notice),
    field("trap_number", 32, 16, "number of the event (vendor-specific notice: device ID)")
        .alias("infiniband.notice.trapnumberdeviceid"),
    field("trap_number.event", 32, 16, "generic: event").of(trap_names).when(&generic_notice),
    field("issuer_lid", 48, 16, "LID of the issuer").alias("infiniband.notice.issuerlid"),
    field("toggle", 64, 1, "toggles whenever notices are cleared").alias("infiniband.notice.noticetoggle"),
    field("count", 65, 15, "number of queued notices").alias("infiniband.notice.noticecount"),
    field("details", 80, 432, "depends on the trap").in("IBTA vol 1, 14.2.5.1").alias("infiniband.notice.datadetails"),
    field("details.gid", 128, 128, "traps 64 to 67: GID of the port or the multicast group")
        .as(Display::ipv6)
        .when(&trap_is<64, 67>)
        .alias("infiniband.trap.gidaddr"),
    field("details.switch_lid", 80, 16, "trap 128: LID of the switch")
        .when(&trap_is<128>)
        .alias("infiniband.trap.lidaddr"),
    field("details.lid", 96, 16, "traps 129 to 131, 144, 145, 256: LID of the port")
        .when(&trap_has_lid)
        .alias("infiniband.trap.lidaddr"),
    field("details.port", 112, 8, "traps 129 to 131: port number")
        .when(&trap_is<129, 131>)
        .alias("infiniband.trap.portno"),
    field("details.other_local_changes", 127, 1, "trap 144: changes other than the mask")
        .when(&trap_is<144>)
        .alias("infiniband.trap.otherlocalchanges"),
    field("details.capability_mask", 128, 32, "trap 144: current mask of PortInfo")
        .hex()
        .when(&trap_is<144>)
        .alias("infiniband.trap.capabilitymask"),
    field("details.sm_priority_change", 172, 1, "trap 144: the subnet manager's priority changed").when(&trap_is<144>),
    field("details.link_speed_change", 173, 1, "trap 144: LinkSpeedEnabled changed")
        .when(&trap_is<144>)
        .alias("infiniband.trap.linkspeecenabledchange"),
    field("details.link_width_change", 174, 1, "trap 144: LinkWidthEnabled changed")
        .when(&trap_is<144>)
        .alias("infiniband.trap.linkwidthenabledchange"),
    field("details.node_description_change", 175, 1, "trap 144: NodeDescription changed")
        .when(&trap_is<144>)
        .alias("infiniband.trap.nodedescriptionchange"),
    field("details.system_image_guid", 128, 64, "trap 145: the new GUID")
        .as(Display::guid)
        .when(&trap_is<145>)
        .alias("infiniband.trap.systemimageguid"),
    field("details.dr_slid", 112, 16, "trap 256: DrSLID of the packet")
        .when(&trap_is<256>)
        .alias("infiniband.trap.drslid"),
    field("details.method", 128, 8, "trap 256: method of the packet")
        .hex()
        .of(mad_method_names)
        .when(&trap_is<256>)
        .alias("infiniband.trap.method"),
    field("details.attribute_id", 144, 16, "trap 256: attribute of the packet")
        .hex()
        .of(sm_attribute_names)
        .when(&trap_is<256>)
        .alias("infiniband.trap.attributeid"),
    field("details.attribute_modifier", 160, 32, "trap 256: attribute modifier of the packet")
        .hex()
        .when(&trap_is<256>)
        .alias("infiniband.trap.attributemodifier"),
    field("details.mkey", 192, 64, "trap 256: the wrong key").hex().when(&trap_is<256>).alias("infiniband.trap.mkey"),
    field("details.dr_notice", 264, 1, "trap 256: the packet had a directed route")
        .when(&trap_is<256>)
        .alias("infiniband.trap.drnotice"),
    field("details.dr_path_truncated", 265, 1, "trap 256: the return path is truncated")
        .when(&trap_is<256>)
        .alias("infiniband.trap.drpathtruncated"),
    field("details.dr_hop_count", 266, 6, "trap 256: number of bytes in the return path")
        .when(&trap_is<256>)
        .alias("infiniband.trap.drhopcount"),
    field("details.dr_return_path", 272, 240, "trap 256: the packet's return path")
        .when(&trap_is<256>)
        .alias("infiniband.trap.drnoticereturnpath"),
    field("details.lid1", 96, 16, "traps 257 to 259: source LID of the packet")
        .when(&trap_is<257, 259>)
        .alias("infiniband.trap.lidaddr1"),
    field("details.lid2", 112, 16, "traps 257 to 259: destination LID of the packet")
        .when(&trap_is<257, 259>)
        .alias("infiniband.trap.lidaddr2"),
    field("details.key", 128, 32, "traps 257, 258: the wrong key")
        .hex()
        .when(&trap_is<257, 258>)
        .alias("infiniband.trap.key"),
    field("details.sl", 160, 4, "traps 257, 258: service level").when(&trap_is<257, 258>).alias("infiniband.trap.sl"),
    field("details.qp1", 168, 24, "traps 257, 258: source queue pair")
        .hex()
        .when(&trap_is<257, 258>)
        .alias("infiniband.trap.qp1"),
    field("details.qp2", 200, 24, "traps 257, 258: destination queue pair")
        .hex()
        .when(&trap_is<257, 258>)
        .alias("infiniband.trap.qp2"),
    field("details.gid1", 224, 128, "traps 257, 258: source GID")
        .as(Display::ipv6)
        .when(&trap_is<257, 258>)
        .alias("infiniband.trap.gidaddr1"),
    field("details.gid2", 352, 128, "traps 257, 258: destination GID")
        .as(Display::ipv6)
        .when(&trap_is<257, 258>)
        .alias("infiniband.trap.gidaddr2"),
    field("details.valid", 80, 16, "trap 259: bits: which of the following fields are valid").hex().when(&trap_is<259>),
    field("details.switch_pkey", 128, 16, "trap 259: the rejected partition key").hex().when(&trap_is<259>),
    field("details.switch_sl", 144, 4, "trap 259: service level").when(&trap_is<259>),
    field("details.switch_qp1", 152, 24, "trap 259: source queue pair").hex().when(&trap_is<259>),
    field("details.switch_qp2", 184, 24, "trap 259: destination queue pair").hex().when(&trap_is<259>),
    field("details.switch_gid1", 208, 128, "trap 259: source GID").as(Display::ipv6).when(&trap_is<259>),
    field("details.switch_gid2", 336, 128, "trap 259: destination GID").as(Display::ipv6).when(&trap_is<259>),
    field("details.refusing_lid", 464, 16, "trap 259: LID of the switch").when(&trap_is<259>),
    field("details.refusing_port", 480, 8, "trap 259: port number of the switch").when(&trap_is<259>),
};

}  // namespace detail

struct NodeInfo {
  static constexpr std::string_view name = "nodeinfo", title = "NodeInfo", section = "IBTA vol 1, 14.2.5.3";
  static constexpr std::size_t size = 64;
  static constexpr auto fields = detail::rows(detail::node_info_rows, std::array{reserved("reserved", 320, 192)});
};

struct SwitchInfo {
  static constexpr std::string_view name = "switchinfo", title = "SwitchInfo", section = "IBTA vol 1, 14.2.5.4";
  static constexpr std::size_t size = 64;
  static constexpr std::array fields{
      field("linear_fdb_cap", 0, 16, "entries of the linear forwarding table")
          .alias("infiniband.switchinfo.linearfdbcap"),
      field("random_fdb_cap", 16, 16, "entries of the random forwarding table")
          .alias("infiniband.switchinfo.randomfdbcap"),
      field("multicast_fdb_cap", 32, 16, "entries of the multicast forwarding table")
          .alias("infiniband.switchinfo.multicastfdbcap"),
      field("linear_fdb_top", 48, 16, "last valid LID of the linear forwarding table")
          .alias("infiniband.switchinfo.linearfdbtop"),
      field("default_port", 64, 8, "port for LIDs that are not in the random table")
          .alias("infiniband.switchinfo.defaultport"),
      field("default_multicast_primary_port", 72, 8, "port for multicast LIDs that are not in the table")
          .alias("infiniband.switchinfo.defaultmulticastprimaryport"),
      field("default_multicast_not_primary_port", 80, 8, "port for these packets if they arrive on the primary port")
          .alias("infiniband.switchinfo.defaultmulticastnotprimaryport"),
      field("life_time_value", 88, 5, "code of the maximum time in the switch (20 and more: unlimited)")
          .alias("infiniband.switchinfo.lifetimevalue"),
      field("port_state_change", 93, 1, "a port's state changed (writing 1 clears it)")
          .alias("infiniband.switchinfo.portstatechange"),
      field("optimized_sl_to_vl", 94, 2, "many SL to VL tables can be set at once")
          .alias("infiniband.switchinfo.optimizedsltovlmappingprogramming"),
      field("lids_per_port", 96, 16, "LIDs of a port in the random forwarding table")
          .alias("infiniband.switchinfo.lidsperport"),
      field("partition_enforcement_cap", 112, 16, "entries of a port's partition table")
          .alias("infiniband.switchinfo.partitionenforcementcap"),
      field("inbound_enforcement_cap", 128, 1, "can check P_Keys of inbound packets")
          .alias("infiniband.switchinfo.inboundenforcementcap"),
      field("outbound_enforcement_cap", 129, 1, "can check P_Keys of outbound packets")
          .alias("infiniband.switchinfo.outboundenforcementcap"),
      field("filter_raw_inbound_cap", 130, 1, "can drop inbound raw packets")
          .alias("infiniband.switchinfo.filterrawinboundcap"),
      field("filter_raw_outbound_cap", 131, 1, "can drop outbound raw packets")
          .alias("infiniband.switchinfo.filterrawoutboundcap"),
      field("enhanced_port0", 132, 1, "port 0 has all capabilities of a channel adapter's port")
          .alias("infiniband.switchinfo.enhancedportzero"),
      reserved("reserved", 133, 11),
      field("multicast_fdb_top", 144, 16, "last valid LID of the multicast forwarding table"),
      reserved("reserved2", 160, 352),
  };
};

struct GuidInfo {
  static constexpr std::string_view name = "guidinfo", title = "GUIDInfo", section = "IBTA vol 1, 14.2.5.5";
  static constexpr std::size_t size = 64;
  static constexpr auto fields = detail::repeated(detail::guid_row_names, 64, "one of the port's GUIDs", Display::guid);
};

struct PortInfo {
  static constexpr std::string_view name = "portinfo", title = "PortInfo", section = "IBTA vol 1, 14.2.5.6";
  static constexpr std::size_t size = 64;
  static constexpr auto fields = detail::port_info_rows;
};

struct PKeyTable {
  static constexpr std::string_view name = "pkeytable", title = "P_KeyTable", section = "IBTA vol 1, 14.2.5.7";
  static constexpr std::size_t size = 64;
  static constexpr auto fields =
      detail::repeated(detail::pkey_row_names, 16, "partition key (top bit: full member)", Display::hexadecimal);
};

struct SmInfo {
  static constexpr std::string_view name = "sminfo", title = "SMInfo", section = "IBTA vol 1, 14.2.5.13";
  static constexpr std::size_t size = 64;
  static constexpr std::array fields{
      field("guid", 0, 64, "port of the subnet manager").as(Display::guid).alias("infiniband.sminfo.guid"),
      field("sm_key", 64, 64, "key that subnet managers share").hex().alias("infiniband.sminfo.sm_key"),
      field("act_count", 128, 32, "incremented while the subnet manager is active").alias("infiniband.sminfo.actcount"),
      field("priority", 160, 4, "priority of the subnet manager (15: highest)").alias("infiniband.sminfo.priority"),
      field("state", 164, 4, "state of the subnet manager").of(sm_state_names).alias("infiniband.sminfo.smstate"),
      reserved("reserved", 168, 344),
  };
};

/// A trap, or a stored notice.
struct Notice {
  static constexpr std::string_view name = "notice", title = "Notice", section = "IBTA vol 1, 13.4.8.2";
  static constexpr std::size_t size = 64;
  static constexpr auto fields = detail::notice_rows;
};

}  // namespace rdmawire
