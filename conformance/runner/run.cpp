#include "conformance/runner/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance {
namespace {

/// Duration of silence after which no frame is in flight, in nanoseconds.
constexpr std::int64_t a_moment = 1'000'000;

/// Discards the remaining frames of the preceding case.
void drain(replay::Wire& wire, std::int64_t quiet) {
  for (std::size_t left = 65536; left > 0; --left) {
    const auto received = wire.receive(wire.now() + quiet);
    if (!received || !*received) return;
  }
}

/// Makes the rules that frames violate part of the verdict: no case passes with a frame that violates a "shall" rule.
/// The case's own failure is kept, unless a lost frame explains it.
void conclude(CaseResult& result) {
  const bool passed = result.judgment.verdict == Verdict::pass || result.judgment.verdict == Verdict::may;
  const bool may_be_explained = passed || is_failure(result.judgment.verdict);
  for (const WireViolation& violation : result.wire) {
    if (violation.rule->level != Level::shall || !(passed || (violation.lost && may_be_explained))) continue;
    result.judgment = {Verdict::fail, violation.expected, violation.actual};
    if (!(violation.rule == result.of->rule)) result.judgment.rule = &*violation.rule;
    return;
  }
}

/// Removes the values that the case does not use from the row of a result, and reports them in the transcript.
void keep_used_values(CaseResult& result, const Environment& environment, CaseRecorder& recorder) {
  if (result.judgment.verdict == Verdict::unsupported || result.judgment.verdict == Verdict::inconclusive) return;
  for (const ParameterInfo& info : all_parameters()) {
    std::size_t& value = result.row[static_cast<std::size_t>(info.parameter)];
    if (value == 0 || environment.use(info.parameter) == ParameterUse::free) continue;
    const std::string& reason = environment.reason(info.parameter);
    recorder.note(fmt::format("{}={} has no effect on this case{}{}", info.name, info.values[value],
                              reason.empty() ? "" : ": ", reason));
    value = 0;
  }
}

template <class AnyBench>
void play(const Case& which, DeviceUnderTest& device, std::uint64_t seed, CaseResult& result) {
  Environment environment(result.row);
  AnyBench bench(device, seed, environment);
  try {
    if (!EnvironmentLimits(device).allows(result.row))
      end_case(Verdict::unsupported, "the device does not support the row " + text_of_row(result.row));
    if (const std::string reason = lacking(device, which.needs); !reason.empty())
      end_case(Verdict::unsupported, reason);
    if (const std::string reason = left_out(device, which.caution); !reason.empty()) {
      result.left_out = true;
      end_case(Verdict::inconclusive, reason);
    }
    which.run(bench);
    bench.finish();
    if (bench.deviation()) result.judgment = *bench.deviation();
  } catch (const CaseEnd& end) {
    result.judgment = end.judgment;
  }
  result.free = free_parameters(environment);
  keep_used_values(result, environment, bench);
  for (const ParameterInfo& info : all_parameters())
    if (environment.use(info.parameter) == ParameterUse::fixed)
      result.fixed.push_back({info.parameter, environment.reason(info.parameter)});
  bench.drain(a_moment);
  result.transcript = bench.transcript();
  result.wire = bench.wire_violations();
  conclude(result);
}

}  // namespace

bool CaseResult::flaky() const {
  return std::any_of(attempts.begin(), attempts.end(),
                     [&](const Attempt& one) { return one.verdict != attempts.front().verdict; }) ||
         std::any_of(rows.begin(), rows.end(), [](const RowResult& one) { return one.flaky; });
}

bool is_worse(Verdict a, Verdict b) {
  constexpr std::array order{Verdict::pass,         Verdict::may,   Verdict::unsupported,
                             Verdict::inconclusive, Verdict::error, Verdict::fail_wrong_code,
                             Verdict::fail};
  return std::find(order.begin(), order.end(), a) > std::find(order.begin(), order.end(), b);
}

void add_row(CaseResult& all, CaseResult row) {
  const auto changed = [](const CaseResult& one) {
    return std::count_if(one.row.begin(), one.row.end(), [](std::size_t value) { return value != 0; });
  };
  const Verdict was = all.judgment.verdict, is = row.judgment.verdict;
  bool is_preferred = is_failure(is) && (!is_failure(was) || is_worse(is, was));
  if (is == was && is_failure(is)) is_preferred = changed(row) < changed(all);
  // A row without a verdict does not hide that of the default row.
  if (!is_failure(is) && !is_failure(was))
    is_preferred = all.observed.violations.empty() && !row.observed.violations.empty();
  std::vector<RowResult> rows = std::move(all.rows);
  rows.push_back({row.row, is, row.judgment.rule, row.flaky()});
  if (is_preferred) {
    row.free = all.free;
    row.fixed = std::move(all.fixed);
    std::swap(all, row);
  }
  all.rows = std::move(rows);
  all.nanoseconds += row.nanoseconds;
  all.complaints.insert(all.complaints.end(), row.complaints.begin(), row.complaints.end());
  // Each violated rule is reported once. Frame numbers refer to the capture of the result, so only its violations have
  // one.
  for (Violation& violation : row.observed.violations) {
    const auto is_it = [&](const Violation& one) { return &one.of() == &violation.of(); };
    if (std::any_of(all.observed.violations.begin(), all.observed.violations.end(), is_it)) continue;
    violation.place.frame = violation.last_frame = 0;
    violation.sequence.clear();
    all.observed.violations.push_back(std::move(violation));
  }
  for (WireViolation& violation : row.wire)
    if (std::none_of(all.wire.begin(), all.wire.end(),
                     [&](const WireViolation& one) { return one.rule == violation.rule; }))
      all.wire.push_back(std::move(violation));
  for (const auto& [rule, counters] : row.observed.counters) {
    const Observation one{.counters = {{rule, counters}}, .violations = {}};
    all.observed.add(one);
  }
}

std::uint64_t seed_of(const Case& which, std::uint64_t seed_of_run) {
  // FNV-1a, because it is the same on every host, so that seeds are portable.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : which.id()) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return seed_of_run ^ hash;
}

CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed, const ParameterRow& row) {
  CaseResult result;
  result.row = row;
  result.of = &which;
  result.seed = seed;
  if (device.wire) drain(*device.wire, a_moment);
  const std::int64_t begin = device.now();
  if (which.family() == Family::iwarp)
    play<iwarp::IwarpBench>(which, device, seed, result);
  else
    play<Bench>(which, device, seed, result);
  result.observed = observe(result.transcript, device);
  result.nanoseconds = device.now() - begin;
  return result;
}

}  // namespace rdmawire::conformance
