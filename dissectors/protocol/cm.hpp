#pragma once
/// Communication management: messages that establish, migrate and close connections (IBTA vol 1, chapter 12), and the
/// private data header of the RDMA IP CM (annex A11).

#include "dissectors/protocol/ip.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire {

inline constexpr Name cm_service_type_entries[] = {
    {0, "RC", "reliable connection"},
    {1, "UC", "unreliable connection"},
    {2, "RD", "reliable datagram"},
    {3, "extended", "specified by the extended transport type"},
};
inline constexpr Names cm_service_type_names{"CM transport service type", cm_service_type_entries,
                                             "IBTA vol 1, 12.7.19 (clause number not verified)"};

inline constexpr Name cm_extended_type_entries[] = {
    {0, "none", "specified by the transport service type"},
    {1, "XRC", "extended reliable connection"},
};
inline constexpr Names cm_extended_type_names{"CM extended transport type", cm_extended_type_entries,
                                              "IBTA vol 1, annex A14 (clause number not verified)"};

inline constexpr Name cm_rnr_retry_entries[] = {{7, "infinite", "unlimited retries"}};
inline constexpr Names cm_rnr_retry_names{"RNR retry count", cm_rnr_retry_entries,
                                          "IBTA vol 1, 12.7.34 (clause number not verified)"};

inline constexpr Name cm_mra_message_entries[] = {
    {0, "REQ", "a REQ was received"},
    {1, "REP", "a REP was received"},
    {2, "LAP", "a LAP was received"},
};
inline constexpr Names cm_mra_message_names{"CM message MRAed", cm_mra_message_entries, "IBTA vol 1, 12.6.6"};

inline constexpr Name cm_rej_message_entries[] = {
    {0, "REQ", "a REQ is rejected"},
    {1, "REP", "a REP is rejected"},
    {2, "no message", "no particular message, for example after a timeout"},
};
inline constexpr Names cm_rej_message_names{"CM message rejected", cm_rej_message_entries, "IBTA vol 1, 12.6.7"};

inline constexpr Name cm_rej_reason_entries[] = {
    {1, "No QP available", "the responder has no QP available"},
    {2, "No EEC available", "the responder has no end-to-end context available"},
    {3, "No resources available", "the responder lacks some other resource"},
    {4, "Timeout", "an expected message did not arrive in time"},
    {5, "Unsupported request", "the responder does not support the request"},
    {6, "Invalid Communication ID", "no communication has these IDs"},
    {7, "Invalid Communication Instance", "the IDs, QPN and GUID do not belong to one communication"},
    {8, "Invalid Service ID", "no application listens on this service ID"},
    {9, "Invalid Transport Service Type", "the service is not offered over this transport"},
    {10, "Stale connection", "the responder still has an earlier connection with this QP"},
    {11, "RDC does not exist", "there is no reliable datagram channel yet"},
    {12, "Primary Remote Port GID rejected", "the responder rejects this GID (ARI can contain another)"},
    {13, "Primary Remote Port LID rejected", "the responder rejects this LID (ARI can contain another)"},
    {14, "Invalid Primary SL", "the service level is not accepted (ARI can contain another)"},
    {15, "Invalid Primary Traffic Class", "the traffic class is not accepted (ARI can contain another)"},
    {16, "Invalid Primary Hop Limit", "the hop limit is not accepted (ARI can contain another)"},
    {17, "Invalid Primary Packet Rate", "the packet rate is not accepted (ARI can contain another)"},
    {18, "Alternate Remote Port GID rejected", "the responder rejects this GID (ARI can contain another)"},
    {19, "Alternate Remote Port LID rejected", "the responder rejects this LID (ARI can contain another)"},
    {20, "Invalid Alternate SL", "the service level is not accepted (ARI can contain another)"},
    {21, "Invalid Alternate Traffic Class", "the traffic class is not accepted (ARI can contain another)"},
    {22, "Invalid Alternate Hop Limit", "the hop limit is not accepted (ARI can contain another)"},
    {23, "Invalid Alternate Packet Rate", "the packet rate is not accepted (ARI can contain another)"},
    {24, "Port and CM Redirection", "use another CM and another port (ARI contains its ClassPortInfo)"},
    {25, "Port Redirection", "use another port (ARI contains its GID)"},
    {26, "Invalid Path MTU", "the path MTU is not accepted (ARI can contain the maximum)"},
    {27, "Insufficient Responder Resources", "the responder supports fewer outstanding RDMA READs and atomics"},
    {28, "Consumer Reject", "the application rejected the connection (its private data can contain the reason)"},
    {29, "RNR Retry Count Reject", "the RNR retry count is not accepted"},
    {30, "Duplicate Local Communication ID", "the requester already uses this ID for another communication"},
    {31, "Unsupported Class Version", "the CM's class version is not supported (ARI can contain the highest)"},
    {32, "Invalid Primary Flow Label", "the flow label is not accepted (ARI can contain another)"},
    {33, "Invalid Alternate Flow Label", "the flow label is not accepted (ARI can contain another)"},
    {35, "Vendor Option Not Supported", "the vendor's enhancement of the connection is not supported"},
};
inline constexpr Names cm_rej_reason_names{"CM REJ reason", cm_rej_reason_entries, "IBTA vol 1, 12.6.7.2"};

