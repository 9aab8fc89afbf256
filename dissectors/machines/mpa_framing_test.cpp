#include "dissectors/machines/mpa_framing.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "dissectors/protocol/testing.hpp"

namespace rdmawire::machines {
namespace {

using rdmawire::testing::from_hex;
using State = FpduArrival::State;

// RFC 5044, 4.4, figures 5 and 6: the first two FPDUs of a stream. The second one contains a marker.
std::vector<std::uint8_t> figure_5() {
  auto bytes = from_hex("00000000 002a 4143 00000000 00000000 00000001 00000000");
  bytes.resize(48);
  for (const std::uint8_t byte : {0x52, 0x23, 0x99, 0x83}) bytes.push_back(byte);
  return bytes;
}

TEST(MpaFraming, AcceptsTheFiguresOfTheSpecification) {
  const auto stream = figure_5();
  ASSERT_EQ(stream.size(), 52U);
  const FpduArrival arrival = judge_fpdu(stream, 0, {.markers = true, .crc = true});
  ASSERT_EQ(arrival.state, State::whole);
  EXPECT_EQ(arrival.bytes, 52U);
  EXPECT_EQ(arrival.ulpdu_length, 42U);
  std::vector<std::uint8_t> space(52);
  const MutableBytes ulpdu = take_ulpdu(stream, 0, arrival, true, space);
  ASSERT_EQ(ulpdu.size(), 42U);
  EXPECT_EQ(ulpdu[0], 0x41);
  EXPECT_EQ(ulpdu[1], 0x43);
}

TEST(MpaFraming, RequestsMissingBytes) {
  const auto stream = figure_5();
  const FpduModes modes{.markers = true, .crc = true};
  EXPECT_EQ(judge_fpdu({}, 0, modes).bytes, 6U);
  EXPECT_EQ(judge_fpdu(Bytes(stream).first(5), 0, modes).bytes, 6U);
  for (std::size_t n = 6; n < stream.size(); ++n) {
    EXPECT_EQ(judge_fpdu(Bytes(stream).first(n), 0, modes).state, State::more);
    EXPECT_EQ(judge_fpdu(Bytes(stream).first(n), 0, modes).bytes, 52U);
  }
}

TEST(MpaFraming, EveryByteBeforeTheCrcIsCovered) {
  for (std::size_t at = 0; at < 52; ++at) {
    if (at == 4 || at == 5) continue;  // the length field changes the extent
    auto stream = figure_5();
    stream[at] ^= 0x10;
    const FpduArrival arrival = judge_fpdu(stream, 0, {.markers = true, .crc = true});
    ASSERT_EQ(arrival.state, State::invalid) << at;
    EXPECT_EQ(arrival.error, (IwarpError{2, 0, 2})) << at;
  }
}

TEST(MpaFraming, WithoutCrcsAnyValueIsValid) {
  auto stream = figure_5();
  stream[50] ^= 0xff;
  EXPECT_EQ(judge_fpdu(stream, 0, {.markers = true, .crc = false}).state, State::whole);
}

/// Returns an FPDU that MpaSender built at `position`, with a valid CRC.
std::vector<std::uint8_t> fpdu_at(std::uint64_t position, std::size_t ulpdu, bool markers) {
  std::vector<std::uint8_t> stream;
  MpaSender sender({.markers = markers, .crc = true}, position);
  EXPECT_TRUE(sender.send(stream, std::vector<std::uint8_t>(ulpdu, 0x5a)));
  return stream;
}

// RFC 5044, 4.3: a marker is at every 512th byte. All markers in an FPDU point to its length field.
TEST(MpaFraming, MarkersPointToTheLengthField) {
  EXPECT_EQ(fpduptr(0, 4), 0);
  EXPECT_EQ(fpduptr(512, 4), 508);
  EXPECT_EQ(fpduptr(1024, 4), 1020);
  EXPECT_EQ(fpduptr(512, 500), 12);  // as in figure 4
  EXPECT_EQ(extent_of(0, 1000, true), (FpduExtent{0, 4, 1012, 1016}));
  EXPECT_EQ(extent_of(0, 1010, true), (FpduExtent{0, 4, 1020, 1024}));
  EXPECT_EQ(extent_of(0, 1014, true), (FpduExtent{0, 4, 1028, 1032}));  // a marker directly before the CRC
  EXPECT_EQ(extent_of(52, 42, true), (FpduExtent{52, 52, 96, 100}));
  EXPECT_EQ(extent_of(52, 41, false), (FpduExtent{52, 52, 96, 100}));
  const auto stream = fpdu_at(500, 1200, true);
  EXPECT_EQ(stream[12 + 3], 12);                           // marker at 512
  EXPECT_EQ(stream[524 + 2] << 8 | stream[524 + 3], 524);  // marker at 1024
  EXPECT_EQ(judge_fpdu(stream, 500, {.markers = true}).state, State::whole);
}

TEST(MpaFraming, MarkerMismatchHasItsOwnError) {
  auto stream = fpdu_at(500, 100, true);
  stream[12 + 3] = 16;
  const std::uint32_t good = compute_mpa_crc(Bytes(stream).first(stream.size() - 4));
  store_be(stream.data() + stream.size() - 4, 4, good);
  const FpduArrival arrival = judge_fpdu(stream, 500, {.markers = true});
  ASSERT_EQ(arrival.state, State::invalid);
  EXPECT_EQ(arrival.error, (IwarpError{2, 0, 3}));
  // The low bits of FPDUPTR are reserved, and ignored.
  stream[12 + 3] = 15;
  store_be(stream.data() + stream.size() - 4, 4, compute_mpa_crc(Bytes(stream).first(stream.size() - 4)));
  EXPECT_EQ(judge_fpdu(stream, 500, {.markers = true}).state, State::whole);
}

// RFC 5044, 4.5: the maximum is EMSS - (6 + EMSS mod 4). Markers reduce it by 4 * ceil(EMSS / 512). It is between 128
// and 64768 (section 3).
TEST(MpaFraming, MaximumUlpduFollowsTheEmss) {
  EXPECT_EQ(mulpdu(1460, false), 1454U);
  EXPECT_EQ(mulpdu(1460, true), 1442U);
  EXPECT_EQ(mulpdu(1461, false), 1454U);
  EXPECT_EQ(mulpdu(8960, true), 8882U);
  EXPECT_EQ(mulpdu(100, false), 128U);
  EXPECT_EQ(mulpdu(65535, false), 64768U);
  EXPECT_EQ(extent_of(0, mulpdu(1460, true), true).end, 1460U);
}

}  // namespace
}  // namespace rdmawire::machines
