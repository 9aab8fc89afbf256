#pragma once
/// Endpoints for controllers: TCP, Unix stream sockets, serial channels.

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "conformance/agent/conversation.hpp"

namespace rdmawire::agent {

class Server {
 public:
  /// Limits that protect the agent from controllers, and controllers from each other.
  struct Bounds {
    std::size_t most_connections = 64;
    /// Limit of unauthenticated connections, if there is a secret.
    std::size_t most_strangers = 16;
    Loop::Time stranger_time = 30'000 * Loop::millisecond;  ///< after this time unauthenticated connections are closed
    /// Unread response bytes: at the first limit, no further lines are processed; at the second one, the connection is
    /// closed.
    std::size_t enough_unread = 1U << 20U, most_unread = 32U << 20U;
    Loop::Time unread_time =
        30'000 * Loop::millisecond;  ///< after this time without any byte read, the connection is closed
    Loop::Time serial_pause = 50 * Loop::millisecond;  ///< interval of checks of a serial channel without controller
  };

  Server(Loop& loop, const Settings& settings) : Server(loop, settings, Bounds()) {}
  Server(Loop& loop, const Settings& settings, Bounds bounds);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Closes all connections. Sessions release their objects.
  ~Server();

  /// Opens an endpoint: "tcp:HOST:PORT" (port 0: any port; IPv6 addresses in brackets), "unix:PATH", "serial:PATH".
  /// Returns the actual endpoints with their ports. EINVAL: malformed. EACCES: not loopback and no secret.
  Result<std::vector<std::string>> listen(const std::string& endpoint);

  [[nodiscard]] std::size_t connections() const { return connections_.size(); }

 private:
  class Connection;
  class Serial;
  struct Listener {
    int descriptor;
    std::string path;  ///< path of a Unix socket
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