inline constexpr Name cm_failover_entries[] = {
    {0, "accepted", "the alternate path is loaded"},
    {1, "not supported", "failover is not supported: the alternate path was ignored"},
    {2, "rejected", "failover is supported, but this alternate path was rejected"},
};
inline constexpr Names cm_failover_names{"CM failover accepted", cm_failover_entries, "IBTA vol 1, 12.6.8"};

inline constexpr Name cm_ap_status_entries[] = {
    {0, "accepted", "the alternate path is loaded"},
    {1, "Invalid Communication ID", "no communication has these IDs"},
    {2, "not supported", "alternate paths are not supported"},
    {3, "rejected", "failover is supported, but this path was rejected"},
    {4, "Redirect", "use another CM: the additional information contains a ClassPortInfo"},
    {5, "duplicate path", "the path is the same as the current one"},
    {6, "QPN or EECN mismatch", "the QP does not belong to this communication"},
    {7, "LID rejected", "the LID is not accepted (the additional information can contain another)"},
    {8, "GID rejected", "the GID is not accepted (the additional information can contain another)"},
    {9, "Flow Label rejected", "the flow label is not accepted (the additional information can contain another)"},
    {10, "Traffic Class rejected",
     "the traffic class is not accepted (the additional information can contain another)"},
    {11, "Hop Limit rejected", "the hop limit is not accepted (the additional information can contain another)"},
    {12, "Packet Rate rejected", "the packet rate is not accepted (the additional information can contain another)"},
    {13, "SL rejected", "the service level is not accepted (the additional information can contain another)"},
};
inline constexpr Names cm_ap_status_names{"CM APR status", cm_ap_status_entries, "IBTA vol 1, 12.8.2"};

inline constexpr Name cm_sidr_status_entries[] = {
    {0, "valid QPN", "the QPN and Q_Key are those of the service"},
    {1, "not supported", "the service ID is not supported"},
    {2, "rejected", "the service provider rejected the request"},
    {3, "no QP available", "no QP is available"},
    {4, "redirect", "use another CM: the additional information contains a ClassPortInfo"},
    {5, "unsupported version", "the CM's class version is not supported"},
};
inline constexpr Names cm_sidr_status_names{"CM SIDR_REP status", cm_sidr_status_entries, "IBTA vol 1, 12.11.2"};

/// Service IDs of the RDMA IP CM: 0x00000000 01 pp nnnn, with IP protocol pp and port nnnn. IBTA vol 1, A11.
struct IpServiceId {
  static constexpr unsigned prefix_bytes = 5;
  /// True if the service ID that starts at `id` is in this range.
  static constexpr bool holds(const std::uint8_t* id) { return load_be(id, prefix_bytes) == 1; }
};

