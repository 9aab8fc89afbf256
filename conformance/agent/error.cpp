#include "conformance/agent/error.hpp"

#include <cstdlib>
#include <cstring>

namespace rdmawire::agent {

std::string_view errno_name(int number) {
  const char* name = strerrorname_np(number);
  return name != nullptr ? name : "E?";
}

std::string errno_text(int number) {
  const char* text = strerrordesc_np(number);
  return text != nullptr ? text : fmt::format("error {}", number);
}

Error verbs_failed(std::string_view call, int number) {
  number = number == 0 ? EIO : std::abs(number);
  return {number, fmt::format("{}: {}: {}", call, errno_name(number), errno_text(number))};
}

}  // namespace rdmawire::agent
