/// Predictability of STags: RFC 5040, 8.1.1 item 8.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>

#include "conformance/cases/files.hpp"
#include "conformance/cases/iwarp/bench.hpp"

namespace rdmawire::conformance::iwarp::rdmap_access_cases {
namespace {

constexpr std::size_t registrations = 64;

/// Checks that no difference between successive STags occurs more than a few times. The lowest byte is excluded,
/// because the application may choose it.
void are_hard_to_predict(IwarpBench& bench, const std::vector<std::uint32_t>& stags) {
  constexpr int few = 4;
  std::map<std::uint32_t, int> steps;
  int up = 0, small = 0;
  for (std::size_t i = 1; i < stags.size(); ++i) {
    const std::uint32_t now = stags[i] >> 8, before = stags[i - 1] >> 8;
    const std::uint32_t step = (now - before) & 0xffffff;
    ++steps[step];
    if (now > before) ++up;
    if (step < 256 || step > 0xffffff - 256) ++small;
  }
  const auto most =
      std::max_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  bench.require(most->second <= few,
                fmt::format("no step between two STags more than {} times of {}", few, stags.size()),
                fmt::format("a step of {:#x} {} times", most->first, most->second));
  bench.require(small <= few, fmt::format("no more than {} STags close to the one before", few),
                fmt::format("{} of {}", small, stags.size()));
  const auto half = static_cast<int>(stags.size() / 2), quarter = half / 2;
  bench.require(up > half - quarter && up < half + quarter, "about as many rising as falling steps",
                fmt::format("{} of {} rise", up, stags.size()));
}
void while_they_are_held(IwarpBench& bench) {
  std::deque<peer::Region> held;
  std::vector<std::uint32_t> stags;
  for (std::size_t i = 0; i < registrations; ++i)
    stags.push_back(held.emplace_back(bench.region(4096, {"local_write", "remote_write"})).rkey());
  are_hard_to_predict(bench, stags);
}
void one_behind_the_other(IwarpBench& bench) {
  std::vector<std::uint32_t> stags;
  for (std::size_t i = 0; i < registrations; ++i) {
    peer::Region region = bench.region(4096, {"local_write", "remote_write"});
    stags.push_back(region.rkey());
    bench.take(region.release(), "the region deregistered");
  }
  are_hard_to_predict(bench, stags);
}

}  // namespace

std::span<const Case> all() {
  static constexpr Case cases[] = {
      {.rule = "rdmap.verbs.stag.unpredictable", .variant = "held", .role = Role::verbs, .run = while_they_are_held},
      {.rule = "rdmap.verbs.stag.unpredictable",
       .variant = "deregistered in turn",
       .role = Role::verbs,
       .run = one_behind_the_other},
  };
  return cases;
}

}  // namespace rdmawire::conformance::iwarp::rdmap_access_cases
