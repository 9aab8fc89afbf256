#pragma once
/// Frames as they were captured in, frames that a live peer understands out: addresses, queue pairs, sequence numbers,
/// keys and checksums as a flow map says. Pure: reads no clock and no file.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/protocol/stack.hpp"
#include "dissectors/tracking/packet.hpp"
#include "replay/rewrite/flow_map.hpp"

namespace rdmawire::replay {

/// What becomes of checksums: IPv4's, UDP's, TCP's, ICRC, VCRC, MPA's CRC.
enum class CrcPolicy : std::uint8_t {
  follow,     ///< changed as the bytes that they cover: right ones stay right, wrong ones wrong by the same xor
  recompute,  ///< computed anew, in frames that are not changed otherwise, too: all are right afterwards
  keep,       ///< as captured
};

/// What becomes of a frame that the map does not know.
enum class Unmapped : std::uint8_t { refuse, keep, drop };

struct RewriteOptions {
  CrcPolicy crc = CrcPolicy::follow;
  std::uint32_t icrc_mask = 0;           ///< turns over these bits of ICRC and MPA CRC in the end, first byte highest
  Unmapped unmapped = Unmapped::refuse;  ///< frames of RDMA
  Unmapped others = Unmapped::drop;      ///< ARP, ping, TCP that is not iWARP, … of hosts that are not in the map
  std::optional<std::uint8_t> hop_limit{}, dscp{};
  std::optional<std::uint32_t> flow_label{};  ///< IPv6, GRH
};

/// What became of a frame.
struct Rewritten {
  enum class Outcome : std::uint8_t {
    rewritten,  ///< as the map says, even if nothing had to change
    kept,       ///< unmapped, and to be kept
    dropped,    ///< unmapped, and to be dropped
    refused,    ///< unmapped, or the live values cannot be put into this frame
  };
  static constexpr std::uint32_t none = 0xffffffff;

  Outcome outcome = Outcome::rewritten;
  Bytes frame;                      ///< rewritten, kept: in the caller's room
  std::uint32_t connection = none;  ///< index into FlowMap::connections
  Side from = Side::a;              ///< its sender, where a connection is known
  std::string why;                  ///< refused, dropped: a sentence without the frame's number
};

class Rewriter {
 public:
  using Options = RewriteOptions;
  static constexpr std::size_t growth = 4;  ///< bytes that a frame can gain: a VLAN tag

  explicit Rewriter(FlowMap map, const Options& options = {});
  Rewriter(Rewriter&&) noexcept;
  Rewriter& operator=(Rewriter&&) noexcept;
  ~Rewriter();

  /// Rewrites a whole Ethernet or InfiniBand frame, decoded. `room` holds stack.bytes.size() + growth bytes and may
  /// begin where stack.bytes does. `number` is the frame's in its capture, from 1. Neither allocates (but for `why`)
  /// nor depends on earlier frames.
  Rewritten rewrite(const HeaderStack& stack, MutableBytes room, std::uint64_t number = 1) const;
  /// The same with what the packet's connection taught: of iWARP, the FPDUs that lie wholly in the frame are rewritten
  /// as well, with their CRCs.
  Rewritten rewrite(const tracking::Packet& packet, MutableBytes room) const;

  /// Rewrites in place one DDP segment (a ULPDU of MPA) that `from` sends: STags and tagged offsets.
  void rewrite_ulpdu(MutableBytes ulpdu, std::uint32_t connection, Side from) const;

  /// Which connection a frame belongs to and who of it sent it; nothing: none.
  struct Place {
    std::uint32_t connection = 0;
    Side from = Side::a;
  };
  [[nodiscard]] std::optional<Place> find(const HeaderStack& stack, std::uint64_t number = 1) const;

  [[nodiscard]] const FlowMap& map() const;
  /// Live values may change between two frames (a connection that is only now made, another loop); captured ones and
  /// the number of connections may not.
  [[nodiscard]] FlowMap& map();
  [[nodiscard]] const Options& options() const;

 private:
  struct Index;
  std::unique_ptr<Index> index_;
};

/// A field that differs between two frames.
struct FieldChange {
  std::string field;          ///< "bth.psn", "icrc"
  std::string before, after;  ///< as people write its value; empty: it was not there
};
/// Fields that differ between a frame and what it became; found by comparing, so nothing is missing. What is not in a
/// header is told as "payload" with its number of bytes.
std::vector<FieldChange> differences(const HeaderStack& before, const HeaderStack& after);
/// "bth.psn 1595257 → 77"
std::string to_string(const FieldChange& change);

}  // namespace rdmawire::replay
