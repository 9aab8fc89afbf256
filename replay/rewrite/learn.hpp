#pragma once
/// Infers the captured side of a flow map from a capture: connections, QPs, initial sequence numbers and memory
/// regions.

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "dissectors/tracking/packet.hpp"
#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay {

/// Contents of a capture that are relevant for a replay.
struct Learnt {
  FlowMap map;  ///< connections in the order of their first frames, named "connection 1" and so on. No live values
  std::uint64_t frames = 0, bytes = 0;  ///< complete frames with their original lengths
  std::uint64_t snapped = 0;            ///< frames truncated by the capture
  std::uint64_t bad_icrcs = 0;
  std::uint64_t divided_pdus = 0;  ///< iWARP: PDUs in several frames
  std::uint64_t forgotten = 0;     ///< connections dropped because a limit was reached
  std::int64_t first_time = 0, last_time = 0;
  /// Values that occur in frames.
  std::unordered_set<PortAddress, HashFlow> addresses;  ///< also of ARP
  bool all_addresses = true;                            ///< false: there were more than a limit
  std::bitset<0x10000> ports;                           ///< UDP and TCP
  std::bitset<MappedVlan::untagged + 1> vlans;          ///< of outermost tags
  /// By connection and Side: PSNs from the first to the last request, inclusive, with the PSNs of READ responses.
  std::vector<std::array<std::uint32_t, 2>> psns;
  /// Messages that the peer requested, which this endpoint counts in its MSN, by connection and Side.
  std::vector<std::array<std::uint32_t, 2>> msns;
};

/// Reads the dissected packets of a capture in order. Memory usage depends on the number of connections, not on the
/// number of packets.
class FlowLearner {
 public:
  FlowLearner();
  FlowLearner(FlowLearner&&) noexcept;
  FlowLearner& operator=(FlowLearner&&) noexcept;
  ~FlowLearner();

  void add(const tracking::Packet& packet);
  /// Call once, after the last packet.
  Learnt finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "10.0.0.2 QP 0x12 ↔ 10.0.0.3 QP 0x11", captured values; "?": unknown.
std::string who(const MappedConnection& connection);

}  // namespace rdmawire::replay
