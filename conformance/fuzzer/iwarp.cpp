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

/// Contents of one TCP segment of a device.
struct SegmentSummary {
  bool setup = false, rejects = false, request = false;
  int opcode = -1;  ///< of RDMAP
  bool last = true;
  machines::IwarpError error{};  ///< Terminate
  std::size_t bytes = 0;
};

SegmentSummary summarize_segment(Bytes segment) {
  SegmentSummary summary{.bytes = segment.size()};
  if (segment.size() >= MpaFrame::size && segment[0] == 'M' && segment[1] == 'P') {
    summary.setup = true;
    summary.request = MpaFrame::is_request(segment.data());
    summary.rejects = View<MpaFrame>(segment.data()).get<"reject">() != 0;
    return summary;
  }
  // A marker may precede the FPDU. Its first half is zero, and a device's FPDU is never that short.
  if (segment.size() > mpa::marker_bytes && segment[0] == 0 && segment[1] == 0)
    segment = segment.subspan(mpa::marker_bytes);
  if (segment.size() < Fpdu::size) return summary;
  const Bytes ulpdu = segment.subspan(Fpdu::size);
  const auto header = machines::read_segment(ulpdu);
  if (!header) return summary;
  summary.opcode = static_cast<int>(machines::operation_of(header->control));
  summary.last = header->last;
  const Bytes payload = ulpdu.subspan(machines::ddp_header_bytes(header->tagged));
  if (summary.opcode == static_cast<int>(RdmapOperation::terminate) && payload.size() >= Terminate::size) {
    const View<Terminate> terminate(payload.data());
    summary.error = {static_cast<std::uint8_t>(terminate.get<"layer">()),
                     static_cast<std::uint8_t>(terminate.get<"etype">()),
                     static_cast<std::uint8_t>(terminate.get<"error_code">())};
  }
  return summary;
}

std::string_view name_in(const Names& names, std::uint64_t value) {
  const Name* name = names.find(value);
  return name ? name->name : std::string_view("reserved");
}

std::string segment_difference(Bytes expected, Bytes actual) {
  HeaderStack a, b;
  decode_stream(a, expected);
  decode_stream(b, actual);
  const std::string names = fields_that_differ(a, b, [](const HeaderInfo&, const Field&) { return true; });
  return !names.empty() ? names : expected.size() == actual.size() ? "payload or CRC" : "length";
}

/// Return the summary of the Terminate in these TCP segments, or an empty string.
std::string terminate_in(std::span<const std::vector<std::uint8_t>> segments) {
  for (const auto& segment : segments)
    if (summarize_segment(segment).opcode == static_cast<int>(RdmapOperation::terminate))
      return summary_of_stream(segment);
  return {};
}

std::optional<Alarm> compare_exactly(const Outcome& expected, const Outcome& actual) {
  if (const auto same = std::ranges::mismatch(expected.frames, actual.frames);
      same.in1 != expected.frames.end() || same.in2 != actual.frames.end()) {
    const bool ended = same.in1 == expected.frames.end(), other_ended = same.in2 == actual.frames.end();
    Alarm alarm{.oracle = Oracle::answer};
    alarm.expected = ended ? "silence" : summary_of_stream(*same.in1);
    alarm.actual = other_ended ? "silence" : summary_of_stream(*same.in2);
    alarm.signature = fmt::format("{} instead of {}", alarm.actual, alarm.expected);
    if (ended || other_ended || alarm.expected != alarm.actual) return alarm;
    const std::string fields = segment_difference(*same.in1, *same.in2);
    alarm.signature = alarm.expected + ": " + fields;
    alarm.actual += fmt::format("; {} differ", fields);
    return alarm;
  }
  if (expected.ends == actual.ends) return std::nullopt;
  const auto listed = [](const std::vector<std::string>& ends) {
    return ends.empty() ? std::string("TCP stays open") : fmt::format("{}", fmt::join(ends, ", "));
  };
  return Alarm{.oracle = Oracle::answer,
               .expected = listed(expected.ends),
               .actual = listed(actual.ends),
               .signature = fmt::format("{} instead of {}", listed(actual.ends), listed(expected.ends))};
}

