#include "conformance/fuzzer/requests.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/machines/psn_window.hpp"
#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"
#include "dissectors/protocol/syndrome.hpp"

namespace rdmawire::fuzzer {

namespace {

constexpr std::uint32_t path_mtu = 256;  // of every connection

const Opcode* request_in(const HeaderStack& stack) {
  const auto bth = stack.get<Bth>();
  if (!bth) return nullptr;
  const Opcode& op = opcode(bth->get<"opcode">());
  const bool manages = bth->get<"dest_qp">() <= 1;
  const bool asks = op.direction == Direction::request && op.transport != Transport::cnp;
  return op.known && asks && !manages ? &op : nullptr;
}

/// Fields that must be equal for all devices. Addresses and AckReq are implementation-defined. rxe never sets MigReq
/// (HDR-039 in docs/reference/known-deviations.md).
bool counts(const HeaderInfo& header, const Field& field) {
  if (&header == &info<Bth>)
    return field.name == "opcode" || field.name == "se" || field.name == "pad" || field.name == "pkey" ||
           field.name == "psn";
  if (&header == &info<Deth>) return field.name != "src_qp";
  return &header == &info<Reth> || &header == &info<AtomicEth> || &header == &info<ImmDt>;
}

std::string difference(const HeaderStack& expected, const HeaderStack& actual) {
  std::string names = fields_that_differ(expected, actual, counts);
  if (!names.empty()) return names;
  return std::ranges::equal(expected.bytes_of(expected.payload), actual.bytes_of(actual.payload)) ? "" : "payload";
}

/// True if `actual` requests the rest of a READ, from one of its response packets to the end.
bool is_rest_of(const HeaderStack& read, const HeaderStack& actual) {
  const auto a = read.get<Reth>(), b = actual.get<Reth>();
  if (!a || !b) return false;
  const std::int32_t packets = Psn(actual.get<Bth>()->get<"psn">()) - Psn(read.get<Bth>()->get<"psn">());
  const auto length = static_cast<std::uint32_t>(a->get<"length">());
  if (packets <= 0 || static_cast<std::uint32_t>(packets) >= machines::psns_of_read(length, path_mtu)) return false;
  const std::uint64_t bytes = std::uint64_t{path_mtu} * static_cast<std::uint32_t>(packets);
  return b->get<"va">() == a->get<"va">() + bytes && b->get<"rkey">() == a->get<"rkey">() &&
         b->get<"length">() == length - bytes;
}

std::string text_of(const HeaderStack& stack) {
  return fmt::format("{}, psn {}", summary_of(stack.bytes), static_cast<std::uint32_t>(stack.get<Bth>()->get<"psn">()));
}

}  // namespace

void KnownRequests::sent(std::span<const std::vector<std::uint8_t>> frames) {
  fresh_.clear();
  for (const Frame& frame : frames) {
    const HeaderStack stack = decode(frame);
    if (!request_in(stack)) continue;
    const std::uint32_t psn = stack.get<Bth>()->get<"psn">();
    const auto [first, last] = known_.equal_range(psn);
    const bool retransmission =
        std::any_of(first, last, [&](const auto& known) { return difference(decode(known.second), stack).empty(); });
    if (retransmission) continue;
    known_.emplace(psn, frame);
    fresh_.push_back(frame);
  }
}

std::optional<Alarm> KnownRequests::judge(std::span<const std::vector<std::uint8_t>> frames) const {
  std::vector<HeaderStack> sent;
  for (const Frame& frame : frames) {
    HeaderStack stack = decode(frame);
    const Opcode* op = request_in(stack);
    if (!op) continue;
    sent.push_back(stack);
    const auto [first, last] = known_.equal_range(stack.get<Bth>()->get<"psn">());
    std::string differ;
    bool found = false;
    for (auto known = first; known != last && !found; ++known) {
      differ = difference(decode(known->second), stack);
      found = differ.empty();
    }
    if (!found && op->operation == Operation::rdma_read_request)
      found = std::ranges::any_of(known_, [&](const auto& known) { return is_rest_of(decode(known.second), stack); });
    if (found) continue;
    Alarm alarm{.oracle = Oracle::answer};
    alarm.expected = differ.empty() ? "no request with that PSN" : text_of(decode(std::prev(last)->second));
    alarm.actual = text_of(stack) + (differ.empty() ? "" : "; " + differ + " differ");
    alarm.signature = fmt::format("{}: {}", summary_of(frame), differ.empty() ? "unexpected" : differ);
    return alarm;
  }
  for (const Frame& frame : fresh_) {
    const HeaderStack stack = decode(frame);
    if (std::ranges::any_of(sent, [&](const HeaderStack& one) { return difference(stack, one).empty(); })) continue;
    return Alarm{.oracle = Oracle::answer,
                 .expected = text_of(stack),
                 .actual = "not sent",
                 .signature = fmt::format("{}: not sent", summary_of(frame))};
  }
  return std::nullopt;
}

bool is_implementation_defined(const Step& step, const Outcome& expected, const Outcome& actual) {
  if (step.kind != StepKind::answer || !step.mutated) return false;
  const auto successes = [](const Outcome& outcome) {
    std::vector<std::uint64_t> all;
    for (const device::Completion& one : outcome.completions)
      if (one.status == device::Status::success) all.push_back(one.id);
    return all;
  };
  if (successes(expected) != successes(actual)) return false;
  const auto failed = [](const Outcome& outcome) {
    return std::ranges::any_of(outcome.completions,
                               [](const auto& one) { return one.status != device::Status::success; });
  };
  const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
  const bool acknowledges = op.known && op.operation == Operation::acknowledge;
  const Syndrome syndrome(static_cast<std::uint8_t>(step.syndrome));
  const bool ends = acknowledges && syndrome.is_nak() && syndrome.code() >= nak_code::invalid_request &&
                    syndrome.code() <= nak_code::remote_operational_error;
  if (ends && step.mutations.empty()) return false;
  const bool reacts = failed(expected) || std::ranges::any_of(expected.frames, [](const auto& frame) {
                        return request_in(decode(frame)) != nullptr;
                      });
  return reacts && (failed(expected) != failed(actual) || expected.states != actual.states);
}

bool sent_same_psns(const Outcome& expected, const Outcome& actual) {
  const auto psns = [](const Outcome& outcome) {
    std::vector<std::uint32_t> all;
    for (const auto& frame : outcome.frames) {
      const HeaderStack stack = decode(frame);
      if (request_in(stack)) all.push_back(stack.get<Bth>()->get<"psn">());
    }
    return all;
  };
  return psns(expected) == psns(actual);
}

bool has_credits(const Step& step) {
  const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
  const bool has_aeth = op.known && (op.operation != Operation::rdma_read_response || op.position != Position::middle);
  const Syndrome syndrome(static_cast<std::uint8_t>(step.syndrome));
  const bool changed = std::ranges::any_of(step.mutations, [](const Mutation& one) {
    return one.header == &info<Aeth> || (one.header == &info<Bth> && one.field && one.field->name == "opcode");
  });
  return step.kind == StepKind::answer && ((has_aeth && syndrome.has_credits()) || changed);
}

}  // namespace rdmawire::fuzzer
