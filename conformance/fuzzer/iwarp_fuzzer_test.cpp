#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/fuzzer/fault_category.hpp"
#include "conformance/fuzzer/iwarp.hpp"
#include "conformance/fuzzer/open.hpp"
#include "conformance/fuzzer/report.hpp"
#include "conformance/fuzzer/session.hpp"
#include "conformance/fuzzer/step_generator.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/mpa.hpp"
#include "dissectors/protocol/transport.hpp"

namespace rdmawire::fuzzer {
namespace {

namespace fs = std::filesystem;

endpoint::Faults only(std::string_view name) {
  endpoint::Faults faults;
  faults.set(endpoint::find_fault(name)->fault);
  return faults;
}

Script script_of(const std::string& steps) {
  return parse_script(R"({"family":"iwarp","seed":1,"steps":[)" + steps + "]}").value();
}
const std::string connected = R"({"do":"connect","length":1024,"depth":4,"count":4,"own_depth":4},)";

/// Return the data segments that a script sends to a conforming endpoint after its first step.
std::vector<std::vector<std::uint8_t>> sent_frames(const std::string& steps) {
  const auto target = reference_endpoint_target({});
  std::vector<std::vector<std::uint8_t>> segments;
  constexpr std::size_t headers = 14 + 20 + 20;
  for (const auto& one : replay(script_of(connected + steps), *target, true).frames)
    if (one.sent && one.step > 0 && one.frame.size() > headers)
      segments.emplace_back(one.frame.begin() + headers, one.frame.end());
  return segments;
}

Alarm alarm_of(std::string_view fault, const std::string& steps) {
  const auto target = reference_endpoint_target(only(fault));
  return replay(script_of(connected + steps), *target).alarm.value_or(Alarm{});
}

TEST(FuzzerOfIwarp, NoFindingsForConformingEndpoint) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Session session(reference_endpoint_target({}), {.seed = seed});
    ASSERT_EQ(session.run({.executions = 20'000}), std::nullopt);
    EXPECT_EQ(session.statistics().executions, 20'000U);
    EXPECT_GT(session.statistics().edges, 3'000U);
    for (const Finding& finding : session.findings()) ADD_FAILURE() << finding.alarm.signature;
  }
}

TEST(FuzzerOfIwarp, GeneratorUsesAllOperationsRolesAndKinds) {
  Rng chance(1);
  const IwarpGeneratorOptions options;
  std::set<std::int64_t> opcodes, posted, roles;
  std::set<StepKind> kinds;
  std::size_t frames = 0;
  for (std::uint64_t execution = 1; execution <= 200; ++execution) {
    IwarpReferenceModel model(execution, chance, options);
    for (int i = 0; i < 64; ++i) {
      const Step step = model.next();
      model.perform(step);
      kinds.insert(step.kind);
      if (step.kind == StepKind::segment) opcodes.insert(step.opcode);
      if (step.kind == StepKind::post) posted.insert(step.opcode);
      if (step.kind == StepKind::connect) roles.insert(step.number);
      frames += model.outcome().frames.size();
    }
  }
  EXPECT_EQ(opcodes.size(), 16U);
  EXPECT_THAT(roles, testing::ElementsAre(0, 1));
  EXPECT_GE(posted.size(), 8U);
  for (std::size_t i = 0; i < step_kinds; ++i)
    EXPECT_EQ(kinds.contains(static_cast<StepKind>(i)), belongs_to(static_cast<StepKind>(i), Family::iwarp))
        << to_string(static_cast<StepKind>(i));
  EXPECT_GT(frames, 1'000U);
}

TEST(FuzzerOfIwarp, InjectedFaultIsFoundAndMinimized) {
  Session session(reference_endpoint_target(only("bounds-off-by-one")), {.seed = 1, .stop_at_first = true});
  ASSERT_EQ(session.run({.executions = 200'000}), std::nullopt);
  ASSERT_EQ(session.findings().size(), 1U);
  const Finding& finding = session.findings()[0];
  EXPECT_TRUE(finding.reproduced);
  EXPECT_LE(finding.minimal.steps.size(), 3U);
  EXPECT_EQ(finding.minimal.family, Family::iwarp);
  EXPECT_FALSE(replay(finding.minimal, *reference_endpoint_target({})).alarm);
}

/// Short form with one seed and few executions. With RDMAWIRE_FULL: ten seeds and the documented limits.
TEST(FuzzerOfIwarp, FaultsWithCategoryAreFound) {
  const bool full = std::getenv("RDMAWIRE_FULL") != nullptr;
  const std::uint64_t limit = full ? 200'000 : 20'000;
  std::vector<std::string> missed;
  for (const endpoint::FaultRow* row : endpoint_faults_of_concern()) {
    std::size_t late = 0;
    for (std::uint64_t seed = 1; seed <= (full ? 10U : 1U); ++seed) {
      Session session(reference_endpoint_target(only(row->name)),
                      {.seed = seed, .minimize = false, .stop_at_first = true});
      ASSERT_EQ(session.run({.executions = limit}), std::nullopt);
      if (session.findings().empty()) ++late;
    }
    if (late > (full ? 4U : 0U)) missed.emplace_back(row->name);
  }
  EXPECT_THAT(missed, testing::SizeIs(testing::Le(full ? 0U : 2U))) << testing::PrintToString(missed);
}

TEST(FuzzerOfIwarp, OracleReportsDescribeDifference) {
  const Alarm memory =
      alarm_of("ignores-rights", R"({"do":"segment","opcode":0,"payload":8,"key":"closed","offset":16})");
  EXPECT_EQ(memory.oracle, Oracle::protection);
  EXPECT_EQ(memory.signature, "protected memory: segment: closed changed");
  const Alarm state = alarm_of("accepts-any-msn", R"({"do":"segment","opcode":3,"msn":1})");
  EXPECT_EQ(state.oracle, Oracle::state);
  EXPECT_EQ(state.actual, "in state RTS");
  const Alarm completion = alarm_of("drops-empty-sends", R"({"do":"segment","opcode":3})");
  EXPECT_EQ(completion.oracle, Oracle::completion);
  const Alarm answer = alarm_of("unspecified-read-errors", R"({"do":"segment","opcode":1,"length":8,"key":"unknown"})");
  EXPECT_EQ(answer.oracle, Oracle::answer);
  EXPECT_EQ(answer.signature,
            "answer: segment: Terminate RDMA, type 1, code 0xff instead of Terminate RDMA, type 1, code 0x00");
}

TEST(FuzzerOfIwarp, CrcsAreValidUnlessMutated) {
  const auto status = [](const std::vector<std::uint8_t>& fpdu) {
    HeaderStack stack;
    decode_stream(stack, fpdu);
    return check_mpa_crc(stack).status;
  };
  const auto with = [&](const std::string& mutation) {
    return sent_frames(R"({"do":"segment","opcode":3,"payload":7,"mutations":[)" + mutation + "]}").at(0);
  };
  const auto field = with(R"({"do":"set","field":"ddp.dv","value":2})");
  EXPECT_EQ(field[2] & 3, 2);
  EXPECT_EQ(status(field), CrcCheck::Status::good);
  EXPECT_EQ(status(with(R"({"do":"pad","value":9})")), CrcCheck::Status::good);
  EXPECT_EQ(status(with(R"({"do":"extend","value":9})")), CrcCheck::Status::good);
  EXPECT_EQ(status(with(R"({"do":"bad_crc","value":4})")), CrcCheck::Status::bad);
  EXPECT_EQ(status(with(R"({"do":"set","field":"ddp_untagged.msn","value":5},{"do":"stale_crc"})")),
            CrcCheck::Status::bad);
}

TEST(FuzzerOfIwarp, FpdusAreDroppedDuplicatedReorderedSplitAndJoined) {
  const std::string send = R"({"do":"segment","opcode":3,"payload":8)";
  const std::size_t frame_size = sent_frames(send + "}").at(0).size();
  EXPECT_EQ(sent_frames(send + R"(,"mutations":[{"do":"drop"}]})").size(), 0U);
  EXPECT_EQ(sent_frames(send + R"(,"mutations":[{"do":"duplicate"}]})").size(), 2U);
  const auto divided = sent_frames(send + R"(,"mutations":[{"do":"split","value":4}]})");
  ASSERT_EQ(divided.size(), 2U);
  EXPECT_EQ(divided[0].size(), 5U);
  EXPECT_EQ(divided[0].size() + divided[1].size(), frame_size);
  EXPECT_EQ(sent_frames(send + R"(,"mutations":[{"do":"join"}]},)" + send + "}").at(0).size(), 2 * frame_size);
  const auto swapped = sent_frames(send + R"(,"mutations":[{"do":"hold"}]},)" + send + R"(,"msn":1})");
  ASSERT_EQ(swapped.size(), 2U);
  EXPECT_EQ(swapped[0][15], 2);  // last byte of the MSN
  EXPECT_EQ(swapped[1][15], 1);
}

TEST(FuzzerOfIwarp, EveryFieldIsMutatedEventually) {
  for (const std::string text : {R"({"do":"segment","opcode":1,"length":8})", R"({"do":"segment","opcode":10})",
                                 R"({"do":"segment","opcode":0,"payload":8})", R"({"do":"setup","flags":4})"}) {
    const Step step = parse_step(text, Family::iwarp).value();
    const auto bytes = StreamTester().plain(step, {}, {});
    HeaderStack stack;
    decode_stream(stack, bytes);
    Rng chance(1);
    std::set<const Field*> changed;
    for (int i = 0; i < 10'000; ++i) changed.insert(change_of_field(chance, bytes, stack.layers()).field);
    for (const Layer& layer : stack.layers())
      for (const Field& field : layer.header->fields)
        EXPECT_TRUE(changed.contains(&field) || !field.is_number() || !field.present_in(bytes.data() + layer.offset))
            << layer.header->name << "." << field.name;
  }
}

TEST(FuzzerOfIwarp, ReplayReturnsTcpFrames) {
  // A stream with markers and CRCs, a READ of the tester and a READ of the device.
  const auto target = reference_endpoint_target({});
  const auto replayed = replay(script_of(R"({"do":"connect","flags":2,"depth":4,"count":2,"own_depth":4,"length":64},
      {"do":"segment","opcode":3,"payload":8},{"do":"segment","opcode":1,"length":700},
      {"do":"post","opcode":5,"length":32},{"do":"segment","opcode":2,"payload":32},{"do":"fin"})"),
                               *target, true);
  EXPECT_FALSE(replayed.alarm);
  std::uint64_t handshake = 0, device_bytes = 0;
  for (const Exchanged& one : replayed.frames) {
    const HeaderStack stack = decode(one.frame);
    ASSERT_FALSE(stack.layers().empty());
    const auto tcp = stack.get<Tcp>();
    ASSERT_TRUE(tcp);
    handshake += tcp->get<"syn">();
    if (!one.sent) device_bytes += one.frame.size() - 54;
  }
  EXPECT_EQ(handshake, 2U);
  EXPECT_GT(device_bytes, 700U);
}

TEST(FuzzerOfIwarp, ReadsOfDeviceGetResponses) {
  const auto target = reference_endpoint_target({});
  Rng chance(1);
  const auto model = target->create_model(1, chance);
  ASSERT_EQ(target->start(1), std::nullopt);
  Outcome outcome;
  const Script script = script_of(R"({"do":"connect","number":1,"depth":4,"count":2,"own_depth":4,"flags":4,"ird":4},
      {"do":"post","opcode":5,"length":32},{"do":"segment","opcode":2,"payload":12,"flags":1},
      {"do":"segment","opcode":2,"payload":20})");
  for (const Step& step : script.steps) {
    model->perform(step);
    target->perform(step, *model, outcome);
  }
  ASSERT_EQ(outcome.completions.size(), 1U);
  EXPECT_EQ(outcome.completions[0].status, device::Status::success);
  EXPECT_EQ(outcome.completions[0].bytes, 32U);
}

TEST(FuzzerOfIwarp, SameSeedGivesSameFindings) {
  const auto run = [](std::uint64_t seed) {
    Session session(reference_endpoint_target(only("last-flag-everywhere")), {.seed = seed});
    session.run({.executions = 2'000});
    return to_json(session, "x")["findings"].dump();
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST(FuzzerOfIwarp, ScriptRoundTripWithFamily) {
  Session session(reference_endpoint_target(only("ignores-crc")), {.seed = 2, .stop_at_first = true});
  session.run({.executions = 20'000});
  ASSERT_FALSE(session.findings().empty());
  const Script& script = session.findings()[0].script;
  const auto parsed_again = parse_script(to_json(script).dump());
  ASSERT_TRUE(parsed_again) << parsed_again.error();
  EXPECT_EQ(parsed_again->steps, script.steps);
  EXPECT_EQ(parsed_again->family, Family::iwarp);
  EXPECT_EQ(parse_script(R"({"steps":[{"do":"segment"}]})").error(), "a script: step 0: segment is not a step of roce");
  EXPECT_EQ(parse_script(R"({"family":"iwarp","steps":[{"do":"request"}]})").error(),
            "a script: step 0: request is not a step of iwarp");
  EXPECT_EQ(parse_script(R"({"family":"nix","steps":[]})").error(), "a script: unknown family \"nix\"");
}

TEST(FuzzerOfIwarp, ExtremeNumbersAreHarmless) {
  Rng chance(9);
  for (int i = 0; i < 3'000; ++i) {
    Script script = script_of(connected + R"({"do":"wait"},{"do":"wait"},{"do":"wait"})");
    for (std::size_t at = 1; at < script.steps.size(); ++at) {
      Step& step = script.steps[at];
      step.kind = static_cast<StepKind>(chance.below(step_kinds));
      for (const StepMember& member : step_members)
        if (chance.one_in(3)) step.*(member.member) = static_cast<std::int64_t>(boundary(chance, 64, 0));
      step.at &= 1;
      step.key = static_cast<std::int64_t>(static_cast<std::uint64_t>(step.key) % keys);
      step.payload = static_cast<std::int64_t>(static_cast<std::uint64_t>(step.payload) % 8192);
      step.count &= 63;
      step.nanoseconds = static_cast<std::int64_t>(static_cast<std::uint64_t>(step.nanoseconds) % 1'000'000);
      for (std::uint64_t count = chance.below(3); count > 0; --count)
        step.mutations.push_back({.kind = static_cast<Mutation::Kind>(2 + chance.below(Mutation::kinds - 2)),
                                  .value = static_cast<std::int64_t>(chance.any())});
    }
    const auto target = reference_endpoint_target({});
    ASSERT_FALSE(replay(script, *target).alarm) << to_json(script).dump();
  }
}

TEST(FuzzerOfIwarp, ReportContainsScriptAndCapture) {
  const fs::path directory = fs::path(testing::TempDir()) / "iwarp_fuzzer_report";
  fs::remove_all(directory);
  Session session(reference_endpoint_target(only("accepts-any-msn")), {.seed = 1, .stop_at_first = true});
  session.run({.executions = 100'000});
  ASSERT_EQ(session.findings().size(), 1U);
  const auto written = write_report(session, "reference:iwarp:accepts-any-msn", session.target(), directory);
  ASSERT_TRUE(written) << written.error();
  const fs::path own = directory / directory_of(session.findings()[0], 0);
  for (const fs::path& file : {directory / "report.json", own / "script.json", own / "capture.pcapng"})
    EXPECT_GT(fs::file_size(file), 100U) << file;
  std::ifstream python(own / "reproduce.py");
  const std::string text((std::istreambuf_iterator<char>(python)), {});
  EXPECT_THAT(text, testing::HasSubstr("family=\"iwarp\""));
  fs::remove_all(directory);
}

TEST(FuzzerOfIwarp, CorpusOfOtherFamilyIsRejected) {
  const fs::path corpus = fs::path(testing::TempDir()) / "iwarp_fuzzer_corpus";
  fs::remove_all(corpus);
  Session first(reference_endpoint_target({}), {.seed = 4, .corpus = corpus});
  first.run({.executions = 500});
  ASSERT_EQ(first.trouble(), std::nullopt);
  Session parsed_again(reference_endpoint_target({}), {.corpus = corpus, .resume = true});
  parsed_again.run({.executions = 500});
  EXPECT_EQ(parsed_again.statistics().executions, 1000U);
  const Session other(reference_target({}), {.corpus = corpus});
  EXPECT_THAT(other.trouble().value_or(""),
              testing::HasSubstr("a script of iwarp cannot run on reference, which supports roce"));
  fs::remove_all(corpus);
}

TEST(FuzzerOfIwarp, FaultsHaveCategories) {
  EXPECT_GT(endpoint_faults_of_concern().size(), 60U);
  EXPECT_EQ(concern_of(*endpoint::find_fault("bounds-off-by-one")), FaultCategory::memory_safety);
  EXPECT_EQ(concern_of(*endpoint::find_fault("ignores-rights")), FaultCategory::authorization);
  EXPECT_EQ(concern_of(*endpoint::find_fault("accepts-any-msn")), FaultCategory::state);
  EXPECT_EQ(concern_of(*endpoint::find_fault("nonzero-pad")), std::nullopt);
}

TEST(FuzzerOfIwarp, TargetNameContainsFaults) {
  EXPECT_TRUE(open_target({.name = "reference:iwarp"}));
  EXPECT_TRUE(open_target({.name = "reference:iwarp:ignores-crc,accepts-any-msn"}));
  const auto wrong = open_target({.name = "reference:iwarp:ignores-pkey"});
  ASSERT_FALSE(wrong);
  EXPECT_TRUE(wrong.error().usage);
}

}  // namespace
}  // namespace rdmawire::fuzzer
