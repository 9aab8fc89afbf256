#include "conformance/runner/run.hpp"

#include <algorithm>

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

template <class AnyBench>
void play(const Case& which, DeviceUnderTest& device, std::uint64_t seed, CaseResult& result) {
  AnyBench bench(device, seed);
  try {
    if (const std::string reason = lacking(device, which.needs); !reason.empty())
      end_case(Verdict::unsupported, reason);
    if (const std::string reason = left_out(device, which.caution); !reason.empty()) {
      result.left_out = true;
      end_case(Verdict::inconclusive, reason);
    }
    which.run(bench);
    if (bench.deviation()) result.judgment = *bench.deviation();
  } catch (const CaseEnd& end) {
    result.judgment = end.judgment;
  }
  bench.drain(a_moment);
  result.transcript = bench.transcript();
  result.wire = bench.wire_violations();
  conclude(result);
}

}  // namespace

bool CaseResult::flaky() const {
  return std::any_of(attempts.begin(), attempts.end(),
                     [&](const Attempt& one) { return one.verdict != attempts.front().verdict; });
}

std::uint64_t seed_of(const Case& which, std::uint64_t seed_of_run) {
  // FNV-1a, because it is the same on every host, so that seeds are portable.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : which.id()) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return seed_of_run ^ hash;
}

CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed) {
  CaseResult result;
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
