#pragma once
/// Commands about programs on the agent's host.

#include "replay/rpc/message.hpp"

namespace rdmawire::rpc {

inline constexpr std::uint64_t most_input = 1U << 20U;

struct Run {
  std::vector<std::string> argv = {}, env = {};
  std::string directory = {};
  ByteVector stdin_bytes = {};
  bool stdin_open = false;
  std::uint64_t most_output = 4U << 20U;
  struct Result {
    ProcessHandle process = {};
    std::uint32_t pid = 0;
  };
  static const Command& command();
};

struct Kill {
  ProcessHandle process = {};
  Choice<names::signal> signal = "term";
  using Result = Nothing;
  static const Command& command();
};

struct Stdin {
  ProcessHandle process = {};
  ByteVector data = {};
  bool close = false;
  struct Result {
    std::uint64_t waiting = 0;
  };
  static const Command& command();
};

}  // namespace rdmawire::rpc