/// ConnectRequest message.
struct CmReq {
  static constexpr std::string_view name = "cmreq", title = "CM REQ", section = "IBTA vol 1, 12.6.5";
  static constexpr std::size_t size = 140;
  static constexpr std::uint32_t service_id_at = 8;
  static constexpr bool by_ip(const std::uint8_t* h) { return IpServiceId::holds(h + service_id_at); }
  /// True if the GID at byte `At` contains an IPv4 address, as in RoCE. IBTA vol 1, A17.4.5.2 (clause number not
  /// verified)
  template <unsigned At>
  static constexpr bool ipv4_mapped(const std::uint8_t* h) {
    return load_be(h + At, 8) == 0 && load_be(h + At + 8, 4) == 0xffff;
  }
  template <unsigned At>
  static constexpr bool gid_proper(const std::uint8_t* h) {
    return !ipv4_mapped<At>(h);
  }
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the requester's ID of this communication").hex().alias("infiniband.cm.req"),
      reserved("reserved", 32, 8),
      field("vendor_id", 40, 24, "vendor of the offered connection enhancement (0: none)")
          .hex()
          .in("IBTA vol 1, release 1.4 (clause number not verified)"),
      field("service_id", 64, 64, "the requested service").hex().alias("infiniband.cm.req.serviceid"),
      field("service_id.prefix", 64, 40, "RDMA IP CM: 0000000001")
          .hex()
          .when(&by_ip)
          .alias("infiniband.cm.req.serviceid.prefix"),
      field("service_id.protocol", 104, 8, "RDMA IP CM: IP protocol of the port")
          .of(ip_protocol_names)
          .in("IBTA vol 1, A11.6.1 (clause number not verified)")
          .when(&by_ip)
          .alias("infiniband.cm.req.serviceid.protocol"),
      field("service_id.port", 112, 16, "RDMA IP CM: destination port")
          .in("IBTA vol 1, A11.6.1 (clause number not verified)")
          .when(&by_ip)
          .alias("infiniband.cm.req.serviceid.dport"),
      field("local_ca_guid", 128, 64, "the requester's channel adapter")
          .as(Display::guid)
          .alias("infiniband.cm.req.localcaguid"),
      reserved("reserved2", 192, 32),
      field("local_qkey", 224, 32, "the requester's Q_Key, RD only").hex().alias("infiniband.cm.req.localqkey"),
      field("local_qpn", 256, 24, "the requester's queue pair").hex().alias("infiniband.cm.req.localqpn"),
      field("responder_resources", 280, 8,
            "RDMA READs and atomics that the requester can process simultaneously as responder")
          .alias("infiniband.cm.req.responderres"),
      field("local_eecn", 288, 24, "the requester's end-to-end context, RD only")
          .hex()
          .alias("infiniband.cm.req.localeecn"),
      field("initiator_depth", 312, 8, "RDMA READs and atomics that the requester can have outstanding")
          .alias("infiniband.cm.req.initdepth"),
      field("remote_eecn", 320, 24, "the responder's end-to-end context, RD only")
          .hex()
          .alias("infiniband.cm.req.remoteeecn"),
      field("remote_cm_response_timeout", 344, 5, "code for the response time limit of the responder's CM")
          .alias("infiniband.cm.req.remoteresptout"),
      field("remote_cm_response_timeout.limit", 344, 5, "response time limit of the responder's CM")
          .as(Display::time)
          .means(&exponential_time_ns),
      field("transport_service_type", 349, 2, "transport service of the connection")
          .of(cm_service_type_names)
          .alias("infiniband.cm.req.transpsvctype"),
      field("end_to_end_flow_control", 351, 1, "the requester's channel adapter sends end-to-end credits")
          .alias("infiniband.cm.req.e2eflowctrl"),
      field("starting_psn", 352, 24, "first PSN that the responder sends").alias("infiniband.cm.req.startpsn"),
      field("local_cm_response_timeout", 376, 5, "code for the response time limit of the requester's CM")
          .alias("infiniband.cm.req.localresptout"),
      field("local_cm_response_timeout.limit", 376, 5, "response time limit of the requester's CM")
          .as(Display::time)
          .means(&exponential_time_ns),
      field("retry_count", 381, 3, "number of retries of the responder after a timeout")
          .alias("infiniband.cm.req.retrcount"),
      field("pkey", 384, 16, "partition key of the connection").hex().alias("infiniband.cm.req.pkey"),
      field("path_mtu", 400, 4, "largest payload of a packet").of(mtu_names).alias("infiniband.cm.req.pppmtu"),
      field("rdc_exists", 404, 1, "RD: the channel already exists").alias("infiniband.cm.req.rdcexist"),
      field("rnr_retry_count", 405, 3, "number of retries of the responder after an RNR NAK")
          .of(cm_rnr_retry_names)
          .alias("infiniband.cm.req.rnrretrcount"),
      field("max_cm_retries", 408, 4, "maximum number of retransmissions of a CM message")
          .alias("infiniband.cm.req.maxcmretr"),
      field("srq", 412, 1, "the requester's queue pair uses a shared receive queue").alias("infiniband.cm.req.srq"),
      field("extended_transport_type", 413, 3, "transport, if not one of the four basic ones")
          .of(cm_extended_type_names)
          .alias("infiniband.cm.req.ext_transport"),
      field("primary_local_lid", 416, 16, "primary path: the requester's LID (0xffff: the GID is used, as in RoCE)")
          .alias("infiniband.cm.req.prim_locallid"),
      field("primary_remote_lid", 432, 16, "primary path: the responder's LID (0xffff: the GID is used, as in RoCE)")
          .alias("infiniband.cm.req.prim_remotelid"),
      field("primary_local_gid", 448, 128, "primary path: the requester's GID").as(Display::ipv6),
      field("primary_local_gid.ipv6", 448, 128, "primary path: the requester's GID, if it is not an IPv4 address")
          .as(Display::ipv6)
          .when(&gid_proper<56>)
          .alias("infiniband.cm.req.prim_localgid"),
      field("primary_local_gid.ipv4", 544, 32, "primary path: the requester's IPv4 address")
          .as(Display::ipv4)
          .when(&ipv4_mapped<56>)
          .alias("infiniband.cm.req.prim_localgid_ipv4"),
      field("primary_remote_gid", 576, 128, "primary path: the responder's GID").as(Display::ipv6),
      field("primary_remote_gid.ipv6", 576, 128, "primary path: the responder's GID, if it is not an IPv4 address")
          .as(Display::ipv6)
          .when(&gid_proper<72>)
          .alias("infiniband.cm.req.prim_remotegid"),
      field("primary_remote_gid.ipv4", 672, 32, "primary path: the responder's IPv4 address")
          .as(Display::ipv4)
          .when(&ipv4_mapped<72>)
          .alias("infiniband.cm.req.prim_remotegid_ipv4"),
      field("primary_flow_label", 704, 20, "primary path: flow label").hex().alias("infiniband.cm.req.prim_flowlabel"),
      reserved("reserved3", 724, 6),
      field("primary_packet_rate", 730, 6, "primary path: maximum rate of the responder's packets")
          .of(rate_names)
          .alias("infiniband.cm.req.prim_pktrate"),
      field("primary_traffic_class", 736, 8, "primary path: traffic class")
          .hex()
          .alias("infiniband.cm.req.prim_tfcclass"),
      field("primary_hop_limit", 744, 8, "primary path: hop limit").alias("infiniband.cm.req.prim_hoplim"),
      field("primary_sl", 752, 4, "primary path: service level").alias("infiniband.cm.req.prim_sl"),
      field("primary_subnet_local", 756, 1, "primary path: both endpoints are in one subnet")
          .alias("infiniband.cm.req.prim_subnetlocal"),
      reserved("reserved4", 757, 3),
      field("primary_local_ack_timeout", 760, 5, "primary path: code for the responder's ACK timeout")
          .alias("infiniband.cm.req.prim_localacktout"),
      field("primary_local_ack_timeout.limit", 760, 5, "primary path: the responder's ACK timeout")
          .as(Display::time)
          .when([](const std::uint8_t* h) { return (h[95] >> 3) != 0; })
          .means(&exponential_time_ns),
      reserved("reserved5", 765, 3),
      field("alternate_local_lid", 768, 16, "alternate path: the requester's LID (0: no alternate path)")
          .alias("infiniband.cm.req.alt_locallid"),
      field("alternate_remote_lid", 784, 16, "alternate path: the responder's LID")
          .alias("infiniband.cm.req.alt_remotelid"),
      field("alternate_local_gid", 800, 128, "alternate path: the requester's GID")
          .as(Display::ipv6)
          .alias("infiniband.cm.req.alt_localgid"),
      field("alternate_remote_gid", 928, 128, "alternate path: the responder's GID")
          .as(Display::ipv6)
          .alias("infiniband.cm.req.alt_remotegid"),
      field("alternate_flow_label", 1056, 20, "alternate path: flow label")
          .hex()
          .alias("infiniband.cm.req.alt_flowlabel"),
      reserved("reserved6", 1076, 6),
      field("alternate_packet_rate", 1082, 6, "alternate path: maximum rate of the responder's packets")
          .of(rate_names)
          .alias("infiniband.cm.req.alt_pktrate"),
      field("alternate_traffic_class", 1088, 8, "alternate path: traffic class")
          .hex()
          .alias("infiniband.cm.req.alt_tfcclass"),
      field("alternate_hop_limit", 1096, 8, "alternate path: hop limit").alias("infiniband.cm.req.alt_hoplim"),
      field("alternate_sl", 1104, 4, "alternate path: service level").alias("infiniband.cm.req.alt_sl"),
      field("alternate_subnet_local", 1108, 1, "alternate path: both endpoints are in one subnet")
          .alias("infiniband.cm.req.alt_subnetlocal"),
      reserved("reserved7", 1109, 3),
      field("alternate_local_ack_timeout", 1112, 5, "alternate path: code for the responder's ACK timeout")
          .alias("infiniband.cm.req.alt_localacktout"),
      field("alternate_local_ack_timeout.limit", 1112, 5, "alternate path: the responder's ACK timeout")
          .as(Display::time)
          .when([](const std::uint8_t* h) { return (h[139] >> 3) != 0; })
          .means(&exponential_time_ns),
      field("sap_supported", 1117, 1, "the requester supports suggested alternate paths")
          .in("IBTA vol 1, annex A9 (clause number not verified)"),
      reserved("reserved8", 1118, 2),
  };
};

