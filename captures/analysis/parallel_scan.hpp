#pragma once
/// Divides the work on a capture into steps that several threads share, even if all packets belong to one connection.
///
/// The calling thread reads frames into batches. Any thread can decode a batch: headers, CRCs, and all other work that
/// does not depend on earlier packets. Lanes, such as tracking and counting, process the batches in order. Only one
/// thread at a time works on a lane, but several lanes work at the same time. Therefore, the result does not depend on
/// the number of threads.

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

/// A frame of a batch, which the calling thread fills in. It has the size of one cache line.
struct alignas(64) BatchFrame {
  Bytes bytes;
  std::uint64_t number = 0;
  std::int64_t time = 0;
  std::uint32_t wire_length = 0;
  LinkType link = LinkType::ethernet;
  std::uint16_t shard = 0;  ///< number of the shard to which the frame belongs
  std::uint8_t unused[24] = {};

  /// Sets packet.number, time_ns and link.
  void describe(tracking::Packet& packet) const {
    packet.number = number;
    packet.time_ns = time;
    packet.link = link;
  }
};

/// A decoded frame, which any thread fills in. It has the size of three cache lines, because moving a line to another
/// core takes up to 40 ns.
struct alignas(64) DecodedFrame {
  /// The packet, if `has_transport` is true: it belongs to InfiniBand's transport and has addresses. If it is false,
  /// only `from` and `to` are set, if `known` is true.
  tracking::TransportPacket transport;
  std::uint32_t payload = 0;   ///< payload_of() of the packet, if `plain`
  std::uint32_t arriving = 0;  ///< Peek::payload of the frame
  CrcCheck icrc;
  bool has_transport = false;
  /// True for an intact RoCE packet with a known opcode and a destination QP other than 0 and 1. The other members are
  /// sufficient to track and count it, unless the upper layer protocol of a connection is known
  /// (Dissector::knows_flows()).
  bool plain = false;
  bool truncated = false;            ///< HeaderStack::cut
  bool known = false, text = false;  ///< Peek::known, Peek::text
  bool checked = false;              ///< result of Setup::decoded
};
static_assert(sizeof(BatchFrame) == 64 && sizeof(DecodedFrame) == 192);

struct FrameBatch {
  static constexpr std::size_t capacity = 256;
  static constexpr std::size_t most_copied = 256 * 1024;  ///< maximum number of bytes in `copied`
  std::array<BatchFrame, capacity> frames;
  std::array<DecodedFrame, capacity> decoded;
  std::size_t count = 0;
  std::vector<std::uint8_t> copied;  ///< bytes of the frames, if the reader does not keep them
};

/// A step that processes all batches in order.
class Lane {
 public:
  /// `slot` is the number of the batch modulo ParallelScan::depth. A slot is reused only after all lanes have processed
  /// the batch.
  virtual void process(FrameBatch& batch, std::size_t slot) = 0;

 protected:
  ~Lane() = default;
};

class ParallelScan final : public FrameConsumer {
 public:
  /// Maximum number of batches that have been read, but not processed yet. It limits the memory.
  static constexpr std::size_t depth = 12;

  struct Setup {
    unsigned threads = 2;  ///< number of threads, including the calling thread
    unsigned shards = 1;
    tracking::DissectorOptions dissector;
    bool payload_crcs = false;  ///< calls read_payload_crc() for each packet
    /// Only for a single shard: this consumer gets the first frames, `first_bytes` in total. The threads are started
    /// afterwards.
    FrameConsumer* first = nullptr;
    std::uint64_t first_bytes = 0;
    /// May be empty. The thread that decoded a packet calls it before the packet is tracked. The result is stored in
    /// DecodedFrame::checked.
    std::function<bool(const tracking::Packet&, std::size_t slot)> decoded{};
    std::function<bool()> gives_up{};
    std::function<void()> out_of_memory{};
  };

  explicit ParallelScan(Setup setup);
  ~ParallelScan();
  ParallelScan(const ParallelScan&) = delete;
  ParallelScan& operator=(const ParallelScan&) = delete;

  /// Adds a lane, which must outlive this object, and returns its number. Must be called before the first frame. The
  /// lane processes a batch after lane `after` has processed it (nullopt: after it is decoded). If possible, `thread`
  /// works on the lane.
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
  /// Executes one task. Returns false if there was none.
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
  tracking::Packet packet_;        ///< used only by the calling thread

  std::mutex guard_;  ///< protects the following members
  std::condition_variable change_;
  unsigned waiting_ = 0;
  std::array<Slot, depth> slots_;
  std::vector<LaneState> lanes_;
  std::uint64_t
      submitted_ = 0,
      claimed_ = 0;  ///< number of batches that were filled, and number of batches that a thread has taken for decoding
  std::exception_ptr failure_;
  bool skips_ = false;  ///< the remaining batches are discarded
  bool ends_ = false;

  std::vector<std::jthread> threads_;
};

}  // namespace rdmawire::captures::analysis
