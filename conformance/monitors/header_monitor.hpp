#pragma once
/// What a packet's headers show by themselves: rules of the group HDR, and of the others where one packet is enough.

#include <optional>

#include "conformance/monitors/evaluator.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::conformance {

class HeaderMonitor {
 public:
  /// `untouched`: nothing on the way changes packets, and the capturing host sees them as they leave.
  explicit HeaderMonitor(Evaluator& judge, bool untouched = false) : judge_(judge), untouched_(untouched) {}

  /// A packet of InfiniBand's transport; others change nothing. Violations name the packet's flow: which connection it
  /// belongs to may be known only later.
  void add(const tracking::Packet& packet);

 private:
  /// Bad ICRCs whose cause is looked for.
  static constexpr std::uint32_t explained = 1U << 14;

  struct HeaderPacketContext;
  void judge_total(const HeaderPacketContext& here, RuleId rule, const char* name, std::uint32_t length,
                   std::uint32_t counted_from);
  void judge_ipv4(const HeaderPacketContext& here);
  void judge_ipv6(const HeaderPacketContext& here);
  void judge_udp(const HeaderPacketContext& here);
  void judge_icrc(const HeaderPacketContext& here);
  void judge_bth(const HeaderPacketContext& here);
  void judge_length(const HeaderPacketContext& here);
  void judge_service(const HeaderPacketContext& here);
  void judge_cnp(const HeaderPacketContext& here);

  Evaluator& judge_;
  bool untouched_;
  std::uint32_t explanations_ = 0;
};

/// How the flow of a packet of InfiniBand's transport is named in violations: as flow_of_packet(). nullopt: it has
/// none.
std::optional<tracking::FlowKey> flow_of(const tracking::Packet& packet);

/// How a flow is named: datagrams by both queue pairs, others by the one that they go to.
tracking::FlowKey flow_of_packet(const tracking::FlowKey& ports, bool datagram, std::uint32_t source_qp,
                                 std::uint32_t dest_qp);

}  // namespace rdmawire::conformance
