#pragma once
/// Runs the monitors of `rdmawire check` on the frames of a script. Their state changes are feedback that is available
/// for every device, because it requires only frames.

#include <memory>
#include <span>
#include <vector>

#include "conformance/fuzzer/edge_map.hpp"
#include "conformance/fuzzer/reference_model.hpp"

namespace rdmawire::fuzzer {

class MonitorView {
 public:
  MonitorView();
  MonitorView(const MonitorView&) = delete;
  MonitorView& operator=(const MonitorView&) = delete;
  ~MonitorView();

  /// Start a script. Its edges are added to `map`, which must exist until end().
  void begin(EdgeMap& map);
  /// Process the frames of a step. Adds an edge for each state change of a monitor, with the opcode that caused it, and
  /// for each event of the tracker.
  void add(std::span<const Exchanged> frames);
  /// Finish the script. Adds an edge for each evaluated rule and its result.
  void end();

 private:
  class Execution;
  std::unique_ptr<Execution> execution_;
  struct Known;
  std::unique_ptr<Known> known_;
};

}  // namespace rdmawire::fuzzer
