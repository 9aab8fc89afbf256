#pragma once
/// Where frames would go: whether that is a place of one's own, or someone must have allowed it.

#include <string>

#include "replay/wires/spec.hpp"

namespace rdmawire::replay {

/// What a wire leads to.
struct Target {
  std::string name;      ///< what --allow-target takes: "eth0", "mlx5_0"; empty: the wire needs no permission
  std::string about;     ///< for people: "a veth in a network namespace of its own", "may lead anywhere"
  bool missing = false;  ///< there is no such interface: opening the wire tells
  bool safe = false;     ///< nothing that someone else uses: a file, a socket, a virtual interface in another namespace
};

/// Judges a wire before it is opened. Whatever is not known to be safe is not.
Target judge_target(const WireSpec& wire);

}  // namespace rdmawire::replay
