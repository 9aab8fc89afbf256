#include "conformance/fuzzer/iwarp.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/device/iwarp/fault_table.hpp"
#include "conformance/fuzzer/subject.hpp"
#include "conformance/rules/rules.hpp"
#include "dissectors/machines/mpa_framing.hpp"
#include "dissectors/machines/rdmap.hpp"
#include "dissectors/machines/terminate.hpp"

namespace rdmawire::fuzzer {

namespace {

/// What a device said, message by message, so far as one TCP segment shows it.
struct Said {
  bool setup = false, rejects = false, request = false;
  int opcode = -1;  ///< RDMAP's
  bool last = true;
  machines::IwarpError error{};  ///< of a Terminate
  std::size_t bytes = 0;
};

Said said_by(Bytes segment) {
  Said said{.bytes = segment.size()};
  if (segment.size() >= MpaFrame::size && segment[0] == 'M' && segment[1] == 'P') {
    said.setup = true;
    said.request = MpaFrame::is_request(segment.data());
    said.rejects = View<MpaFrame>(segment.data()).get<"reject">() != 0;
    return said;
  }
  // A marker may stand in front; its first half is zero, and no FPDU of a device's is so short.
  if (segment.size() > mpa::marker_bytes && segment[0] == 0 && segment[1] == 0)
    segment = segment.subspan(mpa::marker_bytes);
  if (segment.size() < Fpdu::size) return said;
  const Bytes ulpdu = segment.subspan(Fpdu::size);
  const auto header = machines::read_segment(ulpdu);
  if (!header) return said;
  said.opcode = static_cast<int>(machines::operation_of(header->control));
  said.last = header->last;
  const Bytes payload = ulpdu.subspan(machines::ddp_header_bytes(header->tagged));
  if (said.opcode == static_cast<int>(RdmapOperation::terminate) && payload.size() >= Terminate::size) {
    const View<Terminate> told(payload.data());
    said.error = {static_cast<std::uint8_t>(told.get<"layer">()), static_cast<std::uint8_t>(told.get<"etype">()),
                  static_cast<std::uint8_t>(told.get<"error_code">())};
  }
  return said;
}

std::string_view name_in(const Names& names, std::uint64_t value) {
  const Name* name = names.find(value);
  return name ? name->name : std::string_view("reserved");
}

std::string difference(Bytes expected, Bytes actual) {
  HeaderStack a, b;
  decode_stream(a, expected);
  decode_stream(b, actual);
  const std::string names = fields_that_differ(a, b, [](const HeaderInfo&, const Field&) { return true; });
  return !names.empty() ? names : expected.size() == actual.size() ? "payload or CRC" : "length";
}

/// The Terminate among these TCP segments; empty: there is none.
std::string terminate_in(std::span<const std::vector<std::uint8_t>> segments) {
  for (const auto& segment : segments)
    if (said_by(segment).opcode == static_cast<int>(RdmapOperation::terminate)) return summary_of_stream(segment);
  return {};
}

std::optional<Alarm> judge_exactly(const Outcome& expected, const Outcome& actual) {
  if (const auto same = std::ranges::mismatch(expected.frames, actual.frames);
      same.in1 != expected.frames.end() || same.in2 != actual.frames.end()) {
    const bool ended = same.in1 == expected.frames.end(), other_ended = same.in2 == actual.frames.end();
    Alarm alarm{.oracle = Oracle::answer};
    alarm.expected = ended ? "silence" : summary_of_stream(*same.in1);
    alarm.actual = other_ended ? "silence" : summary_of_stream(*same.in2);
    alarm.signature = fmt::format("{} instead of {}", alarm.actual, alarm.expected);
    if (ended || other_ended || alarm.expected != alarm.actual) return alarm;
    const std::string fields = difference(*same.in1, *same.in2);
    alarm.signature = alarm.expected + ": " + fields;
    alarm.actual += fmt::format("; {} differ", fields);
    return alarm;
  }
  if (expected.ends == actual.ends) return std::nullopt;
  const auto listed = [](const std::vector<std::string>& ends) {
    return ends.empty() ? std::string("TCP goes on") : fmt::format("{}", fmt::join(ends, ", "));
  };
  return Alarm{.oracle = Oracle::answer,
               .expected = listed(expected.ends),
               .actual = listed(actual.ends),
               .signature = fmt::format("{} instead of {}", listed(actual.ends), listed(expected.ends))};
}

std::optional<Alarm> judge_answers(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance) {
  if (tolerance.exact) return judge_exactly(expected, actual);
  // Frames, and what becomes of TCP, differ in what is the device's affair: what it answers READs with, and whether
  // it takes a set-up frame, is not.
  const auto notable = [&](const Outcome& outcome) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < outcome.frames.size(); ++i) {
      // Where a stream ends, what was still answered is the device's affair, too.
      if (expected.states[outcome.streams[i]] != machines::QueuePairState::rts) continue;
      const Said said = said_by(outcome.frames[i]);
      if (said.setup) all.push_back(said.rejects ? "a set-up frame that rejects" : "a set-up frame");
      if (said.opcode == static_cast<int>(RdmapOperation::read_response)) all.push_back("RDMA Read Response");
    }
    // A frame that rejects, or none: both refuse.
    std::erase(all, "a set-up frame that rejects");
    return all;
  };
  const auto a = notable(expected), b = notable(actual);
  if (a.empty() == b.empty()) return std::nullopt;
  Alarm alarm{.oracle = Oracle::answer};
  alarm.expected = a.empty() ? "no answer, or one that refuses" : a.front();
  alarm.actual = b.empty() ? "no answer, or one that refuses" : b.front();
  alarm.signature = fmt::format("{} instead of {}", alarm.actual, alarm.expected);
  return alarm;
}

}  // namespace

