#pragma once
/// Checks of CM exchanges: fields of REQ, REP, RTU and REJ, and the number of retries. IBTA vol 1, chapter 12.

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "conformance/monitors/evaluator.hpp"
#include "dissectors/tracking/cm_message.hpp"
#include "dissectors/tracking/packet.hpp"

namespace rdmawire::conformance {

struct CaptureAssumptions;

/// Memory is bounded: when the number of stored exchanges exceeds the limit, all are dropped.
class CmMonitor {
 public:
  static constexpr std::size_t default_exchanges = 1U << 16;
  CmMonitor(Evaluator& evaluator, const CaptureAssumptions& assumptions, std::size_t exchanges = default_exchanges)
      : evaluator_(evaluator), trust_(assumptions), most_(exchanges) {}

  /// Handles a packet. Ignores packets other than CM messages.
  void add(const tracking::Packet& packet);
  /// Monitors::management_state.
  [[nodiscard]] std::uint64_t state() const { return state_; }
  /// Returns the highest number of stored exchanges, and its limit.
  [[nodiscard]] tracking::Level level() const { return {highest_, most_}; }
  /// Returns whether a REQ or LAP between these two ports requested an alternate path, in either direction. Ignores
  /// `ports.number`.
  [[nodiscard]] bool has_alternate_path(const tracking::FlowKey& ports) const {
    return !alternate_paths_.empty() && alternate_paths_.contains(pair_hash(ports));
  }

 private:
  struct Exchange {
    std::uint64_t request_frame = 0, reply_frame = 0, receipt_frame = 0;
    std::uint32_t active_id = 0, passive_id = 0;
    std::uint32_t requests = 0, most_requests = 0;
    std::uint32_t last_icrc = 0;
    std::int64_t last_time = 0;
    std::vector<SequenceEntry> entries;
  };
  struct Message;
  [[nodiscard]] static std::uint64_t pair_hash(const tracking::FlowKey& ports);
  void request(const Message& m);
  void check_network(const Message& m);
  void reply(const Message& m);
  void ready(const Message& m);
  void reject(const Message& m);
  template <class Describe>
  void report(const Message& m, RuleId rule, RuleResult result, const Describe& describe);

  Evaluator& evaluator_;
  const CaptureAssumptions& trust_;
  std::unordered_map<std::uint64_t, Exchange> exchanges_;  // by hash of ports and transaction
  std::unordered_set<std::uint64_t> alternate_paths_;
  std::uint64_t state_ = 0;
  std::size_t most_, highest_ = 0;
};

}  // namespace rdmawire::conformance
