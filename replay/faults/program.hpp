#pragma once
/// The fault language: what is to happen to which frames.
///
///     drop psn +3 try 1 from a                # the fourth request of a's side, the first time it is sent
///     delay 5ms every 10
///     mark ce where bth.opcode == "RC SEND Only"
///
/// The language is described in docs/faults.md.

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

/// What is wrong with a program, and where.
struct FaultError {
  std::size_t line = 1;      ///< from 1
  std::size_t position = 0;  ///< bytes from the line's begin
  std::size_t length = 0;    ///< bytes; 0: between two characters, or at the end
  std::string message;       ///< one sentence: what was found, what was expected
};
/// "line 2:", the line, carets below the place, the message.
std::string to_string(const FaultError& error, std::string_view program);

/// A range of numbers, both ends within.
struct FaultRange {
  std::int64_t from = 0;
  std::int64_t to = std::numeric_limits<std::int64_t>::max();
  [[nodiscard]] bool holds(std::int64_t value) const { return value >= from && value <= to; }
};

/// What happens to a frame.
struct FaultAction {
  enum class Kind : std::uint8_t { drop, delay, hold, duplicate, corrupt, mark, truncate, inject, change };
  enum class Region : std::uint8_t { frame, header, payload, icrc, field };

  Kind kind = Kind::drop;
  std::int64_t time = 0;    ///< delay: how long; hold: how long at most; nanoseconds
  std::uint32_t count = 0;  ///< hold: frames that pass; duplicate: further copies; truncate: bytes that stay
  Region region = Region::frame;
  std::uint32_t byte = 0;    ///< corrupt: of the region
  std::uint8_t mask = 0x01;  ///< corrupt: what is turned over in it
  std::uint32_t bits = 0;    ///< corrupt: so many random bits of the region, instead; 0: byte and mask
  FieldRef field{};          ///< corrupt: region field, the innermost header's
  std::uint64_t value =
      0;  ///< corrupt of a field: what is turned over in it (its low 64 bits) or, with `set`, put there
  bool set = false;
  bool cnp = false;           ///< inject: a CNP; else an acknowledgement with `syndrome`
  std::uint8_t syndrome = 0;  ///< inject, change: of the AETH
  bool fix_icrc = false, fix_ip = false, fix_transport = false;  ///< what is computed again afterwards
  std::uint8_t ecn = 0;                                          ///< mark: the two bits
};

/// A side or an address that a frame comes from or goes to.
struct FaultEndpoint {
  enum class Kind : std::uint8_t { side, mac, ipv4, ipv6 };
  Kind kind = Kind::side;
  std::uint32_t side = 0;                  ///< 0: a
  std::array<std::uint8_t, 16> address{};  ///< 4, 6 or 16 bytes
};

/// One line.
struct FaultRule {
  std::string text;      ///< as it stands there, without the comment
  std::size_t line = 0;  ///< from 1
  FaultAction action;

  std::optional<FaultEndpoint> from, to;
  std::optional<FaultRange> connection, psn, transmission, message, packet, segment, sequence;
  bool answers = false;  ///< `answers`: of the transport's packets those, else `requests` when `requests` or one of its
                         ///< coordinates is asked for
  bool requests = false;
  std::optional<std::int64_t> after, before;  ///< nanoseconds since the first frame
  std::shared_ptr<const output::Filter> where;
  double probability = 1;
  // Of the frames that all of the above picks, counted from 1:
  std::optional<FaultRange> nth;
  std::uint64_t every = 1;
};

class FaultProgram {
 public:
  static constexpr std::size_t max_length = 1 << 16;  ///< bytes of a program
  static constexpr std::size_t max_rules = 256;

  FaultProgram() = default;
  static tl::expected<FaultProgram, FaultError> compile(std::string_view text);

  [[nodiscard]] std::span<const FaultRule> rules() const { return rules_; }
  /// What a line `seed N` says.
  [[nodiscard]] std::optional<std::uint64_t> seed() const { return seed_; }

 private:
  friend class FaultCompiler;
  std::vector<FaultRule> rules_;
  std::optional<std::uint64_t> seed_;
};

}  // namespace rdmawire::replay
