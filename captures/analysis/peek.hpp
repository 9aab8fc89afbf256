#pragma once
/// Addresses of a frame, read from its raw bytes in a few nanoseconds. They assign frames to shards before dissection.

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/link_type.hpp"
#include "dissectors/tracking/address.hpp"

namespace rdmawire::captures::analysis {

struct Peek {
  /// The link layer is followed directly by IPv4, IPv6 or a GRH, and then by TCP, UDP, ICMP, a fragment, an extension
  /// header or the InfiniBand transport. Other frames (native InfiniBand, tunnels, rare link layers) must be decoded.
  bool known = false;
  /// The frame is TCP and may contain the QP parameters that perftest or ibv_*_pingpong exchange. These may refer to
  /// queue pairs of other addresses, so every shard needs the frame.
  bool text = false;
  tracking::PortAddress from, to;
  std::uint64_t payload = 0;  ///< bytes of RDMA payload (only for RoCE)
  bool bth = false;           ///< opcode and dest_qp are valid (only for RoCE)
  std::uint8_t opcode = 0;
  std::uint32_t dest_qp = 0;

  /// Hash of both addresses, equal for both directions.
  [[nodiscard]] std::uint64_t pair_hash() const {
    return tracking::FlowKey{from < to ? from : to, from < to ? to : from, 0}.hash();
  }
  [[nodiscard]] std::uint64_t receiver_hash() const { return tracking::FlowKey{to, {}, 0}.hash(); }
};

/// Returns a hash that is equal for all frames between two addresses. Returns nullopt for frames without addresses and
/// for native InfiniBand, whose subnet management concerns all shards.
std::optional<std::uint64_t> endpoint_pair(const Peek& seen, Bytes frame, LinkType link);

/// Assigns frames to shards: all frames between two addresses belong to the same shard. Frames without addresses and
/// native InfiniBand belong to shard 0.
///
/// A new pair of addresses is assigned to the shard with the least load. Sharders that process the same frames in the
/// same order make the same assignment.
class Sharder {
 public:
  explicit Sharder(unsigned shards) : loads_(shards), shard_(shards > 1 ? pairs : 0, none) {}
  /// Returns the shard of the capture's next frame.
  unsigned next(const Peek& seen, Bytes frame, LinkType link);

 private:
  static constexpr std::size_t pairs = 1U << 14;  ///< hash buckets, a power of two
  static constexpr std::uint16_t none = UINT16_MAX;
  std::vector<std::uint64_t> loads_;
  std::vector<std::uint16_t> shard_;
};

/// `extra_roce_port`: see DecodeOptions.
Peek peek(Bytes frame, LinkType link, std::uint32_t wire_length, std::uint16_t extra_roce_port = 0);

}  // namespace rdmawire::captures::analysis
