#include "replay/wires/packet.hpp"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "dissectors/protocol/encode.hpp"
#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/delivery.hpp"
#include "replay/wires/descriptor.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/frame_limits.hpp"
#include "replay/wires/interface.hpp"
#include "replay/wires/out_of_order.hpp"
#include "replay/wires/sending.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::size_t packet_batch = 64;
constexpr std::uint32_t tag_bytes = Vlan::size;
// The maximum length that the kernel aggregates, with a link header and a restored VLAN tag.
constexpr std::uint32_t slot_bytes = 65'536 + 64;
constexpr int packet_buffer_bytes = 8 << 20;

// Precedes each frame in both directions and describes offloaded work (struct virtio_net_hdr, whose kernel header is
// not valid C++).
struct Offload {
  std::uint8_t flags = 0;  ///< 1: a checksum must be computed
  std::uint8_t joined = 0;
  std::uint16_t header_bytes = 0;
  std::uint16_t segment_bytes = 0;
  std::uint16_t checksum_from = 0;
  std::uint16_t checksum_offset = 0;
};
static_assert(sizeof(Offload) == 10);
constexpr std::uint8_t needs_checksum = 1;

class PacketWire final : public Wire, public DepartureTimes, public FrameLimits, public OutOfOrder {
 public:
  static WireResult<std::unique_ptr<Wire>> open(const PacketWireOptions& options);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] int descriptor() const override { return socket_.get(); }
  [[nodiscard]] WireCounters counters() const override;

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (!socket_) return tl::unexpected(closed_error(name_));
    if (capabilities_.paces) return hand_over(frames.first(std::min(frames.size(), packet_batch)));
    return send_when_due(frames, packet_batch, [this](std::span<const Outgoing> run) { return hand_over(run); });
  }
  WireResult<bool> writable(std::int64_t deadline) override;
  WireResult<bool> flush(std::int64_t deadline) override;
  [[nodiscard]] std::size_t max_bytes_of(Bytes frame) const override {
    return Interface::max_bytes(frame, capabilities_.max_bytes);
  }
  [[nodiscard]] const char* departure_source() const override;
  void read_departures(std::vector<Departure>& departures) override;
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  void close() override { socket_ = {}; }

 private:
  PacketWire() = default;
  WireResult<void> describe(const PacketWireOptions& options);
  WireResult<void> set_up(const PacketWireOptions& options);
  WireResult<void> ask_for_times(const PacketWireOptions& options);
  WireResult<std::size_t> hand_over(std::span<const Outgoing> frames);
  void take(std::size_t slot, const msghdr& message, std::uint32_t length, std::int64_t now, std::int64_t shift);

  [[nodiscard]] WireError failed(std::string_view doing, int number) const { return interface_.failed(doing, number); }

  std::string name_;
  Interface interface_;
  WireCapabilities capabilities_;
  mutable WireCounters counters_;
  Descriptor socket_;
  std::optional<std::int64_t> device_clock_;  ///< offset to add to device timestamps
  Transmission transmission_;
  Delivery delivery_;
  std::uint64_t missed_before_ = 0;  ///< missed launch times that were reported

  struct Slot {
    std::uint32_t offset = 0, bytes = 0, wire_bytes = 0;
    std::int64_t time = 0;
    bool own = false;
  };
  std::vector<std::uint8_t> room_;
  std::array<Offload, packet_batch> offloads_;
  std::array<sockaddr_ll, packet_batch> senders_;
  std::array<Slot, packet_batch> slots_;
  std::size_t next_ = 0, count_ = 0;
  std::int64_t last_time_ = 0;
};

// Reads the properties of the interface.
WireResult<void> PacketWire::describe(const PacketWireOptions& options) {
  auto interface = Interface::find(name_, options.interface);
  if (!interface) return tl::unexpected(interface.error());
  interface_ = std::move(*interface);
  if (auto kind = interface_.check_ethernet(); !kind) return kind;
  capabilities_.max_bytes =
      std::min(interface_.mtu() + static_cast<std::uint32_t>(Ethernet::size) + tag_bytes, slot_bytes - tag_bytes);
  capabilities_.min_bytes = Ethernet::size;
  capabilities_.batch = packet_batch;
  capabilities_.receives = options.receive;
  capabilities_.sees_own = options.receive && !options.incoming;
  capabilities_.bits_per_second = interface_.bits_per_second();
  capabilities_.paces = options.launch != Transmission::Launch::none;
  if (capabilities_.paces) capabilities_.how = "launch times";
  // With `bypass`, a frame that the kernel discards is not accepted.
  if (!options.bypass) delivery_.begin(interface_);
  return {};
}

