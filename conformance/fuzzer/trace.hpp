#pragma once
/// What the copy that reports reports to: cmake/traced.cmake.

#include "conformance/fuzzer/edge_map.hpp"

namespace rdmawire::fuzzer {

/// As long as it lives, the edges that this thread runs through in the copy are added to the map; nullptr: they are
/// not. An edge is a basic block and the one before it.
class Tracing {
 public:
  explicit Tracing(EdgeMap* map);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

 private:
  EdgeMap* map_;
};

}  // namespace rdmawire::fuzzer
