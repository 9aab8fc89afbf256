#pragma once
/// Messages cut anew for another path MTU. A message then has another number of packets, so PSNs are no longer moved by
/// a constant: this is the function that takes its place. Frames go through here before the Rewriter, which moves all
/// PSNs of a direction by their constant afterwards; the first PSN of a direction stays what it was.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dissectors/protocol/stack.hpp"
#include "replay/rewrite/rewriter.hpp"

namespace rdmawire::replay {

class Resegmenter {
 public:
  /// PSNs of so many messages and read requests of each direction are known back; an answer to an older one is dropped.
  static constexpr std::size_t window = 4096;

  /// For the connections of RC, UC and XRC of the map whose captured and live MTU are known and differ.
  explicit Resegmenter(const FlowMap& map);
  Resegmenter(Resegmenter&&) noexcept;
  Resegmenter& operator=(Resegmenter&&) noexcept;
  ~Resegmenter();

  /// Whether there is any such connection.
  [[nodiscard]] bool needed() const;

  /// What became of a frame.
  struct Result {
    enum class Outcome : std::uint8_t {
      untouched,  ///< it is of none of these connections
      replaced,   ///< by `frames`, in their order: none, while bytes are gathered for a longer packet
      dropped,    ///< `why` says why
    };
    Outcome outcome = Outcome::untouched;
    std::vector<std::vector<std::uint8_t>> frames;
    std::string_view why;  ///< a constant sentence
  };
  /// Frames come in the capture's order. `place`: as Rewriter::find() says.
  Result take(const HeaderStack& stack, const Rewriter::Place& place);
  /// The capture begins again.
  void begin_again();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rdmawire::replay
