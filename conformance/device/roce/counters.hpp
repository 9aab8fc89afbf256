#pragma once
/// Port counters. Names follow hw_counters of Linux drivers where such a counter exists.

#include <array>
#include <cstdint>
#include <string_view>

namespace rdmawire::device {

struct Counters {
  std::uint64_t sent_packets = 0, received_packets = 0, sent_bytes = 0, received_bytes = 0;
  std::uint64_t icrc_errors = 0;      ///< packets dropped for a wrong ICRC
  std::uint64_t malformed = 0;        ///< packets dropped for wrong lengths, versions or flags
  std::uint64_t misdirected = 0;      ///< packets dropped for an unknown QP, or a wrong service, peer or state
  std::uint64_t bad_pkeys = 0;        ///< stops at 0xffff, like the 16-bit counter of a port
  std::uint64_t qkey_violations = 0;  ///< stops at 0xffff
  std::uint64_t duplicate_request = 0, out_of_sequence = 0;  ///< counted by responders
  std::uint64_t rnr_naks_sent = 0, rnr_naks_received = 0;
  std::uint64_t naks_sent = 0, naks_received = 0;
  std::uint64_t timeouts = 0, retries_exceeded = 0, rnr_retries_exceeded = 0, implied_naks = 0;
  std::uint64_t retransmitted = 0;  ///< number of packets
  std::uint64_t no_receive = 0;     ///< UC and UD packets dropped because no receive was posted
  std::uint64_t ecn_marked = 0, cnps_sent = 0, cnps_handled = 0, cnps_ignored = 0;
};

struct CounterName {
  std::string_view name;
  std::uint64_t Counters::*value;
};
inline constexpr std::array counter_names{
    CounterName{"tx_packets", &Counters::sent_packets},
    CounterName{"rx_packets", &Counters::received_packets},
    CounterName{"tx_bytes", &Counters::sent_bytes},
    CounterName{"rx_bytes", &Counters::received_bytes},
    CounterName{"rx_icrc_encapsulated", &Counters::icrc_errors},
    CounterName{"rx_malformed", &Counters::malformed},
    CounterName{"rx_misdirected", &Counters::misdirected},
    CounterName{"bad_pkey", &Counters::bad_pkeys},
    CounterName{"bad_qkey", &Counters::qkey_violations},
    CounterName{"duplicate_request", &Counters::duplicate_request},
    CounterName{"out_of_sequence", &Counters::out_of_sequence},
    CounterName{"rnr_nak_sent", &Counters::rnr_naks_sent},
    CounterName{"rnr_nak_received", &Counters::rnr_naks_received},
    CounterName{"nak_sent", &Counters::naks_sent},
    CounterName{"packet_seq_err", &Counters::naks_received},
    CounterName{"local_ack_timeout_err", &Counters::timeouts},
    CounterName{"retry_exceeded_err", &Counters::retries_exceeded},
    CounterName{"rnr_retry_exceeded_err", &Counters::rnr_retries_exceeded},
    CounterName{"implied_nak_seq_err", &Counters::implied_naks},
    CounterName{"retransmitted", &Counters::retransmitted},
    CounterName{"no_receive", &Counters::no_receive},
    CounterName{"np_ecn_marked_roce_packets", &Counters::ecn_marked},
    CounterName{"np_cnp_sent", &Counters::cnps_sent},
    CounterName{"rp_cnp_handled", &Counters::cnps_handled},
    CounterName{"rp_cnp_ignored", &Counters::cnps_ignored},
};

}  // namespace rdmawire::device
