#pragma once
/// What a case is: the rules it exercises, what it needs, and its steps. It states the expected answer literally, from
/// the clause, and never asks a machine: so a clause that was misread shows as a disagreement with the reference
/// device, which is built on the machines, or with a real one.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/cases/bench.hpp"
#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// The device's part.
enum class Role : std::uint8_t { responder, requester, verbs, wire };

/// What a device must have. What it lacks makes the verdict "unsupported".
enum class Need : std::uint32_t {
  nothing = 0,
  uc = 1U << 0,
  ud = 1U << 1,
  xrc = 1U << 2,
  atomics = 1U << 3,
  shared_receive_queues = 1U << 4,
  memory_windows = 1U << 5,
  flush = 1U << 6,
  atomic_write = 1U << 7,
  connection_manager = 1U << 8,
  multicast = 1U << 9,
  roce_v1 = 1U << 10,
};
constexpr Need operator|(Need a, Need b) {
  return static_cast<Need>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool needs(Need set, Need one) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(one)) != 0;
}

/// What a case may cost a real device. The reference device runs every case.
enum class RunPolicy : std::uint8_t {
  none,
  slow,       ///< takes more than a minute of the device's clock
  dangerous,  ///< is known to have left a device hanging or deaf
};

namespace iwarp {
class IwarpBench;
}

/// Steps that are more than a function: of a program that brings its own cases.
class Script {
 public:
  explicit Script(Family family = Family::infiniband) : family_(family) {}
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  virtual ~Script() = default;
  /// What it speaks: which of the two that follow is called.
  [[nodiscard]] Family family() const { return family_; }
  /// Ends early by CaseEnd alone. Called by any thread, and by several at once, each with a bench of its own.
  virtual void run(Bench& bench) const;
  /// The same, of iWARP.
  virtual void run_streams(iwarp::IwarpBench& bench) const;

 private:
  Family family_;
};

/// A case's steps, by a function of its file, or by a script.
class Steps {
 public:
  using OfInfiniband = void (*)(Bench&);
  using OfIwarp = void (*)(iwarp::IwarpBench&);
  constexpr Steps() = default;
  // Cases name their function where steps are meant.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Steps(OfInfiniband run) : infiniband_(run) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Steps(OfIwarp run) : iwarp_(run) {}
  /// `script` must outlive it.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Steps(const Script& script) : script_(&script) {}

  [[nodiscard]] constexpr Family family() const {
    if (script_) return script_->family();
    return iwarp_ ? Family::iwarp : Family::infiniband;
  }
  /// Requires that the family is the bench's.
  void operator()(Bench& bench) const { script_ ? script_->run(bench) : infiniband_(bench); }
  void operator()(iwarp::IwarpBench& bench) const { script_ ? script_->run_streams(bench) : iwarp_(bench); }

 private:
  OfInfiniband infiniband_ = nullptr;
  OfIwarp iwarp_ = nullptr;
  const Script* script_ = nullptr;
};

struct Case {
  RuleId rule;                 ///< that its verdict is about
  std::string_view variant{};  ///< tells cases of one rule apart: "two packets missing"; empty: the only one
  Role role = Role::responder;
  Need needs = Need::nothing;
  Steps run{};
  RunPolicy caution = RunPolicy::none;
  std::string_view possible_problems{};  ///< when a deviation says less than it seems

  [[nodiscard]] Family family() const { return run.family(); }
  /// "rc.responder.psn.sequence-error", "rc.responder.psn.sequence-error/two packets missing"
  [[nodiscard]] std::string id() const {
    return variant.empty() ? std::string(rule->id) : std::string(rule->id).append("/").append(variant);
  }
};

/// What of `needed` the device says it lacks, in words; empty: nothing. What no device can say of itself is not asked.
std::string lacking(const DeviceUnderTest& device, Need needed);

/// Why the case is not run unless it is asked for, in words; empty: it is run.
std::string left_out(const DeviceUnderTest& device, RunPolicy caution);

/// All cases of this product, by file, in the rules' order; the dangerous ones last.
std::span<const Case> cases();

/// A case of a program's own, beside them: known by its id from now on, as long as the program runs; its texts and its
/// script must live so long. nullptr: there is one of that id already. From any thread.
const Case* add_case(const Case& which);
/// Those that were added, in that order.
std::vector<const Case*> added_cases();
/// The case of that id, ours or added; nullptr: there is none.
const Case* find_case(std::string_view id);

}  // namespace rdmawire::conformance