/// MsgRcptAck message.
struct CmMra {
  static constexpr std::string_view name = "cmmra", title = "CM MRA", section = "IBTA vol 1, 12.6.6";
  static constexpr std::size_t size = 10;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the sender's ID of this communication").hex(),
      field("remote_comm_id", 32, 32, "the receiver's ID of this communication").hex(),
      field("message", 64, 2, "received message").of(cm_mra_message_names),
      reserved("reserved", 66, 6),
      field("service_timeout", 72, 5, "code for the maximum time until the reply"),
      field("service_timeout.limit", 72, 5, "maximum time from this MRA until the reply")
          .as(Display::time)
          .means(&exponential_time_ns),
      reserved("reserved2", 77, 3),
  };
};

/// ConnectReject message.
struct CmRej {
  static constexpr std::string_view name = "cmrej", title = "CM REJ", section = "IBTA vol 1, 12.6.7";
  static constexpr std::size_t size = 84;
  static constexpr std::uint32_t ari_bytes = 72;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the sender's ID of this communication (0: none)")
          .hex()
          .alias("infiniband.cm.rej.localcommid"),
      field("remote_comm_id", 32, 32, "the receiver's ID of this communication (0: unknown)")
          .hex()
          .alias("infiniband.cm.rej.remotecommid"),
      field("message", 64, 2, "rejected message").of(cm_rej_message_names).alias("infiniband.cm.rej.msgrej"),
      reserved("reserved", 66, 6),
      field("info_length", 72, 7, "number of valid bytes in ARI, at most 72").alias("infiniband.cm.rej.rejinfolen"),
      reserved("reserved2", 79, 1),
      field("reason", 80, 16, "reason").of(cm_rej_reason_names).alias("infiniband.cm.rej.reason"),
      field("ari", 96, 576, "Additional Reject Information: meaning depends on the reason, padded with zeros")
          .as(Display::bytes)
          .in("IBTA vol 1, 12.6.7.2")
          .alias("infiniband.cm.rej.ari"),
  };
};

