#include "replay/streams/tcp_over_wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>

// Debian's lwipopts.h declares the core's lock without saying that it is C's.
extern "C" {
#include <lwip/ip4.h>
#include <lwip/ip6.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/tcp.h>
#include <lwip/tcpip.h>
}

#include "dissectors/protocol/ethernet.hpp"
#include "replay/streams/tcp_packet.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/sending.hpp"

// lwIP's structures depend on how it was built.
static_assert(!NO_SYS && LWIP_TCPIP_CORE_LOCKING && LWIP_CALLBACK_API && LWIP_IPV4 && LWIP_IPV6 && TCP_QUEUE_OOSEQ,
              "lwIP is to be built as Debian does it");

namespace rdmawire::replay {
namespace {

using namespace std::chrono_literals;
using End = TcpPacket::End;

constexpr std::int64_t glance = 50'000'000;              // between two looks at whether to end, nanoseconds
constexpr std::int64_t patience = 20'000'000;            // for a wire that is full
constexpr std::int64_t window_patience = 2'000'000'000;  // for a window, before it is probed
constexpr std::int64_t window_end = 60'000'000'000;      // for a window that never opens
constexpr std::uint32_t least_mss = 88, most_mss = 65'495;
constexpr std::size_t most_unaccepted = 128, most_connections = 4096, most_time_waits = 256, most_neighbours = 1024;
constexpr std::uint16_t first_port = 49'152;

/// lwIP is the process's, and one thread at a time is in it: whoever has this. All that is below is used with it.
class Core {
 public:
  Core() { LOCK_TCPIP_CORE(); }
  ~Core() { UNLOCK_TCPIP_CORE(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
};

class Stack;

/// All hosts of the process. lwIP would tell those apart that have the same address neither by their listening ports
/// nor when it resets what it does not know: inside, each host has an address that is its own alone.
class Stacks {
 public:
  /// With the core. Never destroyed: lwIP's thread goes on until the process ends.
  static Stacks& all() {
    static Stacks& one = *new Stacks;
    return one;
  }
  /// Without the core. Starts lwIP, once.
  static void start() {
    static std::once_flag once;
    std::call_once(once, [] {
      std::promise<void> ready;
      tcpip_init([](void* told) { static_cast<std::promise<void>*>(told)->set_value(); }, &ready);
      ready.get_future().wait();
      const Core core;
      all().prepare();
    });
  }
  /// Nothing when there are too many.
  std::optional<std::uint16_t> add(Stack& stack) {
    for (std::size_t tries = 0; tries <= 0xffff; ++tries) {
      const std::uint16_t number = next_++;
      if (number > 1 && stacks_.size() < most_stacks && stacks_.emplace(number, &stack).second) return number;
    }
    return std::nullopt;
  }
  void remove(std::uint16_t number) { stacks_.erase(number); }
  /// Whose packet this is, which has the inside address as its source.
  [[nodiscard]] Stack* sender(const IpAddress& source) const {
    const auto found =
        stacks_.find(static_cast<std::uint16_t>(load_be<2>(source.octets.data() + (source.v6 ? 14 : 2))));
    return found == stacks_.end() ? nullptr : found->second;
  }
  /// In 240.0.0.0/4, which nobody has (RFC 1112, 4), and in the addresses of documentation (RFC 3849).
  static IpAddress inside(std::uint16_t number, bool v6) {
    if (!v6) return IpAddress::v4(0xf0000000U | number);
    IpAddress address{true, {0x20, 0x01, 0x0d, 0xb8}};
    store_be(address.octets.data() + 14, 2, number);
    return address;
  }
  /// Up, with an inside address; packets to it are taken, and what comes from it goes by sender().
  static bool set_up(netif& interface, const IpAddress& address);

 private:
  void prepare() {
    // The way of all packets whose end does not name one, resets: where they go is seen from their source.
    set_up(default_, inside(1, false));
    netif_set_default(&default_);
  }

  static constexpr std::size_t most_stacks = 200;  // lwIP numbers 254 interfaces
  std::map<std::uint16_t, Stack*> stacks_;
  std::uint16_t next_ = 2;
  netif default_{};
};

ip_addr_t to_lwip(const IpAddress& address) {
  ip_addr_t made{};
  if (address.v6) {
    made.type = IPADDR_TYPE_V6;
    std::copy_n(address.octets.begin(), 16, reinterpret_cast<std::uint8_t*>(made.u_addr.ip6.addr));
  } else {
    made.type = IPADDR_TYPE_V4;
    std::copy_n(address.octets.begin(), 4, reinterpret_cast<std::uint8_t*>(&made.u_addr.ip4.addr));
  }
  return made;
}
IpAddress from_lwip(const ip_addr_t& address) {
  if (address.type == IPADDR_TYPE_V6)
    return IpAddress::of_v6(Bytes(reinterpret_cast<const std::uint8_t*>(address.u_addr.ip6.addr), 16));
  return IpAddress::v4(lwip_ntohl(address.u_addr.ip4.addr));
}

/// A connection in the stack. lwIP frees what it is behind it (`pcb`) without a word when nobody is to be told.
class Connection {
 public:
  Connection(Stack& stack, tcp_pcb* pcb);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// What lwIP has of it; nullptr: it is over, or waits for its time to be over.
  [[nodiscard]] tcp_pcb* live() const;
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

struct ListeningPort {
  ListeningPort() = default;
  ListeningPort(const ListeningPort&) = delete;
  ListeningPort& operator=(const ListeningPort&) = delete;
  ~ListeningPort() {
    if (pcb != nullptr) tcp_close(pcb);
  }
  Stack* stack = nullptr;
  tcp_pcb* pcb = nullptr;
  std::uint32_t mss = 0;
  std::deque<std::unique_ptr<Connection>> made;
};

/// What a host is, without its waiting.
class Stack {
 public:
  Stack(std::unique_ptr<Wire> wire, TcpOverWireOptions options)
      : options_(std::move(options)),
        wire_(std::move(wire)),
        host_({.mac = options_.mac, .addresses = {options_.address}}) {}
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() {
    ends_ = true;
    if (reader_.joinable()) reader_.join();
    if (number_ == 0) return;
    const Core core;
    ports_.clear();
    while (tcp_pcb* left = oldest_of(tcp_active_pcbs)) tcp_abort(left);
    while (tcp_pcb* left = oldest_of(tcp_tw_pcbs)) tcp_abort(left);
    netif_remove(&interface_);
    Stacks::all().remove(number_);
  }

  bool start() {
    const Core core;
    const auto number = Stacks::all().add(*this);
    if (!number) return false;
    number_ = *number;
    inside_ = Stacks::inside(number_, options_.address.v6);
    if (!Stacks::set_up(interface_, inside_)) return false;
    StationOutput output;
    host_.announce(output);
    say(output);
    reader_ = std::thread([this] { read(); });
    return true;
  }

  // For lwIP.

  /// An IP packet that is to leave.
  void leaves(pbuf& from) {
    std::vector<std::uint8_t> frame(Ethernet::size + from.tot_len);
    const MutableBytes packet = MutableBytes(frame).subspan(Ethernet::size);
    pbuf_copy_partial(&from, packet.data(), from.tot_len, 0);
    const auto tcp = TcpPacket::find(packet);
    if (!tcp) return;
    tcp->set_address(packet, End::source, options_.address);
    if (tcp->first && (tcp->flags(packet) & TcpPacket::syn) != 0) {
      const auto announced = announced_.find(tcp->source_port(packet));
      if (announced != announced_.end()) tcp->set_announced_mss(packet, static_cast<std::uint16_t>(announced->second));
    }
    const auto to = mac_of(tcp->address(packet, End::destination));
    if (!to) return;
    store_be(frame.data(), 6, *to);
    store_be(frame.data() + 6, 6, options_.mac);
    store_be(frame.data() + 12, 2, tcp->v6 ? ethertype::ipv6 : ethertype::ipv4);
    const std::int64_t time = wire_->now();
    const Outgoing outgoing{frame, 0};
    Wire& out = restrained_ ? static_cast<Wire&>(*restrained_) : *wire_;
    const auto sent = send_all(out, {&outgoing, 1}, time + patience);
    if (!sent)
      trouble_ = sent.error();
    else if (*sent == 1)
      trouble_.reset();
    // What a restrained wire held back left after that.
    if (sent && *sent == 1) keep({restrained_ ? wire_->now() : time, true, std::move(frame)});
  }

  static err_t accepted(void* port_of, tcp_pcb* pcb, err_t error) {
    auto& port = *static_cast<ListeningPort*>(port_of);
    if (pcb == nullptr || error != ERR_OK) return ERR_VAL;
    if (port.made.size() >= most_unaccepted) return ERR_MEM;  // it is reset
    auto made = std::make_unique<Connection>(*port.stack, pcb);
    made->establish();
    port.made.push_back(std::move(made));
    port.stack->tell();
    return ERR_OK;
  }

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
  [[nodiscard]] bool interrupted() const { return interrupted_; }

  [[nodiscard]] const std::string& name() const { return wire_->name(); }
  [[nodiscard]] std::int64_t now() const { return wire_->now(); }
  /// Of what lwIP tells.
  [[nodiscard]] std::int64_t time() const { return input_time_.value_or(now()); }
  [[nodiscard]] const TcpOverWireOptions& options() const { return options_; }
  Host& host() { return host_; }
  void say(const StationOutput& output) {
    std::vector<Outgoing> frames;
    for (const StationOutput::Frame& frame : output.frames) frames.push_back({frame.bytes, 0});
    if (const auto sent = send_all(*wire_, frames, wire_->now() + patience); !sent) trouble_ = sent.error();
  }
  /// Why the last frame did not leave.
  [[nodiscard]] const std::optional<WireError>& trouble() const { return trouble_; }
  void forget_trouble() { trouble_.reset(); }
  void restrain(Restraint restraint) { restrained_.emplace(*wire_, std::move(restraint)); }

  /// A new end with our address and a port; 0: one that is free. nullptr: the port is in use.
  tcp_pcb* bound(std::uint16_t port) {
    tcp_pcb* pcb = tcp_new_ip_type(options_.address.v6 ? IPADDR_TYPE_V6 : IPADDR_TYPE_V4);
    if (pcb == nullptr) return nullptr;
    const ip_addr_t own = to_lwip(inside_);
    if (port != 0) {
      if (tcp_bind(pcb, &own, port) == ERR_OK) return pcb;
    } else {
      for (unsigned tries = 0; tries <= 0xffffU - first_port; ++tries) {
        next_port_ = next_port_ < 0xffff ? static_cast<std::uint16_t>(next_port_ + 1) : first_port;
        if (tcp_bind(pcb, &own, next_port_) == ERR_OK) return pcb;
      }
    }
    tcp_close(pcb);
    return nullptr;
  }
  void announce(std::uint16_t port, std::uint32_t mss) { announced_[port] = mss; }
  void forget(std::uint16_t port) {
    if (!ports_.contains(port)) announced_.erase(port);
    // Those who wait for their time to be over answer an ACK that was lost; there need not be many.
    std::size_t count = 0;
    for (const tcp_pcb* one = tcp_tw_pcbs; one != nullptr; one = one->next) count += is_ours(*one) ? 1 : 0;
    for (; count > most_time_waits; --count) tcp_abort(oldest_of(tcp_tw_pcbs));
  }

  std::map<std::uint16_t, ListeningPort>& ports() { return ports_; }

  std::vector<PassedFrame> take_passed() {
    std::vector<PassedFrame> taken(std::make_move_iterator(passed_.begin()), std::make_move_iterator(passed_.end()));
    passed_.clear();
    passed_octets_ = 0;
    // What arrived may have waited while something was sent.
    std::stable_sort(taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    return taken;
  }
  [[nodiscard]] std::uint64_t passed_lost() const { return passed_lost_; }

 private:
  [[nodiscard]] bool is_ours(const tcp_pcb& pcb) const { return from_lwip(pcb.local_ip) == inside_; }
  [[nodiscard]] tcp_pcb* oldest_of(tcp_pcb* list) const {
    tcp_pcb* oldest = nullptr;
    for (; list != nullptr; list = list->next)
      if (is_ours(*list)) oldest = list;
    return oldest;
  }

  [[nodiscard]] std::optional<MacAddress> mac_of(const IpAddress& address) const {
    if (const auto known = host_.neighbour(address)) return known;
    const auto heard = heard_.find(address);
    return heard == heard_.end() ? std::nullopt : std::optional(heard->second);
  }

  void keep(PassedFrame frame) {
    passed_octets_ += frame.frame.size();
    passed_.push_back(std::move(frame));
    while (passed_octets_ > options_.passed_octets && !passed_.empty()) {
      passed_octets_ -= passed_.front().frame.size();
      passed_.pop_front();
      ++passed_lost_;
    }
  }

  void read() {
    while (!ends_) {
      std::int64_t until = wire_->now() + glance;
      {
        const Core core;
        until = std::min(until, host_.wakes());
      }
      const auto received = wire_->receive(until);
      {
        const Core core;
        if (!received) {
          failed_ = received.error();
        } else if (*received && !(*received)->own) {
          arrived(**received);
        }
        StationOutput output;
        if (host_.wakes() <= wire_->now()) host_.woken(wire_->now(), output);
        say(output);
      }
      tell();
      if (!received) return;
    }
  }

  void arrived(const Received& received) {
    StationOutput output;
    if (host_.takes(received.frame, received.time, output)) {
      say(output);
      return;
    }
    const Bytes frame = received.frame;
    if (frame.size() < Ethernet::size) return;
    const View<Ethernet> link(frame.data());
    if (link.get<"dst">() != options_.mac) return;
    const std::uint16_t type = link.get<"type">();
    const auto tcp = TcpPacket::find(frame.subspan(Ethernet::size));
    if (!tcp || type != (tcp->v6 ? ethertype::ipv6 : ethertype::ipv4)) return;
    const Bytes packet = frame.subspan(Ethernet::size, tcp->octets);
    if (tcp->address(packet, End::destination) != options_.address) return;
    const IpAddress from = tcp->address(packet, End::source);
    if (heard_.size() >= most_neighbours) heard_.clear();
    heard_[from] = link.get<"src">();
    keep({received.time, false, {frame.begin(), frame.end()}});
    if ((tcp->flags(packet) & (TcpPacket::syn | TcpPacket::ack)) == TcpPacket::syn && too_many()) return;

    pbuf* inside = pbuf_alloc(PBUF_RAW, static_cast<u16_t>(packet.size()), PBUF_RAM);
    if (inside == nullptr) return;
    const MutableBytes copy(static_cast<std::uint8_t*>(inside->payload), packet.size());
    std::copy(packet.begin(), packet.end(), copy.begin());
    tcp->set_address(copy, End::destination, inside_);
    // They take the packet with them.
    input_time_ = received.time;
    if (tcp->v6)
      ip6_input(inside, &interface_);
    else
      ip4_input(inside, &interface_);
    input_time_.reset();
  }
  [[nodiscard]] bool too_many() const {
    std::size_t count = 0;
    for (const tcp_pcb* one = tcp_active_pcbs; one != nullptr; one = one->next) count += is_ours(*one) ? 1 : 0;
    return count >= most_connections;
  }

  const TcpOverWireOptions options_;
  const std::unique_ptr<Wire> wire_;
  std::optional<RestrainedWire> restrained_;  ///< in front of it
  Host host_;
  std::uint16_t number_ = 0;
  IpAddress inside_;
  netif interface_{};
  std::optional<std::int64_t> input_time_;  ///< of the frame that lwIP is at
  std::uint16_t next_port_ =
      first_port +
      static_cast<std::uint16_t>(std::chrono::system_clock::now().time_since_epoch().count() / 1000 % 16'000);
  std::map<IpAddress, MacAddress> heard_;
  std::map<std::uint16_t, std::uint32_t> announced_;  ///< the MSS, by our ports
  std::map<std::uint16_t, ListeningPort> ports_;
  std::deque<PassedFrame> passed_;
  std::size_t passed_octets_ = 0;
  std::uint64_t passed_lost_ = 0;
  std::optional<WireError> failed_, trouble_;

  std::mutex mutex_;  ///< of the next two; taken with the core, or alone
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::atomic<bool> interrupted_ = false, ends_ = false;
  std::thread reader_;
};

err_t leaves(netif* /*interface*/, pbuf* packet) {
  std::array<std::uint8_t, 40> start{};
  const u16_t got = pbuf_copy_partial(packet, start.data(), start.size(), 0);
  const bool v6 = start[0] >> 4 == 6;
  if (got < (v6 ? 40 : 20)) return ERR_OK;
  const IpAddress source = v6 ? IpAddress::of_v6(Bytes(start).subspan(8, 16))
                              : IpAddress::v4(static_cast<std::uint32_t>(load_be<4>(start.data() + 12)));
  // What did not leave is lost, as on any wire: TCP sends it again.
  if (Stack* stack = Stacks::all().sender(source)) stack->leaves(*packet);
  return ERR_OK;
}

bool Stacks::set_up(netif& interface, const IpAddress& address) {
  constexpr u16_t mtu = 1500;
  const auto begin = [](netif* made) -> err_t {
    made->name[0] = 'r';
    made->name[1] = 'w';
    made->mtu = made->mtu6 = mtu;
    made->output = [](netif* out, pbuf* packet, const ip4_addr_t*) { return leaves(out, packet); };
    made->output_ip6 = [](netif* out, pbuf* packet, const ip6_addr_t*) { return leaves(out, packet); };
    return ERR_OK;
  };
  const ip_addr_t own = to_lwip(address);
  ip4_addr_t none{}, exactly{0xffffffff};
  if (netif_add(&interface, address.v6 ? &none : ip_2_ip4(&own), &exactly, &none, nullptr, begin, ip_input) == nullptr)
    return false;
  if (address.v6) {
    netif_ip6_addr_set(&interface, 0, ip_2_ip6(&own));
    netif_ip6_addr_set_state(&interface, 0, IP6_ADDR_PREFERRED);
  }
  netif_set_link_up(&interface);
  netif_set_up(&interface);
  return true;
}

Connection::Connection(Stack& stack, tcp_pcb* pcb) : stack_(stack), pcb_(pcb) {
  tcp_arg(pcb, this);
  tcp_recv(pcb, &Connection::received);
  tcp_err(pcb, &Connection::failed);
  tcp_nagle_disable(pcb);
  local = {stack.options().address, pcb->local_port};
}

Connection::~Connection() {
  if (tcp_pcb* pcb = live()) {
    tcp_err(pcb, nullptr);
    tcp_arg(pcb, nullptr);
    tcp_recv(pcb, nullptr);
    if (pcb->state == SYN_SENT)
      tcp_close(pcb);  // nobody is there to be told
    else if (!fin_sent || !fin_came)
      tcp_abort(pcb);
  }
  stack_.forget(local.port);
}

tcp_pcb* Connection::live() const {
  if (pcb_ == nullptr) return nullptr;
  for (tcp_pcb* one = tcp_active_pcbs; one != nullptr; one = one->next)
    if (one == pcb_ && one->callback_arg == this) return one;
  return nullptr;
}

void Connection::establish() {
  established = true;
  mss = tcp_mss(pcb_);
  remote = {from_lwip(pcb_->remote_ip), pcb_->remote_port};
}

err_t Connection::received(void* self, tcp_pcb* pcb, pbuf* data, err_t /*error*/) {
  if (self == nullptr) {
    if (data != nullptr) pbuf_free(data);
    return ERR_OK;
  }
  auto& connection = *static_cast<Connection*>(self);
  TcpArrival arrival{.time = connection.stack_.time()};
  if (data != nullptr) {
    arrival.octets.resize(data->tot_len);
    pbuf_copy_partial(data, arrival.octets.data(), data->tot_len, 0);
    pbuf_free(data);
    tcp_set_flags(pcb, TF_ACK_NOW);
  } else {
    arrival.kind = TcpArrival::Kind::fin;
    connection.fin_came = true;
  }
  connection.arrivals.push_back(std::move(arrival));
  return ERR_OK;
}

void Connection::failed(void* self, err_t error) {
  if (self == nullptr) return;
  auto& connection = *static_cast<Connection*>(self);
  connection.pcb_ = nullptr;  // lwIP has freed it
  connection.over = true;
  connection.error = error;
  if (connection.established && !(connection.fin_sent && connection.fin_came))
    connection.arrivals.push_back({.kind = TcpArrival::Kind::reset, .time = connection.stack_.time()});
  connection.stack_.tell();
}

class ConnectionOverWire final : public TcpConnection {
 public:
  ConnectionOverWire(Stack& stack, std::unique_ptr<Connection> connection)
      : stack_(stack), connection_(std::move(connection)) {}
  ~ConnectionOverWire() override {
    const Core core;
    connection_.reset();
  }

  WireResult<void> send(Bytes octets) override {
    do {
      const Bytes segment = octets.first(std::min<std::size_t>(octets.size(), send_mss()));
      if (auto sent = send_segment(segment); !sent) return sent;
      octets = octets.subspan(segment.size());
    } while (!octets.empty());
    return {};
  }

  WireResult<void> close_half() override {
    if (connection_->fin_sent) return {};
    // Apart from what was sent before.
    if (auto gone = all_left(); !gone) return gone;
    const Core core;
    tcp_pcb* pcb = connection_->live();
    if (pcb == nullptr) return tl::unexpected(is_over());
    if (tcp_shutdown(pcb, 0, 1) != ERR_OK)
      return tl::unexpected(WireError{WireError::Kind::system, 0, text() + ": lwIP could not send a FIN"});
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
      if (pcb != nullptr && !arrival->octets.empty()) tcp_recved(pcb, static_cast<u16_t>(arrival->octets.size()));
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
    return {WireError::Kind::full, 0,
            fmt::format("{}: the other end's window does not take what was sent, for {} s", text(),
                        window_end / 1'000'000'000)};
  }

  /// Until lwIP keeps nothing back that was to be sent.
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
      // lwIP would put it into a segment that has not left.
      if (pcb->unsent != nullptr || tcp_sndbuf(pcb) < segment.size()) return false;
      const std::uint32_t in_flight = pcb->snd_lbb - pcb->lastack;
      // A window that stays closed is probed, by lwIP once it has something to send.
      if (in_flight + segment.size() > pcb->snd_wnd && stack_.now() < probe) return false;
      // Neither half a window nor what the net is thought to bear holds a segment back or cuts it.
      pcb->snd_wnd_max = std::max<tcpwnd_size_t>(pcb->snd_wnd_max, 2U * pcb->mss);
      pcb->cwnd = std::max<tcpwnd_size_t>(pcb->cwnd, in_flight + 2U * pcb->mss);
      if (tcp_write(pcb, segment.data(), static_cast<u16_t>(segment.size()), TCP_WRITE_FLAG_COPY) != ERR_OK)
        return false;  // so many segments are not acknowledged
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
  HostOverWire(std::unique_ptr<Wire> wire, TcpOverWireOptions options) : stack_(std::move(wire), std::move(options)) {}
  bool start() { return stack_.start(); }

  [[nodiscard]] const std::string& name() const override { return stack_.name(); }
  [[nodiscard]] const IpAddress& address() const override { return stack_.options().address; }
  [[nodiscard]] std::int64_t now() const override { return stack_.now(); }
  void interrupt() override { stack_.interrupt(); }

  WireResult<MacAddress> resolve(const IpAddress& address, std::int64_t deadline) override {
    {
      const Core core;
      StationOutput output;
      stack_.host().resolve(address, now(), output);
      stack_.say(output);
    }
    std::optional<MacAddress> mac;
    const auto waited = stack_.wait(deadline, [&] {
      mac = stack_.host().neighbour(address);
      return mac || stack_.host().unreachable(address);
    });
    if (!waited) return tl::unexpected(waited.error());
    if (mac) return *mac;
    return tl::unexpected(WireError{WireError::Kind::missing, 0,
                                    with_trouble(fmt::format("{}: nobody answers for {}; is it up, and on this link?",
                                                             name(), to_string(address)))});
  }
  void restrain(Restraint restraint) override {
    const Core core;
    stack_.restrain(std::move(restraint));
  }

  WireResult<std::unique_ptr<TcpConnection>> connect(const TcpAddress& to, const TcpOptions& options,
                                                     std::int64_t deadline) override {
    const std::string what = fmt::format("{}: connecting to {} port {}", name(), to_string(to.address), to.port);
    const auto failed = [&](WireError::Kind kind, std::string_view why) {
      return tl::unexpected(WireError{kind, 0, fmt::format("{}: {}", what, why)});
    };
    if (auto good = check(options); !good) return tl::unexpected(good.error());
    if (to.port == 0 || to.address.v6 != address().v6 || is_link_local(to.address))
      return failed(WireError::Kind::unsupported,
                    fmt::format("from {} it cannot be reached; an address of the same version and scope, and a port "
                                "that is not 0, can",
                                to_string(address())));
    if (auto mac = resolve(to.address, deadline); !mac) return tl::unexpected(mac.error());
    std::unique_ptr<Connection> made;
    // It goes with the core, however this ends.
    const auto give_up = [&] {
      const Core core;
      made.reset();
    };
    {
      const Core core;
      stack_.forget_trouble();
      tcp_pcb* pcb = stack_.bound(0);
      if (pcb == nullptr) return failed(WireError::Kind::full, "no port is free for it");
      made = std::make_unique<Connection>(stack_, pcb);
      stack_.announce(pcb->local_port, options.mss);
      made->remote = to;
      const ip_addr_t remote = to_lwip(to.address);
      const auto connected = [](void* self, tcp_pcb*, err_t) -> err_t {
        if (self != nullptr) static_cast<Connection*>(self)->establish();
        return ERR_OK;
      };
      if (tcp_connect(pcb, &remote, to.port, connected) != ERR_OK) {
        tcp_err(pcb, nullptr);
        tcp_abort(pcb);
        made.reset();
        return failed(WireError::Kind::system, "lwIP could not begin");
      }
    }
    bool refused = false, forbidden = false;
    const auto waited = stack_.wait(deadline, [&] {
      refused = made->over;
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
                    error == ERR_RST ? "it was refused; does somebody listen there?" : "nobody answered");
    const Core core;
    if (forbidden) return tl::unexpected(*stack_.trouble());
    return failed(WireError::Kind::missing, with_trouble_held("nobody answered in time"));
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
          WireError{WireError::Kind::specification, 0, fmt::format("{}: nobody listens on TCP port {}", name(), port)});
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
                                    fmt::format("{}: an MSS of {} octets cannot be announced; {} to {} can", name(),
                                                options.mss, least_mss, most_mss)});
  }
  static bool is_link_local(const IpAddress& address) {
    return address.v6 && address.octets[0] == 0xfe && (address.octets[1] & 0xc0) == 0x80;
  }
  /// With the core.
  [[nodiscard]] std::string with_trouble_held(std::string text) const {
    if (stack_.trouble()) text += "; at last " + stack_.trouble()->message;
    return text;
  }
  [[nodiscard]] std::string with_trouble(std::string text) const {
    const Core core;
    return with_trouble_held(std::move(text));
  }

  Stack stack_;
};

}  // namespace

WireResult<std::unique_ptr<TcpOverWire>> TcpOverWire::make(std::unique_ptr<Wire> wire, TcpOverWireOptions options) {
  const auto wrong = [&](std::string_view why) {
    return tl::unexpected(WireError{WireError::Kind::unsupported, 0, fmt::format("{}: {}", wire->name(), why)});
  };
  if (wire->capabilities().link != LinkType::ethernet) return wrong("TCP over a wire needs Ethernet");
  if (wire->capabilities().virtual_time) return wrong("TCP over a wire lives in real time, and this one does not");
  const HostOptions host{.mac = options.mac, .addresses = {options.address}};
  if (auto free = check_not_owned(wire->name(), host); !free) return tl::unexpected(free.error());
  Stacks::start();
  auto made = std::make_unique<HostOverWire>(std::move(wire), std::move(options));
  if (!made->start())
    return tl::unexpected(WireError{WireError::Kind::full, 0, made->name() + ": this process has too many hosts"});
  return made;
}
}  // namespace rdmawire::replay
