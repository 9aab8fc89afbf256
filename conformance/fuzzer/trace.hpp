#pragma once
/// Interface of the instrumented copy: cmake/traced.cmake.

#include "conformance/fuzzer/edge_map.hpp"

namespace rdmawire::fuzzer {

/// While an object exists, the edges that this thread executes in the copy are added to the map. nullptr: disabled. An
/// edge is a pair of consecutive basic blocks.
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
