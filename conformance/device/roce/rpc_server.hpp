#pragma once
/// The commands of an agent's protocol served to a client in the same process, over a pair of sockets.

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
  /// One line; the lines that answer it.
  using Ask = std::function<std::vector<std::string>(std::string_view line)>;

  /// Both must outlive it. `ask` is called with the mutex held, by a thread of the server's.
  static peer::PeerResult<std::unique_ptr<RpcServer>> start(std::mutex& mutex, Ask ask);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  peer::Peer& peer() { return *peer_; }
  /// Says these lines, with the mutex held: they stand in the order of what happened.
  void tell(const std::vector<std::string>& lines) const;

 private:
  RpcServer(std::mutex& mutex, Ask ask, int descriptor);
  void serve();

  std::mutex& mutex_;
  Ask ask_;
  int descriptor_;
  std::unique_ptr<peer::Peer> peer_;
  std::thread thread_;
};

}  // namespace rdmawire::device
