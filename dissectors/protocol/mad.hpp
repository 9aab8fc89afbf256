#pragma once
/// Management datagrams: the common header, RMPP, and the headers that several classes use. IBTA vol 1, chapter 13. The
/// attributes of the classes are in smp.hpp, sa.hpp, pm.hpp and cm.hpp.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

/// Numbers of management classes. IBTA vol 1, 13.4.4
namespace management_class {
inline constexpr std::uint8_t subnet_lid = 0x01, subnet_directed = 0x81, subnet_administration = 0x03,
                              performance = 0x04, device_management = 0x06, communication = 0x07,
                              device_administration = 0x10, boot_image = 0x12, congestion = 0x21, vendor_first = 0x30,
                              vendor_last = 0x4f;
}  // namespace management_class

/// Methods of management datagrams. The top bit is set in responses. IBTA vol 1, 13.4.5
namespace mad_method {
inline constexpr std::uint8_t get = 0x01, set = 0x02, send = 0x03, trap = 0x05, report = 0x06, trap_repress = 0x07,
                              get_table = 0x12, get_multi = 0x14, erase = 0x15, get_response = 0x81,
                              report_response = 0x86, get_table_response = 0x92, get_multi_response = 0x94,
                              erase_response = 0x95;
}  // namespace mad_method

/// Converts a time code of management datagrams to nanoseconds: 4.096 us * 2^code. The result saturates at all ones.
/// IBTA vol 1, 13.4.6.2 (clause number not verified)
constexpr std::uint64_t exponential_time_ns(std::uint64_t code) { return code < 52 ? 4096ULL << code : ~0ULL; }

inline constexpr Name mtu_entries[] = {
    {1, "256", ""}, {2, "512", ""}, {3, "1024", ""}, {4, "2048", ""}, {5, "4096", ""},
};
inline constexpr Names mtu_names{"MTU code", mtu_entries, "IBTA vol 1, 14.2.5.6"};

inline constexpr Name rate_entries[] = {
    {2, "2.5 Gb/s", ""},  {3, "10 Gb/s", ""},   {4, "30 Gb/s", ""},    {5, "5 Gb/s", ""},    {6, "20 Gb/s", ""},
    {7, "40 Gb/s", ""},   {8, "60 Gb/s", ""},   {9, "80 Gb/s", ""},    {10, "120 Gb/s", ""}, {11, "14 Gb/s", ""},
    {12, "56 Gb/s", ""},  {13, "112 Gb/s", ""}, {14, "168 Gb/s", ""},  {15, "25 Gb/s", ""},  {16, "100 Gb/s", ""},
    {17, "200 Gb/s", ""}, {18, "300 Gb/s", ""}, {19, "28 Gb/s", ""},   {20, "50 Gb/s", ""},  {21, "400 Gb/s", ""},
    {22, "600 Gb/s", ""}, {23, "800 Gb/s", ""}, {24, "1200 Gb/s", ""},
};
inline constexpr Names rate_names{"path rate", rate_entries, "IBTA vol 1, 15.2.5.16"};

inline constexpr Name management_class_entries[] = {
    {0x01, "SubnMgt (LID routed)", "subnet management, routed by LIDs"},
    {0x03, "SubnAdm", "subnet administration: queries of the subnet manager's database"},
    {0x04, "PerfMgt", "performance management: counters"},
    {0x05, "BM", "baseboard management"},
    {0x06, "DevMgt", "device management: I/O units and their services"},
    {0x07, "ComMgt", "communication management: establishes and closes connections"},
    {0x08, "SNMP", "SNMP tunneling"},
    {0x09, "Vendor 0x09", "vendor specific, without an OUI"},
    {0x0a, "Vendor 0x0a", "vendor specific, without an OUI"},
    {0x0b, "Vendor 0x0b", "vendor specific, without an OUI"},
    {0x0c, "Vendor 0x0c", "vendor specific, without an OUI"},
    {0x0d, "Vendor 0x0d", "vendor specific, without an OUI"},
    {0x0e, "Vendor 0x0e", "vendor specific, without an OUI"},
    {0x0f, "Vendor 0x0f", "vendor specific, without an OUI"},
    {0x10, "DevAdm", "device administration"},
    {0x11, "BootMgt", "boot management"},
    {0x12, "BIS", "boot information service"},
    {0x21, "CongMgt", "congestion control"},
    {0x81, "SubnMgt (directed route)", "subnet management, routed by a list of ports"},
};
inline constexpr Names management_class_names{"management class", management_class_entries, "IBTA vol 1, 13.4.4"};

