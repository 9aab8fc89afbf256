// Receive buffers and completions.

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "replay/wires/clock.hpp"
#include "replay/wires/verbs_wire.hpp"

namespace rdmawire::replay::rdma {
namespace {

constexpr std::int64_t look_up = 50'000'000;  // interval between port checks while no frame arrives

}  // namespace

// Posts the free receive buffers.
WireResult<void> VerbsWire::give_buffers() {
  std::array<ibv_recv_wr, batch> posts{};
  std::array<ibv_sge, batch> pieces{};
  while (!free_.empty()) {
    const std::size_t count = std::min(batch, free_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t slot = free_[free_.size() - count + i];
      pieces[i] = {reinterpret_cast<std::uintptr_t>(receive_slots_.at(slot)), capabilities_.max_bytes,
                   receive_region_->lkey};
      posts[i].wr_id = slot;
      posts[i].next = i + 1 < count ? &posts[i + 1] : nullptr;
      posts[i].sg_list = &pieces[i];
      posts[i].num_sge = 1;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int number = ibv_post_recv(pair_.get(), posts.data(), &bad))
      return tl::unexpected(failed(name_, "post receive buffers", number));
    free_.resize(free_.size() - count);
  }
  return {};
}

std::int64_t VerbsWire::time_of(Stamp source, std::uint64_t stamp, std::int64_t now) {
  if (source == Stamp::none || stamp == 0) return now;
  std::int64_t time = static_cast<std::int64_t>(stamp);
  if (source == Stamp::ticks) {
    __extension__ using Wide = unsigned __int128;  // kHz
    time = static_cast<std::int64_t>(Wide{stamp} * 1'000'000U / device_.attributes.hca_core_clock);
  }
  if (!device_clock_) device_clock_ = source == Stamp::wallclock ? wire_clock::minus_realtime() : now - time;
  return time + *device_clock_;
}

std::uint64_t VerbsWire::stamp_in(ibv_cq_ex* queue, Stamp source) {
  return source == Stamp::wallclock ? ibv_wc_read_completion_wallclock_ns(queue) : ibv_wc_read_completion_ts(queue);
}

void VerbsWire::arrived(std::uint64_t slot, std::uint32_t bytes, std::int64_t time) {
  last_time_ = std::max(last_time_, time);
  arrived_[count_++] = {slot, bytes, last_time_};
}

// Collects up to one batch of received frames. Returns the number of CQ entries, or -1 on failure.
int VerbsWire::poll_received() {
  next_ = count_ = 0;
  const auto wrong = [this](ibv_wc_status status) {
    receive_failed_ = wire_error(WireError::Kind::system, 0,
                                 "{}: receive: {}; the maximum frame length is {} bytes (change it with mtu=…); no "
                                 "more frames are received, because the QP is in the Error state",
                                 name_, ibv_wc_status_str(status), capabilities_.max_bytes);
  };
  if (!stamped_) {
    std::array<ibv_wc, batch> completions;
    const int count = ibv_poll_cq(receive_queue_.get(), completions.size(), completions.data());
    const std::int64_t now = wire_clock::now();
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      if (completion.status == IBV_WC_SUCCESS)
        arrived(completion.wr_id, completion.byte_len, now);
      else if (!receive_failed_)
        wrong(completion.status);
    }
    return count;
  }
  ibv_poll_cq_attr nothing{};
  int number = ibv_start_poll(stamped_, &nothing);
  if (number == ENOENT) return 0;
  if (number != 0) return -1;
  const std::int64_t now = wire_clock::now();
  int count = 0;
  do {
    ++count;
    const std::uint64_t stamp = stamp_in(stamped_, stamp_);
    if (stamped_->status == IBV_WC_SUCCESS)
      arrived(stamped_->wr_id, ibv_wc_read_byte_len(stamped_), time_of(stamp_, stamp, now));
    else if (!receive_failed_)
      wrong(stamped_->status);
  } while (count_ < batch && (number = ibv_next_poll(stamped_)) == 0);
  ibv_end_poll(stamped_);
  return number == 0 || number == ENOENT ? count : -1;
}

WireResult<std::optional<Received>> VerbsWire::receive(std::int64_t deadline) {
  if (!pair_) return tl::unexpected(closed_error(name_));
  if (!capabilities_.receives) return receive_nothing(name_, deadline);
  while (next_ == count_) {
    // Releases the previously returned frame.
    for (std::size_t i = 0; i < count_; ++i) free_.push_back(arrived_[i].slot);
    next_ = count_ = 0;
    if (receive_failed_) return tl::unexpected(*receive_failed_);
    if (auto given = give_buffers(); !given) return tl::unexpected(given.error());
    int found = poll_received();
    if (found == 0) {
      ibv_cq* queue = nullptr;
      void* own = nullptr;
      while (ibv_get_cq_event(channel_.get(), &queue, &own) == 0) ibv_ack_cq_events(queue, 1);
      if (const int number = ibv_req_notify_cq(receive_queue_.get(), 0))
        return tl::unexpected(failed(name_, "request notification", number));
      // A frame may have arrived before the request.
      found = poll_received();
    }
    if (found < 0)
      return tl::unexpected(wire_error(WireError::Kind::system, 0, "{}: receive: the completion queue failed", name_));
    if (found > 0) continue;
    if (wire_clock::wait_for(channel_->fd, POLLIN, std::min(deadline, now() + look_up))) continue;
    // The completion channel does not report a port that is down or a removed device.
    ibv_port_attr port{};
    if (const int number = ibv_query_port(device_.context.get(), port_, &port))
      return tl::unexpected(failed(name_, "query the port", number));
    if (port.state != IBV_PORT_ACTIVE) return tl::unexpected(down(port.state));
    if (now() >= deadline) return std::nullopt;
  }
  const Arrived& frame = arrived_[next_++];
  ++counters_.received;
  counters_.received_bytes += frame.bytes;
  return Received{Bytes(receive_slots_.at(frame.slot), frame.bytes), frame.time, frame.bytes, false};
}

}  // namespace rdmawire::replay::rdma
