#pragma once
/// Wires that Python holds: used by any of its threads, closed at any time, and never after a fork.

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

/// A frame that arrived, with bytes of its own.
struct Arrival {
  std::vector<std::uint8_t> bytes;
  std::int64_t time = 0;
  std::uint32_t wire_bytes = 0;
  bool own = false;
};

/// What went over a wire while it was recorded.
struct Recorded {
  std::int64_t time = 0;
  bool sent = false;
  std::vector<std::uint8_t> bytes;
};

/// Which of the frames that arrive somebody wants.
struct PendingRequest {
  std::optional<std::uint32_t> dest_qp{};  ///< of the BTH; what is for others is kept for them
  bool own = false;                        ///< what this machine itself sent, too
};

/// One wire, used by one thread at a time whoever calls: nothing here needs the interpreter's lock. No call but flush()
/// waits longer than a moment, so that the caller can look for signals in between.
class SharedWire {
 public:
  /// The wire for the time of a call; nullptr: it is closed. A wire of a device keeps it from going meanwhile.
  using Lease = std::function<std::shared_ptr<replay::Wire>()>;
  /// `lost`: why nothing will ever come over it again; nothing while something may.
  using Lost = std::function<std::optional<std::string>()>;
  explicit SharedWire(std::unique_ptr<replay::Wire> wire);
  SharedWire(Lease lease, Lost lost, std::string name)
      : lease_(std::move(lease)), lost_(std::move(lost)), name_(std::move(name)) {}
  ~SharedWire();
  SharedWire(const SharedWire&) = delete;
  SharedWire& operator=(const SharedWire&) = delete;

  struct Step {
    std::optional<Arrival> arrival{};
    bool over = false;  ///< nothing came until the deadline, or in virtual time nothing ever will
  };
  /// Waits a moment at most, but in virtual time, where nobody waits.
  replay::WireResult<Step> receive(std::int64_t deadline, const PendingRequest& wanted);
  /// How many were taken; fewer: its queue is full for the moment.
  replay::WireResult<std::size_t> send(std::span<const replay::Outgoing> frames);
  replay::WireResult<bool> writable(std::int64_t deadline);
  replay::WireResult<bool> flush(std::int64_t deadline);
  replay::WireResult<replay::WireCounters> counters();
  replay::WireResult<replay::WireCapabilities> capabilities();
  replay::WireResult<std::int64_t> now();
  [[nodiscard]] const std::string& name() const { return name_; }
  /// For poll(2); -1 where there is none.
  replay::WireResult<int> descriptor();
  /// Why it can bring nothing more, of a device that was lost.
  [[nodiscard]] std::optional<std::string> lost() const { return lost_ ? lost_() : std::nullopt; }
  void close();
  [[nodiscard]] bool closed() const;
  /// A process that was forked must not touch what its parent uses.
  [[nodiscard]] bool owned_by_parent_process() const { return ::getpid() != process_; }

  /// From now on what is sent and what arrives is kept, the newest `most` frames of it; 0: no more, and it is
  /// forgotten.
  void record(std::size_t most);
  /// Something passed by another way.
  void keep(std::int64_t time, bool sent, Bytes bytes);
  [[nodiscard]] std::vector<Recorded> recorded() const;
  /// As long as it is held nobody else uses the wire: who does waits.
  [[nodiscard]] std::unique_lock<std::mutex> exclusive() { return std::unique_lock(mutex_); }

 private:
  static constexpr std::size_t most_kept = 4096;  ///< frames for other queue pairs; the oldest go
  [[nodiscard]] std::shared_ptr<replay::Wire> lease() const;
  [[nodiscard]] replay::WireError closed_error() const;
  std::optional<Arrival> from_kept(const PendingRequest& wanted);
  /// Nothing: it is kept for others, or wanted by nobody.
  std::optional<Arrival> accept(const replay::Received& received, const PendingRequest& wanted);
  void note(std::int64_t time, bool sent, Bytes bytes);

  const pid_t process_ = ::getpid();
  std::shared_ptr<replay::Wire> own_;  ///< where the wire belongs to nobody else
  Lease lease_;
  Lost lost_;
  mutable std::mutex mutex_;
  mutable std::mutex closing_;  ///< of own_ alone
  std::deque<Arrival> kept_;
  std::deque<Recorded> recorded_;
  std::size_t most_recorded_ = 0;
  const std::string name_;
};

}  // namespace rdmawire::python
