#pragma once
/// State shared by RoCE and iWARP replays: report, recording and counters.

#include <map>
#include <memory>
#include <string>

#include "replay/reactive/recorder.hpp"
#include "replay/reactive/run.hpp"

namespace rdmawire::replay::reactive {

class Session {
 public:
  Session(const Exchange& of, const LiveDevice& with, const RunOptions& how);

  const Exchange& exchange;
  const LiveDevice& device;
  const RunOptions& options;
  MemoryPlan plan;
  Report report;

  /// Keeps only the first reason.
  void fail(const std::string& why) {
    if (report.failure.empty()) report.failure = why;
  }
  /// Returns the report with this failure.
  Report failed(const std::string& why);
  /// Adds a note to the report, up to a limit.
  void note(std::string text);
  /// True if the caller requested a stop. Sets Report::interrupted.
  bool stopped();

  void read_counters(bool after);
  tl::expected<void, std::string> record();
  void sent(Bytes frame, std::int64_t time, const std::string& comment);
  /// Returns the frame number in the recording.
  std::uint64_t received(Bytes frame, std::int64_t time);
  void take_faults(const FaultEngine& faults);
  void take(const RoceMachine::Counts& counts, const std::vector<Divergence>& divergences);
  /// True if the peer's application has all completions. Adds a divergence for each failed completion.
  bool all_completed(const LiveEnd& end, std::size_t theirs);
  /// Compares the memory. For iWARP, repeats the comparison for a limited time, because a WRITE creates no completion.
  void settle_memory(const LiveEnd& end);
  /// Completes the report: memory if not yet compared, counters and findings.
  Report finish(const LiveEnd& end);

 private:
  std::unique_ptr<Recorder> recorder_;
  std::map<std::string, std::uint64_t> counters_;
  bool counted_ = false, judged_ = false, compared_ = false;
};

/// Adds the device's memory regions to a flow map.
void add_regions(const MemoryPlan& plan, const LiveEnd& end, MappedEnd& theirs);

}  // namespace rdmawire::replay::reactive
