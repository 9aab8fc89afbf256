#pragma once
/// The captured side of a flow map, learnt from the capture: which connections there are, their queue pairs, where
/// their sequence numbers begin, which memory they name.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dissectors/tracking/packet.hpp"
#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay {

/// What a capture holds, as far as replaying it asks.
struct Learnt {
  FlowMap map;  ///< connections in the order of their first frames, named "connection 1" and so on; live is not known
  std::uint64_t frames = 0, bytes = 0;  ///< whole frames, as on the wire
  std::uint64_t snapped = 0;            ///< shorter in the capture than they were
  std::uint64_t bad_icrcs = 0;
  std::uint64_t divided_pdus = 0;  ///< iWARP: PDUs that several frames carry together
  std::uint64_t forgotten = 0;     ///< connections that found no room
  std::int64_t first_time = 0, last_time = 0;
  /// Of each connection, by End: PSNs from the first to the last of its requests, both counted.
  std::vector<std::array<std::uint32_t, 2>> psns;
};

/// Takes a capture's packets in their order, dissected. Memory grows with the connections, not with the packets.
class FlowLearner {
 public:
  FlowLearner();
  FlowLearner(FlowLearner&&) noexcept;
  FlowLearner& operator=(FlowLearner&&) noexcept;
  ~FlowLearner();

  void add(const tracking::Packet& packet);
  /// No more packets. Once.
  Learnt finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// "10.0.0.2 QP 0x12 ↔ 10.0.0.3 QP 0x11", as captured; what is not known is "?".
std::string who(const MappedConnection& connection);

}  // namespace rdmawire::replay
