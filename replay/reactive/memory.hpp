#pragma once
/// Plans the memory of the live device: one region for each key in the capture, with its initial and its expected
/// contents. Free of I/O.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "replay/reactive/exchange.hpp"

namespace rdmawire::replay::reactive {

/// A memory region of the captured peer, identified by the key in requests.
struct PlannedRegion {
  std::uint32_t key = 0;    ///< captured rkey or STag
  std::uint64_t base = 0;   ///< captured address of its first byte. A multiple of 4096
  ByteVector initial;       ///< contents before the replay: data that READs return and no earlier message wrote
  ByteVector expected;      ///< contents after the replay
  std::vector<bool> known;  ///< bytes of `expected` that the capture determines
};

/// A local memory write by the peer's application, inferred from the READ that returns the data. Must happen before
/// that READ is sent.
struct Poke {
  std::size_t message = 0;  ///< index of the READ in the local messages
  std::size_t region = 0;
  std::uint64_t offset = 0;
  ByteVector bytes;
};

/// A range of the inbox or the outbox.
struct Slot {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
};

struct MemoryPlan {
  std::vector<PlannedRegion> regions;
  std::vector<Poke> pokes;            ///< by message
  std::map<std::size_t, Slot> inbox;  ///< by local message: receive buffer
  std::vector<Slot> outbox;           ///< by peer message: data to send, or the buffer of a READ
  std::uint64_t inbox_bytes = 0, outbox_bytes = 0;

  /// Index of the poke that must precede a local message.
  [[nodiscard]] std::optional<std::size_t> poke_of(std::size_t message) const;
};

/// Returns an error if the capture requires more than `max_bytes`.
tl::expected<MemoryPlan, std::string> plan_memory(const Exchange& exchange, std::uint64_t max_bytes);

/// Memory contents after an atomic operation. IBTA vol 1, 9.4.5.
std::uint64_t after_atomic(const Message& message, std::uint64_t original);
/// Little-endian representation: atomics use the byte order of the device.
ByteVector atomic_bytes(std::uint64_t value);

}  // namespace rdmawire::replay::reactive
