#include "conformance/runner/observe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "conformance/monitors/monitored.hpp"
#include "conformance/monitors/run.hpp"
#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"
#include "source_directory.hpp"

namespace rdmawire::conformance {
namespace {

constexpr std::uint64_t seed = 20261121;

const Case& find_case(std::string_view id) {
  const auto all = cases();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Case& which) { return which.id() == id; });
  EXPECT_NE(found, all.end()) << id;
  return *found;
}

CaseResult run(const Case& which, const std::vector<std::string>& faults = {}) {
  const auto target = Target::open({.family = which.family(), .seed = seed, .faults = faults});
  EXPECT_TRUE(target);
  return run_case(which, (*target)->device(), seed);
}

std::string words(const Violation& violation) {
  return std::string(violation.of().alias) + " at frame " + std::to_string(violation.place.frame) + ": expected " +
         violation.statement.expected + "; got " + violation.statement.actual;
}

/// Rules that no capture or case in this test exercises, with the reason.
struct Unexercised {
  std::string_view rule, reason;
};
constexpr Unexercised unexercised[] = {
    {"congestion.notification-point.cnp.on-loss", "no device sends CNPs for losses"},
    {"fpdu.sender.markers.across-wrap",
     "no stream is long enough or starts near the wrap; those of the monitor's tests do"},
    {"fpdu.tester.stream.begins-in-the-middle", "no capture starts within a stream; those of the monitor's tests do"},
};
bool is_open_monitor(std::string_view rule) {
  return std::any_of(std::begin(unexercised), std::end(unexercised),
                     [&](const Unexercised& u) { return u.rule == rule; });
}

TEST(Observe, NoViolationsOnConformingDevice) {
  Observation all;
  for (const Case& which : cases()) {
    const CaseResult result = run(which);
    all.add(result.observed);
    for (const Violation& violation : result.observed.violations)
      ADD_FAILURE() << which.id() << ": " << words(violation);
  }
  const auto held =
      std::count_if(all.counters.begin(), all.counters.end(), [](const auto& t) { return t.second.passed; });
  EXPECT_GT(held, 50);
}

TEST(Observe, NoViolationsIfFramesMayBeLost) {
  for (const Case& which : cases()) {
    const auto target = Target::open({.family = which.family(), .seed = seed});
    ASSERT_TRUE(target);
    DeviceUnderTest device = (*target)->device();
    const CaseResult result = run_case(which, device, seed);
    device.wire_delay.reset();
    for (const Violation& violation : observe(result.transcript, device).violations)
      ADD_FAILURE() << which.id() << ": " << words(violation);
  }
}

TEST(Observe, FaultyDeviceIsReported) {
  const CaseResult result = run(find_case("rc.responder.ack.in-order/SEND"), {"acknowledges-twice"});
  ASSERT_FALSE(result.observed.violations.empty());
  EXPECT_EQ(result.observed.violations.front().of().alias, "RSP-003");
  EXPECT_EQ(result.observed.counters.at(RuleId("rc.responder.ack.asked-for-once").index()).violated,
            result.observed.violations.front().count);
}

// The first NAK precedes the second SEND at the device. The capture is written in the tester's order: SEND, SEND, NAK,
// NAK.
TEST(Observe, FrameNumbersAreThoseOfWrittenCapture) {
  const CaseResult result = run(find_case("rc.responder.psn.sequence-error"), {"naks-every-packet"});
  std::vector<std::uint64_t> received;
  std::uint64_t frames = 0;
  for (const Step& step : result.transcript) {
    if (!step.frame.empty()) ++frames;
    if (step.kind == Step::Kind::received) received.push_back(frames);
  }
  EXPECT_EQ(received, (std::vector<std::uint64_t>{3, 4}));
  ASSERT_EQ(result.observed.violations.size(), 1U);
  const Violation& violation = result.observed.violations.front();
  EXPECT_EQ(violation.of().alias, "RSP-009");
  EXPECT_EQ(violation.place.frame, 4U);
  EXPECT_EQ(violation.last_frame, 4U);
  EXPECT_EQ(violation.statement.actual, "a further NAK with the same PSN; the previous one is frame 3");
  EXPECT_EQ(violation.statement.related, std::vector<std::uint64_t>{3});
}

TEST(Observe, TesterIsNotChecked) {
  // The tester skips a PSN, and the device sends a NAK.
  const CaseResult result = run(find_case("rc.responder.psn.sequence-error"));
  EXPECT_TRUE(result.observed.violations.empty());
  EXPECT_FALSE(result.observed.counters.contains(RuleId("rc.requester.psn.increments").index()));
  EXPECT_GT(result.observed.counters.at(RuleId("rc.responder.psn.sequence-error").index()).passed, 0U);
}

TEST(Observe, CasesAndSamplesExerciseEveryMonitor) {
  Observation all;
  for (const Case& which : cases()) all.add(run(which).observed);
  for (const auto& file : std::filesystem::directory_iterator(RDMAWIRE_SOURCE_DIR "/captures/samples")) {
    if (file.path().extension() == ".md") continue;
    CheckOptions options;
    options.files = {file.path().string()};
    const CheckResult result = check(options);
    EXPECT_TRUE(result.troubles.empty()) << file.path();
    for (std::size_t i = 0; i < rules.size(); ++i)
      if (result.counters[i].evaluated() != 0) all.counters[i].add(result.counters[i]);
  }
  for (const RuleId rule : monitored) {
    if (rule->services == Services::iwarp) continue;  // see conformance/device/iwarp/fault_monitors_test.cpp
    EXPECT_EQ(all.counters.contains(rule.index()), !is_open_monitor(rule->id)) << rule->alias << " " << rule->id;
  }
}

}  // namespace
}  // namespace rdmawire::conformance
