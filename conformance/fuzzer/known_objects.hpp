#pragma once
/// The tester's knowledge of a device's objects.

#include <array>
#include <cstdint>

#include "conformance/fuzzer/connections.hpp"
#include "conformance/fuzzer/script.hpp"

namespace rdmawire::fuzzer {

/// Keys, addresses and numbers of a device's objects, for use in frames.
struct KnownObjects {
  std::array<std::uint32_t, 2> qpns{};  ///< RoCE
  struct Memory {
    std::uint32_t key = 0;
    std::uint64_t address = 0;
    friend bool operator==(const Memory&, const Memory&) = default;
  };
  std::array<Memory, keys> memory{};
  std::array<std::uint32_t, 3> srqs{};  ///< XRC SRQ numbers: a valid one, one of another domain, an unknown one
  std::array<KnownConnection, 2> connections{};

  friend bool operator==(const KnownObjects&, const KnownObjects&) = default;
};

}  // namespace rdmawire::fuzzer
