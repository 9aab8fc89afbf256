#pragma once
/// Counts the frames of each flow that a replay sends.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/link_type.hpp"

namespace rdmawire::replay {

/// Counters of the flows. A flow has one direction: addresses, protocol and ports, and the destination QP of RoCE.
struct FlowReport {
  struct Flow {
    std::string who;  ///< "10.0.0.2:49152 → 10.0.0.3:4791 RoCE QP 0x11"
    std::uint64_t frames = 0, bytes = 0;
    std::int64_t nanoseconds = 0;  ///< from the first to the last frame
  };
  std::uint64_t flows = 0;          ///< number of flows
  std::vector<Flow> largest{};      ///< the flows with the most frames, in descending order, at most `most_listed`
  std::uint64_t other_frames = 0;   ///< frames without IP addresses or GIDs
  std::uint64_t beyond_frames = 0;  ///< frames of further flows, which were not counted because the table was full
  std::int64_t nanoseconds = 0;     ///< from the first to the last frame of all flows

  static constexpr std::size_t most_listed = 65'536;
};

class FlowStatistics {
 public:
  FlowStatistics();
  FlowStatistics(FlowStatistics&&) noexcept;
  FlowStatistics& operator=(FlowStatistics&&) noexcept;
  ~FlowStatistics();

  /// Counts a frame that was sent at `time` in nanoseconds.
  void add(Bytes frame, LinkType link, std::int64_t time);
  [[nodiscard]] FlowReport report() const;

  /// Limit of the number of flows.
  static constexpr std::size_t most_flows = 1U << 20;

 private:
  struct Table;
  std::unique_ptr<Table> table_;
};

}  // namespace rdmawire::replay
