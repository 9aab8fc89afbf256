#pragma once
/// Opens a fuzzing target by name.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "conformance/fuzzer/target.hpp"

namespace rdmawire::fuzzer {

struct OpenOptions {
  std::string name = "reference";  ///< "reference", "reference:FAULT,…", "lab:rxe", "agent:ADDRESS"
  std::string wire{};              ///< wire of an agent: "packet:eth0"
  std::string kernel = "debian";   ///< kernel of the lab's guest
  std::filesystem::path agent{};   ///< agent program for the lab
  std::vector<std::string> allowed{};
  std::string credentials{};
  /// Store the state of the lab's guest after its boot. Restarts then start from that state, which is faster.
  bool restarts = false;
  int stop = -1;  ///< file descriptor that becomes readable when booting must stop
  std::function<void(std::string_view)> progress{};
};

struct OpenError {
  bool usage = false;   ///< the name is invalid
  std::string message;  ///< failed operation, value, and hint
};

tl::expected<std::unique_ptr<Target>, OpenError> open_target(const OpenOptions& options);

}  // namespace rdmawire::fuzzer
