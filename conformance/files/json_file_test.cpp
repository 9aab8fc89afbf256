#include "conformance/files/json_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rdmawire::conformance {
namespace {

using testing::HasSubstr;

TEST(JsonFile, LineIsThatOfTheMember) {
  const std::string text = "{\"a\": \"b\",\n\"c\": {\n\"b\": 1,\n\"d\" : 2}}";
  EXPECT_EQ(line_of(text, {"b"}), "line 3");
  EXPECT_EQ(line_of(text, {"c", "d"}), "line 4");
  EXPECT_EQ(line_of(text, {"c", "none"}), "line 2");
  EXPECT_EQ(line_of(text, {}), "line 1");
}

TEST(JsonFile, MemberMustBeUnique) {
  for (const char* text :
       {R"({"a":1,"a":2})", R"({"b":[{"a":{}},{"a":1,"c":{"x":1},"a":1}]})", R"({"a":1,"\u0061":2})"})
    EXPECT_EQ(parse_json(text).error(), "the member \"a\" occurs twice in one object") << text;
  for (const char* text : {R"({"a":{"a":1},"b":{"a":1}})", R"([{"a":1},{"a":2}])", "[]"})
    EXPECT_TRUE(parse_json(text)) << text;
  EXPECT_THAT(parse_json("{\"a\":1,\n\"a\"").error(), HasSubstr("line 2: invalid JSON"));
}

TEST(JsonFile, FormatMustBe1) {
  const auto error_of = [](const std::string& text) { return wrong_format(*parse_json(text), text); };
  EXPECT_EQ(error_of(R"({"format": 1, "x": 2})"), "");
  EXPECT_EQ(error_of("[]"), "must be an object");
  EXPECT_EQ(error_of("{}"), "missing \"format\": 1");
  for (const char* text : {"{\n\"format\": 2}", "{\n\"format\": \"1\"}", "{\n\"format\": null}"})
    EXPECT_EQ(error_of(text), "line 2: \"format\" must be 1") << text;
}

TEST(JsonFile, DateMustExist) {
  for (const char* date : {"2026-01-31", "2028-02-29"}) EXPECT_TRUE(is_date(date)) << date;
  for (const char* date :
       {"", "2026-02-29", "2026-13-01", "2026-1-1", "2026-01-1x", "26-01-01-1", "2026/01/01", "soon"})
    EXPECT_FALSE(is_date(date)) << date;
}

TEST(JsonFile, UnreadableFileIsReported) {
  EXPECT_EQ(text_of_file("/no/such").error(), "/no/such: could not be read: No such file or directory");
  EXPECT_THAT(text_of_file("/").error(), HasSubstr("/: could not be read: "));
  EXPECT_THAT(text_of_file("/dev/null").error(), HasSubstr("the file is empty"));
}

}  // namespace
}  // namespace rdmawire::conformance
