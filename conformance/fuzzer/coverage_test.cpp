/// Tests of the feedback: edges in the device's code, and state changes of the monitors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/device/roce/fault_table.hpp"
#include "conformance/fuzzer/iwarp.hpp"
#include "conformance/fuzzer/monitor_view.hpp"
#include "conformance/fuzzer/report.hpp"
#include "conformance/fuzzer/session.hpp"
#include "conformance/fuzzer/subject.hpp"

namespace rdmawire::fuzzer {
namespace {

namespace fs = std::filesystem;

constexpr Feedback none{.answers = false, .code = false, .monitors = false};
constexpr Feedback code_alone{.answers = false, .code = true, .monitors = false};
constexpr Feedback monitors_alone{.answers = false, .code = false, .monitors = true};

std::unique_ptr<Target> sound(Family family) {
  return family == Family::iwarp ? reference_endpoint_target({}) : reference_target({});
}

const std::string connected = R"({"do":"connect","state":3,"rights":782,"depth":4,"count":4,"length":1024},)";
Script script_of(const std::string& steps) { return parse_script(R"({"seed":1,"steps":[)" + steps + "]}").value(); }
const std::string send = R"({"do":"request","opcode":4,"payload":8,"flags":1})";

/// Return the edges of a script at a target.
EdgeMap edges_of(const Script& script, Target& target) {
  EdgeMap map;
  target.trace(&map);
  replay(script, target);
  target.trace(nullptr);
  return map;
}

constexpr const char* no_code = "this build's reference device reports no code coverage";

class Coverage : public testing::TestWithParam<Family> {};

TEST_P(Coverage, EdgesGrowDuringSession) {
  Session session(sound(GetParam()), {.seed = 1});
  ASSERT_EQ(session.run({.executions = 200}), std::nullopt);
  const Statistics early = session.statistics();
  ASSERT_EQ(session.run({.executions = 3'000}), std::nullopt);
  const Statistics& late = session.statistics();
  EXPECT_GT(early.monitor_edges.value(), 20U);
  EXPECT_GT(late.monitor_edges.value(), early.monitor_edges.value());
  EXPECT_EQ(session.offers_code(), traced_subjects() != nullptr);
  if (!session.offers_code()) return;
  EXPECT_GT(early.code_edges.value(), 1'000U);
  EXPECT_GT(late.code_edges.value(), early.code_edges.value());
}

TEST_P(Coverage, ReferenceModelIsNotCounted) {
  if (!traced_subjects()) GTEST_SKIP() << no_code;
  EdgeMap map;
  const auto target = sound(GetParam());
  ASSERT_TRUE(target->trace(&map));
  Rng chance(1);
  const auto model = target->create_model(1, chance);
  ASSERT_EQ(target->start(1), std::nullopt);
  Outcome outcome;
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t before = map.count();
    const Step step = model->next();
    model->perform(step);
    EXPECT_EQ(map.count(), before) << "the step of the reference model was counted";
    target->perform(step, *model, outcome);
    if (i == 0) {
      EXPECT_GT(map.count(), before);
    }
  }
}

TEST_P(Coverage, SameSeedGivesSameEdgesInAnyThread) {
  const auto run = [&](std::uint64_t seed) {
    Session session(sound(GetParam()), {.seed = seed});
    session.run({.executions = 1'000});
    const Statistics& s = session.statistics();
    return std::tuple(s.edges, s.code_edges, s.monitor_edges, s.corpus);
  };
  const auto here = run(3);
  const std::vector<std::unique_ptr<int>> elsewhere(1000);  // so that the next run has other heap addresses
  auto there = here;
  std::thread([&] { there = run(3); }).join();
  EXPECT_EQ(here, there);
  EXPECT_NE(here, run(4));
}

TEST_P(Coverage, MinimizationAddsNoEdges) {
  if (!traced_subjects()) GTEST_SKIP() << no_code;
  const auto run = [&](bool minimize) {
    const SessionOptions options{.seed = 1, .minimize = minimize, .stop_at_first = true};
    device::Faults device;
    device.set(device::find_fault("bounds-off-by-one")->fault);
    endpoint::Faults endpoint;
    endpoint.set(endpoint::find_fault("bounds-off-by-one")->fault);
    Session session(GetParam() == Family::iwarp ? reference_endpoint_target(endpoint) : reference_target(device),
                    options);
    session.run({.executions = 50'000});
    EXPECT_EQ(session.findings().size(), 1U);
    return session.statistics().code_edges.value();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_P(Coverage, UnusedFeedbackIsCountedOnlyOnRequest) {
  SessionOptions options{.seed = 1, .feedback = none};
  Session quiet(sound(GetParam()), options);
  ASSERT_EQ(quiet.run({.executions = 500}), std::nullopt);
  EXPECT_EQ(quiet.statistics().corpus, 0U);
  EXPECT_EQ(quiet.statistics().code_edges, std::nullopt);
  EXPECT_EQ(quiet.statistics().monitor_edges, std::nullopt);
  EXPECT_THAT(to_text(quiet, "x"), testing::HasSubstr("the monitors: not counted"));
  options.count_all = true;
  Session counted(sound(GetParam()), options);
  ASSERT_EQ(counted.run({.executions = 500}), std::nullopt);
  EXPECT_EQ(counted.statistics().corpus, 0U);
  EXPECT_GT(counted.statistics().monitor_edges.value(), 20U);
  EXPECT_EQ(counted.statistics().code_edges.has_value(), counted.offers_code());
}

TEST_P(Coverage, ResumedSessionRestoresEdges) {
  const fs::path corpus = fs::path(testing::TempDir()) / ("coverage-" + std::string(to_string(GetParam())));
  fs::remove_all(corpus);
  Statistics before;
  {
    Session session(sound(GetParam()), {.seed = 1, .corpus = corpus});
    ASSERT_EQ(session.run({.executions = 1'000}), std::nullopt);
    before = session.statistics();
  }
  {
    const Session session(sound(GetParam()), {.corpus = corpus, .resume = true});
    EXPECT_EQ(session.trouble(), std::nullopt);
    EXPECT_EQ(session.statistics().edges, before.edges);
    EXPECT_EQ(session.statistics().code_edges, before.code_edges);
    EXPECT_EQ(session.statistics().monitor_edges, before.monitor_edges);
    EXPECT_EQ(session.statistics().corpus, before.corpus);
  }
  // Edges of another build's code are discarded.
  nlohmann::json state;
  std::ifstream(corpus / "session.json") >> state;
  state["code"] = state["code"].get<std::uint64_t>() + 1;
  std::ofstream(corpus / "session.json") << state;
  const Session session(sound(GetParam()), {.corpus = corpus, .resume = true});
  EXPECT_EQ(session.statistics().monitor_edges, before.monitor_edges);
  EXPECT_EQ(session.statistics().code_edges.value_or(0), 0U);
}

TEST_P(Coverage, MonitorFeedbackAloneFillsCorpus) {
  Session session(sound(GetParam()), {.seed = 1, .feedback = monitors_alone});
  ASSERT_EQ(session.run({.executions = 1'000}), std::nullopt);
  EXPECT_GT(session.statistics().corpus, 3U);
  EXPECT_EQ(session.statistics().code_edges, std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Families, Coverage, testing::Values(Family::roce, Family::iwarp),
                         [](const auto& family) { return std::string(to_string(family.param)); });

TEST(CoverageOfCode, SameScriptGivesSameEdges) {
  if (!traced_subjects()) GTEST_SKIP() << no_code;
  const auto target = reference_target({});
  const EdgeMap one = edges_of(script_of(connected + send), *target);
  EXPECT_EQ(one, edges_of(script_of(connected + send), *target));
  const EdgeMap with_read = edges_of(
      script_of(connected + send + R"(,{"do":"request","opcode":12,"length":8,"key":"everything","psn":0,"flags":1})"),
      *target);
  EXPECT_GT(with_read.count(), one.count());
  for (const std::uint64_t edge : one.all()) EXPECT_THAT(with_read.all(), testing::Contains(edge));
}

TEST(CoverageOfCode, FaultyDeviceHasOtherEdges) {
  if (!traced_subjects()) GTEST_SKIP() << no_code;
  device::Faults faults;
  faults.set(device::find_fault("ignores-region-rights")->fault);
  const Script script =
      script_of(connected + R"({"do":"request","opcode":10,"payload":8,"length":8,"key":"closed","flags":1})");
  EXPECT_NE(edges_of(script, *reference_target({})), edges_of(script, *reference_target(faults)));
}

/// A device that reports one code edge for each opcode that it receives.
class ReportingTarget final : public Target {
 public:
  [[nodiscard]] std::string name() const override { return "telling"; }
  std::optional<std::string> start(std::uint64_t seed) override { return sound_->start(seed); }
  [[nodiscard]] std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const override {
    return sound_->create_model(seed, chance);
  }
  bool trace(EdgeMap* map) override {
    map_ = map;
    return true;
  }
  void perform(const Step& step, ReferenceModel& model, Outcome& outcome) override {
    sound_->perform(step, model, outcome);
    if (map_ && step.kind == StepKind::request && map_->add(static_cast<std::uint64_t>(step.opcode))) ++reported;
  }
  Bytes memory() override { return sound_->memory(); }
  std::uint64_t reported = 0;

 private:
  std::unique_ptr<Target> sound_ = reference_target({});
  EdgeMap* map_ = nullptr;
};

TEST(CoverageOfCode, ExecutionWithNewCodeEdgeIsKept) {
  Session session(std::make_unique<ReportingTarget>(), {.seed = 1, .feedback = code_alone});
  ASSERT_EQ(session.run({.executions = 5'000}), std::nullopt);
  const std::uint64_t reported = static_cast<ReportingTarget&>(session.target()).reported;
  EXPECT_EQ(session.statistics().code_edges, reported);
  EXPECT_GT(reported, 10U);
  // The corpus contains scripts, although responses are not feedback, but at most one per code edge.
  EXPECT_GE(session.statistics().corpus, 2U);
  EXPECT_LE(session.statistics().corpus, reported);
}

TEST(CoverageOfCode, TargetWithoutCoverageIsReported) {
  class Silent final : public Target {
   public:
    [[nodiscard]] std::string name() const override { return "silent"; }
    std::optional<std::string> start(std::uint64_t seed) override { return sound_->start(seed); }
    [[nodiscard]] std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const override {
      return sound_->create_model(seed, chance);
    }
    void perform(const Step& step, ReferenceModel& model, Outcome& outcome) override {
      sound_->perform(step, model, outcome);
    }
    Bytes memory() override { return sound_->memory(); }

   private:
    std::unique_ptr<Target> sound_ = reference_target({});
  };
  Session session(std::make_unique<Silent>(), {.seed = 1});
  ASSERT_EQ(session.run({.executions = 100}), std::nullopt);
  EXPECT_FALSE(session.offers_code());
  EXPECT_EQ(session.statistics().code_edges, std::nullopt);
  EXPECT_THAT(to_text(session, "x"), testing::HasSubstr("the device's code: not offered"));
  EXPECT_TRUE(to_json(session, "x")["statistics"]["code_edges"].is_null());
  EXPECT_GT(session.statistics().monitor_edges.value(), 20U);
}

/// Return the number of monitor edges in a script at the conforming device that are new in `map`.
std::uint64_t monitor_edges_of(const std::string& steps, EdgeMap& map) {
  const auto target = reference_target({});
  const Script script = script_of(connected + steps);
  const Replayed replayed = replay(script, *target, true);
  EXPECT_FALSE(replayed.alarm);
  const std::uint64_t before = map.count();
  MonitorView view;
  for (int execution = 0; execution < 2; ++execution) {  // the first script reveals the endpoint to check
    view.begin(map);
    view.add(replayed.frames);
    view.end();
  }
  return map.count() - before;
}

TEST(CoverageOfMonitors, DifferentTrafficHasDifferentEdges) {
  EdgeMap map;
  EXPECT_GT(monitor_edges_of(send, map), 5U);
  EXPECT_EQ(monitor_edges_of(send, map), 0U);
  // The second packet has a PSN gap, which causes a NAK.
  EXPECT_GT(monitor_edges_of(send + R"(,{"do":"request","opcode":4,"payload":8,"psn":3,"flags":1})", map), 2U);
  // The second packet starts a message.
  EXPECT_GT(monitor_edges_of(send + R"(,{"do":"request","opcode":0,"payload":256,"flags":1})", map), 0U);
}

}  // namespace
}  // namespace rdmawire::fuzzer
