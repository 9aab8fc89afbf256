#pragma once
/// Inside the room: what lwIP knows of us, and we of it. Shared by the hosts of the process.

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

// Debian's lwipopts.h declares the core's lock without saying that it is C's.
extern "C" {
#include <lwip/ip4.h>
#include <lwip/ip6.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcp.h>
#include <lwip/tcpip.h>
}

#include "replay/streams/tcp_over_wire.hpp"
#include "replay/wires/error.hpp"

// lwIP's structures depend on how it was built.
#if NO_SYS || !LWIP_TCPIP_CORE_LOCKING || !LWIP_CALLBACK_API || !LWIP_IPV4 || !LWIP_IPV6 || !TCP_QUEUE_OOSEQ
#error "lwIP is to be built as Debian does it"
#endif

namespace rdmawire::replay::lwip {

/// lwIP is the process's, and one thread at a time is in it: whoever has this. All that is below is used with it.
class Core {
 public:
  Core() { LOCK_TCPIP_CORE(); }
  ~Core() { UNLOCK_TCPIP_CORE(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
};

class Stack;

ip_addr_t to_lwip(const IpAddress& address);

/// Starts lwIP, once a process. Without the core.
void start();

/// A connection in the stack. lwIP frees what it is behind it (`pcb`) without a word when nobody is to be told.
class Connection {
 public:
  Connection(Stack& stack, tcp_pcb* pcb);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// What lwIP has of it; nullptr: it is over, or waits for its time to be over.
  [[nodiscard]] tcp_pcb* live() const;
  /// lwIP says that the other end is there.
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

/// Where others connect to, and those that nobody accepted yet.
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

/// What a host is, without its waiting.
class Stack {
 public:
  Stack(std::unique_ptr<Wire> wire, const TcpOverWireOptions& options)
      : options_(options), wire_(std::move(wire)), host_({.mac = options_.mac, .addresses = {options_.address}}) {}
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack();

  /// False: the process has too many.
  bool start();

  // For lwIP.

  /// An IP packet that is to leave.
  void leaves(pbuf& from);
  /// A connection to a ListeningPort is made.
  static err_t accepted(void* port_of, tcp_pcb* pcb, err_t error);

  // For the host.

  /// Waits until ready(), with the core, gives true; false at `deadline`.
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
  /// Something changed that somebody may wait for.
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
  /// Of what lwIP tells.
  [[nodiscard]] std::int64_t time() const { return input_time_.value_or(now()); }
  [[nodiscard]] const TcpOverWireOptions& options() const { return options_; }
  Host& host() { return host_; }
  void say(const SimulatedHostOutput& output);
  /// Why the last frame did not leave.
  [[nodiscard]] const std::optional<WireError>& trouble() const { return trouble_; }
  void forget_trouble() { trouble_.reset(); }
  void restrain(SendLimits restraint) { restrained_.emplace(*wire_, std::move(restraint)); }

  /// A new end with our address and a port; 0: one that is free. nullptr: the port is in use.
  tcp_pcb* bound(std::uint16_t port);
  /// What a SYN from that port announces, until it is forgotten.
  void announce(std::uint16_t port, std::uint32_t mss) { announced_[port] = mss; }
  /// A connection of that port is over, or nobody listens there any more.
  void forget(std::uint16_t port);
  std::map<std::uint16_t, ListeningPort>& ports() { return ports_; }

  std::vector<PassedFrame> take_passed();
  [[nodiscard]] std::uint64_t passed_lost() const { return passed_lost_; }

 private:
  [[nodiscard]] bool is_ours(const tcp_pcb& pcb) const;
  /// Of ours in the list, which begins with the youngest.
  [[nodiscard]] tcp_pcb* oldest_of(tcp_pcb* list) const;
  /// As ARP said, or else as the last packet from there had it.
  [[nodiscard]] std::optional<MacAddress> mac_of(const IpAddress& address) const;
  void keep(PassedFrame frame);
  /// The reader's thread.
  void read();
  void arrived(const Received& received);
  [[nodiscard]] bool too_many() const;

  const TcpOverWireOptions options_;
  const std::unique_ptr<Wire> wire_;
  std::optional<LimitedWire> restrained_;  ///< in front of it
  Host host_;
  std::uint16_t number_ = 0;
  IpAddress inside_;
  netif interface_{};
  std::optional<std::int64_t> input_time_;  ///< of the frame that lwIP is at
  static constexpr std::uint16_t first_port = 49'152, beginnings = 16'000;
  /// Another one each time, so that no other end takes a connection for the last program's.
  std::uint16_t next_port_ = static_cast<std::uint16_t>(
      first_port + std::chrono::system_clock::now().time_since_epoch().count() / 1000 % beginnings);
  std::map<IpAddress, MacAddress> heard_;
  std::map<std::uint16_t, std::uint32_t> announced_;  ///< the MSS, by our ports
  std::map<std::uint16_t, ListeningPort> ports_;
  std::deque<PassedFrame> passed_;
  std::size_t passed_bytes_ = 0;
  std::uint64_t passed_lost_ = 0;
  std::optional<WireError> failed_, trouble_;

  std::mutex mutex_;  ///< of the next two; taken with the core, or alone
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::atomic<bool> interrupted_ = false, ends_ = false;
  std::thread reader_;
};

}  // namespace rdmawire::replay::lwip
