#pragma once
/// Expectations of a case, stated literally from the clause, without the protocol state machines.

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

/// A parsed frame from the device.
struct Seen {
  Seen() = default;
  // The stack refers to the bytes of the same object.
  Seen(const Seen& other) { *this = other; }
  Seen(Seen&& other) noexcept { *this = std::move(other); }
  Seen& operator=(const Seen& other);
  Seen& operator=(Seen&& other) noexcept;
  ~Seen() = default;

  std::vector<std::uint8_t> bytes;
  HeaderStack stack;  ///< of bytes
  std::int64_t time = 0;
  const Opcode* op = nullptr;
  psn at{0};  ///< relative to the tester's first PSN for a response, to the device's first PSN for a request
  std::uint32_t dest_qp = 0;
  bool has_aeth = false;
  std::uint8_t syndrome = 0;  ///< of the AETH
  std::uint32_t msn = 0;
  std::vector<std::uint8_t> payload;

  [[nodiscard]] std::uint8_t kind() const { return Syndrome(syndrome).kind(); }
  [[nodiscard]] std::uint8_t code() const { return Syndrome(syndrome).code(); }
  /// "NAK PSN sequence error, PSN +0, MSN 3"
  [[nodiscard]] std::string text() const;
};

enum class Match : std::uint8_t {
  no,
  wrong_code,  ///< the right kind of reaction with another code
  yes,
  skip,  ///< permitted before the expected frame
};

/// An expectation of an object of type S: a description and a check. `Self` is the derived class with the checks that
/// are specific to S.
template <class Self, class S>
class ExpectationOf {
 public:
  using Evaluator = std::function<Match(const S&)>;
  ExpectationOf(std::string text, Evaluator judge) : text_(std::move(text)), judge_(std::move(judge)) {}

  /// Adds a condition, described by `words`.
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

/// An expectation of a frame.
class Expectation : public ExpectationOf<Expectation, Seen> {
 public:
  using ExpectationOf::ExpectationOf;

  /// Adds the AETH's MSN, relative to the start of the connection.
  [[nodiscard]] Expectation msn(std::uint32_t value) const;
  /// Adds the payload.
  [[nodiscard]] Expectation carrying(const std::string& payload) const;
};

/// An ACK with exactly this PSN.
Expectation ack(psn at);
/// Acknowledgements up to this PSN: one or more, the last of which has this PSN.
Expectation acknowledged(psn through);
/// A NAK with this code (nak_code::…) and PSN. Another code is the wrong code.
Expectation nak(std::uint8_t code, psn at);
inline Expectation nak_sequence_error(psn at) { return nak(nak_code::psn_sequence_error, at); }
inline Expectation nak_invalid_request(psn at) { return nak(nak_code::invalid_request, at); }
inline Expectation nak_remote_access(psn at) { return nak(nak_code::remote_access_error, at); }
inline Expectation nak_remote_operational(psn at) { return nak(nak_code::remote_operational_error, at); }
/// An RNR NAK. `timer`: its timer code, if known.
Expectation rnr_nak(psn at, std::optional<std::uint8_t> timer = {});
Expectation read_response(Position position, psn at);
/// An Atomic Acknowledge with the original value.
Expectation atomic_acknowledge(psn at, std::uint64_t original);
/// A request from the device.
Expectation request(Operation operation, Position position, psn at);
inline Expectation a_send(psn at, Position position = Position::only) { return request(Operation::send, position, at); }
inline Expectation a_write(psn at, Position position = Position::only) {
  return request(Operation::rdma_write, position, at);
}
/// A READ from the device with this length and address.
Expectation a_read(psn at, std::uint32_t length, std::uint64_t va);
inline Expectation a_fetch_add(psn at) { return request(Operation::fetch_add, Position::only, at); }
Expectation cnp();

/// No frame for some time. See Conversation.
struct Silence {
  std::int64_t nanoseconds = 0;  ///< 0: the default timeout
};
inline Silence silence(std::int64_t nanoseconds = 0) { return {nanoseconds}; }

}  // namespace rdmawire::conformance
