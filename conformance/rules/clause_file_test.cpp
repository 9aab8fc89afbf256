#include "conformance/rules/clause_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rdmawire::conformance {
namespace {

using testing::HasSubstr;

// XRC-005 has two clauses without a number: "checks of the BTH" and "XRC".
std::pair<std::size_t, std::size_t> place_of(const char* rule, std::string_view title) {
  const Rule* found = find_rule(rule);
  for (std::size_t i = 0; i < found->clause_count(); ++i)
    if (found->clauses[i].title == title) return {static_cast<std::size_t>(found - rules.data()), i};
  throw std::invalid_argument("no such clause");
}

std::string file_with(const std::string& rules) {
  return fmt::format("{{\"format\": 1,\n\"release\": \"1.7\",\n\"rules\": {{\n{}}}}}", rules);
}
std::string error_of(const std::string& text) {
  const auto read = parse_clause_file(text, "f");
  return read ? "accepted" : read.error();
}

TEST(ClauseFile, EachNumberHasItsRelease) {
  const auto read = parse_clause_file(
      file_with(R"("XRC-005": {"clauses": {"checks of the BTH": {"section": "9.6.1.5", "statement": "C9-42.1"},
                                           "XRC": {"release": "1.3.1", "table": "A14-1", "section": null}}})"),
      "f");
  ASSERT_TRUE(read) << read.error();
  const ClauseNumbers expected{{place_of("XRC-005", "checks of the BTH"), {"1.7", "9.6.1.5", "C9-42.1", ""}},
                               {place_of("XRC-005", "XRC"), {"1.3.1", "", "", "A14-1"}}};
  EXPECT_EQ(*read, expected);
}

TEST(ClauseFile, TemplateIsReadAndIsEmpty) {
  const auto json = clause_file_template({});
  const auto read = parse_clause_file(json.dump(), "f");
  ASSERT_TRUE(read) << read.error();
  EXPECT_TRUE(read->empty());
  std::size_t clauses = 0;
  for (const auto& [rule, entry] : json["rules"].items()) clauses += entry["clauses"].size();
  EXPECT_EQ(clauses, count_clause_numbers().missing);
  EXPECT_GT(clauses, 90U);
}

TEST(ClauseFile, TemplateKeepsKnownNumbers) {
  const ClauseNumbers known{{place_of("XRC-005", "XRC"), {"1.7", "A14.3", "", ""}}};
  EXPECT_EQ(parse_clause_file(clause_file_template(known).dump(), "f"), known);
}

TEST(ClauseFile, WrongFileIsRejected) {
  EXPECT_EQ(error_of("[]"), "f: must be an object");
  EXPECT_THAT(error_of("{\"format\": 1,\n"), HasSubstr("f: line 2: invalid JSON"));
  EXPECT_EQ(error_of("{\n\"format\": 2, \"rules\": {}}"), "f: line 2: \"format\" must be 1");
  EXPECT_EQ(error_of("{\"format\": 1}"), "f: line 1: rules: must be an object with the rules");
  EXPECT_EQ(error_of("{\"format\": 1,\n\"relase\": \"1.7\", \"rules\": {}}"),
            "f: line 2: relase: unknown member; did you mean release?");
  EXPECT_EQ(error_of("{\"format\": 1,\n\"release\": \"next\", \"rules\": {}}"),
            "f: line 2: release: \"next\" is not a release such as 1.7");
}

TEST(ClauseFile, WrongRuleOrClauseIsRejected) {
  EXPECT_EQ(error_of(file_with(R"("XRC-05": {"clauses": {}})")),
            "f: line 4: XRC-05: unknown rule; did you mean XRC-005?");
  EXPECT_EQ(error_of(file_with("\"XRC-005\": {\"clauses\": {}},\n\"xrc-005\": {\"clauses\": {}}")),
            fmt::format("f: line 5: xrc-005: the file contains the rule twice: it is XRC-005 and {}",
                        find_rule("XRC-005")->id));
  EXPECT_EQ(error_of(file_with("\"XRC-005\": {\"clauses\": {}},\n\"XRC-005\": {\"clauses\": {}}")),
            "f: the member \"XRC-005\" occurs twice in one object");
  EXPECT_EQ(error_of(file_with(R"("XRC-005": 5)")), "f: line 4: XRC-005: must be an object");
  EXPECT_EQ(error_of(file_with(R"("XRC-005": {"section": "9"})")), "f: line 4: XRC-005: section: unknown member");
  EXPECT_EQ(error_of(file_with(R"("XRC-005": {"clauses": {"BTH": {}}})")),
            "f: line 4: XRC-005: BTH: unknown clause; expected \"checks of the BTH\" or \"XRC\"");
  EXPECT_THAT(error_of(file_with(R"("DDP-001": {"clauses": {"x": {}}})")),
              HasSubstr("DDP-001: every clause of this rule has a number"));
}

TEST(ClauseFile, WrongNumberIsRejected) {
  const auto with = [](const char* values) {
    return error_of(file_with(fmt::format("\"XRC-005\": {{\"clauses\": {{\n\"XRC\": {}}}}}", values)));
  };
  EXPECT_EQ(with(R"({"sektion": "9"})"), "f: line 5: XRC-005: XRC: sektion: unknown member; did you mean section?");
  EXPECT_EQ(with(R"({"section": 9.7})"), "f: line 5: XRC-005: XRC: section: must be a string");
  EXPECT_EQ(with(R"({"section": "9..7"})"),
            "f: line 5: XRC-005: XRC: section: \"9..7\" is not a section such as 9.7.5.2.8 or A17.4.5");
  for (const char* value : {"9.7.5.2.8", "A17.4.5", "A14", "11"})
    EXPECT_EQ(with(fmt::format(R"({{"section": "{}"}})", value).c_str()), "accepted") << value;
  for (const char* value : {"9.", ".9", "B9", "9.7 ", "C9-110", "see 9.7"})
    EXPECT_THAT(with(fmt::format(R"({{"section": "{}"}})", value).c_str()), HasSubstr("is not a section")) << value;
  for (const char* value : {"C9-110", "o10-37.2.30", "oA19-1", "CA17-33"})
    EXPECT_EQ(with(fmt::format(R"({{"statement": "{}"}})", value).c_str()), "accepted") << value;
  for (const char* value : {"9-110", "C9", "C-9", "C9-", "C9-1.", "c9-110", "C9-110, C9-111"})
    EXPECT_THAT(with(fmt::format(R"({{"statement": "{}"}})", value).c_str()),
                HasSubstr("is not a compliance statement"))
        << value;
  for (const char* value : {"45", "A17-1"})
    EXPECT_EQ(with(fmt::format(R"({{"table": "{}"}})", value).c_str()), "accepted") << value;
  for (const char* value : {"Table 45", "45.1", "A17"})
    EXPECT_THAT(with(fmt::format(R"({{"table": "{}"}})", value).c_str()), HasSubstr("is not the number of a table"))
        << value;
}

TEST(ClauseFile, NumberNeedsARelease) {
  EXPECT_EQ(error_of("{\"format\": 1, \"rules\": {\"XRC-005\": {\"clauses\": {\"XRC\": {\"section\": \"9\"}}}}}"),
            "f: line 1: XRC-005: XRC: needs a \"release\", here or for the whole file");
}

}  // namespace
}  // namespace rdmawire::conformance