/// ConnectReply message.
struct CmRep {
  static constexpr std::string_view name = "cmrep", title = "CM REP", section = "IBTA vol 1, 12.6.8";
  static constexpr std::size_t size = 36;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the responder's ID of this communication").hex().alias("infiniband.cm.rep"),
      field("remote_comm_id", 32, 32, "the requester's ID of this communication")
          .hex()
          .alias("infiniband.cm.rep.remotecommid"),
      field("local_qkey", 64, 32, "the responder's Q_Key, RD only").hex().alias("infiniband.cm.rep.localqkey"),
      field("local_qpn", 96, 24, "the responder's queue pair").hex().alias("infiniband.cm.rep.localqpn"),
      field("vendor_id_high", 120, 8, "bits 23 to 16 of the vendor of the accepted connection enhancement")
          .hex()
          .in("IBTA vol 1, release 1.4 (clause number not verified)"),
      field("local_eecn", 128, 24, "the responder's end-to-end context, RD only")
          .hex()
          .alias("infiniband.cm.rep.localeecn"),
      field("vendor_id_middle", 152, 8, "bits 15 to 8 of that vendor")
          .hex()
          .in("IBTA vol 1, release 1.4 (clause number not verified)"),
      field("starting_psn", 160, 24, "first PSN that the requester sends").alias("infiniband.cm.rep.startpsn"),
      field("vendor_id_low", 184, 8, "bits 7 to 0 of that vendor")
          .hex()
          .in("IBTA vol 1, release 1.4 (clause number not verified)"),
      field("responder_resources", 192, 8, "RDMA READs and atomics that the responder can process simultaneously")
          .alias("infiniband.cm.rep.respres"),
      field("initiator_depth", 200, 8, "RDMA READs and atomics that the responder can have outstanding")
          .alias("infiniband.cm.rep.initdepth"),
      field("target_ack_delay", 208, 5, "code for the responder's maximum ACK delay")
          .alias("infiniband.cm.rep.tgtackdelay"),
      field("target_ack_delay.limit", 208, 5, "maximum ACK delay of the responder")
          .as(Display::time)
          .means(&exponential_time_ns),
      field("failover_accepted", 213, 2, "result for the alternate path")
          .of(cm_failover_names)
          .alias("infiniband.cm.rep.failoveracc"),
      field("end_to_end_flow_control", 215, 1, "the responder's channel adapter sends end-to-end credits")
          .alias("infiniband.cm.rep.e2eflowctrl"),
      field("rnr_retry_count", 216, 3, "number of retries of the requester after an RNR NAK")
          .of(cm_rnr_retry_names)
          .alias("infiniband.cm.rep.rnrretrcount"),
      field("srq", 219, 1, "the responder's queue pair uses a shared receive queue").alias("infiniband.cm.rep.srq"),
      reserved("reserved", 220, 4),
      field("local_ca_guid", 224, 64, "the responder's channel adapter")
          .as(Display::guid)
          .alias("infiniband.cm.rep.localcaguid"),
  };
};