std::optional<Alarm> compare_answers(const Outcome& expected, const Outcome& actual, const Tolerance& tolerance) {
  if (tolerance.exact) return compare_exactly(expected, actual);
  // Two conforming devices may differ in their segments and in the end of TCP, but not in READ responses and in the
  // acceptance of MPA frames.
  const auto notable = [&](const Outcome& outcome) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < outcome.frames.size(); ++i) {
      // Responses are implementation-defined on a stream that has ended.
      if (expected.states[outcome.streams[i]] != machines::QueuePairState::rts) continue;
      const SegmentSummary summary = summarize_segment(outcome.frames[i]);
      if (summary.setup) all.push_back(summary.rejects ? "MPA frame with rejection" : "MPA frame");
      if (summary.opcode == static_cast<int>(RdmapOperation::read_response)) all.push_back("RDMA Read Response");
    }
    // A device may reject with an MPA frame or without one.
    std::erase(all, "MPA frame with rejection");
    return all;
  };
  const auto a = notable(expected), b = notable(actual);
  if (a.empty() == b.empty()) return std::nullopt;
  Alarm alarm{.oracle = Oracle::answer};
  alarm.expected = a.empty() ? "no response or a rejection" : a.front();
  alarm.actual = b.empty() ? "no response or a rejection" : b.front();
  alarm.signature = fmt::format("{} instead of {}", alarm.actual, alarm.expected);
  return alarm;
}

}  // namespace

std::string summary_of_stream(Bytes segment) {
  const SegmentSummary summary = summarize_segment(segment);
  if (summary.setup)
    return fmt::format("MPA {} Frame{}", summary.request ? "Request" : "Reply",
                       summary.rejects ? " with rejection" : "");
  if (summary.opcode < 0) return fmt::format("{} bytes", summary.bytes);
  const RdmapOpcode& op = rdmap_opcode(static_cast<std::uint8_t>(summary.opcode));
  std::string text = op.known ? std::string(op.name) : fmt::format("opcode {}", summary.opcode);
  if (summary.opcode == static_cast<int>(RdmapOperation::terminate))
    text += fmt::format(" {}, type {}, code {:#04x}", name_in(terminate_layer_names, summary.error.layer),
                        summary.error.type, summary.error.code);
  return summary.last ? text : text + ", not the last segment";
}

std::span<const std::vector<std::uint8_t>> IwarpTester::make(const Step& step, const KnownObjects& objects,
                                                             const StreamBases& bases) {
  segments_.clear();
  if (is_sent_by_tester(step.kind)) streams_[static_cast<std::size_t>(step.at)].make(step, objects, bases, segments_);
  return segments_;
}

void IwarpTester::receive(std::span<const std::vector<std::uint8_t>> frames, std::span<const std::uint8_t> streams,
                          const std::array<bool, 2>& markers) {
  for (std::size_t i = 0; i < frames.size(); ++i) streams_[streams[i]].receive(frames[i], markers[streams[i]]);
}

void IwarpReferenceModel::perform(const Step& step) {
  began_ = fixture_.now();
  bases_ = fixture_.bases(step.at);
  step_ = &step;
  const auto segments = tester_.make(step, fixture_.objects(), bases_);
  generator_.add_to_history(step);
  fixture_.perform(step, segments, outcome_);
  outcome_.sent_frames.assign(segments.begin(), segments.end());
  outcome_.streams = fixture_.streams();
  if (!outcome_.frames.empty())
    tester_.receive(outcome_.frames, fixture_.streams(),
                    {fixture_.bases(0).device_markers, fixture_.bases(1).device_markers});
}

std::uint64_t IwarpReferenceModel::edge(const Step& step, const Outcome& actual) const {
  std::uint64_t state = 0;
  const auto at = static_cast<std::size_t>(step.at);
  if (const endpoint::Endpoint* of = fixture_.endpoint(step.at)) {
    const auto& agreement = of->agreement();
    state = static_cast<std::uint64_t>(of->phase()) | static_cast<std::uint64_t>(of->stream()) << 3 |
            static_cast<std::uint64_t>(of->ddp().queues[0].open) << 6 |
            static_cast<std::uint64_t>(of->receives() == 0) << 7 |
            static_cast<std::uint64_t>(agreement.send_markers) << 8 |
            static_cast<std::uint64_t>(agreement.receive_markers) << 9 |
            static_cast<std::uint64_t>(agreement.crc) << 10 | std::min<std::uint64_t>(of->depth().serving, 2) << 11 |
            std::min<std::uint64_t>(tester_.streams()[at].requests().size(), 2) << 13 |
            static_cast<std::uint64_t>(bases_.device_initiated) << 15;
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
    const SegmentSummary summary = summarize_segment(actual.frames[i]);
    answer = answer * 257 + static_cast<std::uint64_t>(summary.opcode + 1);
    answer = answer * 257 +
             (std::uint64_t{summary.error.layer} << 12 | std::uint64_t{summary.error.type} << 8 | summary.error.code);
  }
  for (const auto& completion : actual.completions)
    answer = answer * 31 + static_cast<std::uint64_t>(completion.status);
  return mix(mix(state, what), answer * 7 + std::min<std::uint64_t>(actual.ends.size(), 3));
}

