#pragma once
/// The interface for sending and receiving timed frames. Replay, certification, lab and fuzzer use it, so they run
/// unchanged against a simulated host, a virtual machine, a network interface or a device under test.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/link_type.hpp"

namespace rdmawire::replay {

/// Error of a wire.
struct WireError {
  enum class Kind : std::uint8_t {
    specification,  ///< malformed wire name
    missing,        ///< the interface, path or device does not exist, or has no peer
    forbidden,      ///< a privilege is missing. The message names it
    unsupported,    ///< not supported by the wire or by this host
    frame,          ///< invalid frame length
    down,           ///< no carrier, or the peer is gone
    full,           ///< a queue stayed full. The remaining frames were not sent
    closed,         ///< closed by the caller
    system,         ///< other error of the operating system
  };
  Kind kind = Kind::system;
  int number = 0;       ///< errno. 0: none
  std::string message;  ///< one sentence: operation, object, cause and hint
};

template <class T>
using WireResult = tl::expected<T, WireError>;

/// Capabilities of a wire.
struct WireCapabilities {
  LinkType link = LinkType::ethernet;
  std::uint32_t max_bytes = 0;  ///< maximum frame length, with link header, without frame check sequence
  std::uint32_t min_bytes = 0;  ///< minimum frame length. 14 on Ethernet
  std::uint32_t batch = 1;      ///< preferred number of frames per send() call
  bool sends = true;
  bool receives = true;
  bool sees_own = false;        ///< receive() also returns frames sent by this host
  bool hardware_times = false;  ///< receive timestamps are from the device's clock
  bool paces = false;           ///< the wire holds frames until their times
  bool virtual_time = false;    ///< now() advances only in receive(). Calls never block, and runs are reproducible
  std::uint64_t bits_per_second = 0;  ///< line rate. 0: unknown
  std::string how;                    ///< selected mode, for display, for example "copy mode, queue 0"
};

/// A frame to send.
struct Outgoing {
  Bytes frame;
  std::int64_t time = 0;  ///< earliest time on the wire's clock. A past time (0) sends immediately
};

/// A received frame.
struct Received {
  Bytes frame;                   ///< valid until the next receive() or close()
  std::int64_t time = 0;         ///< on the wire's clock
  std::uint32_t wire_bytes = 0;  ///< original length. Larger than frame.size() if truncated
  bool own = false;              ///< sent by this host
};

/// Counters since the wire was opened.
struct WireCounters {
  /// Frames that left. Device wires count completed frames, which may be fewer than send() accepted until flush().
  std::uint64_t sent = 0, sent_bytes = 0;
  std::uint64_t received = 0, received_bytes = 0;
  std::uint64_t dropped = 0;  ///< received frames that were lost because receive() was called too late
};

/// One end of a medium that carries frames. Must be used by one thread at a time.
///
/// Times are nanoseconds since 1970 on the wire's own clock, which starts at the system time and never jumps. A
/// virtual clock starts at 0, that of a capture that is read at its first frame.
class Wire {
 public:
  Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  virtual ~Wire() = default;

  /// Full name, for example "unix:/run/lab/eth0".
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const WireCapabilities& capabilities() const = 0;

  /// Sends frames in order, each at its time, and returns the number of accepted frames. Fewer than frames.size() means
  /// that the queue is full. The caller may retry the rest. An error refers to the first frame, which was not sent.
  virtual WireResult<std::size_t> send(std::span<const Outgoing> frames) = 0;
  /// Sends one frame immediately. Returns WireError::Kind::full if it was not accepted.
  WireResult<void> send(Bytes frame);

  /// Returns the next frame in arrival order. nullopt if none arrives before `deadline`. A past deadline (0) does not
  /// wait. `forever` waits without limit.
  virtual WireResult<std::optional<Received>> receive(std::int64_t deadline) = 0;
  static constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] virtual std::int64_t now() const;

  /// Waits until send() would accept a frame. Returns false if `deadline` passes first. Returns an error if sending is
  /// impossible.
  virtual WireResult<bool> writable(std::int64_t deadline);

  /// Waits until all accepted frames have left and are included in counters(). Returns false if `deadline` passes
  /// first. Returns an error if a frame cannot leave.
  virtual WireResult<bool> flush(std::int64_t deadline);

  /// Descriptor for poll(2): after receive(0) returned nullopt, it becomes readable when receive() has a result. -1:
  /// not available.
  [[nodiscard]] virtual int descriptor() const { return -1; }
  [[nodiscard]] virtual WireCounters counters() const = 0;

  /// Sends waiting frames and releases all resources. Later calls return WireError::Kind::closed. A second call has no
  /// effect.
  virtual void close() = 0;
};

/// Opens a wire by name:
///
///     null                   discards frames, receives none
///     file:PATH              a capture file, written or read, in virtual time
///     unix:PATH              datagrams as in qemu's -netdev dgram: the peer's socket is PATH, the local socket
///                            PATH.peer (or OWN with unix:PATH,local=OWN)
///     packet:INTERFACE       a local network interface (AF_PACKET). Requires CAP_NET_RAW
///     xdp:INTERFACE          a queue of a network interface, bypassing the kernel's stack (AF_XDP). Requires
///                            CAP_NET_RAW, and for receiving CAP_BPF and CAP_NET_ADMIN
///     verbs:DEVICE[/PORT]    a port of an RDMA device, through a raw-packet QP. Requires CAP_NET_RAW
///
/// docs/reference/wires.md lists all options. An error lists the valid kinds.
WireResult<std::unique_ptr<Wire>> open_wire(const std::string& name);

}  // namespace rdmawire::replay
