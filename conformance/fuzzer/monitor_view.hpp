#pragma once
/// Runs the monitors of `rdmawire check` on the frames of a script. Their states are feedback that every device
/// provides, because only frames are needed.

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

  /// Start a script. Edges are added to `map`, which must outlive this.
  void begin(EdgeMap& map);
  /// Process the frames of a step. Edges are state changes of monitors, with the opcode that caused them, and events of
  /// the tracker.
  void add(std::span<const Exchanged> frames);
  /// Finish the script. Edges are the evaluated rules and their results.
  void end();

 private:
  class Execution;
  std::unique_ptr<Execution> execution_;
  struct Known;
  std::unique_ptr<Known> known_;
};

}  // namespace rdmawire::fuzzer
