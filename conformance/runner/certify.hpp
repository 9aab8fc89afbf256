#pragma once
/// Runs many cases: several at once where there are several devices, each within its time, past devices that crash, and
/// as often as wanted. What comes out is in the cases' order, whoever ran them.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "conformance/runner/run.hpp"
#include "conformance/runner/target.hpp"

namespace rdmawire::conformance {

using OpenTarget = std::function<tl::expected<std::unique_ptr<Target>, TargetError>(Family)>;

/// Each worker has a device and two threads.
inline constexpr unsigned most_jobs = 64;

struct CertifyOptions {
  std::uint64_t seed = 1;
  /// Gives a device for cases of that family; asked for one a worker, and again where one was lost. Called by one
  /// thread at a time.
  OpenTarget open;
  bool fresh = false;  ///< each case has a device of its own: then nothing depends on what ran before
  unsigned jobs = 1;   ///< workers, each with a device; not more than most_jobs, than cases, than the system gives
  unsigned repeat = 1;
  std::chrono::milliseconds case_timeout{60'000};  ///< of the real clock, for a case with the transfer behind it
  std::chrono::milliseconds timeout{0};            ///< for all; 0: none
  unsigned most_losses = 5;                        ///< of devices, in a row
  int stop = -1;                                   ///< once readable, no case begins, and those that run are ended
  /// Each result as it comes, in any order, by one thread at a time.
  std::function<void(const CaseResult&)> on_end;
};

struct Certification {
  std::vector<CaseResult> results;  ///< of the cases that ran, in their order
  std::string partial;              ///< why some did not; empty: all did
  std::size_t abandoned = 0;        ///< cases that still hang in threads of this process
};

/// `first`: a device that is open already, or nullptr.
///
/// A transfer tells whether device, agent and wire work: before the first case on a device, and after each. A device
/// whose transfer fails, that keeps objects of a case, whose case exceeds its time, or that is lost, is opened anew;
/// the case ends with Verdict::error, or with Verdict::fail where the device itself has ended.
Certification certify(std::span<const Case* const> which, const CertifyOptions& options,
                      std::unique_ptr<Target> first = nullptr);

}  // namespace rdmawire::conformance
