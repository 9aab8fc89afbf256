#pragma once
/// Recognizes RDMA stacks by their packets, and lists their known deviations that do not affect a peer. See
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

/// Properties of a RoCEv2 packet that show which stack sent it.
struct StackEvidence {
  std::uint16_t source_port = 0;  ///< UDP source port
  std::uint32_t sender_qp = 0;
  bool migrated = false;  ///< MigReq of the BTH
};
/// Returns the stack that sent the packet. Rxe never sets MigReq. Its UDP source port depends only on its own QP
/// number, in datagrams of QP 1 and in packets of connections that were not established by the CM.
Stack recognize(const StackEvidence& packet);

/// Recognizes the stack at each address of a capture.
class KnownStacks {
 public:
  static constexpr std::size_t most_addresses = 1U << 16;

  /// Evaluates a packet that `from` sent, unless the stack of `from` is already known.
  void learn(const tracking::PortAddress& from, const StackEvidence& packet);
  [[nodiscard]] Stack of(const tracking::PortAddress& address) const;

 private:
  std::map<tracking::PortAddress, Stack> known_;
};

/// Returns the description of a known deviation from the rule that does not affect a peer. Empty: the stack has none.
std::string_view harmless_deviation(Stack stack, const Rule& rule);

}  // namespace rdmawire::conformance
