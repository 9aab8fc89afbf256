#pragma once
/// Where controllers come in: TCP, unix stream sockets, serial channels.

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "conformance/agent/conversation.hpp"

namespace rdmawire::agent {

class Server {
 public:
  /// Bounds that keep controllers from harming the agent, and each other.
  struct Bounds {
    std::size_t most_connections = 64;
    /// Of them, those that have not authenticated themselves, when there is a secret.
    std::size_t most_strangers = 16;
    Loop::Time stranger_time = 30'000 * Loop::millisecond;  ///< after it they are closed
    /// Bytes of answers that were not read: from the first number no further line is taken, beyond the second the
    /// connection is closed.
    std::size_t enough_unread = 1U << 20U, most_unread = 32U << 20U;
    Loop::Time unread_time = 30'000 * Loop::millisecond;  ///< without any byte read, the connection is closed
    Loop::Time serial_pause = 50 * Loop::millisecond;     ///< between two looks at a serial channel that nobody opened
  };

  Server(Loop& loop, const Settings& settings) : Server(loop, settings, Bounds()) {}
  Server(Loop& loop, const Settings& settings, Bounds bounds);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Closes everything; sessions release what they have.
  ~Server();

  /// Opens an endpoint: "tcp:HOST:PORT" (port 0: any; a host of IPv6 in brackets), "unix:PATH", "serial:PATH". What it
  /// is in truth, with the port that was taken. EINVAL: not understood; EACCES: beyond loopback without a secret.
  Result<std::vector<std::string>> listen(const std::string& endpoint);

  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

 private:
  class Connection;
  class Serial;
  struct Listener {
    int descriptor;
    std::string path;  ///< of a unix socket
    Loop::Watch watch;
  };

  Result<std::vector<std::string>> listen_tcp(const std::string& endpoint, const std::string& host,
                                              const std::string& port);
  Result<std::vector<std::string>> listen_unix(const std::string& path);
  Result<std::vector<std::string>> open_serial(const std::string& path);
  void listen_at(int descriptor, std::string path);
  void accept_at(int descriptor);
  void remove(Connection* connection);

  Loop* loop_;
  const Settings* settings_;
  Bounds bounds_;
  std::list<Listener> listeners_;
  std::list<std::unique_ptr<Connection>> connections_;
  std::list<std::unique_ptr<Serial>> serials_;
};

}  // namespace rdmawire::agent
