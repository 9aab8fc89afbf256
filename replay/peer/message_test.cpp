#include "replay/peer/message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rdmawire::peer {
namespace {

using ::testing::HasSubstr;

std::string why_not(std::string_view line) {
  const auto message = parse_message(line);
  return message ? "valid message" : message.error();
}

TEST(ParseMessage, ParsesResultsErrorsAndEvents) {
  const auto result = parse_message(R"({"id":7,"result":{"handle":3}})");
  ASSERT_TRUE(result);
  EXPECT_EQ(std::get<Answer>(*result).id, 7);
  EXPECT_EQ(std::get<Answer>(*result).result->at("handle"), 3);

  const auto error =
      parse_message(R"({"id":"a","error":{"errno":2,"name":"ENOENT","message":"alloc_pd: no object 7"}})");
  ASSERT_TRUE(error);
  const PeerError& read = std::get<Answer>(*error).result.error();
  EXPECT_EQ(read.kind, PeerError::Kind::refused);
  EXPECT_EQ(read.number, 2);
  EXPECT_EQ(to_string(read), "alloc_pd: no object 7 (ENOENT)");

  const auto event = parse_message(R"({"event":"async","type":"port_active","port":1})");
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<Event>(*event).name, "async");
  EXPECT_EQ(std::get<Event>(*event).body.at("port"), 1);
}

TEST(ParseMessage, ErrorDescribesInvalidLine) {
  EXPECT_EQ(why_not(""), "invalid JSON: ");
  EXPECT_EQ(why_not("[1]"), "not a JSON object: [1]");
  EXPECT_EQ(why_not("{\"id\":1,\"result\":\"\xff\"}"), "invalid JSON: {\"id\":1,\"result\":\".\"}");
  EXPECT_THAT(why_not(R"({"result":1})"), HasSubstr("missing \"id\" or \"event\""));
  EXPECT_THAT(why_not(R"({"id":[1],"result":1})"), HasSubstr("\"id\" is not a number or string"));
  EXPECT_THAT(why_not(R"({"id":1})"), HasSubstr("expected either \"result\" or \"error\""));
  EXPECT_THAT(why_not(R"({"id":1,"result":1,"error":{}})"), HasSubstr("expected either"));
  EXPECT_THAT(why_not(R"({"id":1,"error":"no"})"), HasSubstr("\"error\" is not an object"));
  EXPECT_THAT(why_not(R"({"id":1,"error":{"name":"E","message":"m"}})"), HasSubstr("no \"errno\""));
  EXPECT_THAT(why_not(R"({"id":1,"error":{"errno":-1,"name":"E","message":"m"}})"),
              HasSubstr("not a valid error number"));
  EXPECT_THAT(why_not(R"({"event":3})"), HasSubstr("\"event\" is not a string"));
}

TEST(ParseMessage, DeepNestingIsRejected) {
  const auto nested = [](int depth) {
    return R"({"id":1,"result":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(parse_message(nested(most_depth - 1)));
  EXPECT_THAT(why_not(nested(most_depth + 1)), HasSubstr("nested more than"));
  EXPECT_THAT(why_not(std::string(2'000'000, '[')), HasSubstr("nested more than"));
}

TEST(LineBuffer, LinesAreReassembledFromPieces) {
  LineBuffer lines;
  EXPECT_EQ(lines.append("on"), LineBuffer::State::ok);
  EXPECT_EQ(lines.next(), std::nullopt);
  lines.append("e\ntwo\r\n\nfo");
  EXPECT_EQ(lines.next(), "one");
  EXPECT_EQ(lines.next(), "two");
  EXPECT_EQ(lines.next(), "");
  EXPECT_EQ(lines.next(), std::nullopt);
  lines.append("ur\n");
  EXPECT_EQ(lines.next(), "four");
}

TEST(LineBuffer, BufferIsBoundedByLongestLine) {
  LineBuffer lines;
  EXPECT_EQ(lines.append(std::string(most_line_bytes, 'x')), LineBuffer::State::ok);
  EXPECT_EQ(lines.append("x"), LineBuffer::State::overlong);
}

}  // namespace
}  // namespace rdmawire::peer
