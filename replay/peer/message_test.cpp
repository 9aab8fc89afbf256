#include "replay/peer/message.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/peer/authentication.hpp"

namespace rdmawire::peer {
namespace {

using ::testing::HasSubstr;

std::string why_not(std::string_view line) {
  const auto message = parse_message(line);
  return message ? "it is one" : message.error();
}

TEST(ParseMessage, reads_results_errors_and_events) {
  const auto result = parse_message(R"({"id":7,"result":{"handle":3}})");
  ASSERT_TRUE(result);
  EXPECT_EQ(std::get<Answer>(*result).id, 7);
  EXPECT_EQ(std::get<Answer>(*result).result->at("handle"), 3);

  const auto error =
      parse_message(R"({"id":"a","error":{"errno":2,"name":"ENOENT","message":"alloc_pd: there is no object 7"}})");
  ASSERT_TRUE(error);
  const PeerError& read = std::get<Answer>(*error).result.error();
  EXPECT_EQ(read.kind, PeerError::Kind::refused);
  EXPECT_EQ(read.number, 2);
  EXPECT_EQ(to_string(read), "alloc_pd: there is no object 7 (ENOENT)");

  const auto event = parse_message(R"({"event":"async","type":"port_active","port":1})");
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<Event>(*event).name, "async");
  EXPECT_EQ(std::get<Event>(*event).body.at("port"), 1);
}

TEST(ParseMessage, says_what_is_wrong_with_a_line) {
  EXPECT_EQ(why_not(""), "no JSON: ");
  EXPECT_EQ(why_not("[1]"), "no JSON object: [1]");
  EXPECT_EQ(why_not("{\"id\":1,\"result\":\"\xff\"}"), "no JSON: {\"id\":1,\"result\":\".\"}");
  EXPECT_THAT(why_not(R"({"result":1})"), HasSubstr("neither \"id\" nor \"event\""));
  EXPECT_THAT(why_not(R"({"id":[1],"result":1})"), HasSubstr("\"id\" is neither number nor text"));
  EXPECT_THAT(why_not(R"({"id":1})"), HasSubstr("not one of \"result\" and \"error\""));
  EXPECT_THAT(why_not(R"({"id":1,"result":1,"error":{}})"), HasSubstr("not one of"));
  EXPECT_THAT(why_not(R"({"id":1,"error":"no"})"), HasSubstr("\"error\" is no object"));
  EXPECT_THAT(why_not(R"({"id":1,"error":{"name":"E","message":"m"}})"), HasSubstr("no \"errno\""));
  EXPECT_THAT(why_not(R"({"id":1,"error":{"errno":-1,"name":"E","message":"m"}})"), HasSubstr("no error number"));
  EXPECT_THAT(why_not(R"({"event":3})"), HasSubstr("\"event\" is no text"));
}

TEST(ParseMessage, refuses_what_is_deeper_than_any_answer) {
  const auto nested = [](int depth) {
    return R"({"id":1,"result":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(parse_message(nested(most_depth - 1)));
  EXPECT_THAT(why_not(nested(most_depth + 1)), HasSubstr("within each other"));
  EXPECT_THAT(why_not(std::string(2'000'000, '[')), HasSubstr("within each other"));
}

TEST(LineBuffer, gives_lines_however_the_bytes_were_cut) {
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

TEST(LineBuffer, does_not_grow_beyond_the_longest_line) {
  LineBuffer lines;
  EXPECT_EQ(lines.append(std::string(most_line_bytes, 'x')), LineBuffer::State::ok);
  EXPECT_EQ(lines.append("x"), LineBuffer::State::overlong);
}

TEST(Hex, is_two_digits_an_byte) {
  EXPECT_EQ(to_hex(std::string_view("\x00\xab\x7f", 3)), "00ab7f");
  EXPECT_EQ(from_hex("00aB7f"), std::string("\x00\xab\x7f", 3));
  EXPECT_EQ(from_hex(""), "");
  EXPECT_EQ(from_hex("0"), std::nullopt);
  EXPECT_EQ(from_hex("0g"), std::nullopt);
}

TEST(Prove, is_hmac_sha256) {
  // RFC 4231, test cases 1 and 2.
  EXPECT_EQ(prove(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(prove("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

}  // namespace
}  // namespace rdmawire::peer