std::string summary_of_stream(Bytes segment) {
  const Said said = said_by(segment);
  if (said.setup)
    return fmt::format("MPA {} Frame{}", said.request ? "Request" : "Reply", said.rejects ? " that rejects" : "");
  if (said.opcode < 0) return fmt::format("{} bytes", said.bytes);
  const RdmapOpcode& op = rdmap_opcode(static_cast<std::uint8_t>(said.opcode));
  std::string text = op.known ? std::string(op.name) : fmt::format("opcode {}", said.opcode);
  if (said.opcode == static_cast<int>(RdmapOperation::terminate))
    text += fmt::format(" {}, type {}, code {:#04x}", name_in(terminate_layer_names, said.error.layer), said.error.type,
                        said.error.code);
  return said.last ? text : text + ", not the last segment";
}

std::span<const std::vector<std::uint8_t>> IwarpTester::make(const Step& step, const KnownObjects& objects,
                                                             const StreamBases& bases) {
  segments_.clear();
  if (is_said(step.kind)) streams_[static_cast<std::size_t>(step.at)].make(step, objects, bases, segments_);
  return segments_;
}

void IwarpTester::heard(std::span<const std::vector<std::uint8_t>> frames, std::span<const std::uint8_t> streams,
                        const std::array<bool, 2>& markers) {
  for (std::size_t i = 0; i < frames.size(); ++i) streams_[streams[i]].heard(frames[i], markers[streams[i]]);
}

void IwarpShadow::perform(const Step& step) {
  began_ = world_.now();
  bases_ = world_.bases(step.at);
  step_ = &step;
  const auto segments = tester_.make(step, world_.objects(), bases_);
  walk_.said(step);
  world_.perform(step, segments, outcome_);
  outcome_.said.assign(segments.begin(), segments.end());
  outcome_.streams = world_.streams();
  if (!outcome_.frames.empty())
    tester_.heard(outcome_.frames, world_.streams(), {world_.bases(0).device_markers, world_.bases(1).device_markers});
}

