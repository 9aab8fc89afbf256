#pragma once
/// First pass over a capture: collects directions and flows, samples for comparing clocks, and pairs of queue pairs.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "captures/analysis/bounded.hpp"
#include "captures/analysis/vantage/observation.hpp"
#include "dissectors/output/filter.hpp"
#include "dissectors/protocol/decode.hpp"

namespace rdmawire::captures::vantage {

/// A sampled packet. Packets are selected by their identity, so all capture points sample the same packets.
struct Sample {
  std::uint64_t identity = 0;
  std::int64_t time = 0;
  std::uint32_t direction = 0;  ///< index into Survey::directions.rows()
  std::uint8_t ttl = 0;
  bool repeated = false;  ///< several packets of the capture have this identity, so the sample cannot be matched
};

/// Samples of any number of packets in limited memory: those whose identity ends in `level` zero bits.
class Samples {
 public:
  explicit Samples(std::size_t capacity) : capacity_(capacity) {}
  void add(const Sample& sample) {
    if (sample.identity & mask()) return;
    samples_.push_back(sample);
    if (samples_.size() > capacity_) thin_out();
  }
  /// Sorts samples by identity. If several have the same identity, keeps one of them and marks it.
  void settle();
  [[nodiscard]] const std::vector<Sample>& all() const { return samples_; }
  [[nodiscard]] unsigned level() const { return level_; }
  static std::uint64_t mask(unsigned level) { return (std::uint64_t{1} << level) - 1; }

 private:
  [[nodiscard]] std::uint64_t mask() const { return mask(level_); }
  void thin_out();
  std::size_t capacity_;
  unsigned level_ = 0;
  std::vector<Sample> samples_;
};

/// Packets of a capture from one address to another.
struct DirectionSeen {
  std::uint64_t packets = 0;
  std::uint32_t index = 0;  ///< index in directions.rows()
  std::uint8_t ttl = 0;     ///< maximum TTL
};

/// Packets of one flow, which is those to one QP, or one direction of a TCP connection.
struct FlowSeen {
  std::uint64_t packets = 0;
};

struct Survey {
  explicit Survey(std::size_t samples_kept) : samples(samples_kept) {}

  std::string name;
  std::uint64_t packets = 0, rdma = 0, tcp = 0;  ///< tcp: number of TCP packets that are not known to be iWARP
  std::uint64_t bytes = 0;                       ///< bytes of packets as captured
  std::int64_t first_time = 0, last_time = 0;    ///< times of the capture's clock in nanoseconds
  bool nanoseconds = false;                      ///< some times are finer than microseconds
  std::uint64_t cut = 0;                         ///< number of RDMA packets that are truncated before the ICRC
  std::optional<std::uint64_t>
      lost_by_capture;  ///< number of packets that the capture lost (nullopt: the file does not state it)
  std::string error;    ///< read error (empty: the file was read completely)
  analysis::BoundedTable<FlowKey, DirectionSeen> directions{1U << 16};  ///< the number in the key is 0
  analysis::BoundedTable<FlowKey, FlowSeen> flows{1U << 18};            ///< keys as in Observation::flow
  Samples samples;
  /// Destination QP of the other direction of a flow. Keys as in Observation::flow.
  std::map<std::array<std::uint64_t, 5>, std::uint32_t> partners;
  std::map<std::array<std::uint64_t, 5>, bool> iwarp;  ///< TCP flows that contain iWARP. Keys as in Observation::flow
};

/// Converts a flow to a key for ordered containers.
inline std::array<std::uint64_t, 5> ordered(const FlowKey& flow) {
  return {flow.from.high, flow.from.low, flow.to.high, flow.to.low, flow.number};
}

struct ReadOptions {
  DecodeOptions decode;
  const output::Filter* filter = nullptr;  ///< packets that do not match are ignored
  bool verify_crcs = true;
  /// Called periodically with the number of packets so far, the number of bytes read of this file, its size (0:
  /// unknown) and its name.
  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, const std::string&)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< if set to true, reading ends as if the captures ended

  [[nodiscard]] bool stops() const { return stop && stop->load(std::memory_order_relaxed); }
};

/// Reads the whole capture. If the file cannot be opened, returns nullopt and sets `error` to one sentence.
std::optional<Survey> survey(const std::string& file, const ReadOptions& options, IdentityBy by,
                             std::size_t samples_kept, std::string& error);

}  // namespace rdmawire::captures::vantage
