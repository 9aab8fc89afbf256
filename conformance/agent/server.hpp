#pragma once
/// Endpoints for controllers: TCP, Unix stream sockets, serial channels.

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conformance/agent/admission.hpp"
#include "conformance/agent/conversation.hpp"

namespace rdmawire::agent {

class Server {
 public:
  /// Limits that protect the agent from controllers, and controllers from each other.
  struct Bounds {
    std::size_t most_connections = 64;
    /// Limit of connections before authentication, or without TLS before the session. Beyond it, a new one replaces
    /// the oldest one of the address with the most such connections.
    std::size_t most_strangers = 16;
    Loop::Time stranger_time = 30'000 * Loop::millisecond;  ///< time limit from connect to authentication
    std::size_t most_handshake = 16U << 10U;                ///< limit of bytes received before authentication
    Admission::Bounds admission = {};
    /// Limits of response bytes that the controller has not read. The agent stops processing its lines at the first
    /// limit, and closes the connection at the second one.
    std::size_t enough_unread = 1U << 20U, most_unread = 32U << 20U;
    Loop::Time unread_time =
        30'000 * Loop::millisecond;  ///< the connection is closed if the controller reads nothing for this time
    Loop::Time serial_pause = 50 * Loop::millisecond;  ///< interval of checks of a serial channel without controller
  };

  Server(Loop& loop, const Settings& settings) : Server(loop, settings, Bounds()) {}
  Server(Loop& loop, const Settings& settings, Bounds bounds);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Closes all connections. Sessions release their objects.
  ~Server();

  /// Opens an endpoint: "tcp:HOST:PORT" (port 0: any port, IPv6 addresses in brackets), "unix:PATH", "serial:PATH".
  /// Returns the actual endpoints with their ports. EINVAL: malformed. EACCES: not loopback and no credentials.
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
  void accept_at(int descriptor, bool local);
  /// Logs a rejected connection. Prints at most one line per second, which contains the number of omitted ones.
  void log(const std::string& address, std::string_view why);
  void remove(Connection* connection);
  /// Closes an unauthenticated connection, so that another one can be accepted. Returns false if there is none.
  bool drop_stranger();
  /// Starts the held connections whose address may authenticate now, newest first.
  void admit();

  Loop* loop_;
  const Settings* settings_;
  Bounds bounds_;
  std::list<Listener> listeners_;
  std::list<std::unique_ptr<Connection>> connections_;  ///< the oldest first
  Admission admission_;
  Loop::Watch admit_;
  Loop::Time next_log_ = 0;
  std::size_t omitted_logs_ = 0;
  std::list<std::unique_ptr<Serial>> serials_;
};

}  // namespace rdmawire::agent
