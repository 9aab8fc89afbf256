#pragma once
/// For tests only: everything that shows a fault of the endpoint, played against it.

#include <optional>
#include <string>

#include "conformance/device/iwarp/faults.hpp"
#include "dissectors/protocol/bits.hpp"

namespace rdmawire::endpoint::testing {

/// Hears what goes over TCP, in its order.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void connection() = 0;  ///< what comes is of another one
  /// A segment; `dut`: of the endpoint that may have the fault.
  virtual void segment(bool dut, Bytes bytes) = 0;
  virtual void fin(bool dut) = 0;
  virtual void reset(bool dut) = 0;
};

/// What a script saw.
struct Trace {
  Wire* wire = nullptr;
  std::string bytes;   ///< that the endpoint sent, with its FINs and resets
  std::string timing;  ///< when
  std::string verbs;   ///< completions, events, memory
};

/// An endpoint with the fault among endpoints that have none: every operation, in both roles.
void play_exchanges(std::optional<Fault> fault, Trace& trace);
/// An endpoint with the fault and a peer whose bytes are made by hand, wrong ones among them.
void play_setup(std::optional<Fault> fault, Trace& trace);
void play_wrongs(std::optional<Fault> fault, Trace& trace);

}  // namespace rdmawire::endpoint::testing
