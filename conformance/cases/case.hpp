#pragma once
/// A case: the rule that it exercises, its requirements, and its steps. A case states the expected response literally
/// from the clause and does not use the protocol state machines. A misread clause therefore appears as a mismatch with
/// the reference device, which uses the state machines, or with a real device.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/cases/bench.hpp"
#include "conformance/rules/rules.hpp"

namespace rdmawire::conformance {

/// The role of the device.
enum class Role : std::uint8_t { responder, requester, verbs, wire };

/// Required features of the device. If one is missing, the verdict is "unsupported".
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

/// Whether a case may run on a real device by default. The reference device runs every case.
enum class RunPolicy : std::uint8_t {
  none,
  slow,       ///< takes more than a minute of the device's time
  dangerous,  ///< may stop the device or disturb its other connections
};

namespace iwarp {
class IwarpBench;
}

/// Steps with state, for cases that a program adds.
class Script {
 public:
  explicit Script(Family family = Family::infiniband) : family_(family) {}
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  virtual ~Script() = default;
  /// The family of the device. Determines which of the following functions is called.
  [[nodiscard]] Family family() const { return family_; }
  /// Runs the case. Only CaseEnd ends it early. May be called by several threads, each with its own bench.
  virtual void run(Bench& bench) const;
  /// Runs an iWARP case.
  virtual void run_streams(iwarp::IwarpBench& bench) const;

 private:
  Family family_;
};

/// The steps of a case: a function or a script.
class Steps {
 public:
  using OfInfiniband = void (*)(Bench&);
  using OfIwarp = void (*)(iwarp::IwarpBench&);
  constexpr Steps() = default;
  // Cases pass their function where steps are expected.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Steps(OfInfiniband run) : infiniband_(run) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Steps(OfIwarp run) : iwarp_(run) {}
  /// `script` must outlive this object.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Steps(const Script& script) : script_(&script) {}

  [[nodiscard]] constexpr Family family() const {
    if (script_) return script_->family();
    return iwarp_ ? Family::iwarp : Family::infiniband;
  }
  /// Runs the steps. The family must match the bench.
  void operator()(Bench& bench) const { script_ ? script_->run(bench) : infiniband_(bench); }
  void operator()(iwarp::IwarpBench& bench) const { script_ ? script_->run_streams(bench) : iwarp_(bench); }

 private:
  OfInfiniband infiniband_ = nullptr;
  OfIwarp iwarp_ = nullptr;
  const Script* script_ = nullptr;
};

struct Case {
  RuleId rule;                 ///< the tested rule
  std::string_view variant{};  ///< distinguishes cases of one rule: "two packets". Empty: the only case
  Role role = Role::responder;
  Need needs = Need::nothing;
  Steps run{};
  RunPolicy caution = RunPolicy::none;
  std::string_view possible_problems{};  ///< reasons why a failure may be a false positive

  [[nodiscard]] Family family() const { return run.family(); }
  /// "rc.responder.psn.sequence-error", "rc.responder.msn.in-read-response/two packets"
  [[nodiscard]] std::string id() const {
    return variant.empty() ? std::string(rule->id) : std::string(rule->id).append("/").append(variant);
  }
};

/// Describes the required features that the device reports as missing. Empty if there are none. Features that devices
/// cannot report are not checked.
std::string lacking(const DeviceUnderTest& device, Need needed);

/// Describes why the case is skipped by default. Empty if it runs.
std::string left_out(const DeviceUnderTest& device, RunPolicy caution);

/// All built-in cases by file, in the order of the rules. Dangerous cases last.
std::span<const Case> cases();

/// Adds a case, which is then found by its id. Its texts and its script must outlive the program's use of cases.
/// Returns nullptr if the id exists already. Thread-safe.
const Case* add_case(const Case& which);
/// The added cases in the order of addition.
std::vector<const Case*> added_cases();
/// Returns the built-in or added case with this id, or nullptr.
const Case* find_case(std::string_view id);

}  // namespace rdmawire::conformance
