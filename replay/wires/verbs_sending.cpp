// Posts frames and collects send completions.

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "replay/wires/clock.hpp"
#include "replay/wires/sending.hpp"
#include "replay/wires/verbs_wire.hpp"

namespace rdmawire::replay::rdma {
namespace {

constexpr std::int64_t pause = 5'000;  // interval between polls of a completion queue

}  // namespace

// Returns the number of completions, or a negative number on failure.
int VerbsWire::poll_sent(std::span<ibv_wc> completions) {
  if (!stamped_sends_) return ibv_poll_cq(send_queue_.get(), static_cast<int>(completions.size()), completions.data());
  ibv_poll_cq_attr nothing{};
  int number = ibv_start_poll(stamped_sends_, &nothing);
  if (number == ENOENT) return 0;
  if (number != 0) return -1;
  const std::int64_t now = wire_clock::now();
  std::size_t count = 0;
  do {
    ibv_wc& completion = completions[count++];
    completion = {};
    completion.wr_id = stamped_sends_->wr_id;
    completion.status = stamped_sends_->status;
    if (completion.status == IBV_WC_SUCCESS)
      keep_departure(departures_, {completion.wr_id, time_of(send_stamp_, stamp_in(stamped_sends_, send_stamp_), now)});
    else
      completion.vendor_err = ibv_wc_read_vendor_err(stamped_sends_);
  } while (count < completions.size() && (number = ibv_next_poll(stamped_sends_)) == 0);
  ibv_end_poll(stamped_sends_);
  return number == 0 || number == ENOENT ? static_cast<int>(count) : -1;
}

void VerbsWire::read_departures(std::vector<Departure>& departures) {
  if (pair_) reap();
  departures.insert(departures.end(), departures_.begin(), departures_.end());
  departures_.clear();
}

// Counts sent frames. Requests complete in order: a completion covers all preceding requests.
void VerbsWire::reap() {
  const auto count_until = [this](std::uint64_t end) {
    counters_.sent += end - done_;
    for (; done_ < end; ++done_) counters_.sent_bytes += lengths_[done_ % send_depth_];
  };
  std::array<ibv_wc, 16> completions;
  for (;;) {
    if (failed_) return;
    const int count = poll_sent(completions);
    if (count < 0) {
      failed_ = wire_error(WireError::Kind::system, 0,
                           "{}: poll send completions: the completion queue failed; {} of {} work requests were "
                           "completed",
                           name_, done_, posted_);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      if (completion.status == IBV_WC_SUCCESS) {
        count_until(completion.wr_id + 1);
        continue;
      }
      count_until(completion.wr_id);
      // Never Kind::frame: the QP is in the Error state, so skipping the frame would not help.
      const auto kind = completion.status == IBV_WC_FATAL_ERR ? WireError::Kind::missing : WireError::Kind::system;
      const std::string_view hint = completion.status == IBV_WC_LOC_LEN_ERR
                                        ? "; the port accepts no frame of this length: set its MTU with mtu=…"
                                        : "";
      failed_ = wire_error(kind, 0,
                           "{}: send: work request {} of {} ({} bytes) failed: {} (vendor code 0x{:x}); it and all "
                           "later ones were not sent, because the QP is in the Error state{}",
                           name_, completion.wr_id + 1, posted_, lengths_[completion.wr_id % send_depth_],
                           ibv_wc_status_str(completion.status), completion.vendor_err, hint);
      return;
    }
    if (count < static_cast<int>(completions.size())) return;
  }
}

int VerbsWire::post_requests(std::size_t count, std::size_t& taken) {
  ibv_wr_start(requests_);
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_send_wr& post = posts_[i];
    requests_->wr_id = post.wr_id;
    requests_->wr_flags = post.send_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    ibv_wr_send(requests_);
    const ibv_sge& piece = pieces_[i];
    if (post.send_flags & IBV_SEND_INLINE)
      ibv_wr_set_inline_data(requests_, reinterpret_cast<void*>(piece.addr), piece.length);
    else
      ibv_wr_set_sge(requests_, piece.lkey, piece.addr, piece.length);
  }
  // All or none.
  const int number = ibv_wr_complete(requests_);
  taken = number == 0 ? count : 0;
  return number;
}