WireResult<void> PacketWire::ask_for_times(const PacketWireOptions& options) {
  int flags = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  if (options.hardware_time) {
    hwtstamp_config config{};
    config.tx_type = HWTSTAMP_TX_OFF;
    config.rx_filter = HWTSTAMP_FILTER_ALL;
    ifreq r{};
    interface_.name().copy(r.ifr_name, IFNAMSIZ - 1);
    r.ifr_data = reinterpret_cast<char*>(&config);
    if (ioctl(socket_.get(), SIOCSHWTSTAMP, &r) != 0) {
      if (errno == EPERM)
        return tl::unexpected(failed("enable device timestamps (also requires CAP_NET_ADMIN)", errno));
      return tl::unexpected(wire_error(WireError::Kind::unsupported, errno,
                                       "{}: {} cannot timestamp all received frames: {}; remove hwtime to use "
                                       "kernel timestamps",
                                       name_, interface_.name(), errno_text(errno)));
    }
    flags |= SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
    capabilities_.hardware_times = true;
  }
  if (setsockopt(socket_.get(), SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) != 0)
    return tl::unexpected(failed("enable timestamps", errno));
  return {};
}

WireResult<void> PacketWire::set_up(const PacketWireOptions& options) {
  const int on = 1;
  const int socket = socket_.get();
  const auto set = [&](int option, std::string_view doing) -> WireResult<void> {
    if (setsockopt(socket, SOL_PACKET, option, &on, sizeof on) != 0) return tl::unexpected(failed(doing, errno));
    return {};
  };
  if (options.receive) {
    if (auto r = set(PACKET_AUXDATA, "enable VLAN tags"); !r) return r;
    if (auto r = set(PACKET_VNET_HDR, "enable offload headers"); !r) return r;
  }
  if (options.bypass)
    if (auto r = set(PACKET_QDISC_BYPASS, "bypass the queueing discipline"); !r) return r;
  if (options.incoming)
    if (auto r = set(PACKET_IGNORE_OUTGOING, "ignore outgoing frames"); !r) return r;
  if (options.receive)
    if (auto r = ask_for_times(options); !r) return r;
  for (const auto& [forced, plain] : {std::pair{SO_RCVBUFFORCE, SO_RCVBUF}, std::pair{SO_SNDBUFFORCE, SO_SNDBUF}})
    if (setsockopt(socket, SOL_SOCKET, forced, &packet_buffer_bytes, sizeof packet_buffer_bytes) != 0)
      setsockopt(socket, SOL_SOCKET, plain, &packet_buffer_bytes, sizeof packet_buffer_bytes);

  if (options.priority) {
    const int priority = static_cast<int>(*options.priority);
    if (setsockopt(socket, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority) != 0)
      return tl::unexpected(failed("set the priority", errno));
  }
  if (auto r = transmission_.set_up(socket, interface_, options.launch, options.stamps); !r) return r;

  const auto index = static_cast<int>(interface_.index());
  if (options.promiscuous && options.receive) {
    packet_mreq membership{};
    membership.mr_ifindex = index;
    membership.mr_type = PACKET_MR_PROMISC;
    if (setsockopt(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership) != 0)
      return tl::unexpected(failed("enable promiscuous mode", errno));
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = options.receive ? htons(ETH_P_ALL) : 0;
  address.sll_ifindex = index;
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return tl::unexpected(failed("listening", errno));
  return {};
}

WireResult<std::unique_ptr<Wire>> PacketWire::open(const PacketWireOptions& options) {
  std::unique_ptr<PacketWire> wire(new PacketWire());
  wire->name_ = options.name.empty() ? "packet:" + options.interface : options.name;
  if (auto described = wire->describe(options); !described) return tl::unexpected(described.error());
  // Protocol 0: no frames are queued until the setup is complete.
  wire->socket_ = Descriptor(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!wire->socket_) return tl::unexpected(wire->failed("open a packet socket", errno));
  if (auto ready = wire->set_up(options); !ready) return tl::unexpected(ready.error());
  if (auto link = wire->interface_.check_link(); !link) return tl::unexpected(link.error());
  if (options.receive) wire->room_.resize(packet_batch * slot_bytes);
  return std::unique_ptr<Wire>(std::move(wire));
}

WireResult<std::size_t> PacketWire::hand_over(std::span<const Outgoing> frames) {
  if (auto link = interface_.check_link(); !link) return tl::unexpected(link.error());
  static constexpr Offload nothing_left{};
  std::array<mmsghdr, packet_batch> messages{};
  std::array<std::array<iovec, 2>, packet_batch> pieces;
  std::array<Transmission::Control, packet_batch> controls;
  transmission_.read(socket_.get());
  if (capabilities_.paces) transmission_.begin_batch();
  // The kernel numbers frames with a timestamp. With single frames, an error belongs to a known one.
  if (transmission_.stamps() != Transmission::Stamps::none) frames = frames.first(1);
  std::size_t count = 0;
  for (; count < frames.size(); ++count) {
    const Bytes frame = frames[count].frame;
    const std::size_t most = Interface::max_bytes(frame, capabilities_.max_bytes);
    if (frame.size() < capabilities_.min_bytes || frame.size() > most) {
      if (count > 0) break;
      return tl::unexpected(
          interface_.wrong_length(frame, capabilities_.min_bytes, most, "interface MTU plus Ethernet header"));
    }
    pieces[count] = {iovec{const_cast<Offload*>(&nothing_left), sizeof nothing_left},
                     iovec{const_cast<std::uint8_t*>(frame.data()), frame.size()}};
    // The offload header is used in both directions or in neither.
    messages[count].msg_hdr.msg_iov = pieces[count].data() + (capabilities_.receives ? 0 : 1);
    messages[count].msg_hdr.msg_iovlen = capabilities_.receives ? 2 : 1;
    if (capabilities_.paces) transmission_.set_time(messages[count].msg_hdr, controls[count], frames[count].time);
  }
  const int sent = sendmmsg(socket_.get(), messages.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == ENOBUFS) transmission_.refused();
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR) return 0;
    if (errno == EMSGSIZE)
      return tl::unexpected(wire_error(WireError::Kind::frame, errno,
                                       "{}: frame of {} bytes exceeds the limit of the interface", name_,
                                       frames.front().frame.size()));
    return tl::unexpected(failed("sending", errno));
  }
  for (int i = 0; i < sent; ++i) counters_.sent_bytes += frames[static_cast<std::size_t>(i)].frame.size();
  counters_.sent += static_cast<std::uint64_t>(sent);
  delivery_.accepted();
  for (int i = 0; i < sent; ++i) transmission_.accepted();
  return static_cast<std::size_t>(sent);
}

