#pragma once
/// Records of InfiniBand subnet management in a capture.

#include <cstdint>
#include <vector>

#include "dissectors/tracking/subnet.hpp"

namespace rdmawire::captures::analysis {

/// Keeps the first records of each kind in capture order, and counts the others.
class ManagementRecords final : public tracking::ManagementSink {
 public:
  static constexpr std::size_t most = 1000;

  std::vector<tracking::MulticastMembership> memberships;
  std::vector<tracking::PathGiven> paths;
  std::vector<tracking::PortCounterReading> counters;
  std::uint64_t left_out = 0;

  void multicast(const tracking::MulticastMembership& record) override { keep(memberships, record); }
  void path(const tracking::PathGiven& record) override { keep(paths, record); }
  void port_counters(const tracking::PortCounterReading& record) override { keep(counters, record); }

  /// Adds the records of another shard. Only one shard can contain native InfiniBand.
  void merge(const ManagementRecords& other) {
    for (const auto& record : other.memberships) keep(memberships, record);
    for (const auto& record : other.paths) keep(paths, record);
    for (const auto& record : other.counters) keep(counters, record);
    left_out += other.left_out;
  }

 private:
  template <class Record>
  void keep(std::vector<Record>& records, const Record& record) {
    if (records.size() < most)
      records.push_back(record);
    else
      ++left_out;
  }
};

}  // namespace rdmawire::captures::analysis
