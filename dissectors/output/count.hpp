#pragma once
/// Counts packets and bytes by protocol and operation, CRC results and findings. Costs a few nanoseconds per
/// packet.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dissectors/tracking/packet.hpp"

namespace rdmawire::output {

class Count {
 public:
  void add(const tracking::Packet& packet);
  /// Adds packets that the capture lost according to its statistics of one interface ("" if it has no name). If this is
  /// never called, the number of lost packets is unknown, not zero.
  void add_lost(std::string_view interface, std::uint64_t packets);

  /// A node of the protocol tree: a header, or a value of a header's kind field (the opcode of a BTH).
  struct Node {
    std::string name;
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;  ///< bytes of these packets on the wire
    std::vector<Node> children;
  };
  /// Returns all packets by header, from the link layer up. The root's name is empty.
  [[nodiscard]] Node packets_by_protocol() const;
  /// Returns the units of iWARP streams: MPA requests and replies, FPDUs by operation. `bytes` are those of the units.
  [[nodiscard]] Node units_by_protocol() const;

  /// Returns a table for a terminal. `colors` adds escape sequences.
  [[nodiscard]] std::string text(bool colors) const;
  /// Returns JSON:
  /// {"packets":…,"bytes":…,"first":…,"last":…,"protocols":[{"name","packets","bytes","children"}],"units":[…],
  /// "icrc":{"good":…,"bad":…,"unverifiable":…},"vcrc":{…},"mpa_crc":{…},"findings":{"truncated":…},"truncated_packets":…,
  /// "lost":…}. "lost" is null if unknown.
  [[nodiscard]] std::string json() const;

 private:
  // A header of a stack and the value of its kind field (0 if it has none).
  struct Level {
    const HeaderInfo* header;
    std::uint64_t kind;
  };
  struct Row {
    std::uint64_t hash = 0;
    std::size_t order = 0;  ///< position of the first packet with this stack
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
    std::vector<Level> levels;
  };
  // Counts packets by their stack of headers. Real captures have a few dozen different stacks. If a crafted capture
  // exceeds the table, additional stacks are counted together.
  class Stacks {
   public:
    Stacks() : rows_(slots) {}
    void add(const HeaderStack& stack, std::uint64_t bytes) {
      // Each layer has its own multiplier, so that the processor can compute the products in parallel.
      std::uint64_t hash = 0, multiplier = 0x9e3779b97f4a7c15;
      for (const Layer& layer : stack.layers()) {
        hash += (reinterpret_cast<std::uintptr_t>(layer.header) ^ kind_of(stack, layer) << 48) * multiplier;
        multiplier += 0x7f4a7c159e3779ba;
      }
      hash |= 1;
      for (std::size_t i = hash >> 54;; i = (i + 1) % slots) {
        Row& row = rows_[i];
        if (row.hash == hash) [[likely]] {
          ++row.packets;
          row.bytes += bytes;
          return;
        }
        if (row.hash == 0) return insert(row, hash, stack, bytes);
      }
    }
    [[nodiscard]] Node tree() const;

   private:
    static constexpr std::size_t slots = 1024;
    static constexpr std::size_t most = 900;
    static std::uint64_t kind_of(const HeaderStack& stack, const Layer& layer) {
      return layer.header->kind ? layer.header->kind->load(stack.bytes.data() + layer.offset) : 0;
    }
    void insert(Row& row, std::uint64_t hash, const HeaderStack& stack, std::uint64_t bytes);
    std::vector<Row> rows_;
    std::size_t used_ = 0;
    Row rest_;
  };
  using Crcs = std::array<std::uint64_t, 4>;  ///< indexed by CrcCheck::Status

  std::uint64_t packets_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t cut_ = 0;
  std::optional<std::int64_t> first_;
  std::int64_t last_ = 0;
  Stacks stacks_;
  Stacks units_;
  std::uint64_t unit_count_ = 0;
  Crcs icrc_{}, vcrc_{}, mpa_crc_{};
  std::array<std::uint64_t, 4> findings_{};  ///< indexed by ParseError::Kind
  struct Lost {
    std::string interface;
    std::uint64_t packets;
  };
  std::vector<Lost> lost_;
};

}  // namespace rdmawire::output
