#include "replay/wires/xdp.hpp"

#include <linux/if_xdp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "dissectors/protocol/ethernet.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/delivery.hpp"
#include "replay/wires/descriptor.hpp"
#include "replay/wires/error.hpp"
#include "replay/wires/frame_limits.hpp"
#include "replay/wires/interface.hpp"
#include "replay/wires/out_of_order.hpp"
#include "replay/wires/sending.hpp"
#include "replay/wires/xdp_program.hpp"

namespace rdmawire::replay {
namespace {

constexpr std::uint32_t chunk_bytes = 4096;
constexpr std::uint32_t most_pieces = 16;  // per frame. The kernel accepts 17
constexpr std::int64_t pause = 5'000;      // interval between polls of a ring
constexpr std::int64_t linger = 1'000'000'000;
constexpr std::int64_t patience = 1'000'000'000;
constexpr std::int64_t interface_look_up = 50'000'000;  // poll(2) does not report a removed interface
// Newer than the headers of Debian 12.
constexpr std::uint16_t use_pieces = 1 << 4;   // XDP_USE_SG, Linux 6.6
constexpr std::uint32_t more_pieces = 1 << 0;  // XDP_PKT_CONTD
constexpr int most_at_once = 9;                // XDP_MAX_TX_SKB_BUDGET, Linux 6.17

// One of the four rings shared with the kernel. One side writes `producer`, the other writes `consumer`.
template <class Entry>
class Ring {
 public:
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { release(); }
  void release() {
    if (map_ != MAP_FAILED) munmap(map_, bytes_);
    map_ = MAP_FAILED;
  }

  /// Returns false if the ring cannot be mapped.
  bool map(int socket, const xdp_ring_offset& offsets, std::uint32_t entries, off_t page) {
    bytes_ = offsets.desc + entries * sizeof(Entry);
    map_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket, page);
    if (map_ == MAP_FAILED) return false;
    auto* const at = static_cast<std::uint8_t*>(map_);
    producer_ = reinterpret_cast<std::uint32_t*>(at + offsets.producer);
    consumer_ = reinterpret_cast<std::uint32_t*>(at + offsets.consumer);
    flags_ = reinterpret_cast<std::uint32_t*>(at + offsets.flags);
    entries_ = reinterpret_cast<Entry*>(at + offsets.desc);
    count_ = entries;
    return true;
  }
  [[nodiscard]] bool wants_wakeup() const {
    return std::atomic_ref(*flags_).load(std::memory_order_relaxed) & XDP_RING_NEED_WAKEUP;
  }

  // Producer side.
  [[nodiscard]] std::uint32_t room() const { return count_ - waiting_for_kernel(); }
  [[nodiscard]] std::uint32_t waiting_for_kernel() const {
    return written_ - std::atomic_ref(*consumer_).load(std::memory_order_acquire);
  }
  Entry& write() { return entries_[written_++ & (count_ - 1)]; }
  void publish() { std::atomic_ref(*producer_).store(written_, std::memory_order_release); }

  // Consumer side.
  [[nodiscard]] std::uint32_t available() const {
    return std::atomic_ref(*producer_).load(std::memory_order_acquire) - read_;
  }
  const Entry& read() { return entries_[read_++ & (count_ - 1)]; }
  void give_back() { std::atomic_ref(*consumer_).store(read_, std::memory_order_release); }

 private:
  void* map_ = MAP_FAILED;
  std::size_t bytes_ = 0;
  std::uint32_t *producer_ = nullptr, *consumer_ = nullptr, *flags_ = nullptr;
  Entry* entries_ = nullptr;
  std::uint32_t count_ = 0, written_ = 0, read_ = 0;
};

// Memory in page-sized chunks.
class Chunks {
 public:
  Chunks() = default;
  Chunks(const Chunks&) = delete;
  Chunks& operator=(const Chunks&) = delete;
  ~Chunks() {
    if (begin_ != MAP_FAILED) munmap(begin_, bytes_);
  }
  bool make(std::size_t count) {
    bytes_ = count * chunk_bytes;
    begin_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return begin_ != MAP_FAILED;
  }
  [[nodiscard]] std::uint8_t* at(std::uint64_t offset) const { return static_cast<std::uint8_t*>(begin_) + offset; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* begin_ = MAP_FAILED;
  std::size_t bytes_ = 0;
};

class XdpWire final : public Wire, public FrameLimits, public OutOfOrder {
 public:
  static WireResult<std::unique_ptr<Wire>> open(const XdpWireOptions& options);
  ~XdpWire() override { close(); }

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] int descriptor() const override { return socket_.get(); }
  [[nodiscard]] WireCounters counters() const override;

