#pragma once
/// A wire that leads nowhere: every frame is taken at its time, none ever arrives. What a schedule and everything
/// before the wire costs shows on it.

#include "replay/wires/spec.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct NullWireOptions {
  LinkType link = LinkType::ethernet;
  std::string name = "null";
};

std::unique_ptr<Wire> make_null_wire(const NullWireOptions& options = {});
WireResult<std::unique_ptr<Wire>> open_null_wire(const WireSpec& spec);

}  // namespace rdmawire::replay
