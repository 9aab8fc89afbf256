#pragma once
/// Meaning of the AETH syndrome. IBTA vol 1, 9.7.5.2.

#include <string>

#include "dissectors/protocol/field.hpp"

namespace rdmawire {

namespace syndrome_kind {
inline constexpr std::uint8_t ack = 0, rnr_nak = 1, reserved = 2, nak = 3;
}
inline constexpr Name syndrome_kind_entries[] = {
    {syndrome_kind::ack, "ACK", "all packets up to this PSN have arrived"},
    {syndrome_kind::rnr_nak, "RNR NAK", "receiver not ready: the requester retries after the timer"},
    {syndrome_kind::reserved, "reserved", "no meaning is defined"},
    {syndrome_kind::nak, "NAK", "the request was rejected or packets are missing"},
};
inline constexpr Names syndrome_kind_names{"AETH syndrome", syndrome_kind_entries, "IBTA vol 1, 9.7.5.2"};

namespace nak_code {
inline constexpr std::uint8_t psn_sequence_error = 0, invalid_request = 1, remote_access_error = 2,
                              remote_operational_error = 3, invalid_rd_request = 4;
}
inline constexpr Name nak_code_entries[] = {
    {nak_code::psn_sequence_error, "PSN sequence error",
     "a packet is missing (the NAK contains the expected PSN, from which the requester retransmits)"},
    {nak_code::invalid_request, "invalid request",
     "the responder does not support the operation, its length or its position in the message"},
    {nak_code::remote_access_error, "remote access error",
     "the R_Key, the address range or the access right is invalid"},
    {nak_code::remote_operational_error, "remote operational error",
     "the responder could not complete the request due to an internal error"},
    {nak_code::invalid_rd_request, "invalid RD request", "the destination does not match the request (RD only)"},
};
inline constexpr Names nak_code_names{"NAK code", nak_code_entries, "IBTA vol 1, 9.7.5.2.2"};

/// Number of credits for a credit code from 0 to 30: 0, 1, 2, 3, 4, 6, 8, 12, 16 … 32768. Returns 0 also for 31, which
/// means "no credits in this ACK": the caller must distinguish it. IBTA vol 1, 9.7.7.2.
constexpr std::uint64_t credits_of_code(std::uint64_t code) {
  if (code == 0 || code >= 31) return 0;
  // Codes alternate between 2^n and 1.5 * 2^n, except in the first pair.
  if (code == 1) return 1;
  const std::uint64_t power = 1ULL << (code / 2);
  return code % 2 == 0 ? power : power + power / 2;
}

/// Converts an RNR NAK's timer code to nanoseconds. 0 is the maximum, 655.36 ms. 1 is 10 µs, 31 is 491.52 ms. IBTA vol
/// 1, 9.7.5.2.8.
constexpr std::uint64_t rnr_timer_ns(std::uint64_t code) {
  constexpr std::uint64_t unit = 10'000;  // 0.01 ms
  code &= 31;
  if (code == 0) return 65536 * unit;
  if (code == 1) return unit;
  const std::uint64_t power = 1ULL << (code / 2);
  return (code % 2 == 0 ? power : power + power / 2) * unit;
}

/// An AETH syndrome. Bit 7 is reserved: it is sent as zero and ignored on receipt, so each of the eight values of bits
/// 7 to 5 has one of the four kinds. IBTA vol 1, 9.7.5.2.
class Syndrome {
 public:
  static constexpr std::uint8_t no_credits = 31;  ///< code of an ACK without end-to-end credits

  constexpr explicit Syndrome(std::uint8_t bits) : bits_(bits) {}
  static constexpr Syndrome ack(std::uint8_t credit_code = no_credits) { return {syndrome_kind::ack, credit_code}; }
  static constexpr Syndrome rnr_nak(std::uint8_t timer_code) { return {syndrome_kind::rnr_nak, timer_code}; }
  static constexpr Syndrome nak(std::uint8_t nak_code) { return {syndrome_kind::nak, nak_code}; }

  [[nodiscard]] constexpr std::uint8_t bits() const { return bits_; }
  /// Returns a value of syndrome_kind.
  [[nodiscard]] constexpr std::uint8_t kind() const { return bits_ >> 5 & 3; }
  /// Returns the low five bits: credit code, timer code or NAK code.
  [[nodiscard]] constexpr std::uint8_t code() const { return bits_ & 31; }
  [[nodiscard]] constexpr bool is_ack() const { return kind() == syndrome_kind::ack; }
  [[nodiscard]] constexpr bool is_rnr_nak() const { return kind() == syndrome_kind::rnr_nak; }
  [[nodiscard]] constexpr bool is_nak() const { return kind() == syndrome_kind::nak; }
  [[nodiscard]] constexpr bool is_nak(std::uint8_t nak_code) const { return is_nak() && code() == nak_code; }
  /// True for an ACK with end-to-end credits.
  [[nodiscard]] constexpr bool has_credits() const { return is_ack() && code() != no_credits; }
  /// Returns the number of credits. Requires has_credits().
  [[nodiscard]] constexpr std::uint64_t credits() const { return credits_of_code(code()); }
  /// Returns the minimum time before a retry, in nanoseconds. Requires is_rnr_nak().
  [[nodiscard]] constexpr std::uint64_t wait_ns() const { return rnr_timer_ns(code()); }
  friend constexpr bool operator==(Syndrome, Syndrome) = default;

 private:
  constexpr Syndrome(std::uint8_t kind, std::uint8_t code)
      : bits_(static_cast<std::uint8_t>(kind << 5 | (code & 31))) {}
  std::uint8_t bits_;
};

/// Returns the kind with its code: "ACK", "RNR NAK, 1.28 ms", "NAK PSN sequence error", "NAK with reserved code 9" or
/// "reserved syndrome 0x45".
std::string to_string(Syndrome syndrome);

}  // namespace rdmawire
