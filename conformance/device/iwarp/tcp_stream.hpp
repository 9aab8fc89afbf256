#pragma once
/// TCP for endpoints: non-blocking sockets of the kernel, and what moves bytes and time between them and an endpoint.
/// A kernel's socket does not promise that segments end where they were asked to.

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
  /// Waits for the connection for at most `patience`. `address`: IPv4 or IPv6 in text. Errors: the system's.
  static device::Result<TcpStream> connect(const std::string& address, std::uint16_t port,
                                           std::chrono::milliseconds patience = std::chrono::seconds(10));

  struct Arrival {
    std::vector<std::uint8_t> bytes;
    bool closed = false;  ///< the other end's FIN, behind the bytes
    bool lost = false;    ///< reset, or timed out
  };
  /// What has arrived; nothing of it: nothing has.
  Arrival receive();
  /// The bytes that the socket took; less than all: it is full, wait until it is writable. Nothing: the connection is
  /// lost.
  std::optional<std::size_t> send(Bytes bytes);
  /// Sends a FIN behind what was sent.
  void close_half();
  /// Sends a reset.
  void reset();
  /// What the connection's segments hold now: its MSS without options.
  [[nodiscard]] std::uint32_t emss() const;
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  friend class TcpListener;
  explicit TcpStream(replay::Descriptor socket);
  replay::Descriptor socket_;
};

class TcpListener {
 public:
  /// `port` 0: any that is free.
  static device::Result<TcpListener> listen(const std::string& address, std::uint16_t port = 0);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The next connection; ETIMEDOUT when none came within `patience`.
  device::Result<TcpStream> accept(std::chrono::milliseconds patience);

 private:
  TcpListener(replay::Descriptor socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}
  replay::Descriptor socket_;
  std::uint16_t port_;
};

/// An endpoint on its stream. Both must outlive it.
class TcpDriver {
 public:
  TcpDriver(Endpoint& endpoint, TcpStream& stream) : endpoint_(endpoint), stream_(stream) {}

  /// Moves bytes until `done` says so, checked whenever something has moved; false: `patience` ran out first, or
  /// the connection is over on both sides.
  bool run(const std::function<bool()>& done, std::chrono::milliseconds patience);
  /// Once, waiting for at most `wait`; true: something has moved.
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

/// Nanoseconds of a clock that only goes on.
std::int64_t steady_now();

}  // namespace rdmawire::endpoint
