#pragma once
/// Internal: launch times (SO_TXTIME) and transmit timestamps of a packet socket.

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "replay/wires/departures.hpp"
#include "replay/wires/interface.hpp"

namespace rdmawire::replay {

class Transmission {
 public:
  /// The queueing discipline that holds frames until their launch times.
  enum class Launch : std::uint8_t {
    none,
    etf,  ///< ETF, or a device with launch times below it. CLOCK_TAI
    fq,   ///< FQ. CLOCK_MONOTONIC
  };
  /// Source of transmit timestamps.
  enum class Stamps : std::uint8_t { none, kernel, device };

  /// Control data of one message.
  struct alignas(cmsghdr) Control {
    std::array<char, CMSG_SPACE(sizeof(std::uint64_t))> bytes;
  };

  WireResult<void> set_up(int socket, const Interface& interface, Launch launch, Stamps stamps);
  [[nodiscard]] Launch launch() const { return launch_; }
  [[nodiscard]] Stamps stamps() const { return stamps_; }

  /// Reads the clock of the queueing discipline, for the next frames.
  void begin_batch();
  /// Adds the launch time to a message. `time` of the wire's clock, 0: as soon as possible. Launch times do not
  /// decrease, unless the clock of the queueing discipline was set back by more than a second.
  void set_time(msghdr& message, Control& control, std::int64_t time);
  /// Records a frame that the kernel accepted.
  void accepted();
  /// Records a frame that the kernel numbered, but did not accept because the device queue was full.
  void refused() { ++next_number_; }

  /// Reads the timestamps, and the errors of frames that missed their launch times: at most as many as a full queue
  /// contains.
  void read(int socket);
  /// Reads one message of the error queue. `bytes`: length of the frame in it.
  void take(msghdr& message, std::size_t bytes);
  [[nodiscard]] std::vector<Departure>& departures() { return departures_; }
  /// Number of accepted frames that were discarded because their launch times had passed.
  [[nodiscard]] std::uint64_t missed() const { return missed_; }
  [[nodiscard]] std::uint64_t missed_bytes() const { return missed_bytes_; }
  /// Since when the queueing discipline has rejected launch times without accepting a frame. 0: it does not. Rejected
  /// frames are not accepted.
  [[nodiscard]] std::int64_t rejecting_since() const { return rejecting_since_; }

 private:
  void departed(std::uint32_t number, std::int64_t time);

  Launch launch_ = Launch::none;
  Stamps stamps_ = Stamps::none;
  std::int64_t offset_ = 0;  ///< from the wire's clock to that of the queueing discipline
  std::int64_t latest_ = 0;  ///< latest launch time, on the clock of the queueing discipline
  std::int64_t rejecting_since_ = 0;
  std::uint64_t missed_ = 0, missed_bytes_ = 0;
  std::vector<char> frame_;             ///< a frame of the error queue
  std::uint32_t next_number_ = 0;       ///< of the kernel, for the next frame
  std::deque<std::uint32_t> expected_;  ///< numbers of accepted frames without timestamp
  std::uint64_t first_expected_ = 0;    ///< index of the first of them
  std::vector<Departure> departures_;
  std::optional<std::int64_t> device_clock_;  ///< to add to device timestamps
};

}  // namespace rdmawire::replay
