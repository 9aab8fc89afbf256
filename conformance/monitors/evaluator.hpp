#pragma once
/// Collects the results of all monitors: counters by rule, and violations grouped by rule, connection and endpoint.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "conformance/monitors/rule_result.hpp"
#include "conformance/rules/rules.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/event.hpp"
#include "dissectors/tracking/level.hpp"

namespace rdmawire::conformance {

using tracking::Side;

/// One frame of a sequence diagram.
struct SequenceEntry {
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  std::uint32_t psn = 0;  ///< relative to the PSN of the requester's first request
  std::uint32_t payload = 0;
  std::uint32_t msn = 0;
  std::uint8_t opcode = 0;
  std::uint8_t syndrome = 0;
  Side from = Side::a;
  bool has_aeth = false, ack_request = false, repeated = false;
  std::string_view label{};  ///< shown instead of the opcode's name, for packets without opcode such as CM messages
};

/// The evaluated packet and the endpoint that the result is attributed to.
struct Place {
  std::uint64_t connection = 0;  ///< Connection::id. 0: unknown (see `flow`), or there is none
  Side end = Side::a;            ///< the evaluated endpoint
  bool by_flow = false;          ///< true: group violations by `flow` instead of by connection
  tracking::FlowKey flow;        ///< flow of the packet. Set if `by_flow`
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  std::uint32_t psn = 0;  ///< relative to the PSN of the requester's first request
};

/// Human-readable description of a violation.
struct Statement {
  std::string expected, actual;        ///< texts for users, in which frames are named "frame N"
  std::vector<std::uint64_t> related;  ///< other frames as evidence
};

/// Violations of one rule by one endpoint of one connection.
struct Violation {
  std::size_t rule = 0;  ///< index of `rules`
  Place place;           ///< packet and endpoint of the first occurrence
  Statement statement;   ///< description of the first occurrence
  std::uint64_t last_frame = 0;
  std::uint64_t count = 0;
  std::vector<SequenceEntry> sequence;  ///< the connection's frames around the first occurrence

  [[nodiscard]] const Rule& of() const { return rules[rule]; }
};

/// The set of rules to evaluate. Default: all.
class RuleSet {
 public:
  [[nodiscard]] bool has(RuleId rule) const { return chosen_[rule.index()]; }
  [[nodiscard]] bool has(std::size_t index) const { return chosen_[index]; }
  /// Selects rules by the patterns of select_rules(). A pattern that starts with ! removes rules. If the first pattern
  /// starts with !, all rules are selected first. Returns the first pattern that matches no rule, or an empty text.
  std::string choose(const std::vector<std::string>& patterns);
  /// Removes rules with a weaker level than `level`.
  void at_least(Level level);

 private:
  static constexpr auto all = [] {
    std::array<bool, rules.size()> chosen{};
    chosen.fill(true);
    return chosen;
  }();
  std::array<bool, rules.size()> chosen_ = all;
};

/// The packet under evaluation and which endpoints of its connection are checked.
struct EvaluatedPacket {
  std::array<bool, 2> checked{true, true};  ///< by endpoint
  Side from = Side::a;                      ///< the packet's sender
  bool response = false;

  /// Returns whether the endpoint that the rule is about is checked. That endpoint is the requester or the responder
  /// for rules of these actors, and otherwise the packet's sender.
  [[nodiscard]] bool concerns(RuleId rule) const;
};

class Evaluator {
 public:
  /// Default maximum number of stored violations. Further ones are only counted.
  static constexpr std::size_t default_violations = 1U << 14;

  explicit Evaluator(const RuleSet& chosen = {}, std::size_t violations = default_violations)
      : chosen_(chosen), most_violations_(violations) {}

