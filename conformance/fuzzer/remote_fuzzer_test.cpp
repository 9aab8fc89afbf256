/// Tests of the fuzzer with a device behind an agent, which is simulated by the reference device.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/fuzzer/remote_connections.hpp"
#include "conformance/fuzzer/requests.hpp"
#include "conformance/fuzzer/session.hpp"
#include "conformance/fuzzer/step_generator.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire::fuzzer {
namespace {

std::unique_ptr<Target> agent_target(const std::vector<std::string>& faults = {}) {
  conformance::TargetOptions options;
  options.faults = faults;
  auto opened = remote_target([options] { return conformance::Target::open(options); }, "behind an agent");
  EXPECT_TRUE(opened) << opened.error().message;
  return std::move(*opened);
}

Script script_of(const std::string& steps) { return parse_script(R"({"seed":1,"steps":[)" + steps + "]}").value(); }
const std::string rc =
    R"({"do":"connect","state":3,"rights":14,"depth":4,"count":4,"length":1024,"psn":10,"own_psn":20,"retries":7})";
const std::string uc =
    R"({"do":"connect","service":1,"state":3,"rights":14,"count":4,"length":1024,"psn":10,"own_psn":20})";
const std::string ud = R"({"do":"connect","service":2,"state":3,"count":4,"length":1024,"own_psn":20})";

/// Return the signature of the alarm that a script causes in a device with these faults, or an empty string.
std::string alarm_of(const std::string& steps, const std::vector<std::string>& faults = {}) {
  const auto target = agent_target(faults);
  const Replayed replayed = replay(script_of(steps), *target, true);
  return replayed.alarm ? replayed.alarm->signature : "";
}

TEST(RemoteFuzzer, NoFindingsForConformingDevice) {
  const auto looks = [](const Step& step) -> std::optional<Step> {
    for (const Mutation& one : step.mutations)
      EXPECT_FALSE(one.field && one.field->name == "dest_qp") << "may be the other queue pair";
    EXPECT_FALSE(step.kind == StepKind::post && (step.flags & 2) != 0) << "a fence";
    return std::nullopt;
  };
  Session session(agent_target(), {.seed = 1, .mutator = looks});
  ASSERT_EQ(session.run({.executions = 2'000}), std::nullopt);
  for (const Finding& finding : session.findings())
    ADD_FAILURE() << finding.alarm.signature << "\n"
                  << finding.alarm.expected << "\n"
                  << finding.alarm.actual << "\n"
                  << to_json(finding.minimal).dump(1);
  // The run tested the device as responder (requests) and as requester (posts and responses).
  const Statistics& made = session.statistics();
  for (const StepKind kind : {StepKind::connect, StepKind::request, StepKind::answer, StepKind::post})
    EXPECT_GT(made.by_kind[static_cast<std::size_t>(kind)], 50U) << to_string(kind);
}

TEST(RemoteFuzzer, NetworkHeaderOfDatagramIsCompared) {
  const std::string datagram = R"({"do":"request","opcode":100,"payload":24,"flags":1})";
  EXPECT_EQ(alarm_of(ud + "," + datagram + "," + datagram), "");
  EXPECT_THAT(alarm_of(ud + "," + datagram, {"network-header-at-front"}), testing::StartsWith("memory: request"));
}

TEST(RemoteFuzzer, FaultOfUnreliableReceiverIsFound) {
  EXPECT_EQ(alarm_of(ud + R"(,{"do":"request","opcode":100,"payload":8,"flags":16,"mutated":true})"), "");
  EXPECT_THAT(
      alarm_of(ud + R"(,{"do":"request","opcode":100,"payload":8,"flags":16,"mutated":true})", {"ignores-qkey"}),
      testing::HasSubstr("request"));
  EXPECT_EQ(alarm_of(uc + R"(,{"do":"request","opcode":42,"length":8,"payload":8})"), "");
}

TEST(RemoteFuzzer, InvalidatedKeyIsReplacedForNextExecution) {
  // 23: SEND Only with Invalidate. 12: RDMA READ Request.
  const Script takes = script_of(rc + R"(,{"do":"request","opcode":23,"key":"everything","payload":8,"flags":1})");
  const Script reads = script_of(rc + R"(,{"do":"request","opcode":12,"length":8,"flags":1})");
  const auto target = agent_target({"invalidates-consumer-regions"});
  EXPECT_TRUE(replay(takes, *target).alarm);
  EXPECT_FALSE(replay(reads, *target).alarm);
}

const std::string posts_a_read = R"(,{"do":"post","opcode":5,"length":600,"offset":64})";

TEST(RemoteFuzzer, RequestsOfDeviceGetResponses) {
  EXPECT_EQ(
      alarm_of(rc + R"(,{"do":"post","opcode":2,"length":300},{"do":"answer","opcode":17,"psn":1,"syndrome":31})"), "");
  // 13, 14, 15: RDMA READ Response First, Middle, Last.
  const std::string complete_read = posts_a_read + R"(,{"do":"answer","opcode":13,"payload":256,"syndrome":31})" +
                                    R"(,{"do":"answer","opcode":14,"payload":256})" +
                                    R"(,{"do":"answer","opcode":15,"payload":88,"syndrome":31})";
  EXPECT_EQ(alarm_of(rc + complete_read), "");
}

TEST(RemoteFuzzer, FaultOfAcknowledgementHandlingIsFound) {
  const std::string ghost = R"(,{"do":"answer","opcode":17,"psn":3,"syndrome":31,"mutated":true})";
  EXPECT_EQ(alarm_of(rc + posts_a_read + ghost), "");
  EXPECT_THAT(alarm_of(rc + posts_a_read + R"(,{"do":"answer","opcode":17,"psn":2,"syndrome":31,"mutated":true})",
                       {"ack-completes-reads"}),
              testing::StartsWith("completion: answer"));
}

TEST(RemoteFuzzer, FaultOfSentPacketsIsFound) {
  EXPECT_EQ(alarm_of(ud + R"(,{"do":"post","opcode":2,"length":8,"flags":8})"), "");
  EXPECT_EQ(alarm_of(ud + R"(,{"do":"post","opcode":2,"length":8,"flags":8})", {"sends-privileged-qkey"}),
            "answer: post: UD SEND Only: deth.qkey");
  const std::string second_read = R"(,{"do":"post","opcode":2,"length":300},{"do":"answer","opcode":17,"syndrome":96})";
  EXPECT_EQ(alarm_of(rc + second_read), "");
  EXPECT_EQ(alarm_of(rc + second_read, {"retransmits-other-bytes"}), "answer: answer: RC SEND First: payload");
}

TEST(RemoteFuzzer, ImmediateDataIsCompared) {
  const std::string datagram = R"(,{"do":"request","opcode":101,"payload":8,"immediate":7})";
  EXPECT_EQ(alarm_of(ud + datagram), "");
  EXPECT_THAT(alarm_of(ud + datagram, {"loses-ud-immediate"}), testing::StartsWith("completion: request"));
}

const std::string managed = R"({"do":"cm","opcode":16,"own_psn":2000,"depth":4,"retries":2,"timeout":6},
                               {"do":"cm_accept","count":4,"length":64},{"do":"cm","opcode":20})";
const std::string sends = R"(,{"do":"request","opcode":4,"payload":8,"flags":1})";

TEST(RemoteFuzzer, ScriptConnectsThroughCommunicationManager) {
  const auto target = agent_target();
  const Replayed replayed = replay(
      script_of(
          managed + sends + R"(,{"do":"cm","opcode":21})" + sends + R"(,{"do":"cm_connect","retries":2},
                {"do":"cm","opcode":19,"own_psn":7,"depth":4})" +
          sends +
          R"(,{"do":"cm_disconnect"},{"do":"cm","opcode":22},{"do":"cm_connect","at":1},{"do":"cm","opcode":18,"at":1,"compare":28})"),
      *target, true);
  EXPECT_FALSE(replayed.alarm) << replayed.alarm->signature << ": " << replayed.alarm->actual;
  std::vector<std::string> exchange;
  for (const Exchanged& one : replayed.frames) {
    const HeaderStack stack = decode(one.frame);
    const auto mad = stack.get<Mad>();
    const Name* message = mad ? cm_attribute_names.find(mad->get<"attribute_id">()) : nullptr;
    exchange.push_back((one.sent ? "> " : "< ") + (message
                                                       ? std::string(message->name)
                                                       : std::string(opcode(stack.get<Bth>()->get<"opcode">()).name)));
  }
  EXPECT_THAT(exchange, testing::ElementsAre("> REQ", "< REP", "> RTU", "> RC SEND Only", "< RC Acknowledge", "> DREQ",
                                             "< DREP", "> RC SEND Only", "< REQ", "> REP", "< RTU", "> RC SEND Only",
                                             "< RC Acknowledge", "< DREQ", "> DREP", "< REQ", "> REJ"));
}

TEST(RemoteFuzzer, DeviceWithoutListenerCausesNoAlarm) {
  const auto opened = remote_target(
      [] {
        auto device = conformance::Target::open({});
        // The CM port is in use by another listener, at an address in a VLAN.
        EXPECT_TRUE(device &&
                    (*device)->device().peer->call("cm_listen", {{"address", "10.0.7.1"}, {"port", cm_port}}));
        return device;
      },
      "port in use");
  ASSERT_TRUE(opened);
  const std::string mutation = R"({"do":"cm","opcode":26,"mutated":true},)";
  EXPECT_FALSE(replay(script_of(mutation + managed + sends), **opened).alarm);
  EXPECT_FALSE(replay(script_of(rc + sends), **opened).alarm);
}

TEST(RemoteFuzzer, FaultOfDisconnectIsFound) {
  const std::string ends = R"(,{"do":"cm","opcode":21})" + sends;
  EXPECT_EQ(alarm_of(managed + ends), "");
  EXPECT_EQ(alarm_of(managed + ends, {"stays-connected"}), "state: cm: RTS instead of ERR");
}

TEST(RemoteFuzzer, AfterMutatedCmMessageOnlyProtectedMemoryIsCompared) {
  const std::string mutation = R"(,{"do":"cm","opcode":26,"mutated":true})";  // an unexpected APR
  EXPECT_EQ(alarm_of(managed + mutation + sends, {"naks-every-packet"}), "");
  EXPECT_EQ(alarm_of(managed + mutation + R"(,{"do":"request","opcode":10,"key":"read_only","length":8,"payload":8})",
                     {"ignores-region-rights"}),
            "protected memory: request: read_only changed");
}

TEST(RemoteFuzzer, UnreachableCommunicationManagerIsDetected) {
  const auto opened = conformance::Target::open({});
  ASSERT_TRUE(opened);
  const conformance::DeviceUnderTest& device = (*opened)->device();
  const device::Gid own{device.path.tester_address}, its{device.path.device_address};
  device::Port port;
  port.mac = device.path.tester_mac;
  port.gids = {{own, device::GidType::roce_v2}};
  port.learn(its, device.path.device_mac);
  device::Gid unknown_gid = its;
  unknown_gid.bytes[15] ^= 0x55;
  port.learn(unknown_gid, device.path.device_mac);
  const FrameMaker reaches(port, {its, its}), misses(port, {unknown_gid, unknown_gid});
  for (const FrameMaker* maker : {&reaches, &misses}) {
    KnownObjects objects;
    RemoteConnections connections({*device.peer, *device.wire, *maker, device.path.tester_address,
                                   [&](const char* command, const nlohmann::json& arguments) {
                                     return device.peer->call(command, arguments).value_or(nlohmann::json::object());
                                   }},
                                  objects);
    EXPECT_EQ(connections.offered(), maker == &reaches) << "only one listener is possible";
    std::vector<std::vector<std::uint8_t>> frames;
    EXPECT_EQ(connections.answers(objects, frames), maker == &reaches);
  }
}

// A device may fail or retry the request. The script stops there, because later outcomes cannot be compared.
TEST(RemoteFuzzer, InvalidResponseMayFailOrRetryRequest) {
  const Step wrong{.kind = StepKind::answer, .opcode = 15, .payload = 8, .syndrome = 31, .mutated = true};
  Outcome fails, asks, succeeds;
  fails.completions = {{.id = 1, .status = device::Status::bad_response}};
  succeeds.completions = {{.id = 1, .status = device::Status::success}};
  EXPECT_TRUE(is_implementation_defined(wrong, fails, asks));
  EXPECT_FALSE(is_implementation_defined(wrong, fails, succeeds));
  EXPECT_FALSE(is_implementation_defined(wrong, asks, fails)) << "the reference device ignores it";
  Step right = wrong;
  right.mutated = false;
  EXPECT_FALSE(is_implementation_defined(right, fails, asks));
  // NAK remote access error
  const Step refuses{.kind = StepKind::answer, .opcode = 17, .syndrome = 0x62, .mutated = true};
  EXPECT_FALSE(is_implementation_defined(refuses, fails, asks));
}

}  // namespace
}  // namespace rdmawire::fuzzer
