#pragma once
/// Creates Ethernet, IPv4 and TCP frames for streams whose TCP is replaced by calls.

#include <array>
#include <cstdint>
#include <vector>

#include "conformance/fuzzer/reference_model.hpp"

namespace rdmawire::fuzzer {

class StreamFrames {
 public:
  /// Append the three-way handshake of a new TCP connection in the slot `at`. It replaces the previous connection.
  void connect(std::size_t at, bool device_initiates, std::size_t step, std::int64_t time,
               std::vector<Exchanged>& frames);
  /// Append a segment. `bytes` may be empty with a FIN or a reset.
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
