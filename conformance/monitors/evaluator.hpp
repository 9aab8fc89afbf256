#pragma once
/// Where every judgment goes: counts by rule, and violations, those of one rule on one connection as one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "conformance/monitors/rule_result.hpp"
#include "conformance/rules/rules.hpp"
#include "dissectors/tracking/address.hpp"
#include "dissectors/tracking/event.hpp"

namespace rdmawire::conformance {

using tracking::Side;

/// One frame of a ladder.
struct SequenceEntry {
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  std::uint32_t psn = 0;  ///< relative to the first request of its connection's requester
  std::uint32_t payload = 0;
  std::uint32_t msn = 0;
  std::uint8_t opcode = 0;
  std::uint8_t syndrome = 0;
  Side from = Side::a;
  bool has_aeth = false, ack_request = false, repeated = false;
  std::string_view label{};  ///< what it is, where that is not its opcode: a CM message
};

/// Which packet is judged.
struct Place {
  std::uint64_t connection = 0;  ///< Connection::id; 0: known later by `flow`, or there is none
  Side end = Side::a;            ///< the end that is judged
  bool by_flow = false;          ///< what is told as one: of this flow, whatever connection it turns out to be
  tracking::FlowKey flow;        ///< of the judged packet; set where `by_flow` is
  std::uint64_t frame = 0;
  std::int64_t time = 0;
  std::uint32_t psn = 0;  ///< relative
};

/// What a person reads of a violation.
struct Statement {
  std::string expected, actual;        ///< one sentence each
  std::vector<std::uint64_t> related;  ///< other frames that show it
};

/// A rule that was broken, once or often, by one end of one connection.
struct Violation {
  std::size_t rule = 0;  ///< index of `rules`
  Place place;           ///< of the first time
  Statement statement;   ///< likewise
  std::uint64_t last_frame = 0;
  std::uint64_t count = 0;
  std::vector<SequenceEntry> ladder;  ///< frames of the connection around the first time

  [[nodiscard]] const Rule& of() const { return rules[rule]; }
};

/// Which rules are judged; all, unless told.
class RuleSet {
 public:
  [[nodiscard]] bool has(RuleId rule) const { return chosen_[rule.index()]; }
  [[nodiscard]] bool has(std::size_t index) const { return chosen_[index]; }
  /// Patterns as select_rules() takes them; those that begin with ! take rules away. Where the first one does, all
  /// others are chosen. The pattern that matches nothing, or empty.
  std::string choose(const std::vector<std::string>& patterns);
  /// Only rules that ask at least so strongly.
  void at_least(Level level);

 private:
  static constexpr auto all = [] {
    std::array<bool, rules.size()> chosen{};
    chosen.fill(true);
    return chosen;
  }();
  std::array<bool, rules.size()> chosen_ = all;
};

/// Whose packet is being judged, and who of its connection is to be judged at all.
struct EvaluatedPacket {
  std::array<bool, 2> judged{true, true};  ///< by end
  Side from = Side::a;                     ///< the packet's sender
  bool response = false;

  /// Whether the rule's subject is judged: of responders the end that answers, or is asked; of requesters the other
  /// one; else the packet's sender.
  [[nodiscard]] bool concerns(RuleId rule) const;
};

class Evaluator {
 public:
  /// So many violations are told one by one; more are counted.
  static constexpr std::size_t most_violations = 1U << 14;

  explicit Evaluator(const RuleSet& chosen = {}) : chosen_(chosen) {}

  /// What comes is of this packet. Everybody is judged until this is called first.
  void hear(const EvaluatedPacket& hearing) {
    hearing_ = hearing;
    hears_all_ = hearing.judged[0] && hearing.judged[1];
  }
  /// Counts a ruling that is no violation.
  void judge(RuleId rule, RuleResult ruling) {
    if (hears_all_ || hearing_.concerns(rule)) count(rule, ruling);
  }
  /// The same where it is known which end is judged.
  void judge(RuleId rule, RuleResult ruling, Side judged) {
    if (hears_all_ || hearing_.judged[static_cast<std::size_t>(judged)]) count(rule, ruling);
  }
  /// Counts a ruling; `tell`, a function that gives a Statement, is called for the first violation of its kind, which
  /// is returned so that its ladder can be drawn; else nullptr.
  template <class Tell>
  Violation* judge(RuleId rule, RuleResult ruling, const Place& place, const Tell& tell) {
    if (!hears_all_ && !hearing_.judged[static_cast<std::size_t>(place.end)]) return nullptr;
    if (!count(rule, ruling) || ruling.kind() != RuleResult::Kind::violated) return nullptr;
    Violation* violation = find(rule, place);
    if (!violation || violation->count++ != 0) return nullptr;
    violation->statement = tell();
    return violation;
  }
  [[nodiscard]] bool wants(RuleId rule) const { return chosen_.has(rule); }

  /// The violation's ladder is drawn when its packet's connection is known; nullptr: nothing to draw.
  void draw_later(Violation* violation) {
    if (violation) undrawn_[violation->place.frame].push_back(violation);
  }
  /// What waits for the connection of that frame to be known.
  [[nodiscard]] std::vector<Violation*> of_frame(std::uint64_t frame) {
    if (undrawn_.empty()) return {};
    const auto waiting = undrawn_.find(frame);
    if (waiting == undrawn_.end()) return {};
    std::vector<Violation*> violations = std::move(waiting->second);
    undrawn_.erase(waiting);
    return violations;
  }

  /// A connection that was told of as `id` is `now`, its ends in the other order if `swapped`.
  void renamed(std::uint64_t id, std::uint64_t now, bool swapped);

  [[nodiscard]] const std::array<ResultCounters, rules.size()>& tallies() const { return tallies_; }
  [[nodiscard]] std::deque<Violation>& violations() { return violations_; }
  [[nodiscard]] const std::deque<Violation>& violations() const { return violations_; }
  /// Violations that found no room.
  [[nodiscard]] std::uint64_t untold() const { return untold_; }

 private:
  bool count(RuleId rule, RuleResult ruling) {
    if (!chosen_.has(rule)) return false;
    ResultCounters& tally = tallies_[rule.index()];
    switch (ruling.kind()) {
      case RuleResult::Kind::holds: ++tally.holds; break;
      case RuleResult::Kind::violated: ++tally.violated; break;
      case RuleResult::Kind::inconclusive: ++tally.open[static_cast<std::size_t>(ruling.reason())]; break;
    }
    return true;
  }
  Violation* find(RuleId rule, const Place& place);
  [[nodiscard]] static std::uint64_t key_of(std::size_t rule, const Place& place);

  RuleSet chosen_;
  EvaluatedPacket hearing_;
  bool hears_all_ = true;
  std::array<ResultCounters, rules.size()> tallies_{};
  std::deque<Violation> violations_;  // their places in memory stay
  std::unordered_map<std::uint64_t, Violation*> known_;
  std::unordered_map<std::uint64_t, std::vector<Violation*>> undrawn_;  // by frame
  std::uint64_t untold_ = 0;
};

}  // namespace rdmawire::conformance
