#include "conformance/runner/run.hpp"

namespace rdmawire::conformance {
namespace {

/// Without a frame after which nothing is on the way any more, nanoseconds.
constexpr std::int64_t a_moment = 1'000'000;

/// Throws away what is left of the case before.
void drain(replay::Wire& wire, std::int64_t quiet) {
  for (std::size_t left = 65536; left > 0; --left) {
    const auto received = wire.receive(wire.now() + quiet);
    if (!received || !*received) return;
  }
}

}  // namespace

Judgement sanity(DeviceUnderTest& device, std::uint64_t seed) {
  try {
    Bench bench(device, seed);
    Connected& qp = bench.rc({.receives = 1});
    const std::string payload = octets(16);
    bench >> qp.send_only(psn(+0), payload);
    bench << acknowledged(psn(+0));
    qp.completes(0);
    qp.received(0, payload);
    return {};
  } catch (const CaseEnd& end) {
    Judgement judgement = end.judgement;
    judgement.verdict = Verdict::error;
    judgement.actual = "the transfer that shows that everything works failed: " + judgement.actual;
    return judgement;
  }
}

CaseResult run_case(const Case& which, DeviceUnderTest& device, std::uint64_t seed) {
  CaseResult result;
  result.of = &which;
  result.seed = seed;
  drain(*device.wire, a_moment);
  const std::int64_t begin = device.wire->now();
  {
    Bench bench(device, seed);
    try {
      if (const std::string reason = lacking(device, which.needs); !reason.empty())
        end_case(Verdict::unsupported, reason);
      which.run(bench);
    } catch (const CaseEnd& end) {
      result.judgement = end.judgement;
    }
    bench.hear_out(a_moment);
    result.transcript = bench.transcript();
  }
  result.observed = observe(result.transcript, device.wire_delay);
  result.nanoseconds = device.wire->now() - begin;
  return result;
}

std::vector<CaseResult> run_cases(std::span<const Case* const> which, DeviceUnderTest& device, std::uint64_t seed,
                                  const std::function<void(const CaseResult&)>& on_result) {
  std::vector<CaseResult> results;
  Judgement works = sanity(device, seed);
  for (const Case* one : which) {
    CaseResult result;
    if (works.verdict == Verdict::pass) {
      // Each case has its own numbers, and the same ones whatever runs before it.
      result = run_case(*one, device, seed ^ std::hash<std::string>()(one->id()));
      works = sanity(device, seed + results.size() + 1);
      if (works.verdict != Verdict::pass) {
        const Judgement after = works;
        works = sanity(device, seed);  // once more: it may have needed time
        if (result.judgement.verdict == Verdict::pass || works.verdict != Verdict::pass)
          result.judgement = {Verdict::error, {}, "after the case " + after.actual};
      }
    } else {
      result.of = one;
      result.judgement = works;
    }
    if (on_result) on_result(result);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace rdmawire::conformance
