#pragma once
/// Stacks that their packets identify, and their known deviations without effect on a peer:
/// docs/reference/known-deviations.md.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "conformance/rules/rule.hpp"
#include "dissectors/tracking/address.hpp"

namespace rdmawire::conformance {

enum class Stack : std::uint8_t {
  unknown,
  linux_rxe,  ///< the driver rdma_rxe of Linux
};
/// "Linux rxe"
std::string_view to_string(Stack stack);

/// Properties of a RoCEv2 packet from which its sender is recognized.
struct StackEvidence {
  std::uint16_t source_port = 0;  ///< of UDP
  std::uint32_t sender_qp = 0;
  bool migrated = false;  ///< MigReq of the BTH
};
/// Rxe sends datagrams of QP 1, and packets of connections that no CM established, with a UDP source port that depends
/// only on its own QP number. It never sets MigReq.
Stack recognize(const StackEvidence& packet);

/// The stacks of the addresses of a capture.
class KnownStacks {
 public:
  static constexpr std::size_t most_addresses = 1U << 16;

  /// Evaluates a packet that `from` sent. Later packets are only evaluated while the stack is unknown.
  void learn(const tracking::PortAddress& from, const StackEvidence& packet);
  [[nodiscard]] Stack of(const tracking::PortAddress& address) const;

 private:
  std::map<tracking::PortAddress, Stack> known_;
};

/// Returns the description of a known deviation of the stack from the rule that has no effect on a peer, or an empty
/// text.
std::string_view harmless_deviation(Stack stack, const Rule& rule);

}  // namespace rdmawire::conformance
