#pragma once
/// Wires held by Python. Any thread may use or close them. After fork() only the parent process may use them.

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "replay/wires/wire.hpp"

namespace rdmawire::python {

/// A received frame with its own bytes.
struct Arrival {
  std::vector<std::uint8_t> bytes;
  std::int64_t time = 0;
  std::uint32_t wire_bytes = 0;
  bool own = false;
};

/// A recorded frame.
struct Recorded {
  std::int64_t time = 0;
  bool sent = false;
  std::vector<std::uint8_t> bytes;
};

/// Selection of the frames that a caller wants to receive.
struct PendingRequest {
  std::optional<std::uint32_t> dest_qp{};  ///< destination QP of the BTH. Frames for other QPs are stored
  bool own = false;                        ///< also receive frames sent by this host
};

/// A wire that one thread at a time uses. No function requires the interpreter's lock. All functions return after a
/// short time, so that the caller can check for signals.
class SharedWire {
 public:
  /// Returns the wire for one call, or nullptr if it is closed. Keeps the device open during the call.
  using Lease = std::function<std::shared_ptr<replay::Wire>()>;
  /// Returns why no more frames can arrive, or nullopt.
  using Lost = std::function<std::optional<std::string>()>;
  explicit SharedWire(std::unique_ptr<replay::Wire> wire);
  SharedWire(Lease lease, Lost lost, std::string name)
      : lease_(std::move(lease)), lost_(std::move(lost)), name_(std::move(name)) {}
  ~SharedWire();
  SharedWire(const SharedWire&) = delete;
  SharedWire& operator=(const SharedWire&) = delete;

  struct Step {
    std::optional<Arrival> arrival{};
    bool over = false;  ///< no frame arrived before the deadline. Virtual time: no frame will arrive
  };
  /// Waits for a requested frame: for a short time, or in virtual time until the deadline.
  replay::WireResult<Step> receive(std::int64_t deadline, const PendingRequest& wanted);
  /// Returns the number of accepted frames, which is smaller if the wire's queue is full.
  replay::WireResult<std::size_t> send(std::span<const replay::Outgoing> frames);
  replay::WireResult<bool> writable(std::int64_t deadline);
  replay::WireResult<bool> flush(std::int64_t deadline);
  replay::WireResult<replay::WireCounters> counters();
  replay::WireResult<replay::WireCapabilities> capabilities();
  replay::WireResult<std::int64_t> now();
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns a descriptor for poll(2), or -1.
  replay::WireResult<int> descriptor();
  /// Returns why the device of this wire was lost, or nullopt.
  [[nodiscard]] std::optional<std::string> lost() const { return lost_ ? lost_() : std::nullopt; }
  void close();
  [[nodiscard]] bool closed() const;
  /// A forked process must not use the wires of its parent.
  [[nodiscard]] bool owned_by_parent_process() const { return ::getpid() != process_; }

  /// Records sent and received frames and keeps the newest `most`. 0: stops recording and discards the frames.
  void record(std::size_t most);
  /// Records a frame that was transferred by other means.
  void keep(std::int64_t time, bool sent, Bytes bytes);
  [[nodiscard]] std::vector<Recorded> recorded() const;
  /// Locks the wire: other users wait.
  [[nodiscard]] std::unique_lock<std::mutex> exclusive() { return std::unique_lock(mutex_); }

 private:
  static constexpr std::size_t most_kept = 4096;  ///< frames for other QPs. The oldest are discarded
  [[nodiscard]] std::shared_ptr<replay::Wire> lease() const;
  [[nodiscard]] replay::WireError closed_error() const;
  std::optional<Arrival> from_kept(const PendingRequest& wanted);
  /// Returns the frame if it is wanted. Stores frames for other QPs.
  std::optional<Arrival> accept(const replay::Received& received, const PendingRequest& wanted);
  void note(std::int64_t time, bool sent, Bytes bytes);

  const pid_t process_ = ::getpid();
  std::shared_ptr<replay::Wire> own_;  ///< null for the wire of a device
  Lease lease_;
  Lost lost_;
  mutable std::mutex mutex_;
  mutable std::mutex closing_;  ///< protects own_
  std::deque<Arrival> kept_;
  std::deque<Recorded> recorded_;
  std::size_t most_recorded_ = 0;
  const std::string name_;
};

}  // namespace rdmawire::python
