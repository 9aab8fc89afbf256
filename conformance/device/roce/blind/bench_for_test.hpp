#pragma once
/// For tests only: a device with a blind fault, and a scripted peer that sends single packets.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance/device/roce/device.hpp"
#include "conformance/device/roce/reference.hpp"

namespace rdmawire::device::testing {

/// Attributes of the device's queue pair.
struct Setup {
  QpType type = QpType::rc;
  std::uint32_t mtu = 1024, rq_psn = 100, sq_psn = 200, reads = 4, dest_reads = 4;
  std::uint8_t rnr_timer = 1, timeout = 8, retries = 7, rnr_retries = 7;
  std::uint8_t way = 0;  ///< of the peer: 0 IPv4, 1 IPv6, 2 IPv4 in a VLAN
  bool srq = false;
};

/// Options of a message that the peer sends.
struct Extra {
  bool immediate = false, solicited = false;
  std::uint64_t va = 0;    ///< 0: start of the memory
  std::uint32_t rkey = 0;  ///< 0: that of the region
  int ack_request = -1;    ///< number of the packet with AckReq. -1: the last
  std::uint64_t swap_add = 0, compare = 0;
  std::uint32_t source_qpn = 0x123;
  std::uint8_t ecn = 0;
};

class Bench {
 public:
  static constexpr std::uint32_t peer_qpn = 0x823456, qkey = 0x111;
  static constexpr std::uint64_t memory = 1U << 18;
  static constexpr std::uint32_t rights =
      access::local_write | access::remote_write | access::remote_read | access::remote_atomic | access::mw_bind;

  Bench(const RoceBlindFault* fault, const Setup& setup);

  /// Create a queue pair in RTS.
  std::uint32_t connect();
  /// Move the queue pair from RESET to RTS.
  void to_rts(std::uint32_t handle);
  void receives(unsigned count, std::uint32_t bytes);
  void post(SendRequest request);
  /// Post a request that uses memory from offset 0 on.
  void post(WorkOpcode opcode, std::uint32_t bytes, bool fence = false);

  /// Return the packets of a request of the peer, and use their PSNs.
  std::vector<OutgoingPacket> packets(Operation operation, std::uint32_t bytes, const Extra& extra = {});
  void send(OutgoingPacket packet);
  void message(Operation operation, std::uint32_t bytes, const Extra& extra = {});
  /// Send an acknowledgement with this syndrome.
  void acknowledge(std::uint32_t psn, std::uint8_t syndrome = 31);
  void respond(std::uint32_t psn, Operation operation, Position position, std::size_t bytes, std::uint8_t ecn = 0);
  /// Let time pass.
  void wait(std::int64_t ns);
  void change(const QueuePairChange& change) { note(device.modify_qp(qp, change).has_value() ? "ok" : "refused"); }

  void note(std::string_view text) { trace_ += std::string(text) + "\n"; }
  void note_memory(std::uint64_t offset, std::size_t count);
  /// Return all frames, completions, events and notes.
  std::string finish();

  Setup setup;
  Device device;
  Port peer;
  std::uint32_t pd, channel, cq, srq = 0, xrcd = 0, qp = 0;
  std::uint64_t buffer;
  const Region* region;
  Psn psn;  ///< of the peer's next request

 private:
  [[nodiscard]] AddressVector path() const;
  void settle();
  void take(replay::SimulatedHostOutput& output);
  void note_bytes(Bytes bytes);

  std::int64_t now_ = 0;
  std::uint64_t next_id_ = 1;
  std::string trace_;
};

}  // namespace rdmawire::device::testing
