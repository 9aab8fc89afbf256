#pragma once
/// The memory at the live device that a connection needs: regions for what the capture names by its keys, what they
/// hold before, and what they must hold afterwards. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "replay/reactive/exchange.hpp"

namespace rdmawire::replay::reactive {

/// A region of the captured peer, by the key that requests to it name.
struct PlannedRegion {
  std::uint32_t key = 0;    ///< captured rkey or STag
  std::uint64_t base = 0;   ///< captured address of its first byte; a multiple of 4096
  ByteVector initial;       ///< what it holds before: what READs find that nobody wrote before them
  ByteVector expected;      ///< what it holds when all was played
  std::vector<bool> known;  ///< bytes of `expected` that the capture tells
};

/// What somebody at the device wrote by itself, as a later READ shows: to be written before that READ leaves.
struct Poke {
  std::size_t message = 0;  ///< of ours, which reads
  std::size_t region = 0;
  std::uint64_t offset = 0;
  ByteVector bytes;
};

/// A piece of the inbox or the outbox.
struct Slot {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

struct MemoryPlan {
  std::vector<PlannedRegion> regions;
  std::vector<Poke> pokes;            ///< by message
  std::map<std::size_t, Slot> inbox;  ///< by message of ours: where what it sends is received
  std::vector<Slot> outbox;           ///< by message of theirs: what it sends, or where what it reads goes
  std::uint64_t inbox_bytes = 0, outbox_bytes = 0;

  /// The poke that comes before a message of ours.
  [[nodiscard]] std::optional<std::size_t> poke_of(std::size_t message) const;
};

/// An error, one sentence: the capture names more memory than `max_bytes`.
tl::expected<MemoryPlan, std::string> plan_memory(const Exchange& exchange, std::uint64_t max_bytes);

/// What an atomic leaves behind. IBTA vol 1, 9.4.5.
std::uint64_t after_atomic(const Message& message, std::uint64_t original);
/// A number as it lies in the memory of a little-endian device; atomics are in its own byte order.
ByteVector atomic_bytes(std::uint64_t value);

}  // namespace rdmawire::replay::reactive
