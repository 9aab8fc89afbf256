#pragma once
/// Reads the addresses of a frame from its raw bytes, in a few nanoseconds. They determine the frame's shard before the
/// frame is dissected.

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/link_type.hpp"
#include "dissectors/tracking/address.hpp"

namespace rdmawire::captures::analysis {

struct Peek {
  /// True if the link layer is directly followed by IPv4, IPv6 or a GRH, and then by TCP, UDP, ICMP, a fragment, an
  /// extension header or the InfiniBand transport. Other frames (native InfiniBand, tunnels, rare link layers) must be
  /// decoded.
  bool known = false;
  /// True for a TCP frame that may contain QP parameters, as perftest or ibv_*_pingpong exchange them. These may be
  /// parameters of queue pairs at other addresses, so every shard needs the frame.
  bool text = false;
  tracking::PortAddress from, to;
  std::uint64_t payload = 0;  ///< number of RDMA payload bytes (only RoCE)
  bool bth = false;           ///< opcode and dest_qp are valid (only RoCE)
  std::uint8_t opcode = 0;
  std::uint32_t dest_qp = 0;

  /// Returns a hash of both addresses, which is equal for both directions.
  [[nodiscard]] std::uint64_t pair_hash() const {
    return tracking::FlowKey{from < to ? from : to, from < to ? to : from, 0}.hash();
  }
  [[nodiscard]] std::uint64_t receiver_hash() const { return tracking::FlowKey{to, {}, 0}.hash(); }
};

/// Returns a hash that is equal for all frames between two addresses. Returns nullopt for frames without addresses, and
/// for native InfiniBand, because its subnet management concerns all shards.
std::optional<std::uint64_t> endpoint_pair(const Peek& seen, Bytes frame, LinkType link);

/// Assigns frames to shards. All frames between two addresses belong to the same shard. Native InfiniBand and frames
/// without addresses belong to shard 0.
///
/// A new pair of addresses is assigned to the shard with the least load. Sharders that process the same frames in the
/// same order assign them to the same shards.
class Sharder {
 public:
  explicit Sharder(unsigned shards) : loads_(shards), shard_(shards > 1 ? pairs : 0, none) {}
  /// Returns the number of the shard for the next frame of the capture.
  unsigned next(const Peek& seen, Bytes frame, LinkType link);

 private:
  static constexpr std::size_t pairs = 1U << 14;  ///< hash buckets, a power of two
  static constexpr std::uint16_t none = UINT16_MAX;
  std::vector<std::uint64_t> loads_;
  std::vector<std::uint16_t> shard_;
};

/// Reads a frame. For `extra_roce_port`, see DecodeOptions::extra_roce_v2_port.
Peek peek(Bytes frame, LinkType link, std::uint32_t wire_length, std::uint16_t extra_roce_port = 0);

}  // namespace rdmawire::captures::analysis
