#pragma once
/// TCP between a tester and an iWARP device in the same process, in virtual time. All segments arrive unchanged and
/// after the same delay. Time advances only in calls that wait or send. When send() returns, the device has received
/// the segment and reported the events that it caused.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "conformance/device/iwarp/endpoint.hpp"
#include "replay/streams/tcp.hpp"
#include "replay/streams/tcp_frames.hpp"

namespace rdmawire::endpoint {

/// The device's side of TCP. It assigns numbers to the connections.
class TcpUser {
 public:
  TcpUser() = default;
  TcpUser(const TcpUser&) = delete;
  TcpUser& operator=(const TcpUser&) = delete;
  virtual ~TcpUser() = default;

  /// Advance the device's time.
  virtual void passed(std::int64_t now) = 0;
  [[nodiscard]] virtual bool listens(std::uint16_t port) const = 0;
  /// Called when a peer has connected to a port. `emss`: maximum segment size in bytes. Returns the connection's
  /// number.
  virtual std::uint32_t connected(std::uint16_t port, const replay::TcpAddress& from, std::uint32_t emss) = 0;
  struct PendingRequest {
    std::uint32_t stream = 0;
    std::uint16_t port = 0;  ///< local port
    replay::TcpAddress to{};
  };
  /// Return and remove the next connection that the device wants to open.
  virtual std::optional<PendingRequest> next_connect_request() = 0;
  /// Report the result of a connection request: a Linux error number, or 0.
  virtual void answered(std::uint32_t stream, int error, std::uint32_t emss) = 0;
  virtual void received(std::uint32_t stream, Bytes bytes) = 0;
  virtual void peer_closed(std::uint32_t stream) = 0;
  virtual void lost(std::uint32_t stream) = 0;
  /// Return data to send now, about `most` bytes.
  virtual Output take(std::uint32_t stream, std::size_t most) = 0;
  /// Called when the connection is closed and has no more events.
  virtual void forgotten(std::uint32_t stream) = 0;
  /// Return the time of the next required woken() call, or `never`.
  [[nodiscard]] virtual std::int64_t wakes() const = 0;
  virtual void woken() = 0;
};

class VirtualTcp final : public replay::TcpHost {
 public:
  struct Options {
    replay::IpAddress tester = replay::IpAddress::v4(0x0a0000c8);  ///< 10.0.0.200
    replay::IpAddress device = replay::IpAddress::v4(0x0a000001);  ///< 10.0.0.1
    std::int64_t delay = 1000;                                     ///< one-way delay in nanoseconds
    std::uint32_t device_mss = 1460;                               ///< MSS in the device's SYN
    std::uint32_t window = 65'535;                                 ///< limit of bytes that the tester has not read
  };
  static constexpr std::size_t most_frames = 1U << 18;  ///< frames kept for take_passed(). Further frames are discarded

  /// `device` must outlive the object.
  explicit VirtualTcp(TcpUser& device) : VirtualTcp(device, Options()) {}
  VirtualTcp(TcpUser& device, Options options) : device_(device), options_(std::move(options)) {}

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const replay::IpAddress& address() const override { return options_.tester; }
  [[nodiscard]] const Options& options() const { return options_; }
  replay::WireResult<std::unique_ptr<replay::TcpConnection>> connect(const replay::TcpAddress& to,
                                                                     const replay::TcpOptions& options,
                                                                     std::int64_t deadline) override;
  replay::WireResult<std::uint16_t> listen(std::uint16_t port, const replay::TcpOptions& options) override;
  void stop_listening(std::uint16_t port) override;
  replay::WireResult<std::unique_ptr<replay::TcpConnection>> accept(std::uint16_t port, std::int64_t deadline) override;
  [[nodiscard]] std::int64_t now() const override;
  [[nodiscard]] bool virtual_time() const override { return true; }
  replay::WireResult<void> pass(std::int64_t until) override;
  std::vector<replay::PassedFrame> take_passed() override;
  void interrupt() override { interrupted_ = true; }

  /// Lock this mutex while using the device, step() or settle().
  std::mutex& mutex() { return mutex_; }
  /// Set a function that is called, with the mutex locked, when the device may have new events.
  void on_device_event(std::function<void()> callback) { on_event_ = std::move(callback); }
  /// Process the next event until the time `until`. If there is none, advances the clock to `until` and returns false.
  bool step(std::int64_t until);
  /// Send the data that a command to the device has caused.
  void settle();

 private:
  class Connection;
  /// A connection with its two sides.
  struct Link {
    std::uint32_t id = 0;
    replay::TcpAddress tester, device;
    std::uint32_t mss = 1460;                        ///< MSS in the tester's SYN
    std::optional<std::uint32_t> stream{};           ///< the device's number of the connection. nullopt: unknown to it
    bool open = false;                               ///< true: the tester may send
    bool device_open = false;                        ///< true: the device may send
    int refused = 0;                                 ///< error number if the tester's connection was refused
    std::uint32_t tester_next = 0, device_next = 0;  ///< next sequence numbers
    std::uint32_t tester_expected = 0, device_expected = 0;  ///< next expected sequence numbers
    bool tester_fin = false, device_fin = false;             ///< true: the side has sent a FIN
    bool fin_received = false;                               ///< true: the tester has received the device's FIN
    bool tester_over = false, device_over = false;           ///< true: for this side, the connection is reset
    bool taken = false;                                      ///< true: the tester has a connection object
    std::deque<replay::TcpArrival> inbox;
    std::size_t unread = 0;  ///< number of bytes in flight to the tester or in its inbox
  };
  enum class SegmentKind : std::uint8_t { syn, syn_ack, established, bytes, fin, reset };
  struct InFlightFrame {
    std::uint32_t link = 0;
    bool to_tester = false;
    SegmentKind kind = SegmentKind::bytes;
    std::vector<std::uint8_t> bytes;
  };
  struct Listener {
    replay::TcpOptions options;
    std::deque<std::uint32_t> waiting;  ///< pending connections
  };

  Link& new_link();
  Link* find(std::uint32_t id);
  void send(Link& link, bool to_tester, SegmentKind kind, Bytes bytes = {});
  void acknowledge(Link& link, bool to_tester);
  void record_frame(bool to_tester, const replay::TcpFrame& frame);
  [[nodiscard]] replay::TcpFrame frame_of(const Link& link, bool to_tester) const;
  void happen(const InFlightFrame& frame);
  void arrive_at_tester(Link& link, const InFlightFrame& frame);
  void arrive_at_device(Link& link, const InFlightFrame& frame);
  void reset_by_device(Link& link);
  void reset_by_tester(Link& link);
  void forget_if_done(std::uint32_t id);
  void go_to(std::int64_t time);
  /// Run until all segments that the tester has sent have arrived.
  void deliver();
  void notify_device_event() const {
    if (on_event_) on_event_();
  }
  [[nodiscard]] replay::WireError ended() const;

  TcpUser& device_;
  Options options_;
  std::string name_ = "in process";
  std::function<void()> on_event_;
  mutable std::mutex mutex_;
  std::atomic<bool> interrupted_ = false;
  std::int64_t now_ = 0;
  std::uint32_t last_link_ = 0;
  std::uint16_t next_port_ = 40'000, identification_ = 0;
  std::map<std::uint32_t, Link> links_;
  std::map<std::uint16_t, Listener> listeners_;
  std::multimap<std::int64_t, InFlightFrame> in_flight_;
  std::multimap<std::int64_t, replay::PassedFrame> passed_;
};

}  // namespace rdmawire::endpoint
