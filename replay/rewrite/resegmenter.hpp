#pragma once
/// Resegments messages to another path MTU. This changes the number of packets, so PSNs of the requests are renumbered
/// here. Frames pass through the Resegmenter before the Rewriter, which adds the constant difference to all PSNs of a
/// direction. The first PSN of a direction is unchanged.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dissectors/protocol/stack.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay {

class Resegmenter {
 public:
  /// Number of messages and READ requests per direction whose PSNs are remembered. Responses to older ones are dropped.
  static constexpr std::size_t window = 4096;

  /// Handles the RC, UC and XRC connections of the map whose captured and live MTU are known and differ.
  explicit Resegmenter(const FlowMap& map);
  Resegmenter(Resegmenter&&) noexcept;
  Resegmenter& operator=(Resegmenter&&) noexcept;
  ~Resegmenter();

  /// True if the map contains a connection to resegment.
  [[nodiscard]] bool needed() const;

  /// Result for one frame.
  struct Result {
    enum class Outcome : std::uint8_t {
      untouched,  ///< not part of a resegmented connection
      replaced,   ///< by `frames`, in order. Empty while bytes are collected for a longer packet
      dropped,    ///< see `why`
    };
    Outcome outcome = Outcome::untouched;
    std::vector<std::vector<std::uint8_t>> frames;
    std::string_view why;  ///< constant text
  };
  /// Frames must be passed in capture order. `place` is the result of Rewriter::find().
  Result take(const HeaderStack& stack, const Rewriter::Place& place);
  /// The next loop over the capture starts.
  void begin_again();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::replay
