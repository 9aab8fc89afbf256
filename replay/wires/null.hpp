#pragma once
/// A wire that discards sent frames at their times and never receives. Used to measure the cost of scheduling and frame
/// preparation.

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct NullWireOptions {
  LinkType link = LinkType::ethernet;
  std::string name = "null";
  /// Accept the frame lengths of an interface with this MTU. 0: all lengths.
  std::uint32_t mtu = 0;
};

std::unique_ptr<Wire> make_null_wire(const NullWireOptions& options = {});
WireResult<std::unique_ptr<Wire>> open_null_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