inline constexpr Name mad_method_entries[] = {
    {0x01, "Get", "requests an attribute"},
    {0x02, "Set", "sets an attribute, and requests its value"},
    {0x03, "Send", "a message without a MAD response"},
    {0x05, "Trap", "notifies the manager of an event"},
    {0x06, "Report", "forwards a trap to a subscriber"},
    {0x07, "TrapRepress", "the manager received the trap (stops its repetition)"},
    {0x12, "GetTable", "requests all matching records"},
    {0x13, "GetTraceTable", "requests the ports along a path"},
    {0x14, "GetMulti", "requests paths between several GIDs"},
    {0x15, "Delete", "deletes a record"},
    {0x81, "GetResp", "response to Get and Set"},
    {0x86, "ReportResp", "acknowledges a Report"},
    {0x92, "GetTableResp", "response to GetTable and GetTraceTable"},
    {0x94, "GetMultiResp", "answers GetMulti"},
    {0x95, "DeleteResp", "answers Delete"},
};
inline constexpr Names mad_method_names{"MAD method", mad_method_entries, "IBTA vol 1, 13.4.5 and 15.2.2"};

inline constexpr Name mad_status_entries[] = {
    {0, "ok", "no invalid fields"},
    {1, "bad version", "the base version, the class version or their combination is not supported"},
    {2, "unsupported method", "the method is not supported"},
    {3, "unsupported method and attribute", "the method is not supported for this attribute"},
    {7, "invalid field", "a field of the attribute or its modifier has an invalid value"},
};
inline constexpr Names mad_status_names{"MAD status: invalid fields", mad_status_entries, "IBTA vol 1, 13.4.7"};

inline constexpr Name sa_status_entries[] = {
    {0, "ok", ""},
    {1, "ERR_NO_RESOURCES", "subnet administration has no resources to respond"},
    {2, "ERR_REQ_INVALID", "the request is not valid"},
    {3, "ERR_NO_RECORDS", "no record matches"},
    {4, "ERR_TOO_MANY_RECORDS", "more than one record matches a Get"},
    {5, "ERR_REQ_INVALID_GID", "a GID in the request is not valid"},
    {6, "ERR_REQ_INSUFFICIENT_COMPONENTS", "required components are missing in the request"},
    {7, "ERR_REQ_DENIED", "access denied"},
    {8, "ERR_PRIORITY_SUGGESTED", "another priority was chosen"},
};
inline constexpr Names sa_status_names{"SA status", sa_status_entries, "IBTA vol 1, 15.2.3"};

inline constexpr Name sm_attribute_entries[] = {
    {0x0002, "Notice", ""},
    {0x0010, "NodeDescription", ""},
    {0x0011, "NodeInfo", ""},
    {0x0012, "SwitchInfo", ""},
    {0x0014, "GUIDInfo", ""},
    {0x0015, "PortInfo", ""},
    {0x0016, "P_KeyTable", ""},
    {0x0017, "SLtoVLMappingTable", ""},
    {0x0018, "VLArbitrationTable", ""},
    {0x0019, "LinearForwardingTable", ""},
    {0x001a, "RandomForwardingTable", ""},
    {0x001b, "MulticastForwardingTable", ""},
    {0x001c, "LinkSpeedWidthPairsTable", ""},
    {0x001d, "VendorSpecificMadsTable", ""},
    {0x0020, "SMInfo", ""},
    {0x0030, "VendorDiag", ""},
    {0x0031, "LedInfo", ""},
    {0xff90, "ExtendedPortInfo (Mellanox)", "vendor specific"},
};
inline constexpr Names sm_attribute_names{"subnet management attribute", sm_attribute_entries, "IBTA vol 1, 14.2.5"};

