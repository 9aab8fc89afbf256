#include "dissectors/output/value.hpp"

#include <gtest/gtest.h>

#include <array>

#include "dissectors/protocol/testing.hpp"

namespace rdmawire::output {
namespace {

template <class Append>
std::string text(Append append) {
  std::string out;
  append(out);
  return out;
}
std::string value(const Field& field, std::string_view hex, Hex width = Hex::padded) {
  const auto bytes = testing::from_hex(hex);
  return text([&](std::string& out) { append_value(out, field, bytes.data(), width); });
}

TEST(Value, EveryDisplayFormat) {
  EXPECT_EQ(value(field("n", 0, 16), "12b7"), "4791");
  EXPECT_EQ(value(field("n", 8, 24).hex(), "ff000011"), "0x000011");
  EXPECT_EQ(value(field("n", 8, 24).hex(), "ff000011", Hex::shortest), "0x11");
  EXPECT_EQ(value(field("n", 0, 20).hex(), "00011f"), "0x00011");
  EXPECT_EQ(value(field("n", 0, 48).as(Display::mac), "525400000002"), "52:54:00:00:00:02");
  EXPECT_EQ(value(field("n", 0, 32).as(Display::ipv4), "0a0000ff"), "10.0.0.255");
  EXPECT_EQ(value(field("n", 0, 128).as(Display::ipv6), "fe800000000000005054 00fffe000002"), "fe80::5054:ff:fe00:2");
  EXPECT_EQ(value(field("n", 0, 64).as(Display::guid), "0002c903000e0b72"), "0002:c903:000e:0b72");
  EXPECT_EQ(value(field("n", 0, 64).as(Display::text), "6d6c7835 5f300000"), "mlx5_0");
  EXPECT_EQ(value(field("n", 0, 32).as(Display::text), "411b5c42"), "A\\x1b\\x5cB")
      << "bytes must not control a terminal";
  EXPECT_EQ(value(field("n", 0, 72), "000102030405060708"), "000102030405060708");
  EXPECT_EQ(value(field("n", 0, 32).le(), "01000000"), "1");
  EXPECT_EQ(value(field("n", 0, 64), "ffffffffffffffff"), "18446744073709551615");
}

TEST(Value, DurationsInTheMostReadableUnit) {
  const auto duration = [](std::uint64_t ns) { return text([&](std::string& out) { append_duration(out, ns); }); };
  EXPECT_EQ(duration(0), "0 ns");
  EXPECT_EQ(duration(999), "999 ns");
  EXPECT_EQ(duration(10'000), "10 µs");
  EXPECT_EQ(duration(4'096), "4.096 µs");
  EXPECT_EQ(duration(640'000), "0.64 ms");
  EXPECT_EQ(duration(655'360'000), "655.36 ms");
  EXPECT_EQ(duration(1'500'000'000), "1.5 s");
  EXPECT_EQ(duration(8'796'093'022'208), "8796.093022208 s");
}

TEST(Value, TimesKeepTheirNanoseconds) {
  const auto seconds = [](std::int64_t ns) { return text([&](std::string& out) { append_seconds(out, ns); }); };
  EXPECT_EQ(seconds(1), "0.000000001");
  EXPECT_EQ(seconds(-1), "-0.000000001");
  EXPECT_EQ(seconds(-1'500'000'000), "-1.500000000");
  EXPECT_EQ(seconds(INT64_MIN), "-9223372036.854775808");
  const auto date = [](std::int64_t ns) { return text([&](std::string& out) { append_date(out, ns); }); };
  EXPECT_EQ(date(0), "1970-01-01 00:00:00.000000000");
  EXPECT_EQ(date(-1), "1969-12-31 23:59:59.999999999");
  EXPECT_EQ(date(1'732'163'000'123'456'789), "2024-11-21 04:23:20.123456789");
  EXPECT_EQ(date(1'709'164'800'000'000'000), "2024-02-29 00:00:00.000000000");
}

TEST(Value, ColumnsCountCharactersNotBytes) {
  EXPECT_EQ(columns("10 µs"), 5U);
  EXPECT_EQ(columns("a → b"), 5U);
}

}  // namespace
}  // namespace rdmawire::output
