#include "conformance/fuzzer/roce.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dissectors/protocol/decode.hpp"
#include "dissectors/protocol/infiniband.hpp"

namespace rdmawire::fuzzer {

using device::QueuePair;

RoceReferenceModel::RoceReferenceModel(std::uint64_t seed, Rng& chance, const GeneratorOptions& options)
    : chance_(chance), fixture_(seed), maker_(tester_port(fixture_.port())), generator_(chance, options) {}

void RoceReferenceModel::perform(const Step& step) {
  began_ = fixture_.now();
  bases_ = bases_of(fixture_.queue_pair(step.at));
  frames_.clear();
  objects_ = fixture_.objects();
  if (is_packet(step.kind)) maker_.make(step, objects_, bases_, frames_);
  generator_.add_to_history(step, bases_);
  fixture_.perform(step, frames_, outcome_);
}

std::optional<Alarm> RoceReferenceModel::judge(const Step& step, const Outcome& actual, Bytes memory,
                                               const Tolerance& tolerance) {
  auto alarm = fuzzer::judge(step, outcome_, fixture_.memory(), actual, memory, tolerance);
  if (alarm || tolerance.exact || actual.unjudged) return alarm;
  requests_.sent(outcome_.frames);
  alarm = requests_.judge(actual.frames);
  if (alarm)
    alarm->signature = fmt::format("{}: {}: {}", to_string(alarm->oracle), to_string(step.kind), alarm->signature);
  return alarm;
}

void RoceReferenceModel::exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) {
  const auto& sent = actual.sent_frames.empty() ? frames_ : actual.sent_frames;
  for (const auto& frame : sent) frames.push_back({true, step, began_, frame});
  for (const auto& frame : actual.frames) frames.push_back({false, step, began_ + 1000, frame});
}

Step RoceReferenceModel::plain() {
  Rng& chance = chance_;
  const QueuePair* qp = fixture_.queue_pair(0);
  if (!qp)
    return {.kind = StepKind::connect,
            .psn = 1000,
            .own_psn = 2000,
            .length = 1024,
            .state = 3,
            .rights = 0x30e,
            .depth = 4,
            .count = 4,
            .retries = 2};
  // Send a packet that is valid at the start of the connection, with random changes after the Ethernet header.
  static const std::vector<std::int64_t> known = [] {
    std::vector<std::int64_t> all;
    for (const Opcode& op : opcodes)
      if (op.known && op.transport == Transport::rc) all.push_back(op.value);
    return all;
  }();
  Step step{.kind = StepKind::request, .opcode = chance.of(known), .payload = 8, .length = 8, .flags = 1};
  const Opcode& op = opcode(static_cast<std::uint8_t>(step.opcode));
  if (!op.payload) step.payload = 0;
  step.psn = Psn(1000) - bases_of(qp).request;
  const auto frame = maker_.plain(step, fixture_.objects(), bases_of(qp));
  const HeaderStack stack = decode(frame);
  const auto layers = stack.layers();
  for (std::uint64_t i = 0, count = 1 + chance.below(4); i < count; ++i) {
    const Layer& layer = layers[1 + chance.below(layers.size() - 1)];
    const Field& field = chance.of(layer.header->fields);
    if (!field.is_number()) continue;
    step.mutations.push_back({.kind = Mutation::Kind::set,
                              .header = layer.header,
                              .field = &field,
                              .value = static_cast<std::int64_t>(chance.any())});
  }
  if (chance.one_in(2)) step.mutations.push_back({.kind = Mutation::Kind::stale_icrc});
  step.mutated = true;
  return step;
}

/// Combine connection state, step and response into one number.
std::uint64_t RoceReferenceModel::edge(const Step& step, const Outcome& actual) const {
  const QueuePair* qp = fixture_.queue_pair(step.at);
  std::uint64_t state = 0;
  if (qp) {
    const auto& sequence =
        qp->options.type == device::QpType::uc ? qp->responder.uc.sequence : qp->responder.state.sequence;
    state = static_cast<std::uint64_t>(qp->options.type) | static_cast<std::uint64_t>(qp->state) << 3 |
            static_cast<std::uint64_t>(sequence.inside) << 6 |
            (sequence.inside ? static_cast<std::uint64_t>(sequence.operation) << 7 : 0) |
            static_cast<std::uint64_t>(qp->responder.state.nak_sent) << 11 |
            static_cast<std::uint64_t>(qp->receives.empty()) << 12 |
            std::min<std::uint64_t>(qp->requester.queue.size(), 3) << 13 |
            std::min<std::uint64_t>(qp->requester.window.outstanding(), 2) << 15 |
            static_cast<std::uint64_t>(qp->requester.rnr_until > fixture_.now()) << 17;
  }
  std::uint64_t what = static_cast<std::uint64_t>(step.kind) << 8;
  if (is_packet(step.kind) || step.kind == StepKind::post) what |= static_cast<std::uint64_t>(step.opcode) & 0xff;
  if (!step.mutations.empty()) {
    const Mutation& first = step.mutations.front();
    what |= (static_cast<std::uint64_t>(first.kind) + 1) << 16;
    if (first.field) what |= static_cast<std::uint64_t>(first.field->bit) << 24;
  }
  std::uint64_t answer = actual.frames.size() > 2 ? 3 : actual.frames.size();
  for (std::size_t i = 0; i < std::min<std::size_t>(actual.frames.size(), 2); ++i) {
    const HeaderStack stack = decode(actual.frames[i]);
    if (const auto bth = stack.get<Bth>()) answer = answer * 257 + bth->get<"opcode">();
    if (const auto aeth = stack.get<Aeth>()) {
      const Syndrome syndrome(aeth->get<"syndrome">());
      answer = answer * 257 + (syndrome.is_ack() ? 0 : syndrome.bits());
    }
  }
  for (const auto& completion : actual.completions)
    answer = answer * 31 + static_cast<std::uint64_t>(completion.status);
  for (const std::string& event : actual.connection_events)
    for (const char c : std::string_view(event).substr(0, event.find(':')))
      answer = answer * 31 + static_cast<std::uint64_t>(c);
  if (is_of_connections(step.kind) || !actual.connection_events.empty())
    state |= (static_cast<std::uint64_t>(fixture_.connection(step.at)) + 1) << 18;
  return mix(mix(state, what), answer);
}

}  // namespace rdmawire::fuzzer
