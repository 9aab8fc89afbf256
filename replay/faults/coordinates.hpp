#pragma once
/// Position of a frame in its connection, relative to the start of the connection. Used by fault rules and their log.

#include <cstdint>
#include <memory>
#include <string>

#include "dissectors/protocol/stack.hpp"

namespace rdmawire::replay {

/// Relative coordinates. Unused members are 0. `kind` determines which ones apply.
struct FrameCoordinates {
  enum class Kind : std::uint8_t {
    other,    ///< ARP, management packets, fragments and all other frames
    request,  ///< InfiniBand transport request of a QP above 1
    answer,   ///< acknowledgement or response of a QP above 1
    tcp,
  };
  Kind kind = Kind::other;
  std::uint32_t connection = 0;  ///< in order of appearance, from 1. The same number for both directions
  /// PSN relative to the first request of the direction. For answers, relative to the first PSN of the requests, if
  /// these were seen.
  std::int64_t psn = 0;
  /// Number of the transmission of this PSN or TCP segment, from 1. 0: unknown, because it is too old.
  std::uint32_t transmission = 0;
  std::uint32_t message = 0;  ///< number of the message among the requests (or answers) of its direction, from 1
  std::uint32_t packet = 0;   ///< number of the packet in its message, from 1
  std::uint32_t segment = 0;  ///< TCP: index of the data segment in its direction, in order of appearance, from 1.
                              ///< Retransmissions keep the number
  std::int64_t sequence = 0;  ///< TCP: relative sequence number of the first data byte
  std::uint32_t bytes = 0;    ///< TCP: length of the data

  friend bool operator==(const FrameCoordinates&, const FrameCoordinates&) = default;
};

/// "connection 1, request psn +3, try 1, message 2 packet 1"
std::string to_string(const FrameCoordinates& coordinates);

/// Determines the coordinates of each frame. Memory is bounded: keeps the most recently used connections, and the last
/// `window` packets of each direction.
class Coordinator {
 public:
  static constexpr std::uint32_t window = 4096;  ///< per direction

  explicit Coordinator(std::uint32_t most_connections = 1024);
  Coordinator(Coordinator&&) noexcept;
  Coordinator& operator=(Coordinator&&) noexcept;
  ~Coordinator();

  FrameCoordinates locate(const HeaderStack& stack);
  /// Number of QP directions and TCP directions dropped because of the limit. If their packets appear again, they get a
  /// new connection number.
  [[nodiscard]] std::uint64_t forgotten() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::replay
