#pragma once
/// Times at which frames left a wire.

#include <cstdint>
#include <vector>

namespace rdmawire::replay {

/// A frame that left.
struct Departure {
  std::uint64_t index = 0;  ///< number of frames that send() accepted before it
  std::int64_t time = 0;    ///< on the wire's clock
};

/// The latest departures that a wire keeps until they are read.
inline constexpr std::size_t most_departures = 65'536;

/// Adds a departure. Discards the oldest ones, but never the most_departures latest.
inline void keep_departure(std::vector<Departure>& departures, const Departure& departure) {
  if (departures.size() >= 2 * most_departures)
    departures.erase(departures.begin(), departures.end() - static_cast<std::ptrdiff_t>(most_departures));
  departures.push_back(departure);
}

/// A wire that can report when its frames left.
class DepartureTimes {
 public:
  virtual ~DepartureTimes() = default;
  /// Source of the times, for display, for example "kernel" or "device". nullptr: not enabled.
  [[nodiscard]] virtual const char* departure_source() const = 0;
  /// Appends the departures since the last call.
  virtual void read_departures(std::vector<Departure>& departures) = 0;
};

}  // namespace rdmawire::replay
