#include "conformance/monitors/known_stack.hpp"

#include <array>

#include "conformance/rules/rules.hpp"
#include "dissectors/tracking/queue_pairs.hpp"

namespace rdmawire::conformance {
namespace {

struct Deviation {
  Stack stack;
  RuleId rule;
  std::string_view description;
};

constexpr std::array deviations{
    Deviation{Stack::linux_rxe, "bth.sender.migration.state-constant",
              "Linux rxe sends MigReq 0 in every packet. It has no path migration"},
    Deviation{Stack::linux_rxe, "bth.sender.ack-request.clear-if-unacknowledged",
              "Linux rxe sets AckReq in datagrams of QP 1, whose receivers ignore it"},
    Deviation{Stack::linux_rxe, "ud.sender.ack-request.clear",
              "Linux rxe sets AckReq in datagrams of QP 1, whose receivers ignore it"},
};

}  // namespace

std::string_view to_string(Stack stack) {
  switch (stack) {
    case Stack::unknown: return "unknown";
    case Stack::linux_rxe: return "Linux rxe";
  }
  return {};
}

Stack recognize(const StackEvidence& packet) {
  if (packet.migrated || packet.source_port == 0) return Stack::unknown;
  return packet.source_port == tracking::source_port::of_sender(packet.sender_qp) ? Stack::linux_rxe : Stack::unknown;
}

void KnownStacks::learn(const tracking::PortAddress& from, const StackEvidence& packet) {
  const Stack stack = recognize(packet);
  if (stack != Stack::unknown && known_.size() < most_addresses) known_.try_emplace(from, stack);
}

Stack KnownStacks::of(const tracking::PortAddress& address) const {
  const auto found = known_.find(address);
  return found == known_.end() ? Stack::unknown : found->second;
}

std::string_view harmless_deviation(Stack stack, const Rule& rule) {
  for (const Deviation& deviation : deviations)
    if (deviation.stack == stack && deviation.rule->id == rule.id) return deviation.description;
  return {};
}

}  // namespace rdmawire::conformance
