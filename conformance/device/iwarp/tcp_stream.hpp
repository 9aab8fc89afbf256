#pragma once
/// TCP for endpoints: non-blocking kernel sockets, and a driver that moves data between socket and endpoint. The kernel
/// may send the data in other segments than the endpoint created.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conformance/device/iwarp/endpoint.hpp"
#include "replay/wires/descriptor.hpp"

namespace rdmawire::endpoint {

class TcpStream {
 public:
  /// Connect, and wait at most `timeout`. `address`: IPv4 or IPv6 address as text. Errors: system error numbers.
  static device::Result<TcpStream> connect(const std::string& address, std::uint16_t port,
                                           std::chrono::milliseconds timeout = std::chrono::seconds(10));

  struct Arrival {
    std::vector<std::uint8_t> bytes;
    bool closed = false;  ///< true: the peer sent a FIN after the bytes
    bool lost = false;    ///< true: the connection was reset or timed out
  };
  /// Return the received data, which may be empty.
  Arrival receive();
  /// Return the number of accepted bytes. If not all were accepted, wait until the socket is writable and send the
  /// rest. nullopt: the connection is lost.
  std::optional<std::size_t> send(Bytes bytes);
  /// Close the sending side: send a FIN after the data.
  void close_half();
  /// Send a reset.
  void reset();
  /// Return the current segment size in bytes, without TCP options.
  [[nodiscard]] std::uint32_t emss() const;
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  friend class TcpListener;
  explicit TcpStream(replay::Descriptor socket);
  replay::Descriptor socket_;
};

class TcpListener {
 public:
  /// `port` 0: any free port.
  static device::Result<TcpListener> listen(const std::string& address, std::uint16_t port = 0);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Return the next connection, or ETIMEDOUT after `timeout`.
  device::Result<TcpStream> accept(std::chrono::milliseconds timeout);

 private:
  TcpListener(replay::Descriptor socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}
  replay::Descriptor socket_;
  std::uint16_t port_;
};

/// Moves data between an endpoint and its stream. Both must outlive the driver.
class TcpDriver {
 public:
  TcpDriver(Endpoint& endpoint, TcpStream& stream) : endpoint_(endpoint), stream_(stream) {}

  /// Move data until `done`, which is called after each change, returns true. Returns false after `timeout`, or when
  /// both directions are closed.
  bool run(const std::function<bool()>& done, std::chrono::milliseconds timeout);
  /// Run one step, waiting at most `wait`. Returns true if data was moved.
  bool step(std::chrono::milliseconds wait);
  [[nodiscard]] bool over() const { return received_end_ && sent_end_; }

 private:
  bool write();
  bool read();

  Endpoint& endpoint_;
  TcpStream& stream_;
  std::vector<std::uint8_t> unsent_;
  bool fin_waits_ = false, sent_end_ = false, received_end_ = false;
};

/// Return the time of a monotonic clock in nanoseconds.
std::int64_t steady_now();

}  // namespace rdmawire::endpoint