std::uint64_t IwarpShadow::edge(const Step& step, const Outcome& actual) const {
  std::uint64_t state = 0;
  const auto at = static_cast<std::size_t>(step.at);
  if (const endpoint::Endpoint* of = world_.endpoint(step.at)) {
    const auto& agreement = of->agreement();
    state = static_cast<std::uint64_t>(of->phase()) | static_cast<std::uint64_t>(of->stream()) << 3 |
            static_cast<std::uint64_t>(of->ddp().queues[0].open) << 6 |
            static_cast<std::uint64_t>(of->receives() == 0) << 7 |
            static_cast<std::uint64_t>(agreement.send_markers) << 8 |
            static_cast<std::uint64_t>(agreement.receive_markers) << 9 |
            static_cast<std::uint64_t>(agreement.crc) << 10 | std::min<std::uint64_t>(of->depth().serving, 2) << 11 |
            std::min<std::uint64_t>(tester_.streams()[at].requests().size(), 2) << 13 |
            static_cast<std::uint64_t>(bases_.device_asked) << 15;
  }
  std::uint64_t what = static_cast<std::uint64_t>(step.kind) << 8;
  if (step.kind == StepKind::segment || step.kind == StepKind::post)
    what |= static_cast<std::uint64_t>(step.opcode) & 15;
  if (!step.mutations.empty()) {
    const Mutation& first = step.mutations.front();
    what |= (static_cast<std::uint64_t>(first.kind) + 1) << 16;
    if (first.field) what |= static_cast<std::uint64_t>(first.field->bit) << 24;
  }
  std::uint64_t answer = std::min<std::uint64_t>(actual.frames.size(), 3);
  for (std::size_t i = 0; i < std::min<std::size_t>(actual.frames.size(), 2); ++i) {
    const Said said = said_by(actual.frames[i]);
    answer = answer * 257 + static_cast<std::uint64_t>(said.opcode + 1);
    answer =
        answer * 257 + (std::uint64_t{said.error.layer} << 12 | std::uint64_t{said.error.type} << 8 | said.error.code);
  }
  for (const auto& completion : actual.completions)
    answer = answer * 31 + static_cast<std::uint64_t>(completion.status);
  return mix(mix(state, what), answer * 7 + std::min<std::uint64_t>(actual.ends.size(), 3));
}

std::optional<Alarm> IwarpShadow::judge(const Step& step, const Outcome& actual, Bytes memory,
                                        const Tolerance& tolerance) {
  if (tolerance.exact) return fuzzer::judge(step, outcome_, world_.memory(), actual, memory, tolerance, judge_answers);
  // When what the device sends completes is its affair; and that it is not sent, where the stream has ended.
  const auto received = [](Outcome outcome) {
    std::erase_if(outcome.completions, [](const device::Completion& c) {
      return c.opcode != device::CompletionOpcode::receive || c.status != device::Status::success;
    });
    return outcome;
  };
  auto alarm =
      fuzzer::judge(step, received(outcome_), world_.memory(), received(actual), memory, tolerance, judge_answers);
  if (!alarm) return alarm;
  // Why a stream was to end, or has ended, tells apart what looks alike.
  const std::string due = terminate_in(outcome_.frames), came = terminate_in(actual.frames);
  if (!due.empty()) {
    alarm->expected += "; " + due;
    alarm->signature += fmt::format("; {} was due", due);
  } else if (!came.empty()) {
    alarm->actual += "; " + came;
    alarm->signature += "; " + came;
  } else if (step.kind == StepKind::segment) {
    const RdmapOpcode& op = rdmap_opcode(static_cast<std::uint8_t>(step.opcode & 15));
    alarm->signature += fmt::format("; {}", op.known ? op.name : std::string_view("reserved opcode"));
  }
  return alarm;
}