  using Wire::send;
  WireResult<std::size_t> send(std::span<const Outgoing> frames) override {
    if (!socket_) return tl::unexpected(closed_error(name_));
    return send_when_due(frames, capabilities_.batch, [this](std::span<const Outgoing> run) { return hand_over(run); });
  }
  WireResult<bool> writable(std::int64_t deadline) override {
    if (!socket_) return tl::unexpected(closed_error(name_));
    if (auto link = interface_.check_link(); !link) return tl::unexpected(link.error());
    return wait_until(deadline, [this] {
      return free_.size() >= pieces_of(capabilities_.max_bytes) && to_send_.room() >= most_pieces;
    });
  }
  WireResult<bool> flush(std::int64_t deadline) override {
    if (!socket_) return tl::unexpected(closed_error(name_));
    auto flushed = wait_until(deadline, [this] { return free_.size() == frames_; });
    // In copy mode, the kernel also completes frames that it discarded. Drivers do not count frames with zero copy.
    if (!copies_) return flushed;
    const auto link = flushed ? WireResult<void>() : tl::unexpected(flushed.error());
    // Only completed frames are compared. Those in the rings do not count as sent.
    auto checked = delivery_.check(interface_, counters_, true, link, deadline);
    if (checked && !flushed) return flushed;
    if (checked) return *checked && *flushed;
    return checked;
  }
  WireResult<std::optional<Received>> receive(std::int64_t deadline) override;
  [[nodiscard]] std::size_t max_bytes_of(Bytes frame) const override {
    const std::size_t able = capabilities_.max_bytes;
    return able == chunk_bytes ? able : Interface::max_bytes(frame, able);
  }
  void close() override;

 private:
  XdpWire() = default;
  // The caller retries with other flags if the last step fails with EOPNOTSUPP or a similar error.
  WireResult<void> set_up(const XdpWireOptions& options, std::uint16_t flags);
  [[nodiscard]] WireError failed(std::string_view doing, int number) const { return interface_.failed(doing, number); }
  WireResult<std::size_t> hand_over(std::span<const Outgoing> frames);
  WireResult<void> kick();
  void drain();
  template <class Ready>
  WireResult<bool> wait_until(std::int64_t deadline, Ready ready);
  void refill();
  // The kernel releases the queue when no ring of the socket is mapped.
  void unmap() {
    to_fill_.release();
    completed_.release();
    to_send_.release();
    received_.release();
    socket_ = {};
  }
  static std::uint32_t pieces_of(std::size_t bytes) {
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>((bytes + chunk_bytes - 1) / chunk_bytes));
  }

  std::string name_;
  WireCapabilities capabilities_;
  mutable WireCounters counters_;
  Delivery delivery_;    ///< of completed frames
  bool copies_ = false;  ///< copy mode
  Interface interface_;
  Chunks chunks_;
  Descriptor socket_;
  Ring<std::uint64_t> to_fill_, completed_;
  Ring<xdp_desc> to_send_, received_;
  XdpProgram program_;
  std::uint32_t frames_ = 0;

  // Sending: the first half of the chunks.
  std::vector<std::uint64_t> free_;
  std::vector<std::uint32_t> lengths_;  // length of the frame whose last piece is in the chunk. 0: another piece
  // Receiving: the second half of the chunks.
  std::vector<std::uint64_t> held_;  // chunks of the returned frame
  std::vector<std::uint8_t> joined_;
};

