#include "replay/streams/tcp_over_wire.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "replay/streams/lwip_state.hpp"

namespace rdmawire::replay {
namespace {

using lwip::Connection;
using lwip::Core;
using lwip::ListeningPort;
using lwip::Stack;

constexpr std::int64_t window_patience = 2'000'000'000;  // wait for the peer's window before it is probed, nanoseconds
constexpr std::int64_t window_end = 60'000'000'000;      // limit for a window that stays closed
constexpr std::uint32_t least_mss = 88, most_mss = 65'495;

class ConnectionOverWire final : public TcpConnection {
 public:
  ConnectionOverWire(Stack& stack, std::unique_ptr<Connection> connection)
      : stack_(stack), connection_(std::move(connection)) {}
  ~ConnectionOverWire() override {
    const Core core;
    connection_.reset();
  }

  WireResult<void> send(Bytes bytes) override {
    do {
      const Bytes segment = bytes.first(std::min<std::size_t>(bytes.size(), send_mss()));
      if (auto sent = send_segment(segment); !sent) return sent;
      bytes = bytes.subspan(segment.size());
    } while (!bytes.empty());
    return {};
  }

  WireResult<void> close_half() override {
    if (connection_->fin_sent) return {};
    // Waits until all data is sent, so that the FIN is in a segment of its own.
    if (auto gone = all_left(); !gone) return gone;
    const Core core;
    tcp_pcb* pcb = connection_->live();
    if (pcb == nullptr) return tl::unexpected(is_over());
    if (tcp_shutdown(pcb, 0, 1) != ERR_OK)
      return tl::unexpected(WireError{WireError::Kind::system, 0, text() + ": lwIP cannot send a FIN"});
    connection_->fin_sent = true;
    return {};
  }

  void reset() override {
    const Core core;
    if (tcp_pcb* pcb = connection_->live()) {
      tcp_err(pcb, nullptr);
      tcp_arg(pcb, nullptr);
      tcp_abort(pcb);
    }
    connection_->over = true;
    connection_->arrivals.clear();
  }

  WireResult<std::optional<TcpArrival>> receive(std::int64_t deadline) override {
    std::optional<TcpArrival> arrival;
    const auto waited = stack_.wait(deadline, [&] {
      tcp_pcb* pcb = connection_->live();
      auto& arrivals = connection_->arrivals;
      if (arrivals.empty()) return pcb == nullptr;
      arrival = std::move(arrivals.front());
      arrivals.pop_front();
      if (pcb != nullptr && !arrival->bytes.empty()) tcp_recved(pcb, static_cast<u16_t>(arrival->bytes.size()));
      return true;
    });
    if (!waited) return tl::unexpected(waited.error());
    return arrival;
  }

  [[nodiscard]] std::uint32_t send_mss() const override { return connection_->mss; }
  [[nodiscard]] const TcpAddress& local() const override { return connection_->local; }
  [[nodiscard]] const TcpAddress& remote() const override { return connection_->remote; }