// Waits until the kernel and the driver have released all frames. Reports accepted frames that were discarded.
WireResult<bool> PacketWire::flush(std::int64_t deadline) {
  if (!socket_) return tl::unexpected(closed_error(name_));
  constexpr std::int64_t pause = 20'000;
  bool empty = false;
  WireResult<void> link;
  for (;;) {
    transmission_.read(socket_.get());
    int bytes = 0;
    empty = ioctl(socket_.get(), SIOCOUTQ, &bytes) != 0 || bytes == 0;
    if (empty || now() >= deadline) break;
    if (link = interface_.check_link(); !link) break;
    wire_clock::sleep_until(std::min(deadline, now() + pause));
  }
  transmission_.read(socket_.get());
  auto checked = delivery_.check(interface_, counters_, empty, link, deadline);
  const std::uint64_t missed = transmission_.missed() - missed_before_;
  if (missed == 0) return checked;
  missed_before_ = transmission_.missed();
  return tl::unexpected(wire_error(WireError::Kind::system, 0,
                                   "{}: {} frames missed their launch times and were discarded (check the queueing "
                                   "discipline with tc qdisc show dev {}, and its clock)",
                                   name_, missed, interface_.name()));
}

const char* PacketWire::departure_source() const {
  using Stamps = Transmission::Stamps;
  return transmission_.stamps() == Stamps::none     ? nullptr
         : transmission_.stamps() == Stamps::device ? "device"
                                                    : "kernel";
}

void PacketWire::read_departures(std::vector<Departure>& departures) {
  if (socket_) transmission_.read(socket_.get());
  auto& read = transmission_.departures();
  departures.insert(departures.end(), read.begin(), read.end());
  read.clear();
}