WireResult<void> XdpWire::set_up(const XdpWireOptions& options, std::uint16_t flags) {
  unmap();
  socket_ = Descriptor(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!socket_) {
    if (errno == EAFNOSUPPORT)
      return tl::unexpected(wire_error(WireError::Kind::unsupported, errno,
                                       "{}: the kernel does not support AF_XDP (CONFIG_XDP_SOCKETS); use packet:{}",
                                       name_, interface_.name()));
    return tl::unexpected(failed("open an AF_XDP socket", errno));
  }
  const auto set = [this](int option, const auto& value, std::string_view doing) -> WireResult<void> {
    if (setsockopt(socket_.get(), SOL_XDP, option, &value, sizeof value) != 0)
      return tl::unexpected(failed(doing, errno));
    return {};
  };
  xdp_umem_reg memory{};
  memory.addr = reinterpret_cast<std::uintptr_t>(chunks_.at(0));
  memory.len = chunks_.bytes();
  memory.chunk_size = chunk_bytes;
  if (auto r = set(XDP_UMEM_REG, memory, "register memory for frames (ulimit -l)"); !r) return r;
  for (const int ring : {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING})
    if (auto r = set(ring, frames_, "create the rings"); !r) return r;

  xdp_mmap_offsets offsets{};
  socklen_t length = sizeof offsets;
  if (getsockopt(socket_.get(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length) != 0 || length != sizeof offsets)
    return tl::unexpected(failed("query the ring offsets", errno));
  const int fd = socket_.get();
  if (!to_fill_.map(fd, offsets.fr, frames_, XDP_UMEM_PGOFF_FILL_RING) ||
      !completed_.map(fd, offsets.cr, frames_, static_cast<off_t>(XDP_UMEM_PGOFF_COMPLETION_RING)) ||
      !received_.map(fd, offsets.rx, frames_, XDP_PGOFF_RX_RING) ||
      !to_send_.map(fd, offsets.tx, frames_, static_cast<off_t>(XDP_PGOFF_TX_RING)))
    return tl::unexpected(failed("map the rings", errno));

  sockaddr_xdp address{};
  address.sxdp_family = AF_XDP;
  address.sxdp_ifindex = interface_.index();
  address.sxdp_queue_id = options.queue;
  address.sxdp_flags = flags;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int number = errno;
    WireError error = failed(fmt::format("bind to queue {}", options.queue), number);
    if (number == EBUSY) error.message += "; another socket uses the queue";
    if (number == EINVAL) error.message += "; list the queues with ethtool -l";
    return tl::unexpected(error);
  }
  return {};
}

WireResult<std::unique_ptr<Wire>> XdpWire::open(const XdpWireOptions& options) {
  std::unique_ptr<XdpWire> wire(new XdpWire());
  wire->name_ = options.name.empty() ? "xdp:" + options.interface : options.name;
  auto interface = Interface::find(wire->name_, options.interface);
  if (!interface) return tl::unexpected(interface.error());
  wire->interface_ = std::move(*interface);
  if (auto kind = wire->interface_.check_ethernet(); !kind) return tl::unexpected(kind.error());
  if (auto link = wire->interface_.check_link(); !link) return tl::unexpected(link.error());

  wire->frames_ = std::bit_ceil(std::clamp<std::uint32_t>(options.frames, 64, 1U << 16));
  if (!wire->chunks_.make(std::size_t{2} * wire->frames_))
    return tl::unexpected(wire->failed("allocate memory for frames", errno));

  // Modes in order of preference: multi-buffer frames if the MTU requires them, zero copy before copy mode.
  const std::uint32_t whole = wire->interface_.mtu() + static_cast<std::uint32_t>(Ethernet::size + Vlan::size);
  const bool pieces = whole > chunk_bytes;
  using Mode = XdpWireOptions::Mode;
  std::vector<std::uint16_t> ways;
  for (const std::uint16_t in : {use_pieces, std::uint16_t{0}})
    for (const auto& [mode, unwanted] : {std::pair{XDP_ZEROCOPY, Mode::copy}, std::pair{XDP_COPY, Mode::zero_copy}})
      if (options.mode != unwanted && (in == 0 || pieces))
        ways.push_back(static_cast<std::uint16_t>(mode | in | XDP_USE_NEED_WAKEUP));
  std::uint16_t flags = 0;
  WireResult<void> ready;
  // The kernel releases the queue of a closed socket with a delay.
  const std::int64_t until = wire_clock::now() + patience;
  for (std::size_t i = 0; i < ways.size();) {
    flags = ways[i];
    ready = wire->set_up(options, flags);
    if (ready || ready.error().kind == WireError::Kind::forbidden) break;
    if (ready.error().number != EBUSY)
      ++i;
    else if (wire_clock::now() < until)
      wire_clock::sleep_until(wire_clock::now() + 1'000'000);
    else
      break;
  }
  if (!ready) {
    if (options.mode == Mode::zero_copy && ready.error().number == EOPNOTSUPP)
      return tl::unexpected(wire_error(WireError::Kind::unsupported, EOPNOTSUPP,
                                       "{}: the driver of {} ({}) does not support zero copy; remove zero-copy to "
                                       "use copy mode",
                                       wire->name_, wire->interface_.name(), wire->interface_.driver()));
    return tl::unexpected(ready.error());
  }

  WireCapabilities& able = wire->capabilities_;
  able.max_bytes = std::min(whole, flags & use_pieces ? most_pieces * chunk_bytes : chunk_bytes);
  able.min_bytes = Ethernet::size;
  able.batch = std::clamp<std::uint32_t>(options.batch, 1, wire->frames_ / 2);
  able.receives = options.receive;
  wire->copies_ = !(flags & XDP_ZEROCOPY);
  if (wire->copies_) wire->delivery_.begin(wire->interface_);
  able.bits_per_second = wire->interface_.bits_per_second();
  able.how = fmt::format("{}, queue {}", flags & XDP_ZEROCOPY ? "zero copy" : "copies", options.queue);

  // One call then sends all frames in the ring. Older kernels send 32 per call.
  const std::uint32_t at_once = wire->frames_;
  setsockopt(wire->socket_.get(), SOL_XDP, most_at_once, &at_once, sizeof at_once);

  wire->lengths_.resize(wire->frames_);
  for (std::uint64_t chunk = wire->frames_; chunk > 0; --chunk) wire->free_.push_back((chunk - 1) * chunk_bytes);
  if (options.receive) {
    for (std::uint64_t chunk = 0; chunk < wire->frames_; ++chunk)
      wire->held_.push_back((wire->frames_ + chunk) * chunk_bytes);
    wire->refill();
    auto program = XdpProgram::attach(wire->interface_, options.queue, wire->socket_.get());
    if (!program) return tl::unexpected(program.error());
    wire->program_ = std::move(*program);
    able.how += fmt::format(", {} XDP program", wire->program_.how());
  }
  return std::unique_ptr<Wire>(std::move(wire));
}

