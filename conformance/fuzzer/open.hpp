#pragma once
/// Targets by name.

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
  std::string wire{};              ///< of an agent: "packet:eth0"
  std::string kernel = "debian";   ///< of the lab
  std::filesystem::path agent{};   ///< the agent's program, for the lab
  std::vector<std::string> allowed{};
  std::string secret_file{};
  int stop = -1;  ///< becomes readable when a boot is to end
  std::function<void(std::string_view)> progress{};
};

struct OpenError {
  bool usage = false;   ///< the name makes no sense
  std::string message;  ///< what was being done, to what, what was found, what to do
};

tl::expected<std::unique_ptr<Target>, OpenError> open_target(const OpenOptions& options);

}  // namespace rdmawire::fuzzer