WireResult<bool> PacketWire::writable(std::int64_t deadline) {
  if (!socket_) return tl::unexpected(closed_error(name_));
  if (auto link = interface_.check_link(); !link) return tl::unexpected(link.error());
  transmission_.read(socket_.get());
  constexpr std::int64_t most_rejecting = 1'000'000'000;
  if (transmission_.rejecting_since() != 0 && now() - transmission_.rejecting_since() > most_rejecting)
    return tl::unexpected(wire_error(WireError::Kind::system, EINVAL,
                                     "{}: the queueing discipline rejects the launch times (compare its clock and its "
                                     "mode in tc qdisc show dev {} with the option launch)",
                                     name_, interface_.name()));
  if (!wire_clock::wait_for(socket_.get(), POLLOUT, deadline)) return false;
  // The socket stays writable while the device queue is full, so wait for the duration of a few frames.
  wire_clock::sleep_until(std::min(deadline, now() + 20'000));
  return true;
}

// Restores the VLAN tag and the offloaded checksum of a received frame.
void PacketWire::take(std::size_t slot, const msghdr& message, std::uint32_t length, std::int64_t now,
                      std::int64_t shift) {
  Slot& frame = slots_[slot];
  const auto header = static_cast<std::uint32_t>(sizeof(Offload));
  frame.offset = static_cast<std::uint32_t>(slot) * slot_bytes + tag_bytes;
  frame.wire_bytes = length > header ? length - header : 0;
  frame.bytes = std::min(frame.wire_bytes, slot_bytes - tag_bytes);
  frame.own = senders_[slot].sll_pkttype == PACKET_OUTGOING;
  frame.time = now;
  std::uint8_t* bytes = room_.data() + frame.offset;

  const Offload& offload = offloads_[slot];
  if (offload.flags & needs_checksum) {
    const std::uint32_t from = offload.checksum_from, at = from + offload.checksum_offset;
    if (from <= frame.bytes && at + 2 <= frame.bytes) {
      // The field contains the sum of the pseudo header.
      const std::uint16_t sum = internet_checksum(Bytes(bytes + from, frame.bytes - from));
      store_be(bytes + at, 2, sum == 0 ? 0xffff : sum);
    }
  }
  for (const cmsghdr* c = CMSG_FIRSTHDR(&message); c;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(c))) {
    if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA) {
      tpacket_auxdata aux;
      std::memcpy(&aux, CMSG_DATA(c), sizeof aux);
      if (!(aux.tp_status & TP_STATUS_VLAN_VALID) || frame.bytes < 12) continue;
      std::memmove(bytes - tag_bytes, bytes, 12);
      store_be(bytes + 8, 2, aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETH_P_8021Q);
      store_be(bytes + 10, 2, aux.tp_vlan_tci);
      frame.offset -= tag_bytes;
      frame.bytes += tag_bytes;
      frame.wire_bytes += tag_bytes;
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
      std::array<timespec, 3> stamps;  // kernel time, unused, device time
      std::memcpy(stamps.data(), CMSG_DATA(c), sizeof stamps);
      const auto nanoseconds = [](const timespec& t) { return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec; };
      if (nanoseconds(stamps[0]) != 0) frame.time = std::min(now, nanoseconds(stamps[0]) + shift);
      if (const std::int64_t device = nanoseconds(stamps[2]); device != 0) {
        if (!device_clock_) device_clock_ = frame.time - device;
        frame.time = device + *device_clock_;
      }
    }
  }
  last_time_ = frame.time = std::max(frame.time, last_time_);
  ++counters_.received;
  counters_.received_bytes += frame.wire_bytes;
}

