#include "replay/player/prefetcher.hpp"

#include <csignal>

#include "replay/wires/clock.hpp"

namespace rdmawire::replay {
namespace {

// Prefetches the bytes from the cache of the other CPU.
void prefetch(Bytes bytes) {
  constexpr std::size_t line = 64;
  for (std::size_t at = 0; at < bytes.size(); at += line) __builtin_prefetch(bytes.data() + at, 0, 2);
}

}  // namespace

Prefetcher::Prefetcher(FramePipeline& feeder) : feeder_(feeder) {
  // Signals are delivered to the sender, to interrupt its sleeps. Synchronous signals of this thread stay unblocked.
  sigset_t all, before;
  ::sigfillset(&all);
  for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP}) ::sigdelset(&all, own);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Prefetcher::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  freed_.notify_one();
  thread_.join();
}

void Prefetcher::fill(Batch& batch) {
  for (auto& spare : batch.spares) feeder_.recycle(std::move(spare));
  batch.spares.clear();
  batch.count = 0;
  batch.last = false;
  batch.slots.resize(most_frames);
  batch.tallies.resize(most_frames + 1);
  std::int64_t hungry_since = 0;
  try {
    std::unique_ptr<Slot> slot;
    for (std::size_t bytes = 0; batch.count < most_frames && bytes < max_bytes && !stop_;) {
      // If frames are rare or reading is slow, the sender gets a partial batch.
      if (batch.count > 0 && hungry_.load(std::memory_order_relaxed)) {
        const std::int64_t now = wire_clock::now();
        if (hungry_since == 0) hungry_since = now;
        if (now - hungry_since > most_age) break;
      }
      if (!feeder_.step(slot)) continue;
      batch.tallies[batch.count] = feeder_.tally();
      if (!slot) {
        batch.last = true;
        break;
      }
      bytes += slot->bytes.size();
      batch.slots[batch.count++] = std::move(slot);
    }
  } catch (...) {
    thrown_ = std::current_exception();
    batch.last = true;
  }
}

void Prefetcher::feed() {
  const std::uint64_t number = written_.load(std::memory_order_relaxed);
  fill(batch(number));
  over_ = batch(number).last;
  const std::lock_guard lock(mutex_);
  written_ = number + 1;
  filled_.notify_one();
}

void Prefetcher::run() {
  while (!stop_) {
    {
      const std::lock_guard mine(feeding_);
      if (over_) return;
      std::unique_lock lock(mutex_);
      if (written_ - returned_ < batches) {
        lock.unlock();
        feed();
        continue;
      }
    }
    std::unique_lock lock(mutex_);
    waits_ = true;
    freed_.wait(lock, [&] { return stop_ || written_ - returned_ <= batches / 2; });
    waits_ = false;
  }
}

void Prefetcher::give_back() {
  batch(reading_).spares.swap(spare_);
  has_batch_ = false;
  at_ = 0;
  ++reading_;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    returned_ = reading_;
    // Waking a thread costs the sender more than sending a frame, so wake only when half of the batches are free.
    wake = waits_ && written_ - returned_ <= batches / 2;
  }
  if (wake) freed_.notify_one();
}

bool Prefetcher::ready() const {
  // The rest of the current batch may only contain the end mark.
  if (has_batch_ && (at_ < batch(reading_).count || batch(reading_).last)) return true;
  return written_.load(std::memory_order_acquire) > reading_ + (has_batch_ ? 1 : 0);
}

std::unique_ptr<Slot> Prefetcher::next() {
  for (;;) {
    if (has_batch_) {
      Batch& current = batch(reading_);
      if (at_ < current.count) {
        tally_ = &current.tallies[at_];
        prefetch(current.slots[at_]->bytes);
        return std::move(current.slots[at_++]);
      }
      if (current.last) {
        if (thrown_) std::rethrow_exception(thrown_);
        tally_ = &current.tallies[current.count];
        return nullptr;
      }
      give_back();
    }
    if (written_ == reading_)
      if (const std::unique_lock mine(feeding_, std::try_to_lock); mine && written_ == reading_) feed();
    std::unique_lock lock(mutex_);
    if (written_ == reading_) {
      hungry_ = true;
      filled_.wait(lock, [&] { return written_ > reading_; });
      hungry_ = false;
    }
    has_batch_ = true;
  }
}

}  // namespace rdmawire::replay
