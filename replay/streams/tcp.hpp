#pragma once
/// TCP with control over segmentation, and with access to the exchanged frames. iWARP test cases use it, so they run
/// unchanged against an endpoint in the same process or, with a user-space TCP, against the peer on a wire.
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

/// The next event on a connection, in stream order.
struct TcpArrival {
  enum class Kind : std::uint8_t {
    bytes,  ///< data of one segment. Reordered and duplicate segments are corrected
    fin,    ///< the peer sends no more data
    reset,  ///< the connection was reset or lost
  };
  Kind kind = Kind::bytes;
  std::int64_t time = 0;  ///< on the host's clock
  std::vector<std::uint8_t> bytes{};
};

struct TcpOptions {
  std::uint32_t mss = 1460;  ///< MSS announced in the local SYN: maximum size of the peer's segments. At least 88
};

/// The local endpoint of a connection. Must not outlive its host. Destruction resets the connection, unless both
/// directions are closed.
class TcpConnection {
 public:
  TcpConnection() = default;
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;
  virtual ~TcpConnection() = default;

  /// Sends the bytes as one segment as soon as the peer's window allows it. More than send_mss() bytes are sent as
  /// several segments, all full except the last. WireError::Kind::down: the connection is over.
  virtual WireResult<void> send(Bytes bytes) = 0;
  /// Sends a FIN after all data. A second call has no effect.
  virtual WireResult<void> close_half() = 0;
  /// Sends bytes after the local FIN, in violation of TCP. WireError::Kind::forbidden: not supported by this
  /// implementation. down: not closed yet, or the connection is over.
  virtual WireResult<void> send_behind_fin(Bytes bytes) {
    static_cast<void>(bytes);
    return tl::unexpected(
        WireError{WireError::Kind::forbidden, 0, "this TCP implementation cannot send data after a FIN"});
  }
  /// Aborts the connection with an RST.
  virtual void reset() = 0;
  /// Returns the next event. nullopt if there is none before `deadline` of the host's clock. A reset is the last event.
  virtual WireResult<std::optional<TcpArrival>> receive(std::int64_t deadline) = 0;

  /// Maximum size of local segments: the MSS in the peer's SYN, or less.
  [[nodiscard]] virtual std::uint32_t send_mss() const = 0;
  [[nodiscard]] virtual const TcpAddress& local() const = 0;
  [[nodiscard]] virtual const TcpAddress& remote() const = 0;
};

/// A frame of a connection, as sent or received by the host.
struct PassedFrame {
  std::int64_t time = 0;  ///< on the host's clock
  bool sent = false;      ///< true: sent by the host
  std::vector<std::uint8_t> frame{};
};

/// A host with one address that can open connections. Must be used by one thread at a time.
class TcpHost {
 public:
  TcpHost() = default;
  TcpHost(const TcpHost&) = delete;
  TcpHost& operator=(const TcpHost&) = delete;
  virtual ~TcpHost() = default;

  /// "in process", or the name of the wire.
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const IpAddress& address() const = 0;

  /// Connects and waits. WireError::Kind::missing: refused, or no response before `deadline`.
  virtual WireResult<std::unique_ptr<TcpConnection>> connect(const TcpAddress& to, const TcpOptions& options,
                                                             std::int64_t deadline) = 0;
  /// Starts to listen on the port. 0: any free port. Returns the port. Accepted connections announce `options.mss`.
  virtual WireResult<std::uint16_t> listen(std::uint16_t port, const TcpOptions& options) = 0;
  virtual void stop_listening(std::uint16_t port) = 0;
  /// Returns the next connection to the port. nullptr if there is none before `deadline`.
  virtual WireResult<std::unique_ptr<TcpConnection>> accept(std::uint16_t port, std::int64_t deadline) = 0;

  /// Nanoseconds, as in Wire.
  [[nodiscard]] virtual std::int64_t now() const = 0;
  /// True if time advances only while a caller waits.
  [[nodiscard]] virtual bool virtual_time() const { return false; }
  /// Waits until the given time, regardless of received data.
  virtual WireResult<void> pass(std::int64_t until) = 0;

  /// Returns the frames since the last call in time order. Includes Ethernet headers, both directions, connection
  /// establishment, acknowledgements and retransmissions.
  virtual std::vector<PassedFrame> take_passed() = 0;
  /// Cancels current and future calls with WireError::Kind::closed. Thread-safe.
  virtual void interrupt() = 0;
};

}  // namespace rdmawire::replay
