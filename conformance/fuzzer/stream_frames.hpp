#pragma once
/// Streams as they would look on a wire: frames of Ethernet, IPv4 and TCP for what was said by calls.

#include <array>
#include <cstdint>
#include <vector>

#include "conformance/fuzzer/reference_model.hpp"

namespace rdmawire::fuzzer {

class StreamFrames {
 public:
  /// A connection of TCP in that place: its three first segments. The one before it is over.
  void connect(std::size_t at, bool device_asks, std::size_t step, std::int64_t time, std::vector<Exchanged>& frames);
  /// A segment; of bytes there may be none, with a FIN or a reset.
  void segment(std::size_t at, bool sent, Bytes bytes, bool fin, bool reset, std::size_t step, std::int64_t time,
               std::vector<Exchanged>& frames);

 private:
  struct Stream {
    bool there = false;
    std::uint16_t tester_port = 0, device_port = 0;
    std::uint32_t tester_next = 0, device_next = 0;
  };
  std::array<Stream, 2> streams_;
  std::uint16_t connections_ = 0;
};

}  // namespace rdmawire::fuzzer
