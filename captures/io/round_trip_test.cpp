/// Decodes and encodes every captured frame. The bytes must be equal, with captured and with recomputed fields.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "captures/io/test_support.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/transport.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "source_directory.hpp"

namespace rdmawire::captures {
namespace {

using namespace testing_support;
namespace fs = std::filesystem;

/// Returns the captures in captures/samples, and in ../shared/captures if it exists.
std::vector<fs::path> all_captures() {
  const char* const named = std::getenv("RDMAWIRE_SHARED");
  const fs::path shared = fs::path(named ? named : RDMAWIRE_SOURCE_DIR "/../shared") / "captures";
  std::vector<fs::path> files;
  for (const fs::path& folder : {fs::path(RDMAWIRE_SOURCE_DIR "/captures/samples"), shared, shared / "public"}) {
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().find(".pcap") != std::string::npos) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Returns the TCP or UDP checksum field of a packet that was captured before checksum offload. It contains only the
/// sum over the pseudo header, which the device completes later.
std::uint16_t offloaded_checksum(const HeaderStack& stack) {
  const Layer& network = stack.layers()[stack.network];
  const Layer& transport = stack.layers()[stack.transport];
  const bool v4 = network.header == &info<Ipv4>;
  const std::uint8_t* ip = stack.bytes.data() + network.offset;
  const std::uint32_t total =
      v4 ? View<Ipv4>(ip).get<"total_length">() : View<Ipv6>(ip).get<"payload_length">() + Ipv6::size;
  const std::uint32_t bytes = network.offset + total - transport.offset;
  const Bytes addresses = v4 ? Bytes{ip + 12, 8} : Bytes{ip + 8, 32};
  return static_cast<std::uint16_t>(
      ~internet_checksum(addresses, bytes + (transport.header == &info<Tcp> ? ip_protocol::tcp : ip_protocol::udp)));
}

struct Counts {
  std::size_t captures = 0, frames = 0, computed = 0, offloaded = 0, damaged = 0, pdus = 0, pads = 0;
  std::vector<std::string> wrong_checksums;
};

/// `good`: all CRCs are valid. `keep_mpa_crc`: the connection does not use CRCs, so the CRC field can have any value.
void round_trip(const std::string& where, const HeaderStack& stack, bool good, bool keep_mpa_crc, Counts& counts) {
  const ByteVector bytes(stack.bytes.begin(), stack.bytes.end());
  Frame frame = Frame::of(stack);
  ASSERT_EQ(frame.encode(), bytes) << where;
  if (!good || stack.cut || stack.fragment || !stack.findings().empty()) {
    ++counts.damaged;
    return;
  }
  const auto mpa_crc = frame.mpa_crc;
  const auto pad = frame.pad;
  frame.forget_computed();
  if (keep_mpa_crc) frame.mpa_crc = mpa_crc;
  // Linux's siw sends pad bytes that are not initialized, although RFC 5044, 4.1 requires zeros.
  if (pad && std::any_of(pad->begin(), pad->end(), [](std::uint8_t byte) { return byte != 0; })) {
    frame.pad = pad;
    ++counts.pads;
  }
  ByteVector encoded = frame.encode();
  if (encoded == bytes) {
    ++counts.computed;
    return;
  }
  // Only the TCP or UDP checksum may differ: because the device computes it, or because it is wrong.
  ASSERT_NE(stack.network, HeaderStack::none) << where;
  const Layer& transport = stack.layers()[stack.transport];
  ASSERT_TRUE(transport.header == &info<Tcp> || transport.header == &info<Udp>) << where;
  const Field& checksum = *transport.header->find("checksum");
  const std::uint64_t captured = checksum.load(stack.bytes_of(transport).data());
  checksum.store(encoded.data() + transport.offset, captured);
  ASSERT_EQ(encoded, bytes) << where;
  if (captured == offloaded_checksum(stack))
    ++counts.offloaded;
  else
    counts.wrong_checksums.push_back(where);
}

TEST(RoundTrip, EveryCapturedFrameIsReencoded) {
  Counts counts;
  for (const fs::path& file : all_captures()) {
    auto reader = Reader::open(file.string());
    ASSERT_TRUE(reader) << to_string(reader.error());
    ++counts.captures;
    tracking::Dissector dissector;
    tracking::Packet packet;
    Record record;
    while (reader->next(record) == Next::record) {
      ++counts.frames;
      packet.number = record.number;
      packet.time_ns = record.time;
      packet.link = record.link;
      dissector.dissect(packet, record.bytes, record.wire_length);
      const std::string where = file.filename().string() + " frame " + std::to_string(record.number);
      using enum CrcCheck::Status;
      round_trip(where, packet.stack, packet.icrc.status != bad && packet.vcrc.status != bad, false, counts);
      if (HasFatalFailure()) return;
      for (const tracking::Pdu& pdu : packet.pdus) {
        ++counts.pdus;
        round_trip(where + ", a PDU", pdu.stack, pdu.crc.status != bad, pdu.crc.status == absent, counts);
        if (HasFatalFailure()) return;
      }
    }
  }
  std::cout << counts.captures << " captures: " << counts.frames << " frames and " << counts.pdus
            << " MPA frames and FPDUs re-encoded, " << counts.computed << " also with recomputed fields, "
            << counts.offloaded << " except for an offloaded checksum (" << counts.pads << " pads were not zero), "
            << counts.damaged << " damaged or truncated frames were not recomputed\n";
  for (const std::string& where : counts.wrong_checksums)
    // The publisher of this file changed the reject flag of a connection that was accepted.
    EXPECT_EQ(where, "realjimmy__sample-captures__iwarp_connect_C00_M00_reject.pcap frame 6");
  EXPECT_GE(counts.captures, 21u);
  EXPECT_GE(counts.frames, 14000u);
  EXPECT_GE(counts.pdus, 1000u);
  EXPECT_GE(counts.computed, 12000u);
}

}  // namespace
}  // namespace rdmawire::captures
