#include "captures/io/live.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace rdmawire::captures {

namespace {

using Kind = CaptureError::Kind;

CaptureError device_error(Kind kind, std::string device, std::string what, std::string follows = {}) {
  CaptureError error;
  error.kind = kind;
  error.file = std::move(device);
  error.what = std::move(what);
  error.follows = std::move(follows);
  return error;
}

/// Converts libpcap's number for a live handle (DLT) to the number in capture files (LINKTYPE). Among the link types
/// that Linux supports, only raw IP has two numbers.
LinkType link_type_of_dlt(int dlt) { return dlt == DLT_RAW ? LinkType::raw_ip : static_cast<LinkType>(dlt); }
int dlt_of_link_type(LinkType link) { return link == LinkType::raw_ip ? DLT_RAW : static_cast<int>(link); }

struct ClosePcap {
  void operator()(pcap_t* handle) const { pcap_close(handle); }
};
using Handle = std::unique_ptr<pcap_t, ClosePcap>;

struct Program {
  bpf_program program{};
  ~Program() { pcap_freecode(&program); }
};

CaptureError filter_error(const std::string& device, const std::string& filter, pcap_t* handle) {
  return device_error(Kind::filter, device, "invalid capture filter \"" + filter + "\": " + pcap_geterr(handle),
                      "see pcap-filter(7) for the syntax");
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct LiveCapture::State {
  Handle handle;
  Interface interface;
  std::int64_t patience = 0;
  bool nanoseconds = false;
  int descriptor = -1;
  std::uint64_t delivered = 0;
  std::int64_t start_time = 0;
  /// A 64-bit counter that follows libpcap's 32-bit counters, which wrap around.
  struct Counter {
    std::uint64_t value = 0;
    std::uint64_t update(std::uint32_t now) {
      value += static_cast<std::uint32_t>(now - static_cast<std::uint32_t>(value));
      return value;
    }
  };
  Counter received, system_drops, interface_drops;
  std::atomic<bool> stopped{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "stop() is called from signal handlers");
  CaptureError error;
};

LiveCapture::LiveCapture(std::unique_ptr<State> state) : state_(std::move(state)) {}
LiveCapture::LiveCapture(LiveCapture&&) noexcept = default;
LiveCapture& LiveCapture::operator=(LiveCapture&&) noexcept = default;
LiveCapture::~LiveCapture() = default;

tl::expected<std::vector<Device>, CaptureError> LiveCapture::devices() {
  std::array<char, PCAP_ERRBUF_SIZE> message{};
  pcap_if_t* all = nullptr;
  if (pcap_findalldevs(&all, message.data()) != 0)
    return tl::unexpected(device_error(Kind::device, "capture devices", message.data()));
  std::vector<Device> devices;
  for (const pcap_if_t* d = all; d != nullptr; d = d->next) {
    Device device;
    device.name = d->name;
    if (d->description != nullptr) device.description = d->description;
    device.loopback = (d->flags & PCAP_IF_LOOPBACK) != 0;
    device.up = (d->flags & PCAP_IF_UP) != 0;
    device.running = (d->flags & PCAP_IF_RUNNING) != 0;
    for (const pcap_addr* a = d->addresses; a != nullptr; a = a->next) {
      if (a->addr == nullptr) continue;
      std::array<char, INET6_ADDRSTRLEN> text{};
      const void* address = nullptr;
      if (a->addr->sa_family == AF_INET) address = &reinterpret_cast<const sockaddr_in*>(a->addr)->sin_addr;
      if (a->addr->sa_family == AF_INET6) address = &reinterpret_cast<const sockaddr_in6*>(a->addr)->sin6_addr;
      if (address != nullptr && inet_ntop(a->addr->sa_family, address, text.data(), text.size()) != nullptr)
        device.addresses.emplace_back(text.data());
    }
    devices.push_back(std::move(device));
  }
  pcap_freealldevs(all);
  return devices;
}

tl::expected<void, CaptureError> LiveCapture::check_filter(const std::string& filter, LinkType link) {
  constexpr int snap_length = 262144;
  const Handle handle(pcap_open_dead(dlt_of_link_type(link), snap_length));
  if (!handle) return tl::unexpected(device_error(Kind::device, "capture filter", "libpcap is out of memory"));
  Program compiled;
  if (pcap_compile(handle.get(), &compiled.program, filter.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0)
    return tl::unexpected(filter_error("capture filter", filter, handle.get()));
  return {};
}

tl::expected<LiveCapture, CaptureError> LiveCapture::open(const std::string& device, const Options& options) {
  std::array<char, PCAP_ERRBUF_SIZE> message{};
  auto state = std::make_unique<State>();
  state->handle.reset(pcap_create(device.c_str(), message.data()));
  pcap_t* const handle = state->handle.get();
  if (handle == nullptr) return tl::unexpected(device_error(Kind::device, device, message.data()));
  const auto milliseconds = static_cast<int>(std::clamp<std::int64_t>(options.patience / 1'000'000, 1, 1'000'000));
  pcap_set_snaplen(handle, static_cast<int>(std::min<std::uint32_t>(options.snap_length, Reader::max_record)));
  pcap_set_promisc(handle, options.promiscuous ? 1 : 0);
  pcap_set_timeout(handle, milliseconds);
  pcap_set_immediate_mode(handle, options.immediate ? 1 : 0);
  pcap_set_buffer_size(handle, static_cast<int>(std::min<std::uint32_t>(options.buffer_size, 1U << 30)));
  pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO);  // not all devices support it
  const int activated = pcap_activate(handle);
  if (activated < 0) {
    std::string what = pcap_statustostr(activated);
    if (const char* more = pcap_geterr(handle); more != nullptr && *more != 0 && what != more)
      what += std::string(": ") + more;
    const bool forbidden = activated == PCAP_ERROR_PERM_DENIED || activated == PCAP_ERROR_PROMISC_PERM_DENIED;
    return tl::unexpected(
        device_error(Kind::device, device, std::move(what),
                     forbidden ? "run as root, or give the program CAP_NET_RAW" : std::string("nothing was captured")));
  }
  if (!options.filter.empty()) {
    Program compiled;
    if (pcap_compile(handle, &compiled.program, options.filter.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0)
      return tl::unexpected(filter_error(device, options.filter, handle));
    if (pcap_setfilter(handle, &compiled.program) != 0)
      return tl::unexpected(filter_error(device, options.filter, handle));
  }
  // poll() waits, so that stop() and the time limit work on all devices. Therefore, the device must not block.
  if (pcap_setnonblock(handle, 1, message.data()) != 0)
    return tl::unexpected(device_error(Kind::device, device, message.data()));
  state->descriptor = pcap_get_selectable_fd(handle);
  state->nanoseconds = pcap_get_tstamp_precision(handle) == PCAP_TSTAMP_PRECISION_NANO;
  state->patience = options.patience;
  state->start_time = now();
  state->interface.link = link_type_of_dlt(pcap_datalink(handle));
  state->interface.snap_length = static_cast<std::uint32_t>(pcap_snapshot(handle));
  state->interface.resolution = state->nanoseconds ? 9 : 6;
  state->interface.name = device;
  state->interface.filter = options.filter;
  utsname system{};
  if (::uname(&system) == 0) state->interface.os = std::string(system.sysname) + " " + system.release;
  return LiveCapture(std::move(state));
}

Next LiveCapture::next(Record& record) {
  State& state = *state_;
  pcap_t* const handle = state.handle.get();
  bool waited = false;
  for (;;) {
    if (state.stopped.load(std::memory_order_relaxed)) return Next::end;
    pcap_pkthdr* header = nullptr;
    const std::uint8_t* bytes = nullptr;
    const int result = pcap_next_ex(handle, &header, &bytes);
    if (result == 1) {
      record.bytes = {bytes, header->caplen};
      const std::int64_t fraction = header->ts.tv_usec;  // nanoseconds, if the device has nanosecond precision
      record.time = std::int64_t{header->ts.tv_sec} * 1'000'000'000 + (state.nanoseconds ? fraction : fraction * 1000);
      record.wire_length = header->len;
      record.number = ++state.delivered;
      constexpr std::uint64_t often_enough =
          std::uint64_t{1} << 28;  // often enough that the 32-bit counters do not wrap around unnoticed
      if (state.delivered % often_enough == 0) (void)statistics();
      record.position = 0;
      record.options = {};
      record.interface = 0;
      record.link = state.interface.link;
      return Next::record;
    }
    if (result < 0) {
      state.error = device_error(
          Kind::device, state.interface.name, pcap_geterr(handle),
          "stopped after " + std::to_string(state.delivered) + (state.delivered == 1 ? " packet" : " packets"));
      return Next::error;
    }
    if (waited) return Next::timeout;
    waited = true;
    std::int64_t patience = state.patience;
    // Some devices (USB, rdmasniff on old kernels) do not support poll(), or must be polled at an interval.
    if (const timeval* often = pcap_get_required_select_timeout(handle)) {
      const std::int64_t required = std::int64_t{often->tv_sec} * 1'000'000'000 + std::int64_t{often->tv_usec} * 1000;
      patience = std::min(patience, required);
    }
    pollfd wait{state.descriptor, POLLIN, 0};
    // If a signal interrupts the wait, this counts as a timeout, so that the caller can check flags that signal
    // handlers set.
    const std::int64_t milliseconds = std::min<std::int64_t>((patience + 999'999) / 1'000'000, 1 << 30);
    (void)::poll(state.descriptor < 0 ? nullptr : &wait, state.descriptor < 0 ? 0 : 1, static_cast<int>(milliseconds));
  }
}

const CaptureError& LiveCapture::error() const { return state_->error; }
void LiveCapture::stop() noexcept { state_->stopped.store(true, std::memory_order_relaxed); }
const Interface& LiveCapture::interface() const { return state_->interface; }
bool LiveCapture::nanoseconds() const { return state_->nanoseconds; }

tl::expected<InterfaceStatistics, CaptureError> LiveCapture::statistics() {
  pcap_stat counts{};
  if (pcap_stats(state_->handle.get(), &counts) != 0)
    return tl::unexpected(device_error(Kind::device, state_->interface.name,
                                       std::string("drop counters unavailable: ") + pcap_geterr(state_->handle.get())));
  InterfaceStatistics statistics;
  statistics.time = now();
  statistics.start_time = state_->start_time;
  statistics.end_time = statistics.time;
  statistics.received = state_->received.update(counts.ps_recv);
  statistics.system_drops = state_->system_drops.update(counts.ps_drop);
  statistics.interface_drops = state_->interface_drops.update(counts.ps_ifdrop);
  statistics.delivered = state_->delivered;
  return statistics;
}

}  // namespace rdmawire::captures
