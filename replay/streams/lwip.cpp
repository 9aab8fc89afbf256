#include <array>
#include <future>
#include <iterator>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/streams/lwip_state.hpp"
#include "replay/streams/tcp_packet.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay::lwip {
namespace {

using End = TcpPacket::End;

constexpr std::int64_t glance = 50'000'000;    // interval between checks of the stop flag, nanoseconds
constexpr std::int64_t patience = 20'000'000;  // limit for a full wire
constexpr std::size_t most_unaccepted = 128, most_connections = 4096, most_time_waits = 256, most_neighbors = 1024;

/// All hosts of the process. lwIP does not distinguish hosts with equal addresses for listening ports and for resets.
/// Therefore each host has a unique internal address in lwIP.
class Stacks {
 public:
  /// Requires the core lock. Never destroyed, because lwIP's thread runs until the process exits.
  static Stacks& all() {
    static Stacks& one = *new Stacks;
    return one;
  }
  /// Call without the core lock. Starts lwIP once.
  static void start() {
    static std::once_flag once;
    std::call_once(once, [] {
      std::promise<void> ready;
      tcpip_init([](void* promise) { static_cast<std::promise<void>*>(promise)->set_value(); }, &ready);
      ready.get_future().wait();
      const Core core;
      all().prepare();
    });
  }
  /// Returns nullopt if there are too many hosts.
  std::optional<std::uint16_t> add(Stack& stack) {
    for (std::size_t tries = 0; tries <= 0xffff; ++tries) {
      const std::uint16_t number = next_++;
      if (number > 1 && stacks_.size() < most_stacks && stacks_.emplace(number, &stack).second) return number;
    }
    return std::nullopt;
  }
  void remove(std::uint16_t number) { stacks_.erase(number); }
  /// The host with this internal source address.
  [[nodiscard]] Stack* sender(const IpAddress& source) const {
    const auto found =
        stacks_.find(static_cast<std::uint16_t>(load_be<2>(source.storage.data() + (source.v6 ? 14 : 2))));
    return found == stacks_.end() ? nullptr : found->second;
  }
  /// Internal addresses are in 240.0.0.0/4 (reserved, RFC 1112, 4) or in the documentation prefix (RFC 3849).
  static IpAddress inside(std::uint16_t number, bool v6) {
    if (!v6) return IpAddress::v4(0xf0000000U | number);
    IpAddress address{true, {0x20, 0x01, 0x0d, 0xb8}};
    store_be(address.storage.data() + 14, 2, number);
    return address;
  }
  /// Enables the interface with an internal address. Its outgoing packets are routed by sender().
  static bool set_up(netif& interface, const IpAddress& address);

 private:
  void prepare() {
    // Resets without a connection use the default interface. sender() finds their host by the source address.
    set_up(default_, inside(1, false));
    netif_set_default(&default_);
  }

