#include "replay/wires/transmission.hpp"

#include <linux/errqueue.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>

#include "replay/wires/clock.hpp"
#include "replay/wires/error.hpp"

namespace rdmawire::replay {
namespace {

// A frame whose launch time has passed is discarded. This is the minimum time for its way to the queueing discipline.
constexpr std::int64_t least_lead = 500'000;
constexpr std::size_t most_expected = 65'536;

std::int64_t nanoseconds(const timespec& t) { return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec; }

std::int64_t time_of(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return nanoseconds(t);
}

clockid_t clock_of(Transmission::Launch launch) {
  return launch == Transmission::Launch::etf ? CLOCK_TAI : CLOCK_MONOTONIC;
}

}  // namespace

WireResult<void> Transmission::set_up(int socket, const Interface& interface, Launch launch, Stamps stamps) {
  if (launch != Launch::none) {
    sock_txtime how{};
    how.clockid = clock_of(launch);
    how.flags = SOF_TXTIME_REPORT_ERRORS;
    if (::setsockopt(socket, SOL_SOCKET, SO_TXTIME, &how, sizeof how) != 0)
      return tl::unexpected(interface.failed("enable launch times (launch=etf also requires CAP_NET_ADMIN)", errno));
    launch_ = launch;
  }
  if (stamps == Stamps::none) return {};
  unsigned flags = SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
  if (stamps == Stamps::device) {
    hwtstamp_config config{};
    ifreq request{};
    interface.name().copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&config);
    // Other programs, such as ptp4l, may use the receive timestamps of the device.
    if (::ioctl(socket, SIOCGHWTSTAMP, &request) != 0) config = {};
    config.tx_type = config.tx_type == HWTSTAMP_TX_OFF ? HWTSTAMP_TX_ON : config.tx_type;
    if (::ioctl(socket, SIOCSHWTSTAMP, &request) != 0)
      return tl::unexpected(errno == EPERM
                                ? interface.failed("enable device timestamps (also requires CAP_NET_ADMIN)", errno)
                                : interface.failed("enable transmit timestamps of the device (txtimes=kernel uses "
                                                   "those of the kernel)",
                                                   errno));
    flags |= SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
  } else {
    flags |= SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
  }
  if (::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) != 0)
    return tl::unexpected(interface.failed("enable transmit timestamps", errno));
  stamps_ = stamps;
  return {};
}

void Transmission::begin_batch() {
  constexpr int tries = 3;
  constexpr std::int64_t step = 1'000'000'000;
  std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
  // The shortest try was probably not interrupted.
  for (int i = 0; i < tries; ++i) {
    const std::int64_t before = wire_clock::now(), there = time_of(clock_of(launch_)), after = wire_clock::now();
    if (after - before >= best) continue;
    best = after - before;
    offset = there - before - best / 2;
  }
  // The offset of CLOCK_TAI changes if the clock is adjusted.
  if (offset < offset_ - step) latest_ = 0;
  offset_ = offset;
}

void Transmission::set_time(msghdr& message, Control& control, std::int64_t time) {
  latest_ = std::max(latest_, std::max(time, wire_clock::now() + least_lead) + offset_);
  const auto launch = static_cast<std::uint64_t>(latest_);
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_TXTIME;
  header->cmsg_len = CMSG_LEN(sizeof launch);
  std::memcpy(CMSG_DATA(header), &launch, sizeof launch);
}

void Transmission::accepted() {
  rejecting_since_ = 0;
  if (stamps_ == Stamps::none) return;
  expected_.push_back(next_number_++);
  if (expected_.size() <= most_expected) return;
  expected_.pop_front();
  ++first_expected_;
}

void Transmission::departed(std::uint32_t number, std::int64_t time) {
  const auto found = std::lower_bound(expected_.begin(), expected_.end(), number, [](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) < 0;
  });
  if (found == expected_.end() || *found != number) return;
  const auto before = static_cast<std::uint64_t>(found - expected_.begin());
  keep_departure(departures_, {first_expected_ + before, time});
  // Timestamps of earlier frames do not follow.
  expected_.erase(expected_.begin(), found + 1);
  first_expected_ += before + 1;
}

void Transmission::read(int socket) {
  if (launch_ == Launch::none && stamps_ == Stamps::none) return;
  constexpr std::size_t most_messages = 65'536, most_bytes = 65'536 + 64;
  frame_.resize(most_bytes);
  for (std::size_t i = 0; i < most_messages; ++i) {
    alignas(cmsghdr) std::array<char, 512> control;
    iovec piece{frame_.data(), frame_.size()};
    msghdr message{nullptr, 0, &piece, 1, control.data(), control.size(), 0};
    const ssize_t bytes = ::recvmsg(socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (bytes < 0) return;
    take(message, static_cast<std::size_t>(bytes));
  }
}

void Transmission::take(msghdr& message, std::size_t bytes) {
  std::optional<sock_extended_err> error;
  std::array<timespec, 3> stamps{};  // kernel time, unused, device time
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPING) {
      std::memcpy(stamps.data(), CMSG_DATA(c), sizeof stamps);
    } else if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_TX_TIMESTAMP) {
      error.emplace();
      std::memcpy(&*error, CMSG_DATA(c), sizeof *error);
    }
  }
  if (!error) return;
  // sendmmsg(2) does not accept a frame with an invalid time, so that the caller retries it.
  if (error->ee_origin == SO_EE_ORIGIN_TXTIME && error->ee_code == SO_EE_CODE_TXTIME_MISSED) {
    ++missed_;
    missed_bytes_ += bytes;
  } else if (error->ee_origin == SO_EE_ORIGIN_TXTIME && rejecting_since_ == 0) {
    rejecting_since_ = wire_clock::now();
  }
  if (error->ee_origin != SO_EE_ORIGIN_TIMESTAMPING) return;
  const std::int64_t stamp = nanoseconds(stamps[stamps_ == Stamps::device ? 2 : 0]);
  if (stamp == 0) return;
  if (stamps_ == Stamps::device && !device_clock_) device_clock_ = wire_clock::now() - stamp;
  departed(error->ee_data, stamp + (device_clock_ ? *device_clock_ : wire_clock::minus_realtime()));
}

}  // namespace rdmawire::replay