/// ReadyToUse message.
struct CmRtu {
  static constexpr std::string_view name = "cmrtu", title = "CM RTU", section = "IBTA vol 1, 12.6.9";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the requester's ID of this communication")
          .hex()
          .alias("infiniband.cm.rtu.localcommid"),
      field("remote_comm_id", 32, 32, "the responder's ID of this communication")
          .hex()
          .alias("infiniband.cm.rtu.remotecommid"),
  };
};

/// DisconnectRequest message.
struct CmDreq {
  static constexpr std::string_view name = "cmdreq", title = "CM DREQ", section = "IBTA vol 1, 12.6.10";
  static constexpr std::size_t size = 12;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the sender's ID of this communication")
          .hex()
          .alias("infiniband.cm.dreq.localcommid"),
      field("remote_comm_id", 32, 32, "the receiver's ID of this communication")
          .hex()
          .alias("infiniband.cm.dreq.remotecommid"),
      field("remote_qpn", 64, 24, "the receiver's queue pair (RD: end-to-end context)")
          .hex()
          .alias("infiniband.cm.req.remoteqpneecn"),
      reserved("reserved", 88, 8),
  };
};

/// DisconnectReply message.
struct CmDrep {
  static constexpr std::string_view name = "cmdrep", title = "CM DREP", section = "IBTA vol 1, 12.6.11";
  static constexpr std::size_t size = 8;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the sender's ID of this communication")
          .hex()
          .alias("infiniband.cm.drsp.localcommid"),
      field("remote_comm_id", 32, 32, "the receiver's ID of this communication")
          .hex()
          .alias("infiniband.cm.drsp.remotecommid"),
  };
};

