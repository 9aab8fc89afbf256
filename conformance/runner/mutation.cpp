#include "conformance/runner/mutation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

Mutation mutate(const device::FaultRow& fault, bool all, std::uint64_t seed) {
  Mutation mutation;
  mutation.fault = &fault;
  for (const Case& which : cases()) {
    const auto broken = fault.broken();
    const bool meant = std::find(broken.begin(), broken.end(), which.rule->id) != broken.end();
    if (meant) mutation.meant.push_back(which.id());
    if (!meant && !all) continue;
    // A device of its own, so that what one case broke does not show in the next.
    const auto target = Target::open({.device = "reference", .seed = seed, .faults = {std::string(fault.name)}});
    if (!target) continue;
    const CaseResult result = run_case(which, (*target)->device(), seed);
    const Verdict verdict = result.judgement.verdict;
    if (verdict == Verdict::fail || verdict == Verdict::fail_wrong_code || verdict == Verdict::error)
      (meant ? mutation.caught : mutation.unrelated).push_back(which.id());
  }
  return mutation;
}

std::string table_of(std::span<const Mutation> mutations) {
  std::string text;
  std::size_t caught = 0, missed = 0, without = 0;
  for (const Mutation& mutation : mutations) {
    const char* what = "caught";
    if (mutation.meant.empty())
      what = "no case", ++without;
    else if (mutation.missed())
      what = "MISSED", ++missed;
    else
      ++caught;
    text += fmt::format("{:<8} {:<36} {}", what, mutation.fault->name, fmt::join(mutation.fault->broken(), ", "));
    if (!mutation.meant.empty()) text += fmt::format("  {} of {} cases", mutation.caught.size(), mutation.meant.size());
    if (!mutation.unrelated.empty()) text += fmt::format("; also {}", fmt::join(mutation.unrelated, ", "));
    text += "\n";
  }
  return text +
         fmt::format("{} faults: {} caught, {} missed, {} without a case\n", mutations.size(), caught, missed, without);
}

}  // namespace rdmawire::conformance
