#pragma once
/// Internal: prepares frames in a separate thread, so that reading and rewriting do not delay the sender.

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

/// Runs a frame pipeline ahead of the sender by at most `batches` times `most_frames` frames or `max_bytes` bytes. If
/// the thread gets no CPU time, the sender does its work. Frames and their order are those of the pipeline. The
/// counters correspond to the last frame that next() returned.
class Prefetcher {
 public:
  /// `feeder` must not be used by others until stop().
  explicit Prefetcher(FramePipeline& feeder);
  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Same as FramePipeline::next(), but waits for the frame. Rethrows exceptions of the pipeline.
  std::unique_ptr<Slot> next();
  /// True if next() does not block.
  [[nodiscard]] bool ready() const;
  void recycle(std::unique_ptr<Slot> slot) { spare_.push_back(std::move(slot)); }
  /// Counters as of the last frame that next() returned, or of all frames after next() returned nullptr. Valid until
  /// the next call of next().
  [[nodiscard]] const FrameCounters& tally() const { return *tally_; }
  /// Stops the thread.
  void stop();

 private:
  static constexpr std::uint64_t batches = 8;
  static constexpr std::size_t most_frames = 128, max_bytes = 256 << 10;  // per batch
  static constexpr std::int64_t most_age = 100'000;                       // of a batch that the sender waits for
  struct Batch {
    std::vector<std::unique_ptr<Slot>> slots;
    std::vector<FrameCounters> tallies;         // as of each slot and of the end
    std::size_t count = 0;                      // number of slots
    std::vector<std::unique_ptr<Slot>> spares;  // slots on their way back to the pipeline
    bool last = false;
  };
  Batch& batch(std::uint64_t number) { return ring_[number % batches]; }
  [[nodiscard]] const Batch& batch(std::uint64_t number) const { return ring_[number % batches]; }

  void run();
  /// Requires feeding_ and a free batch.
  void feed();
  void fill(Batch& batch);
  void give_back();

  std::mutex feeding_;
  FramePipeline& feeder_;
  bool over_ = false;  // the last batch is complete
  std::array<Batch, batches> ring_;
  std::exception_ptr thrown_;
  std::atomic<bool> stop_ = false, hungry_ = false;  // hungry_: the sender waits
  std::atomic<std::uint64_t> written_ = 0;           // batches made ready so far. Modified with the mutex locked

  std::mutex mutex_;
  std::condition_variable filled_, freed_;
  std::uint64_t returned_ = 0;  // batches returned by the sender
  bool waits_ = false;          // the pipeline waits for a free batch

  // Sender state.
  std::uint64_t reading_ = 0;  // current batch
  std::size_t at_ = 0;
  bool has_batch_ = false;
  FrameCounters none_;
  const FrameCounters* tally_ = &none_;
  std::vector<std::unique_ptr<Slot>> spare_;
  std::thread thread_;
};

}  // namespace rdmawire::replay