int VerbsWire::post_list(std::size_t count, std::size_t& taken) {
  for (std::size_t i = 0; i < count; ++i) posts_[i].next = i + 1 < count ? &posts_[i + 1] : nullptr;
  ibv_send_wr* bad = nullptr;
  const int number = ibv_post_send(pair_.get(), posts_.data(), &bad);
  taken = number == 0 ? count : bad ? static_cast<std::size_t>(bad - posts_.data()) : 0;
  return number;
}

WireResult<std::size_t> VerbsWire::hand_over(std::span<const Outgoing> frames) {
  if (auto well = check_events(); !well) return tl::unexpected(well.error());
  reap();
  if (failed_) return tl::unexpected(*failed_);
  const std::size_t room = send_depth_ - (posted_ - done_);
  const std::size_t most = std::min({frames.size(), room, batch});
  std::size_t count = 0;
  const std::uint32_t lkey = send_region_->lkey;
  std::uint32_t unsignaled = unsignaled_;
  for (; count < most; ++count) {
    const Bytes frame = frames[count].frame;
    if (frame.size() < capabilities_.min_bytes || frame.size() > capabilities_.max_bytes) {
      if (count > 0) break;
      return tl::unexpected(wire_error(WireError::Kind::frame, EMSGSIZE,
                                       "{}: frame of {} bytes; the valid range is {} to {}", name_, frame.size(),
                                       capabilities_.min_bytes, capabilities_.max_bytes));
    }
    const std::uint64_t number = posted_ + count;
    const std::size_t slot = number % send_depth_;
    std::uint8_t* const at = send_slots_.at(slot);
    std::memcpy(at, frame.data(), frame.size());
    const auto bytes = static_cast<std::uint32_t>(frame.size());
    lengths_[slot] = bytes;
    pieces_[count] = {reinterpret_cast<std::uintptr_t>(at), bytes, lkey};
    ibv_send_wr& post = posts_[count];
    post.wr_id = number;
    post.sg_list = &pieces_[count];
    post.num_sge = 1;
    post.opcode = IBV_WR_SEND;
    post.send_flags = bytes <= inline_bytes_ ? static_cast<unsigned>(IBV_SEND_INLINE) : 0U;
    if (++unsignaled >= signal_every_) {
      post.send_flags |= IBV_SEND_SIGNALED;
      unsignaled = 0;
    }
  }
  if (count == 0) return 0;
  // The completion of the last request reports that all frames have left.
  posts_[count - 1].send_flags |= IBV_SEND_SIGNALED;
  std::size_t taken = 0;
  const int number = requests_ ? post_requests(count, taken) : post_list(count, taken);
  posted_ += taken;
  unsignaled_ = 0;
  for (std::size_t i = taken; i > 0 && !(posts_[i - 1].send_flags & IBV_SEND_SIGNALED); --i) ++unsignaled_;
  if (number == 0 || number == ENOMEM || taken > 0) return taken;
  if (number == EINVAL)
    return tl::unexpected(wire_error(WireError::Kind::frame, number,
                                     "{}: post a frame of {} bytes: {}; some devices require the first bytes of a "
                                     "frame inline; use inline=…",
                                     name_, frames.front().frame.size(), errno_text(number)));
  return tl::unexpected(failed(name_, "post frames", number));
}

template <class Ready>
WireResult<bool> VerbsWire::wait_until(std::int64_t deadline, Ready ready) {
  if (!pair_) return tl::unexpected(closed_error(name_));
  for (;;) {
    reap();
    if (ready()) return true;
    if (auto well = check_events(); !well) return tl::unexpected(well.error());
    const std::int64_t now = wire_clock::now();
    if (now >= deadline) return false;
    wire_clock::sleep_until(std::min(deadline, now + pause));
  }
}

WireResult<std::size_t> VerbsWire::send(std::span<const Outgoing> frames) {
  if (!pair_) return tl::unexpected(closed_error(name_));
  return send_when_due(frames, batch, [this](std::span<const Outgoing> run) { return hand_over(run); });
}

std::size_t VerbsWire::send_room() {
  if (!pair_) return 0;
  reap();
  return send_depth_ - static_cast<std::size_t>(posted_ - done_);
}

WireResult<bool> VerbsWire::writable(std::int64_t deadline) {
  if (!pair_) return tl::unexpected(closed_error(name_));
  if (auto well = check_events(); !well) return tl::unexpected(well.error());
  return wait_until(deadline, [this] { return posted_ - done_ < send_depth_; });
}

WireResult<bool> VerbsWire::flush(std::int64_t deadline) {
  return wait_until(deadline, [this] { return posted_ == done_; });
}

}  // namespace rdmawire::replay::rdma