  /// Sets the packet that the following results belong to. Before the first call, both endpoints are checked.
  void set_packet(const EvaluatedPacket& packet) {
    packet_ = packet;
    checks_all_ = packet.checked[0] && packet.checked[1];
  }
  /// Counts a result that is not a violation.
  void record(RuleId rule, RuleResult result) {
    if (checks_all_ || packet_.concerns(rule)) count(rule, result);
  }
  /// Counts a result of the given endpoint.
  void record(RuleId rule, RuleResult result, Side checked) {
    if (checks_all_ || packet_.checked[static_cast<std::size_t>(checked)]) count(rule, result);
  }
  /// Counts a result. If it is the first violation of its group, stores the Statement that `describe` returns, and
  /// returns the violation, so that the caller can attach a sequence. Otherwise returns nullptr.
  template <class Describe>
  Violation* record(RuleId rule, RuleResult result, const Place& place, const Describe& describe) {
    if (!checks_all_ && !packet_.checked[static_cast<std::size_t>(place.end)]) return nullptr;
    if (!count(rule, result) || result.kind() != RuleResult::Kind::violation) return nullptr;
    Violation* violation = find(rule, place);
    if (!violation || violation->count++ != 0) return nullptr;
    violation->statement = describe();
    return violation;
  }
  [[nodiscard]] bool wants(RuleId rule) const { return chosen_.has(rule); }

  /// Defers the sequence of `violation` (may be nullptr) until the connection of its packet is known.
  void attach_sequence_later(Violation* violation) {
    if (violation) without_sequence_[violation->place.frame].push_back(violation);
  }
  /// Removes and returns the violations of this frame that wait for their connection.
  [[nodiscard]] std::vector<Violation*> of_frame(std::uint64_t frame) {
    if (without_sequence_.empty()) return {};
    const auto waiting = without_sequence_.find(frame);
    if (waiting == without_sequence_.end()) return {};
    std::vector<Violation*> violations = std::move(waiting->second);
    without_sequence_.erase(waiting);
    return violations;
  }

  /// Moves the violations of connection `id` to connection `now`. `swapped`: also exchanges endpoints a and b.
  void renamed(std::uint64_t id, std::uint64_t now, bool swapped);

  [[nodiscard]] const std::array<ResultCounters, rules.size()>& counters() const { return counters_; }
  [[nodiscard]] std::deque<Violation>& violations() { return violations_; }
  [[nodiscard]] const std::deque<Violation>& violations() const { return violations_; }
  /// Returns the number of violations that were only counted, because the maximum was reached.
  [[nodiscard]] std::uint64_t omitted() const { return omitted_; }
  [[nodiscard]] tracking::Level level() const { return {violations_.size() + (omitted_ != 0), most_violations_}; }
  /// Assigns a violation to a connection.
  void assign(Violation& violation, std::uint64_t connection) {
    violation.place.connection = connection;
    connections_.insert(connection);
  }
  /// Returns whether a stored violation may belong to this connection.
  [[nodiscard]] bool concerns(std::uint64_t connection) const { return connections_.contains(connection); }

 private:
  bool count(RuleId rule, RuleResult result) {
    if (!chosen_.has(rule)) return false;
    ResultCounters& counts = counters_[rule.index()];
    switch (result.kind()) {
      case RuleResult::Kind::pass: ++counts.passed; break;
      case RuleResult::Kind::violation: ++counts.violated; break;
      case RuleResult::Kind::inconclusive:
        ++counts.inconclusive_by_reason[static_cast<std::size_t>(result.reason())];
        break;
    }
    return true;
  }
  Violation* find(RuleId rule, const Place& place);
  [[nodiscard]] static std::uint64_t key_of(std::size_t rule, const Place& place);

  RuleSet chosen_;
  EvaluatedPacket packet_;
  bool checks_all_ = true;
  std::array<ResultCounters, rules.size()> counters_{};
  std::deque<Violation> violations_;  // a deque, because pointers to the elements must stay valid
  std::unordered_map<std::uint64_t, Violation*> known_;
  std::unordered_map<std::uint64_t, std::vector<Violation*>> without_sequence_;  // by frame
  std::uint64_t omitted_ = 0;
  std::size_t most_violations_;
  std::unordered_set<std::uint64_t> connections_;  // of violations
};

}  // namespace rdmawire::conformance
