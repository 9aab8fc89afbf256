#pragma once
/// What a case waits for, stated literally from the clause. Nothing here asks a machine.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conformance/cases/relative.hpp"
#include "dissectors/protocol/opcode.hpp"
#include "dissectors/protocol/stack.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::conformance {

/// A frame that the device sent, read.
struct Seen {
  Seen() = default;
  // The stack looks into the bytes, wherever they go.
  Seen(const Seen& other) { *this = other; }
  Seen(Seen&& other) noexcept { *this = std::move(other); }
  Seen& operator=(const Seen& other);
  Seen& operator=(Seen&& other) noexcept;
  ~Seen() = default;

  std::vector<std::uint8_t> bytes;
  HeaderStack stack;  ///< of bytes
  std::int64_t time = 0;
  const Opcode* op = nullptr;
  psn at{0};  ///< a response: from the first PSN of our requests; a request: from the first of the device's
  std::uint32_t dest_qp = 0;
  bool has_aeth = false;
  std::uint8_t syndrome = 0;  ///< of the AETH
  std::uint32_t msn = 0;
  std::vector<std::uint8_t> payload;

  [[nodiscard]] std::uint8_t kind() const { return syndrome >> 5; }
  [[nodiscard]] std::uint8_t code() const { return syndrome & 31; }
  /// "NAK PSN sequence error, PSN +0, MSN 3"
  [[nodiscard]] std::string text() const;
};

enum class Match : std::uint8_t {
  no,
  wrong_code,  ///< the right kind of reaction, another code
  yes,
  skip,  ///< allowed before what is waited for
};

/// What is waited for of things of type S, in words and as a judgment; `Self` is the class that adds to it what can be
/// asked of an S.
template <class Self, class S>
class ExpectationOf {
 public:
  using Evaluator = std::function<Match(const S&)>;
  ExpectationOf(std::string text, Evaluator judge) : text_(std::move(text)), judge_(std::move(judge)) {}

  /// And whatever else the case wants to see; `words` say it.
  [[nodiscard]] Self where(const std::string& words, const std::function<bool(const S&)>& holds) const {
    return {text_ + ", " + words, [judge = judge_, holds](const S& seen) {
              const Match match = judge(seen);
              return match == Match::yes && !holds(seen) ? Match::no : match;
            }};
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] Match judge(const S& seen) const { return judge_(seen); }

 private:
  std::string text_;
  Evaluator judge_;
};

/// Of a frame.
class Expectation : public ExpectationOf<Expectation, Seen> {
 public:
  using ExpectationOf::ExpectationOf;

  /// And the AETH's MSN, counted from the connection's begin.
  [[nodiscard]] Expectation msn(std::uint32_t value) const;
  /// And the payload.
  [[nodiscard]] Expectation carrying(const std::string& payload) const;
};

/// An ACK with exactly this PSN.
Expectation ack(psn at);
/// Acknowledgements up to this PSN: one, or several of which the last has it. Coalescing is free.
Expectation acknowledged(psn through);
/// A NAK of that code (nak_code::…) and PSN; another code is the wrong code.
Expectation nak(std::uint8_t code, psn at);
inline Expectation nak_sequence_error(psn at) { return nak(nak_code::psn_sequence_error, at); }
inline Expectation nak_invalid_request(psn at) { return nak(nak_code::invalid_request, at); }
inline Expectation nak_remote_access(psn at) { return nak(nak_code::remote_access_error, at); }
inline Expectation nak_remote_operational(psn at) { return nak(nak_code::remote_operational_error, at); }
/// An RNR NAK; `timer`: its code, where that is known.
Expectation rnr_nak(psn at, std::optional<std::uint8_t> timer = {});
Expectation read_response(Position position, psn at);
/// Atomic Acknowledge with what the memory held before.
Expectation atomic_acknowledge(psn at, std::uint64_t original);
/// A request of the device.
Expectation request(Operation operation, Position position, psn at);
inline Expectation a_send(psn at, Position position = Position::only) { return request(Operation::send, position, at); }
inline Expectation a_write(psn at, Position position = Position::only) {
  return request(Operation::rdma_write, position, at);
}
/// A READ of the device that asks for so many bytes, from `va` on.
Expectation a_read(psn at, std::uint32_t length, std::uint64_t va);
inline Expectation a_fetch_add(psn at) { return request(Operation::fetch_add, Position::only, at); }
Expectation cnp();

/// Nothing for some time; see Bench.
struct Silence {
  std::int64_t nanoseconds = 0;  ///< 0: as long as the device is usually given
};
inline Silence silence(std::int64_t nanoseconds = 0) { return {nanoseconds}; }

}  // namespace rdmawire::conformance