inline constexpr Name sa_attribute_entries[] = {
    {0x0001, "ClassPortInfo", ""},
    {0x0002, "Notice", ""},
    {0x0003, "InformInfo", ""},
    {0x0011, "NodeRecord", ""},
    {0x0012, "PortInfoRecord", ""},
    {0x0013, "SLtoVLMappingTableRecord", ""},
    {0x0014, "SwitchInfoRecord", ""},
    {0x0015, "LinearForwardingTableRecord", ""},
    {0x0016, "RandomForwardingTableRecord", ""},
    {0x0017, "MulticastForwardingTableRecord", ""},
    {0x0018, "SMInfoRecord", ""},
    {0x0020, "LinkRecord", ""},
    {0x0030, "GuidInfoRecord", ""},
    {0x0031, "ServiceRecord", ""},
    {0x0033, "P_KeyTableRecord", ""},
    {0x0035, "PathRecord", ""},
    {0x0036, "VLArbitrationTableRecord", ""},
    {0x0038, "MCMemberRecord", ""},
    {0x0039, "TraceRecord", ""},
    {0x003a, "MultiPathRecord", ""},
    {0x003b, "ServiceAssociationRecord", ""},
    {0x00f3, "InformInfoRecord", ""},
};
inline constexpr Names sa_attribute_names{"subnet administration attribute", sa_attribute_entries,
                                          "IBTA vol 1, 15.2.4"};

inline constexpr Name pm_attribute_entries[] = {
    {0x0001, "ClassPortInfo", ""},
    {0x0010, "PortSamplesControl", ""},
    {0x0011, "PortSamplesResult", ""},
    {0x0012, "PortCounters", ""},
    {0x0015, "PortRcvErrorDetails", ""},
    {0x0016, "PortXmitDiscardDetails", ""},
    {0x0017, "PortOpRcvCounters", ""},
    {0x0018, "PortFlowCtlCounters", ""},
    {0x0019, "PortVLOpPackets", ""},
    {0x001a, "PortVLOpData", ""},
    {0x001b, "PortVLXmitFlowCtlUpdateErrors", ""},
    {0x001c, "PortVLXmitWaitCounters", ""},
    {0x001d, "PortCountersExtended", ""},
    {0x001e, "PortSamplesResultExtended", ""},
    {0x0030, "SwPortVLCongestion", ""},
    {0x0036, "PortXmitDataSL", ""},
    {0x0037, "PortRcvDataSL", ""},
};
inline constexpr Names pm_attribute_names{"performance management attribute", pm_attribute_entries,
                                          "IBTA vol 1, 16.1.3 and 16.1.4"};

inline constexpr Name dm_attribute_entries[] = {
    {0x0001, "ClassPortInfo", ""},  {0x0002, "Notice", ""},
    {0x0010, "IOUnitInfo", ""},     {0x0011, "IOControllerProfile", ""},
    {0x0012, "ServiceEntries", ""}, {0x0020, "DiagnosticTimeout", ""},
    {0x0021, "PrepareToTest", ""},  {0x0022, "TestDeviceOnce", ""},
    {0x0023, "TestDeviceLoop", ""}, {0x0024, "DiagCode", ""},
};
inline constexpr Names dm_attribute_names{"device management attribute", dm_attribute_entries, "IBTA vol 1, 16.3.3"};

inline constexpr Name cm_attribute_entries[] = {
    {0x0001, "ClassPortInfo", ""},
    {0x0010, "REQ", "ConnectRequest: requests a connection"},
    {0x0011, "MRA", "MsgRcptAck: the message was received, but the reply is delayed"},
    {0x0012, "REJ", "ConnectReject: rejects or aborts the connection"},
    {0x0013, "REP", "ConnectReply: accepts, with the responder's parameters"},
    {0x0014, "RTU", "ReadyToUse: the connection is established"},
    {0x0015, "DREQ", "DisconnectRequest: requests that the connection is closed"},
    {0x0016, "DREP", "DisconnectReply: the connection is closed"},
    {0x0017, "SIDR_REQ", "ServiceIDResReq: requests the QP of a service ID"},
    {0x0018, "SIDR_REP", "ServiceIDResResp: returns the QP and its Q_Key"},
    {0x0019, "LAP", "LoadAlternatePath: proposes another path to migrate to"},
    {0x001a, "APR", "AlternatePathResponse"},
};
inline constexpr Names cm_attribute_names{"communication management attribute", cm_attribute_entries,
                                          "IBTA vol 1, 12.6 to 12.11"};

inline constexpr Name cc_attribute_entries[] = {
    {0x0001, "ClassPortInfo", ""},
    {0x0002, "Notice", ""},
    {0x0011, "CongestionInfo", ""},
    {0x0012, "CongestionKeyInfo", ""},
    {0x0013, "CongestionLog", ""},
    {0x0014, "SwitchCongestionSetting", ""},
    {0x0015, "SwitchPortCongestionSetting", ""},
    {0x0016, "CACongestionSetting", ""},
    {0x0017, "CongestionControlTable", ""},
    {0x0018, "TimeStamp", ""},
};
inline constexpr Names cc_attribute_names{"congestion control attribute", cc_attribute_entries,
                                          "IBTA vol 1, annex A10.4.3"};

