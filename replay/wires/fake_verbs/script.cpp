#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "replay/wires/fake_verbs/fake_verbs_state.hpp"

namespace fake_verbs {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool without(const char* what) {
  std::istringstream words(variable("FAKE_VERBS_WITHOUT"));
  for (std::string word; words >> word;)
    if (word == what) return true;
  return false;
}

int scripted(const char* call) {
  static std::mutex mutex;
  static std::string last;
  static std::map<std::string, std::uint64_t> uses;
  const std::lock_guard lock(mutex);
  const std::string script = variable("FAKE_VERBS_FAIL");
  if (script != last) {
    uses.clear();
    last = script;
  }
  if (script.empty()) return 0;
  const std::uint64_t use = ++uses[call];
  std::istringstream entries(script);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const std::size_t equals = entry.find('='), at = entry.find('@');
    if (equals == std::string::npos || entry.substr(0, equals) != call) continue;
    if (at == std::string::npos || std::strtoull(entry.c_str() + at + 1, nullptr, 10) == use)
      return std::atoi(entry.c_str() + equals + 1);
  }
  return 0;
}

ibv_wc_status completion_of(std::uint64_t frame) {
  const std::string script = variable("FAKE_VERBS_COMPLETION");
  const std::size_t equals = script.find('=');
  if (equals == std::string::npos || std::strtoull(script.c_str(), nullptr, 10) != frame) return IBV_WC_SUCCESS;
  return static_cast<ibv_wc_status>(std::atoi(script.c_str() + equals + 1));
}

int refuse(int number, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::fputs("fake libibverbs: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  return number;
}

}  // namespace fake_verbs
