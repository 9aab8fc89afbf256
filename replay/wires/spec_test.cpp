#include "replay/wires/spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rdmawire::replay {
namespace {

using ::testing::HasSubstr;

std::string message_of(const std::string& name) {
  const auto wire = open_wire(name);
  if (wire) return "it opened";
  EXPECT_EQ(wire.error().kind, WireError::Kind::specification) << name;
  return wire.error().message;
}

TEST(WireSpec, ParsesKindAddressAndOptions) {
  const auto spec = WireSpec::parse("unix:/run/a:b=c,local=/tmp/x=y,flag");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->kind, "unix");
  EXPECT_EQ(spec->address, "/run/a:b=c");
  EXPECT_EQ(spec->value("local"), "/tmp/x=y");
  EXPECT_TRUE(spec->has("flag"));
  EXPECT_EQ(spec->value("flag"), std::nullopt);
}

TEST(WireSpec, BackslashEscapesSpecialCharacters) {
  const auto spec = WireSpec::parse(R"(unix:/run/a\,b\\c,local=d\,e)");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->address, R"(/run/a,b\c)");
  EXPECT_EQ(spec->value("local"), "d,e");
}

TEST(WireSpec, ErrorsListValidChoices) {
  EXPECT_THAT(message_of(""), HasSubstr("KIND:ADDRESS"));
  EXPECT_THAT(message_of("eth0"), HasSubstr("missing kind"));
  EXPECT_THAT(message_of(":eth0"), HasSubstr("missing kind"));
  EXPECT_THAT(message_of("card:eth0"), HasSubstr("expected file:PATH, null, packet:INTERFACE, "));
  EXPECT_THAT(message_of("packet:"), HasSubstr("no address after packet:"));
  EXPECT_THAT(message_of("pakcet:eth0"), HasSubstr("did you mean packet?"));
  EXPECT_THAT(message_of("packet:lo,color"), HasSubstr("bypass (bypass the queueing discipline)"));
  EXPECT_THAT(message_of("packet:lo,bypas"), HasSubstr("did you mean bypass?"));
  EXPECT_THAT(message_of("packet:lo,bypass=1"), HasSubstr("bypass takes no value"));
  EXPECT_THAT(message_of("packet:lo,bypass,bypass"), HasSubstr("twice"));
  EXPECT_THAT(message_of("packet:lo,"), HasSubstr("empty option"));
  EXPECT_THAT(message_of("unix:/x,local"), HasSubstr("local requires a value"));
  EXPECT_THAT(message_of("unix:/x,mode=0999"), HasSubstr("octal"));
  EXPECT_THAT(message_of("unix:/x\\"), HasSubstr("trailing backslash"));
  EXPECT_THAT(message_of(std::string("unix:/x\0y", 9)), HasSubstr("zero byte"));
  EXPECT_THAT(message_of(std::string(5000, 'u')), HasSubstr("longer than 4096"));
}

TEST(WireSpec, NumbersHaveUnitsAndBounds) {
  const auto number = [](const std::string& text) {
    return WireSpec::parse("packet:lo,n=" + text)->number("n", 5, 2, 10'000'000'000);
  };
  EXPECT_EQ(number("2"), 2U);
  EXPECT_EQ(number("10K"), 10'000U);
  EXPECT_EQ(number("10G"), 10'000'000'000U);
  EXPECT_EQ(WireSpec::parse("packet:lo")->number("n", 5, 2, 9), 5U);
  for (const char* wrong : {"1", "11G", "99999999999999999999", "18446744073709551615G", "4k", "4KK", "-4", "x"})
    EXPECT_THAT(number(wrong).error().message, HasSubstr("expected a number from 2 to 10000000000")) << wrong;
}

}  // namespace
}  // namespace rdmawire::replay