/// The common header of all management datagrams. A datagram always has 256 bytes.
struct Mad {
  static constexpr std::string_view name = "mad", title = "Management Datagram", section = "IBTA vol 1, 13.4.3";
  static constexpr std::string_view kind = "class";
  static constexpr std::size_t size = 24;
  static constexpr std::uint32_t whole = 256;
  static constexpr std::uint8_t version = 1;  ///< base version

  template <std::uint8_t Class>
  static constexpr bool is(const std::uint8_t* h) {
    return h[1] == Class;
  }
  static constexpr bool is_subnet(const std::uint8_t* h) {
    return h[1] == management_class::subnet_lid || h[1] == management_class::subnet_directed;
  }
  static constexpr auto directed = &is<management_class::subnet_directed>;

  static constexpr std::array fields{
      field("base_version", 0, 8, "version of this header: 1").alias("infiniband.mad.baseversion").computed(),
      field("class", 8, 8, "management class")
          .hex()
          .of(management_class_names)
          .alias("infiniband.mad.mgmtclass")
          .computed(),
      field("class_version", 16, 8, "version of the class's format").alias("infiniband.mad.classversion").computed(),
      field("method", 24, 8, "operation on the attribute, such as Get or Set")
          .hex()
          .of(mad_method_names)
          .alias("infiniband.mad.method"),
      field("method.response", 24, 1, "R: response"),
      field("status", 32, 16, "result of the request (0: success)").hex().alias("infiniband.mad.status"),
      field("status.direction", 32, 1, "D: direction (0: outbound, 1: returning)")
          .in("IBTA vol 1, 14.2.1.2")
          .when(directed)
          .alias("infiniband.smpdirected.d"),
      field("status.sa", 32, 8, "status of subnet administration")
          .of(sa_status_names)
          .in("IBTA vol 1, 15.2.3")
          .when(&is<management_class::subnet_administration>),
      field("status.invalid", 43, 3, "invalid fields").of(mad_status_names).in("IBTA vol 1, 13.4.7"),
      field("status.redirect", 46, 1, "the request must be sent to another address, which ClassPortInfo contains")
          .in("IBTA vol 1, 13.4.7"),
      field("status.busy", 47, 1, "the request was discarded because the receiver is busy (retry)")
          .in("IBTA vol 1, 13.4.7"),
      field("class_specific", 48, 16, "meaning depends on the class").hex().alias("infiniband.mad.classspecific"),
      field("class_specific.hop_pointer", 48, 8, "index of the next hop of the path")
          .in("IBTA vol 1, 14.2.1.2")
          .when(directed)
          .alias("infiniband.smpdirected.hoppointer"),
      field("class_specific.hop_count", 56, 8, "number of hops of the path")
          .in("IBTA vol 1, 14.2.1.2")
          .when(directed)
          .alias("infiniband.smpdirected.hopcount"),
      field("transaction_id", 64, 64, "identifies the request in its response")
          .hex()
          .alias("infiniband.mad.transactionid"),
      field("attribute_id", 128, 16, "attribute that the method reads or changes")
          .hex()
          .alias("infiniband.mad.attributeid")
          .computed(),
      field("attribute_id.sm", 128, 16, "subnet management: attribute").hex().of(sm_attribute_names).when(&is_subnet),
      field("attribute_id.sa", 128, 16, "subnet administration: attribute")
          .hex()
          .of(sa_attribute_names)
          .when(&is<management_class::subnet_administration>),
      field("attribute_id.pm", 128, 16, "performance management: attribute")
          .hex()
          .of(pm_attribute_names)
          .when(&is<management_class::performance>),
      field("attribute_id.dm", 128, 16, "device management: attribute")
          .hex()
          .of(dm_attribute_names)
          .when(&is<management_class::device_management>),
      field("attribute_id.cm", 128, 16, "communication management: message")
          .hex()
          .of(cm_attribute_names)
          .when(&is<management_class::communication>),
      field("attribute_id.cc", 128, 16, "congestion control: attribute")
          .hex()
          .of(cc_attribute_names)
          .when(&is<management_class::congestion>),
      reserved("reserved", 144, 16),
      field("attribute_modifier", 160, 32, "selects a part of the attribute: a port, a block, a flag")
          .hex()
          .alias("infiniband.mad.attributemodifier"),
  };
  /// Computes class, method and attribute from the following headers. Computes QP, Q_Key and opcode of the preceding
  /// headers.
  static void fill(FrameLayout& frame, std::size_t index);
};

