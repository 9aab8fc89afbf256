#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "conformance/device/roce/fault_table.hpp"
#include "conformance/fuzzer/fault_category.hpp"
#include "conformance/fuzzer/open.hpp"
#include "conformance/fuzzer/report.hpp"
#include "conformance/fuzzer/session.hpp"
#include "conformance/fuzzer/step_generator.hpp"
#include "dissectors/protocol/cm.hpp"
#include "dissectors/protocol/crc.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::fuzzer {
namespace {

namespace fs = std::filesystem;

device::Faults only(std::string_view name) {
  device::Faults faults;
  faults.set(device::find_fault(name)->fault);
  return faults;
}

Script script_of(const std::string& steps) { return parse_script(R"({"seed":1,"steps":[)" + steps + "]}").value(); }
const std::string connected = R"({"do":"connect","state":3,"rights":782,"depth":4,"count":4,"length":1024},)";

/// Return the frames of a script at a conforming device.
std::vector<std::vector<std::uint8_t>> sent(const std::string& steps) {
  const auto target = reference_target({});
  std::vector<std::vector<std::uint8_t>> frames;
  for (const auto& one : replay(script_of(connected + steps), *target, true).frames)
    if (one.sent) frames.push_back(one.frame);
  return frames;
}

TEST(Fuzzer, NoFindingsForConformingDevice) {
  Session session(reference_target({}), {.seed = 1});
  ASSERT_EQ(session.run({.executions = 20'000}), std::nullopt);
  EXPECT_EQ(session.statistics().executions, 20'000U);
  EXPECT_GT(session.statistics().edges, 3'000U);
  for (const Finding& finding : session.findings()) ADD_FAILURE() << finding.alarm.signature;
}

TEST(Fuzzer, InjectedFaultIsFoundAndMinimized) {
  Session session(reference_target(only("bounds-off-by-one")), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 200'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  const Finding& finding = session.findings()[0];
  EXPECT_TRUE(finding.reproduced);
  EXPECT_LE(finding.minimal.steps.size(), 3U);
  const auto sound = reference_target({});
  EXPECT_FALSE(replay(finding.minimal, *sound).alarm);
}

TEST(Fuzzer, FindingNamesViolatedRule) {
  Session session(reference_target(only("sends-reserved-bits")), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 20'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  EXPECT_THAT(session.findings()[0].rules, testing::Contains("bth.sender.reserved.zero"));
  EXPECT_THAT(to_text(session, "x"), testing::HasSubstr(" bth.sender.reserved.zero\n"));
}

TEST(Fuzzer, FindingNamesRuleOfSimilarFault) {
  // Frames do not show a write after the end of a region, so the rule is that of a fault with the same effect.
  Session session(reference_target(only("bounds-off-by-one")), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 20'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  EXPECT_THAT(session.findings()[0].like, testing::ElementsAre("bounds-off-by-one"));
  EXPECT_THAT(session.findings()[0].rules, testing::Contains("rc.responder.access.out-of-bounds"));
  EXPECT_THAT(to_text(session, "x"), testing::HasSubstr("the reference device with bounds-off-by-one\n"));
}

/// A device that crashes after a WRITE with length 0 and payload, as rxe of Linux 6.1 does. Otherwise it conforms.
class Mortal final : public Target {
 public:
  explicit Mortal(std::uint64_t restarts) : restarts_(restarts) {}
  [[nodiscard]] std::string name() const override { return "mortal"; }
  std::optional<std::string> start(std::uint64_t seed) override {
    posted_ = false;
    return gone_ ? std::optional<std::string>("device lost") : sound_->start(seed);
  }
  [[nodiscard]] std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const override {
    return sound_->create_model(seed, chance);
  }
  void perform(const Step& step, ReferenceModel& model, Outcome& outcome) override {
    constexpr std::int64_t compare_swap = 0x13;
    sound_->perform(step, model, outcome);
    const bool ready = outcome.states[static_cast<std::size_t>(step.at)] >= machines::QueuePairState::rtr;
    gone_ = ready && step.opcode == compare_swap && step.payload > 0;
    if (warns && step.kind == StepKind::answer && !warned_) complaints_.emplace_back(message);
    warned_ = warned_ || step.kind == StepKind::answer;
    posted_ = posted_ || step.kind == StepKind::post;
  }
  void finish() override { gone_ = gone_ || (dies_in_finish && posted_); }
  std::vector<std::string> complaints() override { return std::exchange(complaints_, {}); }
  Bytes memory() override { return sound_->memory(); }
  [[nodiscard]] MinimizeLimits allowance() const override { return {.restarts = restarts_}; }
  std::optional<std::string> gone() override {
    return gone_ ? std::optional<std::string>("the guest's kernel panicked" + why) : std::nullopt;
  }
  std::optional<std::string> revive() override {
    gone_ = warned_ = false;
    ++revived;
    return std::nullopt;
  }
  std::uint64_t revived = 0;
  std::string why;
  bool warns = false;
  bool dies_in_finish = false;  ///< true: crashes at the end of a script with a work request
  static constexpr const char* message = "WARNING: CPU: 0 PID: 7 at drivers/x.c:75 complete+0x86c/0xd60";

 private:
  std::unique_ptr<Target> sound_ = reference_target({});
  std::uint64_t restarts_;
  bool posted_ = false, gone_ = false;
  bool warned_ = false;  ///< the warning was reported. A kernel reports it only once
  std::vector<std::string> complaints_;
};

Script deadly() {
  std::string steps = connected;
  for (int i = 0; i < 12; ++i) steps += R"({"do":"request","opcode":4,"payload":8,"flags":1},)";
  return script_of(steps + R"({"do":"request","opcode":19,"payload":8,"offset":16,"flags":3,"mutated":true})");
}

TEST(Fuzzer, CrashIsMinimizedWithFewRestarts) {
  Mortal device(12);
  const Minimized minimized = minimize(deadly(), "device gone", device);
  ASSERT_EQ(minimized.script.steps.size(), 2U);
  EXPECT_EQ(minimized.script.steps[0].kind, StepKind::connect);
  EXPECT_EQ(minimized.script.steps[1].flags, 0);
  EXPECT_TRUE(minimized.whole);
  EXPECT_TRUE(minimized.shown.alarm);
  EXPECT_EQ(minimized.restarts, device.revived);
  EXPECT_LE(minimized.restarts, 12U);
}

TEST(Fuzzer, CrashDuringTeardownIsAttributedToThatExecution) {
  auto device = std::make_unique<Mortal>(12);
  device->dies_in_finish = true;
  Session session(std::move(device), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 20'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  const Finding& finding = session.findings()[0];
  EXPECT_EQ(finding.alarm.signature, "device gone");
  ASSERT_EQ(finding.minimal.steps.size(), 1U);
  EXPECT_EQ(finding.minimal.steps[0].kind, StepKind::post);
  EXPECT_TRUE(finding.reproduced);
}

TEST(Fuzzer, CrashesAreDistinguishedByCause) {
  Mortal device(12);
  device.why = ": BUG: kernel NULL pointer dereference, address: 0000000000000010";
  const Replayed ended = replay(deadly(), device);
  ASSERT_TRUE(ended.alarm);
  EXPECT_EQ(ended.alarm->signature, "device gone: BUG: kernel NULL pointer dereference, address: 0000000000000010");
  (void)device.revive();
  const Minimized other =
      minimize(deadly(), "device gone: BUG: kernel NULL pointer dereference, address: 0000000000000020", device);
  EXPECT_FALSE(other.shown.alarm);
}

TEST(Fuzzer, KernelWarningIsMinimizedWithRestarts) {
  Mortal device(12);
  device.warns = true;
  const Script warns =
      script_of(connected + R"({"do":"request","opcode":4,"payload":8,"flags":1},{"do":"answer","opcode":17})");
  const Replayed warned = replay(warns, device);
  ASSERT_TRUE(warned.alarm);
  EXPECT_EQ(warned.alarm->signature, "kernel message: WARNING at drivers/x.c:75 complete");
  EXPECT_FALSE(replay(warns, device).alarm);
  const Minimized minimized = minimize(warns, warned.alarm->signature, device);
  EXPECT_TRUE(minimized.shown.alarm);
  EXPECT_LE(minimized.script.steps.size(), 2U);
}

TEST(Fuzzer, MinimizationObeysItsLimits) {
  Mortal device(1);
  const Minimized few = minimize(deadly(), "device gone", device);
  EXPECT_EQ(few.restarts, 1U);
  EXPECT_EQ(few.script.steps.size(), 2U);  // the first trial
  EXPECT_FALSE(few.whole);
  const Minimized none = minimize(deadly(), "device gone", device, {}, 0);
  EXPECT_EQ(none.trials, 0U);
  EXPECT_FALSE(none.whole);
  EXPECT_FALSE(none.shown.alarm);
  EXPECT_EQ(none.script.steps, deadly().steps);
}

TEST(Fuzzer, ReportShowsCostOfMinimization) {
  Session session(std::make_unique<Mortal>(12), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 50'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  const Finding& finding = session.findings()[0];
  EXPECT_TRUE(finding.reproduced);
  EXPECT_LE(finding.minimal.steps.size(), 2U);
  EXPECT_GT(finding.restarts, 0U);
  EXPECT_EQ(session.statistics().restarts, finding.restarts + 1);
  EXPECT_THAT(to_text(session, "x"), testing::HasSubstr(fmt::format("{} of which ended the device", finding.restarts)));
  // Writing the capture of a finding that is stored does not run the script, which would restart the device.
  const fs::path directory = fs::path(testing::TempDir()) / "fuzzer_deadly_report";
  const auto before = static_cast<Mortal&>(session.target()).revived;
  ASSERT_TRUE(write_report(session, "mortal", session.target(), directory));
  EXPECT_EQ(static_cast<Mortal&>(session.target()).revived, before);
  fs::remove_all(directory);
}

TEST(Fuzzer, ScriptConnectsThroughCommunicationManager) {
  const auto target = reference_target({});
  const Replayed replayed =
      replay(script_of(R"({"do":"cm","opcode":16,"own_psn":2000,"depth":4,"retries":2,"timeout":6},
                   {"do":"cm_accept","count":2,"length":64},
                   {"do":"cm","opcode":20},
                   {"do":"request","opcode":4,"payload":8,"flags":1},
                   {"do":"cm","opcode":21},
                   {"do":"request","opcode":4,"payload":8,"flags":1})"),
             *target, true);
  EXPECT_FALSE(replayed.alarm);
  std::vector<std::string> exchange;
  for (const Exchanged& one : replayed.frames) {
    const HeaderStack stack = decode(one.frame);
    EXPECT_TRUE(stack.findings().empty());
    const auto mad = stack.get<Mad>();
    const Name* message = mad ? cm_attribute_names.find(mad->get<"attribute_id">()) : nullptr;
    exchange.push_back((one.sent ? "> " : "< ") + (message
                                                       ? std::string(message->name)
                                                       : std::string(opcode(stack.get<Bth>()->get<"opcode">()).name)));
  }
  // The DREQ moves the queue pair to the Error state, so the last SEND has no response.
  EXPECT_THAT(exchange, testing::ElementsAre("> REQ", "< REP", "> RTU", "> RC SEND Only", "< RC Acknowledge", "> DREQ",
                                             "< DREP", "> RC SEND Only"));
}

TEST(Fuzzer, OutcomeContainsConnectionEvents) {
  // The device connects and the tester rejects. Then the tester connects and the device rejects.
  const auto target = reference_target({});
  const Script script = script_of(R"({"do":"cm_connect","retries":2},
                                     {"do":"cm","opcode":18,"compare":28},
                                     {"do":"cm","opcode":16,"own_psn":2000,"depth":4,"at":1},
                                     {"do":"cm_reject","at":1})");
  std::vector<std::string> events;
  replay(script, *target, false, [&](const Step&, const Outcome& outcome) -> std::optional<std::string> {
    for (const std::string& event : outcome.connection_events) events.push_back(event.substr(0, event.find(':')));
    return std::nullopt;
  });
  EXPECT_THAT(events, testing::ElementsAre("addr_resolved", "route_resolved", "rejected", "connect_request"));
}

TEST(Fuzzer, FaultOfDisconnectIsFound) {
  Session session(reference_target(only("stays-connected")), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 20'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  EXPECT_EQ(session.findings()[0].alarm.oracle, Oracle::state);
  EXPECT_THAT(session.findings()[0].rules, testing::Contains("cm.endpoint.disconnect.nothing-accepted"));
}

TEST(Fuzzer, QueuePairsWithSamePeerAreDistinguished) {
  // Different queue pairs may have different UDP source ports. This is not a violation.
  Session session(reference_target(only("sends-after-error")), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 20'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  EXPECT_THAT(session.findings()[0].rules, testing::Not(testing::Contains("roce.sender.udp.source-port-constant")));
}

TEST(Fuzzer, OracleFindingNamesNoRuleOfConformingDevice) {
  // A user-defined oracle that reports every response.
  SessionOptions options{.seed = 2, .most_findings = 8};
  options.oracle = [](const Step& step, const Outcome& outcome) -> std::optional<std::string> {
    if (!step.mutated || outcome.frames.empty()) return std::nullopt;
    return "a response to " + text_of(step);
  };
  Session session(reference_target({}), options);
  ASSERT_EQ(session.run({.executions = 200}), std::nullopt);
  ASSERT_GE(session.findings().size(), 3U);
  for (const Finding& finding : session.findings())
    EXPECT_THAT(finding.rules, testing::IsEmpty()) << finding.alarm.signature;
}

TEST(Fuzzer, SameSeedGivesSameFindings) {
  const auto run = [](std::uint64_t seed) {
    Session session(reference_target(only("msn-counts-duplicates")), {.seed = seed});
    session.run({.executions = 2'000});
    return to_json(session, "x")["findings"].dump();
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST(Fuzzer, OracleReportsDescribeDifference) {
  const auto alarm = [](std::string_view fault, const std::string& steps) {
    const auto target = reference_target(only(fault));
    return replay(script_of(connected + steps), *target).alarm.value_or(Alarm{});
  };
  const Alarm memory =
      alarm("ignores-region-rights",
            R"({"do":"request","opcode":10,"payload":8,"length":8,"key":"closed","offset":16,"flags":1})");
  EXPECT_EQ(memory.oracle, Oracle::protection);
  EXPECT_EQ(memory.signature, "protected memory: request: closed changed");
  const Alarm state = alarm("accepts-middle-first", R"({"do":"request","opcode":1,"payload":256,"flags":1})");
  EXPECT_EQ(state.oracle, Oracle::state);
  EXPECT_EQ(state.actual, "in state RTS");
  const Alarm answer = alarm("acknowledges-twice", R"({"do":"request","opcode":4,"payload":8,"flags":1})");
  EXPECT_EQ(answer.oracle, Oracle::answer);
  EXPECT_EQ(answer.signature, "answer: request: RC Acknowledge, ACK instead of silence");
}

TEST(Fuzzer, ChecksumsAreValidUnlessMutated) {
  const auto status = [](const std::vector<std::uint8_t>& frame) { return check_icrc(decode(frame)).status; };
  const auto with = [&](const std::string& mutation) {
    return sent(R"({"do":"request","opcode":4,"payload":8,"mutations":[)" + mutation + "]}").at(0);
  };
  const auto field = with(R"({"do":"set","field":"bth.tver","value":5})");
  EXPECT_EQ(decode(field).get<Bth>()->get<"tver">(), 5U);
  EXPECT_EQ(status(field), CrcCheck::Status::good);
  EXPECT_EQ(status(with(R"({"do":"bad_icrc","value":4})")), CrcCheck::Status::bad);
  EXPECT_EQ(status(with(R"({"do":"set","field":"bth.psn","value":5},{"do":"stale_icrc"})")), CrcCheck::Status::bad);
}

TEST(Fuzzer, FramesAreDroppedDuplicatedAndReordered) {
  const std::string send = R"({"do":"request","opcode":4,"payload":8,"immediate":1)";
  EXPECT_EQ(sent(send + R"(,"mutations":[{"do":"drop"}]})").size(), 0U);
  EXPECT_EQ(sent(send + R"(,"mutations":[{"do":"duplicate"}]})").size(), 2U);
  const auto swapped = sent(send + R"(,"mutations":[{"do":"hold"}]},)" + send + R"(,"psn":1})");
  ASSERT_EQ(swapped.size(), 2U);
  EXPECT_EQ(decode(swapped[0]).get<Bth>()->get<"psn">(), 1U);
  EXPECT_EQ(decode(swapped[1]).get<Bth>()->get<"psn">(), 0U);
}

TEST(Fuzzer, EveryFieldIsMutatedEventually) {
  const auto frame = sent(R"({"do":"request","opcode":6,"payload":256,"length":600})").at(0);
  Rng chance(1);
  std::set<const Field*> changed;
  for (int i = 0; i < 20'000; ++i) changed.insert(change_of_field(chance, frame).field);
  const auto request = sent(R"({"do":"cm","opcode":16,"own_psn":2000})").at(0);
  EXPECT_NE(decode(request).find(info<CmReq>), nullptr);
  for (int i = 0; i < 60'000; ++i) changed.insert(change_of_field(chance, request).field);
  for (const auto& one : {frame, request})
    for (const HeaderStack stack = decode(one); const Layer& layer : stack.layers())
      for (const Field& field : layer.header->fields)
        EXPECT_TRUE(changed.contains(&field) || !field.is_number() || !field.present_in(one.data() + layer.offset))
            << layer.header->name << "." << field.name;
}

TEST(Fuzzer, ScriptRoundTrip) {
  Session session(reference_target(only("accepts-bad-icrc")), {.seed = 2, .stop_at_first = true});
  session.run({.executions = 20'000});
  ASSERT_FALSE(session.findings().empty());
  const Script& script = session.findings()[0].script;
  const auto parsed_again = parse_script(to_json(script).dump());
  ASSERT_TRUE(parsed_again) << parsed_again.error();
  EXPECT_EQ(parsed_again->steps, script.steps);
}

TEST(Fuzzer, InvalidScriptIsRejected) {
  const auto why = [](const std::string& text) { return parse_script(text).error(); };
  EXPECT_EQ(why("["), "a script: invalid JSON");
  EXPECT_EQ(why(R"({"steps":[{"do":"fly"}]})"), "a script: step 0: unknown step \"fly\"");
  EXPECT_EQ(why(R"({"steps":[{"do":"wait","nanosecond":1}]})"),
            "a script: step 0: unknown member nanosecond of a step");
  EXPECT_EQ(why(R"({"steps":[{"do":"wait","at":2}]})"), "a script: step 0: at must be 0 or 1");
  EXPECT_EQ(why(R"({"steps":[{"do":"request","mutations":[{"do":"set","field":"bth.nix"}]}]})"),
            "a script: step 0: unknown field \"bth.nix\"");
}

TEST(Fuzzer, ExtremeNumbersAreHarmless) {
  // Scripts are checked only for their syntax. The device rejects invalid numbers.
  Rng chance(9);
  for (int i = 0; i < 3'000; ++i) {
    Script script = script_of(connected + R"({"do":"wait"},{"do":"wait"})");
    for (std::size_t at = 1; at < script.steps.size(); ++at) {
      Step& step = script.steps[at];
      step.kind = static_cast<StepKind>(chance.below(step_kinds));
      for (const StepMember& member : step_members)
        if (chance.one_in(3)) step.*(member.member) = static_cast<std::int64_t>(boundary(chance, 64, 0));
      step.at &= 1;
      step.key = static_cast<std::int64_t>(static_cast<std::uint64_t>(step.key) % keys);
      step.way = static_cast<std::int64_t>(static_cast<std::uint64_t>(step.way) % ways);
      step.payload = static_cast<std::int64_t>(static_cast<std::uint64_t>(step.payload) % 8192);
      step.count &= 63;
      step.nanoseconds = static_cast<std::int64_t>(static_cast<std::uint64_t>(step.nanoseconds) % 1'000'000);
    }
    const auto target = reference_target({});
    ASSERT_FALSE(replay(script, *target).alarm) << to_json(script).dump();
  }
}

TEST(Fuzzer, ResumedSessionContinues) {
  const fs::path corpus = fs::path(testing::TempDir()) / "fuzzer_corpus";
  fs::remove_all(corpus);
  const auto run = [&](bool resume) {
    Session session(reference_target({}), {.seed = 4, .corpus = corpus, .resume = resume});
    EXPECT_EQ(session.trouble(), std::nullopt);
    session.run({.executions = 500});
    return session.statistics();
  };
  const Statistics first = run(false), second = run(true);
  EXPECT_EQ(first.executions, 500U);
  EXPECT_EQ(second.executions, 1000U);
  EXPECT_GT(second.corpus, first.corpus);
  EXPECT_GT(second.edges, first.edges);
  fs::remove_all(corpus);
}

TEST(Fuzzer, ResumedSessionKeepsFindingsAndStatistics) {
  const fs::path corpus = fs::path(testing::TempDir()) / "fuzzer_found_corpus";
  fs::remove_all(corpus);
  const auto open = [&] {
    return std::make_unique<Session>(reference_target(only("bounds-off-by-one")),
                                     SessionOptions{.seed = 1, .corpus = corpus, .resume = true});
  };
  const auto first = open();
  first->run({.executions = 4000});
  ASSERT_FALSE(first->findings().empty());
  const auto second = open();
  ASSERT_EQ(second->trouble(), std::nullopt);
  const Statistics &before = first->statistics(), &after = second->statistics();
  EXPECT_EQ(after.connections, before.connections);
  EXPECT_EQ(after.findings, before.findings);
  EXPECT_EQ(after.alarms, before.alarms);
  EXPECT_EQ(after.restarts, before.restarts);
  EXPECT_EQ(after.by_kind, before.by_kind);
  EXPECT_DOUBLE_EQ(after.seconds, before.seconds);
  EXPECT_EQ(to_json(*second, "x")["findings"], to_json(*first, "x")["findings"]);
  EXPECT_EQ(to_json(second->findings()[0].script), to_json(first->findings()[0].script));

  // A resumed session has no frames. Executing the script provides them.
  const fs::path report = corpus / "report";
  ASSERT_TRUE(write_report(*second, "x", second->target(), report));
  EXPECT_GT(fs::file_size(report / directory_of(second->findings()[0], 0) / "capture.pcapng"), 500U);

  second->run({.executions = 4000});
  EXPECT_EQ(second->statistics().executions, 8000U);
  EXPECT_GT(second->statistics().seconds, before.seconds);
  std::set<std::string> signatures;
  for (const Finding& finding : second->findings())
    EXPECT_TRUE(signatures.insert(finding.alarm.signature).second) << finding.alarm.signature;
  fs::remove_all(corpus);
}

TEST(Fuzzer, DamagedSessionFileIsErrorOrHarmless) {
  const fs::path corpus = fs::path(testing::TempDir()) / "fuzzer_damaged_corpus", state = corpus / "session.json";
  fs::remove_all(corpus);
  const auto open = [&] {
    return std::make_unique<Session>(reference_target(only("bounds-off-by-one")),
                                     SessionOptions{.seed = 1, .corpus = corpus, .resume = true});
  };
  open()->run({.executions = 4000});
  std::string whole;
  {
    std::ifstream file(state);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto trouble_with = [&](const std::string& text) {
    std::ofstream(state) << text;
    const auto session = open();
    const std::string trouble = session->trouble().value_or("");
    if (trouble.empty()) session->run({.executions = 20});
    return trouble;
  };
  const auto changed = [&](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::json json = nlohmann::json::parse(whole);
    json[nlohmann::json::json_pointer(pointer)] = value;
    return trouble_with(json.dump());
  };
  EXPECT_EQ(trouble_with(whole), "");
  EXPECT_EQ(trouble_with("{}"), "");
  EXPECT_EQ(changed("/edges", {UINT64_MAX, -1, "x", {}}), "");
  EXPECT_EQ(changed("/executions", UINT64_MAX), "");
  EXPECT_EQ(changed("/found", 3), "");
  using testing::HasSubstr;
  const std::string way_out = "; remove it to start a new session";
  EXPECT_EQ(trouble_with("["), state.string() + ": invalid JSON" + way_out);
  EXPECT_EQ(trouble_with("[]"), state.string() + ": not an object" + way_out);
  EXPECT_THAT(trouble_with(R"({"found": )" + std::string(1'000'000, '[')), HasSubstr("nested more than 16 deep"));
  EXPECT_THAT(changed("/alarms", "many"), HasSubstr("alarms is not a count"));
  EXPECT_THAT(changed("/connections", -1), HasSubstr("connections is not a count"));
  EXPECT_THAT(changed("/seconds", -1.0), HasSubstr("seconds is not a duration"));
  EXPECT_THAT(changed("/by_kind", std::vector<int>(1000)), HasSubstr("by_kind"));
  EXPECT_THAT(changed("/found/0", "x"), HasSubstr("finding 1: not an object"));
  EXPECT_THAT(changed("/found/0/oracle", "x"), HasSubstr("finding 1: unknown oracle"));
  EXPECT_THAT(changed("/found/0/signature", 1), HasSubstr("finding 1: signature is not a string"));
  EXPECT_THAT(changed("/found/0/rules", {1}), HasSubstr("finding 1: rules contains an element that is not a string"));
  EXPECT_THAT(changed("/found/0/reproduced", {}), HasSubstr("finding 1: reproduced is not a Boolean"));
  EXPECT_THAT(changed("/found/0/script", {}), HasSubstr("finding 1: script: a script: not an object"));
  EXPECT_THAT(changed("/found/0/script/steps", nlohmann::json::array()), HasSubstr("script has no steps"));
  EXPECT_THAT(changed("/found/0/found/family", "iwarp"), HasSubstr("finding 1: found"));
  for (std::size_t length = 0; length < whole.size(); length += whole.size() / 40 + 1)
    EXPECT_THAT(trouble_with(whole.substr(0, length)), HasSubstr("invalid JSON")) << length;
  fs::remove_all(corpus);
}

TEST(Fuzzer, FullCorpusReplacesOldestScripts) {
  const fs::path corpus = fs::path(testing::TempDir()) / "fuzzer_full_corpus";
  fs::remove_all(corpus);
  const auto scripts = [&] {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(corpus)) {
      if (entry.path().filename() == "session.json") continue;
      std::ifstream file(entry.path());
      all.emplace(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return all;
  };
  const auto run = [&](bool resume) {
    Session session(reference_target({}), {.seed = 4, .most_corpus = 8, .corpus = corpus, .resume = resume});
    session.run({.executions = 1000});
    EXPECT_EQ(session.trouble(), std::nullopt);
    EXPECT_EQ(session.statistics().corpus, 8U);
    return scripts();
  };
  const auto first = run(false), second = run(true);
  EXPECT_EQ(first.size(), 8U);
  EXPECT_EQ(second.size(), 8U);
  EXPECT_NE(first, second);
  fs::remove_all(corpus);
}

TEST(Fuzzer, CustomMutatorAndOracleAreUsed) {
  SessionOptions options{.seed = 1, .stop_at_first = true};
  options.mutator = [](const Step& step) -> std::optional<Step> {
    Step changed = step;
    changed.immediate = 0x1234;
    return changed;
  };
  options.oracle = [](const Step& step, const Outcome&) -> std::optional<std::string> {
    return step.immediate == 0x1234 ? std::optional<std::string>("that number") : std::nullopt;
  };
  Session session(reference_target({}), options);
  session.run({.executions = 100});
  ASSERT_EQ(session.findings().size(), 1U);
  EXPECT_EQ(session.findings()[0].alarm.oracle, Oracle::custom);
  EXPECT_EQ(session.findings()[0].alarm.actual, "that number");
  EXPECT_EQ(session.findings()[0].minimal.steps.size(), 1U);
}

TEST(Fuzzer, ReportContainsScriptAndCapture) {
  const fs::path directory = fs::path(testing::TempDir()) / "fuzzer_report";
  fs::remove_all(directory);
  Session session(reference_target(only("executes-duplicates")), {.seed = 1, .stop_at_first = true});
  session.run({.executions = 100'000});
  ASSERT_EQ(session.findings().size(), 1U);
  const auto written = write_report(session, "reference:executes-duplicates", session.target(), directory);
  ASSERT_TRUE(written) << written.error();
  const fs::path own = directory / directory_of(session.findings()[0], 0);
  for (const fs::path& file : {directory / "report.json", directory / "report.txt", directory / "index.html",
                               own / "script.json", own / "reproduce.py", own / "capture.pcapng"})
    EXPECT_GT(fs::file_size(file), 100U) << file;
  fs::remove_all(directory);
}

TEST(Fuzzer, FaultsHaveCategories) {
  const auto all = faults_of_concern();
  EXPECT_GT(all.size(), 100U);
  EXPECT_EQ(concern_of(*device::find_fault("bounds-off-by-one")), FaultCategory::memory_safety);
  EXPECT_EQ(concern_of(*device::find_fault("ignores-pkey")), FaultCategory::authorization);
  EXPECT_EQ(concern_of(*device::find_fault("answers-in-error")), FaultCategory::state);
  EXPECT_EQ(concern_of(*device::find_fault("ignores-dscp")), std::nullopt);
  for (const OutOfReach& one : out_of_reach()) EXPECT_NE(device::find_fault(one.fault), nullptr) << one.fault;
}

TEST(Fuzzer, UnknownTargetIsRejected) {
  EXPECT_TRUE(open_target({.name = "reference:naks-every-packet,ignores-pkey"}));
  const auto wrong = open_target({.name = "reference:nix"});
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().usage);
  EXPECT_FALSE(open_target({.name = "nix"}));
}

}  // namespace
}  // namespace rdmawire::fuzzer
