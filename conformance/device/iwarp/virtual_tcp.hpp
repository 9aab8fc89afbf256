#pragma once
/// TCP between a tester and a device of iWARP in the same process, in virtual time: each segment arrives as it was
/// sent, after the same delay, and nothing is lost. Time goes on while somebody waits for it, and until a segment of
/// the tester's has arrived: when send() comes back, the device has it, and its consumer was told what follows from
/// that.

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

/// Who has the device's ends of the connections. Connections are numbered by it.
class TcpUser {
 public:
  TcpUser() = default;
  TcpUser(const TcpUser&) = delete;
  TcpUser& operator=(const TcpUser&) = delete;
  virtual ~TcpUser() = default;

  /// The time from now on; it only goes on.
  virtual void passed(std::int64_t now) = 0;
  [[nodiscard]] virtual bool listens(std::uint16_t port) const = 0;
  /// Somebody has connected to a port. `emss`: bytes that each of its segments may have.
  virtual std::uint32_t connected(std::uint16_t port, const replay::TcpAddress& from, std::uint32_t emss) = 0;
  struct PendingRequest {
    std::uint32_t stream = 0;
    std::uint16_t port = 0;  ///< its own
    replay::TcpAddress to{};
  };
  /// A connection that it wants, once.
  virtual std::optional<PendingRequest> next_wanted() = 0;
  /// What became of it: `error` is one of Linux's numbers, or 0.
  virtual void answered(std::uint32_t stream, int error, std::uint32_t emss) = 0;
  virtual void received(std::uint32_t stream, Bytes bytes) = 0;
  virtual void peer_closed(std::uint32_t stream) = 0;
  virtual void lost(std::uint32_t stream) = 0;
  /// What it sends now, about `most` bytes of it.
  virtual Output take(std::uint32_t stream, std::size_t most) = 0;
  /// Nothing will be heard of it any more.
  virtual void forgotten(std::uint32_t stream) = 0;
  /// When woken() must be called at the latest, or `never`.
  [[nodiscard]] virtual std::int64_t wakes() const = 0;
  virtual void woken() = 0;
};

class VirtualTcp final : public replay::TcpHost {
 public:
  struct Options {
    replay::IpAddress tester = replay::IpAddress::v4(0x0a0000c8);  ///< 10.0.0.200
    replay::IpAddress device = replay::IpAddress::v4(0x0a000001);  ///< 10.0.0.1
    std::int64_t delay = 1000;                                     ///< nanoseconds on the way, in each direction
    std::uint32_t device_mss = 1460;                               ///< that the device's SYN announces
    std::uint32_t window = 65'535;  ///< bytes of the device's that the tester has not read: more are not sent
  };
  static constexpr std::size_t most_frames = 1U << 18;  ///< that passed and were not taken; others are not kept

  /// `device` must outlive it.
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

  /// Held by who uses the device itself, step() and settle().
  std::mutex& mutex() { return mutex_; }
  /// Called with the mutex held whenever something may have happened to the device.
  void when_something_happened(std::function<void()> tell) { tell_ = std::move(tell); }
  /// The next thing that happens until a time; false: nothing, and the clock stands there.
  bool step(std::int64_t until);
  /// Takes what the device wants to send since a command was given to it.
  void settle();

 private:
  class Connection;
  /// A connection, both ends of it.
  struct Link {
    std::uint32_t id = 0;
    replay::TcpAddress tester, device;
    std::uint32_t mss = 1460;                          ///< that the tester announced
    std::optional<std::uint32_t> stream{};             ///< the device's number, once it has heard of the connection
    bool open = false;                                 ///< for the tester
    bool device_open = false;                          ///< for the device: it may send
    int refused = 0;                                   ///< the tester was
    std::uint32_t tester_next = 0, device_next = 0;    ///< sequence numbers that come next
    std::uint32_t tester_heard = 0, device_heard = 0;  ///< and are expected next, by each
    bool tester_fin = false, device_fin = false;       ///< sent
    bool fin_came = false;                             ///< to the tester
    bool tester_over = false, device_over = false;     ///< it was reset, as each knows
    bool taken = false;                                ///< the tester has an object of it
    std::deque<replay::TcpArrival> inbox;
    std::size_t unread = 0;  ///< bytes on their way to the tester, or in its inbox
  };
  enum class What : std::uint8_t { syn, syn_ack, established, bytes, fin, reset };
  struct InFlightFrame {
    std::uint32_t link = 0;
    bool to_tester = false;
    What what = What::bytes;
    std::vector<std::uint8_t> bytes;
  };
  struct Listener {
    replay::TcpOptions options;
    std::deque<std::uint32_t> waiting;  ///< links
  };

  Link& new_link();
  Link* find(std::uint32_t id);
  void send(Link& link, bool to_tester, What what, Bytes bytes = {});
  void acknowledge(Link& link, bool to_tester);
  void keep(bool to_tester, const replay::TcpFrame& frame);
  [[nodiscard]] replay::TcpFrame frame_of(const Link& link, bool to_tester) const;
  void happen(const InFlightFrame& flying);
  void arrive_at_tester(Link& link, const InFlightFrame& flying);
  void arrive_at_device(Link& link, const InFlightFrame& flying);
  void reset_by_device(Link& link);
  void reset_by_tester(Link& link);
  void forget_if_done(std::uint32_t id);
  void go_to(std::int64_t time);
  /// Until what was sent by the tester now has arrived.
  void let_arrive();
  void told() const {
    if (tell_) tell_();
  }
  [[nodiscard]] replay::WireError ended() const;

  TcpUser& device_;
  Options options_;
  std::string name_ = "in process";
  std::function<void()> tell_;
  mutable std::mutex mutex_;
  std::atomic<bool> interrupted_ = false;
  std::int64_t now_ = 0;
  std::uint32_t last_link_ = 0;
  std::uint16_t next_port_ = 40'000, identification_ = 0;
  std::map<std::uint32_t, Link> links_;
  std::map<std::uint16_t, Listener> listeners_;
  std::multimap<std::int64_t, InFlightFrame> flying_;
  std::multimap<std::int64_t, replay::PassedFrame> passed_;
};

}  // namespace rdmawire::endpoint
