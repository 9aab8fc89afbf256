#pragma once
/// For tests only: a script that exercises every fault of the endpoint.

#include <optional>
#include <string>

#include "conformance/device/iwarp/faults.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::endpoint::testing {

/// Receives the events of the TCP traffic in order.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void connection() = 0;  ///< called when a new connection starts
  /// Called for a segment. `dut`: true if the device under test sent it.
  virtual void segment(bool dut, Bytes bytes) = 0;
  virtual void fin(bool dut) = 0;
  virtual void reset(bool dut) = 0;
};

/// Effects of a fault script that a fault can change.
struct Trace {
  Wire* wire = nullptr;
  std::string bytes;   ///< sent bytes, FINs and resets of the device under test
  std::string timing;  ///< times at which the device under test sent them
  std::string verbs;   ///< completions, events, memory
};

/// Run all operations between the device under test and a conforming endpoint, in both roles.
void play_exchanges(std::optional<Fault> fault, Trace& trace);
/// Run the device under test against a tester that sends valid and invalid bytes.
void play_setup(std::optional<Fault> fault, Trace& trace);
void play_errors(std::optional<Fault> fault, Trace& trace);

}  // namespace rdmawire::endpoint::testing
