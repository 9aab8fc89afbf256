#pragma once
/// The seam between us and the world: frames leave and arrive, each with a time. Replay, the active tester, the lab and
/// the fuzzer speak through this, so that what they do runs unchanged against a program in the same process, a virtual
/// machine, a network interface, or a device on a bench.

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

/// What went wrong on a wire.
struct WireError {
  enum class Kind : std::uint8_t {
    specification,  ///< the text that names the wire cannot be understood
    missing,        ///< no such interface, path or device, or nobody at its other end
    forbidden,      ///< a right is missing; the message names it
    unsupported,    ///< the wire, or this machine, cannot do this
    frame,          ///< this frame cannot be sent here: too long, too short
    down,           ///< no carrier, or the other end went away
    full,           ///< a queue stayed full; the rest was not sent
    closed,         ///< by us
    system,         ///< anything else that the operating system said
  };
  Kind kind = Kind::system;
  int number = 0;       ///< errno; 0: none
  std::string message;  ///< what was being done, to what, what was found, what to do: one sentence
};

template <class T>
using WireResult = tl::expected<T, WireError>;

/// What a wire is able to do.
struct WireCapabilities {
  LinkType link = LinkType::ethernet;
  std::uint32_t max_bytes = 0;  ///< of a frame, its link header included, a frame check sequence not
  std::uint32_t min_bytes = 0;  ///< shorter ones are refused; 14 on Ethernet
  std::uint32_t batch = 1;      ///< frames that one call of send() hands over best
  bool sends = true;
  bool receives = true;
  bool sees_own = false;        ///< receive() gives what was sent here, too
  bool hardware_times = false;  ///< times of received frames are the device's, of its clock's resolution
  bool paces = false;           ///< the wire itself holds a frame back until its time
  bool virtual_time = false;    ///< now() advances only in receive(): nobody waits, and everything can be repeated
  std::uint64_t bits_per_second = 0;  ///< of the line; 0: not known
  std::string how;  ///< for people: what it settled for where there was a choice, as "copy mode, queue 0"
};

/// A frame that is to leave.
struct Outgoing {
  Bytes frame;
  std::int64_t time = 0;  ///< not before this time of the wire's clock; in the past (0): now
};

/// A frame that arrived.
struct Received {
  Bytes frame;                   ///< until the next call of receive() or close()
  std::int64_t time = 0;         ///< of the wire's clock
  std::uint32_t wire_bytes = 0;  ///< as long it was; more than frame.size() when it had to be cut
  bool own = false;              ///< it was sent by this machine
};

/// What a wire counted since it was opened.
struct WireCounters {
  /// What left: a device's wire counts what the device completed, which may be less than send() handed over until
  /// flush().
  std::uint64_t sent = 0, sent_bytes = 0;
  std::uint64_t received = 0, received_bytes = 0;
  std::uint64_t dropped = 0;  ///< arrived, and were lost before receive() because it came too late
};

/// One end of something that carries frames. Used by one thread at a time.
///
/// Times are nanoseconds since 1970 on the wire's own clock, which starts with the machine's and then never jumps; a
/// wire with virtual time starts at 0.
class Wire {
 public:
  Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  virtual ~Wire() = default;

  /// How it was named: "unix:/run/lab/eth0".
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const WireCapabilities& capabilities() const = 0;

  /// Hands over frames in their order, each at its time, and gives how many. Fewer than there were: the queue was full,
  /// and the first of the rest can be tried again. An error means that the first frame was not sent, and why.
  virtual WireResult<std::size_t> send(std::span<const Outgoing> frames) = 0;
  /// One frame, now. WireError::Kind::full when it was not taken.
  WireResult<void> send(Bytes frame);

  /// The next frame, in the order of arrival; nothing when none came until `deadline`. A deadline in the past (0) asks
  /// only for what is there; `forever` waits.
  virtual WireResult<std::optional<Received>> receive(std::int64_t deadline) = 0;
  static constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] virtual std::int64_t now() const;

  /// Waits until send() would take a frame, or nothing speaks against it any more; false when it would not by
  /// `deadline`. An error says why it will not.
  virtual WireResult<bool> writable(std::int64_t deadline);

  /// Waits until what was handed over has left, which counters() then tells; false when it has not by `deadline`. An
  /// error says why what is left will not, or did not.
  virtual WireResult<bool> flush(std::int64_t deadline);

  /// For poll(2): once receive(0) has given nothing, it is readable as soon as receive() would give something. -1 when
  /// there is no such thing.
  [[nodiscard]] virtual int descriptor() const { return -1; }
  [[nodiscard]] virtual WireCounters counters() const = 0;

  /// Sends what waits, lets go of everything. Later calls give WireError::Kind::closed. A second call does nothing.
  virtual void close() = 0;
};

/// Opens a wire by name:
///
///     null                   takes everything, gives nothing
///     file:PATH              a capture file, written or read, in virtual time
///     unix:PATH              datagrams, as qemu's -netdev dgram speaks: the other end listens at PATH, and we at
///                            PATH.peer (unix:PATH,local=OWN says another one)
///     packet:INTERFACE       a network interface of this machine (AF_PACKET); needs CAP_NET_RAW
///     xdp:INTERFACE          a network interface's queue, past the kernel's stack (AF_XDP); needs CAP_NET_RAW and
///                            CAP_BPF
///     verbs:DEVICE[/PORT]    an RDMA device's port, by a raw-packet queue pair; needs CAP_NET_RAW
///
/// docs/wires.md has all options. An error lists what there is.
WireResult<std::unique_ptr<Wire>> open_wire(const std::string& name);

}  // namespace rdmawire::replay
