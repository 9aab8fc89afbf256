#pragma once
/// The CM's exchanges: what REQ, REP, RTU and REJ say, and how often. IBTA vol 1, chapter 12.

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "conformance/monitors/evaluator.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::conformance {

struct CaptureAssumptions;

/// Bounded: at most `most` exchanges are remembered; when there are more, all are forgotten.
class CmMonitor {
 public:
  CmMonitor(Evaluator& judge, const CaptureAssumptions& trust) : judge_(judge), trust_(trust) {}

  /// A packet; those that are not of the CM change nothing.
  void add(const tracking::Packet& packet);
  /// Monitors::management_state.
  [[nodiscard]] std::uint64_t state() const { return state_; }
  /// Whether an alternate path was agreed on between these two ports (number 0), either way round.
  [[nodiscard]] bool has_alternate_path(const tracking::FlowKey& ports) const {
    return !alternate_paths_.empty() && alternate_paths_.contains(pair_hash(ports));
  }

 private:
  static constexpr std::size_t most = 1U << 16;
  struct Exchange {
    std::uint64_t request_frame = 0, reply_frame = 0, receipt_frame = 0;
    std::uint32_t active_id = 0, passive_id = 0;
    std::uint32_t requests = 0, most_requests = 0;
    std::uint32_t last_icrc = 0;
    std::int64_t last_time = 0;
    std::vector<SequenceEntry> rungs;
  };
  struct Message;
  [[nodiscard]] static std::uint64_t pair_hash(const tracking::FlowKey& ports);
  void request(const Message& m);
  void judge_network(const Message& m);
  void reply(const Message& m);
  void ready(const Message& m);
  void reject(const Message& m);
  template <class Tell>
  void say(const Message& m, RuleId rule, RuleResult ruling, const Tell& tell);

  Evaluator& judge_;
  const CaptureAssumptions& trust_;
  std::unordered_map<std::uint64_t, Exchange> exchanges_;  // by ports and transaction
  std::unordered_set<std::uint64_t> alternate_paths_;
  std::uint64_t state_ = 0;
};

}  // namespace rdmawire::conformance
