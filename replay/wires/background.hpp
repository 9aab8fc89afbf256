#pragma once
/// A wire that a background thread reads continuously.

#include <cstddef>
#include <memory>

#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct BackgroundOptions {
  std::size_t max_bytes =
      256U << 20;  ///< limit for frames that wait for receive(). Further frames are dropped and counted
};

/// Returns the same wire, read by its own thread, so that the peer never blocks. (qemu keeps a guest's frames and their
/// kernel buffers until they are read. A socket queues ten datagrams by default.) Frames keep their arrival times.
///
/// `wire` must use real time and must allow one thread to send while another receives. All wires except file: do.
/// Frames count as sent when they are passed to `wire`. Frames that `wire` itself dropped are counted when it is
/// closed.
std::unique_ptr<Wire> read_in_background(std::unique_ptr<Wire> wire, const BackgroundOptions& options = {});

}  // namespace rdmawire::replay
