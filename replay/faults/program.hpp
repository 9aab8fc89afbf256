#pragma once
/// The fault language: selects frames and the faults to inject.
///
///     drop psn +3 try 1 from a                # first transmission of the fourth request packet of side a
///     delay 5ms every 10
///     mark ce where bth.opcode == "RC SEND Only"
///
/// The language is described in docs/reference/fault-language.md.

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "dissectors/output/filter.hpp"
#include "dissectors/protocol/registry.hpp"
#include "replay/faults/coordinates.hpp"

namespace rdmawire::replay {

/// An error in a program and its position.
struct FaultError {
  std::size_t line = 1;      ///< from 1
  std::size_t position = 0;  ///< offset in the line, in bytes
  std::size_t length = 0;    ///< in bytes. 0: between two characters or at the end
  std::string message;       ///< one sentence, usually the unexpected and the expected text
};
/// "line 2:", the line, a marker below the position, and the message.
std::string to_string(const FaultError& error, std::string_view program);

/// An inclusive range of numbers.
struct FaultRange {
  std::int64_t from = 0;
  std::int64_t to = std::numeric_limits<std::int64_t>::max();
  [[nodiscard]] bool holds(std::int64_t value) const { return value >= from && value <= to; }
};

/// The action of a rule.
struct FaultAction {
  enum class Kind : std::uint8_t { drop, delay, hold, duplicate, corrupt, mark, truncate, inject, change };
  enum class Region : std::uint8_t { frame, header, payload, icrc, field };

  Kind kind = Kind::drop;
  std::int64_t time = 0;  ///< in nanoseconds. delay: duration. hold: maximum duration
  std::uint32_t count =
      0;  ///< hold: number of frames to let pass. duplicate: additional copies. truncate: remaining bytes
  Region region = Region::frame;
  std::uint32_t byte = 0;    ///< corrupt: offset in the region
  std::uint8_t mask = 0x01;  ///< corrupt: XOR mask of the byte
  std::uint32_t bits = 0;    ///< corrupt: number of random bits of the region to flip. 0: use byte and mask
  FieldRef field{};          ///< corrupt, region field: the field to change, in the innermost header of its type
  std::uint64_t value = 0;   ///< corrupt a field: XOR mask (low 64 bits) or, with `set`, the new value
  bool set = false;
  bool cnp = false;           ///< inject: a CNP instead of an acknowledgement with `syndrome`
  std::uint8_t syndrome = 0;  ///< inject, change: AETH syndrome
  bool fix_icrc = false, fix_ip = false, fix_transport = false;  ///< checksums to recompute afterwards
  std::uint8_t ecn = 0;                                          ///< mark: the two ECN bits
};

/// Source or destination of a frame: a side or an address.
struct FaultEndpoint {
  enum class Kind : std::uint8_t { side, mac, ipv4, ipv6 };
  Kind kind = Kind::side;
  std::uint32_t side = 0;                  ///< 0: a
  std::array<std::uint8_t, 16> address{};  ///< 4, 6 or 16 bytes
};

/// One rule (one line).
struct FaultRule {
  std::string text;      ///< text of the rule without comment
  std::size_t line = 0;  ///< from 1
  FaultAction action;

  std::optional<FaultEndpoint> from, to;
  std::optional<FaultRange> qp;  ///< destination QP
  std::optional<FaultRange> connection, psn, transmission, message, packet, segment, sequence;
  bool answers = false;  ///< `answers`: only answers of the transport. `requests`: only requests, also set by selectors
                         ///< that use request coordinates
  bool requests = false;
  std::optional<std::int64_t> after, before;  ///< nanoseconds since the first frame
  std::shared_ptr<const output::Filter> where;
  double probability = 1;
  // The following count the frames that match all other selectors, from 1:
  std::optional<FaultRange> nth;
  std::uint64_t every = 1;
};

class FaultProgram {
 public:
  static constexpr std::size_t max_length = 1 << 16;  ///< in bytes
  static constexpr std::size_t max_rules = 256;

  FaultProgram() = default;
  static tl::expected<FaultProgram, FaultError> compile(std::string_view text);

  [[nodiscard]] std::span<const FaultRule> rules() const { return rules_; }
  /// Value of the line `seed N`.
  [[nodiscard]] std::optional<std::uint64_t> seed() const { return seed_; }

 private:
  friend class FaultCompiler;
  std::vector<FaultRule> rules_;
  std::optional<std::uint64_t> seed_;
};

}  // namespace rdmawire::replay
