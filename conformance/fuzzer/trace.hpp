#pragma once
/// Records the edges that the instrumented copy of the devices executes. See cmake/traced.cmake.

#include "conformance/fuzzer/edge_map.hpp"

namespace rdmawire::fuzzer {

/// While an object exists, edges that this thread executes in the instrumented copy are added to the map, unless it is
/// nullptr. An edge is a pair of consecutive basic blocks.
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
