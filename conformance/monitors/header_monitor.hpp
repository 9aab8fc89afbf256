#pragma once
/// Checks of the headers of single packets: rules of the group HDR, and rules of other groups that require only one
/// packet.

#include <array>
#include <optional>
#include <string_view>

#include "conformance/monitors/evaluator.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::conformance {

class HeaderMonitor {
 public:
  /// `untouched`: true if no hop changes packets, and the capture contains them as sent.
  explicit HeaderMonitor(Evaluator& evaluator, bool untouched = false) : evaluator_(evaluator), untouched_(untouched) {}

  /// Handles a packet of the InfiniBand transport. Ignores others. Violations contain the packet's flow, because its
  /// connection may be known only later.
  void add(const tracking::Packet& packet);

 private:
  /// Maximum number of invalid ICRCs whose cause is determined.
  static constexpr std::uint32_t explained = 1U << 14;

  struct HeaderPacketContext;
  void check_total(const HeaderPacketContext& here, RuleId rule, const char* name, std::uint32_t length,
                   std::uint32_t counted_from);
  void check_ipv4(const HeaderPacketContext& here);
  void check_ipv6(const HeaderPacketContext& here);
  void check_udp(const HeaderPacketContext& here);
  void check_icrc(const HeaderPacketContext& here);
  void check_sum(const HeaderPacketContext& here, RuleId rule, std::string_view name, std::uint32_t value, bool right);
  void check_bth(const HeaderPacketContext& here);
  void check_extensions(const HeaderPacketContext& here);
  void check_length(const HeaderPacketContext& here);
  void check_service(const HeaderPacketContext& here);
  void check_cnp(const HeaderPacketContext& here);

  Evaluator& evaluator_;
  bool untouched_;
  std::uint32_t explanations_ = 0;
};

/// Counts the results of HeaderMonitor for packets without violations. The order of the packets has no influence. Not
/// thread-safe: each thread or batch needs its own object.
class HeaderTally {
 public:
  explicit HeaderTally(const RuleSet& chosen, bool untouched = false)
      : counted_(chosen, 0), withdrawn_(chosen, 0), headers_(counted_, untouched), withdraws_(withdrawn_, untouched) {}
  HeaderTally(const HeaderTally&) = delete;
  HeaderTally& operator=(const HeaderTally&) = delete;

  /// Counts the results of a packet. If the packet has a violation or a bad ICRC, counts nothing and returns false:
  /// HeaderMonitor must check it.
  bool add(const tracking::Packet& packet);
  void add_to(std::array<ResultCounters, rules.size()>& counters) const;

 private:
  Evaluator counted_, withdrawn_;  ///< their difference is the result
  HeaderMonitor headers_, withdraws_;
};

/// Returns the flow of a packet of the InfiniBand transport, for violations. See flow_of_packet(). nullopt: it has
/// none.
std::optional<tracking::FlowKey> flow_of(const tracking::Packet& packet);

/// Returns the key of a flow: the ports, and the QP numbers: both for datagrams, the destination's for others.
tracking::FlowKey flow_of_packet(const tracking::FlowKey& ports, bool datagram, std::uint32_t source_qp,
                                 std::uint32_t dest_qp);

}  // namespace rdmawire::conformance