 private:
  [[nodiscard]] std::string text() const {
    return fmt::format("{}: TCP to {} port {}", stack_.name(), to_string(remote().address), remote().port);
  }
  [[nodiscard]] WireError is_over() const { return {WireError::Kind::down, 0, text() + ": the connection is over"}; }
  [[nodiscard]] WireError does_not_open() const {
    return {
        WireError::Kind::full, 0,
        fmt::format("{}: the peer's window has not accepted the data for {} s", text(), window_end / 1'000'000'000)};
  }

  /// Waits until lwIP has sent all queued data.
  WireResult<void> all_left() {
    bool over = false;
    const auto waited = stack_.wait(stack_.now() + window_end, [&] {
      const tcp_pcb* pcb = connection_->live();
      over = pcb == nullptr;
      return over || pcb->unsent == nullptr;
    });
    if (!waited) return tl::unexpected(waited.error());
    if (over) return tl::unexpected(is_over());
    if (!*waited) return tl::unexpected(does_not_open());
    return {};
  }

  WireResult<void> send_segment(Bytes segment) {
    if (segment.empty()) return {};
    bool over = false;
    const std::int64_t probe = stack_.now() + window_patience;
    const auto waited = stack_.wait(stack_.now() + window_end, [&] {
      tcp_pcb* pcb = connection_->live();
      over = pcb == nullptr || connection_->fin_sent;
      if (over) return true;
      // lwIP would append the data to the unsent segment.
      if (pcb->unsent != nullptr || tcp_sndbuf(pcb) < segment.size()) return false;
      const std::uint32_t in_flight = pcb->snd_lbb - pcb->lastack;
      // lwIP probes a closed window only when it has data to send.
      if (in_flight + segment.size() > pcb->snd_wnd && stack_.now() < probe) return false;
      // Disables sender-side window avoidance and the congestion window, which would delay or split segments.
      pcb->snd_wnd_max = std::max<tcpwnd_size_t>(pcb->snd_wnd_max, 2U * pcb->mss);
      pcb->cwnd = std::max<tcpwnd_size_t>(pcb->cwnd, in_flight + 2U * pcb->mss);
      if (tcp_write(pcb, segment.data(), static_cast<u16_t>(segment.size()), TCP_WRITE_FLAG_COPY) != ERR_OK)
        return false;  // too many unacknowledged segments
      tcp_output(pcb);
      return true;
    });
    if (!waited) return tl::unexpected(waited.error());
    if (over) return tl::unexpected(is_over());
    if (!*waited) return tl::unexpected(does_not_open());
    return all_left();
  }

  Stack& stack_;
  std::unique_ptr<Connection> connection_;
};

class HostOverWire final : public TcpOverWire {
 public:
  HostOverWire(std::unique_ptr<Wire> wire, const TcpOverWireOptions& options) : stack_(std::move(wire), options) {}
  bool start() { return stack_.start(); }

  [[nodiscard]] const std::string& name() const override { return stack_.name(); }
  [[nodiscard]] const IpAddress& address() const override { return stack_.options().address; }
  [[nodiscard]] std::int64_t now() const override { return stack_.now(); }
  void interrupt() override { stack_.interrupt(); }

  WireResult<MacAddress> resolve(const IpAddress& address, std::int64_t deadline) override {
    {
      const Core core;
      SimulatedHostOutput output;
      stack_.host().resolve(address, now(), output);
      stack_.say(output);
    }
    std::optional<MacAddress> mac;
    const auto waited = stack_.wait(deadline, [&] {
      mac = stack_.host().neighbor(address);
      return mac || stack_.host().unreachable(address);
    });
    if (!waited) return tl::unexpected(waited.error());
    if (mac) return *mac;
    return tl::unexpected(
        WireError{WireError::Kind::missing, 0,
                  with_trouble(fmt::format("{}: no reply from {}; check that it is up and on this link", name(),
                                           to_string(address)))});
  }
  void restrain(SendLimits restraint) override {
    const Core core;
    stack_.restrain(std::move(restraint));
  }

  WireResult<std::unique_ptr<TcpConnection>> connect(const TcpAddress& to, const TcpOptions& options,
                                                     std::int64_t deadline) override {
    const std::string what = fmt::format("{}: connect to {} port {}", name(), to_string(to.address), to.port);
    const auto failed = [&](WireError::Kind kind, std::string_view why) {
      return tl::unexpected(WireError{kind, 0, fmt::format("{}: {}", what, why)});
    };
    if (auto good = check(options); !good) return tl::unexpected(good.error());
    if (to.port == 0 || to.address.v6 != address().v6 || is_link_local(to.address))
      return failed(WireError::Kind::unsupported,
                    fmt::format("not reachable from {}; use an address of the same version and scope and a "
                                "nonzero port",
                                to_string(address())));
    if (auto mac = resolve(to.address, deadline); !mac) return tl::unexpected(mac.error());
    std::unique_ptr<Connection> made;
    // Releases the connection with the core lock held.
    const auto give_up = [&] {
      const Core core;
      made.reset();
    };
    {
      const Core core;
      stack_.forget_trouble();
      tcp_pcb* pcb = stack_.bound(0);
      if (pcb == nullptr) return failed(WireError::Kind::full, "no free port");
      made = std::make_unique<Connection>(stack_, pcb);
      stack_.announce(pcb->local_port, options.mss);
      made->remote = to;
      const ip_addr_t remote = lwip::to_lwip(to.address);
      const auto connected = [](void* self, tcp_pcb*, err_t) -> err_t {
        if (self != nullptr) static_cast<Connection*>(self)->establish();
        return ERR_OK;
      };
      if (tcp_connect(pcb, &remote, to.port, connected) != ERR_OK) {
        tcp_err(pcb, nullptr);
        tcp_abort(pcb);
        made.reset();
        return failed(WireError::Kind::system, "lwIP cannot start the connection");
      }
    }
    bool refused = false, forbidden = false;
    const auto waited = stack_.wait(deadline, [&] {
      refused = made->over && !made->established;
      forbidden = stack_.trouble() && stack_.trouble()->kind == WireError::Kind::forbidden;
      return made->established || refused || forbidden;
    });
    if (waited && *waited && !refused && !forbidden)
      return std::make_unique<ConnectionOverWire>(stack_, std::move(made));
    const err_t error = made->error;
    give_up();
    if (!waited) return tl::unexpected(waited.error());
    if (refused)
      return failed(WireError::Kind::missing,
                    error == ERR_RST ? "connection refused; check that a server listens on that port" : "no response");
    const Core core;
    if (forbidden) return tl::unexpected(*stack_.trouble());
    return failed(WireError::Kind::missing, with_trouble_held("no response before the deadline"));
  }

  WireResult<std::uint16_t> listen(std::uint16_t port, const TcpOptions& options) override {
    if (auto good = check(options); !good) return tl::unexpected(good.error());
    const Core core;
    tcp_pcb* pcb = stack_.bound(port);
    tcp_pcb* listening = pcb == nullptr ? nullptr : tcp_listen_with_backlog(pcb, TCP_DEFAULT_LISTEN_BACKLOG);
    if (listening == nullptr) {
      if (pcb != nullptr) tcp_close(pcb);
      return tl::unexpected(
          WireError{WireError::Kind::full, 0, fmt::format("{}: TCP port {} is in use", name(), port)});
    }
    ListeningPort& made = stack_.ports()[listening->local_port];
    made.stack = &stack_;
    made.pcb = listening;
    stack_.announce(listening->local_port, options.mss);
    tcp_arg(listening, &made);
    tcp_accept(listening, &Stack::accepted);
    return listening->local_port;
  }
  void stop_listening(std::uint16_t port) override {
    const Core core;
    stack_.ports().erase(port);
    stack_.forget(port);
    stack_.tell();
  }
  WireResult<std::unique_ptr<TcpConnection>> accept(std::uint16_t port, std::int64_t deadline) override {
    std::unique_ptr<Connection> made;
    bool listens = true;
    const auto waited = stack_.wait(deadline, [&] {
      const auto found = stack_.ports().find(port);
      listens = found != stack_.ports().end();
      if (!listens || found->second.made.empty()) return !listens;
      made = std::move(found->second.made.front());
      found->second.made.pop_front();
      return true;
    });
    if (!waited) return tl::unexpected(waited.error());
    if (!listens)
      return tl::unexpected(
          WireError{WireError::Kind::specification, 0, fmt::format("{}: TCP port {} is not listening", name(), port)});
    if (!made) return std::unique_ptr<TcpConnection>();
    return std::make_unique<ConnectionOverWire>(stack_, std::move(made));
  }

  WireResult<void> pass(std::int64_t until) override {
    const auto waited = stack_.wait(until, [] { return false; });
    if (!waited) return tl::unexpected(waited.error());
    return {};
  }
  std::vector<PassedFrame> take_passed() override {
    const Core core;
    return stack_.take_passed();
  }
  [[nodiscard]] std::uint64_t passed_lost() const override {
    const Core core;
    return stack_.passed_lost();
  }

 private:
  WireResult<void> check(const TcpOptions& options) const {
    if (options.mss >= least_mss && options.mss <= most_mss) return {};
    return tl::unexpected(WireError{WireError::Kind::specification, 0,
                                    fmt::format("{}: invalid MSS of {} bytes; the valid range is {} to {}", name(),
                                                options.mss, least_mss, most_mss)});
  }
  static bool is_link_local(const IpAddress& address) {
    return address.v6 && address.storage[0] == 0xfe && (address.storage[1] & 0xc0) == 0x80;
  }
  /// Requires the core lock.
  [[nodiscard]] std::string with_trouble_held(std::string text) const {
    if (stack_.trouble()) text += "; last error: " + stack_.trouble()->message;
    return text;
  }
  [[nodiscard]] std::string with_trouble(std::string text) const {
    const Core core;
    return with_trouble_held(std::move(text));
  }

  Stack stack_;
};

}  // namespace

WireResult<std::unique_ptr<TcpOverWire>> TcpOverWire::make(std::unique_ptr<Wire> wire,
                                                           const TcpOverWireOptions& options) {
  const auto wrong = [&](std::string_view why) {
    return tl::unexpected(WireError{WireError::Kind::unsupported, 0, fmt::format("{}: {}", wire->name(), why)});
  };
  if (wire->capabilities().link != LinkType::ethernet) return wrong("TCP over a wire requires Ethernet");
  if (wire->capabilities().virtual_time) return wrong("TCP over a wire requires a real-time wire");
  const HostOptions host{.mac = options.mac, .addresses = {options.address}};
  if (auto free = check_not_owned(wire->name(), host); !free) return tl::unexpected(free.error());
  lwip::start();
  auto made = std::make_unique<HostOverWire>(std::move(wire), options);
  if (!made->start())
    return tl::unexpected(WireError{WireError::Kind::full, 0, made->name() + ": too many hosts in this process"});
  return made;
}
}  // namespace rdmawire::replay
