#pragma once
/// UC traffic for tests.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "captures/io/reader.hpp"
#include "captures/io/writer.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "replay/reactive/exchange.hpp"

namespace rdmawire::replay::reactive {

/// Converts an RC capture to UC: keeps its SENDs and WRITEs in order, without acknowledgements.
inline std::string over_uc(const std::string& capture) {
  const std::string path = fmt::format("{}/uc-{}-{}.pcapng", ::testing::TempDir(), ::getpid(),
                                       std::filesystem::path(capture).filename().string());
  auto reader = captures::Reader::open(capture).value();
  auto writer = captures::Writer::create(path).value();
  (void)writer.add_interface({});
  captures::Record record;
  while (reader.next(record) == captures::Next::record) {
    const HeaderStack stack = decode(record.bytes);
    const auto bth = stack.get<Bth>();
    constexpr std::uint64_t last_write = 0x0b, uc = 0x20;
    if (!bth || bth->get<"dest_qp">() == 1 || bth->get<"opcode">() > last_write) continue;
    Frame frame = Frame::of(stack);
    frame.find(info<Bth>)->set(*info<Bth>.find("opcode"), bth->get<"opcode">() | uc);
    frame.find(info<Bth>)->set(*info<Bth>.find("ack_request"), 0);
    frame.forget_computed();
    frame.trailer.clear();
    const ByteVector bytes = frame.encode();
    record.bytes = bytes;
    record.wire_length = static_cast<std::uint32_t>(bytes.size());
    record.interface = 0;
    record.options = {};
    EXPECT_TRUE(writer.write(record));
  }
  EXPECT_TRUE(writer.close());
  return path;
}

}  // namespace rdmawire::replay::reactive
