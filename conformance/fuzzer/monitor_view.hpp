#pragma once
/// The monitors of `rdmawire check` over the frames of a life while it goes on: where they stand is feedback that any
/// device gives, since both directions are seen and nothing of the device's own is asked.

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

  /// A fresh life; `map` gets its edges, and must outlive it.
  void begin(EdgeMap& map);
  /// The frames of a step: what changes where the monitors of their connections stand, from which state to which and by
  /// what opcode; and what the tracker tells of them.
  void add(std::span<const Exchanged> frames);
  /// The life is over: which rules were judged in it, and how.
  void end();

 private:
  class Life;
  std::unique_ptr<Life> life_;
  struct Known;
  std::unique_ptr<Known> known_;
};

}  // namespace rdmawire::fuzzer