WireResult<std::optional<Received>> PacketWire::receive(std::int64_t deadline) {
  if (!socket_) return tl::unexpected(closed_error(name_));
  if (!capabilities_.receives) return receive_nothing(name_, deadline);
  bool waited = false;
  while (next_ == count_) {
    std::array<mmsghdr, packet_batch> messages{};
    std::array<std::array<iovec, 2>, packet_batch> pieces;
    struct alignas(cmsghdr) Control {
      std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata)) + CMSG_SPACE(3 * sizeof(timespec)) + 64> bytes;
    };
    std::array<Control, packet_batch> controls;
    for (std::size_t i = 0; i < packet_batch; ++i) {
      pieces[i] = {iovec{&offloads_[i], sizeof offloads_[i]},
                   iovec{room_.data() + i * slot_bytes + tag_bytes, slot_bytes - tag_bytes}};
      msghdr& message = messages[i].msg_hdr;
      message.msg_iov = pieces[i].data();
      message.msg_iovlen = 2;
      message.msg_control = &controls[i];
      message.msg_controllen = sizeof(Control);
      message.msg_name = &senders_[i];
      message.msg_namelen = sizeof senders_[i];
    }
    const int got = recvmmsg(socket_.get(), messages.data(), packet_batch, MSG_DONTWAIT | MSG_TRUNC, nullptr);
    if (got < 0) {
      const int number = errno;
      if (number == EINTR) continue;
      if (number != EAGAIN) return tl::unexpected(failed("receiving", number));
      if (!wire_clock::wait_for(socket_.get(), POLLIN, deadline)) return std::nullopt;
      // poll(2) also returns for messages in the error queue, which are no frames.
      transmission_.read(socket_.get());
      if (waited && this->now() >= deadline) return std::nullopt;
      waited = true;
      continue;
    }
    next_ = 0;
    count_ = static_cast<std::size_t>(got);
    const std::int64_t now = wire_clock::now(), shift = wire_clock::minus_realtime();
    for (std::size_t i = 0; i < count_; ++i) take(i, messages[i].msg_hdr, messages[i].msg_len, now, shift);
  }
  const Slot& frame = slots_[next_++];
  return Received{Bytes(room_).subspan(frame.offset, frame.bytes), frame.time, frame.wire_bytes, frame.own};
}

WireCounters PacketWire::counters() const {
  tpacket_stats statistics{};
  socklen_t length = sizeof statistics;
  // Reading the statistics resets them.
  if (socket_ && getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &length) == 0)
    counters_.dropped += statistics.tp_drops;
  WireCounters counters = counters_;
  counters.sent -= std::min(counters.sent, std::max(delivery_.frames(), transmission_.missed()));
  counters.sent_bytes -= std::min(counters.sent_bytes, std::max(delivery_.bytes(), transmission_.missed_bytes()));
  return counters;
}

}  // namespace

WireResult<std::unique_ptr<Wire>> open_packet_wire(const PacketWireOptions& options) {
  return PacketWire::open(options);
}

WireResult<std::unique_ptr<Wire>> open_packet_wire(const WireSpec& spec) {
  if (auto known = spec.check({{"bypass", false, "bypass the queueing discipline"},
                               {"incoming", false, "ignore frames sent by this host"},
                               {"noreceive", false, "send-only, faster"},
                               {"nopromisc", false, "no promiscuous mode"},
                               {"hwtime", false, "use device timestamps"},
                               {"launch", true, "pass frames with their launch times: etf or fq"},
                               {"priority", true, "priority for the queueing discipline"},
                               {"txtimes", true, "report when frames left: kernel or device"}});
      !known)
    return tl::unexpected(known.error());
  PacketWireOptions options;
  options.name = spec.text;
  options.interface = spec.address;
  options.bypass = spec.has("bypass");
  options.incoming = spec.has("incoming");
  options.promiscuous = !spec.has("nopromisc");
  options.receive = !spec.has("noreceive") && !spec.only_sends;
  options.hardware_time = spec.has("hwtime");
  using Launch = Transmission::Launch;
  using Stamps = Transmission::Stamps;
  const auto wrong = [&](std::string_view what) { return tl::unexpected(specification_error(spec.text, what)); };
  const std::string launch = spec.value("launch").value_or(""), stamps = spec.value("txtimes").value_or("");
  if (launch == "etf" || launch == "fq")
    options.launch = launch == "etf" ? Launch::etf : Launch::fq;
  else if (!launch.empty())
    return wrong("launch=" + launch + ": expected etf or fq");
  if (stamps == "kernel" || stamps == "device")
    options.stamps = stamps == "device" ? Stamps::device : Stamps::kernel;
  else if (!stamps.empty())
    return wrong("txtimes=" + stamps + ": expected kernel or device");
  if (options.bypass && options.launch != Launch::none)
    return wrong("launch requires a queueing discipline, which bypass bypasses");
  // Both use the same socket option, and the device has one configuration.
  if (options.stamps != Stamps::none && options.receive) return wrong("txtimes requires noreceive");
  const auto priority = spec.number("priority", 0, 0, 65'535);
  if (!priority) return tl::unexpected(priority.error());
  if (spec.has("priority")) options.priority = static_cast<std::uint32_t>(*priority);
  return open_packet_wire(options);
}

}  // namespace rdmawire::replay
