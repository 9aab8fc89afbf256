#pragma once
/// Inside the room: frames made ready on a thread of their own, so that reading and rewriting cost the sender no time.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "replay/player/frame_pipeline.hpp"

namespace rdmawire::replay {

/// Runs a feeder ahead of the one who sends, by no more than `batches` times `most_frames` frames or `max_bytes`
/// bytes. Where the thread gets no processor the sender does its work, rather than wait. The frames, their order and
/// what is told of them are those of the feeder alone: of what it counted, only what it had counted with the last frame
/// that next() gave is told.
class Prefetcher {
 public:
  /// The feeder is ours until stop().
  explicit Prefetcher(FramePipeline& feeder);
  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// As Feeder::next(); waits until there is one. Throws what the feeder threw.
  std::unique_ptr<Slot> next();
  /// next() would not wait.
  [[nodiscard]] bool ready() const;
  void recycle(std::unique_ptr<Slot> slot) { spare_.push_back(std::move(slot)); }
  /// As of the last frame that next() gave; once it gave none, of all. Until the next call of it.
  [[nodiscard]] const FrameCounters& tally() const { return *tally_; }
  /// Ends the thread.
  void stop();

 private:
  static constexpr std::uint64_t batches = 8;
  static constexpr std::size_t most_frames = 128, max_bytes = 256 << 10;  // of a batch
  static constexpr std::int64_t most_age = 100'000;                       // of one that the sender waits for
  struct Batch {
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<FrameCounters> tallies;         // as of each slot, and of the end
    std::size_t count = 0;                      // of slots
    std::vector<std::unique_ptr<Slot>> spares;  // on their way back to the feeder
    bool last = false;
  };
  Batch& batch(std::uint64_t number) { return ring_[number % batches]; }
  [[nodiscard]] const Batch& batch(std::uint64_t number) const { return ring_[number % batches]; }

  void run();
  /// By who has feeding_, and where there is room.
  void feed();
  void fill(Batch& batch);
  void give_back();

  std::mutex feeding_;
  FramePipeline& feeder_;
  bool over_ = false;  // the last batch was filled
  std::array<Batch, batches> ring_;
  std::exception_ptr thrown_;
  std::atomic<bool> stop_ = false, hungry_ = false;  // hungry: the sender waits
  std::atomic<std::uint64_t> written_ = 0;           // batches that are or were ready; changes under the mutex

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  std::uint64_t returned_ = 0;  // of those written, given back
  bool waits_ = false;          // the feeder, for room

  // The sender's.
  std::uint64_t reading_ = 0;  // batch, when there is one
  std::size_t at_ = 0;
  bool has_batch_ = false;
  FrameCounters none_;
  const FrameCounters* tally_ = &none_;
  std::vector<std::unique_ptr<Slot>> spare_;
  std::thread thread_;
};

}  // namespace rdmawire::replay