inline constexpr Name rmpp_type_entries[] = {
    {0, "not RMPP", "a single datagram"},
    {1, "DATA", "contains a segment of the data"},
    {2, "ACK", "acknowledges all segments up to a number"},
    {3, "STOP", "the sender must stop, because the receiver lacks resources"},
    {4, "ABORT", "the transfer is aborted"},
};
inline constexpr Names rmpp_type_names{"RMPP type", rmpp_type_entries, "IBTA vol 1, 13.6.2.1"};

inline constexpr Name rmpp_status_entries[] = {
    {0, "normal", ""},
    {1, "ResX", "STOP: resources are exhausted"},
    {118, "T2L", "ABORT: the transfer took too long"},
    {119, "BadLen", "ABORT: last flag and payload length contradict each other"},
    {120, "BadSeg", "ABORT: segment number and first flag contradict each other"},
    {121, "BadT", "ABORT: a bad RMPP type"},
    {122, "W2S", "ABORT: the new window's last segment number is too small"},
    {123, "S2B", "ABORT: the segment number is too big"},
    {124, "IllegalStatus", "ABORT: a status that this type of packet cannot have"},
    {125, "UnV", "ABORT: the version is not supported"},
    {126, "TMR", "ABORT: too many retries"},
    {127, "Unspec", "ABORT: unspecified"},
};
inline constexpr Names rmpp_status_names{"RMPP status", rmpp_status_entries,
                                         "IBTA vol 1, 13.6.2.4 (clause number not verified)"};

namespace rmpp_type {
inline constexpr std::uint8_t data = 1, ack = 2, stop = 3, abort = 4;
}

/// Reliable Multi-Packet Transaction Protocol: splits data into segments of 220 bytes.
struct Rmpp {
  static constexpr std::string_view name = "rmpp", title = "Reliable Multi-Packet Transaction Protocol",
                                    section = "IBTA vol 1, 13.6.2.1";
  static constexpr std::size_t size = 12;
  static constexpr std::uint8_t version = 1;
  static constexpr std::uint32_t segment_bytes = 220;  ///< data of one datagram, including the header of the class
  static constexpr bool is_data(const std::uint8_t* h) { return h[1] == rmpp_type::data; }
  static constexpr bool is_ack(const std::uint8_t* h) { return h[1] == rmpp_type::ack; }
  static constexpr bool has_segment(const std::uint8_t* h) { return is_data(h) || is_ack(h); }
  static constexpr std::array fields{
      field("version", 0, 8, "version of RMPP: 1").alias("infiniband.rmpp.rmppversion"),
      field("type", 8, 8, "type of the packet").of(rmpp_type_names).alias("infiniband.rmpp.rmpptype"),
      field("response_time", 16, 5, "code for the response time limit (31: unspecified)"),
      field("response_time.limit", 16, 5, "response time limit")
          .as(Display::time)
          .when([](const std::uint8_t* h) { return (h[2] >> 3) != 31; })
          .means(&exponential_time_ns),
      field("flags", 21, 3, "bits").hex(),
      field("flags.last", 21, 1, "the last segment"),
      field("flags.first", 22, 1, "the first segment"),
      field("flags.active", 23, 1, "RMPP is in use (0: the rest of this header is not valid)"),
      field("status", 24, 8, "reason for stopping or aborting")
          .of(rmpp_status_names)
          .alias("infiniband.rmpp.rmppstatus"),
      field("data1", 32, 32, "depends on the type").hex(),
      field("data1.segment_number", 32, 32,
            "DATA: number of this segment, from 1 (ACK: the last segment that arrived in order)")
          .as(Display::decimal)
          .when(&has_segment)
          .alias("infiniband.rmpp.segmentnumber"),
      field("data2", 64, 32, "depends on the type").hex(),
      field("data2.payload_length", 64, 32,
            "DATA: number of bytes in the last segment (in the first segment: in all segments), with the header of the "
            "class")
          .as(Display::decimal)
          .in("IBTA vol 1, 13.6.2.3")
          .when(&is_data)
          .alias("infiniband.rmpp.payloadlength"),
      field("data2.new_window_last", 64, 32, "ACK: the last segment that may be sent")
          .as(Display::decimal)
          .in("IBTA vol 1, 13.6.2.3")
          .when(&is_ack)
          .alias("infiniband.rmpp.newwindowlast"),
  };
  /// For type DATA: fills the fields for a single segment that contains all following layers.
  static void fill(FrameLayout& frame, std::size_t index);
};