  static constexpr std::size_t most_stacks = 200;  // lwIP supports 254 interfaces
  std::map<std::uint16_t, Stack*> stacks_;
  std::uint16_t next_ = 2;
  netif default_{};
};

IpAddress from_lwip(const ip_addr_t& address) {
  if (address.type == IPADDR_TYPE_V6)
    return IpAddress::of_v6(Bytes(reinterpret_cast<const std::uint8_t*>(address.u_addr.ip6.addr), 16));
  return IpAddress::v4(lwip_ntohl(address.u_addr.ip4.addr));
}

err_t leaves(netif* /*interface*/, pbuf* packet) {
  std::array<std::uint8_t, 40> start{};
  const u16_t got = pbuf_copy_partial(packet, start.data(), start.size(), 0);
  const bool v6 = start[0] >> 4 == 6;
  if (got < (v6 ? 40 : 20)) return ERR_OK;
  const IpAddress source = v6 ? IpAddress::of_v6(Bytes(start).subspan(8, 16))
                              : IpAddress::v4(static_cast<std::uint32_t>(load_be<4>(start.data() + 12)));
  // A frame that cannot be sent is lost. TCP retransmits it.
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

}  // namespace

ip_addr_t to_lwip(const IpAddress& address) {
  ip_addr_t made{};
  if (address.v6) {
    made.type = IPADDR_TYPE_V6;
    std::copy_n(address.storage.begin(), 16, reinterpret_cast<std::uint8_t*>(made.u_addr.ip6.addr));
  } else {
    made.type = IPADDR_TYPE_V4;
    std::copy_n(address.storage.begin(), 4, reinterpret_cast<std::uint8_t*>(&made.u_addr.ip4.addr));
  }
  return made;
}

void start() { Stacks::start(); }

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
      tcp_close(pcb);  // without notification
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
    arrival.bytes.resize(data->tot_len);
    pbuf_copy_partial(data, arrival.bytes.data(), data->tot_len, 0);
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

Stack::~Stack() {
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

bool Stack::start() {
  const Core core;
  const auto number = Stacks::all().add(*this);
  if (!number) return false;
  number_ = *number;
  inside_ = Stacks::inside(number_, options_.address.v6);
  if (!Stacks::set_up(interface_, inside_)) return false;
  SimulatedHostOutput output;
  host_.announce(output);
  say(output);
  reader_ = std::thread([this] { read(); });
  return true;
}

void Stack::leaves(pbuf& from) {
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
  // A rate-limited wire may have sent the frame later than `time`.
  if (sent && *sent == 1) keep({restrained_ ? wire_->now() : time, true, std::move(frame)});
}

err_t Stack::accepted(void* port_of, tcp_pcb* pcb, err_t error) {
  auto& port = *static_cast<ListeningPort*>(port_of);
  if (pcb == nullptr || error != ERR_OK) return ERR_VAL;
  if (port.made.size() >= most_unaccepted) return ERR_MEM;  // lwIP resets the connection
  auto made = std::make_unique<Connection>(*port.stack, pcb);
  made->establish();
  port.made.push_back(std::move(made));
  port.stack->tell();
  return ERR_OK;
}

void Stack::say(const SimulatedHostOutput& output) {
  std::vector<Outgoing> frames;
  for (const SimulatedHostOutput::Frame& frame : output.frames) frames.push_back({frame.bytes, 0});
  if (const auto sent = send_all(*wire_, frames, wire_->now() + patience); !sent) trouble_ = sent.error();
}

tcp_pcb* Stack::bound(std::uint16_t port) {
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

void Stack::forget(std::uint16_t port) {
  if (!ports_.contains(port)) announced_.erase(port);
  // Connections in TIME-WAIT answer retransmitted FINs. Their number is limited.
  std::size_t count = 0;
  for (const tcp_pcb* one = tcp_tw_pcbs; one != nullptr; one = one->next) count += is_ours(*one) ? 1 : 0;
  for (; count > most_time_waits; --count) tcp_abort(oldest_of(tcp_tw_pcbs));
}

std::vector<PassedFrame> Stack::take_passed() {
  std::vector<PassedFrame> taken(std::make_move_iterator(passed_.begin()), std::make_move_iterator(passed_.end()));
  passed_.clear();
  passed_bytes_ = 0;
  // Frames that arrive during a send are appended after the sent frame.
  std::stable_sort(taken.begin(), taken.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  return taken;
}

tcp_pcb* Stack::oldest_of(tcp_pcb* list) const {
  tcp_pcb* oldest = nullptr;
  for (; list != nullptr; list = list->next)
    if (is_ours(*list)) oldest = list;
  return oldest;
}

std::optional<MacAddress> Stack::mac_of(const IpAddress& address) const {
  if (const auto known = host_.neighbor(address)) return known;
  const auto heard = heard_.find(address);
  return heard == heard_.end() ? std::nullopt : std::optional(heard->second);
}

void Stack::keep(PassedFrame frame) {
  passed_bytes_ += frame.frame.size();
  passed_.push_back(std::move(frame));
  while (passed_bytes_ > options_.passed_bytes && !passed_.empty()) {
    passed_bytes_ -= passed_.front().frame.size();
    passed_.pop_front();
    ++passed_lost_;
  }
}

void Stack::read() {
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
      SimulatedHostOutput output;
      if (host_.wakes() <= wire_->now()) host_.woken(wire_->now(), output);
      say(output);
    }
    tell();
    if (!received) return;
  }
}

void Stack::arrived(const Received& received) {
  SimulatedHostOutput output;
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
  const Bytes packet = frame.subspan(Ethernet::size, tcp->bytes);
  if (tcp->address(packet, End::destination) != options_.address) return;
  const IpAddress from = tcp->address(packet, End::source);
  if (heard_.size() >= most_neighbors) heard_.clear();
  heard_[from] = link.get<"src">();
  keep({received.time, false, {frame.begin(), frame.end()}});
  if ((tcp->flags(packet) & (TcpPacket::syn | TcpPacket::ack)) == TcpPacket::syn && too_many()) return;

  if (packet.size() > 0xffff) return;  // lwIP lengths have 16 bits. An IPv6 payload length excludes the header
  pbuf* inside = pbuf_alloc(PBUF_RAW, static_cast<u16_t>(packet.size()), PBUF_RAM);
  if (inside == nullptr) return;
  const MutableBytes copy(static_cast<std::uint8_t*>(inside->payload), packet.size());
  std::copy(packet.begin(), packet.end(), copy.begin());
  tcp->set_address(copy, End::destination, inside_);
  // These functions free the packet.
  input_time_ = received.time;
  if (tcp->v6)
    ip6_input(inside, &interface_);
  else
    ip4_input(inside, &interface_);
  input_time_.reset();
}

bool Stack::too_many() const {
  std::size_t count = 0;
  for (const tcp_pcb* one = tcp_active_pcbs; one != nullptr; one = one->next) count += is_ours(*one) ? 1 : 0;
  return count >= most_connections;
}

bool Stack::is_ours(const tcp_pcb& pcb) const { return from_lwip(pcb.local_ip) == inside_; }

}  // namespace rdmawire::replay::lwip