/// LoadAlternatePath message.
struct CmLap {
  static constexpr std::string_view name = "cmlap", title = "CM LAP", section = "IBTA vol 1, 12.8.1";
  static constexpr std::size_t size = 64;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the sender's ID of this communication").hex(),
      field("remote_comm_id", 32, 32, "the receiver's ID of this communication").hex(),
      reserved("reserved", 64, 32),
      field("remote_qpn", 96, 24, "the receiver's queue pair (RD: end-to-end context)").hex(),
      field("remote_cm_response_timeout", 120, 5, "code for the response time limit of the receiver's CM"),
      field("remote_cm_response_timeout.limit", 120, 5, "response time limit of the receiver's CM")
          .as(Display::time)
          .means(&exponential_time_ns),
      reserved("reserved2", 125, 3),
      reserved("reserved3", 128, 32),
      field("alternate_local_lid", 160, 16, "alternate path: the sender's LID"),
      field("alternate_remote_lid", 176, 16, "alternate path: the receiver's LID"),
      field("alternate_local_gid", 192, 128, "alternate path: the sender's GID").as(Display::ipv6),
      field("alternate_remote_gid", 320, 128, "alternate path: the receiver's GID").as(Display::ipv6),
      field("alternate_flow_label", 448, 20, "alternate path: flow label").hex(),
      reserved("reserved4", 468, 4),
      field("alternate_traffic_class", 472, 8, "alternate path: traffic class").hex(),
      field("alternate_hop_limit", 480, 8, "alternate path: hop limit"),
      reserved("reserved5", 488, 2),
      field("alternate_packet_rate", 490, 6, "alternate path: maximum rate of the receiver's packets").of(rate_names),
      field("alternate_sl", 496, 4, "alternate path: service level"),
      field("alternate_subnet_local", 500, 1, "alternate path: both endpoints are in one subnet"),
      reserved("reserved6", 501, 3),
      field("alternate_local_ack_timeout", 504, 5, "alternate path: code for the receiver's ACK timeout"),
      field("alternate_local_ack_timeout.limit", 504, 5, "alternate path: the receiver's ACK timeout")
          .as(Display::time)
          .when([](const std::uint8_t* h) { return (h[63] >> 3) != 0; })
          .means(&exponential_time_ns),
      reserved("reserved7", 509, 3),
  };
};

/// AlternatePathResponse message.
struct CmApr {
  static constexpr std::string_view name = "cmapr", title = "CM APR", section = "IBTA vol 1, 12.8.2";
  static constexpr std::size_t size = 84;
  static constexpr std::uint32_t info_bytes = 72;
  static constexpr std::array fields{
      field("local_comm_id", 0, 32, "the sender's ID of this communication").hex(),
      field("remote_comm_id", 32, 32, "the receiver's ID of this communication").hex(),
      field("info_length", 64, 8, "number of valid bytes in the additional information, at most 72"),
      field("status", 72, 8, "result for the alternate path").of(cm_ap_status_names),
      reserved("reserved", 80, 16),
      field("info", 96, 576, "additional information: meaning depends on the status, padded with zeros")
          .as(Display::bytes),
  };
};

/// ServiceIDResReq message: requests the QP of a service ID.
struct CmSidrReq {
  static constexpr std::string_view name = "cmsidrreq", title = "CM SIDR_REQ", section = "IBTA vol 1, 12.11.1";
  static constexpr std::size_t size = 16;
  static constexpr std::uint32_t service_id_at = 8;
  static constexpr bool by_ip(const std::uint8_t* h) { return IpServiceId::holds(h + service_id_at); }
  static constexpr std::array fields{
      field("request_id", 0, 32, "matches the response with the request").hex(),
      field("pkey", 32, 16, "partition key").hex(),
      reserved("reserved", 48, 16),
      field("service_id", 64, 64, "the requested service").hex(),
      field("service_id.protocol", 104, 8, "RDMA IP CM: IP protocol of the port")
          .of(ip_protocol_names)
          .in("IBTA vol 1, A11.6.1 (clause number not verified)")
          .when(&by_ip),
      field("service_id.port", 112, 16, "RDMA IP CM: destination port")
          .in("IBTA vol 1, A11.6.1 (clause number not verified)")
          .when(&by_ip),
  };
};

