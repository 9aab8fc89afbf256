#pragma once
/// What the tester knows of a device.

#include <array>
#include <cstdint>

#include "conformance/fuzzer/connections.hpp"
#include "conformance/fuzzer/script.hpp"

namespace rdmawire::fuzzer {

/// What the tester knows of a device's objects, so that it can name them in frames.
struct KnownObjects {
  std::array<std::uint32_t, 2> qpns{};  ///< of RoCE
  struct Memory {
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    friend bool operator==(const Memory&, const Memory&) = default;
  };
  std::array<Memory, keys> memory{};
  std::array<std::uint32_t, 3> srqs{};  ///< numbers of XRC: the right one, one of another domain, none
  std::array<KnownConnection, 2> connections{};

  friend bool operator==(const KnownObjects&, const KnownObjects&) = default;
};

}  // namespace rdmawire::fuzzer