/// Header of vendor classes 0x30 to 0x4f, before the vendor's data.
struct VendorMad {
  static constexpr std::string_view name = "vendormad", title = "Vendor class header", section = "IBTA vol 1, 16.5.1";
  static constexpr std::size_t size = 4;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("oui", 8, 24, "vendor of the class").hex(),
  };
};

/// ClassPortInfo: capabilities of a class on a port, another address for requests (redirection), and the address for
/// traps.
struct ClassPortInfo {
  static constexpr std::string_view name = "classportinfo", title = "ClassPortInfo", section = "IBTA vol 1, 13.4.8.1";
  static constexpr std::size_t size = 72;
  static constexpr std::array fields{
      field("base_version", 0, 8, "base version of MADs").alias("infiniband.classportinfo.baseversion"),
      field("class_version", 8, 8, "version of the class").alias("infiniband.classportinfo.classversion"),
      field("capability_mask", 16, 16, "bits: capabilities").hex().alias("infiniband.classportinfo.capabilitymask"),
      field("capability_mask2", 32, 27, "more bits (meaning depends on the class)")
          .hex()
          .alias("infiniband.classportinfo.capabilitymask2"),
      field("response_time", 59, 5, "code for the response time limit").alias("infiniband.classportinfo.resptimevalue"),
      field("response_time.limit", 59, 5, "response time limit").as(Display::time).means(&exponential_time_ns),
      field("redirect_gid", 64, 128, "redirection: GID")
          .as(Display::ipv6)
          .alias("infiniband.classportinfo.redirectgid"),
      field("redirect_tc", 192, 8, "redirection: traffic class").hex().alias("infiniband.classportinfo.redirecttc"),
      field("redirect_sl", 200, 4, "redirection: service level").alias("infiniband.classportinfo.redirectsl"),
      field("redirect_fl", 204, 20, "redirection: flow label").hex().alias("infiniband.classportinfo.redirectfl"),
      field("redirect_lid", 224, 16, "redirection: LID (0: only by GID)").alias("infiniband.classportinfo.redirectlid"),
      field("redirect_pkey", 240, 16, "redirection: partition key")
          .hex()
          .alias("infiniband.classportinfo.redirectpkey"),
      reserved("reserved", 256, 8),
      field("redirect_qp", 264, 24, "redirection: QP").hex().alias("infiniband.classportinfo.redirectqp"),
      field("redirect_qkey", 288, 32, "redirection: Q_Key").hex().alias("infiniband.classportinfo.redirectqkey"),
      field("trap_gid", 320, 128, "trap destination: GID").as(Display::ipv6).alias("infiniband.classportinfo.trapgid"),
      field("trap_tc", 448, 8, "trap destination: traffic class").hex().alias("infiniband.classportinfo.traptc"),
      field("trap_sl", 456, 4, "trap destination: service level").alias("infiniband.classportinfo.trapsl"),
      field("trap_fl", 460, 20, "trap destination: flow label").hex().alias("infiniband.classportinfo.trapfl"),
      field("trap_lid", 480, 16, "trap destination: LID").alias("infiniband.classportinfo.traplid"),
      field("trap_pkey", 496, 16, "trap destination: partition key").hex().alias("infiniband.classportinfo.trappkey"),
      field("trap_hop_limit", 512, 8, "trap destination: hop limit"),
      field("trap_qp", 520, 24, "trap destination: QP").hex().alias("infiniband.classportinfo.trapqp"),
      field("trap_qkey", 544, 32, "trap destination: Q_Key").hex().alias("infiniband.classportinfo.trapqkey"),
  };
};

/// Returns the header of attribute `id` for this class and method, or nullptr if the attribute is not decoded.
const HeaderInfo* mad_attribute(std::uint8_t mgmt_class, std::uint16_t id, std::uint8_t method);

/// Decodes a management datagram: common header, headers of the class, attribute. Unsupported parts remain payload.
Step decode_mad(Cursor& c);

}  // namespace rdmawire
