#pragma once
/// The live peer of a replay: a QP and memory that an agent creates.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "replay/host/host.hpp"
#include "replay/peer/queue_pair.hpp"
#include "replay/peer/verbs.hpp"
#include "replay/reactive/exchange.hpp"
#include "replay/reactive/memory.hpp"
#include "replay/streams/tcp.hpp"
#include "replay/wires/wire.hpp"

namespace rdmawire::replay::reactive {

/// Addresses of a path to a RoCE device, for one entry of its GID table.
struct LiveWay {
  MacAddress our_mac = 0, device_mac = 0;
  IpAddress our_address{}, device_address{};
  std::uint16_t vlan = 0;  ///< 0: no tag
  std::uint32_t gid_index = 0;
};

/// An open device: verbs through an agent, and its port over a wire or, for iWARP, over TCP. All pointers must stay
/// valid while it is used.
struct LiveDevice {
  std::string name;  ///< "lab:rxe"
  peer::Peer* peer = nullptr;
  const peer::Device* verbs = nullptr;
  Wire* wire =
      nullptr;  ///< delivers only frames addressed to this side. A lower layer handles ARP and neighbor discovery
  LiveWay way{};
  std::optional<LiveWay> ipv6{};
  TcpHost* tcp = nullptr;  ///< iWARP only. Used instead of `wire`
  IpAddress address{};     ///< iWARP only: address of the device
};

/// Comparison of one range of the device's memory with the capture.
struct MemoryCheck {
  std::string what{};
  std::uint64_t bytes = 0;  ///< number of bytes that the capture determines
  bool good = false;
  std::string difference{};  ///< first byte that differs
};

template <class T>
using LiveResult = tl::expected<T, std::string>;

/// Objects at the device for one connection. Destroyed with the object.
class LiveEnd {
 public:
  /// Creates memory, completion queues and a QP in INIT, posts the first receive work requests and writes the initial
  /// memory contents. `exchange` and `plan` must outlive the object.
  static LiveResult<LiveEnd> make(const LiveDevice& device, const Exchange& exchange, const MemoryPlan& plan);

  [[nodiscard]] const peer::QueuePair& queue_pair() const { return qp_; }
  [[nodiscard]] const peer::Region& region(std::size_t planned) const { return regions_[planned]; }
  /// Maximum number of incoming READs and atomics, and of outstanding ones.
  [[nodiscard]] std::uint8_t reads_at_once() const { return reads_; }

  /// Writes to the memory of the peer's application.
  [[nodiscard]] LiveResult<void> poke(const Poke& poke) const;
  /// Posts these messages of the peer's application.
  [[nodiscard]] LiveResult<void> post(const std::vector<std::size_t>& messages) const;
  /// Posts receive work requests for the next local messages, given that `done` local messages are complete.
  LiveResult<void> keep_receiving(std::size_t done);
  /// Collects the available completions.
  LiveResult<void> poll();
  [[nodiscard]] const std::map<std::uint64_t, peer::Completion>& sent() const { return sent_; }          ///< by message
  [[nodiscard]] const std::map<std::uint64_t, peer::Completion>& received() const { return received_; }  ///< by message

  /// Compares the device's memory with the capture. `ours`, `theirs`: numbers of completely replayed messages.
  [[nodiscard]] LiveResult<std::vector<MemoryCheck>> compare(std::size_t ours, std::size_t theirs) const;

 private:
  LiveResult<void> fill() const;
  LiveResult<void> post_receives(std::size_t most);

  const Exchange* exchange_ = nullptr;
  const MemoryPlan* plan_ = nullptr;
  peer::ProtectionDomain pd_;
  peer::CompletionQueue send_cq_, recv_cq_;
  std::vector<peer::Region> regions_;
  peer::Region inbox_, outbox_;
  peer::QueuePair qp_;
  std::uint8_t reads_ = 1;
  std::size_t receive_depth_ = 0, receives_waiting_ = 0;
  std::size_t next_receive_ = 0;  ///< local message that the next receive work request is for
  std::size_t receives_done_ = 0;
  std::map<std::uint64_t, peer::Completion> sent_, received_;
};

}  // namespace rdmawire::replay::reactive
