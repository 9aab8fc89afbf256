#pragma once
/// Rewrites captured frames for a live peer according to a flow map: addresses, QP numbers, sequence numbers, keys and
/// checksums. Free of I/O.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/protocol/stack.hpp"
#include "dissectors/tracking/packet.hpp"
#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay {

/// Handling of checksums: IPv4, UDP, TCP, ICRC, VCRC and MPA CRC.
enum class CrcPolicy : std::uint8_t {
  follow,     ///< updated incrementally: valid ones stay valid, invalid ones stay invalid by the same XOR difference
  recompute,  ///< recomputed in all frames, including unchanged ones
  keep,       ///< as captured
};

/// Handling of frames without a mapping.
enum class Unmapped : std::uint8_t { refuse, keep, drop };

struct RewriteOptions {
  CrcPolicy crc = CrcPolicy::follow;
  std::uint32_t icrc_mask = 0;  ///< XOR mask for ICRC and MPA CRC, applied last. The first byte is the most significant
  Unmapped unmapped = Unmapped::refuse;  ///< RDMA frames
  Unmapped others = Unmapped::drop;  ///< other frames (ARP, ping, TCP without iWARP, …) of hosts without a mapping
  std::optional<std::uint8_t> hop_limit{}, dscp{};
  std::int16_t hop_limit_step = 0;              ///< added to the TTL or hop limit, which stays from 1 to 255
  std::optional<std::uint8_t> vlan_priority{};  ///< of the outermost VLAN tag
  std::optional<std::uint8_t> vlan_dei{};       ///< drop eligible indicator of the outermost VLAN tag: 0 or 1
  std::optional<std::uint16_t> vlan_type{};     ///< EtherType of the outermost VLAN tag: 802.1Q or 802.1ad
  std::optional<std::uint32_t> flow_label{};    ///< IPv6, GRH
};

/// True if the options change frames without a map.
inline bool changes_frames(const RewriteOptions& options) {
  return options.crc == CrcPolicy::recompute || options.icrc_mask || options.hop_limit || options.dscp ||
         options.flow_label || options.hop_limit_step || options.vlan_priority || options.vlan_dei || options.vlan_type;
}

/// Result for one frame.
struct Rewritten {
  enum class Outcome : std::uint8_t {
    rewritten,  ///< according to the map, even if unchanged
    kept,       ///< unmapped, kept as configured
    dropped,    ///< unmapped, dropped as configured
    refused,    ///< unmapped, or the live values do not fit into this frame
  };
  static constexpr std::uint32_t none = 0xffffffff;

  Outcome outcome = Outcome::rewritten;
  Bytes frame;                      ///< rewritten, kept: in the caller's buffer
  std::uint32_t connection = none;  ///< index into FlowMap::connections
  Side from = Side::a;              ///< sender, if the connection is known
  std::string why;                  ///< refused, dropped: reason, without the frame number
};

class Rewriter {
 public:
  using Options = RewriteOptions;
  static constexpr std::size_t growth = 4;  ///< maximum growth of a frame: one VLAN tag

  explicit Rewriter(FlowMap map, const Options& options = {});
  Rewriter(Rewriter&&) noexcept;
  Rewriter& operator=(Rewriter&&) noexcept;
  ~Rewriter();

  /// Rewrites a complete, decoded Ethernet or InfiniBand frame. `buffer` must have stack.bytes.size() + growth bytes
  /// and may start at stack.bytes. `number` is the frame number in the capture, from 1. Does not allocate (except for
  /// `why`) and does not depend on earlier frames.
  Rewritten rewrite(const HeaderStack& stack, MutableBytes buffer, std::uint64_t number = 1) const;
  /// Same, with the state of the packet's connection: for iWARP, FPDUs that are complete within the frame are rewritten
  /// as well, including their CRCs.
  Rewritten rewrite(const tracking::Packet& packet, MutableBytes buffer) const;

  /// Rewrites STags and tagged offsets of one DDP segment (an MPA ULPDU) sent by `from`, in place.
  void rewrite_ulpdu(MutableBytes ulpdu, std::uint32_t connection, Side from) const;

  /// Connection and sender of a frame.
  struct Place {
    std::uint32_t connection = 0;
    Side from = Side::a;
  };
  [[nodiscard]] std::optional<Place> find(const HeaderStack& stack, std::uint64_t number = 1) const;

  [[nodiscard]] const FlowMap& map() const;
  /// Live values may change between two frames. Captured values and the number of connections must not change.
  [[nodiscard]] FlowMap& map();
  [[nodiscard]] const Options& options() const;

 private:
  struct Index;
  std::unique_ptr<Index> index_;
};

/// A field that differs between two frames.
struct FieldChange {
  std::string field;          ///< "bth.psn", "icrc"
  std::string before, after;  ///< display form. Empty: absent
};
/// Returns the fields that differ between a frame and its rewritten form, by comparison. Differences outside of headers
/// are reported as "payload" with the number of bytes.
std::vector<FieldChange> differences(const HeaderStack& before, const HeaderStack& after);
/// "bth.psn 1595257 → 77"
std::string to_string(const FieldChange& change);

}  // namespace rdmawire::replay
