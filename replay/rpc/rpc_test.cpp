/// Declarations of the agent protocol.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>

#include "replay/rpc/completion_commands.hpp"
#include "replay/rpc/connection_commands.hpp"
#include "replay/rpc/device_commands.hpp"
#include "replay/rpc/events.hpp"
#include "replay/rpc/memory_commands.hpp"
#include "replay/rpc/protocol.hpp"
#include "replay/rpc/queue_pair_commands.hpp"
#include "replay/rpc/range.hpp"
#include "replay/rpc/session_commands.hpp"
#include "replay/rpc/work_commands.hpp"
#include "source_directory.hpp"

namespace rdmawire::rpc {
namespace {

Reader accepting_handles() {
  return Reader([](Kind, std::uint64_t) { return std::nullopt; });
}

/// Reads a request and returns its error, or "".
template <class Message>
std::string error_of(const char* json) {
  const auto request = read_request<Message>(Received::parse(json), accepting_handles());
  return request ? "" : request.error().message;
}

std::string content_of(const std::string& path) {
  std::ifstream file(RDMAWIRE_SOURCE_DIR "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Protocol, ReferencePageIsUpToDate) {
  EXPECT_NE(content_of("docs/reference/agent-protocol.md").find(reference()), std::string::npos)
      << "run scripts/generate";
}

TEST(Protocol, SchemaIsUpToDate) {
  EXPECT_EQ(content_of("docs/reference/schemas/agent-protocol.schema.json"), json_schema()) << "run scripts/generate";
}

TEST(Protocol, NamesAreUnique) {
  std::set<std::string_view> commands;
  for (const Family& family : families()) {
    for (const Command* command : family.commands) {
      EXPECT_TRUE(commands.insert(command->name).second) << command->name;
      for (const Fields* fields : {&command->arguments, &command->result}) {
        std::set<std::string_view> members;
        for (const Field& field : *fields)
          EXPECT_TRUE(members.insert(field.name).second) << command->name << field.name;
      }
    }
  }
}

TEST(Protocol, ExamplesHaveAllRequiredMembersAndNoOthers) {
  const auto names = [](const Fields& fields) {
    std::set<std::string, std::less<>> all;
    for (const Field& field : fields) all.emplace(field.name);
    return all;
  };
  for (const Family& family : families()) {
    for (const Command* command : family.commands) {
      for (const auto& [text, fields] :
           {std::pair{command->example, &command->arguments}, std::pair{command->answers, &command->result}}) {
        const Received example = Received::parse(text);
        const auto known = names(*fields);
        for (const auto& [name, value] : example.items()) EXPECT_TRUE(known.contains(name)) << command->name << name;
        for (const Field& field : *fields) {
          const bool always = field.required && field.limits.condition.applies == nullptr;
          EXPECT_TRUE(!always || example.contains(field.name)) << command->name << ": " << field.name;
        }
      }
    }
  }
}

TEST(Request, IsReadWithDefaults) {
  const auto request = read_request<Poll>(Received::parse(R"({"id":1,"do":"poll","cq":7})"), accepting_handles());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->cq.number, 7U);
  EXPECT_EQ(request->max, 16U);
  EXPECT_EQ(request->timeout_ms, 0U);
}

TEST(Request, WrongMembersAreRejected) {
  EXPECT_EQ(error_of<Poll>(R"({})"), "cq: missing required argument");
  EXPECT_EQ(error_of<Poll>(R"({"cq":"7"})"), "cq: must be an integer, not \"7\"");
  EXPECT_EQ(error_of<Poll>(R"({"cq":7,"max":4097})"), "max: must be from 1 to 4096, not 4097");
  EXPECT_EQ(error_of<Poll>(R"({"cq":7,"color":1})"), "\"color\": unknown argument; expected cq, max, min, timeout_ms");
  EXPECT_EQ(error_of<Notify>(R"({"cq":7,"solicited_only":1})"), "solicited_only: must be true or false, not 1");
  EXPECT_EQ(error_of<Write>(R"({"mr":1,"bytes":"abc"})"), "bytes: must be bytes in hexadecimal, two digits per byte");
  EXPECT_EQ(error_of<AllocMw>(R"({"pd":1,"type":-1})"), "type: must be from 1 to 2, not -1");
  EXPECT_EQ(error_of<Register>(R"({"pd":1,"length":1,"access":["all"]})").find("access: unknown name \"all\""), 0U);
  EXPECT_EQ(error_of<Fill>(R"({"mr":1,"pattern":"stripes"})"),
            "pattern: must be one of byte, counter, random, not \"stripes\"");
}

TEST(Request, PathPrecedesNestedMember) {
  EXPECT_EQ(error_of<ModifyQp>(R"({"qp":1,"ah_attr":{"grh":{"dgid":"::1"}}})"),
            "ah_attr: grh: sgid_index: missing required argument");
  EXPECT_EQ(error_of<PostSend>(R"({"qp":1,"requests":[{"opcode":"send"},{"opcode":"send","sges":[{"mr":1,"x":2}]}]})"),
            "requests[1]: sges[0]: \"x\": unknown argument; expected mr, offset, addr, length, lkey");
}

TEST(Request, ConditionOfMemberIsChecked) {
  EXPECT_EQ(error_of<CreateQp>(R"({"type":"xrc_recv","xrcd":1})"), "");
  EXPECT_EQ(error_of<CreateQp>(R"({"type":"xrc_recv","xrcd":1,"pd":2})"), "pd: not with `xrc_recv`");
  EXPECT_EQ(error_of<CreateQp>(R"({"type":"rc","pd":2,"send_cq":3})"), "recv_cq: missing required argument");
  EXPECT_EQ(error_of<PostSend>(R"({"qp":1,"requests":[{"opcode":"send","imm":1}]})"),
            "requests[0]: imm: only with `send_imm`, `write_imm`");
}

TEST(Request, ExtensionsAreAcceptedOnlyByReferenceDevices) {
  const Received request =
      Received::parse(R"({"qp":1,"requests":[{"opcode":"fetch_add","remote_addr":0,"rkey":0,"add":1,"add_mask":1}]})");
  const Reader::CheckHandle any = [](Kind, std::uint64_t) { return std::nullopt; };
  EXPECT_FALSE(read_request<PostSend>(request, Reader(any)));
  EXPECT_TRUE(read_request<PostSend>(request, Reader(any, true)));
}

TEST(Request, HandlesAreChecked) {
  const Reader reader([](Kind kind, std::uint64_t number) -> std::optional<Error> {
    if (kind == Kind::mr && number == 5) return std::nullopt;
    return Error{ENOENT, "no object " + std::to_string(number)};
  });
  EXPECT_TRUE(read_request<Read>({{"mr", 5}}, reader));
  const auto unknown = read_request<Read>({{"mr", 6}}, reader);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().number, ENOENT);
  EXPECT_EQ(unknown.error().message, "mr: no object 6");
}

TEST(Request, IsWrittenWithoutInapplicableMembers) {
  PostSend request{.qp = {1}, .requests = {{.opcode = "write", .wr_id = 2, .remote_addr = 3, .rkey = 4}}};
  EXPECT_EQ(arguments_of(request).dump(),
            R"({"qp":1,"requests":[{"opcode":"write","wr_id":2,"remote_addr":3,"rkey":4}]})");
  const auto read = read_request<PostSend>(Received(arguments_of(request)), accepting_handles());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->requests[0].rkey, 4U);
}

