#pragma once
/// The live end that a captured side talks to: a queue pair and memory that an agent makes for it.

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

/// A way to a device of RoCE: over one entry of its GID table.
struct LiveWay {
  MacAddress our_mac = 0, device_mac = 0;
  IpAddress our_address{}, device_address{};
  std::uint16_t vlan = 0;  ///< 0: no tag
  std::uint32_t gid_index = 0;
};

/// A device that somebody has opened: its verbs through an agent, its port over a wire or, of iWARP, over TCP. What is
/// pointed to must outlive its use.
struct LiveDevice {
  std::string name;  ///< "lab:rxe"
  peer::Peer* peer = nullptr;
  const peer::Device* verbs = nullptr;
  Wire* wire = nullptr;  ///< gives what is for us alone: address resolution is answered below it
  LiveWay way{};
  std::optional<LiveWay> ipv6{};
  TcpHost* tcp = nullptr;  ///< of iWARP: beside it, in the wire's place
  IpAddress address{};     ///< of iWARP: its own
};

/// A piece of the device's memory, compared with what the capture says of it.
struct MemoryCheck {
  std::string what{};
  std::uint64_t bytes = 0;  ///< that the capture tells
  bool good = false;
  std::string difference{};  ///< where the first byte differs
};

template <class T>
using LiveResult = tl::expected<T, std::string>;

/// What is made at the device for one connection. Released when it goes.
class LiveEnd {
 public:
  /// Memory, completion queues and a queue pair in INIT, its first receive requests posted; the memory holds what
  /// READs find. `exchange` and `plan` must outlive it.
  static LiveResult<LiveEnd> make(const LiveDevice& device, const Exchange& exchange, const MemoryPlan& plan);

  [[nodiscard]] const peer::QueuePair& queue_pair() const { return qp_; }
  [[nodiscard]] const peer::Region& region(std::size_t planned) const { return regions_[planned]; }
  /// READs and atomics that the device answers at once, and may have under way.
  [[nodiscard]] std::uint8_t reads_at_once() const { return reads_; }

  /// The peer's consumer writes its own memory.
  [[nodiscard]] LiveResult<void> poke(const Poke& poke) const;
  /// The peer's consumer asks for these messages of its own.
  [[nodiscard]] LiveResult<void> post(const std::vector<std::size_t>& messages) const;
  /// Receive requests for what comes next: `done` messages of ours are through.
  LiveResult<void> keep_receiving(std::size_t done);
  /// Takes the completions that are there.
  LiveResult<void> poll();
  [[nodiscard]] const std::map<std::uint64_t, peer::Completion>& sent() const { return sent_; }          ///< by message
  [[nodiscard]] const std::map<std::uint64_t, peer::Completion>& received() const { return received_; }  ///< likewise

  /// Compares the device's memory with what the capture says. `ours`, `theirs`: messages that were played to their end.
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
  std::size_t next_receive_ = 0;  ///< message of ours that the next receive request is for
  std::size_t receives_done_ = 0;
  std::map<std::uint64_t, peer::Completion> sent_, received_;
};

}  // namespace rdmawire::replay::reactive
