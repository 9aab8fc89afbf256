#pragma once
/// Who a frame goes between, read from its raw bytes in a few nanoseconds: what work is divided by among threads
/// before anything is dissected.

#include <cstdint>
#include <optional>
#include <vector>

#include "dissectors/protocol/bits.hpp"
#include "dissectors/protocol/link_type.hpp"
#include "dissectors/tracking/address.hpp"

namespace rdmawire::captures::analysis {

struct Peek {
  /// IPv4, IPv6 or a GRH right behind the link layer, with TCP, UDP or InfiniBand's transport in it. Else (native
  /// InfiniBand, tunnels, rarer link layers) only decoding tells.
  bool known = false;
  /// TCP that may carry what perftest or ibv_*_pingpong tell each other: it can concern queue pairs of other addresses,
  /// so every share of the work must hear it.
  bool text = false;
  tracking::PortAddress from, to;
  std::uint64_t payload = 0;  ///< bytes of RDMA payload: RoCE only
  bool bth = false;           ///< the next two are set: RoCE only
  std::uint8_t opcode = 0;
  std::uint32_t dest_qp = 0;

  /// The same in both directions.
  [[nodiscard]] std::uint64_t pair_hash() const {
    return tracking::FlowKey{from < to ? from : to, from < to ? to : from, 0}.hash();
  }
  [[nodiscard]] std::uint64_t receiver_hash() const { return tracking::FlowKey{to, {}, 0}.hash(); }
};

/// What all frames between two addresses have in common, by hash; nothing: no addresses, or native InfiniBand, whose
/// subnet management concerns everybody.
std::optional<std::uint64_t> endpoint_pair(const Peek& seen, Bytes frame, LinkType link);

/// Divides the work into shares: all frames between two addresses belong to the same one, whatever lies around them.
/// What has no addresses, and native InfiniBand, whose subnet management concerns everybody, is the first one's.
///
/// Two addresses that were not seen before go to the share that has had least so far. Each thread has a Division of its
/// own; all of them divide alike, because all see the same frames in the same order.
class Sharder {
 public:
  explicit Sharder(unsigned shares) : loads_(shares), share_(shares > 1 ? pairs : 0, none) {}
  /// The share of the capture's next frame.
  unsigned next(const Peek& seen, Bytes frame, LinkType link);

 private:
  static constexpr std::size_t pairs = 1U << 14;  ///< told apart, by hash; a power of two
  static constexpr std::uint16_t none = UINT16_MAX;
  std::vector<std::uint64_t> loads_;
  std::vector<std::uint16_t> share_;
};

/// `extra_roce_port` as DecodeOptions has it.
Peek peek(Bytes frame, LinkType link, std::uint32_t wire_length, std::uint16_t extra_roce_port = 0);

}  // namespace rdmawire::captures::analysis
