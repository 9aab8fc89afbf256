#pragma once
/// Internal: shared state with lwIP, for all hosts of the process.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// Debian's lwipopts.h declares the core lock without extern "C".
extern "C" {
#include <lwip/ip4.h>
#include <lwip/ip6.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcp.h>
#include <lwip/tcpip.h>
}

#include "replay/streams/tcp_over_wire.hpp"
#include "replay/wires/error.hpp"

// The layout of lwIP's structures depends on its build options.
#if NO_SYS || !LWIP_TCPIP_CORE_LOCKING || !LWIP_CALLBACK_API || !LWIP_IPV4 || !LWIP_IPV6 || !TCP_QUEUE_OOSEQ
#error "lwIP must be built with Debian's options"
#endif

namespace rdmawire::replay::lwip {

/// Scoped lock of lwIP, which is shared by the whole process. Required for all functions below.
class Core {
 public:
  Core() { LOCK_TCPIP_CORE(); }
  ~Core() { UNLOCK_TCPIP_CORE(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
};

class Stack;

ip_addr_t to_lwip(const IpAddress& address);

/// Starts lwIP once per process. Call without the core lock.
void start();

/// A connection in lwIP. lwIP frees its `pcb` without notification if no callback is set.
class Connection {
 public:
  Connection(Stack& stack, tcp_pcb* pcb);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// The lwIP structure. nullptr: the connection is over or in TIME-WAIT.
  [[nodiscard]] tcp_pcb* live() const;
  /// Called by lwIP when the connection is established.
  void establish();

  TcpAddress local, remote;
  std::uint32_t mss = 0;
  bool established = false, over = false;
  bool fin_sent = false, fin_came = false;
  err_t error = ERR_OK;
  std::deque<TcpArrival> arrivals;

 private:
  static err_t received(void* self, tcp_pcb* pcb, pbuf* data, err_t error);
  static void failed(void* self, err_t error);

  Stack& stack_;
  tcp_pcb* pcb_;
};

/// A listening port and its connections that are not yet accepted.
struct ListeningPort {
  ListeningPort() = default;
  ListeningPort(const ListeningPort&) = delete;
  ListeningPort& operator=(const ListeningPort&) = delete;
  ~ListeningPort() {
    if (pcb != nullptr) tcp_close(pcb);
  }
  Stack* stack = nullptr;
  tcp_pcb* pcb = nullptr;
  std::deque<std::unique_ptr<Connection>> made;
};

/// The state of a host, without blocking calls.
class Stack {
 public:
  Stack(std::unique_ptr<Wire> wire, const TcpOverWireOptions& options)
      : options_(options), wire_(std::move(wire)), host_({.mac = options_.mac, .addresses = {options_.address}}) {}
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack();

  /// Returns false if the process has too many hosts.
  bool start();

  // Callbacks from lwIP.

  /// An outgoing IP packet.
  void leaves(pbuf& from);
  /// A new connection to a ListeningPort.
  static err_t accepted(void* port_of, tcp_pcb* pcb, err_t error);

  // Interface for the host.

  /// Waits with the core lock until ready() is true. Returns false at `deadline`.
  template <class Ready>
  WireResult<bool> wait(std::int64_t deadline, Ready ready) {
    for (;;) {
      std::uint64_t seen = 0;
      {
        const std::lock_guard lock(mutex_);
        seen = changes_;
      }
      {
        const Core core;
        if (interrupted_) return tl::unexpected(closed_error(name()));
        if (ready()) return true;
        if (failed_) return tl::unexpected(*failed_);
      }
      const std::int64_t left = deadline - wire_->now();
      if (left <= 0) return false;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left, std::int64_t{1'000'000'000})),
                        [&] { return changes_ != seen; });
    }
  }
  /// Wakes all waiting callers after a change.
  void tell() {
    {
      const std::lock_guard lock(mutex_);
      ++changes_;
    }
    changed_.notify_all();
  }
  void interrupt() {
    interrupted_ = true;
    tell();
  }

  [[nodiscard]] const std::string& name() const { return wire_->name(); }
  [[nodiscard]] std::int64_t now() const { return wire_->now(); }
  /// Time of the current lwIP event.
  [[nodiscard]] std::int64_t time() const { return input_time_.value_or(now()); }
  [[nodiscard]] const TcpOverWireOptions& options() const { return options_; }
  Host& host() { return host_; }
  void say(const SimulatedHostOutput& output);
  /// Why the last frame was not sent.
  [[nodiscard]] const std::optional<WireError>& trouble() const { return trouble_; }
  void forget_trouble() { trouble_.reset(); }
  void restrain(SendLimits restraint) { restrained_.emplace(*wire_, std::move(restraint)); }

  /// A new endpoint with the local address and a port. 0: any free port. nullptr: the port is in use.
  tcp_pcb* bound(std::uint16_t port);
  /// Sets the MSS option of SYNs from this port, until forget().
  void announce(std::uint16_t port, std::uint32_t mss) { announced_[port] = mss; }
  /// Call when a connection of the port is over or the port stops listening.
  void forget(std::uint16_t port);
  std::map<std::uint16_t, ListeningPort>& ports() { return ports_; }

  std::vector<PassedFrame> take_passed();
  [[nodiscard]] std::uint64_t passed_lost() const { return passed_lost_; }

 private:
  [[nodiscard]] bool is_ours(const tcp_pcb& pcb) const;
  /// The oldest entry of this stack in the list, whose first entry is the youngest.
  [[nodiscard]] tcp_pcb* oldest_of(tcp_pcb* list) const;
  /// The MAC address from ARP or neighbor discovery, otherwise from the last packet of that IP address.
  [[nodiscard]] std::optional<MacAddress> mac_of(const IpAddress& address) const;
  void keep(PassedFrame frame);
  /// Main function of the reader thread.
  void read();
  void arrived(const Received& received);
  [[nodiscard]] bool too_many() const;

  const TcpOverWireOptions options_;
  const std::unique_ptr<Wire> wire_;
  std::optional<LimitedWire> restrained_;  ///< rate limit in front of the wire
  Host host_;
  std::uint16_t number_ = 0;
  IpAddress inside_;
  netif interface_{};
  std::optional<std::int64_t> input_time_;  ///< arrival time of the frame that lwIP handles
  static constexpr std::uint16_t first_port = 49'152, beginnings = 16'000;
  /// Differs between runs, so that peers do not confuse connections with those of an earlier process.
  std::uint16_t next_port_ = static_cast<std::uint16_t>(
      first_port + std::chrono::system_clock::now().time_since_epoch().count() / 1000 % beginnings);
  std::map<IpAddress, MacAddress> heard_;
  std::map<std::uint16_t, std::uint32_t> announced_;  ///< MSS by local port
  std::map<std::uint16_t, ListeningPort> ports_;
  std::deque<PassedFrame> passed_;
  std::size_t passed_bytes_ = 0;
  std::uint64_t passed_lost_ = 0;
  std::optional<WireError> failed_, trouble_;

  std::mutex mutex_;  ///< protects the next two members. May be locked with or without the core lock
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::atomic<bool> interrupted_ = false, ends_ = false;
  std::thread reader_;
};

}  // namespace rdmawire::replay::lwip
