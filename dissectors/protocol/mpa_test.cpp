#include "dissectors/protocol/mpa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "dissectors/protocol/ddp.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/rdmap.hpp"
#include "dissectors/protocol/testing.hpp"

namespace rdmawire {
namespace {

using ::testing::ElementsAreArray;
using testing::from_hex;

std::vector<const HeaderInfo*> headers(const HeaderStack& stack) {
  std::vector<const HeaderInfo*> out;
  for (const Layer& layer : stack.layers()) out.push_back(layer.header);
  return out;
}

Frame send_frame(std::uint32_t msn, std::size_t octets) {
  Frame frame = Value<Fpdu>() / Value<Ddp>() / Value<Rdmap>() / Value<DdpUntagged>().set<"msn">(msn);
  frame.payload.assign(octets, 0);
  return frame;
}

// RFC 5044, figure 5: the first FPDU of a stream with markers.
const auto figure5 =
    from_hex("00000000 002a 4143 00000000 00000000 00000001 00000000" + std::string(48, '0') + "52239983");
// RFC 5044, figure 6: an FPDU that begins at octet 0x1ec of the stream, with a marker in it.
const auto figure6 =
    from_hex("002a 4143 00000000 00000000 00000002 00000000 00000014" + std::string(48, '0') + "84925898");

TEST(MpaSender, WritesFigure5) {
  std::vector<std::uint8_t> stream;
  MpaSender sender({.markers = true, .crc = true});
  sender.send(stream, send_frame(1, 24));
  EXPECT_THAT(stream, ElementsAreArray(figure5));
  EXPECT_EQ(sender.position(), figure5.size());
}

TEST(MpaSender, WritesFigure6) {
  std::vector<std::uint8_t> stream;
  MpaSender sender({.markers = true, .crc = true}, 0x1ec);
  sender.send(stream, send_frame(2, 24));
  EXPECT_THAT(stream, ElementsAreArray(figure6));
}

TEST(DecodeFpdu, ReadsFigure5BehindItsMarker) {
  std::vector<std::uint8_t> bytes(figure5.size());
  bytes.resize(remove_markers(figure5, 0, bytes.data()));
  ASSERT_EQ(bytes.size(), figure5.size() - 4);
  HeaderStack stack;
  decode_fpdu(stack, bytes);
  EXPECT_TRUE(stack.findings().empty());
  EXPECT_EQ(stack.wire, Wire::iwarp);
  EXPECT_THAT(headers(stack), ::testing::ElementsAre(&info<Fpdu>, &info<Ddp>, &info<Rdmap>, &info<DdpUntagged>));
  EXPECT_EQ(stack.get<Fpdu>()->get<"ulpdu_length">(), 0x2a);
  EXPECT_EQ(stack.get<Ddp>()->get<"last">(), 1);
  EXPECT_EQ(stack.get<Rdmap>()->get<"opcode">(), 3);
  EXPECT_EQ(stack.get<DdpUntagged>()->get<"msn">(), 1U);
  EXPECT_EQ(stack.payload.length, 24U);
  EXPECT_EQ(stack.pad.length, 0U);
  EXPECT_EQ(stack.mpa_crc.offset, 0x2cU);
  EXPECT_FALSE(stack.cut);
}

}  // namespace
}  // namespace rdmawire
