#pragma once
/// Compares the results of monitors and tracker with the known fate of each packet.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "conformance/attribution/traffic.hpp"

namespace rdmawire::attribution {

/// Fate of a packet, or the tracker's statement about it.
enum class Label : std::uint8_t {
  none,              ///< delivered once and in order
  lost_before,       ///< lost between the sender and the capture point
  lost_after,        ///< did not arrive intact, though it passed the capture point intact
  lost_in_capture,   ///< delivered, but not captured
  corrupted,         ///< passed the capture point damaged
  reordered_before,  ///< captured after a packet that was sent later
  reordered_after,   ///< received after a packet that passed the capture point later
  duplicated,        ///< duplicated by the network
  copied,            ///< duplicated in the capture only
  behind,            ///< dropped by the receiver because an earlier packet was missing
  // The following labels are reasons of a retransmission, never the fate of a packet.
  not_ready,         ///< RNR NAK
  response_missing,  ///< a response to a READ or atomic was missing
  timeout,
  spurious,  ///< the packets had arrived, and a response was in flight
};
inline constexpr std::size_t labels = static_cast<std::size_t>(Label::spurious) + 1;
std::string_view to_string(Label label);

/// The score of one label.
struct LabelScore {
  std::uint64_t claims = 0, right = 0;     ///< statements with certainty likely or certain: all, and correct ones
  std::uint64_t possible = 0;              ///< statements with certainty possible
  std::uint64_t incidents = 0, found = 0;  ///< disturbances with a visible consequence: all, and reported ones
  [[nodiscard]] double precision() const { return claims == 0 ? 1 : double(right) / double(claims); }
  [[nodiscard]] double recall() const { return incidents == 0 ? 1 : double(found) / double(incidents); }
};

struct FalseViolation {
  std::string rule, alias, expected, actual, scenario;
  std::uint64_t frame = 0;
};

struct Score {
  std::uint64_t scenarios = 0, packets = 0;
  std::map<std::string, std::uint64_t> violations;  ///< number of scenarios with a false violation, by rule
  std::vector<FalseViolation> examples;             ///< the first violations
  std::array<LabelScore, labels> by_label{};        ///< statements about packets
  std::array<LabelScore, labels> by_connection{};   ///< scenarios in which the label is reported or true
  std::array<LabelScore, labels> recoveries{};      ///< statements about retransmissions
  std::array<std::array<std::uint64_t, labels>, labels> confusion{};  ///< statements about packets: [truth][claim]
  std::array<std::array<std::uint64_t, labels>, labels> recovery_confusion{};  ///< the same, about retransmissions
  std::vector<std::string> wrong;                                              ///< the first wrong statements
  std::vector<std::string> missed;                                             ///< the first unreported disturbances

  void add(const Score& other);
  [[nodiscard]] std::string text() const;
};

/// Returns a random scenario with up to `most_impairments` impairments (0: none, otherwise at least one).
Scenario draw_scenario(std::uint64_t seed, unsigned most_impairments = 1);
/// Simulates a scenario and evaluates the results of monitors and tracker.
Score evaluate(const Scenario& scenario);

}  // namespace rdmawire::attribution
