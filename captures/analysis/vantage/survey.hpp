#pragma once
/// The first reading of a capture: who talks in it, samples of its packets to compare clocks by, and which queue
/// pairs belong together.

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

/// A packet that stands for others. The same packets are taken at every vantage point, because their identity decides.
struct Sample {
  std::uint64_t identity = 0;
  std::int64_t time = 0;
  std::uint32_t direction = 0;  ///< index into Survey::directions.rows()
  std::uint8_t ttl = 0;
  bool repeated = false;  ///< the identity came again: which copy is which is not known yet
};

/// Samples of any number of packets in bounded memory: those whose identity ends in `level` zero bits.
class Samples {
 public:
  explicit Samples(std::size_t capacity) : capacity_(capacity) {}
  void add(const Sample& sample) {
    if (sample.identity & mask()) return;
    samples_.push_back(sample);
    if (samples_.size() > capacity_) thin_out();
  }
  /// Sorted by identity, each identity once; ready to be compared.
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

/// Packets from one address to another, as one capture has them.
struct DirectionSeen {
  std::uint64_t packets = 0;
  std::uint32_t index = 0;  ///< its place among the rows
  std::uint8_t ttl = 0;     ///< the highest
};

/// Packets of one flow: to one queue pair, of one direction of a TCP connection.
struct FlowSeen {
  std::uint64_t packets = 0;
};

struct Survey {
  explicit Survey(std::size_t samples_kept) : samples(samples_kept) {}

  std::string name;
  std::uint64_t packets = 0, rdma = 0, tcp = 0;                         ///< tcp: not known to be iWARP
  std::uint64_t bytes = 0;                                              ///< of packets, as captured
  std::int64_t first_time = 0, last_time = 0;                           ///< nanoseconds, by its clock
  bool nanoseconds = false;                                             ///< times are finer than microseconds
  std::uint64_t cut = 0;                                                ///< RDMA packets without their ICRC
  std::optional<std::uint64_t> lost_by_capture;                         ///< packets; absent: the file does not say
  std::string trouble;                                                  ///< why it could not be read to its end
  analysis::BoundedTable<FlowKey, DirectionSeen> directions{1U << 16};  ///< key: number 0
  analysis::BoundedTable<FlowKey, FlowSeen> flows{1U << 18};            ///< key: as Sighting::flow
  Samples samples;
  /// To which queue pair the other direction of a flow goes. Key: as Sighting::flow.
  std::map<std::array<std::uint64_t, 5>, std::uint32_t> partners;
  std::map<std::array<std::uint64_t, 5>, bool> iwarp;  ///< flows of TCP that carry iWARP, by the lower direction
};

/// A flow as a key of ordered containers.
inline std::array<std::uint64_t, 5> ordered(const FlowKey& flow) {
  return {flow.from.high, flow.from.low, flow.to.high, flow.to.low, flow.number};
}

struct ReadOptions {
  DecodeOptions decode;
  const output::Filter* filter = nullptr;  ///< packets that do not match are as if not captured
  bool verify_crcs = true;
  /// Now and then: packets so far, bytes of this file done and in all (0: not known), its name.
  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, const std::string&)> progress;
  const std::atomic<bool>* stop = nullptr;  ///< ends the reading early, as if the captures ended there

  [[nodiscard]] bool stops() const { return stop && stop->load(std::memory_order_relaxed); }
};

/// Reads the whole capture once. nullopt, with a sentence in `trouble`, when it cannot be opened.
std::optional<Survey> survey(const std::string& file, const ReadOptions& options, IdentityBy by,
                             std::size_t samples_kept, std::string& trouble);

}  // namespace rdmawire::captures::vantage
