#include "replay/faults/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rdmawire::replay {
namespace {

std::string error_of(std::string_view text) {
  const auto compiled = FaultProgram::compile(text);
  return compiled ? "it compiled" : to_string(compiled.error(), text);
}

TEST(FaultProgram, FixIsValidBeforeAndAfterSelectors) {
  for (const char* text :
       {"corrupt payload byte 7 fix icrc fix ip nth 1", "corrupt payload byte 7 nth 1 fix ip fix icrc",
        "corrupt payload byte 7 fix icrc nth 1 fix ip", "truncate 60 nth 1 fix icrc fix ip"}) {
    const auto program = FaultProgram::compile(text);
    ASSERT_TRUE(program) << text;
    EXPECT_TRUE(program->rules()[0].action.fix_icrc && program->rules()[0].action.fix_ip) << text;
    EXPECT_FALSE(program->rules()[0].action.fix_transport) << text;
    EXPECT_EQ(program->rules()[0].text, text);
  }
  EXPECT_THAT(error_of("drop nth 1 fix icrc"), ::testing::HasSubstr("fix requires the action corrupt or truncate"));
  EXPECT_THAT(error_of("truncate 60 nth 1 fix crc"), ::testing::HasSubstr("fix requires icrc, ip, tcp, udp or all"));
}

TEST(FaultProgram, WordsOfOtherToolsAreTranslated) {
  EXPECT_THAT(error_of("loss 3%"), ::testing::HasSubstr("unknown action \"loss\"; did you mean drop probability P?"));
  EXPECT_THAT(error_of("drop flow 2"), ::testing::HasSubstr("unknown selector \"flow\"; did you mean connection N?"));
}

TEST(FaultProgram, ExcerptOfLongLineIsMarked) {
  const std::string error = error_of("corrupt payload byte 7 mask 0xff from 10.0.0.3 to 10.0.0.2 nth 1 nonsense");
  EXPECT_THAT(error, ::testing::HasSubstr("line 1:\n…"));
  // The marker is below the unknown word: a sequence of bytes is one column.
  const std::string excerpt = error.substr(8, error.find('\n', 8) - 8);
  const std::string carets = error.substr(8 + excerpt.size() + 1);
  EXPECT_EQ(carets.find('^'), excerpt.find("nonsense") - 2);
}

TEST(FaultProgram, ParsesActionsAndSelectors) {
  const auto compiled = FaultProgram::compile(
      "# a comment\n"
      "\n"
      "drop psn +3 try 1 from a   # the fourth\n"
      "  delay 1.5ms every 10\r\n"
      "hold 3 within 20ms connection 2\n"
      "duplicate 2 message 4 packet 2..3\n"
      "corrupt payload byte 60 mask 0x80 fix icrc fix ip nth 7\n"
      "corrupt random bits 2 probability 1%\n"
      "mark ce answers first 5\n"
      "truncate 60 segment 3.. seq +0..+99\n"
      "drop from 10.0.0.2 to fe80::1 after 2s before 3s where bth.dest_qp == 0x11 or udp # none\n");
  ASSERT_FALSE(compiled) << "# in a filter does not start a comment";
  const auto program = FaultProgram::compile(
      "# a comment\n"
      "seed 77\n"
      "drop psn +3 try 1 from a   # the fourth\n"
      "  delay 1.5ms every 10\r\n"
      "hold 3 within 20ms connection 2\n"
      "duplicate 2 message 4 packet 2..3\n"
      "corrupt payload byte 60 mask 0x80 fix icrc fix ip nth 7\n"
      "corrupt random bits 2 probability 1%\n"
      "mark ce answers first 5\n"
      "truncate 60 segment 3.. seq +0..+99\n"
      "drop from 10.0.0.2 to fe80::1 after 2s before 3s where bth.dest_qp == 0x11 or udp\n"
      "drop to 52:54:00:00:00:02 psn -1..+1");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->seed(), 77U);
  const auto rules = program->rules();
  ASSERT_EQ(rules.size(), 10U);
  EXPECT_EQ(rules[0].text, "drop psn +3 try 1 from a");
  EXPECT_EQ(rules[0].line, 3U);
  EXPECT_EQ(rules[0].psn->from, 3);
  EXPECT_EQ(rules[0].psn->to, 3);
  EXPECT_EQ(rules[0].from->side, 0U);
  EXPECT_EQ(rules[1].action.time, 1'500'000);
  EXPECT_EQ(rules[1].every, 10U);
  EXPECT_EQ(rules[2].action.count, 3U);
  EXPECT_EQ(rules[2].action.time, 20'000'000);
  EXPECT_EQ(rules[3].action.count, 2U);
  EXPECT_EQ(rules[3].packet->to, 3);
  EXPECT_EQ(rules[4].action.region, FaultAction::Region::payload);
  EXPECT_EQ(rules[4].action.byte, 60U);
  EXPECT_EQ(rules[4].action.mask, 0x80);
  EXPECT_TRUE(rules[4].action.fix_icrc && rules[4].action.fix_ip && !rules[4].action.fix_transport);
  EXPECT_EQ(rules[5].action.bits, 2U);
  EXPECT_DOUBLE_EQ(rules[5].probability, 0.01);
  EXPECT_EQ(rules[6].action.ecn, 3);
  EXPECT_TRUE(rules[6].answers);
  EXPECT_EQ(rules[6].nth->to, 5);
  EXPECT_EQ(rules[7].segment->from, 3);
  EXPECT_EQ(rules[7].sequence->to, 99);
  EXPECT_EQ(rules[8].after, 2'000'000'000);
  EXPECT_EQ(rules[8].to->kind, FaultEndpoint::Kind::ipv6);
  EXPECT_TRUE(rules[8].where);
  EXPECT_EQ(rules[9].to->kind, FaultEndpoint::Kind::mac);
  EXPECT_EQ(rules[9].psn->from, -1);
}

TEST(FaultProgram, ErrorShowsPosition) {
  EXPECT_EQ(error_of("drop\ndorp psn +3"),
            "line 2:\n"
            "dorp psn +3\n"
            "^^^^\n"
            "unknown action \"dorp\"; did you mean drop?");
  EXPECT_EQ(error_of("drop pns +3"),
            "line 1:\n"
            "drop pns +3\n"
            "     ^^^\n"
            "unknown selector \"pns\"; did you mean psn?");
  // Two letters are too few for a suggestion.
  EXPECT_THAT(error_of("drop xy 5"),
              ::testing::HasSubstr("unknown selector \"xy\"; expected from, to, connection, qp,"));
  EXPECT_THAT(error_of("corrupt bth.pns"),
              ::testing::HasSubstr("unknown field \"bth.pns\"; did you mean bth.psn or bth.pad?"));
  EXPECT_THAT(error_of("corrupt nothing.like.this"), ::testing::HasSubstr("headers.md lists all fields"));
  EXPECT_EQ(error_of("delay 5 every 2"),
            "line 1:\n"
            "delay 5 every 2\n"
            "      ^\n"
            "a time must be a number with unit ns, us, ms or s, for example 5ms, up to one day");
  EXPECT_EQ(error_of("drop psn"),
            "line 1:\n"
            "drop psn\n"
            "        ^\n"
            "psn requires a relative number or range: +3, +3..+7, +3..");
  const std::string filter = error_of("drop where bth.opcod == 4");
  EXPECT_NE(filter.find("\n           ^^^^^^^^^\n"), std::string::npos) << filter;
}

TEST(FaultProgram, InvalidRulesAreRejected) {
  for (const char* text : {"drop psn +3 psn +4",
                           "drop psn +7..+3",
                           "drop try 0",
                           "drop nth 1 first 2",
                           "drop first 0",
                           "drop every 0",
                           "drop segment 1 psn +1",
                           "drop answers requests",
                           "corrupt",
                           "corrupt mask 0",
                           "corrupt byte 70000",
                           "corrupt random 3",
                           "corrupt payload fix everything",
                           "corrupt bth.nothing",
                           "corrupt bth.psn mask 0x1000000",
                           "corrupt bth.psn set 0x1000000",
                           "corrupt bth.psn random bits 25",
                           "corrupt ipv6.src set 1",
                           "inject",
                           "inject nak",
                           "inject nak 32",
                           "inject nak nonsense",
                           "inject rnr-nak",
                           "change cnp",
                           "mark blue",
                           "truncate 13",
                           "hold 0",
                           "duplicate 0",
                           "drop probability 1.5",
                           "drop probability nan",
                           "drop probability",
                           "drop from",
                           "drop from 10.0.0",
                           "seed",
                           "seed 1\nseed 2",
                           "seed 1 2",
                           "delay -1ms",
                           "delay 1e9s",
                           "delay infs",
                           "drop where",
                           "drop where (",
                           "drop after 1s after 2s",
                           "psn +3",
                           "drop psn 99999999999999999999",
                           "drop connection 5..3",
                           "drop qp",
                           "drop qp 0x1000000",
                           "drop qp 1 qp 2",
                           "drop qp 5 segment 1"})
    EXPECT_NE(error_of(text), "it compiled") << text;
  std::string many;
  for (int i = 0; i < 257; ++i) many += "drop\n";
  EXPECT_NE(error_of(many).find("more than 256 rules"), std::string::npos);
  EXPECT_NE(error_of(std::string(70'000, '\n')).find("exceeds 65536"), std::string::npos);
}

}  // namespace
}  // namespace rdmawire::replay
