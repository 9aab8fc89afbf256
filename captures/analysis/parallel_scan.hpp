#pragma once
/// Divides the work on a capture into steps that several threads share, even if all packets belong to one connection.
///
/// The calling thread reads frames into batches. Any thread decodes a batch: headers, CRCs, and all other work that
/// needs no earlier packet. Lanes process the batches in order, such as tracking and counting: one thread at a time
/// works on a lane, and several lanes work at the same time. So the result does not depend on the number of threads.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "captures/analysis/analysis.hpp"
#include "captures/analysis/capture_scan.hpp"
#include "captures/analysis/peek.hpp"
#include "dissectors/tracking/dissector.hpp"
#include "dissectors/tracking/transport_packet.hpp"

namespace rdmawire::captures::analysis {

/// A frame of a batch, set by the calling thread. One cache line.
struct alignas(64) BatchFrame {
  Bytes bytes;
  std::uint64_t number = 0;
  std::int64_t time = 0;
  std::uint32_t wire_length = 0;
  LinkType link = LinkType::ethernet;
  std::uint16_t shard = 0;  ///< the shard that the frame belongs to
  std::uint8_t unused[24] = {};

  /// Sets packet.number, time_ns and link.
  void describe(tracking::Packet& packet) const {
    packet.number = number;
    packet.time_ns = time;
    packet.link = link;
  }
};

/// The decoded frame, set by any thread. Three cache lines: a line that moves to another core costs up to 40 ns.
struct alignas(64) DecodedFrame {
  /// The packet, if `has_transport`: it belongs to InfiniBand's transport and has addresses. Otherwise only `from` and
  /// `to` are set, if `known`.
  tracking::TransportPacket transport;
  std::uint32_t payload = 0;   ///< payload_of(), if `plain`
  std::uint32_t arriving = 0;  ///< Peek::payload
  CrcCheck icrc;
  bool has_transport = false;
  /// An intact RoCE packet with a known opcode and a destination QP other than 0 and 1. The other members suffice to
  /// track and count it, unless the upper layer protocol of a connection is known (Dissector::knows_flows()).
  bool plain = false;
  bool truncated = false;            ///< HeaderStack::cut
  bool known = false, text = false;  ///< Peek::known, Peek::text
  bool checked = false;              ///< result of Setup::decoded
};
static_assert(sizeof(BatchFrame) == 64 && sizeof(DecodedFrame) == 192);

struct FrameBatch {
  static constexpr std::size_t capacity = 256;
  static constexpr std::size_t most_copied = 256 * 1024;  ///< bytes
  std::array<BatchFrame, capacity> frames;
  std::array<DecodedFrame, capacity> decoded;
  std::size_t count = 0;
  std::vector<std::uint8_t> copied;  ///< the frames' bytes, if the reader does not keep them
};

/// A step that processes all batches in order.
class Lane {
 public:
  /// `slot`: number of the batch modulo ParallelScan::depth. The slot is not used again before all lanes have processed
  /// the batch.
  virtual void process(FrameBatch& batch, std::size_t slot) = 0;

 protected:
  ~Lane() = default;
};

class ParallelScan final : public FrameConsumer {
 public:
  /// Maximum number of batches that are read and not yet processed. It bounds the memory.
  static constexpr std::size_t depth = 12;

  struct Setup {
    unsigned threads = 2;  ///< including the calling thread
    unsigned shards = 1;
    tracking::DissectorOptions dissector;
    bool payload_crcs = false;  ///< call read_payload_crc()
    /// One shard only: this consumer gets the first frames, until they have this number of bytes. Threads are started
    /// afterwards.
    FrameConsumer* first = nullptr;
    std::uint64_t first_bytes = 0;
    /// Called by the thread that decoded a packet, before the packet is tracked (may be empty). The result is stored
    /// in DecodedFrame::checked.
    std::function<bool(const tracking::Packet&, std::size_t slot)> decoded{};
    std::function<bool()> gives_up{};
    std::function<void()> out_of_memory{};
  };

  explicit ParallelScan(Setup setup);
  ~ParallelScan();
  ParallelScan(const ParallelScan&) = delete;
  ParallelScan& operator=(const ParallelScan&) = delete;

  /// Adds a lane before the first frame, and returns its number. It processes a batch after lane `after` (nullopt:
  /// after decoding). Preferably thread `thread` works on it. The lane must outlive this object.
  std::size_t add_lane(Lane& lane, unsigned thread, std::optional<std::size_t> after = {});

  void add(const Record& record, std::uint64_t frame, bool stays) override;
  /// Returns when all lanes have processed all frames. Rethrows the first exception of another thread.
  void drain() override;
  bool gives_up() override { return setup_.gives_up && setup_.gives_up(); }
  void abandon() override;
  void out_of_memory() override;

 private:
  struct Slot {
    std::unique_ptr<FrameBatch> batch;
    bool decoded = false;
  };
  struct LaneState {
    Lane* lane;
    unsigned thread;
    std::optional<std::size_t> after;
    std::uint64_t next = 0;  ///< number of the next batch
    bool busy = false;
  };
  using Lock = std::unique_lock<std::mutex>;
  void start();
  void append(const Record& record, std::uint64_t frame, Bytes bytes);
  void submit();
  void wait_for_slot();
  void help(unsigned thread);
  /// Executes one task. Returns false if there is none.
  bool work(unsigned thread, Lock& lock, tracking::Packet& packet);
  void work_on(LaneState& lane, Lock& lock);
  [[nodiscard]] bool ready(const LaneState& lane) const;
  void decode(FrameBatch& batch, std::size_t slot, tracking::Packet& packet) const;
  void changed();
  [[nodiscard]] std::uint64_t finished() const;
  void fail(const std::exception_ptr& thrown);
  void check() const;

  const Setup setup_;
  Sharder sharder_;
  std::uint64_t first_left_;
  bool started_ = false;
  FrameBatch* filling_ = nullptr;  ///< used only by the calling thread
  tracking::Packet packet_;        ///< the same

  std::mutex guard_;  ///< for the following members
  std::condition_variable change_;
  unsigned waiting_ = 0;
  std::array<Slot, depth> slots_;
  std::vector<LaneState> lanes_;
  std::uint64_t submitted_ = 0, claimed_ = 0;  ///< batches that were filled, and given to a thread for decoding
  std::exception_ptr failure_;
  bool skips_ = false;  ///< the remaining batches are not processed
  bool ends_ = false;

  std::vector<std::jthread> threads_;
};

}  // namespace rdmawire::captures::analysis
