#pragma once
/// Where a frame stands in its connection, in numbers that do not depend on where the connection began: how fault rules
/// name frames, and how what was done to them is written down.

#include <cstdint>
#include <memory>
#include <string>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire::replay {

/// Relative coordinates. What does not apply is 0 (numbers that count from 1) or told by `kind`.
struct FrameCoordinates {
  enum class Kind : std::uint8_t {
    other,    ///< neither of the following: ARP, management, fragments
    request,  ///< of InfiniBand's transport, of a queue pair above 1
    answer,   ///< likewise: an acknowledgement, a READ's response
    tcp,
  };
  Kind kind = Kind::other;
  std::uint32_t connection = 0;  ///< in order of appearance, from 1; both directions have the same
  /// PSN less the first one of the direction's requests; an answer's counts from the first PSN of the requests that it
  /// answers, where those were seen.
  std::int64_t psn = 0;
  /// Which transmission of that PSN, or of that TCP segment, this is, from 1; 0: too long ago to be known.
  std::uint32_t transmission = 0;
  std::uint32_t message = 0;  ///< of its direction's requests (answers), from 1
  std::uint32_t packet = 0;   ///< in its message, from 1
  std::uint32_t segment =
      0;  ///< TCP: of its direction's segments with data, as they appeared, from 1; one sent again keeps its number
  std::int64_t sequence = 0;  ///< TCP: of its first byte of data, less that of the stream
  std::uint32_t bytes = 0;    ///< TCP: of data

  friend bool operator==(const FrameCoordinates&, const FrameCoordinates&) = default;
};

/// "connection 1, request psn +3, try 1, message 2 packet 1"
std::string to_string(const FrameCoordinates& coordinates);

/// Gives every frame its coordinates. Bounded: of connections those used last are known, and of each direction the last
/// `window` packets.
class Coordinator {
 public:
  static constexpr std::uint32_t window = 4096;  ///< packets of a direction whose transmissions are counted

  explicit Coordinator(std::uint32_t most_connections = 1024);
  Coordinator(Coordinator&&) noexcept;
  Coordinator& operator=(Coordinator&&) noexcept;
  ~Coordinator();

  FrameCoordinates locate(const HeaderStack& stack);
  /// Connections forgotten for want of room: when they appear again they are new ones.
  [[nodiscard]] std::uint64_t forgotten() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::replay
