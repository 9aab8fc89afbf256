#include "conformance/runner/run.hpp"

#include <algorithm>

#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance {
namespace {

/// Time without a frame after which no frame is in flight, in nanoseconds.
constexpr std::int64_t a_moment = 1'000'000;

/// Discards the remaining frames of the preceding case.
void drain(replay::Wire& wire, std::int64_t quiet) {
  for (std::size_t left = 65536; left > 0; --left) {
    const auto received = wire.receive(wire.now() + quiet);
    if (!received || !*received) return;
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
}

void transfer_of_infiniband(DeviceUnderTest& device, std::uint64_t seed) {
  Bench bench(device, seed);
  Connected& qp = bench.rc({.receives = 1});
  const std::string payload = pattern_bytes(16);
  bench >> qp.send_only(psn(+0), payload);
  bench << acknowledged(psn(+0));
  qp.completes(0);
  qp.received(0, payload);
}

void transfer_of_iwarp(DeviceUnderTest& device, std::uint64_t seed) {
  iwarp::IwarpBench bench(device, seed);
  iwarp::Connected& qp = bench.connect({.receives = 1});
  const std::string payload = pattern_bytes(16);
  qp >> iwarp::send(1, payload);
  qp.completes(0);
  qp.received(0, payload);
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

Judgment sanity(DeviceUnderTest& device, std::uint64_t seed) {
  try {
    if (device.is_iwarp())
      transfer_of_iwarp(device, seed);
    else
      transfer_of_infiniband(device, seed);
    return {};
  } catch (const CaseEnd& end) {
    Judgment judgment = end.judgment;
    judgment.verdict = Verdict::error;
    judgment.actual = "the transfer that checks the bench failed: " + judgment.actual;
    return judgment;
  }
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
