#pragma once
/// For tests only: dissects captures.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "captures/io/reader.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/testing.hpp"
#include "source_directory.hpp"

namespace rdmawire::tracking::testing {

/// Returns the path of a sample capture in the repository.
inline std::string sample(const std::string& name) { return RDMAWIRE_SOURCE_DIR "/captures/samples/" + name; }

/// Dissects the capture and calls `see(packet)` for each packet in order. Returns the number of packets.
template <class See>
std::uint64_t dissect_capture(const std::string& path, See see) {
  auto reader = captures::Reader::open(path);
  if (!reader) {
    ADD_FAILURE() << path << " cannot be opened";
    return 0;
  }
  Dissector dissector;
  Packet packet;
  captures::Record record;
  while (reader->next(record) == captures::Next::record) {
    ++packet.number;
    packet.time_ns = record.time;
    packet.link = record.link;
    dissector.dissect(packet, record.bytes, record.wire_length);
    see(packet);
  }
  return packet.number;
}

}  // namespace rdmawire::tracking::testing
