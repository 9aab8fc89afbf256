#pragma once
/// Performance management: the counters of a port. IBTA vol 1, 16.1.

#include "dissectors/protocol/mad.hpp"

namespace rdmawire {

/// Header of performance management between the common header and the attribute.
struct Pm {
  static constexpr std::string_view name = "pm", title = "Performance management", section = "IBTA vol 1, 16.1.1";
  static constexpr std::size_t size = 40;
  static constexpr std::array fields{reserved("reserved", 0, 320)};
};

/// Counters that every port has. They saturate at their maximum.
struct PortCounters {
  static constexpr std::string_view name = "portcounters", title = "PortCounters", section = "IBTA vol 1, 16.1.3.5";
  static constexpr std::size_t size = 44;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("port_select", 8, 8, "port number (255: all)").alias("infiniband.portcounters.portselect"),
      field("counter_select", 16, 16, "bits: counters that Set changes")
          .hex()
          .alias("infiniband.portcounters.counterselect"),
      field("symbol_error_counter", 32, 16, "minor errors on a lane")
          .alias("infiniband.portcounters.symbolerrorcounter"),
      field("link_error_recovery_counter", 48, 8, "number of times the link recovered from errors")
          .alias("infiniband.portcounters.linkerrorrecoverycounter"),
      field("link_downed_counter", 56, 8, "number of times the link did not recover and went down")
          .alias("infiniband.portcounters.linkdownedcounter"),
      field("rcv_errors", 64, 16, "packets received with errors").alias("infiniband.portcounters.portrcverrors"),
      field("rcv_remote_physical_errors", 80, 16, "received packets that an earlier port marked as bad")
          .alias("infiniband.portcounters.portrcvremotephysicalerrors"),
      field("rcv_switch_relay_errors", 96, 16, "packets that the switch could not forward")
          .alias("infiniband.portcounters.portrcvswitchrelayerrors"),
      field("xmit_discards", 112, 16, "outbound packets dropped because the port was down or congested")
          .alias("infiniband.portcounters.portxmitdiscards"),
      field("xmit_constraint_errors", 128, 8, "outbound packets dropped: partition or raw packet not permitted")
          .alias("infiniband.portcounters.portxmitconstrainterrors"),
      field("rcv_constraint_errors", 136, 8, "inbound packets dropped: partition or raw packet not permitted")
          .alias("infiniband.portcounters.portrcvconstrainterrors"),
      field("counter_select2", 144, 8, "bits: more counters that Set changes").hex(),
      field("local_link_integrity_errors", 152, 4, "number of times that link errors reached their threshold")
          .alias("infiniband.portcounters.locallinkintegrityerrors"),
      field("excessive_buffer_overrun_errors", 156, 4, "number of consecutive buffer overruns")
          .alias("infiniband.portcounters.excessivebufferoverrunerrors"),
      field("qp1_dropped", 160, 16, "packets to QP 1 that were dropped (reserved in older releases)"),
      field("vl15_dropped", 176, 16, "subnet management packets dropped for lack of buffers")
          .alias("infiniband.portcounters.vl15dropped"),
      field("xmit_data", 192, 32, "data sent, in units of 4 bytes").alias("infiniband.portcounters.portxmitdata"),
      field("xmit_data.bytes", 192, 32, "sent bytes").means(&bytes_of_words),
      field("rcv_data", 224, 32, "data received, in units of 4 bytes").alias("infiniband.portcounters.portrcvdata"),
      field("rcv_data.bytes", 224, 32, "received bytes").means(&bytes_of_words),
      field("xmit_pkts", 256, 32, "sent packets").alias("infiniband.portcounters.portxmitpkts"),
      field("rcv_pkts", 288, 32, "received packets").alias("infiniband.portcounters.portrcvpkts"),
      field("xmit_wait", 320, 32, "ticks during which data waited for credits"),
  };
};

/// 64-bit traffic counters.
struct PortCountersExtended {
  static constexpr std::string_view name = "portcountersext", title = "PortCountersExtended",
                                    section = "IBTA vol 1, 16.1.4.11";
  static constexpr std::size_t size = 72;
  static constexpr std::array fields{
      reserved("reserved", 0, 8),
      field("port_select", 8, 8, "port number (255: all)").alias("infiniband.portcounters_ext.portselect"),
      field("counter_select", 16, 16, "bits: counters that Set changes")
          .hex()
          .alias("infiniband.portcounters_ext.counterselect"),
      reserved("reserved2", 32, 32),
      field("xmit_data", 64, 64, "data sent, in units of 4 bytes").alias("infiniband.portcounters_ext.portxmitdata"),
      field("xmit_data.bytes", 64, 64, "sent bytes").means(&bytes_of_words),
      field("rcv_data", 128, 64, "data received, in units of 4 bytes").alias("infiniband.portcounters_ext.portrcvdata"),
      field("rcv_data.bytes", 128, 64, "received bytes").means(&bytes_of_words),
      field("xmit_pkts", 192, 64, "sent packets").alias("infiniband.portcounters_ext.portxmitpkts"),
      field("rcv_pkts", 256, 64, "received packets").alias("infiniband.portcounters_ext.portrcvpkts"),
      field("unicast_xmit_pkts", 320, 64, "sent unicast packets")
          .alias("infiniband.portcounters_ext.portunicastxmitpkts"),
      field("unicast_rcv_pkts", 384, 64, "received unicast packets")
          .alias("infiniband.portcounters_ext.portunicastrcvpkts"),
      field("multicast_xmit_pkts", 448, 64, "sent multicast packets")
          .alias("infiniband.portcounters_ext.portmulticastxmitpkts"),
      field("multicast_rcv_pkts", 512, 64, "received multicast packets")
          .alias("infiniband.portcounters_ext.portmulticastrcvpkts"),
  };
};

}  // namespace rdmawire
