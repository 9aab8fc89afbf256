#pragma once
/// What a replay under way keeps, whichever of the two families it speaks: the report, the recording, the counters.

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

  /// The first reason stays.
  void fail(const std::string& why) {
    if (report.failure.empty()) report.failure = why;
  }
  /// The report, with this failure.
  Report failed(const std::string& why);
  /// A thing for people to know; the first ones are kept.
  void note(std::string text);
  /// Whether somebody wants it to end; then the report says so.
  bool stopped();

  void read_counters(bool after);
  tl::expected<void, std::string> record();
  void sent(Bytes frame, std::int64_t time, const std::string& comment);
  /// Gives its number in the recording.
  std::uint64_t received(Bytes frame, std::int64_t time);
  void take_faults(const FaultEngine& faults);
  void take(const RoceMachine::Counts& counts, const std::vector<Divergence>& divergences);
  /// Whether the peer's consumer was told of everything that was played; what went wrong is a divergence.
  bool all_completed(const LiveEnd& end, std::size_t theirs);
  /// Compares the memory; of iWARP again for a while, because nobody is told when a WRITE has come.
  void settle_memory(const LiveEnd& end);
  /// Memory, where it is not compared yet, counters and findings; then the report.
  Report finish(const LiveEnd& end);

 private:
  std::unique_ptr<Recorder> recorder_;
  std::map<std::string, std::uint64_t> counters_;
  bool counted_ = false, judged_ = false, compared_ = false;
};

/// The device's memory, in the terms of a flow map.
void add_regions(const MemoryPlan& plan, const LiveEnd& end, MappedEnd& theirs);

}  // namespace rdmawire::replay::reactive
