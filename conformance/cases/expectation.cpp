#include "conformance/cases/expectation.hpp"

#include <fmt/format.h>

#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/mad.hpp"

namespace rdmawire::conformance {

std::string to_string(psn relative) { return fmt::format("{:+}", relative.value); }

std::string pattern_bytes(std::size_t count, std::uint8_t seed) {
  std::string result(count, '\0');
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<char>(static_cast<std::uint8_t>(seed + i + (i >> 8)));
  return result;
}

namespace {

bool is(const Seen& seen, Operation operation) { return seen.op->known && seen.op->operation == operation; }

}  // namespace

Seen& Seen::operator=(const Seen& other) {
  Seen copy;
  copy.bytes = other.bytes;
  copy.payload = other.payload;
  copy.stack = other.stack;
  copy.time = other.time;
  copy.op = other.op;
  copy.at = other.at;
  copy.dest_qp = other.dest_qp;
  copy.has_aeth = other.has_aeth;
  copy.syndrome = other.syndrome;
  copy.msn = other.msn;
  return *this = std::move(copy);
}

Seen& Seen::operator=(Seen&& other) noexcept {
  bytes = std::move(other.bytes);
  payload = std::move(other.payload);
  stack = other.stack;
  stack.bytes = bytes;
  time = other.time;
  op = other.op;
  at = other.at;
  dest_qp = other.dest_qp;
  has_aeth = other.has_aeth;
  syndrome = other.syndrome;
  msn = other.msn;
  return *this;
}

std::string Seen::text() const {
  if (!op->known) return fmt::format("opcode {:#04x}, PSN {}", op->value, to_string(at));
  if (op->operation == Operation::congestion_notification) return "CNP";
  std::string text =
      op->operation == Operation::acknowledge ? rdmawire::to_string(Syndrome(syndrome)) : std::string(op->name);
  text += fmt::format(", PSN {}", to_string(at));
  if (op->operation != Operation::acknowledge && has_aeth && kind() != syndrome_kind::ack)
    text += fmt::format(", {}", rdmawire::to_string(Syndrome(syndrome)));
  if (has_aeth) text += fmt::format(", MSN {}", msn);
  if (op->payload) text += fmt::format(", {} bytes", payload.size());
  if (const Layer* mad = stack.find(info<Mad>); mad && mad != &stack.layers().back())
    text += fmt::format(", {}", (mad + 1)->header->title);
  return text;
}

Expectation Expectation::msn(std::uint32_t value) const {
  return where(fmt::format("MSN {}", value), [value](const Seen& seen) { return seen.has_aeth && seen.msn == value; });
}

Expectation Expectation::carrying(const std::string& payload) const {
  return where(fmt::format("with the {} expected bytes", payload.size()), [payload](const Seen& seen) {
    return std::equal(seen.payload.begin(), seen.payload.end(), payload.begin(), payload.end(),
                      [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
  });
}

Expectation ack(psn at) {
  return {fmt::format("ACK, PSN {}", to_string(at)), [at](const Seen& seen) {
            return is(seen, Operation::acknowledge) && seen.kind() == syndrome_kind::ack && seen.at == at ? Match::yes
                                                                                                          : Match::no;
          }};
}

Expectation acknowledged(psn through) {
  return {fmt::format("acknowledged through PSN {}", to_string(through)), [through](const Seen& seen) {
            if (!is(seen, Operation::acknowledge) || seen.kind() != syndrome_kind::ack) return Match::no;
            if (seen.at.value < through.value) return Match::skip;
            return seen.at == through ? Match::yes : Match::no;
          }};
}

Expectation nak(std::uint8_t code, psn at) {
  return {fmt::format("{}, PSN {}", rdmawire::to_string(Syndrome::nak(code)), to_string(at)),
          [code, at](const Seen& seen) {
            if (!is(seen, Operation::acknowledge) || seen.kind() != syndrome_kind::nak || seen.at != at)
              return Match::no;
            return seen.code() == code ? Match::yes : Match::wrong_code;
          }};
}

Expectation rnr_nak(psn at, std::optional<std::uint8_t> timer) {
  std::string text = fmt::format("RNR NAK, PSN {}", to_string(at));
  if (timer) text += fmt::format(", timer {}", *timer);
  return {std::move(text), [at, timer](const Seen& seen) {
            if (!is(seen, Operation::acknowledge) || seen.kind() != syndrome_kind::rnr_nak || seen.at != at)
              return Match::no;
            return !timer || seen.code() == *timer ? Match::yes : Match::wrong_code;
          }};
}

Expectation read_response(Position position, psn at) {
  return {fmt::format("RDMA READ Response {}, PSN {}", to_string(position), to_string(at)),
          [position, at](const Seen& seen) {
            return is(seen, Operation::rdma_read_response) && seen.op->position == position && seen.at == at
                       ? Match::yes
                       : Match::no;
          }};
}

Expectation atomic_acknowledge(psn at, std::uint64_t original) {
  return {fmt::format("Atomic Acknowledge, PSN {}, original value {:#x}", to_string(at), original),
          [at, original](const Seen& seen) {
            const auto answer = seen.stack.get<AtomicAckEth>();
            return is(seen, Operation::atomic_acknowledge) && seen.at == at && answer &&
                           answer->get<"original">() == original
                       ? Match::yes
                       : Match::no;
          }};
}

Expectation request(Operation operation, Position position, psn at) {
  const bool plain = position == Position::only && operation != Operation::send && operation != Operation::rdma_write;
  std::string name{to_string(operation)};
  if (!plain) name.append(" ").append(to_string(position));
  return {fmt::format("{}, PSN {}", name, to_string(at)), [operation, position, at](const Seen& seen) {
            return is(seen, operation) && seen.op->position == position && seen.at == at ? Match::yes : Match::no;
          }};
}

Expectation a_read(psn at, std::uint32_t length, std::uint64_t va) {
  return request(Operation::rdma_read_request, Position::only, at)
      .where(fmt::format("{} bytes from {:#x}", length, va), [length, va](const Seen& seen) {
        const auto reth = seen.stack.get<Reth>();
        return reth && reth->get<"length">() == length && reth->get<"va">() == va;
      });
}

Expectation cnp() {
  return {"CNP",
          [](const Seen& seen) { return is(seen, Operation::congestion_notification) ? Match::yes : Match::no; }};
}

}  // namespace rdmawire::conformance