std::optional<Alarm> IwarpReferenceModel::judge(const Step& step, const Outcome& actual, Bytes memory,
                                                const Tolerance& tolerance) {
  if (tolerance.exact)
    return fuzzer::judge(step, outcome_, fixture_.memory(), actual, memory, tolerance, compare_answers);
  // Completions of sends, and incomplete sends on a closed stream, are implementation-defined.
  const auto received = [](Outcome outcome) {
    std::erase_if(outcome.completions, [](const device::Completion& c) {
      return c.opcode != device::CompletionOpcode::receive || c.status != device::Status::success;
    });
    return outcome;
  };
  auto alarm =
      fuzzer::judge(step, received(outcome_), fixture_.memory(), received(actual), memory, tolerance, compare_answers);
  if (!alarm) return alarm;
  // Add the reason for the end of the stream, which distinguishes otherwise equal alarms.
  const std::string due = terminate_in(outcome_.frames), came = terminate_in(actual.frames);
  if (!due.empty()) {
    alarm->expected += "; " + due;
    alarm->signature += fmt::format("; {} was expected", due);
  } else if (!came.empty()) {
    alarm->actual += "; " + came;
    alarm->signature += "; " + came;
  } else if (step.kind == StepKind::segment) {
    const RdmapOpcode& op = rdmap_opcode(static_cast<std::uint8_t>(step.opcode & 15));
    alarm->signature += fmt::format("; {}", op.known ? op.name : std::string_view("reserved opcode"));
  }
  return alarm;
}

void IwarpReferenceModel::exchanged(std::size_t step, const Outcome& actual, std::vector<Exchanged>& frames) {
  const Step& made = *step_;
  const auto at = static_cast<std::size_t>(made.at);
  const auto append_sent = [&](Bytes bytes, bool fin, bool reset) {
    frames_.segment(at, true, bytes, fin, reset, step, began_ + 10, frames);
  };
  const bool initiates = made.number == 1;
  if (made.kind == StepKind::connect) frames_.connect(at, initiates, step, began_, frames);
  const auto append_received = [&](std::size_t i) {
    frames_.segment(i < actual.streams.size() ? actual.streams[i] : at, false, actual.frames[i], false, false, step,
                    began_ + 1000, frames);
  };
  // If the device is the initiator, its MPA request precedes the tester's frames.
  std::size_t next = 0;
  if (made.kind == StepKind::connect && initiates && !actual.frames.empty()) append_received(next++);
  for (const auto& segment : actual.sent_frames) append_sent(segment, false, false);
  if (made.kind == StepKind::fin) append_sent({}, true, false);
  if (made.kind == StepKind::abort || made.kind == StepKind::destroy) append_sent({}, false, true);
  for (; next < actual.frames.size(); ++next) append_received(next);
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
    fixture_ = (traced ? *traced : plain_subjects()).iwarp(seed, faults_, map_);
    tester_.clear();
    return std::nullopt;
  }
  [[nodiscard]] std::unique_ptr<ReferenceModel> create_model(std::uint64_t seed, Rng& chance) const override {
    return std::make_unique<IwarpReferenceModel>(seed, chance, IwarpGeneratorOptions());
  }
  bool trace(EdgeMap* map) override {
    map_ = map;
    return traced_subjects() != nullptr;
  }
  [[nodiscard]] std::uint64_t code() const override { return traced_build_number(); }
  void perform(const Step& step, ReferenceModel& model, Outcome& outcome) override {
    const auto segments =
        tester_.make(step, fixture_->objects(), static_cast<const IwarpReferenceModel&>(model).bases());
    fixture_->perform(step, segments, outcome);
    outcome.sent_frames.assign(segments.begin(), segments.end());
    outcome.streams = fixture_->streams();
    if (!outcome.frames.empty())
      tester_.receive(outcome.frames, fixture_->streams(),
                      {fixture_->bases(0).device_markers, fixture_->bases(1).device_markers});
  }
  Bytes memory() override { return fixture_->memory(); }

 private:
  endpoint::Faults faults_;
  std::string name_;
  Tolerance tolerance_;
  EdgeMap* map_ = nullptr;
  std::unique_ptr<IwarpSubject> fixture_;
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
