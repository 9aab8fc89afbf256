#pragma once
/// Subnet administration: records of the subnet manager's database. IBTA vol 1, chapter 15.

#include "dissectors/protocol/mad.hpp"
#include "dissectors/protocol/smp.hpp"

namespace rdmawire {

inline constexpr Name selector_entries[] = {
    {0, "greater than", ""},
    {1, "less than", ""},
    {2, "exactly", ""},
    {3, "largest available", "largest value available (for times: the shortest)"}};
inline constexpr Names selector_names{"selector", selector_entries, "IBTA vol 1, 15.2.5.16"};

/// Header of subnet administration between the RMPP header and the attribute.
struct Sa {
  static constexpr std::string_view name = "sa", title = "Subnet administration", section = "IBTA vol 1, 15.2.1.1";
  static constexpr std::size_t size = 20;
  static constexpr std::array fields{
      field("sm_key", 0, 64, "key that authorizes access to all records").hex().alias("infiniband.sa.smkey"),
      field("attribute_offset", 64, 16, "distance between the starts of consecutive records, in units of 8 bytes")
          .alias("infiniband.sa.attributeoffset"),
      reserved("reserved", 80, 16),
      field("component_mask", 96, 64, "bits: fields of the record that must match (bit 0 is the first field)")
          .hex()
          .alias("infiniband.sa.componentmask"),
  };
  /// Computes the attribute offset if the frame contains a list of records.
  static void fill(FrameLayout& frame, std::size_t index);
};

/// A path between two ports.
struct PathRecord {
  static constexpr std::string_view name = "pathrecord", title = "PathRecord", section = "IBTA vol 1, 15.2.5.16";
  static constexpr std::string_view tail = "padding";
  static constexpr std::size_t size = 64;
  static constexpr std::array fields{
      field("service_id", 0, 64, "service of the path").hex(),
      field("dgid", 64, 128, "destination").as(Display::ipv6).alias("infiniband.pathrecord.dgid"),
      field("sgid", 192, 128, "source").as(Display::ipv6).alias("infiniband.pathrecord.sgid"),
      field("dlid", 320, 16, "destination").alias("infiniband.pathrecord.dlid"),
      field("slid", 336, 16, "source").alias("infiniband.pathrecord.slid"),
      field("raw_traffic", 352, 1, "the path is for raw packets").alias("infiniband.pathrecord.rawtraffic"),
      reserved("reserved", 353, 3),
      field("flow_label", 356, 20, "flow label of the GRH").hex().alias("infiniband.pathrecord.flowlabel"),
      field("hop_limit", 376, 8, "hop limit of the GRH").alias("infiniband.pathrecord.hoplimit"),
      field("traffic_class", 384, 8, "traffic class of the GRH").hex().alias("infiniband.pathrecord.tclass"),
      field("reversible", 392, 1, "the reverse direction uses the same path").alias("infiniband.pathrecord.reversible"),
      field("numb_path", 393, 7, "maximum number of returned paths").alias("infiniband.pathrecord.numbpath"),
      field("pkey", 400, 16, "partition key").hex().alias("infiniband.pathrecord.p_key"),
      field("qos_class", 416, 12, "class of service").hex(),
      field("sl", 428, 4, "service level").alias("infiniband.pathrecord.sl"),
      field("mtu_selector", 432, 2, "how to compare the MTU with the field `mtu`")
          .of(selector_names)
          .alias("infiniband.pathrecord.mtuselector"),
      field("mtu", 434, 6, "MTU of the path").of(mtu_names).alias("infiniband.pathrecord.mtu"),
      field("rate_selector", 440, 2, "how to compare the rate with the field `rate`")
          .of(selector_names)
          .alias("infiniband.pathrecord.rateselector"),
      field("rate", 442, 6, "rate of the path").of(rate_names).alias("infiniband.pathrecord.rate"),
      field("packet_life_time_selector", 448, 2,
            "how to compare the packet life time with the field `packet_life_time`")
          .of(selector_names)
          .alias("infiniband.pathrecord.packetlifetimeselector"),
      field("packet_life_time", 450, 6, "code for the maximum propagation time along the path")
          .alias("infiniband.pathrecord.packetlifetime"),
      field("packet_life_time.limit", 450, 6, "maximum propagation time along the path")
          .as(Display::time)
          .means(&exponential_time_ns),
      field("preference", 456, 8, "preference among paths: lower values are preferred")
          .alias("infiniband.pathrecord.preference"),
      field("reverse_path_pkey_member", 464, 2, "partition membership of the reverse path"),
      reserved("reserved2", 466, 46),
  };
};

/// A member of a multicast group, with the parameters of the group.
struct McMemberRecord {
  static constexpr std::string_view name = "mcmemberrecord", title = "MCMemberRecord",
                                    section = "IBTA vol 1, 15.2.5.17";
  static constexpr std::string_view tail = "padding";
  static constexpr std::size_t size = 52;
  static constexpr std::array fields{
      field("mgid", 0, 128, "the group").as(Display::ipv6).alias("infiniband.mcmemberrecord.mgid"),
      field("port_gid", 128, 128, "the member").as(Display::ipv6).alias("infiniband.mcmemberrecord.portgid"),
      field("qkey", 256, 32, "Q_Key of the group").hex().alias("infiniband.mcmemberrecord.q_key"),
      field("mlid", 288, 16, "multicast LID of the group").hex().alias("infiniband.mcmemberrecord.mlid"),
      field("mtu_selector", 304, 2, "how to compare the MTU with the field `mtu`")
          .of(selector_names)
          .alias("infiniband.mcmemberrecord.mtuselector"),
      field("mtu", 306, 6, "MTU of the group").of(mtu_names).alias("infiniband.mcmemberrecord.mtu"),
      field("traffic_class", 312, 8, "traffic class of the GRH").hex().alias("infiniband.mcmemberrecord.tclass"),
      field("pkey", 320, 16, "partition key of the group").hex().alias("infiniband.mcmemberrecord.p_key"),
      field("rate_selector", 336, 2, "how to compare the rate with the field `rate`")
          .of(selector_names)
          .alias("infiniband.mcmemberrecord.rateselector"),
      field("rate", 338, 6, "rate of the group").of(rate_names).alias("infiniband.mcmemberrecord.rate"),
      field("packet_life_time_selector", 344, 2,
            "how to compare the packet life time with the field `packet_life_time`")
          .of(selector_names)
          .alias("infiniband.mcmemberrecord.packetlifetimeselector"),
      field("packet_life_time", 346, 6, "code of the maximum propagation time")
          .alias("infiniband.mcmemberrecord.packetlifetime"),
      field("packet_life_time.limit", 346, 6, "maximum propagation time").as(Display::time).means(&exponential_time_ns),
      field("sl", 352, 4, "service level").alias("infiniband.mcmemberrecord.sl"),
      field("flow_label", 356, 20, "flow label of the GRH").hex().alias("infiniband.mcmemberrecord.flowlabel"),
      field("hop_limit", 376, 8, "hop limit of the GRH").alias("infiniband.mcmemberrecord.hoplimit"),
      field("scope", 384, 4, "scope of the group").alias("infiniband.mcmemberrecord.scope"),
      field("join_state", 388, 4, "bits: membership type of the port")
          .hex()
          .alias("infiniband.mcmemberrecord.joinstate"),
      field("join_state.send_only_full_member", 388, 1, "send-only full member"),
      field("join_state.send_only_non_member", 389, 1, "send-only non-member"),
      field("join_state.non_member", 390, 1, "non-member that sends and receives"),
      field("join_state.full_member", 391, 1, "full member that sends and receives"),
      field("proxy_join", 392, 1, "another node joined the group on behalf of the port")
          .alias("infiniband.mcmemberrecord.proxyjoin"),
      reserved("reserved", 393, 23),
  };
};

/// A node: NodeInfo and NodeDescription of one of its ports.
struct NodeRecord {
  static constexpr std::string_view name = "noderecord", title = "NodeRecord", section = "IBTA vol 1, 15.2.5.2";
  static constexpr std::string_view tail = "padding";
  static constexpr std::size_t size = 108;
  static constexpr auto fields = detail::rows(
      std::array{field("lid", 0, 16, "LID of the port").alias("infiniband.sa.lid"), reserved("reserved", 16, 16)},
      detail::moved(detail::node_info_rows, 32),
      std::array{field("node_description", 352, 512, "name of the node")
                     .as(Display::text)
                     .alias("infiniband.nodedescription.nodestring")});
};

/// A port, with its PortInfo.
struct PortInfoRecord {
  static constexpr std::string_view name = "portinforecord", title = "PortInfoRecord", section = "IBTA vol 1, 15.2.5.3";
  static constexpr std::string_view tail = "padding";
  static constexpr std::size_t size = 68;
  static constexpr auto fields = detail::rows(
      std::array{field("end_port_lid", 0, 16, "base LID of the port (of a switch: of port 0)")
                     .alias("infiniband.sa.endportlid"),
                 field("port_num", 16, 8, "the port").alias("infiniband.sa.portnum"),
                 field("options", 24, 8, "bits: format of the link speeds (reserved in older releases)").hex()},
      detail::moved(detail::port_info_rows, 32));
};

/// An advertised service.
struct ServiceRecord {
  static constexpr std::string_view name = "servicerecord", title = "ServiceRecord", section = "IBTA vol 1, 15.2.5.14";
  static constexpr std::string_view tail = "padding";
  static constexpr std::size_t size = 176;
  static constexpr std::array fields{
      field("service_id", 0, 64, "the service").hex().alias("infiniband.linkrecord.serviceid"),
      field("service_gid", 64, 128, "port that offers the service")
          .as(Display::ipv6)
          .alias("infiniband.linkrecord.servicegid"),
      field("service_pkey", 192, 16, "partition key").hex().alias("infiniband.linkrecord.servicep_key"),
      reserved("reserved", 208, 16),
      field("service_lease", 224, 32, "duration of the registration in seconds (all ones: unlimited)")
          .alias("infiniband.linkrecord.servicelease"),
      field("service_key", 256, 128, "key that protects changes of this record")
          .alias("infiniband.linkrecord.servicekey"),
      field("service_name", 384, 512, "name of the service")
          .as(Display::text)
          .alias("infiniband.linkrecord.servicename"),
      field("service_data8", 896, 128, "sixteen service-specific bytes").as(Display::bytes),
      field("service_data16", 1024, 128, "eight service-specific 16-bit numbers"),
      field("service_data32", 1152, 128, "four service-specific 32-bit numbers"),
      field("service_data64", 1280, 128, "two service-specific 64-bit numbers"),
  };
};

namespace detail {
inline constexpr std::array inform_info_rows{
    field("gid", 0, 128, "GID of one port (0: a range of LIDs)").as(Display::ipv6).alias("infiniband.informinfo.gid"),
    field("lid_range_begin", 128, 16, "first LID (0xffff: all)").alias("infiniband.informinfo.lidrangebegin"),
    field("lid_range_end", 144, 16, "last LID").alias("infiniband.informinfo.lidrangeend"),
    reserved("reserved", 160, 16),
    field("is_generic", 176, 8, "1: traps that the specification defines (0: traps of a vendor)")
        .alias("infiniband.informinfo.isgeneric"),
    field("subscribe", 184, 8, "1: subscribe (0: unsubscribe)").alias("infiniband.informinfo.subscribe"),
    field("type", 192, 16, "notice type (0xffff: all)").hex().alias("infiniband.informinfo.type"),
    field("trap_number", 208, 16, "trap number (vendor trap: device ID, 0xffff: all)")
        .of(trap_names)
        .alias("infiniband.informinfo.trapnumberdeviceid"),
    field("qpn", 224, 24, "QP of the subscriber").hex().alias("infiniband.informinfo.qpn"),
    reserved("reserved2", 248, 3),
    field("response_time", 251, 5, "code for the response time limit").alias("infiniband.informinfo.resptimevalue"),
    field("response_time.limit", 251, 5, "response time limit").as(Display::time).means(&exponential_time_ns),
    reserved("reserved3", 256, 8),
    field("producer", 264, 24, "producer type (vendor trap: OUI of the vendor, 0xffffff: all)")
        .hex()
        .alias("infiniband.informinfo.producertypevendorid"),
};
}  // namespace detail

/// A subscription to traps.
struct InformInfo {
  static constexpr std::string_view name = "informinfo", title = "InformInfo", section = "IBTA vol 1, 13.4.8.3";
  static constexpr std::size_t size = 36;
  static constexpr auto fields = detail::inform_info_rows;
};

/// A subscription that is in effect.
struct InformInfoRecord {
  static constexpr std::string_view name = "informinforecord", title = "InformInfoRecord",
                                    section = "IBTA vol 1, 15.2.5.12";
  static constexpr std::string_view tail = "padding";
  static constexpr std::size_t size = 60;
  static constexpr auto fields = detail::rows(
      std::array{
          field("subscriber_gid", 0, 128, "who subscribed")
              .as(Display::ipv6)
              .alias("infiniband.informinforecord.subscribergid"),
          field("enum", 128, 16, "distinguishes the subscriber's records").alias("infiniband.informinforecord.enum"),
          reserved("reserved0", 144, 48)},
      detail::moved(detail::inform_info_rows, 192));
};

/// A notice forwarded to a subscriber, with the GID of its issuer.
struct SaNotice {
  static constexpr std::string_view name = "sanotice", title = "Notice, forwarded", section = "IBTA vol 1, 13.4.8.2";
  static constexpr std::size_t size = 80;
  static constexpr auto fields = detail::rows(
      detail::notice_rows, std::array{field("issuer_gid", 512, 128, "issuer of the notice").as(Display::ipv6)});
};

}  // namespace rdmawire
