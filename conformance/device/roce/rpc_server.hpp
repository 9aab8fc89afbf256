#pragma once
/// In-process server of the agent protocol over a socket pair.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "replay/peer/peer.hpp"

namespace rdmawire::device {

class RpcServer {
 public:
  /// Processes one line and returns the response lines.
  using LineHandler = std::function<std::vector<std::string>(std::string_view line)>;

  /// Start the server. Its thread calls `handler` with the mutex held. `mutex` and the objects that `handler` uses must
  /// outlive the server.
  static peer::PeerResult<std::unique_ptr<RpcServer>> start(std::mutex& mutex, LineHandler handler);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  peer::Peer& peer() { return *peer_; }
  /// Send these lines. The caller must hold the mutex, so that lines are in the order of the events.
  void send_lines(const std::vector<std::string>& lines) const;

 private:
  RpcServer(std::mutex& mutex, LineHandler handler, int descriptor);
  void serve();

  std::mutex& mutex_;
  LineHandler handler_;
  int descriptor_;
  std::unique_ptr<peer::Peer> peer_;
  std::thread thread_;
};

}  // namespace rdmawire::device