/// ServiceIDResResp message.
struct CmSidrRep {
  static constexpr std::string_view name = "cmsidrrep", title = "CM SIDR_REP", section = "IBTA vol 1, 12.11.2";
  static constexpr std::size_t size = 96;
  static constexpr std::uint32_t info_bytes = 72;
  static constexpr bool by_ip(const std::uint8_t* h) { return IpServiceId::holds(h + 12); }
  static constexpr std::array fields{
      field("request_id", 0, 32, "matches the response with the request").hex(),
      field("status", 32, 8, "whether the QP is valid, or why not").of(cm_sidr_status_names),
      field("info_length", 40, 8, "number of valid bytes in the additional information, at most 72"),
      reserved("reserved", 48, 16),
      field("qpn", 64, 24, "the service's queue pair").hex(),
      reserved("reserved2", 88, 8),
      field("service_id", 96, 64, "the requested service").hex(),
      field("service_id.protocol", 136, 8, "RDMA IP CM: IP protocol of the port")
          .of(ip_protocol_names)
          .in("IBTA vol 1, A11.6.1 (clause number not verified)")
          .when(&by_ip),
      field("service_id.port", 144, 16, "RDMA IP CM: destination port")
          .in("IBTA vol 1, A11.6.1 (clause number not verified)")
          .when(&by_ip),
      field("qkey", 160, 32, "the queue pair's Q_Key").hex(),
      field("info", 192, 576, "additional information: meaning depends on the status, padded with zeros")
          .as(Display::bytes),
  };
};

/// Header of the RDMA IP CM Service (IBTA annex A11) at the start of the private data of a REQ or SIDR_REQ. Contains
/// the IP addresses and the source port of the connection.
struct RdmaCm {
  static constexpr std::string_view name = "rdmacm", title = "RDMA IP CM private data header",
                                    section = "IBTA vol 1, A11.6.2 (clause number not verified)";
  static constexpr std::size_t size = 36;
  static constexpr bool v4(const std::uint8_t* h) { return h[1] >> 4 == 4; }
  static constexpr bool v6(const std::uint8_t* h) { return h[1] >> 4 == 6; }
  static constexpr std::array fields{
      field("major_version", 0, 4, "version of this header: 0").alias("infiniband.cm.req.ip_cm.majv"),
      field("minor_version", 4, 4, "version of this header: 0").alias("infiniband.cm.req.ip_cm.minv"),
      field("ip_version", 8, 4, "IP version of the addresses: 4 or 6").alias("infiniband.cm.req.ip_cm.ipv"),
      reserved("reserved", 12, 4),
      field("src_port", 16, 16, "source port").alias("infiniband.cm.req.ip_cm.sport"),
      field("src", 32, 128, "source address (IPv4 in the last four bytes)").as(Display::bytes),
      field("src.ipv4", 128, 32, "source address").as(Display::ipv4).when(&v4).alias("infiniband.cm.req.ip_cm.sip4"),
      field("src.ipv6", 32, 128, "source address").as(Display::ipv6).when(&v6).alias("infiniband.cm.req.ip_cm.sip6"),
      field("dst", 160, 128, "destination address (IPv4 in the last four bytes)").as(Display::bytes),
      field("dst.ipv4", 256, 32, "destination address")
          .as(Display::ipv4)
          .when(&v4)
          .alias("infiniband.cm.req.ip_cm.dip4"),
      field("dst.ipv6", 160, 128, "destination address")
          .as(Display::ipv6)
          .when(&v6)
          .alias("infiniband.cm.req.ip_cm.dip6"),
  };
  /// Sets the IP version according to the addresses.
  static void fill(FrameLayout& frame, std::size_t index);
};

}  // namespace rdmawire