TEST(Request, DefaultsAndAbsentObjectsAreNotWritten) {
  EXPECT_EQ(arguments_of(Poll{.cq = {3}, .max = 16, .timeout_ms = 5}).dump(), R"({"cq":3,"timeout_ms":5})");
  EXPECT_EQ(arguments_of(CreateQp{.pd = {1}, .recv_cq = {2}}).dump(), R"({"type":"rc","pd":1,"recv_cq":2})");
}

TEST(Result, NewMembersAndNamesAreAccepted) {
  const auto result = read_result<Poll>(Received::parse(
      R"({"completions":[{"wr_id":1,"status":"new_status","status_number":99,"qp_num":2,"opcode":null,"new":[]}]})"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->completions[0].status.name, "new_status");
  EXPECT_FALSE(result->completions[0].opcode);
}

TEST(Result, InvalidMemberIsNamed) {
  EXPECT_EQ(read_result<CreateCq>({{"cq", 1}}).error(), "cqe");
  EXPECT_EQ(read_result<Poll>(Received::parse(R"({"completions":[{"wr_id":"x"}]})")).error(), "completions[0]: wr_id");
}

TEST(Result, MissingInterfaceIsNull) {
  const QueryPort::Result port;
  EXPECT_EQ(result_of<QueryPort>(port)["netdev"], nullptr);
  EXPECT_FALSE(read_result<QueryPort>(Received(result_of<QueryPort>(port)))->netdev);
}

TEST(Filling, WritesPattern) {
  ByteVector bytes(12);
  fill(bytes, "byte", 0xab);
  EXPECT_EQ(to_hex(bytes), "abababababababababababab");
  fill(bytes, "counter", 250);
  EXPECT_EQ(to_hex(bytes), "fafbfcfdfeff000102030405");
  // Published test vector of SplitMix64 for seed 0.
  fill(bytes, "random", 0);
  EXPECT_EQ(to_hex(bytes), "afcd1d7b39a820e2f465b9a1");
}

TEST(Range, MustBeInRegion) {
  EXPECT_EQ(range_of(60, std::nullopt, 64)->length, 4U);
  EXPECT_EQ(range_of(64, 0, 64)->length, 0U);
  EXPECT_EQ(range_of(65, std::nullopt, 64).error().message, "offset: must be from 0 to 64, not 65");
  EXPECT_EQ(range_of(60, 5, 64).error().message, "length: must be from 0 to 4, not 5");
  EXPECT_EQ(range_of(UINT64_MAX, UINT64_MAX, 64).error().number, ERANGE);
}

TEST(Bytes, HaveTwoDigits) {
  EXPECT_EQ(to_hex(ByteVector{0x00, 0xab, 0x7f}), "00ab7f");
  EXPECT_EQ(from_hex("00aB7f"), (ByteVector{0x00, 0xab, 0x7f}));
  EXPECT_EQ(from_hex(""), ByteVector());
  EXPECT_EQ(from_hex("0"), std::nullopt);
  EXPECT_EQ(from_hex("0g"), std::nullopt);
}

TEST(Event, IsWrittenAndRead) {
  CmEvent event;
  event.cm_id = {3};
  event.type = "rejected";
  event.reason = 28;
  event.private_data = ByteVector{0xca, 0xfe};
  const Json json = event_of(event);
  EXPECT_EQ(json.dump(), R"({"event":"cm","cm_id":3,"type":"rejected","reason":28,"private_data":"cafe"})");
  EXPECT_EQ(read_event<CmEvent>(Received(json))->private_data, event.private_data);
}

/// Names of all commands and their arguments.
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Family& family : families())
    for (const Command* command : family.commands) {
      names.emplace_back(command->name);
      for (const Field& argument : command->arguments) names.emplace_back(argument.name);
    }
  return names;
}

/// Its destructor ends the program with status 0 if the tables are unchanged.
struct UsesTablesWhenDestroyed {
  std::vector<std::string> names;

  UsesTablesWhenDestroyed() = default;
  UsesTablesWhenDestroyed(const UsesTablesWhenDestroyed&) = delete;
  UsesTablesWhenDestroyed& operator=(const UsesTablesWhenDestroyed&) = delete;
  ~UsesTablesWhenDestroyed() { _exit(names == all_names() ? 0 : 1); }
};

TEST(Tables, OutliveStaticObjects) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // The new process has no tables yet.
  EXPECT_EXIT(
      {
        static UsesTablesWhenDestroyed earlier;
        earlier.names = all_names();
        std::exit(1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rdmawire::rpc