void IwarpShadow::exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) {
  const Step& made = *step_;
  const auto at = static_cast<std::size_t>(made.at);
  const auto said = [&](Bytes bytes, bool fin, bool reset) {
    frames_.segment(at, true, bytes, fin, reset, step, began_ + 10, frames);
  };
  const bool asks = made.number == 1;
  if (made.kind == StepKind::connect) frames_.connect(at, asks, step, began_, frames);
  const auto heard = [&](std::size_t i) {
    frames_.segment(i < actual.streams.size() ? actual.streams[i] : at, false, actual.frames[i], false, false, step,
                    began_ + 1000, frames);
  };
  // Who asks for a stream speaks first.
  std::size_t next = 0;
  if (made.kind == StepKind::connect && asks && !actual.frames.empty()) heard(next++);
  for (const auto& segment : actual.said) said(segment, false, false);
  if (made.kind == StepKind::fin) said({}, true, false);
  if (made.kind == StepKind::abort || made.kind == StepKind::destroy) said({}, false, true);
  for (; next < actual.frames.size(); ++next) heard(next);
  for (const std::string& end : actual.ends)
    frames_.segment(end.ends_with("stream") ? 1 : 0, false, {}, end.starts_with("FIN"), end.starts_with("RST"), step,
                    began_ + 2000, frames);
}

namespace {

class ReferenceEndpointTarget final : public Target {
 public:
  ReferenceEndpointTarget(const endpoint::Faults& faults, std::string name, const Tolerance& tolerance)
      : faults_(faults), name_(std::move(name)), tolerance_(tolerance) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Family family() const override { return Family::iwarp; }
  [[nodiscard]] Tolerance tolerance() const override { return tolerance_; }
  [[nodiscard]] std::vector<FaultyReference> broken() const override { return broken_endpoint(tolerance_); }
  std::optional<std::string> start(std::uint64_t seed) override {
    const Subjects* traced = map_ ? traced_subjects() : nullptr;
    world_ = (traced ? *traced : plain_subjects()).iwarp(seed, faults_, map_);
    tester_.clear();
    return std::nullopt;
  }
  [[nodiscard]] std::unique_ptr<ReferenceModel> shadow(std::uint64_t seed, Rng& chance) const override {
    return std::make_unique<IwarpShadow>(seed, chance, IwarpWalkOptions());
  }
  bool trace(EdgeMap* map) override {
    map_ = map;
    return traced_subjects() != nullptr;
  }
  [[nodiscard]] std::uint64_t code() const override { return traced_build_number(); }
  void perform(const Step& step, ReferenceModel& shadow, Outcome& outcome) override {
    const auto segments = tester_.make(step, world_->objects(), static_cast<const IwarpShadow&>(shadow).bases());
    world_->perform(step, segments, outcome);
    outcome.said.assign(segments.begin(), segments.end());
    outcome.streams = world_->streams();
    if (!outcome.frames.empty())
      tester_.heard(outcome.frames, world_->streams(),
                    {world_->bases(0).device_markers, world_->bases(1).device_markers});
  }
  Bytes memory() override { return world_->memory(); }

 private:
  endpoint::Faults faults_;
  std::string name_;
  Tolerance tolerance_;
  EdgeMap* map_ = nullptr;
  std::unique_ptr<IwarpSubject> world_;
  IwarpTester tester_;
};

}  // namespace

std::vector<FaultyReference> broken_endpoint(const Tolerance& tolerance) {
  std::vector<FaultyReference> all;
  for (const endpoint::FaultRow& row : endpoint::fault_rows) {
    const conformance::Rule* rule = conformance::find_rule(row.check);
    all.push_back({row.name, rule ? std::span(&rule->id, 1) : std::span<const std::string_view>(),
                   [fault = row.fault, tolerance] {
                     endpoint::Faults faults;
                     faults.set(fault);
                     return reference_endpoint_target(faults, {}, tolerance);
                   }});
  }
  return all;
}

std::unique_ptr<Target> reference_endpoint_target(const endpoint::Faults& faults, std::string name,
                                                  const Tolerance& tolerance) {
  return std::make_unique<ReferenceEndpointTarget>(faults, std::move(name), tolerance);
}

}  // namespace rdmawire::fuzzer