// Counts the frames that the kernel completed.
void XdpWire::drain() {
  const std::uint32_t count = completed_.available();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t chunk = completed_.read() / chunk_bytes;
    if (const std::uint32_t bytes = lengths_[chunk]) {
      ++counters_.sent;
      counters_.sent_bytes += bytes;
    }
    free_.push_back(chunk * chunk_bytes);
  }
  if (count > 0) {
    completed_.give_back();
    delivery_.accepted();
  }
}

// Wakes the kernel to send. The kernel may send only some of the frames. The next call continues.
WireResult<void> XdpWire::kick() {
  while (to_send_.waiting_for_kernel() > 0 && to_send_.wants_wakeup()) {
    const std::uint32_t before = to_send_.waiting_for_kernel();
    if (sendto(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) continue;
    const int number = errno;
    if (number == EAGAIN && to_send_.waiting_for_kernel() < before) continue;  // 32 of them
    if (number == EAGAIN || number == EBUSY || number == ENOBUFS || number == EINTR) return {};
    return tl::unexpected(failed("sending", number));
  }
  return {};
}

WireResult<std::size_t> XdpWire::hand_over(std::span<const Outgoing> frames) {
  if (auto link = interface_.check_link(); !link) return tl::unexpected(link.error());
  drain();
  std::size_t count = 0;
  for (; count < frames.size(); ++count) {
    const Bytes frame = frames[count].frame;
    const std::size_t most = max_bytes_of(frame);
    if (frame.size() < capabilities_.min_bytes || frame.size() > most) {
      if (count > 0) break;
      return tl::unexpected(
          interface_.wrong_length(frame, capabilities_.min_bytes, most,
                                  "interface MTU plus Ethernet header, and the kernel's limit for one frame"));
    }
    const std::uint32_t pieces = pieces_of(frame.size());
    if (free_.size() < pieces || to_send_.room() < pieces) break;
    for (std::size_t from = 0; from < frame.size(); from += chunk_bytes) {
      const auto bytes = static_cast<std::uint32_t>(std::min<std::size_t>(chunk_bytes, frame.size() - from));
      const bool last = from + bytes == frame.size();
      const std::uint64_t chunk = free_.back();
      free_.pop_back();
      std::memcpy(chunks_.at(chunk), frame.data() + from, bytes);
      lengths_[chunk / chunk_bytes] = last ? static_cast<std::uint32_t>(frame.size()) : 0;
      to_send_.write() = {chunk, bytes, last ? 0 : more_pieces};
    }
  }
  if (count > 0) to_send_.publish();
  if (auto kicked = kick(); !kicked && count == 0) return tl::unexpected(kicked.error());
  return count;
}

template <class Ready>
WireResult<bool> XdpWire::wait_until(std::int64_t deadline, Ready ready) {
  if (!socket_) return tl::unexpected(closed_error(name_));
  for (;;) {
    const auto kicked = kick();
    drain();
    if (ready()) return true;
    if (!kicked) return tl::unexpected(kicked.error());
    if (auto link = interface_.check_link(); !link) return tl::unexpected(link.error());
    const std::int64_t now = wire_clock::now();
    if (now >= deadline) return false;
    wire_clock::sleep_until(std::min(deadline, now + pause));
  }
}

// Returns the chunks of the last frame to the kernel. The fill ring has space for all chunks.
void XdpWire::refill() {
  if (held_.empty()) return;
  for (const std::uint64_t chunk : held_) to_fill_.write() = chunk / chunk_bytes * chunk_bytes;
  to_fill_.publish();
  held_.clear();
}

WireResult<std::optional<Received>> XdpWire::receive(std::int64_t deadline) {
  if (!socket_) return tl::unexpected(closed_error(name_));
  if (!capabilities_.receives) return receive_nothing(name_, deadline);
  refill();
  joined_.clear();
  for (;;) {
    if (received_.available() == 0) {
      if (to_fill_.wants_wakeup()) recvfrom(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
      if (received_.available() == 0) {
        wire_clock::wait_for(socket_.get(), POLLIN, std::min(deadline, now() + interface_look_up));
        if (received_.available() == 0) {
          // check_link() is used by the sender, which may be another thread.
          if (!interface_.is_there()) return tl::unexpected(failed("receive", ENODEV));
          if (now() >= deadline) return std::nullopt;
          continue;
        }
      }
    }
    const xdp_desc piece = received_.read();
    received_.give_back();
    held_.push_back(piece.addr);
    Bytes frame(chunks_.at(piece.addr), piece.len);
    const bool more = piece.options & more_pieces;
    if (more || !joined_.empty()) {
      joined_.insert(joined_.end(), frame.begin(), frame.end());
      frame = joined_;
    }
    if (more) continue;
    ++counters_.received;
    counters_.received_bytes += frame.size();
    return Received{frame, now(), static_cast<std::uint32_t>(frame.size()), false};
  }
}

WireCounters XdpWire::counters() const {
  xdp_statistics statistics{};
  socklen_t length = sizeof statistics;
  if (socket_ && getsockopt(socket_.get(), SOL_XDP, XDP_STATISTICS, &statistics, &length) == 0)
    counters_.dropped = statistics.rx_dropped + statistics.rx_ring_full;
  WireCounters counters = counters_;
  counters.sent -= std::min(counters.sent, delivery_.frames());
  counters.sent_bytes -= std::min(counters.sent_bytes, delivery_.bytes());
  return counters;
}

void XdpWire::close() {
  if (!socket_) return;
  static_cast<void>(flush(wire_clock::now() + linger));
  static_cast<void>(counters());
  program_ = {};
  unmap();
}

}  // namespace

WireResult<std::unique_ptr<Wire>> open_xdp_wire(const XdpWireOptions& options) { return XdpWire::open(options); }

WireResult<XdpWireOptions> xdp_options(const WireSpec& spec) {
  if (auto known =
          spec.check({{"batch", true, "frames per send call"},
                      {"copy", false, "always use copy mode"},
                      {"frames", true, "maximum number of frames being sent, and of received frames not read yet"},
                      {"noreceive", false, "send-only, without an XDP program"},
                      {"queue", true, "queue of the interface; default: 0"},
                      {"zero-copy", false, "fail if zero copy is not available"}});
      !known)
    return tl::unexpected(known.error());
  if (spec.has("copy") && spec.has("zero-copy"))
    return tl::unexpected(specification_error(spec.text, "copy and zero-copy exclude each other"));
  XdpWireOptions options;
  options.name = spec.text;
  options.interface = spec.address;
  const auto batch = spec.number("batch", options.batch, 1, 4096);
  const auto frames = spec.number("frames", options.frames, 64, 1U << 16);
  const auto queue = spec.number("queue", 0, 0, 4095);
  for (const auto* given : {&batch, &frames, &queue})
    if (!*given) return tl::unexpected(given->error());
  options.batch = static_cast<std::uint32_t>(*batch);
  options.frames = static_cast<std::uint32_t>(*frames);
  options.queue = static_cast<std::uint32_t>(*queue);
  if (spec.has("copy")) options.mode = XdpWireOptions::Mode::copy;
  if (spec.has("zero-copy")) options.mode = XdpWireOptions::Mode::zero_copy;
  options.receive = !spec.has("noreceive");
  return options;
}

WireResult<std::unique_ptr<Wire>> open_xdp_wire(const WireSpec& spec) {
  const auto options = xdp_options(spec);
  if (!options) return tl::unexpected(options.error());
  return open_xdp_wire(*options);
}

}  // namespace rdmawire::replay
