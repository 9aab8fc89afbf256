#pragma once
/// TCP as a tester wants it: each segment is its own choice, and what passed is there to be shown as frames. Cases of
/// iWARP speak through this, so that what they do runs unchanged against an endpoint in the same process or, by a TCP
/// in user space, against what is at the other end of a wire.
///
///     auto connection = host.connect({device, 7471}, {.mss = 1460}, host.now() + 1'000'000'000);
///     (*connection)->send(first_half);   // a segment
///     (*connection)->send(second_half);  // another one
///     auto arrival = (*connection)->receive(host.now() + 50'000'000);

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "replay/host/host.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay {

struct TcpAddress {
  IpAddress address{};
  std::uint16_t port = 0;

  friend auto operator<=>(const TcpAddress&, const TcpAddress&) = default;
};

/// What came next on a connection, in the order of the stream.
struct TcpArrival {
  enum class Kind : std::uint8_t {
    bytes,  ///< as a segment brought them; what TCP had to wait for, or was told twice, is put right
    fin,    ///< the other end sends no more
    reset,  ///< the connection is over: reset, or lost
  };
  Kind kind = Kind::bytes;
  std::int64_t time = 0;  ///< of the host's clock
  std::vector<std::uint8_t> bytes{};
};

struct TcpOptions {
  std::uint32_t mss = 1460;  ///< that our SYN announces: bytes of the other end's segments; at least 88
};

/// Our end of a connection. Not after its host has gone. Destroyed, it is reset unless both halves were closed.
class TcpConnection {
 public:
  TcpConnection() = default;
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;
  virtual ~TcpConnection() = default;

  /// Sends these bytes as one segment, as soon as the other end's window takes them; more than send_mss() of them as
  /// several, each but the last full. WireError::Kind::down: the connection is over.
  virtual WireResult<void> send(Bytes bytes) = 0;
  /// Our FIN, behind what was sent. A second one does nothing.
  virtual WireResult<void> close_half() = 0;
  /// Bytes behind our FIN, which no TCP sends: to see what the other end makes of them. WireError::Kind::forbidden:
  /// this TCP cannot; down: nothing was closed yet, or the connection is over.
  virtual WireResult<void> send_behind_fin(Bytes bytes) {
    static_cast<void>(bytes);
    return tl::unexpected(WireError{WireError::Kind::forbidden, 0, "this TCP sends nothing behind its FIN"});
  }
  /// Aborts: an RST leaves, and nothing arrives any more.
  virtual void reset() = 0;
  /// What came next; nothing when nothing did until `deadline` of the host's clock. Behind a reset nothing comes.
  virtual WireResult<std::optional<TcpArrival>> receive(std::int64_t deadline) = 0;

  /// Bytes that one of our segments may have: what the other end's SYN announced, or less.
  [[nodiscard]] virtual std::uint32_t send_mss() const = 0;
  [[nodiscard]] virtual const TcpAddress& local() const = 0;
  [[nodiscard]] virtual const TcpAddress& remote() const = 0;
};

/// A frame of a connection as it passed the host.
struct PassedFrame {
  std::int64_t time = 0;  ///< of the host's clock
  bool sent = false;      ///< by us
  std::vector<std::uint8_t> frame{};
};

/// A host with one address from which connections are made. Used by one thread at a time.
class TcpHost {
 public:
  TcpHost() = default;
  TcpHost(const TcpHost&) = delete;
  TcpHost& operator=(const TcpHost&) = delete;
  virtual ~TcpHost() = default;

  /// "in process", or the wire's name
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const IpAddress& address() const = 0;

  /// Waits for the connection. WireError::Kind::missing: refused, or nobody answered by `deadline`.
  virtual WireResult<std::unique_ptr<TcpConnection>> connect(const TcpAddress& to, const TcpOptions& options,
                                                             std::int64_t deadline) = 0;
  /// Lets others connect to that port from now on; 0: any that is free. Gives the port. Their connections announce
  /// `options.mss`, too.
  virtual WireResult<std::uint16_t> listen(std::uint16_t port, const TcpOptions& options) = 0;
  virtual void stop_listening(std::uint16_t port) = 0;
  /// The next connection that somebody made to that port; nothing when none was made until `deadline`.
  virtual WireResult<std::unique_ptr<TcpConnection>> accept(std::uint16_t port, std::int64_t deadline) = 0;

  /// Nanoseconds, as Wire has them.
  [[nodiscard]] virtual std::int64_t now() const = 0;
  /// Nobody waits: time goes on only while something here waits for it.
  [[nodiscard]] virtual bool virtual_time() const { return false; }
  /// Lets time go on until then, whatever arrives.
  virtual WireResult<void> pass(std::int64_t until) = 0;

  /// What passed since this was asked last, in the order of its times: connections' frames from Ethernet on, both ways,
  /// set-up, acknowledgements and what was sent again with them.
  virtual std::vector<PassedFrame> take_passed() = 0;
  /// Whatever is asked fails with WireError::Kind::closed from now on, what waits at once. From any thread.
  virtual void interrupt() = 0;
};

}  // namespace rdmawire::replay
