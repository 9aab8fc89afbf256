#pragma once
/// Classifies the destination of a wire: private, or requiring permission.

#include <string>

#include "replay/wires/spec.hpp"

namespace rdmawire::replay {

/// The destination of a wire.
struct Target {
  std::string name;      ///< argument of --allow-target: "eth0", "mlx5_0". Empty: no permission required
  std::string about;     ///< description: "a veth in a private network namespace", "may lead anywhere"
  bool missing = false;  ///< the interface does not exist. Opening the wire reports it
  bool safe = false;     ///< not shared with others: a file, a socket, a virtual interface in another namespace
};

/// Classifies a wire before it is opened. Unknown targets are unsafe.
Target judge_target(const WireSpec& wire);

}  // namespace rdmawire::replay
